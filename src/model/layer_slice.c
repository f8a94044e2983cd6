/* Parts of a dim, and its elements in another order: x[..., start:end:step, ...], torch.roll and
 * torch.flip. */
#include "base/ct_err.h"
#include "model/layer_axes.h"

/* ---- slice ---- */

typedef struct {
  int64_t dim, start, end, step;
} slice_t;

static const ct_opt_t slice_rows[] = {
    CT_OPT_INT(slice_t, dim, NULL, -CT_MAX_DIMS, CT_MAX_DIMS - 1, "dim that is cut"),
    CT_OPT_INT(slice_t, start, "0", -0x1p63, 0x1p63,
               "first index; negative: from the end of the dim"),
    CT_OPT_INT(slice_t, end, "1099511627776", -0x1p63, 0x1p63,
               "index after the last one; beyond the end: up to the end"),
    CT_OPT_INT(slice_t, step, "1", 1, 1 << 30, "distance of the indices"), CT_OPT_END};

/* Returns an index as Python does, in 0 … n. */
static int64_t slice_clamp(int64_t i, int64_t n)
{
  if (i < 0) i += n;
  return i < 0 ? 0 : i > n ? n : i;
}

static int slice_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, axis;
  const slice_t *o = opts;
  CT_TRY(ct__layer_axis((double)o->dim, in->ndim, &axis));
  int64_t n = in->dim[axis], start = slice_clamp(o->start, n), end = slice_clamp(o->end, n);
  if (o->step != 1 || o->start != 0 || o->end < INT32_MAX)
    CT_TRY(ct__layer_keeps_batch(in, axis, "to cut"));
  if (start >= end)
    CT_FAIL(CT_ERR_SHAPE, "it cuts nothing out of dim %d, which has the size %lld", axis,
            (long long)n);
  *out = *in;
  out->dim[axis] = (end - start + o->step - 1) / o->step;
out:
  return rc;
}

static void slice_attributes(const void *opts, ct_op_desc_t *d)
{
  const slice_t *o = opts;
  int axis = ct__layer_dim((double)o->dim, d->x.ndim);
  ct__layer_same_map(d);
  d->u.strided.step[axis] = o->step;
  d->u.strided.start[axis] = slice_clamp(o->start, d->x.dim[axis]);
}

const ct_layer_ops_t ct__layer_slice = {
    .kind = "slice",
    .help = "a part of a dim, x[start:end:step]",
    .opts_bytes = sizeof(slice_t),
    .opts = slice_rows,
    .inputs = 1,
    .general = 1,
    .infer = slice_infer,
    .op = CT_OP_STRIDED,
    .attributes = slice_attributes,
};

/* ---- roll ---- */

typedef struct {
  ct_opt_doubles_t shifts, dims;
} roll_t;

static const ct_opt_t roll_rows[] = {
    CT_OPT_DOUBLES(roll_t, shifts, NULL, "places by which the elements move, per dim"),
    CT_OPT_DOUBLES(roll_t, dims, NULL, "dims along which they move"), CT_OPT_END};

static int roll_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, axis[CT_MAX_DIMS];
  const roll_t *o = opts;
  int64_t shift[CT_MAX_DIMS];
  if (o->shifts.n != o->dims.n)
    CT_FAIL(CT_ERR_SHAPE, "%d shifts for %d dims", o->shifts.n, o->dims.n);
  CT_TRY(ct__layer_wholes("shifts", &o->shifts, shift));
  CT_TRY(ct__layer_axes("dims", &o->dims, in->ndim, axis));
  for (int i = 0; i < o->dims.n; i++)
    if (shift[i]) CT_TRY(ct__layer_keeps_batch(in, axis[i], "to roll"));
  *out = *in;
out:
  return rc;
}

static void roll_attributes(const void *opts, ct_op_desc_t *d)
{
  const roll_t *o = opts;
  ct__layer_same_map(d);
  for (int i = 0; i < o->dims.n; i++) {
    int axis = ct__layer_dim(o->dims.v[i], d->x.ndim);
    d->u.strided.start[axis] = -((int64_t)o->shifts.v[i] % d->x.dim[axis]);
    d->u.strided.edge[axis] = CT_EDGE_WRAP;
  }
}

const ct_layer_ops_t ct__layer_roll = {
    .kind = "roll",
    .help = "moves the elements along dims; those that leave come in at the other end",
    .opts_bytes = sizeof(roll_t),
    .opts = roll_rows,
    .inputs = 1,
    .general = 1,
    .infer = roll_infer,
    .op = CT_OP_STRIDED,
    .attributes = roll_attributes,
};

/* ---- flip ---- */

typedef struct {
  ct_opt_doubles_t dims;
} flip_t;

static const ct_opt_t flip_rows[] = {
    CT_OPT_DOUBLES(flip_t, dims, NULL, "dims whose order is reversed"), CT_OPT_END};

static int flip_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, axis[CT_MAX_DIMS];
  const flip_t *o = opts;
  CT_TRY(ct__layer_axes("dims", &o->dims, in->ndim, axis));
  for (int i = 0; i < o->dims.n; i++)
    CT_TRY(ct__layer_keeps_batch(in, axis[i], "to reverse"));
  *out = *in;
out:
  return rc;
}

static void flip_attributes(const void *opts, ct_op_desc_t *d)
{
  const flip_t *o = opts;
  ct__layer_same_map(d);
  for (int i = 0; i < o->dims.n; i++) {
    int axis = ct__layer_dim(o->dims.v[i], d->x.ndim);
    d->u.strided.start[axis] = d->x.dim[axis] - 1;
    d->u.strided.step[axis] = -1;
  }
}

const ct_layer_ops_t ct__layer_flip = {
    .kind = "flip",
    .help = "reverses the order of the elements along dims",
    .opts_bytes = sizeof(flip_t),
    .opts = flip_rows,
    .inputs = 1,
    .general = 1,
    .infer = flip_infer,
    .op = CT_OP_STRIDED,
    .attributes = flip_attributes,
};
