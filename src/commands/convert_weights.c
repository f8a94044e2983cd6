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
#include "weights/ct_names.h"

enum { PIECE = 1 << 19, TEXTS = 2 }; /* PIECE: elements per read */

typedef struct job {
  const char *in, *out;
  ct_weights_file_t file;
  const ct_weights_ops_t *to;
  ct_tensor_t *list; /* tensors to write; their names are owned */
  int *from;         /* [n]: their numbers in the file */
  int n, changed;    /* changed: number of tensors whose type changes */
  int64_t bytes;
  ct_opt_texts_t rename;
  ct_str_t config;
  ct_config_t model; /* the file's own configuration; zero: none */
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

/* Appends tensor i, with the name \a as; NULL: its own. */
static int add_tensor(job_t *j, int i, const char *as, const char *prefix)
{
  int rc = CT_OK;
  ct_tensor_t *t = &j->list[j->n];
  ct_str_t name = {0};
  j->file.ops->tensor(j->file.w, i, t);
  j->from[j->n] = i;
  if (as) t->name = as;
  if (ct_elem_bits(t->type) < 8)
    CT_FAIL(CT_ERR_FORMAT, "%s: '%s' is of type %s, which no output format supports", j->in,
            t->name, ct_elem_name(t->type));
  CT_TRY(ct_names_change(prefix, &j->rename, t->name, &name));
  ct_elem_t type = type_written(j, t->type);
  j->changed += type != t->type;
  j->bytes += t->count * (ct_elem_bits(type) / 8);
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

/* Returns 1 for a constant of an imported model: it is not in state dicts. */
static int is_constant(const job_t *j, const char *name)
{
  const ct_yaml_t *layers = j->model.model.layers;
  for (const ct_yaml_t *n = layers ? layers->child : NULL; n; n = n->next) {
    const ct_yaml_t *is = n->kind == CT_YAML_MAP ? ct_yaml_find(n, "name") : NULL;
    if (is && is->text && strcmp(is->text, name) == 0) return ct_yaml_find(n, "constant") != NULL;
  }
  return 0;
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

/* Reads the configuration of the file, which says what is no part of a state dict; a checkpoint
 * keeps all. */
static int read_own_config(job_t *j)
{
  const char *text = j->file.ops->text(j->file.w, "config");
  if (!text || j->to == &ct_weights_hdf5) return CT_OK;
  return ct_config_parse(&j->model, text, strlen(text), j->in, NULL, 0);
}

static int list_tensors(job_t *j, const ct_args_t *a)
{
  int rc = CT_OK, n = j->file.ops->count(j->file.w), most;
  const char *prefix = ct_args_get(a, "strip-prefix");
  if (!prefix) prefix = "";
  CT_TRY(ct_convert_rules(a, &j->rename));
  CT_TRY(read_own_config(j));
  most = n + j->model.model.tied.n;
  j->list = ct_mem_array(most, sizeof *j->list, "names of tensors");
  j->from = ct_mem_array(most, sizeof *j->from, "names of tensors");
  CT_TRY(j->list && j->from ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < n; i++) {
    ct_tensor_t t;
    j->file.ops->tensor(j->file.w, i, &t);
    if (is_constant(j, t.name)) continue;
    CT_TRY(add_tensor(j, i, NULL, prefix));
    CT_TRY(add_tied(j, i, prefix));
  }
  CT_TRY(check_names(j));
out:
  return rc;
}

/* Replaces the file's configuration by that of --config, and applies --set. */
static int take_config(job_t *j, const ct_args_t *a)
{
  int rc = CT_OK;
  const char *given = ct_args_get(a, "config"), *own = j->file.ops->text(j->file.w, "config");
  char *text = NULL, where[CT_PATH_MAX];
  size_t bytes;
  ct_config_t c = {0};
  if (!given && (a->sets == 0 || !own)) {
    if (a->sets > 0)
      CT_FAIL(CT_ERR_USAGE, "%s: carries no configuration that --set could change", j->in);
    return own ? ct_str_add(&j->config, "%s", own) : CT_OK;
  }
  if (given) CT_TRY(ct_file_read(given, &text, &bytes));
  ct_text_fit(where, sizeof where, given ? "%s" : "configuration in %s", given ? given : j->in);
  const char *from = given ? text : own;
  CT_TRY(ct_config_parse(&c, from, strlen(from), where, a->set, a->sets));
  CT_TRY(ct_config_dump(&c, &j->config));
out:
  ct_config_clear(&c);
  ct_mem_free(text);
  return rc;
}

/* ---- writing ---- */

static int copy_tensor(const job_t *j, int i, ct_weights_out_t *o, char *piece, float *floats)
{
  int rc = CT_OK;
  ct_tensor_t t;
  int from = j->from[i];
  j->file.ops->tensor(j->file.w, from, &t);
  int convert = j->list[i].type == CT_ELEM_F32 && t.type != CT_ELEM_F32;
  int64_t first = 0;
  do { /* also writes an empty tensor */
    int64_t n = t.count - first < PIECE ? t.count - first : PIECE;
    CT_TRY(j->file.ops->read(j->file.w, from, first, n, piece));
    if (convert) ct_elem_floats(t.type, piece, n, floats);
    CT_TRY(j->to->put(o, i, first, n, convert ? (void *)floats : piece));
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
