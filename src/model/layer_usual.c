/* Shape checks, empty options and initializers shared by layer kinds.  The messages name the
 * expected and the actual shape; the graph prefixes them with the layer's name. */
#include "model/layer_usual.h"

#include <math.h>

#include "base/ct_err.h"

const ct_opt_t ct__layer_no_options[] = {CT_OPT_END};

int ct__layer_want_space(const ct_shape_t *in, int space)
{
  int rc = CT_OK;
  char shape[80];
  static const char *const what[] = {"sequences (N x C x L)", "images (N x C x H x W)",
                                     "volumes (N x C x D x H x W)"};
  if (in->ndim != 2 + space)
    CT_FAIL(CT_ERR_SHAPE, "needs %s, but its input is %s", what[space - 1],
            ct_shape_text(in, shape, sizeof shape));
out:
  return rc;
}

int ct__layer_want_sequence(const ct_shape_t *in)
{
  int rc = CT_OK;
  char shape[80];
  if (in->ndim != 3)
    CT_FAIL(CT_ERR_SHAPE, "needs a sequence (N x T x features), but its input is %s",
            ct_shape_text(in, shape, sizeof shape));
out:
  return rc;
}

int ct__layer_want_channels(const ct_shape_t *in)
{
  return ct__layer_want_space(in, in->ndim == 5 ? 3 : 2);
}

ct_param_spec_t ct__layer_uniform(const char *suffix, ct_shape_t shape, int64_t fan_in)
{
  return (ct_param_spec_t){suffix, shape, CT_INIT_UNIFORM, 1 / sqrt((double)fan_in), 0};
}

ct_param_spec_t ct__layer_xavier(const char *suffix, int64_t out, int64_t in)
{
  return (ct_param_spec_t){.suffix = suffix,
                           .shape = ct_shape(2, out, in),
                           .init = CT_INIT_UNIFORM,
                           .scale = sqrt(6 / ((double)in + (double)out))};
}
