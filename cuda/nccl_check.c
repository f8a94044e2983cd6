/* NCCL's errors.
 *
 * A kernel of NCCL waits for its peers without end, so who fails tells them by MPI (ct_alarm.h), and who
 * waits listens while it does (gpu__watch).  Whoever fails or hears it aborts its part of the
 * communicator, which ends the kernels; every later call returns the same error. */
#include <sched.h>
#include <stdio.h>

#include "base/ct_clock.h"
#include "cuda/comm_nccl.h"

int gpu__nccl_alive(ct_comm_t *c)
{
  if (c->failure.code != CT_OK) ct_err_put(&c->failure);
  return c->failure.code;
}

static void abort_one(ncclComm_t *comm)
{
  if (*comm) (void)ncclCommAbort(*comm);
  *comm = NULL;
}

void gpu__nccl_kill(ct_comm_t *c)
{
  for (ct_group_t *g = c->groups; g; g = g->next)
    abort_one(&g->nccl);
  abort_one(&c->nccl);
}

int gpu__nccl_give_up(ct_comm_t *c, int rc)
{
  if (c->failure.code == CT_OK) {
    c->failure = *ct_err_last();
    ct_alarm_raise(c->alarm);
    gpu__nccl_kill(c);
  }
  return rc;
}

static int fail(ct_comm_t *c, const char *reason)
{
  char bytes[32] = "";
  if (c->call_bytes) snprintf(bytes, sizeof bytes, " of %.3f MB", (double)c->call_bytes / 1e6);
  ct_err_set(CT_ERR_COMM, __FILE__, __LINE__, "NCCL failed on rank %d (%s) in %s%s: %s", c->t->rank,
             c->t->host, c->call, bytes, reason);
  return gpu__nccl_give_up(c, CT_ERR_COMM);
}

static int fail_with(ct_comm_t *c, ncclComm_t comm, ncclResult_t r)
{
  char reason[300];
  const char *detail = ncclGetLastError(comm);
  snprintf(reason, sizeof reason, "%s%s%s", ncclGetErrorString(r), detail && *detail ? ": " : "",
           detail ? detail : "");
  for (char *p = reason; *p; p++)
    if (*p == '\n') *p = ' ';
  return fail(c, reason);
}

static int fail_late(ct_comm_t *c)
{
  char reason[96];
  snprintf(reason, sizeof reason, "it has not finished in %.0f s; a peer may have died or be stuck",
           c->dev->timeout_s);
  return fail(c, reason);
}

/* Another rank has failed. */
static int listen(ct_comm_t *c)
{
  int rc = ct_alarm_heard(c->alarm);
  if (rc != CT_OK) {
    c->failure = *ct_err_last();
    gpu__nccl_kill(c);
  }
  return rc;
}

int gpu__nccl_done(ct_comm_t *c, ncclComm_t comm, ncclResult_t r, const char *call, int64_t bytes)
{
  int rc = CT_OK;
  double begin = ct_clock();
  c->call = call;
  c->call_bytes = bytes;
  while (r == ncclInProgress) {
    ncclResult_t asked = ncclCommGetAsyncError(comm, &r);
    if (asked != ncclSuccess) r = asked;
    if (r != ncclInProgress) break;
    CT_TRY(listen(c));
    if (c->dev->timeout_s > 0 && ct_clock() - begin > c->dev->timeout_s) return fail_late(c);
    sched_yield();
  }
  if (r != ncclSuccess) rc = fail_with(c, comm, r);
out:
  return rc;
}

static int check_one(ct_comm_t *c, ncclComm_t comm)
{
  ncclResult_t r = ncclSuccess;
  if (!comm) return CT_OK;
  ncclResult_t asked = ncclCommGetAsyncError(comm, &r);
  if (asked != ncclSuccess) r = asked;
  return r == ncclSuccess || r == ncclInProgress ? CT_OK : fail_with(c, comm, r);
}

static int is_busy(cudaStream_t s)
{
  int busy = cudaStreamQuery(s) == cudaErrorNotReady;
  (void)cudaGetLastError(); /* "not ready" is remembered as if it were an error */
  return busy;
}

int gpu__nccl_watch(void *comm, int late)
{
  int rc = CT_OK;
  ct_comm_t *c = comm;
  CT_TRY(gpu__nccl_alive(c));
  CT_TRY(check_one(c, c->nccl));
  for (ct_group_t *g = c->groups; g; g = g->next)
    CT_TRY(check_one(c, g->nccl));
  CT_TRY(listen(c));
  if (late && c->t->size > 1 && c->call && (c->repeated || is_busy(c->stream))) rc = fail_late(c);
out:
  return rc;
}
