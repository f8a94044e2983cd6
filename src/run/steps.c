/* Training steps: a feed and a trainer. */
#include "run/ct_steps.h"

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"

int ct_steps_open(ct_trainer_t *t, const ct_dataset_t *d, const ct_sampler_t *order, int64_t epoch,
                  int64_t cursor, int workers, ct_steps_t *out)
{
  int rc = CT_OK;
  ct_feed_opts_t o = ct_trainer_feed_opts(t, 1);
  *out = (ct_steps_t){.t = t, .order = *order, .epoch = epoch, .cursor = cursor};
  if (o.size == 0) return CT_OK;
  o.epoch = epoch;
  o.cursor = cursor;
  o.workers = workers;
  CT_TRY(ct_feed_open(d, &out->order, &o, &out->feed));
  ct_trainer_follow(t, ct_trainer_feed(out->feed));
out:
  return rc;
}

static const ct_batch_t *kept_batch(void *ctx)
{
  const ct_steps_t *s = ctx;
  return s->kept;
}

int ct_steps_keep(ct_steps_t *s, int copies)
{
  ct_step_report_t unused = {0};
  const ct_batch_t *b;
  int rc = ct_steps_take(s, s->epoch, s->cursor, &b, &unused);
  if (rc != CT_OK) return rc;
  s->kept = b;
  ct_trainer_follow(s->t, (ct_prefetch_t){s->feed ? kept_batch : NULL, s, !copies});
  return CT_OK;
}

int ct_steps_take(ct_steps_t *s, int64_t epoch, int64_t cursor, const ct_batch_t **out,
                  ct_step_report_t *r)
{
  int rc = CT_OK;
  const ct_batch_t *b = s->kept;
  double begin = ct_clock();
  s->none =
      (ct_batch_t){.epoch = epoch, .cursor = cursor, .global = ct_sampler_batch(&s->order, cursor)};
  ct_heartbeat_at("reading a batch", -1);
  if (!b && s->feed) rc = ct_feed_next(s->feed, &b);
  *out = b ? b : &s->none;
  r->data_s = ct_clock() - begin;
  return rc;
}

/* Begins the step at the position, and moves the position to the next one. */
static void steps_begin(ct_steps_t *s, const ct_schedule_point_t *at, const ct_step_report_t *r)
{
  const ct_batch_t *b;
  ct_step_report_t *report = &s->report[s->pending++];
  *report = *r;
  int fed = ct_steps_take(s, s->epoch, s->cursor, &b, report);
  ct_trainer_begin(s->t, b, fed, at, report);
  if (s->kept) return;
  s->cursor += s->none.global;
  if (s->cursor < ct_sampler_epoch(&s->order)) return;
  s->cursor = 0;
  s->epoch++;
}

static int steps_end(ct_steps_t *s, ct_step_status_t *status, ct_step_report_t *r)
{
  int rc = ct_trainer_end(s->t, status, &s->report[0]);
  *r = s->report[0];
  s->report[0] = s->report[1];
  s->pending--;
  return rc;
}

int ct_steps_next(ct_steps_t *s, const ct_schedule_point_t *at, ct_step_status_t *status,
                  ct_step_report_t *r, int64_t *samples)
{
  int rc = CT_OK;
  while (s->pending <= s->lag)
    steps_begin(s, at, r);
  if (samples) *samples = s->none.global;
  CT_TRY(steps_end(s, status, r));
  ct_heartbeat_progress();
out:
  return rc;
}

int ct_steps_settle(ct_steps_t *s)
{
  int rc = CT_OK;
  while (s->pending) {
    ct_step_status_t status = {0};
    ct_step_report_t report;
    CT_TRY(steps_end(s, &status, &report));
  }
out:
  return rc;
}

void ct_steps_close(ct_steps_t *s)
{
  if (s->t) ct_trainer_follow(s->t, (ct_prefetch_t){0});
  ct_feed_close(s->feed);
  *s = (ct_steps_t){0};
}
