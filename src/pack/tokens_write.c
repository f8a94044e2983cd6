/* Writes one shard.  The arrays of a shard need their lengths first, so tokens go to a file without
 * a name, from which the shard is written when all of them are known. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_pack.h"
#include "pack/tokens.h"

enum { SPOOL_BYTES = 1 << 18, ENCODE_BYTES = 1 << 20 };

/* A file without a name: it is gone when its process ends. */
typedef struct spool {
  const char *path; /* of the shard; for messages */
  int fd;
  char *buf;
  int64_t at;   /* bytes in the file */
  int64_t fill; /* bytes in the buffer */
} spool_t;

typedef struct writer {
  const ct__tokens_input_t *in;
  const ct__tokens_reader_t *r; /* the file that is read */
  spool_t tokens, starts;
  int64_t n, documents, bytes; /* tokens, documents, and bytes of text so far */
  int64_t begin;               /* first token of the document */
  int64_t document_at;         /* offset of its first line in the file */
  int bits, ended;             /* ended: the last id ended a document */
  ct_tokens_t ids;
  char *text; /* text that is not encoded yet */
  int64_t text_n, text_cap;
  int64_t next;    /* encode when the text has so many bytes */
  int64_t encoded; /* bytes of the document before this text */
} writer_t;

/* ---- files without a name ---- */

static int spool_open(const char *path, const char *name, spool_t *out)
{
  int rc = CT_OK;
  char file[CT_PATH_MAX];
  *out = (spool_t){.path = path, .fd = -1};
  CT_TRY(ct_text_format(file, sizeof file, "%s.%s", path, name));
  ct_file_remove(file);
  out->fd = ct_file_open(file, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (out->fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot create: %s", file, ct_file_why(errno));
  ct_file_remove(file);
  out->buf = ct_mem_alloc(SPOOL_BYTES, "tokens");
  if (!out->buf) rc = CT_ERR_NOMEM;
out:
  return rc;
}

static void spool_close(spool_t *s)
{
  if (s->fd >= 0) close(s->fd);
  ct_mem_free(s->buf);
  *s = (spool_t){.fd = -1};
}

static int spool_flush(spool_t *s)
{
  int rc = s->fill ? ct_file_write_at(s->fd, s->path, s->at, s->buf, (size_t)s->fill) : CT_OK;
  s->at += s->fill;
  s->fill = 0;
  return rc;
}

static int spool_put(spool_t *s, const void *from, int64_t bytes)
{
  int rc = CT_OK;
  if (s->fill + bytes > SPOOL_BYTES) CT_TRY(spool_flush(s));
  memcpy(s->buf + s->fill, from, (size_t)bytes);
  s->fill += bytes;
out:
  return rc;
}

/* ---- tokens ---- */

int ct__tokens_bits(int64_t vocab)
{
  return vocab <= 65536 ? 16 : 32;
}

static int put_token(writer_t *w, int64_t id)
{
  uint32_t wide = (uint32_t)id;
  uint16_t narrow = (uint16_t)id;
  w->n++;
  return spool_put(&w->tokens, w->bits == 16 ? (const void *)&narrow : &wide, w->bits / 8);
}

static int put_start(writer_t *w, int64_t at)
{
  w->documents++;
  return spool_put(&w->starts, &at, sizeof at);
}

/* Encodes the text so far; \a more: as far as the text that follows cannot change its tokens. */
static int encode(writer_t *w, int more)
{
  int rc = CT_OK;
  char why[400];
  int64_t used = w->text_n;
  w->ids.n = 0;
  rc = ct_tokenizer_encode(w->in->tokenizer, w->text, w->text_n, more ? CT_TOKEN_MORE : 0, &used,
                           &w->ids);
  if (rc == CT_ERR_DATA) {
    ct_text_fit(why, sizeof why, "the document that begins here, from its byte %" PRId64 " on: %s",
                w->encoded, ct_err_last()->text);
    CT_TRY(ct__tokens_refuse(w->r, w->document_at, why));
  }
  CT_TRY(rc);
  for (int64_t i = 0; i < w->ids.n; i++)
    CT_TRY(put_token(w, w->ids.id[i]));
  w->text_n = more ? w->text_n - used : 0;
  w->encoded += used;
  if (w->text_n > 0) memmove(w->text, w->text + used, (size_t)w->text_n);
  w->next = 2 * w->text_n + ENCODE_BYTES; /* a long piece is not looked at again and again */
out:
  return rc;
}

/* ---- documents of text ---- */

static int begin_document(void *of, int64_t at, int continued)
{
  writer_t *w = of;
  w->document_at = at;
  w->begin = w->n;
  w->text_n = w->encoded = 0;
  w->next = ENCODE_BYTES;
  return w->in->eot == CT_EOT_BEFORE && !continued ? put_token(w, w->in->eot_id) : CT_OK;
}

static int take_text(void *of, const char *text, int64_t n)
{
  int rc = CT_OK;
  writer_t *w = of;
  CT_TRY(ct_mem_grow((void **)&w->text, &w->text_cap, w->text_n + n, 1));
  memcpy(w->text + w->text_n, text, (size_t)n);
  w->text_n += n;
  w->bytes += n;
  if (w->text_n >= w->next) CT_TRY(encode(w, 1));
out:
  return rc;
}

/* A document without tokens is none. */
static int end_document(void *of, int cut)
{
  int rc = CT_OK;
  writer_t *w = of;
  if (w->text_n > 0) CT_TRY(encode(w, 0));
  if (w->in->eot == CT_EOT_AFTER && !cut) CT_TRY(put_token(w, w->in->eot_id));
  if (w->n > w->begin) CT_TRY(put_start(w, w->begin));
  CT_TRY(ct_fault("pack.tokens"));
out:
  return rc;
}

/* ---- ids ---- */

static int refuse_id(const writer_t *w, int64_t index, uint32_t id)
{
  int rc = CT_OK;
  int64_t offset = w->r->f->at + w->r->at + index * w->in->unit;
  CT_FAIL(CT_ERR_DATA, "%s: byte %" PRId64 ": id %" PRIu32 ", expected ids below %" PRId64,
          w->r->path, offset, id, w->in->vocab);
out:
  return rc;
}

/* A file begins a document if there is no end-of-text token: llm.c divides documents. */
static int take_ids(void *of, const void *from, int64_t n, int continued)
{
  int rc = CT_OK;
  writer_t *w = of;
  const ct__tokens_input_t *in = w->in;
  for (int64_t i = 0; i < n; i++) {
    uint16_t narrow;
    uint32_t id;
    if (in->unit == 2)
      memcpy(&narrow, (const char *)from + 2 * i, 2), id = narrow;
    else
      memcpy(&id, (const char *)from + 4 * i, 4);
    if (id >= in->vocab) CT_TRY(refuse_id(w, i - n, id));
    int is_eot = (int64_t)id == in->eot_id;
    if (w->n == 0 || (i == 0 && !continued && in->eot == CT_EOT_NONE) ||
        (in->eot == CT_EOT_BEFORE && is_eot) || (in->eot == CT_EOT_AFTER && w->ended))
      CT_TRY(put_start(w, w->n));
    w->ended = is_eot;
    if (in->id_bytes && !is_eot) w->bytes += in->id_bytes[id];
    CT_TRY(put_token(w, id));
  }
  CT_TRY(ct_fault("pack.tokens"));
out:
  return rc;
}

/* ---- the shard ---- */

static int write_file(writer_t *w, const char *path)
{
  int rc = CT_OK;
  const ct__tokens_input_t *in = w->in;
  char *blob = NULL;
  ct_token_shard_t s = {.path = path,
                        .bits = w->bits,
                        .fd = w->tokens.fd,
                        .tokens = w->n,
                        .starts_fd = w->starts.fd,
                        .documents = w->documents,
                        .vocab = in->vocab,
                        .eot = in->eot_id,
                        .bytes = in->unit == 1 || in->id_bytes ? w->bytes : -1};
  CT_TRY(spool_flush(&w->tokens));
  CT_TRY(spool_flush(&w->starts));
  if (in->tokenizer) {
    CT_TRY(ct_tokenizer_blob(in->tokenizer, &blob, &s.blob_bytes));
    s.blob = blob;
    s.tokenizer = ct_tokenizer_name(in->tokenizer);
  }
  CT_TRY(ct_pack_write_tokens(&s));
out:
  ct_mem_free(blob);
  return rc;
}

int ct__tokens_write(const ct__tokens_input_t *in, const ct__pack_shard_t *s, const char *path,
                     void (*progress)(void *of, int64_t bytes), void *of, int64_t *tokens)
{
  int rc = CT_OK;
  ct__tokens_reader_t r = {.fd = -1};
  writer_t w = {.in = in, .r = &r, .bits = ct__tokens_bits(in->vocab)};
  ct__tokens_sink_t sink = {begin_document, take_text, end_document, take_ids, &w};
  int64_t position = s->first, end = s->first + s->samples;
  w.tokens.fd = w.starts.fd = -1;
  CT_TRY(spool_open(path, "tokens", &w.tokens));
  CT_TRY(spool_open(path, "starts", &w.starts));
  for (int64_t i = ct__tokens_find(in, position); position < end; i++) {
    const ct__tokens_file_t *f = &in->file[i];
    int64_t stop = end - f->first < f->bytes ? end - f->first : f->bytes;
    CT_TRY(ct__tokens_open(in, f, position - f->first, stop, &r));
    r.progress = progress;
    r.of = of;
    CT_TRY(ct__tokens_parse(&r, &sink));
    ct__tokens_close(&r);
    position = f->first + stop;
  }
  *tokens = w.n;
  if (w.n == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: has no text: expected at least one token for %s",
            ct__tokens_path(in, &in->file[ct__tokens_find(in, s->first)]), path);
  CT_TRY(write_file(&w, path));
out:
  ct__tokens_close(&r);
  spool_close(&w.tokens);
  spool_close(&w.starts);
  ct_tokens_clear(&w.ids);
  ct_mem_free(w.text);
  return rc;
}
