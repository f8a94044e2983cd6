/* One training step.
 *
 * Backward fills the gradient arena from one end; as soon as a bucket is full it is on its way, and the
 * next ops are run while it travels.  A rank that fails, or has no samples, sends zeros in the same order
 * as the others, and says so in the step word: nobody waits for a message that never comes. */
#include "train/trainer.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include <math.h>
#include <string.h>

int ct__trainer_bind(ct_trainer_t *t, const ct_batch_t *b, ct_bind_t *bind)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  *bind = (ct_bind_t){.arena = t->arena,
                      .scratch = t->scratch,
                      .weight = t->weight,
                      .gradient = t->gradient,
                      .buffer = t->buffer,
                      .map = &t->map,
                      .x = b->x,
                      .labels = b->labels,
                      .loss = t->loss,
                      .loss_scale = 1.0f / (float)b->global,
                      .seed = t->env.seed,
                      .step = t->steps,
                      .first = b->first};
  if (be->in_place) return CT_OK;
  size_t x = (size_t)b->n * ct_shape_bytes(&t->env.graph->input);
  CT_TRY(be->mem->copy(t->q, t->x, b->x, x));
  CT_TRY(be->mem->copy(t->q, t->labels, b->labels, (size_t)b->n * sizeof *b->labels));
  bind->x = t->x;
  bind->labels = t->labels;
out:
  return rc;
}

/* The first failure of a step is the one that is told, whatever fails after it. */
static int note(ct_trainer_t *t, int rc)
{
  if (rc != CT_OK && t->failed == CT_OK) {
    t->failed = rc;
    t->failure = *ct_err_last();
  }
  return rc;
}

/* The code of the step, with its record. */
static int outcome(ct_trainer_t *t)
{
  if (t->failed != CT_OK) ct_err_put(&t->failure);
  return t->failed;
}

/* The next bucket starts to travel when the queue has come this far.  It is sent whatever happened: the
 * peers wait for it. */
static int send_bucket(ct_trainer_t *t, const ct_bucket_t *bucket)
{
  const ct_bucket_t *b = &bucket[t->sent];
  double begin = ct_clock();
  int marked = note(t, t->env.be->queue->mark(t->q, &t->ready));
  int rc = note(t, t->env.comm_ops->reduce(t->env.comm, marked == CT_OK ? t->ready : NULL,
                                           (float *)(t->gradient + b->offset),
                                           (int64_t)(b->bytes / sizeof(float)), CT_REDUCE_ALL,
                                           &t->ticket[t->sent]));
  t->sent++;
  t->exposed_s += ct_clock() - begin;
  return marked != CT_OK ? marked : rc;
}

static int poke(ct_trainer_t *t)
{
  double begin = ct_clock();
  int rc = t->sent ? t->env.comm_ops->poke(t->env.comm) : CT_OK;
  t->exposed_s += ct_clock() - begin;
  return rc;
}

static int forward_backward(ct_trainer_t *t, const ct_batch_t *b)
{
  int rc = CT_OK;
  const ct_variant_t *v;
  ct_bind_t bind;
  CT_TRY(ct_fault("step"));
  CT_TRY(ct__trainer_variant(t, b->n, 1, &v));
  CT_TRY(ct__trainer_bind(t, b, &bind));
  t->last = v->plan;
  for (int i = 0; i < v->plan->works; i++) {
    CT_TRY(ct_plan_run(v->plan, i, &bind, t->q));
    if (i <= v->plan->loss_work) continue;
    while (t->sent < t->buckets && v->bucket[t->sent].after <= i)
      CT_TRY(send_bucket(t, v->bucket));
    CT_TRY(poke(t));
  }
out:
  return rc;
}

/* Zeros for the buckets that this rank still owes. */
static void send_rest(ct_trainer_t *t)
{
  const ct_bucket_t *bucket = t->variant[0].bucket; /* the slices are the same in every variant */
  if (t->sent == t->buckets) return;
  size_t begin = bucket[t->sent].offset;
  note(t, t->env.be->mem->zero(t->q, t->gradient + begin, t->map.weight_bytes - begin));
  while (t->sent < t->buckets)
    send_bucket(t, bucket);
}

static int update(ct_trainer_t *t, const ct_bucket_t *b, ct_op_args_t *a)
{
  a->w[0] = t->weight + b->offset;
  a->dy = t->gradient + b->offset;
  a->count = (int64_t)(b->bytes / sizeof(float));
  for (int s = 0; s < t->states; s++)
    a->state[s] = t->state[s] + b->offset;
  return t->env.be->op->run(t->q, t->update, a);
}

/* Each bucket is applied as soon as it has arrived, while later ones still travel.  Every transfer is ended,
 * also after an error: the peers need this rank for it. */
static void apply(ct_trainer_t *t, const ct_schedule_point_t *at)
{
  const ct_optim_opts_t *o = t->env.optim;
  ct_param_group_t group = {o->lr, o->weight_decay, o->momentum};
  ct_op_args_t a = {.pass = CT_FWD, .scale = 1, .hyper = ct_optim_hyper(o, &group, at, t->steps)};
  for (int i = 0; i < t->sent; i++) {
    double begin = ct_clock();
    note(t, t->env.comm_ops->end(t->env.comm, t->ticket[i], t->q));
    t->exposed_s += ct_clock() - begin;
    if (t->failed == CT_OK) note(t, update(t, &t->variant[0].bucket[i], &a));
  }
}

static int check_loss(const ct_trainer_t *t, const ct_batch_t *b)
{
  if (isfinite(t->loss->sum)) return CT_OK;
  return ct_err_set(
      CT_ERR_NONFINITE, __FILE__, __LINE__,
      "the loss is %g at step %lld (epoch %lld, samples %lld to %lld of it): lower the "
      "learning rate, or look for bad values in the data",
      t->loss->sum, (long long)t->steps + 1, (long long)b->epoch + 1,
      (long long)(b->cursor + b->first), (long long)(b->cursor + b->first + b->n - 1));
}

static void report(ct_trainer_t *t, const ct_batch_t *b, const ct_step_times_t *times,
                   ct_step_word_t *word)
{
  *word = (ct_step_word_t){.err = outcome(t),
                           .err_rank = t->env.topo->rank,
                           .stop = word->stop,
                           .compute_s_max = times->compute_s,
                           .data_s_max = times->data_s};
  if (t->failed != CT_OK || !b->n) return;
  word->loss_sum = t->loss->sum;
  word->samples = t->loss->samples;
  word->top1 = t->loss->top1;
  word->top5 = t->loss->top5;
}

int ct_trainer_step(ct_trainer_t *t, const ct_batch_t *b, int rc_in, const ct_schedule_point_t *at,
                    ct_step_word_t *word, ct_step_times_t *times)
{
  double begin = ct_clock();
  t->sent = 0;
  t->exposed_s = 0;
  t->failed = CT_OK;
  note(t, rc_in);
  if (t->failed == CT_OK && b->n) note(t, forward_backward(t, b));
  send_rest(t);
  apply(t, at);
  note(t, t->env.be->queue->sync(t->q));
  if (t->failed == CT_OK && b->n) note(t, check_loss(t, b));
  times->comm_exposed_s = t->exposed_s;
  times->compute_s = ct_clock() - begin - t->exposed_s;
  report(t, b, times, word);
  t->steps++;
  return ct_step_agree(t->env.topo, word);
}

static int forward(ct_trainer_t *t, const ct_batch_t *b)
{
  int rc = CT_OK;
  const ct_variant_t *v;
  ct_bind_t bind;
  CT_TRY(ct_fault("eval.forward"));
  CT_TRY(ct__trainer_variant(t, b->n, 0, &v));
  CT_TRY(ct__trainer_bind(t, b, &bind));
  t->last = v->plan;
  for (int i = 0; i < v->plan->works; i++)
    CT_TRY(ct_plan_run(v->plan, i, &bind, t->q));
out:
  return rc;
}

int ct_trainer_forward(ct_trainer_t *t, const ct_batch_t *b, ct_loss_t *sum)
{
  t->failed = CT_OK;
  note(t, forward(t, b));
  note(t, t->env.be->queue->sync(t->q)); /* nothing may be pending on the caller's batch */
  if (t->failed != CT_OK) return outcome(t);
  sum->sum += t->loss->sum;
  sum->samples += t->loss->samples;
  sum->top1 += t->loss->top1;
  sum->top5 += t->loss->top5;
  return CT_OK;
}
