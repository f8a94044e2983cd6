/* What a study says at its end: a row for each size, with the interval of its median, the
 * efficiency against the smallest size, block by block, and the largest loss by name. */
#include <stdio.h>
#include <string.h>

#include "study/measure/ct_scale.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "study/model/ct_scaling.h"

typedef struct result {
  const ct_study_size_t *size;
  ct_study_ratio_t efficiency;
  double rate, lost_s;
  const char *loss; /* the term; NULL: none */
  char words[80];   /* its share, with gains */
} result_t;

typedef struct table {
  ct_study_t study;
  ct_scaling_t model;
  int modelled; /* 1: there are sizes enough for one */
} table_t;

static int open_table(const char *dir, table_t *t)
{
  int rc = ct_study_read(dir, &t->study);
  if (rc == CT_OK) t->modelled = ct_scaling_fit(&t->study, NULL, NULL, &t->model) == CT_OK;
  return rc;
}

static result_t result_of(const table_t *t, const ct_study_size_t *z)
{
  const ct_study_size_t *base = ct_study_base(&t->study);
  result_t r = {.size = z};
  if (!z->blocks) return r;
  r.rate = ct_study_rate(z, z->median_s);
  if (!base) return r; /* there are only points without messages so far */
  r.efficiency = ct_study_efficiency(base, z);
  if (z == base || !z->account.steps) return r;
  ct_terms_t terms = ct_scaling_terms(&t->study, t->modelled ? &t->model : NULL, z);
  int largest = ct_terms_largest(&terms);
  if (largest >= 0) {
    r.loss = ct_term_name(largest);
    r.lost_s = terms.s[largest];
  }
  ct_terms_loss(&terms, z->account.mean.step_s, r.words, sizeof r.words);
  return r;
}

static int add_row(const result_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_study_size_t *z = r->size;
  char step[60], efficiency[60];
  CT_TRY(ct_str_add(out, "%5d %5d %3d %5.0f", z->ranks, z->nodes, z->threads, z->batch));
  if (!z->blocks) return ct_str_add(out, "  failed: %s\n", z->error);
  snprintf(step, sizeof step, "%.4g [%.4g,%.4g]", 1e3 * z->median_s, 1e3 * z->low_s,
           1e3 * z->high_s);
  snprintf(efficiency, sizeof efficiency, "%.3g [%.3g,%.3g]", 100 * r->efficiency.median,
           100 * r->efficiency.low, 100 * r->efficiency.high);
  CT_TRY(ct_str_add(out, " %19s %9.4g %16s %2d  %s\n", step, r->rate, efficiency, z->blocks,
                    *r->words ? r->words : "-"));
out:
  return rc;
}

static int add_text(const table_t *t, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(
      ct_str_add(out,
                 "%s scaling; a block's mean step: median of the blocks, with the interval that\n"
                 "holds it (95 %%; of 5 blocks 94 %%, of fewer less); thr: threads; n: blocks\n",
                 ct_study_is_weak(&t->study) ? "weak" : "strong"));
  CT_TRY(ct_str_add(out, "%5s %5s %3s %5s %19s %9s %16s %2s  %s\n", "ranks", "nodes", "thr",
                    "batch", "step_ms", "samples/s", "efficiency_%", "n",
                    "largest loss -gains, %"));
  for (int i = 0; i < t->study.sizes; i++) {
    result_t r = result_of(t, &t->study.size[i]);
    if (t->study.size[i].kind == CT_STUDY_RUN) CT_TRY(add_row(&r, out));
  }
out:
  return rc;
}

static int add_csv(const table_t *t, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "ranks,nodes,local_ranks,threads,batch,step_s,step_low_s,step_high_s,"
                         "samples_per_s,efficiency,efficiency_low,efficiency_high,blocks,"
                         "largest_loss,lost_s,error\n"));
  for (int i = 0; i < t->study.sizes; i++) {
    const ct_study_size_t *z = &t->study.size[i];
    result_t r = result_of(t, z);
    if (z->kind != CT_STUDY_RUN) continue;
    CT_TRY(ct_str_add(out, "%d,%d,%d,%d,%.0f,", z->ranks, z->nodes, z->local_ranks, z->threads,
                      z->batch));
    if (z->blocks)
      CT_TRY(ct_str_add(out, "%.9g,%.9g,%.9g,%.9g,%.6g,%.6g,%.6g,%d,%s,%.6g,\n", z->median_s,
                        z->low_s, z->high_s, r.rate, r.efficiency.median, r.efficiency.low,
                        r.efficiency.high, z->blocks, r.loss ? r.loss : "", r.lost_s));
    else
      CT_TRY(ct_str_add(out, ",,,,,,,0,,,\"%s\"\n", z->error));
  }
out:
  return rc;
}

static json_t *as_object(const table_t *t, const ct_study_size_t *z)
{
  result_t r = result_of(t, z);
  json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:f, s:i}", "ranks", z->ranks, "nodes", z->nodes,
                        "local_ranks", z->local_ranks, "threads", z->threads, "batch", z->batch,
                        "blocks", z->blocks);
  if (o && !z->blocks) json_object_set_new(o, "error", ct_json_words(z->error));
  if (!o || !z->blocks) return o;
  json_object_update_new(o, json_pack("{s:f, s:[ff], s:f, s:f, s:[ff], s:s?, s:f}", "step_s",
                                      z->median_s, "step_interval_s", z->low_s, z->high_s,
                                      "samples_per_s", r.rate, "efficiency", r.efficiency.median,
                                      "efficiency_interval", r.efficiency.low, r.efficiency.high,
                                      "largest_loss", r.loss, "lost_s", r.lost_s));
  return o;
}

static int add_json(const table_t *t, const char *predict, ct_str_t *out)
{
  int rc = CT_OK;
  json_t *list = json_array(), *root = json_pack("{s:o}", "sizes", list);
  for (int i = 0; root && i < t->study.sizes; i++)
    if (t->study.size[i].kind == CT_STUDY_RUN)
      json_array_append_new(list, as_object(t, &t->study.size[i]));
  if (predict) {
    json_t *said = ct_scaling_json(&t->model, predict);
    if (!said) CT_TRY(ct_err_last()->code);
    json_object_set_new(root, "prediction", said);
  }
  CT_TRY(ct_json_add(root, out));
out:
  json_decref(root);
  return rc;
}

static int write_csv(const ct_scale_study_t *s, const table_t *t)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_str_t csv = {0};
  CT_TRY(add_csv(t, &csv));
  CT_TRY(ct_path_join(path, sizeof path, s->dir, "table.csv"));
  CT_TRY(ct_file_write(path, csv.data, strlen(csv.data)));
out:
  ct_str_clear(&csv);
  return rc;
}

int ct_scale_print(const ct_scale_study_t *s, const char *predict, int json)
{
  int rc = CT_OK;
  static table_t t;
  ct_str_t out = {0};
  t = (table_t){0};
  CT_TRY(open_table(s->dir, &t));
  if (predict && !t.modelled) CT_TRY(ct_scaling_fit(&t.study, NULL, NULL, &t.model));
  CT_TRY(write_csv(s, &t));
  if (json) {
    CT_TRY(add_json(&t, predict, &out));
  } else {
    CT_TRY(add_text(&t, &out));
    if (predict) CT_TRY(ct_scaling_print(&t.model, predict, &out));
    CT_TRY(
        ct_str_add(&out, "results in %s; a page of them: ctrain-hpc report %s\n", s->dir, s->dir));
  }
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  ct_study_clear(&t.study);
  return rc;
}
