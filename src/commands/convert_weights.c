/* `convert` between weight formats: renames tensors, copies them part by part, and copies the
 * configuration.  A checkpoint has only types that this program computes with, so floats become
 * float32 in a checkpoint.  The other formats keep the types of the source. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "setup/ct_builtin.h"
#include "commands/convert.h"
#include "commands/convert_int8.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "setup/ct_config.h"
#include "hdf5io/ct_h5.h"
#include "weights/ct_init.h"
#include "weights/ct_names.h"

enum { PIECE = 1 << 19, TEXTS = 3 }; /* PIECE: elements per read */

typedef struct job {
  const char *in, *out;
  ct_weights_file_t file;
  const ct_weights_ops_t *to;
  ct_tensor_t *list;              /* tensors to write; their names are owned */
  int *from;                      /* [n]: their numbers in the file */
  int64_t (*turned)[CT_MAX_DIMS]; /* [n]: dims that are not the file's */
  int n, changed;                 /* changed: number of tensors whose type changes */
  int64_t bytes;
  ct_opt_texts_t rename;
  ct_str_t config;
  ct_config_t model; /* the file's own configuration; zero: none */
  ct_graph_t *graph; /* of that configuration, or NULL */
  int *transposed;   /* 1 for each tensor of the file to transpose; NULL: none */
  const char *order; /* text "conv1d" of the new file, or NULL */
} job_t;

const ct_weights_ops_t *ct_convert_format(const char *out)
{
  for (int i = 0; ct_builtin_weights[i]; i++)
    if (ct_builtin_weights[i]->create && ct_format_has_suffix(&ct_builtin_weights[i]->format, out))
      return ct_builtin_weights[i];
  return NULL;
}

/* ---- rules ---- */

int ct_convert_rules(const ct_args_t *a, ct_opt_texts_t *out)
{
  int rc = CT_OK;
  int64_t cap = 0;
  const char *text = ct_args_get(a, "rename");
  *out = (ct_opt_texts_t){0};
  while (text && *text) {
    size_t n = strcspn(text, ",");
    ct_str_t rule = {0};
    CT_TRY(ct_mem_grow((void **)&out->v, &cap, out->n + 1, sizeof *out->v));
    CT_TRY(ct_str_add(&rule, "%.*s", (int)n, text));
    out->v[out->n++] = rule.data;
    text += n + (text[n] == ',');
  }
  CT_TRY(ct_names_check(out, "--rename"));
out:
  return rc;
}

void ct_convert_rules_clear(ct_opt_texts_t *rules)
{
  for (int i = 0; i < rules->n; i++)
    ct_mem_free(rules->v[i]);
  ct_mem_free(rules->v);
  *rules = (ct_opt_texts_t){0};
}

/* ---- tensors to write ---- */

static int is_float(ct_elem_t e)
{
  return e == CT_ELEM_F16 || e == CT_ELEM_BF16 || e == CT_ELEM_F64;
}

static ct_elem_t type_written(const job_t *j, ct_elem_t e)
{
  if (j->to != &ct_weights_hdf5) return e;
  if (e == CT_ELEM_BOOL) return CT_ELEM_U8;
  return is_float(e) ? CT_ELEM_F32 : e;
}

/* Returns the layer of an imported model whose only parameter has that name. */
static const ct_yaml_t *find_layer(const job_t *j, const char *name)
{
  const ct_yaml_t *layers = j->model.model.layers;
  for (const ct_yaml_t *n = layers ? layers->child : NULL; n; n = n->next) {
    const ct_yaml_t *is = n->kind == CT_YAML_MAP ? ct_yaml_find(n, "name") : NULL;
    const ct_yaml_t *other = is ? ct_yaml_find(n, "weights") : NULL;
    if (other && other->child) is = other->child;
    if (is && is->text && strcmp(is->text, name) == 0) return n;
  }
  return NULL;
}

/* Returns 1 for a parameter or buffer of an imported model that is complex. */
static int is_complex(const job_t *j, const char *name)
{
  const ct_yaml_t *n = find_layer(j, name), *options = n ? ct_yaml_find(n, "parameter") : NULL;
  if (n && !options) options = ct_yaml_find(n, "buffer");
  if (!options || options->kind != CT_YAML_MAP) return 0;
  const ct_yaml_t *is = ct_yaml_find(options, "complex");
  return is && is->text && (strcmp(is->text, "yes") == 0 || strcmp(is->text, "true") == 0);
}

/* Between pairs of float32, which checkpoints have, and complex64: only the dims differ. */
static void change_complex(job_t *j, ct_tensor_t *t)
{
  int store = j->to == &ct_weights_hdf5;
  if (store && t->type == CT_ELEM_C64 && t->ndim < CT_MAX_DIMS) {
    int64_t *dim = j->turned[j->n];
    for (int k = 0; k < t->ndim; k++)
      dim[k] = t->dim[k];
    dim[t->ndim++] = 2;
    t->dim = dim;
    t->type = CT_ELEM_F32;
    t->count *= 2;
  } else if (!store && t->type == CT_ELEM_F32 && t->ndim > 0 && t->dim[t->ndim - 1] == 2 &&
             is_complex(j, t->name)) {
    t->ndim--;
    t->type = CT_ELEM_C64;
    t->count /= 2;
  }
}

/* Appends tensor i, with the name \a as; NULL: its own. */
static int add_tensor(job_t *j, int i, const char *as, const char *prefix)
{
  int rc = CT_OK;
  ct_tensor_t *t = &j->list[j->n];
  ct_str_t name = {0};
  j->file.ops->tensor(j->file.w, i, t);
  j->from[j->n] = i;
  change_complex(j, t);
  if (as) t->name = as;
  if (ct_elem_bits(t->type) < 8)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is of type %s, which no output format supports", j->in,
            t->name, ct_elem_name(t->type));
  CT_TRY(ct_names_change(prefix, &j->rename, t->name, &name));
  ct_elem_t type = type_written(j, t->type);
  j->changed += type != t->type;
  j->bytes += t->count * (ct_elem_bits(type) / 8);
  if (j->transposed && j->transposed[i]) {
    j->turned[j->n][0] = t->dim[1];
    j->turned[j->n][1] = t->dim[0];
    t->dim = j->turned[j->n];
  }
  t->type = type;
  t->name = name.data;
  name.data = NULL;
  j->n++;
out:
  ct_str_clear(&name);
  return rc;
}

static int convert_weights_by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int check_names(const job_t *j)
{
  int rc = CT_OK;
  const char **sorted = ct_mem_array(j->n, sizeof *sorted, "names of tensors");
  CT_TRY(sorted ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < j->n; i++)
    sorted[i] = j->list[i].name;
  if (j->n > 0) qsort(sorted, (size_t)j->n, sizeof *sorted, convert_weights_by_name);
  for (int i = 1; i < j->n; i++)
    if (strcmp(sorted[i - 1], sorted[i]) == 0)
      CT_FAIL(CT_ERR_USAGE, "%s: two tensors would get the name '%s'", j->in, sorted[i]);
out:
  ct_mem_free(sorted);
  return rc;
}

/* Returns 1 for a constant of an imported model, or the scale of a norm that trains none: it is not
 * in state dicts. */
static int is_constant(const job_t *j, const char *name)
{
  int param = j->graph ? ct_graph_find_param(j->graph, name) : -1;
  if (param >= 0) return j->graph->param[param].spec.buffer == CT_CONSTANT;
  const ct_yaml_t *layer = find_layer(j, name);
  return layer && ct_yaml_find(layer, "constant") != NULL;
}

/* Appends tensor i again for each further name that state dicts have for it. */
static int add_tied(job_t *j, int i, const char *prefix)
{
  int rc = CT_OK;
  ct_tensor_t t;
  ct_str_t other = {0};
  const ct_opt_texts_t *tied = &j->model.model.tied;
  j->file.ops->tensor(j->file.w, i, &t);
  for (int k = 0; k < tied->n; k++) {
    const char *at = strchr(tied->v[k], '=');
    if (!at || strcmp(at + 1, t.name) != 0) continue;
    ct_str_clear(&other);
    CT_TRY(ct_str_add(&other, "%.*s", (int)(at - tied->v[k]), tied->v[k]));
    CT_TRY(add_tensor(j, i, other.data, prefix));
  }
out:
  ct_str_clear(&other);
  return rc;
}

/* Reads the configuration of the file and makes its graph, if it says enough. */
static int read_own_config(job_t *j)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  ct_shape_t input;
  ct_inputs_t extra;
  const ct_model_opts_t *o = &j->model.model;
  rc = ct_weights_config(&j->file, &text);
  if (rc == CT_ERR_FORMAT) goto none; /* a config.json of another kind of model */
  if (rc != CT_OK || !text.len) goto out;
  CT_TRY(ct_config_parse(&j->model, text.data, text.len, j->in, NULL, 0));
  CT_TRY(ct_model_input(o, &input));
  CT_TRY(ct_model_inputs(o, &extra));
  if (input.ndim && o->classes)
    CT_TRY(ct_graph_make(o, &input, &extra, o->classes, j->in, &j->graph));
  goto out;
none:
  rc = CT_OK;
out:
  ct_str_clear(&text);
  return rc;
}

/* Finds the tensors to transpose: weights of Conv1D, between formats that hold them in different
 * order.  If the file does not say which they are, the new one notes its order. */
static int find_conv1d(job_t *j, const char *prefix, int n)
{
  int rc = CT_OK;
  ct_match_t m = {0};
  const ct_graph_t *g = j->graph;
  ct_init_opts_t rules = {.strip_prefix = (char *)(uintptr_t)prefix, .rename = j->rename};
  int in_out = ct_weights_conv1d(&j->file);
  if (in_out == j->to->conv1d) return CT_OK;
  j->order = in_out ? "in,out" : "out,in";
  rc = g ? ct_match_make(&j->file, g, &rules, &m) : CT_ERR_FORMAT;
  if (rc == CT_ERR_FORMAT) return CT_OK;
  CT_TRY(rc);
  for (int p = 0; p < g->params; p++)
    if (g->param[p].conv1d && m.from[p] < 0) goto out;
  j->transposed = ct_mem_array(n + 1, sizeof *j->transposed, "names of tensors");
  CT_TRY(j->transposed ? CT_OK : CT_ERR_NOMEM);
  for (int p = 0; p < g->params; p++)
    if (g->param[p].conv1d) j->transposed[m.from[p]] = 1;
  j->order = NULL;
out:
  ct_match_clear(&m);
  return rc;
}

static int list_tensors(job_t *j, const ct_args_t *a)
{
  int rc = CT_OK, n = j->file.ops->count(j->file.w), most;
  const char *prefix = ct_args_get(a, "strip-prefix");
  if (!prefix) prefix = "";
  CT_TRY(ct_convert_rules(a, &j->rename));
  CT_TRY(read_own_config(j));
  CT_TRY(find_conv1d(j, prefix, n));
  most = n + j->model.model.tied.n;
  j->list = ct_mem_array(most, sizeof *j->list, "names of tensors");
  j->from = ct_mem_array(most, sizeof *j->from, "names of tensors");
  j->turned = ct_mem_array(most, sizeof *j->turned, "dims of tensors");
  CT_TRY(j->list && j->from && j->turned ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < n; i++) {
    ct_tensor_t t;
    j->file.ops->tensor(j->file.w, i, &t);
    if (j->to != &ct_weights_hdf5 && is_constant(j, t.name)) continue;
    CT_TRY(add_tensor(j, i, NULL, prefix));
    if (j->to != &ct_weights_hdf5) CT_TRY(add_tied(j, i, prefix));
  }
  CT_TRY(check_names(j));
out:
  return rc;
}

/* Replaces the file's configuration by that of --config, and applies --set. */
static int take_config(job_t *j, const ct_args_t *a)
{
  int rc = CT_OK;
  const char *given = ct_args_get(a, "config"), *own = NULL;
  char *text = NULL, where[CT_PATH_MAX];
  size_t bytes;
  ct_str_t read = {0};
  ct_config_t c = {0};
  rc = ct_weights_config(&j->file, &read);
  if (rc == CT_ERR_FORMAT) rc = CT_OK; /* a config.json of another kind of model */
  CT_TRY(rc);
  own = read.data;
  if (!given && (a->sets == 0 || !own)) {
    if (a->sets > 0)
      CT_FAIL(CT_ERR_USAGE, "%s: carries no configuration that --set could change", j->in);
    j->config = read;
    return CT_OK;
  }
  if (given) CT_TRY(ct_file_read(given, &text, &bytes));
  ct_text_fit(where, sizeof where, given ? "%s" : "configuration in %s", given ? given : j->in);
  const char *from = given ? text : own;
  CT_TRY(ct_config_parse(&c, from, strlen(from), where, a->set, a->sets));
  CT_TRY(ct_config_dump(&c, &j->config));
out:
  ct_config_clear(&c);
  ct_mem_free(text);
  ct_str_clear(&read);
  return rc;
}

/* ---- writing ---- */

/* Copies a weight with its rows and columns exchanged. */
static int copy_transposed(const job_t *j, int i, ct_weights_out_t *o)
{
  int rc = CT_OK;
  ct_tensor_t t;
  j->file.ops->tensor(j->file.w, j->from[i], &t);
  int convert = j->list[i].type != t.type;
  size_t size = (size_t)ct_elem_bits(j->list[i].type) / 8;
  char *from = ct_mem_array(t.count, size, "a weight to transpose");
  char *to = ct_mem_array(t.count, size, "a weight to transpose");
  CT_TRY(from && to ? CT_OK : CT_ERR_NOMEM);
  if (convert)
    CT_TRY(ct_weights_floats(&j->file, j->from[i], (float *)(void *)from));
  else
    CT_TRY(j->file.ops->read(j->file.w, j->from[i], 0, t.count, from));
  char *at = to;
  for (int64_t c = 0; c < t.dim[1]; c++)
    for (int64_t r = 0; r < t.dim[0]; r++, at += size)
      memcpy(at, from + (size_t)(r * t.dim[1] + c) * size, size);
  CT_TRY(j->to->put(o, i, 0, t.count, to));
out:
  ct_mem_free(from);
  ct_mem_free(to);
  return rc;
}

static int copy_tensor(const job_t *j, int i, ct_weights_out_t *o, char *piece, float *floats)
{
  int rc = CT_OK;
  ct_tensor_t t;
  int from = j->from[i];
  if (j->transposed && j->transposed[from]) return copy_transposed(j, i, o);
  j->file.ops->tensor(j->file.w, from, &t);
  int is, was;
  ct_elem_t to = ct_elem_part(j->list[i].type, &is), own = ct_elem_part(t.type, &was);
  int convert = to == CT_ELEM_F32 && own != CT_ELEM_F32;
  int64_t first = 0;
  do { /* also writes an empty tensor */
    int64_t n = t.count - first < PIECE ? t.count - first : PIECE;
    CT_TRY(j->file.ops->read(j->file.w, from, first, n, piece));
    if (convert) ct_elem_floats(t.type, piece, n, floats);
    CT_TRY(j->to->put(o, i, first * was / is, n * was / is, convert ? (void *)floats : piece));
    ct_heartbeat_progress();
    first += n;
  } while (first < t.count);
out:
  return rc;
}

static int write_all(const job_t *j)
{
  int rc = CT_OK, texts = 0;
  ct_weights_text_t text[TEXTS];
  ct_weights_out_t *o = NULL;
  const char *versions = j->file.ops->text(j->file.w, "versions");
  char *piece = ct_mem_array(PIECE, 2 * sizeof(double), "a piece of a tensor"); /* large enough for
                                                                                   complex128 */
  float *floats = ct_mem_array(PIECE, sizeof *floats, "a piece of a tensor");
  CT_TRY(piece && floats ? CT_OK : CT_ERR_NOMEM);
  if (j->config.len) text[texts++] = (ct_weights_text_t){"config", j->config.data};
  if (versions) text[texts++] = (ct_weights_text_t){"versions", versions};
  if (j->order) text[texts++] = (ct_weights_text_t){"conv1d", j->order};
  CT_TRY(j->to->create(j->out, j->list, j->n, text, texts, &o));
  for (int i = 0; i < j->n; i++)
    CT_TRY(copy_tensor(j, i, o, piece, floats));
  rc = j->to->commit(o);
  o = NULL;
out:
  if (o) j->to->discard(o);
  ct_mem_free(piece);
  ct_mem_free(floats);
  return rc;
}

static int convert_weights_tell(const job_t *j)
{
  int rc = CT_OK;
  char size[32];
  ct_str_t line = {0};
  CT_TRY(ct_str_add(&line, "%s: %s, %d tensor%s, %s%s", j->out, j->to->format.name, j->n,
                    j->n == 1 ? "" : "s", ct_text_bytes((double)j->bytes, size, sizeof size),
                    j->config.len ? ", with its configuration" : ""));
  if (j->changed) CT_TRY(ct_str_add(&line, "; %d converted to another type", j->changed));
  CT_TRY(ct_str_add(&line, "\n"));
  CT_TRY(ct_app_print(line.data));
out:
  ct_str_clear(&line);
  return rc;
}

static void close_job(job_t *j)
{
  for (int i = 0; i < j->n; i++)
    ct_mem_free((char *)(uintptr_t)j->list[i].name);
  ct_mem_free(j->list);
  ct_mem_free(j->from);
  ct_mem_free(j->turned);
  ct_mem_free(j->transposed);
  ct_graph_free(j->graph);
  ct_config_clear(&j->model);
  ct_convert_rules_clear(&j->rename);
  ct_str_clear(&j->config);
  ct_weights_close(&j->file);
}

/* Refuses a quantized file without --key: its default group lacks the int8 tensors. */
static int check_whole(const job_t *j, const ct_args_t *a)
{
  int rc = CT_OK, quantized = 0;
  const char *key = ct_args_get(a, "key");
  if (j->file.ops != &ct_weights_hdf5 || (key && *key)) return CT_OK;
  CT_TRY(ct_convert_int8_is(j->in, &quantized));
  if (quantized)
    CT_FAIL(
        CT_ERR_USAGE,
        "%s: is quantized: only .onnx can hold its model (--key / takes all arrays as they are)",
        j->in);
out:
  return rc;
}

int ct_convert_weights(const char *in, const char *out, const ct_args_t *a)
{
  int rc = CT_OK;
  job_t j = {.in = in, .out = out, .to = ct_convert_format(out)};
  CT_TRY(ct_weights_open(ct_builtin_weights, in, ct_args_get(a, "key"), &j.file));
  const char *remark = j.file.ops->remark(j.file.w);
  if (remark) ct_log(CT_LOG_INFO, "%s: %s", in, remark);
  CT_TRY(check_whole(&j, a));
  CT_TRY(list_tensors(&j, a));
  CT_TRY(take_config(&j, a));
  CT_TRY(write_all(&j));
  CT_TRY(convert_weights_tell(&j));
out:
  close_job(&j);
  return rc;
}
