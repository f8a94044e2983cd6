/* NCCL on the GPUs that are here, alone: a communicator, sums of gradients and of a SyncBN's
 * statistics, one by one and as a captured step.  Other than tests/cuda/t_nccl.c it expects nothing
 * of a fake: device memory is only reached by copies.
 *
 * With more ranks than GPUs, NCCL refuses two ranks on one GPU of one host.  CT_GPU_HOSTS=1 gives
 * each rank a host name of its own (NCCL_HOSTID), which passes that check but is not supported. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/ct_backend.h"
#include "base/ct_err.h"
#include "comm/ct_comm.h"
#include "comm/ct_module.h"
#include "tests/harness/ct_test_mpi.h"

enum { N = 1 << 20, STATS = 129 };

static const ct_topo_t *t = &ct_test_topo;
static const ct_backend_t *be;
static const ct_comm_ops_t *ops;
static ct_dev_t *dev;
static ct_queue_t *queue;
static ct_comm_t *comm;
static ct_group_t *group;
static float *gradient, *host; /* of the device; staging memory */
static double *stats, *host_stats;

static int take(ct_mem_kind_t kind, size_t bytes, void *out)
{
  void *p = NULL;
  int rc = be->mem->alloc(dev, kind, bytes, &p);
  memcpy(out, &p, sizeof p);
  return rc;
}

static int open_module(void)
{
  int rc = CT_OK;
  char why[128], pid[32];
  const ct_module_t *module;
  CT_TRY(ct_module_load("cuda", &module));
  be = module->backend;
  ops = module->comm;
  if (!ops) CT_FAIL(CT_ERR_UNSUP, "the module has no NCCL");
  int gpus = be->probe(why);
  if (gpus == 0) CT_FAIL(CT_ERR_DEVICE, "%s", why);
  snprintf(pid, sizeof pid, "%d", (int)getpid());
  if (getenv("CT_GPU_HOSTS")) setenv("NCCL_HOSTID", pid, 1);
  ct_dev_opts_t o = {.index = t->local_rank % gpus, .timeout_s = 20};
  CT_TRY(be->open(&o, &dev));
  CT_TRY(be->queue->create(dev, &queue));
  CT_TRY(take(CT_MEM_STAGING, N * sizeof *host, &host));
  CT_TRY(take(CT_MEM_STAGING, STATS * sizeof *stats, &host_stats));
  CT_TRY(take(CT_MEM_DEVICE, STATS * sizeof *stats, &stats));
out:
  return rc;
}

/* Small whole numbers, whose sums are exact in any order. */
static float element(int rank, int64_t i, int round)
{
  return (float)((rank + 1) * ((i * 7 + round * 13) % 1009));
}

static void communicator_opens(void)
{
  void *p = NULL;
  CT_ASSERT_OK(open_module());
  CU_ASSERT_PTR_NOT_NULL_FATAL(dev);
  printf("# %s\n", be->describe(dev));
  CT_ASSERT_OK(ops->open(t, be, dev, &(ct_comm_opts_t){0}, &comm));
  CU_ASSERT_PTR_NOT_NULL_FATAL(comm);
  CT_ASSERT_OK(ops->alloc(comm, N * sizeof *gradient, &p));
  gradient = p;
  CT_ASSERT_OK(ops->group(comm, 0, &group));
}

/* Two buckets, and a group's sum between them. */
static int step(void)
{
  int rc = CT_OK, ticket[2], half = N / 2;
  ct_event_t *ev = NULL;
  CT_TRY(be->mem->copy(queue, gradient, host, N * sizeof *host));
  CT_TRY(be->mem->copy(queue, stats, host_stats, STATS * sizeof *stats));
  CT_TRY(be->queue->mark(queue, &ev));
  CT_TRY(ops->reduce(comm, ev, gradient + half, half, CT_REDUCE_ALL, &ticket[0]));
  CT_TRY(ops->group_sum(group, queue, stats, STATS));
  CT_TRY(be->queue->mark(queue, &ev));
  CT_TRY(ops->reduce(comm, ev, gradient, half, CT_REDUCE_ALL, &ticket[1]));
  CT_TRY(ops->end(comm, ticket[0], queue));
  CT_TRY(ops->end(comm, ticket[1], queue));
  CT_TRY(be->mem->copy(queue, host, gradient, N * sizeof *host));
  CT_TRY(be->mem->copy(queue, host_stats, stats, STATS * sizeof *stats));
out:
  be->queue->unmark(ev);
  return rc;
}

static void check_step(int round, int captured)
{
  int wrong = 0, same = 1, ranks = t->size * (t->size + 1) / 2;
  for (int i = 0; i < N; i++)
    host[i] = element(t->rank, i, round);
  for (int i = 0; i < STATS; i++)
    host_stats[i] = round + i;
  if (captured) CT_ASSERT_OK(be->queue->begin(queue, 0));
  CT_ASSERT_OK(step());
  if (captured) CT_ASSERT_OK(be->queue->end(queue, &same));
  if (!same) CT_ASSERT_OK(be->queue->capture(queue));
  if (captured) CT_ASSERT_OK(be->queue->start(queue, 1));
  CT_ASSERT_OK(be->queue->sync(queue));
  for (int i = 0; i < N; i++)
    wrong += host[i] != (float)ranks * element(0, i, round);
  for (int i = 0; i < STATS; i++)
    wrong += host_stats[i] != (double)t->size * (round + i);
  CT_ASSERT_INT(wrong, 0);
}

static void sums_are_exact(void)
{
  CU_ASSERT_PTR_NOT_NULL_FATAL(comm);
  for (int round = 0; round < 3; round++)
    check_step(round, 0);
}

static void a_captured_step_has_them_too(void)
{
  CU_ASSERT_PTR_NOT_NULL_FATAL(comm);
  for (int round = 0; round < 4; round++)
    check_step(round, 1);
}

static void communicator_closes(void)
{
  CU_ASSERT_PTR_NOT_NULL_FATAL(comm);
  ops->close(comm);
  be->mem->free(dev, CT_MEM_DEVICE, stats);
  be->mem->free(dev, CT_MEM_STAGING, host_stats);
  be->mem->free(dev, CT_MEM_STAGING, host);
  be->queue->destroy(queue);
  be->close(dev);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(communicator_opens), CT_TEST(sums_are_exact),
                                    CT_TEST(a_captured_step_has_them_too),
                                    CT_TEST(communicator_closes), CT_TEST_END};
  return ct_test_mpi_main("NCCL", tests, argc, argv);
}
