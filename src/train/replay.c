/* train.replay_every: in every N-th step forward and backward run twice from the same state, and
 * the bits of all local gradients are compared. Hardware that computes wrong values without an
 * error (silent data corruption: Dixit et al., arXiv 2102.11245; Hochschild et al., HotOS 2021)
 * shows itself as a difference, since all ops of this program give the same bits when they repeat.
 *
 * The first run is a rehearsal: nothing is sent but SyncBN's messages, and a 64-bit checksum is
 * taken of each parameter's gradient after each micro-batch. Running statistics move in it as ever,
 * since SyncBN's sums and observers of later micro-batches depend on them, and are put back. The
 * second run is the step itself. Its checksums are taken when a bucket is complete, before it is
 * sent. Late rows are gradients too. A difference fails the step like any other error of one rank,
 * so that nothing of it is saved.
 *
 * SyncBN spreads a wrong value over its group. So each rank also compares what it sends and what it
 * receives: a rank that first received a difference is not to blame, and reports nothing.
 *
 * Gradients pass through a small buffer on the host. A device waits for this, and therefore such a
 * step is not replayed as a CUDA graph. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include <stdio.h>
#include <string.h>

enum { PIECE = 1 << 20 };

/* Returns the number of messages of SyncBN in a micro-batch. */
static int messages_of(const ct_trainer_t *t)
{
  int n = 0;
  const ct_plan_t *p = t->first.plan;
  for (int i = 0; t->group && i < p->launches; i++)
    n += (p->launch[i].pass & (CT_FWD_STATS | CT_BWD_STATS)) != 0;
  return n;
}

/* Returns the number of checksums of a micro-batch: of trained parameters, of late rows, and of
 * each message of SyncBN before and after the exchange. */
static int sums_of(const ct_trainer_t *t)
{
  return t->map.trained + ct__late_rows_tables(t) + 2 * t->replay.messages;
}

static size_t losses_bytes(const ct_trainer_t *t)
{
  return (size_t)t->micro_batches * (size_t)t->heads.n * sizeof(ct_loss_t);
}

/* Fails if an op may give other bits when it repeats. */
static int replay_check(const ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_plan_t *p = t->first.plan;
  for (int o = 0; o < p->ops; o++)
    if (p->op[o].info.varies)
      CT_FAIL(CT_ERR_USAGE,
              "train.replay_every compares bits, but layer '%s' may give other bits each time: %s",
              p->op[o].layer >= 0 ? p->graph->layer[p->op[o].layer].name : "?",
              p->op[o].info.varies);
out:
  return rc;
}

int ct__replay_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  void *piece = NULL;
  ct__replay_t *r = &t->replay;
  int64_t every = t->env.step_opts.replay_every;
  if (!every) return CT_OK;
  CT_TRY(replay_check(t));
  r->messages = messages_of(t);
  r->sum = ct_mem_array((int64_t)t->micro_batches * sums_of(t), sizeof *r->sum, "checksums");
  r->seen = ct_mem_array(t->micro_batches, sizeof *r->seen, "checksums");
  r->loss = ct_mem_alloc(losses_bytes(t), "losses of a repeated step");
  CT_TRY(r->sum && r->seen && r->loss ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(t->env.be->mem->alloc(t->env.dev, CT_MEM_STAGING, PIECE, &piece));
  r->piece = piece;
  CT_TRY(ct__arenas_take(t, CT_MEMORY_BUFFERS, t->map.buffer_bytes, &r->buffer));
  ct_log(CT_LOG_INFO,
         "forward and backward run twice in 1 of %lld steps, to compare gradients: about +%.3g%% "
         "time",
         (long long)every, 100.0 / (double)every);
out:
  return rc;
}

void ct__replay_free(ct_trainer_t *t)
{
  ct__replay_t *r = &t->replay;
  ct_mem_free(r->sum);
  ct_mem_free(r->seen);
  ct_mem_free(r->loss);
  t->env.be->mem->free(t->env.dev, CT_MEM_STAGING, r->piece);
}

/* ---- checksums ---- */

/* Fault point that simulates a device with a defect. */
static int corrupt(ct_trainer_t *t, char *at)
{
  int rc = CT_OK;
  char *byte = t->replay.piece;
  const ct_mem_ops_t *mem = t->env.be->mem;
  if (ct_fault("step.corrupt") == CT_OK) return CT_OK;
  CT_TRY(mem->copy(t->q, byte, at, 1));
  CT_TRY(t->env.be->queue->sync(t->q));
  *byte ^= 1;
  CT_TRY(mem->copy(t->q, at, byte, 1));
out:
  return rc;
}

static int sum_bytes(ct_trainer_t *t, const void *from, size_t bytes, uint64_t *out)
{
  int rc = CT_OK;
  char *piece = t->replay.piece;
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes; at += PIECE) {
    size_t n = bytes - at < PIECE ? bytes - at : PIECE;
    CT_TRY(t->env.be->mem->copy(t->q, piece, (const char *)from + at, n));
    CT_TRY(t->env.be->queue->sync(t->q));
    sum = ct_hash(piece, n, sum);
  }
  *out = sum;
out:
  return rc;
}

/* Returns 1 if a message as it arrived has this number. */
static int is_received(const ct_trainer_t *t, int k)
{
  int first = t->map.trained + ct__late_rows_tables(t);
  return k >= first && (k - first) % 2;
}

/* Stores checksum k of micro-batch p, or compares it with that of the rehearsal. */
static int take_sum(ct_trainer_t *t, int p, int k, const void *from, size_t bytes)
{
  int rc = CT_OK;
  ct__replay_t *r = &t->replay;
  uint64_t sum, *own = &r->sum[p * sums_of(t) + k];
  CT_TRY(sum_bytes(t, from, bytes, &sum));
  if (r->stage == CT_REHEARSAL) {
    *own = sum;
  } else if (sum != *own && is_received(t, k)) {
    r->innocent |= !r->differ;
  } else if (sum != *own && !r->innocent) {
    if (!r->differ) r->first = k;
    r->differ++;
  }
out:
  return rc;
}

int ct__replay_look(ct_trainer_t *t, int p, int bucket)
{
  int rc = CT_OK;
  const ct__replay_t *r = &t->replay;
  const ct_bucket_t *b = &t->first.bucket[bucket];
  if (r->stage == CT_NO_REPLAY || (r->stage == CT_REPLAY && !r->seen[p])) return CT_OK;
  if (bucket == 0) CT_TRY(corrupt(t, t->gradient + b->offset));
  for (int k = 0; k < t->map.trained; k++) {
    size_t at = t->map.offset[t->map.order[k]];
    if (at >= b->offset && at < b->offset + b->bytes)
      CT_TRY(take_sum(t, p, k, t->gradient + at, t->map.bytes[t->map.order[k]]));
  }
out:
  return rc;
}

int ct__replay_look_all(ct_trainer_t *t, int p, int64_t n)
{
  int rc = CT_OK;
  ct__replay_t *r = &t->replay;
  if (r->stage == CT_NO_REPLAY) return CT_OK;
  int rows = r->stage == CT_REHEARSAL || r->seen[p];
  int buckets = r->stage == CT_REHEARSAL || p < t->micro_batches - 1; /* else each was looked at */
  for (int k = 0; buckets && k < t->buckets; k++)
    CT_TRY(ct__replay_look(t, p, k));
  for (int k = 0; rows && k < ct__late_rows_tables(t); k++) {
    size_t bytes;
    const void *from = ct__late_rows_own(t, k, n, &bytes);
    CT_TRY(take_sum(t, p, t->map.trained + k, from, bytes));
  }
  if (r->stage == CT_REHEARSAL) r->seen[p] = 1;
out:
  return rc;
}

int ct__replay_message(ct_trainer_t *t, int p, int number, int64_t n, int received)
{
  int first = t->map.trained + ct__late_rows_tables(t);
  if (t->replay.stage == CT_NO_REPLAY || !ct__step_is_well(t)) return CT_OK;
  return take_sum(t, p, first + 2 * number + received, t->stats, (size_t)n * sizeof *t->stats);
}

/* ---- the two runs ---- */

int ct__replay_is_rehearsal(const ct_trainer_t *t)
{
  return t->replay.stage == CT_REHEARSAL;
}

int ct__replay_is_due(const ct_trainer_t *t)
{
  int64_t every = t->env.step_opts.replay_every;
  return every && (t->progress.steps + 1) % every == 0;
}

static void copy_buffers(ct_trainer_t *t, char *to, const char *from)
{
  if (!t->map.buffer_bytes || !ct__step_is_well(t)) return;
  ct__step_note(t, t->env.be->mem->copy(t->q, to, from, t->map.buffer_bytes));
}

void ct__replay_begin(ct_trainer_t *t)
{
  ct__replay_t *r = &t->replay;
  copy_buffers(t, r->buffer, t->buffer);
  r->stage = CT_REHEARSAL;
  r->differ = r->innocent = 0;
  memset(r->seen, 0, (size_t)t->micro_batches * sizeof *r->seen);
}

void ct__replay_turn(ct_trainer_t *t)
{
  ct__replay_t *r = &t->replay;
  copy_buffers(t, t->buffer, r->buffer);
  if (ct__step_is_well(t)) ct__step_note(t, t->env.be->queue->sync(t->q));
  memcpy(r->loss, ct__step_losses(t), losses_bytes(t));
  r->stage = CT_REPLAY;
}

/* Writes which losses differ. */
static void tell_losses(const ct_trainer_t *t, char *to, size_t cap)
{
  const ct_loss_t *first = t->replay.loss, *second = ct__step_losses(t);
  *to = 0;
  for (int i = 0; i < t->micro_batches * t->heads.n; i++) {
    if (memcmp(&first[i].sum, &second[i].sum, sizeof first[i].sum) == 0) continue;
    (void)snprintf(to, cap, ", and so does the loss, %.17g and %.17g", first[i].sum, second[i].sum);
    return;
  }
}

/* Writes which tensor the first checksum that differs is of. */
static void tell_tensor(const ct_trainer_t *t, char *to, size_t cap)
{
  int k = t->replay.first, message = k - t->map.trained - ct__late_rows_tables(t);
  const ct_plan_t *p = t->first.plan;
  const ct_graph_t *g = t->env.graph;
  *to = 0;
  if (!t->replay.differ) return;
  if (k < t->map.trained)
    (void)snprintf(to, cap, ", first that of the gradient of %s", g->param[t->map.order[k]].name);
  else if (message < 0)
    (void)snprintf(to, cap, ", first that of the gradient of rows of %s",
                   g->param[p->late[k - t->map.trained].param].name);
  for (int i = 0, n = -1; message >= 0 && i < p->launches; i++) {
    n += (p->launch[i].pass & (CT_FWD_STATS | CT_BWD_STATS)) != 0;
    if (n < message / 2) continue;
    (void)snprintf(to, cap, ", first that of the batchnorm statistics of %s",
                   g->layer[p->op[p->launch[i].op].layer].name);
    return;
  }
}

static int replay_result(ct_trainer_t *t)
{
  int rc = CT_OK;
  char losses[96], tensor[256];
  const ct__replay_t *r = &t->replay;
  CT_TRY(t->env.be->queue->sync(t->q));
  tell_losses(t, losses, sizeof losses);
  if (r->innocent || (!r->differ && !*losses)) return CT_OK;
  tell_tensor(t, tensor, sizeof tensor);
  CT_FAIL(CT_ERR_DEVICE,
          "step %lld computed twice from the same state gives different results (silent data "
          "corruption; train.replay_every): %d of %d checksums differ%s%s; test or exclude this "
          "node, and resume from the last checkpoint",
          (long long)t->progress.steps + 1, r->differ, sums_of(t) * t->micro_batches, tensor,
          losses);
out:
  return rc;
}

void ct__replay_end(ct_trainer_t *t)
{
  ct__replay_t *r = &t->replay;
  if (r->stage == CT_NO_REPLAY) return;
  if (ct__step_is_well(t)) ct__step_note(t, replay_result(t));
  r->stage = CT_NO_REPLAY;
}
