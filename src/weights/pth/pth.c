/* A .pth or .pt2 file as a weight file: its records, its pickle, the tensors of the selected dict,
 * and the table of operations. */
#include "weights/pth/ct_weights_pth.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "weights/ct_names.h"
#include "weights/pth/pth.h"

enum {
  MOST_PICKLE = 64 << 20, /* bytes */
  MOST_TEXT = 1 << 20,    /* bytes of one text of this program */
  MOST_TEXTS = 64,
  MOST_TENSORS = 1 << 18,
  HEAD = 512 /* bytes by which the format is recognized */
};

/* ---- tensors ---- */

static int pth_by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const ct_weights_t *w)
{
  int rc = CT_OK;
  const char **names = ct_mem_array(w->n + 1, sizeof *names, "names of tensors");
  if (!names) CT_TRY(CT_ERR_NOMEM);
  for (int64_t i = 0; i < w->n; i++)
    names[i] = w->tensor[i].name;
  qsort(names, (size_t)w->n, sizeof *names, pth_by_name);
  for (int64_t i = 1; i < w->n; i++)
    if (strcmp(names[i], names[i - 1]) == 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s' is there twice", w->path, names[i]);
out:
  ct_mem_free(names);
  return rc;
}

/* Reads all tensors of a dict; a remark lists items that are not tensors. */
static int take_tensors(ct_weights_t *w, int dict)
{
  int rc = CT_OK, others = 0;
  const ct_pickle_t *p = &w->pickle;
  ct_str_t list = {0};
  for (int c = p->node[dict].first; c >= 0; c = ct__pth_next(p, c)) {
    const char *name = ct__pth_key(p, c);
    if (!ct__pth_is_tensor(p, ct__pth_value(p, c)))
      CT_TRY(ct_names_list(&list, others++, name ? name : "?"));
    else if (w->n == MOST_TENSORS)
      CT_FAIL(CT_ERR_FORMAT, "%s: more than %d tensors", w->path, MOST_TENSORS);
    else if (!name)
      CT_FAIL(CT_ERR_FORMAT, "%s: the name of a tensor is not printable text", w->path);
    else
      CT_TRY(ct__pth_add(w, ct__pth_value(p, c), name));
  }
  CT_TRY(ct_names_list_end(&list, others));
  if (others)
    CT_TRY(ct_str_add(&w->remark, "%sskips values that are not tensors: %s",
                      w->remark.len ? ", " : "", list.data));
  CT_TRY(ct__pth_remark_unread(w));
  CT_TRY(check_names(w));
out:
  ct_str_clear(&list);
  return rc;
}

/* ---- the zip format ---- */

/* Finds a record in the archive's top-level directory; NULL: missing. */
static const ct_zip_record_t *find_record(const ct_weights_t *w, const char *name)
{
  char path[1200];
  size_t folder = strlen(w->prefix) - strlen("data/");
  if (ct_text_format(path, sizeof path, "%.*s%s", (int)folder, w->prefix, name) != CT_OK)
    return NULL;
  return ct_zip_find(&w->zip, path);
}

static int has_record(const ct_weights_t *w, const char *end)
{
  size_t n = strlen(end);
  for (int64_t i = 0; i < w->zip.n; i++) {
    const char *name = w->zip.record[i].name;
    if (strlen(name) >= n && strcmp(name + strlen(name) - n, end) == 0) return 1;
  }
  return 0;
}

/* Explains what a zip archive without weights is. */
static int refuse_zip(const ct_weights_t *w)
{
  int rc = CT_OK;
  if (has_record(w, ".npy"))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: archive of NumPy's arrays (.npz): expected a state_dict() that torch.save wrote",
            w->path);
  if (has_record(w, "model.weights.h5"))
    CT_FAIL(CT_ERR_FORMAT, "%s: model of Keras, whose weights are not PyTorch's", w->path);
  CT_FAIL(CT_ERR_FORMAT, "%s: zip archive without 'data.pkl', which torch.save writes", w->path);
out:
  return rc;
}

/* Finds the top-level directory of all records: the directory of data.pkl. */
static int find_folder(ct_weights_t *w)
{
  int rc = CT_OK;
  static const char pickle[] = "data.pkl";
  ct_str_t prefix = {0};
  for (int64_t i = 0; i < w->zip.n && !prefix.len; i++) {
    const char *slash = strchr(w->zip.record[i].name, '/');
    if (slash && strcmp(slash + 1, pickle) == 0)
      CT_TRY(ct_str_add(&prefix, "%.*s/data/", (int)(slash - w->zip.record[i].name),
                        w->zip.record[i].name));
  }
  if (!prefix.len) CT_TRY(refuse_zip(w));
  w->prefix = prefix.data;
  prefix.data = NULL;
  if (find_record(w, "constants.pkl"))
    CT_FAIL(CT_ERR_FORMAT,
            "%s: TorchScript archive, which is a program; expected a state_dict() that torch.save "
            "wrote",
            w->path);
out:
  ct_str_clear(&prefix);
  return rc;
}

static int check_order(const ct_weights_t *w)
{
  int rc = CT_OK;
  char *order = NULL;
  const ct_zip_record_t *r = find_record(w, "byteorder");
  if (!r) goto out;
  CT_TRY(ct__pth_record(w, r, 64, &order));
  if (strcmp(order, "little") != 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: numbers are not in little-endian order, as its record 'byteorder' "
            "says",
            w->path);
out:
  ct_mem_free(order);
  return rc;
}

static int pth_read_text(ct_weights_t *w, const ct_zip_record_t *r, const char *name)
{
  int rc = CT_OK;
  char *text = NULL;
  CT_TRY(ct__pth_record(w, r, MOST_TEXT, &text));
  if (strlen(text) != (size_t)r->bytes || !ct_text_is_utf8(text))
    CT_FAIL(CT_ERR_FORMAT, "%s: record '%s' is not text", w->path, r->name);
  CT_TRY(ct_mem_grow((void **)&w->text, &w->text_cap, w->texts + 1, sizeof *w->text));
  w->text[w->texts++] = (ct_weights_text_t){name, text};
  text = NULL;
out:
  ct_mem_free(text);
  return rc;
}

/* Reads the texts of this program; their names are borrowed from the records. */
static int read_texts(ct_weights_t *w)
{
  int rc = CT_OK;
  size_t folder = strlen(w->prefix) - strlen("data/"), own = strlen(CT__PTH_TEXTS);
  for (int64_t i = 0; i < w->zip.n; i++) {
    const ct_zip_record_t *r = &w->zip.record[i];
    if (strncmp(r->name, w->prefix, folder) != 0 ||
        strncmp(r->name + folder, CT__PTH_TEXTS, own) != 0 || !r->name[folder + own])
      continue;
    if (w->texts == MOST_TEXTS)
      CT_FAIL(CT_ERR_FORMAT, "%s: more than %d records '" CT__PTH_TEXTS "'", w->path, MOST_TEXTS);
    CT_TRY(pth_read_text(w, r, r->name + folder + own));
  }
out:
  return rc;
}

/* Verifies a record. The checksum covers the whole record, so all of it is read. */
static int check_record(const ct_weights_t *w, const ct_zip_record_t *r)
{
  char *whole = NULL;
  int rc = ct__pth_record(w, r, MOST_PICKLE, &whole);
  ct_mem_free(whole);
  return rc;
}

static int open_zip(ct_weights_t *w, ct_pt2_list_t which)
{
  int rc = CT_OK;
  CT_TRY(ct_zip_open(w->fd, w->path, w->bytes, &w->zip));
  if (ct__pt2_is(w)) return ct__pt2_open(w, which);
  CT_TRY(find_folder(w));
  CT_TRY(check_order(w));
  CT_TRY(read_texts(w));
  const ct_zip_record_t *r = find_record(w, "data.pkl");
  CT_TRY(check_record(w, r));
  CT_TRY(ct_pickle_load(w->fd, w->path, "data.pkl", r->at, r->at + r->bytes, &w->pickle, NULL));
out:
  return rc;
}

/* ---- table of operations ---- */

static void pth_close_file(ct_weights_t *w)
{
  if (!w) return;
  if (w->fd >= 0) close(w->fd);
  for (int64_t i = 0; i < w->n; i++)
    ct_mem_free(w->tensor[i].dim);
  ct_mem_free(w->tensor);
  ct_pickle_clear(&w->pickle);
  json_decref(w->json);
  ct_mem_free(w->first);
  ct_zip_clear(&w->zip);
  ct_str_clear(&w->remark);
  ct_str_clear(&w->unread_list);
  ct_mem_free(w->prefix);
  for (int64_t i = 0; i < w->texts; i++)
    ct_mem_free((char *)w->text[i].text);
  ct_mem_free(w->text);
  ct_mem_free(w->sum);
  ct_mem_free(w->held);
  ct_mem_free(w->path);
  ct_mem_free(w);
}

/* Explains what a file with neither format is. */
static int refuse_head(const ct_weights_t *w, const unsigned char *head, int64_t n)
{
  int rc = CT_OK;
  if (n > 262 && memcmp(head + 257, "ustar", 5) == 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: tar archive of PyTorch before 0.4: load it there and write it by torch.save",
            w->path);
  if (n > 1 && head[0] == 0x80)
    CT_FAIL(CT_ERR_FORMAT, "%s: pickle that torch.save did not write", w->path);
  CT_FAIL(CT_ERR_FORMAT,
          "%s: is not a .pth file: neither the zip archive nor the pickles of torch.save", w->path);
out:
  return rc;
}

int ct__pth_open_format(ct_weights_t *w, ct_pt2_list_t which)
{
  int rc = CT_OK;
  unsigned char head[HEAD];
  int64_t n = w->bytes < HEAD ? w->bytes : HEAD;
  CT_TRY(ct_file_read_at(w->fd, w->path, 0, head, (size_t)n));
  if (n > 4 && ct_zip_u32(head) == CT_ZIP_LOCAL)
    CT_TRY(open_zip(w, which));
  else if (ct__pth_is_old(head, n))
    CT_TRY(ct__pth_open_old(w));
  else
    CT_TRY(refuse_head(w, head, n));
out:
  return rc;
}

int ct__pth_open_path(const char *path, ct_weights_t **out)
{
  int rc = CT_OK;
  struct stat st;
  ct_weights_t *w = ct_mem_alloc(sizeof *w, "a .pth file");
  if (!w) return CT_ERR_NOMEM;
  w->fd = w->holder = -1;
  w->pickle.root = -1;
  w->path = ct_mem_strdup(path);
  if (!w->path) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_file_regular(path));
  w->fd = ct_file_open(path, O_RDONLY, 0);
  if (w->fd < 0 || fstat(w->fd, &st) != 0)
    CT_FAIL(CT_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
  w->bytes = st.st_size;
  *out = w;
  w = NULL;
out:
  pth_close_file(w);
  return rc;
}

int ct__pth_open_end(ct_weights_t *w)
{
  w->sum = ct_mem_array(w->zip.n + 1, sizeof *w->sum, "checksums");
  return w->sum ? CT_OK : CT_ERR_NOMEM;
}

static int pth_open_file(const char *path, const char *key, ct_weights_t **out)
{
  int rc = CT_OK, dict;
  ct_weights_t *w = NULL;
  *out = NULL;
  CT_TRY(ct__pth_open_path(path, &w));
  CT_TRY(ct__pth_open_format(w, CT_PT2_LIST_WEIGHTS));
  if (w->json) {
    CT_TRY(ct__pt2_take(w, key));
  } else {
    CT_TRY(ct__pth_choose(w, key, &dict));
    CT_TRY(take_tensors(w, dict));
    CT_TRY(ct__pth_nanogpt(w));
  }
  CT_TRY(ct__pth_open_end(w));
  *out = w;
  w = NULL;
out:
  pth_close_file(w);
  return rc;
}

static int list_parts(const char *path, ct_weights_parts_t *out)
{
  int rc = CT_OK;
  ct_weights_t *w = NULL;
  CT_TRY(ct__pth_open_path(path, &w));
  CT_TRY(ct__pth_open_format(w, CT_PT2_LIST_WEIGHTS));
  *out = (ct_weights_parts_t){0}; /* a .pt2 archive is not nested */
  if (!w->json) CT_TRY(ct__pth_parts(w, out));
out:
  pth_close_file(w);
  return rc;
}

static int pth_count(const ct_weights_t *w)
{
  return (int)w->n;
}

static void pth_tensor(const ct_weights_t *w, int i, ct_tensor_t *out)
{
  const ct__pth_tensor_t *t = &w->tensor[i];
  *out = (ct_tensor_t){t->name, t->type, t->ndim, t->dim, t->count};
}

static const char *text(const ct_weights_t *w, const char *name)
{
  for (int64_t i = 0; i < w->texts; i++)
    if (strcmp(w->text[i].name, name) == 0) return w->text[i].text;
  return NULL;
}

static const char *pth_remark(const ct_weights_t *w)
{
  return w->remark.data;
}

static int pth_probe(FILE *f)
{
  unsigned char head[16];
  size_t n = fread(head, 1, sizeof head, f);
  return (n > 4 && ct_zip_u32(head) == CT_ZIP_LOCAL) || ct__pth_is_old(head, (int64_t)n);
}

const ct_weights_ops_t ct_weights_pth = {
    .format = {"PyTorch", {".pth", ".pt", ".bin", ".ckpt", ".pt2"}, pth_probe},
    .conv1d = 1,
    .open = pth_open_file,
    .parts = list_parts,
    .count = pth_count,
    .tensor = pth_tensor,
    .read = ct__pth_read,
    .text = text,
    .remark = pth_remark,
    .close = pth_close_file,
    .create = ct__pth_create,
    .put = ct__pth_put,
    .commit = ct__pth_commit,
    .discard = ct__pth_discard,
};
