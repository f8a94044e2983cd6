/* Fits the model to a study: busy times are as measured; latency and bandwidth of each level are
 * chosen such that the simulated steps take as long as the measured ones. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "study/model/scaling.h"

/* Returns 1 for a measured configuration with communication. */
static int tells(const ct_study_size_t *z)
{
  return z->kind == CT_STUDY_RUN && z->rounds && z->breakdown.steps && z->ranks > 1;
}

/* ---- busy times ---- */

/* Returns 1 if a is closer to large runs than b: it has more ranks per node, or as many and more
 * ranks. */
static int fuller(const ct_study_size_t *a, const ct_study_size_t *b)
{
  return a->local_ranks != b->local_ranks ? a->local_ranks > b->local_ranks : a->ranks > b->ranks;
}

static void put_busy(ct_scaling_t *m, const ct_study_size_t *z)
{
  int at = m->busys;
  if (m->busys == CT_SCALING_BATCHES) return;
  while (at > 0 && m->busy[at - 1].local_batch > z->local_batch)
    at--;
  memmove(&m->busy[at + 1], &m->busy[at], (size_t)(m->busys++ - at) * sizeof *m->busy);
  m->busy[at] = (ct_scaling_busy_t){z->local_batch, z->breakdown.mean.kinds.s[CT_TIME_COMPUTE]};
}

/* Fills m->busy[] with one configuration for each local batch: the one that is the closest to large
 * runs. */
static void read_busy(ct_scaling_t *m, int most_ranks)
{
  const ct_study_t *s = m->study;
  m->busys = 0;
  for (int i = 0; i < s->sizes; i++) {
    const ct_study_size_t *z = &s->size[i];
    int best = z->kind == CT_STUDY_RUN && z->breakdown.steps && z->ranks <= most_ranks;
    for (int k = 0; k < s->sizes && best; k++) {
      const ct_study_size_t *y = &s->size[k];
      best = k == i || y->kind != CT_STUDY_RUN || !y->breakdown.steps || y->ranks > most_ranks ||
             fabs(y->local_batch - z->local_batch) > 1e-6 * z->local_batch || fuller(z, y) ||
             (!fuller(y, z) && i < k);
    }
    if (best) put_busy(m, z);
  }
}

/* Reads the other members from the largest configuration; sigma is the mean over all
 * configurations. */
static void read_rest(ct_scaling_t *m, int most_ranks)
{
  const ct_study_t *s = m->study;
  double sigma = 0, n = 0;
  for (int i = 0; i < s->sizes; i++) {
    const ct_study_size_t *z = &s->size[i];
    const ct_study_means_t *mean = &z->breakdown.mean;
    if (!tells(z) || z->ranks > most_ranks) continue;
    sigma += mean->random_s / ct_timeline_largest_of(z->ranks) / fmax(mean->busy_s, 1e-9);
    n++;
    m->largest = z->ranks;
    m->local_ranks = z->local_ranks;
    m->threads = z->threads;
    m->algorithm = z->algorithm;
    m->own = mean->kinds;
    m->own.s[CT_TIME_COMPUTE] = m->own.s[CT_TIME_WAIT] = m->own.s[CT_TIME_BATCHNORM] =
        m->own.s[CT_TIME_WORD] = 0;
    m->steady = mean->steady_s / fmax(mean->busy_s, 1e-9);
    if (z->gradient_bytes > 0) m->gradient_bytes = z->gradient_bytes;
  }
  m->sigma = n > 0 ? sigma / n : 0;
}

/* ---- the timeline ---- */

/* Makes the default timeline, for a study without a timeline: a third of the time is forward, and
 * backward completes gradients at a constant rate. */
static void even_timeline(ct_scaling_t *m)
{
  enum { N = sizeof m->even / sizeof *m->even };
  for (int i = 0; i < N; i++)
    m->even[i] = (ct_timeline_launch_t){1. / N, i < N / 3 ? 0 : m->gradient_bytes / (N - N / 3)};
  m->timeline = (ct_timeline_t){m->even, N, N / 3};
}

static void read_timeline(ct_scaling_t *m)
{
  m->timeline = m->study->timeline;
  m->bucket_bytes = m->study->timeline_bucket_bytes;
  if (m->bucket_bytes <= 0) m->bucket_bytes = CT_TIMELINE_PIECE;
  double all = 0;
  for (int i = 0; i < m->timeline.launches; i++)
    all += m->timeline.launch[i].bytes;
  if (all > 0) m->gradient_bytes = all;
  if (all <= 0) even_timeline(m);
}

/* ---- latency and bandwidth ---- */

/* A fit of one level. */
typedef struct fit {
  ct_scaling_t *m;
  int between; /* 1: between nodes, fitted to configurations on several nodes; 0: inside a node */
  int most_ranks;  /* configurations with more ranks are excluded */
  ct_link_t prior; /* measured by `bench comm`; 0: unknown */
} fit_t;

static int counts(const fit_t *f, const ct_study_size_t *z)
{
  return tells(z) && z->ranks <= f->most_ranks && (z->nodes > 1) == f->between;
}

static int how_many(const fit_t *f)
{
  int n = 0;
  for (int i = 0; i < f->m->study->sizes; i++)
    n += counts(f, &f->m->study->size[i]);
  return n;
}

/* Returns the sum of squared relative errors of the steps; *worst: the largest error. */
static double errors(const fit_t *f, double *worst)
{
  const ct_scaling_t *m = f->m;
  double sum = 0;
  *worst = 0;
  for (int i = 0; i < m->study->sizes; i++) {
    const ct_study_size_t *z = &m->study->size[i];
    if (!counts(f, z)) continue;
    ct__scaling_messages_t q = {.local_ranks = z->local_ranks,
                                .nodes = z->nodes,
                                .compute_s = z->breakdown.mean.kinds.s[CT_TIME_COMPUTE],
                                .bucket_bytes = m->bucket_bytes,
                                .algorithm = z->algorithm,
                                .inside = m->inside,
                                .between = m->between};
    double error =
        (ct__scaling_exposed(m, &q) - z->breakdown.mean.transfer_s) / z->breakdown.mean.step_s;
    sum += error * error;
    *worst = fmax(*worst, fabs(error));
  }
  return sum;
}

static ct_link_t *level(const fit_t *f)
{
  return f->between ? &f->m->between : &f->m->inside;
}

/* Returns the function to minimize.  The simulation has an error of a few percent, which an
 * unrealistic latency could compensate; predictions for more ranks would then be wrong.  Therefore
 * the latency has a prior: within a factor of three of the usual latency, or of the measured
 * latency (maximum a posteriori, all distributions normal or lognormal). */
static double badness(const fit_t *f)
{
  const double right_to = 0.03, usual_s = 2e-5, rate_to = 0.3, decades = 0.5;
  const ct_link_t *l = level(f), *p = &f->prior;
  double worst, sum = errors(f, &worst) / (right_to * right_to),
                slow = log10(l->alpha_s / (p->alpha_s > 0 ? p->alpha_s : usual_s)) / decades,
                far = p->bytes_per_s > 0 ? log(l->bytes_per_s / p->bytes_per_s) / rate_to : 0;
  return sum + slow * slow + far * far;
}

static double try(const fit_t *f, double rate, double alpha, ct_link_t *best, double least)
{
  *level(f) = (ct_link_t){alpha, rate};
  double b = badness(f);
  if (b >= least) return least;
  *best = *level(f);
  return b;
}

/* Minimizes badness() in logarithms: a coarse grid, then pattern search with steps that are halved
 * (Hooke and Jeeves 1961). */
static void search(const fit_t *f)
{
  ct_link_t best = {0, 1e9};
  double least = INFINITY;
  for (double rate = 1e6; rate < 3e12; rate *= 2.1544346900318838)
    for (double alpha = 1e-7; alpha < 0.2; alpha *= 4.641588833612779)
      least = try(f, rate, alpha, &best, least);
  for (double step = 1; step > 1e-3;) {
    double was = least;
    ct_link_t from = best;
    least = try(f, from.bytes_per_s * exp(step), from.alpha_s, &best, least);
    least = try(f, from.bytes_per_s * exp(-step), from.alpha_s, &best, least);
    least = try(f, from.bytes_per_s, from.alpha_s * exp(2 * step), &best, least);
    least = try(f, from.bytes_per_s, from.alpha_s * exp(-2 * step), &best, least);
    least = try(f, from.bytes_per_s * exp(step), from.alpha_s * exp(step), &best, least);
    least = try(f, from.bytes_per_s * exp(-step), from.alpha_s * exp(-step), &best, least);
    if (least >= was) step /= 2;
  }
  *level(f) = best;
}

/* Fits a level and returns the number of configurations that it was fitted to; 0: the link is \a
 * prior, or unknown. */
static int fit_level(ct_scaling_t *m, int between, const ct_link_t *prior, int most_ranks)
{
  fit_t f = {.m = m, .between = between, .most_ranks = most_ranks};
  int n = how_many(&f);
  double worst = 0;
  if (prior) f.prior = *prior;
  *level(&f) = f.prior;
  if (!n) return 0;
  search(&f);
  errors(&f, &worst);
  m->fit_error = fmax(m->fit_error, worst);
  return n;
}

static void fit_up_to(ct_scaling_t *m, const ct_link_t *inside, const ct_link_t *between,
                      int most_ranks)
{
  m->fit_error = 0;
  read_busy(m, most_ranks);
  read_rest(m, most_ranks);
  read_timeline(m);
  m->fitted_inside = fit_level(m, 0, inside, most_ranks);
  m->fitted_between = fit_level(m, 1, between, most_ranks);
}

/* ---- error of the model ---- */

static int largest_below(const ct_study_t *s, int below)
{
  int most = 0;
  for (int i = 0; i < s->sizes; i++)
    if (tells(&s->size[i]) && s->size[i].ranks < below && s->size[i].ranks > most)
      most = s->size[i].ranks;
  return most;
}

/* Returns the largest relative error of the predictions for configurations with so many ranks. */
static double error_at(const ct_scaling_t *m, int ranks)
{
  double worst = 0;
  for (int i = 0; i < m->study->sizes; i++) {
    const ct_study_size_t *z = &m->study->size[i];
    ct_scaling_prediction_t p;
    ct_scaling_ask_t ask = {
        .ranks = z->ranks, .local_ranks = z->local_ranks, .local_batch = z->local_batch};
    if (!tells(z) || z->ranks != ranks || ct_scaling_predict(m, &ask, &p) != CT_OK) continue;
    double error = p.step_s / z->breakdown.mean.step_s - 1;
    if (fabs(error) > fabs(worst)) worst = error;
  }
  return worst;
}

int ct_scaling_fit(const ct_study_t *study, const ct_link_t *inside, const ct_link_t *between,
                   ct_scaling_t *out)
{
  int rc = CT_OK, most = largest_below(study, 1 << 30), next = largest_below(study, most);
  *out = (ct_scaling_t){.study = study, .base = ct_study_base(study)};
  if (!most || !out->base || !out->base->breakdown.steps)
    CT_FAIL(CT_ERR_USAGE,
            "%s: a prediction needs the time breakdown of the smallest configuration and "
            "of a configuration with several ranks",
            study->path);
  double error = 0;
  if (next) {
    fit_up_to(out, inside, between, next);
    error = error_at(out, most);
  }
  fit_up_to(out, inside, between, most);
  if (out->gradient_bytes <= 0)
    CT_FAIL(CT_ERR_USAGE, "%s: a prediction needs the key `gradient_bytes` in its points",
            study->path);
  out->left_out = error;
  out->left_ranks = next ? most : 0;
  out->left_from = next;
out:
  return rc;
}
