/* Transformers over tokens, with the topology, parameter names and initial weights of Hugging
 * Face's GPT2LMHeadModel, LlamaForCausalLM and EsmForMaskedLM (ESM-2).  A sample is one window of
 * tokens; the output has vocab values for each of them, T x vocab.
 *
 * An extra input `first` (N x T: the place of the first token of each token's document) limits
 * attention to the document and counts places from its beginning.  An extra input `keys` (N x T, 0:
 * padding) hides keys.
 *
 * Nothing but the input's shape depends on T, so that the same numbers make the model for one token
 * at a time. */
#include "model/ct_family.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"

/* The numbers of a model, and its text. */
typedef struct language {
  const ct_model_opts_t *o;
  const ct_graph_t *g;
  int64_t layers, dim, heads, kv_heads, head_dim, hidden, vocab, context;
  double eps, std, residual_std; /* of initial weights; of those before an addition */
  int bias, tie;
  const char *act, *mask;           /* words of options */
  const char *mask_input, *places;  /* names of layers, or NULL */
  char prefix[48], x[96], last[96]; /* names of the block, of its input, and of its last layer */
  ct_str_t text;
  int rc;
} language_t;

/* Appends a layer. */
static void put(language_t *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void put(language_t *m, const char *fmt, ...)
{
  char line[600];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  if (m->rc == CT_OK && (size_t)n >= sizeof line)
    m->rc = ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a layer's text is too long");
  if (m->rc == CT_OK) m->rc = ct_str_add(&m->text, "- %s\n", line);
}

static const char *yes(int flag)
{
  return flag ? "yes" : "no";
}

/* Notes the name of the layer that was put, which belongs to the block. */
static void note_last(language_t *m, const char *name)
{
  snprintf(m->last, sizeof m->last, "%s%s", m->prefix, name);
}

/* A linear layer of layer \a from; NULL: of the one before it. */
static void put_linear(language_t *m, const char *name, int64_t out, double std, const char *from)
{
  int conv1d = strcmp(m->o->family, "gpt2") == 0;
  put(m,
      "{linear: {out: %" PRId64 ", bias: %s, bias_init: zero, weight_std: %.17g, conv1d: %s}, "
      "name: %s%s%s%s%s}",
      out, yes(m->bias), std, yes(conv1d), m->prefix, name, from ? ", from: " : "",
      from ? m->prefix : "", from ? from : "");
  note_last(m, name);
}

static void put_dropout(language_t *m, const char *name)
{
  if (!(m->o->dropout > 0)) return;
  put(m, "{dropout: {p: %.17g}, name: %s%s}", m->o->dropout, m->prefix, name);
  note_last(m, name);
}

/* Adds the input of the block to its last layer. */
static void put_sum(language_t *m, const char *name)
{
  put(m, "{add: {}, name: %s%s, from: [%s, %s]}", m->prefix, name, m->last, m->x);
  snprintf(m->x, sizeof m->x, "%s%s", m->prefix, name);
}

static void put_layernorm(language_t *m, const char *name)
{
  put(m, "{layernorm: {eps: %.17g, bias: %s}, name: %s%s}", m->eps, yes(m->bias), m->prefix, name);
}

static void put_sdpa(language_t *m, const char *name, int causal, const char *from)
{
  put(m,
      "{sdpa: {heads: %" PRId64 ", kv_heads: %" PRId64
      ", causal: %s, mask: %s}, name: %s%s, from: [%s%s%s]}",
      m->heads, m->kv_heads, yes(causal), m->mask, m->prefix, name, from, m->mask_input ? ", " : "",
      m->mask_input ? m->mask_input : "");
}

/* Rotates the layer \a of. */
static void put_rope(language_t *m, const char *name, const char *of)
{
  static const char *const scaling[] = {"none", "linear", "llama3"};
  const ct_model_opts_t *o = m->o;
  put(m,
      "{rope: {head_dim: %" PRId64 ", theta: %.17g, scaling: %s, factor: %.17g, low: %.17g, "
      "high: %.17g, original: %.17g}, name: %s%s, from: [%s%s%s%s]}",
      m->head_dim, o->rope_theta, scaling[o->rope_scaling], o->rope_factor, o->rope_low,
      o->rope_high, o->rope_context, m->prefix, name, m->prefix, of, m->places ? ", " : "",
      m->places ? m->places : "");
}

/* Attention of the layers \a q, \a k and \a v, all of the layer \a norm, with rotated queries and
 * keys.  With a mask, keys and values are one input. */
static void put_rotated(language_t *m, const char *norm, const char *q, const char *k,
                        const char *v, int causal)
{
  char from[300];
  const char *p = m->prefix;
  put_linear(m, q, m->heads * m->head_dim, m->std, norm);
  put_rope(m, "rotated_q", q);
  put_linear(m, k, m->kv_heads * m->head_dim, m->std, norm);
  put_rope(m, "rotated_k", k);
  put_linear(m, v, m->kv_heads * m->head_dim, m->std, norm);
  snprintf(from, sizeof from, "%srotated_q, %srotated_k, %s%s", p, p, p, v);
  if (m->mask_input) {
    put(m, "{concat: {dim: 2}, name: %skv, from: [%srotated_k, %s%s]}", p, p, p, v);
    snprintf(from, sizeof from, "%srotated_q, %skv", p, p);
  }
  put_sdpa(m, "sdpa", causal, from);
}

/* ---- the numbers ---- */

/* Changes *out if the number is given. */
static int take_hidden(const ct_model_opts_t *o, int64_t *out)
{
  int rc = CT_OK;
  if (o->hidden.n == 1 && o->hidden.v[0] == 0) return CT_OK;
  if (o->hidden.n != 1 || !(o->hidden.v[0] >= 1 && o->hidden.v[0] <= 1 << 30) ||
      o->hidden.v[0] != floor(o->hidden.v[0]))
    CT_FAIL(CT_ERR_USAGE, "model.hidden: expected one whole number of at least 1");
  *out = (int64_t)o->hidden.v[0];
out:
  return rc;
}

static int check_heads(const language_t *m)
{
  int rc = CT_OK;
  if (m->o->head_dim == 0 && m->dim % m->heads)
    CT_FAIL(CT_ERR_USAGE, "model.heads: %" PRId64 " does not divide model.dim, %" PRId64, m->heads,
            m->dim);
  if (m->heads % m->kv_heads)
    CT_FAIL(CT_ERR_USAGE, "model.kv_heads: %" PRId64 " does not divide model.heads, %" PRId64,
            m->kv_heads, m->heads);
  if (m->g->input.ndim != 2)
    CT_FAIL(CT_ERR_SHAPE, "needs windows of tokens (data.context), one number a token");
  if (m->context < m->g->input.dim[1])
    CT_FAIL(CT_ERR_USAGE,
            "model.context: %" PRId64 " is less than the %" PRId64 " tokens of a sample",
            m->context, m->g->input.dim[1]);
out:
  return rc;
}

/* Takes the mask from the extra inputs, as N x T. */
static void take_mask(language_t *m)
{
  const ct_inputs_t *extra = &m->g->extra;
  static const char *const name[] = {"first", "keys"}, *const input[] = {"input.first",
                                                                         "input.keys"};
  m->mask = "none";
  for (int k = 0; k < extra->n; k++) {
    for (int i = 0; i < 2; i++) {
      if (strcmp(extra->name[k], name[i]) != 0) continue;
      m->mask = name[i];
      m->mask_input = input[i];
      if (extra->x[k].ndim == 2) continue;
      m->mask_input = "mask";
      put(m, "{reshape: {shape: [N, %" PRId64 "]}, name: mask, from: %s}", m->g->input.dim[1],
          input[i]);
    }
  }
}

/* \a hidden, \a act, \a bias, \a tie: defaults of the family. */
static int take_numbers(language_t *m, const ct_graph_t *g, const ct_model_opts_t *o,
                        int64_t classes, int64_t hidden, const char *act, int bias, int tie)
{
  static const char *const acts[] = {NULL, "gelu", "gelu_tanh", "relu", "silu"};
  *m = (language_t){.o = o, .g = g, .layers = o->depth, .dim = o->dim, .heads = o->heads};
  m->kv_heads = o->kv_heads ? o->kv_heads : o->heads;
  m->head_dim = o->head_dim ? o->head_dim : o->dim / o->heads;
  m->vocab = o->vocab ? o->vocab : classes;
  m->context = o->context ? o->context : g->input.dim[1];
  m->hidden = hidden;
  m->eps = o->eps > 0 ? o->eps : 1e-5;
  m->std = 0.02;
  m->residual_std = 0.02 / sqrt(2.0 * (double)m->layers);
  m->act = o->activation ? acts[o->activation] : act;
  m->bias = o->bias == CT_AUTO ? bias : o->bias == CT_YES;
  m->tie = o->tie == CT_AUTO ? tie : o->tie == CT_YES;
  take_mask(m);
  int rc = take_hidden(o, &m->hidden);
  return rc == CT_OK ? check_heads(m) : rc;
}

static void put_embedding(language_t *m, const char *name)
{
  char pad[48] = "";
  if (m->o->pad_id >= 0) snprintf(pad, sizeof pad, ", padding_idx: %" PRId64, m->o->pad_id);
  put(m,
      "{embedding: {rows: %" PRId64 ", dim: %" PRId64 ", weight_std: %.17g%s}, name: %s, "
      "from: input}",
      m->vocab, m->dim, m->std, pad, name);
  snprintf(m->x, sizeof m->x, "%s", name);
}

/* The head, whose weight may be that of the embedding. */
static void put_head(language_t *m, const char *name, const char *embedding)
{
  put(m,
      "{linear: {out: %" PRId64 ", bias: no, weight_std: %.17g}, name: %s, weights: [%s.weight]}",
      m->vocab, m->std, name, m->tie ? embedding : name);
}

/* Makes the graph of the text; the tied weight has a second name in state dicts. */
static int finish(language_t *m, ct_graph_t *g, const char *head, const char *embedding)
{
  int rc = m->rc;
  char name[CT_NAME_MAX], of[CT_NAME_MAX];
  CT_TRY(rc);
  CT_TRY(ct_graph_add_text(g, m->text.data));
  ct_text_fit(name, sizeof name, "%s.weight", head);
  ct_text_fit(of, sizeof of, "%s.weight", embedding);
  if (m->tie) CT_TRY(ct_graph_tie(g, name, of));
out:
  return rc;
}

/* ---- GPT-2 ---- */

static void gpt2_block(language_t *m, int64_t i)
{
  char qkv[120];
  snprintf(m->prefix, sizeof m->prefix, "transformer.h.%" PRId64 ".", i);
  snprintf(qkv, sizeof qkv, "%sattn.c_attn", m->prefix);
  put_layernorm(m, "ln_1");
  put_linear(m, "attn.c_attn", 3 * m->dim, m->std, NULL);
  put_sdpa(m, "attn.sdpa", 1, qkv);
  put_linear(m, "attn.c_proj", m->dim, m->residual_std, NULL);
  put_dropout(m, "attn.resid_dropout");
  put_sum(m, "attn.add");
  put_layernorm(m, "ln_2");
  put_linear(m, "mlp.c_fc", m->hidden, m->std, NULL);
  put(m, "{%s: {}, name: %smlp.act}", m->act, m->prefix);
  put_linear(m, "mlp.c_proj", m->dim, m->residual_std, NULL);
  put_dropout(m, "mlp.dropout");
  put_sum(m, "mlp.add");
}

static int gpt2_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK;
  language_t m = {0};
  CT_TRY(take_numbers(&m, g, o, classes, 4 * o->dim, "gelu_tanh", 1, 1));
  if (m.kv_heads != m.heads || o->head_dim)
    CT_FAIL(CT_ERR_USAGE, "model.kv_heads and model.head_dim have no meaning with family gpt2");
  put_embedding(&m, "transformer.wte");
  put(&m, "{position: {rows: %" PRId64 ", weight_std: %.17g, first: '%s'}, name: transformer.wpe}",
      m.context, m.std, strcmp(m.mask, "first") == 0 ? m.mask_input : "");
  note_last(&m, "transformer.wpe");
  put_dropout(&m, "transformer.drop");
  snprintf(m.x, sizeof m.x, "%s", m.last);
  for (int64_t i = 0; i < m.layers; i++)
    gpt2_block(&m, i);
  m.prefix[0] = '\0';
  put_layernorm(&m, "transformer.ln_f");
  put_head(&m, "lm_head", "transformer.wte");
  rc = finish(&m, g, "lm_head", "transformer.wte");
out:
  ct_str_clear(&m.text);
  return rc;
}

/* ---- Llama ---- */

static void llama_block(language_t *m, int64_t i)
{
  snprintf(m->prefix, sizeof m->prefix, "model.layers.%" PRId64 ".", i);
  put(m, "{rmsnorm: {eps: %.17g}, name: %sinput_layernorm}", m->eps, m->prefix);
  put_rotated(m, "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", 1);
  put_linear(m, "self_attn.o_proj", m->dim, m->residual_std, NULL);
  put_dropout(m, "self_attn.dropout");
  put_sum(m, "self_attn.add");
  put(m, "{rmsnorm: {eps: %.17g}, name: %spost_attention_layernorm}", m->eps, m->prefix);
  put(m,
      "{swiglu: {hidden: %" PRId64 ", bias: %s, activation: %s, weight_std: %.17g, "
      "down_std: %.17g}, name: %smlp}",
      m->hidden, yes(m->bias), m->act, m->std, m->residual_std, m->prefix);
  note_last(m, "mlp");
  put_dropout(m, "mlp.dropout");
  put_sum(m, "mlp.add");
}

static int llama_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK;
  language_t m = {0};
  int64_t hidden = (8 * o->dim / 3 + 255) / 256 * 256; /* as in Llama's code */
  CT_TRY(take_numbers(&m, g, o, classes, hidden, "silu", 0, 0));
  put_embedding(&m, "model.embed_tokens");
  if (strcmp(m.mask, "first") == 0) {
    m.places = "model.places";
    put(&m, "{positions: {relative: yes}, name: %s, from: %s}", m.places, m.mask_input);
    put(&m, "{identity: {}, name: model.embedded, from: %s}", m.x);
    snprintf(m.x, sizeof m.x, "model.embedded");
  }
  for (int64_t i = 0; i < m.layers; i++)
    llama_block(&m, i);
  m.prefix[0] = '\0';
  put(&m, "{rmsnorm: {eps: %.17g}, name: model.norm}", m.eps);
  put_head(&m, "lm_head", "model.embed_tokens");
  rc = finish(&m, g, "lm_head", "model.embed_tokens");
out:
  ct_str_clear(&m.text);
  return rc;
}

/* ---- ESM-2 ---- */

/* Scales each row of the embedding: by 0 where the token is the mask or padding, else so that the
 * sum of a sequence has the size that it had in training, where 12 % of the tokens were masked. */
static void put_token_dropout(language_t *m, const char *e)
{
  const char *keys = m->mask_input;
  if (m->o->token_dropout) {
    put(m, "{eq: {value: %" PRId64 "}, name: %s.masked, from: input}", m->o->mask_id, e);
    put(m, "{%s: {dims: [1], keepdim: yes}, name: %s.share}", keys ? "sum" : "mean", e);
    if (keys) {
      put(m, "{sum: {dims: [1], keepdim: yes}, name: %s.length, from: %s}", e, keys);
      put(m, "{div: {}, name: %s.of_length, from: [%s.share, %s.length]}", e, e, e);
    }
    put(m, "{sub: {value: 1, reverse: yes}, name: %s.kept}", e);
    put(m, "{div: {value: 0.88, reverse: yes}, name: %s.scale}", e);
    put(m, "{logical_not: {}, name: %s.open, from: %s.masked}", e, e);
    put(m, "{mul: {}, name: %s.scales, from: [%s.open, %s.scale]}", e, e, e);
    if (keys) put(m, "{mul: {}, name: %s.valid, from: [%s.scales, %s]}", e, e, keys);
  }
  if (!keys && !m->o->token_dropout) return;
  put(m, "{reshape: {shape: [N, %" PRId64 ", 1]}, name: %s.factor%s%s}", m->g->input.dim[1], e,
      m->o->token_dropout ? "" : ", from: ", m->o->token_dropout ? "" : keys);
  put(m, "{mul: {}, name: %s.scaled, from: [%s, %s.factor]}", e, e, e);
  snprintf(m->x, sizeof m->x, "%s.scaled", e);
}

static void esm2_block(language_t *m, int64_t i)
{
  snprintf(m->prefix, sizeof m->prefix, "esm.encoder.layer.%" PRId64 ".", i);
  put_layernorm(m, "attention.LayerNorm");
  put_rotated(m, "attention.LayerNorm", "attention.self.query", "attention.self.key",
              "attention.self.value", 0);
  put_linear(m, "attention.output.dense", m->dim, m->residual_std, NULL);
  put_dropout(m, "attention.output.dropout");
  put_sum(m, "attention.output");
  put_layernorm(m, "LayerNorm");
  put_linear(m, "intermediate.dense", m->hidden, m->std, NULL);
  put(m, "{%s: {}, name: %sintermediate}", m->act, m->prefix);
  put_linear(m, "output.dense", m->dim, m->residual_std, NULL);
  put_dropout(m, "output.dropout");
  put_sum(m, "output");
}

static int esm2_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK;
  language_t m = {0};
  const char *embedding = "esm.embeddings.word_embeddings";
  CT_TRY(take_numbers(&m, g, o, classes, 4 * o->dim, "gelu", 1, 1));
  if (strcmp(m.mask, "first") == 0)
    CT_FAIL(CT_ERR_USAGE, "family esm2 takes an extra input `keys`, not `first`");
  if (g->input.dim[1] == m.vocab)
    CT_FAIL(CT_ERR_USAGE,
            "esm2 cannot tell %" PRId64 " tokens of a sample from as many classes: "
            "choose another data.context",
            m.vocab);
  if (o->token_dropout && o->mask_id < 0)
    CT_FAIL(CT_ERR_USAGE, "model.token_dropout needs model.mask_id, the number of the mask token");
  put_embedding(&m, embedding);
  put_token_dropout(&m, embedding);
  for (int64_t i = 0; i < m.layers; i++)
    esm2_block(&m, i);
  m.prefix[0] = '\0';
  put_layernorm(&m, "esm.encoder.emb_layer_norm_after");
  put_linear(&m, "lm_head.dense", m.dim, m.std, NULL);
  put(&m, "{%s: {}, name: lm_head.act}", m.act);
  put_layernorm(&m, "lm_head.layer_norm");
  /* a bias of the linear layer would be a parameter that the embedding does not have */
  put_head(&m, "lm_head.decoder", embedding);
  put(&m, "{parameter: {shape: [%" PRId64 "]}, name: lm_head.bias}", m.vocab);
  put(&m, "{add: {}, name: lm_head, from: [lm_head.decoder, lm_head.bias]}");
  rc = finish(&m, g, "lm_head.decoder", embedding);
out:
  ct_str_clear(&m.text);
  return rc;
}

#define FAMILY(word, text)                              \
  const ct_family_t ct__family_##word = {.name = #word, \
                                         .depths = "",  \
                                         .depth = 12,   \
                                         .language = 1, \
                                         .help = text,  \
                                         .build = word##_build};

FAMILY(gpt2, "GPT-2: options layers, heads, dim, vocab, context, ...")
FAMILY(llama, "Llama 1 to 3: also kv_heads, hidden, rope_theta, rope_scaling, ...")
FAMILY(esm2, "ESM-2, an encoder of proteins: also token_dropout, mask_id, pad_id")
