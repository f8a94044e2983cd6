/* Measures how long a queue's work waits for transfers, with timed events around each wait. The
 * host cannot measure this, since it enqueues a step, or launches it as a graph, all at once. */
#include "cuda/nccl/comm_nccl.h"

static int open_wait(gpu__wait_t *w)
{
  int rc = CT_OK;
  if (!w->from) GPU_TRY(cudaEventCreate(&w->from));
  if (!w->to) GPU_TRY(cudaEventCreate(&w->to));
out:
  return rc;
}

static gpu__wait_t *wait_at(ct_comm_t *c, int wait)
{
  return &c->wait[wait / GPU_WAITS][wait % GPU_WAITS];
}

int gpu__nccl_wait_open(ct_comm_t *c, int of_group)
{
  int of = c->measured, i = of * GPU_WAITS + c->waits[of];
  if (c->waits[of] == GPU_WAITS) return -1;
  if (open_wait(wait_at(c, i)) != CT_OK) return -1; /* this wait is not measured */
  wait_at(c, i)->of_group = of_group;
  c->waits[of]++;
  return i;
}

static int record(ct_comm_t *c, cudaEvent_t e, cudaStream_t s)
{
  return GPU_CHECK(cudaEventRecordWithFlags(
      e, s, c->dev->capturing ? cudaEventRecordExternal : cudaEventRecordDefault));
}

int gpu__nccl_wait(ct_comm_t *c, int wait, cudaStream_t s, cudaEvent_t done)
{
  int rc = CT_OK;
  if (wait >= 0) CT_TRY(record(c, wait_at(c, wait)->from, s));
  GPU_TRY(cudaStreamWaitEvent(s, done, 0));
  if (wait >= 0) CT_TRY(record(c, wait_at(c, wait)->to, s));
out:
  return rc;
}

void gpu__nccl_measure(ct_comm_t *c, int of)
{
  c->measured = of;
  c->waits[of] = 0;
}

void gpu__nccl_waited(ct_comm_t *c, int of, double *transfers, double *groups)
{
  *transfers = *groups = 0;
  for (int i = 0; i < c->waits[of]; i++) {
    float ms = 0;
    const gpu__wait_t *w = &c->wait[of][i];
    if (cudaEventElapsedTime(&ms, w->from, w->to) != cudaSuccess) {
      (void)cudaGetLastError(); /* event of a step that failed before it was recorded */
      continue;
    }
    *(w->of_group ? groups : transfers) += 1e-3 * (double)ms;
  }
  c->waits[of] = 0;
}

void gpu__nccl_waits_free(ct_comm_t *c)
{
  for (int i = 0; i < 2 * GPU_WAITS; i++) {
    if (wait_at(c, i)->from) (void)cudaEventDestroy(wait_at(c, i)->from);
    if (wait_at(c, i)->to) (void)cudaEventDestroy(wait_at(c, i)->to);
  }
}
