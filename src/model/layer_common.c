#include "model/layer_common.h"

#include <inttypes.h>
#include <math.h>

#include "base/ct_err.h"

const ct_opt_t ct__no_options[] = {CT_OPT_END};

int ct__want_image(const ct_shape_t *in)
{
  int rc = CT_OK;
  char shape[80];
  if (in->ndim != 4)
    CT_FAIL(CT_ERR_SHAPE, "wants images (N x C x H x W), but its input is %s",
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

int ct__window_infer(const ct__window_t *w, const ct_shape_t *in, int64_t channels, ct_shape_t *out)
{
  int rc = CT_OK;
  int64_t size[2], span[2];
  char shape[80];
  for (int i = 0; i < 2; i++) {
    span[i] = w->dilation[i] * (w->kernel[i] - 1) + 1;
    size[i] = ct_op_window_out(in->dim[2 + i], (int)w->kernel[i], (int)w->stride[i],
                               (int)w->padding[i], (int)w->dilation[i]);
  }
  if (size[0] < 1 || size[1] < 1)
    CT_FAIL(CT_ERR_SHAPE,
            "its window spans %" PRId64 "x%" PRId64
            " pixels, but its input %s with padding %" PRId64 "x%" PRId64 " is smaller",
            span[0], span[1], ct_shape_text(in, shape, sizeof shape), w->padding[0], w->padding[1]);
  *out = ct_shape(4, in->dim[0], channels, size[0], size[1]);
out:
  return rc;
}

ct__window_t ct__pool_window(const int64_t kernel[2], const int64_t stride[2],
                             const int64_t padding[2])
{
  ct__window_t w = {.dilation = {1, 1}};
  for (int i = 0; i < 2; i++) {
    w.kernel[i] = kernel[i];
    w.stride[i] = stride[i] ? stride[i] : kernel[i];
    w.padding[i] = padding[i];
  }
  return w;
}

int ct__pool_infer(const ct__window_t *w, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct__want_image(in));
  for (int i = 0; i < 2; i++)
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
  ct__pair_to_int(w->kernel, d->u.pool.kernel);
  ct__pair_to_int(w->stride, d->u.pool.stride);
  ct__pair_to_int(w->padding, d->u.pool.pad);
}

void ct__pair_to_int(const int64_t from[2], int to[2])
{
  to[0] = (int)from[0];
  to[1] = (int)from[1];
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
