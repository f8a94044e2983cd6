/* Activations other than ReLU: torch.nn.LeakyReLU, ReLU6, GELU, Sigmoid, Tanh, SiLU.  All are one
 * op with a kind and at most one parameter. */
#include "model/layer_usual.h"

typedef struct {
  double negative_slope;
} leaky_relu_t;

typedef struct {
  double scale;
} tanh_t;

static const ct_opt_t leaky_relu_rows[] = {
    CT_OPT_DOUBLE(leaky_relu_t, negative_slope, "0.01", 0, 1e6, "slope for x < 0"), CT_OPT_END};
static const ct_opt_t tanh_rows[] = {
    CT_OPT_DOUBLE(tanh_t, scale, "1", 1e-6, 1e6, "factor of the result"), CT_OPT_END};

/* A kind: its name and help; the type of its options and their rows; alpha. */
#define KIND(word, text, which, bytes, rows, slope)                \
  static void attributes_##word(const void *opts, ct_op_desc_t *d) \
  {                                                                \
    (void)opts;                                                    \
    d->u.act.kind = which;                                         \
    d->u.act.alpha = slope;                                        \
  }                                                                \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,          \
                                           .help = text,           \
                                           .opts_bytes = bytes,    \
                                           .opts = rows,           \
                                           .inputs = 1,            \
                                           .general = 1,           \
                                           .op = CT_OP_ACT,        \
                                           .attributes = attributes_##word};

KIND(leaky_relu, "max(x, 0) + negative_slope * min(x, 0)", CT_ACT_LEAKY_RELU, sizeof(leaky_relu_t),
     leaky_relu_rows, ((const leaky_relu_t *)opts)->negative_slope)
KIND(relu6, "min(max(x, 0), 6)", CT_ACT_RELU6, 0, ct__layer_no_options, 0)
KIND(gelu, "x * normal distribution function of x, exact (erf)", CT_ACT_GELU, 0,
     ct__layer_no_options, 0)
KIND(sigmoid, "1 / (1 + exp(-x))", CT_ACT_SIGMOID, 0, ct__layer_no_options, 0)
KIND(tanh, "scale * tanh(x)", CT_ACT_TANH, sizeof(tanh_t), tanh_rows, ((const tanh_t *)opts)->scale)
KIND(silu, "x * sigmoid(x)", CT_ACT_SILU, 0, ct__layer_no_options, 0)
