/* A step in the way of a parameter server, torch.nn.DataParallel over the ranks.
 *
 * Rank 0 has the whole batch: it gives each rank its samples, collects the outputs, computes
 * the loss and its gradient by them, gives that back, sums up all gradients, updates, and gives
 * the new weights to all. The arithmetic is that of the gradient all-reduce, but everything
 * goes through rank 0, nothing is hidden behind anything, and the others wait while rank 0
 * works: it is here to be measured.
 *
 * A stage of the step that can fail on one rank ends with an agreement, so all leave it
 * together. */
#include "train/trainer.h"

#include <math.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_mem.h"

/* The loss of so many samples. */
typedef struct whole {
  int n;
  ct_op_t *op;   /* owned */
  ct_shape_t x;  /* of the outputs */
  void *scratch; /* owned */
} whole_t;

struct ct__dp {
  whole_t *whole; /* owned; rank 0 */
  int64_t wholes, cap;
  int64_t *bytes;           /* owned; of each rank: its rows of what is moved */
  char *mine;               /* owned, like the rest: inputs of this rank's samples; device */
  char *outputs, *gradient; /* of the whole batch; rank 0; device */
};

/* ---- life ---- */

int ct__dp_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_trainer_env_t *e = &t->env;
  if (!e->training || !e->recipe.dp) return CT_OK;
  ct__dp_t *d = t->dp = ct_mem_alloc(sizeof *d, "the parameter server");
  if (!d) return CT_ERR_NOMEM;
  size_t all = (size_t)t->max_n * (size_t)t->outputs * sizeof(float);
  d->bytes = ct_mem_array(e->topo->size, sizeof *d->bytes, "the parameter server");
  if (!d->bytes) return CT_ERR_NOMEM;
  CT_TRY(ct__trainer_alloc(t, (size_t)e->max_batch * ct_shape_bytes(&e->graph->input), &d->mine));
  if (e->topo->rank) return CT_OK;
  CT_TRY(ct__trainer_alloc(t, all, &d->outputs));
  CT_TRY(ct__trainer_alloc(t, all, &d->gradient));
out:
  return rc;
}

void ct__dp_free(ct_trainer_t *t)
{
  ct__dp_t *d = t->dp;
  const ct_backend_t *be = t->env.be;
  if (!d) return;
  for (int64_t i = 0; i < d->wholes; i++) {
    be->op->release(d->whole[i].op);
    be->mem->free(t->env.dev, CT_MEM_DEVICE, d->whole[i].scratch);
  }
  be->mem->free(t->env.dev, CT_MEM_DEVICE, d->mine);
  be->mem->free(t->env.dev, CT_MEM_DEVICE, d->outputs);
  be->mem->free(t->env.dev, CT_MEM_DEVICE, d->gradient);
  ct_mem_free(d->whole);
  ct_mem_free(d->bytes);
  ct_mem_free(d);
  t->dp = NULL;
}

/* As the loss of any training plan, for other samples. */
static int make_whole(ct_trainer_t *t, int n, whole_t *w)
{
  int rc = CT_OK;
  const ct_plan_t *p = t->variant[0].plan;
  ct_op_desc_t d = p->op[p->work[p->loss_work].op].desc;
  ct_op_info_t info;
  d.x.dim[0] = d.y.dim[0] = n;
  *w = (whole_t){.n = n, .x = d.x};
  CT_TRY(t->env.be->op->prepare(t->env.dev, &d, NULL, &w->op, &info));
  if (info.scratch)
    CT_TRY(t->env.be->mem->alloc(t->env.dev, CT_MEM_DEVICE, info.scratch, &w->scratch));
out:
  return rc;
}

static int find_whole(ct_trainer_t *t, int n, const whole_t **out)
{
  int rc = CT_OK;
  ct__dp_t *d = t->dp;
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

int ct__dp_prepare(ct_trainer_t *t, int n)
{
  const whole_t *w;
  return t->dp && t->env.topo->rank == 0 && n ? find_whole(t, n, &w) : CT_OK;
}

/* ---- messages ---- */

typedef struct dp_step {
  ct_trainer_t *t;
  const ct_batch_t *b;
  const ct_variant_t *v; /* of this rank's samples; NULL: it has none */
  ct_bind_t bind;        /* for them */
  const whole_t *whole;  /* rank 0 */
} dp_step_t;

static int agree(ct_trainer_t *t, int rc)
{
  double begin = ct_clock();
  rc = ct_agree(t->env.topo, rc);
  t->exposed_s += ct_clock() - begin;
  return rc;
}

/* Rows of \a sample bytes between rank 0's \a all and everybody's \a mine. */
static int move_rows(const dp_step_t *s, int out, size_t sample, void *all, void *mine)
{
  ct_trainer_t *t = s->t;
  const ct_topo_t *topo = t->env.topo;
  const ct_comm_ops_t *ops = t->env.comm_ops;
  double begin = ct_clock();
  for (int r = 0; r < topo->size; r++) {
    int64_t first;
    t->dp->bytes[r] = ct_sampler_share(s->b->global, r, topo->size, &first) * (int64_t)sample;
  }
  ct__trainer_enter(t, out ? "giving out samples" : "collecting outputs", -1);
  int rc = out ? ops->scatter(t->env.comm, t->q, all, mine, t->dp->bytes)
               : ops->collect(t->env.comm, t->q, mine, all, t->dp->bytes);
  t->exposed_s += ct_clock() - begin;
  return rc;
}

static int sum_gradients(ct_trainer_t *t)
{
  double begin = ct_clock();
  ct__trainer_enter(t, "the sum of the gradients", -1);
  int rc = t->env.comm_ops->reduce_root(t->env.comm, t->q, (float *)t->gradient,
                                        (int64_t)(t->map.trained_bytes / sizeof(float)));
  t->exposed_s += ct_clock() - begin;
  return rc;
}

static int share_weights(ct_trainer_t *t)
{
  int rc = CT_OK;
  double begin = ct_clock();
  const ct_comm_ops_t *ops = t->env.comm_ops;
  ct__trainer_enter(t, "the broadcast of the weights", -1);
  if (t->map.buffer_bytes) CT_TRY(ops->bcast(t->env.comm, t->q, t->buffer, t->map.buffer_bytes, 0));
  if (t->map.trained_bytes)
    CT_TRY(ops->bcast(t->env.comm, t->q, t->weight, t->map.trained_bytes, 0));
  t->low_stale = 1;
out:
  t->exposed_s += ct_clock() - begin;
  return rc;
}

/* ---- arithmetic: each of these is local ---- */

static int outcome(const ct_trainer_t *t)
{
  if (t->failed != CT_OK) ct_err_put(&t->failure);
  return t->failed;
}

static int begin_step(dp_step_t *s)
{
  int rc = CT_OK;
  int64_t first, n;
  ct_trainer_t *t = s->t;
  const ct_topo_t *topo = t->env.topo;
  CT_TRY(outcome(t)); /* of getting the batch */
  CT_TRY(ct_fault("step"));
  n = ct_sampler_share(s->b->global, topo->rank, topo->size, &first);
  if (n) CT_TRY(ct__trainer_variant(t, (int)n, 1, &s->v));
  s->bind = (ct_bind_t){.arena = t->arena,
                        .scratch = t->scratch,
                        .weight = t->weight,
                        .low = t->low,
                        .gradient = t->gradient,
                        .buffer = t->buffer,
                        .map = &t->map,
                        .x = t->dp->mine,
                        .seed = t->env.seed,
                        .step = t->steps,
                        .first = first};
  if (topo->rank) return CT_OK;
  CT_TRY(ct__input_take(t, s->b, !t->slot));
  CT_TRY(find_whole(t, s->b->n, &s->whole));
out:
  return rc;
}

/* Works [from, to) of this rank's samples. */
static int run_works(dp_step_t *s, int from, int to)
{
  int rc = CT_OK;
  for (int i = from; i < to; i++)
    CT_TRY(ct_plan_run(s->v->plan, i, &s->bind, s->t->q));
  CT_TRY(s->t->env.be->queue->sync(s->t->q));
out:
  return rc;
}

static int forward(dp_step_t *s)
{
  if (!s->v) return CT_OK;
  s->t->last = s->v->plan;
  return run_works(s, 0, s->v->plan->loss_work);
}

static int backward(dp_step_t *s)
{
  const ct_trainer_t *t = s->t;
  if (!s->v) return t->env.be->mem->zero(t->q, t->gradient, t->map.trained_bytes);
  return run_works(s, s->v->plan->loss_work + 1, s->v->plan->works);
}

/* Loss of the whole batch by all outputs, and the gradient of these; rank 0. */
static int whole_loss(dp_step_t *s)
{
  int rc = CT_OK;
  ct_trainer_t *t = s->t;
  ct_bind_t all;
  if (t->env.topo->rank) return CT_OK;
  ct__input_bind(t, s->b, 1, 0, &all);
  ct_op_args_t a = {.pass = CT_FWD | CT_BWD_DATA,
                    .x = t->dp->outputs,
                    .dx = t->dp->gradient,
                    .labels = all.labels,
                    .labels2 = all.labels2,
                    .mix = all.mix,
                    .targets = all.targets,
                    .class_weight = all.class_weight,
                    .loss = t->loss,
                    .scale = (float)(ct_scaler_scale(&t->scaler) / t->divisor),
                    .scratch = s->whole->scratch};
  CT_TRY(t->env.be->op->run(t->q, s->whole->op, &a));
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}

static int update(dp_step_t *s, const ct_schedule_point_t *at, ct_step_report_t *report)
{
  ct_trainer_t *t = s->t;
  if (t->env.topo->rank) return CT_OK;
  t->sent = t->buckets; /* all gradients are here */
  ct__update_apply(t, at, report);
  ct__trainer_note(t, t->env.be->queue->sync(t->q));
  return outcome(t);
}

/* ---- the step ---- */

/* Where the plan has what the loss reads (dx 0), or its gradient (dx 1). */
static void *at_loss(const dp_step_t *s, int dx)
{
  if (!s->v) return NULL;
  const ct_plan_t *p = s->v->plan;
  const ct_work_t *w = &p->work[p->loss_work];
  return s->t->arena + p->value[ct_plan_root(p, dx ? w->dx : w->x)].offset;
}

static int run(dp_step_t *s, const ct_schedule_point_t *at, ct_step_report_t *report)
{
  int rc = CT_OK;
  ct_trainer_t *t = s->t;
  ct__dp_t *d = t->dp;
  const ct_plan_t *p = t->variant[0].plan;
  const ct_op_desc_t *loss = &p->op[p->work[p->loss_work].op].desc;
  size_t input = ct_shape_bytes(&t->env.graph->input);
  size_t output = ct_shape_bytes(&loss->x) / (size_t)loss->x.dim[0];
  CT_TRY(agree(t, begin_step(s)));
  char *x = t->env.be->in_place ? (char *)s->b->x : t->input[t->slot].part[CT_INPUT_X];
  CT_TRY(move_rows(s, 1, input, x, d->mine));
  CT_TRY(agree(t, forward(s)));
  CT_TRY(move_rows(s, 0, output, d->outputs, at_loss(s, 0)));
  CT_TRY(agree(t, whole_loss(s)));
  CT_TRY(move_rows(s, 1, output, d->gradient, at_loss(s, 1)));
  CT_TRY(agree(t, backward(s)));
  CT_TRY(sum_gradients(t));
  CT_TRY(agree(t, update(s, at, report)));
  CT_TRY(share_weights(t));
out:
  return rc;
}

void ct__dp_step(ct_trainer_t *t, const ct_batch_t *b, const ct_schedule_point_t *at,
                 ct_step_report_t *report)
{
  dp_step_t s = {.t = t, .b = b};
  report->grad_norm = NAN;
  t->loss[0] = (ct_loss_t){0};
  *t->stat = (ct_grad_stat_t){0};
  ct__trainer_note(t, run(&s, at, report));
}
