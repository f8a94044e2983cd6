/* Decides when to stop.  A signal may reach any rank, and only rank 0 compares its clock with the
 * end of the job.  Signal and end of the job both become a stop request in the step status, so that
 * all ranks stop after the same step. */
#include "run/loop.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include <math.h>
#include <stdio.h>
#include <time.h>

int ct__stop_policy_open(ct__loop_t *l)
{
  int rc = CT_OK;
  char when[32] = "", left[32], save[32];
  struct tm tm;
  CT_TRY(ct_walltime_open(l->o->job->walltime, &l->topo->job, &l->walltime));
  if (!l->walltime.source) return CT_OK;
  time_t end = (time_t)l->walltime.end_s;
  if (localtime_r(&end, &tm)) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
  ct_log(CT_LOG_INFO,
         "the job ends at %s, in %s (%s); stopping early enough for one step, one checkpoint and a "
         "margin of %g s (until the first checkpoint is written, it is estimated to take %s)",
         when, ct_text_seconds(ct_walltime_left_now(&l->walltime), left, sizeof left),
         l->walltime.source, l->o->job->margin_s,
         ct_text_seconds(ct__checkpointing_seconds(l), save, sizeof save));
out:
  return rc;
}

/* \a pending: steps that have been begun. */
static int64_t by_walltime(const ct__loop_t *l, double slow_s, int pending)
{
  if (l->topo->rank || !l->walltime.source) return 0;
  double left_s = ct_walltime_left_now(&l->walltime) - pending * slow_s;
  ct_walltime_need_t need = {.step_s = slow_s,
                             .save_s = ct__checkpointing_seconds(l),
                             .writing = l->ckpt && ct_ckpt_busy(l->ckpt),
                             .margin_s = l->o->job->margin_s};
  if (!ct_walltime_is_last(left_s, &need)) return 0;
  return ct_stop_pack((ct_stop_t){.reason = CT_STOP_WALLTIME});
}

int64_t ct__stop_policy_before_step(const ct__loop_t *l)
{
  return by_walltime(l, l->slow_step_s, l->pending);
}

static int64_t ask(void *ctx)
{
  ct__stop_policy_asker_t *a = ctx;
  double now = ct_clock();
  a->slow_batch_s = ct_walltime_slowest(a->slow_batch_s, now - a->asked_at);
  a->asked_at = now;
  return ct_stop_with_signal(by_walltime(a->l, a->slow_batch_s, 0), a->l->topo->rank);
}

ct_ask_t ct__stop_policy_during(const ct__loop_t *l, ct__stop_policy_asker_t *a)
{
  *a = (ct__stop_policy_asker_t){.l = l, .asked_at = ct_clock()};
  return (ct_ask_t){.stop = ask, .ctx = a};
}

/* Warns after the first step if no time is left for another one: the next job would not make
 * progress either. */
static void warn_of_short_time(const ct__loop_t *l)
{
  char start[32], save[32];
  if (l->at.step != l->begun_step + 1) return;
  ct_log(CT_LOG_WARN,
         "the job's time is enough for one step only: the start took %s, a checkpoint is estimated "
         "to take %s, and job.margin_s is %g; request more time",
         ct_text_seconds(ct_clock_since_exec() - (ct_clock() - l->begin), start, sizeof start),
         ct_text_seconds(ct__checkpointing_seconds(l), save, sizeof save), l->o->job->margin_s);
}

void ct__stop_policy_log(const ct__loop_t *l, int64_t stop, const char *now)
{
  char who[64], left[32];
  ct_stop_t s = ct_stop_unpack(stop);
  ct_stop_first_report();
  if (s.reason == CT_STOP_WALLTIME)
    snprintf(who, sizeof who, "the job ends in %s",
             ct_text_seconds(fmax(0, ct_walltime_left_now(&l->walltime)), left, sizeof left));
  else
    ct_stop_text(s, who, sizeof who);
  ct_log(CT_LOG_INFO, "%s: stopping after step %lld%s", who, (long long)l->at.step, now);
  if (s.reason == CT_STOP_WALLTIME) warn_of_short_time(l);
}
