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

int gpu__nccl_wait_open(ct_comm_t *c, int of_group)
{
  if (c->waits == GPU_WAITS) return -1;
  if (open_wait(&c->wait[c->waits]) != CT_OK) return -1; /* this wait is not measured */
  c->wait[c->waits].of_group = of_group;
  return c->waits++;
}

static int record(ct_comm_t *c, cudaEvent_t e, cudaStream_t s)
{
  return GPU_CHECK(cudaEventRecordWithFlags(
      e, s, c->dev->capturing ? cudaEventRecordExternal : cudaEventRecordDefault));
}

int gpu__nccl_wait(ct_comm_t *c, int wait, cudaStream_t s, cudaEvent_t done)
{
  int rc = CT_OK;
  if (wait >= 0) CT_TRY(record(c, c->wait[wait].from, s));
  GPU_TRY(cudaStreamWaitEvent(s, done, 0));
  if (wait >= 0) CT_TRY(record(c, c->wait[wait].to, s));
out:
  return rc;
}

void gpu__nccl_waited(ct_comm_t *c, double *transfers, double *groups)
{
  *transfers = *groups = 0;
  for (int i = 0; i < c->waits; i++) {
    float ms = 0;
    if (cudaEventElapsedTime(&ms, c->wait[i].from, c->wait[i].to) != cudaSuccess) {
      (void)cudaGetLastError(); /* event of a step that failed before it was recorded */
      continue;
    }
    *(c->wait[i].of_group ? groups : transfers) += 1e-3 * (double)ms;
  }
  c->waits = 0;
}

void gpu__nccl_waits_free(ct_comm_t *c)
{
  for (int i = 0; i < GPU_WAITS; i++) {
    if (c->wait[i].from) (void)cudaEventDestroy(c->wait[i].from);
    if (c->wait[i].to) (void)cudaEventDestroy(c->wait[i].to);
  }
}
