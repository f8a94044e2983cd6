/* `bench io`: how fast samples are read, converted and transformed, as in training but without a
 * model. */
#include <stdio.h>

#include "app/commands.h"
#include "app/setup.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_json.h"

typedef struct rates {
  int ranks, threads; /* threads: of a rank, that make batches */
  int64_t batch, samples;
  double seconds, all;
  char from[80], to[64]; /* shapes of a sample: stored, and as the model sees it */
} rates_t;

/* Batches that are ready before the clock starts do not count: those of an open feed's slots. */
static int run(ct_feed_t *f, int skip, double seconds, rates_t *r)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  for (int i = 0; i < skip; i++)
    CT_TRY(ct_feed_next(f, &b));
  double begin = ct_clock();
  do {
    CT_TRY(ct_feed_next(f, &b));
    r->samples += b->n;
    r->seconds = ct_clock() - begin;
  } while (r->seconds < seconds);
out:
  return rc;
}

static int measure(const ct_setup_t *s, const ct_sampler_t *order, double seconds, rates_t *r)
{
  int rc = CT_OK;
  ct_feed_t *f = NULL;
  int workers = (int)s->cfg.data.workers;
  CT_TRY(ct_feed_open(
      &s->data, order,
      &(ct_feed_opts_t){.rank = s->topo->rank, .size = s->topo->size, .workers = workers}, &f));
  CT_TRY(run(f, workers + 2, seconds, r));
out:
  ct_feed_close(f);
  return rc;
}

static void describe(const ct_setup_t *s, rates_t *r)
{
  char shape[64];
  int64_t dim[CT_MAX_DIMS] = {1, 1, 1, 1, 1};
  const ct_shape_t *stored = &s->data.info.x, *x = &s->data.x;
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

static int as_json(const rates_t *r, ct_str_t *out)
{
  json_t *o = json_pack("{s:i, s:i, s:I, s:s, s:s, s:f, s:f, s:f}", "ranks", r->ranks, "threads",
                        r->threads, "batch", (json_int_t)r->batch, "stored", r->from, "sample",
                        r->to, "seconds", r->seconds, "samples_per_s", r->all,
                        "samples_per_s_per_thread", r->all / (r->ranks * r->threads));
  int rc = ct_json_add(o, out);
  json_decref(o);
  return rc;
}

static int as_text(const rates_t *r, ct_str_t *out)
{
  return ct_str_add(out,
                    "%d rank%s x %d reading thread%s, global batch %lld, %.1f s\n"
                    "  sample          %s to float32 %s\n"
                    "  samples/s       %.1f\n"
                    "  per thread      %.1f\n",
                    r->ranks, r->ranks == 1 ? "" : "s", r->threads, r->threads == 1 ? "" : "s",
                    (long long)r->batch, r->seconds, r->from, r->to, r->all,
                    r->all / (r->ranks * r->threads));
}

static int print(const rates_t *r, int json)
{
  int rc = CT_OK;
  ct_str_t out = {0};
  CT_TRY(json ? as_json(r, &out) : as_text(r, &out));
  CT_TRY(ct_app_print(out.data));
out:
  ct_str_clear(&out);
  return rc;
}

/* The sum of what each rank reached on its own clock. */
static void add_up(const ct_topo_t *topo, rates_t *r)
{
  enum { PARTS = 1000 };
  int64_t rate = (int64_t)(PARTS * (double)r->samples / r->seconds);
  ct_agree_sum(topo, &rate, 1);
  r->all = (double)rate / PARTS;
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
  CT_TRY(ct_setup_stage(&s));
  rates_t r = {.ranks = topo->size,
               .threads = s.cfg.data.workers > 0 ? (int)s.cfg.data.workers : 1,
               .batch = s.cfg.data.batch};
  describe(&s, &r);
  CT_TRY_ALL(topo, measure(&s, &order, (double)seconds, &r));
  add_up(topo, &r);
  CT_TRY_ALL(topo, topo->rank == 0 ? print(&r, ct_args_get(a, "json") != NULL) : CT_OK);
out:
  ct_setup_close(&s);
  return rc;
}
