/* Lists the inputs of `pack --tokens`: which files there are, of which kind and size.  Rank 0 does
 * it, since each file needs a stat(). */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "pack/ct_pack_in.h"
#include "pack/list.h"
#include "pack/tokens.h"

static const struct {
  const char *suffix;
  ct_tokens_kind_t kind;
} suffixes[] = {{".bin", CT_TOKENS_BIN},      {".jsonl", CT_TOKENS_JSONL},
                {".ndjson", CT_TOKENS_JSONL}, {".fa", CT_TOKENS_FASTA},
                {".fasta", CT_TOKENS_FASTA},  {".fna", CT_TOKENS_FASTA},
                {".faa", CT_TOKENS_FASTA},    {".ffn", CT_TOKENS_FASTA},
                {".frn", CT_TOKENS_FASTA},    {".fas", CT_TOKENS_FASTA}};

/* Returns 1 if the first \a n bytes of a name end in a suffix. */
static int ends_in(const char *name, size_t n, const char *suffix)
{
  size_t bytes = strlen(suffix);
  return n > bytes && strncasecmp(name + n - bytes, suffix, bytes) == 0;
}

/* Sets the kind of a file by its name, unless the user has given it. */
static void set_kind(ct__tokens_file_t *f, const char *name, ct_tokens_kind_t given)
{
  size_t n = strlen(name);
  f->gzip = ends_in(name, n, ".gz");
  if (f->gzip) n -= strlen(".gz");
  f->kind = CT_TOKENS_TEXT;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (ends_in(name, n, suffixes[i].suffix)) f->kind = (int32_t)suffixes[i].kind;
  if (given != CT_TOKENS_AUTO) f->kind = (int32_t)given;
}

static int add_name(ct__tokens_input_t *in, const char *name, int64_t *at)
{
  int rc = CT_OK;
  size_t bytes = strlen(name) + 1;
  CT_TRY(ct_mem_grow((void **)&in->text, &in->text_cap, in->text_bytes + (int64_t)bytes, 1));
  memcpy(in->text + in->text_bytes, name, bytes);
  *at = in->text_bytes;
  in->text_bytes += (int64_t)bytes;
out:
  return rc;
}

static int add_file(const ct_pack_tokens_t *o, ct__tokens_input_t *in, const char *name)
{
  int rc = CT_OK;
  struct stat st;
  ct__tokens_file_t f = {.first = in->bytes};
  CT_TRY(ct_file_regular(name));
  if (stat(name, &st) != 0) CT_FAIL(CT_ERR_IO, "%s: %s", name, strerror(errno));
  if (st.st_size == 0) {
    ct_log(CT_LOG_WARN, "%s: is empty and left out", name);
    return CT_OK;
  }
  f.bytes = st.st_size;
  f.identity = ct_pack_identity(name, 0);
  CT_TRY(add_name(in, name, &f.name));
  set_kind(&f, name, o->kind);
  int is_ids = f.kind == CT_TOKENS_BIN;
  if (in->n > 0 && is_ids != (in->file[0].kind == CT_TOKENS_BIN))
    CT_FAIL(CT_ERR_USAGE, "pack: %s and %s: one is a file of token ids, the other one of text",
            ct__tokens_path(in, &in->file[0]), name);
  if (is_ids && f.gzip)
    CT_FAIL(CT_ERR_USAGE, "pack: %s: files of ids must not be compressed (gunzip it)", name);
  if (is_ids) CT_TRY(ct__tokens_bin(in, &f, o->bits));
  if (f.bytes == 0) {
    ct_log(CT_LOG_WARN, "%s: has no ids and is left out", name);
    return CT_OK;
  }
  CT_TRY(ct_mem_grow((void **)&in->file, &in->cap, in->n + 1, sizeof f));
  in->file[in->n++] = f;
  in->bytes += f.bytes;
out:
  return rc;
}

/* Returns 1 for a file whose name, or the name of a directory above it, begins with a dot. */
static int is_hidden(const char *name)
{
  return *name == '.' || strstr(name, "/.") != NULL;
}

static int add_folder(const ct_pack_tokens_t *o, ct__tokens_input_t *in, const char *dir)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], **list = NULL;
  int64_t n = 0;
  CT_TRY(ct__pack_list_files(dir, &list, &n));
  for (int64_t i = 0; i < n; i++) {
    if (is_hidden(list[i])) continue;
    CT_TRY(ct_path_join(path, sizeof path, dir, list[i]));
    CT_TRY(add_file(o, in, path));
  }
out:
  for (int64_t i = 0; i < n; i++)
    ct_mem_free(list[i]);
  ct_mem_free(list);
  return rc;
}

static int add_source(const ct_pack_tokens_t *o, ct__tokens_input_t *in, const char *source)
{
  int rc = CT_OK, n = 0;
  char **list = NULL;
  CT_TRY(ct_file_glob(".", source, &list, &n));
  for (int i = 0; i < n; i++) {
    const char *name = list[i];
    if (strncmp(name, "./", 2) == 0 && strncmp(source, "./", 2) != 0) name += 2; /* glob's */
    CT_TRY(ct_file_is_dir(name) ? add_folder(o, in, name) : add_file(o, in, name));
  }
out:
  ct_file_list_free(list, n);
  return rc;
}

int ct__tokens_list(const ct_pack_tokens_t *o, ct__tokens_input_t *in)
{
  int rc = CT_OK;
  in->eot_id = -1;
  for (int i = 0; i < o->sources; i++)
    CT_TRY(add_source(o, in, o->source[i]));
  if (in->n == 0)
    CT_FAIL(CT_ERR_USAGE, "pack: %s: nothing to pack: expected files that are not empty",
            o->source[0]);
  if (in->file[0].kind != CT_TOKENS_BIN) in->unit = 1;
out:
  return rc;
}
