/* AUC and R2.  AUC needs all scores of a class sorted, so rank 0 gathers them, one class after the
 * other.  R2 needs the sum of squares of the targets about their mean, which is known only at the
 * end: each rank accumulates mean and sum of its own samples, and these are combined over the ranks
 * (Chan, Golub and LeVeque 1983). */
#include "eval/ranking_metrics.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "eval/ct_eval_metrics.h"

int ct__ranking_open(ct__ranking_t *s, int64_t samples)
{
  int rc = CT_OK;
  if (s->classes) {
    s->score = ct_mem_array((samples + 1) * s->classes, sizeof *s->score, "eval.metrics: auc");
    s->label = ct_mem_array(samples + 1, sizeof *s->label, "eval.metrics: auc");
    s->cap = samples;
    CT_TRY(s->score && s->label ? CT_OK : CT_ERR_NOMEM);
  }
  if (s->outputs) {
    s->mean = ct_mem_array(3 * s->outputs, sizeof *s->mean, "eval.metrics: r2");
    CT_TRY(s->mean ? CT_OK : CT_ERR_NOMEM);
    s->spread = s->mean + s->outputs;
    s->residual = s->spread + s->outputs;
  }
out:
  return rc;
}

void ct__ranking_close(ct__ranking_t *s)
{
  ct_mem_free(s->score);
  ct_mem_free(s->label);
  ct_mem_free(s->mean);
  *s = (ct__ranking_t){0};
}

/* ---- of a batch ---- */

static void softmax(const float *x, int64_t n, float *to)
{
  double sum = 0, most = x[0];
  for (int64_t k = 1; k < n; k++)
    if (x[k] > most) most = x[k];
  for (int64_t k = 0; k < n; k++)
    sum += exp(x[k] - most);
  for (int64_t k = 0; k < n; k++)
    to[k] = (float)(exp(x[k] - most) / sum);
}

static void ranking_metrics_keep(ct__ranking_t *s, const float *out, int32_t label)
{
  float *to = s->score + s->n * s->classes;
  if (s->softmax)
    softmax(out, s->classes, to);
  else
    memcpy(to, out, sizeof *to * (size_t)s->classes);
  s->label[s->n++] = label;
}

/* Welford's update of the mean and the sum of squares. */
static void spread(ct__ranking_t *s, const float *target, const float *out)
{
  s->seen++;
  for (int64_t k = 0; k < s->outputs; k++) {
    double predicted = s->sigmoid ? 1 / (1 + exp(-(double)out[k])) : out[k];
    double from = target[k] - s->mean[k], missed = target[k] - predicted;
    s->mean[k] += from / (double)s->seen;
    s->spread[k] += from * (target[k] - s->mean[k]);
    s->residual[k] += missed * missed;
  }
}

void ct__ranking_batch(ct__ranking_t *s, const ct_batch_t *b, const float *out, int has_ignored,
                       int32_t ignored)
{
  for (int64_t i = 0; i < b->n; i++) {
    if (s->outputs) spread(s, b->targets + i * s->outputs, out + i * s->outputs);
    if (!s->classes || (has_ignored && b->labels[i] == ignored) || s->n == s->cap) continue;
    ranking_metrics_keep(s, out + i * s->classes, b->labels[i]);
  }
}

/* ---- of all ranks ---- */

typedef struct gathered {
  ct_scored_t *s;
  size_t bytes, cap;
} gathered_t;

static void ranking_metrics_take(void *ctx, int rank, const void *data, size_t bytes)
{
  gathered_t *g = ctx;
  (void)rank;
  if (bytes > g->cap - g->bytes) bytes = g->cap - g->bytes;
  memcpy((char *)g->s + g->bytes, data, bytes);
  g->bytes += bytes;
}

/* Rank 0: computes the AUC of one class against all others. */
static double auc_of(const ct__ranking_t *s, const ct_topo_t *topo, int64_t class,
                     ct_scored_t *mine, gathered_t *all)
{
  for (int64_t i = 0; i < s->n; i++)
    mine[i] = (ct_scored_t){s->score[i * s->classes + class], s->label[i] == class};
  all->bytes = 0;
  ct_agree_each(topo, mine, sizeof *mine * (size_t)s->n, ranking_metrics_take, all);
  return topo->rank ? NAN : ct_auc(all->s, (int64_t)(all->bytes / sizeof *all->s));
}

int ct__ranking_auc(ct__ranking_t *s, const ct_topo_t *topo, double *auc)
{
  int rc = CT_OK;
  int64_t n = s->n, from = s->classes == 2 ? 1 : 0, found = 0;
  double sum = 0;
  gathered_t all = {0};
  ct_agree_sum(topo, &n, 1);
  ct_scored_t *mine = ct_mem_array(s->n + 1, sizeof *mine, "eval.metrics: auc");
  all.cap = sizeof *all.s * (size_t)n;
  all.s = topo->rank ? mine : ct_mem_array(n + 1, sizeof *all.s, "eval.metrics: auc");
  CT_TRY(ct_agree(topo, mine && all.s ? CT_OK : CT_ERR_NOMEM));
  for (int64_t k = from; k < s->classes; k++) {
    double one = auc_of(s, topo, k, mine, &all);
    if (isnan(one)) continue;
    sum += one;
    found++;
  }
  double result[2] = {topo->rank ? 0 : sum, topo->rank ? 0 : (double)found};
  CT_TRY(ct_agree_doubles(topo, result, 2, 0));
  *auc = result[1] > 0 ? result[0] / result[1] : NAN;
out:
  if (!topo->rank) ct_mem_free(all.s);
  ct_mem_free(mine);
  return rc;
}

int ct__ranking_r2(ct__ranking_t *s, const ct_topo_t *topo, double *r2)
{
  int rc = CT_OK;
  int64_t n = s->seen, k;
  double *mean = ct_mem_array(s->outputs, sizeof *mean, "eval.metrics: r2");
  CT_TRY(ct_agree(topo, mean ? CT_OK : CT_ERR_NOMEM));
  ct_agree_sum(topo, &n, 1);
  for (k = 0; k < s->outputs; k++)
    mean[k] = s->mean[k] * (double)s->seen / (n ? (double)n : 1);
  CT_TRY(ct_agree_doubles(topo, mean, (int)s->outputs, 0));
  for (k = 0; k < s->outputs; k++) {
    double apart = s->mean[k] - mean[k];
    s->spread[k] += (double)s->seen * apart * apart;
  }
  CT_TRY(ct_agree_doubles(topo, s->spread, (int)(2 * s->outputs), 0)); /* spread and residual */
  *r2 = 0;
  for (k = 0; k < s->outputs; k++)
    *r2 += ct_r2(s->residual[k], s->spread[k]) / (double)s->outputs;
  if (n == 0) *r2 = NAN;
out:
  ct_mem_free(mean);
  return rc;
}
