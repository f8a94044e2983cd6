/* `inspect`: lists the contents of a model file or data set: names, shapes, types and, on request,
 * statistics of the values. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "setup/ct_builtin.h"
#include "commands/ct_commands.h"
#include "setup/ct_model_file.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"
#include "hdf5io/ct_h5.h"

enum { PIECE = 1 << 16 };

/* Statistics of the finite values of a tensor. */
typedef struct stats {
  int64_t n, nonfinite;
  double min, max, mean, m2; /* m2: sum of squared deviations from the mean */
} stats_t;

typedef struct totals {
  int64_t count;
  double bytes;
} totals_t;

/* Column widths. */
typedef struct widths {
  int name, type;
} widths_t;

/* ---- the file ---- */

/* Opens a checkpoint (recognized by its seal) with all its groups; opens any other HDF5 file as a
 * collection of arrays. */
static int inspect_open_file(const char *path, const ct_args_t *a, ct_weights_file_t *f)
{
  int rc = CT_OK, is_checkpoint = 0;
  const char *key = ct_args_get(a, "key");
  char meant[CT_PATH_MAX];
  const ct_weights_ops_t *all[CT_FORMATS + 1] = {0};
  CT_TRY(ct_model_path(path, ct_args_get(a, "checkpoint"), meant, sizeof meant));
  CT_TRY(ct_weights_foreign(meant));
  if (!ct_file_is_dir(meant)) CT_TRY(ct_h5_is_checkpoint(meant, &is_checkpoint));
  for (int i = 0; ct_builtin_weights[i] && i < CT_FORMATS; i++) {
    int other = ct_builtin_weights[i] == &ct_weights_hdf5 && !is_checkpoint;
    all[i] = other ? &ct_weights_any_hdf5 : ct_builtin_weights[i];
  }
  CT_TRY(ct_weights_open(all, meant, is_checkpoint && !(key && *key) ? "/" : key, f));
out:
  return rc;
}

static totals_t inspect_total(const ct_weights_file_t *f)
{
  totals_t all = {0};
  ct_tensor_t t;
  for (int i = 0; i < f->ops->count(f->w); i++) {
    f->ops->tensor(f->w, i, &t);
    all.count += t.count;
    all.bytes += (double)t.count * ct_elem_bits(t.type) / 8;
  }
  return all;
}

static const char *inspect_kind_of(const ct_weights_file_t *f)
{
  return f->ops == &ct_weights_hdf5 ? "checkpoint" : f->ops->format.name;
}

/* ---- statistics ---- */

/* Adds a batch of values: combines means and squared deviations of two parts (Chan, Golub, LeVeque
 * 1979). */
static void inspect_add_numbers(stats_t *s, const double *v, int64_t n)
{
  stats_t p = {.min = INFINITY, .max = -INFINITY};
  for (int64_t i = 0; i < n; i++) {
    if (!isfinite(v[i])) continue;
    p.n++;
    p.mean += v[i];
    p.min = fmin(p.min, v[i]);
    p.max = fmax(p.max, v[i]);
  }
  s->nonfinite += n - p.n;
  if (p.n == 0) return;
  p.mean /= (double)p.n;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(v[i])) p.m2 += (v[i] - p.mean) * (v[i] - p.mean);
  double all = (double)(s->n + p.n), between = p.mean - s->mean;
  s->m2 += p.m2 + between * between * (double)s->n * (double)p.n / all;
  s->mean += between * (double)p.n / all;
  s->min = s->n ? fmin(s->min, p.min) : p.min;
  s->max = s->n ? fmax(s->max, p.max) : p.max;
  s->n += p.n;
}

static int inspect_measure(const ct_weights_file_t *f, int i, const ct_tensor_t *t, stats_t *s)
{
  int rc = CT_OK;
  double *bytes = ct_mem_array(PIECE, sizeof *bytes, "a piece of a tensor"),
         *numbers = ct_mem_array(PIECE, sizeof *numbers, "a piece of a tensor");
  *s = (stats_t){0};
  CT_TRY(bytes && numbers ? CT_OK : CT_ERR_NOMEM);
  for (int64_t first = 0, n; first < t->count; first += n) {
    n = t->count - first < PIECE ? t->count - first : PIECE;
    CT_TRY(f->ops->read(f->w, i, first, n, bytes));
    ct_elem_doubles(t->type, bytes, n, numbers);
    inspect_add_numbers(s, numbers, n);
    ct_heartbeat_progress();
  }
out:
  ct_mem_free(bytes);
  ct_mem_free(numbers);
  return rc;
}

/* ---- text ---- */

/* Appends a name; control characters become "?". */
static int inspect_add_name(ct_str_t *out, const char *name, int width)
{
  int rc = CT_OK;
  char *copy = ct_text_utf8_copy(name);
  CT_TRY(copy ? CT_OK : CT_ERR_NOMEM);
  for (char *c = copy; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) *c = '?';
  CT_TRY(ct_str_add(out, "%-*s", width, copy));
out:
  ct_mem_free(copy);
  return rc;
}

/* Appends a shape such as "64x3x7x7". */
static int add_shape(ct_str_t *out, const ct_tensor_t *t, int width)
{
  int rc = CT_OK;
  size_t before = out->len;
  for (int i = 0; i < t->ndim; i++)
    CT_TRY(ct_str_add(out, "%s%" PRId64, i ? "x" : "", t->dim[i]));
  if (t->ndim == 0) CT_TRY(ct_str_add(out, "scalar"));
  int used = (int)(out->len - before);
  CT_TRY(ct_str_add(out, "%*s", used < width ? width - used : 0, ""));
out:
  return rc;
}

static int add_stats(ct_str_t *out, const ct_tensor_t *t, const stats_t *s)
{
  if (!ct_elem_has_numbers(t->type)) return ct_str_add(out, "  (no numbers here)");
  if (s->n == 0) return ct_str_add(out, "%52s %11" PRId64, "", s->nonfinite);
  return ct_str_add(out, " %12.6g %12.6g %12.6g %12.6g %11" PRId64, s->min, s->max, s->mean,
                    sqrt(s->m2 / (double)s->n), s->nonfinite);
}

static int inspect_add_line(const ct_weights_file_t *f, int i, widths_t width, int with_stats,
                            ct_str_t *out)
{
  int rc = CT_OK;
  ct_tensor_t t;
  stats_t s;
  f->ops->tensor(f->w, i, &t);
  CT_TRY(ct_str_add(out, "  "));
  CT_TRY(inspect_add_name(out, t.name, width.name));
  CT_TRY(ct_str_add(out, "  %-*s  ", width.type, ct_elem_name(t.type)));
  CT_TRY(add_shape(out, &t, with_stats ? 14 : 0));
  if (with_stats && ct_elem_has_numbers(t.type)) CT_TRY(inspect_measure(f, i, &t, &s));
  if (with_stats) CT_TRY(add_stats(out, &t, &s));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

static int wider(int most, const char *text)
{
  int n = strlen(text) < 60 ? (int)strlen(text) : 60;
  return n > most ? n : most;
}

static widths_t widest(const ct_weights_file_t *f)
{
  widths_t w = {.name = 4, .type = 7};
  ct_tensor_t t;
  for (int i = 0; i < f->ops->count(f->w); i++) {
    f->ops->tensor(f->w, i, &t);
    w.name = wider(w.name, t.name);
    w.type = wider(w.type, ct_elem_name(t.type));
  }
  return w;
}

static int print_text(const ct_weights_file_t *f, int with_stats)
{
  int rc = CT_OK, n = f->ops->count(f->w);
  widths_t width = widest(f);
  char size[32];
  const char *remark = f->ops->remark(f->w);
  totals_t all = inspect_total(f);
  ct_str_t out = {0};
  CT_TRY(ct_str_add(&out, "%s: %s, %d array%s of %" PRId64 " numbers, %s%s\n", f->path,
                    inspect_kind_of(f), n, n == 1 ? "" : "s", all.count,
                    ct_text_bytes(all.bytes, size, sizeof size),
                    f->ops->text(f->w, "config") ? ", with its configuration" : ""));
  if (remark) {
    CT_TRY(ct_str_add(&out, "  "));
    CT_TRY(inspect_add_name(&out, remark, 0));
    CT_TRY(ct_str_add(&out, "\n"));
  }
  CT_TRY(ct_str_add(&out, "  %-*s  %-*s  shape", width.name, "name", width.type, "type"));
  if (with_stats)
    CT_TRY(
        ct_str_add(&out, "          %12s %12s %12s %12s  non-finite", "min", "max", "mean", "std"));
  CT_TRY(ct_str_add(&out, "\n"));
  for (int i = 0; i < n; i++)
    CT_TRY(inspect_add_line(f, i, width, with_stats, &out));
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  return rc;
}

/* ---- JSON ---- */

static json_t *json_stats(const stats_t *s)
{
  json_t *o = json_object();
  int has = s->n > 0;
  json_object_set_new(o, "min", has ? json_real(s->min) : json_null());
  json_object_set_new(o, "max", has ? json_real(s->max) : json_null());
  json_object_set_new(o, "mean", has ? json_real(s->mean) : json_null());
  json_object_set_new(o, "std", has ? json_real(sqrt(s->m2 / (double)s->n)) : json_null());
  json_object_set_new(o, "nonfinite", json_integer(s->nonfinite));
  return o;
}

static int json_tensor(const ct_weights_file_t *f, int i, int with_stats, json_t *list)
{
  int rc = CT_OK;
  ct_tensor_t t;
  stats_t s;
  json_t *o = json_object(), *shape = json_array();
  f->ops->tensor(f->w, i, &t);
  for (int k = 0; k < t.ndim; k++)
    json_array_append_new(shape, json_integer(t.dim[k]));
  json_object_set_new(o, "name", ct_json_words(t.name));
  json_object_set_new(o, "type", json_string(ct_elem_name(t.type)));
  json_object_set_new(o, "shape", shape);
  if (with_stats && ct_elem_has_numbers(t.type)) {
    CT_TRY(inspect_measure(f, i, &t, &s));
    json_object_set_new(o, "stats", json_stats(&s));
  }
  if (json_array_append(list, o) != 0) CT_FAIL(CT_ERR_NOMEM, "no memory to write JSON");
out:
  json_decref(o);
  return rc;
}

static int print_json(const ct_weights_file_t *f, int with_stats)
{
  int rc = CT_OK;
  const char *remark = f->ops->remark(f->w), *config = f->ops->text(f->w, "config");
  json_t *o = json_object(), *list = json_array();
  ct_str_t out = {0};
  json_object_set_new(o, "file", ct_json_words(f->path));
  json_object_set_new(o, "format", json_string(inspect_kind_of(f)));
  if (remark) json_object_set_new(o, "remark", ct_json_words(remark));
  if (config) json_object_set_new(o, "config", ct_json_words(config));
  json_object_set(o, "tensors", list);
  for (int i = 0; i < f->ops->count(f->w); i++)
    CT_TRY(json_tensor(f, i, with_stats, list));
  CT_TRY(ct_json_add(o, &out));
  CT_TRY(ct_app_print(out.data));
out:
  json_decref(list);
  json_decref(o);
  ct_str_clear(&out);
  return rc;
}

int ct_cmd_inspect(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  ct_weights_file_t f = {0};
  (void)topo;
  (void)status;
  CT_TRY(inspect_open_file(a->rest[0], a, &f));
  CT_TRY((ct_args_get(a, "json") ? print_json : print_text)(&f, ct_args_get(a, "stats") != NULL));
out:
  ct_weights_close(&f);
  return rc;
}
