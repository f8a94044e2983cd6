/* Cost of collective calls: rounds and bytes of known algorithms, the fit of the latency-bandwidth
 * line, and the optimal bucket size. */
#include "comm/ct_comm_model.h"

#include <math.h>

const char *ct_comm_call_name(ct_comm_call_t call)
{
  static const char *const name[CT_COMM_CALLS] = {"all_reduce", "reduce_scatter", "all_gather",
                                                  "broadcast"};
  return name[call];
}

double ct_comm_bus_factor(ct_comm_call_t call, int ranks)
{
  double part = (double)(ranks - 1) / ranks;
  if (call == CT_COMM_BROADCAST) return 1;
  return call == CT_COMM_ALL_REDUCE ? 2 * part : part;
}

static int log2_below(int n)
{
  int k = 0;
  while (n >> (k + 1))
    k++;
  return k;
}

/* One half of an all-reduce, or a whole broadcast (scatter, then ring all-gather). */
static ct_comm_cost_t one_way(ct_comm_call_t call, ct_comm_algorithm_t a, int ranks)
{
  int k = log2_below(ranks), up = k + (ranks > 1 << k);
  double part = (double)(ranks - 1) / ranks;
  if (call == CT_COMM_BROADCAST) return (ct_comm_cost_t){up + ranks - 1, 2 * part};
  if (a == CT_COMM_HALVING) return (ct_comm_cost_t){up, part};
  return (ct_comm_cost_t){ranks - 1, part};
}

ct_comm_cost_t ct_comm_cost(ct_comm_call_t call, ct_comm_algorithm_t a, int ranks)
{
  if (ranks < 2) return (ct_comm_cost_t){0, 0};
  ct_comm_cost_t c = one_way(call, a, ranks);
  if (call != CT_COMM_ALL_REDUCE) return c;
  int k = log2_below(ranks), folded = 1 << k;
  if (a == CT_COMM_HALVING && folded < ranks)
    return (ct_comm_cost_t){2 * k + 2, 2 + 2 * (double)(folded - 1) / folded};
  return (ct_comm_cost_t){2 * c.rounds, 2 * c.volume};
}

ct_comm_algorithm_t ct_comm_algorithm(int ranks, int64_t bytes)
{
  int folds = (ranks & (ranks - 1)) != 0;
  return folds && bytes / ranks >= CT_COMM_MESSAGE ? CT_COMM_EXCHANGE : CT_COMM_HALVING;
}

double ct_link_time(const ct_link_t *l, ct_comm_cost_t cost, double bytes)
{
  return cost.rounds * l->alpha_s + cost.volume * bytes / l->bytes_per_s;
}

double ct_link_fit(const ct_link_point_t *p, int n, ct_link_t *out)
{
  double rr = 0, rv = 0, vv = 0, r1 = 0, v1 = 0, worst = 0;
  for (int i = 0; i < n; i++) {
    double r = p[i].cost.rounds / p[i].seconds;
    double v = p[i].cost.volume * p[i].bytes / p[i].seconds;
    rr += r * r;
    rv += r * v;
    vv += v * v;
    r1 += r;
    v1 += v;
  }
  double det = rr * vv - rv * rv;
  double alpha = det > 0 ? (r1 * vv - v1 * rv) / det : -1;
  double second = det > 0 ? (v1 * rr - r1 * rv) / det : -1; /* seconds per byte */
  if (alpha < 0 && vv > 0) {
    alpha = 0;
    second = v1 / vv;
  } else if (second < 0 || alpha < 0) {
    alpha = rr > 0 ? r1 / rr : 0;
    second = 0;
  }
  *out = (ct_link_t){alpha, second > 0 ? 1 / second : INFINITY};
  for (int i = 0; i < n; i++) {
    double off = fabs(ct_link_time(out, p[i].cost, p[i].bytes) / p[i].seconds - 1);
    if (off > worst) worst = off;
  }
  return worst;
}

int64_t ct_comm_bucket(int64_t gradient, double latency_s, double bytes_per_s)
{
  enum { LEAST = 18, MOST = 26 };
  double best = sqrt((double)gradient * latency_s * bytes_per_s);
  double power = best > 0 ? round(log2(best)) : LEAST;
  if (!(power > LEAST)) power = LEAST; /* also if power is NaN */
  if (power > MOST) power = MOST;
  return (int64_t)1 << (int)power;
}
