/* `convert IN DIRECTORY`: writes a model over tokens as a directory of Hugging Face, which
 * from_pretrained() of transformers opens: config.json, generation_config.json, and
 * model.safetensors, or several files with an index.
 *
 * All files are written in a hidden directory beside it, which gets its name when all are complete.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_heartbeat.h"
#include "base/ct_json.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "commands/convert.h"
#include "hdf5io/ct_h5.h"
#include "setup/ct_builtin.h"
#include "setup/ct_config.h"
#include "weights/ct_init.h"
#include "weights/hf/ct_hf.h"
#include "weights/safetensors/ct_weights_safetensors.h"

/* A tensor to write. */
typedef struct item {
  ct_tensor_t t; /* its name is owned */
  int64_t dim[2];
  int param; /* -1: zeros */
  int file;  /* number of the file */
} item_t;

typedef struct job {
  const char *in;
  char out[CT_PATH_MAX], hidden[CT_PATH_MAX]; /* hidden "": not there */
  ct_weights_file_t file;
  ct_config_t cfg;
  ct_graph_t *graph;
  ct_match_t match;
  item_t *item;
  int n, files;
  int64_t bytes;
  int64_t vocab; /* rows of embedding and head that are written */
} job_t;

int ct_convert_is_directory(const char *out)
{
  size_t n = strlen(out);
  const char *slash = strrchr(out, '/');
  if (ct_convert_format(out)) return 0;
  return (n && out[n - 1] == '/') || ct_file_is_dir(out) || !strchr(slash ? slash + 1 : out, '.');
}

/* ---- the model ---- */

static int hf_read_config(job_t *j, const ct_args_t *a)
{
  int rc = CT_OK;
  const char *given = ct_args_get(a, "config");
  char *text = NULL;
  size_t bytes;
  ct_str_t own = {0};
  if (given) CT_TRY(ct_file_read(given, &text, &bytes));
  if (!given) CT_TRY(ct_weights_config(&j->file, &own));
  if (!given && !own.len)
    CT_FAIL(CT_ERR_USAGE, "%s: carries no configuration: name that of its model with --config FILE",
            j->in);
  const char *from = given ? text : own.data;
  CT_TRY(ct_config_parse(&j->cfg, from, strlen(from), given ? given : j->in, a->set, a->sets));
  if (!ct_hf_knows(j->cfg.model.family))
    CT_FAIL(CT_ERR_USAGE,
            "%s: model.family is '%s': a directory of Hugging Face is written of gpt2, llama and "
            "esm2; other models are written to .safetensors, .pth or .onnx",
            j->in, j->cfg.model.family);
out:
  ct_mem_free(text);
  ct_str_clear(&own);
  return rc;
}

static int hf_make_graph(job_t *j)
{
  int rc = CT_OK;
  ct_shape_t input;
  ct_inputs_t extra;
  CT_TRY(ct_model_input(&j->cfg.model, &input));
  CT_TRY(ct_model_inputs(&j->cfg.model, &extra));
  if (!input.ndim)
    CT_FAIL(CT_ERR_USAGE,
            "%s: the shape of a sample is not set: give it, such as --set "
            "model.input=[1024]",
            j->in);
  CT_TRY(ct_graph_make(&j->cfg.model, &input, &extra, j->cfg.model.classes, j->in, &j->graph));
out:
  return rc;
}

static int hf_find_weights(job_t *j, const ct_args_t *a)
{
  int rc = CT_OK;
  const char *prefix = ct_args_get(a, "strip-prefix"), *key = ct_args_get(a, "key");
  ct_init_opts_t rules = {.from = (char *)(uintptr_t)j->in,
                          .key = (char *)(uintptr_t)(key ? key : ""),
                          .strict = 1,
                          .strip_prefix = (char *)(uintptr_t)(prefix ? prefix : "")};
  CT_TRY(ct_convert_rules(a, &rules.rename));
  CT_TRY(ct_match_reopen(ct_builtin_weights, j->graph, &rules, &j->file, &j->match));
  if (ct_match_judge(&j->match, &rules, j->in) != CT_OK)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: does not hold the model of its configuration: %d weights missing, "
            "%d of another shape, %d not in the model, as listed above",
            j->in, j->match.missing, j->match.misfits, j->match.unexpected);
out:
  ct_convert_rules_clear(&rules.rename);
  return rc;
}

/* ---- tensors to write ---- */

static int hf_ends(const char *name, const char *end)
{
  size_t n = strlen(name), k = strlen(end);
  return n >= k && strcmp(name + n - k, end) == 0;
}

/* Returns 1 for a parameter with a row for each token. */
static int is_of_tokens(const char *name)
{
  static const char *const ends[] = {"wte.weight", "embed_tokens.weight", "word_embeddings.weight",
                                     "lm_head.weight", "lm_head.bias"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (hf_ends(name, ends[i])) return 1;
  return 0;
}

/* Returns the rows of the embedding, which may be more than there are tokens. */
static int64_t rows_of_tokens(const ct_graph_t *g)
{
  for (int p = 0; p < g->params; p++)
    if (is_of_tokens(g->param[p].name)) return g->param[p].spec.shape.dim[0];
  return 0;
}

static int take_vocab(job_t *j, const ct_args_t *a)
{
  int rc = CT_OK;
  const char *text = ct_args_get(a, "vocab");
  int64_t rows = rows_of_tokens(j->graph);
  j->vocab = rows;
  if (text && (ct_text_int(text, &j->vocab) != CT_OK || j->vocab < 1 || j->vocab > rows))
    CT_FAIL(CT_ERR_USAGE, "--vocab %s: expected 1 to %" PRId64 ", the rows of the embedding", text,
            rows);
out:
  return rc;
}

/* Appends a tensor; the name is copied. */
static int add_item(job_t *j, const char *name, const char *end, int ndim, int64_t rows,
                    int64_t columns, int param)
{
  int rc = CT_OK;
  ct_str_t copy = {0};
  item_t *e = &j->item[j->n];
  CT_TRY(
      ct_str_add(&copy, "%.*s%s", (int)(strlen(name) - (*end ? strlen("weight") : 0)), name, end));
  *e = (item_t){.dim = {rows, columns}, .param = param};
  e->t = (ct_tensor_t){copy.data, CT_ELEM_F32, ndim, e->dim, ndim == 2 ? rows * columns : rows};
  j->bytes += 4 * e->t.count;
  j->n++;
out:
  return rc;
}

/* GPT-2 of transformers has all biases: those that the model lacks are zeros. */
static int add_zeros(job_t *j, const ct_param_t *p)
{
  char bias[CT_NAME_MAX];
  int layer = !is_of_tokens(p->name) && !hf_ends(p->name, "wpe.weight");
  if (strcmp(j->cfg.model.family, "gpt2") != 0 || !layer || !hf_ends(p->name, ".weight"))
    return CT_OK;
  ct_text_fit(bias, sizeof bias, "%.*sbias", (int)(strlen(p->name) - strlen("weight")), p->name);
  int there = ct_graph_find_param(j->graph, bias);
  if (there >= 0 && j->graph->param[there].spec.buffer != CT_CONSTANT) return CT_OK;
  return add_item(j, p->name, "bias", 1, p->spec.shape.dim[0], 1, -1);
}

static int list_items(job_t *j)
{
  int rc = CT_OK;
  const ct_graph_t *g = j->graph;
  j->item = ct_mem_array(2 * (int64_t)g->params + 1, sizeof *j->item, "names of tensors");
  CT_TRY(j->item ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *p = &g->param[i];
    const ct_shape_t *s = &p->spec.shape;
    int64_t rows = is_of_tokens(p->name) ? j->vocab : s->dim[0];
    int64_t columns = s->ndim == 2 ? s->dim[1] : 1;
    if (p->spec.buffer == CT_CONSTANT) continue; /* no state dict has it */
    if (s->ndim > 2)
      CT_FAIL(CT_ERR_UNSUP, "'%s' has %d dims, expected a vector or a matrix", p->name, s->ndim);
    CT_TRY(add_item(j, p->name, "", s->ndim, p->conv1d ? columns : rows, p->conv1d ? rows : columns,
                    i));
    CT_TRY(add_zeros(j, p));
  }
out:
  return rc;
}

/* Assigns tensors to files of at most \a most bytes; one that is larger has a file of its own. */
static int assign_files(job_t *j, const ct_args_t *a)
{
  int rc = CT_OK;
  const char *text = ct_args_get(a, "shard-gb");
  double most = 5;
  int64_t used = 0;
  if (text && (ct_text_double(text, &most) != CT_OK || !(most > 0)))
    CT_FAIL(CT_ERR_USAGE, "--shard-gb %s: expected a number above 0", text);
  for (int i = 0; i < j->n; i++) {
    int64_t bytes = 4 * j->item[i].t.count;
    if (j->files == 0 || (used > 0 && (double)(used + bytes) > most * 1e9)) {
      j->files++;
      used = 0;
    }
    used += bytes;
    j->item[i].file = j->files - 1;
  }
out:
  return rc;
}

/* ---- files ---- */

static int hf_path(const job_t *j, const char *name, char *path, size_t cap)
{
  return ct_path_join(path, cap, j->hidden, name);
}

static void file_name(const job_t *j, int k, char *out, size_t cap)
{
  if (j->files == 1)
    ct_text_fit(out, cap, "model.safetensors");
  else
    ct_text_fit(out, cap, "model-%05d-of-%05d.safetensors", k + 1, j->files);
}

/* Reads the values of a tensor in the order of the file. */
static int item_values(const job_t *j, const item_t *e, float *plain, float *out)
{
  int rc = CT_OK;
  const ct_param_t *p = e->param < 0 ? NULL : &j->graph->param[e->param];
  memset(out, 0, (size_t)e->t.count * sizeof *out);
  if (!p) return CT_OK;
  CT_TRY(ct_match_read(&j->file, j->match.from[e->param], p, plain));
  for (int64_t r = 0; p->conv1d && r < e->dim[0]; r++)
    for (int64_t c = 0; c < e->dim[1]; c++)
      out[r * e->dim[1] + c] = plain[c * e->dim[0] + r];
  if (!p->conv1d) memcpy(out, plain, (size_t)e->t.count * sizeof *out);
out:
  return rc;
}

static int write_items(job_t *j, int k, ct_weights_out_t *o)
{
  int rc = CT_OK, at = 0;
  int64_t most = 1;
  float *plain = NULL, *values = NULL;
  for (int p = 0; p < j->graph->params; p++)
    if (j->graph->param[p].count > most) most = j->graph->param[p].count;
  plain = ct_mem_array(most, sizeof *plain, "a tensor");
  values = ct_mem_array(most, sizeof *values, "a tensor");
  CT_TRY(plain && values ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < j->n; i++) {
    const item_t *e = &j->item[i];
    if (e->file != k) continue;
    CT_TRY(item_values(j, e, plain, values));
    CT_TRY(ct_weights_safetensors.put(o, at++, 0, e->t.count, values));
    ct_heartbeat_progress();
  }
out:
  ct_mem_free(plain);
  ct_mem_free(values);
  return rc;
}

static int write_file(job_t *j, int k)
{
  int rc = CT_OK, n = 0;
  char name[64], path[CT_PATH_MAX];
  ct_weights_out_t *o = NULL;
  ct_tensor_t *list = ct_mem_array(j->n, sizeof *list, "names of tensors");
  CT_TRY(list ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < j->n; i++)
    if (j->item[i].file == k) {
      list[n] = j->item[i].t;
      list[n++].dim = j->item[i].dim;
    }
  file_name(j, k, name, sizeof name);
  CT_TRY(hf_path(j, name, path, sizeof path));
  CT_TRY(ct_weights_safetensors.create(path, list, n, NULL, 0, &o));
  CT_TRY(write_items(j, k, o));
  rc = ct_weights_safetensors.commit(o);
  o = NULL;
out:
  ct_weights_safetensors.discard(o);
  ct_mem_free(list);
  return rc;
}

/* Writes a JSON file; frees \a o. */
static int write_json(const job_t *j, const char *name, json_t *o)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_str_t text = {0};
  CT_TRY(ct_json_add(o, &text));
  CT_TRY(hf_path(j, name, path, sizeof path));
  CT_TRY(ct_file_write(path, text.data, text.len));
out:
  json_decref(o);
  ct_str_clear(&text);
  return rc;
}

static int write_index(const job_t *j)
{
  char name[64];
  json_t *map = json_object();
  if (j->files == 1) {
    json_decref(map);
    return CT_OK;
  }
  for (int i = 0; i < j->n; i++) {
    file_name(j, j->item[i].file, name, sizeof name);
    json_object_set_new(map, j->item[i].t.name, json_string(name));
  }
  return write_json(j, "model.safetensors.index.json",
                    json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)j->bytes,
                              "weight_map", map));
}

/* ---- config.json ---- */

static int set_number(ct_yaml_t *model, const char *key, int64_t value)
{
  char text[24];
  ct_text_fit(text, sizeof text, "%" PRId64, value);
  return ct_yaml_set(model, key, text);
}

/* Sets the numbers that the shapes of the parameters say, in place of defaults. */
static int set_numbers(const job_t *j, ct_yaml_t *model)
{
  static const char *const wide[] = {"mlp.c_fc.weight", "mlp.gate_proj.weight",
                                     "intermediate.dense.weight"};
  int rc = CT_OK, blocks = 0;
  const ct_graph_t *g = j->graph;
  CT_TRY(set_number(model, "vocab", j->vocab));
  if (strcmp(ct_yaml_find(model, "context") ? ct_yaml_find(model, "context")->text : "0", "0") == 0)
    CT_TRY(set_number(model, "context", g->input.dim[1]));
  for (int p = 0; p < g->params; p++) {
    const ct_param_t *q = &g->param[p];
    if (hf_ends(q->name, "wpe.weight")) CT_TRY(set_number(model, "context", q->spec.shape.dim[0]));
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
      if (hf_ends(q->name, wide[i])) {
        CT_TRY(set_number(model, "hidden", q->spec.shape.dim[0]));
        blocks++;
      }
  }
  CT_TRY(set_number(model, "depth", blocks));
out:
  return rc;
}

/* The end of a text of GPT-2's own vocabulary; others are not known here. */
static json_t *end_of_text(const job_t *j)
{
  int is_gpt2 = strcmp(j->cfg.model.family, "gpt2") == 0 && j->vocab == 50257;
  return is_gpt2 ? json_integer(50256) : json_null();
}

static int write_configs(const job_t *j)
{
  int rc = CT_OK;
  ct_yaml_t *model = ct_opt_dump(ct_model_rows, &j->cfg.model, NULL);
  json_t *o = NULL;
  CT_TRY(model ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(set_numbers(j, model));
  CT_TRY(ct_hf_describe(model, &o));
  json_object_set_new(o, "bos_token_id", end_of_text(j));
  json_object_set_new(o, "eos_token_id", end_of_text(j));
  CT_TRY(write_json(j, CT_HF_CONFIG, o));
  CT_TRY(write_json(j, "generation_config.json",
                    json_pack("{s:b, s:o, s:o}", "_from_model_config", 1, "bos_token_id",
                              end_of_text(j), "eos_token_id", end_of_text(j))));
out:
  ct_yaml_free(model);
  return rc;
}

/* A checkpoint's run may have a tokenizer, which `generate` finds in the directory too. */
static int copy_tokenizer(const job_t *j)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX], run[CT_PATH_MAX], path[CT_PATH_MAX], *text = NULL;
  size_t bytes;
  CT_TRY(ct_path_dir(dir, sizeof dir, j->in));
  CT_TRY(ct_path_dir(run, sizeof run, dir));
  CT_TRY(ct_path_join(path, sizeof path, run, "tokenizer.blob"));
  if (j->file.ops != &ct_weights_hdf5 || !ct_file_exists(path)) goto out;
  CT_TRY(ct_file_read(path, &text, &bytes));
  CT_TRY(hf_path(j, "tokenizer.blob", path, sizeof path));
  CT_TRY(ct_file_write(path, text, bytes));
out:
  ct_mem_free(text);
  return rc;
}

/* ---- the directory ---- */

/* Removes the hidden directory, which holds only files. */
static void remove_hidden(job_t *j)
{
  char path[CT_PATH_MAX];
  DIR *d = j->hidden[0] ? opendir(j->hidden) : NULL;
  for (struct dirent *e; d && (e = readdir(d));)
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
        hf_path(j, e->d_name, path, sizeof path) == CT_OK)
      ct_file_remove(path);
  if (d) closedir(d);
  if (j->hidden[0]) ct_dir_remove(j->hidden);
  j->hidden[0] = '\0';
}

/* A directory that is there must be empty. */
static int make_hidden(job_t *j)
{
  int rc = CT_OK, why;
  char dir[CT_PATH_MAX];
  const char *slash = strrchr(j->out, '/');
  CT_TRY(ct_path_dir(dir, sizeof dir, j->out));
  if (ct_file_exists(j->out) && (why = ct_dir_remove(j->out)) != 0)
    CT_FAIL(CT_ERR_USAGE, "%s: exists already: expected a new name or an empty directory", j->out);
  CT_TRY(
      ct_text_format(j->hidden, sizeof j->hidden, "%s/.%s.tmp", dir, slash ? slash + 1 : j->out));
  char name[CT_PATH_MAX];
  ct_text_fit(name, sizeof name, "%s", j->hidden);
  remove_hidden(j); /* of a run that was killed */
  ct_text_fit(j->hidden, sizeof j->hidden, "%s", name);
  why = ct_dir_make(j->hidden, 0777);
  if (why) CT_FAIL(CT_ERR_IO, "%s: cannot make this directory: %s", j->hidden, strerror(why));
out:
  return rc;
}

static int write_directory(job_t *j)
{
  int rc = CT_OK;
  CT_TRY(make_hidden(j));
  for (int k = 0; k < j->files; k++)
    CT_TRY(write_file(j, k));
  CT_TRY(write_index(j));
  CT_TRY(write_configs(j));
  CT_TRY(copy_tokenizer(j));
  CT_TRY(ct_file_commit(j->hidden, j->out));
  j->hidden[0] = '\0';
out:
  remove_hidden(j);
  return rc;
}

static int hf_tell(const job_t *j)
{
  char line[CT_PATH_MAX + 200], size[32];
  ct_text_fit(line, sizeof line, "%s: Hugging Face, %s, %d tensors, %s%s\n", j->out,
              j->cfg.model.family, j->n, ct_text_bytes((double)j->bytes, size, sizeof size),
              j->files > 1 ? ", several files" : "");
  return ct_app_print(line);
}

static void hf_close(job_t *j)
{
  for (int i = 0; i < j->n; i++)
    ct_mem_free((char *)(uintptr_t)j->item[i].t.name);
  ct_mem_free(j->item);
  ct_match_clear(&j->match);
  ct_graph_free(j->graph);
  ct_config_clear(&j->cfg);
  ct_weights_close(&j->file);
}

int ct_convert_hf(const char *in, const char *out, const ct_args_t *a)
{
  int rc = CT_OK;
  job_t j = {.in = in};
  CT_TRY(ct_text_format(j.out, sizeof j.out, "%s", out));
  for (size_t n = strlen(j.out); n > 1 && j.out[n - 1] == '/'; n--)
    j.out[n - 1] = '\0';
  CT_TRY(ct_weights_peek(ct_builtin_weights, in, ct_args_get(a, "key"), &j.file));
  CT_TRY(hf_read_config(&j, a));
  CT_TRY(hf_make_graph(&j));
  CT_TRY(hf_find_weights(&j, a));
  CT_TRY(take_vocab(&j, a));
  CT_TRY(list_items(&j));
  CT_TRY(assign_files(&j, a));
  CT_TRY(write_directory(&j));
  CT_TRY(hf_tell(&j));
out:
  hf_close(&j);
  return rc;
}
