/* Where a run stands, for who waits for it: a bar where there is a terminal, else a line of the log
 * every run.log_s seconds. */
#include "run/loop.h"
#include "base/ct_clock.h"
#include "base/ct_log.h"
#include <stdio.h>
#include <string.h>

enum { BAR = 24 };

/* "  waits: data 12 %, messages 8 %", of what is above a twentieth of the time. */
static void waits_text(const ct__shown_t *p, char *text, size_t cap)
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

/* "  3m10s, 7m02s left": of the steps behind the first, evaluations and all. */
static void time_text(const ct__loop_t *l, int64_t total, double now, char *text, size_t cap)
{
  char gone[32], left[32];
  int64_t steps = l->at.step - l->begun_step - 1;
  int n = snprintf(text, cap, "  %s", ct_text_seconds(now - l->begin, gone, sizeof gone));
  if (steps < 1 || total < l->at.step) return;
  double s = (now - l->shown.first_at) / (double)steps * (double)(total - l->at.step);
  snprintf(text + n, cap - (size_t)n, ", %s left", ct_text_seconds(s, left, sizeof left));
}

/* Full at the end of the epoch, and where train.steps ends training before that. */
static void bar_text(const ct__loop_t *l, int64_t total, char bar[BAR + 4])
{
  const ct_sampler_t *s = &l->o->sampler;
  int64_t end = ct_sampler_epoch(s), at = l->at.cursor ? l->at.cursor : end;
  int64_t left = total - l->at.step; /* steps */
  if (left >= 0 && left < (end - at + s->batch - 1) / s->batch) end = at + left * s->batch;
  int full = (int)(BAR * at / end);
  memcpy(bar, " [", 2);
  memset(bar + 2, '.', BAR);
  memset(bar + 2, '#', (size_t)full);
  memcpy(bar + 2 + BAR, "]", 2);
}

static void tell(ct__loop_t *l, double loss, int64_t total, double now, int with_bar)
{
  char text[400], bar[BAR + 4] = "", times[80], waits[64];
  time_text(l, total, now, times, sizeof times);
  waits_text(&l->shown, waits, sizeof waits);
  if (with_bar) bar_text(l, total, bar);
  snprintf(text, sizeof text, "epoch %lld/%lld%s  step %lld/%lld  loss %.4f  %.0f samples/s%s%s",
           (long long)ct__loop_epoch(l), (long long)l->o->train->epochs, bar, (long long)l->at.step,
           (long long)total, loss, (double)l->trained / (l->trained_s > 0 ? l->trained_s : 1),
           times, waits);
  if (with_bar)
    ct_log_progress(text);
  else
    ct_log(CT_LOG_INFO, "%s", text);
}

void ct__shown_told(ct__loop_t *l)
{
  l->shown.line_at = ct_clock();
  l->shown.seconds = l->shown.data_s = l->shown.comm_s = 0;
}

void ct__shown_step(ct__loop_t *l, double loss, const ct_step_report_t *r, int64_t total,
                    double seconds)
{
  ct__shown_t *p = &l->shown;
  if (l->topo->rank) return;
  double now = ct_clock();
  if (!p->first_at) p->first_at = p->line_at = now;
  p->seconds += seconds;
  p->data_s += r->data_s;
  p->comm_s += r->comm_exposed_s;
  if (ct_log_has_bar()) {
    if (now - p->bar_at < 0.1 && l->at.step != total) return;
    p->bar_at = now;
    tell(l, loss, total, now, 1);
  } else if (l->o->run->log_s > 0 && now - p->line_at >= l->o->run->log_s) {
    tell(l, loss, total, now, 0);
    ct__shown_told(l);
  }
}
