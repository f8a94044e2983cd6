/* Translates elementwise programs, step by step, and random numbers.  Functions that opset 17 lacks
 * are composed.  Results of comparisons are cast to numbers, and conditions to booleans. */
#include "backend/ct_expr_view.h"
#include "onnx/onnx.h"

#include <math.h>
#include <stdio.h>

#include "base/ct_text.h"

#define IN  CT__ONNX_LIST
#define OUT CT__ONNX_LIST

enum { BOOLEAN = 9 /* TensorProto.DataType */ };

/* A step being translated. */
typedef struct step {
  ct__onnx_t *o;
  int id, number, made; /* layer; step; number of its intermediate results so far */
  const char *a, *b, *c, *y;
  double setting; /* value of b if it is a constant */
} step_t;

/* Functions that are one node. */
static const char *const onnx_ops[CT_FN_COUNT] = {
    [CT_FN_ADD] = "Add",     [CT_FN_SUB] = "Sub",         [CT_FN_MUL] = "Mul",
    [CT_FN_DIV] = "Div",     [CT_FN_POW] = "Pow",         [CT_FN_MINIMUM] = "Min",
    [CT_FN_MAXIMUM] = "Max", [CT_FN_EXP] = "Exp",         [CT_FN_LOG] = "Log",
    [CT_FN_SIN] = "Sin",     [CT_FN_COS] = "Cos",         [CT_FN_TAN] = "Tan",
    [CT_FN_ASIN] = "Asin",   [CT_FN_ACOS] = "Acos",       [CT_FN_ATAN] = "Atan",
    [CT_FN_SINH] = "Sinh",   [CT_FN_COSH] = "Cosh",       [CT_FN_SQRT] = "Sqrt",
    [CT_FN_ABS] = "Abs",     [CT_FN_SIGN] = "Sign",       [CT_FN_FLOOR] = "Floor",
    [CT_FN_CEIL] = "Ceil",   [CT_FN_ROUND] = "Round",     [CT_FN_DETACH] = "Identity",
    [CT_FN_ERF] = "Erf",     [CT_FN_SIGMOID] = "Sigmoid", [CT_FN_TANH] = "Tanh",
    [CT_FN_RELU] = "Relu",   [CT_FN_PRELU] = "PRelu",     [CT_FN_HARDSWISH] = "HardSwish"};

/* Comparisons. */
static const char *const onnx_tests[CT_FN_COUNT] = {[CT_FN_EQ] = "Equal",
                                                    [CT_FN_LT] = "Less",
                                                    [CT_FN_LE] = "LessOrEqual",
                                                    [CT_FN_GT] = "Greater",
                                                    [CT_FN_GE] = "GreaterOrEqual"};

/* Returns a name for the next intermediate result of a step. */
static const char *mid(step_t *s)
{
  char word[32];
  snprintf(word, sizeof word, "step%d.%d", s->number, s->made++);
  return ct__onnx_name(s->o, s->id, word);
}

static const char *number(step_t *s, double v)
{
  char word[32];
  snprintf(word, sizeof word, "step%d.%d", s->number, s->made++);
  return ct__onnx_scalar(s->o, s->id, word, v);
}

/* Adds a node with one or two inputs; returns its output. */
static const char *node(step_t *s, const char *op, const char *a, const char *b)
{
  const char *y = mid(s);
  ct__onnx_node(s->o, op, OUT(y), IN(a, b));
  return y;
}

static void cast(step_t *s, const char *from, int type, const char *y)
{
  ct__onnx_node(s->o, "Cast", OUT(y), IN(from));
  ct__onnx_int(s->o, "to", type);
}

static const char *boolean(step_t *s, const char *v)
{
  const char *y = mid(s);
  cast(s, v, BOOLEAN, y);
  return y;
}

static void choose(step_t *s, const char *condition, const char *a, const char *b, const char *y)
{
  ct__onnx_node(s->o, "Where", OUT(y), IN(condition, a, b));
}

/* ---- functions that are composed ---- */

static void logic(step_t *s, ct_fn_t fn)
{
  const char *v;
  if (fn == CT_FN_NE)
    v = node(s, "Not", node(s, "Equal", s->a, s->b), NULL);
  else if (fn == CT_FN_NOT)
    v = node(s, "Equal", s->a, number(s, 0));
  else
    v = node(s, fn == CT_FN_AND ? "And" : "Or", boolean(s, s->a), boolean(s, s->b));
  cast(s, v, CT__ONNX_FLOAT, s->y);
}

/* atan(a / b), and pi more or less where b is negative */
static void atan2_nodes(step_t *s)
{
  const char *zero = number(s, 0), *angle = node(s, "Atan", node(s, "Div", s->a, s->b), NULL);
  const char *half_turn = mid(s), *turn = mid(s), *up = node(s, "GreaterOrEqual", s->a, zero);
  choose(s, up, number(s, M_PI), number(s, -M_PI), half_turn);
  choose(s, node(s, "Less", s->b, zero), half_turn, zero, turn);
  ct__onnx_node(s->o, "Add", OUT(s->y), IN(angle, turn));
}

static void softplus(step_t *s)
{
  const char *z = node(s, "Mul", s->a, s->b);
  const char *soft = node(s, "Div", node(s, "Softplus", z, NULL), s->b);
  choose(s, node(s, "Greater", z, s->c), s->a, soft, s->y);
}

/* a (1 + f) / 2 */
static void half_of(step_t *s, const char *f)
{
  const char *sum = node(s, "Add", f, number(s, 1));
  const char *twice = node(s, "Mul", s->a, sum);
  ct__onnx_node(s->o, "Mul", OUT(s->y), IN(twice, number(s, 0.5)));
}

static void gelu_tanh(step_t *s)
{
  const char *cube = node(s, "Mul", node(s, "Mul", s->a, s->a), s->a);
  const char *sum = node(s, "Add", s->a, node(s, "Mul", cube, number(s, 0.044715)));
  half_of(s, node(s, "Tanh", node(s, "Mul", sum, number(s, sqrt(2 / M_PI))), NULL));
}

/* Functions with settings. */
static void with_settings(step_t *s, ct_fn_t fn)
{
  ct__onnx_t *o = s->o;
  switch (fn) {
  case CT_FN_CLAMP:
  case CT_FN_HARDTANH:
    ct__onnx_node(o, "Clip", OUT(s->y), IN(s->a, s->b, s->c));
    break;
  case CT_FN_THRESHOLD:
    choose(s, node(s, "Greater", s->a, s->b), s->a, s->c, s->y);
    break;
  case CT_FN_HARDSHRINK:
  case CT_FN_SOFTSHRINK:
    ct__onnx_node(o, "Shrink", OUT(s->y), IN(s->a));
    ct__onnx_float(o, "lambd", s->setting);
    ct__onnx_float(o, "bias", fn == CT_FN_SOFTSHRINK ? s->setting : 0);
    break;
  case CT_FN_SOFTPLUS:
    softplus(s);
    break;
  case CT_FN_ELU:
  case CT_FN_LEAKY_RELU:
    ct__onnx_node(o, fn == CT_FN_ELU ? "Elu" : "LeakyRelu", OUT(s->y), IN(s->a));
    ct__onnx_float(o, "alpha", s->setting);
    break;
  default:
    logic(s, fn);
    break;
  }
}

static void composed(step_t *s, ct_fn_t fn)
{
  ct__onnx_t *o = s->o;
  const char *part;
  switch (fn) {
  case CT_FN_ATAN2:
    atan2_nodes(s);
    break;
  case CT_FN_FMOD:
    ct__onnx_node(o, "Mod", OUT(s->y), IN(s->a, s->b));
    ct__onnx_int(o, "fmod", 1);
    break;
  case CT_FN_WHERE:
    choose(s, boolean(s, s->a), s->b, s->c, s->y);
    break;
  case CT_FN_GELU:
    half_of(s, node(s, "Erf", node(s, "Mul", s->a, number(s, sqrt(0.5))), NULL));
    break;
  case CT_FN_GELU_TANH:
    gelu_tanh(s);
    break;
  case CT_FN_SILU:
    part = node(s, "Sigmoid", s->a, NULL);
    ct__onnx_node(o, "Mul", OUT(s->y), IN(s->a, part));
    break;
  case CT_FN_MISH:
    part = node(s, "Tanh", node(s, "Softplus", s->a, NULL), NULL);
    ct__onnx_node(o, "Mul", OUT(s->y), IN(s->a, part));
    break;
  case CT_FN_LOGSIGMOID:
    part = node(s, "Softplus", node(s, "Neg", s->a, NULL), NULL);
    ct__onnx_node(o, "Neg", OUT(s->y), IN(part));
    break;
  case CT_FN_EXPM1:
    part = node(s, "Exp", s->a, NULL);
    ct__onnx_node(o, "Sub", OUT(s->y), IN(part, number(s, 1)));
    break;
  case CT_FN_LOG1P:
    part = node(s, "Add", s->a, number(s, 1));
    ct__onnx_node(o, "Log", OUT(s->y), IN(part));
    break;
  case CT_FN_RSQRT:
    part = node(s, "Sqrt", s->a, NULL);
    ct__onnx_node(o, "Reciprocal", OUT(s->y), IN(part));
    break;
  default:
    with_settings(s, fn);
    break;
  }
}

static void step(step_t *s, ct_fn_t fn)
{
  int operands = ct_fn_facts_of((int)fn)->operands;
  if (onnx_ops[fn]) {
    ct__onnx_node(s->o, onnx_ops[fn], OUT(s->y), IN(s->a, operands > 1 ? s->b : NULL));
  } else if (onnx_tests[fn]) {
    cast(s, node(s, onnx_tests[fn], s->a, s->b), CT__ONNX_FLOAT, s->y);
  } else {
    composed(s, fn);
  }
}

static double constant_of(const ct_expr_t *e, int operand)
{
  int k = operand - CT_EXPR_CONST;
  return k >= 0 && k < CT_EXPR_CONSTS ? e->value[k] : 0;
}

/* Returns 1 if a node reads the constant; others are attributes. */
static int is_read(const ct_expr_t *e, int operand)
{
  for (int i = 0; i < e->steps; i++) {
    int fn = e->step[i].fn;
    int attribute = fn == CT_FN_ELU || fn == CT_FN_LEAKY_RELU || fn == CT_FN_HARDSHRINK ||
                    fn == CT_FN_SOFTSHRINK;
    for (int k = 0; k < ct_fn_facts_of(fn)->operands; k++)
      if (e->step[i].of[k] == operand && !(attribute && k == 1)) return 1;
  }
  return 0;
}

void ct__onnx_expr(ct__onnx_t *o, int id, const ct_op_desc_t *d,
                   const char *const in[CT_EXPR_INPUTS], const char *y)
{
  const ct_expr_t *e = &d->u.expr;
  char name[CT_EXPR_VALUES][CT__ONNX_NAME] = {{0}};
  for (int k = 0; k < CT_EXPR_INPUTS; k++)
    if (in[k]) ct_text_fit(name[k], sizeof name[k], "%s", in[k]);
  for (int k = 1; k <= e->weight; k++) {
    const ct_shape_t *s = ct_expr_shape(d, k);
    ct_text_fit(
        name[k], sizeof name[k], "%s",
        ct__onnx_made(o, id, k - 1, CT__ONNX_PARAM, k > 1 ? "wide2" : "wide", s->ndim, s->dim));
  }
  for (int i = 0; i < e->consts; i++) {
    char word[32];
    if (!is_read(e, CT_EXPR_CONST + i)) continue;
    snprintf(word, sizeof word, "constant%d", i);
    ct_text_fit(name[CT_EXPR_CONST + i], sizeof name[0], "%s",
                ct__onnx_scalar(o, id, word, e->value[i]));
  }
  for (int i = 0; i < e->steps; i++) {
    const uint8_t *of = e->step[i].of;
    char *out = name[CT_EXPR_STEP + i];
    step_t s = {.o = o, .id = id, .number = i};
    ct_text_fit(out, sizeof name[0], "%s", i == e->steps - 1 ? y : mid(&s));
    s.a = name[of[0]];
    s.b = name[of[1]];
    s.c = name[of[2]];
    s.y = out;
    s.setting = constant_of(e, of[1]);
    step(&s, (ct_fn_t)e->step[i].fn);
  }
}

/* The shape has the batch size of the network's input, which only Shape provides at run time. */
void ct__onnx_random(ct__onnx_t *o, int id, const ct_op_desc_t *d, const char *y)
{
  const int64_t rows = d->y.dim[0];
  double p = d->u.random.kind == CT_RANDOM_BERNOULLI ? d->u.random.p : 0;
  const char *const kinds[] = {"RandomNormalLike", "RandomUniformLike", "Bernoulli"};
  const char *batch = ct__onnx_name(o, id, "batch"), *first = ct__onnx_name(o, id, "rows");
  const char *shape = ct__onnx_name(o, id, "shape"), *like = ct__onnx_name(o, id, "like");
  const char *factor = ct__onnx_const_ints(o, id, "factor", 1, 1, &rows);
  const char *rest = ct__onnx_const_ints(o, id, "dims", 1, d->y.ndim - 1, d->y.dim + 1);
  const char *value = ct__onnx_scalar(o, id, "value", p), *base = ct__onnx_name(o, id, "filled");
  ct__onnx_node(o, "Shape", OUT(batch), IN("input"));
  ct__onnx_int(o, "start", 0);
  ct__onnx_int(o, "end", 1);
  ct__onnx_node(o, "Mul", OUT(first), IN(batch, factor));
  ct__onnx_node(o, "Concat", OUT(shape), IN(first, rest));
  ct__onnx_int(o, "axis", 0);
  ct__onnx_node(o, "ConstantOfShape", OUT(base), IN(shape));
  ct__onnx_node(o, "Add", OUT(like), IN(base, value));
  ct__onnx_node(o, kinds[d->u.random.kind], OUT(y), IN(like));
}
