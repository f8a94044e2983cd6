/* Translates each op to ONNX nodes: one function per op, in the table at the end. Uses opset 17,
 * the first with LayerNormalization; newer ops (Gelu, Attention) are composed of simpler ones. */
#include "onnx/onnx_layer.h"

#include <math.h>
#include <stdio.h>

#include "backend/ct_op_parts.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

/* ---- matrix products ---- */

/* y = x w^T + b over the last dim of a sequence; w is the parameter [features, inputs]. */
static void steps_linear(ct__onnx_t *o, int id, const char *x, int slot, const char *y,
                         const char *word, int bias)
{
  const ct_param_t *w = &o->g->param[o->g->layer[id].param[slot]];
  const int64_t dim[2] = {w->spec.shape.dim[1], w->spec.shape.dim[0]};
  const char *matrix = ct__onnx_weight(o, id, slot, CT__ONNX_TRANSPOSED, "transposed", 1, 2, dim);
  const char *product = bias ? ct__onnx_name(o, id, word) : y;
  ct__onnx_node(o, "MatMul", OUT(product), IN(x, matrix));
  if (!bias) return;
  const char *b = ct__onnx_param(o, id, slot + 1);
  ct__onnx_node(o, "Add", OUT(y), IN(product, b));
}

static void linear(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  int bias = l->d->u.linear.bias;
  if (l->d->x.ndim != 2) {
    steps_linear(o, l->id, l->x, 0, l->y, "product", bias);
    return;
  }
  const ct_shape_t *w = &o->g->param[o->g->layer[l->id].param[0]].spec.shape;
  const char *weight = ct__onnx_weight(o, l->id, 0, CT__ONNX_PARAM, "", 0, 2, w->dim);
  const char *b = bias ? ct__onnx_bias(o, l->id, 1) : NULL;
  ct__onnx_node(o, "Gemm", OUT(l->y), IN(l->x, weight, b));
  ct__onnx_int(o, "transB", 1);
}

/* [N,T,3D] -> q, k, v, each [N,heads,T,D/heads] */
static void split_heads(ct__onnx_t *o, const ct__onnx_layer_t *l, const char *all,
                        const char *const part[3])
{
  int64_t heads = l->d->u.attention.heads, features = l->d->x.dim[2];
  const int64_t dims[5] = {0, 0, 3, heads, features / heads}, perm[5] = {2, 0, 3, 1, 4}, first = 0;
  const char *shape = ct__onnx_const_ints(o, l->id, "heads_shape", 1, 5, dims);
  const char *axis = ct__onnx_const_ints(o, l->id, "axis", 1, 1, &first);
  const char *shaped = ct__onnx_name(o, l->id, "shaped");
  const char *moved = ct__onnx_name(o, l->id, "heads");
  const char *cut[3] = {ct__onnx_name(o, l->id, "cut_q"), ct__onnx_name(o, l->id, "cut_k"),
                        ct__onnx_name(o, l->id, "cut_v")};
  ct__onnx_node(o, "Reshape", OUT(shaped), IN(all, shape));
  ct__onnx_node(o, "Transpose", OUT(moved), IN(shaped));
  ct__onnx_ints(o, "perm", 5, perm);
  ct__onnx_node(o, "Split", OUT(cut[0], cut[1], cut[2]), IN(moved));
  ct__onnx_int(o, "axis", 0);
  for (int i = 0; i < 3; i++)
    ct__onnx_node(o, "Squeeze", OUT(part[i]), IN(cut[i], axis));
}

/* softmax(q k^T / sqrt(D/heads)) v, heads concatenated: [N,T,D] */
static void attend(ct__onnx_t *o, const ct__onnx_layer_t *l, const char *const part[3],
                   const char *y)
{
  int64_t heads = l->d->u.attention.heads, features = l->d->x.dim[2];
  const int64_t swap[4] = {0, 1, 3, 2}, together[4] = {0, 2, 1, 3}, dims[3] = {0, 0, features};
  const char *scale =
      ct__onnx_scalar(o, l->id, "scale", 1 / sqrt((double)features / (double)heads));
  const char *shape = ct__onnx_const_ints(o, l->id, "shape", 1, 3, dims);
  const char *q = ct__onnx_name(o, l->id, "scaled"), *k = ct__onnx_name(o, l->id, "k_transposed");
  const char *scores = ct__onnx_name(o, l->id, "scores");
  const char *weights = ct__onnx_name(o, l->id, "weights");
  const char *sums = ct__onnx_name(o, l->id, "sums"), *moved = ct__onnx_name(o, l->id, "moved");
  ct__onnx_node(o, "Mul", OUT(q), IN(part[0], scale));
  ct__onnx_node(o, "Transpose", OUT(k), IN(part[1]));
  ct__onnx_ints(o, "perm", 4, swap);
  ct__onnx_node(o, "MatMul", OUT(scores), IN(q, k));
  ct__onnx_node(o, "Softmax", OUT(weights), IN(scores));
  ct__onnx_int(o, "axis", -1);
  ct__onnx_node(o, "MatMul", OUT(sums), IN(weights, part[2]));
  ct__onnx_node(o, "Transpose", OUT(moved), IN(sums));
  ct__onnx_ints(o, "perm", 4, together);
  ct__onnx_node(o, "Reshape", OUT(y), IN(moved, shape));
}

static void attention(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  char all[CT__ONNX_NAME], part[3][CT__ONNX_NAME], sums[CT__ONNX_NAME];
  static const char *const word[3] = {"q", "k", "v"};
  ct_text_fit(all, sizeof all, "%s", ct__onnx_name(o, l->id, "qkv"));
  ct_text_fit(sums, sizeof sums, "%s", ct__onnx_name(o, l->id, "attended"));
  for (int i = 0; i < 3; i++)
    ct_text_fit(part[i], sizeof part[i], "%s", ct__onnx_name(o, l->id, word[i]));
  const char *const parts[3] = {part[0], part[1], part[2]};
  steps_linear(o, l->id, l->x, 0, all, "in_product", 1);
  split_heads(o, l, all, parts);
  attend(o, l, parts, sums);
  steps_linear(o, l->id, sums, 2, l->y, "out_product", 1);
}

/* ---- normalization ---- */

/* Normalises by the statistics of the batch. */
static void batch_statistics(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_shape_t *x = &l->d->x;
  int64_t wide[CT_MAX_DIMS] = {x->dim[1], 1, 1, 1, 1}, axes[CT_MAX_DIMS] = {0, 2, 3, 4};
  const char *word[] = {"mean", "off", "square", "var", "eps_added", "std", "normal", "scaled"};
  char n[8][CT__ONNX_NAME];
  for (int i = 0; i < 8; i++)
    ct_text_fit(n[i], sizeof n[i], "%s", ct__onnx_name(o, l->id, word[i]));
  for (int i = 0; i < 4; i += 3) {
    ct__onnx_node(o, "ReduceMean", OUT(n[i]), IN(i ? n[2] : l->x));
    ct__onnx_ints(o, "axes", x->ndim - 1, axes);
    if (i) break;
    ct__onnx_node(o, "Sub", OUT(n[1]), IN(l->x, n[0]));
    ct__onnx_node(o, "Mul", OUT(n[2]), IN(n[1], n[1]));
  }
  const char *eps = ct__onnx_scalar(o, l->id, "eps", l->d->u.bnorm.eps);
  ct__onnx_node(o, "Add", OUT(n[4]), IN(n[3], eps));
  ct__onnx_node(o, "Sqrt", OUT(n[5]), IN(n[4]));
  ct__onnx_node(o, "Div", OUT(n[6]), IN(n[1], n[5]));
  const char *weight = ct__onnx_made(o, l->id, 0, CT__ONNX_PARAM, "wide_weight", x->ndim - 1, wide);
  ct__onnx_node(o, "Mul", OUT(n[7]), IN(n[6], weight));
  const char *bias = ct__onnx_made(o, l->id, 1, CT__ONNX_PARAM, "wide_bias", x->ndim - 1, wide);
  ct__onnx_node(o, "Add", OUT(l->y), IN(n[7], bias));
}

static void batchnorm(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const char *p[4];
  if (l->d->u.bnorm.untracked) {
    batch_statistics(o, l);
    return;
  }
  for (int i = 0; i < 4; i++)
    p[i] = ct__onnx_param(o, l->id, i);
  ct__onnx_node(o, "BatchNormalization", OUT(l->y), IN(l->x, p[0], p[1], p[2], p[3]));
  ct__onnx_float(o, "epsilon", l->d->u.bnorm.eps);
}

static void layernorm(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  if (l->d->u.lnorm.rms) {
    ct__onnx_rmsnorm(o, l);
    return;
  }
  const char *weight = ct__onnx_param(o, l->id, 0), *bias = ct__onnx_param(o, l->id, 1);
  ct__onnx_node(o, "LayerNormalization", OUT(l->y), IN(l->x, weight, bias));
  ct__onnx_int(o, "axis", -(l->d->u.lnorm.dims ? l->d->u.lnorm.dims : 1));
  ct__onnx_float(o, "epsilon", l->d->u.lnorm.eps);
}

static const char *all_alike(ct__onnx_t *o, int id, const char *word, int64_t n, float value)
{
  float *v = ct_mem_array(n, sizeof *v, "constants");
  if (!v && o->rc == CT_OK) o->rc = CT_ERR_NOMEM;
  for (int64_t i = 0; v && i < n; i++)
    v[i] = value;
  const char *name = v ? ct__onnx_const_floats(o, id, word, 1, &n, v) : word;
  ct_mem_free(v);
  return name;
}

static void instancenorm(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  int64_t channels = l->d->x.dim[1];
  int affine = l->d->u.gnorm.affine;
  const char *w = affine ? ct__onnx_param(o, l->id, 0) : all_alike(o, l->id, "ones", channels, 1);
  const char *b = affine ? ct__onnx_param(o, l->id, 1) : all_alike(o, l->id, "zeros", channels, 0);
  ct__onnx_node(o, "InstanceNormalization", OUT(l->y), IN(l->x, w, b));
  ct__onnx_float(o, "epsilon", l->d->u.gnorm.eps);
}

/* Reshapes to rows of groups and normalizes each, since opset 17 has no GroupNormalization. */
static void groupnorm(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_op_desc_t *d = l->d;
  if (d->u.gnorm.groups == d->x.dim[1] && d->x.ndim > 2) {
    instancenorm(o, l);
    return;
  }
  int64_t groups = d->u.gnorm.groups, dims[CT_MAX_DIMS] = {0}, rows[3] = {0, groups, -1};
  int64_t per_channel[CT_MAX_DIMS] = {d->x.dim[1], 1, 1, 1, 1};
  int affine = d->u.gnorm.affine, space = d->x.ndim - 1;
  for (int i = 1; i < d->x.ndim; i++)
    dims[i] = d->x.dim[i];
  const char *one = all_alike(o, l->id, "ones", groups, 1);
  const char *none = all_alike(o, l->id, "zeros", groups, 0);
  const char *apart = ct__onnx_const_ints(o, l->id, "groups_shape", 1, 3, rows);
  const char *back = ct__onnx_const_ints(o, l->id, "shape", 1, d->x.ndim, dims);
  const char *grouped = ct__onnx_name(o, l->id, "grouped");
  const char *normal = ct__onnx_name(o, l->id, "normal");
  const char *whole = affine ? ct__onnx_name(o, l->id, "whole") : l->y;
  ct__onnx_node(o, "Reshape", OUT(grouped), IN(l->x, apart));
  ct__onnx_node(o, "InstanceNormalization", OUT(normal), IN(grouped, one, none));
  ct__onnx_float(o, "epsilon", d->u.gnorm.eps);
  ct__onnx_node(o, "Reshape", OUT(whole), IN(normal, back));
  if (!affine) return;
  const char *scaled = ct__onnx_name(o, l->id, "scaled");
  const char *w = ct__onnx_made(o, l->id, 0, CT__ONNX_PARAM, "wide", space, per_channel);
  const char *b = ct__onnx_made(o, l->id, 1, CT__ONNX_PARAM, "wide", space, per_channel);
  ct__onnx_node(o, "Mul", OUT(scaled), IN(whole, w));
  ct__onnx_node(o, "Add", OUT(l->y), IN(scaled, b));
}

/* ---- elementwise ops ---- */

static void relu(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_node(o, "Relu", OUT(l->y), IN(l->x));
}

static void onnx_layers_add(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_node(o, "Add", OUT(l->y), IN(l->x, l->x2));
}

/* x (1 + erf(x / sqrt(2))) / 2 */
static void gelu(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const char *root = ct__onnx_scalar(o, l->id, "sqrt_half", sqrt(0.5));
  const char *one = ct__onnx_scalar(o, l->id, "one", 1);
  const char *half = ct__onnx_scalar(o, l->id, "half", 0.5);
  const char *scaled = ct__onnx_name(o, l->id, "scaled"), *erf = ct__onnx_name(o, l->id, "erf");
  const char *sum = ct__onnx_name(o, l->id, "sum"), *twice = ct__onnx_name(o, l->id, "twice");
  ct__onnx_node(o, "Mul", OUT(scaled), IN(l->x, root));
  ct__onnx_node(o, "Erf", OUT(erf), IN(scaled));
  ct__onnx_node(o, "Add", OUT(sum), IN(erf, one));
  ct__onnx_node(o, "Mul", OUT(twice), IN(l->x, sum));
  ct__onnx_node(o, "Mul", OUT(l->y), IN(twice, half));
}

static void tanh_scaled(ct__onnx_t *o, const ct__onnx_layer_t *l, double scale)
{
  const char *whole = scale == 1 ? l->y : ct__onnx_name(o, l->id, "tanh");
  ct__onnx_node(o, "Tanh", OUT(whole), IN(l->x));
  if (scale == 1) return;
  const char *factor = ct__onnx_scalar(o, l->id, "scale", scale);
  ct__onnx_node(o, "Mul", OUT(l->y), IN(whole, factor));
}

static void act(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const char *low, *high, *part;
  switch (l->d->u.act.kind) {
  case CT_ACT_LEAKY_RELU:
    ct__onnx_node(o, "LeakyRelu", OUT(l->y), IN(l->x));
    ct__onnx_float(o, "alpha", l->d->u.act.alpha);
    break;
  case CT_ACT_RELU6:
    low = ct__onnx_scalar(o, l->id, "min", 0);
    high = ct__onnx_scalar(o, l->id, "max", 6);
    ct__onnx_node(o, "Clip", OUT(l->y), IN(l->x, low, high));
    break;
  case CT_ACT_GELU:
    gelu(o, l);
    break;
  case CT_ACT_SIGMOID:
    ct__onnx_node(o, "Sigmoid", OUT(l->y), IN(l->x));
    break;
  case CT_ACT_TANH:
    tanh_scaled(o, l, l->d->u.act.alpha);
    break;
  case CT_ACT_SILU:
    part = ct__onnx_name(o, l->id, "sigmoid");
    ct__onnx_node(o, "Sigmoid", OUT(part), IN(l->x));
    ct__onnx_node(o, "Mul", OUT(l->y), IN(l->x, part));
    break;
  }
}

/* ---- shape ops ---- */

static void concat(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_node(o, "Concat", OUT(l->y), IN(l->x, l->x2));
  ct__onnx_int(o, "axis", ct_op_concat_dim(l->d));
}

static void reorder(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_reshape(o, l->id, l->d, l->x, l->y);
}

static void strided(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_strided(o, l->id, l->d, l->x, l->y);
}

static void table_rows(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_rows(o, l->id, l->d, l->x, l->x2, l->y);
}

/* A parameter is an initializer, and the node that reads it reads that. */
static void operand(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_node(o, "Identity", OUT(l->y), IN(ct__onnx_param(o, l->id, 0)));
}

static void expr(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const char *const in[CT_EXPR_INPUTS] = {l->x, l->x2, l->x3};
  ct__onnx_expr(o, l->id, l->d, in, l->y);
}

static void random_numbers(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_random(o, l->id, l->d, l->y);
}

/* Expands the class token to the batch size, which only Shape provides at run time. */
static void tokens(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  int64_t features = l->d->y.dim[2], places = l->d->y.dim[1] - 1;
  const int64_t dims[3] = {0, features, places}, perm[3] = {0, 2, 1}, row[2] = {1, features};
  const char *shape = ct__onnx_const_ints(o, l->id, "shape", 1, 3, dims);
  const char *rest = ct__onnx_const_ints(o, l->id, "token_shape", 1, 2, row);
  const char *token = ct__onnx_param(o, l->id, 0), *positions = ct__onnx_param(o, l->id, 1);
  const char *flat = ct__onnx_name(o, l->id, "flat"), *steps = ct__onnx_name(o, l->id, "steps");
  const char *batch = ct__onnx_name(o, l->id, "batch"), *wide = ct__onnx_name(o, l->id, "wide");
  const char *one_each = ct__onnx_name(o, l->id, "tokens");
  const char *all = ct__onnx_name(o, l->id, "all");
  ct__onnx_node(o, "Reshape", OUT(flat), IN(l->x, shape));
  ct__onnx_node(o, "Transpose", OUT(steps), IN(flat));
  ct__onnx_ints(o, "perm", 3, perm);
  ct__onnx_node(o, "Shape", OUT(batch), IN(l->x));
  ct__onnx_int(o, "start", 0);
  ct__onnx_int(o, "end", 1);
  ct__onnx_node(o, "Concat", OUT(wide), IN(batch, rest));
  ct__onnx_int(o, "axis", 0);
  ct__onnx_node(o, "Expand", OUT(one_each), IN(token, wide));
  ct__onnx_node(o, "Concat", OUT(all), IN(one_each, steps));
  ct__onnx_int(o, "axis", 1);
  ct__onnx_node(o, "Add", OUT(l->y), IN(all, positions));
}

/* Selects one position with Gather; a scalar index removes the axis. */
static void select_place(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const int64_t index = l->d->u.select.index;
  const char *place = ct__onnx_const_ints(o, l->id, "place", 0, 1, &index);
  ct__onnx_node(o, "Gather", OUT(l->y), IN(l->x, place));
  ct__onnx_int(o, "axis", 1);
}

/* ---- the graph ---- */

static void (*const writers[CT_OP_COUNT])(ct__onnx_t *o, const ct__onnx_layer_t *l) = {
    [CT_OP_CONV] = ct__onnx_conv,
    [CT_OP_CONVT] = ct__onnx_convt,
    [CT_OP_CONVOLVE] = ct__onnx_convolve,
    [CT_OP_LINEAR] = linear,
    [CT_OP_BNORM] = batchnorm,
    [CT_OP_RELU] = relu,
    [CT_OP_ACT] = act,
    [CT_OP_POOL] = ct__onnx_pool,
    [CT_OP_ADD] = onnx_layers_add,
    [CT_OP_CONCAT] = concat,
    [CT_OP_LNORM] = layernorm,
    [CT_OP_LSTM] = ct__onnx_lstm,
    [CT_OP_GRU] = ct__onnx_gru,
    [CT_OP_TOKENS] = tokens,
    [CT_OP_SELECT] = select_place,
    [CT_OP_UPSAMPLE] = ct__onnx_upsample,
    [CT_OP_STRIDED] = strided,
    [CT_OP_ROWS] = table_rows,
    [CT_OP_POSITION] = ct__onnx_position,
    [CT_OP_ROPE] = ct__onnx_rope,
    [CT_OP_OPERAND] = operand,
    [CT_OP_EXPR] = expr,
    [CT_OP_RANDOM] = random_numbers,
    [CT_OP_ATTENTION] = attention,
    [CT_OP_REORDER] = reorder,
    [CT_OP_GNORM] = groupnorm,
    [CT_OP_MATMUL] = ct__onnx_matmul,
    [CT_OP_SOFTMAX] = ct__onnx_softmax,
    [CT_OP_REDUCE] = ct__onnx_reduce,
    [CT_OP_SDPA] = ct__onnx_sdpa,
};

int ct_onnx_has(ct_op_kind_t kind)
{
  return kind == CT_OP_DROPOUT || writers[kind];
}

static const char *output_of(const ct__onnx_t *o, int layer)
{
  int k = ct_graph_extra(layer);
  if (k >= 0) return o->extra[k];
  return layer < 0 ? o->input : o->out[layer];
}

/* Dropout becomes no node: its readers use its input. */
static int add_layer(ct__onnx_t *o, int id)
{
  int rc = CT_OK, done = 0;
  char y[CT__ONNX_NAME];
  ct_op_desc_t d;
  const ct_layer_t *l = &o->g->layer[id];
  ct_graph_op(o->g, id, 1, &d);
  if (!ct_onnx_has(d.kind))
    CT_FAIL(CT_ERR_UNSUP, "layer '%s' (%s) cannot be written to ONNX", l->name, l->ops->kind);
  const char *x = l->inputs > 0 ? output_of(o, l->in[0]) : NULL;
  const char *x2 = l->inputs > 1 ? output_of(o, l->in[1]) : NULL;
  const char *x3 = l->inputs > 2 ? output_of(o, l->in[2]) : NULL;
  if (d.kind == CT_OP_DROPOUT) return ct_text_format(o->out[id], sizeof o->out[id], "%s", x);
  CT_TRY(ct_text_format(y, sizeof y, "%s", ct__onnx_name(o, id, "out")));
  const ct__onnx_layer_t as = {id, &d, x, x2, x3, y};
  if (o->cache) CT_TRY(ct__onnx_cached(o, &as, &done));
  if (!done) writers[d.kind](o, &as);
  CT_TRY(ct_text_format(o->out[id], sizeof o->out[id], "%s", ct__onnx_rounded(o, id, y)));
  rc = o->rc;
out:
  return rc;
}

int ct__onnx_is_whole(const ct_graph_t *g, const ct_shape_t *out)
{
  return ct_graph_outputs(g) > 1 || ct_shape_sample(out) != out->dim[1];
}

const char *ct__onnx_output(const ct_graph_t *g, int k, char *buf, size_t cap)
{
  int several = ct_graph_outputs(g) > 1;
  snprintf(buf, cap, "output%s%s", several ? "." : "",
           several ? g->layer[ct_graph_output(g, k)].name : "");
  return buf;
}

static void add_output(ct__onnx_t *o, int k)
{
  char name[CT_NAME_MAX + 16];
  int layer = ct_graph_output(o->g, k), whole = ct__onnx_is_whole(o->g, &o->g->layer[layer].out);
  ct__onnx_node(o, whole ? "Identity" : "Flatten", OUT(ct__onnx_output(o->g, k, name, sizeof name)),
                IN(output_of(o, layer)));
  if (!whole) ct__onnx_int(o, "axis", 1);
  ct__onnx_end(o);
}

int ct__onnx_layers(ct__onnx_t *o)
{
  int rc = CT_OK;
  o->open = -1;
  o->out = ct_mem_array(o->g->layers, sizeof *o->out, "names");
  if (!o->out) return CT_ERR_NOMEM;
  CT_TRY(ct_text_format(o->input, sizeof o->input, "%s", ct__onnx_rounded(o, -1, "input")));
  for (int k = 0; k < o->g->extra.n; k++)
    CT_TRY(ct_text_format(o->extra[k], sizeof o->extra[k], "input.%s", o->g->extra.name[k]));
  for (int i = 0; i < o->g->layers; i++)
    CT_TRY(add_layer(o, i));
  for (int k = 0; k < ct_graph_outputs(o->g); k++)
    add_output(o, k);
  CT_TRY(ct_proto_done(&o->nodes));
out:
  return rc;
}

void ct__onnx_clear(ct__onnx_t *o)
{
  for (int i = 0; i < o->tensors; i++)
    ct_mem_free(o->tensor[i].data);
  ct_mem_free(o->tensor);
  ct_mem_free(o->out);
  ct_mem_free(o->past);
  ct_proto_clear(&o->nodes);
}
