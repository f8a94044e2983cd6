/* Elementwise functions of one input, named as in torch and torch.nn.functional.  Each is a program
 * of one function or a few (ct_expr.h).  Activations that plans fuse are in layer_act.c. */
#include "model/layer_usual.h"

#include <math.h>

#include "base/ct_err.h"

/* A kind: its name and help; the members of its entry for options; the body that adds the steps to
 * the program e. */
#define KIND_WITH(word, text, options, ...)                                 \
  static void attributes_##word(const void *opts, ct_op_desc_t *d)          \
  {                                                                         \
    ct_expr_t *e = &d->u.expr;                                              \
    (void)opts;                                                             \
    __VA_ARGS__;                                                            \
  }                                                                         \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,                   \
                                           .help = text,                    \
                                           .inputs = 1,                     \
                                           .general = 1,                    \
                                           .op = CT_OP_EXPR,                \
                                           .attributes = attributes_##word, \
                                           options};
#define NO_OPTIONS            .opts = ct__layer_no_options
#define OPTIONS(type, rows)   .opts_bytes = sizeof(type), .opts = rows
#define PLAIN(word, text, fn) KIND_WITH(word, text, NO_OPTIONS, ct_expr_add(e, fn, 0, 0, 0))

PLAIN(exp, "exp(x)", CT_FN_EXP)
PLAIN(expm1, "exp(x) - 1", CT_FN_EXPM1)
PLAIN(log, "natural logarithm", CT_FN_LOG)
PLAIN(log1p, "log(1 + x)", CT_FN_LOG1P)
PLAIN(sin, "sine", CT_FN_SIN)
PLAIN(cos, "cosine", CT_FN_COS)
PLAIN(tan, "tangent", CT_FN_TAN)
PLAIN(asin, "arc sine", CT_FN_ASIN)
PLAIN(acos, "arc cosine", CT_FN_ACOS)
PLAIN(atan, "arc tangent", CT_FN_ATAN)
PLAIN(sinh, "hyperbolic sine", CT_FN_SINH)
PLAIN(cosh, "hyperbolic cosine", CT_FN_COSH)
PLAIN(sqrt, "square root", CT_FN_SQRT)
PLAIN(rsqrt, "1 / sqrt(x)", CT_FN_RSQRT)
PLAIN(abs, "absolute value", CT_FN_ABS)
PLAIN(sign, "-1, 0 or 1", CT_FN_SIGN)
PLAIN(floor, "largest whole number that is not above x", CT_FN_FLOOR)
PLAIN(ceil, "smallest whole number that is not below x", CT_FN_CEIL)
PLAIN(round, "nearest whole number, even in case of a tie", CT_FN_ROUND)
PLAIN(detach, "x, through which no gradient passes", CT_FN_DETACH)
PLAIN(erf, "error function", CT_FN_ERF)
PLAIN(logical_not, "1 where x is 0, else 0", CT_FN_NOT)
PLAIN(mish, "x * tanh(log(1 + exp(x)))", CT_FN_MISH)
PLAIN(hardswish, "x * min(max(x + 3, 0), 6) / 6", CT_FN_HARDSWISH)
PLAIN(logsigmoid, "log(1 / (1 + exp(-x)))", CT_FN_LOGSIGMOID)
PLAIN(gelu_tanh, "GELU, approximated with tanh", CT_FN_GELU_TANH)

KIND_WITH(neg, "-x", NO_OPTIONS, ct_expr_add(e, CT_FN_MUL, 0, ct_expr_const(e, -1), 0))
KIND_WITH(reciprocal, "1 / x", NO_OPTIONS, ct_expr_add(e, CT_FN_DIV, ct_expr_const(e, 1), 0, 0))
KIND_WITH(square, "x * x", NO_OPTIONS, ct_expr_add(e, CT_FN_MUL, 0, 0, 0))
KIND_WITH(softsign, "x / (1 + |x|)", NO_OPTIONS, int size = ct_expr_add(e, CT_FN_ABS, 0, 0, 0);
          int more = ct_expr_add(e, CT_FN_ADD, size, ct_expr_const(e, 1), 0);
          ct_expr_add(e, CT_FN_DIV, 0, more, 0))
KIND_WITH(tanhshrink, "x - tanh(x)", NO_OPTIONS,
          ct_expr_add(e, CT_FN_SUB, 0, ct_expr_add(e, CT_FN_TANH, 0, 0, 0), 0))
KIND_WITH(hardsigmoid, "min(max(x + 3, 0), 6) / 6", NO_OPTIONS,
          int cut = ct_expr_add(e, CT_FN_HARDTANH, 0, ct_expr_const(e, -3), ct_expr_const(e, 3));
          int sum = ct_expr_add(e, CT_FN_ADD, cut, ct_expr_const(e, 3), 0);
          ct_expr_add(e, CT_FN_DIV, sum, ct_expr_const(e, 6), 0))
/* the constants are those of torch.nn.SELU */
KIND_WITH(selu, "scaled ELU that keeps mean 0 and variance 1", NO_OPTIONS,
          int elu = ct_expr_add(e, CT_FN_ELU, 0, ct_expr_const(e, 1.6732632423543772848), 0);
          ct_expr_add(e, CT_FN_MUL, elu, ct_expr_const(e, 1.0507009873554804934), 0))

/* ---- with options ---- */

typedef struct {
  double alpha;
} elu_t;

static const ct_opt_t elu_rows[] = {
    CT_OPT_DOUBLE(elu_t, alpha, "1", -1e6, 1e6, "limit for small x, but for the sign"), CT_OPT_END};
static const ct_opt_t celu_rows[] = {
    CT_OPT_DOUBLE(elu_t, alpha, "1", 1e-6, 1e6, "limit for small x, but for the sign"), CT_OPT_END};

KIND_WITH(elu, "x if x > 0, else alpha * (exp(x) - 1)", OPTIONS(elu_t, elu_rows),
          ct_expr_add(e, CT_FN_ELU, 0, ct_expr_const(e, ((const elu_t *)opts)->alpha), 0))
KIND_WITH(celu, "x if x > 0, else alpha * (exp(x / alpha) - 1)", OPTIONS(elu_t, celu_rows),
          int alpha = ct_expr_const(e, ((const elu_t *)opts)->alpha);
          int scaled = ct_expr_add(e, CT_FN_DIV, 0, alpha, 0);
          int elu = ct_expr_add(e, CT_FN_ELU, scaled, ct_expr_const(e, 1), 0);
          ct_expr_add(e, CT_FN_MUL, elu, alpha, 0))

typedef struct {
  double beta, threshold;
} softplus_t;

static const ct_opt_t softplus_rows[] = {
    CT_OPT_DOUBLE(softplus_t, beta, "1", -1e6, 1e6, "factor of x"),
    CT_OPT_DOUBLE(softplus_t, threshold, "20", -1e6, 1e6, "above it, beta * x is taken as large"),
    CT_OPT_END};

KIND_WITH(softplus, "log(1 + exp(beta * x)) / beta", OPTIONS(softplus_t, softplus_rows),
          const softplus_t *o = opts;
          ct_expr_add(e, CT_FN_SOFTPLUS, 0, ct_expr_const(e, o->beta),
                      ct_expr_const(e, o->threshold)))

typedef struct {
  double min, max;
} hardtanh_t;

static const ct_opt_t hardtanh_rows[] = {
    CT_OPT_DOUBLE(hardtanh_t, min, "-1", -1e30, 1e30, "lower bound"),
    CT_OPT_DOUBLE(hardtanh_t, max, "1", -1e30, 1e30, "upper bound"), CT_OPT_END};

KIND_WITH(hardtanh, "min(max(x, min), max)", OPTIONS(hardtanh_t, hardtanh_rows),
          const hardtanh_t *o = opts;
          ct_expr_add(e, CT_FN_HARDTANH, 0, ct_expr_const(e, o->min), ct_expr_const(e, o->max)))

typedef struct {
  double lambda;
} shrink_t;

static const ct_opt_t shrink_rows[] = {
    CT_OPT_DOUBLE(shrink_t, lambda, "0.5", 0, 1e30, "half the width of the range that becomes 0"),
    CT_OPT_END};

KIND_WITH(hardshrink, "0 if |x| <= lambda, else x", OPTIONS(shrink_t, shrink_rows),
          ct_expr_add(e, CT_FN_HARDSHRINK, 0, ct_expr_const(e, ((const shrink_t *)opts)->lambda),
                      0))
KIND_WITH(softshrink, "0 if |x| <= lambda, else x moved towards 0 by lambda",
          OPTIONS(shrink_t, shrink_rows),
          ct_expr_add(e, CT_FN_SOFTSHRINK, 0, ct_expr_const(e, ((const shrink_t *)opts)->lambda),
                      0))

typedef struct {
  double threshold, value;
} threshold_t;

static const ct_opt_t threshold_rows[] = {
    CT_OPT_DOUBLE(threshold_t, threshold, NULL, -1e30, 1e30, "x must be above it"),
    CT_OPT_DOUBLE(threshold_t, value, NULL, -1e30, 1e30, "result for other x"), CT_OPT_END};

KIND_WITH(threshold, "x if x > threshold, else value", OPTIONS(threshold_t, threshold_rows),
          const threshold_t *o = opts;
          ct_expr_add(e, CT_FN_THRESHOLD, 0, ct_expr_const(e, o->threshold),
                      ct_expr_const(e, o->value)))

typedef struct {
  char *min, *max;
} clamp_t;

static const ct_opt_t clamp_rows[] = {
    CT_OPT_TEXT(clamp_t, min, "", "lower bound; none if it is empty"),
    CT_OPT_TEXT(clamp_t, max, "", "upper bound; none if it is empty"), CT_OPT_END};

static int clamp_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const clamp_t *o = opts;
  double unused;
  if (!*o->min && !*o->max) CT_FAIL(CT_ERR_SHAPE, "needs min or max");
  if (*o->min) CT_TRY(ct__layer_number("min", o->min, &unused));
  if (*o->max) CT_TRY(ct__layer_number("max", o->max, &unused));
  *out = in[0];
out:
  return rc;
}

#define CLAMP_OPTIONS OPTIONS(clamp_t, clamp_rows), .infer = clamp_infer
KIND_WITH(clamp, "min(max(x, min), max); min or max may be left out", CLAMP_OPTIONS,
          const clamp_t *o = opts;
          double min = -INFINITY; double max = INFINITY;
          if (*o->min) ct__layer_number("min", o->min, &min);
          if (*o->max) ct__layer_number("max", o->max, &max);
          ct_expr_add(e, CT_FN_CLAMP, 0, ct_expr_const(e, min), ct_expr_const(e, max)))
