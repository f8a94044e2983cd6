/* One training step.
 *
 * A rank's part of the batch is done in one or several pieces, one after another.  The last piece's backward
 * fills the gradient arena from one end; as soon as a bucket is full (and the sums of the earlier pieces are
 * added) it is on its way, and the next ops are run while it travels.  A rank that fails, or has no samples,
 * sends zeros in the same order as the others, and says so in the step word: nobody waits for a message
 * that never comes. */
#include "train/trainer.h"
#include "base/ct_beat.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "job/ct_stop.h"
#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- failures ---- */

int ct__trainer_note(ct_trainer_t *t, int rc)
{
  if (rc != CT_OK && t->failed == CT_OK) {
    t->failed = rc;
    t->failure = *ct_err_last();
  }
  return rc;
}

static int note(ct_trainer_t *t, int rc)
{
  return ct__trainer_note(t, rc);
}

/* The code of the step, with its record. */
static int outcome(ct_trainer_t *t)
{
  if (t->failed != CT_OK) ct_err_put(&t->failure);
  return t->failed;
}

/* ---- gradients of several pieces ---- */

static int add(ct_trainer_t *t, int level, int bucket, const ct_bucket_t *b)
{
  char *gradient = t->gradient + b->offset;
  ct_op_args_t a = {
      .pass = CT_FWD, .x = gradient, .x2 = t->partial[level] + b->offset, .y = gradient};
  return t->env.be->op->run(t->q, t->sum[bucket], &a);
}

/* Adds to a bucket of piece p what earlier pieces left, and leaves it for later ones.  In fixed order the
 * pieces are the leaves of a binary tree, of which partial[level] holds the finished left halves: a binary
 * counter.  Else there is one running sum. */
static int fold(ct_trainer_t *t, int p, int bucket, const ct_bucket_t *b)
{
  int rc = CT_OK, level = 0;
  if (t->parts == 1) return CT_OK;
  if (t->env.recipe.fixed_order)
    for (int done = p + 1; done % 2 == 0; done /= 2)
      CT_TRY(add(t, level++, bucket, b));
  else if (p > 0)
    CT_TRY(add(t, 0, bucket, b));
  if (p < t->parts - 1)
    CT_TRY(t->env.be->mem->copy(t->q, t->partial[level] + b->offset, t->gradient + b->offset,
                                b->bytes));
out:
  return rc;
}

static void fold_all(ct_trainer_t *t, int p)
{
  for (int k = 0; k < t->buckets && t->failed == CT_OK; k++)
    note(t, fold(t, p, k, &t->variant[0].bucket[k]));
}

/* ---- buckets ---- */

/* A fault point that is no failure: an overflow as half precision has it. */
static int overflow(ct_trainer_t *t)
{
  static const float infinity = INFINITY;
  if (!t->map.trained || ct_fault("step.overflow") == CT_OK) return CT_OK;
  return t->env.be->mem->copy(t->q, t->gradient, &infinity, sizeof infinity);
}

/* The next bucket starts to travel when the queue has come this far.  It is sent whatever happened: the
 * peers wait for it. */
static int send_bucket(ct_trainer_t *t, const ct_bucket_t *bucket)
{
  const ct_bucket_t *b = &bucket[t->sent];
  double begin = ct_clock();
  if (t->sent == 0) {
    t->before_s = begin - t->begun - t->exposed_s;
    note(t, overflow(t));
  }
  if (t->failed == CT_OK) note(t, fold(t, t->parts - 1, t->sent, b));
  ct__trainer_enter(t, "the all-reduce of bucket", t->sent);
  int marked = note(t, t->env.be->queue->mark(t->q, &t->ready));
  int rc = note(t, t->env.comm_ops->reduce(
                       t->env.comm, marked == CT_OK ? t->ready : NULL,
                       (float *)(t->gradient + b->offset), (int64_t)(b->bytes / sizeof(float)),
                       t->env.recipe.zero ? CT_REDUCE_SLICE : CT_REDUCE_ALL, &t->ticket[t->sent]));
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

/* Zeros for the buckets that this rank still owes when work \a i is done. */
static void send_zeros(ct_trainer_t *t, const ct_bucket_t *bucket, int i)
{
  while (t->sent < t->buckets && bucket[t->sent].after <= i) {
    const ct_bucket_t *b = &bucket[t->sent];
    note(t, t->env.be->mem->zero(t->q, t->gradient + b->offset, b->bytes));
    send_bucket(t, bucket);
  }
}

/* The slices are the same in every variant. */
static void send_rest(ct_trainer_t *t)
{
  send_zeros(t, t->variant[0].bucket, INT_MAX);
}

/* ---- a piece ---- */

/* Sums up the statistics of a batchnorm over the group. */
static void exchange(ct_trainer_t *t, const ct_plan_t *p, int work)
{
  int64_t n = 2 * p->op[p->work[work].op].desc.x.dim[1] + 1;
  double begin = ct_clock();
  ct__trainer_enter(t, "the sum of a batchnorm's statistics, op", work);
  note(t, t->env.comm_ops->group_sum(t->group, t->q, t->stats, n));
  t->exposed_s += ct_clock() - begin;
}

static int work_behind(ct_trainer_t *t, const ct_variant_t *v, int i)
{
  int rc = CT_OK;
  if (i <= v->plan->loss_work) return CT_OK;
  while (t->sent < t->buckets && v->bucket[t->sent].after <= i)
    CT_TRY(send_bucket(t, v->bucket));
  CT_TRY(poke(t));
out:
  return rc;
}

static int begin_piece(ct_trainer_t *t, const ct_batch_t *b, int p, int64_t first, int64_t n,
                       const ct_variant_t **v, ct_bind_t *bind)
{
  int rc = CT_OK;
  if (p == 0) CT_TRY(ct_fault("step"));
  CT_TRY(ct__trainer_variant(t, (int)n, 1, v));
  ct__input_bind(t, b, 1, first, bind);
  bind->loss = &t->loss[p];
  bind->loss_scale = (float)(ct_scaler_scale(&t->scaler) / t->divisor);
  bind->keep_running = t->env.recipe.fixed_order && b->first + first > 0;
  t->last = (*v)->plan;
out:
  return rc;
}

static void begin_empty(const ct_trainer_t *t, const ct_variant_t **v, ct_bind_t *bind)
{
  *v = &t->variant[0];
  *bind = (ct_bind_t){.scratch = t->scratch,
                      .weight = t->weight,
                      .buffer = t->buffer,
                      .map = &t->map,
                      .stats = t->stats};
}

/* Forward and backward of n samples from \a first on.  A rank that has none, or failed, goes through the
 * plan all the same: there may be batchnorms that talk to other ranks, as many and in the same order in
 * every plan, and between them the same buckets: on a GPU each message waits for the one before it. */
static void run_piece(ct_trainer_t *t, const ct_batch_t *b, int p, int64_t first, int64_t n)
{
  const ct_variant_t *v = &t->variant[0];
  ct_bind_t bind;
  int last = p == t->parts - 1, live = t->failed == CT_OK && n > 0;
  if (live) live = note(t, begin_piece(t, b, p, first, n, &v, &bind)) == CT_OK;
  if (!live) begin_empty(t, &v, &bind);
  for (int i = 0; i < v->plan->works && (live || t->group); i++) {
    if (live) live = note(t, ct_plan_run(v->plan, i, &bind, t->q)) == CT_OK;
    if (!live) note(t, ct_plan_run_empty(v->plan, i, &bind, t->q));
    if (v->plan->work[i].pass & (CT_FWD_STATS | CT_BWD_STATS)) exchange(t, v->plan, i);
    if (live && last) live = note(t, work_behind(t, v, i)) == CT_OK;
    if (!live && last && i > v->plan->loss_work) send_zeros(t, v->bucket, i);
  }
  if (last) return;
  if (!live) note(t, t->env.be->mem->zero(t->q, t->gradient, t->map.trained_bytes));
  fold_all(t, p);
}

/* The samples of piece p of this rank. */
static int64_t piece(const ct_trainer_t *t, const ct_batch_t *b, int p, int64_t *first)
{
  const ct_topo_t *topo = t->env.topo;
  *first = 0;
  if (t->parts == 1) return b->n;
  int64_t n = ct_sampler_share(b->global, topo->rank * t->parts + p, topo->size * t->parts, first);
  *first -= b->first;
  return n;
}

static void forward_backward(ct_trainer_t *t, const ct_batch_t *b)
{
  for (int p = 0; p < t->parts; p++) {
    int64_t first = 0, n = t->failed == CT_OK ? piece(t, b, p, &first) : 0;
    t->loss[p] = (ct_loss_t){0};
    run_piece(t, b, p, first, n);
  }
}

/* ---- the loss ---- */

static double weight_of(const ct_trainer_t *t, int32_t label)
{
  const ct_loss_spec_t *l = &t->env.loss;
  if (l->has_ignored && label == l->ignored) return 0;
  return t->env.class_weight ? t->env.class_weight[label] : 1;
}

/* What the sum of the losses is divided by: the samples of all ranks, or the sum of their weights. */
static void find_divisor(ct_trainer_t *t, const ct_batch_t *b)
{
  const ct_loss_spec_t *l = &t->env.loss;
  double sum = 0;
  t->divisor = t->failed == CT_OK ? (double)b->global : 1;
  if (!l->weighted && !l->has_ignored) return;
  for (int i = 0; t->failed == CT_OK && i < b->n; i++) {
    double share = b->mix ? b->mix[i] : 1;
    sum += share * weight_of(t, b->labels[i]);
    if (share < 1) sum += (1 - share) * weight_of(t, b->labels2[i]);
  }
  double begin = ct_clock();
  note(t, ct_agree_doubles(t->env.topo, &sum, 1, 0));
  t->exposed_s += ct_clock() - begin;
  t->divisor = sum > 0 ? sum : 1;
}

void ct__loss_add(ct_loss_t *sum, const ct_loss_t *l)
{
  sum->sum += l->sum;
  sum->weight += l->weight;
  sum->abs_error += l->abs_error;
  sum->samples += l->samples;
  sum->top1 += l->top1;
  sum->top5 += l->top5;
}

void ct_loss_tell(const ct_loss_t *l, ct_step_word_t *word)
{
  word->loss_sum = l->sum;
  word->loss_weight = l->weight;
  word->abs_error = l->abs_error;
  word->samples = l->samples;
  word->top1 = l->top1;
  word->top5 = l->top5;
}

/* With loss scaling an overflow is nothing unusual, until nothing is left to scale down. */
static int check_loss(const ct_trainer_t *t, const ct_batch_t *b, double sum)
{
  if (isfinite(sum) || (t->scaler.on && ct_scaler_scale(&t->scaler) > 1e-3)) return CT_OK;
  return ct_err_set(
      CT_ERR_NONFINITE, __FILE__, __LINE__,
      "the loss is %g at step %lld (epoch %lld, samples %lld to %lld of it): lower the "
      "learning rate, or look for bad values in the data",
      sum, (long long)t->steps + 1, (long long)b->epoch + 1, (long long)(b->cursor + b->first),
      (long long)(b->cursor + b->first + b->n - 1));
}

static void tell(ct_trainer_t *t, const ct_batch_t *b, const ct_step_report_t *r,
                 ct_step_word_t *word)
{
  ct_loss_t all = {0};
  for (int p = 0; p < t->parts; p++)
    ct__loss_add(&all, &t->loss[p]);
  if (t->failed == CT_OK && b->n) note(t, check_loss(t, b, all.sum));
  *word = (ct_step_word_t){.err = outcome(t),
                           .err_rank = t->env.topo->rank,
                           .stop = ct_stop_with_signal(word->stop, t->env.topo->rank),
                           .compute_s_max = r->compute_s,
                           .data_s_max = r->data_s};
  if (t->failed == CT_OK) ct_loss_tell(&all, word);
}

int ct_trainer_step(ct_trainer_t *t, const ct_batch_t *b, int rc_in, const ct_schedule_point_t *at,
                    ct_step_word_t *word, ct_step_report_t *report)
{
  int slot = (int)(t->steps % 2); /* as on all ranks, also on those without samples */
  t->begun = ct_clock();
  t->before_s = -1;
  ct_beat_at("forward and backward", -1);
  t->sent = 0;
  t->exposed_s = 0;
  t->failed = CT_OK;
  note(t, rc_in);
  find_divisor(t, b);
  note(t, ct__low_refresh(t));
  if (t->dp) {
    ct__dp_step(t, b, at, report);
  } else {
    if (t->failed == CT_OK && b->n) note(t, ct__input_take(t, b, slot));
    ct__repeat_begin(t, b, slot, report->want_norm);
    forward_backward(t, b);
    send_rest(t);
    ct__update_apply(t, at, report);
    ct__repeat_end(t);
  }
  ct__input_look(t);
  note(t, t->env.be->queue->sync(t->q));
  ct__update_report(t, report);
  report->comm_exposed_s = t->exposed_s;
  report->compute_s = ct_clock() - t->begun - t->exposed_s;
  report->before_comm_s = t->before_s < 0 ? report->compute_s : t->before_s;
  tell(t, b, report, word);
  t->steps++;
  return ct_step_agree(t->env.topo, word);
}

/* ---- evaluation ---- */

static int forward(ct_trainer_t *t, const ct_batch_t *b)
{
  int rc = CT_OK;
  const ct_variant_t *v;
  ct_bind_t bind;
  CT_TRY(ct_fault("eval.forward"));
  CT_TRY(ct__input_take(t, b, !t->slot));
  CT_TRY(ct__low_refresh(t));
  CT_TRY(ct__trainer_variant(t, b->n, 0, &v));
  ct__input_bind(t, b, 0, 0, &bind);
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
  ct__input_look(t);
  note(t, t->env.be->queue->sync(t->q)); /* nothing may be pending on the caller's batch */
  if (t->failed != CT_OK) return outcome(t);
  ct__loss_add(sum, t->loss);
  return CT_OK;
}
