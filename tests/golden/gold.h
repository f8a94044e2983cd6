/** \file gold.h  Reads a .gold file: records of float32 numbers by name (make_golden.py). */
#ifndef GOLD_H
#define GOLD_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"

typedef struct gold {
  char *data;
  size_t bytes;
} gold_t;

/** A file of tests/golden. */
static inline int gold_open(gold_t *g, const char *file)
{
  char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/tests/golden/%s", getenv("CT_SRC") ? getenv("CT_SRC") : ".",
           file);
  return ct_file_read(path, &g->data, &g->bytes);
}

/** A record's numbers within the data, not aligned, and how many; NULL if there is none of that
 * name. */
static inline const char *gold_find(const gold_t *g, const char *name, int64_t *count)
{
  for (char *p = g->data; p < g->data + g->bytes;) {
    char *space = memchr(p, ' ', 160), *end = space ? memchr(space, '\n', 32) : NULL;
    if (!end) return NULL;
    *count = strtoll(space, NULL, 10);
    if ((size_t)(space - p) == strlen(name) && memcmp(p, name, strlen(name)) == 0) return end + 1;
    p = end + 1 + (size_t)*count * sizeof(float);
  }
  return NULL;
}

/** Copies a record of \a n numbers; a failed assertion, and zeros, if there is none. */
static inline void gold_take(const gold_t *g, const char *name, int64_t n, float *out)
{
  int64_t count = 0;
  const char *found = gold_find(g, name, &count);
  memset(out, 0, (size_t)n * sizeof *out);
  if (!found) {
    CT_ASSERT_TEXT("no such record", name);
    return;
  }
  CT_ASSERT_INT(count, n);
  if (count == n) memcpy(out, found, (size_t)n * sizeof *out);
}

/** The numbers that `noise` of make_golden.py gives. */
static inline float gold_noise(uint64_t seed, uint64_t i)
{
  uint64_t z = (i + seed * 0x100000001u) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  z = z ^ (z >> 31);
  return (float)(z >> 40) / (float)(1 << 24) - 0.5f;
}

#endif
