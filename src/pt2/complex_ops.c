/* Complex numbers as pairs: views, arithmetic and products. */
#include <string.h>

#include "pt2/complex.h"

/* ---- ops that are the same for pairs ---- */

/* Counts the dims of an argument from the front, as the last dim is that of the pairs now. */
static int views_dims(ct__complex_t *c, ct_pt2_arg_t *a, int ndim)
{
  static const char *const names[] = {"dim",   "dims",  "dim0",   "dim1",
                                      "axis0", "axis1", "source", "destination"};
  int found = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    found |= strcmp(a->name, names[i]) == 0;
  if (!found || !a->dim) return 1;
  ct_pt2_dim_t *dim = ct__pt2_alloc(c->p, a->n, sizeof *dim);
  if (!dim) c->rc = CT_ERR_NOMEM;
  for (int i = 0; i < a->n && dim; i++) {
    dim[i] = a->dim[i];
    if (dim[i].n < 0) dim[i].n += ndim;
  }
  a->dim = dim;
  return dim != NULL;
}

/* Appends a number to a list of numbers, or puts some before it. */
static int views_longer(ct__complex_t *c, ct_pt2_arg_t *a, int before, int after, int64_t number)
{
  int n = before + a->n + after;
  ct_pt2_dim_t *dim = ct__pt2_alloc(c->p, n, sizeof *dim);
  if (!dim) c->rc = CT_ERR_NOMEM;
  for (int i = 0; i < n && dim; i++)
    dim[i] = i < before || i >= before + a->n ? (ct_pt2_dim_t){number, 0} : a->dim[i - before];
  a->kind = CT_PT2_INTS;
  a->dim = dim;
  a->n = n;
  return dim != NULL;
}

/* Makes the real tensors of an argument pairs. */
static int views_complex(ct__complex_t *c, ct_pt2_arg_t *a)
{
  int *list = ct__pt2_alloc(c->p, a->n, sizeof *list);
  if (!list) c->rc = CT_ERR_NOMEM;
  for (int k = 0; k < a->n && list; k++)
    list[k] = a->tensor[k] < 0 ? -1 : ct__complex_of(c, a->tensor[k]);
  a->tensor = list;
  return list != NULL;
}

/* The same op; data: the list that gets an element more. */
static int views_same(ct__complex_t *c, const char *data)
{
  ct_pt2_node_t copy = *c->node;
  int first = ct__complex_arg(c, "self"), more = ct_pt2_is(&copy, "aten.stack");
  const ct_pt2_arg_t *list = ct_pt2_arg(&copy, "tensors");
  if (first < 0 && list && list->kind == CT_PT2_TENSORS && list->n > 0) first = list->tensor[0];
  int ndim = first < 0 ? 0 : ct__complex_ndim(c, first) - (ct__complex_is(c, first) ? 1 : 0) + more;
  ct_pt2_arg_t *args = ct__pt2_alloc(c->p, copy.args, sizeof *args);
  if (!args) c->rc = CT_ERR_NOMEM;
  for (int i = 0; i < copy.args && args; i++) {
    args[i] = copy.arg[i];
    int src = strcmp(args[i].name, "src") == 0 || strcmp(args[i].name, "tensors") == 0 ||
              (strcmp(args[i].name, "self") == 0 && !ct__pt2_shape_only(&copy, &args[i]));
    if (src && args[i].tensor && !views_complex(c, &args[i])) return 1;
    if (!views_dims(c, &args[i], ndim)) return 1;
    if (!data || strcmp(args[i].name, data) != 0) continue;
    int pad = strcmp(data, "pad") == 0;
    int64_t number = pad ? 0 : ct_pt2_is(&copy, "aten.permute") ? ndim : 1;
    if (!views_longer(c, &args[i], pad ? 2 : 0, pad ? 0 : 1, number)) return 1;
  }
  if (c->rc != CT_OK) return 1;
  copy.arg = args;
  for (int k = 0; k < copy.outs; k++)
    if (copy.out[k] >= 0) c->p->value[copy.out[k]].node = c->p->g.nodes;
  c->rc = ct__pt2_add_node(c->p, &copy);
  return 1;
}

/* roll and flip, which mean the flat tensor without dims. */
static int views_order(ct__complex_t *c, const char *data)
{
  const ct_pt2_arg_t *dims = ct_pt2_arg(c->node, "dims");
  return dims && dims->n > 0 && dims->dim ? views_same(c, data) : 0;
}

/* constant_pad_nd and pad with zeros. */
static int views_pad(ct__complex_t *c, const char *data)
{
  const ct_pt2_arg_t *mode = ct_pt2_arg(c->node, "mode"), *value = ct_pt2_arg(c->node, "value");
  if (mode && (mode->kind != CT_PT2_STRING || strcmp(mode->text, "constant") != 0)) return 0;
  if (value && value->kind == CT_PT2_FLOAT && value->number[0] != 0) return 0;
  if (value && value->kind == CT_PT2_INT && value->dim[0].n != 0) return 0;
  return views_same(c, data);
}

/* t, mT and the conjugated ones: the last two dims. */
static int views_turn(ct__complex_t *c, const char *data)
{
  int x = ct__complex_arg(c, "self"), ndim = ct__complex_ndim(c, x) - 1;
  ct__pt2_make_t m = ct__pt2_make("aten.transpose.int", c->node);
  ct__complex_shape_t s = ct__complex_shape(c, x);
  if (ndim < 2) return 0;
  ct_pt2_dim_t swap = s.dim[ndim - 1];
  s.dim[ndim - 1] = s.dim[ndim - 2];
  s.dim[ndim - 2] = swap;
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_int(c->p, &m, "dim0", ndim - 2);
  ct__pt2_make_int(c->p, &m, "dim1", ndim - 1);
  x = ct__complex_add(c, &m, &s);
  return ct__complex_done(c, data ? ct__complex_conj(c, x) : x);
}

/* sum and mean; without dims, of all. */
static int views_reduce(ct__complex_t *c, const char *data)
{
  const ct_pt2_arg_t *dim = ct_pt2_arg(c->node, "dim");
  int x = ct__complex_arg(c, "self");
  if (dim && dim->dim && dim->n > 0) return views_same(c, NULL);
  ct__pt2_make_t m = ct__pt2_make(data, c->node);
  const ct__complex_shape_t s = {.ndim = 1, .dim = {{2, 0}}};
  ct_pt2_dim_t all[CT__PT2_DIMS] = {{0, 0}};
  int n = ct__complex_ndim(c, x) - 1;
  for (int i = 0; i < n; i++)
    all[i].n = i;
  if (n == 0) return 0;
  ct__pt2_make_tensor(c->p, &m, "self", x);
  ct__pt2_make_dims(c->p, &m, "dim", all, n);
  return ct__complex_done(c, ct__complex_add(c, &m, &s));
}

/* ---- parts ---- */

static int math_equal(ct__complex_t *c, const char *data)
{
  (void)data;
  return ct__complex_done(c, ct__complex_arg(c, "self"));
}

static int math_part(ct__complex_t *c, const char *data)
{
  int x = ct__complex_arg(c, "self");
  if (!ct__complex_is(c, x)) return data[0] == '0' ? ct__complex_done(c, x) : 0;
  return ct__complex_done(c, ct__complex_part(c, x, data[0] - '0', 0));
}

static int math_conj(ct__complex_t *c, const char *data)
{
  (void)data;
  return ct__complex_done(c, ct__complex_conj(c, ct__complex_arg(c, "self")));
}

static int math_complex(ct__complex_t *c, const char *data)
{
  (void)data;
  return ct__complex_done(
      c, ct__complex_pair(c, ct__complex_arg(c, "real"), ct__complex_arg(c, "imag")));
}

/* size * exp(i angle) */
static int math_from_polar(ct__complex_t *c, int size, int angle)
{
  int re = ct__complex_one(c, "aten.cos.default", angle);
  int im = ct__complex_one(c, "aten.sin.default", angle);
  re = ct__complex_two(c, "aten.mul.Tensor", re, size);
  im = ct__complex_two(c, "aten.mul.Tensor", im, size);
  return ct__complex_pair(c, re, im);
}

static int math_polar(ct__complex_t *c, const char *data)
{
  (void)data;
  return ct__complex_done(
      c, math_from_polar(c, ct__complex_arg(c, "abs"), ct__complex_arg(c, "angle")));
}

static int math_exp(ct__complex_t *c, const char *data)
{
  int z = ct__complex_arg(c, "self");
  int re = ct__complex_part(c, z, 0, 0), im = ct__complex_part(c, z, 1, 0);
  (void)data;
  re = ct__complex_one(c, "aten.exp.default", re);
  return ct__complex_done(c, math_from_polar(c, re, im));
}

static int math_abs(ct__complex_t *c, const char *data)
{
  int z = ct__complex_arg(c, "self");
  ct__pt2_make_t m = ct__pt2_make("aten.linalg_vector_norm.default", c->node);
  ct__complex_shape_t s = ct__complex_shape(c, z);
  const ct_pt2_dim_t last = {--s.ndim, 0};
  (void)data;
  ct__pt2_make_tensor(c->p, &m, "self", z);
  ct__pt2_make_dims(c->p, &m, "dim", &last, 1);
  return ct__complex_done(c, ct__complex_add(c, &m, &s));
}

static int math_angle(ct__complex_t *c, const char *data)
{
  int z = ct__complex_arg(c, "self");
  int re = ct__complex_part(c, z, 0, 0), im = ct__complex_part(c, z, 1, 0);
  (void)data;
  return ct__complex_done(c, ct__complex_two(c, "aten.atan2.default", im, re));
}

/* Conversions: complex values that become real lose their imaginary part. */
static int math_convert(ct__complex_t *c, const char *data)
{
  int x = ct__complex_arg(c, "self");
  (void)data;
  if (ct__complex_is(c, c->node->out[0])) return ct__complex_done(c, ct__complex_of(c, x));
  if (c->p->value[c->node->out[0]].type != CT_ELEM_F32) return 0;
  return ct__complex_done(c, ct__complex_part(c, x, 0, 0));
}

/* ---- arithmetic ---- */

/* An operand: a tensor, or a number if value is -1. */
typedef struct operand {
  int value, is; /* is: complex */
  double re, im;
} operand_t;

static int math_operand(const ct__complex_t *c, const char *name, operand_t *out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(c->node, name);
  *out = (operand_t){.value = -1};
  if (!a) return 0;
  if (a->kind == CT_PT2_TENSOR) {
    out->value = a->tensor[0];
    out->is = ct__complex_is(c, out->value);
    return 1;
  }
  if (a->kind == CT_PT2_INT || a->kind == CT_PT2_BOOL) out->re = (double)a->dim[0].n;
  if (a->kind == CT_PT2_FLOAT || a->kind == CT_PT2_COMPLEX) out->re = a->number[0];
  if (a->kind == CT_PT2_COMPLEX) out->im = a->number[1];
  out->is = a->kind == CT_PT2_COMPLEX && out->im != 0;
  return a->kind == CT_PT2_COMPLEX || a->kind == CT_PT2_FLOAT || a->kind == CT_PT2_INT;
}

/* Returns an operand as pairs. */
static int math_pairs(ct__complex_t *c, const operand_t *o)
{
  if (o->value >= 0) return ct__complex_of(c, o->value);
  return ct__complex_numbers(c, o->re, o->im);
}

/* Returns a real operand with a last dim of 1. */
static int math_wide(ct__complex_t *c, const operand_t *o)
{
  if (o->value >= 0) return ct__complex_wide(c, o->value);
  return ct__complex_numbers(c, o->re, o->re);
}

/* add, sub and rsub with their factor, of pairs; data: the op. */
static int math_sum(ct__complex_t *c, const char *data)
{
  operand_t a, b;
  const ct_pt2_arg_t *alpha = ct_pt2_arg(c->node, "alpha");
  if (!math_operand(c, "self", &a) || !math_operand(c, "other", &b)) return 0;
  if (alpha && !(alpha->kind == CT_PT2_INT && alpha->dim[0].n == 1) &&
      !(alpha->kind == CT_PT2_FLOAT && alpha->number[0] == 1))
    return 0;
  int x = math_pairs(c, &a), y = math_pairs(c, &b), turned = ct_pt2_is(c->node, "aten.rsub");
  return ct__complex_done(c, ct__complex_two(c, data, turned ? y : x, turned ? x : y));
}

/* Returns 1 if a factor is better taken apart: one that does not depend on the input. */
static int math_is_fixed(const ct__complex_t *c, const operand_t *o)
{
  return o->value < 0 || !(c->p->value[o->value].on & CT_PT2_ON_INPUT);
}

static int math_mul(ct__complex_t *c, const char *data)
{
  operand_t a, b;
  (void)data;
  if (!math_operand(c, "self", &a) || !math_operand(c, "other", &b)) return 0;
  if (!a.is || (b.is && math_is_fixed(c, &a) && !math_is_fixed(c, &b))) {
    operand_t swap = a;
    a = b;
    b = swap;
  }
  int x = math_pairs(c, &a);
  if (b.is) return ct__complex_done(c, ct__complex_mul(c, x, math_pairs(c, &b)));
  return ct__complex_done(c, ct__complex_two(c, "aten.mul.Tensor", x, math_wide(c, &b)));
}

/* |z|^2 with a last dim of 1. */
static int math_square_size(ct__complex_t *c, int z)
{
  int re = ct__complex_part(c, z, 0, 1), im = ct__complex_part(c, z, 1, 1);
  re = ct__complex_two(c, "aten.mul.Tensor", re, re);
  im = ct__complex_two(c, "aten.mul.Tensor", im, im);
  return ct__complex_two(c, "aten.add.Tensor", re, im);
}

static int math_div(ct__complex_t *c, const char *data)
{
  operand_t a, b;
  (void)data;
  if (!math_operand(c, "self", &a) || !math_operand(c, "other", &b)) return 0;
  int x = math_pairs(c, &a);
  if (!b.is) return ct__complex_done(c, ct__complex_two(c, "aten.div.Tensor", x, math_wide(c, &b)));
  int y = math_pairs(c, &b), size = math_square_size(c, y);
  x = ct__complex_mul(c, x, ct__complex_conj(c, y));
  return ct__complex_done(c, ct__complex_two(c, "aten.div.Tensor", x, size));
}

static int math_reciprocal(ct__complex_t *c, const char *data)
{
  int z = ct__complex_arg(c, "self"), size = math_square_size(c, z);
  (void)data;
  return ct__complex_done(c, ct__complex_two(c, "aten.div.Tensor", ct__complex_conj(c, z), size));
}

static int math_square(ct__complex_t *c, const char *data)
{
  int z = ct__complex_arg(c, "self");
  operand_t power;
  if (data &&
      (!math_operand(c, data, &power) || power.value >= 0 || power.re != 2 || power.im != 0))
    return 0;
  if (z < 0) return 0;
  return ct__complex_done(c, ct__complex_mul(c, z, z));
}

#define SAME(op)                 \
  {                              \
    "aten." op, views_same, NULL \
  }
#define SAMES(a, b, c, d) SAME(a), SAME(b), SAME(c), SAME(d)

const ct__complex_row_t ct__complex_views[] = {
    SAMES("view", "reshape", "flatten", "unflatten"),
    SAMES("squeeze", "unsqueeze", "view_as", "reshape_as"),
    SAMES("ravel", "_unsafe_view", "contiguous", "clone"),
    SAMES("alias", "detach", "lift_fresh_copy", "positive"),
    SAMES("transpose", "swapaxes", "swapdims", "movedim"),
    SAMES("expand", "expand_as", "broadcast_to", "slice"),
    SAMES("select", "narrow", "split", "split_with_sizes"),
    SAMES("chunk", "unbind", "tensor_split", "unsafe_split"),
    SAMES("index", "index_select", "cat", "concat"),
    SAMES("stack", "slice_scatter", "select_scatter", "neg"),
    SAMES("zeros", "zeros_like", "new_zeros", "cumsum"),
    SAMES("empty", "empty_like", "new_empty", "unsafe_chunk"),
    {"aten.permute", views_same, "dims"},
    {"aten.repeat", views_same, "repeats"},
    {"aten.tile", views_same, "dims"},
    {"aten.roll", views_order, NULL},
    {"aten.flip", views_order, NULL},
    {"aten.pad", views_pad, "pad"},
    {"aten.constant_pad_nd", views_pad, "pad"},
    {"aten.t", views_turn, NULL},
    {"aten.mT", views_turn, NULL},
    {"aten.mH", views_turn, "conj"},
    {"aten.adjoint", views_turn, "conj"},
    {"aten.matrix_H", views_turn, "conj"},
    {"aten.sum", views_reduce, "aten.sum.dim_IntList"},
    {"aten.mean", views_reduce, "aten.mean.dim"},
    {NULL, NULL, NULL}};

const ct__complex_row_t ct__complex_math[] = {{"aten.view_as_real", math_equal, NULL},
                                              {"aten.view_as_complex", math_equal, NULL},
                                              {"aten.real", math_part, "0"},
                                              {"aten.imag", math_part, "1"},
                                              {"aten.complex", math_complex, NULL},
                                              {"aten.polar", math_polar, NULL},
                                              {"aten.conj", math_conj, NULL},
                                              {"aten._conj", math_conj, NULL},
                                              {"aten.conj_physical", math_conj, NULL},
                                              {"aten.resolve_conj", math_equal, NULL},
                                              {"aten.abs", math_abs, NULL},
                                              {"aten.angle", math_angle, NULL},
                                              {"aten.exp", math_exp, NULL},
                                              {"aten.to", math_convert, NULL},
                                              {"aten._to_copy", math_convert, NULL},
                                              {"aten.type_as", math_convert, NULL},
                                              {"aten.add", math_sum, "aten.add.Tensor"},
                                              {"aten.sub", math_sum, "aten.sub.Tensor"},
                                              {"aten.rsub", math_sum, "aten.sub.Tensor"},
                                              {"aten.mul", math_mul, NULL},
                                              {"aten.multiply", math_mul, NULL},
                                              {"aten.div", math_div, NULL},
                                              {"aten.divide", math_div, NULL},
                                              {"aten.true_divide", math_div, NULL},
                                              {"aten.reciprocal", math_reciprocal, NULL},
                                              {"aten.square", math_square, NULL},
                                              {"aten.pow", math_square, "exponent"},
                                              {NULL, NULL, NULL}};
