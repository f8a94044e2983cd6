/* Timing of forward passes on one batch that stays in memory. */
#include "bench/ct_forward_timing.h"

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

enum { FEWEST = 3, MOST = 50 };
static const double SECONDS = 2;

static int64_t first_batch(const ct_setup_t *s)
{
  ct_sampler_t in_order = {.samples = s->val.info.samples, .batch = s->cfg.data.eval_batch};
  return ct_sampler_batch(&in_order, 0);
}

int ct_passes_batch(const ct_setup_t *s, ct_feed_t **feed, const ct_batch_t **out)
{
  int rc = CT_OK;
  ct_sampler_t in_order = {.samples = s->val.info.samples, .batch = s->cfg.data.eval_batch};
  ct_feed_opts_t o = ct_trainer_feed_opts(s->trainer, 0);
  o.one_epoch = 1;
  CT_TRY(ct_feed_open(&s->val, &in_order, &o, feed));
  CT_TRY(ct_feed_next(*feed, out));
out:
  return rc;
}

static int run_one(const ct_setup_t *s, const ct_batch_t *b, double *seconds)
{
  int rc = CT_OK;
  ct_loss_t none = {0};
  double begin = ct_clock();
  CT_TRY(ct_agree(s->topo, b->n ? ct_trainer_forward(s->trainer, b, &none) : CT_OK));
  *seconds = ct_clock() - begin;
  CT_TRY(ct_agree_doubles(s->topo, seconds, 1, 1));
out:
  return rc;
}

int ct_passes_run(const ct_setup_t *s, const ct_batch_t *b, int warmup, int n, ct_passes_t *out)
{
  int rc = CT_OK;
  double unused;
  *out = (ct_passes_t){.n = n, .batch = first_batch(s)};
  out->pass = ct_mem_array(n, sizeof *out->pass, "timings");
  CT_TRY_ALL(s->topo, out->pass ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < warmup; i++)
    CT_TRY(run_one(s, b, &unused));
  for (int i = 0; i < n; i++)
    CT_TRY(run_one(s, b, &out->pass[i]));
  out->median = ct_clock_median(out->pass, n);
out:
  return rc;
}

int ct_passes_rate(const ct_setup_t *s, double *out)
{
  int rc = CT_OK;
  ct_feed_t *feed = NULL;
  const ct_batch_t *batch;
  ct_passes_t p = {0};
  CT_TRY_ALL(s->topo, ct_passes_batch(s, &feed, &batch));
  CT_TRY(ct_passes_run(s, batch, 1, 1, &p)); /* a first pass shows how many fit into the time */
  double fit = SECONDS / p.median;
  ct_passes_clear(&p);
  CT_TRY(ct_passes_run(s, batch, 0, fit > MOST ? MOST : fit < FEWEST ? FEWEST : (int)fit, &p));
  *out = (double)p.batch / p.median;
out:
  ct_passes_clear(&p);
  ct_feed_close(feed);
  return rc;
}

void ct_passes_clear(ct_passes_t *p)
{
  ct_mem_free(p->pass);
  *p = (ct_passes_t){0};
}
