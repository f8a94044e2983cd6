/* Reads models of llm.c. The header says the size of every array, so the file's size is checked
 * before a tensor is read. */
#include "weights/llmc/ct_weights_llmc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"

enum { MAGIC = 20240326, HEADER = 256, MOST = 1 << 24, MOST_LAYERS = 4096 };
enum { CONTEXT = 2, VOCAB, LAYERS, HEADS, WIDE, PADDED }; /* places in the header */

/* An array of the file; rows and columns are in units of the channels, or a number of the header
 * (less than 0: its place). columns 0: a vector. */
static const struct {
  const char *name;
  int of_layers; /* 1: one for each layer */
  int rows, columns;
} arrays[] = {{"transformer.wte.weight", 0, -PADDED, 1},
              {"transformer.wpe.weight", 0, -CONTEXT, 1},
              {"ln_1.weight", 1, 1, 0},
              {"ln_1.bias", 1, 1, 0},
              {"attn.c_attn.weight", 1, 3, 1},
              {"attn.c_attn.bias", 1, 3, 0},
              {"attn.c_proj.weight", 1, 1, 1},
              {"attn.c_proj.bias", 1, 1, 0},
              {"ln_2.weight", 1, 1, 0},
              {"ln_2.bias", 1, 1, 0},
              {"mlp.c_fc.weight", 1, 4, 1},
              {"mlp.c_fc.bias", 1, 4, 0},
              {"mlp.c_proj.weight", 1, 1, 4},
              {"mlp.c_proj.bias", 1, 1, 0},
              {"transformer.ln_f.weight", 0, 1, 0},
              {"transformer.ln_f.bias", 0, 1, 0}};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

typedef struct entry {
  char name[64];
  int ndim;
  int64_t dim[2];
  int64_t at; /* offset of its first element, in elements after the header */
} entry_t;

struct ct_weights {
  int fd;
  char *path;
  int32_t head[HEADER];
  ct_elem_t type;
  entry_t *entry;
  int n;
  char model[256];
};

static void llmc_close(ct_weights_t *w)
{
  if (!w) return;
  if (w->fd >= 0) close(w->fd);
  ct_mem_free(w->path);
  ct_mem_free(w->entry);
  ct_mem_free(w);
}

/* ---- opening ---- */

static int check_header(ct_weights_t *w)
{
  int rc = CT_OK;
  static const char *const names[] = {"context", "vocabulary", "layers",
                                      "heads",   "channels",   "padded vocabulary"};
  const int32_t *h = w->head;
  if (h[0] != MAGIC)
    CT_FAIL(CT_ERR_FORMAT, "%s: is not a model of llm.c: its first number is %d, expected %d",
            w->path, (int)h[0], MAGIC);
  if (h[1] != 3 && h[1] != 5)
    CT_FAIL(CT_ERR_FORMAT, "%s: model of llm.c of version %d, expected 3 (float32) or 5 (bfloat16)",
            w->path, (int)h[1]);
  for (int i = CONTEXT; i <= PADDED; i++) {
    int most = i == LAYERS ? MOST_LAYERS : MOST;
    if (h[i] < 1 || h[i] > most)
      CT_FAIL(CT_ERR_FORMAT, "%s: %s is %d in its header, expected 1 to %d", w->path,
              names[i - CONTEXT], (int)h[i], most);
  }
  if (h[PADDED] < h[VOCAB])
    CT_FAIL(CT_ERR_FORMAT, "%s: padded vocabulary of %d, less than the vocabulary, %d", w->path,
            (int)h[PADDED], (int)h[VOCAB]);
  w->type = h[1] == 3 ? CT_ELEM_F32 : CT_ELEM_BF16;
out:
  return rc;
}

/* Lists the tensors in the order of the file; *count: elements of all arrays. */
static int list_entries(ct_weights_t *w, int64_t *count)
{
  const int32_t *h = w->head;
  w->entry = ct_mem_array(ARRAYS * (int64_t)h[LAYERS], sizeof *w->entry, "tensors of a model");
  if (!w->entry) return CT_ERR_NOMEM;
  for (int a = 0; a < ARRAYS; a++) {
    int64_t rows = arrays[a].rows < 0 ? h[-arrays[a].rows] : (int64_t)arrays[a].rows * h[WIDE];
    int64_t columns = (int64_t)arrays[a].columns * h[WIDE];
    for (int l = 0; l < (arrays[a].of_layers ? h[LAYERS] : 1); l++) {
      entry_t *e = &w->entry[w->n++];
      e->ndim = columns ? 2 : 1;
      e->dim[0] = arrays[a].rows == -PADDED ? h[VOCAB] : rows;
      e->dim[1] = columns;
      e->at = *count;
      if (arrays[a].of_layers)
        ct_text_fit(e->name, sizeof e->name, "transformer.h.%d.%s", l, arrays[a].name);
      else
        ct_text_fit(e->name, sizeof e->name, "%s", arrays[a].name);
      if (__builtin_add_overflow(*count, rows * (columns ? columns : 1), count))
        return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "%s: is too large", w->path);
    }
  }
  return CT_OK;
}

static int check_size(const ct_weights_t *w, int64_t bytes, int64_t count)
{
  int rc = CT_OK;
  int64_t size = ct_elem_bits(w->type) / 8, left = bytes - (int64_t)sizeof w->head;
  if (left % size != 0 || left / size != count)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: has %lld bytes after its header, expected %lld numbers of %lld bytes", w->path,
            (long long)left, (long long)count, (long long)size);
out:
  return rc;
}

static void describe(ct_weights_t *w)
{
  const int32_t *h = w->head;
  ct_text_fit(w->model, sizeof w->model,
              "{family: gpt2, activation: gelu_tanh, layers: %d, heads: %d, dim: %d, context: %d, "
              "vocab: %d, input: [%d], classes: %d}\n",
              (int)h[LAYERS], (int)h[HEADS], (int)h[WIDE], (int)h[CONTEXT], (int)h[VOCAB],
              (int)h[CONTEXT], (int)h[VOCAB]);
}

static int llmc_open(const char *path, const char *key, ct_weights_t **out)
{
  int rc = CT_OK;
  struct stat st;
  int64_t count = 0;
  ct_weights_t *w = ct_mem_alloc(sizeof *w, "a model of llm.c");
  *out = NULL;
  if (!w) return CT_ERR_NOMEM;
  w->fd = -1;
  w->path = ct_mem_strdup(path);
  CT_TRY(w->path ? CT_OK : CT_ERR_NOMEM);
  if (key && *key)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' cannot be selected, since models of llm.c are not nested",
            path, key);
  CT_TRY(ct_file_regular(path));
  w->fd = ct_file_open(path, O_RDONLY, 0);
  if (w->fd < 0 || fstat(w->fd, &st) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  if (st.st_size < (off_t)sizeof w->head)
    CT_FAIL(CT_ERR_FORMAT, "%s: %lld bytes are too few for a model of llm.c", path,
            (long long)st.st_size);
  CT_TRY(ct_file_read_at(w->fd, path, 0, w->head, sizeof w->head));
  CT_TRY(check_header(w));
  CT_TRY(list_entries(w, &count));
  CT_TRY(check_size(w, st.st_size, count));
  describe(w);
  *out = w;
  w = NULL;
out:
  llmc_close(w);
  return rc;
}

/* ---- content ---- */

static int llmc_count(const ct_weights_t *w)
{
  return w->n;
}

static void llmc_tensor(const ct_weights_t *w, int i, ct_tensor_t *out)
{
  const entry_t *e = &w->entry[i];
  int64_t count = e->ndim == 2 ? e->dim[0] * e->dim[1] : e->dim[0];
  *out = (ct_tensor_t){e->name, w->type, e->ndim, e->dim, count};
}

static int llmc_read(ct_weights_t *w, int i, int64_t first, int64_t n, void *to)
{
  int64_t size = ct_elem_bits(w->type) / 8, at = (w->entry[i].at + first) * size;
  return ct_file_read_at(w->fd, w->path, (int64_t)sizeof w->head + at, to, (size_t)(n * size));
}

static const char *llmc_text(const ct_weights_t *w, const char *name)
{
  return strcmp(name, "model") == 0 ? w->model : NULL;
}

static const char *llmc_remark(const ct_weights_t *w)
{
  (void)w;
  return "is a model of llm.c";
}

static int llmc_probe(FILE *f)
{
  int32_t magic = 0;
  return fread(&magic, sizeof magic, 1, f) == 1 && magic == MAGIC;
}

const ct_weights_ops_t ct_weights_llmc = {
    .format = {"llm.c", {".bin"}, llmc_probe},
    .open = llmc_open,
    .count = llmc_count,
    .tensor = llmc_tensor,
    .read = llmc_read,
    .text = llmc_text,
    .remark = llmc_remark,
    .close = llmc_close,
};
