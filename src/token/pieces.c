/* The regular expressions that cut text into pieces before byte-pair merging, by hand.  They have
 * no state between pieces: a piece depends only on the text from its beginning on.  The comments
 * quote the expressions; the alternatives are tried in their order.
 *
 * A byte that is not part of valid UTF-8 is a symbol. */
#include "token/pieces.h"

#include <stddef.h>

#include "token/unicode_ranges.h"

const char *const ct__pattern_names[] = {"gpt2", "cl100k", "llama3", "o200k", NULL};

int ct__class_of(uint32_t code)
{
  size_t low = 0, high = sizeof unicode_range / sizeof *unicode_range;
  while (high - low > 1) {
    size_t mid = (low + high) / 2;
    if (unicode_range[mid] >> 3 <= code)
      low = mid;
    else
      high = mid;
  }
  return (int)(unicode_range[low] & 7);
}

int ct__utf8(const unsigned char *p, int64_t n, uint32_t *code)
{
  static const unsigned char lead[] = {0, 0xC0, 0xE0, 0xF0};
  int more = p[0] >= 0xF0 ? 3 : p[0] >= 0xE0 ? 2 : p[0] >= 0xC0 ? 1 : 0;
  *code = p[0];
  if (more == 0) return p[0] < 0x80;
  if (p[0] < 0xC2 || p[0] > 0xF4) return 0;
  *code -= lead[more];
  for (int i = 1; i <= more; i++) {
    /* the second byte decides: no overlong forms, no surrogates, nothing above U+10FFFF */
    int low = p[0] == 0xE0 ? 0xA0 : p[0] == 0xF0 ? 0x90 : 0x80;
    int high = p[0] == 0xED ? 0x9F : p[0] == 0xF4 ? 0x8F : 0xBF;
    if (i == n) return -1;
    if (p[i] < (i == 1 ? low : 0x80) || p[i] > (i == 1 ? high : 0xBF)) return 0;
    *code = *code << 6 | (p[i] & 0x3F);
  }
  return more + 1;
}

/* ---- characters ---- */

typedef struct scan {
  const unsigned char *p;
  int64_t n;
  int open; /* 1: the end of the text was looked at */
} scan_t;

/* Returns the class of the character at an offset; *next is the offset behind it. */
static int scan_class(scan_t *s, int64_t at, int64_t *next)
{
  static const unsigned char ascii[128] = {
      ['\t'] = CT__SPACE, ['\n'] = CT__SPACE, ['\v'] = CT__SPACE, ['\f'] = CT__SPACE,
      ['\r'] = CT__SPACE, [' '] = CT__SPACE,  ['0'] = CT__NUMBER, ['1'] = CT__NUMBER,
      ['2'] = CT__NUMBER, ['3'] = CT__NUMBER, ['4'] = CT__NUMBER, ['5'] = CT__NUMBER,
      ['6'] = CT__NUMBER, ['7'] = CT__NUMBER, ['8'] = CT__NUMBER, ['9'] = CT__NUMBER};
  uint32_t code;
  *next = at + 1;
  if (at >= s->n) {
    s->open = 1;
    *next = at;
    return CT__END;
  }
  unsigned char c = s->p[at];
  if (c < 0x80)
    return c >= 'a' && c <= 'z' ? CT__LOWER : c >= 'A' && c <= 'Z' ? CT__UPPER : ascii[c];
  int bytes = ct__utf8(s->p + at, s->n - at, &code);
  if (bytes < 0) s->open = 1;
  if (bytes <= 0) return CT__SYMBOL;
  *next = at + bytes;
  return ct__class_of(code);
}

/* Returns the byte at an offset; 0 at the end. */
static unsigned char scan_byte(scan_t *s, int64_t at)
{
  if (at < s->n) return s->p[at];
  s->open = 1;
  return 0;
}

/* Sets of classes. */
enum {
  LETTERS = 1 << CT__UPPER | 1 << CT__LOWER | 1 << CT__LETTER,
  NUMBERS = 1 << CT__NUMBER,
  SPACES = 1 << CT__SPACE,
  SYMBOLS = 1 << CT__SYMBOL | 1 << CT__MARK, /* [^\s\p{L}\p{N}] */
  EITHER = 1 << CT__LETTER | 1 << CT__MARK,  /* [\p{Lm}\p{Lo}\p{M}] */
  UPPERS = EITHER | 1 << CT__UPPER,          /* [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] */
  LOWERS = EITHER | 1 << CT__LOWER           /* [\p{Ll}\p{Lm}\p{Lo}\p{M}] */
};

static int scan_is(scan_t *s, int64_t at, int set, int64_t *next)
{
  return set >> scan_class(s, at, next) & 1;
}

/* Returns the end of the characters of a set from an offset on; at most \a most, if it is not 0. */
static int64_t scan_run(scan_t *s, int64_t at, int set, int most)
{
  int64_t next;
  for (int n = 0; (!most || n < most) && scan_is(s, at, set, &next); n++)
    at = next;
  return at;
}

static int64_t scan_line_ends(scan_t *s, int64_t at, int slashes)
{
  for (unsigned char c; (c = scan_byte(s, at)) == '\r' || c == '\n' || (slashes && c == '/');)
    at++;
  return at;
}

/* ---- alternatives that the patterns share ---- */

/* 's 't 'd 'm 'll 've 're, or at: not there.  Without regard to case, U+017F is an s. */
static int64_t contraction(scan_t *s, int64_t at, int any_case)
{
  if (scan_byte(s, at) != '\'') return at;
  int fold = any_case ? 0x20 : 0;
  unsigned char c = scan_byte(s, at + 1), d;
  if (any_case && c == 0xC5 && scan_byte(s, at + 2) == 0xBF) return at + 3;
  c = (unsigned char)(c | fold);
  if (c == 's' || c == 't' || c == 'd' || c == 'm') return at + 2;
  if (c != 'l' && c != 'v' && c != 'r') return at;
  d = (unsigned char)(scan_byte(s, at + 2) | fold);
  return d == (c == 'l' ? 'l' : 'e') ? at + 3 : at;
}

/* \s+(?!\S)|\s+: the white space from \a at on at the end of the text; before other text, all but
 * its last character, or one character. */
static int64_t blanks(scan_t *s, int64_t at)
{
  int64_t next, last = at, end = at;
  while (scan_is(s, end, SPACES, &next)) {
    last = end;
    end = next;
  }
  return end == s->n || last == at ? end : last;
}

/* \s*[\r\n]+: up to the last line end of the white space, or at. */
static int64_t blank_lines(scan_t *s, int64_t at)
{
  int64_t next, end = at;
  while (scan_is(s, at, SPACES, &next)) {
    if (s->p[at] == '\r' || s->p[at] == '\n') end = next;
    at = next;
  }
  return end;
}

/* ---- patterns ---- */

/* '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static int64_t piece_gpt2(scan_t *s, int64_t at)
{
  static const int sets[] = {LETTERS, NUMBERS, SYMBOLS};
  int64_t next, end = contraction(s, at, 0), begin = at + (s->p[at] == ' ');
  if (end > at) return end;
  int class = scan_class(s, begin, &next);
  for (int i = 0; i < 3; i++)
    if (sets[i] >> class & 1) return scan_run(s, next, sets[i], 0);
  return blanks(s, at);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+
 *
 * tiktoken has \s++$ before \s*[\r\n]: white space at the end of the text is one piece there. */
static int64_t piece_cl100k(scan_t *s, int64_t at, int tail_first)
{
  int64_t next, behind, end = contraction(s, at, 1);
  if (end > at) return end;
  int class = scan_class(s, at, &next);
  if (class == CT__NUMBER) return scan_run(s, at, NUMBERS, 3);
  if (LETTERS >> class & 1) return scan_run(s, next, LETTERS, 0);
  if (s->p[at] != '\r' && s->p[at] != '\n' && scan_is(s, next, LETTERS, &behind))
    return scan_run(s, behind, LETTERS, 0);
  int64_t begin = at + (s->p[at] == ' ');
  if (scan_is(s, begin, SYMBOLS, &behind))
    return scan_line_ends(s, scan_run(s, behind, SYMBOLS, 0), 0);
  if (tail_first && (end = scan_run(s, at, SPACES, 0)) == s->n) return end;
  if ((end = blank_lines(s, at)) > at) return end;
  return blanks(s, at);
}

/* [UPPERS]*[LOWERS]+ or, if \a all_upper, [UPPERS]+[LOWERS]*; at: not there.  The first one gives
 * back characters of its first part until one of them is in both sets. */
static int64_t word(scan_t *s, int64_t at, int all_upper)
{
  int64_t next, end = at, either = at;
  for (int class; UPPERS >> (class = scan_class(s, end, &next)) & 1;) {
    end = next;
    if (EITHER >> class & 1) either = end;
  }
  if (all_upper) return end > at ? scan_run(s, end, LOWERS, 0) : at;
  return scan_is(s, end, LOWERS, &next) ? scan_run(s, next, LOWERS, 0) : either;
}

/* [^\r\n\p{L}\p{N}]?[UPPERS]*[LOWERS]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
 * [^\r\n\p{L}\p{N}]?[UPPERS]+[LOWERS]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
 * \p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static int64_t piece_o200k(scan_t *s, int64_t at)
{
  int64_t next, behind, end;
  int class = scan_class(s, at, &next);
  if (class == CT__NUMBER) return scan_run(s, at, NUMBERS, 3);
  int may_lead = s->p[at] != '\r' && s->p[at] != '\n' && !(LETTERS >> class & 1);
  for (int all_upper = 0; all_upper < 2; all_upper++) {
    if (may_lead && (end = word(s, next, all_upper)) > next) return contraction(s, end, 1);
    if ((end = word(s, at, all_upper)) > at) return contraction(s, end, 1);
  }
  int64_t begin = at + (s->p[at] == ' ');
  if (scan_is(s, begin, SYMBOLS, &behind))
    return scan_line_ends(s, scan_run(s, behind, SYMBOLS, 0), 1);
  if ((end = blank_lines(s, at)) > at) return end;
  return blanks(s, at);
}

int64_t ct__piece_end(ct__pattern_t pattern, const char *text, int64_t n, int64_t at, int *open)
{
  scan_t s = {(const unsigned char *)text, n, 0};
  int64_t end = pattern == CT__GPT2    ? piece_gpt2(&s, at)
                : pattern == CT__O200K ? piece_o200k(&s, at)
                                       : piece_cl100k(&s, at, pattern == CT__CL100K);
  if (s.open) *open = 1;
  return end;
}
