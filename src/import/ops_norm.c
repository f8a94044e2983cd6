/* Rules: normalization and dropout. */
#include <inttypes.h>
#include <string.h>

#include "import/import.h"

/* Returns ", eps: v", or "" for the usual 1e-5. */
static int norm_eps(ct__im_t *t, const ct_pt2_node_t *n, const char **text)
{
  int rc = CT_OK;
  double eps = 1e-5;
  char number[40];
  *text = "";
  if (ct_pt2_is_none(n, "eps")) return CT_OK;
  CT_TRY(ct_pt2_number(t->g, n, "eps", &eps));
  if (eps != 1e-5) *text = ct__im_format(t, "eps: %s", ct_text_number(eps, number, sizeof number));
  if (!*text) return CT_ERR_NOMEM;
out:
  return rc;
}

static const char *norm_join(ct__im_t *t, const char *a, const char *b)
{
  return ct__im_format(t, "%s%s%s", a, *a && *b ? ", " : "", b);
}

/* Returns 1 if weight and bias are both absent, or both parameters. */
static int norm_affine(const ct__im_t *t, int weight, int bias, int *affine)
{
  *affine = weight >= 0;
  if (weight < 0 && bias < 0) return 1;
  if (weight < 0 || bias < 0) return 0;
  return t->g->value[weight].kind == CT_PT2_PARAMETER && t->g->value[bias].kind == CT_PT2_PARAMETER;
}

/* y * weight + bias along a dim. */
static int norm_scale(ct__im_t *t, int weight, int bias, int dim, int *x)
{
  int rc = CT_OK, w;
  for (int i = 0; i < 2; i++) {
    int value = i ? bias : weight;
    if (value < 0) continue;
    CT_TRY(ct__im_operand(t, value, &w));
    ct_shape_t s = ct_shape(1, 1);
    s.ndim = t->layer[*x].shape.ndim - dim;
    for (int k = 0; k < s.ndim; k++)
      s.dim[k] = 1;
    s.dim[0] = t->layer[w].shape.dim[0];
    CT_TRY(ct__im_reshape(t, w, &s, &w));
    CT_TRY(ct__im_binary(t, i ? "add" : "mul", *x, w, x));
  }
out:
  return rc;
}

/* Brings a sequence or a volume without a dim into the form that batchnorm takes: N x C x L becomes
 * N x C x L x 1. */
static int norm_widen(ct__im_t *t, int x, int *out)
{
  const ct_shape_t s = t->layer[x].shape;
  *out = x;
  if (s.ndim != 3) return CT_OK;
  ct_shape_t wide = ct_shape(4, s.dim[0], s.dim[1], s.dim[2], 1);
  wide.batch = s.batch;
  return ct__im_reshape(t, x, &wide, out);
}

/* Normalization of an expression of weights by its own statistics, as in standardized convolutions:
 * (x - mean) / sqrt(var + eps), over all dims but dim 1. */
static int norm_of_weights(ct__im_t *t, int x, double eps, int *out)
{
  int rc = CT_OK, mean, var;
  const ct_shape_t s = t->layer[x].shape;
  unsigned bits = ((1u << s.ndim) - 1) & ~2u;
  ct_shape_t one = ct__im_reduced(&s, bits, 1);
  const char *dims = "0";
  for (int i = 2; i < s.ndim && dims; i++)
    dims = ct__im_format(t, "%s, %d", dims, i);
  if (!dims) return CT_ERR_NOMEM;
  CT_TRY(ct__im_one(t, &mean, "mean", &one, x, "dims: [%s], keepdim: yes", dims));
  CT_TRY(ct__im_one(t, &var, "var", &one, x, "dims: [%s], keepdim: yes, correction: 0", dims));
  CT_TRY(ct__im_scalar(t, "add", var, eps, &var));
  CT_TRY(ct__im_one(t, &var, "rsqrt", &one, var, NULL));
  CT_TRY(ct__im_binary(t, "sub", x, mean, out));
  CT_TRY(ct__im_binary(t, "mul", *out, var, out));
out:
  return rc;
}

/* Returns 1 if a batchnorm has running statistics and uses those of the batch. */
static int norm_trains(const ct__im_t *t, const ct_pt2_node_t *n)
{
  int training = 0;
  if (!ct_pt2_is(n, "aten.batch_norm") || ct_pt2_is_none(n, "running_mean")) return 0;
  return ct_pt2_bool(t->g, n, "training", &training) == CT_OK && training;
}

/* Returns 1 if the program was exported in train mode for certain.  If all batchnorms are in eval
 * mode, it was exported so, and the phase of the run decides. */
static int norm_program_trains(const ct__im_t *t)
{
  for (int i = 0; i < t->g->nodes; i++)
    if (t->g->node[i].live && norm_trains(t, &t->g->node[i])) return 1;
  return 0;
}

/* Refuses a batchnorm that the model keeps in eval mode while it trains others. */
static int norm_phase(const ct__im_t *t, const ct_pt2_node_t *n)
{
  if (norm_trains(t, n) || ct_pt2_is_none(n, "running_mean") || !norm_program_trains(t))
    return CT_OK;
  return ct__im_refuse("is in eval mode while others are in train mode: leave this to the "
                       "configuration, keys train.freeze and train.freeze_bn");
}

static int norm_batch(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, w[4], affine;
  static const char *const arg[4] = {"weight", "bias", "running_mean", "running_var"};
  double momentum = 0.1, eps;
  const char *text, *more = "";
  char number[40];
  (void)data;
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  for (int i = 0; i < 4; i++)
    CT_TRY(ct_pt2_tensor(t->g, n, arg[i], 1, &w[i]));
  CT_TRY(ct_pt2_number(t->g, n, "eps", &eps));
  if (!s.batch && w[2] >= 0) return ct__im_refuse("its input does not depend on the batch");
  CT_TRY(norm_phase(t, n));
  if (!s.batch) {
    CT_TRY(norm_of_weights(t, x, eps, &x));
    CT_TRY(norm_scale(t, w[0], w[1], 1, &x));
    return ct__im_done(t, n, x);
  }
  CT_TRY(norm_eps(t, n, &text));
  CT_TRY(ct_pt2_number(t->g, n, "momentum", &momentum));
  if (momentum != 0.1)
    more = ct__im_format(t, "momentum: %s", ct_text_number(momentum, number, sizeof number));
  int fits = norm_affine(t, w[0], w[1], &affine);
  if (!fits) return ct__im_refuse("its weight or bias is not a parameter");
  text = more ? norm_join(t, text, more) : NULL;
  if (text && !affine) text = norm_join(t, text, "affine: no");
  if (text && w[2] < 0) text = norm_join(t, text, "track_running_stats: no");
  if (!text) return CT_ERR_NOMEM;
  CT_TRY(norm_widen(t, x, &x));
  CT_TRY(ct__im_one(t, &x, "batchnorm", &t->layer[x].shape, x, "%s", text));
  for (int i = affine ? 0 : 2; i < (w[2] < 0 ? 2 : 4); i++)
    ct__im_weight(t, x, arg[i], w[i]);
  CT_TRY(ct__im_reshape(t, x, &s, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* group_norm, and instance_norm by its own statistics. */
static int norm_group(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, w, b, affine, instance = strcmp(data, "instancenorm") == 0, own = 1;
  int64_t groups = 0;
  const char *text;
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  const ct_shape_t s = t->layer[x].shape;
  CT_TRY(ct_pt2_tensor(t->g, n, "weight", 1, &w));
  CT_TRY(ct_pt2_tensor(t->g, n, "bias", 1, &b));
  CT_TRY(norm_eps(t, n, &text));
  if (instance && !ct_pt2_is_none(n, "running_mean"))
    return ct__im_refuse("has running statistics (track_running_stats=True)");
  if (!instance) CT_TRY(ct_pt2_int(t->g, n, "num_groups", &groups));
  if (s.batch != 1) return ct__im_refuse("its batch is not dim 0");
  own = norm_affine(t, w, b, &affine);
  const char *by = instance ? "" : ct__im_format(t, "num_groups: %" PRId64, groups);
  text = by ? norm_join(t, by, text) : NULL;
  if (text && instance && own && affine) text = norm_join(t, text, "affine: yes");
  if (text && !instance && !(own && affine)) text = norm_join(t, text, "affine: no");
  if (!text) return CT_ERR_NOMEM;
  CT_TRY(norm_widen(t, x, &x));
  CT_TRY(ct__im_one(t, &x, data, &t->layer[x].shape, x, "%s", text));
  if (own && affine) {
    ct__im_weight(t, x, "weight", w);
    ct__im_weight(t, x, "bias", b);
  }
  CT_TRY(ct__im_reshape(t, x, &s, &x));
  if (!own) CT_TRY(norm_scale(t, w, b, 1, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

static int norm_layer(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, w, b, count;
  const ct_pt2_dim_t *shape;
  const char *text;
  ct__im_form_t form;
  (void)data;
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  CT_TRY(ct_pt2_tensor(t->g, n, "weight", 1, &w));
  CT_TRY(ct_pt2_tensor(t->g, n, "bias", 1, &b));
  CT_TRY(ct_pt2_dims(t->g, n, "normalized_shape", &count, &shape));
  CT_TRY(norm_eps(t, n, &text));
  const char *list = "";
  for (int i = 0; i < count && list; i++)
    list = ct__im_format(t, "%s%s%" PRId64, list, i ? ", " : "", shape[i].n);
  if (list && count > 1) text = norm_join(t, text, ct__im_format(t, "shape: [%s]", list));
  int wp = w >= 0 && t->g->value[w].kind == CT_PT2_PARAMETER;
  int bp = b >= 0 && t->g->value[b].kind == CT_PT2_PARAMETER;
  if ((w >= 0 && !wp) || (b >= 0 && !bp)) return ct__im_refuse("its weight is not a parameter");
  if (w < 0 && b >= 0) return ct__im_refuse("has a bias, but no weight");
  if (w < 0) text = norm_join(t, text, "elementwise_affine: no");
  if (w >= 0 && b < 0) text = norm_join(t, text, "bias: no");
  if (!text) return CT_ERR_NOMEM;
  if (count == 1)
    CT_TRY(ct__im_rows(t, &x, "layernorm", &form));
  else
    CT_TRY(ct__im_front(t, &x, "layernorm", &form));
  CT_TRY(ct__im_one(t, &x, "layernorm", &t->layer[x].shape, x, "%s", text));
  if (wp) ct__im_weight(t, x, "weight", w);
  if (bp) ct__im_weight(t, x, "bias", b);
  if (count == 1)
    CT_TRY(ct__im_unrows(t, &x, &form));
  else
    CT_TRY(ct__im_back(t, &x, &form));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Writes the dims from first to the last but one, "1, 2"; NULL: CT_ERR_NOMEM. */
static const char *norm_dims(ct__im_t *t, int first, int ndim)
{
  const char *dims = "";
  for (int i = first; i < ndim && dims; i++)
    dims = ct__im_format(t, "%s%s%d", dims, *dims ? ", " : "", i);
  return dims;
}

/* layer_norm with its mean and 1 / sqrt(var + eps), which get no gradient. */
static int norm_native(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, y, count;
  const ct_pt2_dim_t *shape;
  double eps = 1e-5;
  CT_TRY(norm_layer(t, n, data));
  if (ct__im_unused(t, n->out[1]) && ct__im_unused(t, n->out[2])) return CT_OK;
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  CT_TRY(ct_pt2_dims(t->g, n, "normalized_shape", &count, &shape));
  CT_TRY(ct_pt2_number(t->g, n, "eps", &eps));
  const ct_shape_t s = t->layer[x].shape;
  const char *dims = norm_dims(t, s.ndim - count, s.ndim);
  if (!dims) return CT_ERR_NOMEM;
  ct_shape_t one = ct__im_reduced(&s, ((1u << count) - 1) << (s.ndim - count), 1);
  CT_TRY(ct__im_one(t, &x, "detach", &s, x, NULL));
  CT_TRY(ct__im_one(t, &y, "mean", &one, x, "dims: [%s], keepdim: yes", dims));
  CT_TRY(ct__im_set(t, n, 1, y));
  CT_TRY(ct__im_one(t, &y, "var", &one, x, "dims: [%s], keepdim: yes, correction: 0", dims));
  CT_TRY(ct__im_scalar(t, "add", y, eps, &y));
  CT_TRY(ct__im_one(t, &y, "rsqrt", &one, y, NULL));
  CT_TRY(ct__im_set(t, n, 2, y));
out:
  return rc;
}

/* x / sqrt(mean(x^2) + eps) * weight */
static int norm_rms(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, y, w, count;
  const ct_pt2_dim_t *shape;
  double eps = 1.1920928955078125e-07; /* float32's epsilon, PyTorch's default */
  (void)data;
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  CT_TRY(ct__im_in(t, n, "weight", 1, &w));
  CT_TRY(ct_pt2_dims(t->g, n, "normalized_shape", &count, &shape));
  if (!ct_pt2_is_none(n, "eps")) CT_TRY(ct_pt2_number(t->g, n, "eps", &eps));
  const ct_shape_t s = t->layer[x].shape;
  unsigned bits = ((1u << count) - 1) << (s.ndim - count);
  if (s.batch & bits) return ct__im_refuse("combines the samples of a batch");
  const char *dims = norm_dims(t, s.ndim - count, s.ndim);
  if (!dims) return CT_ERR_NOMEM;
  ct_shape_t one = ct__im_reduced(&s, bits, 1);
  CT_TRY(ct__im_one(t, &y, "square", &s, x, NULL));
  CT_TRY(ct__im_one(t, &y, "mean", &one, y, "dims: [%s], keepdim: yes", dims));
  CT_TRY(ct__im_scalar(t, "add", y, eps, &y));
  CT_TRY(ct__im_one(t, &y, "rsqrt", &one, y, NULL));
  CT_TRY(ct__im_binary(t, "mul", x, y, &y));
  if (w >= 0) CT_TRY(ct__im_binary(t, "mul", y, w, &y));
  CT_TRY(ct__im_done(t, n, y));
out:
  return rc;
}

/* weight_norm: g * v / |v|, with the norm over all dims but one. */
static int norm_weight_norm(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, v, g, norm;
  int64_t dim;
  const char *dims = "";
  (void)data;
  CT_TRY(ct__im_in(t, n, "v", 0, &v));
  CT_TRY(ct__im_in(t, n, "g", 0, &g));
  CT_TRY(ct_pt2_int(t->g, n, "dim", &dim));
  const ct_shape_t s = t->layer[v].shape;
  unsigned bits = (1u << s.ndim) - 1;
  if (dim >= 0) bits &= ~(1u << dim);
  for (int i = 0; i < s.ndim && dims; i++)
    if (bits >> i & 1) dims = ct__im_format(t, "%s%s%d", dims, *dims ? ", " : "", i);
  if (!dims) return CT_ERR_NOMEM;
  ct_shape_t one = ct__im_reduced(&s, bits, 1);
  CT_TRY(ct__im_one(t, &norm, "norm", &one, v, "dims: [%s], keepdim: yes", dims));
  CT_TRY(ct__im_binary(t, "div", g, norm, &norm));
  CT_TRY(ct__im_binary(t, "mul", v, norm, &v));
  CT_TRY(ct__im_done(t, n, v));
out:
  return rc;
}

/* ---- dropout ---- */

/* Reads p; 0 for a dropout that is off while the model trains. */
static int norm_share(const ct__im_t *t, const ct_pt2_node_t *n, double *p)
{
  int rc = CT_OK, on = 1;
  CT_TRY(ct_pt2_number(t->g, n, "p", p));
  CT_TRY(ct_pt2_bool(t->g, n, "train", &on));
  if (!on && norm_program_trains(t)) *p = 0;
  if (*p == 1) return ct__im_refuse("drops all elements (p = 1)");
out:
  return rc;
}

static int norm_dropout(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  double p;
  char number[40];
  ct__im_form_t form;
  (void)data;
  CT_TRY(ct__im_in(t, n, n->arg[0].name, 0, &x));
  CT_TRY(norm_share(t, n, &p));
  if (p == 0) return ct__im_done(t, n, x);
  CT_TRY(ct__im_front(t, &x, "dropout", &form));
  CT_TRY(ct__im_one(t, &x, "dropout", &t->layer[x].shape, x, "p: %s",
                    ct_text_number(p, number, sizeof number)));
  CT_TRY(ct__im_back(t, &x, &form));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

/* Drops whole channels: dropout of N x C x 1 x 1 ones, times x. */
static int norm_feature_dropout(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, ones;
  double p;
  char number[40];
  (void)data;
  CT_TRY(ct__im_in(t, n, n->arg[0].name, 0, &x));
  CT_TRY(norm_share(t, n, &p));
  if (p == 0) return ct__im_done(t, n, x);
  const ct_shape_t s = t->layer[x].shape;
  if (s.batch != 1 || s.ndim < 3) return ct__im_refuse("its batch is not dim 0");
  ct_shape_t one = ct__im_reduced(&s, ((1u << s.ndim) - 1) & ~3u, 1);
  CT_TRY(ct__im_slice(t, x, 2, 0, 1, 1, &ones));
  for (int i = 3; i < s.ndim; i++)
    CT_TRY(ct__im_slice(t, ones, i, 0, 1, 1, &ones));
  /* ones of that shape: an element equals itself, unless it is NaN, which x is then, too */
  CT_TRY(ct__im_add(t, &ones, "eq", &one, 2, (int[]){ones, ones}, NULL));
  CT_TRY(ct__im_one(t, &ones, "dropout", &one, ones, "p: %s",
                    ct_text_number(p, number, sizeof number)));
  CT_TRY(ct__im_binary(t, "mul", x, ones, &x));
  CT_TRY(ct__im_done(t, n, x));
out:
  return rc;
}

const ct__im_rule_t ct__im_norms[] = {{"aten.batch_norm", norm_batch, NULL},
                                      {"aten.group_norm", norm_group, "groupnorm"},
                                      {"aten.instance_norm", norm_group, "instancenorm"},
                                      {"aten.layer_norm", norm_layer, NULL},
                                      {"aten.native_layer_norm", norm_native, NULL},
                                      {"aten.rms_norm", norm_rms, NULL},
                                      {"aten._weight_norm", norm_weight_norm, NULL},
                                      {"aten.dropout", norm_dropout, NULL},
                                      {"aten.feature_dropout", norm_feature_dropout, NULL},
                                      {NULL, NULL, NULL}};
