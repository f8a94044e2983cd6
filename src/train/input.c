/* Transfer of batches to the device.
 *
 * All copies run on their own queue, into two slots used alternately: while a step uses the batch
 * in one slot, the next batch is copied into the other, after the last step that used it. The queue
 * orders successive copies into one slot. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* ---- memory ---- */

static int host_alloc(void *ctx, size_t bytes, void **out)
{
  const ct_trainer_t *t = ctx;
  return t->env.be->mem->alloc(t->env.dev, CT_MEM_STAGING, bytes, out);
}

static void host_free(void *ctx, void *p)
{
  const ct_trainer_t *t = ctx;
  t->env.be->mem->free(t->env.dev, CT_MEM_STAGING, p);
}

ct_feed_opts_t ct_trainer_feed_opts(ct_trainer_t *t, int training)
{
  const ct_topo_t *topo = t->env.topo;
  int whole = training && t->env.step_opts.strategy->rank0_deals;
  return (ct_feed_opts_t){.rank = topo->rank,
                          .size = !whole ? topo->size : topo->rank == 0,
                          .bytes = t->env.bytes_of[training] != NULL,
                          .mem = {host_alloc, host_free, t}};
}

/* Arrays that the data set does not have are NULL. */
static void list_arrays(const ct_batch_t *b, const void *out[CT_INPUT_ARRAYS])
{
  out[CT_INPUT_X] = b->bytes ? (const void *)b->bytes : b->x;
  out[CT_INPUT_LABELS] = b->labels;
  out[CT_INPUT_LABELS2] = b->labels2;
  out[CT_INPUT_MIX] = b->mix;
  out[CT_INPUT_WEIGHTS] = b->weights;
  out[CT_INPUT_TARGETS] = b->targets;
  for (int k = 0; k < CT_INPUTS_EXTRA; k++)
    out[CT_INPUT_EXTRA + k] = b->extra[k];
  for (int k = 0; k < CT_TARGETS_MORE; k++)
    out[CT_INPUT_MORE + k] = b->more[k];
}

int ct_trainer_takes_bytes(const ct_backend_t *be, ct_dev_t *dev, const ct_dataset_t *d)
{
  char why[128];
  ct_op_desc_t convert;
  ct_shape_t x = d->x;
  if (be->in_place || !ct_dataset_is_bytes(d)) return 0;
  x.dtype = CT_U8;
  x.layout = d->info.channels_last ? CT_NHWC : CT_PLAIN;
  ct_op_desc_init(&convert, CT_OP_REORDER, &x, &d->x);
  return be->op->supports(dev, &convert, why);
}

/* Normalization constants of a data set, expanded to one pair per channel. */
static int make_affine(ct_trainer_t *t, const ct_dataset_t *d, float **out)
{
  int rc = CT_OK;
  int64_t channels = t->env.graph->input.dim[1];
  size_t bytes = 2 * (size_t)channels * sizeof(float);
  char *p = NULL;
  float *map = ct_mem_alloc(bytes, "the map of the channels");
  if (!map) return CT_ERR_NOMEM;
  for (int64_t c = 0; c < channels; c++) {
    map[c] = d->affine.a[d->affine.channels == 1 ? 0 : c];
    map[channels + c] = d->affine.b[d->affine.channels == 1 ? 0 : c];
  }
  CT_TRY(ct__arenas_take(t, CT_MEMORY_CHANNEL_MAPS, bytes, &p));
  *out = (float *)p;
  CT_TRY(t->env.be->mem->copy(t->input.copies, p, map, bytes));
  CT_TRY(t->env.be->queue->sync(t->input.copies));
out:
  ct_mem_free(map);
  return rc;
}

int ct__input_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  size_t bytes[CT_INPUT_ARRAYS];
  if (t->env.be->in_place) return CT_OK;
  CT_TRY(t->env.be->queue->create(t->env.dev, &t->input.copies));
  ct__memory_arrays(&t->env, ct__memory_all_bytes(&t->env), bytes);
  for (int k = 0; k < 2; k++) {
    if (t->env.bytes_of[k]) CT_TRY(make_affine(t, t->env.bytes_of[k], &t->input.affine[k]));
    CT_TRY(t->env.be->queue->mark(t->input.copies, &t->input.slot[k].ready));
  }
  for (int i = 0; i < 2 * CT_INPUT_ARRAYS; i++)
    CT_TRY(ct__arenas_take(t, CT_MEMORY_BATCHES, (size_t)t->max_n * bytes[i / 2],
                           &t->input.slot[i % 2].array[i / 2]));
out:
  return rc;
}

void ct__input_free(ct_trainer_t *t)
{
  const ct_backend_t *be = t->env.be;
  be->queue->destroy(t->input.copies);
  for (int k = 0; k < 2; k++)
    be->queue->unmark(t->input.slot[k].ready);
}

/* ---- copies ---- */

static int copy(ct_trainer_t *t, const ct_batch_t *b, int slot)
{
  int rc = CT_OK;
  size_t bytes[CT_INPUT_ARRAYS];
  const void *from[CT_INPUT_ARRAYS];
  ct__slot_t *in = &t->input.slot[slot];
  ct_event_t *user = ct__step_done(t, slot);
  ct__memory_arrays(&t->env, b->bytes != NULL, bytes);
  list_arrays(b, from);
  if (user) CT_TRY(t->env.be->queue->after(t->input.copies, user));
  for (int i = 0; i < CT_INPUT_ARRAYS; i++)
    if (from[i])
      CT_TRY(t->env.be->mem->copy(t->input.copies, in->array[i], from[i], (size_t)b->n * bytes[i]));
  CT_TRY(t->env.be->queue->mark(t->input.copies, &in->ready));
out:
  if (rc != CT_OK) { /* stop using the caller's batch before returning */
    ct_err_info_t failure = *ct_err_last();
    (void)t->env.be->queue->sync(t->input.copies);
    ct_err_put(&failure);
  }
  return rc;
}

/* A feed reuses its arrays, so equal pointers alone do not identify a batch. */
static int is_same(const ct_batch_t *a, const ct_batch_t *b)
{
  return a->labels == b->labels && a->epoch == b->epoch && a->cursor == b->cursor && a->n == b->n;
}

/* Returns 1 if a device buffer holds the batch, or will when its copies are complete. */
static int is_there(const ct_trainer_t *t, const ct_batch_t *b, int slot)
{
  const ct__input_t *in = &t->input;
  int prefetched = in->has_next && slot == !in->used;
  return (prefetched || in->slot[slot].same) && is_same(b, &in->next);
}

int ct__input_take(ct_trainer_t *t, const ct_batch_t *b, int slot)
{
  int rc = CT_OK;
  ct__input_t *in = &t->input;
  CT_TRY(ct__plans_fit(t, b->n));
  if (t->env.be->in_place) return CT_OK;
  if (slot < 0) slot = !in->used;
  int there = is_there(t, b, slot);
  in->has_next = 0;
  in->used = slot;
  if (!there) in->slot[slot].same = 0;
  if (!there) CT_TRY(copy(t, b, slot));
  CT_TRY(t->env.be->queue->after(t->q, in->slot[slot].ready));
  ct__input_prefetch(t);
out:
  return rc;
}

void ct__input_prefetch(ct_trainer_t *t)
{
  const ct_batch_t *b = NULL;
  ct__input_t *in = &t->input;
  int slot = !in->used;
  if (in->copies && in->prefetch.ahead) b = in->prefetch.ahead(in->prefetch.ctx);
  if (!b || !b->n || b->n > t->max_n || is_there(t, b, slot)) return;
  in->has_next = copy(t, b, slot) == CT_OK;
  in->slot[slot].same = in->has_next && in->prefetch.same;
  in->next = *b;
}

int ct__input_copied(ct_trainer_t *t)
{
  const ct__slot_t *in = &t->input.slot[t->input.used];
  return t->input.copies ? t->env.be->queue->wait(in->ready) : CT_OK;
}

ct_prefetch_t ct_trainer_follow(ct_trainer_t *t, ct_prefetch_t prefetch)
{
  ct_prefetch_t before = t->input.prefetch;
  t->input.prefetch = prefetch;
  t->input.has_next = t->input.slot[0].same = t->input.slot[1].same = 0;
  ct__repeat_doubt(t); /* between two sources memory may move */
  if (t->input.copies) {
    ct_err_info_t failure = *ct_err_last(); /* a step or an evaluation that failed may end here */
    if (t->env.be->queue->sync(t->input.copies) != CT_OK) ct_err_put(&failure);
  }
  return before;
}

static const ct_batch_t *ahead_in(void *feed)
{
  return ct_feed_ahead(feed);
}

ct_prefetch_t ct_trainer_feed(ct_feed_t *f)
{
  return (ct_prefetch_t){f ? ahead_in : NULL, f, 0};
}

/* ---- use ---- */

/* Returns what a loss reads from the arrays of a batch. */
static ct_head_bind_t bind_head(const ct_head_t *h, const void *const at[])
{
  int is_labels = ct_loss_of_labels(h->loss.kind);
  if (!h->target)
    return (ct_head_bind_t){.labels = at[CT_INPUT_LABELS],
                            .labels2 = at[CT_INPUT_LABELS2],
                            .mix = at[CT_INPUT_MIX],
                            .targets = at[CT_INPUT_TARGETS]};
  const void *more = at[CT_INPUT_MORE + h->target - 1];
  return (ct_head_bind_t){.labels = is_labels ? more : NULL, .targets = is_labels ? NULL : more};
}

ct_bind_t ct__input_bind(const ct_trainer_t *t, const ct_batch_t *b, int training, int64_t first,
                         int p)
{
  ct_bind_t bind = ct__plans_bind(t, b->first + first);
  const void *at[CT_INPUT_ARRAYS];
  size_t bytes[CT_INPUT_ARRAYS];
  ct__memory_arrays(&t->env, b->bytes != NULL, bytes);
  list_arrays(b, at);
  for (int i = 0; i < CT_INPUT_ARRAYS; i++) {
    if (at[i] && !t->env.be->in_place) at[i] = t->input.slot[t->input.used].array[i];
    if (at[i]) at[i] = (const char *)at[i] + (size_t)first * bytes[i];
  }
  const ct_head_bind_t head = bind_head(&t->heads.of[0], at);
  for (int k = 1; k < t->heads.n; k++)
    bind.more[k - 1] = bind_head(&t->heads.of[k], at);
  ct__step_bind_loss(t, p, &bind);
  bind.x = at[CT_INPUT_X];
  for (int k = 0; k < CT_INPUTS_EXTRA; k++)
    bind.extra[k] = at[CT_INPUT_EXTRA + k];
  bind.affine = t->input.affine[training];
  bind.labels = head.labels;
  bind.labels2 = head.labels2;
  bind.mix = head.mix;
  bind.weights = at[CT_INPUT_WEIGHTS];
  bind.targets = head.targets;
  return bind;
}
