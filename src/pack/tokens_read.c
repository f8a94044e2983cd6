/* Reads the content of an input in chunks.  A compressed file is decompressed as a whole. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_heartbeat.h"
#include "base/ct_mem.h"
#include "pack/ct_pack_in.h"
#include "pack/tokens.h"

enum { CHUNK = 1 << 20 };

const char *ct__tokens_path(const ct__tokens_input_t *in, const ct__tokens_file_t *f)
{
  return in->text + f->name;
}

void ct__tokens_input_clear(ct__tokens_input_t *in)
{
  ct_mem_free(in->file);
  ct_mem_free(in->text);
  ct_mem_free(in->id_bytes);
  in->file = NULL;
  in->text = NULL;
  in->id_bytes = NULL;
}

static int64_t chunk_bytes(const ct__tokens_input_t *in)
{
  return in->chunk > 0 ? in->chunk : CHUNK;
}

int ct__tokens_open(const ct__tokens_input_t *in, const ct__tokens_file_t *f, int64_t at,
                    int64_t end, ct__tokens_reader_t *out)
{
  int rc = CT_OK;
  size_t bytes;
  *out = (ct__tokens_reader_t){
      .in = in, .f = f, .path = ct__tokens_path(in, f), .fd = -1, .at = at, .end = end};
  if (f->gzip) {
    CT_TRY(ct_pack_read_file(out->path, &out->whole, &bytes));
    out->end = (int64_t)bytes;
    goto out;
  }
  out->chunk = ct_mem_alloc((size_t)chunk_bytes(in), "a part of a text");
  if (!out->chunk) return CT_ERR_NOMEM;
  out->fd = ct_file_open(out->path, O_RDONLY | O_CLOEXEC, 0);
  if (out->fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot be opened: %s", out->path, strerror(errno));
out:
  return rc;
}

void ct__tokens_close(ct__tokens_reader_t *r)
{
  if (r->fd >= 0) close(r->fd);
  ct_mem_free(r->whole);
  ct_mem_free(r->chunk);
  r->whole = r->chunk = NULL;
  r->fd = -1;
}

int ct__tokens_next(ct__tokens_reader_t *r, const char **data, int64_t *n)
{
  int rc = CT_OK;
  *n = r->end - r->at < chunk_bytes(r->in) ? r->end - r->at : chunk_bytes(r->in);
  *data = r->whole ? r->whole + r->at : r->chunk;
  if (!r->whole && *n > 0)
    CT_TRY(ct_file_read_at(r->fd, r->path, r->f->at + r->at, r->chunk, (size_t)*n));
  r->at += *n;
  ct_heartbeat_progress();
  if (r->progress && !r->whole) r->progress(r->of, *n);
  if (r->progress && r->whole && r->at == r->end && *n > 0) r->progress(r->of, r->f->bytes);
out:
  return rc;
}

/* Returns the number of a line, for which all lines before it are read; 0: they cannot be read. */
static int64_t line_at(const ct__tokens_reader_t *r, int64_t at)
{
  ct__tokens_reader_t again = {.in = r->in, .f = r->f, .path = r->path, .fd = r->fd, .end = at};
  const char *data;
  int64_t n, lines = 1;
  again.whole = r->whole;
  again.chunk = r->chunk; /* the chunk is not needed after an error */
  do {
    if (ct__tokens_next(&again, &data, &n) != CT_OK) return 0;
    for (const char *p = data; (p = memchr(p, '\n', (size_t)(data + n - p))); p++)
      lines++;
  } while (n > 0);
  return lines;
}

int ct__tokens_refuse(const ct__tokens_reader_t *r, int64_t at, const char *why)
{
  char words[400];
  ct_text_fit(words, sizeof words, "%s", why); /* it may be in the chunk, or in the last error */
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: line %" PRId64 ": %s", r->path,
                    line_at(r, at), words);
}
