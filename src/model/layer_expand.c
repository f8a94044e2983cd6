/* Elements that are there several times: torch.Tensor.expand and torch.Tensor.repeat. */
#include "base/ct_err.h"
#include "model/layer_axes.h"

/* ---- expand ---- */

typedef struct {
  ct_opt_texts_t shape;
} expand_t;

static const ct_opt_t expand_rows[] = {
    CT_OPT_TEXTS(
        expand_t, shape, NULL,
        "sizes such as [N, 4, -1]; -1 keeps a dim; dims of size 1, and new dims before the "
        "others, are repeated"),
    CT_OPT_END};

/* Checks and sets one dim: `size` is asked for, \a in has the dim `from`, or none if it is below
 * 0. */
static int expand_dim(const ct_shape_t *in, int from, const ct__size_t *size, int i,
                      ct_shape_t *out)
{
  int rc = CT_OK;
  int64_t has = from < 0 ? 1 : in->dim[from];
  int batch = from >= 0 && in->batch >> from & 1;
  if (size->n < 0 && from < 0) CT_FAIL(CT_ERR_SHAPE, "shape: -1 in place of a new dim");
  out->dim[i] = size->n < 0 ? has : size->n;
  out->batch |= (unsigned)(size->n < 0 ? batch : size->batch) << i;
  if (size->n < 0) return CT_OK;
  if (batch && (!size->batch || size->n != has))
    CT_FAIL(CT_ERR_SHAPE, "shape: dim %d of its input is the batch: write %lldN, or -1", from,
            (long long)has);
  if (has != size->n && has != 1)
    CT_FAIL(CT_ERR_SHAPE, "shape: dim %d of its input has the size %lld, not 1 or %lld", from,
            (long long)has, (long long)size->n);
  if (size->batch && !batch && has != 1)
    CT_FAIL(CT_ERR_SHAPE, "shape: dim %d of its input does not grow with the batch", from);
out:
  return rc;
}

static int expand_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, n = ((const expand_t *)opts)->shape.n;
  ct__size_t size[CT_MAX_DIMS];
  CT_TRY(ct__layer_sizes(&((const expand_t *)opts)->shape, -1, size));
  if (n < in->ndim)
    CT_FAIL(CT_ERR_SHAPE, "shape: expected at least %d sizes, one for each dim of its input",
            in->ndim);
  *out = ct_shape(n, 1);
  for (int i = 0; i < n; i++)
    CT_TRY(expand_dim(in, i - (n - in->ndim), &size[i], i, out));
  if (out->batch & (out->batch - 1))
    CT_FAIL(CT_ERR_SHAPE, "shape: more than one size grows with the batch");
out:
  return rc;
}

static void expand_attributes(const void *opts, ct_op_desc_t *d)
{
  int added = d->y.ndim - d->x.ndim;
  (void)opts;
  for (int i = 0; i < d->y.ndim; i++) {
    int from = i - added;
    d->u.strided.from[i] = from < 0 || d->x.dim[from] != d->y.dim[i] ? -1 : from;
    d->u.strided.step[i] = 1;
  }
}

const ct_layer_ops_t ct__layer_expand = {
    .kind = "expand",
    .help = "repeats dims of size 1, and adds dims before the others",
    .opts_bytes = sizeof(expand_t),
    .opts = expand_rows,
    .inputs = 1,
    .general = 1,
    .infer = expand_infer,
    .op = CT_OP_STRIDED,
    .attributes = expand_attributes,
};

/* ---- repeat ---- */

typedef struct {
  ct_opt_doubles_t counts;
} repeat_t;

static const ct_opt_t repeat_rows[] = {
    CT_OPT_DOUBLES(repeat_t, counts, NULL, "how often each dim is repeated: [1, 2]"), CT_OPT_END};

static int repeat_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const repeat_t *o = opts;
  int64_t count[CT_MAX_DIMS];
  CT_TRY(ct__layer_wholes("counts", &o->counts, count));
  if (o->counts.n < in->ndim)
    CT_FAIL(CT_ERR_SHAPE, "counts: expected at least %d, one for each dim of its input", in->ndim);
  *out = ct_shape(o->counts.n, 1);
  for (int i = 0; i < o->counts.n; i++) {
    int from = i - (o->counts.n - in->ndim);
    if (count[i] < 1) CT_FAIL(CT_ERR_SHAPE, "counts: %lld is below 1", (long long)count[i]);
    if (from >= 0 && count[i] > 1) CT_TRY(ct__layer_keeps_batch(in, from, "to repeat"));
    out->dim[i] = count[i] * (from < 0 ? 1 : in->dim[from]);
    if (from >= 0) out->batch |= (in->batch >> from & 1) << i;
  }
out:
  return rc;
}

static void repeat_attributes(const void *opts, ct_op_desc_t *d)
{
  int added = d->y.ndim - d->x.ndim;
  (void)opts;
  for (int i = 0; i < d->y.ndim; i++) {
    d->u.strided.from[i] = i < added ? -1 : i - added;
    d->u.strided.step[i] = 1;
    if (i >= added) d->u.strided.edge[i - added] = CT_EDGE_WRAP;
  }
}

const ct_layer_ops_t ct__layer_repeat = {
    .kind = "repeat",
    .help = "repeats the whole of each dim",
    .opts_bytes = sizeof(repeat_t),
    .opts = repeat_rows,
    .inputs = 1,
    .general = 1,
    .infer = repeat_infer,
    .op = CT_OP_STRIDED,
    .attributes = repeat_attributes,
};
