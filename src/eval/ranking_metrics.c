/* AUC, average precision and R2.
 *
 * The first two need all scores of a class sorted, so rank 0 gathers them, one class after the
 * other.  R2 needs the sum of squares of the targets about their mean, which is known only at the
 * end: each rank accumulates mean and sum of its own samples, and these are combined over the
 * ranks (Chan, Golub and LeVeque 1983). */
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
    s->label = ct_mem_array((samples + 1) * (s->sets ? s->classes : 1), sizeof *s->label,
                            "eval.metrics: auc");
    s->cap = samples;
    CT_TRY(s->score && s->label ? CT_OK : CT_ERR_NOMEM);
  }
  if (s->outputs) {
    s->mean = ct_mem_array(4 * s->outputs, sizeof *s->mean, "eval.metrics: r2");
    CT_TRY(s->mean ? CT_OK : CT_ERR_NOMEM);
    s->spread = s->mean + s->outputs;
    s->residual = s->spread + s->outputs;
    s->seen = s->residual + s->outputs;
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

enum { UNKNOWN = -1 };

static void ranking_metrics_keep(ct__ranking_t *s, const ct__compared_t *b, int64_t i)
{
  const float *out = b->out + i * s->classes;
  float *to = s->score + s->n * s->classes;
  if (s->softmax)
    softmax(out, s->classes, to);
  else
    memcpy(to, out, sizeof *to * (size_t)s->classes);
  if (!s->sets) s->label[s->n] = b->labels[i];
  for (int64_t k = 0; s->sets && k < s->classes; k++) {
    float target = b->targets[i * s->classes + k];
    s->label[s->n * s->classes + k] = target == target ? target == 1 : UNKNOWN;
  }
  s->n++;
}

/* Welford's update of the mean and the sum of squares. */
static void spread(ct__ranking_t *s, const float *target, const float *out)
{
  for (int64_t k = 0; k < s->outputs; k++) {
    if (target[k] != target[k]) continue; /* unknown */
    s->seen[k]++;
    double predicted = s->sigmoid ? 1 / (1 + exp(-(double)out[k])) : out[k];
    double from = target[k] - s->mean[k], missed = target[k] - predicted;
    s->mean[k] += from / s->seen[k];
    s->spread[k] += from * (target[k] - s->mean[k]);
    s->residual[k] += missed * missed;
  }
}

void ct__ranking_batch(ct__ranking_t *s, const ct__compared_t *b)
{
  for (int64_t i = 0; i < b->n; i++) {
    if (s->outputs) spread(s, b->targets + i * s->outputs, b->out + i * s->outputs);
    int ignored = b->labels && b->has_ignored && b->labels[i] == b->ignored;
    if (!s->classes || ignored || s->n == s->cap) continue;
    ranking_metrics_keep(s, b, i);
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

/* Gathers the scores of one class on rank 0; returns their number. */
static int64_t gather_class(const ct__ranking_t *s, const ct_topo_t *topo, int64_t class,
                            ct_scored_t *mine, gathered_t *all)
{
  int64_t known = 0;
  for (int64_t i = 0; i < s->n; i++) {
    int is = s->sets ? s->label[i * s->classes + class] : s->label[i] == class;
    if (is == UNKNOWN) continue;
    mine[known++] = (ct_scored_t){s->score[i * s->classes + class], is};
  }
  all->bytes = 0;
  ct_agree_each(topo, mine, sizeof *mine * (size_t)known, ranking_metrics_take, all);
  return (int64_t)(all->bytes / sizeof *all->s);
}

/* A mean over classes, on rank 0. */
typedef struct class_mean {
  double sum, found;
} class_mean_t;

static void add_class(class_mean_t *m, double value)
{
  if (isnan(value)) return;
  m->sum += value;
  m->found++;
}

int ct__ranking_auc(ct__ranking_t *s, const ct_topo_t *topo, double *auc, double *map)
{
  int rc = CT_OK;
  int64_t n = s->n, from = s->classes == 2 && !s->sets ? 1 : 0;
  class_mean_t of[2] = {{0}};
  gathered_t all = {0};
  ct_agree_sum(topo, &n, 1);
  ct_scored_t *mine = ct_mem_array(s->n + 1, sizeof *mine, "eval.metrics: auc");
  all.cap = sizeof *all.s * (size_t)n;
  all.s = topo->rank ? mine : ct_mem_array(n + 1, sizeof *all.s, "eval.metrics: auc");
  CT_TRY(ct_agree(topo, mine && all.s ? CT_OK : CT_ERR_NOMEM));
  for (int64_t k = from; k < s->classes; k++) {
    int64_t known = gather_class(s, topo, k, mine, &all);
    if (topo->rank) continue;
    add_class(&of[0], ct_auc(all.s, known));
    double precision = ct_average_precision(all.s, known);
    add_class(&of[1], isnan(precision) && s->sets && known ? 0 : precision);
  }
  CT_TRY(ct_agree_doubles(topo, (double *)of, 4, 0));
  *auc = of[0].found > 0 ? of[0].sum / of[0].found : NAN;
  *map = of[1].found > 0 ? of[1].sum / of[1].found : NAN;
out:
  if (!topo->rank) ct_mem_free(all.s);
  ct_mem_free(mine);
  return rc;
}

int ct__ranking_r2(ct__ranking_t *s, const ct_topo_t *topo, double *r2)
{
  int rc = CT_OK, outputs = (int)s->outputs;
  double found = 0, sum = 0, *n = ct_mem_array(2 * outputs, sizeof *n, "eval.metrics: r2");
  double *mean = n + outputs;
  CT_TRY(ct_agree(topo, n ? CT_OK : CT_ERR_NOMEM));
  memcpy(n, s->seen, (size_t)outputs * sizeof *n);
  CT_TRY(ct_agree_doubles(topo, n, outputs, 0));
  for (int k = 0; k < outputs; k++)
    mean[k] = s->mean[k] * s->seen[k] / (n[k] > 0 ? n[k] : 1);
  CT_TRY(ct_agree_doubles(topo, mean, outputs, 0));
  for (int k = 0; k < outputs; k++) {
    double apart = s->mean[k] - mean[k];
    s->spread[k] += s->seen[k] * apart * apart;
  }
  CT_TRY(ct_agree_doubles(topo, s->spread, 2 * outputs, 0)); /* spread and residual */
  for (int k = 0; k < outputs; k++) {
    if (n[k] > 0) sum += ct_r2(s->residual[k], s->spread[k]);
    found += n[k] > 0;
  }
  *r2 = found > 0 ? sum / found : NAN;
out:
  ct_mem_free(n);
  return rc;
}
