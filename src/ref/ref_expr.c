/* Programs of elementwise functions, as in torch; and random numbers. */
#include "backend/ct_expr_view.h"
#include "backend/ct_random.h"
#include "ref/ref.h"

#include <math.h>

static const double root_half = 0.70710678118654752440, root_2pi = 2.50662827463100050242;
static const double root_2_pi = 0.79788456080286535588, root_pi = 1.77245385090551602730;

static double expr_sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}

static double softplus(double x, double beta, double threshold)
{
  return x * beta > threshold ? x : log1p(exp(x * beta)) / beta;
}

/* Returns the sign of x; NaN for NaN. */
static double sign_of(double x)
{
  return x > 0 ? 1 : x < 0 ? -1 : x == 0 ? 0 : x;
}

static double larger(double a, double b)
{
  return a > b || isnan(a) ? a : b;
}

static double smaller(double a, double b)
{
  return a < b || isnan(a) ? a : b;
}

static double limited(double x, double low, double high)
{
  return x < low ? (low > high ? high : low) : x > high ? high : x;
}

/* The argument of the tanh in the approximation of GELU. */
static double gelu_inner(double x)
{
  return root_2_pi * (x + 0.044715 * x * x * x);
}

/* Returns the result of a comparison, of logic or of rounding. */
static double decide(ct_fn_t fn, double a, double b)
{
  switch (fn) {
  case CT_FN_EQ:
    return a == b;
  case CT_FN_NE:
    return a != b;
  case CT_FN_LT:
    return a < b;
  case CT_FN_LE:
    return a <= b;
  case CT_FN_GT:
    return a > b;
  case CT_FN_GE:
    return a >= b;
  case CT_FN_AND:
    return a != 0 && b != 0;
  case CT_FN_OR:
    return a != 0 || b != 0;
  case CT_FN_NOT:
    return a == 0;
  case CT_FN_FLOOR:
    return floor(a);
  case CT_FN_CEIL:
    return ceil(a);
  case CT_FN_ROUND:
    return nearbyint(a);
  case CT_FN_DETACH:
    return a;
  default:
    return NAN;
  }
}

/* Returns the result of a function of libm, or of a few arithmetic operations. */
static double compute(ct_fn_t fn, double a, double b)
{
  switch (fn) {
  case CT_FN_ADD:
    return a + b;
  case CT_FN_SUB:
    return a - b;
  case CT_FN_MUL:
    return a * b;
  case CT_FN_DIV:
    return a / b;
  case CT_FN_POW:
    return pow(a, b);
  case CT_FN_MINIMUM:
    return smaller(a, b);
  case CT_FN_MAXIMUM:
    return larger(a, b);
  case CT_FN_ATAN2:
    return atan2(a, b);
  case CT_FN_FMOD:
    return fmod(a, b);
  case CT_FN_EXP:
    return exp(a);
  case CT_FN_EXPM1:
    return expm1(a);
  case CT_FN_LOG:
    return log(a);
  case CT_FN_LOG1P:
    return log1p(a);
  case CT_FN_SIN:
    return sin(a);
  case CT_FN_COS:
    return cos(a);
  case CT_FN_TAN:
    return tan(a);
  case CT_FN_ASIN:
    return asin(a);
  case CT_FN_ACOS:
    return acos(a);
  case CT_FN_ATAN:
    return atan(a);
  case CT_FN_SINH:
    return sinh(a);
  case CT_FN_COSH:
    return cosh(a);
  case CT_FN_SQRT:
    return sqrt(a);
  case CT_FN_RSQRT:
    return 1 / sqrt(a);
  case CT_FN_ABS:
    return fabs(a);
  case CT_FN_SIGN:
    return sign_of(a);
  case CT_FN_ERF:
    return erf(a);
  default:
    return decide(fn, a, b);
  }
}

static double expr_value(ct_fn_t fn, double a, double b, double c)
{
  switch (fn) {
  case CT_FN_WHERE:
    return a != 0 ? b : c;
  case CT_FN_CLAMP:
  case CT_FN_HARDTANH:
    return limited(a, b, c);
  case CT_FN_THRESHOLD:
    return a <= b ? c : a;
  case CT_FN_HARDSHRINK:
    return a >= -b && a <= b ? 0 : a;
  case CT_FN_SOFTSHRINK:
    return a > b ? a - b : a < -b ? a + b : isnan(a) ? a : 0;
  case CT_FN_SOFTPLUS:
    return softplus(a, b, c);
  case CT_FN_ELU:
    return a <= 0 ? b * expm1(a) : a;
  case CT_FN_LEAKY_RELU:
  case CT_FN_PRELU:
    return a > 0 ? a : b * a;
  case CT_FN_RELU:
    return ct__ref_relu_of(a);
  case CT_FN_GELU:
    return 0.5 * a * (1 + erf(a * root_half));
  case CT_FN_GELU_TANH:
    return 0.5 * a * (1 + tanh(gelu_inner(a)));
  case CT_FN_SIGMOID:
    return expr_sigmoid(a);
  case CT_FN_TANH:
    return tanh(a);
  case CT_FN_SILU:
    return a * expr_sigmoid(a);
  case CT_FN_MISH:
    return a * tanh(softplus(a, 1, 30));
  case CT_FN_LOGSIGMOID:
    return smaller(a, 0) - log1p(exp(-fabs(a)));
  case CT_FN_HARDSWISH:
    return a * limited(a + 3, 0, 6) / 6;
  default:
    return compute(fn, a, b);
  }
}

/* Returns the derivative of a smooth function of one operand, given its result r. */
static double smooth_slope(ct_fn_t fn, double a, double r)
{
  double t = 0, s = expr_sigmoid(a);
  switch (fn) {
  case CT_FN_GELU:
    return 0.5 * (1 + erf(a * root_half)) + a * exp(-0.5 * a * a) / root_2pi;
  case CT_FN_GELU_TANH:
    t = tanh(gelu_inner(a));
    return 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * root_2_pi * (1 + 3 * 0.044715 * a * a);
  case CT_FN_SIGMOID:
    return r * (1 - r);
  case CT_FN_TANH:
    return 1 - r * r;
  case CT_FN_SILU:
    return s * (1 + a * (1 - s));
  case CT_FN_MISH:
    t = tanh(softplus(a, 1, 30));
    return t + a * (1 - t * t) * s;
  case CT_FN_LOGSIGMOID:
    return 1 - s;
  case CT_FN_EXP:
    return r;
  case CT_FN_EXPM1:
    return r + 1;
  case CT_FN_LOG:
    return 1 / a;
  case CT_FN_LOG1P:
    return 1 / (1 + a);
  case CT_FN_SIN:
    return cos(a);
  case CT_FN_COS:
    return -sin(a);
  case CT_FN_TAN:
    return 1 + r * r;
  case CT_FN_ASIN:
    return 1 / sqrt(1 - a * a);
  case CT_FN_ACOS:
    return -1 / sqrt(1 - a * a);
  case CT_FN_ATAN:
    return 1 / (1 + a * a);
  case CT_FN_SINH:
    return cosh(a);
  case CT_FN_COSH:
    return sinh(a);
  case CT_FN_SQRT:
    return 1 / (2 * r);
  case CT_FN_RSQRT:
    return -0.5 * r * r * r;
  case CT_FN_ABS:
    return sign_of(a);
  case CT_FN_ERF:
    return 2 / root_pi * exp(-a * a);
  default:
    return NAN;
  }
}

/* Returns g times the derivative of a function with kinks by its first operand. */
static double pull_kinked(ct_fn_t fn, double a, double b, double c, double g, double r)
{
  double z = 0;
  switch (fn) {
  case CT_FN_CLAMP:
    return a > b && a < c ? g : 0;
  case CT_FN_HARDTANH:
    return a <= b || a >= c ? 0 : g;
  case CT_FN_THRESHOLD:
    return a <= b ? 0 : g;
  case CT_FN_HARDSHRINK:
  case CT_FN_SOFTSHRINK:
    return a >= -b && a <= b ? 0 : g;
  case CT_FN_SOFTPLUS:
    z = exp(a * b);
    return a * b > c ? g : g * z / (z + 1);
  case CT_FN_ELU:
    return a <= 0 ? g * b * exp(a) : g;
  case CT_FN_LEAKY_RELU:
  case CT_FN_PRELU:
    return a > 0 ? g : g * b;
  case CT_FN_RELU:
    return a <= 0 ? 0 : g;
  case CT_FN_HARDSWISH:
    return a <= -3 ? 0 : a < 3 ? g * (a / 3 + 0.5) : g;
  default:
    return g * smooth_slope(fn, a, r);
  }
}

static double pull_power(int k, double a, double b, double g, double r)
{
  if (k == 0) return b == 0 ? 0 : g * (b * pow(a, b - 1));
  if (b == 0 ? a >= 0 : a == 0 && b >= 0) return 0;
  return g * (r * log(a));
}

/* Returns the gradient of operand k, given the gradient g of the result r. */
static double pull(ct_fn_t fn, int k, const double v[3], double g, double r)
{
  double a = v[0], b = v[1], c = v[2], square = a * a + b * b;
  switch (fn) {
  case CT_FN_ADD:
    return g;
  case CT_FN_SUB:
    return k ? -g : g;
  case CT_FN_MUL:
    return g * (k ? a : b);
  case CT_FN_DIV:
    return k ? -g * (r / b) : g / b;
  case CT_FN_POW:
    return pull_power(k, a, b, g, r);
  case CT_FN_MINIMUM:
    return a == b ? g / 2 : (k ? b > a : a > b) ? 0 : g;
  case CT_FN_MAXIMUM:
    return a == b ? g / 2 : (k ? b < a : a < b) ? 0 : g;
  case CT_FN_ATAN2:
    return square == 0 ? 0 : k ? -g * a / square : g * b / square;
  case CT_FN_FMOD:
    return k ? -g * trunc(a / b) : g;
  case CT_FN_WHERE:
    return (a != 0) == (k == 1) ? g : 0;
  case CT_FN_PRELU:
    if (k == 1) return a > 0 ? 0 : g * a;
    return pull_kinked(fn, a, b, c, g, r);
  default:
    return pull_kinked(fn, a, b, c, g, r);
  }
}

/* ---- the op ---- */

/* One run: the operands' memory, and the sums of the inputs' gradients. */
typedef struct expr {
  const ct_op_desc_t *d;
  const ct_op_args_t *a;
  ct_expr_view_t view;
  const void *in[CT_EXPR_INPUTS];
  ct_dtype_t type[CT_EXPR_INPUTS];
  double *sum[CT_EXPR_INPUTS];
  ct_expr_need_t need;
} expr_t;

/* Writes the offsets of the inputs' elements for element i of y. */
static void places(const ct_expr_view_t *v, int64_t i, int64_t at[CT_EXPR_INPUTS])
{
  for (int k = 0; k < CT_EXPR_INPUTS; k++)
    at[k] = 0;
  for (int j = v->dims - 1; j >= 0; j--) {
    for (int k = 0; k < v->inputs; k++)
      at[k] += i % v->dim[j] * v->stride[k][j];
    i /= v->dim[j];
  }
}

/* Computes the results of all steps for one element; val: by operand number. */
static void forward_at(const expr_t *e, const int64_t at[CT_EXPR_INPUTS], uint32_t read,
                       double val[CT_EXPR_VALUES])
{
  const ct_expr_t *p = &e->d->u.expr;
  for (int k = 0; k < e->view.inputs; k++)
    val[k] = read >> k & 1 ? ct__ref_get(e->type[k], e->in[k], at[k]) : 0;
  for (int k = 0; k < p->consts; k++)
    val[CT_EXPR_CONST + k] = p->value[k];
  for (int i = 0; i < p->steps; i++) {
    const ct_expr_step_t *s = &p->step[i];
    val[CT_EXPR_STEP + i] = expr_value((ct_fn_t)s->fn, val[s->of[0]], val[s->of[1]], val[s->of[2]]);
  }
}

static void backward_at(const expr_t *e, const int64_t at[CT_EXPR_INPUTS], double dy,
                        const double val[CT_EXPR_VALUES])
{
  const ct_expr_t *p = &e->d->u.expr;
  double grad[CT_EXPR_VALUES] = {0};
  grad[CT_EXPR_STEP + p->steps - 1] = dy;
  for (int i = p->steps - 1; i >= 0; i--) {
    const ct_expr_step_t *s = &p->step[i];
    const ct_fn_facts_t *f = ct_fn_facts_of(s->fn);
    const double v[3] = {val[s->of[0]], val[s->of[1]], val[s->of[2]]};
    if (!(e->need.gradient >> (CT_EXPR_STEP + i) & 1)) continue;
    for (int k = 0; k < f->operands; k++)
      if (f->reads[k] != CT_FN_FLAT && e->need.gradient >> s->of[k] & 1)
        grad[s->of[k]] += pull((ct_fn_t)s->fn, k, v, grad[CT_EXPR_STEP + i], val[CT_EXPR_STEP + i]);
  }
  for (int k = 0; k < e->view.inputs; k++)
    if (e->sum[k]) e->sum[k][at[k]] += grad[k];
}

static void expr_backward(expr_t *e)
{
  const ct_op_args_t *a = e->a;
  const ct_expr_t *p = &e->d->u.expr;
  int param = a->pass & CT_BWD_PARAM, data = a->pass & CT_BWD_DATA;
  void *out[CT_EXPR_INPUTS] = {data ? a->dx : NULL, data ? a->dx2 : NULL, data ? a->dx3 : NULL};
  double *sums = a->scratch, val[CT_EXPR_VALUES] = {0};
  unsigned wanted = 0;
  int64_t at[CT_EXPR_INPUTS];
  for (int k = 1; k <= p->weight; k++)
    out[k] = param ? a->dw[k - 1] : NULL;
  for (int k = 0; k < e->view.inputs; k++) {
    if (!out[k]) continue;
    wanted |= 1u << k;
    e->sum[k] = sums;
    for (int64_t i = 0; i < e->view.elements[k]; i++)
      *sums++ = 0;
  }
  e->need = ct_expr_needs(p, wanted);
  for (int64_t i = 0; i < e->view.count; i++) {
    double dy = ct__ref_get(e->d->y.dtype, a->dy, i);
    if (a->dy2) dy += ct__ref_get(e->d->y.dtype, a->dy2, i);
    places(&e->view, i, at);
    if (e->need.value) forward_at(e, at, e->need.value, val);
    for (int k = 0; k < p->consts; k++)
      val[CT_EXPR_CONST + k] = p->value[k];
    backward_at(e, at, dy, val);
  }
  for (int k = 0; k < e->view.inputs; k++)
    for (int64_t i = 0; out[k] && i < e->view.elements[k]; i++)
      ct__ref_set(e->type[k], out[k], i, e->sum[k][i]);
}

static int expr_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  expr_t e = {.d = d, .a = a, .view = ct_expr_view_of(d, CT_PLAIN), .in = {a->x, a->x2, a->x3}};
  double val[CT_EXPR_VALUES] = {0};
  int64_t at[CT_EXPR_INPUTS];
  for (int k = 0; k < CT_EXPR_INPUTS; k++)
    e.type[k] = d->y.dtype;
  for (int k = 1; k <= d->u.expr.weight; k++) {
    e.in[k] = a->w[k - 1];
    e.type[k] = CT_F32;
  }
  for (int64_t i = 0; a->pass & CT_FWD && i < e.view.count; i++) {
    places(&e.view, i, at);
    forward_at(&e, at, UINT32_MAX, val);
    ct__ref_set(d->y.dtype, a->y, i, val[CT_EXPR_STEP + d->u.expr.steps - 1]);
  }
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) expr_backward(&e);
  return CT_OK;
}

static void expr_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  ct_expr_view_t v = ct_expr_view_of(d, CT_PLAIN);
  info->takes_dy2 = 1;
  info->inplace_fwd = info->inplace_bwd = v.whole[0];
  for (int k = 0; k < v.inputs && ct_op_goes_back(d); k++)
    info->scratch += (size_t)v.elements[k] * sizeof(double);
}

const ct__ref_kind_t ct__ref_expr = {.run = expr_run, .needs = expr_needs, .reduced = 1};

/* ---- random numbers ---- */

static int random_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t rows = d->u.random.rows > 1 ? d->u.random.rows : 1, count = ct_shape_count(&d->y);
  int64_t sample = ct_shape_sample(&d->y) * rows;
  float v[CT_DROPOUT_BLOCK] = {0};
  ct_random_draw_t draw =
      ct_random_make(a->seed, a->step, d->u.random.layer, d->u.random.kind, d->u.random.p);
  for (int64_t i = 0; i < count; i++) {
    int64_t k = i % sample % CT_DROPOUT_BLOCK;
    if (k == 0) ct_random_values(&draw, a->first + i / sample, i % sample / CT_DROPOUT_BLOCK, v);
    ct__ref_set(d->y.dtype, a->y, i, v[k]);
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_random = {.run = random_run, .reduced = 1};
