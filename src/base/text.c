/* Formats text into buffers of fixed size, and checks and parses text.  Error records use these
 * functions, so they record no errors; str.c has the text functions that do. */
#include "base/ct_text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* ---- characters ---- */

int ct_text_utf8(const char *text, uint32_t *code)
{
  static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  static const uint32_t least[] = {1, 0x80, 0x800, 0x10000};
  const unsigned char *p = (const unsigned char *)text;
  int more = p[0] >= 0xF0 ? 3 : p[0] >= 0xE0 ? 2 : p[0] >= 0xC0 ? 1 : 0;
  *code = p[0] - (uint32_t)lead[more];
  if (more == 0 && p[0] >= 0x80) return 0;
  for (int i = 1; i <= more; i++) {
    if ((p[i] & 0xC0) != 0x80) return 0;
    *code = *code << 6 | (p[i] & 0x3F);
  }
  int is_surrogate = *code >= 0xD800 && *code <= 0xDFFF;
  return *code < least[more] || *code > 0x10FFFF || is_surrogate ? 0 : more + 1;
}

int ct_text_is_utf8(const char *text)
{
  uint32_t code;
  for (int n; *text; text += n)
    if ((n = ct_text_utf8(text, &code)) == 0) return 0;
  return 1;
}

int ct_text_is_name(const char *text)
{
  enum { LONGEST = 255 }; /* bytes, on any file system */
  size_t len = strlen(text);
  if (len == 0 || len > LONGEST || strcmp(text, ".") == 0 || strcmp(text, "..") == 0) return 0;
  for (const char *p = text; *p; p++)
    if (*p == '/' || iscntrl((unsigned char)*p)) return 0;
  return ct_text_is_utf8(text); /* it is also written to JSON */
}

/* ---- messages ---- */

/* Returns where to cut a word: at the first slash among the \a reach bytes from \a at in the
 * direction of \a step; without a slash, between two characters. */
static size_t find_cut(const char *word, size_t at, size_t reach, int step)
{
  size_t cut = at;
  for (size_t i = 0; i < reach; i++, cut += (size_t)step)
    if (word[step < 0 ? cut - 1 : cut] == '/') return cut;
  cut = at;
  for (int i = 0; i < 3 && cut > 0 && (word[cut] & 0xC0) == 0x80; i++)
    cut += (size_t)step;
  /* after more than 3 continuation bytes the text is not UTF-8: cuts at `at` */
  return (word[cut] & 0xC0) == 0x80 ? at : cut;
}

/* Writes a word of len bytes, without its middle if it is longer than \a limit; returns the end of
 * the output. */
static char *put_word(char *to, const char *word, size_t len, size_t limit)
{
  static const char gap[] = "…";
  if (len <= limit) return (char *)memcpy(to, word, len) + len;
  size_t half = (limit - strlen(gap)) / 2;
  size_t head = find_cut(word, half, half / 2, -1), tail = find_cut(word, len - half, half / 2, 1);
  to = (char *)memcpy(to, word, head) + head;
  to = (char *)memcpy(to, gap, strlen(gap)) + strlen(gap);
  return (char *)memcpy(to, word + tail, len - tail) + (len - tail);
}

/* Writes the text and shortens words to \a limit bytes; returns 0 if the text is still too long. */
static int put_words(char *buf, size_t cap, const char *text, size_t limit)
{
  char *to = buf;
  while (*text) {
    size_t len = strcspn(text, " ");
    if (len == 0) len = 1;
    if ((size_t)(to - buf) + (len < limit ? len : limit) >= cap) return 0;
    to = put_word(to, text, len, limit);
    text += len;
  }
  *to = '\0';
  return 1;
}

void ct_text_vfit(char *buf, size_t cap, const char *fmt, va_list args)
{
  /* bytes of a word; if a path has many blanks, the middle of the text is removed instead */
  enum { SHORTEST = 40 };
  va_list again;
  va_copy(again, args);
  int n = vsnprintf(buf, cap, fmt, args);
  if (n < 0) *buf = '\0';
  char *whole = n >= 0 && (size_t)n >= cap && cap > SHORTEST ? ct_mem_try((size_t)n + 1) : NULL;
  if (whole) {
    size_t limit = cap;
    vsnprintf(whole, (size_t)n + 1, fmt, again);
    while (limit >= SHORTEST && !put_words(buf, cap, whole, limit))
      limit -= limit / 8;
    if (limit < SHORTEST) *put_word(buf, whole, (size_t)n, cap - 1) = '\0';
  }
  va_end(again);
  ct_mem_free(whole);
}

void ct_text_fit(char *buf, size_t cap, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  ct_text_vfit(buf, cap, fmt, args);
  va_end(args);
}

/* ---- words ---- */

/* Computes the Levenshtein distance with one row of the matrix; words of more than MAX_WORD letters
 * are not compared. */
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

/* ---- numbers ---- */

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
  /* decimal notation only: strtod() also accepts hexadecimal, inf, nan and leading blanks */
  if (!*text || strspn(text, "+-.0123456789eE") != strlen(text)) return CT_ERR_ARG;
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !isfinite(value)) return CT_ERR_ARG;
  *out = value;
  return CT_OK;
}

int ct_text_size(const char *text, size_t *out)
{
  static const char units[] = "KMGT";
  char number[40];
  double value, factor = 1;
  size_t len = strspn(text, ".0123456789");
  const char *rest = text + len;
  const char *unit = *rest ? strchr(units, toupper((unsigned char)*rest)) : NULL;
  for (long i = unit ? unit - units + 1 : 0; i > 0; i--)
    factor *= 1024;
  rest += unit != NULL;
  if (unit && rest[0] == 'i' && rest[1]) rest++;
  if (unit && toupper((unsigned char)*rest) == 'B') rest++;
  if (*rest || len >= sizeof number) return CT_ERR_ARG;
  snprintf(number, sizeof number, "%.*s", (int)len, text);
  if (ct_text_double(number, &value) != CT_OK || value * factor < 1 || value * factor > 0x1p60)
    return CT_ERR_ARG;
  *out = (size_t)(value * factor);
  return CT_OK;
}

const char *ct_text_number(double value, char *buf, size_t cap)
{
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(buf, cap, "%.*g", digits, value);
    if (strtod(buf, NULL) == value) break;
  }
  return buf;
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
