/* Prediction: batches in order, each rank a contiguous part of the batch.  Rank 0 gathers the
 * outputs after each batch, so that no rank holds the outputs of all samples.  Of large outputs it
 * holds those of one sample. */
#include "eval/ct_predict.h"

#include <math.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

enum { MOST_GATHERED = 1 << 16 /* values of a rank's part of a batch */ };

typedef struct predicting {
  ct_trainer_t *t;
  const ct_topo_t *topo;
  const ct_predict_to_t *to;
  ct_sampler_t in_order;
  ct_feed_t *feed;
  int skip;        /* ct_dataset_t.skip */
  int64_t outputs; /* values per sample of all outputs together */
  int64_t most;    /* samples of the largest local batch */
  float *mine;     /* [most, outputs] */
  float *part;     /* [most, values of one output]; NULL: there is only one */
  float *all;      /* rank 0: the outputs of every rank, or of one sample */
  int each;        /* 1: rank 0 gets the outputs sample by sample, since they are large */
  char *lost;      /* [most], on rank 0 also of every rank: 1: sample could not be read */
  ct_skip_t *why;  /* [CT_SKIPS_LOGGED], on rank 0 also of every rank: why the samples could not be
                      read */
} predicting_t;

static int open_buffers(predicting_t *p, int workers, const ct_dataset_t *d)
{
  int rc = CT_OK;
  int64_t first;
  ct_feed_opts_t o = ct_trainer_feed_opts(p->t, 0);
  o.workers = workers;
  o.one_epoch = 1;
  p->most = ct_sampler_local_batch(&p->in_order, ct_sampler_batch(&p->in_order, 0), 0,
                                   p->topo->size, &first);
  p->each = p->most * p->outputs > MOST_GATHERED;
  CT_TRY(ct_feed_open(d, &p->in_order, &o, &p->feed));
  int64_t blocks = p->topo->rank == 0 ? p->topo->size : 0;
  int64_t at_once = p->each ? (p->topo->rank == 0) : blocks * p->most;
  p->mine = ct_mem_array(p->most * p->outputs, sizeof *p->mine, "the outputs");
  int several = ct_trainer_output_count(p->t) > 1;
  if (several) p->part = ct_mem_array(p->most * p->outputs, sizeof *p->part, "an output");
  p->all = ct_mem_array(at_once * p->outputs + 1, sizeof *p->all, "the outputs");
  p->lost = ct_mem_array((blocks + 1) * (p->most + 1), 1, "the samples that are lost");
  p->why = ct_mem_array((blocks + 1) * CT_SKIPS_LOGGED, sizeof *p->why, "why samples are lost");
  CT_TRY(p->mine && (p->part || !several) && p->all && p->lost && p->why ? CT_OK : CT_ERR_NOMEM);
out:
  return rc;
}

/* The batch contains another sample in place of each one that could not be read. */
static void note_lost(predicting_t *p, const ct_batch_t *b)
{
  memset(p->lost, 0, (size_t)p->most);
  memset(p->why, 0, CT_SKIPS_LOGGED * sizeof *p->why);
  if (!b || !b->skipped) return;
  for (int i = 0; i < b->n; i++)
    p->lost[i] = b->ids[i] != ct_sampler_at(&p->in_order, b->epoch, b->cursor + b->first + i);
  memcpy(p->why, b->skip, sizeof b->skip);
}

/* Rank 0: logs each lost sample, up to CT_SKIPS_LOGGED per rank. */
static void log_lost(const predicting_t *p)
{
  for (int r = 0; r < p->topo->size; r++) {
    const char *lost = p->lost + (r + 1) * p->most;
    const ct_skip_t *why = p->why + (r + 1) * CT_SKIPS_LOGGED;
    int n = 0;
    for (int64_t i = 0; i < p->most; i++)
      n += lost[i];
    for (int i = 0; i < n && i < CT_SKIPS_LOGGED; i++)
      ct_log(CT_LOG_WARN, "%s; it is skipped (data.on_error: skip)", why[i].why);
    if (n > CT_SKIPS_LOGGED)
      ct_log(CT_LOG_WARN, "%d more samples of this batch are skipped", n - CT_SKIPS_LOGGED);
  }
}

static int next_batch(predicting_t *p, const ct_batch_t **b)
{
  int rc = ct_feed_next(p->feed, b);
  if (!p->skip && (rc == CT_ERR_IO || rc == CT_ERR_FORMAT))
    ct_err_suffix("; --set data.on_error=skip continues without it");
  return rc;
}

/* Copies the outputs of n samples, those of a sample one after another. */
static int take_outputs(predicting_t *p, int64_t n)
{
  int rc = CT_OK, parts = ct_trainer_output_count(p->t);
  float *to = p->mine;
  if (parts == 1) return ct_trainer_logits(p->t, p->mine);
  for (int k = 0; k < parts; k++) {
    int64_t values = ct_trainer_output_values(p->t, k);
    CT_TRY(ct_trainer_output(p->t, k, p->part));
    for (int64_t i = 0; i < n; i++)
      memcpy(to + i * p->outputs, p->part + i * values, (size_t)values * sizeof *to);
    to += values;
  }
out:
  return rc;
}

/* Reads and evaluates this rank's part of the next batch. */
static int predict_forward(predicting_t *p)
{
  int rc = CT_OK;
  const ct_batch_t *b;
  ct_loss_t none = {0};
  ct_heartbeat_at("prediction", -1);
  CT_TRY(next_batch(p, &b));
  note_lost(p, b);
  if (!b || !b->n) goto out;
  CT_TRY(ct_trainer_forward(p->t, b, &none));
  CT_TRY(take_outputs(p, b->n));
out:
  return rc;
}

/* Rank 0: passes on the outputs of all ranks in the order of ranks; those of a rank begin at a
 * fixed distance after those of the previous one. */
static int hand_over(predicting_t *p, int64_t cursor)
{
  int64_t total = ct_sampler_batch(&p->in_order, cursor), first;
  for (int r = 0; r < p->topo->size; r++) {
    int64_t n = ct_sampler_local_batch(&p->in_order, total, r, p->topo->size, &first);
    memmove(p->all + first * p->outputs, p->all + r * p->most * p->outputs,
            (size_t)(n * p->outputs) * sizeof *p->all);
    memmove(p->lost + p->most + first, p->lost + (r + 1) * p->most, (size_t)n);
  }
  return p->to->take(p->to->ctx, cursor, total, p->all, p->lost + p->most);
}

/* The samples of a batch as they arrive at rank 0. */
typedef struct arriving {
  predicting_t *p;
  int64_t cursor, sample, filled; /* the sample of the batch, and its bytes that have arrived */
  int64_t first, n;               /* samples of the rank that sends */
  int rank, rc;
} arriving_t;

/* Takes a part of a rank's outputs, and passes on each sample that is complete. */
static void take_part(void *ctx, int rank, const void *data, size_t bytes)
{
  arriving_t *a = ctx;
  predicting_t *p = a->p;
  const int64_t whole = p->outputs * (int64_t)sizeof(float);
  const char *from = data;
  while (bytes > 0 && a->rc == CT_OK) {
    size_t n = (size_t)(whole - a->filled) < bytes ? (size_t)(whole - a->filled) : bytes;
    memcpy((char *)p->all + a->filled, from, n);
    from += n;
    bytes -= n;
    a->filled += (int64_t)n;
    if (a->filled < whole) break;
    if (rank != a->rank) a->first = a->sample;
    a->rank = rank;
    const char *lost = p->lost + (rank + 1) * p->most + (a->sample - a->first);
    a->rc = p->to->take(p->to->ctx, a->cursor + a->sample, 1, p->all, lost);
    a->sample++;
    a->filled = 0;
  }
}

/* Sends large outputs to rank 0, which holds those of one sample at a time. */
static int hand_over_each(predicting_t *p, int64_t cursor)
{
  int64_t total = ct_sampler_batch(&p->in_order, cursor), first;
  int64_t n = ct_sampler_local_batch(&p->in_order, total, p->topo->rank, p->topo->size, &first);
  arriving_t a = {.p = p, .cursor = cursor, .rank = -1};
  ct_agree_each(p->topo, p->mine, (size_t)(n * p->outputs) * sizeof *p->mine, take_part, &a);
  return a.rc;
}

static int predict_all(predicting_t *p, int own)
{
  int rc = CT_OK;
  const int bytes = p->each ? 0 : (int)((size_t)(p->most * p->outputs) * sizeof(float));
  CT_TRY(ct_agree(p->topo, own));
  ct_prefetch_t before = ct_trainer_follow(p->t, ct_trainer_feed(p->feed));
  for (int64_t at = 0; at < p->in_order.samples && rc == CT_OK; at += p->in_order.batch) {
    rc = ct_agree(p->topo, predict_forward(p));
    if (rc != CT_OK) break;
    if (!p->each) ct_agree_gather(p->topo, p->mine, bytes, p->all);
    ct_agree_gather(p->topo, p->lost, (int)p->most, p->lost + p->most);
    ct_agree_gather(p->topo, p->why, (int)(CT_SKIPS_LOGGED * sizeof *p->why),
                    p->why + CT_SKIPS_LOGGED);
    if (p->topo->rank == 0) log_lost(p);
    if (p->each)
      rc = hand_over_each(p, at);
    else
      rc = p->topo->rank == 0 ? hand_over(p, at) : CT_OK;
    rc = ct_agree(p->topo, rc);
  }
  ct_trainer_follow(p->t, before);
out:
  return rc;
}

static int64_t all_values(const ct_trainer_t *t)
{
  int64_t sum = 0;
  for (int k = 0; k < ct_trainer_output_count(t); k++)
    sum += ct_trainer_output_values(t, k);
  return sum;
}

int ct_predict(ct_trainer_t *t, const ct_dataset_t *d, int64_t batch, int workers,
               const ct_predict_to_t *to)
{
  predicting_t p = {.t = t,
                    .topo = ct_trainer_topo(t),
                    .to = to,
                    .skip = d->skip,
                    .in_order = {.samples = d->info.samples, .batch = batch},
                    .outputs = all_values(t)};
  int rc = predict_all(&p, open_buffers(&p, workers, d));
  ct_feed_close(p.feed);
  ct_mem_free(p.mine);
  ct_mem_free(p.part);
  ct_mem_free(p.all);
  ct_mem_free(p.lost);
  ct_mem_free(p.why);
  return rc;
}

/* ---- what outputs mean ---- */

static void softmax(int64_t k, int64_t places, float *v)
{
  double most = v[0], sum = 0;
  for (int64_t i = 1; i < k; i++)
    most = fmax(most, v[i * places]);
  for (int64_t i = 0; i < k; i++)
    sum += exp(v[i * places] - most);
  for (int64_t i = 0; i < k; i++)
    v[i * places] = (float)(exp(v[i * places] - most) / sum);
}

void ct_predict_finish(ct_loss_kind_t loss, int64_t n, int64_t k, int64_t places, float *outputs)
{
  for (int64_t i = 0; i < n * places && ct_loss_softmax(loss); i++)
    softmax(k, places, outputs + i / places * k * places + i % places);
  for (int64_t i = 0; i < n * k * places && ct_loss_sigmoid(loss); i++)
    outputs[i] = (float)(1 / (1 + exp(-(double)outputs[i])));
}

void ct_predict_top(const float *values, int64_t k, int top, int64_t *which)
{
  for (int t = 0; t < top; t++) {
    int64_t best = -1;
    for (int64_t i = 0; i < k; i++) {
      int taken = 0;
      for (int s = 0; s < t; s++)
        taken |= which[s] == i;
      if (!taken && (best < 0 || values[i] > values[best])) best = i;
    }
    which[t] = best;
  }
}
