/* Learning rate range test: smooths the loss curve and suggests two rates. */
#include "bench/ct_lr_range.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_json.h"

#define KEEP 0.9 /* weight of the previous mean in the smoothed loss */
#define FAR  4 /* a loss of this many times the smallest loss counts as divergence, as in fastai */

double ct_lr_rate(double from, double to, int i, int n)
{
  return from * pow(to / from, (double)i / (n - 1));
}

int ct_lr_add(ct_lr_range_t *r, double rate, double loss)
{
  int i = r->n;
  if (!isfinite(loss)) return r->diverged = 1;
  r->mean = KEEP * r->mean + (1 - KEEP) * loss;
  r->rate[i] = rate;
  r->loss[i] = loss;
  r->smooth[i] = r->mean / (1 - pow(KEEP, i + 1));
  r->n++;
  if (r->smooth[i] < r->smooth[r->least]) r->least = i;
  r->diverged = r->smooth[i] > FAR * r->smooth[r->least];
  return r->diverged || r->n == CT_LR_STEPS;
}

/* ---- suggestions ---- */

double ct_lr_steepest(const ct_lr_range_t *r)
{
  double rate = 0, steepest = 0;
  for (int i = 1; i < r->least; i++) {
    double slope = (r->smooth[i + 1] - r->smooth[i - 1]) / log(r->rate[i + 1] / r->rate[i - 1]);
    if (slope < steepest) steepest = slope, rate = r->rate[i];
  }
  return rate;
}

double ct_lr_tenth(const ct_lr_range_t *r)
{
  return ct_lr_steepest(r) > 0 ? r->rate[r->least] / 10 : 0;
}

/* ---- text ---- */

/* Appends a line of the plot: the smoothed loss between the smallest (left) and the first (right)
 * loss. */
static int lr_range_add_row(const ct_lr_range_t *r, int i, double top, ct_str_t *out)
{
  enum { WIDE = 40 };
  char line[WIDE + 2];
  double low = r->smooth[r->least], share = top > low ? (r->smooth[i] - low) / (top - low) : 0;
  int at = (int)lround(fmin(fmax(share, 0), 1) * WIDE);
  memset(line, ' ', sizeof line);
  line[at] = '*';
  line[at + 1] = '\0';
  return ct_str_add(out, "%12.4g %12.5g %12.5g  |%s\n", r->rate[i], r->loss[i], r->smooth[i], line);
}

static int add_suggestions(const ct_lr_range_t *r, double scale, ct_str_t *out)
{
  int rc = CT_OK;
  double steepest = ct_lr_steepest(r), tenth = ct_lr_tenth(r);
  CT_TRY(ct_str_add(out,
                    r->diverged ? "the loss diverged after %d steps\n"
                                : "the loss did not diverge in %d steps\n",
                    r->n));
  if (!(steepest > 0))
    return ct_str_add(out, "the loss did not fall: no rate can be suggested; try --steps or other "
                           "--from and --to\n");
  CT_TRY(ct_str_add(out,
                    "optim.lr: %.2g, where the loss falls most steeply; %.2g, a tenth of the rate "
                    "of the least loss\n",
                    steepest / scale, tenth / scale));
  if (scale != 1)
    CT_TRY(ct_str_add(out, "with schedule.scale_lr a step's rate is %g times as large\n", scale));
out:
  return rc;
}

int ct_lr_text(const ct_lr_range_t *r, double scale, ct_str_t *out)
{
  enum { ROWS = 24 };
  int rc = CT_OK, every = r->n > ROWS ? (r->n + ROWS - 1) / ROWS : 1;
  double top = r->n ? r->smooth[0] : 0;
  for (int i = 0; i < r->least; i++) /* the rise after the smallest loss is cut off */
    top = fmax(top, r->smooth[i]);
  CT_TRY(ct_str_add(out, "%12s %12s %12s\n", "rate", "loss", "smoothed"));
  for (int i = 0; i < r->n; i += every)
    CT_TRY(lr_range_add_row(r, i, top, out));
  CT_TRY(add_suggestions(r, scale, out));
out:
  return rc;
}

/* ---- JSON ---- */

int ct_lr_json(const ct_lr_range_t *r, double scale, ct_str_t *out)
{
  int rc = CT_OK;
  double steepest = ct_lr_steepest(r), tenth = ct_lr_tenth(r);
  json_t *points = json_array();
  for (int i = 0; i < r->n; i++)
    json_array_append_new(points, json_pack("{s:f, s:f, s:f}", "rate", r->rate[i], "loss",
                                            r->loss[i], "smoothed", r->smooth[i]));
  json_t *o = json_pack("{s:i, s:b, s:o, s:o, s:f, s:o}", "steps", r->n, "diverged", r->diverged,
                        "steepest", steepest > 0 ? json_real(steepest / scale) : json_null(),
                        "tenth_of_least", tenth > 0 ? json_real(tenth / scale) : json_null(),
                        "scale", scale, "points", points);
  CT_TRY(ct_json_add(o, out));
out:
  json_decref(o);
  return rc;
}
