/* A parameter, a buffer, or a constant of the model that other layers take as input, as
 * torch.nn.Parameter and register_buffer(): a layer without inputs.  The name of the layer is the
 * name in the state dict. */
#include "model/layer_usual.h"

#include <inttypes.h>
#include <math.h>

#include "base/ct_err.h"

typedef struct {
  ct_opt_doubles_t shape;
  double fill, std;
  int complex;
} operand_t;

static const ct_opt_t operand_rows[] = {
    CT_OPT_DOUBLES(operand_t, shape, NULL, "its shape, without a batch, such as [64, 1, 1]"),
    CT_OPT_DOUBLE(operand_t, fill, "0", -1e30, 1e30, "initial value of all elements"),
    CT_OPT_DOUBLE(operand_t, std, "0", 0, 1e30,
                  "standard deviation of normal initial values; 0: all are `fill`"),
    CT_OPT_BOOL(operand_t, complex, "false",
                "its last dim, of 2, is the real and imaginary part of numbers that weight files "
                "hold as complex64"),
    CT_OPT_END};

static int operand_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const operand_t *o = opts;
  int64_t dim[CT_MAX_DIMS] = {0};
  (void)in;
  if (o->shape.n < 1 || o->shape.n > CT_MAX_DIMS)
    CT_FAIL(CT_ERR_SHAPE, "shape: expected 1 to %d numbers, not %d", CT_MAX_DIMS, o->shape.n);
  for (int i = 0; i < o->shape.n; i++) {
    double v = o->shape.v[i];
    if (!(v >= 1 && v <= INT32_MAX && v == floor(v)))
      CT_FAIL(CT_ERR_SHAPE, "shape: %g is not a whole number of at least 1", v);
    dim[i] = (int64_t)v;
  }
  if (o->complex && o->shape.v[o->shape.n - 1] != 2)
    CT_FAIL(CT_ERR_SHAPE, "shape: the last dim of complex numbers is 2, not %g",
            o->shape.v[o->shape.n - 1]);
  *out = ct_shape_dims(o->shape.n, dim);
out:
  return rc;
}

static void describe(const operand_t *o, int buffer, ct_param_spec_t *spec)
{
  ct_shape_t shape;
  operand_infer(o, NULL, &shape); /* it succeeded before */
  *spec = (ct_param_spec_t){.suffix = "",
                            .shape = shape,
                            .buffer = buffer,
                            .init = o->std > 0 ? CT_INIT_NORMAL : CT_INIT_FILL,
                            .scale = o->std > 0 ? o->std : o->fill};
}

/* A kind: its name and help, and the value of ct_param_spec_t.buffer. */
#define KIND(word, text, buffer)                                            \
  static int params_##word(const void *opts, const ct_shape_t *in,          \
                           ct_param_spec_t spec[CT_LAYER_PARAMS])           \
  {                                                                         \
    (void)in;                                                               \
    describe(opts, buffer, spec);                                           \
    return 1;                                                               \
  }                                                                         \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,                   \
                                           .help = text,                    \
                                           .opts_bytes = sizeof(operand_t), \
                                           .opts = operand_rows,            \
                                           .general = 1,                    \
                                           .infer = operand_infer,          \
                                           .params = params_##word,         \
                                           .op = CT_OP_OPERAND};

KIND(parameter, "a trained tensor that other layers take as input", 0)
KIND(buffer, "a tensor of the state dict that is not trained", 1)
KIND(constant, "a tensor that is neither trained nor in state dicts", CT_CONSTANT)
