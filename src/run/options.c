/* The rows of the sections `run`, `log` and `job`: what they are called, may be, and mean. They
 * stand apart from those of training because nothing here changes what is computed, but for the
 * seed. */
#include "run/ct_run_opts.h"

#include <stdio.h>

#include "base/ct_err.h"

const ct_opt_t ct_run_rows[] = {
    CT_OPT_PATH(ct_run_opts_t, dir, "", NULL,
                "run directory; empty: runs/NAME in the current directory"),
    CT_OPT_INT(ct_run_opts_t, seed, "1", 0, 1e18, "seed of weights, sample order and dropout"),
    CT_OPT_NAME(ct_run_opts_t, name, "train", "name of the run, and of its directory"),
    CT_OPT_INT(ct_run_opts_t, log_every, "10", 1, 1e18, "steps between lines in metrics.jsonl"),
    CT_OPT_DOUBLE(ct_run_opts_t, log_s, "60", 0, 1e9,
                  "seconds between lines of progress in the log, where there is no terminal for a "
                  "progress bar; 0: none"),
    CT_OPT_TEXT(ct_run_opts_t, trace, "",
                "steps of which trace.json in the run directory shows a timeline of all ranks, for "
                "Perfetto or chrome://tracing: 100-110; empty: none"),
    CT_OPT_END};

int ct_trace_steps_read(const ct_run_opts_t *o, ct_trace_steps_t *out)
{
  int rc = CT_OK, end = 0;
  long long from, to;
  *out = (ct_trace_steps_t){0};
  if (!o->trace || !o->trace[0]) return CT_OK;
  int n = sscanf(o->trace, "%lld%n-%lld%n", &from, &end, &to, &end);
  if (n < 1 || o->trace[end] || from < 1 || (n == 2 && to < from))
    CT_FAIL(CT_ERR_USAGE, "run.trace: '%s' is no range of steps, such as 100-110, or 100",
            o->trace);
  *out = (ct_trace_steps_t){from, n == 2 ? to : from};
out:
  return rc;
}

const ct_opt_t ct_eval_rows[] = {
    CT_OPT_INT(ct_eval_opts_t, every_epochs, "1", 0, 1e18,
               "epochs between evaluations of data.val; 0: only at the end of the run"),
    CT_OPT_INT(ct_eval_opts_t, every_steps, "0", 0, 1e18,
               "steps between evaluations besides; 0: none"),
    CT_OPT_TEXTS(ct_eval_opts_t, metrics, "",
                 "what is measured beside loss, top1, top5 and mae: precision, recall, f1 (means "
                 "over the classes), auc (area under the ROC curve, one class against the rest), "
                 "r2; a metric that checkpoint.best or train.early_stop looks at needs not be "
                 "named"),
    CT_OPT_FILES(ct_eval_opts_t, sets, NULL,
                 "further sets to evaluate on, besides and whenever data.val is: {noisy: "
                 "noisy-*.h5, other: [a.h5, b.h5]}"),
    CT_OPT_TEXT(ct_eval_opts_t, watch, "",
                "the set of eval.sets that checkpoint.best, train.early_stop and schedule.kind "
                "plateau look at; empty: data.val"),
    CT_OPT_END};

const ct_opt_t ct_log_rows[] = {
    CT_OPT_BOOL(ct_log_opts_t, tensorboard, "false",
                "also write TensorBoard's event files into the run directory: scalars, the graph "
                "of the model, the settings"),
    CT_OPT_INT(ct_log_opts_t, histograms_every, "0", 0, 1e18,
               "TensorBoard: epochs between histograms of all weights and gradients; 0: none"),
    CT_OPT_BOOL(ct_log_opts_t, mllog, "false",
                "also write MLPerf's lines, :::MLLOG, into mllog.log in the run directory"),
    CT_OPT_TEXT(ct_log_opts_t, benchmark, "",
                "MLPerf: its name of the benchmark; empty: the model's family"),
    CT_OPT_TEXT(ct_log_opts_t, org, "none", "MLPerf: who submits"),
    CT_OPT_TEXT(ct_log_opts_t, platform, "", "MLPerf: name of the system; empty: the device"),
    CT_OPT_CHOICE(ct_log_opts_t, division, "closed", "closed|open", "MLPerf: by which rules"),
    CT_OPT_CHOICE(ct_log_opts_t, status, "onprem", "onprem|cloud|preview|research",
                  "MLPerf: what kind of system it is"),
    CT_OPT_END};

const ct_opt_t ct_job_rows[] = {
    CT_OPT_TEXT(
        ct_job_opts_t, walltime, "auto",
        "when the job ends, to stop with a checkpoint before that: auto (the batch system says "
        "it), off, or [days-]hours:minutes:seconds from the start of the program"),
    CT_OPT_DOUBLE(ct_job_opts_t, margin_s, "30", 0, 1e6,
                  "seconds to spare at the end of the job, beyond a step and a checkpoint"),
    CT_OPT_DOUBLE(
        ct_job_opts_t, watchdog_s, "600", 0, 1e6,
        "seconds without progress after which the run is ended, and the late ranks are named; "
        "0: never"),
    CT_OPT_INT(ct_job_opts_t, stragglers_every, "100", 0, 1e18,
               "steps between two looks for slow ranks; 0: never"),
    CT_OPT_END};
