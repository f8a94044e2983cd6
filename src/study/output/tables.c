/* A study as JSON, as csv and as a table for the terminal.  The csv is made from the JSON. */
#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_json.h"
#include "study/output/report.h"

/* ---- JSON ---- */

/* Returns the term with the largest loss of a configuration; -1: none, as for the base. */
static int largest_loss(const ct_report_t *r, const ct_study_size_t *z, const ct_terms_t *t)
{
  return z == ct_study_base(r->study) ? -1 : ct_terms_largest(t);
}

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

static json_t *json_terms(const ct_terms_t *t)
{
  json_t *o = json_object();
  for (int i = 0; i < CT_TERMS; i++)
    json_object_set_new(o, ct_term_name(i), json_real(t->s[i]));
  return o;
}

static json_t *json_size(const ct_report_t *r, const ct_study_size_t *z)
{
  json_t *o = json_pack("{s:i, s:i, s:i, s:i, s:f, s:f, s:i}", "nodes", z->nodes, "ranks", z->ranks,
                        "local_ranks", z->local_ranks, "threads", z->threads, "batch", z->batch,
                        "local_batch", z->local_batch, "blocks", z->rounds);
  if (!z->rounds) {
    json_object_set_new(o, "error", ct_json_words(z->error));
    return o;
  }
  ct_study_ratio_t e = ct_study_efficiency(ct_study_base(r->study), z);
  ct_terms_t t = ct_scaling_terms(r->study, r->model, z);
  int loss = largest_loss(r, z, &t);
  json_object_update_new(
      o, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:s?, s:f, s:o, s:o}", "step_s",
                   z->median_s, "step_low_s", z->low_s, "step_high_s", z->high_s, "interval_covers",
                   z->covers, "samples_per_s", ct_study_rate(z, z->median_s), "efficiency",
                   e.median, "efficiency_low", e.low, "efficiency_high", e.high, "step_mean_s",
                   z->breakdown.mean.step_s, "largest_loss", loss < 0 ? NULL : ct_term_name(loss),
                   "lost_s", loss < 0 ? 0.0 : t.s[loss], "terms_s", json_terms(&t), "losses",
                   json_losses(r, z)));
  if (z->energy_samples > 0)
    json_object_set_new(o, "joule_per_sample", json_real(z->energy_j / z->energy_samples));
  return o;
}

json_t *ct_report_json(const ct_report_t *r, const char *predict)
{
  char list[40];
  json_t *model = NULL;
  if (predict && !r->model)
    return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__, "%s", r->no_model), NULL;
  /* a model that was fitted to one configuration cannot be checked: no prediction then */
  if (!predict && r->model && r->model->left_ranks) {
    snprintf(list, sizeof list, "%d,%d", 2 * r->model->largest, 4 * r->model->largest);
    predict = list;
  }
  if (predict && !(model = ct_scaling_json(r->model, predict))) return NULL;
  json_t *sizes = json_array();
  for (int i = 0; i < r->study->sizes; i++)
    if (r->study->size[i].kind == CT_STUDY_RUN)
      json_array_append_new(sizes, json_size(r, &r->study->size[i]));
  return json_pack("{s:o, s:s, s:O?, s:o, s:o}", "study", ct_json_words(r->study->path), "scaling",
                   ct_study_is_weak(r->study) ? "weak" : "strong", "about", r->study->about,
                   "sizes", sizes, "model", model ? model : json_null());
}

/* ---- csv ---- */

/* Keys of a configuration in JSON; the terms follow. */
static const char *const columns[] = {
    "ranks",          "nodes",           "local_ranks", "threads",         "batch",
    "step_s",         "step_low_s",      "step_high_s", "samples_per_s",   "efficiency",
    "efficiency_low", "efficiency_high", "blocks",      "largest_loss",    "lost_s",
    "error",          "local_batch",     "step_mean_s", "joule_per_sample"};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Appends a field, which is empty if the configuration does not have this value. */
static int csv_cell(const json_t *value, ct_str_t *out)
{
  if (json_is_string(value)) return ct_text_csv(json_string_value(value), out);
  return json_is_number(value) ? ct_str_add(out, "%.9g", json_number_value(value)) : CT_OK;
}

static int csv_row(const ct_report_t *r, const ct_study_size_t *z, ct_str_t *out)
{
  int rc = CT_OK;
  json_t *size = json_size(r, z), *terms = json_object_get(size, "terms_s");
  for (int i = 0; i < COLUMNS; i++) {
    if (i) CT_TRY(ct_str_add(out, ","));
    CT_TRY(csv_cell(json_object_get(size, columns[i]), out));
  }
  for (int i = 0; i < CT_TERMS; i++) {
    CT_TRY(ct_str_add(out, ","));
    CT_TRY(csv_cell(json_object_get(terms, ct_term_name(i)), out));
  }
  CT_TRY(ct_str_add(out, "\n"));
out:
  json_decref(size);
  return rc;
}

int ct_report_csv(const ct_report_t *r, int n, ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = 0; i < COLUMNS; i++)
    CT_TRY(ct_str_add(out, "%s%s", i ? "," : "", columns[i]));
  for (int i = 0; i < CT_TERMS; i++)
    CT_TRY(ct_str_add(out, ",%s_s", ct_term_name(i)));
  CT_TRY(ct_str_add(out, "\n"));
  for (int i = 0; i < n; i++)
    for (int k = 0; k < r[i].study->sizes; k++)
      if (r[i].study->size[k].kind == CT_STUDY_RUN)
        CT_TRY(csv_row(&r[i], &r[i].study->size[k], out));
out:
  return rc;
}

/* ---- the terminal ---- */

static int text_row(const ct_report_t *r, const ct_study_size_t *z, ct_str_t *out)
{
  if (!z->rounds)
    return ct_str_add(out, "%5d %5d %6g  failed: %s\n", z->nodes, z->ranks, z->batch, z->error);
  ct_study_ratio_t e = ct_study_efficiency(ct_study_base(r->study), z);
  ct_terms_t t = ct_scaling_terms(r->study, r->model, z);
  char step[60], efficiency[60], loss[80];
  snprintf(step, sizeof step, "%.5g [%.4g,%.4g]", 1e3 * z->median_s, 1e3 * z->low_s,
           1e3 * z->high_s);
  snprintf(efficiency, sizeof efficiency, "%.1f [%.1f,%.1f]", 100 * e.median, 100 * e.low,
           100 * e.high);
  ct_terms_loss(&t, z->breakdown.mean.step_s, loss, sizeof loss);
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
