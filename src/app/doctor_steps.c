/* `doctor --steps N`: steps as a run makes them, and how long they wait for their samples. */
#include "app/doctor_steps.h"

#include "base/ct_beat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "comm/ct_agree.h"

static int open_feed(ct_setup_t *s, const ct_sampler_t *order, ct_feed_t **feed)
{
  int rc = CT_OK;
  ct_feed_opts_t o = ct_trainer_feed_opts(s->trainer, 1);
  o.workers = (int)s->cfg.data.workers;
  if (o.size == 0) return CT_OK; /* rank 0 has all samples */
  CT_TRY(ct_feed_open(&s->data, order, &o, feed));
  ct_trainer_follow(s->trainer, ct_trainer_feed(*feed));
out:
  return rc;
}

/* *cursor: where the next step begins in its epoch. */
static int one_step(ct_setup_t *s, const ct_sampler_t *order, ct_feed_t *feed, int64_t *cursor,
                    ct_doctor_steps_t *sum)
{
  int rc = CT_OK;
  ct_step_word_t word = {0};
  ct_step_report_t report = {0};
  const ct_batch_t *b = NULL;
  ct_batch_t none = {.cursor = *cursor, .global = ct_sampler_batch(order, *cursor)};
  double begin = ct_clock();
  int fed = feed ? ct_feed_next(feed, &b) : CT_OK;
  report.data_s = ct_clock() - begin;
  CT_TRY(
      ct_trainer_step(s->trainer, b ? b : &none, fed, &(ct_schedule_point_t){0}, &word, &report));
  *cursor = (*cursor + none.global) % order->samples;
  sum->steps++;
  sum->seconds += ct_step_times_all(&report.times);
  sum->wait_s += word.time_max.s[CT_TIME_DATA];
  ct_beat_progress();
out:
  return rc;
}

/* Batches that are ready before the first step do not count. */
static int run(ct_setup_t *s, const ct_sampler_t *order, ct_feed_t *feed, int64_t steps,
               ct_doctor_steps_t *out)
{
  int rc = CT_OK;
  int64_t cursor = 0, before = s->cfg.data.workers + 3;
  ct_beat_at("trying some steps", -1);
  for (int64_t i = -before; i < steps; i++) {
    if (i == 0) *out = (ct_doctor_steps_t){0};
    CT_TRY(one_step(s, order, feed, &cursor, out));
  }
out:
  return rc;
}

int ct_doctor_steps(ct_setup_t *s, int64_t steps, ct_doctor_steps_t *out)
{
  int rc = CT_OK;
  int64_t devices = s->dev != NULL;
  ct_sampler_t order;
  ct_feed_t *feed = NULL;
  *out = (ct_doctor_steps_t){0};
  ct_agree_sum(s->topo, &devices, 1);
  if (devices < s->topo->size)
    CT_FAIL(CT_ERR_DEVICE, "--steps: %lld of %d ranks have no device to try steps on",
            (long long)(s->topo->size - devices), s->topo->size);
  CT_TRY(ct_setup_comm(s));
  CT_TRY(ct_setup_trainer(s, 1));
  CT_TRY(ct_setup_order(s, &order));
  CT_TRY_ALL(s->topo, open_feed(s, &order, &feed));
  CT_TRY(run(s, &order, feed, steps, out));
out:
  if (s->trainer) ct_trainer_follow(s->trainer, (ct_look_t){0});
  ct_feed_close(feed);
  return rc;
}
