/* From reduced gradients to new weights.
 *
 * The arenas are gone through in ranges of parameters with the same numbers (parameter groups).  Without
 * clipping and loss scaling a bucket is applied as soon as it has arrived, while later ones still travel.
 * What needs the whole gradient first (a norm to clip by, an infinity to look for) waits for all of them.
 * With ZeRO-1 (Rajbhandari et al. 2020) a rank updates its slice of each bucket, and the slices of the
 * weights are then gathered. */
#include "train/trainer.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <math.h>
#include <string.h>

/* ---- ranges ---- */

static size_t param_end(const ct_arena_map_t *m, int k)
{
  return k + 1 < m->trained ? m->offset[m->order[k + 1]] : m->trained_bytes;
}

/* The part of a bucket that this rank updates. */
static void own_slice(const ct_trainer_t *t, const ct_bucket_t *b, size_t *from, size_t *to)
{
  int64_t first = 0, end = (int64_t)(b->bytes / sizeof(float));
  if (t->env.recipe.zero) t->env.comm_ops->slice(t->env.comm, end, &first, &end);
  *from = b->offset + (size_t)first * sizeof(float);
  *to = b->offset + (size_t)end * sizeof(float);
}

static int add_range(ct_trainer_t *t, int k, int bucket, size_t from, size_t to)
{
  int param = t->map.order[k], group = t->groups.of[param];
  ct_range_t *last = t->ranges ? &t->range[t->ranges - 1] : NULL;
  if (last && !t->measures && last->bucket == bucket && last->group == group &&
      last->offset + last->bytes == from) {
    last->bytes += to - from;
  } else {
    if (ct_mem_grow((void **)&t->range, &t->cap_ranges, t->ranges + 1, sizeof *t->range))
      return CT_ERR_NOMEM;
    t->range[t->ranges++] = (ct_range_t){.offset = from,
                                         .bytes = to - from,
                                         .state = t->env.recipe.zero ? t->state_bytes : from,
                                         .group = group,
                                         .bucket = bucket,
                                         .norms = k};
  }
  t->state_bytes += to - from;
  return CT_OK;
}

static int make_ranges(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_arena_map_t *m = &t->map;
  for (int b = 0; b < t->buckets; b++) {
    size_t from, to;
    const ct_bucket_t *bucket = &t->variant[0].bucket[b];
    own_slice(t, bucket, &from, &to);
    for (int k = 0; k < m->trained; k++) {
      size_t begin = m->offset[m->order[k]], end = param_end(m, k);
      if (begin < from) begin = from;
      if (end > to) end = to;
      if (begin < end) CT_TRY(add_range(t, k, b, begin, end));
    }
  }
out:
  return rc;
}

/* ---- making ---- */

static int make_op(ct_trainer_t *t, ct_op_kind_t kind, int rule, ct_op_t **out)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  int64_t count = (int64_t)(t->map.trained_bytes / sizeof(float));
  ct_op_desc_flat(&d, kind, count, rule, t->env.recipe.clip_p);
  if (kind == CT_OP_UPDATE && t->low) d.y.dtype = t->env.recipe.compute;
  return t->env.be->op->prepare(t->env.dev, &d, NULL, out, &info);
}

static int make_ops(ct_trainer_t *t, int rule)
{
  int rc = CT_OK;
  void *stat = NULL;
  char *norms = NULL;
  CT_TRY(make_op(t, CT_OP_UPDATE, rule, &t->update));
  CT_TRY(make_op(t, CT_OP_GRADSTAT, rule, &t->gradstat));
  CT_TRY(t->env.be->mem->alloc(t->env.dev, CT_MEM_STAGING, sizeof *t->stat, &stat));
  t->stat = stat;
  if (!t->measures) return CT_OK;
  size_t bytes = 2 * (size_t)t->measures * sizeof *t->norms;
  CT_TRY(make_op(t, CT_OP_MEASURE, rule, &t->measure));
  CT_TRY(ct__trainer_alloc(t, bytes, &norms));
  t->norms = (double *)norms;
  t->host_norms = ct_mem_alloc(bytes, "norms");
  if (!t->host_norms) rc = CT_ERR_NOMEM;
out:
  return rc;
}

int ct__update_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  int rule = ct_optim_rule(t->env.optim, &t->states);
  ct_scaler_init(&t->scaler, t->env.recipe.compute == CT_F16);
  CT_TRY(ct_param_groups_make(t->env.optim, t->env.graph, t->env.where, &t->groups));
  t->hyper = ct_mem_array(t->groups.groups, sizeof *t->hyper, "parameter groups");
  CT_TRY(t->hyper ? CT_OK : CT_ERR_NOMEM);
  t->measures = ct_rule_measures((ct_rule_t)rule) ? t->map.trained : 0;
  CT_TRY(make_ranges(t));
  CT_TRY(make_ops(t, rule));
  for (int s = 0; s < t->states; s++)
    CT_TRY(ct__trainer_alloc(t, t->state_bytes, &t->state[s]));
out:
  return rc;
}

void ct__update_free(ct_trainer_t *t)
{
  const ct_backend_t *be = t->env.be;
  be->op->release(t->update);
  be->op->release(t->measure);
  be->op->release(t->gradstat);
  be->mem->free(t->env.dev, CT_MEM_STAGING, t->stat);
  be->mem->free(t->env.dev, CT_MEM_DEVICE, t->norms);
  for (int s = 0; s < CT_RULE_STATES; s++)
    be->mem->free(t->env.dev, CT_MEM_DEVICE, t->state[s]);
  ct__update_drop(t);
  ct_param_groups_clear(&t->groups);
  ct_mem_free(t->host_norms);
  ct_mem_free(t->hyper);
  ct_mem_free(t->range);
}

/* ---- one step ---- */

static ct_op_args_t args_of(const ct_trainer_t *t, const ct_range_t *r, int with_stat)
{
  const ct_recipe_t *how = &t->env.recipe;
  ct_op_args_t a = {.pass = CT_FWD,
                    .w = {t->weight + r->offset},
                    .y = t->low ? t->low + r->offset / 2 : NULL,
                    .dy = t->gradient + r->offset,
                    .count = (int64_t)(r->bytes / sizeof(float)),
                    .scale = (float)(1 / ct_scaler_scale(&t->scaler)),
                    .hyper = t->hyper[r->group],
                    .stat = t->stat,
                    .norms = t->measures ? t->norms + 2 * r->norms : NULL,
                    .ctl = {.clip_norm = how->clip_norm,
                            .clip_p = how->clip_p,
                            .clip_value = (float)how->clip_value,
                            .skip_nonfinite = t->scaler.on}};
  if (with_stat) a.ctl.stat = t->stat;
  for (int s = 0; s < t->states; s++)
    a.state[s] = t->state[s] + r->state;
  return a;
}

/* Runs an op over the ranges of a bucket, or of all (-1), if nothing has failed. */
static void run_over(ct_trainer_t *t, ct_op_t *op, int bucket, int with_stat)
{
  for (int i = 0; op && i < t->ranges && t->failed == CT_OK; i++) {
    if (bucket >= 0 && t->range[i].bucket != bucket) continue;
    ct_op_args_t a = args_of(t, &t->range[i], with_stat);
    ct__trainer_note(t, t->env.be->op->run(t->q, op, &a));
  }
}

static void end_transfer(ct_trainer_t *t, int k)
{
  double begin = ct_clock();
  if (t->dp) return; /* the gradients are there already */
  ct__trainer_enter(t, "waiting for the all-reduce of bucket", k);
  ct__trainer_note(t, t->env.comm_ops->end(t->env.comm, t->ticket[k], t->q));
  t->exposed_s += ct_clock() - begin;
}

static void sum_over_ranks(ct_trainer_t *t, double *io, int n, int max)
{
  double begin = ct_clock();
  ct__trainer_note(t, ct_agree_doubles(t->env.topo, io, n, max));
  t->exposed_s += ct_clock() - begin;
}

/* ZeRO-1: each rank has seen its slices only. */
static void share_stat(ct_trainer_t *t)
{
  int max = isinf(t->env.recipe.clip_p);
  ct__trainer_note(t, t->env.be->queue->sync(t->q));
  double sums[2] = {max ? 0 : t->stat->power, (double)t->stat->nonfinite};
  double largest = t->stat->power;
  sum_over_ranks(t, sums, 2, 0);
  if (max) sum_over_ranks(t, &largest, 1, 1);
  t->stat->power = max ? largest : sums[0];
  t->stat->nonfinite = (int64_t)sums[1];
}

static void share_norms(ct_trainer_t *t)
{
  const ct_backend_t *be = t->env.be;
  size_t bytes = 2 * (size_t)t->measures * sizeof *t->norms;
  ct__trainer_note(t, be->mem->copy(t->q, t->host_norms, t->norms, bytes));
  ct__trainer_note(t, be->queue->sync(t->q));
  sum_over_ranks(t, t->host_norms, 2 * t->measures, 0);
  ct__trainer_note(t, be->mem->copy(t->q, t->norms, t->host_norms, bytes));
}

static void gather_weights(ct_trainer_t *t)
{
  double begin = ct_clock();
  for (int k = 0; k < t->buckets; k++) {
    const ct_bucket_t *b = &t->variant[0].bucket[k];
    ct__trainer_enter(t, "the gathering of the weights of bucket", k);
    ct__trainer_note(t, t->env.comm_ops->gather(t->env.comm, t->q, (float *)(t->weight + b->offset),
                                                (int64_t)(b->bytes / sizeof(float))));
  }
  t->exposed_s += ct_clock() - begin;
  t->low_stale = 1; /* those of other ranks */
}

/* Every transfer is ended, also after an error: the peers need this rank for it. */
static void apply_as_they_come(ct_trainer_t *t, int stat)
{
  for (int k = 0; k < t->sent; k++) {
    end_transfer(t, k);
    if (stat) run_over(t, t->gradstat, k, 0);
    run_over(t, t->measure, k, 0);
    run_over(t, t->update, k, 0);
  }
}

static void apply_together(ct_trainer_t *t, int stat)
{
  int zero = t->env.recipe.zero;
  for (int k = 0; k < t->sent; k++) {
    end_transfer(t, k);
    if (stat) run_over(t, t->gradstat, k, 0);
  }
  if (stat && zero) share_stat(t);
  if (t->measures && zero)
    ct__trainer_note(
        t, t->env.be->mem->zero(t->q, t->norms, 2 * (size_t)t->measures * sizeof *t->norms));
  run_over(t, t->measure, -1, stat);
  if (t->measures && zero) share_norms(t);
  run_over(t, t->update, -1, stat);
  if (zero) gather_weights(t);
}

void ct__update_apply(ct_trainer_t *t, const ct_schedule_point_t *at, ct_step_report_t *report)
{
  const ct_recipe_t *how = &t->env.recipe;
  int needed = how->clip_norm > 0 || t->scaler.on;
  int stat = needed || report->want_norm;
  *t->stat = (ct_grad_stat_t){0};
  for (int g = 0; g < t->groups.groups; g++)
    t->hyper[g] = ct_optim_hyper(t->env.optim, &t->groups.group[g], at, t->updates);
  if (needed || how->zero)
    apply_together(t, stat);
  else
    apply_as_they_come(t, stat);
  report->grad_norm = stat ? 0 : NAN;
}

void ct__update_report(ct_trainer_t *t, ct_step_report_t *report)
{
  double p = t->env.recipe.clip_p, power = t->stat->power;
  int nonfinite = t->stat->nonfinite > 0;
  report->loss_scale = ct_scaler_scale(&t->scaler);
  report->skipped = t->scaler.on && nonfinite;
  if (!isnan(report->grad_norm))
    report->grad_norm = nonfinite ? INFINITY : isinf(p) ? power : pow(power, 1 / p);
  ct_scaler_update(&t->scaler, nonfinite);
  t->updates += !report->skipped;
}

/* ---- ZeRO-1: whole states ---- */

int ct__update_room(ct_trainer_t *t)
{
  int rc = CT_OK;
  for (int s = 0; s < t->states; s++)
    if (!t->full[s]) CT_TRY(ct__trainer_alloc(t, t->map.trained_bytes, &t->full[s]));
out:
  return rc;
}

void ct__update_drop(ct_trainer_t *t)
{
  for (int s = 0; s < CT_RULE_STATES; s++) {
    t->env.be->mem->free(t->env.dev, CT_MEM_DEVICE, t->full[s]);
    t->full[s] = NULL;
  }
}

/* They are made when this returns: the whole state may be freed then. */
static int copy_slices(ct_trainer_t *t, int s, int to_full)
{
  int rc = CT_OK, done;
  for (int i = 0; i < t->ranges; i++) {
    const ct_range_t *r = &t->range[i];
    char *full = t->full[s] + r->offset, *own = t->state[s] + r->state;
    CT_TRY(t->env.be->mem->copy(t->q, to_full ? full : own, to_full ? own : full, r->bytes));
  }
out:
  done = t->env.be->queue->sync(t->q);
  return rc != CT_OK ? rc : done;
}

int ct__update_gather_states(ct_trainer_t *t)
{
  int rc = CT_OK;
  for (int s = 0; s < t->states; s++) {
    CT_TRY_ALL(t->env.topo, copy_slices(t, s, 1));
    for (int k = 0; k < t->buckets; k++) {
      const ct_bucket_t *b = &t->variant[0].bucket[k];
      ct__trainer_enter(t, "the gathering of the optimizer's state, bucket", k);
      CT_TRY(t->env.comm_ops->gather(t->env.comm, t->q, (float *)(t->full[s] + b->offset),
                                     (int64_t)(b->bytes / sizeof(float))));
    }
  }
out:
  return rc;
}

int ct__update_share_states(ct_trainer_t *t)
{
  int rc = CT_OK;
  for (int s = 0; s < t->states; s++) {
    ct__trainer_enter(t, "the broadcast of the state", -1);
    CT_TRY(t->env.comm_ops->bcast(t->env.comm, t->q, t->full[s], t->map.trained_bytes, 0));
    CT_TRY_ALL(t->env.topo, copy_slices(t, s, 0));
  }
out:
  return rc;
}
