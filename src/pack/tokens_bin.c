/* Files of token ids.  llm.c: 256 int32 of header, then ids of 16 bits (GPT-2) or 32 bits
 * (Llama 3); its own reader ends at 2 GiB, this one does not.  nanoGPT: ids without a header, and
 * for texts of characters a pickle beside them, meta.pkl, with the characters. */
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "pack/cifar.h"
#include "pack/tokens.h"

enum { HEADER_BYTES = 1024, MOST_ITOS = 1 << 20 };

/* Files of llm.c, by their first two numbers. */
static const struct {
  int32_t magic, version, unit;
  int64_t vocab, eot;
} kinds[] = {{20240520, 1, 2, 50257, 50256}, {20240801, 7, 4, 128256, 128000}};

static const struct {
  int32_t magic;
  const char *what;
} others[] = {{20240522, "questions of an evaluation"},
              {20240326, "a model (init.from reads it)"},
              {20240328, "a tokenizer"}};

/* Takes the header of llm.c; *is: 1 if it is one. */
static int take_header(ct__tokens_input_t *in, ct__tokens_file_t *f, const char *path,
                       const uint32_t *head, int64_t got, int *is)
{
  int rc = CT_OK;
  int32_t magic = got >= 4 ? (int32_t)le32toh(head[0]) : 0;
  int64_t file = f->bytes;
  *is = 0;
  for (int i = 0; i < 3; i++)
    if (magic == others[i].magic)
      CT_FAIL(CT_ERR_FORMAT, "%s: is a file of llm.c with %s, expected token ids", path,
              others[i].what);
  for (int i = 0; i < 2; i++) {
    if (magic != kinds[i].magic) continue;
    if (got < HEADER_BYTES)
      CT_FAIL(CT_ERR_FORMAT, "%s: ends in the header of llm.c, expected %d bytes of it", path,
              HEADER_BYTES);
    int32_t version = (int32_t)le32toh(head[1]), n = (int32_t)le32toh(head[2]);
    if (version != kinds[i].version)
      CT_FAIL(CT_ERR_FORMAT, "%s: has ids of llm.c of version %d, expected %d", path, version,
              kinds[i].version);
    f->at = HEADER_BYTES;
    f->bytes = (int64_t)n * kinds[i].unit;
    if (n < 0 || f->at + f->bytes != file)
      CT_FAIL(CT_ERR_FORMAT,
              "%s: its header says %d ids of %d bits, expected %" PRId64
              " bytes, but it has %" PRId64,
              path, n, 8 * kinds[i].unit, f->at + f->bytes, file);
    in->unit = kinds[i].unit;
    in->vocab = kinds[i].vocab;
    in->eot_id = kinds[i].eot;
    *is = in->llmc = 1;
  }
out:
  return rc;
}

int ct__tokens_bin(ct__tokens_input_t *in, ct__tokens_file_t *f, int bits)
{
  int rc = CT_OK, is = 0;
  uint32_t head[HEADER_BYTES / 4];
  const char *path = ct__tokens_path(in, f);
  int64_t got = f->bytes < HEADER_BYTES ? f->bytes : HEADER_BYTES, before = in->unit;
  int llmc_before = in->llmc;
  int fd = ct_file_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) CT_FAIL(CT_ERR_IO, "%s: cannot be opened", path);
  CT_TRY(ct_file_read_at(fd, path, 0, head, (size_t)got));
  in->llmc = 0;
  CT_TRY(take_header(in, f, path, head, got, &is));
  if (!is) in->unit = bits ? bits / 8 : 2;
  if (f->bytes % in->unit)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: has %" PRId64 " bytes, expected a multiple of %d, since an id has %d bits%s", path,
            f->bytes, (int)in->unit, (int)in->unit * 8, bits ? "" : " (--token-bits)");
  if (before && (before != in->unit || llmc_before != in->llmc))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: is of another kind than the files before: expected the same header and width of "
            "ids in all",
            path);
out:
  if (fd >= 0) close(fd);
  return rc;
}

/* ---- meta.pkl ---- */

static int bad_meta(const char *path, const char *why)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                    "%s: %s, expected nanoGPT's dict with 'vocab_size' and 'itos', a character for "
                    "each id (--vocab N reads the ids without it)",
                    path, why);
}

/* Lists the characters by their ids. */
static int take_itos(const char *path, const ct_pickle_t *p, int itos, const char **token,
                     int64_t *bytes, int64_t n)
{
  int rc = CT_OK;
  for (int c = p->node[itos].first; c >= 0; c = p->cell[p->cell[c].next].next) {
    const ct_pickle_node_t *id = &p->node[p->cell[c].node];
    int text = p->cell[p->cell[c].next].node;
    if (id->kind != CT_PICKLE_INT || id->value < 0 || id->value >= n || token[id->value] ||
        p->node[text].kind != CT_PICKLE_TEXT)
      CT_TRY(bad_meta(path, "has another 'itos'"));
    token[id->value] = ct_pickle_text(p, text);
    bytes[id->value] = p->node[text].count;
  }
out:
  return rc;
}

static int from_pickle(const char *path, const ct_pickle_t *p, ct_tokenizer_t **out)
{
  int rc = CT_OK;
  int itos = ct__cifar_find(p, "itos"), size = ct__cifar_find(p, "vocab_size");
  const char **token = NULL;
  int64_t *bytes = NULL, n;
  if (itos < 0 || size < 0 || p->node[itos].kind != CT_PICKLE_DICT ||
      p->node[size].kind != CT_PICKLE_INT)
    CT_TRY(bad_meta(path, "has other keys"));
  n = p->node[size].value;
  if (n < 1 || n > MOST_ITOS || p->node[itos].count != 2 * n)
    CT_TRY(bad_meta(path, "has not as many characters as 'vocab_size' says"));
  token = ct_mem_array(n, sizeof *token, "characters");
  bytes = ct_mem_array(n, sizeof *bytes, "characters");
  if (!token || !bytes) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(take_itos(path, p, itos, token, bytes, n));
  CT_TRY(ct_tokenizer_open_list(token, bytes, n, out));
out:
  ct_mem_free(token);
  ct_mem_free(bytes);
  return rc;
}

int ct__tokens_meta(const char *path, ct_tokenizer_t **out)
{
  int rc = CT_OK, fd = -1;
  struct stat st;
  ct_pickle_t p = {.root = -1};
  char dir[CT_PATH_MAX], meta[CT_PATH_MAX];
  CT_TRY(ct_path_dir(dir, sizeof dir, path));
  CT_TRY(ct_path_join(meta, sizeof meta, dir, "meta.pkl"));
  if (!ct_file_exists(meta)) goto out;
  CT_TRY(ct_file_regular(meta));
  fd = ct_file_open(meta, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0 || fstat(fd, &st) != 0) CT_FAIL(CT_ERR_IO, "%s: cannot be opened", meta);
  CT_TRY(ct_pickle_load(fd, meta, "its pickle", 0, st.st_size, &p, NULL));
  CT_TRY(from_pickle(meta, &p, out));
out:
  if (fd >= 0) close(fd);
  ct_pickle_clear(&p);
  return rc;
}
