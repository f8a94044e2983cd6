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

int ct_steps_keep(ct_steps_t *s)
{
  ct_step_report_t unused = {0};
  const ct_batch_t *b;
  int rc = ct_steps_take(s, s->epoch, s->cursor, &b, &unused);
  if (rc != CT_OK) return rc;
  s->kept = b;
  ct_trainer_follow(s->t, (ct_prefetch_t){s->feed ? kept_batch : NULL, s});
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

int ct_steps_next(ct_steps_t *s, const ct_schedule_point_t *at, ct_step_status_t *status,
                  ct_step_report_t *r, int64_t *samples)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  int fed = ct_steps_take(s, s->epoch, s->cursor, &b, r);
  if (samples) *samples = s->none.global;
  CT_TRY(ct_trainer_step(s->t, b, fed, at, status, r));
  ct_heartbeat_progress();
  if (s->kept) return CT_OK;
  s->cursor += s->none.global;
  if (s->cursor < ct_sampler_epoch(&s->order)) return CT_OK;
  s->cursor = 0;
  s->epoch++;
out:
  return rc;
}

void ct_steps_close(ct_steps_t *s)
{
  if (s->t) ct_trainer_follow(s->t, (ct_prefetch_t){0});
  ct_feed_close(s->feed);
  *s = (ct_steps_t){0};
}
