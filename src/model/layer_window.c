/* Convolutions and pools see their input through a window that slides: one place for the shape that
 * comes of it, in two and in three dimensions, and for PyTorch's rules on strides and padding. */
#include "model/layer_window.h"

#include <inttypes.h>

#include "base/ct_err.h"
#include "model/layer_usual.h"

/* "3x3" */
static const char *size_text(int space, const int64_t size[3], char *buf, size_t cap)
{
  ct_shape_t s = ct_shape_dims(space, (const int64_t[CT_MAX_DIMS]){size[0], size[1], size[2]});
  return ct_shape_text(&s, buf, cap);
}

int ct__layer_window_infer(const ct__layer_window_t *w, const ct_shape_t *in, int64_t channels,
                           ct_shape_t *out)
{
  int rc = CT_OK, fits = 1;
  int64_t dim[CT_MAX_DIMS] = {in->dim[0], channels}, span[3];
  char shape[80], spans[80], padding[80];
  for (int i = 0; i < w->space; i++) {
    span[i] = w->dilation[i] * (w->kernel[i] - 1) + 1;
    dim[2 + i] = ct_op_window_out(in->dim[2 + i], (int)w->kernel[i], (int)w->stride[i],
                                  (int)w->padding[i], (int)w->dilation[i]);
    fits &= dim[2 + i] >= 1;
  }
  if (!fits)
    CT_FAIL(CT_ERR_SHAPE, "its window spans %s pixels, but its input %s with padding %s is smaller",
            size_text(w->space, span, spans, sizeof spans), ct_shape_text(in, shape, sizeof shape),
            size_text(w->space, w->padding, padding, sizeof padding));
  *out = ct_shape_dims(2 + w->space, dim);
out:
  return rc;
}

ct__layer_window_t ct__layer_pool_window(int space, const int64_t kernel[3],
                                         const int64_t stride[3], const int64_t padding[3])
{
  ct__layer_window_t w = {.space = space, .dilation = {1, 1, 1}};
  for (int i = 0; i < space; i++) {
    w.kernel[i] = kernel[i];
    w.stride[i] = stride[i] ? stride[i] : kernel[i];
    w.padding[i] = padding[i];
  }
  return w;
}

int ct__layer_pool_infer(const ct__layer_window_t *w, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct__layer_want_space(in, w->space));
  for (int i = 0; i < w->space; i++)
    if (2 * w->padding[i] > w->kernel[i])
      CT_FAIL(CT_ERR_SHAPE, "padding %" PRId64 " is more than half of its kernel %" PRId64,
              w->padding[i], w->kernel[i]);
  CT_TRY(ct__layer_window_infer(w, in, in->dim[1], out));
out:
  return rc;
}

void ct__layer_pool_lower(const ct__layer_window_t *w, const ct_shape_t *in, const ct_shape_t *out,
                          ct_op_desc_t *d)
{
  ct_op_desc_init(d, CT_OP_POOL, in, out);
  ct__layer_window_ints(w->space, w->kernel, d->u.pool.kernel);
  ct__layer_window_ints(w->space, w->stride, d->u.pool.stride);
  ct__layer_window_ints(w->space, w->padding, d->u.pool.pad);
}

void ct__layer_window_ints(int space, const int64_t from[3], int to[3])
{
  for (int i = 0; i < space; i++)
    to[i] = (int)from[i];
}
