#include "base/ct_text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
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
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__,
                    "name too long: '%.80s...' has more than the %zu bytes allowed", buf, cap - 1);
}

/* Levenshtein distance with one row; words of more than MAX_WORD letters are not compared. */
enum { MAX_WORD = 64 };

static int distance(const char *a, const char *b)
{
  int na = (int)strlen(a), nb = (int)strlen(b), row[MAX_WORD + 1];
  if (na > MAX_WORD || nb > MAX_WORD) return MAX_WORD;
  for (int j = 0; j <= nb; j++)
    row[j] = j;
  for (int i = 1; i <= na; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= nb; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[nb];
}

const char *ct_text_nearest(const char *word, const char *const *candidates, int n)
{
  const char *nearest = NULL;
  size_t len = strlen(word);
  int best = (int)(len < MAX_WORD ? len / 2 : MAX_WORD / 2) + 1;
  for (int i = 0; i < n; i++) {
    int d = distance(word, candidates[i]);
    if (d < best) {
      best = d;
      nearest = candidates[i];
    }
  }
  return nearest;
}

int ct_text_match(const char *pattern, const char *name)
{
  const char *star = NULL, *retry = NULL; /* the last `*`, and where its run ends so far */
  while (*name) {
    if (*pattern == '*') {
      star = pattern++;
      retry = name;
    } else if (*pattern == '?' || *pattern == *name) {
      pattern++;
      name++;
    } else if (star) {
      pattern = star + 1;
      name = ++retry;
    } else {
      return 0;
    }
  }
  while (*pattern == '*')
    pattern++;
  return *pattern == '\0';
}

int ct_text_int(const char *text, int64_t *out)
{
  if (!*text || strspn(text, "+-0123456789") != strlen(text)) return CT_ERR_ARG;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || *end) return CT_ERR_ARG;
  *out = value;
  return CT_OK;
}

int ct_text_double(const char *text, double *out)
{
  /* only decimal notation: strtod() would also take hexadecimal, inf, nan and blanks in front */
  if (!*text || strspn(text, "+-.0123456789eE") != strlen(text)) return CT_ERR_ARG;
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !isfinite(value)) return CT_ERR_ARG;
  *out = value;
  return CT_OK;
}

const char *ct_text_bytes(double bytes, char *buf, size_t cap)
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int u = 0;
  for (; u < 6 && bytes >= 1023.5; u++)
    bytes /= 1024;
  snprintf(buf, cap, "%.*f %s", u > 0 && bytes < 9.95 ? 1 : 0, bytes, units[u]);
  return buf;
}

const char *ct_text_seconds(double s, char *buf, size_t cap)
{
  if (s < 0.9995) {
    snprintf(buf, cap, "%.3f s", s);
  } else if (!(s >= 59.95)) {
    snprintf(buf, cap, "%.1f s", s);
  } else {
    long long whole = (long long)(fmin(s, 1e15) + 0.5);
    if (whole < 3600)
      snprintf(buf, cap, "%lldm%02llds", whole / 60, whole % 60);
    else
      snprintf(buf, cap, "%lldh%02lldm", whole / 3600, whole / 60 % 60);
  }
  return buf;
}

int ct_path_join(char *buf, size_t cap, const char *dir, const char *name)
{
  size_t len = strlen(dir);
  if (name[0] == '/' || len == 0) return ct_text_format(buf, cap, "%s", name);
  return ct_text_format(buf, cap, "%s%s%s", dir, dir[len - 1] == '/' ? "" : "/", name);
}

int ct_path_dir(char *buf, size_t cap, const char *path)
{
  const char *end = path + strlen(path);
  while (end > path + 1 && end[-1] == '/')
    end--;
  while (end > path && end[-1] != '/')
    end--;
  while (end > path + 1 && end[-1] == '/')
    end--;
  if (end == path) return ct_text_format(buf, cap, ".");
  return ct_text_format(buf, cap, "%.*s", (int)(end - path), path);
}
