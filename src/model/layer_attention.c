/* Multi-head attention of a sequence.  With the defaults it is torch.nn.MultiheadAttention
 * (batch_first) of a sequence with itself, with the same parameter names and initialization: one
 * op, whose backend decides which intermediate results are saved.  With other options it is linear
 * layers and `sdpa`. */
#include "model/layer_usual.h"

#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "model/ct_graph.h"

enum { MASK_NONE };

typedef struct {
  int64_t heads, kv_heads, head_dim;
  int causal, mask, bias, out_bias, qk_norm;
  double eps;
  ct_opt_texts_t names;
  ct_yaml_t *rope;
} attention_t;

static const ct_opt_t rows[] = {
    CT_OPT_INT(attention_t, heads, NULL, 1, 1 << 16,
               "attention heads; without head_dim they must divide the features"),
    CT_OPT_INT(attention_t, kv_heads, "0", 0, 1 << 16,
               "heads of keys and values, each for heads / kv_heads of the queries; 0: heads"),
    CT_OPT_INT(attention_t, head_dim, "0", 0, 1 << 16, "features of a head; 0: features / heads"),
    CT_OPT_BOOL(attention_t, causal, "false", "element i meets the elements 0 to i only"),
    CT_OPT_CHOICE(attention_t, mask, "none", "none|first|keys|bias",
                  "the last input is a mask, as in sdpa"),
    CT_OPT_TEXTS(attention_t, names, "",
                 "names of the projections: two as [c_attn, c_proj], or four as [q_proj, k_proj, "
                 "v_proj, o_proj]; empty: in_proj_weight, in_proj_bias and out_proj"),
    CT_OPT_BOOL(attention_t, bias, "true", "the projections of queries, keys, values have a bias"),
    CT_OPT_BOOL(attention_t, out_bias, "true", "the output projection has a bias"),
    CT_OPT_CHOICE(attention_t, qk_norm, "none", "none|rmsnorm|layernorm",
                  "normalisation of each head's queries and keys: q_norm, k_norm"),
    CT_OPT_DOUBLE(attention_t, eps, "1e-6", 0, 1, "added to the variance by qk_norm"),
    CT_OPT_NODE(attention_t, rope,
                "options of a rope layer that rotates queries and keys, such as {theta: 10000}"),
    CT_OPT_END};

/* ---- as one op ---- */

static int attention_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const attention_t *o = opts;
  CT_TRY(ct__layer_want_sequence(in));
  if (in->dim[2] % o->heads)
    CT_FAIL(CT_ERR_SHAPE, "%" PRId64 " heads must divide its %" PRId64 " features", o->heads,
            in->dim[2]);
  *out = *in;
out:
  return rc;
}

/* PyTorch's initialization: Xavier uniform for the three stacked projections, Linear's default for
 * the output projection, zero biases. */
static int attention_params(const void *opts, const ct_shape_t *in,
                            ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  int64_t d = in->dim[2];
  (void)opts;
  spec[0] = ct__layer_xavier("in_proj_weight", 3 * d, d);
  spec[1] = (ct_param_spec_t){.suffix = "in_proj_bias", .shape = ct_shape(1, 3 * d)};
  spec[2] = ct__layer_uniform("out_proj.weight", ct_shape(2, d, d), d);
  spec[3] = (ct_param_spec_t){.suffix = "out_proj.bias", .shape = ct_shape(1, d)};
  return 4;
}

static void attention_attributes(const void *opts, ct_op_desc_t *d)
{
  const attention_t *o = opts;
  d->u.attention.heads = (int)o->heads;
}

/* ---- as other layers ---- */

/* The layers of one attention. */
typedef struct text {
  const attention_t *o;
  const char *name, *from, *memory, *mask; /* layers; memory NULL: the sequence itself */
  int64_t kv, wide, features, t, s;        /* heads of keys, features of a head, of an element */
  char q[CT_NAME_MAX], k[CT_NAME_MAX], v[CT_NAME_MAX]; /* layers; k empty: q has all three, v
                                                          empty: k has both */
  ct_str_t *out;
} text_t;

static const char *yes(int flag)
{
  return flag ? "yes" : "no";
}

/* Adds a linear layer `layer` whose parameters are those of the projection `called`. */
static int add_linear(text_t *a, const char *layer, const char *called, const char *from,
                      int64_t wide, int bias, const char *options)
{
  int rc = CT_OK, packed = strcmp(called, "in_proj") == 0;
  const char *sep = packed ? "_" : ".";
  CT_TRY(ct_str_add(a->out,
                    "- {linear: {out: %" PRId64 ", bias: %s%s}, name: %s, from: %s, weights: "
                    "[%s.%s%sweight",
                    wide, yes(bias), options, layer, from, a->name, called, sep));
  if (bias) CT_TRY(ct_str_add(a->out, ", %s.%s%sbias", a->name, called, sep));
  CT_TRY(ct_str_add(a->out, "]}\n"));
out:
  return rc;
}

/* Adds the projection to some of queries, keys and values; sets the name of its layer. */
static int project(text_t *a, char layer[CT_NAME_MAX], const char *called, const char *from,
                   int64_t heads)
{
  const char *options = a->o->names.n ? "" : ", init: xavier, bias_init: zero";
  ct_text_fit(layer, CT_NAME_MAX, "%s.%s", a->name, called);
  return add_linear(a, layer, called, from, heads * a->wide, a->o->bias, options);
}

/* Makes a layer of some heads of a layer that has more of them. */
static int cut(text_t *a, char layer[CT_NAME_MAX], const char *word, const char *from,
               int64_t first, int64_t heads)
{
  ct_text_fit(layer, CT_NAME_MAX, "%s.%s", a->name, word);
  return ct_str_add(
      a->out, "- {slice: {dim: 2, start: %" PRId64 ", end: %" PRId64 "}, name: %s, from: %s}\n",
      first * a->wide, (first + heads) * a->wide, layer, from);
}

/* The packed projection: also of another sequence's keys and values. */
static int project_packed(text_t *a)
{
  int rc = CT_OK;
  const char *called = a->o->names.n ? a->o->names.v[0] : "in_proj";
  int64_t h = a->o->heads, all = h + 2 * a->kv;
  char qkv[CT_NAME_MAX];
  CT_TRY(project(a, qkv, called, a->from, all));
  if (!a->memory && !a->o->qk_norm) {
    ct_text_fit(a->q, sizeof a->q, "%s", qkv);
    return CT_OK;
  }
  CT_TRY(cut(a, a->q, "queries", qkv, 0, h));
  if (a->memory) {
    ct_text_fit(qkv, sizeof qkv, "%s.memory", a->name);
    CT_TRY(add_linear(a, qkv, called, a->memory, all * a->wide, a->o->bias, ""));
  }
  CT_TRY(cut(a, a->k, "keys", qkv, h, a->kv));
  CT_TRY(cut(a, a->v, "values", qkv, h + a->kv, a->kv));
out:
  return rc;
}

static int project_each(text_t *a)
{
  int rc = CT_OK;
  char *const *name = a->o->names.v;
  const char *keys = a->memory ? a->memory : a->from;
  CT_TRY(project(a, a->q, name[0], a->from, a->o->heads));
  CT_TRY(project(a, a->k, name[1], keys, a->kv));
  CT_TRY(project(a, a->v, name[2], keys, a->kv));
out:
  return rc;
}

/* Normalises each head of a layer. */
static int normalise(text_t *a, char layer[CT_NAME_MAX], const char *word, int64_t length,
                     int64_t heads)
{
  int rc = CT_OK;
  char eps[40];
  const char *kind = a->o->qk_norm == 1 ? "rmsnorm" : "layernorm";
  CT_TRY(ct_str_add(a->out,
                    "- {reshape: {shape: [N, %" PRId64 ", %" PRId64 ", %" PRId64
                    "]}, name: %s.%s_heads, from: %s}\n",
                    length, heads, a->wide, a->name, word, layer));
  CT_TRY(ct_str_add(a->out, "- {%s: {eps: %s}, name: %s.%s_norm}\n", kind,
                    ct_text_number(a->o->eps, eps, sizeof eps), a->name, word));
  ct_text_fit(layer, CT_NAME_MAX, "%s.%s_rows", a->name, word);
  CT_TRY(ct_str_add(a->out, "- {reshape: {shape: [N, %" PRId64 ", %" PRId64 "]}, name: %s}\n",
                    length, heads * a->wide, layer));
out:
  return rc;
}

/* Rotates the first heads of a layer. */
static int rotate(text_t *a, char layer[CT_NAME_MAX], const char *word, int64_t heads)
{
  int rc = CT_OK;
  char wide[24], number[24];
  ct_yaml_t *map = ct_yaml_copy(a->o->rope);
  ct_text_fit(wide, sizeof wide, "%" PRId64, a->wide);
  ct_text_fit(number, sizeof number, "%" PRId64, heads);
  ct_yaml_t *features = ct_yaml_new(CT_YAML_SCALAR, "head_dim", wide);
  ct_yaml_t *of_heads = ct_yaml_new(CT_YAML_SCALAR, "heads", number);
  if (!map || !features || !of_heads) {
    ct_yaml_free(features);
    ct_yaml_free(of_heads);
    rc = CT_ERR_NOMEM;
    goto out;
  }
  ct_yaml_append(map, features);
  ct_yaml_append(map, of_heads);
  CT_TRY(ct_str_add(a->out, "- {rope: "));
  CT_TRY(ct_yaml_flow(map, a->out));
  CT_TRY(ct_str_add(a->out, ", name: %s.%s, from: %s}\n", a->name, word, layer));
  ct_text_fit(layer, CT_NAME_MAX, "%s.%s", a->name, word);
out:
  ct_yaml_free(map);
  return rc;
}

/* Adds `sdpa` of the projections and the mask, and the output projection. */
static int attend(text_t *a)
{
  int rc = CT_OK;
  const attention_t *o = a->o;
  static const char *const mask[] = {"none", "first", "keys", "bias"};
  const char *called = o->names.n ? o->names.v[o->names.n - 1] : "out_proj";
  char layer[CT_NAME_MAX];
  if (a->mask && a->v[0]) {
    ct_text_fit(layer, sizeof layer, "%s.keys_values", a->name);
    CT_TRY(
        ct_str_add(a->out, "- {concat: {dim: 2}, name: %s, from: [%s, %s]}\n", layer, a->k, a->v));
    ct_text_fit(a->k, sizeof a->k, "%s", layer);
    a->v[0] = '\0';
  }
  CT_TRY(ct_str_add(a->out,
                    "- {sdpa: {heads: %" PRId64 ", kv_heads: %" PRId64
                    ", causal: %s, mask: %s}, name: %s.heads, from: [%s",
                    o->heads, a->kv, yes(o->causal), mask[o->mask], a->name, a->q));
  const char *more[] = {a->k, a->v, a->mask ? a->mask : ""};
  for (int i = 0; i < 3; i++)
    if (more[i][0]) CT_TRY(ct_str_add(a->out, ", %s", more[i]));
  CT_TRY(ct_str_add(a->out, "]}\n"));
  ct_text_fit(layer, sizeof layer, "%s.heads", a->name);
  CT_TRY(add_linear(a, a->name, called, layer, a->features, o->out_bias,
                    o->names.n ? "" : ", bias_init: zero"));
out:
  return rc;
}

static int is_plain(const attention_t *o, const ct_shape_t *in)
{
  int64_t kv = o->kv_heads ? o->kv_heads : o->heads;
  return kv == o->heads && (!o->head_dim || o->head_dim * o->heads == in->dim[2]) && !o->causal &&
         !o->mask && !o->names.n && o->bias && o->out_bias && !o->qk_norm && !o->rope &&
         !in[1].ndim;
}

static int check_options(const attention_t *o, const ct_shape_t *in, const char *const *names)
{
  int rc = CT_OK, inputs = 1 + (in[1].ndim > 0) + (in[2].ndim > 0);
  CT_TRY(ct__layer_want_sequence(in));
  if (o->names.n != 0 && o->names.n != 2 && o->names.n != 4)
    CT_FAIL(CT_ERR_SHAPE, "names: expected two or four names, got %d", o->names.n);
  if (!o->head_dim && in->dim[2] % o->heads)
    CT_FAIL(CT_ERR_SHAPE, "%" PRId64 " heads must divide its %" PRId64 " features", o->heads,
            in->dim[2]);
  if (o->kv_heads && o->heads % o->kv_heads)
    CT_FAIL(CT_ERR_SHAPE, "kv_heads: %" PRId64 " does not divide the %" PRId64 " heads",
            o->kv_heads, o->heads);
  if (inputs == 3 && !o->mask) CT_FAIL(CT_ERR_SHAPE, "has a third input, but no mask");
  if (inputs == 1 && o->mask) CT_FAIL(CT_ERR_SHAPE, "the mask is missing: from: [x, mask]");
  if (o->rope && o->rope->kind != CT_YAML_MAP)
    CT_FAIL(CT_ERR_SHAPE, "rope: expected options such as {theta: 10000}");
  if (names && names[0])
    CT_FAIL(CT_ERR_SHAPE, "weights and share are for the attention of torch.nn only: give `names`");
out:
  return rc;
}

static int attention_expands(const void *opts, const ct_shape_t *in, const char *name,
                             const char *from, const char *const *names, ct_str_t *out)
{
  int rc = CT_OK;
  const attention_t *o = opts;
  const char *input[] = {from, from + CT_NAME_MAX, from + 2 * CT_NAME_MAX};
  if (is_plain(o, in)) return CT_OK;
  CT_TRY(check_options(o, in, names));
  int last = in[2].ndim ? 2 : in[1].ndim ? 1 : 0, others = last + (o->mask == MASK_NONE);
  text_t a = {.o = o,
              .name = name,
              .from = input[0],
              .memory = others > 1 ? input[1] : NULL,
              .mask = o->mask ? input[last] : NULL,
              .kv = o->kv_heads ? o->kv_heads : o->heads,
              .wide = o->head_dim ? o->head_dim : in->dim[2] / o->heads,
              .features = in->dim[2],
              .t = in->dim[1],
              .out = out};
  a.s = a.memory ? in[1].dim[1] : a.t;
  CT_TRY(o->names.n == 4 ? project_each(&a) : project_packed(&a));
  if (o->qk_norm) {
    CT_TRY(normalise(&a, a.q, "q", a.t, o->heads));
    CT_TRY(normalise(&a, a.k, "k", a.s, a.kv));
  }
  if (o->rope) CT_TRY(rotate(&a, a.q, "rotated", o->heads + (a.k[0] ? 0 : a.kv)));
  if (o->rope && a.k[0]) CT_TRY(rotate(&a, a.k, "rotated_keys", a.kv));
  CT_TRY(attend(&a));
out:
  return rc;
}

const ct_layer_ops_t ct__layer_attention = {
    .kind = "attention",
    .help = "multi-head attention of a sequence with itself, or from: [x, memory] with another, "
            "and a mask",
    .opts_bytes = sizeof(attention_t),
    .opts = rows,
    .inputs = 3,
    .optional = 2,
    .expands = attention_expands,
    .infer = attention_infer,
    .params = attention_params,
    .op = CT_OP_ATTENTION,
    .attributes = attention_attributes,
};
