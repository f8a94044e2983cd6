/* The table at the end of a study: for each configuration the median step with its interval, the
 * efficiency relative to the smallest configuration, paired by rounds, and the name of the largest
 * loss. */
#include <stdio.h>
#include <string.h>

#include "study/measure/ct_scale.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "study/output/ct_report.h"

static int output_add_row(const ct_report_t *r, const ct_study_size_t *z, ct_str_t *out)
{
  int rc = CT_OK;
  char step[60], efficiency[60], loss[80] = "";
  const ct_study_size_t *base = ct_study_base(r->study);
  CT_TRY(ct_str_add(out, "%5d %5d %3d %5.0f", z->ranks, z->nodes, z->threads, z->batch));
  if (!z->rounds) return ct_str_add(out, "  failed: %s\n", z->error);
  ct_study_ratio_t e = ct_study_efficiency(base, z);
  ct_terms_t t = ct_scaling_terms(r->study, r->model, z);
  if (z != base) ct_terms_loss(&t, z->breakdown.mean.step_s, loss, sizeof loss);
  snprintf(step, sizeof step, "%.4g [%.4g,%.4g]", 1e3 * z->median_s, 1e3 * z->low_s,
           1e3 * z->high_s);
  snprintf(efficiency, sizeof efficiency, "%.3g [%.3g,%.3g]", 100 * e.median, 100 * e.low,
           100 * e.high);
  CT_TRY(ct_str_add(out, " %19s %9.4g %16s %2d  %s\n", step, ct_study_rate(z, z->median_s),
                    efficiency, z->rounds, *loss ? loss : "-"));
out:
  return rc;
}

static int output_add_text(const ct_report_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(
      ct_str_add(out,
                 "%s scaling; step_ms: median of the rounds' mean steps with its 95 %% confidence\n"
                 "interval (5 rounds: 94 %%, fewer: less); thr: threads per rank; n: rounds\n",
                 ct_study_is_weak(r->study) ? "weak" : "strong"));
  CT_TRY(ct_str_add(out, "%5s %5s %3s %5s %19s %9s %16s %2s  %s\n", "ranks", "nodes", "thr",
                    "batch", "step_ms", "samples/s", "efficiency_%", "n",
                    "largest loss -gains, %"));
  for (int i = 0; i < r->study->sizes; i++)
    if (r->study->size[i].kind == CT_STUDY_RUN) CT_TRY(output_add_row(r, &r->study->size[i], out));
out:
  return rc;
}

static int write_csv(const char *dir, const ct_report_t *r)
{
  int rc = CT_OK;
  char path[CT_PATH_MAX];
  ct_str_t csv = {0};
  CT_TRY(ct_report_csv(r, 1, &csv));
  CT_TRY(ct_path_join(path, sizeof path, dir, "table.csv"));
  CT_TRY(ct_file_write(path, csv.data, strlen(csv.data)));
out:
  ct_str_clear(&csv);
  return rc;
}

int ct_scale_print(const ct_scale_study_t *s, const char *predict, int json)
{
  int rc = CT_OK;
  static ct_scaling_t model;
  ct_study_t study = {0};
  ct_report_t r = {.study = &study, .model = &model};
  json_t *all = NULL;
  ct_str_t out = {0};
  CT_TRY(ct_study_read(s->dir, &study));
  if (ct_scaling_fit(&study, NULL, NULL, &model) != CT_OK) r.model = NULL;
  if (predict && !r.model) CT_TRY(ct_err_last()->code);
  CT_TRY(write_csv(s->dir, &r));
  if (json) {
    all = ct_report_json(&r, predict);
    if (!all) CT_TRY(ct_err_last()->code);
    CT_TRY(ct_json_add(all, &out));
  } else {
    CT_TRY(output_add_text(&r, &out));
    if (predict) CT_TRY(ct_scaling_print(&model, predict, &out));
    CT_TRY(
        ct_str_add(&out, "results: %s; for an HTML page: ctrain-hpc report %s\n", s->dir, s->dir));
  }
  CT_TRY(ct_app_print(out.data));
out:
  json_decref(all);
  ct_str_clear(&out);
  ct_study_clear(&study);
  return rc;
}
