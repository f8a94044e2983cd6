/* Parses the header of an npy file (numpy.lib.format, versions 1 to 3): a Python dict literal, of
 * which only the forms that NumPy writes are accepted. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "pack/array.h"

enum { PREFIX = 8 /* \x93NUMPY and the version */, HEADER_MOST = 65535 };

typedef struct text {
  const char *at, *end;
} text_t;

/* Skips blanks and consumes this character, if it is next. */
static int npy_header_take(text_t *t, char c)
{
  while (t->at < t->end && isspace((unsigned char)*t->at))
    t->at++;
  if (t->at >= t->end || *t->at != c) return 0;
  t->at++;
  return 1;
}

/* Parses a quoted string. */
static int take_quoted(text_t *t, char *out, size_t cap)
{
  char quote = '\'';
  size_t n = 0;
  if (!npy_header_take(t, quote)) {
    quote = '"';
    if (!npy_header_take(t, quote)) return 0;
  }
  while (t->at < t->end && *t->at != quote && n + 1 < cap)
    out[n++] = *t->at++;
  out[n] = '\0';
  return npy_header_take(t, quote);
}

static int take_word(text_t *t, const char *word)
{
  size_t n = strlen(word);
  if (!npy_header_take(t, word[0])) return 0;
  if ((size_t)(t->end - t->at) < n - 1 || memcmp(t->at, word + 1, n - 1) != 0) return 0;
  t->at += n - 1;
  return 1;
}

static int take_number(text_t *t, int64_t *out)
{
  const char *begin;
  *out = 0;
  while (t->at < t->end && isspace((unsigned char)*t->at))
    t->at++;
  for (begin = t->at; t->at < t->end && isdigit((unsigned char)*t->at); t->at++) {
    if (*out > INT64_MAX / 10 - 9) return 0;
    *out = 10 * *out + (*t->at - '0');
  }
  return t->at > begin;
}

/* Parses "(3, 4)" or "(3,)"; *ndim is one more than the array holds if there are too many. */
static int take_shape(text_t *t, ct__pack_array_t *a)
{
  a->ndim = 0;
  if (!npy_header_take(t, '(')) return 0;
  while (!npy_header_take(t, ')')) {
    int64_t n;
    if (!take_number(t, &n)) return 0;
    if (a->ndim < CT_MAX_DIMS) a->dim[a->ndim] = n;
    if (a->ndim <= CT_MAX_DIMS) a->ndim++;
    if (!npy_header_take(t, ',')) return npy_header_take(t, ')');
  }
  return 1;
}

/* Parses "<f4": byte order, kind, bytes. */
static int find_type(const char *descr, ct__pack_array_t *a)
{
  static const struct {
    const char *descr;
    ct_elem_t type;
  } types[] = {{"b1", CT_ELEM_BOOL}, {"u1", CT_ELEM_U8},  {"i1", CT_ELEM_I8},  {"u2", CT_ELEM_U16},
               {"i2", CT_ELEM_I16},  {"u4", CT_ELEM_U32}, {"i4", CT_ELEM_I32}, {"u8", CT_ELEM_U64},
               {"i8", CT_ELEM_I64},  {"f2", CT_ELEM_F16}, {"f4", CT_ELEM_F32}, {"f8", CT_ELEM_F64}};
  if (!descr[0] || !strchr("<>|=", descr[0])) return 0;
  a->swapped = descr[0] == '>';
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(descr + 1, types[i].descr) != 0) continue;
    a->type = types[i].type;
    return 1;
  }
  return 0;
}

static int read_dict(text_t *t, ct__pack_array_t *a)
{
  int rc = CT_OK, seen = 0, good = npy_header_take(t, '{');
  char key[32], descr[32] = "";
  while (good && !npy_header_take(t, '}')) {
    good = take_quoted(t, key, sizeof key) && npy_header_take(t, ':');
    if (good && strcmp(key, "descr") == 0) {
      seen |= 1;
      if (!take_quoted(t, descr, sizeof descr) || !find_type(descr, a))
        CT_FAIL(CT_ERR_FORMAT, "%s: holds elements of type '%s', expected plain numbers", a->path,
                *descr ? descr : "a list of fields");
    } else if (good && strcmp(key, "fortran_order") == 0) {
      seen |= 2;
      a->fortran = take_word(t, "True");
      good = a->fortran || take_word(t, "False");
    } else if (good && strcmp(key, "shape") == 0) {
      seen |= 4;
      good = take_shape(t, a);
    } else {
      good = 0;
    }
    if (good && !npy_header_take(t, ',')) good = t->at < t->end && *t->at == '}';
  }
  if (!good || seen != 7)
    CT_FAIL(CT_ERR_FORMAT, "%s: the header is not one that NumPy writes", a->path);
out:
  return rc;
}

int ct__pack_npy_header(const char *head, size_t bytes, ct__pack_array_t *a, size_t *used)
{
  int rc = CT_OK;
  const unsigned char *h = (const unsigned char *)head;
  if (bytes < PREFIX + 4 || memcmp(head, "\x93NUMPY", 6) != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: is not an npy file", a->path);
  if (h[6] < 1 || h[6] > 3)
    CT_FAIL(CT_ERR_FORMAT, "%s: is npy version %d, expected 1 to 3", a->path, h[6]);
  size_t length = h[8] | (size_t)h[9] << 8, at = PREFIX + 2;
  if (h[6] > 1) {
    length |= (size_t)h[10] << 16 | (size_t)h[11] << 24;
    at += 2;
  }
  if (length > HEADER_MOST || length > bytes - at)
    CT_FAIL(CT_ERR_FORMAT, "%s: its header of %zu bytes is not there", a->path, length);
  text_t t = {head + at, head + at + length};
  CT_TRY(read_dict(&t, a));
  if (a->ndim < 1 || a->ndim > CT_MAX_DIMS)
    CT_FAIL(CT_ERR_FORMAT, "%s: has %d dims, expected 1 to %d", a->path, a->ndim, CT_MAX_DIMS);
  *used = at + length;
out:
  return rc;
}
