/* Rules: arithmetic of two tensors, or of a tensor and a number; conditions. */
#include <math.h>
#include <string.h>

#include "import/import.h"

/* Rounds towards zero. */
int ct__im_truncate(ct__im_t *t, int x, int *out)
{
  int rc = CT_OK, sign, size;
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct__im_one(t, &sign, "sign", &s, x, NULL));
  CT_TRY(ct__im_one(t, &size, "abs", &s, x, NULL));
  CT_TRY(ct__im_one(t, &size, "floor", &s, size, NULL));
  CT_TRY(ct__im_binary(t, "mul", sign, size, out));
out:
  return rc;
}

/* ---- layers of two inputs ---- */

/* An operand: a layer, or a number if layer is -1. */
typedef struct operand {
  int layer;
  double number;
} operand_t;

static int arithmetic_operand(ct__im_t *t, const ct_pt2_node_t *n, const char *name, operand_t *out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(n, name);
  out->layer = -1;
  if (!a || a->kind != CT_PT2_TENSOR) return ct_pt2_number(t->g, n, name, &out->number);
  if (t->g->value[a->tensor[0]].ndim == 0 && ct__im_uniform(t, a->tensor[0], &out->number))
    return CT_OK;
  if (ct__im_uniform(t, a->tensor[0], &out->number)) {
    /* a constant of equal elements is a number, if it does not change the shape of the result */
    ct_shape_t s, y, sum;
    const ct_pt2_arg_t *other = ct_pt2_arg(n, strcmp(name, "self") == 0 ? "other" : "self");
    if (other && other->kind == CT_PT2_TENSOR && ct__im_shape(t, other->tensor[0], &s) == CT_OK &&
        ct__im_result(t, n, &y) == CT_OK && ct__im_broadcast(&s, &y, &sum) && ct__im_same(&s, &y) &&
        !ct__im_uniform(t, other->tensor[0], &(double){0}))
      return CT_OK;
  }
  return ct__im_operand(t, a->tensor[0], &out->layer);
}

/* Returns what an operand was expanded from, if broadcasting gives the same result. */
static int arithmetic_unexpanded(const ct__im_t *t, int x, int other)
{
  ct_shape_t with, without;
  if (!ct__im_is(t, x, "expand")) return x;
  int base = t->layer[x].in[0];
  const ct_shape_t *o = &t->layer[other].shape;
  if (!ct__im_broadcast(&t->layer[x].shape, o, &with)) return x;
  if (!ct__im_broadcast(&t->layer[base].shape, o, &without)) return x;
  return ct__im_same(&with, &without) ? base : x;
}

int ct__im_binary(ct__im_t *t, const char *kind, int x, int y, int *out)
{
  int rc = CT_OK;
  ct_shape_t s, full;
  if (!ct__im_broadcast(&t->layer[x].shape, &t->layer[y].shape, &full))
    return ct__im_refuse("shapes do not fit together");
  if (ct__im_is(t, x, "expand") && ct__im_is(t, y, "expand")) {
    x = t->layer[x].in[0];
    y = t->layer[y].in[0];
  } else {
    x = arithmetic_unexpanded(t, x, y);
    y = arithmetic_unexpanded(t, y, x);
  }
  if (!ct__im_broadcast(&t->layer[x].shape, &t->layer[y].shape, &s))
    return ct__im_refuse("shapes do not fit together");
  int pair[2] = {x, y};
  CT_TRY(ct__im_add(t, out, kind, &s, 2, pair, NULL));
  CT_TRY(ct__im_expand(t, *out, &full, out));
out:
  return rc;
}

static int arithmetic_scalar(ct__im_t *t, const char *kind, int x, double number, int *out)
{
  char text[40];
  int one = strcmp(kind, "mul") == 0 || strcmp(kind, "div") == 0 || strcmp(kind, "pow") == 0;
  int zero = strcmp(kind, "add") == 0 || strcmp(kind, "sub") == 0;
  *out = x;
  if ((one && number == 1) || (zero && number == 0)) return CT_OK;
  if (strcmp(kind, "pow") == 0 && (number == 2 || number == 0.5 || number == -0.5)) {
    const char *word = number == 2 ? "square" : number > 0 ? "sqrt" : "rsqrt";
    return ct__im_one(t, out, word, &t->layer[x].shape, x, NULL);
  }
  return ct__im_one(t, out, kind, &t->layer[x].shape, x, "value: %s",
                    ct_text_number(number, text, sizeof text));
}

int ct__im_scalar(ct__im_t *t, const char *kind, int x, double number, int *out)
{
  int rc = CT_OK;
  if (!ct__im_is(t, x, "expand")) return arithmetic_scalar(t, kind, x, number, out);
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(arithmetic_scalar(t, kind, t->layer[x].in[0], number, &x));
  CT_TRY(ct__im_expand(t, x, &s, out));
out:
  return rc;
}

static int arithmetic_commutes(const char *kind)
{
  static const char *const kinds[] = {"add", "mul", "minimum",     "maximum",
                                      "eq",  "ne",  "logical_and", "logical_or"};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
    if (strcmp(kind, kinds[i]) == 0) return 1;
  return 0;
}

static int arithmetic_pair(ct__im_t *t, const char *kind, operand_t a, operand_t b, int *out)
{
  char text[40];
  if (a.layer >= 0 && b.layer >= 0) return ct__im_binary(t, kind, a.layer, b.layer, out);
  if (a.layer >= 0) return ct__im_scalar(t, kind, a.layer, b.number, out);
  if (b.layer < 0) return ct__im_refuse("both operands are numbers");
  if (arithmetic_commutes(kind)) return ct__im_scalar(t, kind, b.layer, a.number, out);
  return ct__im_one(t, out, kind, &t->layer[b.layer].shape, b.layer, "value: %s, reverse: yes",
                    ct_text_number(a.number, text, sizeof text));
}

/* Brings a result to the shape that the program has for it. */
static int arithmetic_finish(ct__im_t *t, const ct_pt2_node_t *n, int x)
{
  int rc = CT_OK;
  ct_shape_t s;
  CT_TRY(ct__im_result(t, n, &s));
  if (!ct__im_same(&s, &t->layer[x].shape)) CT_TRY(ct__im_expand(t, x, &s, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Returns 1 if one layer is the sigmoid of the other; then x * sigmoid(x) is silu(x). */
static int arithmetic_is_silu(const ct__im_t *t, int x, int y)
{
  return ct__im_is(t, y, "sigmoid") && t->layer[y].in[0] == x;
}

static int arithmetic_mul(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, y;
  operand_t a, b;
  (void)data;
  CT_TRY(arithmetic_operand(t, n, "self", &a));
  CT_TRY(arithmetic_operand(t, n, "other", &b));
  if (a.layer >= 0 && b.layer >= 0 && arithmetic_is_silu(t, b.layer, a.layer)) {
    operand_t swap = a;
    a = b;
    b = swap;
  }
  if (a.layer >= 0 && b.layer >= 0 && arithmetic_is_silu(t, a.layer, b.layer))
    CT_TRY(ct__im_one(t, &y, "silu", &t->layer[a.layer].shape, a.layer, NULL));
  else
    CT_TRY(arithmetic_pair(t, "mul", a, b, &y));
  CT_TRY(arithmetic_finish(t, n, y));
out:
  return rc;
}

/* The overload's operands: other.kind is a tensor or a number; data: the kind. */
static int arithmetic_two(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, y;
  operand_t a, b;
  const char *second = strcmp(data, "pow") == 0 ? "exponent" : "other";
  CT_TRY(arithmetic_operand(t, n, "self", &a));
  CT_TRY(arithmetic_operand(t, n, second, &b));
  CT_TRY(arithmetic_pair(t, data, a, b, &y));
  CT_TRY(arithmetic_finish(t, n, y));
out:
  return rc;
}

/* add, sub and rsub have the factor alpha. */
static int arithmetic_sum(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, y, reverse = strcmp(data, "rsub") == 0;
  double alpha = 1;
  operand_t a, b;
  if (t->g->value[n->out[0]].type == CT_ELEM_BOOL) return arithmetic_two(t, n, "logical_or");
  CT_TRY(arithmetic_operand(t, n, "self", &a));
  CT_TRY(arithmetic_operand(t, n, "other", &b));
  if (!ct_pt2_is_none(n, "alpha")) CT_TRY(ct_pt2_number(t->g, n, "alpha", &alpha));
  operand_t *scaled = reverse ? &a : &b;
  scaled->number *= alpha;
  if (scaled->layer >= 0) CT_TRY(ct__im_scalar(t, "mul", scaled->layer, alpha, &scaled->layer));
  y = -1;
  if (strcmp(data, "add") == 0 && a.layer >= 0 && b.layer >= 0)
    CT_TRY(ct__im_match_tokens(t, a.layer, b.layer, &y));
  if (y >= 0)
    rc = CT_OK;
  else if (reverse)
    CT_TRY(arithmetic_pair(t, "sub", b, a, &y));
  else
    CT_TRY(arithmetic_pair(t, data, a, b, &y));
  CT_TRY(arithmetic_finish(t, n, y));
out:
  return rc;
}

static int arithmetic_div(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, y;
  operand_t a, b;
  const char *mode = data;
  CT_TRY(arithmetic_operand(t, n, "self", &a));
  CT_TRY(arithmetic_operand(t, n, "other", &b));
  if (!mode && !ct_pt2_is_none(n, "rounding_mode"))
    CT_TRY(ct_pt2_text(t->g, n, "rounding_mode", &mode));
  CT_TRY(arithmetic_pair(t, "div", a, b, &y));
  if (mode && strcmp(mode, "floor") == 0)
    CT_TRY(ct__im_one(t, &y, "floor", &t->layer[y].shape, y, NULL));
  else if (mode)
    CT_TRY(ct__im_truncate(t, y, &y));
  CT_TRY(arithmetic_finish(t, n, y));
out:
  return rc;
}

/* x - floor(x / y) * y: Python's remainder. */
static int arithmetic_remainder(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, y;
  operand_t a, b;
  (void)data;
  CT_TRY(arithmetic_operand(t, n, "self", &a));
  CT_TRY(arithmetic_operand(t, n, "other", &b));
  if (a.layer < 0) return ct__im_refuse("the first operand is a number");
  CT_TRY(arithmetic_pair(t, "div", a, b, &y));
  CT_TRY(ct__im_one(t, &y, "floor", &t->layer[y].shape, y, NULL));
  CT_TRY(arithmetic_pair(t, "mul", (operand_t){y, 0}, b, &y));
  CT_TRY(ct__im_binary(t, "sub", a.layer, y, &y));
  CT_TRY(arithmetic_finish(t, n, y));
out:
  return rc;
}

/* ---- conditions ---- */

static int arithmetic_where(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, y, condition;
  operand_t a, b;
  ct_shape_t s;
  char number[40];
  (void)data;
  CT_TRY(ct__im_in(t, n, "condition", 0, &condition));
  CT_TRY(arithmetic_operand(t, n, "self", &a));
  CT_TRY(arithmetic_operand(t, n, "other", &b));
  CT_TRY(ct__im_result(t, n, &s));
  if (a.layer < 0 && b.layer < 0) {
    /* other + (self - other) * condition */
    if (!isfinite(a.number) || !isfinite(b.number))
      return ct__im_refuse("chooses between two numbers that are not finite");
    CT_TRY(ct__im_scalar(t, "mul", condition, a.number - b.number, &y));
    CT_TRY(ct__im_scalar(t, "add", y, b.number, &y));
  } else if (b.layer < 0) {
    CT_TRY(ct__im_one(t, &condition, "logical_not", &t->layer[condition].shape, condition, NULL));
    CT_TRY(ct__im_add(t, &y, "where", &s, 2, (int[]){condition, a.layer}, "value: %s",
                      ct_text_number(b.number, number, sizeof number)));
  } else if (a.layer < 0) {
    CT_TRY(ct__im_add(t, &y, "where", &s, 2, (int[]){condition, b.layer}, "value: %s",
                      ct_text_number(a.number, number, sizeof number)));
  } else {
    CT_TRY(ct__im_add(t, &y, "where", &s, 3, (int[]){condition, a.layer, b.layer}, NULL));
  }
  CT_TRY(arithmetic_finish(t, n, y));
out:
  return rc;
}

static int arithmetic_masked_fill(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, y, x, mask;
  operand_t v;
  ct_shape_t s;
  char number[40];
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_in(t, n, "mask", 0, &mask));
  CT_TRY(arithmetic_operand(t, n, "value", &v));
  CT_TRY(ct__im_result(t, n, &s));
  if (v.layer >= 0)
    CT_TRY(ct__im_add(t, &y, "where", &s, 3, (int[]){mask, v.layer, x}, NULL));
  else
    CT_TRY(ct__im_add(t, &y, "where", &s, 2, (int[]){mask, x}, "value: %s",
                      ct_text_number(v.number, number, sizeof number)));
  CT_TRY(arithmetic_finish(t, n, y));
out:
  return rc;
}

/* addcmul: self + value * a * b; addcdiv: self + value * a / b; data: mul or div. */
static int arithmetic_addc(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, a, b;
  double value = 1;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_in(t, n, "tensor1", 0, &a));
  CT_TRY(ct__im_in(t, n, "tensor2", 0, &b));
  CT_TRY(ct_pt2_number(t->g, n, "value", &value));
  CT_TRY(ct__im_binary(t, data, a, b, &a));
  CT_TRY(ct__im_scalar(t, "mul", a, value, &a));
  CT_TRY(ct__im_binary(t, "add", x, a, &x));
  CT_TRY(arithmetic_finish(t, n, x));
out:
  return rc;
}

/* self + weight * (end - self) */
static int arithmetic_lerp(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, end, y;
  operand_t w;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_in(t, n, "end", 0, &end));
  CT_TRY(arithmetic_operand(t, n, "weight", &w));
  CT_TRY(ct__im_binary(t, "sub", end, x, &y));
  CT_TRY(arithmetic_pair(t, "mul", (operand_t){y, 0}, w, &y));
  CT_TRY(ct__im_binary(t, "add", x, y, &y));
  CT_TRY(arithmetic_finish(t, n, y));
out:
  return rc;
}

/* Bitwise ops of bools are logical ones; data: the kind. */
static int arithmetic_bits(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  if (t->g->value[n->out[0]].type != CT_ELEM_BOOL)
    return ct__im_refuse("is supported for bool only");
  return arithmetic_two(t, n, data);
}

#define TWO(op, kind)                \
  {                                  \
    "aten." op, arithmetic_two, kind \
  }
#define BITS(op, kind)                \
  {                                   \
    "aten." op, arithmetic_bits, kind \
  }

const ct__im_rule_t ct__im_arithmetics[] = {{"aten.add", arithmetic_sum, "add"},
                                            {"aten.sub", arithmetic_sum, "sub"},
                                            {"aten.rsub", arithmetic_sum, "rsub"},
                                            {"aten.subtract", arithmetic_sum, "sub"},
                                            {"aten.mul", arithmetic_mul, NULL},
                                            {"aten.multiply", arithmetic_mul, NULL},
                                            {"aten.div", arithmetic_div, NULL},
                                            {"aten.divide", arithmetic_div, NULL},
                                            {"aten.true_divide", arithmetic_div, NULL},
                                            {"aten.floor_divide", arithmetic_div, "floor"},
                                            {"aten.remainder", arithmetic_remainder, NULL},
                                            TWO("pow", "pow"),
                                            TWO("minimum", "minimum"),
                                            TWO("maximum", "maximum"),
                                            TWO("atan2", "atan2"),
                                            TWO("fmod", "fmod"),
                                            TWO("eq", "eq"),
                                            TWO("ne", "ne"),
                                            TWO("lt", "lt"),
                                            TWO("le", "le"),
                                            TWO("gt", "gt"),
                                            TWO("ge", "ge"),
                                            TWO("logical_and", "logical_and"),
                                            TWO("logical_or", "logical_or"),
                                            TWO("logical_xor", "ne"),
                                            BITS("bitwise_and", "logical_and"),
                                            BITS("__and__", "logical_and"),
                                            BITS("bitwise_or", "logical_or"),
                                            BITS("__or__", "logical_or"),
                                            BITS("bitwise_xor", "ne"),
                                            {"aten.where", arithmetic_where, NULL},
                                            {"aten.masked_fill", arithmetic_masked_fill, NULL},
                                            {"aten.addcmul", arithmetic_addc, "mul"},
                                            {"aten.addcdiv", arithmetic_addc, "div"},
                                            {"aten.lerp", arithmetic_lerp, NULL},
                                            {NULL, NULL, NULL}};
