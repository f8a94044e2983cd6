/* Calibration: runs the batches twice, first for the minimum and maximum at each observation point,
 * then for a histogram between them.  After each pass the ranks combine their results. */
#include "quant/ct_calibrate.h"

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "model/ct_observe.h"

typedef struct looking {
  ct_trainer_t *t;
  const ct_graph_t *g;
  const ct_calibration_t *c;
  ct_range_t *range; /* per parameter; used only for parameters that are ranges */
  int again;         /* 1: second pass */
  int64_t samples;
} looking_t;

static int see(void *ctx, int param, const float *x, int64_t padded, int64_t count)
{
  const looking_t *l = ctx;
  if (l->again) {
    ct_range_count(&l->range[param], x, padded);
    ct_range_discount(&l->range[param], padded - count);
  } else {
    ct_range_widen(&l->range[param], x, padded);
  }
  return CT_OK;
}

static int observe_batch(looking_t *l, ct_feed_t *feed)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  ct_heartbeat_at("calibration", -1);
  CT_TRY(ct_feed_next(feed, &b));
  if (!b) return CT_OK;
  l->samples += l->again ? 0 : b->n;
  if (b->n) CT_TRY(ct_trainer_observe(l->t, b, see, l));
out:
  return rc;
}

static int calibrate_look(looking_t *l)
{
  int rc = CT_OK;
  const ct_topo_t *topo = ct_trainer_topo(l->t);
  ct_feed_t *feed = NULL;
  ct_feed_opts_t o = ct_trainer_feed_opts(l->t, 0);
  ct_sampler_t any = {
      .seed = l->c->seed, .samples = l->c->data->info.samples, .batch = l->c->batch, .shuffle = 1};
  int64_t batches = ct_sampler_steps(&any);
  o.workers = l->c->workers;
  o.one_epoch = 1;
  CT_TRY_ALL(topo, ct_feed_open(l->c->data, &any, &o, &feed));
  if (l->c->batches < batches) batches = l->c->batches;
  for (int64_t i = 0; i < batches; i++)
    CT_TRY_ALL(topo, observe_batch(l, feed));
out:
  ct_feed_close(feed);
  return rc;
}

static int share_ends(const looking_t *l)
{
  int rc = CT_OK;
  for (int i = 0; i < l->g->params; i++) {
    double ends[] = {-l->range[i].low, l->range[i].high};
    if (!ct_observed_is_range(l->g, i)) continue;
    CT_TRY(ct_agree_doubles(ct_trainer_topo(l->t), ends, 2, 1));
    l->range[i].low = -ends[0];
    l->range[i].high = ends[1];
  }
out:
  return rc;
}

static int calibrate_choose(const looking_t *l)
{
  int rc = CT_OK;
  const ct_topo_t *topo = ct_trainer_topo(l->t);
  for (int i = 0; i < l->g->params; i++) {
    float range[2];
    if (!ct_observed_is_range(l->g, i)) continue;
    ct_agree_sum(topo, l->range[i].bin, CT_RANGE_BINS);
    ct_range_choose(&l->range[i], l->c->method, l->c->percent, range);
    CT_TRY_ALL(topo, ct_trainer_set(l->t, i, range));
  }
out:
  return rc;
}

int ct_calibrate(ct_trainer_t *t, const ct_graph_t *g, const ct_calibration_t *c, int64_t *samples)
{
  int rc = CT_OK;
  const ct_topo_t *topo = ct_trainer_topo(t);
  looking_t l = {.t = t, .g = g, .c = c};
  l.range = ct_mem_array(g->params + 1, sizeof *l.range, "histograms");
  CT_TRY_ALL(topo, l.range ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(calibrate_look(&l));
  CT_TRY(share_ends(&l));
  l.again = 1;
  CT_TRY(calibrate_look(&l));
  CT_TRY(calibrate_choose(&l));
  ct_agree_sum(topo, &l.samples, 1);
  *samples = l.samples;
out:
  ct_mem_free(l.range);
  return rc;
}
