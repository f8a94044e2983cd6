/* The optimizer ops over flat ranges: GRADSTAT, MEASURE, UPDATE.
 *
 * * A range is cut into pieces, whose number depends only on its length, and the sums of the pieces
 * are added in order: the result is the same with any number of threads. */
#include <math.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"

enum { PIECES = 128, PIECE_MIN = 2048 };

static int pieces_of(int64_t count)
{
  int64_t n = (count + PIECE_MIN - 1) / PIECE_MIN;
  return n < PIECES ? (int)n : PIECES;
}

/* ---- gradient statistics ---- */

/* Computes the statistics of a piece element by element, if its vectorized sum is not finite. */
static ct_grad_stat_t count_nonfinite(int64_t count, const float *g, float scale, double p)
{
  ct_grad_stat_t sum = {0};
  for (int64_t i = 0; i < count; i++) {
    double v = fabsf(g[i] * scale);
    ct_grad_stat_t one = {isinf(p) ? v : pow(v, p), !isfinite(v)};
    ct_grad_stat_add(&sum, &one, p);
  }
  return sum;
}

static int gradstat_run(ct_op_t *op, const ct_op_args_t *a)
{
  const cpu__loops_t *loops = cpu__loops(op->dev, CT_F32);
  ct_grad_stat_t stat[PIECES];
  double p = op->desc.u.gradstat.p;
  int pieces = pieces_of(a->count);

#pragma omp parallel for if (a->count > CPU__PARALLEL_MIN)
  for (int k = 0; k < pieces; k++) {
    cpu__part_t at = cpu__part(a->count, pieces, k);
    const float *g = (const float *)a->dy + at.first;
    stat[k] = (ct_grad_stat_t){.power = loops->powers(at.count, g, a->scale, p)};
    if (!isfinite(stat[k].power)) stat[k] = count_nonfinite(at.count, g, a->scale, p);
  }
  for (int k = 0; k < pieces; k++)
    ct_grad_stat_add(a->stat, &stat[k], p);
  return CT_OK;
}

const cpu__op_kind_t cpu__gradstat = {.size = sizeof(ct_op_t), .run = gradstat_run};

/* ---- rules ---- */

/* Fills the arguments of the loops; returns 0 if the step is skipped. */
static int update_begin(const ct_op_t *op, const ct_op_args_t *a, cpu__update_t *u)
{
  *u = (cpu__update_t){
      .rule = (ct_rule_t)op->desc.u.update.rule, .hyper = a->hyper, .w = a->w[0], .g = a->dy};
  for (int k = 0; k < CT_RULE_STATES; k++)
    u->state[k] = a->state[k];
  return ct_grad_map(&a->ctl, a->scale, &u->map);
}

static void measure(ct_op_t *op, const ct_op_args_t *a)
{
  const cpu__loops_t *loops = cpu__loops(op->dev, CT_F32);
  double sums[PIECES][2];
  int pieces = pieces_of(a->count);
  cpu__update_t u;

  a->norms[0] = a->norms[1] = 0;
  if (!update_begin(op, a, &u)) return;
#pragma omp parallel for if (a->count > CPU__PARALLEL_MIN)
  for (int k = 0; k < pieces; k++) {
    cpu__part_t at = cpu__part(a->count, pieces, k);
    loops->norm_sums(&u, at.first, at.count, sums[k]);
  }
  for (int k = 0; k < pieces; k++) {
    a->norms[0] += sums[k][0];
    a->norms[1] += sums[k][1];
  }
}

static int norms_run(ct_op_t *op, const ct_op_args_t *a)
{
  for (int i = 0; i < ct_segments_of(a); i++) {
    ct_op_args_t one = ct_segment_args(a, i);
    measure(op, &one);
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__measure = {.size = sizeof(ct_op_t), .run = norms_run};

static void update(ct_op_t *op, const ct_op_args_t *a)
{
  const cpu__loops_t *loops = cpu__loops(op->dev, CT_F32);
  int parts = op->dev->threads;
  cpu__update_t u;

  if (!update_begin(op, a, &u)) return;
  u.hyper.ratio = ct_rule_ratio((int)u.rule, &u.hyper, a->norms);
#pragma omp parallel for if (a->count > CPU__PARALLEL_MIN)
  for (int k = 0; k < parts; k++) {
    cpu__part_t at = cpu__part(a->count, parts, k);
    loops->update(&u, at.first, at.count);
  }
}

static int update_run(ct_op_t *op, const ct_op_args_t *a)
{
  for (int i = 0; i < ct_segments_of(a); i++) {
    ct_op_args_t one = ct_segment_args(a, i);
    update(op, &one);
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__update = {.size = sizeof(ct_op_t), .run = update_run};
