/* Where shards begin: at the beginning of a document, if there is one within a share. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "pack/tokens.h"

enum { HEADER_MOST = 1 << 16 }; /* no header of FASTA is longer, so a longer line is residues */

int64_t ct__tokens_find(const ct__tokens_input_t *in, int64_t position)
{
  int64_t low = 0, high = in->n; /* the first file that ends behind the position */
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (in->file[middle].first + in->file[middle].bytes > position)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* What ends a document, and how many of its last bytes belong to the next one. */
typedef struct mark {
  char text[4];
  int64_t n, kept;
} mark_t;

/* Returns the offset of the first document that begins in [from, to) of a file; -1: there is none.
 * Marks are looked for at multiples of \a unit from the beginning of the file. */
static int find_mark(const ct__tokens_input_t *in, const ct__tokens_file_t *f, mark_t m,
                     int64_t from, int64_t to, int64_t *out)
{
  int rc = CT_OK;
  ct__tokens_reader_t r;
  const char *data;
  char last[8] = {0}; /* the end of the chunk before and the beginning of this one */
  int64_t before = m.n - m.kept, begin = from - before > 0 ? from - before : 0, seen = 0, n;
  *out = -1;
  CT_TRY(ct__tokens_open(in, f, begin, to + m.kept < f->bytes ? to + m.kept : f->bytes, &r));
  do {
    int64_t offset = r.at;
    CT_TRY(ct__tokens_next(&r, &data, &n));
    for (int64_t i = 0; i < n && *out < 0; i++) {
      memmove(last, last + 1, (size_t)m.n - 1);
      last[m.n - 1] = data[i];
      int64_t next = offset + i + 1 - m.kept; /* where a document would begin */
      if (++seen >= m.n && next >= from && next < to && next % in->unit == 0 &&
          memcmp(last, m.text, (size_t)m.n) == 0)
        *out = next;
    }
  } while (n > 0 && *out < 0);
out:
  ct__tokens_close(&r);
  return rc;
}

/* What stands between documents of a file; n is 0: nothing does. */
static mark_t mark_of(const ct__tokens_input_t *in, const ct__tokens_file_t *f)
{
  mark_t m = {.n = 0};
  uint32_t id = (uint32_t)in->eot_id;
  if (f->kind == CT_TOKENS_JSONL) return (mark_t){"\n", 1, 0};
  if (f->kind == CT_TOKENS_FASTA) return (mark_t){"\n>", 2, 1};
  if (f->kind != CT_TOKENS_BIN || in->eot_id < 0 || in->eot == CT_EOT_NONE) return m;
  m.n = in->unit;
  m.kept = in->eot == CT_EOT_BEFORE ? in->unit : 0;
  for (int i = 0; i < in->unit; i++) /* little-endian, as stored */
    m.text[i] = (char)(id >> (8 * i) & 0xff);
  return m;
}

/* Reads up to \a n bytes from an offset on. */
static int read_some(const ct__tokens_input_t *in, const ct__tokens_file_t *f, int64_t at,
                     int64_t n, char *to, int64_t *got)
{
  int rc = CT_OK;
  ct__tokens_reader_t r;
  const char *data;
  int64_t part, end = at + n < f->bytes ? at + n : f->bytes;
  *got = 0;
  CT_TRY(ct__tokens_open(in, f, at, end, &r));
  do {
    CT_TRY(ct__tokens_next(&r, &data, &part));
    memcpy(to + *got, data, (size_t)part);
    *got += part;
  } while (part > 0);
out:
  ct__tokens_close(&r);
  return rc;
}

/* Moves an offset out of a UTF-8 character. */
static int cut_text(const ct__tokens_input_t *in, const ct__tokens_file_t *f, int64_t *at)
{
  int rc = CT_OK;
  char next[4];
  int64_t n, i = 0;
  CT_TRY(read_some(in, f, *at, sizeof next, next, &n));
  while (i < n && i < 3 && ((unsigned char)next[i] & 0xc0) == 0x80)
    i++;
  *at += i;
out:
  return rc;
}

/* Returns 1 if a record of FASTA begins in a text. */
static int has_record(const char *text, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    if (text[i] == '>' && (i == 0 || text[i - 1] == '\n')) return 1;
  return 0;
}

/* Moves an offset in a header of FASTA to the end of its line, and one before the first record
 * to the beginning of the file. */
static int cut_record(const ct__tokens_input_t *in, const ct__tokens_file_t *f, int64_t *at)
{
  int rc = CT_OK;
  char *text = ct_mem_alloc(2 * HEADER_MOST, "a header of FASTA");
  if (!text) return CT_ERR_NOMEM;
  int64_t begin = *at > HEADER_MOST ? *at - HEADER_MOST : 0, n, here = *at - begin, line = here;
  CT_TRY(read_some(in, f, begin, 2 * HEADER_MOST, text, &n));
  if (begin == 0 && !has_record(text, here)) {
    *at = 0;
    goto out;
  }
  while (line > 0 && text[line - 1] != '\n')
    line--;
  if ((line == 0 && begin > 0) || line == n || (text[line] != '>' && text[line] != ';')) goto out;
  while (here < n && text[here] != '\n')
    here++;
  *at = begin + here;
out:
  ct_mem_free(text);
  return rc;
}

int ct__tokens_cut(const ct__tokens_input_t *in, int64_t position, int64_t share, int64_t *out)
{
  int rc = CT_OK;
  int64_t i = ct__tokens_find(in, position), found = -1;
  *out = position;
  if (i == in->n || in->file[i].first == position) return CT_OK;
  const ct__tokens_file_t *f = &in->file[i];
  int64_t at = position - f->first;
  *out = f->first + f->bytes;
  if (f->gzip) return CT_OK;
  mark_t m = mark_of(in, f);
  int never = f->kind == CT_TOKENS_JSONL; /* is never cut */
  int64_t far = !never && at + share < f->bytes ? at + share : f->bytes;
  if (m.n > 0) CT_TRY(find_mark(in, f, m, at, far, &found));
  if (found >= 0) *out = f->first + found;
  if (found >= 0 || never || f->bytes - at < share) goto out;
  if (f->kind == CT_TOKENS_TEXT) CT_TRY(cut_text(in, f, &at));
  if (f->kind == CT_TOKENS_FASTA) CT_TRY(cut_record(in, f, &at));
  *out = f->first + at;
out:
  return rc;
}
