/* Rules: activations and arithmetic of elements. */
#include <math.h>
#include <string.h>

#include "import/import.h"

/* ---- layers of one input ---- */

static int elementwise_same(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  (void)data;
  CT_TRY(ct__im_in(t, n, n->arg[0].name, 0, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* No gradient passes to parameters. */
static int elementwise_detach(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, from;
  CT_TRY(ct_pt2_tensor(t->g, n, n->arg[0].name, 0, &from));
  if (!(t->g->value[from].on & CT_PT2_ON_PARAMETER)) return elementwise_same(t, n, data);
  CT_TRY(ct__im_operand(t, from, &x));
  CT_TRY(ct__im_one(t, &x, "detach", &t->layer[x].shape, x, NULL));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* A layer without options; data: its kind. */
static int elementwise_plain(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  CT_TRY(ct__im_in(t, n, n->arg[0].name, 0, &x));
  CT_TRY(ct__im_one(t, &x, data, &t->layer[x].shape, x, NULL));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* The options of a layer: up to three, by the names of PyTorch's arguments. */
typedef struct option {
  const char *kind;
  struct {
    const char *arg, *key;
    double usual; /* the kind's default */
  } row[3];
} option_t;

/* A layer with options; data: option_t. */
static int elementwise_options(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  const option_t *o = data;
  const char *text = "";
  CT_TRY(ct__im_in(t, n, n->arg[0].name, 0, &x));
  for (int i = 0; i < 3 && o->row[i].arg; i++) {
    double v;
    char number[40];
    if (ct_pt2_is_none(n, o->row[i].arg)) continue;
    CT_TRY(ct_pt2_number(t->g, n, o->row[i].arg, &v));
    if (v == o->row[i].usual) continue;
    text = ct__im_format(t, "%s%s%s: %s", text, *text ? ", " : "", o->row[i].key,
                         ct_text_number(v, number, sizeof number));
    if (!text) return CT_ERR_NOMEM;
  }
  CT_TRY(ct__im_one(t, &x, o->kind, &t->layer[x].shape, x, "%s", text));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

#define OPTION(id, kind, ...) static const option_t option_##id = {kind, {__VA_ARGS__}}
OPTION(leaky_relu, "leaky_relu", {"negative_slope", "negative_slope", 0.01});
OPTION(softplus, "softplus", {"beta", "beta", 1}, {"threshold", "threshold", 20});
OPTION(celu, "celu", {"alpha", "alpha", 1});
OPTION(hardshrink, "hardshrink", {"lambd", "lambda", 0.5});
OPTION(softshrink, "softshrink", {"lambd", "lambda", 0.5});
OPTION(threshold, "threshold", {"threshold", "threshold", NAN}, {"value", "value", NAN});
OPTION(clamp, "clamp", {"min", "min", NAN}, {"max", "max", NAN});
OPTION(clamp_min, "clamp", {"min", "min", NAN});
OPTION(clamp_max, "clamp", {"max", "max", NAN});

static int elementwise_gelu(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK;
  const char *how = "none";
  (void)data;
  if (!ct_pt2_is_none(n, "approximate")) CT_TRY(ct_pt2_text(t->g, n, "approximate", &how));
  CT_TRY(elementwise_plain(t, n, strcmp(how, "tanh") == 0 ? "gelu_tanh" : "gelu"));
out:
  return rc;
}

static int elementwise_hardtanh(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  static const option_t hardtanh = {"hardtanh", {{"min_val", "min", -1}, {"max_val", "max", 1}}};
  int rc = CT_OK;
  double low = -1, high = 1;
  (void)data;
  CT_TRY(ct_pt2_number(t->g, n, "min_val", &low));
  CT_TRY(ct_pt2_number(t->g, n, "max_val", &high));
  if (low == 0 && high == 6) return elementwise_plain(t, n, "relu6");
  CT_TRY(elementwise_options(t, n, &hardtanh));
out:
  return rc;
}

static int elementwise_elu(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  static const option_t elu = {"elu", {{"alpha", "alpha", 1}}};
  int rc = CT_OK;
  double scale = 1, input_scale = 1;
  (void)data;
  CT_TRY(ct_pt2_number(t->g, n, "scale", &scale));
  CT_TRY(ct_pt2_number(t->g, n, "input_scale", &input_scale));
  if (scale != 1 || input_scale != 1) return ct__im_refuse("scale and input_scale must be 1");
  CT_TRY(elementwise_options(t, n, &elu));
out:
  return rc;
}

/* ---- types ---- */

static int elementwise_is_float(ct_elem_t e)
{
  return e == CT_ELEM_F32 || e == CT_ELEM_F64 || e == CT_ELEM_F16 || e == CT_ELEM_BF16;
}

/* Conversions: floats and integers are float32 here. */
static int elementwise_convert(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, from;
  (void)data;
  CT_TRY(ct_pt2_tensor(t->g, n, n->arg[0].name, 0, &from));
  CT_TRY(ct__im_operand(t, from, &x));
  ct_elem_t a = t->g->value[from].type, b = t->g->value[n->out[0]].type;
  if (a == CT_ELEM_C64 || b == CT_ELEM_C64) return ct__im_refuse("complex numbers");
  if (b == CT_ELEM_BOOL && a != CT_ELEM_BOOL)
    CT_TRY(ct__im_scalar(t, "ne", x, 0, &x));
  else if (elementwise_is_float(a) && !elementwise_is_float(b))
    CT_TRY(ct__im_truncate(t, x, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* The halves of a dim: a * sigmoid(b). */
static int elementwise_glu(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, a, b, dim;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_dim(t, n, "dim", t->layer[x].shape.ndim, &dim));
  int64_t all = t->layer[x].shape.dim[dim];
  CT_TRY(ct__im_slice(t, x, dim, 0, all / 2, 1, &a));
  CT_TRY(ct__im_slice(t, x, dim, all / 2, all, 1, &b));
  CT_TRY(ct__im_one(t, &b, "sigmoid", &t->layer[b].shape, b, NULL));
  CT_TRY(ct__im_binary(t, "mul", a, b, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int elementwise_prelu(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, w;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct_pt2_tensor(t->g, n, "weight", 0, &w));
  const ct_pt2_value_t *v = &t->g->value[w];
  if (v->kind != CT_PT2_PARAMETER) return ct__im_refuse("its weight is not a parameter");
  long channels = (long)(v->ndim ? v->dim[0].n : 1);
  CT_TRY(ct__im_one(t, &x, "prelu", &t->layer[x].shape, x, "channels: %ld", channels));
  ct__im_weight(t, x, "weight", w);
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int elementwise_round(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  double decimals = 0;
  if (!ct_pt2_is_none(n, "decimals")) {
    int rc = ct_pt2_number(t->g, n, "decimals", &decimals);
    if (rc != CT_OK) return rc;
  }
  if (decimals != 0) return ct__im_refuse("it rounds to %g decimals, not to integers", decimals);
  return elementwise_plain(t, n, data);
}

/* log(x / (1 - x)) with x kept in [eps, 1 - eps] */
static int elementwise_logit(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, y;
  double eps = 0;
  char low[40], high[40];
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  if (!ct_pt2_is_none(n, "eps")) {
    CT_TRY(ct_pt2_number(t->g, n, "eps", &eps));
    CT_TRY(ct__im_one(t, &x, "clamp", &s, x, "min: %s, max: %s",
                      ct_text_number(eps, low, sizeof low),
                      ct_text_number(1 - eps, high, sizeof high)));
  }
  CT_TRY(ct__im_one(t, &y, "sub", &s, x, "value: 1, reverse: yes"));
  CT_TRY(ct__im_binary(t, "div", x, y, &y));
  CT_TRY(ct__im_one(t, &y, "log", &s, y, NULL));
  CT_TRY(ct__im_done(t, n, y));
out:
  return rc;
}

/* A logarithm of another base; data: its logarithm. */
static int elementwise_log(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_one(t, &x, "log", &t->layer[x].shape, x, NULL));
  CT_TRY(ct__im_scalar(t, "div", x, strcmp(data, "2") == 0 ? log(2) : log(10), &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int elementwise_exp2(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_scalar(t, "mul", x, log(2), &x));
  CT_TRY(ct__im_one(t, &x, "exp", &t->layer[x].shape, x, NULL));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int elementwise_trunc(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  (void)data;
  CT_TRY(ct__im_in(t, n, "self", 0, &x));
  CT_TRY(ct__im_truncate(t, x, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* The inverse of bools; of integers there is none. */
static int elementwise_not(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  (void)data;
  if (t->g->value[n->out[0]].type != CT_ELEM_BOOL)
    return ct__im_refuse("is supported for bool only");
  return elementwise_plain(t, n, "logical_not");
}

#define SAME(op)                       \
  {                                    \
    "aten." op, elementwise_same, NULL \
  }
#define PLAIN(op)                     \
  {                                   \
    "aten." op, elementwise_plain, op \
  }
#define AS(op, kind)                    \
  {                                     \
    "aten." op, elementwise_plain, kind \
  }
#define WITH(op)                                   \
  {                                                \
    "aten." #op, elementwise_options, &option_##op \
  }
#define TYPE(op)                          \
  {                                       \
    "aten." op, elementwise_convert, NULL \
  }

const ct__im_rule_t ct__im_elementwise[] = {SAME("contiguous"),
                                            SAME("clone"),
                                            {"aten.detach", elementwise_detach, NULL},
                                            SAME("alias"),
                                            SAME("positive"),
                                            SAME("lift_fresh_copy"),
                                            SAME("lift"),
                                            TYPE("to"),
                                            TYPE("type_as"),
                                            TYPE("_to_copy"),
                                            TYPE("float"),
                                            TYPE("bool"),
                                            TYPE("long"),
                                            PLAIN("relu"),
                                            PLAIN("relu6"),
                                            PLAIN("sigmoid"),
                                            PLAIN("tanh"),
                                            PLAIN("silu"),
                                            PLAIN("selu"),
                                            PLAIN("mish"),
                                            PLAIN("hardswish"),
                                            PLAIN("hardsigmoid"),
                                            PLAIN("exp"),
                                            PLAIN("expm1"),
                                            PLAIN("log"),
                                            PLAIN("log1p"),
                                            PLAIN("sin"),
                                            PLAIN("cos"),
                                            PLAIN("tan"),
                                            PLAIN("asin"),
                                            PLAIN("acos"),
                                            PLAIN("atan"),
                                            PLAIN("sinh"),
                                            PLAIN("cosh"),
                                            PLAIN("sqrt"),
                                            PLAIN("rsqrt"),
                                            PLAIN("abs"),
                                            PLAIN("neg"),
                                            PLAIN("reciprocal"),
                                            PLAIN("square"),
                                            PLAIN("sign"),
                                            PLAIN("floor"),
                                            PLAIN("ceil"),
                                            {"aten.round", elementwise_round, "round"},
                                            PLAIN("erf"),
                                            PLAIN("logical_not"),
                                            PLAIN("softsign"),
                                            PLAIN("tanhshrink"),
                                            AS("log_sigmoid", "logsigmoid"),
                                            AS("sgn", "sign"),
                                            AS("arcsin", "asin"),
                                            AS("arccos", "acos"),
                                            AS("arctan", "atan"),
                                            WITH(leaky_relu),
                                            WITH(softplus),
                                            WITH(celu),
                                            WITH(hardshrink),
                                            WITH(softshrink),
                                            WITH(threshold),
                                            WITH(clamp),
                                            WITH(clamp_min),
                                            WITH(clamp_max),
                                            {"aten.clip", elementwise_options, &option_clamp},
                                            {"aten.gelu", elementwise_gelu, NULL},
                                            {"aten.hardtanh", elementwise_hardtanh, NULL},
                                            {"aten.elu", elementwise_elu, NULL},
                                            {"aten.glu", elementwise_glu, NULL},
                                            {"aten.prelu", elementwise_prelu, NULL},
                                            {"aten.logit", elementwise_logit, NULL},
                                            {"aten.log2", elementwise_log, "2"},
                                            {"aten.log10", elementwise_log, "10"},
                                            {"aten.exp2", elementwise_exp2, NULL},
                                            {"aten.trunc", elementwise_trunc, NULL},
                                            {"aten.fix", elementwise_trunc, NULL},
                                            {"aten.bitwise_not", elementwise_not, NULL},
                                            {NULL, NULL, NULL}};
