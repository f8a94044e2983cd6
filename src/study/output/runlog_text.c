/* The progress of a run as a few lines for a terminal. */
#include "telemetry/ct_runlog.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"

enum { POINTS = 400 }; /* columns of the widest picture */

/* A curve that varies by less than this fraction of its values is drawn as a flat line in the
 * middle, so that the noise of single steps does not show. */
#define FLAT_RATE 0.25
#define FLAT      0.01

/* Draws a curve, scaled between its smallest and largest value; each column is the mean of its
 * points. */
static int picture(const ct_curve_t *c, double flat, int columns, int utf8, ct_str_t *out)
{
  static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static const char ascii[] = "_.,-=+*#";
  int rc = CT_OK, n = columns < POINTS ? columns : POINTS;
  double mean[POINTS], low = INFINITY, high = -INFINITY;
  if (c->n < n) n = (int)c->n;
  for (int i = 0; i < n; i++) {
    int64_t from = c->n * i / n, to = c->n * (i + 1) / n;
    mean[i] = 0;
    for (int64_t k = from; k < to; k++)
      mean[i] += c->value[k] / (double)(to - from);
    low = fmin(low, mean[i]);
    high = fmax(high, mean[i]);
  }
  double span = fmax(high - low, flat * fmax(fabs(high), fabs(low)));
  if (span > high - low)
    low -= (span - (high - low)) / 2 - span / 16; /* to the middle of a level */
  for (int i = 0; i < n; i++) {
    int level = span > 0 ? (int)(7.999 * (mean[i] - low) / span) : 0;
    CT_TRY(utf8 ? ct_str_add(out, "%s", bars[level]) : ct_str_add(out, "%c", ascii[level]));
  }
out:
  return rc;
}

/* Appends " loss 0.0312 ▂▁…"; nothing if the run does not have this curve. */
static int row(const ct_runlog_t *r, const char *curve, const char *label, int columns, int utf8,
               ct_str_t *out)
{
  int rc = CT_OK;
  const ct_curve_t *c = ct_runlog_curve(r, curve);
  if (!c || c->n == 0) return CT_OK;
  CT_TRY(ct_str_add(out, "  %-18s%-12.6g ", label, c->value[c->n - 1]));
  double flat = strcmp(curve, "samples_per_s") == 0 ? FLAT_RATE : FLAT;
  CT_TRY(picture(c, flat, columns - 34, utf8, out));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

/* Appends the last value of an evaluation score, and its best value with the step. */
static int best_row(const ct_runlog_t *r, const char *curve, const char *label, int more_is_better,
                    ct_str_t *out)
{
  const ct_curve_t *c = ct_runlog_curve(r, curve);
  int64_t best = 0;
  if (!c || c->n == 0) return CT_OK;
  for (int64_t i = 1; i < c->n; i++)
    if (more_is_better ? c->value[i] > c->value[best] : c->value[i] < c->value[best]) best = i;
  return ct_str_add(out, "  %-18s%-12.6g best %.5g, after step %lld\n", label, c->value[c->n - 1],
                    c->value[best], (long long)c->step[best]);
}

/* Scores of eval.sets, such as "eval.noisy.top1". */
static int set_rows(const ct_runlog_t *r, ct_str_t *out)
{
  int rc = CT_OK;
  for (int i = 0; i < r->curves; i++) {
    const char *name = r->curve[i].name, *score = strrchr(name, '.');
    int is_mae = score && strcmp(score, ".mae") == 0;
    if (strncmp(name, "eval.", 5) != 0 || score == name + 4) continue;
    if (is_mae || strcmp(score, ".top1") == 0) CT_TRY(best_row(r, name, name + 5, !is_mae, out));
  }
out:
  return rc;
}

static int head(const ct_runlog_t *r, double now, ct_str_t *out)
{
  int rc = CT_OK;
  char gone[32], age[32], state[80], number[32] = "";
  int broken = ct_runlog_is_killed(r) || ct_runlog_is_lost(r, now);
  if (r->run > 1) snprintf(number, sizeof number, ", start %lld", (long long)r->run);
  CT_TRY(ct_str_add(out, "%s: %s%s%s %s", r->name, ct_runlog_state(r, now, state, sizeof state),
                    number, r->end[0] ? "" : ",", r->end[0] || broken ? "after" : "for"));
  CT_TRY(ct_str_add(out, " %s", ct_text_seconds(r->elapsed_s, gone, sizeof gone)));
  if (!r->end[0] && !broken && now - r->changed > CT_RUNLOG_SILENT_S)
    CT_TRY(ct_str_add(out, "; silent for %s", ct_text_seconds(now - r->changed, age, sizeof age)));
  CT_TRY(ct_str_add(out, "\n  %lld rank%s on %lld node%s, %s\n", (long long)r->ranks,
                    r->ranks == 1 ? "" : "s", (long long)r->nodes, r->nodes == 1 ? "" : "s",
                    r->device));
  if (r->error[0]) CT_TRY(ct_str_add(out, "  %s\n", r->error));
out:
  return rc;
}

/* "  step 540/900, epoch 12/20  [#####.....]  60 %" */
static int where(const ct_runlog_t *r, int columns, ct_str_t *out)
{
  int rc = CT_OK;
  int64_t total = ct_runlog_total(r);
  CT_TRY(ct_str_add(out, "  step %lld", (long long)r->step));
  if (total) CT_TRY(ct_str_add(out, "/%lld", (long long)total));
  CT_TRY(ct_str_add(out, ", epoch %lld", (long long)r->epoch));
  if (r->epochs) CT_TRY(ct_str_add(out, "/%lld", (long long)r->epochs));
  int width = columns - 48 < 40 ? columns - 48 : 40;
  if (total && width > 0) {
    double share = fmin((double)r->step / (double)total, 1);
    CT_TRY(ct_str_add(out, "  ["));
    for (int i = 0; i < width; i++)
      CT_TRY(ct_str_add(out, i < (int)(share * width) ? "#" : "."));
    CT_TRY(ct_str_add(out, "]  %.0f %%", 100 * share));
  }
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

int ct_runlog_text(const ct_runlog_t *r, int columns, int utf8, double now, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(head(r, now, out));
  CT_TRY(where(r, columns, out));
  CT_TRY(row(r, "loss", "loss", columns, utf8, out));
  CT_TRY(row(r, "epoch.loss", "loss of epochs", columns, utf8, out));
  CT_TRY(row(r, "eval.loss", "validation loss", columns, utf8, out));
  CT_TRY(row(r, "samples_per_s", "samples/s", columns, utf8, out));
  CT_TRY(row(r, "lr", "learning rate", columns, utf8, out));
  CT_TRY(best_row(r, "eval.loss", "validation loss", 0, out));
  CT_TRY(best_row(r, "eval.top1", "top-1", 1, out));
  CT_TRY(best_row(r, "eval.mae", "mae", 0, out));
  CT_TRY(best_row(r, "eval.f1", "f1", 1, out));
  CT_TRY(best_row(r, "eval.auc", "auc", 1, out));
  CT_TRY(best_row(r, "eval.r2", "r2", 1, out));
  CT_TRY(set_rows(r, out));
  if (r->waits_data >= 0.05 || r->waits_messages >= 0.05)
    CT_TRY(ct_str_add(out, "  waits             data %.0f%%, communication %.0f%% of a step\n",
                      100 * r->waits_data, 100 * r->waits_messages));
  if (r->straggler[0]) CT_TRY(ct_str_add(out, "  slow              %s\n", r->straggler));
  if (r->checkpoint[0]) CT_TRY(ct_str_add(out, "  checkpoint        %s\n", r->checkpoint));
  if (r->best[0]) CT_TRY(ct_str_add(out, "  best              %s\n", r->best));
out:
  return rc;
}
