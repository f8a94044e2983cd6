/* ZeRO-1: slices of weights and optimizer states, and their way between the ranks.
 *
 * Each rank updates its slice of each bucket (Rajbhandari et al. 2020). States exist only as
 * slices. So do the float32 weights that ops read in reduced precision: the reduced copy is whole
 * on each rank, and is what the ranks gather. The slices of an array are packed one after another,
 * bucket by bucket; the float32 weights that ops read as they are follow behind those of the
 * weights.
 *
 * The gather of a bucket starts when the bucket is updated, in the reverse order of backward, and
 * is in flight during the next updates. Where gathers may stay open, it ends in the next forward
 * pass, before the first launch that reads a parameter of the bucket.
 *
 * Checkpoints go through rank 0 one parameter at a time. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

enum { CLOSED = -1 };

/* ---- creation ---- */

int ct__slices_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  ct__slices_t *s = &t->slices;
  size_t from, to, end = 0;
  s->ticket = ct_mem_array(t->buckets + 1, sizeof *s->ticket, "gathers");
  s->packed = ct_mem_array(t->buckets + 1, sizeof *s->packed, "slices");
  s->bytes = ct_mem_array(2 * (int64_t)t->env.topo->size, sizeof *s->bytes, "slices of the ranks");
  CT_TRY(s->ticket && s->packed && s->bytes ? CT_OK : CT_ERR_NOMEM);
  s->place = s->bytes + t->env.topo->size;
  for (int k = 0; k < t->buckets; k++) {
    ct__memory_slice(&t->env, &t->first.bucket[k], &from, &to);
    s->ticket[k] = CLOSED;
    s->packed[k] = end;
    end += to - from;
    if (t->first.bucket[k].offset < t->map.low_bytes) t->own_low = end;
  }
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_STATE_PIECE, &s->piece));
  CT_TRY(t->env.be->queue->mark(t->q, &s->ready)); /* a step needs no memory for it */
out:
  return rc;
}

void ct__slices_free(ct_trainer_t *t)
{
  t->env.be->queue->unmark(t->slices.ready);
  ct_mem_free(t->slices.ticket);
  ct_mem_free(t->slices.packed);
  ct_mem_free(t->slices.bytes);
}

/* ---- gathers ---- */

static int is_low(const ct_trainer_t *t, int k)
{
  return t->first.bucket[k].offset < t->map.low_bytes;
}

/* Starts the gather of bucket k once the queue has reached this point. Runs even after a failure,
 * since the peers wait for the bucket. */
static void start(ct_trainer_t *t, int k)
{
  ct__slices_t *s = &t->slices;
  const ct_bucket_t *b = &t->first.bucket[k];
  int low = is_low(t, k);
  char *at = low ? t->reduced + b->offset / 2 : ct__slices_whole(t, t->weight, b->offset);
  ct__step_enter(t, CT_TIME_MOVE, "the gathering of the weights of bucket", k);
  int marked = ct__step_note(t, t->env.be->queue->mark(t->q, &s->ready));
  ct__step_note(t, t->env.comm_ops->reduce(t->env.comm, marked == CT_OK ? s->ready : NULL,
                                           (float *)(void *)at, (int64_t)(b->bytes / sizeof(float)),
                                           low ? CT_GATHER_HALF : CT_GATHER, &s->ticket[k]));
  s->open += s->ticket[k] != CLOSED; /* after an error too, since the peers wait for it */
  ct__step_leave(t);
}

static void end(ct_trainer_t *t, int k)
{
  ct__slices_t *s = &t->slices;
  if (k >= t->buckets || s->ticket[k] == CLOSED) return;
  ct__step_enter(t, CT_TIME_WAIT, "the gathering of the weights of bucket", k);
  ct__step_note(t, t->env.comm_ops->end(t->env.comm, s->ticket[k], t->q));
  ct__step_leave(t);
  s->ticket[k] = CLOSED;
  s->open--;
}

void ct__slices_gather(ct_trainer_t *t, int k)
{
  enum { OPEN = 2 }; /* of a communicator that needs memory for them */
  if (!t->env.comm_ops->gathers_ahead) end(t, k + OPEN);
  start(t, k);
}

void ct__slices_settle(ct_trainer_t *t)
{
  for (int k = t->buckets - 1; k >= 0 && t->slices.open; k--)
    end(t, k);
}

void ct__slices_settle_float(ct_trainer_t *t)
{
  for (int k = t->buckets - 1; k >= 0 && t->slices.open && !is_low(t, k); k--)
    end(t, k);
}

static int bucket_of(const ct_trainer_t *t, size_t offset)
{
  for (int k = 0; k < t->buckets; k++)
    if (offset < t->first.bucket[k].offset + t->first.bucket[k].bytes) return k;
  return t->buckets;
}

void ct__slices_before(ct_trainer_t *t, const ct_plan_t *p, int i)
{
  int layer = p->op[p->launch[i].op].layer;
  if (!t->slices.open) return;
  if (i >= p->loss_launch) ct__slices_settle(t);
  for (int k = 0; layer >= 0 && k < t->env.graph->layer[layer].params; k++) {
    int param = t->env.graph->layer[layer].param[k];
    if (!t->env.graph->param[param].spec.buffer) end(t, bucket_of(t, t->map.offset[param]));
  }
  ct__step_enter(t, CT_TIME_MOVE, NULL, -1);
  ct__step_note(t, t->env.comm_ops->progress(t->env.comm));
  ct__step_leave(t);
}

char *ct__slices_low(const ct_trainer_t *t, int k, size_t *from, size_t *bytes)
{
  size_t to;
  if (k >= t->buckets || !is_low(t, k)) return NULL;
  ct__memory_slice(&t->env, &t->first.bucket[k], from, &to);
  *bytes = to - *from;
  return t->weight + t->slices.packed[k];
}

/* ---- one parameter ---- */

int ct__slices_has(const ct_trainer_t *t, int param)
{
  return !t->env.graph->param[param].spec.buffer && t->map.offset[param] < t->map.low_bytes;
}

char *ct__slices_piece(const ct_trainer_t *t)
{
  return t->slices.piece;
}

char *ct__slices_whole(const ct_trainer_t *t, char *weights, size_t offset)
{
  return weights + t->own_low + (offset - t->map.low_bytes);
}

/* Finds this rank's part of a parameter in packed slices; for all ranks, the bytes of their parts
 * and where these begin in the parameter. */
static size_t parts(ct_trainer_t *t, int param)
{
  ct__slices_t *s = &t->slices;
  const ct_topo_t *topo = t->env.topo;
  int64_t begin = (int64_t)t->map.offset[param], end = begin + (int64_t)t->map.bytes[param];
  int k = bucket_of(t, (size_t)begin);
  const ct_bucket_t *b = &t->first.bucket[k];
  size_t at = 0;
  for (int r = 0; r < topo->size; r++) {
    int64_t from, to, size = (int64_t)sizeof(float), n = (int64_t)b->bytes / size;
    t->env.comm_ops->slice(t->env.comm, r, n, &from, &to);
    from = from * size + (int64_t)b->offset;
    to = to * size + (int64_t)b->offset;
    if (r == topo->rank) at = s->packed[k] + (size_t)(begin > from ? begin - from : 0);
    if (from < begin) from = begin;
    if (to > end) to = end;
    s->bytes[r] = to > from ? to - from : 0;
    s->place[r] = to > from ? from - begin : 0;
  }
  return at;
}

/* Returns where the parts lie in the order of the ranks: rank 0 alone has memory for them. */
static char *piece_rows(const ct_trainer_t *t)
{
  char *piece = t->slices.piece;
  return piece ? piece + t->need.bytes[CT_MEMORY_STATE_PIECE] / 2 : NULL;
}

/* Rank 0: moves the parts between the parameter and the order of the ranks, which may differ from
 * the order of the slices. */
static int sort_parts(ct_trainer_t *t, int from_ranks)
{
  int rc = CT_OK;
  const ct__slices_t *s = &t->slices;
  char *rows = piece_rows(t);
  if (t->env.topo->rank) return CT_OK;
  for (int r = 0; r < t->env.topo->size; rows += s->bytes[r++]) {
    char *part = s->piece + s->place[r];
    if (s->bytes[r])
      CT_TRY(t->env.be->mem->copy(t->q, from_ranks ? part : rows, from_ranks ? rows : part,
                                  (size_t)s->bytes[r]));
  }
out:
  return rc;
}

int ct__slices_collect(ct_trainer_t *t, const char *slices, int param)
{
  int rc = CT_OK;
  size_t at = parts(t, param);
  ct__step_enter(t, CT_TIME_WAIT, "the gathering of the state, parameter", param);
  CT_TRY(t->env.comm_ops->collect(t->env.comm, t->q, slices + at, piece_rows(t), t->slices.bytes));
  CT_TRY_ALL(t->env.topo, sort_parts(t, 1));
out:
  return rc;
}

int ct__slices_scatter(ct_trainer_t *t, char *slices, int param)
{
  int rc = CT_OK;
  size_t at = parts(t, param);
  ct__step_enter(t, CT_TIME_WAIT, "the scattering of the state, parameter", param);
  CT_TRY_ALL(t->env.topo, sort_parts(t, 0));
  CT_TRY(t->env.comm_ops->scatter(t->env.comm, t->q, piece_rows(t), slices + at, t->slices.bytes));
out:
  return rc;
}
