/* A study as csv, as JSON, and as a table for the terminal. */
#include <math.h>
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_json.h"
#include "study/output/report.h"

/* ---- csv ---- */

static int csv_row(const ct_report_t *r, const ct_study_size_t *z, ct_str_t *out)
{
  int rc = CT_OK;
  ct_study_ratio_t e = ct_study_efficiency(ct_study_base(r->study), z);
  ct_terms_t t = ct_scaling_terms(r->study, r->model, z);
  CT_TRY(ct_str_add(out, "%d,%d,%d,%.17g,%.17g,%d,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g", z->nodes,
                    z->ranks, z->threads, z->batch, z->local_batch, z->blocks, z->median_s,
                    z->low_s, z->high_s, ct_study_rate(z, z->median_s), e.median, e.low, e.high));
  CT_TRY(ct_str_add(out, ",%.9g,", z->account.mean.step_s));
  if (z->energy_samples > 0) CT_TRY(ct_str_add(out, "%.9g", z->energy_j / z->energy_samples));
  for (int i = 0; i < CT_TERMS; i++)
    CT_TRY(ct_str_add(out, ",%.9g", t.s[i]));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

int ct_report_csv(const ct_report_t *r, int n, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "nodes,ranks,threads,batch,local_batch,blocks,step_s,step_low_s,"
                         "step_high_s,samples_per_s,efficiency,efficiency_low,efficiency_high,"
                         "step_mean_s,joule_per_sample"));
  for (int i = 0; i < CT_TERMS; i++)
    CT_TRY(ct_str_add(out, ",%s_s", ct_term_name(i)));
  CT_TRY(ct_str_add(out, "\n"));
  for (int i = 0; i < n; i++)
    for (int k = 0; k < r[i].study->sizes; k++)
      if (r[i].study->size[k].kind == CT_STUDY_RUN && r[i].study->size[k].blocks)
        CT_TRY(csv_row(&r[i], &r[i].study->size[k], out));
out:
  return rc;
}

/* ---- JSON ---- */

static json_t *json_losses(const ct_report_t *r, const ct_study_size_t *z)
{
  ct__loss_t loss[CT__LOSSES];
  int n = ct__report_losses(r, z, loss);
  json_t *o = json_array();
  for (int i = 0; i < n; i++)
    json_array_append_new(o,
                          json_pack("{s:s, s:f, s:o}", "term", ct_term_name(loss[i].term), "share",
                                    loss[i].share, "words", ct_json_words(loss[i].words)));
  return o;
}

static json_t *json_terms(const ct_report_t *r, const ct_study_size_t *z)
{
  ct_terms_t t = ct_scaling_terms(r->study, r->model, z);
  json_t *o = json_object();
  for (int i = 0; i < CT_TERMS; i++)
    json_object_set_new(o, ct_term_name(i), json_real(t.s[i]));
  return o;
}

static json_t *json_size(const ct_report_t *r, const ct_study_size_t *z)
{
  json_t *o =
      json_pack("{s:i, s:i, s:i, s:f, s:f, s:i}", "nodes", z->nodes, "ranks", z->ranks, "threads",
                z->threads, "batch", z->batch, "local_batch", z->local_batch, "blocks", z->blocks);
  if (!z->blocks) {
    json_object_set_new(o, "error", ct_json_words(z->error));
    return o;
  }
  ct_study_ratio_t e = ct_study_efficiency(ct_study_base(r->study), z);
  json_t *more =
      json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o}", "step_s", z->median_s,
                "step_low_s", z->low_s, "step_high_s", z->high_s, "interval_covers", z->covers,
                "samples_per_s", ct_study_rate(z, z->median_s), "efficiency", e.median,
                "efficiency_low", e.low, "efficiency_high", e.high, "step_mean_s",
                z->account.mean.step_s, "terms_s", json_terms(r, z), "losses", json_losses(r, z));
  if (o && more) json_object_update(o, more);
  if (z->energy_samples > 0)
    json_object_set_new(o, "joule_per_sample", json_real(z->energy_j / z->energy_samples));
  json_decref(more);
  return o;
}

json_t *ct_report_json(const ct_report_t *r)
{
  char list[40];
  json_t *sizes = json_array(), *model = NULL;
  for (int i = 0; i < r->study->sizes; i++)
    if (r->study->size[i].kind == CT_STUDY_RUN)
      json_array_append_new(sizes, json_size(r, &r->study->size[i]));
  if (r->model && r->model->left_ranks) { /* one size does not tell how far a model reaches */
    snprintf(list, sizeof list, "%d,%d", 2 * r->model->largest, 4 * r->model->largest);
    model = ct_scaling_json(r->model, list);
  }
  return json_pack("{s:o, s:s, s:O?, s:o, s:o}", "study", ct_json_words(r->study->path), "scaling",
                   ct_study_is_weak(r->study) ? "weak" : "strong", "about", r->study->about,
                   "sizes", sizes, "model", model ? model : json_null());
}

/* ---- the terminal ---- */

static int text_row(const ct_report_t *r, const ct_study_size_t *z, ct_str_t *out)
{
  if (!z->blocks)
    return ct_str_add(out, "%5d %5d %6g  failed: %s\n", z->nodes, z->ranks, z->batch, z->error);
  ct_study_ratio_t e = ct_study_efficiency(ct_study_base(r->study), z);
  ct_terms_t t = ct_scaling_terms(r->study, r->model, z);
  char step[60], efficiency[60], loss[80];
  snprintf(step, sizeof step, "%.5g [%.4g,%.4g]", 1e3 * z->median_s, 1e3 * z->low_s,
           1e3 * z->high_s);
  snprintf(efficiency, sizeof efficiency, "%.1f [%.1f,%.1f]", 100 * e.median, 100 * e.low,
           100 * e.high);
  ct_terms_loss(&t, z->account.mean.step_s, loss, sizeof loss);
  return ct_str_add(out, "%5d %5d %6g %18s %9.4g %15s%s%s\n", z->nodes, z->ranks, z->batch, step,
                    ct_study_rate(z, z->median_s), efficiency, *loss ? "  " : "", loss);
}

int ct_report_text(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_study_size_t *largest = ct__report_largest(r->study);
  ct__loss_t loss[CT__LOSSES];
  char sum[400];
  CT_TRY(ct_str_add(out, "%5s %5s %6s %18s %9s %15s  %s\n", "nodes", "ranks", "batch", "step_ms",
                    "samples/s", "efficiency_%", "largest loss, %"));
  for (int i = 0; i < r->study->sizes; i++)
    if (r->study->size[i].kind == CT_STUDY_RUN) CT_TRY(text_row(r, &r->study->size[i], out));
  int n = ct__report_losses(r, largest, loss);
  ct__report_sum(r, largest, sum, sizeof sum);
  CT_TRY(ct_str_add(out, "%s\n", sum));
  for (int i = 0; i < n; i++)
    CT_TRY(ct_str_add(out, "  %s\n", loss[i].words));
out:
  return rc;
}
