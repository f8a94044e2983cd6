/* torch.nn.Linear: y = x w^T + b over the last dim of N x ... x features.  The batch may be in any
 * other dim. */
#include "model/layer_dims.h"
#include "model/layer_usual.h"

#include "base/ct_err.h"

enum { INIT_DEFAULT, INIT_XAVIER, INIT_ZERO };

typedef struct {
  int64_t out;
  int bias, init, bias_init, conv1d;
  double weight_std;
} linear_t;

enum { BIAS_DEFAULT, BIAS_ZERO };

static const ct_opt_t rows[] = {
    CT_OPT_INT(linear_t, out, NULL, 1, 1 << 30, "output features"),
    CT_OPT_BOOL(linear_t, bias, "true", "add a trained bias per feature"),
    CT_OPT_CHOICE(linear_t, init, "default", "default|xavier|zero",
                  "initial weights: as torch.nn.Linear; Xavier uniform (Glorot and Bengio 2010) "
                  "with a bias near zero; zero"),
    CT_OPT_DOUBLE(linear_t, weight_std, "0", 0, 1e3,
                  "standard deviation of normal initial weights; 0: PyTorch's default"),
    CT_OPT_CHOICE(linear_t, bias_init, "default", "default|zero",
                  "initial bias: PyTorch's default, or zero"),
    CT_OPT_BOOL(linear_t, conv1d, "false",
                "weight files hold the weight transposed, in x out, as the Conv1D of GPT-2 in "
                "transformers; checkpoints do not"),
    CT_OPT_END};

static int linear_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const linear_t *o = opts;
  char shape[80];
  if (in->ndim < 2)
    CT_FAIL(CT_ERR_SHAPE, "needs N x ... x features, but its input is %s",
            ct_shape_text(in, shape, sizeof shape));
  CT_TRY(ct__layer_no_batch(in, 1u << (in->ndim - 1), "its sums"));
  *out = *in;
  out->dim[in->ndim - 1] = o->out;
out:
  return rc;
}

static int linear_params(const void *opts, const ct_shape_t *in,
                         ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const linear_t *o = opts;
  int64_t features = in->dim[in->ndim - 1];
  spec[0] = ct__layer_uniform("weight", ct_shape(2, o->out, features), features);
  spec[1] = ct__layer_uniform("bias", ct_shape(1, o->out), features);
  if (o->init == INIT_XAVIER) {
    spec[0] = ct__layer_xavier("weight", o->out, features);
    spec[1].init = CT_INIT_NORMAL;
    spec[1].scale = 1e-6;
  }
  if (o->init == INIT_ZERO) spec[0].init = spec[1].init = CT_INIT_ZERO;
  if (o->weight_std > 0) {
    spec[0].init = CT_INIT_NORMAL;
    spec[0].scale = o->weight_std;
  }
  if (o->bias_init == BIAS_ZERO) spec[1].init = CT_INIT_ZERO;
  return o->bias ? 2 : 1;
}

static int linear_conv1d(const void *opts)
{
  const linear_t *o = opts;
  return o->conv1d;
}

static void linear_attributes(const void *opts, ct_op_desc_t *d)
{
  const linear_t *o = opts;
  d->u.linear.bias = o->bias;
}

const ct_layer_ops_t ct__layer_linear = {
    .kind = "linear",
    .help = "fully connected layer over the last dim",
    .opts_bytes = sizeof(linear_t),
    .opts = rows,
    .inputs = 1,
    .general = 1,
    .infer = linear_infer,
    .params = linear_params,
    .conv1d = linear_conv1d,
    .op = CT_OP_LINEAR,
    .attributes = linear_attributes,
};
