/* Output of predictions of models with one output, which is not a field: text on stdout, a csv file
 * or an HDF5 file; of masks, the fractions of the classes as text.  Output follows the order of the
 * samples, batch by batch; arrays of an HDF5 file are written at the end. */
#include "commands/predict_several.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "setup/ct_builtin.h"
#include "setup/ct_predictor.h"
#include "setup/ct_result.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "eval/ct_predict.h"

struct ct_predict_out {
  const ct_setup_t *s;
  ct_predict_style_t style;
  ct_loss_kind_t loss;
  int classes; /* 1: outputs are class scores; the largest are printed */
  int64_t outputs, samples, lost;
  int64_t pixels; /* number of pixels per sample that have a class; 1: one class per sample */
  int last;       /* 1: the classes of a pixel are neighbours */
  char *names;    /* owned; text of the names file, with newlines replaced by NUL */
  char **name;    /* owned; [outputs], pointers into names; NULL: print numbers */
  int64_t *top;   /* owned; [style.top], the most likely classes */
  ct_str_t text;  /* whole csv file, or text not printed yet */
  float *values;  /* HDF5: outputs [samples, outputs] */
  int64_t *first; /* HDF5: most likely class [samples] */
  float *share;   /* masks: [outputs], fraction of a sample's pixels per class */
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

/* Takes the class names from the model's configuration. */
static int take_names(ct_predict_out_t *p)
{
  int rc = CT_OK;
  const ct_opt_texts_t *names = &p->s->cfg.model.class_names;
  if (!p->classes || names->n != p->outputs) return CT_OK;
  p->name = ct_mem_array(p->outputs, sizeof *p->name, "the classes' names");
  CT_TRY(p->name ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < names->n; i++)
    p->name[i] = names->v[i];
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
  const ct_loss_opts_t *loss = &p->s->cfg.losses.of[0];
  p->loss = (ct_loss_kind_t)loss->kind;
  p->pixels = p->s->val.pixels > 1 ? p->s->val.pixels : 1;
  p->outputs = ct_trainer_outputs(p->s->trainer) / p->pixels;
  p->last = ct_loss_classes_last(loss, &p->s->graph->layer[ct_graph_output(p->s->graph, 0)],
                                 p->s->val.pixels);
  p->samples = p->s->val.info.samples;
  p->lost = p->s->val.info.left_out;
  p->classes = ct_loss_softmax(p->loss) || ct_loss_sigmoid(p->loss);
  CT_TRY(check_style(p));
  CT_TRY(p->style.names ? read_names(p, p->style.names) : take_names(p));
  p->top = ct_mem_array(p->style.top, sizeof *p->top, "the best classes");
  CT_TRY(p->top ? CT_OK : CT_ERR_NOMEM);
  if (p->pixels > 1) {
    p->share = ct_mem_array(p->outputs, sizeof *p->share, "shares of classes");
    return p->share ? CT_OK : CT_ERR_NOMEM;
  }
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

/* Appends a line such as "7.png 3 0.9981 5 0.0012". */
static int predict_output_add_line(ct_predict_out_t *p, const char *location, const float *v)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(&p->text, "%s", location));
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

static int add_csv(ct_predict_out_t *p, const char *location, const float *v)
{
  int rc = CT_OK;
  CT_TRY(ct_text_csv(location, &p->text));
  for (int i = 0; p->classes && i < p->style.top; i++) {
    CT_TRY(ct_str_add(&p->text, ","));
    if (p->name)
      CT_TRY(ct_text_csv(p->name[p->top[i]], &p->text));
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
    CT_TRY(ct_str_add(&p->text, ",class%d,%s%d", i, p->pixels > 1 ? "share" : "probability", i));
  for (int64_t k = 0; !p->classes && k < p->outputs; k++)
    CT_TRY(ct_str_add(&p->text, ",output%" PRId64, k));
  CT_TRY(ct_str_add(&p->text, "\n"));
out:
  return rc;
}

/* ---- samples ---- */

/* Computes the fraction of the pixels of each class. */
static int take_pixels(ct_predict_out_t *p, const char *location, const float *v)
{
  for (int64_t k = 0; k < p->outputs; k++)
    p->share[k] = 0;
  for (int64_t q = 0; q < p->pixels; q++) {
    int64_t best = 0, step = p->last ? 1 : p->pixels;
    const float *of_pixel = v + q * (p->last ? p->outputs : 1);
    for (int64_t k = 1; k < p->outputs; k++)
      if (of_pixel[k * step] > of_pixel[best * step]) best = k;
    p->share[best] += 1;
  }
  for (int64_t k = 0; k < p->outputs; k++)
    p->share[k] /= (float)p->pixels;
  ct_predict_top(p->share, p->outputs, p->style.top, p->top);
  return is_file(p, ".csv") ? add_csv(p, location, p->share)
                            : predict_output_add_line(p, location, p->share);
}

/* Records a sample that could not be read; in arrays its row is NaN and -1. */
static void take_lost(ct_predict_out_t *p, int64_t sample)
{
  p->lost++;
  for (int64_t k = 0; p->values && k < p->outputs; k++)
    p->values[sample * p->outputs + k] = NAN;
  if (p->first) p->first[sample] = -1;
}

static int take_one(ct_predict_out_t *p, int64_t sample, const float *v)
{
  char location[CT_PATH_MAX];
  const ct_dataset_t *d = &p->s->val;
  d->ops->location(d->reader, sample, location, sizeof location);
  if (p->pixels > 1) return take_pixels(p, location, v);
  ct_predict_top(v, p->outputs, p->classes ? p->style.top : 1, p->top);
  if (p->values) {
    memcpy(p->values + sample * p->outputs, v, (size_t)p->outputs * sizeof *v);
    p->first[sample] = p->top[0];
    return CT_OK;
  }
  return is_file(p, ".csv") ? add_csv(p, location, v) : predict_output_add_line(p, location, v);
}

int ct_predict_out_take(void *out, int64_t first, int64_t n, const float *outputs, const char *lost)
{
  int rc = CT_OK;
  ct_predict_out_t *p = out;
  const int64_t sample = p->outputs * p->pixels;
  float *v = ct_mem_array(n * sample, sizeof *v, "the outputs");
  CT_TRY(v ? CT_OK : CT_ERR_NOMEM);
  memcpy(v, outputs, (size_t)(n * sample) * sizeof *v);
  if (p->pixels == 1) ct_predict_finish(p->loss, n, p->outputs, 1, v);
  if (first == 0 && is_file(p, ".csv")) CT_TRY(add_header(p));
  for (int64_t i = 0; i < n; i++) {
    if (lost[i])
      take_lost(p, first + i);
    else
      CT_TRY(take_one(p, first + i, v + i * sample));
  }
  if (p->style.output || !p->text.len) goto out;
  CT_TRY(ct_app_print(p->text.data));
  ct_str_clear(&p->text);
  if (ct_app_unread()) CT_FAIL(CT_ERR_IO, "the reader of the predictions has closed the output");
out:
  ct_mem_free(v);
  return rc;
}

/* ---- completing the file ---- */

int ct__samples_text(const ct_reader_ops_t *ops, const ct_reader_t *r, int64_t samples,
                     ct_str_t *out)
{
  int rc = CT_OK;
  char location[CT_PATH_MAX];
  for (int64_t i = 0; i < samples; i++) {
    ops->location(r, i, location, sizeof location);
    CT_TRY(ct_str_add(out, "%s\n", location));
  }
out:
  return rc;
}

static int put_arrays(const ct_predict_out_t *p, const ct_store_ops_t *ops, ct_store_t *store)
{
  int rc = CT_OK;
  ct_shape_t values = ct_shape(2, p->samples, p->outputs), first = ct_shape(1, p->samples);
  first.dtype = CT_I64;
  CT_TRY(ops->put(store, p->classes ? "/probabilities" : "/outputs", &values, p->values));
  if (p->classes) CT_TRY(ops->put(store, "/class", &first, p->first));
out:
  return rc;
}

static int write_h5(const ct_predict_out_t *p)
{
  int rc = CT_OK;
  const ct_store_ops_t *ops = ct_builtin_stores[0];
  ct_store_t *store = NULL;
  ct_str_t text = {0};
  CT_TRY(ops->create(p->style.output, &store));
  CT_TRY(put_arrays(p, ops, store));
  CT_TRY(ct__samples_text(p->s->val.ops, p->s->val.reader, p->samples, &text));
  CT_TRY(ops->put_text(store, "/samples", text.data));
  rc = ops->commit(store);
  store = NULL;
out:
  ct_str_clear(&text);
  ops->discard(store);
  return rc;
}

int ct_predict_out_commit(ct_predict_out_t *p)
{
  if (is_file(p, ".h5")) return write_h5(p);
  if (is_file(p, ".csv")) return ct_file_write(p->style.output, p->text.data, p->text.len);
  return CT_OK;
}

int64_t ct_predict_out_lost(const ct_predict_out_t *p)
{
  return p->lost;
}

void ct_predict_out_close(ct_predict_out_t *p)
{
  if (!p) return;
  ct_mem_free(p->names);
  ct_mem_free(p->name);
  ct_mem_free(p->top);
  ct_mem_free(p->values);
  ct_mem_free(p->share);
  ct_mem_free(p->first);
  ct_str_clear(&p->text);
  ct_mem_free(p);
}
