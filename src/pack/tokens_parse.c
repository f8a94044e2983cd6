/* Finds the documents in texts, lines of JSON, FASTA files and files of ids.  They are read in
 * chunks, so a document may be larger than the memory; only a line of JSON is kept whole. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"
#include "pack/tokens.h"

enum { MOST_LINE = 1 << 30 };

/* Returns 1 if a document of this file goes on behind the end of what is read. */
static int is_cut(const ct__tokens_reader_t *r)
{
  return !r->whole && r->end < r->f->bytes;
}

static int parse_text(ct__tokens_reader_t *r, const ct__tokens_sink_t *s)
{
  int rc = CT_OK;
  const char *data;
  int64_t n;
  CT_TRY(s->begin(s->of, r->at, r->at > 0));
  for (;;) {
    CT_TRY(ct__tokens_next(r, &data, &n));
    if (n == 0) break;
    CT_TRY(s->text(s->of, data, n));
  }
  CT_TRY(s->end(s->of, is_cut(r)));
out:
  return rc;
}

/* ---- JSON lines ---- */

typedef struct line {
  ct__tokens_reader_t *r;
  char *data; /* the part of a line that earlier chunks had */
  int64_t n, cap;
  int64_t at; /* offset of the line in the content */
} line_t;

static int is_blank(const char *text, int64_t n)
{
  while (n > 0 && isspace((unsigned char)*text))
    text++, n--;
  return n == 0;
}

/* Passes the text of a line, a JSON object. */
static int take_json(const line_t *l, const char *text, int64_t n, const ct__tokens_sink_t *s)
{
  int rc = CT_OK;
  char why[300];
  json_error_t error;
  const char *key = l->r->in->text_key;
  if (is_blank(text, n)) return CT_OK;
  json_t *o = json_loadb(text, (size_t)n, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
  const json_t *value = json_object_get(o, key);
  if (!o) {
    snprintf(why, sizeof why, "expected a JSON object: %s", error.text);
    for (char *c = why; *c; c++)
      if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
    CT_TRY(ct__tokens_refuse(l->r, l->at, why));
  }
  if (!json_is_string(value)) {
    snprintf(why, sizeof why, "expected a JSON object with a text '%s', %s", key,
             value ? "which is not a text here" : "a key that it does not have (--text-key)");
    CT_TRY(ct__tokens_refuse(l->r, l->at, why));
  }
  CT_TRY(s->begin(s->of, l->at, 0));
  CT_TRY(s->text(s->of, json_string_value(value), (int64_t)json_string_length(value)));
  CT_TRY(s->end(s->of, 0));
out:
  json_decref(o);
  return rc;
}

static int keep_part(line_t *l, const char *text, int64_t n)
{
  int rc = CT_OK;
  if (n > MOST_LINE - l->n)
    CT_TRY(ct__tokens_refuse(l->r, l->at, "has more than 1 GiB: is this a file of JSON lines?"));
  CT_TRY(ct_mem_grow((void **)&l->data, &l->cap, l->n + n + 1, 1));
  memcpy(l->data + l->n, text, (size_t)n);
  l->n += n;
out:
  return rc;
}

/* Takes the lines of a chunk that begins at an offset of the content. */
static int take_lines(line_t *l, const char *data, int64_t n, int64_t offset,
                      const ct__tokens_sink_t *s)
{
  int rc = CT_OK;
  for (const char *p = data, *end = data + n, *stop; p < end; p = stop + 1) {
    stop = memchr(p, '\n', (size_t)(end - p));
    if (!stop) return keep_part(l, p, end - p);
    if (l->n > 0) {
      CT_TRY(keep_part(l, p, stop - p));
      CT_TRY(take_json(l, l->data, l->n, s));
    } else {
      CT_TRY(take_json(l, p, stop - p, s));
    }
    l->n = 0;
    l->at = offset + (stop + 1 - data);
  }
out:
  return rc;
}

static int parse_jsonl(ct__tokens_reader_t *r, const ct__tokens_sink_t *s)
{
  int rc = CT_OK;
  line_t l = {.r = r, .at = r->at};
  const char *data;
  for (;;) {
    int64_t n, offset = r->at;
    CT_TRY(ct__tokens_next(r, &data, &n));
    if (n == 0) break;
    CT_TRY(take_lines(&l, data, n, offset, s));
  }
  if (l.n > 0) CT_TRY(take_json(&l, l.data, l.n, s)); /* a last line without an end */
out:
  ct_mem_free(l.data);
  return rc;
}

/* ---- FASTA ---- */

typedef struct fasta {
  ct__tokens_reader_t *r;
  const ct__tokens_sink_t *s;
  int line_begins; /* the next byte is the first of a line */
  int in_header;
  int open; /* a document was begun */
} fasta_t;

/* Whether an offset of a file that is not compressed is the beginning of a line; 1 for 0. */
static int begins_line(const ct__tokens_reader_t *r, int64_t at, int *out)
{
  int rc = CT_OK;
  char before = '\n';
  if (at > 0 && !r->whole) CT_TRY(ct_file_read_at(r->fd, r->path, r->f->at + at - 1, &before, 1));
  *out = before == '\n';
out:
  return rc;
}

/* Whether the end of what is read is inside of a record. */
static int cuts_record(const ct__tokens_reader_t *r, int *out)
{
  int rc = CT_OK, line;
  char next;
  *out = 0;
  if (!is_cut(r)) return CT_OK;
  CT_TRY(begins_line(r, r->end, &line));
  CT_TRY(ct_file_read_at(r->fd, r->path, r->f->at + r->end, &next, 1));
  *out = !line || next != '>';
out:
  return rc;
}

static int next_record(fasta_t *f, int64_t at)
{
  int rc = CT_OK;
  if (f->open) CT_TRY(f->s->end(f->s->of, 0));
  f->open = 1;
  f->in_header = 1;
  CT_TRY(f->s->begin(f->s->of, at, 0));
out:
  return rc;
}

static int refuse_residue(const fasta_t *f, int64_t at, char c)
{
  char why[100];
  if (!f->open) return ct__tokens_refuse(f->r, at, "expected '>', the header of a FASTA record");
  snprintf(why, sizeof why, "byte 0x%02x in a sequence, expected letters, '*', '-' and '.'",
           (unsigned)(unsigned char)c);
  return ct__tokens_refuse(f->r, at, why);
}

/* Takes a chunk that begins at an offset of the content: headers are left out; residues are moved
 * together in place. */
static int take_residues(fasta_t *f, const char *data, int64_t n, int64_t offset, char *to)
{
  int rc = CT_OK;
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++) {
    char c = data[i];
    int begins = f->line_begins;
    f->line_begins = c == '\n';
    if (c == '\n') {
      f->in_header = 0;
    } else if (begins && c == '>') {
      if (kept > 0) CT_TRY(f->s->text(f->s->of, to, kept));
      kept = 0;
      CT_TRY(next_record(f, offset + i));
    } else if (begins && c == ';') { /* a comment */
      f->in_header = 1;
    } else if (!f->in_header && c != ' ' && c != '\t' && c != '\r') {
      int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!f->open || (!letter && c != '*' && c != '-' && c != '.'))
        CT_TRY(refuse_residue(f, offset + i, c));
      to[kept++] = (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
    }
  }
  if (kept > 0) CT_TRY(f->s->text(f->s->of, to, kept));
out:
  return rc;
}

static int parse_fasta(ct__tokens_reader_t *r, const ct__tokens_sink_t *s)
{
  int rc = CT_OK, cut = 0;
  fasta_t f = {.r = r, .s = s};
  char *residues = NULL;
  int64_t cap = 0;
  const char *data;
  CT_TRY(begins_line(r, r->at, &f.line_begins));
  int64_t first = r->at;
  for (;;) {
    int64_t n, offset = r->at;
    CT_TRY(ct__tokens_next(r, &data, &n));
    if (n == 0) break;
    if (offset == first && first > 0 && !(f.line_begins && *data == '>')) {
      f.open = 1;
      CT_TRY(s->begin(s->of, first, 1));
    }
    CT_TRY(ct_mem_grow((void **)&residues, &cap, n, 1));
    CT_TRY(take_residues(&f, data, n, offset, residues));
  }
  CT_TRY(cuts_record(r, &cut));
  if (f.open) CT_TRY(s->end(s->of, cut));
out:
  ct_mem_free(residues);
  return rc;
}

/* ---- ids ---- */

static int parse_ids(ct__tokens_reader_t *r, const ct__tokens_sink_t *s)
{
  int rc = CT_OK;
  const char *data;
  int64_t n;
  for (int continued = 0;; continued = 1) {
    CT_TRY(ct__tokens_next(r, &data, &n));
    if (n == 0) break;
    CT_TRY(s->ids(s->of, data, n / r->in->unit, continued));
  }
out:
  return rc;
}

int ct__tokens_parse(ct__tokens_reader_t *r, const ct__tokens_sink_t *sink)
{
  switch ((ct_tokens_kind_t)r->f->kind) {
  case CT_TOKENS_JSONL:
    return parse_jsonl(r, sink);
  case CT_TOKENS_FASTA:
    return parse_fasta(r, sink);
  case CT_TOKENS_BIN:
    return parse_ids(r, sink);
  default:
    return parse_text(r, sink);
  }
}
