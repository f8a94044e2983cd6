/* The memory budget of a rank (train.memory): the one place that decides how much of it the
 * activations may use. The trainer, `summary` and `doctor` call it with the same numbers.
 *
 * On a CPU the budget is of the process, as the kernel counts its resident pages. On a GPU it is of
 * the card's memory. All that does not depend on plans is taken from it, then the workspace; the
 * rest limits the activations of each plan (ct_plan_limit()). */
#include "train/trainer.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"

/* Allocations of libraries and of small objects after the budget was decided, which no count of
 * ours includes: code that oneDNN generates, HDF5's metadata and buffers of a checkpoint, MPI's
 * messages, stacks of threads, pages that the allocator keeps. Measured as the peak that the kernel
 * counts less the account without margin: 7 to 14 MiB for ResNet-18, GPT-2 and U-Net on 1 and 2
 * ranks. On a GPU kernels are loaded at their first launch; that is not measured. */
enum { MARGIN_MB = 24, MARGIN_GPU_MB = 64 };

static size_t largest(const ct_arena_map_t *m)
{
  size_t most = 0;
  for (int i = 0; i < m->params; i++)
    if (m->bytes[i] > most) most = m->bytes[i];
  return most;
}

/* States in slices are written parameter by parameter, others are copied first. The writer needs
 * memory too: for HDF5's metadata and lists of arrays, measured for DenseNet-121, and to read the
 * file for its checksum. */
static size_t checkpoint_bytes(const ct_trainer_env_t *e, const ct_arena_map_t *m)
{
  enum { OF_AN_ARRAY = 5 << 10, CHECKSUM = 4 << 20 };
  int states, models = e->step_opts.ema > 0 ? 2 : 1;
  (void)ct_optim_rule(e->optim, &states);
  if (!e->saves || !e->be->host_memory) return 0;
  size_t arrays = (size_t)(models * m->params + states * m->trained);
  size_t copy = (size_t)models * (m->weight_bytes + m->buffer_bytes);
  copy += (size_t)states * m->trained_bytes;
  if (e->step_opts.zero && (states > 0 || m->low_bytes > 0)) copy = largest(m);
  return copy + arrays * OF_AN_ARRAY + CHECKSUM;
}

/* Each rank of a node sums a part of the gradients of the others, where they are. */
static size_t neighbours(const ct_trainer_env_t *e, size_t gradients)
{
  size_t ranks = (size_t)e->topo->local_size;
  return e->be->host_memory && ranks > 1 ? gradients / ranks * (ranks - 1) : 0;
}

/* Returns the passes for which a library generates code, if the op is like none of the first \a n:
 * ops of equal descriptions share the code. */
static int generated(const ct_plan_t *p, int n)
{
  const ct_op_desc_t *d = &p->op[n].desc;
  if (d->kind != CT_OP_CONV && d->kind != CT_OP_CONV_POOL && d->kind != CT_OP_CONVT) return 0;
  for (int i = 0; i < n; i++)
    if (memcmp(&p->op[i].desc, d, sizeof *d) == 0) return 0;
  return ct_op_goes_back(d) ? 3 : 1;
}

/* Measured for DenseNet-121 with oneDNN. An evaluation has one of three passes. */
static size_t ops_bytes(const ct_trainer_env_t *e, const ct_plan_t *first)
{
  enum { OF_AN_OP = 12 << 10, OF_CODE = 60 << 10 };
  size_t plans = (size_t)(2 * e->plans[1] + e->plans[0]), held = 0;
  for (int i = 0; i < first->ops; i++)
    held += OF_AN_OP + (size_t)generated(first, i) * OF_CODE;
  return (plans > 2 ? plans : 2) * held / 2;
}

void ct__budget_open(const ct_trainer_env_t *e, const ct_plan_t *first, const ct_arena_map_t *m,
                     const ct_memory_t *fixed, ct_budget_t *b)
{
  int host = e->be->host_memory;
  *b = (ct_budget_t){.bytes = e->training ? e->memory : 0, .met = 1, .evaluation = e->max_eval};
  b->taken[CT_BUDGET_PROCESS] = e->used;
  b->taken[CT_BUDGET_ARRAYS] = ct_memory_total(fixed) - fixed->bytes[CT_MEMORY_ACTIVATIONS] -
                               fixed->bytes[CT_MEMORY_SCRATCH];
  b->taken[CT_BUDGET_NEIGHBOURS] = neighbours(e, fixed->bytes[CT_MEMORY_GRADIENTS]);
  b->taken[CT_BUDGET_CHECKPOINT] = checkpoint_bytes(e, m);
  b->taken[CT_BUDGET_OPS] = host ? ops_bytes(e, first) : 0;
  b->taken[CT_BUDGET_FEED] = host ? e->beside : 0;
  b->taken[CT_BUDGET_MARGIN] = (size_t)(host ? MARGIN_MB : MARGIN_GPU_MB) << 20;
}

static size_t budget_taken(const ct_budget_t *b)
{
  size_t sum = 0;
  for (int k = 0; k < CT_BUDGET_COUNT; k++)
    sum += b->taken[k];
  return sum;
}

size_t ct_budget_peak(const ct_budget_t *b, int whole)
{
  return budget_taken(b) + (whole ? b->whole : b->activations);
}

/* Sets the most that activations may be, for plans with at most so much workspace. */
static void leave_room(ct_budget_t *b, const ct_plan_t *p)
{
  size_t *scratch = &b->taken[CT_BUDGET_SCRATCH];
  if (p->scratch_bytes > *scratch) *scratch = p->scratch_bytes;
  size_t taken = budget_taken(b);
  b->most = taken < b->bytes ? b->bytes - taken : 0;
}

/* The plan with the largest activations is what the budget is reported of. */
static void note_training(ct_budget_t *b, const ct_plan_t *p, size_t whole)
{
  size_t least = budget_taken(b) + p->again.least;
  if (least > b->least) b->least = least;
  if (whole > b->whole) b->whole = whole;
  if (b->launches && p->again.launches <= b->again) return;
  b->again = p->again.launches;
  b->launches = p->launches - p->again.launches;
  b->seconds = p->again.seconds;
  b->flops = p->again.flops;
  b->share = p->again.share;
}

/* An evaluation has no backward pass: nothing can be computed again. */
static void note_evaluation(ct_budget_t *b, const ct_plan_t *p)
{
  int n = (int)((double)b->most / (double)p->arena_bytes * p->o.n);
  if (n >= p->o.n) n = p->o.n - 1;
  if (n < b->evaluation) b->evaluation = n;
}

int ct__budget_limit(ct_budget_t *b, ct_plan_t *p)
{
  int rc = CT_OK, training = p->o.training;
  size_t whole = p->arena_bytes;
  if (!b->bytes) return CT_OK;
  leave_room(b, p);
  if (training) rc = ct_plan_limit(p, b->most);
  if (rc != CT_OK && !p->again.unmet) return rc;
  if (training) note_training(b, p, whole);
  if (rc != CT_OK) b->met = 0;
  if (!training && whole > b->most)
    note_evaluation(b, p);
  else if (p->arena_bytes > b->activations)
    b->activations = p->arena_bytes;
  if (!training && whole > b->whole) b->whole = whole;
  return CT_OK;
}

/* Rounded up, in the notation of train.memory. */
static const char *least_text(size_t bytes, char buf[32])
{
  snprintf(buf, 32, "%zuM", (bytes + (1 << 20) - 1) >> 20);
  return buf;
}

int ct_budget_check(const ct_budget_t *b)
{
  int rc = CT_OK;
  char budget[32], least[32], taken[32];
  if (!b->bytes || b->met) return CT_OK;
  CT_FAIL(
      CT_ERR_NOMEM,
      "train.memory is %s, but a rank needs at least %s, of which %s are not activations: raise "
      "it, lower data.batch, or split the local batch with train.accumulate",
      ct_text_bytes((double)b->bytes, budget, sizeof budget), least_text(b->least, least),
      ct_text_bytes((double)budget_taken(b), taken, sizeof taken));
out:
  return rc;
}

int ct__budget_check(const ct_budget_t *b, const ct_plan_t *p)
{
  int rc = ct_budget_check(b);
  char budget[32], need[32];
  if (rc != CT_OK || !b->bytes || p->arena_bytes <= b->most) return rc;
  CT_FAIL(CT_ERR_NOMEM,
          "train.memory is %s, but an evaluation of %d samples at a time needs %s: lower "
          "data.eval_batch",
          ct_text_bytes((double)b->bytes, budget, sizeof budget), p->o.n,
          ct_text_bytes((double)(budget_taken(b) + p->arena_bytes), need, sizeof need));
out:
  return rc;
}

const char *ct_budget_text(const ct_budget_t *b, char *buf, size_t cap)
{
  char now[32], whole[32];
  ct_text_bytes((double)ct_budget_peak(b, 0), now, sizeof now);
  ct_text_bytes((double)ct_budget_peak(b, 1), whole, sizeof whole);
  if (!b->met)
    snprintf(buf, cap, "cannot be met: the least is %s (%s without recomputation)",
             least_text(b->least, now), whole);
  else if (b->again)
    snprintf(buf, cap, "recomputes %d of %d launches: %s instead of %s, about +%.2g%% time",
             b->again, b->launches, now, whole, 100 * b->share);
  else
    snprintf(buf, cap, "fits without recomputation: %s", whole);
  return buf;
}

const ct_budget_t *ct_trainer_budget(const ct_trainer_t *t)
{
  return &t->budget;
}
