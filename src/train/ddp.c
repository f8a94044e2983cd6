/* Strategy ddp: each rank trains on its local batch, and gradients are averaged over all ranks.
 *
 * The local batch is processed in one or more micro-batches, one after another; those after the
 * first add to the gradient arena. The backward pass of the last one fills it from one end. As soon
 * as a bucket is full, its all-reduce starts and overlaps with the next ops. A rank
 * that fails or has no samples sends zeros in the same order as the others and reports the failure
 * in the step status, so that no rank waits forever. The rows of an embedding whose table is also
 * the weight of a later layer follow after backward (late_rows.c). Strategy `single` runs this code
 * with one rank. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_mem.h"
#include <limits.h>
#include <math.h>

#define LEVELS_MAX 16 /* partial sums kept, for up to 2^16 micro-batches */

typedef struct ddp {
  ct_event_t *ready; /* recorded after the launches that fill a bucket */
  int ticket[CT_BUCKETS_MAX];
  int sent;                     /* buckets of this step whose transfers have started */
  int filled;                   /* 1: the gradient arena has a sum to which micro-batches add */
  char *partial[LEVELS_MAX];    /* logical shards: gradient sums of earlier micro-batches */
  ct_op_t *sum[CT_BUCKETS_MAX]; /* adds the slices of two arenas, if there are such sums */
} ddp_t;

/* ---- creation and destruction ---- */

static int make_sum(ct_trainer_t *t, int bucket, ct_op_t **out)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_shape_t flat = ct_shape(2, 1, (int64_t)(t->first.bucket[bucket].bytes / sizeof(float)));
  ct_op_desc_init(&d, CT_OP_ADD, &flat, &flat);
  return t->env.be->op->prepare(t->env.dev, &d, NULL, out, &info);
}

static int ddp_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  int levels = ct_step_opts_accumulators(&t->env.step_opts);
  ddp_t *d = t->strategy = ct_mem_alloc(sizeof *d, "the buckets on their way");
  if (!d) return CT_ERR_NOMEM;
  for (int l = 0; l < levels; l++)
    CT_TRY(ct__arenas_take(t, CT_MEMORY_PARTIAL_SUMS, t->map.trained_bytes, &d->partial[l]));
  for (int k = 0; k < t->buckets && levels; k++)
    CT_TRY(make_sum(t, k, &d->sum[k]));
  CT_TRY(ct__late_rows_make(t));
  CT_TRY(t->env.be->queue->mark(t->q, &d->ready)); /* a step needs no memory for it */
out:
  return rc;
}

static void free_all(ct_trainer_t *t)
{
  ddp_t *d = t->strategy;
  ct__late_rows_free(t);
  if (!d) return;
  t->env.be->queue->unmark(d->ready);
  for (int i = 0; i < CT_BUCKETS_MAX; i++)
    t->env.be->op->release(d->sum[i]);
  ct_mem_free(d);
}

/* ---- gradient accumulation ---- */

static int ddp_add(ct_trainer_t *t, int level, int k)
{
  const ct_bucket_t *b = &t->first.bucket[k];
  const ddp_t *d = t->strategy;
  char *gradient = t->gradient + b->offset;
  ct_op_args_t a = {
      .pass = CT_FWD, .x = gradient, .x2 = d->partial[level] + b->offset, .y = gradient};
  return t->env.be->op->run(t->q, d->sum[k], &a);
}

/* Adds the sums of earlier micro-batches to bucket k of micro-batch p, or stores the bucket for
 * later ones. With fixed_order the micro-batches are the leaves of a binary tree, in which each
 * second leaf is added to the first in the gradient arena, and partial[level] holds finished left
 * subtrees, as in a binary counter. Otherwise there is one running sum, in the arena. */
static int fold(ct_trainer_t *t, int p, int k)
{
  int rc = CT_OK, level = 0;
  const ct_bucket_t *b = &t->first.bucket[k];
  const ddp_t *d = t->strategy;
  if (!t->env.step_opts.fixed_order || p % 2 == 0) return CT_OK;
  for (int done = (p + 1) / 2; done % 2 == 0; done /= 2)
    CT_TRY(ddp_add(t, level++, k));
  if (p < t->micro_batches - 1)
    CT_TRY(t->env.be->mem->copy(t->q, d->partial[level] + b->offset, t->gradient + b->offset,
                                b->bytes));
out:
  return rc;
}

/* Ends a micro-batch before the last. */
static int end_micro_batch(ct_trainer_t *t, int p)
{
  int rc = CT_OK;
  ddp_t *d = t->strategy;
  if (!t->env.step_opts.fixed_order || p % 2 == 0) return CT_OK;
  if (!d->filled) CT_TRY(t->env.be->mem->zero(t->q, t->gradient, t->map.trained_bytes));
  for (int k = 0; k < t->buckets; k++)
    CT_TRY(fold(t, p, k));
  d->filled = 0;
out:
  return rc;
}

/* ---- buckets ---- */

/* Fault point that simulates a half-precision overflow instead of an error. */
static int overflow(ct_trainer_t *t)
{
  static const float infinity = INFINITY;
  if (!t->map.trained || ct_fault("step.overflow") == CT_OK) return CT_OK;
  return t->env.be->mem->copy(t->q, t->gradient, &infinity, sizeof infinity);
}

/* Starts the transfer of the next bucket once the queue has reached this point. Runs even after a
 * failure, since the peers wait for the bucket. */
static int send_bucket(ct_trainer_t *t)
{
  ddp_t *d = t->strategy;
  const ct_bucket_t *b = &t->first.bucket[d->sent]; /* slices are the same in all plans */
  if (d->sent == 0) ct__step_note(t, overflow(t));
  if (ct__step_is_well(t)) ct__step_note(t, fold(t, t->micro_batches - 1, d->sent));
  ct__step_enter(t, CT_TIME_MOVE, "the all-reduce of bucket", d->sent);
  if (d->sent == 0) ct__step_note(t, ct_fault("step.send"));
  int marked = ct__step_note(t, t->env.be->queue->mark(t->q, &d->ready));
  int rc = ct__step_note(
      t, t->env.comm_ops->reduce(
             t->env.comm, marked == CT_OK ? d->ready : NULL, (float *)(t->gradient + b->offset),
             (int64_t)(b->bytes / sizeof(float)),
             t->env.step_opts.zero ? CT_REDUCE_SLICE : CT_REDUCE_ALL, &d->ticket[d->sent]));
  d->sent++;
  ct__step_leave(t);
  return marked != CT_OK ? marked : rc;
}

static void end_bucket(ct_trainer_t *t, int k)
{
  const ddp_t *d = t->strategy;
  ct__step_enter(t, CT_TIME_WAIT, "waiting for the all-reduce of bucket", k);
  if (k == 0) ct__step_note(t, ct_fault("step.wait"));
  ct__step_note(t, t->env.comm_ops->end(t->env.comm, d->ticket[k], ct__host_states_queue(t)));
  ct__step_leave(t);
  if (ct__step_is_well(t)) ct__step_note(t, ct__late_rows_add(t, k));
}

/* Sends the buckets that would be complete after launch \a i and have not been sent: without the
 * last micro-batch, or zeros if there is no earlier one or this rank failed. */
static void send_rest(ct_trainer_t *t, const ct_bucket_t *bucket, int i)
{
  const ddp_t *d = t->strategy;
  while (d->sent < t->buckets && bucket[d->sent].after <= i) {
    const ct_bucket_t *b = &bucket[d->sent];
    if (!d->filled || !ct__step_is_well(t))
      ct__step_note(t, t->env.be->mem->zero(t->q, t->gradient + b->offset, b->bytes));
    send_bucket(t);
  }
}

/* ---- micro-batches ---- */

static int after_launch(ct_trainer_t *t, const ct__variant_t *v, int i)
{
  int rc = CT_OK;
  const ddp_t *d = t->strategy;
  if (i < v->plan->loss_launch) return CT_OK;
  while (d->sent < t->buckets && v->bucket[d->sent].after <= i) {
    CT_TRY(ct__replay_look(t, t->micro_batches - 1, d->sent));
    CT_TRY(send_bucket(t));
  }
  if (!d->sent) return CT_OK;
  ct__step_enter(t, CT_TIME_MOVE, NULL, -1);
  rc = t->env.comm_ops->progress(t->env.comm);
  ct__step_leave(t);
out:
  return rc;
}

static int begin_micro_batch(ct_trainer_t *t, const ct_batch_t *b, int p, int64_t first, int64_t n,
                             const ct__variant_t **v, ct_bind_t *bind)
{
  int rc = CT_OK;
  if (p == 0 && !ct__replay_is_rehearsal(t)) CT_TRY(ct_fault("step"));
  CT_TRY(ct__plans_use(t, (int)n, 1, v));
  *bind = ct__input_bind(t, b, 1, first, p);
  CT_TRY(ct__late_rows_begin(t, n));
  bind->adds = ((const ddp_t *)t->strategy)->filled;
  bind->keep_running = t->env.step_opts.fixed_order && b->first + first > 0;
out:
  return rc;
}

/* Forward and backward of n samples from \a first on. A rank without samples, or after a failure,
 * still iterates over the plan: batchnorms may communicate between ranks, in the same number and
 * order in every plan, with the same buckets between them, and on a GPU each message waits for the
 * previous one. */
static void run_micro_batch(ct_trainer_t *t, const ct_batch_t *b, int p, int64_t first, int64_t n)
{
  const ct__variant_t *v = &t->first;
  ct_bind_t bind;
  ddp_t *d = t->strategy;
  int rehearsal = ct__replay_is_rehearsal(t), live = ct__step_is_well(t) && n > 0;
  int last = p == t->micro_batches - 1, sends = last && !rehearsal, messages = 0;
  if (live) live = ct__step_note(t, begin_micro_batch(t, b, p, first, n, &v, &bind)) == CT_OK;
  if (!live) {
    v = &t->first;
    bind = ct__plans_bind(t, 0);
  }
  for (int i = 0; i < v->plan->launches && (live || t->group); i++) {
    ct__slices_before(t, v->plan, i);
    if (live) live = ct__step_note(t, ct_plan_run(v->plan, i, &bind, t->q)) == CT_OK;
    if (!live) ct__step_note(t, ct_plan_run_empty(v->plan, i, &bind, t->q));
    ct__sync_bn_exchange(t, v->plan, i, p, &messages);
    if (live && sends) live = ct__step_note(t, after_launch(t, v, i)) == CT_OK;
    if (!live && sends && i >= v->plan->loss_launch) send_rest(t, v->bucket, i);
  }
  ct__slices_settle(t);
  if (live) live = ct__step_note(t, ct__replay_look_all(t, p, n)) == CT_OK;
  if (last) return;
  d->filled |= live;
  if (ct__step_is_well(t)) ct__step_note(t, end_micro_batch(t, p));
}

/* Returns the number of samples of this rank's micro-batch p. */
static int64_t micro_batch(const ct_trainer_t *t, const ct_batch_t *b, int p, int64_t *first)
{
  *first = 0;
  if (t->micro_batches == 1) return b->n;
  int64_t n = ct__memory_micro_batch(&t->env, b->global, 1, p, first);
  *first -= b->first;
  return n;
}

static void forward_backward(ct_trainer_t *t, const ct_batch_t *b)
{
  for (int p = 0; p < t->micro_batches; p++) {
    int64_t first = 0, n = ct__step_is_well(t) ? micro_batch(t, b, p, &first) : 0;
    run_micro_batch(t, b, p, first, n);
  }
}

/* The first run of a step that compares two. */
static void rehearse(ct_trainer_t *t, const ct_batch_t *b)
{
  if (!ct__replay_is_due(t)) return;
  ct__replay_begin(t);
  forward_backward(t, b);
  ((ddp_t *)t->strategy)->filled = 0;
  ct__replay_turn(t);
}

/* Gathers the rows of tables that travel by themselves. */
static void gather_rows(ct_trainer_t *t, const ct_batch_t *b)
{
  for (int k = 0; k < ct__late_rows_tables(t); k++) {
    int empty = !ct__step_is_well(t) || b->n == 0;
    ct__step_enter(t, CT_TIME_WAIT, "the gather of the rows of table", k);
    ct__step_note(t, ct__late_rows_gather(t, k, empty));
    ct__step_leave(t);
  }
}

static void step(ct_trainer_t *t, const ct_batch_t *b, const ct_schedule_point_t *at,
                 ct_step_report_t *report)
{
  ddp_t *d = t->strategy;
  int slot = (int)(t->progress.steps % 2); /* same on all ranks, also on those without samples */
  d->sent = 0;
  d->filled = 0;
  if (ct__step_is_well(t) && b->n) ct__step_note(t, ct__input_take(t, b, slot));
  rehearse(t, b);
  ct__repeat_begin(t, b, slot, report->want_norm);
  forward_backward(t, b);
  ct__replay_end(t);
  send_rest(t, t->first.bucket, INT_MAX);
  gather_rows(t, b);
  ct__update_apply(t, at, report, end_bucket);
  ct__repeat_end(t);
}

const ct_strategy_t ct_strategy_ddp = {
    .name = "ddp", .repeats = 1, .make = ddp_make, .free = free_all, .step = step};
const ct_strategy_t ct_strategy_single = {.name = "single",
                                          .one_rank = 1,
                                          .repeats = 1,
                                          .make = ddp_make,
                                          .free = free_all,
                                          .step = step};
