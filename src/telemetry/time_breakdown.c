/* The account of steps.  Sums are kept, and divided only when somebody asks, so that windows of
 * different lengths add up to a run.  What needs the means of each rank, who is always the slowest,
 * is known behind a gather. */
#include "telemetry/ct_time_breakdown.h"

#include <math.h>

#include "host/ct_host_cpu.h"
#include "base/ct_mem.h"

/* Of one rank, over so many steps. */
typedef struct own {
  ct_step_times_t sum, max;
  double busy, busy_squares, busy_max;
  double taken; /* seconds that others had its cores; NAN: not known */
  int64_t steps;
} own_t;

/* Of all ranks; the members of `sum` are sums over the steps, but for minima and maxima. */
typedef struct all {
  ct_account_sum_t sum;
  double busy_max; /* sum of the steps' largest busy times */
} all_t;

struct ct_account {
  const ct_topo_t *topo;
  own_t mine; /* of this window, as is */
  all_t window, total;
  double taken_at;   /* ct_cpu_taken() when the window began */
  own_t *got, *rank; /* rank 0: of each rank, in this window and in all */
};

/* ---- life ---- */

int ct_account_open(const ct_topo_t *topo, ct_account_t **out)
{
  static const char what[] = "the account of steps";
  int rc = CT_OK;
  *out = NULL;
  ct_account_t *a = ct_mem_alloc(sizeof *a, what);
  if (!a) return CT_ERR_NOMEM;
  a->topo = topo;
  if (topo->rank == 0) {
    a->got = ct_mem_array(topo->size, sizeof *a->got, what);
    a->rank = ct_mem_array(topo->size, sizeof *a->rank, what);
    CT_TRY(a->got && a->rank ? CT_OK : CT_ERR_NOMEM);
  }
  ct_account_begin(a);
  *out = a;
  a = NULL;
out:
  ct_account_close(a);
  return rc;
}

void ct_account_begin(ct_account_t *a)
{
  a->taken_at = ct_cpu_taken("");
}

void ct_account_close(ct_account_t *a)
{
  if (!a) return;
  ct_mem_free(a->got);
  ct_mem_free(a->rank);
  ct_mem_free(a);
}

/* ---- steps ---- */

static int bin_of(double s)
{
  double i = s > 0 ? floor(8 * log2(s / CT_ACCOUNT_FIRST_S)) : 0;
  return i < 0 ? 0 : i >= CT_ACCOUNT_BINS ? CT_ACCOUNT_BINS - 1 : (int)i;
}

static void count_own(own_t *o, const ct_step_times_t *t)
{
  double busy = ct_step_times_busy(t);
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    o->sum.s[k] += t->s[k];
    o->max.s[k] = fmax(o->max.s[k], t->s[k]);
  }
  o->busy += busy;
  o->busy_squares += busy * busy;
  o->busy_max = fmax(o->busy_max, busy);
  o->steps++;
}

/* When the word was sent nobody knew how long it would take: it is what is left of the step. */
static void count_all(all_t *a, const ct_step_word_t *w, double length, int ranks)
{
  ct_account_sum_t *s = &a->sum;
  double busy = ct_step_times_busy(&w->time_sum) / ranks, known = 0;
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    known += w->time_sum.s[k] / ranks;
    s->mean.s[k] += w->time_sum.s[k] / ranks;
    s->max.s[k] += w->time_max.s[k];
  }
  s->mean.s[CT_TIME_WORD] += length - known;
  s->step_min_s = s->steps ? fmin(s->step_min_s, length) : length;
  s->step_max_s = fmax(s->step_max_s, length);
  s->step_s += length;
  s->busy_s += busy;
  a->busy_max += w->busy_max;
  s->bin[bin_of(length)]++;
  s->steps++;
}

void ct_account_step(ct_account_t *a, const ct_step_word_t *word, const ct_step_report_t *r)
{
  count_own(&a->mine, &r->times);
  count_all(&a->window, word, ct_step_times_all(&r->times), a->topo->size);
  a->window.sum.samples += r->samples;
}

/* ---- what they come to ---- */

/* One small file a window; what happened between its steps is in it, too. */
static void count_taken(ct_account_t *a)
{
  double now = ct_cpu_taken("");
  a->mine.taken =
      now < 0 || a->taken_at < 0 ? NAN : fmin(now - a->taken_at, ct_step_times_all(&a->mine.sum));
  a->taken_at = now;
}

static void add_own(own_t *sum, const own_t *more)
{
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    sum->sum.s[k] += more->sum.s[k];
    sum->max.s[k] = fmax(sum->max.s[k], more->max.s[k]);
  }
  sum->busy += more->busy;
  sum->busy_squares += more->busy_squares;
  sum->busy_max = fmax(sum->busy_max, more->busy_max);
  sum->taken += more->taken;
  sum->steps += more->steps;
}

static void add_all(all_t *to, const all_t *more)
{
  ct_account_sum_t *s = &to->sum;
  const ct_account_sum_t *m = &more->sum;
  if (!m->steps) return;
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    s->mean.s[k] += m->mean.s[k];
    s->max.s[k] += m->max.s[k];
  }
  s->step_min_s = s->steps ? fmin(s->step_min_s, m->step_min_s) : m->step_min_s;
  s->step_max_s = fmax(s->step_max_s, m->step_max_s);
  s->step_s += m->step_s;
  s->busy_s += m->busy_s;
  to->busy_max += more->busy_max;
  for (int i = 0; i < CT_ACCOUNT_BINS; i++)
    s->bin[i] += m->bin[i];
  s->steps += m->steps;
  s->samples += m->samples;
}

static ct_account_rank_t rank_of(const own_t *o)
{
  ct_account_rank_t r = {.max = o->max, .busy_max_s = o->busy_max, .steps = o->steps};
  double n = o->steps ? (double)o->steps : 1;
  for (int k = 0; k < CT_TIME_KINDS; k++)
    r.mean.s[k] = o->sum.s[k] / n;
  r.step_s = ct_step_times_all(&r.mean);
  r.busy_s = o->busy / n;
  r.taken_s = isnan(o->taken) ? -1 : o->taken / n;
  r.busy_sd_s = sqrt(fmax(0, o->busy_squares / n - r.busy_s * r.busy_s));
  return r;
}

/* The rank with the longest busy time, and in what. */
static void find_slowest(const own_t *rank, ct_account_sum_t *s)
{
  double most = -1, taken = 0;
  for (int r = 0; r < s->ranks; r++) {
    ct_account_rank_t one = rank_of(&rank[r]);
    s->busy_sd_s += one.busy_sd_s / s->ranks;
    taken += one.taken_s < 0 ? NAN : one.taken_s / s->ranks;
    s->max.s[CT_TIME_WORD] = fmax(s->max.s[CT_TIME_WORD], one.mean.s[CT_TIME_WORD]);
    if (one.busy_s > most) {
      most = one.busy_s;
      s->slowest = r;
    }
  }
  ct_account_rank_t slowest = rank_of(&rank[s->slowest]);
  double above = -INFINITY;
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    double more = slowest.mean.s[k] - s->mean.s[k];
    if (!ct_step_time_is_own(k) || more <= above) continue;
    above = more;
    s->slowest_kind = k;
  }
  s->steady_s = fmax(0, most - s->busy_s);
  s->taken_s = isnan(taken) ? -1 : taken;
  s->slowest_taken_s = slowest.taken_s;
}

static void finish(const ct_account_t *a, const all_t *of, const own_t *rank, ct_account_sum_t *s)
{
  *s = of->sum;
  double n = s->steps ? (double)s->steps : 1;
  s->ranks = a->topo->size;
  s->slowest = -1;
  s->taken_s = s->slowest_taken_s = -1;
  for (int k = 0; k < CT_TIME_KINDS; k++) {
    s->mean.s[k] /= n;
    s->max.s[k] /= n;
  }
  s->step_s /= n;
  s->busy_s /= n;
  s->imbalance_s = of->busy_max / n - s->busy_s;
  s->transfer_s = s->step_s - of->busy_max / n;
  if (rank && s->steps) find_slowest(rank, s);
  s->random_s = s->imbalance_s - s->steady_s;
}

void ct_account_collect(ct_account_t *a, ct_account_sum_t *out)
{
  count_taken(a);
  ct_agree_gather(a->topo, &a->mine, sizeof a->mine, a->got);
  for (int r = 0; a->rank && r < a->topo->size; r++)
    add_own(&a->rank[r], &a->got[r]);
  add_all(&a->total, &a->window);
  finish(a, &a->window, a->got, out);
  a->mine = (own_t){0};
  a->window = (all_t){0};
}

void ct_account_total(const ct_account_t *a, ct_account_sum_t *out)
{
  finish(a, &a->total, a->rank, out);
}

ct_account_rank_t ct_account_of_rank(const ct_account_t *a, int rank)
{
  return rank_of(&a->rank[rank]);
}

double ct_account_quantile(const ct_account_sum_t *s, double q)
{
  double want = q * (double)s->steps, seen = 0;
  for (int i = 0; i < CT_ACCOUNT_BINS; i++) {
    double n = (double)s->bin[i];
    if (n > 0 && seen + n >= want) {
      double at = CT_ACCOUNT_FIRST_S * exp2((i + (want - seen) / n) / 8);
      return fmax(s->step_min_s, fmin(s->step_max_s, at));
    }
    seen += n;
  }
  return s->step_max_s;
}
