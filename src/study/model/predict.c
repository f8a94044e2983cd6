/* Predicts the step of a configuration that was not measured, with an error band. */
#include <math.h>

#include "base/ct_err.h"
#include "study/model/scaling.h"

double ct__scaling_exposed(const ct_scaling_t *m, const ct__scaling_messages_t *q)
{
  ct_timeline_case_t c = {.local_ranks = q->local_ranks,
                          .nodes = q->nodes,
                          .compute_s = q->compute_s,
                          .bucket_bytes = q->bucket_bytes,
                          .piece_bytes = CT_TIMELINE_PIECE,
                          .under_way = CT_TIMELINE_UNDER_WAY,
                          .algorithm = q->algorithm,
                          .inside = q->inside,
                          .between = q->between};
  ct_comm_cost_t word =
      ct_comm_cost(CT_COMM_ALL_REDUCE, CT_COMM_HALVING, q->nodes > 1 ? q->nodes : q->local_ranks);
  double alpha = q->nodes > 1 ? q->between.alpha_s : q->inside.alpha_s;
  return ct_timeline_run(&m->timeline, &c) - q->compute_s + word.rounds * alpha;
}

/* Returns the compute time at a local batch: linear between the two nearest measured batches, also
 * outside their range; proportional to the batch if only one was measured. */
static double compute_s(const ct_scaling_t *m, double batch)
{
  const ct_scaling_busy_t *b = m->busy;
  if (m->busys == 1) return b->compute_s * batch / b->local_batch;
  int i = 0;
  while (i + 2 < m->busys && b[i + 1].local_batch < batch)
    i++;
  double slope = (b[i + 1].compute_s - b[i].compute_s) / (b[i + 1].local_batch - b[i].local_batch);
  double s = b[i].compute_s + slope * (batch - b[i].local_batch);
  return fmax(s, 0.25 * b[0].compute_s * fmin(1, batch / b[0].local_batch));
}

/* Returns the busy time besides compute: that of the largest configuration; without communication
 * overhead for a single rank. */
static double own_s(const ct_scaling_t *m, int ranks)
{
  double all = ct_step_times_busy(&m->own);
  return ranks > 1 ? all : all - m->own.s[CT_TIME_MOVE];
}

static double or_else(double asked, double otherwise)
{
  return asked > 0 ? asked : otherwise;
}

static double usual_batch(const ct_scaling_t *m, int ranks)
{
  const ct_study_size_t *base = m->base;
  return ct_study_is_weak(m->study) ? base->local_batch : base->batch / ranks;
}

static int messages(const ct_scaling_t *m, const ct_scaling_ask_t *ask,
                    const ct_scaling_prediction_t *a, ct__scaling_messages_t *q)
{
  int rc = CT_OK;
  double faster = or_else(ask->faster, 1);
  int local = ask->local_ranks > 0 ? ask->local_ranks : m->local_ranks;
  *q = (ct__scaling_messages_t){.local_ranks = a->ranks < local ? a->ranks : local,
                                .nodes = a->nodes,
                                .bucket_bytes = or_else(ask->bucket_bytes, m->bucket_bytes),
                                .algorithm = ask->algorithm ? ask->algorithm - 1 : m->algorithm,
                                .inside = m->inside,
                                .between = m->between};
  if (q->nodes > 1 && q->between.bytes_per_s <= 0)
    CT_FAIL(CT_ERR_USAGE,
            "%d ranks on %d nodes cannot be predicted: the study has to "
            "measure a configuration on several nodes",
            a->ranks, a->nodes);
  if (q->local_ranks > 1 && q->inside.bytes_per_s <= 0) /* included in the fit between nodes */
    q->inside = (ct_link_t){0, INFINITY};
  q->between.alpha_s /= faster;
  q->between.bytes_per_s *= faster;
out:
  return rc;
}

static void add_messages(const ct_scaling_t *m, const ct__scaling_messages_t *q,
                         ct_scaling_prediction_t *a)
{
  ct__scaling_messages_t free_of_latency = *q;
  free_of_latency.inside.alpha_s = free_of_latency.between.alpha_s = 0;
  double all = ct__scaling_exposed(m, q), bytes = ct__scaling_exposed(m, &free_of_latency);
  a->terms.s[CT_TERM_BANDWIDTH] = fmin(bytes, all);
  a->terms.s[CT_TERM_LATENCY] = fmax(all - bytes, 0);
}

static void add_busy(const ct_scaling_t *m, double compute, ct_scaling_prediction_t *a)
{
  const ct_study_means_t *base = &m->base->breakdown.mean;
  double ratio = a->batch / m->base->batch * m->base->ranks / a->ranks;
  double *t = a->terms.s, own = own_s(m, a->ranks), busy = compute + own;
  double move = a->ranks > 1 ? m->own.s[CT_TIME_MOVE] : 0;
  t[CT_TERM_IDEAL] = ratio * base->step_s;
  t[CT_TERM_SLOWER] = compute - ratio * base->kinds.s[CT_TIME_COMPUTE];
  t[CT_TERM_MOVE] = move - ratio * base->kinds.s[CT_TIME_MOVE];
  t[CT_TERM_DATA] = m->own.s[CT_TIME_DATA] - ratio * base->kinds.s[CT_TIME_DATA];
  t[CT_TERM_UPDATE] = m->own.s[CT_TIME_UPDATE] - ratio * base->kinds.s[CT_TIME_UPDATE];
  t[CT_TERM_SAVE] = m->own.s[CT_TIME_SAVE] - ratio * base->kinds.s[CT_TIME_SAVE];
  t[CT_TERM_OTHER] = m->own.s[CT_TIME_OTHER] - ratio * base->kinds.s[CT_TIME_OTHER];
  t[CT_TERM_RANDOM] = m->sigma * busy * ct_timeline_largest_of(a->ranks) - ratio * base->random_s;
  t[CT_TERM_STEADY] = (a->ranks > 1 ? m->steady * busy : 0) - ratio * base->steady_s;
  t[CT_TERM_TRANSFER] = -ratio * base->transfer_s;
}

double ct_scaling_band(const ct_scaling_t *m, int ranks)
{
  double least = fmax(0.02, m->fit_error), error = fmax(least, fabs(m->left_out));
  if (!m->left_ranks) /* no configuration was left out: the error is unknown */
    return least * (1 + fmax(0, log2((double)ranks / m->largest)));
  if (ranks <= m->largest) return error;
  return error *
         fmax(1, log((double)ranks / m->largest) / log((double)m->left_ranks / m->left_from));
}

int ct_scaling_predict(const ct_scaling_t *m, const ct_scaling_ask_t *ask,
                       ct_scaling_prediction_t *out)
{
  int rc = CT_OK, local = ask->local_ranks > 0 ? ask->local_ranks : m->local_ranks;
  ct__scaling_messages_t q;
  *out = (ct_scaling_prediction_t){.ranks = ask->ranks, .nodes = (ask->ranks + local - 1) / local};
  out->local_batch = or_else(ask->local_batch, usual_batch(m, ask->ranks));
  out->batch = out->local_batch * ask->ranks;
  CT_TRY(messages(m, ask, out, &q));
  q.compute_s = compute_s(m, out->local_batch);
  add_busy(m, q.compute_s, out);
  if (ask->ranks > 1) add_messages(m, &q, out);
  out->step_s = ct_terms_all(&out->terms);
  double band = ct_scaling_band(m, ask->ranks);
  out->low_s = out->step_s * (1 - fmin(band, 0.95));
  out->high_s = out->step_s * (1 + band);
  out->efficiency = out->terms.s[CT_TERM_IDEAL] / out->step_s;
  out->samples_per_s = out->batch / out->step_s;
out:
  return rc;
}

int ct_scaling_best_bucket(const ct_scaling_t *m, const ct_scaling_ask_t *ask, double *bytes)
{
  int rc = CT_OK;
  double least = INFINITY;
  *bytes = 0;
  for (double b = 256 << 10; b <= 256 << 20; b *= 2) {
    ct_scaling_ask_t with = *ask;
    ct_scaling_prediction_t p;
    with.bucket_bytes = b;
    CT_TRY(ct_scaling_predict(m, &with, &p));
    if (p.step_s < least * (1 - 1e-9)) {
      least = p.step_s;
      *bytes = b;
    }
  }
out:
  return rc;
}

/* Doubles the nodes until the efficiency is below the limit, then bisects. */
int ct_scaling_knee(const ct_scaling_t *m, double efficiency, int most, ct_scaling_prediction_t *at)
{
  int low = 0, high = 1; /* in nodes */
  ct_scaling_prediction_t p;
  for (;; high *= 2) {
    ct_scaling_ask_t ask = {.ranks = high * m->local_ranks};
    if (ask.ranks > most || ct_scaling_predict(m, &ask, &p) != CT_OK) return 0;
    if (p.efficiency < efficiency) break;
    low = high;
  }
  *at = p;
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    ct_scaling_ask_t ask = {.ranks = middle * m->local_ranks};
    if (ct_scaling_predict(m, &ask, &p) != CT_OK) break;
    if (p.efficiency < efficiency) {
      high = middle;
      *at = p;
    } else {
      low = middle;
    }
  }
  return at->ranks;
}
