/* The progress of a run: a bar on a terminal, otherwise a log line every run.log_s seconds. */
#include "run/progress.h"
#include "base/ct_clock.h"
#include "base/ct_log.h"
#include "base/ct_text.h"
#include <stdio.h>
#include <string.h>

enum { BAR = 24 };

int64_t ct__progress_line_epoch(const ct_position_t *at)
{
  return at->cursor ? at->epoch + 1 : at->epoch;
}

/* "  waits: data 12 %, messages 8 %": only shares of at least 5%. */
static void waits_text(const ct__progress_line_t *p, char *text, size_t cap)
{
  const struct {
    const char *what;
    double s;
  } wait[] = {{"data", p->data_s}, {"messages", p->comm_s}};
  size_t n = 0;
  *text = '\0';
  for (int i = 0; i < 2; i++) {
    double share = p->seconds > 0 ? wait[i].s / p->seconds : 0;
    if (share < 0.05) continue;
    n += (size_t)snprintf(text + n, cap - n, "%s%s %.0f %%", n ? ", " : "  waits: ", wait[i].what,
                          100 * share);
  }
}

/* "  3m10s, 7m02s left": estimated from the steps after the first, evaluations included. */
static void time_text(const ct__progress_line_t *p, int64_t step, double now, char *text,
                      size_t cap)
{
  char gone[32], left[32];
  int64_t steps = step - p->begun_step - 1;
  int n = snprintf(text, cap, "  %s", ct_text_seconds(now - p->begin, gone, sizeof gone));
  if (steps < 1 || p->total < step) return;
  double s = (now - p->first_at) / (double)steps * (double)(p->total - step);
  snprintf(text + n, cap - (size_t)n, ", %s left", ct_text_seconds(s, left, sizeof left));
}

/* The bar is full at the end of the epoch, or where train.steps ends training before that. */
static void bar_text(const ct__progress_line_t *p, const ct_position_t *at, char bar[BAR + 4])
{
  int64_t end = ct_sampler_epoch(p->sampler), done = at->cursor ? at->cursor : end;
  int64_t left = p->total - at->step, batch = p->sampler->batch;
  if (left >= 0 && left < (end - done + batch - 1) / batch) end = done + left * batch;
  int full = (int)(BAR * done / end);
  memcpy(bar, " [", 2);
  memset(bar + 2, '.', BAR);
  memset(bar + 2, '#', (size_t)full);
  memcpy(bar + 2 + BAR, "]", 2);
}

static void progress_show(const ct__progress_line_t *p, const ct_position_t *at, double loss,
                          double rate, double now, int with_bar)
{
  char text[400], bar[BAR + 4] = "", times[80], waits[64];
  time_text(p, at->step, now, times, sizeof times);
  waits_text(p, waits, sizeof waits);
  if (with_bar) bar_text(p, at, bar);
  snprintf(text, sizeof text, "epoch %lld/%lld%s  step %lld/%lld  loss %.4f  %.0f %s/s%s%s",
           (long long)ct__progress_line_epoch(at), (long long)p->epochs, bar, (long long)at->step,
           (long long)p->total, loss, p->tokens ? rate * (double)p->tokens : rate,
           p->tokens ? "tokens" : "samples", times, waits);
  if (with_bar)
    ct_log_progress(text);
  else
    ct_log(CT_LOG_INFO, "%s", text);
}

void ct__progress_line_reset(ct__progress_line_t *p)
{
  p->line_at = ct_clock();
  p->seconds = p->data_s = p->comm_s = 0;
}

void ct__progress_line_step(ct__progress_line_t *p, const ct_position_t *at, double loss,
                            double rate, const ct_step_report_t *r, double seconds)
{
  if (p->rank) return;
  double now = ct_clock();
  if (!p->first_at) p->first_at = p->line_at = now;
  p->seconds += seconds;
  p->data_s += r->data_s;
  p->comm_s += r->comm_exposed_s;
  if (ct_log_has_bar()) {
    if (now - p->bar_at < 0.1 && at->step != p->total) return;
    p->bar_at = now;
    progress_show(p, at, loss, rate, now, 1);
  } else if (p->log_s > 0 && now - p->line_at >= p->log_s) {
    progress_show(p, at, loss, rate, now, 0);
    ct__progress_line_reset(p);
  }
}
