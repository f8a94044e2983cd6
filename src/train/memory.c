/* Predicts the memory of a trainer before it is created: makes the same plans in the same order as
 * the trainer, and uses the sizes that the trainer allocates. A separate estimate would drift from
 * the real allocations. */
#include "train/trainer.h"

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "plan/ct_loss.h"
#include <string.h>

/* ---- decisions shared with the trainer ---- */

int ct__memory_micro_batches(const ct_trainer_env_t *e, int training)
{
  return training && e->step_opts.micro_batches ? e->step_opts.micro_batches : 1;
}

/* Returns the samples of the whole batch if rank 0 holds it (mode dp), else 0. */
static int64_t whole(const ct_trainer_env_t *e)
{
  int deals = e->training && e->step_opts.strategy && e->step_opts.strategy->rank0_deals;
  return deals ? (int64_t)e->max_batch * e->topo->size : 0;
}

int ct__memory_capacity(const ct_trainer_env_t *e)
{
  int64_t most = e->max_batch > e->max_eval ? e->max_batch : e->max_eval;
  return (int)(most > whole(e) ? most : whole(e));
}

/* Returns the bytes of SyncBN's message: 2 C + 1 doubles of the batchnorm with the most
 * channels. */
static size_t statistics(const ct_trainer_env_t *e)
{
  const ct_graph_t *g = e->graph;
  int64_t most = 0;
  for (int i = 0; i < g->params; i++)
    if (g->param[i].spec.buffer && g->param[i].count > most) most = g->param[i].count;
  return e->step_opts.sync_bn && most ? (size_t)(2 * most + 1) * sizeof(double) : 0;
}

/* Returns the samples of all ranks in a full batch, if rows of shared tables may travel by
 * themselves, else 0. */
static int64_t late_samples(const ct_trainer_env_t *e)
{
  const ct_step_opts_t *how = &e->step_opts;
  int several = ct__memory_micro_batches(e, 1) > 1 || how->fixed_order;
  if (!e->training || !how->late_rows || several || whole(e) || ct__memory_on_host(e)) return 0;
  return e->topo->size > 1 ? (int64_t)e->max_batch * e->topo->size : 0;
}

ct_plan_opts_t ct__memory_plan_opts(const ct_trainer_env_t *e, int n, int training)
{
  const ct_dataset_t *bytes = e->bytes_of[training];
  int deals = e->step_opts.strategy && e->step_opts.strategy->rank0_deals; /* rank 0 reads them */
  int several = ct__memory_micro_batches(e, training) > 1;
  ct_plan_opts_t o =
      (ct_plan_opts_t){.n = n,
                       .training = training,
                       .inference = e->inference,
                       .quant = training ? NULL : e->quant,
                       .compute = e->step_opts.compute,
                       .slab_mb = e->step_opts.slab_mb,
                       .sync_bn = e->training && statistics(e) > 0,
                       .slices = ct__memory_sliced(e),
                       .bytes = bytes != NULL,
                       .channels_last = bytes && bytes->info.channels_last,
                       .late_samples = training ? late_samples(e) : 0,
                       .accumulates = !several                   ? 0
                                      : e->step_opts.fixed_order ? CT_ACCUMULATE_EXACT
                                                                 : 1,
                       .loss = e->loss,
                       .outputs_unread = training ? !deals : e->outputs_unread,
                       .heads = e->heads};
  /* an evaluation reports the cross-entropy alone, of which the perplexity is made */
  o.loss.z_loss = training ? o.loss.z_loss : 0;
  for (int k = 0; k < o.heads.n && !training; k++)
    o.heads.of[k].loss.z_loss = 0;
  return o;
}

int ct__memory_first(const ct_trainer_env_t *e)
{
  int micro_batches = ct__memory_micro_batches(e, 1);
  return e->training ? (e->max_batch + micro_batches - 1) / micro_batches : e->max_eval;
}

int ct__memory_micro_batch(const ct_trainer_env_t *e, int64_t total, int training, int p,
                           int64_t *first)
{
  int micro_batches = ct__memory_micro_batches(e, training);
  return (int)ct_sampler_cut(total, e->topo->rank * micro_batches + p,
                             e->topo->size * micro_batches, first);
}

int ct__memory_buckets(const ct_trainer_env_t *e, const ct_plan_t *p, const ct_arena_map_t *m,
                       ct_bucket_t *bucket)
{
  return ct_buckets_make(p, m, (size_t)(e->bucket_mb * 1024 * 1024), CT_BUCKETS_MAX, bucket);
}

/* Upper bound of a rank's slice of n floats, wherever it starts. The slices of the MPI communicator
 * are rounded up; the NCCL communicator, which only handles device memory, rounds down and gives
 * the rest to the last rank. */
static int64_t largest_slice(const ct_trainer_env_t *e, int64_t n)
{
  enum { LINE = 16 }; /* floats per cache line, to which slices are aligned */
  int64_t ranks = e->topo->size, most = ((n + ranks - 1) / ranks + LINE - 1) / LINE * LINE;
  int64_t last = n - (ranks - 1) * (n / ranks / LINE * LINE);
  if (!e->be->host_memory && last > most) most = last;
  return most < n ? most : n;
}

int ct__memory_sliced(const ct_trainer_env_t *e)
{
  const ct_step_opts_t *how = &e->step_opts;
  return e->training && how->zero && !how->qat && e->be->reduced_weights && how->compute != CT_F32;
}

void ct__memory_slice(const ct_trainer_env_t *e, const ct_bucket_t *b, size_t *from, size_t *to)
{
  int64_t n = (int64_t)(b->bytes / sizeof(float)), first = 0, end = n;
  if (e->step_opts.zero && e->comm)
    e->comm_ops->slice(e->comm, e->topo->rank, n, &first, &end);
  else if (e->step_opts.zero)
    end = largest_slice(e, n);
  *from = b->offset + (size_t)first * sizeof(float);
  *to = b->offset + (size_t)end * sizeof(float);
}

int ct__memory_on_host(const ct_trainer_env_t *e)
{
  return e->training && e->optim->place == CT_OPTIM_ON_HOST && !e->be->host_memory;
}

/* ---- memory outside of plans ---- */

ct_heads_t ct__memory_heads(const ct_trainer_env_t *e)
{
  if (e->heads.n) return e->heads;
  return (ct_heads_t){.n = 1,
                      .of = {{.loss = e->loss, .weight = 1, .class_weight = e->class_weight}}};
}

const ct_shape_t *ct__memory_output(const ct_trainer_env_t *e, const ct_head_t *h)
{
  return &e->graph->layer[ct_graph_output(e->graph, h->output)].out;
}

static size_t output_bytes(const ct_trainer_env_t *e, const ct_head_t *h)
{
  return (size_t)ct_shape_sample(ct__memory_output(e, h)) * sizeof(float);
}

/* Returns the bytes of the weights of classes, or with \a places of places, of a loss. */
static size_t weight_bytes(const ct_trainer_env_t *e, const ct_head_t *h, int places)
{
  ct_op_desc_t d;
  const ct_shape_t *x = ct__memory_output(e, h);
  ct_op_desc_init(&d, CT_OP_LOSS, x, x);
  d.u.loss = h->loss;
  if (!(places ? h->place_weight : h->class_weight)) return 0;
  return (size_t)(places ? ct_op_places(&d) : ct_op_classes(&d)) * sizeof(float);
}

size_t ct__memory_class_weights(const ct_trainer_env_t *e, int k, int places, size_t *bytes)
{
  enum { LINE = 64 };
  const ct_heads_t heads = ct__memory_heads(e);
  size_t end = 0;
  *bytes = 0;
  for (int i = 0; i < 2 * heads.n && i <= 2 * k + places; i++) {
    end = (end + *bytes + LINE - 1) / LINE * LINE;
    *bytes = weight_bytes(e, &heads.of[i / 2], i % 2);
  }
  return end;
}

size_t ct__memory_sample(const ct_graph_t *g)
{
  size_t bytes = ct_shape_bytes(&g->input);
  for (int k = 0; k < g->extra.n; k++)
    bytes += ct_shape_bytes(&g->extra.x[k]);
  return bytes;
}

int ct__memory_all_bytes(const ct_trainer_env_t *e)
{
  return (!e->training || e->bytes_of[1]) && (!e->max_eval || e->bytes_of[0]);
}

/* Losses of the same target are of outputs of the same size. */
static void arrays_of_head(const ct_trainer_env_t *e, const ct_head_t *h, size_t size[])
{
  size_t labels = (size_t)ct_loss_pixels(&h->loss, ct__memory_output(e, h)) * sizeof(int32_t);
  size_t values = output_bytes(e, h);
  if (h->target) {
    size[CT_INPUT_MORE + h->target - 1] = ct_loss_of_labels(h->loss.kind) ? labels : values;
    return;
  }
  size[CT_INPUT_LABELS] = labels;
  size[CT_INPUT_TARGETS] = values;
}

void ct__memory_arrays(const ct_trainer_env_t *e, int bytes, size_t size[])
{
  size[CT_INPUT_X] = (size_t)ct_shape_sample(&e->graph->input) * (bytes ? 1 : sizeof(float));
  const ct_heads_t heads = ct__memory_heads(e);
  for (int i = CT_INPUT_LABELS; i < CT_INPUT_ARRAYS; i++)
    size[i] = 0;
  size[CT_INPUT_LABELS] = sizeof(int32_t);
  size[CT_INPUT_LABELS2] = sizeof(int32_t);
  size[CT_INPUT_MIX] = sizeof(float);
  size[CT_INPUT_WEIGHTS] = heads.of[0].loss.sample_weighted ? sizeof(float) : 0;
  for (int k = 0; k < heads.n; k++)
    arrays_of_head(e, &heads.of[k], size);
  const ct_inputs_t *extra = &e->graph->extra;
  for (int k = 0; k < CT_INPUTS_EXTRA; k++)
    size[CT_INPUT_EXTRA + k] = k < extra->n ? ct_shape_bytes(&extra->x[k]) : 0;
}

/* Two slots: one in use, one being prefetched. */
static size_t batches(const ct_trainer_env_t *e)
{
  size_t size[CT_INPUT_ARRAYS], sum = 0;
  ct__memory_arrays(e, ct__memory_all_bytes(e), size);
  for (int i = 0; i < CT_INPUT_ARRAYS; i++)
    sum += size[i];
  return 2 * (size_t)ct__memory_capacity(e) * sum;
}

static size_t channel_maps(const ct_trainer_env_t *e)
{
  size_t map = 2 * (size_t)e->graph->input.dim[1] * sizeof(float);
  return map * (size_t)((e->bytes_of[0] != NULL) + (e->bytes_of[1] != NULL));
}

/* This rank's inputs; on rank 0 also the outputs of the whole batch and their gradient. */
static size_t dealt(const ct_trainer_env_t *e)
{
  const ct_heads_t heads = ct__memory_heads(e);
  size_t all = 2 * (size_t)whole(e) * output_bytes(e, &heads.of[0]);
  if (!whole(e)) return 0;
  return (size_t)e->max_batch * ct__memory_sample(e->graph) + (e->topo->rank ? 0 : all);
}

/* Returns the bytes of the largest parameter in slices, twice: in the order of its elements, and in
 * that of the ranks. */
static size_t state_piece(const ct_trainer_env_t *e, const ct_arena_map_t *m, int states)
{
  size_t most = 0;
  if (!e->step_opts.zero || e->topo->rank) return 0;
  for (int k = 0; k < m->trained; k++) {
    int i = m->order[k];
    if ((states || m->offset[i] < m->low_bytes) && m->bytes[i] > most) most = m->bytes[i];
  }
  return 2 * most;
}

static int of_training(const ct_trainer_env_t *e, const ct_arena_map_t *m,
                       const ct_bucket_t *bucket, int buckets, size_t *bytes, size_t *on_host)
{
  enum { NONE = 64 }; /* for a rank that owns no part of an array: addresses are never NULL */
  int states, rule = ct_optim_rule(e->optim, &states);
  size_t from, to, own = 0, low = 0;
  for (int k = 0; k < buckets; k++) {
    ct__memory_slice(e, &bucket[k], &from, &to);
    own += to - from;
    if (bucket[k].offset < m->low_bytes) low = own;
  }
  if (!own) own = NONE;
  bytes[CT_MEMORY_WEIGHTS] += low - m->low_bytes;
  if (!bytes[CT_MEMORY_WEIGHTS]) bytes[CT_MEMORY_WEIGHTS] = NONE;
  if (e->step_opts.ema > 0) bytes[CT_MEMORY_AVERAGES] = bytes[CT_MEMORY_WEIGHTS] + m->buffer_bytes;
  bytes[CT_MEMORY_GRADIENTS] = m->gradient_bytes;
  bytes[CT_MEMORY_PARTIAL_SUMS] =
      (size_t)ct_step_opts_accumulators(&e->step_opts) * m->trained_bytes;
  int host = ct__memory_on_host(e);
  bytes[CT_MEMORY_STATES] = host ? 0 : (size_t)states * own;
  *on_host = host ? (size_t)(states + 1) * own : 0;
  bytes[CT_MEMORY_STATE_PIECE] = state_piece(e, m, states);
  if (ct_rule_needs_norms((ct_rule_t)rule))
    bytes[CT_MEMORY_NORMS] = (size_t)m->trained * (2 * sizeof(double) + sizeof(ct_segment_t));
  if (e->step_opts.zero) bytes[CT_MEMORY_NORMS] += sizeof(ct_grad_stat_t);
  bytes[CT_MEMORY_STATISTICS] = statistics(e);
  bytes[CT_MEMORY_DEALT] = dealt(e);
  return ct__muon_bytes(e, m, &bytes[CT_MEMORY_MATRIX]);
}

int ct__memory_fixed(const ct_trainer_env_t *e, const ct_arena_map_t *m, const ct__variant_t *first,
                     int buckets, ct_memory_t *out)
{
  int rc = CT_OK;
  size_t *bytes = out->bytes;
  bytes[CT_MEMORY_WEIGHTS] = m->weight_bytes;
  bytes[CT_MEMORY_BUFFERS] = m->buffer_bytes * (e->training && e->step_opts.replay_every ? 2 : 1);
  if (e->be->reduced_weights && e->step_opts.compute != CT_F32)
    bytes[CT_MEMORY_REDUCED_WEIGHTS] = m->weight_bytes / 2;
  if (e->step_opts.qat) bytes[CT_MEMORY_ROUNDED_WEIGHTS] = m->weight_bytes;
  if (!e->be->in_place) bytes[CT_MEMORY_BATCHES] = batches(e);
  bytes[CT_MEMORY_CHANNEL_MAPS] = channel_maps(e);
  size_t last, at = ct__memory_class_weights(e, ct__memory_heads(e).n - 1, 1, &last);
  bytes[CT_MEMORY_CLASS_WEIGHTS] = at + last;
  if (!e->training) return CT_OK;
  CT_TRY(of_training(e, m, first->bucket, buckets, bytes, &out->on_host));
  CT_TRY(ct__late_rows_bytes(e, first->plan, &bytes[CT_MEMORY_LATE_ROWS]));
out:
  return rc;
}

/* ---- plans ---- */

typedef struct made {
  int n, training;
} made_t;

typedef struct memory_sum {
  const ct_trainer_env_t *e;
  ct_memory_t *out;
  ct_plan_t *first; /* owned; defines the parameter layout */
  made_t *made;     /* owned */
  int64_t sizes, cap;
  size_t whole_losses; /* total workspace of the whole-batch losses, in addition to the plans'
                          workspace */
} memory_sum_t;

static void raise_to(size_t *most, size_t bytes)
{
  if (bytes > *most) *most = bytes;
}

static unsigned types_of(const ct_plan_t *p)
{
  unsigned types = 0;
  for (int i = 0; i < p->values; i++)
    if (!p->value[i].external && p->value[i].shape.ndim > 0) types |= 1u << p->value[i].shape.dtype;
  return types;
}

/* Notes what is not stored: outputs of convolutions in slabs, and of a head that is one op with its
 * loss. */
static void note_unstored(const ct_plan_t *p, ct_memory_t *out)
{
  memcpy(out->unfused, p->unfused, sizeof out->unfused);
  for (int i = 0; i < p->ops; i++) {
    const ct_op_desc_t *d = &p->op[i].desc;
    if (d->kind == CT_OP_HEAD_LOSS) out->logits = (size_t)ct_shape_count(&d->y) * sizeof(float);
    if (d->kind != CT_OP_CONV_POOL) continue;
    ct_op_desc_t conv = ct_conv_pool_part(d, CT_OP_CONV);
    out->slabs += ct_shape_bytes(&conv.y);
  }
}

/* Adds all that does not depend on the plans but the first one. */
static int add_fixed(const memory_sum_t *a, const ct_plan_t *first)
{
  int rc = CT_OK, buckets = 0;
  const ct_trainer_env_t *e = a->e;
  ct_arena_map_t map = {0};
  ct_bucket_t *bucket = ct_mem_array(CT_BUCKETS_MAX, sizeof *bucket, "buckets");
  CT_TRY(bucket ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_arena_map_make(first, &map));
  if (e->training) buckets = ct__memory_buckets(e, first, &map, bucket);
  const ct__variant_t v = {(ct_plan_t *)(uintptr_t)first, bucket};
  CT_TRY(ct__memory_fixed(e, &map, &v, buckets, a->out));
  ct__budget_open(e, first, &map, a->out, &a->out->budget);
out:
  ct_arena_map_clear(&map);
  ct_mem_free(bucket);
  return rc;
}

static int add_plan(memory_sum_t *a, int n, int training)
{
  int rc = CT_OK;
  ct_plan_t *p = NULL;
  ct_plan_opts_t o = ct__memory_plan_opts(a->e, n, training);
  for (int64_t i = 0; i < a->sizes; i++)
    if (a->made[i].n == n && a->made[i].training == training) return CT_OK;
  if (n == 0) return CT_OK;
  CT_TRY(ct_mem_grow((void **)&a->made, &a->cap, a->sizes + 1, sizeof *a->made));
  a->made[a->sizes++] = (made_t){n, training};
  CT_TRY(ct_plan_make(a->e->graph, a->e->be, a->e->dev, &o, a->first, &p));
  if (!a->first) CT_TRY(add_fixed(a, p));
  CT_TRY(ct__budget_limit(&a->out->budget, p));
  raise_to(&a->out->bytes[CT_MEMORY_ACTIVATIONS], p->arena_bytes);
  raise_to(&a->out->bytes[CT_MEMORY_SCRATCH], p->scratch_bytes);
  if (!training) raise_to(&a->out->evaluation, p->arena_bytes);
  if (n > a->out->samples[training]) a->out->samples[training] = n;
  if (!a->first) {
    a->out->activation_types = types_of(p);
    note_unstored(p, a->out);
    a->first = p;
    p = NULL;
  }
out:
  ct_plan_free(p);
  return rc;
}

/* Adds the loss of mode dp: rank 0 computes the loss of the whole batch as a separate op outside of
 * plans. */
static int add_whole_loss(memory_sum_t *a, int64_t n)
{
  int rc = CT_OK;
  ct_op_t *op = NULL;
  size_t scratch;
  if (!whole(a->e) || a->e->topo->rank || n == 0) return CT_OK;
  CT_TRY(ct_plan_whole_loss(a->first, (int)n, &op, &scratch));
  a->whole_losses += scratch;
out:
  a->e->be->op->release(op);
  return rc;
}

static int add_batches(memory_sum_t *a, const ct_batches_t *of, int training)
{
  int rc = CT_OK, micro_batches = ct__memory_micro_batches(a->e, training);
  int64_t full = of->batch < of->samples ? of->batch : of->samples;
  int64_t rest = full ? of->samples % of->batch : 0, first;
  for (int p = 0; p < micro_batches; p++) {
    CT_TRY(add_plan(a, ct__memory_micro_batch(a->e, full, training, p, &first), training));
    CT_TRY(add_plan(a, ct__memory_micro_batch(a->e, rest, training, p, &first), training));
  }
  if (training) CT_TRY(add_whole_loss(a, full));
  if (training && rest != full) CT_TRY(add_whole_loss(a, rest));
out:
  return rc;
}

/* Follows the order of ct_trainer_create() and the training loop. */
int ct_trainer_plan_memory(const ct_trainer_env_t *env, const ct_batches_t of[2], ct_memory_t *out)
{
  int rc = CT_OK, train = env->training;
  memory_sum_t a = {.e = env, .out = out};
  *out = (ct_memory_t){0};
  CT_TRY(add_plan(&a, ct__memory_first(env), train));
  if (train) CT_TRY(add_plan(&a, env->max_eval, 0));
  if (train && of[1].samples) CT_TRY(add_batches(&a, &of[1], 1));
  if (of[0].samples) CT_TRY(add_batches(&a, &of[0], 0));
  out->bytes[CT_MEMORY_SCRATCH] += a.whole_losses;
out:
  ct_plan_free(a.first);
  ct_mem_free(a.made);
  return rc;
}

int ct_trainer_first_plan(const ct_trainer_env_t *env, ct_plan_t **out)
{
  ct_plan_opts_t o = ct__memory_plan_opts(env, ct__memory_first(env), env->training);
  return ct_plan_make(env->graph, env->be, env->dev, &o, NULL, out);
}
