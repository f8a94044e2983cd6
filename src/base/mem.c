/* Allocation that records an error when memory is exhausted. */
#include "base/ct_mem.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_text.h"

void *ct_mem_alloc(size_t bytes, const char *what)
{
  char text[32];
  void *p = ct_mem_try(bytes);
  if (!p)
    ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "cannot allocate %zu bytes (%s) for %s", bytes,
               ct_text_bytes((double)bytes, text, sizeof text), what);
  return p;
}

void *ct_mem_array(int64_t n, size_t size, const char *what)
{
  size_t bytes;
  if (n < 0 || __builtin_mul_overflow((size_t)n, size, &bytes)) bytes = SIZE_MAX;
  return ct_mem_alloc(bytes, what);
}

int ct_mem_grow(void **p, int64_t *cap, int64_t want, size_t size)
{
  if (want <= *cap) return CT_OK;
  int64_t room = *cap < INT64_MAX / 2 ? 2 * *cap : INT64_MAX;
  if (room < 8) room = 8;
  if (room < want) room = want;
  void *bigger = ct_mem_array(room, size, "a growing array");
  if (!bigger) return CT_ERR_NOMEM;
  if (*p) memcpy(bigger, *p, (size_t)*cap * size);
  ct_mem_free(*p);
  *p = bigger;
  *cap = room;
  return CT_OK;
}

char *ct_mem_strdup(const char *s)
{
  size_t bytes = strlen(s) + 1;
  char *copy = ct_mem_alloc(bytes, "text");
  return copy ? memcpy(copy, s, bytes) : NULL;
}
