/* `report`: makes a page from scaling studies or runs, and csv or JSON for other programs. */
#include <stdio.h>

#include "commands/ct_commands.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_json.h"
#include "base/ct_mem.h"
#include "study/output/ct_report.h"
#include "study/output/ct_runs.h"

/* A study, and the scaling model fitted to it. */
typedef struct item {
  ct_study_t study;
  ct_scaling_t model;
  char no_model[CT_ERR_TEXT];
} item_t;

typedef struct links {
  ct_link_t inside, between;
} links_t;

/* Reads a study and fits the model.  Fails if all configurations failed; a study without a model is
 * still reported. */
static int open_item(const char *path, const links_t *links, item_t *i, ct_report_t *r)
{
  int rc = CT_OK;
  CT_TRY(ct_study_read(path, &i->study));
  if (!ct_study_base(&i->study))
    CT_FAIL(CT_ERR_FORMAT, "%s: all configurations of the study failed; the first one: %s",
            i->study.path, i->study.size[0].error);
  *r = (ct_report_t){.study = &i->study, .model = &i->model, .no_model = i->no_model};
  if (ct_scaling_fit(&i->study, &links->inside, &links->between, &i->model) == CT_OK) return CT_OK;
  snprintf(i->no_model, sizeof i->no_model, "%s", ct_err_last()->text);
  r->model = NULL;
out:
  return rc;
}

static int report_add_text(const ct_report_t *r, const char *predict, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_report_text(r, out));
  if (predict && !r->model) CT_FAIL(CT_ERR_USAGE, "%s", r->no_model);
  if (predict) CT_TRY(ct_scaling_print(r->model, predict, out));
out:
  return rc;
}

/* Appends JSON: an object for one study, an array for several. */
static int add_json(const ct_report_t *r, int n, const char *predict, ct_str_t *out)
{
  int rc = CT_OK;
  json_t *all = json_array();
  for (int i = 0; i < n; i++) {
    json_t *one = ct_report_json(&r[i], predict);
    if (!one) CT_TRY(ct_err_last()->code);
    json_array_append_new(all, one);
  }
  CT_TRY(ct_json_add(n == 1 ? json_array_get(all, 0) : all, out));
out:
  json_decref(all);
  return rc;
}

static int report_print(const ct_args_t *a, const ct_report_t *r, int n)
{
  int rc = CT_OK;
  const char *predict = ct_args_get(a, "predict");
  ct_str_t out = {0};
  if (ct_args_get(a, "csv"))
    CT_TRY(ct_report_csv(r, n, &out));
  else if (ct_args_get(a, "json"))
    CT_TRY(add_json(r, n, predict, &out));
  else
    for (int i = 0; i < n; i++)
      CT_TRY(report_add_text(&r[i], predict, &out));
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  return rc;
}

/* Returns 1 if a page is wanted: --output is given, or neither --csv nor --json. */
static int wants_page(const ct_args_t *a)
{
  return ct_args_get(a, "output") || (!ct_args_get(a, "csv") && !ct_args_get(a, "json"));
}

/* Writes the page to --output, or to the directory of the first study or run. */
static int write_page(const ct_args_t *a, const char *dir, const ct_str_t *page)
{
  int rc = CT_OK;
  const char *output = ct_args_get(a, "output");
  char path[CT_PATH_MAX], line[CT_PATH_MAX + 16];
  if (output)
    CT_TRY(ct_text_format(path, sizeof path, "%s", output));
  else
    CT_TRY(ct_path_join(path, sizeof path, dir, "report.html"));
  CT_TRY(ct_file_write(path, page->data, page->len));
  ct_text_fit(line, sizeof line, "page: %s\n", path);
  if (!ct_args_get(a, "csv") && !ct_args_get(a, "json")) CT_TRY(ct_app_print(line));
out:
  return rc;
}

static int page_of_studies(const ct_args_t *a, const ct_report_t *r, int n)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  ct_str_t page = {0};
  CT_TRY(ct_path_dir(dir, sizeof dir, r->study->path));
  CT_TRY(ct_report_html(r, n, &page));
  CT_TRY(write_page(a, dir, &page));
out:
  ct_str_clear(&page);
  return rc;
}

static int report_studies(const ct_args_t *a)
{
  int rc = CT_OK, n = 0;
  links_t links = {0};
  item_t *item = ct_mem_array(a->rests, sizeof *item, "studies");
  ct_report_t *report = ct_mem_array(a->rests, sizeof *report, "studies");
  if (!item || !report) CT_TRY(CT_ERR_NOMEM);
  if (ct_args_get(a, "target")) CT_FAIL(CT_ERR_USAGE, "--target is for runs, not for studies");
  if (ct_args_get(a, "links"))
    CT_TRY(ct_scaling_links(ct_args_get(a, "links"), &links.inside, &links.between));
  for (; n < a->rests; n++)
    CT_TRY(open_item(a->rest[n], &links, &item[n], &report[n]));
  CT_TRY(report_print(a, report, n));
  if (wants_page(a)) CT_TRY(page_of_studies(a, report, n));
out:
  for (int i = 0; i < n; i++)
    ct_study_clear(&item[i].study);
  ct_mem_free(item);
  ct_mem_free(report);
  return rc;
}

/* ---- runs ---- */

static int print_runs(const ct_args_t *a, const ct_runs_t *c)
{
  int rc = CT_OK;
  json_t *all = NULL;
  ct_str_t out = {0};
  if (ct_args_get(a, "csv")) CT_TRY(ct_runs_csv(c, &out));
  if (ct_args_get(a, "json")) {
    if (!(all = ct_runs_json(c))) CT_TRY(CT_ERR_NOMEM);
    CT_TRY(ct_json_add(all, &out));
  }
  if (!out.len) CT_TRY(ct_runs_text(c, &out));
  CT_TRY(ct_app_print(out.data));
out:
  json_decref(all);
  ct_str_clear(&out);
  return rc;
}

static int report_runs(const ct_args_t *a)
{
  int rc = CT_OK, n = 0;
  ct_runs_t all;
  ct_str_t page = {0};
  ct_run_t *run = ct_mem_array(a->rests, sizeof *run, "runs");
  if (!run) CT_TRY(CT_ERR_NOMEM);
  if (ct_args_get(a, "predict") || ct_args_get(a, "links"))
    CT_FAIL(CT_ERR_USAGE, "--predict and --links are for scaling studies, not for runs");
  for (; n < a->rests; n++)
    CT_TRY(ct_run_open(a->rest[n], &run[n]));
  CT_TRY(ct_runs_compare(run, n, ct_args_get(a, "target"), &all));
  CT_TRY(print_runs(a, &all));
  if (wants_page(a)) {
    CT_TRY(ct_runs_html(&all, &page));
    CT_TRY(write_page(a, run->log.dir, &page));
  }
out:
  for (int i = 0; i < n; i++)
    ct_run_close(&run[i]);
  ct_mem_free(run);
  ct_str_clear(&page);
  return rc;
}

/* ---- the command ---- */

static int is_run(const char *path)
{
  char metrics[CT_PATH_MAX];
  return ct_path_join(metrics, sizeof metrics, path, "metrics.jsonl") == CT_OK &&
         ct_file_exists(metrics);
}

int ct_cmd_report(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK, runs = 0;
  (void)topo;
  (void)status;
  if (ct_args_get(a, "csv") && ct_args_get(a, "json"))
    CT_FAIL(CT_ERR_USAGE, "report: choose one of --csv and --json");
  for (int i = 0; i < a->rests; i++)
    runs += is_run(a->rest[i]);
  if (runs && runs < a->rests)
    CT_FAIL(CT_ERR_USAGE,
            "report: %d of %d directories are training runs (with a metrics.jsonl), the others are "
            "studies; report them separately",
            runs, a->rests);
  CT_TRY(runs ? report_runs(a) : report_studies(a));
out:
  return rc;
}
