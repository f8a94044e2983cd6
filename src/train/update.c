/* Computes new weights from reduced gradients.
 *
 * The arenas are processed in ranges of parameters with the same hyperparameters (parameter
 * groups). Without clipping and loss scaling each bucket is applied as soon as its reduction is
 * complete, while later ones are in flight. Operations that need the whole gradient first (clipping
 * by norm, detecting infinities) wait for all buckets. With ZeRO-1 a rank updates its slice of each
 * bucket, and the weights are then all-gathered (slices.c). */
#include "train/trainer.h"
#include "backend/ct_update.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <limits.h>
#include <math.h>

/* ---- ranges ---- */

static size_t param_end(const ct_arena_map_t *m, int k)
{
  return k + 1 < m->trained ? m->offset[m->order[k + 1]] : m->trained_bytes;
}

static int add_range(ct_trainer_t *t, int k, int bucket, size_t from, size_t to)
{
  int rc = CT_OK;
  ct__update_t *u = &t->update;
  int group = u->groups.of[t->map.order[k]];
  ct__range_t *last = u->ranges ? &u->range[u->ranges - 1] : NULL;
  if (last && !u->norm_pairs && !u->groups.group[group].matrix && last->bucket == bucket &&
      last->group == group && last->offset + last->bytes == from) {
    last->bytes += to - from;
  } else {
    CT_TRY(ct_mem_grow((void **)&u->range, &u->cap, u->ranges + 1, sizeof *u->range));
    int low = from < t->map.low_bytes;
    u->range[u->ranges++] =
        (ct__range_t){.offset = from,
                      .weight = low ? u->state_bytes : t->own_low + (from - t->map.low_bytes),
                      .bytes = to - from,
                      .state = t->env.step_opts.zero ? u->state_bytes : from,
                      .group = group,
                      .bucket = bucket,
                      .norms = k};
  }
  u->state_bytes += to - from;
out:
  return rc;
}

static int make_ranges(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_arena_map_t *m = &t->map;
  for (int b = 0; b < t->buckets; b++) {
    size_t from, to;
    const ct_bucket_t *bucket = &t->first.bucket[b];
    ct__memory_slice(&t->env, bucket, &from, &to);
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

/* ---- segments ---- */

/* Appends range \a i to the table, and to its last part or to a new one. */
static int add_segment(ct__update_t *u, int i, ct_segment_t *table, int *n)
{
  const ct__range_t *r = &u->range[i];
  ct__segments_t *part = u->parts ? &u->part[u->parts - 1] : NULL;
  int64_t count = (int64_t)(r->bytes / sizeof(float));
  int64_t chunks = *n ? table[*n - 1].chunk + ct_segment_chunks(table[*n - 1].count) : 0;
  if (chunks + ct_segment_chunks(count) > INT_MAX) return CT_ERR_NOMEM;
  if (!part || part->group != r->group || part->bucket != r->bucket) {
    part = &u->part[u->parts++];
    *part = (ct__segments_t){.group = r->group, .bucket = r->bucket, .first = *n};
  }
  part->n++;
  part->count += count;
  table[(*n)++] = (ct_segment_t){.first = (int64_t)(r->offset / sizeof(float)),
                                 .state = (int64_t)(r->state / sizeof(float)),
                                 .count = count,
                                 .norms = r->norms,
                                 .chunk = (int)chunks,
                                 .weight = (int64_t)(r->weight / sizeof(float))};
  return CT_OK;
}

/* Makes the table of segments from the ranges, and copies it to the device. */
static int make_segments(ct_trainer_t *t, char *device)
{
  int rc = CT_OK, n = 0;
  ct__update_t *u = &t->update;
  const ct_backend_t *be = t->env.be;
  ct_segment_t *table = ct_mem_array(u->ranges + 1, sizeof *table, "segments");
  u->part = ct_mem_array(u->ranges + 1, sizeof *u->part, "segments");
  CT_TRY(table && u->part ? CT_OK : CT_ERR_NOMEM);
  for (int g = 0; g < u->groups.groups; g++)
    for (int i = 0; i < u->ranges; i++)
      if (u->range[i].group == g) CT_TRY(add_segment(u, i, table, &n));
  CT_TRY(be->mem->copy(t->q, device, table, (size_t)n * sizeof *table));
  CT_TRY(be->queue->sync(t->q));
  u->segment = (const ct_segment_t *)device;
out:
  ct_mem_free(table);
  return rc;
}

/* ---- creation and destruction ---- */

static size_t norms_bytes(const ct__update_t *u)
{
  return 2 * (size_t)u->norm_pairs * sizeof *u->norms;
}

static int make_op(ct_trainer_t *t, ct_op_kind_t kind, int rule, ct_op_t **out)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  int64_t count = (int64_t)(t->map.trained_bytes / sizeof(float));
  ct_op_desc_flat(&d, kind, count, rule, t->env.step_opts.clip_p);
  if (kind != CT_OP_GRADSTAT) d.u.update.segments = t->update.norm_pairs;
  if (kind == CT_OP_UPDATE && t->reduced) d.y.dtype = t->env.step_opts.compute;
  return t->env.be->op->prepare(t->env.dev, &d, NULL, out, &info);
}

static int make_ops(ct_trainer_t *t, int rule)
{
  int rc = CT_OK;
  ct__update_t *u = &t->update;
  void *stat = NULL;
  char *norms = NULL;
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_NORMS, &norms));
  u->norms = (double *)norms;
  if (t->env.step_opts.zero) {
    u->sums = u->norms;
    u->norms += sizeof *u->stat / sizeof *u->sums;
  }
  CT_TRY(make_op(t, CT_OP_UPDATE, rule, &u->update));
  CT_TRY(make_op(t, CT_OP_GRADSTAT, rule, &u->gradstat));
  if (rule == CT_RULE_MUON) {
    CT_TRY(make_op(t, CT_OP_UPDATE, CT_RULE_MUON_DIRECTION, &u->direction));
    CT_TRY(ct__muon_make(t, &u->groups));
  }
  CT_TRY(t->env.be->mem->alloc(t->env.dev, CT_MEM_STAGING, 2 * sizeof *u->stat, &stat));
  u->stat = stat;
  if (!u->norm_pairs) return CT_OK;
  CT_TRY(make_op(t, CT_OP_MEASURE, rule, &u->norms_op));
  CT_TRY(make_segments(t, (char *)u->norms + norms_bytes(u)));
  u->host_norms = ct_mem_alloc(norms_bytes(u), "norms");
  if (!u->host_norms) rc = CT_ERR_NOMEM;
out:
  return rc;
}

int ct__update_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  ct__update_t *u = &t->update;
  int rule = ct_optim_rule(t->env.optim, &u->states);
  ct_scaler_init(&t->progress.scaler, t->env.step_opts.compute == CT_F16);
  CT_TRY(ct_param_groups_make(t->env.optim, t->env.graph, t->env.where, &u->groups));
  u->hyper = ct_mem_array(u->groups.groups, sizeof *u->hyper, "parameter groups");
  CT_TRY(u->hyper ? CT_OK : CT_ERR_NOMEM);
  u->norm_pairs = ct_rule_needs_norms((ct_rule_t)rule) ? t->map.trained : 0;
  CT_TRY(make_ranges(t));
  CT_TRY(make_ops(t, rule));
  u->on_host = ct__memory_on_host(&t->env);
  if (u->on_host) CT_TRY(ct__host_states_make(t, rule, u->states, u->state_bytes));
  for (int s = 0; s < u->states; s++) {
    if (u->on_host)
      u->state[s] = ct__host_states_array(t, s);
    else
      CT_TRY(ct__arenas_take(t, CT_MEMORY_STATES,
                             t->need.bytes[CT_MEMORY_STATES] / (size_t)u->states, &u->state[s]));
  }
out:
  return rc;
}

int ct__update_open(ct_trainer_t *t)
{
  const ct_step_opts_t *how = &t->env.step_opts;
  if (!how->zero || t->env.topo->size == 1 || !t->env.comm_ops->repeatable || isinf(how->clip_p))
    return CT_OK;
  return t->env.comm_ops->group(t->env.comm, 0, &t->update.world);
}

int ct__update_restart(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct__update_t *u = &t->update;
  const ct_backend_t *be = t->env.be;
  t->progress = (ct__progress_t){0};
  ct_scaler_init(&t->progress.scaler, t->env.step_opts.compute == CT_F16);
  if (u->on_host) return ct__host_states_restart(t);
  for (int s = 0; s < u->states; s++)
    CT_TRY(be->mem->zero(t->q, u->state[s], t->need.bytes[CT_MEMORY_STATES] / (size_t)u->states));
  CT_TRY(be->queue->sync(t->q));
out:
  return rc;
}

void ct__update_free(ct_trainer_t *t)
{
  ct__update_t *u = &t->update;
  t->env.be->op->release(u->update);
  t->env.be->op->release(u->norms_op);
  t->env.be->op->release(u->gradstat);
  t->env.be->op->release(u->direction);
  ct__muon_free(t);
  ct__host_states_free(t);
  t->env.be->mem->free(t->env.dev, CT_MEM_STAGING, u->stat);
  ct_param_groups_clear(&u->groups);
  ct_mem_free(u->host_norms);
  ct_mem_free(u->part);
  ct_mem_free(u->hyper);
  ct_mem_free(u->range);
}

/* ---- one step ---- */

static ct_grad_stat_t *stat_of(const ct_trainer_t *t)
{
  return &t->update.stat[ct__step_slot(t)];
}

static ct_op_args_t args_of(const ct_trainer_t *t, const ct__range_t *r, int with_stat)
{
  const ct_step_opts_t *how = &t->env.step_opts;
  const ct__update_t *u = &t->update;
  double sign = t->env.optim->maximize ? -1 : 1;
  ct_op_args_t a = {.pass = CT_FWD,
                    .w = {t->weight + r->weight},
                    .y = t->reduced ? t->reduced + r->offset / 2 : NULL,
                    .dy = t->gradient + r->offset,
                    .count = (int64_t)(r->bytes / sizeof(float)),
                    .scale = (float)(sign / ct_scaler_scale(&t->progress.scaler)),
                    .hyper = u->hyper[r->group],
                    .stat = stat_of(t),
                    .norms = u->norm_pairs ? u->norms + 2 * r->norms : NULL,
                    .ctl = {.clip_norm = how->clip_norm,
                            .clip_p = how->clip_p,
                            .clip_value = (float)how->clip_value,
                            .skip_nonfinite = t->progress.scaler.on}};
  if (with_stat) a.ctl.stat = stat_of(t);
  for (int s = 0; s < u->states; s++)
    a.state[s] = u->state[s] + r->state;
  return a;
}

/* Runs an op over n parts with the same hyperparameters. */
static void run_segments(ct_trainer_t *t, ct_op_t *op, const ct__segments_t *part, int n,
                         int with_stat)
{
  const ct__update_t *u = &t->update;
  ct__range_t all = {.group = part->group};
  ct_op_args_t a = args_of(t, &all, with_stat);
  a.segment = u->segment + part->first;
  a.count = 0;
  for (int i = 0; i < n; i++) {
    a.segments += part[i].n;
    a.count += part[i].count;
  }
  ct__step_note(t, t->env.be->op->run(t->q, op, &a));
}

/* run_over() for optimizers that use norms: one run for all parameters of a group. */
static void run_over_segments(ct_trainer_t *t, ct_op_t *op, int bucket, int with_stat)
{
  const ct__update_t *u = &t->update;
  int n = 0;
  for (int i = 0; i < u->parts && ct__step_is_well(t); i += n) {
    const ct__segments_t *part = &u->part[i];
    n = 1;
    while (bucket < 0 && i + n < u->parts && part[n].group == part->group)
      n++;
    if (bucket < 0 || part->bucket == bucket) run_segments(t, op, part, n, with_stat);
  }
}

/* Adds the statistics of a bucket's gradient. */
static void run_gradstat(ct_trainer_t *t, int bucket)
{
  ct__range_t r = {.bucket = bucket};
  size_t end;
  ct__memory_slice(&t->env, &t->first.bucket[bucket], &r.offset, &end);
  r.bytes = end - r.offset;
  if (!r.bytes || !ct__step_is_well(t)) return;
  ct_op_args_t a = args_of(t, &r, 0);
  ct__step_note(t, t->env.be->op->run(t->q, t->update.gradstat, &a));
}

/* Runs an op over the ranges of one bucket, or of all buckets (-1), unless there was a failure. */
static void run_over(ct_trainer_t *t, ct_op_t *op, int bucket, int with_stat)
{
  const ct__update_t *u = &t->update;
  if (!op) return;
  if (u->segment) {
    run_over_segments(t, op, bucket, with_stat);
    return;
  }
  for (int64_t i = 0; i < u->ranges && ct__step_is_well(t); i++) {
    if (bucket >= 0 && u->range[i].bucket != bucket) continue;
    ct_op_args_t a = args_of(t, &u->range[i], with_stat);
    if (u->hyper[u->range[i].group].matrix) { /* scaled and clipped when its direction was made */
      a.scale = 1;
      a.ctl.clip_norm = a.ctl.clip_value = 0;
    }
    ct__step_note(t, t->env.be->op->run(t->q, op, &a));
  }
}

/* Sums the gradient statistics on the device, without the host. */
static int sum_stat(ct_trainer_t *t)
{
  enum { DOUBLES = sizeof(ct_grad_stat_t) / sizeof(double) };
  int rc = CT_OK;
  const ct_mem_ops_t *mem = t->env.be->mem;
  const ct__update_t *u = &t->update;
  ct_grad_stat_t *stat = stat_of(t);
  CT_TRY(mem->copy(t->q, u->sums, stat, sizeof *stat));
  CT_TRY(t->env.comm_ops->group_sum(u->world, t->q, u->sums, DOUBLES));
  CT_TRY(mem->copy(t->q, stat, u->sums, sizeof *stat));
out:
  return rc;
}

/* ZeRO-1: reduces the gradient statistics, since each rank has seen only its slices. */
static void share_stat(ct_trainer_t *t)
{
  ct_grad_stat_t *stat = stat_of(t);
  if (t->update.world) {
    ct__step_note(t, sum_stat(t));
    return;
  }
  int max = isinf(t->env.step_opts.clip_p);
  ct__step_note(t, t->env.be->queue->sync(t->q));
  double sums[2] = {max ? 0 : stat->power, stat->nonfinite};
  double largest = stat->power;
  ct__step_sum(t, sums, 2, 0);
  if (max) ct__step_sum(t, &largest, 1, 1);
  stat->power = max ? largest : sums[0];
  stat->nonfinite = sums[1];
}

static void share_norms(ct_trainer_t *t)
{
  const ct_backend_t *be = t->env.be;
  ct__update_t *u = &t->update;
  if (u->world) {
    ct__step_note(t, t->env.comm_ops->group_sum(u->world, t->q, u->norms, 2 * u->norm_pairs));
    return;
  }
  ct__step_note(t, be->mem->copy(t->q, u->host_norms, u->norms, norms_bytes(u)));
  ct__step_note(t, be->queue->sync(t->q));
  ct__step_sum(t, u->host_norms, 2 * u->norm_pairs, 0);
  ct__step_note(t, be->mem->copy(t->q, u->norms, u->host_norms, norms_bytes(u)));
}

/* ---- muon ---- */

/* Adds this rank's gradients of matrices to their momenta; the directions take their place. */
static int make_direction(ct_trainer_t *t, const ct__range_t *r, int with_stat)
{
  int rc = CT_OK;
  ct_op_args_t a = args_of(t, r, with_stat);
  a.w[0] = ct__muon_room(t);
  a.y = NULL;
  CT_TRY(t->env.be->op->run(t->q, t->update.direction, &a));
  CT_TRY(t->env.be->mem->copy(t->q, t->gradient + r->offset, a.w[0], r->bytes));
out:
  return rc;
}

static void gather_directions(ct_trainer_t *t)
{
  for (int k = 0; k < t->buckets; k++) {
    const ct_bucket_t *b = &t->first.bucket[k];
    if (!ct__muon_uses(t, b->offset, b->offset + b->bytes)) continue;
    ct__step_enter(t, CT_TIME_WAIT, "the gathering of the momenta of bucket", k);
    ct__step_note(t, t->env.comm_ops->gather(t->env.comm, t->q,
                                             (float *)(void *)(t->gradient + b->offset),
                                             (int64_t)(b->bytes / sizeof(float))));
    ct__step_leave(t);
  }
}

/* Replaces the gradients of the matrices of which this rank updates a part. */
static void make_directions(ct_trainer_t *t, int with_stat)
{
  const ct__update_t *u = &t->update;
  int last = -1;
  for (int64_t i = 0; i < u->ranges && ct__step_is_well(t); i++)
    if (u->hyper[u->range[i].group].matrix)
      ct__step_note(t, make_direction(t, &u->range[i], with_stat));
  if (t->env.step_opts.zero && t->env.topo->size > 1) gather_directions(t);
  for (int64_t i = 0; i < u->ranges && ct__step_is_well(t); i++) {
    const ct__range_t *r = &u->range[i];
    if (!u->hyper[r->group].matrix || r->norms == last) continue;
    ct__step_note(t, ct__muon_step(t, last = r->norms));
  }
}

/* Applies each bucket when it arrives. Ends every transfer, even after an error, since the peers
 * need this rank for it. */
static void apply_as_they_come(ct_trainer_t *t, int stat, ct__arrive_t arrive)
{
  const ct__update_t *u = &t->update;
  for (int k = 0; k < t->buckets; k++) {
    if (arrive) arrive(t, k);
    if (stat) run_gradstat(t, k);
    run_over(t, u->norms_op, k, 0);
    run_over(t, u->update, k, 0);
  }
}

/* ZeRO-1: updates the buckets in the order in which forward reads them, and starts their gathers.
 * These end in the next forward pass, unless something reads the weights earlier, or the step may
 * become a graph, which must contain all that it starts. \a updated: only gathers. */
static void update_slices(ct_trainer_t *t, int stat, int updated)
{
  const ct_step_opts_t *how = &t->env.step_opts;
  for (int k = t->buckets - 1; k >= 0; k--) {
    if (!updated) run_over(t, t->update.update, k, stat);
    ct__slices_gather(t, k);
  }
  if (ct__repeat_is_on(t) || how->ema > 0 || how->qat || !t->env.comm_ops->gathers_ahead)
    ct__slices_settle(t);
  ct__reduced_outdate(t); /* of whole weights, the slices of other ranks are gathered */
}

static void apply_together(ct_trainer_t *t, int stat, ct__arrive_t arrive)
{
  const ct__update_t *u = &t->update;
  int zero = t->env.step_opts.zero, shared = zero && t->env.topo->size > 1;
  for (int k = 0; k < t->buckets; k++) {
    if (arrive) arrive(t, k);
    if (stat) run_gradstat(t, k);
  }
  if (stat && shared) share_stat(t);
  if (u->direction) make_directions(t, stat);
  if (u->norm_pairs && zero) ct__step_note(t, t->env.be->mem->zero(t->q, u->norms, norms_bytes(u)));
  run_over(t, u->norms_op, -1, stat);
  if (u->norm_pairs && shared) share_norms(t);
  if (zero)
    update_slices(t, stat, 0);
  else
    run_over(t, u->update, -1, stat);
}

/* Updates on the host, bucket by bucket; where all gradients are needed first, after these. */
static void apply_on_host(ct_trainer_t *t, int stat, int needed, ct__arrive_t arrive)
{
  const ct__update_t *u = &t->update;
  int zero = t->env.step_opts.zero;
  for (int k = 0; k < t->buckets && stat; k++) {
    if (arrive) arrive(t, k);
    run_gradstat(t, k);
  }
  if (stat && zero && t->env.topo->size > 1) share_stat(t);
  ct__host_states_begin(t, !stat, u->range, u->ranges);
  for (int k = 0; k < t->buckets; k++) {
    if (arrive && !stat) arrive(t, k);
    for (int64_t i = 0; i < u->ranges && ct__step_is_well(t); i++) {
      ct_op_args_t a = args_of(t, &u->range[i], needed);
      if (u->range[i].bucket == k) ct__host_states_update(t, &u->range[i], &a);
    }
  }
  ct__host_states_end(t);
  if (ct__step_is_well(t)) ct__step_note(t, ct__reduced_round(t));
  if (zero) update_slices(t, stat, 1);
  ct__reduced_outdate(t);
  ct__host_states_keep(t);
}

void ct__update_begin(ct_trainer_t *t, ct_step_report_t *report)
{
  *stat_of(t) = (ct_grad_stat_t){0};
  report->grad_norm = NAN;
}

void ct__update_apply(ct_trainer_t *t, const ct_schedule_point_t *at, ct_step_report_t *report,
                      ct__arrive_t arrive)
{
  ct__update_t *u = &t->update;
  const ct_step_opts_t *how = &t->env.step_opts;
  int needed = how->clip_norm > 0 || t->progress.scaler.on;
  int stat = needed || report->want_norm;
  int64_t updates = t->progress.updates + ct__step_pending(t); /* these are never skipped */
  for (int g = 0; g < u->groups.groups; g++)
    u->hyper[g] = ct_optim_hyper(t->env.optim, &u->groups.group[g], at, updates);
  ct__step_turn(t, CT_TIME_UPDATE);
  if (u->on_host)
    apply_on_host(t, stat, needed, arrive);
  else if (needed || how->zero || u->direction)
    apply_together(t, stat, arrive);
  else
    apply_as_they_come(t, stat, arrive);
  ct__step_turn(t, CT_TIME_COMPUTE);
  if (stat) report->grad_norm = 0;
}

void ct__update_report(ct_trainer_t *t, ct_step_report_t *report)
{
  ct__progress_t *at = &t->progress;
  double p = t->env.step_opts.clip_p, power = stat_of(t)->power;
  int nonfinite = stat_of(t)->nonfinite > 0;
  report->loss_scale = ct_scaler_scale(&at->scaler);
  report->skipped = at->scaler.on && nonfinite;
  if (!isnan(report->grad_norm))
    report->grad_norm = nonfinite ? INFINITY : isinf(p) ? power : pow(power, 1 / p);
  ct_scaler_update(&at->scaler, nonfinite);
  at->updates += !report->skipped;
}

/* ---- state for checkpoints ---- */

int ct__update_states(const ct_trainer_t *t)
{
  return t->update.states;
}

char *ct__update_state(const ct_trainer_t *t, int s)
{
  return t->update.on_host ? t->gradient : t->update.state[s];
}
