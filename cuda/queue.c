/* Queues are CUDA streams, marks are events. The host waits by polling, never in a blocking CUDA
 * call, so that a peer's failure is noticed and waits can time out. */
#include <sched.h>
#include <time.h>

#include "base/ct_clock.h"
#include "base/ct_mem.h"
#include "cuda/gpu.h"

static int queue_create(ct_dev_t *dev, ct_queue_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  if (dev->card)
    return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__, "%s is described, not there",
                      dev->id.name);
  ct_queue_t *q = ct_mem_alloc(sizeof *q, "CUDA queue");
  if (!q) return CT_ERR_NOMEM;
  q->dev = dev;
  CT_TRY(gpu__repeats_open(q));
  GPU_TRY(cudaStreamCreateWithFlags(&q->stream, cudaStreamNonBlocking));
  *out = q;
  q = NULL;
out:
  if (q) gpu__repeats_free(q->repeats);
  ct_mem_free(q);
  return rc;
}

static void destroy(ct_queue_t *q)
{
  if (!q) return;
  ct_err_info_t failure = *ct_err_last(); /* stays the last one if the wait fails */
  if (gpu__wait_stream(q->dev, q->stream) != CT_OK) ct_err_put(&failure);
  gpu__repeats_free(q->repeats);
  (void)cudaStreamDestroy(q->stream);
  ct_mem_free(q);
}

/* ---- waiting ---- */

/* Spins for the first microseconds, in which short steps complete; then yields, and later
 * sleeps. */
static void pause_for(double waited)
{
  struct timespec nap = {.tv_nsec = 50 * 1000};
  if (waited > 1e-2)
    nanosleep(&nap, NULL);
  else if (waited > 1e-4)
    sched_yield();
}

static int ask_watches(ct_dev_t *dev, int late)
{
  int rc = CT_OK;
  for (int i = 0; i < GPU_WATCHES; i++)
    if (dev->watch[i].fn) CT_TRY(dev->watch[i].fn(dev->watch[i].ctx, late));
out:
  return rc;
}

static int keep_waiting(ct_dev_t *dev, double begin)
{
  int rc = CT_OK;
  double waited = ct_clock() - begin;
  int late = dev->timeout_s > 0 && waited > dev->timeout_s;
  cudaGetLastError(); /* CUDA records "not ready" as if it were an error */
  if (waited > 1e-2) CT_TRY(ask_watches(dev, late));
  if (late)
    CT_FAIL(CT_ERR_DEVICE, "the GPU (%s, %s) has not finished its work in %.0f s", dev->id.name,
            dev->id.uuid, dev->timeout_s);
  pause_for(waited);
out:
  return rc;
}

/* Work failed, which ends the device's work on all streams: a communicator must tell its peers, who
 * wait for transfers. Keeps the recorded error. */
static int tell_watches(ct_dev_t *dev, int rc)
{
  ct_err_info_t failure = *ct_err_last();
  (void)ask_watches(dev, 0);
  ct_err_put(&failure);
  return rc;
}

/* Waits for the event; ev NULL: for all work on the stream. */
static int wait_for(ct_dev_t *dev, cudaStream_t s, cudaEvent_t ev)
{
  int rc = CT_OK;
  double begin = ct_clock();
  cudaError_t e;
  while ((e = ev ? cudaEventQuery(ev) : cudaStreamQuery(s)) == cudaErrorNotReady)
    CT_TRY(keep_waiting(dev, begin));
  rc = gpu__check(e, "work of the GPU", __FILE__, __LINE__);
  if (rc != CT_OK) return tell_watches(dev, rc);
  rc = gpu__check_labels(dev);
  if (rc == CT_OK) rc = gpu__check_indices(dev);
out:
  return rc;
}

int gpu__wait_stream(ct_dev_t *dev, cudaStream_t s)
{
  return wait_for(dev, s, NULL);
}

int gpu__wait_event(ct_dev_t *dev, cudaEvent_t ev)
{
  return wait_for(dev, NULL, ev);
}

/* ---- events ---- */

/* Marks a position. While a step is recorded, the event only stores its queue: the work before the
 * mark is not enqueued yet. */
static int mark(ct_queue_t *q, ct_event_t **io)
{
  int rc = CT_OK;
  ct_event_t *ev = *io;
  if (!ev) {
    ev = ct_mem_alloc(sizeof *ev, "CUDA event");
    if (!ev) return CT_ERR_NOMEM;
    rc = GPU_CHECK(cudaEventCreateWithFlags(&ev->event, cudaEventDisableTiming));
    if (rc != CT_OK) {
      ct_mem_free(ev);
      return rc;
    }
    *io = ev;
  }
  ev->queue = q;
  if (!q->noting) GPU_TRY(cudaEventRecord(ev->event, q->stream));
out:
  return rc;
}

static int after(ct_queue_t *q, ct_event_t *ev)
{
  if (q->noting || ev->queue->noting)
    return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a queue cannot wait within a repeated step");
  return GPU_CHECK(cudaStreamWaitEvent(q->stream, ev->event, 0));
}

static int wait_event(ct_event_t *ev)
{
  return gpu__wait_event(ev->queue->dev, ev->event);
}

static int event_done(ct_event_t *ev)
{
  cudaError_t e = cudaEventQuery(ev->event);
  if (e == cudaErrorNotReady) cudaGetLastError(); /* not an error */
  if (e == cudaErrorNotReady) return 0;
  return e == cudaSuccess ? 1 : gpu__check(e, "work of the GPU", __FILE__, __LINE__);
}

static int sync_queue(ct_queue_t *q)
{
  if (q->noting)
    return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__,
                      "the host cannot wait within a repeated step");
  return gpu__wait_stream(q->dev, q->stream);
}

static void unmark(ct_event_t *ev)
{
  if (!ev) return;
  (void)cudaEventDestroy(ev->event);
  ct_mem_free(ev);
}

const ct_queue_ops_t gpu__queue_ops = {.create = queue_create,
                                       .destroy = destroy,
                                       .mark = mark,
                                       .after = after,
                                       .wait = wait_event,
                                       .done = event_done,
                                       .sync = sync_queue,
                                       .unmark = unmark,
                                       .begin = gpu__begin,
                                       .end = gpu__end,
                                       .capture = gpu__capture,
                                       .start = gpu__start};
