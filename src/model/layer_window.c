/* Output shapes of convolution and pooling windows in one to three dims, as in PyTorch. */
#include "model/layer_window.h"

#include <math.h>

#include "base/ct_err.h"

/* Writes sizes as "3x3" into buf; returns buf. */
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
    dim[2 + i] = ct_op_pool_out(in->dim[2 + i], (int)w->kernel[i], (int)w->stride[i],
                                (int)w->padding[i], (int)w->dilation[i], w->ceil);
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

void ct__layer_conv_init(int init, int bias_init, ct_param_spec_t spec[2])
{
  enum { DEFAULT, HE_FAN_OUT, HE_FAN_IN, TRUNC_NORMAL };
  const ct_shape_t *w = &spec[0].shape;
  double fan = (double)w->dim[init == HE_FAN_OUT ? 0 : 1];
  for (int i = 2; i < w->ndim; i++)
    fan *= (double)w->dim[i];
  if (init == HE_FAN_OUT || init == HE_FAN_IN) {
    spec[0].init = CT_INIT_NORMAL;
    spec[0].scale = sqrt(2 / fan);
  }
  if (init == TRUNC_NORMAL) {
    spec[0].init = CT_INIT_TRUNC_NORMAL;
    spec[0].scale = sqrt(1 / fan);
  }
  if (bias_init || init == TRUNC_NORMAL) spec[1].init = CT_INIT_ZERO;
}

void ct__layer_window_ints(int space, const int64_t from[3], int to[3])
{
  for (int i = 0; i < space; i++)
    to[i] = (int)from[i];
}
