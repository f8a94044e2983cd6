/* Predictions as text of models with several outputs, or with an output that is a field: for each
 * output its values (probabilities where the loss is cross-entropy), and the most likely class of
 * those with cross-entropy. */
#include "commands/predict_several.h"

#include <inttypes.h>
#include <string.h>

#include "setup/ct_command.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "eval/ct_predict.h"

struct ct__outputs {
  const ct_setup_t *s;
  ct_predict_style_t style;
  int csv;
  int parts;
  int64_t values, lost;
  ct__output_t part[CT_OUTPUTS];
  int64_t *best; /* classes of the places of a sample */
  ct_str_t text; /* whole csv file, or text not printed yet */
};

int ct__outputs_suffix(const char *path, const char *suffix)
{
  const char *dot = path ? strrchr(path, '.') : NULL;
  return dot && strcmp(dot, suffix) == 0;
}

/* ---- opening ---- */

int ct__outputs_describe(const ct_setup_t *s, ct__output_t out[CT_OUTPUTS], int *n)
{
  int rc = CT_OK, output[CT_OUTPUTS];
  const ct_graph_t *g = s->whole ? s->whole : s->graph;
  CT_TRY(ct_losses_outputs(&s->cfg.losses, g, output));
  *n = ct_graph_outputs(g);
  for (int k = 0; k < *n; k++) {
    const ct_layer_t *l = &g->layer[ct_graph_output(g, k)];
    out[k] = (ct__output_t){.name = l->name, .shape = l->out, .values = ct_shape_sample(&l->out)};
  }
  for (int k = 0; k < s->cfg.losses.n; k++) {
    ct__output_t *o = &out[output[k]];
    if (o->has_loss) continue; /* its first loss says what it means */
    o->has_loss = 1;
    o->loss = (ct_loss_kind_t)s->cfg.losses.of[k].kind;
    const ct_layer_t *l = &g->layer[ct_graph_output(g, output[k])];
    o->last = ct_loss_classes_last(&s->cfg.losses.of[k], l, s->val.pixels);
    o->classes = o->shape.dim[o->last ? o->shape.ndim - 1 : 1];
    if (ct_loss_softmax(o->loss)) o->places = o->values / o->classes;
  }
out:
  return rc;
}

static int check_style(const ct__outputs_t *p)
{
  int rc = CT_OK;
  const ct_predict_style_t *o = &p->style;
  if (o->output && !p->csv)
    CT_FAIL(CT_ERR_USAGE,
            "predict: --output %s: its name must end in .h5 or .csv for the outputs of this model",
            o->output);
  if (o->names || o->top > 1)
    CT_FAIL(CT_ERR_USAGE, "predict: --%s is for models with one class per sample",
            o->names ? "names" : "top");
out:
  return rc;
}

int ct__outputs_open(const ct_setup_t *s, const ct_predict_style_t *style, ct__outputs_t **out)
{
  int rc = CT_OK;
  int64_t most = 1;
  ct__outputs_t *p = ct_mem_alloc(sizeof *p, "the outputs");
  *out = NULL;
  if (!p) return CT_ERR_NOMEM;
  p->s = s;
  p->style = *style;
  p->csv = ct__outputs_suffix(style->output, ".csv");
  p->lost = s->val.info.left_out;
  CT_TRY(ct__outputs_describe(s, p->part, &p->parts));
  CT_TRY(check_style(p));
  for (int k = 0; k < p->parts; k++) {
    p->values += p->part[k].values;
    if (p->part[k].places > most) most = p->part[k].places;
  }
  p->best = ct_mem_array(most, sizeof *p->best, "the classes of a sample");
  CT_TRY(p->best ? CT_OK : CT_ERR_NOMEM);
  *out = p;
  p = NULL;
out:
  ct__outputs_close(p);
  return rc;
}

/* ---- samples ---- */

void ct__outputs_classes(const ct__output_t *o, int64_t places, const float *v, int64_t *best)
{
  int64_t step = o->last ? 1 : places;
  for (int64_t q = 0; q < places; q++) {
    const float *of_place = v + q * (o->last ? o->classes : 1);
    best[q] = 0;
    for (int64_t k = 1; k < o->classes; k++)
      if (of_place[k * step] > of_place[best[q] * step]) best[q] = k;
  }
}

/* "  cls 3 0.9981", "  box 0.1 0.2": of one place the class and its probability, of several the
 * classes, else the values. */
static int add_text(ct__outputs_t *p, const ct__output_t *o, const float *v)
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

static int add_csv(ct__outputs_t *p, const ct__output_t *o, const float *v)
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
    const ct__output_t *o = &p->part[k];
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

/* Takes the values of one output of a sample. */
static int take_part(ct__outputs_t *p, const ct__output_t *o, float *v)
{
  if (o->has_loss && o->places < 2) ct_predict_finish(o->loss, 1, o->values, 1, v);
  ct__outputs_classes(o, o->places, v, p->best);
  return p->csv ? add_csv(p, o, v) : add_text(p, o, v);
}

static int take_sample(ct__outputs_t *p, int64_t sample, float *v)
{
  int rc = CT_OK;
  char location[CT_PATH_MAX];
  const ct_dataset_t *d = &p->s->val;
  d->ops->location(d->reader, sample, location, sizeof location);
  if (p->csv) CT_TRY(ct_text_csv(location, &p->text));
  if (!p->csv) CT_TRY(ct_str_add(&p->text, "%s", location));
  for (int k = 0; k < p->parts; v += p->part[k++].values)
    CT_TRY(take_part(p, &p->part[k], v));
  CT_TRY(ct_str_add(&p->text, "\n"));
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
    p->lost += lost[i];
    memcpy(v, outputs + i * p->values, (size_t)p->values * sizeof *v);
    if (!lost[i]) CT_TRY(take_sample(p, first + i, v));
  }
  if (p->style.output || !p->text.len) goto out;
  CT_TRY(ct_app_print(p->text.data));
  ct_str_clear(&p->text);
  if (ct_app_unread()) CT_FAIL(CT_ERR_IO, "the reader of the predictions has closed the output");
out:
  ct_mem_free(v);
  return rc;
}

int ct__outputs_commit(ct__outputs_t *p)
{
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
  ct_mem_free(p->best);
  ct_str_clear(&p->text);
  ct_mem_free(p);
}
