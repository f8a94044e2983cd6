/* Constants: arithmetic on elements, with broadcasting; and constants that are made of numbers
 * alone, such as arange. */
#include <math.h>
#include <string.h>

#include "pt2/fold.h"

/* ---- two arguments ---- */

/* An argument of an elementwise op: a tensor or a number. */
typedef struct operand {
  ct__array_t a;
  double number;
  int tensor;
} operand_t;

static int take_operand(const ct__fold_t *f, const char *name, operand_t *o)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  *o = (operand_t){0};
  o->tensor = arg && arg->kind == CT_PT2_TENSOR;
  return o->tensor ? ct__fold_in(f, name, &o->a) : ct__fold_number(f, name, &o->number);
}

/* The type in which PyTorch computes: that of the result; that of the arguments of a comparison. */
static ct_elem_t math_type(const ct__fold_t *f, const operand_t *o, int n)
{
  ct_elem_t best = CT_ELEM_BOOL;
  if (f->o.type != CT_ELEM_BOOL) return f->o.type;
  for (int i = 0; i < n; i++) {
    ct_elem_t type = o[i].a.type;
    if (!o[i].tensor || type == CT_ELEM_BOOL) continue;
    if (!ct__fold_is_float(type)) type = CT_ELEM_I64;
    if (best == CT_ELEM_BOOL ||
        (ct__fold_is_float(type) && (!ct__fold_is_float(best) || type > best)))
      best = type;
  }
  for (int i = 0; i < n; i++)
    if (!o[i].tensor && !ct__fold_is_float(best) && o[i].number != trunc(o[i].number))
      best = CT_ELEM_F32;
  return best == CT_ELEM_BOOL ? CT_ELEM_F64 : best;
}

/* y = two(x1, alpha * x2), after the arguments were converted to `type`.  PyTorch computes in
 * float32 for the types of 16 bits, and does not round numbers to these. */
static int math_apply(ct__fold_t *f, operand_t *o, ct_elem_t type, double alpha,
                      ct__fold_binary_t *two)
{
  ct__walk_t w;
  ct_elem_t with = type == CT_ELEM_F16 || type == CT_ELEM_BF16 ? CT_ELEM_F32 : type;
  ct__walk_start(&w, &f->o);
  for (int k = 0; k < 2; k++) {
    if (o[k].tensor && !ct__walk_broadcast(&w, k, &o[k].a)) return 0;
    if (!o[k].tensor && !ct__fold_round(with, o[k].number, &o[k].number)) return 0;
  }
  for (int64_t i = 0; i < f->o.count; i++, ct__walk_next(&w)) {
    double x[2];
    for (int k = 0; k < 2; k++) {
      x[k] = o[k].tensor ? o[k].a.x[w.off[k]] : o[k].number;
      if (o[k].tensor && !ct__fold_round(type, x[k], &x[k])) return 0;
    }
    if (alpha != 1 && !ct__fold_round(with, alpha * x[1], &x[1])) return 0;
    if (!ct__fold_round(f->o.type, two(x[0], x[1]), &f->y[i])) return 0;
  }
  return 1;
}

static int run_binary(ct__fold_t *f, const ct__fold_op_t *op)
{
  operand_t o[2];
  double alpha = 1;
  int reversed = ct_pt2_is(f->node, "aten.rsub"), power = ct_pt2_is(f->node, "aten.pow");
  if (!take_operand(f, "self", &o[0])) return 0;
  if (!take_operand(f, power ? "exponent" : "other", &o[1])) return 0;
  if (ct_pt2_arg(f->node, "alpha") && !ct__fold_number(f, "alpha", &alpha)) return 0;
  if (reversed) {
    operand_t swap = o[0];
    if (alpha != 1) return 0;
    o[0] = o[1];
    o[1] = swap;
  }
  return math_apply(f, o, math_type(f, o, 2), alpha, op->two);
}

static double two_add(double x, double y)
{
  return x + y;
}

static double two_sub(double x, double y)
{
  return x - y;
}

static double two_mul(double x, double y)
{
  return x * y;
}

static double two_div(double x, double y)
{
  return x / y;
}

static double two_floor_div(double x, double y)
{
  double q = floor(x / y);
  if (isfinite(q) && fmod(x, y) == 0) q = nearbyint(x / y);
  return q;
}

static double two_trunc_div(double x, double y)
{
  return trunc(x / y);
}

static double two_remainder(double x, double y)
{
  double r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static double two_max(double x, double y)
{
  return isnan(x) || isnan(y) ? NAN : x > y ? x : y;
}

static double two_min(double x, double y)
{
  return isnan(x) || isnan(y) ? NAN : x < y ? x : y;
}

static double two_eq(double x, double y)
{
  return x == y;
}

static double two_ne(double x, double y)
{
  return x != y;
}

static double two_lt(double x, double y)
{
  return x < y;
}

static double two_le(double x, double y)
{
  return x <= y;
}

static double two_gt(double x, double y)
{
  return x > y;
}

static double two_ge(double x, double y)
{
  return x >= y;
}

static double two_and(double x, double y)
{
  return x != 0 && y != 0;
}

static double two_or(double x, double y)
{
  return x != 0 || y != 0;
}

static double two_xor(double x, double y)
{
  return (x != 0) != (y != 0);
}

static double two_bits_and(double x, double y)
{
  return (double)((int64_t)x & (int64_t)y);
}

static double two_bits_or(double x, double y)
{
  return (double)((int64_t)x | (int64_t)y);
}

static double two_bits_xor(double x, double y)
{
  return (double)((int64_t)x ^ (int64_t)y);
}

/* Division by a divisor that may be 0, of whole numbers, is not computed. */
static int run_div(ct__fold_t *f, const ct__fold_op_t *op)
{
  const ct_pt2_arg_t *mode = ct_pt2_arg(f->node, "rounding_mode");
  ct__fold_op_t with = *op;
  operand_t o;
  if (!ct__fold_is_float(f->o.type)) {
    if (!take_operand(f, "other", &o)) return 0;
    for (int64_t i = 0; i < (o.tensor ? o.a.count : 1); i++)
      if ((o.tensor ? o.a.x[i] : o.number) == 0) return 0;
  }
  if (mode && mode->kind == CT_PT2_STRING)
    with.two = strcmp(mode->text, "floor") == 0 ? two_floor_div : two_trunc_div;
  return run_binary(f, &with);
}

static int run_bits(ct__fold_t *f, const ct__fold_op_t *op)
{
  return ct__fold_is_float(f->o.type) ? 0 : run_binary(f, op);
}

/* ---- one argument ---- */

static double one_neg(double x)
{
  return -x;
}

static double one_rsqrt(double x)
{
  return 1 / sqrt(x);
}

static double one_reciprocal(double x)
{
  return 1 / x;
}

static double one_square(double x)
{
  return x * x;
}

static double one_sign(double x)
{
  return (x > 0) - (x < 0);
}

static double one_relu(double x)
{
  return x < 0 ? 0 : x;
}

static double one_sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

static double one_not(double x)
{
  return x == 0;
}

static double one_isnan(double x)
{
  return isnan(x);
}

static double one_isinf(double x)
{
  return isinf(x) != 0;
}

static double one_isfinite(double x)
{
  return isfinite(x) != 0;
}

static double one_same(double x)
{
  return x;
}

static double one_bits_not(double x)
{
  return (double)~(int64_t)x;
}

static int run_unary(ct__fold_t *f, const ct__fold_op_t *op)
{
  ct__array_t a;
  int bits = ct_pt2_is(f->node, "aten.bitwise_not");
  if (!ct__fold_in(f, "self", &a) || a.count != f->o.count) return 0;
  if (bits && ct__fold_is_float(a.type)) return 0;
  for (int64_t i = 0; i < a.count; i++) {
    double x = a.x[i];
    if (ct__fold_is_float(f->o.type) && !ct__fold_round(f->o.type, x, &x)) return 0;
    x = bits && a.type == CT_ELEM_BOOL ? one_not(x) : op->one(x);
    if (!isfinite(x) && !ct__fold_is_float(f->o.type) && f->o.type != CT_ELEM_BOOL) return 0;
    if (!ct__fold_round(f->o.type, x, &f->y[i])) return 0;
  }
  return 1;
}

/* ---- choices ---- */

static int run_where(ct__fold_t *f, const ct__fold_op_t *op)
{
  int fill = ct_pt2_is(f->node, "aten.masked_fill");
  operand_t o[3];
  ct__walk_t w;
  (void)op;
  if (!take_operand(f, fill ? "mask" : "condition", &o[0]) ||
      !take_operand(f, fill ? "value" : "self", &o[1]) ||
      !take_operand(f, fill ? "self" : "other", &o[2]))
    return 0;
  ct__walk_start(&w, &f->o);
  for (int k = 0; k < 3; k++)
    if (o[k].tensor && !ct__walk_broadcast(&w, k, &o[k].a)) return 0;
  for (int64_t i = 0; i < f->o.count; i++, ct__walk_next(&w)) {
    int k = (o[0].tensor ? o[0].a.x[w.off[0]] : o[0].number) != 0 ? 1 : 2;
    if (!ct__fold_round(f->o.type, o[k].tensor ? o[k].a.x[w.off[k]] : o[k].number, &f->y[i]))
      return 0;
  }
  return 1;
}

static int run_clamp(ct__fold_t *f, const ct__fold_op_t *op)
{
  double least = -INFINITY, most = INFINITY;
  ct__array_t a;
  (void)op;
  if (!ct_pt2_is_none(f->node, "min") && !ct__fold_number(f, "min", &least)) return 0;
  if (!ct_pt2_is_none(f->node, "max") && !ct__fold_number(f, "max", &most)) return 0;
  if (!ct__fold_in(f, "self", &a) || a.count != f->o.count) return 0;
  for (int64_t i = 0; i < a.count; i++) {
    double x = a.x[i];
    if (x < least) x = least;
    if (x > most) x = most;
    if (!ct__fold_round(f->o.type, x, &f->y[i])) return 0;
  }
  return 1;
}

/* ---- constants of numbers alone ---- */

static int run_fill(ct__fold_t *f, const ct__fold_op_t *op)
{
  double x = op->one ? op->one(0) : 0;
  const char *name = ct_pt2_is(f->node, "aten.scalar_tensor") ? "s" : "fill_value";
  if (!op->one && !ct__fold_number(f, name, &x)) return 0;
  if (!ct__fold_round(f->o.type, x, &x)) return 0;
  for (int64_t i = 0; i < f->o.count; i++)
    f->y[i] = x;
  return 1;
}

/* hann_window and hamming_window: a - (1 - a) cos(2 pi i / n). */
static int run_window(ct__fold_t *f, const ct__fold_op_t *op)
{
  const double circle = 6.283185307179586476925;
  double periodic = 1, a = ct_pt2_is(f->node, "aten.hann_window") ? 0.5 : 0.54;
  (void)op;
  if (ct_pt2_arg(f->node, "periodic") && !ct__fold_number(f, "periodic", &periodic)) return 0;
  if (ct_pt2_arg(f->node, "alpha") || f->o.ndim != 1 || f->o.along) return 0;
  double n = (double)f->o.count - (periodic != 0 ? 0 : 1);
  for (int64_t i = 0; i < f->o.count; i++)
    if (!ct__fold_round(f->o.type, n > 0 ? a - (1 - a) * cos(circle * (double)i / n) : 1, &f->y[i]))
      return 0;
  return 1;
}

static double one_zero(double x)
{
  (void)x;
  return 0;
}

static double one_one(double x)
{
  (void)x;
  return 1;
}

static int run_arange(ct__fold_t *f, const ct__fold_op_t *op)
{
  double start = 0, end, step = 1;
  const ct_pt2_arg_t *last = ct_pt2_arg(f->node, "end");
  (void)op;
  if (f->o.ndim != 1) return 0;
  if (ct_pt2_arg(f->node, "start") && !ct__fold_number(f, "start", &start)) return 0;
  if (ct_pt2_arg(f->node, "step") && !ct__fold_number(f, "step", &step)) return 0;
  f->position = last && last->kind == CT_PT2_INT && last->dim[0].batch == 1 &&
                last->dim[0].n == 1 && start == 0 && step == 1 && f->o.along;
  if (f->position) return 1; /* arange(N) */
  if (!ct__fold_number(f, "end", &end) || f->o.along) return 0;
  if (ceil((end - start) / step) != (double)f->o.count) return 0;
  for (int64_t i = 0; i < f->o.count; i++)
    if (!ct__fold_round(f->o.type, start + (double)i * step, &f->y[i])) return 0;
  return 1;
}

static int run_linspace(ct__fold_t *f, const ct__fold_op_t *op)
{
  double start, end, step;
  int64_t n = f->o.count;
  (void)op;
  if (!ct__fold_number(f, "start", &start) || !ct__fold_number(f, "end", &end)) return 0;
  if (f->o.ndim != 1 || f->o.along || !ct__fold_is_float(f->o.type)) return 0;
  step = n > 1 ? (end - start) / (double)(n - 1) : 0;
  for (int64_t i = 0; i < n; i++) { /* from both ends, as PyTorch does */
    double x = i < n / 2 || n == 1 ? start + step * (double)i : end - step * (double)(n - 1 - i);
    if (!ct__fold_round(f->o.type, x, &f->y[i])) return 0;
  }
  return 1;
}

static int run_eye(ct__fold_t *f, const ct__fold_op_t *op)
{
  (void)op;
  if (f->o.ndim != 2 || f->o.along) return 0;
  for (int64_t i = 0; i < f->o.count; i++)
    f->y[i] = i / f->o.dim[1] == i % f->o.dim[1];
  return 1;
}

#define ONE(name, function)                               \
  {                                                       \
    .op = "aten." name, .run = run_unary, .one = function \
  }
#define TWO(name, function)                                \
  {                                                        \
    .op = "aten." name, .run = run_binary, .two = function \
  }

const ct__fold_op_t ct__fold_math[] = {
    TWO("add", two_add),
    TWO("sub", two_sub),
    TWO("subtract", two_sub),
    TWO("rsub", two_sub),
    TWO("mul", two_mul),
    TWO("multiply", two_mul),
    TWO("pow", pow),
    TWO("fmod", fmod),
    TWO("atan2", atan2),
    TWO("maximum", two_max),
    TWO("minimum", two_min),
    TWO("eq", two_eq),
    TWO("ne", two_ne),
    TWO("lt", two_lt),
    TWO("le", two_le),
    TWO("gt", two_gt),
    TWO("ge", two_ge),
    TWO("logical_and", two_and),
    TWO("logical_or", two_or),
    TWO("logical_xor", two_xor),
    {.op = "aten.bitwise_and", .run = run_bits, .two = two_bits_and},
    {.op = "aten.bitwise_or", .run = run_bits, .two = two_bits_or},
    {.op = "aten.bitwise_xor", .run = run_bits, .two = two_bits_xor},
    {.op = "aten.div", .run = run_div, .two = two_div},
    {.op = "aten.divide", .run = run_div, .two = two_div},
    {.op = "aten.true_divide", .run = run_div, .two = two_div},
    {.op = "aten.floor_divide", .run = run_div, .two = two_floor_div},
    {.op = "aten.remainder", .run = run_div, .two = two_remainder},
    ONE("neg", one_neg),
    ONE("abs", fabs),
    ONE("exp", exp),
    ONE("exp2", exp2),
    ONE("expm1", expm1),
    ONE("log", log),
    ONE("log2", log2),
    ONE("log10", log10),
    ONE("log1p", log1p),
    ONE("sqrt", sqrt),
    ONE("rsqrt", one_rsqrt),
    ONE("reciprocal", one_reciprocal),
    ONE("square", one_square),
    ONE("sin", sin),
    ONE("cos", cos),
    ONE("tan", tan),
    ONE("asin", asin),
    ONE("acos", acos),
    ONE("atan", atan),
    ONE("sinh", sinh),
    ONE("cosh", cosh),
    ONE("tanh", tanh),
    ONE("erf", erf),
    ONE("floor", floor),
    ONE("ceil", ceil),
    ONE("trunc", trunc),
    ONE("sign", one_sign),
    ONE("sgn", one_sign),
    ONE("relu", one_relu),
    ONE("sigmoid", one_sigmoid),
    ONE("logical_not", one_not),
    ONE("bitwise_not", one_bits_not),
    ONE("isnan", one_isnan),
    ONE("isinf", one_isinf),
    ONE("isfinite", one_isfinite),
    ONE("to", one_same),
    ONE("_to_copy", one_same),
    ONE("type_as", one_same),
    {.op = "aten.where", .run = run_where},
    {.op = "aten.masked_fill", .run = run_where},
    {.op = "aten.clamp", .run = run_clamp},
    {.op = "aten.clip", .run = run_clamp},
    {.op = "aten.clamp_min", .run = run_clamp},
    {.op = "aten.clamp_max", .run = run_clamp},
    {.op = "aten.zeros", .run = run_fill, .one = one_zero},
    {.op = "aten.zeros_like", .run = run_fill, .one = one_zero},
    {.op = "aten.new_zeros", .run = run_fill, .one = one_zero},
    {.op = "aten.empty", .run = run_fill, .one = one_zero},
    {.op = "aten.empty_like", .run = run_fill, .one = one_zero},
    {.op = "aten.new_empty", .run = run_fill, .one = one_zero},
    {.op = "aten.ones", .run = run_fill, .one = one_one},
    {.op = "aten.ones_like", .run = run_fill, .one = one_one},
    {.op = "aten.new_ones", .run = run_fill, .one = one_one},
    {.op = "aten.full", .run = run_fill},
    {.op = "aten.full_like", .run = run_fill},
    {.op = "aten.new_full", .run = run_fill},
    {.op = "aten.scalar_tensor", .run = run_fill},
    {.op = "aten.hann_window", .run = run_window},
    {.op = "aten.hamming_window", .run = run_window},
    {.op = "aten.arange", .run = run_arange},
    {.op = "aten.linspace", .run = run_linspace},
    {.op = "aten.eye", .run = run_eye},
    {.op = NULL},
};
