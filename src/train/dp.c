/* Strategy dp: a parameter server, like torch.nn.DataParallel over the ranks.
 *
 * Rank 0 loads the whole batch. It scatters the samples, gathers the outputs, computes the loss and
 * its gradient, scatters the gradient, reduces all gradients, updates the weights and broadcasts
 * them. The arithmetic equals that of gradient all-reduce, but all data passes through rank 0,
 * nothing overlaps, and the other ranks wait while rank 0 computes. It exists for comparison.
 *
 * Each stage of the step that can fail on one rank ends with an agreement, so that all ranks leave
 * the step together. */
#include "train/trainer.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_mem.h"

/* The prepared loss for one batch size. */
typedef struct whole {
  int n;
  ct_op_t *op; /* owned */
  char *scratch;
} whole_t;

typedef struct dp {
  whole_t *whole; /* owned; rank 0 only */
  int64_t wholes, cap;
  int64_t *bytes; /* owned; per rank: bytes of its rows in a scatter or gather */
  char *mine;     /* inputs of this rank's samples */
  char *outputs;  /* of the whole batch; rank 0 only */
  char *gradient; /* of the loss by `outputs`; rank 0 only */
  /* the step in progress */
  const ct_batch_t *b;
  const ct_plan_t *plan; /* for this rank's samples; NULL: it has none */
  ct_bind_t bind;        /* arguments for this plan */
  ct_bind_t all;         /* rank 0: arguments for the whole batch ... */
  const whole_t *loss;   /* ... and its loss */
} dp_t;

/* ---- creation and destruction ---- */

/* Rejects options that contradict rank 0 holding all outputs and all optimizer states. */
static int dp_check(const ct_parallel_opts_t *p, const ct_train_opts_t *t)
{
  int rc = CT_OK;
  if (strcmp(t->sync_bn, "off") != 0)
    CT_FAIL(CT_ERR_USAGE, "train.sync_bn needs parallel.mode ddp: with dp each rank normalizes its "
                          "own samples, as torch.nn.DataParallel");
  if (p->shards || t->accumulate > 1)
    CT_FAIL(CT_ERR_USAGE,
            "%s splits the batch into micro-batches, but with parallel.mode dp rank 0 computes the "
            "loss of the whole batch at once",
            p->shards ? "parallel.shards" : "train.accumulate");
  if (p->zero)
    CT_FAIL(CT_ERR_USAGE,
            "parallel.zero spreads the optimizer's states over the ranks, but with parallel.mode "
            "dp rank 0 makes the update alone");
  if (p->grad_dtype)
    CT_FAIL(CT_ERR_USAGE,
            "parallel.grad_dtype needs parallel.mode ddp: with dp gradients are sent as float32");
out:
  return rc;
}

static int dp_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_trainer_env_t *e = &t->env;
  size_t mine = (size_t)e->max_batch * ct__memory_sample(e->graph);
  size_t output = (size_t)ct_shape_sample(ct__memory_output(e, &t->heads.of[0])) * sizeof(float);
  size_t all = (size_t)e->max_batch * (size_t)e->topo->size * output;
  if (t->heads.n > 1)
    return ct_err_set(
        CT_ERR_USAGE, __FILE__, __LINE__,
        "a list of losses needs parallel.mode ddp: with dp rank 0 computes one loss of "
        "the whole batch");
  dp_t *d = t->strategy = ct_mem_alloc(sizeof *d, "the parameter server");
  if (!d) return CT_ERR_NOMEM;
  d->bytes = ct_mem_array(e->topo->size, sizeof *d->bytes, "the parameter server");
  if (!d->bytes) return CT_ERR_NOMEM;
  CT_TRY(ct__arenas_take(t, CT_MEMORY_DEALT, mine, &d->mine));
  if (e->topo->rank) return CT_OK;
  CT_TRY(ct__arenas_take(t, CT_MEMORY_DEALT, all, &d->outputs));
  CT_TRY(ct__arenas_take(t, CT_MEMORY_DEALT, all, &d->gradient));
out:
  return rc;
}

static void free_all(ct_trainer_t *t)
{
  dp_t *d = t->strategy;
  if (!d) return;
  for (int64_t i = 0; i < d->wholes; i++)
    t->env.be->op->release(d->whole[i].op);
  ct_mem_free(d->whole);
  ct_mem_free(d->bytes);
  ct_mem_free(d);
}

static const ct_op_desc_t *loss_of(const ct_plan_t *p)
{
  return &p->op[p->launch[p->loss_launch].op].desc;
}

static int make_whole(ct_trainer_t *t, int n, whole_t *w)
{
  int rc = CT_OK;
  size_t scratch;
  *w = (whole_t){.n = n};
  CT_TRY(ct_plan_whole_loss(t->first.plan, n, &w->op, &scratch));
  CT_TRY(ct__arenas_take(t, CT_MEMORY_SCRATCH, scratch, &w->scratch));
out:
  return rc;
}

static int find_whole(ct_trainer_t *t, int n, const whole_t **out)
{
  int rc = CT_OK;
  dp_t *d = t->strategy;
  for (int64_t i = 0; i < d->wholes; i++)
    if (d->whole[i].n == n) {
      *out = &d->whole[i];
      return CT_OK;
    }
  CT_TRY(ct_mem_grow((void **)&d->whole, &d->cap, d->wholes + 1, sizeof *d->whole));
  CT_TRY(make_whole(t, n, &d->whole[d->wholes++]));
  *out = &d->whole[d->wholes - 1];
out:
  return rc;
}

static int dp_prepare(ct_trainer_t *t, int n)
{
  const whole_t *w;
  return t->env.topo->rank == 0 && n ? find_whole(t, n, &w) : CT_OK;
}

/* ---- communication ---- */

static int agree(ct_trainer_t *t, int rc)
{
  ct__step_enter(t, CT_TIME_WAIT, NULL, -1);
  rc = ct_agree(t->env.topo, rc);
  ct__step_leave(t);
  return rc;
}

/* Scatters (out) or gathers rows of \a sample bytes between \a all on rank 0 and \a mine on every
 * rank. */
static int dp_move_rows(ct_trainer_t *t, int out, size_t sample, void *all, void *mine)
{
  const dp_t *d = t->strategy;
  const ct_topo_t *topo = t->env.topo;
  const ct_comm_ops_t *ops = t->env.comm_ops;
  ct__step_enter(t, CT_TIME_WAIT, out ? "giving out samples" : "collecting outputs", -1);
  for (int r = 0; r < topo->size; r++) {
    int64_t first;
    d->bytes[r] = ct_sampler_cut(d->b->global, r, topo->size, &first) * (int64_t)sample;
  }
  int rc = out ? ops->scatter(t->env.comm, t->q, all, mine, d->bytes)
               : ops->collect(t->env.comm, t->q, mine, all, d->bytes);
  ct__step_leave(t);
  return rc;
}

static int sum_gradients(ct_trainer_t *t)
{
  ct__step_enter(t, CT_TIME_WAIT, "the sum of the gradients", -1);
  int rc = t->env.comm_ops->reduce_root(t->env.comm, t->q, (float *)t->gradient,
                                        (int64_t)(t->map.trained_bytes / sizeof(float)));
  ct__step_leave(t);
  return rc;
}

static int share_weights(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_comm_ops_t *ops = t->env.comm_ops;
  ct__step_enter(t, CT_TIME_WAIT, "the broadcast of the weights", -1);
  if (t->map.buffer_bytes) CT_TRY(ops->bcast(t->env.comm, t->q, t->buffer, t->map.buffer_bytes, 0));
  if (t->map.trained_bytes)
    CT_TRY(ops->bcast(t->env.comm, t->q, t->weight, t->map.trained_bytes, 0));
  ct__reduced_outdate(t);
out:
  ct__step_leave(t);
  return rc;
}

/* ---- computation; all functions are local ---- */

/* Binds the inputs of this rank's samples, which are contiguous in d->mine. */
static void bind_mine(ct_trainer_t *t)
{
  dp_t *d = t->strategy;
  const ct_graph_t *g = t->env.graph;
  char *at = d->mine + (size_t)t->env.max_batch * ct_shape_bytes(&g->input);
  d->bind.x = d->mine;
  for (int k = 0; k < g->extra.n; k++) {
    d->bind.extra[k] = (const float *)at;
    at += (size_t)t->env.max_batch * ct_shape_bytes(&g->extra.x[k]);
  }
}

static int begin_step(ct_trainer_t *t)
{
  int rc = CT_OK;
  int64_t first, n;
  dp_t *d = t->strategy;
  const ct_topo_t *topo = t->env.topo;
  const ct__variant_t *v = NULL;
  CT_TRY(ct__step_outcome(t)); /* result of loading the batch */
  CT_TRY(ct_fault("step"));
  n = ct_sampler_cut(d->b->global, topo->rank, topo->size, &first);
  if (n) CT_TRY(ct__plans_use(t, (int)n, 1, &v));
  d->plan = n ? v->plan : NULL;
  d->bind = ct__plans_bind(t, first);
  bind_mine(t);
  if (topo->rank) return CT_OK;
  CT_TRY(ct__input_take(t, d->b, -1));
  d->all = ct__input_bind(t, d->b, 1, 0, 0);
  CT_TRY(find_whole(t, d->b->n, &d->loss));
out:
  return rc;
}

/* Runs launches [from, to) on this rank's samples. */
static int run_launches(ct_trainer_t *t, int from, int to)
{
  int rc = CT_OK;
  const dp_t *d = t->strategy;
  for (int i = from; i < to; i++)
    CT_TRY(ct_plan_run(d->plan, i, &d->bind, t->q));
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}

static int dp_forward(ct_trainer_t *t)
{
  const dp_t *d = t->strategy;
  return d->plan ? run_launches(t, 0, d->plan->loss_launch) : CT_OK;
}

static int dp_backward(ct_trainer_t *t)
{
  const dp_t *d = t->strategy;
  if (!d->plan) return t->env.be->mem->zero(t->q, t->gradient, t->map.trained_bytes);
  return run_launches(t, d->plan->loss_launch + 1, d->plan->launches);
}

/* Rank 0: computes the loss of the whole batch from all outputs, and the gradient of the loss. */
static int whole_loss(ct_trainer_t *t)
{
  int rc = CT_OK;
  const dp_t *d = t->strategy;
  if (t->env.topo->rank) return CT_OK;
  ct_op_args_t a = {.pass = CT_FWD | CT_BWD_DATA,
                    .x = d->outputs,
                    .dx = d->gradient,
                    .labels = d->all.labels,
                    .labels2 = d->all.labels2,
                    .mix = d->all.mix,
                    .targets = d->all.targets,
                    .class_weight = d->all.class_weight,
                    .place_weight = d->all.place_weight,
                    .sample_weight = d->all.weights,
                    .loss = d->all.loss,
                    .scale = d->all.loss_scale,
                    .scratch = d->loss->scratch};
  CT_TRY(t->env.be->op->run(t->q, d->loss->op, &a));
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}

static int update(ct_trainer_t *t, const ct_schedule_point_t *at, ct_step_report_t *report)
{
  if (t->env.topo->rank) return CT_OK;
  ct__update_apply(t, at, report, NULL);
  ct__step_note(t, t->env.be->queue->sync(t->q));
  return ct__step_outcome(t);
}

/* ---- the step ---- */

/* Returns the address at which the plan stores the input of the loss (dx 0) or its gradient (dx
 * 1). */
static void *at_loss(const dp_t *d, int dx)
{
  if (!d->plan) return NULL;
  const ct_plan_launch_t *w = &d->plan->launch[d->plan->loss_launch];
  return d->bind.arena + d->plan->value[ct_plan_root(d->plan, dx ? w->dx : w->x)].offset;
}

static int deal_inputs(ct_trainer_t *t)
{
  int rc = CT_OK;
  const dp_t *d = t->strategy;
  const ct_graph_t *g = t->env.graph;
  CT_TRY(dp_move_rows(t, 1, ct_shape_bytes(&g->input), (void *)(uintptr_t)d->all.x, d->mine));
  for (int k = 0; k < g->extra.n; k++)
    CT_TRY(dp_move_rows(t, 1, ct_shape_bytes(&g->extra.x[k]), (void *)(uintptr_t)d->all.extra[k],
                        (void *)(uintptr_t)d->bind.extra[k]));
out:
  return rc;
}

static int dp_run(ct_trainer_t *t, const ct_schedule_point_t *at, ct_step_report_t *report)
{
  int rc = CT_OK;
  const dp_t *d = t->strategy;
  const ct_shape_t *outputs = &loss_of(t->first.plan)->x;
  size_t output = ct_shape_bytes(outputs) / (size_t)outputs->dim[0];
  CT_TRY(agree(t, begin_step(t)));
  CT_TRY(deal_inputs(t));
  CT_TRY(agree(t, dp_forward(t)));
  CT_TRY(dp_move_rows(t, 0, output, d->outputs, at_loss(d, 0)));
  CT_TRY(agree(t, whole_loss(t)));
  CT_TRY(dp_move_rows(t, 1, output, d->gradient, at_loss(d, 1)));
  CT_TRY(agree(t, dp_backward(t)));
  CT_TRY(sum_gradients(t));
  CT_TRY(agree(t, update(t, at, report)));
  CT_TRY(share_weights(t));
out:
  return rc;
}

static void step(ct_trainer_t *t, const ct_batch_t *b, const ct_schedule_point_t *at,
                 ct_step_report_t *report)
{
  dp_t *d = t->strategy;
  d->b = b;
  ct__step_note(t, dp_run(t, at, report));
}

const ct_strategy_t ct_strategy_dp = {.name = "dp",
                                      .rank0_deals = 1,
                                      .check = dp_check,
                                      .make = dp_make,
                                      .free = free_all,
                                      .prepare = dp_prepare,
                                      .step = step};
