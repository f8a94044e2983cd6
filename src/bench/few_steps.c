/* The feed and the trainer, and nothing else of a run. */
#include "bench/ct_few_steps.h"

#include "base/ct_heartbeat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "comm/ct_agree.h"

static int open_feed(ct_few_steps_t *f)
{
  int rc = CT_OK;
  ct_feed_opts_t o = ct_trainer_feed_opts(f->s->trainer, 1);
  o.workers = (int)f->s->cfg.data.workers;
  if (o.size == 0) return CT_OK; /* rank 0 has all samples */
  CT_TRY(ct_feed_open(&f->s->data, &f->order, &o, &f->feed));
  ct_trainer_follow(f->s->trainer, ct_trainer_feed(f->feed));
out:
  return rc;
}

int ct_few_steps_open(ct_setup_t *s, ct_few_steps_t *out)
{
  int rc = CT_OK;
  *out = (ct_few_steps_t){.s = s};
  CT_TRY(ct_setup_order(s, &out->order));
  CT_TRY(ct_trainer_check_batches(s->trainer, ct_sampler_epoch(&out->order), out->order.batch));
  CT_TRY_ALL(s->topo, open_feed(out));
out:
  return rc;
}

int ct_few_steps_next(ct_few_steps_t *f, const ct_schedule_point_t *at, ct_step_word_t *word,
                      ct_step_report_t *report)
{
  int rc = CT_OK;
  const ct_batch_t *b = NULL;
  ct_batch_t none = {.cursor = f->cursor, .global = ct_sampler_batch(&f->order, f->cursor)};
  double begin = ct_clock();
  int fed = f->feed ? ct_feed_next(f->feed, &b) : CT_OK;
  report->data_s = ct_clock() - begin;
  CT_TRY(ct_trainer_step(f->s->trainer, b ? b : &none, fed, at, word, report));
  f->cursor = (f->cursor + none.global) % ct_sampler_epoch(&f->order);
  ct_beat_progress();
out:
  return rc;
}

void ct_few_steps_close(ct_few_steps_t *f)
{
  if (f->s && f->s->trainer) ct_trainer_follow(f->s->trainer, (ct_look_t){0});
  ct_feed_close(f->feed);
  *f = (ct_few_steps_t){0};
}
