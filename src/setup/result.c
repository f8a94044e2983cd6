/* Output of a run or an evaluation: tables for people, JSON for programs, csv for the confusion
 * matrix. */
#include "setup/ct_result.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "setup/ct_command.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"

/* Returns a JSON number, or null if the value was not measured. */
static json_t *real_or_null(int measured, double value)
{
  return measured ? ct_json_number(value) : json_null();
}

/* Returns 1 for real-valued targets, or if the loss also gives a mean absolute error for class
 * labels. */
static int has_mae(const ct_eval_result_t *e)
{
  return e->regression || e->mae > 0;
}

static void add_part_score(json_t *o, const char *name, const char *output, double value)
{
  char key[CT_NAME_MAX + 16];
  snprintf(key, sizeof key, "%s_%s", name, output);
  json_object_set_new(o, key, ct_json_number(value));
}

/* Adds the scores of one of several losses. */
static void add_part(json_t *o, const ct_eval_part_t *p)
{
  add_part_score(o, "loss", p->name, p->loss);
  if (!p->regression) add_part_score(o, "top1", p->name, p->top1);
  if (!p->regression) add_part_score(o, "top5", p->name, p->top5);
  if (p->regression) add_part_score(o, "mae", p->name, p->mae);
}

/* Appends a line for each of several losses. */
static int parts_text(const ct_eval_result_t *e, ct_str_t *out)
{
  int rc = CT_OK;
  for (int k = 0; k < e->parts; k++) {
    const ct_eval_part_t *p = &e->part[k];
    CT_TRY(ct_str_add(out, "  %-17s loss %.4f", p->name, p->loss));
    CT_TRY(p->regression ? ct_str_add(out, "  mae %.4f\n", p->mae)
                         : ct_str_add(out, "  top-1 %.4f  top-5 %.4f\n", p->top1, p->top5));
  }
out:
  return rc;
}

/* Adds the scores to an object; \a o may be NULL. */
static void add_scores(json_t *o, const ct_eval_result_t *e)
{
  int evaluated = e->samples > 0;
  if (!o) return;
  for (int k = 0; k < e->parts; k++)
    add_part(o, &e->part[k]);
  if (!e->parts && !e->regression) {
    json_object_set_new(o, "top1", real_or_null(evaluated, e->top1));
    json_object_set_new(o, "top5", real_or_null(evaluated, e->top5));
  }
  if (!e->parts && has_mae(e)) json_object_set_new(o, "mae", real_or_null(evaluated, e->mae));
  for (int k = CT_SCORE_MAE + 1; evaluated && k < CT_SCORE_COUNT; k++)
    if (!isnan(e->more.of[k])) json_object_set_new(o, ct_score_word(k), json_real(e->more.of[k]));
  if (e->tokens) json_object_set_new(o, "tokens", json_integer(e->tokens));
  json_t *channels = evaluated ? ct_eval_channels_json(e) : NULL;
  if (channels) json_object_set_new(o, "channels", channels);
}

/* Adds the confusion matrix: for each label, how often each class was predicted. */
static void add_confusion(json_t *o, const ct_confusion_t *c)
{
  json_t *rows = c && c->count ? json_array() : NULL;
  for (int64_t i = 0; rows && i < c->classes; i++) {
    json_t *row = json_array();
    for (int64_t k = 0; row && k < c->classes; k++)
      json_array_append_new(row, json_integer(c->count[i * c->classes + k]));
    json_array_append_new(rows, row);
  }
  if (o && rows) json_object_set(o, "confusion", rows);
  json_decref(rows);
}

json_t *ct_result_sets_json(const ct_eval_set_t *set, int n)
{
  json_t *list = json_array();
  for (int i = 0; i < n; i++) {
    const ct_eval_result_t *e = &set[i].last;
    json_t *o = json_pack("{s:s, s:o, s:I}", "set", set[i].name, "loss",
                          real_or_null(e->samples > 0, e->loss), "samples", (json_int_t)e->samples);
    add_scores(o, e);
    json_array_append_new(list, o);
  }
  return list;
}

/* Appends the scores that are shown only if a key names them.  \a text: format of a line. */
static int more_text(const ct_eval_result_t *e, int by_line, ct_str_t *out)
{
  int rc = CT_OK;
  for (int k = CT_SCORE_AUC; k < CT_SCORE_COUNT; k++) {
    double value = e->more.of[k];
    if (isnan(value)) continue;
    CT_TRY(by_line ? ct_str_add(out, "  %-17s %.4f\n", ct_score_word(k), value)
                   : ct_str_add(out, "  %s %.4f", ct_score_word(k), value));
  }
out:
  return rc;
}

int ct_result_set(const ct_eval_set_t *set, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_eval_result_t *e = &set->last;
  CT_TRY(ct_str_add(out, "  %-17s loss %.4f", set->name, e->loss));
  if (!e->parts && !e->regression)
    CT_TRY(ct_str_add(out, "  top-1 %.4f  top-5 %.4f", e->top1, e->top5));
  if (!e->parts && has_mae(e)) CT_TRY(ct_str_add(out, "  mae %.4f", e->mae));
  CT_TRY(more_text(e, 0, out));
  CT_TRY(ct_str_add(out, "  of %" PRId64 "\n", e->samples));
  CT_TRY(parts_text(e, out));
out:
  return rc;
}

/* Adds the best score, if checkpoint.best is set. */
static void add_best(json_t *o, const ct_best_t *b)
{
  if (!o || !b->kind) return;
  json_object_set_new(o, "best_metric", json_string(ct_score_word((int)b->kind)));
  json_object_set_new(o, "best_value", real_or_null(1, b->value));
  json_object_set_new(o, "best_step", json_integer(b->step));
}

/* Adds the rates of windows of tokens. */
static void add_token_rates(json_t *o, int trained, const ct_loop_result_t *r)
{
  if (!o || !r->flops_per_token) return;
  json_object_set_new(o, "tokens_per_s", real_or_null(trained, r->tokens_per_s));
  json_object_set_new(o, "flops_per_token", json_real(r->flops_per_token));
  json_object_set_new(o, "flops_formula", json_string("6N + 12LCT"));
  json_object_set_new(o, "mfu", real_or_null(trained && !isnan(r->mfu), r->mfu));
}

/* Writes summary.json.  If the run had no steps left to train, keeps the existing one. */
static int write_json(const ct_config_t *c, int ranks, const ct_loop_result_t *r,
                      const ct_confusion_t *confusion, const ct_eval_set_t *set)
{
  int rc = CT_OK, trained = r->seconds > 0, evaluated = r->last.samples > 0;
  char path[CT_PATH_MAX];
  const ct_eval_result_t *e = &r->last;
  ct_str_t text = {0};
  json_t *o = NULL;
  CT_TRY(ct_path_join(path, sizeof path, c->run.dir, "summary.json"));
  if (r->idle && ct_file_exists(path)) goto out;
  o = json_pack("{s:s, s:s, s:I, s:I, s:i, s:f, s:o, s:o, s:o, s:I}", "name", c->run.name, "reason",
                ct_stop_name(r->stopped), "epoch", (json_int_t)r->at.epoch, "step",
                (json_int_t)r->at.step, "ranks", ranks, "train_s", r->seconds, "samples_per_s",
                real_or_null(trained, r->samples_per_s), "train_loss",
                real_or_null(trained, r->train_loss), "val_loss", real_or_null(evaluated, e->loss),
                "val_samples", (json_int_t)e->samples);
  add_scores(o, e);
  add_token_rates(o, trained, r);
  add_best(o, &r->at.best);
  if (evaluated) add_confusion(o, confusion);
  if (set && evaluated) json_object_set_new(o, "sets", ct_result_sets_json(set, c->eval.sets.n));
  CT_TRY(ct_json_add(o, &text));
  CT_TRY(ct_file_write(path, text.data, text.len));
out:
  json_decref(o);
  ct_str_clear(&text);
  return rc;
}

int ct_result_eval(const ct_eval_result_t *e, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "  validation loss   %.4f\n", e->loss));
  CT_TRY(parts_text(e, out));
  if (!e->parts && !e->regression) {
    CT_TRY(ct_str_add(out, "  top-1             %.4f\n", e->top1));
    CT_TRY(ct_str_add(out, "  top-5             %.4f\n", e->top5));
  }
  if (!e->parts && has_mae(e)) CT_TRY(ct_str_add(out, "  mae               %.4f\n", e->mae));
  CT_TRY(more_text(e, 1, out));
  CT_TRY(ct_str_add(out, "  samples           %" PRId64 "\n", e->samples));
  if (e->tokens) CT_TRY(ct_str_add(out, "  tokens            %" PRId64 "\n", e->tokens));
  if (e->channels) CT_TRY(ct_str_add(out, "\n  channel        mae       rmse      vrmse\n"));
  for (int k = 0; k < e->channels; k++) {
    const ct_eval_channel_t *c = &e->channel[k];
    CT_TRY(ct_str_add(out, "  %7d %10.5g %10.5g", k, c->mae, c->rmse));
    CT_TRY(isnan(c->vrmse) ? ct_str_add(out, " %10s\n", "-")
                           : ct_str_add(out, " %10.5g\n", c->vrmse));
  }
out:
  return rc;
}

/* Appends a line of the table of classes; NaN is printed as "-". */
static int add_class_line(int64_t k, int64_t samples, const double *value, int values,
                          const ct_opt_texts_t *names, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "  %5" PRId64 " %9" PRId64, k, samples));
  for (int i = 0; i < values; i++) {
    int width = i < values - 1 ? 10 : 8;
    CT_TRY(isnan(value[i]) ? ct_str_add(out, " %*s", width, "-")
                           : ct_str_add(out, " %*.4f", width, value[i]));
  }
  CT_TRY(k < names->n ? ct_str_add(out, "  %s\n", names->v[k]) : ct_str_add(out, "\n"));
out:
  return rc;
}

/* Appends accuracy and IoU of each class over pixels.  The IoU of a class without labelled and
 * predicted pixels is undefined; the mean excludes it. */
static int add_pixel_classes(const ct_confusion_t *c, const ct_opt_texts_t *names, ct_str_t *out)
{
  int rc = CT_OK, found = 0;
  double sum = 0;
  CT_TRY(ct_str_add(out, "\n  class    pixels   accuracy      iou\n"));
  for (int64_t k = 0; k < c->classes; k++) {
    int64_t n = ct_confusion_samples(c, k);
    double iou = ct_confusion_iou(c, k), accuracy = n ? ct_prf_class(c, k).recall : 0;
    CT_TRY(add_class_line(k, n, (const double[]){isnan(iou) ? NAN : accuracy, iou}, 2, names, out));
    if (isnan(iou)) continue;
    sum += iou;
    found++;
  }
  CT_TRY(ct_str_add(out, "  mean                      %.4f\n", found ? sum / found : 0));
out:
  return rc;
}

int ct_result_classes(const ct_confusion_t *c, int by_pixel, const ct_opt_texts_t *names,
                      ct_str_t *out)
{
  enum { MOST = 100 }; /* a longer table is not printed */
  int rc = CT_OK;
  if (c->classes > MOST)
    return ct_str_add(out, "  classes           %" PRId64 "; --json or --confusion list them\n",
                      c->classes);
  if (by_pixel) return add_pixel_classes(c, names, out);
  CT_TRY(ct_str_add(out, "\n  class   samples   accuracy  precision       f1\n"));
  for (int64_t k = 0; k < c->classes; k++) {
    int64_t n = ct_confusion_samples(c, k);
    ct_prf_t p = n ? ct_prf_class(c, k) : (ct_prf_t){NAN, NAN, NAN};
    CT_TRY(add_class_line(k, n, (const double[]){p.recall, p.precision, p.f1}, 3, names, out));
  }
  ct_prf_t mean = ct_prf_macro(c);
  if (!isnan(mean.f1))
    CT_TRY(ct_str_add(out, "   mean               %.4f     %.4f   %.4f\n", mean.recall,
                      mean.precision, mean.f1));
out:
  return rc;
}

json_t *ct_result_eval_json(const ct_eval_result_t *e, const ct_confusion_t *c,
                            const ct_opt_texts_t *names)
{
  int by_pixel = e->pixels > 1;
  json_t *list = c ? json_array() : NULL;
  json_t *o = json_pack("{s:o, s:I}", "loss", real_or_null(e->samples > 0, e->loss), "samples",
                        (json_int_t)e->samples);
  add_scores(o, e);
  for (int64_t k = 0; c && k < c->classes; k++) {
    ct_class_count_t n = ct_confusion_class(c, k);
    ct_prf_t p = ct_prf_class(c, k);
    double accuracy = c->set ? ct_class_accuracy(&n) : n.labelled ? p.recall : NAN;
    json_t *class =
        json_pack("{s:I, s:I, s:o}", "class", (json_int_t)k, by_pixel ? "places" : "samples",
                  (json_int_t)n.labelled, "accuracy", ct_json_number(accuracy));
    if (class && k < names->n) json_object_set_new(class, "name", ct_json_words(names->v[k]));
    if (class && by_pixel) json_object_set_new(class, "iou", real_or_null(1, ct_class_iou(&n)));
    if (class) json_object_set_new(class, "precision", real_or_null(1, p.precision));
    if (class) json_object_set_new(class, "recall", real_or_null(1, p.recall));
    if (class) json_object_set_new(class, "f1", real_or_null(1, p.f1));
    json_array_append_new(list, class);
  }
  if (o && list) json_object_set(o, "classes", list);
  json_decref(list);
  return o;
}

static int add_class(ct_str_t *text, const ct_opt_texts_t *names, int64_t k)
{
  if (k < names->n) return ct_text_csv(names->v[k], text);
  return ct_str_add(text, "%" PRId64, k);
}

int ct_result_confusion(const ct_confusion_t *c, const ct_opt_texts_t *names, const char *path)
{
  int rc = CT_OK;
  ct_str_t t = {0};
  CT_TRY(ct_str_add(&t, "label"));
  for (int64_t i = 0; i < c->classes; i++) {
    CT_TRY(ct_str_add(&t, ","));
    CT_TRY(add_class(&t, names, i));
  }
  CT_TRY(ct_str_add(&t, "\n"));
  for (int64_t k = 0; k < c->classes; k++) {
    CT_TRY(add_class(&t, names, k));
    for (int64_t i = 0; i < c->classes; i++)
      CT_TRY(ct_str_add(&t, ",%" PRId64, c->count[k * c->classes + i]));
    CT_TRY(ct_str_add(&t, "\n"));
  }
  CT_TRY(ct_file_write(path, t.data, t.len));
out:
  ct_str_clear(&t);
  return rc;
}

/* Appends the rates of windows of tokens. */
static int token_lines(const ct_loop_result_t *r, int ranks, ct_str_t *out)
{
  int rc = CT_OK;
  if (!r->flops_per_token) return CT_OK;
  CT_TRY(ct_str_add(out, "  tokens/s          %.0f\n", r->tokens_per_s));
  CT_TRY(ct_str_add(out, "  TFLOP/s of a rank %.4g (6N + 12LCT FLOPs a token)\n",
                    r->tokens_per_s * r->flops_per_token / ranks / 1e12));
  if (!isnan(r->mfu))
    CT_TRY(ct_str_add(out, "  MFU               %.1f%% of train.peak_tflops\n", 100 * r->mfu));
out:
  return rc;
}

static int print_table(const ct_config_t *c, int ranks, const ct_loop_result_t *r,
                       const ct_eval_set_t *set)
{
  int rc = CT_OK;
  char time[32];
  ct_str_t t = {0};
  CT_TRY(ct_str_add(&t, "%s: %s\n", c->run.name,
                    r->stopped ? "stopped early; the same command resumes it" : "done"));
  CT_TRY(ct_str_add(&t, "  epochs            %" PRId64 "\n", r->at.epoch));
  CT_TRY(ct_str_add(&t, "  steps             %" PRId64 "\n", r->at.step));
  CT_TRY(ct_str_add(&t, "  ranks             %d\n", ranks));
  if (r->seconds > 0) {
    CT_TRY(
        ct_str_add(&t, "  time in steps     %s\n", ct_text_seconds(r->seconds, time, sizeof time)));
    CT_TRY(ct_str_add(&t, "  samples/s         %.0f\n", r->samples_per_s));
    CT_TRY(token_lines(r, ranks, &t));
    CT_TRY(ct_str_add(&t, "  training loss     %.4f\n", r->train_loss));
  }
  if (r->last.samples) CT_TRY(ct_result_eval(&r->last, &t));
  for (int i = 0; set && r->last.samples && i < c->eval.sets.n; i++)
    CT_TRY(ct_result_set(&set[i], &t));
  if (r->at.best.kind)
    CT_TRY(ct_str_add(&t, "  best %-12s %.4f, after step %" PRId64 " (checkpoints/best)\n",
                      ct_score_word((int)r->at.best.kind), r->at.best.value, r->at.best.step));
  CT_TRY(ct_str_add(&t, "  results           %s\n", c->run.dir));
  CT_TRY(ct_app_print(t.data));
out:
  ct_str_clear(&t);
  return rc;
}

int ct_result_write(const ct_config_t *c, int ranks, const ct_loop_result_t *result,
                    const ct_confusion_t *confusion, const ct_eval_set_t *set, int shown)
{
  int rc = CT_OK;
  CT_TRY(write_json(c, ranks, result, confusion, set));
  if (shown) CT_TRY(print_table(c, ranks, result, set));
out:
  return rc;
}
