/* Asks the algorithms of a convolution or linear layer for their costs and chooses the cheapest. */
#include "cpu/gemm/choose.h"
#include "base/ct_err.h"
#include "base/ct_int.h"
#include <math.h>

static const ct_layout_t layouts[] = {CT_C16, CT_C8, CT_NHWC, CT_PLAIN};

/* Returns the cost of a reorder, which includes the padding of few channels to whole vectors. */
static double reorder_cost(const ct_shape_t *s)
{
  double padded = (double)ct_round_up(s->dim[1], 16) / (double)s->dim[1];
  return 45.0 * padded * (double)ct_shape_count(s);
}

/* Returns the cost of separate passes over y for operations that the algorithm does not fuse.  The
 * cost is 0 in training, where the choice must not depend on fusion, because backward may need the
 * ReLU separately. */
static double apart_cost(const ct_op_desc_t *d, const cpu__algo_t *algo)
{
  double cost = 0, y = (double)ct_shape_count(&d->y);
  if (d->kind != CT_OP_CONV || d->passes != CT_FWD) return 0;
  if (d->u.conv.add && !algo->add) return 60 * y;
  if (d->u.conv.relu && !algo->relu) cost += 25 * y;
  return cost;
}

static int is_wanted(const cpu__costs_t *c, int i)
{
  return c->passes >> i & 1;
}

static int choose_is_same(cpu__layouts_t a, cpu__layouts_t b)
{
  return a.x == b.x && a.y == b.y;
}

/* Asks all algorithms (of the first or of the second choice) for one pass in one pair of
 * layouts. */
static int ask_for(cpu__costs_t *c, const cpu__job_t *job, int i, int k, int second, double *least)
{
  *least = INFINITY;
  for (int w = 0; w < CPU__ALGOS_MAX && c->algos->algo[w]; w++) {
    const cpu__algo_t *algo = c->algos->algo[w];
    char why[128];
    cpu__cost_t cost;
    int can = algo->second == second ? algo->can(job, &cost, why) : 0;
    if (can < 0) return can;
    if (!can) continue;
    if (job->pass == CT_FWD) cost.each += apart_cost(job->desc, algo);
    c->of[i][w][k] = cost;
    *least = fmin(*least, cost.each);
  }
  return CT_OK;
}

/* Asks for all passes in one pair of layouts; *most: the maximum over the passes of the lowest
 * cost. */
static int ask_at(cpu__costs_t *c, cpu__job_t *job, int k, int second, double *most)
{
  int rc = CT_OK;
  double least;
  *most = 0;
  job->at = c->algos->layouts[k];
  for (int i = 0; i < CPU__PASSES; i++) {
    if (!is_wanted(c, i)) continue;
    job->pass = 1 << i;
    CT_TRY(ask_for(c, job, i, k, second, &least));
    *most = fmax(*most, least);
  }
out:
  return rc;
}

int cpu__ask(const cpu__algos_t *algos, ct_dev_t *dev, const ct_op_desc_t *d, cpu__costs_t *out)
{
  int rc = CT_OK;
  cpu__job_t job = {.dev = dev, .desc = d};
  double rate = d->x.dtype == CT_BF16 ? dev->bf16_rate : 1;
  double ideal = ct_op_flops(d, CT_FWD) / 2 / rate; /* without padding, at peak rate */
  double most = INFINITY;
  *out = (cpu__costs_t){.algos = algos, .passes = d->passes | CT_FWD};
  out->x = reorder_cost(&d->x);
  out->y = reorder_cost(&d->y);
  for (int i = 0; i < CPU__PASSES; i++)
    for (int w = 0; w < CPU__ALGOS_MAX; w++)
      for (int k = 0; k < CPU__LAYOUTS_MAX; k++)
        out->of[i][w][k].each = INFINITY;
  for (int k = 0; k < algos->nlayouts && most > ideal; k++)
    CT_TRY(ask_at(out, &job, k, 0, &most));
  if (most <= ideal) goto out;
  for (int k = 0; k < algos->nlayouts; k++)
    CT_TRY(ask_at(out, &job, k, 1, &most));
out:
  return rc;
}

static int is_possible(const cpu__costs_t *c, int w, int k, cpu__layouts_t outer, unsigned without)
{
  const cpu__algo_t *algo = c->algos->algo[w];
  return !(without >> w & 1) && (!algo->as_it_lies || choose_is_same(c->algos->layouts[k], outer));
}

cpu__choice_t cpu__choose(const cpu__costs_t *c, int i, cpu__layouts_t outer, unsigned without)
{
  cpu__choice_t best = {.cost = INFINITY};
  int at = 0;
  for (int w = 0; w < CPU__ALGOS_MAX && c->algos->algo[w]; w++)
    for (int k = 0; k < c->algos->nlayouts; k++) {
      double cost = c->of[i][w][k].each;
      if (c->algos->layouts[k].x != outer.x) cost += c->x;
      if (c->algos->layouts[k].y != outer.y) cost += c->y;
      if (cost >= best.cost || !is_possible(c, w, k, outer, without)) continue;
      best = (cpu__choice_t){.in_the_long_run = c->algos->algo[w], .cost = cost};
      at = k;
    }
  best.at = c->algos->layouts[at];
  double least = INFINITY;
  for (int w = 0; w < CPU__ALGOS_MAX && c->algos->algo[w]; w++) {
    double now = c->of[i][w][at].each + c->of[i][w][at].once;
    if (now >= least || !is_possible(c, w, at, outer, without)) continue;
    least = now;
    best.algo = c->algos->algo[w];
  }
  return best;
}

static double choose_total(const cpu__costs_t *c, cpu__layouts_t outer)
{
  double sum = 0;
  for (int i = 0; i < CPU__PASSES; i++)
    if (is_wanted(c, i)) sum += cpu__choose(c, i, outer, 0).cost;
  return sum;
}

cpu__layouts_t cpu__best_layouts(const cpu__costs_t *c, ct_layout_t x, double *least)
{
  cpu__layouts_t chosen = {x, x};
  *least = INFINITY;
  for (int k = 0; k < 4; k++) {
    cpu__layouts_t outer = {x, layouts[k]};
    double cost = choose_total(c, outer);
    if (cost >= *least) continue;
    *least = cost;
    chosen = outer;
  }
  return chosen;
}

cpu__layouts_t cpu__best_for_y(const cpu__costs_t *c, ct_layout_t y, double *least)
{
  cpu__layouts_t chosen = {y, y};
  *least = INFINITY;
  for (int k = 0; k < 4; k++) {
    cpu__layouts_t outer = {layouts[k], y};
    double cost = choose_total(c, outer);
    if (cost >= *least) continue;
    *least = cost;
    chosen = outer;
  }
  return chosen;
}

ct_layout_t cpu__best_x(const cpu__costs_t *c, ct_layout_t offered)
{
  ct_layout_t chosen = offered;
  double least = INFINITY, cost;
  for (int k = 0; k < 4; k++) {
    cpu__best_layouts(c, layouts[k], &cost);
    if (layouts[k] != offered) cost += c->x * (c->passes & CT_BWD_DATA ? 2 : 1);
    if (cost >= least) continue;
    least = cost;
    chosen = layouts[k];
  }
  return chosen;
}

ct_layout_t cpu__best_y(const cpu__costs_t *c, ct_layout_t offered)
{
  ct_layout_t chosen = offered;
  double least = INFINITY, cost;
  for (int k = 0; k < 4; k++) {
    cpu__best_for_y(c, layouts[k], &cost);
    if (layouts[k] != offered) cost += 2 * c->y;
    if (cost >= least) continue;
    least = cost;
    chosen = layouts[k];
  }
  return chosen;
}

double cpu__least_cost(const cpu__costs_t *c)
{
  double least = INFINITY, cost;
  for (int k = 0; k < 4; k++) {
    cpu__best_layouts(c, layouts[k], &cost);
    least = fmin(least, cost);
  }
  return least;
}
