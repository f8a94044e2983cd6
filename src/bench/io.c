/* `bench io`: measures how fast samples are read, decoded and transformed, as in training but
 * without a model. */
#include <stdio.h>

#include "bench/io_output.h"
#include "bench/ct_bench.h"
#include "setup/ct_setup.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "comm/ct_agree.h"

/* Adds the times of all feed threads so far; with sign -1, subtracts them. */
static void take_times(const ct_feed_t *f, int sign, ct_bench_io_t *r)
{
  const ct_io_times_t *t;
  for (int i = 0; (t = ct_feed_times(f, i)); i++) {
    ct_io_times_t now = {0};
    ct_io_add(&now, t);
    for (int k = 0; k < CT_IO_COUNT; k++) {
      r->ns[k] += sign * now.ns[k];
      r->times[k] += sign * now.times[k];
      r->bytes[k] += sign * now.bytes[k];
      r->thread_ns[i][k] += sign * now.ns[k];
    }
  }
}

/* Measures the feed for \a seconds.  The first \a skip batches are not counted, since the feed has
 * prefetched them. */
static int io_run(ct_feed_t *f, int skip, double seconds, ct_bench_io_t *r)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  for (int i = 0; i < skip; i++)
    CT_TRY(ct_feed_next(f, &b));
  take_times(f, -1, r);
  int64_t disk = ct_bench_io_disk();
  double begin = ct_clock();
  do {
    CT_TRY(ct_feed_next(f, &b));
    r->samples += b->n;
    r->seconds = ct_clock() - begin;
  } while (r->seconds < seconds);
  take_times(f, 1, r);
  r->disk = disk < 0 ? -1 : ct_bench_io_disk() - disk;
out:
  return rc;
}

static int io_measure(const ct_setup_t *s, const ct_sampler_t *order, double seconds,
                      ct_bench_io_t *r)
{
  int rc = CT_OK;
  ct_feed_t *f = NULL;
  int workers = (int)s->cfg.data.workers;
  CT_TRY(ct_feed_open(
      &s->data, order,
      &(ct_feed_opts_t){.rank = s->topo->rank, .size = s->topo->size, .workers = workers}, &f));
  CT_TRY(io_run(f, workers + 2, seconds, r));
out:
  ct_feed_close(f);
  return rc;
}

static void io_describe(const ct_setup_t *s, ct_bench_io_t *r)
{
  char shape[64];
  int64_t dim[CT_MAX_DIMS] = {1, 1, 1, 1, 1};
  const ct_shape_t *stored = &s->data.ops->info(s->data.reader)->x, *x = &s->data.x;
  for (int i = 1; i < stored->ndim; i++)
    dim[i - 1] = stored->dim[i];
  ct_shape_t sample = ct_shape_dims(stored->ndim - 1, dim);
  snprintf(r->from, sizeof r->from, "%s %s", ct_dtype_name(stored->dtype),
           ct_shape_text(&sample, shape, sizeof shape));
  for (int i = 1; i < x->ndim; i++)
    dim[i - 1] = x->dim[i];
  sample = ct_shape_dims(x->ndim - 1, dim);
  ct_shape_text(&sample, r->to, sizeof r->to);
}

static int io_print(const ct_bench_io_t *r, int json)
{
  int rc = CT_OK;
  ct_str_t out = {0};
  CT_TRY(json ? ct_bench_io_json(r, &out) : ct_bench_io_text(r, &out));
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  return rc;
}

/* Adds up the ranks' rates, each on its own clock, and their times by phase. */
static void add_up(const ct_topo_t *topo, ct_bench_io_t *r)
{
  enum { PARTS = 1000 };
  int64_t rate = (int64_t)(PARTS * (double)r->samples / r->seconds), unknown = r->disk < 0;
  ct_agree_sum(topo, &rate, 1);
  r->all = (double)rate / PARTS;
  ct_agree_sum(topo, r->ns, CT_IO_COUNT);
  ct_agree_sum(topo, r->times, CT_IO_COUNT);
  ct_agree_sum(topo, r->bytes, CT_IO_COUNT);
  ct_agree_sum(topo, &unknown, 1);
  ct_agree_sum(topo, &r->disk, 1);
  if (unknown) r->disk = -1;
}

/* Computes how well the order mixes blocks of several samples. */
static int mix(const ct_setup_t *s, const ct_sampler_t *order, ct_bench_io_t *r)
{
  enum { STEPS = 20 };
  int rc = CT_OK;
  ct_blocks_t *blocks = NULL;
  ct_sampler_t full = *order;
  full.shuffle = 1;
  full.blocks = NULL;
  CT_TRY(ct_dataset_blocks(&s->data, &blocks));
  if (ct_blocks_rows(blocks) < 2) goto out;
  CT_TRY(ct_sampler_mixing(order, blocks, 0, STEPS, &r->mates));
  CT_TRY(ct_sampler_mixing(&full, blocks, 0, STEPS, &r->full_mates));
out:
  ct_blocks_free(blocks);
  return rc;
}

static int report(const ct_setup_t *s, const ct_sampler_t *order, int json, ct_bench_io_t *r)
{
  int rc = CT_OK;
  if (s->topo->rank != 0) return rc;
  CT_TRY(mix(s, order, r));
  CT_TRY(io_print(r, json));
out:
  return rc;
}

int ct_cmd_bench_io(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  int64_t seconds, workers;
  ct_sampler_t order;
  ct_setup_t s = {.topo = topo, .without_loss = 1};
  (void)status;
  CT_TRY(ct_args_int(a, "seconds", 5, 1, 1000000, &seconds));
  CT_TRY(ct_args_int(a, "workers", -1, 0, 64, &workers));
  CT_TRY(ct_setup_config(&s, a->rest[1], a));
  if (workers >= 0) s.cfg.data.workers = workers;
  CT_TRY(ct_setup_data(&s, 1, 0));
  CT_TRY(ct_setup_order(&s, &order));
  CT_TRY(ct_setup_cache(&s));
  ct_bench_io_t r = {.ranks = topo->size,
                     .threads = s.cfg.data.workers > 0 ? (int)s.cfg.data.workers : 1,
                     .batch = s.cfg.data.batch};
  io_describe(&s, &r);
  CT_TRY_ALL(topo, io_measure(&s, &order, (double)seconds, &r));
  add_up(topo, &r);
  CT_TRY_ALL(topo, report(&s, &order, ct_args_get(a, "json") != NULL, &r));
out:
  ct_setup_close(&s);
  return rc;
}
