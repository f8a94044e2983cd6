/* Elementwise layers of two or three inputs, which are broadcast as in PyTorch: arithmetic,
 * comparisons, logic, and torch.where.  A number may take the place of the second input.  Sums,
 * products and extremes of more layers are chains (graph_read.c). */
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  char *value;
  int reverse;
} binary_t;

static const ct_opt_t binary_rows[] = {
    CT_OPT_TEXT(binary_t, value, "", "a number in place of the second input"),
    CT_OPT_BOOL(binary_t, reverse, "false", "yes: the operands change places"), CT_OPT_END};

/* Returns the shape of the result of two inputs, or of one and a number. */
static int binary_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const binary_t *o = opts;
  double unused;
  if (!*o->value) {
    if (!in[1].ndim)
      CT_FAIL(CT_ERR_SHAPE, "takes two inputs (write from: [a, b]), or one and a value");
    return ct__layer_broadcast(in, 2, out);
  }
  if (in[1].ndim) CT_FAIL(CT_ERR_SHAPE, "takes one input if a value is given");
  CT_TRY(ct__layer_number("value", o->value, &unused));
  *out = in[0];
out:
  return rc;
}

/* Adds x to the power of a number to the program: as products and roots where that is exact. */
static void power(ct_expr_t *e, double exponent)
{
  int one = 0, x = 0;
  if (exponent == 2 || exponent == 3) {
    int square = ct_expr_add(e, CT_FN_MUL, x, x, 0);
    if (exponent == 3) ct_expr_add(e, CT_FN_MUL, x, square, 0);
  } else if (exponent == 0.5 || exponent == -0.5) {
    ct_expr_add(e, exponent > 0 ? CT_FN_SQRT : CT_FN_RSQRT, x, 0, 0);
  } else if (exponent == -1) {
    one = ct_expr_const(e, 1);
    ct_expr_add(e, CT_FN_DIV, one, x, 0);
  } else {
    one = ct_expr_const(e, exponent);
    ct_expr_add(e, CT_FN_POW, x, one, 0);
  }
}

static void binary_program(const binary_t *o, ct_fn_t fn, ct_op_desc_t *d)
{
  ct_expr_t *e = &d->u.expr;
  double value = 0;
  int a = 0, b = 1;
  if (*o->value) {
    ct__layer_number("value", o->value, &value); /* it succeeded before */
    if (fn == CT_FN_POW && !o->reverse) {
      power(e, value);
      return;
    }
    b = ct_expr_const(e, value);
  }
  ct_expr_add(e, fn, o->reverse ? b : a, o->reverse ? a : b, 0);
}

/* A kind: its name and help; its function; the members of its entry that others lack. */
#define KIND(word, text, fn, ...)                                           \
  static void attributes_##word(const void *opts, ct_op_desc_t *d)          \
  {                                                                         \
    if (d->kind == CT_OP_EXPR) binary_program(opts, fn, d);                 \
  }                                                                         \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,                   \
                                           .help = text,                    \
                                           .opts_bytes = sizeof(binary_t),  \
                                           .opts = binary_rows,             \
                                           .inputs = 2,                     \
                                           .optional = 1,                   \
                                           .general = 1,                    \
                                           .infer = binary_infer,           \
                                           .attributes = attributes_##word, \
                                           __VA_ARGS__};

#define EXPR .op = CT_OP_EXPR

/* The sum of two tensors of the same shape has an op of its own, which plans fuse into the op
 * before it. */
static ct_op_kind_t choose_add(const void *opts, const ct_shape_t *in)
{
  const binary_t *o = opts;
  int same = !*o->value && ct_shape_same(&in[0], &in[1]) && in[0].batch == in[1].batch;
  return same ? CT_OP_ADD : CT_OP_EXPR;
}

KIND(add, "sum of layers: from: [a, b, …]", CT_FN_ADD, .op = CT_OP_ADD, .choose = choose_add)
KIND(sub, "difference", CT_FN_SUB, EXPR)
KIND(mul, "product, element by element: from: [a, b, …]", CT_FN_MUL, EXPR)
KIND(div, "quotient", CT_FN_DIV, EXPR)
KIND(pow, "power", CT_FN_POW, EXPR)
KIND(minimum, "the smallest of some layers: from: [a, b, …]", CT_FN_MINIMUM, EXPR)
KIND(maximum, "the largest of some layers: from: [a, b, …]", CT_FN_MAXIMUM, EXPR)
KIND(eq, "1 where both are equal, else 0", CT_FN_EQ, EXPR)
KIND(ne, "1 where they differ, else 0", CT_FN_NE, EXPR)
KIND(lt, "1 where the first is less, else 0", CT_FN_LT, EXPR)
KIND(le, "1 where the first is less or equal, else 0", CT_FN_LE, EXPR)
KIND(gt, "1 where the first is greater, else 0", CT_FN_GT, EXPR)
KIND(ge, "1 where the first is greater or equal, else 0", CT_FN_GE, EXPR)
KIND(logical_and, "1 where both are not 0, else 0", CT_FN_AND, EXPR)
KIND(logical_or, "1 where one is not 0, else 0", CT_FN_OR, EXPR)
KIND(atan2, "angle of the point (second, first)", CT_FN_ATAN2, EXPR)
KIND(fmod, "remainder with the sign of the first", CT_FN_FMOD, EXPR)

/* ---- where ---- */

typedef struct {
  char *value;
} where_t;

static const ct_opt_t where_rows[] = {
    CT_OPT_TEXT(where_t, value, "", "a number in place of the second input"), CT_OPT_END};

static int where_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const where_t *o = opts;
  int inputs = *o->value ? 2 : 3;
  double unused;
  if ((in[2].ndim > 0) != (inputs == 3))
    CT_FAIL(CT_ERR_SHAPE, "takes three inputs (write from: [condition, a, b]), or two and a value");
  if (*o->value) CT_TRY(ct__layer_number("value", o->value, &unused));
  rc = ct__layer_broadcast(in, inputs, out);
out:
  return rc;
}

static void where_attributes(const void *opts, ct_op_desc_t *d)
{
  const where_t *o = opts;
  double value = 0;
  if (*o->value) ct__layer_number("value", o->value, &value);
  int b = *o->value ? ct_expr_const(&d->u.expr, value) : 1;
  ct_expr_add(&d->u.expr, CT_FN_WHERE, 0, b, *o->value ? 1 : 2);
}

const ct_layer_ops_t ct__layer_where = {
    .kind = "where",
    .help = "from: [condition, a, b]: a where the condition is not 0, else b",
    .opts_bytes = sizeof(where_t),
    .opts = where_rows,
    .inputs = 3,
    .optional = 1,
    .general = 1,
    .infer = where_infer,
    .attributes = where_attributes,
    .op = CT_OP_EXPR,
};
