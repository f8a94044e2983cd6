/* optim.place host: optimizer states in host memory, while the model is on a GPU.
 *
 * When a bucket is reduced, its gradients are copied to the host, in pieces, while backward
 * continues. The CPU backend updates each piece: the states, and a float32 copy of the weights,
 * which is copied back. The copies back follow backward in the device's queue, since a layer may
 * still read its weights. With ZeRO-1 this rank's slices travel.
 *
 * If the gradients are needed as a whole first (clipping by norm, fp16, the norm for the log),
 * nothing of this overlaps with backward. The rules are those of the CPU, whose sums and square
 * roots may round otherwise than a GPU's in the last bit.
 *
 * For checkpoints a state takes the place of the gradients, which nobody needs between steps. */
#include "train/trainer.h"
#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_log.h"

enum {
  PIECE = 16 << 20, /* bytes of gradients that are copied at a time */
  LINE = 64
};

/* ---- creation and destruction ---- */

static size_t piece_bytes(const ct_trainer_t *t)
{
  return t->map.trained_bytes < PIECE ? t->map.trained_bytes : PIECE;
}

static int make_update(ct_trainer_t *t, int rule)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  const ct_trainer_env_t *e = &t->env;
  ct_op_desc_flat(&d, CT_OP_UPDATE, (int64_t)(piece_bytes(t) / sizeof(float)), rule,
                  e->step_opts.clip_p);
  return e->host->op->prepare(e->host_dev, &d, NULL, &t->host.update, &info);
}

/* Measures a copy to the host, and logs what is saved and what it costs. */
static int estimate(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  ct__host_states_t *h = &t->host;
  size_t bytes = piece_bytes(t), states = (size_t)h->states * h->bytes;
  double begin = 0;
  if (bytes > t->need.bytes[CT_MEMORY_WEIGHTS]) bytes = t->need.bytes[CT_MEMORY_WEIGHTS];
  for (int i = 0; i < 2; i++) {
    begin = ct_clock();
    CT_TRY(be->mem->copy(h->copies, h->piece[0].gradient, t->weight, bytes));
    CT_TRY(be->queue->sync(h->copies));
  }
  double rate = (double)bytes / (ct_clock() - begin);
  ct_log(CT_LOG_INFO,
         "optim.place host: %.0f MB of states are in host memory; each step copies %.0f MB of "
         "gradients to the host and as many of weights back, about %.1f ms each at %.1f GB/s%s",
         (double)states / 1e6, (double)h->bytes / 1e6, (double)h->bytes / rate * 1e3, rate / 1e9,
         t->env.step_opts.clip_norm > 0 || t->progress.scaler.on
             ? "; not during backward, as all gradients are needed first"
             : "");
out:
  return rc;
}

int ct__host_states_make(ct_trainer_t *t, int rule, int states, size_t bytes)
{
  int rc = CT_OK;
  void *p;
  ct__host_states_t *h = &t->host;
  const ct_trainer_env_t *e = &t->env;
  if (!e->host) CT_FAIL(CT_ERR_ARG, "optim.place host: no backend for the host was given");
  h->bytes = bytes;
  h->stale = 1;
  CT_TRY(e->be->queue->create(e->dev, &h->copies));
  CT_TRY(e->host->queue->create(e->host_dev, &h->q));
  CT_TRY(make_update(t, rule));
  for (h->states = 0; h->states < states; h->states++) {
    CT_TRY(e->host->mem->alloc(e->host_dev, CT_MEM_DEVICE, bytes + LINE, &p));
    h->state[h->states] = p;
  }
  CT_TRY(e->be->mem->alloc(e->dev, CT_MEM_STAGING, bytes + LINE, &p));
  h->weight = p;
  for (int i = 0; i < 2; i++) {
    CT_TRY(e->be->mem->alloc(e->dev, CT_MEM_STAGING, piece_bytes(t), &p));
    h->piece[i].gradient = p;
    CT_TRY(e->be->queue->mark(h->copies, &h->piece[i].there));
  }
  CT_TRY(estimate(t));
out:
  return rc;
}

void ct__host_states_free(ct_trainer_t *t)
{
  ct__host_states_t *h = &t->host;
  const ct_trainer_env_t *e = &t->env;
  if (!h->copies) return;
  e->be->queue->destroy(h->copies);
  for (int i = 0; i < 2; i++) {
    e->be->queue->unmark(h->piece[i].there);
    e->be->mem->free(e->dev, CT_MEM_STAGING, h->piece[i].gradient);
  }
  e->be->mem->free(e->dev, CT_MEM_STAGING, h->weight);
  for (int s = 0; s < h->states; s++)
    e->host->mem->free(e->host_dev, CT_MEM_DEVICE, h->state[s]);
  e->host->op->release(h->update);
  e->host->queue->destroy(h->q);
}

char *ct__host_states_array(const ct_trainer_t *t, int s)
{
  return t->host.state[s];
}

int ct__host_states_restart(ct_trainer_t *t)
{
  int rc = CT_OK;
  for (int s = 0; s < t->host.states; s++)
    CT_TRY(t->env.host->mem->zero(t->host.q, t->host.state[s], t->host.bytes));
  CT_TRY(t->env.host->queue->sync(t->host.q));
out:
  return rc;
}

void ct__host_states_outdate(ct_trainer_t *t)
{
  t->host.stale = 1;
}

/* ---- one step ---- */

ct_queue_t *ct__host_states_queue(const ct_trainer_t *t)
{
  return t->host.overlaps ? t->host.copies : t->q;
}

/* Copies the weights of this rank's ranges to the host. */
static int fetch_weights(ct_trainer_t *t, const ct__range_t *r, int64_t ranges)
{
  int rc = CT_OK;
  for (int64_t i = 0; i < ranges; i++, r++)
    CT_TRY(t->env.be->mem->copy(t->q, t->host.weight + r->state, t->weight + r->weight, r->bytes));
  CT_TRY(t->env.be->queue->sync(t->q));
  t->host.stale = 0;
out:
  return rc;
}

void ct__host_states_begin(ct_trainer_t *t, int overlaps, const ct__range_t *r, int64_t ranges)
{
  if (!overlaps && ct__step_is_well(t)) ct__step_note(t, t->env.be->queue->sync(t->q));
  if (t->host.stale && ct__step_is_well(t)) ct__step_note(t, fetch_weights(t, r, ranges));
  t->host.overlaps = overlaps;
}

/* Updates the piece when its gradient has arrived. */
static int finish_piece(ct_trainer_t *t, ct__host_piece_t *p)
{
  int rc = CT_OK;
  size_t bytes = p->bytes;
  p->bytes = 0;
  if (!bytes) return CT_OK;
  CT_TRY(t->env.be->queue->wait(p->there));
  CT_TRY(t->env.host->op->run(t->host.q, t->host.update, &p->args));
  CT_TRY(t->env.host->queue->sync(t->host.q));
  CT_TRY(t->env.be->mem->copy(t->q, p->to, p->args.w[0], bytes));
out:
  return rc;
}

/* Starts the copy of a piece of a range, and updates the piece before. */
static int start_piece(ct_trainer_t *t, const ct__range_t *r, const ct_op_args_t *a, size_t at,
                       size_t bytes)
{
  int rc = CT_OK;
  ct__host_states_t *h = &t->host;
  ct__host_piece_t *p = &h->piece[h->next], *before = &h->piece[1 - h->next];
  h->next = 1 - h->next;
  CT_TRY(t->env.be->mem->copy(h->copies, p->gradient, (const char *)a->dy + at, bytes));
  CT_TRY(t->env.be->queue->mark(h->copies, &p->there));
  p->args = *a;
  p->args.w[0] = h->weight + r->state + at;
  p->args.y = NULL;
  p->args.dy = p->gradient;
  p->args.count = (int64_t)(bytes / sizeof(float));
  for (int s = 0; s < h->states; s++)
    p->args.state[s] = (char *)a->state[s] + at;
  p->to = (char *)a->w[0] + at;
  p->bytes = bytes;
  CT_TRY(finish_piece(t, before));
out:
  return rc;
}

void ct__host_states_update(ct_trainer_t *t, const ct__range_t *r, const ct_op_args_t *a)
{
  size_t most = piece_bytes(t);
  for (size_t at = 0; at < r->bytes && ct__step_is_well(t); at += most)
    ct__step_note(t, start_piece(t, r, a, at, r->bytes - at < most ? r->bytes - at : most));
}

void ct__host_states_end(ct_trainer_t *t)
{
  ct__host_states_t *h = &t->host;
  for (int i = 0; i < 2; i++) {
    ct__host_piece_t *p = &h->piece[(h->next + i) % 2];
    if (!ct__step_is_well(t)) p->bytes = 0;
    ct__step_note(t, finish_piece(t, p));
  }
  h->overlaps = 0;
}

void ct__host_states_keep(ct_trainer_t *t)
{
  t->host.stale = 0;
}

/* ---- checkpoints ---- */

int ct__host_states_lend(ct_trainer_t *t, int s, int save)
{
  int rc = CT_OK;
  const ct_mem_ops_t *mem = t->env.be->mem;
  if (!t->host.copies) return CT_OK;
  CT_TRY(save ? mem->copy(t->q, t->gradient, t->host.state[s], t->host.bytes)
              : mem->zero(t->q, t->gradient, t->host.bytes));
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}

int ct__host_states_take_back(ct_trainer_t *t, int s)
{
  int rc = CT_OK;
  if (!t->host.copies) return CT_OK;
  CT_TRY(t->env.be->mem->copy(t->q, t->host.state[s], t->gradient, t->host.bytes));
  CT_TRY(t->env.be->queue->sync(t->q));
out:
  return rc;
}
