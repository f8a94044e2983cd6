/* config.json <-> the section `model`. A row of a table is a key of both; a check is a key that
 * must have one of a few values, since the family computes nothing else. Keys that change nothing
 * in the result of a model (ids of special tokens, dropout, names) are in neither. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "weights/hf/ct_hf.h"
#include "weights/safetensors/safetensors.h"

typedef enum { INT, ID, REAL, BOOL, WORD } kind_t; /* ID: of a token */

/* A number of the model. absent: its value if config.json lacks it, or has null; "": it is left
 * out then; NULL: it must be there. words: "theirs=ours|..." of a WORD. */
typedef struct row {
  const char *theirs, *ours;
  kind_t kind;
  const char *absent, *words;
} row_t;

/* A key whose value must be one of a list of JSON texts, separated by '|'. */
typedef struct check {
  const char *key, *values;
} check_t;

typedef struct type {
  const char *name, *family, *class;
  const row_t *rows;
  const check_t *checks;
  int rope; /* 1: has rope_parameters, or rope_theta and rope_scaling; and mlp_bias */
} type_t;

#define GELUS \
  "gelu_new=gelu_tanh|gelu=gelu|gelu_pytorch_tanh=gelu_tanh|gelu_fast=gelu_tanh|gelu_python=gelu"

static const row_t gpt2_rows[] = {{"vocab_size", "vocab", INT, "50257", NULL},
                                  {"n_positions", "context", INT, "1024", NULL},
                                  {"n_embd", "dim", INT, "768", NULL},
                                  {"n_layer", "depth", INT, "12", NULL},
                                  {"n_head", "heads", INT, "12", NULL},
                                  {"n_inner", "hidden", INT, "", NULL},
                                  {"activation_function", "activation", WORD, "gelu_tanh", GELUS},
                                  {"layer_norm_epsilon", "eps", REAL, "1e-05", NULL},
                                  {"tie_word_embeddings", "tie", BOOL, "yes", NULL},
                                  {NULL, NULL, INT, NULL, NULL}};
static const check_t gpt2_checks[] = {{"scale_attn_weights", "true"},
                                      {"scale_attn_by_inverse_layer_idx", "false"},
                                      {"add_cross_attention", "false"},
                                      {NULL, NULL}};

static const row_t llama_rows[] = {{"vocab_size", "vocab", INT, "32000", NULL},
                                   {"max_position_embeddings", "context", INT, "2048", NULL},
                                   {"hidden_size", "dim", INT, "4096", NULL},
                                   {"num_hidden_layers", "depth", INT, "32", NULL},
                                   {"num_attention_heads", "heads", INT, "32", NULL},
                                   {"num_key_value_heads", "kv_heads", INT, "", NULL},
                                   {"head_dim", "head_dim", INT, "", NULL},
                                   {"intermediate_size", "hidden", INT, "11008", NULL},
                                   {"rms_norm_eps", "eps", REAL, "1e-06", NULL},
                                   {"attention_bias", "bias", BOOL, "no", NULL},
                                   {"tie_word_embeddings", "tie", BOOL, "no", NULL},
                                   {NULL, NULL, INT, NULL, NULL}};
static const check_t llama_checks[] = {{"hidden_act", "\"silu\"|\"swish\""},
                                       {"partial_rotary_factor", "1|1.0"},
                                       {"sliding_window", "null"},
                                       {NULL, NULL}};

static const row_t esm_rows[] = {{"vocab_size", "vocab", INT, NULL, NULL},
                                 {"max_position_embeddings", "context", INT, "1026", NULL},
                                 {"hidden_size", "dim", INT, "768", NULL},
                                 {"num_hidden_layers", "depth", INT, "12", NULL},
                                 {"num_attention_heads", "heads", INT, "12", NULL},
                                 {"intermediate_size", "hidden", INT, "3072", NULL},
                                 {"layer_norm_eps", "eps", REAL, "1e-12", NULL},
                                 {"rope_theta", "rope_theta", REAL, "10000", NULL},
                                 {"token_dropout", "token_dropout", BOOL, "no", NULL},
                                 {"mask_token_id", "mask_id", ID, "", NULL},
                                 {"pad_token_id", "pad_id", ID, "1", NULL},
                                 {NULL, NULL, INT, NULL, NULL}};
static const check_t esm_checks[] = {{"position_embedding_type", "\"rotary\""},
                                     {"emb_layer_norm_before", "false|null"},
                                     {"is_folding_model", "false"},
                                     {"tie_word_embeddings", "true"},
                                     {NULL, NULL}};

static const type_t types[] = {{"gpt2", "gpt2", "GPT2LMHeadModel", gpt2_rows, gpt2_checks, 0},
                               {"llama", "llama", "LlamaForCausalLM", llama_rows, llama_checks, 1},
                               {"esm", "esm2", "EsmForMaskedLM", esm_rows, esm_checks, 0}};
enum { TYPES = sizeof types / sizeof *types, MOST = 1 << 30 };

int ct_hf_knows(const char *family)
{
  for (int i = 0; i < TYPES; i++)
    if (strcmp(types[i].family, family) == 0) return 1;
  return 0;
}

int ct_hf_find(const char *dir, char *path, size_t cap)
{
  static const char *const files[] = {"model.safetensors.index.json", "model.safetensors",
                                      "pytorch_model.bin"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (ct_path_join(path, cap, dir, files[i]) == CT_OK && ct_file_exists(path)) return 1;
  return 0;
}

/* ---- values ---- */

/* Writes a JSON value for a message. */
static const char *shown(const json_t *v, char *buf, size_t cap)
{
  size_t n = json_dumpb(v, buf, cap - 1, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
  if (n >= cap) memcpy(buf + cap - 4, "...", 4);
  buf[n < cap ? n : cap - 1] = '\0';
  for (char *p = buf; *p; p++)
    if (*p == 0x7f) *p = '?'; /* a control character that JSON allows */
  return buf;
}

/* Returns 1 if a text is one of the items of a list that '|' separates. */
static int is_among(const char *text, const char *list)
{
  size_t n = strlen(text);
  for (const char *p = list; p; p = strchr(p, '|')) {
    p += *p == '|';
    if (strncmp(p, text, n) == 0 && (p[n] == '|' || !p[n])) return 1;
  }
  return 0;
}

/* Finds the other side of a word: in a list "theirs=ours|...", the first pair counts. */
static int find_word(const char *words, const char *word, int to_ours, char *out, size_t cap)
{
  for (const char *p = words; *p;) {
    size_t n = strcspn(p, "|"), left = strcspn(p, "=");
    const char *from = to_ours ? p : p + left + 1, *to = to_ours ? p + left + 1 : p;
    size_t from_n = to_ours ? left : n - left - 1, to_n = to_ours ? n - left - 1 : left;
    if (strlen(word) == from_n && strncmp(word, from, from_n) == 0)
      return ct_text_format(out, cap, "%.*s", (int)to_n, to) == CT_OK;
    p += n + (p[n] == '|');
  }
  return 0;
}

/* Writes a value as YAML. Returns what was expected, or NULL: it is written. */
static const char *value_text(const row_t *r, const json_t *v, char *out, size_t cap)
{
  double real = json_number_value(v);
  int fits = 0;
  switch (r->kind) {
  case INT:
  case ID:
    if (!json_is_integer(v) || json_integer_value(v) < (r->kind == INT) ||
        json_integer_value(v) > MOST)
      return r->kind == INT ? "an integer from 1 to 2^30" : "an integer from 0 to 2^30";
    ct_text_fit(out, cap, "%lld", (long long)json_integer_value(v));
    return NULL;
  case REAL:
    if (!json_is_number(v) || !(real > 0) || real > DBL_MAX) return "a number above 0";
    ct_text_number(real, out, cap);
    return NULL;
  case BOOL:
    if (!json_is_boolean(v)) return "true or false";
    ct_text_fit(out, cap, "%s", json_is_true(v) ? "yes" : "no");
    return NULL;
  case WORD:
    fits = json_is_string(v) && find_word(r->words, json_string_value(v), 1, out, cap);
  }
  return fits ? NULL : "one of the functions gelu_new, gelu_pytorch_tanh and gelu";
}

static int take_row(const char *path, const json_t *o, const row_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  char text[80], has[80];
  const json_t *v = json_object_get(o, r->theirs);
  if (!v || json_is_null(v)) {
    if (!r->absent) CT_FAIL(CT_ERR_FORMAT, "%s: %s is missing", path, r->theirs);
    return *r->absent ? ct_str_add(out, ", %s: %s", r->ours, r->absent) : CT_OK;
  }
  const char *expected = value_text(r, v, text, sizeof text);
  if (expected)
    CT_FAIL(CT_ERR_FORMAT, "%s: %s is %s, expected %s", path, r->theirs, shown(v, has, sizeof has),
            expected);
  CT_TRY(ct_str_add(out, ", %s: %s", r->ours, text));
out:
  return rc;
}

static int check_value(const char *path, const json_t *o, const check_t *c)
{
  int rc = CT_OK;
  char has[80];
  const json_t *v = json_object_get(o, c->key);
  if (v && !is_among(shown(v, has, sizeof has), c->values))
    CT_FAIL(CT_ERR_FORMAT, "%s: %s is %s, which the family does not have: expected %s", path,
            c->key, has, c->values);
out:
  return rc;
}

/* ---- rotary embeddings ---- */

static const row_t rope_llama3[] = {
    {"factor", "rope_factor", REAL, NULL, NULL},
    {"low_freq_factor", "rope_low", REAL, NULL, NULL},
    {"high_freq_factor", "rope_high", REAL, NULL, NULL},
    {"original_max_position_embeddings", "rope_context", INT, NULL, NULL},
    {NULL, NULL, INT, NULL, NULL}};
static const row_t rope_linear[] = {{"factor", "rope_factor", REAL, NULL, NULL},
                                    {NULL, NULL, INT, NULL, NULL}};
static const row_t rope_none[] = {{NULL, NULL, INT, NULL, NULL}};
static const row_t rope_theta = {"rope_theta", "rope_theta", REAL, "10000", NULL};

static const row_t *rope_rows(const char *kind)
{
  return strcmp(kind, "default") == 0  ? rope_none
         : strcmp(kind, "llama3") == 0 ? rope_llama3
         : strcmp(kind, "linear") == 0 ? rope_linear
                                       : NULL;
}

/* Newer files have all in rope_parameters; older ones rope_theta, and rope_scaling or null. */
static int take_rope(const char *path, const json_t *o, ct_str_t *out)
{
  int rc = CT_OK;
  char has[80];
  const json_t *all = json_object_get(o, "rope_parameters");
  const json_t *scaling = json_is_object(all) ? all : json_object_get(o, "rope_scaling");
  const json_t *type = json_object_get(scaling, "rope_type");
  const char *kind = "default", *where = scaling == all ? "rope_parameters" : "rope_scaling";
  if (!type) type = json_object_get(scaling, "type");
  if (scaling && !json_is_null(scaling)) {
    kind = json_string_value(type);
    if (!kind || !rope_rows(kind))
      CT_FAIL(CT_ERR_FORMAT, "%s: rope_type of %s is %s, expected default, linear or llama3", path,
              where, type ? shown(type, has, sizeof has) : "missing");
  }
  const json_t *theta = json_object_get(scaling, "rope_theta") ? scaling : o;
  CT_TRY(take_row(path, theta, &rope_theta, out));
  if (strcmp(kind, "default") == 0) goto out;
  CT_TRY(ct_str_add(out, ", rope_scaling: %s", kind));
  for (const row_t *r = rope_rows(kind); r->theirs; r++)
    CT_TRY(take_row(path, scaling, r, out));
out:
  return rc;
}

/* The family has biases in all layers, or in none. */
static int check_biases(const char *path, const json_t *o)
{
  int rc = CT_OK;
  int attention = json_is_true(json_object_get(o, "attention_bias"));
  int mlp = json_is_true(json_object_get(o, "mlp_bias"));
  if (attention != mlp)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: attention_bias is %s and mlp_bias is %s: the family has both or neither", path,
            attention ? "true" : "false", mlp ? "true" : "false");
out:
  return rc;
}

/* ---- reading ---- */

static int find_type(const char *path, const json_t *o, const type_t **out)
{
  int rc = CT_OK;
  char has[80];
  const json_t *v = json_object_get(o, "model_type");
  const char *name = json_string_value(v);
  for (int i = 0; name && i < TYPES; i++)
    if (strcmp(types[i].name, name) == 0) {
      *out = &types[i];
      return CT_OK;
    }
  CT_FAIL(CT_ERR_FORMAT, "%s: model_type is %s, expected gpt2, llama or esm", path,
          v ? shown(v, has, sizeof has) : "missing");
out:
  return rc;
}

/* Appends the keys that a file of weights cannot do without: shape of a sample, outputs. */
static int add_shapes(const json_t *o, const type_t *t, ct_str_t *out)
{
  const row_t *vocab = &t->rows[0], *context = &t->rows[1];
  const json_t *v = json_object_get(o, vocab->theirs), *c = json_object_get(o, context->theirs);
  char words[2][24];
  ct_text_fit(words[0], sizeof words[0], "%lld", (long long)json_integer_value(c));
  ct_text_fit(words[1], sizeof words[1], "%lld", (long long)json_integer_value(v));
  return ct_str_add(out, ", input: [%s], classes: %s",
                    json_is_integer(c) ? words[0] : context->absent,
                    json_is_integer(v) ? words[1] : vocab->absent);
}

int ct_hf_translate(const char *path, const char *text, size_t bytes, ct_str_t *out)
{
  int rc = CT_OK;
  json_t *o = NULL;
  const type_t *t = NULL;
  CT_TRY(ct__safetensors_json(path, text, bytes, &o));
  CT_TRY(find_type(path, o, &t));
  if (json_object_get(o, "quantization_config"))
    CT_FAIL(CT_ERR_FORMAT, "%s: has quantization_config: quantized weights are not read", path);
  CT_TRY(ct_str_add(out, "{family: %s", t->family));
  for (const check_t *c = t->checks; c->key; c++)
    CT_TRY(check_value(path, o, c));
  for (const row_t *r = t->rows; r->theirs; r++)
    CT_TRY(take_row(path, o, r, out));
  if (t->rope) CT_TRY(take_rope(path, o, out));
  if (t->rope) CT_TRY(check_biases(path, o));
  CT_TRY(add_shapes(o, t, out));
  CT_TRY(ct_str_add(out, "}\n"));
out:
  json_decref(o);
  return rc;
}

int ct_hf_model(const char *dir, ct_str_t *out)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX], *text = NULL;
  size_t bytes;
  CT_TRY(ct_path_join(path, sizeof path, dir, CT_HF_CONFIG));
  CT_TRY(ct_file_regular(path));
  CT_TRY(ct_file_read(path, &text, &bytes));
  CT_TRY(ct_hf_translate(path, text, bytes, out));
out:
  ct_mem_free(text);
  return rc;
}

/* ---- writing ---- */

/* Returns a value of the section as text; "": none. A list of one is its item. */
static const char *text_of(const ct_yaml_t *model, const char *key)
{
  const ct_yaml_t *v = ct_yaml_find(model, key);
  if (v && v->kind == CT_YAML_LIST) v = v->child;
  return v && v->text ? v->text : "";
}

/* Values at their defaults, 0 and auto, become those of the table. */
static int put_value(const row_t *r, const ct_yaml_t *model, json_t *o)
{
  int rc = CT_OK;
  char word[80] = "";
  json_t *v = NULL;
  const char *text = text_of(model, r->ours);
  double real = *text ? strtod(text, NULL) : -1;
  if (strcmp(text, "auto") == 0) text = r->absent;
  if (r->kind == INT) v = real >= 1 ? json_integer((json_int_t)real) : json_null();
  if (r->kind == ID && real < 0) real = *r->absent ? strtod(r->absent, NULL) : -1;
  if (r->kind == ID) v = real >= 0 ? json_integer((json_int_t)real) : json_null();
  if (r->kind == REAL) v = json_real(real > 0 ? real : 1e-5);
  if (r->kind == BOOL) v = json_boolean(strcmp(text, "yes") == 0 || strcmp(text, "true") == 0);
  if (r->kind == WORD) {
    if (!find_word(r->words, text, 0, word, sizeof word))
      CT_FAIL(CT_ERR_USAGE, "model.%s is %s, which transformers' %s does not have", r->ours, text,
              r->theirs);
    v = json_string(word);
  }
  if (!v || json_object_set_new(o, r->theirs, v) != 0)
    CT_FAIL(CT_ERR_NOMEM, "no memory for " CT_HF_CONFIG);
out:
  return rc;
}

static int put_rope(const ct_yaml_t *model, json_t *o)
{
  int rc = CT_OK;
  const char *kind = text_of(model, "rope_scaling");
  json_t *is = NULL;
  CT_TRY(put_value(&rope_theta, model, o));
  if (!*kind || strcmp(kind, "none") == 0) goto out;
  const row_t *rows = rope_rows(kind);
  if (!rows) CT_FAIL(CT_ERR_USAGE, "model.rope_scaling is %s, which transformers lacks", kind);
  is = json_pack("{s:s}", "rope_type", kind);
  for (const row_t *r = rows; r->theirs; r++)
    CT_TRY(put_value(r, model, is));
  if (json_object_set(o, "rope_scaling", is) != 0)
    CT_FAIL(CT_ERR_NOMEM, "no memory for " CT_HF_CONFIG);
out:
  json_decref(is);
  return rc;
}

int ct_hf_describe(const ct_yaml_t *model, json_t **out)
{
  int rc = CT_OK;
  const type_t *t = NULL;
  const char *family = text_of(model, "family");
  json_t *o = NULL;
  *out = NULL;
  for (int i = 0; i < TYPES; i++)
    if (strcmp(types[i].family, family) == 0) t = &types[i];
  if (!t)
    CT_FAIL(CT_ERR_USAGE,
            "model.family is '%s': a directory of Hugging Face is written of gpt2, "
            "llama and esm2",
            family);
  o = json_pack("{s:[s], s:s, s:s}", "architectures", t->class, "model_type", t->name,
                "torch_dtype", "float32");
  CT_TRY(o ? CT_OK : CT_ERR_NOMEM);
  for (const row_t *r = t->rows; r->theirs; r++)
    CT_TRY(put_value(r, model, o));
  if (strcmp(t->name, "esm") == 0)
    CT_TRY(json_object_set_new(o, "position_embedding_type", json_string("rotary")) == 0
               ? CT_OK
               : CT_ERR_NOMEM);
  if (t->rope) {
    json_t *bias = json_object_get(o, "attention_bias");
    CT_TRY(put_rope(model, o));
    CT_TRY(json_object_set(o, "mlp_bias", bias) == 0 ? CT_OK : CT_ERR_NOMEM);
  }
  *out = o;
  o = NULL;
out:
  json_decref(o);
  return rc;
}
