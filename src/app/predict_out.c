/* What becomes of predictions: lines on the standard output, a csv file, or an HDF5 file.  All is
 * told in the order of the samples, batch by batch; only HDF5's arrays wait for the last one. */
#include <inttypes.h>
#include <string.h>

#include "app/builtin.h"
#include "app/predict.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "run/ct_predict.h"

struct ct_predict_out {
  const ct_setup_t *s;
  ct_predict_style_t style;
  ct_loss_kind_t loss;
  int classes; /* 1: outputs are of classes, of which the largest are told */
  int64_t outputs, samples;
  char *names;    /* owned: the file of names, its newlines made NUL */
  char **name;    /* owned: [outputs], into it; NULL: numbers */
  int64_t *top;   /* owned: [style.top] */
  ct_str_t text;  /* csv: all of it; else what is printed next */
  float *values;  /* HDF5: [samples, outputs] */
  int64_t *first; /* HDF5: [samples], the class that is told */
};

static int is_file(const ct_predict_out_t *p, const char *suffix)
{
  const char *dot = p->style.output ? strrchr(p->style.output, '.') : NULL;
  return dot && strcmp(dot, suffix) == 0;
}

/* ---- opening ---- */

static int read_names(ct_predict_out_t *p, const char *path)
{
  int rc = CT_OK;
  size_t bytes;
  int64_t n = 0;
  CT_TRY(ct_file_regular(path));
  CT_TRY(ct_file_read(path, &p->names, &bytes));
  p->name = ct_mem_array(p->outputs, sizeof *p->name, "the classes' names");
  CT_TRY(p->name ? CT_OK : CT_ERR_NOMEM);
  for (char *at = p->names, *end = p->names + bytes; at < end; n++) {
    size_t length = strcspn(at, "\r\n");
    char *next = at + length + (at[length] == '\r') + 1;
    at[length] = '\0';
    if (n < p->outputs) p->name[n] = at;
    at = next;
  }
  if (n != p->outputs)
    CT_FAIL(CT_ERR_USAGE, "%s: has %" PRId64 " lines, but the model has %" PRId64 " classes", path,
            n, p->outputs);
out:
  return rc;
}

static int check_style(const ct_predict_out_t *p)
{
  int rc = CT_OK;
  const ct_predict_style_t *o = &p->style;
  if (o->output && !is_file(p, ".h5") && !is_file(p, ".csv"))
    CT_FAIL(CT_ERR_USAGE, "predict: --output %s: its name must end in .h5 or .csv", o->output);
  if (!p->classes && o->names)
    CT_FAIL(CT_ERR_USAGE, "predict: --names is for classes, but the model's outputs are values");
  if (o->top > p->outputs)
    CT_FAIL(CT_ERR_USAGE, "predict: --top is %d, but the model has %" PRId64 " classes", o->top,
            p->outputs);
out:
  return rc;
}

static int open_out(ct_predict_out_t *p)
{
  int rc = CT_OK;
  const ct_loss_opts_t *loss = &p->s->cfg.loss;
  p->loss = (ct_loss_kind_t)loss->kind;
  p->outputs = ct_trainer_outputs(p->s->trainer);
  p->samples = p->s->val.info.samples;
  p->classes = p->loss == CT_LOSS_CROSS_ENTROPY || p->loss == CT_LOSS_BCE;
  CT_TRY(check_style(p));
  if (p->style.names) CT_TRY(read_names(p, p->style.names));
  p->top = ct_mem_array(p->style.top, sizeof *p->top, "the best classes");
  CT_TRY(p->top ? CT_OK : CT_ERR_NOMEM);
  if (!is_file(p, ".h5")) return CT_OK;
  p->values = ct_mem_array(p->samples * p->outputs, sizeof *p->values, "all outputs");
  p->first = ct_mem_array(p->samples, sizeof *p->first, "all classes");
  CT_TRY(p->values && p->first ? CT_OK : CT_ERR_NOMEM);
out:
  return rc;
}

int ct_predict_out_open(const ct_setup_t *s, const ct_predict_style_t *style,
                        ct_predict_out_t **out)
{
  int rc = CT_OK;
  ct_predict_out_t *p = ct_mem_alloc(sizeof *p, "the output");
  *out = NULL;
  if (!p) return CT_ERR_NOMEM;
  p->s = s;
  p->style = *style;
  CT_TRY(open_out(p));
  *out = p;
  p = NULL;
out:
  ct_predict_out_close(p);
  return rc;
}

/* ---- text ---- */

static int add_class(ct_predict_out_t *p, const char *before, int64_t k)
{
  if (p->name) return ct_str_add(&p->text, "%s%s", before, p->name[k]);
  return ct_str_add(&p->text, "%s%" PRId64, before, k);
}

/* What a spreadsheet takes for one field. */
static int add_quoted(ct_str_t *text, const char *field)
{
  int rc = CT_OK;
  if (!strpbrk(field, ",\"\r\n")) return ct_str_add(text, "%s", field);
  CT_TRY(ct_str_add(text, "\""));
  for (const char *c = field; *c; c++)
    CT_TRY(ct_str_add(text, *c == '"' ? "\"\"" : "%c", *c));
  CT_TRY(ct_str_add(text, "\""));
out:
  return rc;
}

/* "7.png  3 0.9981  5 0.0012" */
static int add_line(ct_predict_out_t *p, const char *place, const float *v)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(&p->text, "%s", place));
  for (int i = 0; p->classes && i < p->style.top; i++) {
    CT_TRY(add_class(p, "  ", p->top[i]));
    CT_TRY(ct_str_add(&p->text, " %.4f", v[p->top[i]]));
  }
  for (int64_t k = 0; !p->classes && k < p->outputs; k++)
    CT_TRY(ct_str_add(&p->text, "%s%.6g", k ? " " : "  ", v[k]));
  CT_TRY(ct_str_add(&p->text, "\n"));
out:
  return rc;
}

static int add_csv(ct_predict_out_t *p, const char *place, const float *v)
{
  int rc = CT_OK;
  CT_TRY(add_quoted(&p->text, place));
  for (int i = 0; p->classes && i < p->style.top; i++) {
    CT_TRY(ct_str_add(&p->text, ","));
    if (p->name)
      CT_TRY(add_quoted(&p->text, p->name[p->top[i]]));
    else
      CT_TRY(add_class(p, "", p->top[i]));
    CT_TRY(ct_str_add(&p->text, ",%.9g", v[p->top[i]]));
  }
  for (int64_t k = 0; !p->classes && k < p->outputs; k++)
    CT_TRY(ct_str_add(&p->text, ",%.9g", v[k]));
  CT_TRY(ct_str_add(&p->text, "\n"));
out:
  return rc;
}

static int add_header(ct_predict_out_t *p)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(&p->text, "sample"));
  for (int i = 1; p->classes && i <= p->style.top; i++)
    CT_TRY(ct_str_add(&p->text, ",class%d,probability%d", i, i));
  for (int64_t k = 0; !p->classes && k < p->outputs; k++)
    CT_TRY(ct_str_add(&p->text, ",output%" PRId64, k));
  CT_TRY(ct_str_add(&p->text, "\n"));
out:
  return rc;
}

/* ---- taking ---- */

static int take_one(ct_predict_out_t *p, int64_t sample, const float *v)
{
  char place[CT_PATH_MAX];
  const ct_dataset_t *d = &p->s->val;
  ct_predict_top(v, p->outputs, p->classes ? p->style.top : 1, p->top);
  if (p->values) {
    memcpy(p->values + sample * p->outputs, v, (size_t)p->outputs * sizeof *v);
    p->first[sample] = p->top[0];
    return CT_OK;
  }
  d->ops->place(d->reader, sample, place, sizeof place);
  return is_file(p, ".csv") ? add_csv(p, place, v) : add_line(p, place, v);
}

int ct_predict_out_take(void *out, int64_t first, int64_t n, const float *outputs)
{
  int rc = CT_OK;
  ct_predict_out_t *p = out;
  float *v = ct_mem_array(n * p->outputs, sizeof *v, "the outputs");
  CT_TRY(v ? CT_OK : CT_ERR_NOMEM);
  memcpy(v, outputs, (size_t)(n * p->outputs) * sizeof *v);
  ct_predict_finish(p->loss, n, p->outputs, v);
  if (first == 0 && is_file(p, ".csv")) CT_TRY(add_header(p));
  for (int64_t i = 0; i < n; i++)
    CT_TRY(take_one(p, first + i, v + i * p->outputs));
  if (p->style.output) goto out;
  CT_TRY(ct_app_print(p->text.data));
  ct_str_clear(&p->text);
out:
  ct_mem_free(v);
  return rc;
}

/* ---- the end ---- */

static int put_arrays(const ct_predict_out_t *p, const ct_store_ops_t *ops, ct_store_t *store)
{
  int rc = CT_OK;
  ct_str_t places = {0};
  char place[CT_PATH_MAX];
  ct_shape_t values = ct_shape(2, p->samples, p->outputs), first = ct_shape(1, p->samples);
  first.dtype = CT_I64;
  const ct_dataset_t *d = &p->s->val;
  for (int64_t i = 0; i < p->samples; i++) {
    d->ops->place(d->reader, i, place, sizeof place);
    CT_TRY(ct_str_add(&places, "%s\n", place));
  }
  CT_TRY(ops->put(store, p->classes ? "/probabilities" : "/outputs", &values, p->values));
  if (p->classes) CT_TRY(ops->put(store, "/class", &first, p->first));
  CT_TRY(ops->put_text(store, "/samples", places.data));
out:
  ct_str_clear(&places);
  return rc;
}

static int write_h5(const ct_predict_out_t *p)
{
  int rc = CT_OK;
  const ct_store_ops_t *ops = ct_builtin_stores[0];
  ct_store_t *store = NULL;
  CT_TRY(ops->create(p->style.output, &store));
  CT_TRY(put_arrays(p, ops, store));
  rc = ops->commit(store);
  store = NULL;
out:
  ops->discard(store);
  return rc;
}

int ct_predict_out_commit(ct_predict_out_t *p)
{
  if (p->values) return write_h5(p);
  if (is_file(p, ".csv")) return ct_file_write(p->style.output, p->text.data, p->text.len);
  return CT_OK;
}

void ct_predict_out_close(ct_predict_out_t *p)
{
  if (!p) return;
  ct_mem_free(p->names);
  ct_mem_free(p->name);
  ct_mem_free(p->top);
  ct_mem_free(p->values);
  ct_mem_free(p->first);
  ct_str_clear(&p->text);
  ct_mem_free(p);
}
