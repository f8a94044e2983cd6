/* Windows as elements: torch.nn.Unfold and torch.Tensor.unfold. */
#include <string.h>

#include "base/ct_err.h"
#include "model/layer_axes.h"
#include "model/layer_window.h"

/* ---- unfold ---- */

typedef struct {
  int64_t kernel[2], dilation[2], padding[2], stride[2];
} unfold_t;

static const ct_opt_t unfold_rows[] = {
    CT_OPT_PAIR(unfold_t, kernel, NULL, 1, 1 << 20, "height and width of a window"),
    CT_OPT_PAIR(unfold_t, dilation, "1", 1, 1 << 20, "distance of the pixels of a window"),
    CT_OPT_PAIR(unfold_t, padding, "0", 0, 1 << 20, "zeros around the image"),
    CT_OPT_PAIR(unfold_t, stride, "1", 1, 1 << 20, "distance of the windows"), CT_OPT_END};

static int64_t unfold_windows(const unfold_t *o, const ct_shape_t *in, int i)
{
  return ct_op_window_out(in->dim[2 + i], (int)o->kernel[i], (int)o->stride[i], (int)o->padding[i],
                          (int)o->dilation[i]);
}

static int unfold_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const unfold_t *o = opts;
  char text[80];
  CT_TRY(ct__layer_want_space(in, 2));
  for (int i = 1; i < 4; i++)
    CT_TRY(ct__layer_keeps_batch(in, i, "to cut into windows"));
  int64_t h = unfold_windows(o, in, 0), w = unfold_windows(o, in, 1);
  if (h < 1 || w < 1)
    CT_FAIL(CT_ERR_SHAPE, "its window does not fit into its input, %s",
            ct_shape_text(in, text, sizeof text));
  *out = ct_shape(3, in->dim[0], in->dim[1] * o->kernel[0] * o->kernel[1], h * w);
  out->batch = in->batch;
out:
  return rc;
}

static void unfold_attributes(const void *opts, ct_op_desc_t *d)
{
  static const int from[] = {0, 1, 2, 3, 2, 3};
  const unfold_t *o = opts;
  const int64_t view[] = {d->x.dim[0],
                          d->x.dim[1],
                          o->kernel[0],
                          o->kernel[1],
                          unfold_windows(o, &d->x, 0),
                          unfold_windows(o, &d->x, 1)};
  const int64_t step[] = {1, 1, o->dilation[0], o->dilation[1], o->stride[0], o->stride[1]};
  d->u.strided.y_view_dims = 6;
  memcpy(d->u.strided.y_view, view, sizeof view);
  memcpy(d->u.strided.from, from, sizeof from);
  memcpy(d->u.strided.step, step, sizeof step);
  for (int i = 0; i < 2; i++)
    d->u.strided.start[2 + i] = -o->padding[i];
}

const ct_layer_ops_t ct__layer_unfold = {
    .kind = "unfold",
    .help = "the windows of images as columns, torch.nn.Unfold",
    .opts_bytes = sizeof(unfold_t),
    .opts = unfold_rows,
    .inputs = 1,
    .general = 1,
    .infer = unfold_infer,
    .op = CT_OP_STRIDED,
    .attributes = unfold_attributes,
};

/* ---- windows ---- */

typedef struct {
  int64_t dim, size, step;
} windows_t;

static const ct_opt_t windows_rows[] = {
    CT_OPT_INT(windows_t, dim, NULL, -CT_MAX_DIMS, CT_MAX_DIMS - 1, "dim that is cut"),
    CT_OPT_INT(windows_t, size, NULL, 1, 1 << 30, "elements of a window"),
    CT_OPT_INT(windows_t, step, "1", 1, 1 << 30, "distance of the windows"), CT_OPT_END};

static int windows_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, axis;
  const windows_t *o = opts;
  if (in->ndim >= CT_MAX_DIMS)
    CT_FAIL(CT_ERR_SHAPE, "its input has %d dims, and one more is too many", in->ndim);
  CT_TRY(ct__layer_axis((double)o->dim, in->ndim, &axis));
  CT_TRY(ct__layer_keeps_batch(in, axis, "to cut into windows"));
  if (o->size > in->dim[axis])
    CT_FAIL(CT_ERR_SHAPE, "a window of %lld does not fit into dim %d, which has the size %lld",
            (long long)o->size, axis, (long long)in->dim[axis]);
  *out = *in;
  out->dim[axis] = (in->dim[axis] - o->size) / o->step + 1;
  out->dim[out->ndim++] = o->size;
out:
  return rc;
}

static void windows_attributes(const void *opts, ct_op_desc_t *d)
{
  const windows_t *o = opts;
  int axis = ct__layer_dim((double)o->dim, d->x.ndim);
  ct__layer_same_map(d);
  d->u.strided.step[axis] = o->step;
  d->u.strided.from[d->x.ndim] = axis;
  d->u.strided.step[d->x.ndim] = 1;
}

const ct_layer_ops_t ct__layer_windows = {
    .kind = "windows",
    .help = "the windows of a dim, torch.Tensor.unfold: their elements become the last dim",
    .opts_bytes = sizeof(windows_t),
    .opts = windows_rows,
    .inputs = 1,
    .general = 1,
    .infer = windows_infer,
    .op = CT_OP_STRIDED,
    .attributes = windows_attributes,
};
