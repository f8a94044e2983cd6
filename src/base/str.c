/* Text functions that record an error if memory or space is missing: growing strings, paths, csv,
 * base64. */
#include "base/ct_text.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

int ct_str_add(ct_str_t *s, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  if (n < 0) return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "text does not fit in memory");
  size_t want = s->len + (size_t)n + 1;
  if (want > s->cap) {
    size_t cap = want > 2 * s->cap ? want : 2 * s->cap;
    char *bigger = ct_mem_alloc(cap, "text");
    if (!bigger) return CT_ERR_NOMEM;
    if (s->data) memcpy(bigger, s->data, s->len);
    ct_mem_free(s->data);
    s->data = bigger;
    s->cap = cap;
  }
  va_start(args, fmt);
  vsnprintf(s->data + s->len, s->cap - s->len, fmt, args);
  va_end(args);
  s->len += (size_t)n;
  return CT_OK;
}

void ct_str_clear(ct_str_t *s)
{
  ct_mem_free(s->data);
  *s = (ct_str_t){0};
}

int ct_text_format(char *buf, size_t cap, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(buf, cap, fmt, args);
  va_end(args);
  if (n >= 0 && (size_t)n < cap) return CT_OK;
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "name too long: '%s...' has more than the %zu bytes allowed", buf, cap - 1);
}

char *ct_text_utf8_copy(const char *text)
{
  uint32_t code;
  char *copy = ct_mem_strdup(text), *p = copy;
  for (int n; p && *p; p += n > 0 ? n : 1)
    if ((n = ct_text_utf8(p, &code)) == 0) *p = '?';
  return copy;
}

int ct_text_csv(const char *field, ct_str_t *out)
{
  int rc = CT_OK;
  if (!strpbrk(field, ",\"\r\n")) return ct_str_add(out, "%s", field);
  CT_TRY(ct_str_add(out, "\""));
  for (const char *c = field; *c; c++)
    CT_TRY(ct_str_add(out, *c == '"' ? "\"%c" : "%c", *c));
  CT_TRY(ct_str_add(out, "\""));
out:
  return rc;
}

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int ct_text_base64(const char *text, ct_str_t *out)
{
  int rc = CT_OK;
  const unsigned char *p = (const unsigned char *)text;
  for (size_t left = strlen(text); left > 0; left -= left < 3 ? left : 3, p += 3) {
    uint32_t three = (uint32_t)p[0] << 16 | (left > 1 ? (uint32_t)p[1] << 8 : 0) |
                     (left > 2 ? (uint32_t)p[2] : 0);
    CT_TRY(ct_str_add(out, "%c%c%c%c", digits64[three >> 18], digits64[three >> 12 & 63],
                      left > 1 ? digits64[three >> 6 & 63] : '=',
                      left > 2 ? digits64[three & 63] : '='));
  }
out:
  return rc;
}

int ct_text_unbase64(char *text, size_t *len)
{
  uint32_t bits = 0;
  int digits = 0, padding = 0;
  char *to = text;
  for (const char *p = text; *p; p++) {
    const char *digit = strchr(digits64, *p);
    if (strchr(" \t\r\n", *p)) continue;
    if (*p == '=')
      padding++;
    else if (!digit || padding)
      return CT_ERR_ARG;
    bits = bits << 6 | (digit ? (uint32_t)(digit - digits64) : 0);
    if (++digits % 4) continue;
    for (int i = 2; i >= padding; i--)
      *to++ = (char)(bits >> 8 * i);
    if (padding > 2) return CT_ERR_ARG;
  }
  *len = (size_t)(to - text);
  *to = '\0';
  return digits % 4 == 0 ? CT_OK : CT_ERR_ARG;
}
