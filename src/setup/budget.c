/* Creates the trainer within the memory budget of the ranks (train.memory): chooses the batch of
 * `data.batch_per_rank: auto`, and makes the batches of evaluations smaller if they do not fit.
 * train/budget.c decides how much activations may use. */
#include "setup/ct_setup.h"

#include <inttypes.h>
#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_heartbeat.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

/* ---- the batch ---- */

/* The most that recomputation may add to a step for the sake of a larger batch, which seldom makes
 * a sample cheaper. */
static const double most_share = 0.1;

/* Returns 1, 0, or an error code.  \a eval: the batch of evaluations, but no larger than that of
 * training. */
static int batch_fits(ct_setup_t *s, int64_t n, int64_t eval, ct_memory_t *m)
{
  int64_t batch = s->cfg.data.batch = n * s->topo->size;
  s->cfg.data.eval_batch = eval < batch ? eval : batch;
  ct_heartbeat_progress();
  int rc = ct_setup_memory(s, m, NULL, NULL);
  if (rc != CT_OK) return rc;
  return m->budget.met && m->budget.share <= most_share;
}

/* Returns the samples that fit without recomputation: memory is a linear function of them. */
static int64_t guess(const ct_memory_t *few, int64_t n, const ct_memory_t *more, int64_t n_more)
{
  double a = (double)ct_budget_peak(&few->budget, 1), b = (double)ct_budget_peak(&more->budget, 1);
  double slope = n_more > n && b > a ? (b - a) / (double)(n_more - n) : 0;
  double room = (double)few->budget.bytes - a;
  return slope > 0 && room > 0 ? n + (int64_t)(room / slope) : n;
}

/* Returns the largest power of two of which n has at least 16, or 1. */
static int64_t grain(int64_t n)
{
  int64_t step = 1;
  while (n >= 32 * step)
    step *= 2;
  return step;
}

/* Finds the largest batch of a rank that fits: *fits, of at most \a most samples; 0: none. */
static int search(ct_setup_t *s, int64_t most, int64_t eval, int64_t *fits)
{
  enum { FEW = 8 };
  ct_memory_t one, few, at;
  int64_t least = s->step_opts.micro_batches, beyond = most + 1;
  *fits = 0;
  int rc = batch_fits(s, least, eval, &one);
  if (rc <= 0) return rc;
  *fits = least;
  if (most < FEW * least) {
    rc = batch_fits(s, most, eval, &at);
    if (rc > 0) *fits = most;
    if (rc < 0 || rc > 0) return rc < 0 ? rc : CT_OK;
    beyond = most;
  } else {
    rc = batch_fits(s, FEW * least, eval, &few);
    if (rc < 0) return rc;
    if (rc > 0) *fits = FEW * least;
    if (rc == 0) beyond = FEW * least;
  }
  int64_t n = most < FEW * least ? (*fits + beyond) / 2 : guess(&one, least, &few, FEW * least);
  while (beyond - *fits > grain(*fits)) {
    if (n <= *fits) n = beyond > most ? *fits + *fits / 4 + 1 : (*fits + beyond) / 2;
    if (n >= beyond) n = beyond - 1;
    rc = batch_fits(s, n, eval, &at);
    if (rc < 0) return rc;
    *(rc ? fits : &beyond) = n;
    n = 0;
  }
  return CT_OK;
}

static void log_rate(const ct_setup_t *s, int64_t n)
{
  const ct_schedule_opts_t *o = &s->cfg.schedule;
  double lr = s->cfg.optim.lr, factor = (double)s->cfg.data.batch / (double)o->base_batch;
  if (o->scale_lr)
    ct_log(CT_LOG_INFO,
           "data.batch_per_rank: auto: %" PRId64 " samples, global batch %" PRId64
           "; schedule.scale_lr makes the learning rate %g",
           n, s->cfg.data.batch, lr * factor);
  else
    ct_log(CT_LOG_INFO,
           "data.batch_per_rank: auto: %" PRId64 " samples, global batch %" PRId64
           "; the learning rate stays %g (schedule.scale_lr: true would make it %g, for "
           "base_batch %" PRId64 ")",
           n, s->cfg.data.batch, lr, lr * factor, o->base_batch);
}

static int choose_batch(ct_setup_t *s)
{
  int rc = CT_OK;
  int64_t fits, most = s->data.info.samples / s->topo->size;
  int64_t eval = s->cfg.eval_follows ? INT64_MAX : s->cfg.data.eval_batch;
  ct_memory_t m;
  ct_heartbeat_at("choosing the batch (data.batch_per_rank: auto)", -1);
  if (!s->memory)
    CT_FAIL(CT_ERR_USAGE,
            "data.batch_per_rank is auto, but how much memory is free is not known: set "
            "train.memory to a size");
  CT_TRY(search(s, most > 0 ? most : 1, eval, &fits));
  if (!fits) { /* the smallest batch, within the budget but for more time */
    s->cfg.data.batch = s->step_opts.micro_batches * s->topo->size;
    CT_TRY(ct_setup_memory(s, &m, NULL, NULL));
    CT_TRY(ct_budget_check(&m.budget));
    fits = s->step_opts.micro_batches;
  }
  if (fits < most) fits -= fits % grain(fits);
  s->cfg.data.eval_batch = eval;
  CT_TRY(ct_config_take_batch(&s->cfg, fits * s->topo->size));
  log_rate(s, fits);
out:
  return rc;
}

/* Returns a smaller batch of evaluations of a rank, or n if none would help: their activations, or
 * the memory of their feed, do not fit. */
static int less(const ct_memory_t *m, int n)
{
  if (!m->budget.met) return n > 1 ? n / 2 : n;
  if (m->budget.evaluation >= n) return n;
  return m->budget.evaluation > 1 ? m->budget.evaluation : 1;
}

/* Results of an evaluation do not depend on the size of its batches. */
static int choose_eval_batch(ct_setup_t *s, ct_budget_t *out)
{
  int rc = CT_OK;
  ct_memory_t m;
  int64_t before = s->cfg.data.eval_batch;
  for (int n = 0, now = 1; n != now;) {
    CT_TRY(ct_setup_memory(s, &m, NULL, NULL));
    *out = m.budget;
    now = m.samples[0];
    n = less(&m, now);
    if (n < now) s->cfg.data.eval_batch = (int64_t)n * s->topo->size;
  }
  if (s->cfg.data.eval_batch != before)
    ct_log(CT_LOG_INFO,
           "train.memory: evaluations use batches of %" PRId64 " samples, not %" PRId64
           "; their results are the same",
           s->cfg.data.eval_batch, before);
out:
  return rc;
}

int ct_setup_choose(ct_setup_t *s, ct_budget_t *out)
{
  int rc = CT_OK;
  if (s->cfg.data.batch_per_rank == CT_BATCH_AUTO) CT_TRY(choose_batch(s));
  if (s->memory) CT_TRY(choose_eval_batch(s, out));
out:
  return rc;
}

/* Rank 0 has the largest batch and the copy for checkpoints: it chooses, for the smallest budget of
 * any rank. */
static int choose_for_all(ct_setup_t *s, const double tightest[2])
{
  size_t memory = s->memory, used = s->used;
  s->memory = (size_t)-tightest[0];
  s->used = (size_t)tightest[1];
  ct_budget_t b = {0};
  int rc = ct_setup_choose(s, &b);
  if (rc == CT_OK) rc = ct_budget_check(&b);
  s->memory = memory;
  s->used = used;
  return rc;
}

/* Collective.  Measures and chooses, with the same batches on all ranks. */
static int budget_open(ct_setup_t *s)
{
  int rc = CT_OK;
  ct_setup_measure(s);
  if (!s->step_opts.memory) return CT_OK;
  double tightest[] = {-(double)s->memory, (double)s->used};
  int64_t batches[2] = {0};
  void *data = batches;
  size_t bytes = sizeof batches;
  CT_TRY(ct_agree_doubles(s->topo, tightest, 2, 1));
  int open = s->cfg.data.batch_per_rank == CT_BATCH_AUTO;
  if (s->topo->rank == 0) rc = choose_for_all(s, tightest);
  batches[0] = s->cfg.data.batch;
  batches[1] = s->cfg.data.eval_batch;
  CT_TRY(ct_agree_bytes(s->topo, rc, &data, &bytes));
  memcpy(batches, data, sizeof batches);
  if (s->topo->rank) ct_mem_free(data);
  if (open && s->topo->rank) CT_TRY(ct_config_take_batch(&s->cfg, batches[0]));
  s->cfg.data.eval_batch = batches[1];
  ct_mem_trim(); /* of the plans that were tried */
out:
  return rc;
}

static void log_budget(const ct_setup_t *s)
{
  char text[200], bytes[32];
  const ct_budget_t *b = ct_trainer_budget(s->trainer);
  if (b->bytes)
    ct_log(CT_LOG_INFO, "train.memory %s: %s", ct_text_bytes((double)b->bytes, bytes, sizeof bytes),
           ct_budget_text(b, text, sizeof text));
}

int ct_setup_trainer(ct_setup_t *s, int training)
{
  int rc = CT_OK;
  double begin = ct_clock();
  ct_trainer_env_t env;
  if (training) CT_TRY(budget_open(s));
  ct_heartbeat_at("making the plan", -1);
  CT_TRY_ALL(s->topo, ct_setup_describe_trainer(s, training, &env));
  int threads = ct_setup_threads(&s->cfg, s->topo->threads);
  CT_TRY_ALL(s->topo, ct_setup_host(s, threads, &env));
  if (training) ct_setup_log_messages(s);
  CT_TRY(ct_trainer_create(&env, &s->trainer));
  log_budget(s);
  s->plan_s = ct_clock() - begin;
out:
  return rc;
}
