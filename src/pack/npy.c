/* A source of two NumPy arrays: samples, and their labels or targets. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "data/readers/ct_reader.h"
#include "pack/array.h"
#include "pack/ct_pack_in.h"

typedef struct pair {
  ct__pack_array_t x, y;
  int channels_last;
  int32_t *label; /* labels of all samples; NULL: targets instead */
  double *room;   /* a row of the targets, of the size of the largest type */
  const char *input[3];
} pair_t;

/* Interprets dims in the same way as for HDF5 data sets (FORMAT.md). */
static int sample_shape(const ct__pack_array_t *a, const ct_shape_t *given, int *channels_last,
                        ct_shape_t *out)
{
  int rc = CT_OK;
  const int64_t *d = a->dim;
  *channels_last = !given->ndim && ct_reader_guess_last(d + 1, a->ndim - 1);
  *out = *given;
  if (given->ndim && ct_shape_sample(given) != a->row)
    CT_FAIL(CT_ERR_USAGE,
            "%s: a sample has %" PRId64 " numbers, but the shape that is given %" PRId64, a->path,
            a->row, ct_shape_sample(given));
  if (!given->ndim)
    *out = a->ndim == 1     ? ct_shape(2, 1, 1)
           : a->ndim == 2   ? ct_shape(2, 1, d[1])
           : a->ndim == 3   ? ct_shape(4, 1, 1, d[1], d[2])
           : a->ndim == 5   ? (*channels_last ? ct_shape(5, 1, d[4], d[1], d[2], d[3])
                                              : ct_shape(5, 1, d[1], d[2], d[3], d[4]))
           : *channels_last ? ct_shape(4, 1, d[3], d[1], d[2])
                            : ct_shape(4, 1, d[1], d[2], d[3]);
  out->dtype = ct__pack_array_dtype(a);
  if (!given->ndim && ct_reader_guess_doubtful(d + 1, a->ndim - 1))
    ct_log(CT_LOG_WARN,
           "%s: samples are taken to have %" PRId64 " channels, which come first, though the last "
           "dim is the smallest: write the array with channels first if it holds them; --shape "
           "ends this warning",
           a->path, out->dim[1]);
out:
  return rc;
}

/* ---- labels and targets ---- */

static int read_labels(pair_t *p, ct_pack_source_t *out)
{
  int rc = CT_OK;
  ct__pack_array_t *y = &p->y;
  ct_dtype_t type = ct__pack_array_dtype(y);
  if (y->row != 1)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: %" PRId64 " integers belong to a sample, expected one label (or targets: floats)",
            y->path, y->row);
  p->label = ct_mem_array(y->dim[0], sizeof *p->label, "labels");
  if (!p->label) CT_TRY(CT_ERR_NOMEM);
  for (int64_t i = 0; i < y->dim[0]; i++) {
    int64_t room = 0;
    if (ct__pack_array_row(y, i, 0, &room) != CT_OK)
      CT_TRY(ct_err_prefix(CT_ERR_FORMAT, "%s, label %" PRId64 ": ", y->path, i));
    int64_t label = ct_dtype_whole(type, &room);
    if (label < 0 || label >= INT32_MAX)
      CT_FAIL(CT_ERR_FORMAT, "%s, label %" PRId64 ": %" PRId64 " is not a class number", y->path, i,
              label);
    p->label[i] = (int32_t)label;
    if (label >= out->classes) out->classes = label + 1;
  }
out:
  return rc;
}

static int32_t npy_label_of(void *state, int64_t index)
{
  return ((const pair_t *)state)->label[index];
}

static int read_targets(pair_t *p, int64_t index, float *to)
{
  int rc = CT_OK;
  rc = ct__pack_array_row(&p->y, index, 0, p->room);
  if (rc == CT_ERR_DATA) rc = ct_err_prefix(rc, "its targets in %s: ", p->y.path);
  CT_TRY(rc);
  ct_elem_floats(p->y.type, p->room, p->y.row, to);
out:
  return rc;
}

/* ---- the source ---- */

static int read_sample(void *state, int64_t index, ct_pack_sample_t *to)
{
  int rc = CT_OK;
  pair_t *p = state;
  CT_TRY(ct__pack_array_row(&p->x, index, p->channels_last, to->x));
  if (!p->label) CT_TRY(read_targets(p, index, to->targets));
out:
  return rc;
}

static void npy_place_of(void *state, int64_t index, char *buf, size_t cap)
{
  ct_text_fit(buf, cap, "%s, sample %" PRId64, ((const pair_t *)state)->x.path, index);
}

static void close_pair(void *state)
{
  pair_t *p = state;
  if (!p) return;
  ct__pack_array_clear(&p->x);
  ct__pack_array_clear(&p->y);
  ct_mem_free(p->label);
  ct_mem_free(p->room);
  ct_mem_free(p);
}

static uint64_t identity(const char *path, uint64_t seed)
{
  char file[CT_PATH_MAX];
  const char *colon = strrchr(path, ':');
  seed = ct_pack_identity(path, seed); /* with the name of an array */
  if (!colon || ct_text_format(file, sizeof file, "%.*s", (int)(colon - path), path) != CT_OK)
    return seed;
  return ct_pack_identity(file, seed);
}

int ct_pack_open_npy(const char *images, const char *labels, const ct_shape_t *shape,
                     ct_pack_source_t *out)
{
  int rc = CT_OK;
  pair_t *p = ct_mem_alloc(sizeof *p, "arrays");
  *out = (ct_pack_source_t){0};
  if (!p) return CT_ERR_NOMEM;
  p->x.fd = p->y.fd = -1;
  CT_TRY(ct__pack_array_open(images, "images", &p->x));
  CT_TRY(ct__pack_array_open(labels, "labels", &p->y));
  if (p->x.dim[0] != p->y.dim[0])
    CT_FAIL(CT_ERR_FORMAT, "%s has %" PRId64 " samples, but %s has %" PRId64 " labels", images,
            p->x.dim[0], labels, p->y.dim[0]);
  CT_TRY(sample_shape(&p->x, shape, &p->channels_last, &out->x));
  if (ct__pack_array_is_real(&p->y)) {
    out->targets = p->y.row;
    p->room = ct_mem_array(p->y.row, sizeof *p->room, "targets");
    if (!p->room) CT_TRY(CT_ERR_NOMEM);
  } else {
    CT_TRY(ct__pack_array_load(&p->y));
    CT_TRY(read_labels(p, out));
    out->label = npy_label_of;
  }
  p->input[0] = images;
  p->input[1] = labels;
  out->samples = p->x.dim[0];
  out->unsigned16 = p->x.type == CT_ELEM_U16;
  out->identity = identity(labels, identity(images, 0));
  out->inputs = p->input;
  out->read = read_sample;
  out->place = npy_place_of;
  out->close = close_pair;
  out->state = p;
  p = NULL;
out:
  close_pair(p);
  if (rc != CT_OK) *out = (ct_pack_source_t){0};
  return rc;
}

int ct_pack_is_npy(const char *path)
{
  size_t n = strlen(path);
  const char *npz = strstr(path, ".npz");
  return (n > 4 && strcmp(path + n - 4, ".npy") == 0) ||
         (n > 7 && strcmp(path + n - 7, ".npy.gz") == 0) ||
         (npz && (npz[4] == '\0' || npz[4] == ':'));
}
