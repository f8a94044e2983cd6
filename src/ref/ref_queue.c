/* Queues of the reference backend.
 *
 * In inline mode, work runs when it is enqueued, and events do nothing.  In the other modes a queue
 * stores a copy of the arguments.  Work items are numbered from 1 in each queue.  An event stores
 * the number of the newest item of its queue; work that waits for the event can run after that
 * item.  An event is recorded before other work waits for it, so at least one item can always
 * run. */
#include "ref/ref.h"

#include <string.h>

#include "backend/ct_host.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"

typedef struct work {
  enum { RUN, COPY, AFTER } kind;
  union {
    struct {
      ct_op_t *op;
      ct_op_args_t args;
    } run;
    struct {
      void *dst;
      const void *src; /* NULL: zeros */
      size_t bytes;
    } copy;
    struct {
      ct_queue_t *queue; /* holds a reference */
      int64_t number;
    } after;
  } u;
} work_t;

struct ct_queue {
  ct_dev_t *dev;
  ct_queue_t *next; /* list dev->queues */
  int refs;         /* the owner, events, and AFTER work of other queues */
  int64_t put;      /* number of the newest item */
  int64_t done;     /* number of the newest completed item */
  work_t *work;     /* [first] is item number done + 1 */
  int64_t cap, first;
  ct_err_info_t failure; /* first failure since the last sync */
};

struct ct_event {
  ct_queue_t *queue; /* holds a reference */
  int64_t number;
};

/* ---- creation and release ---- */

static int queue_create(ct_dev_t *dev, ct_queue_t **out)
{
  ct_queue_t *q = *out = ct_mem_alloc(sizeof *q, "reference queue");
  if (!q) return CT_ERR_NOMEM;
  q->dev = dev;
  q->refs = 1;
  pthread_mutex_lock(&dev->lock);
  q->next = dev->queues;
  dev->queues = q;
  pthread_mutex_unlock(&dev->lock);
  return CT_OK;
}

static void drop(ct_queue_t *q)
{
  if (q && --q->refs == 0) ct_mem_free(q);
}

/* ---- running work ---- */

static int do_op(const ct_op_t *op, const ct_op_args_t *args)
{
  return op->kind->run(&op->desc, args);
}

static int perform(work_t *w)
{
  switch (w->kind) {
  case RUN:
    return do_op(w->u.run.op, &w->u.run.args);
  case COPY:
    if (w->u.copy.bytes == 0) break;
    if (w->u.copy.src) {
      memmove(w->u.copy.dst, w->u.copy.src, w->u.copy.bytes);
    } else {
      memset(w->u.copy.dst, 0, w->u.copy.bytes);
    }
    break;
  case AFTER:
    drop(w->u.after.queue);
    break;
  }
  return CT_OK;
}

/* Runs the oldest item of q, which must not be empty. */
static void do_first(ct_queue_t *q)
{
  int rc = perform(&q->work[q->first]);
  if (rc != CT_OK && q->failure.code == CT_OK) q->failure = *ct_err_last();
  q->first++;
  q->done++;
  if (q->done == q->put) q->first = 0;
}

static int is_ready(const ct_queue_t *q)
{
  if (q->done == q->put) return 0;
  const work_t *w = &q->work[q->first];
  return w->kind != AFTER || w->u.after.queue->done >= w->u.after.number;
}

/* Runs the oldest item of a random queue whose item is ready. */
static void do_any(ct_dev_t *dev)
{
  uint64_t ready = 0;

  for (ct_queue_t *q = dev->queues; q; q = q->next)
    ready += (uint64_t)is_ready(q);
  if (ready == 0) return;
  uint64_t pick = ct_rng_u64(dev->seed, CT_RNG_TEST, 0, dev->drawn++) % ready;
  for (ct_queue_t *q = dev->queues; q; q = q->next) {
    if (is_ready(q) && pick-- == 0) {
      do_first(q);
      return;
    }
  }
}

/* Late mode: runs q's items up to item `number`, and the items of other queues for which they
 * wait. */
static void do_needed(ct_queue_t *q, int64_t number)
{
  while (q->done < number) {
    work_t *w = &q->work[q->first];
    if (w->kind == AFTER) do_needed(w->u.after.queue, w->u.after.number);
    do_first(q);
  }
}

static void do_until(ct_queue_t *q, int64_t number)
{
  if (q->dev->order == CT_REF_RANDOM) {
    while (q->done < number)
      do_any(q->dev);
  } else {
    do_needed(q, number);
  }
}

/* ---- enqueuing ---- */

/* Makes space for one more item at the end; only allocates if more items wait than ever before. */
static int grow(ct_queue_t *q)
{
  int64_t waiting = q->put - q->done;
  void *work = q->work;

  if (q->first + waiting < q->cap) return CT_OK;
  if (q->first > 0 && q->first >= q->cap / 2) {
    memmove(q->work, q->work + q->first, (size_t)waiting * sizeof *q->work);
    q->first = 0;
    return CT_OK;
  }
  int rc = ct_mem_grow(&work, &q->cap, q->cap + 64, sizeof *q->work);
  q->work = work;
  return rc;
}

static int enqueue(ct_queue_t *q, const work_t *w)
{
  ct_dev_t *dev = q->dev;

  pthread_mutex_lock(&dev->lock);
  int rc = grow(q);
  if (rc == CT_OK) {
    q->work[q->first + q->put - q->done] = *w;
    q->put++;
    if (w->kind == AFTER) w->u.after.queue->refs++;
    /* a device may also be fast: half of the time an item runs immediately */
    if (dev->order == CT_REF_RANDOM && ct_rng_u64(dev->seed, CT_RNG_TEST, 1, dev->drawn++) & 1)
      do_any(dev);
  }
  pthread_mutex_unlock(&dev->lock);
  return rc;
}

int ct__ref_enqueue_run(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args)
{
  if (q->dev->order == CT_REF_INLINE) return do_op(op, args);
  work_t w = {.kind = RUN, .u.run = {op, *args}};
  return enqueue(q, &w);
}

int ct__ref_enqueue_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes)
{
  work_t w = {.kind = COPY, .u.copy = {dst, src, bytes}};
  return q->dev->order == CT_REF_INLINE ? perform(&w) : enqueue(q, &w);
}

/* ---- waiting ---- */

static int mark(ct_queue_t *q, ct_event_t **io)
{
  ct_event_t *ev = *io;

  if (!ev) ev = ct_mem_alloc(sizeof *ev, "reference event");
  if (!ev) return CT_ERR_NOMEM;
  pthread_mutex_lock(&q->dev->lock);
  q->refs++;
  drop(ev->queue);
  ev->queue = q;
  ev->number = q->put;
  pthread_mutex_unlock(&q->dev->lock);
  *io = ev;
  return CT_OK;
}

static int after(ct_queue_t *q, ct_event_t *ev)
{
  if (q->dev->order == CT_REF_INLINE) return CT_OK;
  work_t w = {.kind = AFTER, .u.after = {ev->queue, ev->number}};
  return enqueue(q, &w);
}

/* Returns the error of deferred work; called with the lock held. */
static int failure_of(ct_queue_t *q)
{
  if (q->failure.code != CT_OK) ct_err_put(&q->failure);
  return q->failure.code;
}

static int wait_event(ct_event_t *ev)
{
  ct_queue_t *q = ev->queue;

  pthread_mutex_lock(&q->dev->lock);
  do_until(q, ev->number);
  int rc = failure_of(q);
  pthread_mutex_unlock(&q->dev->lock);
  return rc;
}

/* Returns 1 if the event is reached.  In late mode, the query runs no work. */
static int event_done(ct_event_t *ev)
{
  ct_queue_t *q = ev->queue;

  pthread_mutex_lock(&q->dev->lock);
  if (q->dev->order == CT_REF_RANDOM) do_any(q->dev);
  int rc = failure_of(q);
  if (rc == CT_OK) rc = q->done >= ev->number;
  pthread_mutex_unlock(&q->dev->lock);
  return rc;
}

static int sync_queue(ct_queue_t *q)
{
  pthread_mutex_lock(&q->dev->lock);
  do_until(q, q->put);
  int rc = failure_of(q);
  q->failure.code = CT_OK;
  pthread_mutex_unlock(&q->dev->lock);
  return rc;
}

static void unmark(ct_event_t *ev)
{
  if (!ev) return;
  pthread_mutex_t *lock = &ev->queue->dev->lock;
  pthread_mutex_lock(lock);
  drop(ev->queue);
  pthread_mutex_unlock(lock);
  ct_mem_free(ev);
}

static void destroy(ct_queue_t *q)
{
  if (!q) return;
  pthread_mutex_t *lock = &q->dev->lock;
  pthread_mutex_lock(lock);
  do_until(q, q->put);
  for (ct_queue_t **at = &q->dev->queues; *at; at = &(*at)->next) {
    if (*at == q) {
      *at = q->next;
      break;
    }
  }
  ct_mem_free(q->work);
  q->work = NULL;
  drop(q);
  pthread_mutex_unlock(lock);
}

const ct_queue_ops_t ct__ref_queue_ops = {.create = queue_create,
                                          .destroy = destroy,
                                          .mark = mark,
                                          .after = after,
                                          .wait = wait_event,
                                          .done = event_done,
                                          .sync = sync_queue,
                                          .unmark = unmark,
                                          .begin = ct_host_begin,
                                          .end = ct_host_end,
                                          .capture = ct_host_capture,
                                          .start = ct_host_start};
