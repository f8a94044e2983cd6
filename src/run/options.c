/* Options of the sections `run`, `eval`, `log` and `job`.  Except for the seed, nothing here
 * changes what is computed. */
#include "run/ct_run_opts.h"

#include <stdio.h>

#include "base/ct_err.h"

const ct_opt_t ct_run_rows[] = {
    CT_OPT_PATH(ct_run_opts_t, dir, "", NULL,
                "run directory; empty: runs/NAME in the current directory"),
    CT_OPT_INT(ct_run_opts_t, seed, "1", 0, 1e18, "seed of weights, sample order and dropout"),
    CT_OPT_NAME(ct_run_opts_t, name, "train", "name of the run, and of its directory"),
    CT_OPT_INT(ct_run_opts_t, log_every, "10", 1, 1e18, "steps between lines in metrics.jsonl"),
    CT_OPT_DOUBLE(
        ct_run_opts_t, log_s, "60", 0, 1e9,
        "seconds between progress lines in the log if there is no terminal for a progress "
        "bar; 0: none"),
    CT_OPT_TEXT(ct_run_opts_t, trace, "",
                "steps to record in trace.json in the run directory, a timeline of all ranks for "
                "Perfetto or chrome://tracing, such as 100-110; empty: none"),
    CT_OPT_END};

int ct_trace_steps_read(const ct_run_opts_t *o, ct_trace_steps_t *out)
{
  int rc = CT_OK, end = 0;
  long long from, to;
  *out = (ct_trace_steps_t){0};
  if (!o->trace || !o->trace[0]) return CT_OK;
  int n = sscanf(o->trace, "%lld%n-%lld%n", &from, &end, &to, &end);
  if (n < 1 || o->trace[end] || from < 1 || (n == 2 && to < from))
    CT_FAIL(CT_ERR_USAGE,
            "run.trace: '%s' is not a range of steps such as 100-110, or a step such as 100",
            o->trace);
  *out = (ct_trace_steps_t){from, n == 2 ? to : from};
out:
  return rc;
}

const ct_opt_t ct_eval_rows[] = {
    CT_OPT_INT(ct_eval_opts_t, every_epochs, "1", 0, 1e18,
               "epochs between evaluations of data.val; 0: only at the end of the run"),
    CT_OPT_INT(ct_eval_opts_t, every_steps, "0", 0, 1e18,
               "steps between additional evaluations; 0: none"),
    CT_OPT_TEXTS(
        ct_eval_opts_t, metrics, "",
        "metrics besides loss, top1, top5 and mae, of labels or bce: precision, recall, f1 "
        "(means over the classes), auc (area under the ROC curve, one class against the "
        "rest), map (mean average precision), iou, dice (means over the classes), "
        "iou_sample, dice_sample (of each sample, then their mean); of bce: f1_micro, "
        "subset_accuracy, label_accuracy; of real-valued targets: r2, rmse, vrmse, relative_l2, "
        "and mae by channel; those that checkpoint.best and train.early_stop use are "
        "included automatically"),
    CT_OPT_FILES(ct_eval_opts_t, sets, NULL,
                 "more sets to evaluate on, whenever data.val is evaluated: {noisy: noisy-*.h5, "
                 "other: [a.h5, b.h5]}"),
    CT_OPT_TEXT(ct_eval_opts_t, watch, "",
                "the set of eval.sets that checkpoint.best, train.early_stop and schedule.kind "
                "plateau use; empty: data.val"),
    CT_OPT_TEXT(ct_eval_opts_t, output, "",
                "with a list of losses: the output of which eval.metrics are, and whose scores "
                "checkpoint.best, train.early_stop and schedule.kind plateau use; empty: the sum "
                "of the losses"),
    CT_OPT_END};

const ct_opt_t ct_log_rows[] = {
    CT_OPT_BOOL(ct_log_opts_t, tensorboard, "false",
                "also write event files for TensorBoard into the run directory: scalars, the graph "
                "of the model, the settings"),
    CT_OPT_INT(ct_log_opts_t, histograms_every, "0", 0, 1e18,
               "TensorBoard: epochs between histograms of all weights and gradients; 0: none"),
    CT_OPT_BOOL(ct_log_opts_t, mllog, "false",
                "also write mllog.log in MLPerf's format (:::MLLOG) into the run directory"),
    CT_OPT_TEXT(ct_log_opts_t, benchmark, "",
                "MLPerf: name of the benchmark; empty: the model's family"),
    CT_OPT_TEXT(ct_log_opts_t, org, "none", "MLPerf: submitting organization"),
    CT_OPT_TEXT(ct_log_opts_t, platform, "", "MLPerf: name of the system; empty: the device"),
    CT_OPT_CHOICE(ct_log_opts_t, division, "closed", "closed|open", "MLPerf: division"),
    CT_OPT_CHOICE(ct_log_opts_t, status, "onprem", "onprem|cloud|preview|research",
                  "MLPerf: status of the system"),
    CT_OPT_END};

const ct_opt_t ct_job_rows[] = {
    CT_OPT_TEXT(ct_job_opts_t, walltime, "auto",
                "end of the job; training stops with a checkpoint before it: auto (asks the batch "
                "system), off, or [days-]hours:minutes:seconds from the start of the program"),
    CT_OPT_DOUBLE(ct_job_opts_t, margin_s, "30", 0, 1e6,
                  "margin in seconds at the end of the job, besides one step and one checkpoint"),
    CT_OPT_DOUBLE(ct_job_opts_t, watchdog_s, "600", 0, 1e6,
                  "seconds without progress until the run is aborted and the late ranks are named; "
                  "0: never"),
    CT_OPT_INT(ct_job_opts_t, stragglers_every, "100", 0, 1e18,
               "steps between two searches for slow ranks; 0: none"),
    CT_OPT_END};
