/* CIFAR-10 and CIFAR-100 (Krizhevsky) as distributed: files of records (one or two bytes of labels
 * and 3 x 32 x 32 bytes of pixels), or Python pickles of the same data. */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pack/cifar.h"
#include "pack/ct_pack_in.h"

enum { PIXELS = 3 * 32 * 32 };

typedef struct batch {
  char *data; /* owned */
  const uint8_t *pixels;
  size_t stride; /* samples in pixels */
  int64_t samples;
} batch_t;

typedef struct cifar {
  char **path;
  const char **input; /* the same, terminated by NULL */
  int files;
  batch_t *batch; /* [files] */
  uint8_t *label; /* labels of all samples */
  int64_t samples, cap;
  int coarse;
  int classes; /* classes of the set; 0: the files are of several sets */
  ct__cifar_names_t names;
} cifar_t;

/* Notes the number of classes of a file: 10, 100, or 20 coarse ones. */
static void note_classes(cifar_t *c, int classes)
{
  c->classes = c->samples == 0 || c->classes == classes ? classes : 0;
}

static int add_label(cifar_t *c, int64_t label)
{
  int rc = CT_OK;
  CT_TRY(ct_mem_grow((void **)&c->label, &c->cap, c->samples + 1, sizeof *c->label));
  c->label[c->samples++] = (uint8_t)label;
out:
  return rc;
}

/* ---- records ---- */

/* Returns 1 if every record of so many bytes begins with a label below 10. */
static int all_below_ten(const uint8_t *p, size_t bytes, size_t record)
{
  for (size_t at = 0; at < bytes; at += record)
    if (p[at] > 9) return 0;
  return 1;
}

static int read_records(cifar_t *c, const char *path, batch_t *b)
{
  int rc = CT_OK;
  size_t bytes, labels = 1;
  CT_TRY(ct_file_read(path, &b->data, &bytes));
  const uint8_t *p = (const uint8_t *)b->data;
  if (bytes == 0 || bytes % (PIXELS + 1) != 0 || !all_below_ten(p, bytes, PIXELS + 1)) labels = 2;
  size_t record = PIXELS + labels;
  if (bytes == 0 || bytes % record != 0)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: is not a CIFAR file: expected records of %d bytes (CIFAR-10) or %d (CIFAR-100), "
            "or a pickle",
            path, PIXELS + 1, PIXELS + 2);
  if (c->coarse && labels == 1) CT_FAIL(CT_ERR_USAGE, "%s: CIFAR-10 has no coarse labels", path);
  b->pixels = p + labels;
  b->stride = record;
  b->samples = (int64_t)(bytes / record);
  int classes = labels == 1 ? 10 : c->coarse ? 20 : 100;
  note_classes(c, classes);
  for (int64_t i = 0; i < b->samples; i++) {
    const uint8_t *label = p + (size_t)i * record + (labels == 2 && !c->coarse);
    if (*label >= classes)
      CT_FAIL(CT_ERR_FORMAT, "%s, record %" PRId64 ": %d is not a class number", path, i, *label);
    CT_TRY(add_label(c, *label));
  }
out:
  return rc;
}

/* ---- pickles ---- */

/* Returns 1 if a node is a call of a function whose name ends with \a end. */
static int is_call(const ct_pickle_t *p, int node, const char *end)
{
  const ct_pickle_node_t *n = &p->node[node];
  if (n->kind != CT_PICKLE_CALL || p->node[n->first].kind != CT_PICKLE_GLOBAL) return 0;
  const char *name = ct_pickle_text(p, n->first);
  size_t len = strlen(name), tail = strlen(end);
  return len >= tail && strcmp(name + len - tail, end) == 0;
}

/* Converts Latin-1 text in UTF-8 back to bytes, in place; returns their number or -1. */
static int64_t from_latin(char *text, int64_t bytes)
{
  int64_t n = 0;
  for (int64_t i = 0; i < bytes; i++, n++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= 0x80 && (c > 0xc3 || c < 0xc2 || i + 1 == bytes)) return -1;
    if (c >= 0x80) c = (unsigned char)((c & 3) << 6 | (text[++i] & 0x3f));
    text[n] = (char)c;
  }
  return n;
}

/* Finds the bytes of a NumPy array: a str of Python 2, or a call of _codecs.encode of Python 3. */
static int array_bytes(const ct_pickle_t *p, int node, const char **out, int64_t *bytes)
{
  int arg[2], state[5];
  if (!is_call(p, node, "multiarray._reconstruct") || p->node[node].value < 1) return 0;
  int n = (int)p->node[node].value - 1;
  if (p->node[n].kind != CT_PICKLE_TUPLE || ct_pickle_items(p, n, 5, state) != 5) return 0;
  if (p->node[state[3]].kind == CT_PICKLE_BOOL && p->node[state[3]].value) return 0; /* Fortran */
  int raw = state[4];
  if (is_call(p, raw, "_codecs.encode") && ct_pickle_items(p, p->node[raw].last, 2, arg) == 2 &&
      p->node[arg[0]].kind == CT_PICKLE_TEXT) {
    *out = ct_pickle_text(p, arg[0]);
    *bytes = from_latin((char *)*out, p->node[arg[0]].count);
    return *bytes >= 0;
  }
  *out = ct_pickle_text(p, raw);
  *bytes = p->node[raw].count;
  return p->node[raw].kind == CT_PICKLE_TEXT;
}

static int take_labels(cifar_t *c, const ct_pickle_t *p, const char *path, int64_t n)
{
  int rc = CT_OK, classes = 10, list = c->coarse ? -1 : ct__cifar_find(p, "labels");
  if (list < 0) {
    list = ct__cifar_find(p, c->coarse ? "coarse_labels" : "fine_labels");
    classes = c->coarse ? 20 : 100;
  }
  if (list < 0 || p->node[list].kind != CT_PICKLE_LIST || p->node[list].count != n)
    CT_FAIL(CT_ERR_FORMAT, "%s: expected a list of %" PRId64 " %s", path, n,
            c->coarse ? "coarse_labels" : "labels");
  note_classes(c, classes);
  for (int cell = p->node[list].first, i = 0; cell >= 0; cell = p->cell[cell].next, i++) {
    const ct_pickle_node_t *label = &p->node[p->cell[cell].node];
    if (label->kind != CT_PICKLE_INT || label->value < 0 || label->value >= classes)
      CT_FAIL(CT_ERR_FORMAT, "%s, label %d: expected a number from 0 to %d", path, i, classes - 1);
    CT_TRY(add_label(c, label->value));
  }
out:
  return rc;
}

static int read_pickle(cifar_t *c, const char *path, int fd, int64_t size, batch_t *b)
{
  int rc = CT_OK, data;
  const char *bytes;
  int64_t n = 0;
  ct_pickle_t p;
  CT_TRY(ct_pickle_load(fd, path, "CIFAR's pickle", 0, size, &p, NULL));
  data = ct__cifar_find(&p, "data");
  if (data < 0 || !array_bytes(&p, data, &bytes, &n) || n == 0 || n % PIXELS != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: expected an array 'data' of %d bytes a sample", path, PIXELS);
  b->samples = n / PIXELS;
  CT_TRY(take_labels(c, &p, path, b->samples));
  b->data = ct_mem_alloc((size_t)n, "CIFAR's pixels");
  if (!b->data) CT_TRY(CT_ERR_NOMEM);
  memcpy(b->data, bytes, (size_t)n);
  b->pixels = (const uint8_t *)b->data;
  b->stride = PIXELS;
out:
  ct_pickle_clear(&p);
  return rc;
}

static int read_batch(cifar_t *c, const char *path, batch_t *b)
{
  int rc = CT_OK;
  unsigned char first = 0;
  struct stat st;
  CT_TRY(ct_file_regular(path));
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) {
    if (fd >= 0) close(fd);
    CT_FAIL(CT_ERR_IO, "%s: cannot be opened", path);
  }
  if (st.st_size > 0) rc = ct_file_read_at(fd, path, 0, &first, 1);
  if (rc == CT_OK && first == 0x80) /* no label is so high, and every pickle begins with it */
    rc = read_pickle(c, path, fd, st.st_size, b);
  else if (rc == CT_OK)
    rc = read_records(c, path, b);
  close(fd);
out:
  return rc;
}

/* ---- the source ---- */

static int locate(const cifar_t *c, int64_t index, int64_t *row)
{
  int i = 0;
  for (; index >= c->batch[i].samples; i++)
    index -= c->batch[i].samples;
  *row = index;
  return i;
}

static int read_sample(void *state, int64_t index, ct_pack_sample_t *to)
{
  const cifar_t *c = state;
  int64_t row;
  const batch_t *b = &c->batch[locate(c, index, &row)];
  memcpy(to->x, b->pixels + (size_t)row * b->stride, PIXELS);
  return CT_OK;
}

static int32_t cifar_label_of(void *state, int64_t index)
{
  return ((const cifar_t *)state)->label[index];
}

static void cifar_place_of(void *state, int64_t index, char *buf, size_t cap)
{
  const cifar_t *c = state;
  int64_t row;
  int i = locate(c, index, &row);
  ct_text_fit(buf, cap, "%s, image %" PRId64, c->path[i], row);
}

static void close_cifar(void *state)
{
  cifar_t *c = state;
  if (!c) return;
  for (int i = 0; i < c->files && c->batch; i++)
    ct_mem_free(c->batch[i].data);
  ct_mem_free(c->batch);
  ct_mem_free(c->label);
  ct_mem_free(c->input);
  ct__cifar_names_clear(&c->names);
  if (c->path) ct_file_list_free(c->path, c->files);
  ct_mem_free(c);
}

/* Lists the files of the pattern; the list of inputs has space for the file of names and a NULL. */
static int list_files(cifar_t *c, const char *pattern)
{
  int rc = CT_OK;
  CT_TRY(ct_file_glob(".", pattern, &c->path, &c->files));
  c->batch = ct_mem_array(c->files, sizeof *c->batch, "CIFAR's files");
  c->input = ct_mem_array(c->files + 2, sizeof *c->input, "CIFAR's files");
  if (!c->batch || !c->input) CT_TRY(CT_ERR_NOMEM);
  for (int i = 0; i < c->files; i++)
    c->input[i] = c->path[i];
out:
  return rc;
}

/* Names the classes: if names are known, all classes of the set count, even without samples. */
static int name_classes(cifar_t *c, ct_pack_source_t *out)
{
  int rc = CT_OK;
  for (int64_t i = 0; i < c->samples; i++)
    if (c->label[i] >= out->classes) out->classes = c->label[i] + 1;
  if (c->classes) CT_TRY(ct__cifar_names(c->path[0], c->classes, &c->names));
  if (!c->names.n) goto out;
  out->classes = c->names.n;
  out->class_names = c->names.name;
  out->identity = ct_pack_identity(c->names.path, out->identity);
  c->input[c->files] = c->names.path;
out:
  return rc;
}

int ct_pack_open_cifar(const char *pattern, int coarse, ct_pack_source_t *out)
{
  int rc = CT_OK;
  cifar_t *c = ct_mem_alloc(sizeof *c, "CIFAR's files");
  *out = (ct_pack_source_t){0};
  if (!c) return CT_ERR_NOMEM;
  c->coarse = coarse;
  CT_TRY(list_files(c, pattern));
  for (int i = 0; i < c->files; i++) {
    CT_TRY(read_batch(c, c->path[i], &c->batch[i]));
    out->identity = ct_pack_identity(c->path[i], out->identity);
  }
  CT_TRY(name_classes(c, out));
  out->identity += (uint64_t)coarse;
  out->samples = c->samples;
  out->x = ct_shape(4, 1, 3, 32, 32);
  out->x.dtype = CT_U8;
  out->inputs = c->input;
  out->read = read_sample;
  out->label = cifar_label_of;
  out->place = cifar_place_of;
  out->close = close_cifar;
  out->state = c;
  c = NULL;
out:
  close_cifar(c);
  if (rc != CT_OK) *out = (ct_pack_source_t){0};
  return rc;
}
