#include "model/layer_common.h"

#include <inttypes.h>
#include <math.h>

#include "base/ct_err.h"

const ct_opt_t ct__no_options[] = {CT_OPT_END};

int ct__want_space(const ct_shape_t *in, int space)
{
  int rc = CT_OK;
  char shape[80];
  if (in->ndim != 2 + space)
    CT_FAIL(CT_ERR_SHAPE, "wants %s, but its input is %s",
            space == 2 ? "images (N x C x H x W)" : "volumes (N x C x D x H x W)",
            ct_shape_text(in, shape, sizeof shape));
out:
  return rc;
}

int ct__want_sequence(const ct_shape_t *in)
{
  int rc = CT_OK;
  char shape[80];
  if (in->ndim != 3)
    CT_FAIL(CT_ERR_SHAPE, "wants a sequence (N x T x features), but its input is %s",
            ct_shape_text(in, shape, sizeof shape));
out:
  return rc;
}

int ct__want_channels(const ct_shape_t *in)
{
  return ct__want_space(in, in->ndim == 5 ? 3 : 2);
}

/* "3x3" */
static const char *size_text(int space, const int64_t size[3], char *buf, size_t cap)
{
  ct_shape_t s = ct_shape_dims(space, (const int64_t[CT_MAX_DIMS]){size[0], size[1], size[2]});
  return ct_shape_text(&s, buf, cap);
}

int ct__window_infer(const ct__window_t *w, const ct_shape_t *in, int64_t channels, ct_shape_t *out)
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

ct__window_t ct__pool_window(int space, const int64_t kernel[3], const int64_t stride[3],
                             const int64_t padding[3])
{
  ct__window_t w = {.space = space, .dilation = {1, 1, 1}};
  for (int i = 0; i < space; i++) {
    w.kernel[i] = kernel[i];
    w.stride[i] = stride[i] ? stride[i] : kernel[i];
    w.padding[i] = padding[i];
  }
  return w;
}

int ct__pool_infer(const ct__window_t *w, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct__want_space(in, w->space));
  for (int i = 0; i < w->space; i++)
    if (2 * w->padding[i] > w->kernel[i])
      CT_FAIL(CT_ERR_SHAPE, "padding %" PRId64 " is more than half of its kernel %" PRId64,
              w->padding[i], w->kernel[i]);
  CT_TRY(ct__window_infer(w, in, in->dim[1], out));
out:
  return rc;
}

void ct__pool_lower(const ct__window_t *w, const ct_shape_t *in, const ct_shape_t *out,
                    ct_op_desc_t *d)
{
  ct_op_desc_init(d, CT_OP_POOL, in, out);
  ct__window_ints(w->space, w->kernel, d->u.pool.kernel);
  ct__window_ints(w->space, w->stride, d->u.pool.stride);
  ct__window_ints(w->space, w->padding, d->u.pool.pad);
}

void ct__window_ints(int space, const int64_t from[3], int to[3])
{
  for (int i = 0; i < space; i++)
    to[i] = (int)from[i];
}

int ct__same_shape(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  (void)opts;
  *out = *in;
  return CT_OK;
}

int ct__no_params(const void *opts, const ct_shape_t *in, ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  (void)opts;
  (void)in;
  (void)spec;
  return 0;
}

ct_param_spec_t ct__uniform_param(const char *suffix, ct_shape_t shape, int64_t fan_in)
{
  return (ct_param_spec_t){suffix, shape, CT_INIT_UNIFORM, 1 / sqrt((double)fan_in), 0};
}

ct_param_spec_t ct__xavier_param(const char *suffix, int64_t out, int64_t in)
{
  return (ct_param_spec_t){.suffix = suffix,
                           .shape = ct_shape(2, out, in),
                           .init = CT_INIT_UNIFORM,
                           .scale = sqrt(6 / ((double)in + (double)out))};
}
