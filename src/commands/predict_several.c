/* Predictions of models with several outputs, or with an output that is a field: for each output
 * its values (probabilities where the loss is cross-entropy), and the most likely class of those
 * with cross-entropy. */
#include "commands/predict_several.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "setup/ct_builtin.h"
#include "setup/ct_result.h"
#include "setup/ct_command.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "eval/ct_predict.h"

/* One output. */
typedef struct part {
  const char *name; /* of its layer; borrowed */
  ct_shape_t shape; /* of one sample */
  int has_loss;     /* 0: its values are given as they are */
  ct_loss_kind_t loss;
  int64_t values; /* per sample */
  int64_t places; /* cross-entropy: places of a sample, each with a class; else 0 */
  float *all;     /* .h5: [samples, values] */
  int64_t *class; /* .h5: [samples, places] */
} part_t;

struct ct__outputs {
  const ct_setup_t *s;
  ct_predict_style_t style;
  int h5, csv;
  int parts;
  int64_t values, samples, lost;
  part_t part[CT_OUTPUTS];
  int64_t *best; /* classes of the places of a sample */
  ct_str_t text; /* whole csv file, or text not printed yet */
};

static int has_suffix(const char *path, const char *suffix)
{
  const char *dot = path ? strrchr(path, '.') : NULL;
  return dot && strcmp(dot, suffix) == 0;
}

/* ---- opening ---- */

static void describe(ct__outputs_t *p, const int output[])
{
  const ct_graph_t *g = p->s->whole ? p->s->whole : p->s->graph;
  p->parts = ct_graph_outputs(g);
  for (int k = 0; k < p->parts; k++) {
    part_t *o = &p->part[k];
    const ct_layer_t *l = &g->layer[ct_graph_output(g, k)];
    o->name = l->name;
    o->shape = l->out;
    o->values = ct_shape_sample(&l->out);
    p->values += o->values;
  }
  for (int k = 0; k < p->s->cfg.losses.n; k++) {
    part_t *o = &p->part[output[k]];
    o->has_loss = 1;
    o->loss = (ct_loss_kind_t)p->s->cfg.losses.of[k].kind;
    if (o->loss == CT_LOSS_CROSS_ENTROPY) o->places = o->values / o->shape.dim[1];
  }
}

static int check_style(const ct__outputs_t *p)
{
  int rc = CT_OK;
  const ct_predict_style_t *o = &p->style;
  if (o->output && !p->h5 && !p->csv)
    CT_FAIL(CT_ERR_USAGE,
            "predict: --output %s: its name must end in .h5 or .csv for the outputs of this model",
            o->output);
  if (o->names || o->top > 1)
    CT_FAIL(CT_ERR_USAGE, "predict: --%s is for models with one class per sample",
            o->names ? "names" : "top");
out:
  return rc;
}

static int open_arrays(ct__outputs_t *p)
{
  int64_t most = 1;
  for (int k = 0; k < p->parts; k++) {
    part_t *o = &p->part[k];
    if (o->places > most) most = o->places;
    if (!p->h5) continue;
    o->all = ct_mem_array(p->samples * o->values, sizeof *o->all, "all outputs");
    if (!o->all) return CT_ERR_NOMEM;
    if (o->places) o->class = ct_mem_array(p->samples * o->places, sizeof *o->class, "all classes");
    if (o->places && !o->class) return CT_ERR_NOMEM;
  }
  p->best = ct_mem_array(most, sizeof *p->best, "the classes of a sample");
  return p->best ? CT_OK : CT_ERR_NOMEM;
}

int ct__outputs_open(const ct_setup_t *s, const ct_predict_style_t *style, ct__outputs_t **out)
{
  int rc = CT_OK, output[CT_OUTPUTS];
  ct__outputs_t *p = ct_mem_alloc(sizeof *p, "the outputs");
  *out = NULL;
  if (!p) return CT_ERR_NOMEM;
  p->s = s;
  p->style = *style;
  p->h5 = has_suffix(style->output, ".h5");
  p->csv = has_suffix(style->output, ".csv");
  p->samples = s->val.info.samples;
  p->lost = s->val.info.left_out;
  CT_TRY(ct_losses_outputs(&s->cfg.losses, s->whole ? s->whole : s->graph, output));
  describe(p, output);
  CT_TRY(check_style(p));
  CT_TRY(open_arrays(p));
  *out = p;
  p = NULL;
out:
  ct__outputs_close(p);
  return rc;
}

/* ---- samples ---- */

/* Finds the most likely class of each place. */
static void find_classes(const part_t *o, const float *v, int64_t *best)
{
  int64_t classes = o->shape.dim[1];
  for (int64_t q = 0; q < o->places; q++) {
    best[q] = 0;
    for (int64_t k = 1; k < classes; k++)
      if (v[k * o->places + q] > v[best[q] * o->places + q]) best[q] = k;
  }
}

/* "  cls 3 0.9981", "  box 0.1 0.2": of one place the class and its probability, of several the
 * classes, else the values. */
static int add_text(ct__outputs_t *p, const part_t *o, const float *v)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(&p->text, "  %s", o->name));
  if (o->places == 1) return ct_str_add(&p->text, " %" PRId64 " %.4f", p->best[0], v[p->best[0]]);
  for (int64_t q = 0; q < o->places; q++)
    CT_TRY(ct_str_add(&p->text, " %" PRId64, p->best[q]));
  for (int64_t i = 0; !o->places && i < o->values; i++)
    CT_TRY(ct_str_add(&p->text, " %.6g", v[i]));
out:
  return rc;
}

static int add_csv(ct__outputs_t *p, const part_t *o, const float *v)
{
  int rc = CT_OK;
  for (int64_t q = 0; q < o->places; q++)
    CT_TRY(ct_str_add(&p->text, ",%" PRId64, p->best[q]));
  if (o->places == 1) CT_TRY(ct_str_add(&p->text, ",%.9g", v[p->best[0]]));
  for (int64_t i = 0; !o->places && i < o->values; i++)
    CT_TRY(ct_str_add(&p->text, ",%.9g", v[i]));
out:
  return rc;
}

static int add_header(ct__outputs_t *p)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(&p->text, "sample"));
  for (int k = 0; k < p->parts; k++) {
    const part_t *o = &p->part[k];
    if (o->places == 1) CT_TRY(ct_str_add(&p->text, ",class_%s,probability_%s", o->name, o->name));
    for (int64_t q = 0; o->places > 1 && q < o->places; q++)
      CT_TRY(ct_str_add(&p->text, ",class_%s%" PRId64, o->name, q));
    for (int64_t i = 0; !o->places && i < o->values; i++)
      CT_TRY(ct_str_add(&p->text, ",%s%" PRId64, o->name, i));
  }
  CT_TRY(ct_str_add(&p->text, "\n"));
out:
  return rc;
}

/* Takes the values of one output of a sample; lost: the sample could not be read. */
static int take_part(ct__outputs_t *p, part_t *o, int64_t sample, float *v, int lost)
{
  if (o->has_loss && o->places < 2) ct_predict_finish(o->loss, 1, o->values, v);
  for (int64_t i = 0; lost && i < o->values; i++)
    v[i] = NAN;
  find_classes(o, v, p->best);
  for (int64_t q = 0; lost && q < o->places; q++)
    p->best[q] = -1;
  if (o->class) memcpy(o->class + sample * o->places, p->best, (size_t)o->places * sizeof *p->best);
  if (o->all) memcpy(o->all + sample * o->values, v, (size_t)o->values * sizeof *v);
  if (p->h5 || lost) return CT_OK;
  return p->csv ? add_csv(p, o, v) : add_text(p, o, v);
}

static int take_sample(ct__outputs_t *p, int64_t sample, float *v, int lost)
{
  int rc = CT_OK;
  char location[CT_PATH_MAX];
  const ct_dataset_t *d = &p->s->val;
  d->ops->location(d->reader, sample, location, sizeof location);
  if (p->csv && !lost) CT_TRY(ct_text_csv(location, &p->text));
  if (!p->csv && !p->h5 && !lost) CT_TRY(ct_str_add(&p->text, "%s", location));
  for (int k = 0; k < p->parts; v += p->part[k++].values)
    CT_TRY(take_part(p, &p->part[k], sample, v, lost));
  if (!p->h5 && !lost) CT_TRY(ct_str_add(&p->text, "\n"));
  p->lost += lost;
out:
  return rc;
}

int ct__outputs_take(void *out, int64_t first, int64_t n, const float *outputs, const char *lost)
{
  int rc = CT_OK;
  ct__outputs_t *p = out;
  float *v = ct_mem_array(p->values, sizeof *v, "the outputs of a sample");
  CT_TRY(v ? CT_OK : CT_ERR_NOMEM);
  if (first == 0 && p->csv) CT_TRY(add_header(p));
  for (int64_t i = 0; i < n; i++) {
    memcpy(v, outputs + i * p->values, (size_t)p->values * sizeof *v);
    CT_TRY(take_sample(p, first + i, v, lost[i]));
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

static int put_part(const ct__outputs_t *p, const part_t *o, const ct_store_ops_t *ops,
                    ct_store_t *store)
{
  int rc = CT_OK;
  char name[CT_NAME_MAX + 16];
  ct_shape_t values = o->shape, class = o->shape;
  values.dim[0] = class.dim[0] = p->samples;
  values.batch = class.batch = 0;
  const char *of = p->parts > 1 ? o->name : "", *slash = p->parts > 1 ? "/" : "";
  CT_TRY(ct_text_format(name, sizeof name, "/outputs%s%s", slash, of));
  CT_TRY(ops->put(store, name, &values, o->all));
  if (!o->places) return CT_OK;
  class.dtype = CT_I64;
  class.ndim--;
  for (int i = 1; i < CT_MAX_DIMS; i++)
    class.dim[i] = i < class.ndim ? o->shape.dim[i + 1] : 1;
  CT_TRY(ct_text_format(name, sizeof name, "/class%s%s", slash, of));
  CT_TRY(ops->put(store, name, &class, o->class));
out:
  return rc;
}

static int write_h5(const ct__outputs_t *p)
{
  int rc = CT_OK;
  const ct_store_ops_t *ops = ct_builtin_stores[0];
  ct_store_t *store = NULL;
  CT_TRY(ops->create(p->style.output, &store));
  for (int k = 0; k < p->parts; k++)
    CT_TRY(put_part(p, &p->part[k], ops, store));
  CT_TRY(ct__put_samples(&p->s->val, p->samples, ops, store));
  rc = ops->commit(store);
  store = NULL;
out:
  ops->discard(store);
  return rc;
}

int ct__outputs_commit(ct__outputs_t *p)
{
  if (p->h5) return write_h5(p);
  if (p->csv) return ct_file_write(p->style.output, p->text.data, p->text.len);
  return CT_OK;
}

int64_t ct__outputs_lost(const ct__outputs_t *p)
{
  return p->lost;
}

void ct__outputs_close(ct__outputs_t *p)
{
  if (!p) return;
  for (int k = 0; k < p->parts; k++) {
    ct_mem_free(p->part[k].all);
    ct_mem_free(p->part[k].class);
  }
  ct_mem_free(p->best);
  ct_str_clear(&p->text);
  ct_mem_free(p);
}
