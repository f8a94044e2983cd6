/* NCCL errors.
 *
 * An NCCL kernel waits for its peers forever. So a rank that fails notifies the others over MPI
 * (ct_alarm.h), and ranks check for such a message while they wait (gpu__watch). A rank that fails
 * or is notified aborts its communicator, which ends the kernels; later calls return the same
 * error. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/ct_clock.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "cuda/nccl/comm_nccl.h"

/* Communicators to abort: the parent first, which also ends a split in progress. */
typedef struct ending {
  int device, n;
  ncclComm_t *child; /* owned; where NCCL returns the child of a split in progress, or NULL */
  ncclComm_t comm[];
} ending_t;

static void *abort_all(void *arg)
{
  ending_t *e = arg;
  (void)cudaSetDevice(e->device); /* a new thread would otherwise initialize device 0 */
  for (int i = 0; i < e->n; i++)
    (void)ncclCommAbort(e->comm[i]);
  if (e->child && *e->child) (void)ncclCommAbort(*e->child);
  ct_mem_free(e->child);
  ct_mem_free(e);
  return NULL;
}

static ending_t *take_all(ct_comm_t *c)
{
  int n = 1;
  for (ct_group_t *g = c->groups; g; g = g->next)
    n++;
  ending_t *e = ct_mem_alloc(sizeof *e + (size_t)n * sizeof *e->comm, "NCCL's communicators");
  if (!e) return NULL;
  e->device = c->dev->index;
  e->comm[e->n++] = c->nccl;
  for (ct_group_t *g = c->groups; g; g = g->next) {
    if (g->nccl) e->comm[e->n++] = g->nccl;
    g->nccl = NULL;
  }
  e->child = c->child;
  c->nccl = NULL;
  c->child = NULL;
  return e;
}

/* Aborts. NCCL frees nothing that a graph still uses, so graphs are dropped first. ncclCommAbort()
 * may take long, or forever if a peer is dead, so it runs in a thread, for which the caller waits
 * only a short time. */
void gpu__nccl_kill(ct_comm_t *c)
{
  enum { PATIENCE_S = 10 };
  pthread_t thread;
  struct timespec until;
  if (!c->nccl || c->dev->capturing) return; /* during a capture it is deferred */
  gpu__drop_graphs(c->dev);
  ending_t *e = take_all(c);
  if (!e || pthread_create(&thread, NULL, abort_all, e) != 0) return;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE_S;
  if (pthread_timedjoin_np(thread, NULL, &until) == 0) return;
  (void)pthread_detach(thread);
  c->stuck = 1;
  ct_log_all(CT_LOG_DEBUG, "the NCCL call did not complete within %d s", PATIENCE_S);
}

int gpu__nccl_alive(ct_comm_t *c)
{
  if (c->failure.code == CT_OK) return CT_OK;
  gpu__nccl_kill(c);
  ct_err_put(&c->failure);
  return c->failure.code;
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

int gpu__nccl_enqueued(ct_comm_t *c, int rc)
{
  return rc == CT_OK || c->dev->capturing ? rc : gpu__nccl_give_up(c, rc);
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

/* Checks whether another rank has failed. */
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

int gpu__nccl_is_fine(ncclResult_t r)
{
  return r == ncclSuccess || r == ncclInProgress;
}

ncclResult_t gpu__nccl_end_group(ncclResult_t r)
{
  ncclResult_t ended = ncclGroupEnd();
  return gpu__nccl_is_fine(r) ? ended : r;
}

static int check_one(ct_comm_t *c, ncclComm_t comm)
{
  ncclResult_t r = ncclSuccess;
  if (!comm) return CT_OK;
  ncclResult_t asked = ncclCommGetAsyncError(comm, &r);
  if (asked != ncclSuccess) r = asked;
  return gpu__nccl_is_fine(r) ? CT_OK : fail_with(c, comm, r);
}

/* Returns CT_OK, or the error of the device's work. *busy: 1: the stream has work left. */
static int query(cudaStream_t s, int *busy)
{
  cudaError_t e = cudaStreamQuery(s);
  (void)cudaGetLastError(); /* CUDA records "not ready" as if it were an error */
  *busy = e == cudaErrorNotReady;
  return *busy ? CT_OK : gpu__check(e, "work of the GPU", __FILE__, __LINE__);
}

int gpu__nccl_watch(void *comm, int late)
{
  int rc = CT_OK, busy = 0;
  ct_comm_t *c = comm;
  CT_TRY(gpu__nccl_alive(c));
  rc = query(c->stream, &busy);
  if (rc != CT_OK) return gpu__nccl_give_up(c, rc);
  CT_TRY(check_one(c, c->nccl));
  for (ct_group_t *g = c->groups; g; g = g->next)
    CT_TRY(check_one(c, g->nccl));
  CT_TRY(listen(c));
  if (late && c->t->size > 1 && c->call && (c->repeated || busy)) rc = fail_late(c);
out:
  return rc;
}
