/* The fake NCCL is as strict as the manual (emu/STRICT.md): each broken rule is reported. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_nccl.h"
#include "tests/harness/ct_test.h"

enum { N = 64 };

static ncclComm_t comm;
static cudaStream_t stream;
static float *from, *to;

static ncclResult_t state(ncclComm_t c)
{
  ncclResult_t r = ncclInternalError;
  CT_ASSERT_INT(ncclCommGetAsyncError(c, &r), ncclSuccess);
  return r;
}

/* Polls to the end. Returns how often the communicator was in progress. */
static int polls(ncclComm_t c)
{
  int n = 0;
  while (state(c) == ncclInProgress)
    n++;
  return n;
}

static void open_rank(const ncclUniqueId *id, int ranks, int rank)
{
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  CT_ASSERT_INT(ncclCommInitRankConfig(&comm, ranks, *id, rank, &config), ncclInProgress);
  CT_ASSERT_INT(cudaStreamCreate(&stream), cudaSuccess);
  CT_ASSERT_INT(ncclMemAlloc((void **)&from, 2 * N * sizeof *from), ncclSuccess);
  to = from + N;
  for (int i = 0; i < N; i++) {
    from[i] = (float)i;
    to[i] = -1;
  }
}

static void open_comm(void)
{
  ncclUniqueId id;
  setenv("CTRAIN_FAKE_ORDER", "late", 1);
  fake_cuda_reset();
  setenv("CTRAIN_FAKE_NCCL_PROGRESS", "always", 1);
  CT_ASSERT_INT(ncclGetUniqueId(&id), ncclSuccess);
  open_rank(&id, 1, 0);
}

/* The caller may have finalized it. */
static void close_comm(void)
{
  if (!comm->finalized) {
    CT_ASSERT_INT(ncclCommFinalize(comm), ncclInProgress);
    CU_ASSERT(polls(comm) > 0);
  }
  CT_ASSERT_INT(ncclCommDestroy(comm), ncclSuccess);
  CT_ASSERT_INT(ncclMemFree(from), ncclSuccess);
  CT_ASSERT_INT(cudaStreamDestroy(stream), cudaSuccess);
  CT_ASSERT_INT(fake_nccl_misuses(), 0);
}

static ncclResult_t sum(void)
{
  return ncclAllReduce(from, to, N, ncclFloat32, ncclSum, comm, stream);
}

static void expect_misuse(ncclResult_t r, const char *words)
{
  CU_ASSERT(r != ncclSuccess && r != ncclInProgress);
  CT_ASSERT_HAS(ncclGetLastError(NULL), words);
  CT_ASSERT_INT(fake_nccl_misuses(), 1);
}

static void a_call_in_progress_excludes_others(void)
{
  int size = 0;
  ncclComm_t child;
  open_comm();
  expect_misuse(ncclCommCount(comm, &size), "the previous call on it");
  expect_misuse(sum(), "the previous call on it");
  expect_misuse(ncclCommSplit(comm, 0, 0, &child, NULL), "the previous call on it");
  expect_misuse(ncclCommFinalize(comm), "the previous call on it");
  CU_ASSERT(polls(comm) > 0);
  CT_ASSERT_INT(ncclCommCount(comm, &size), ncclSuccess);
  CT_ASSERT_INT(size, 1);
  close_comm();
}

static void a_child_comes_late(void)
{
  int size;
  ncclComm_t child = (ncclComm_t)(void *)&size;
  open_comm();
  polls(comm);
  CT_ASSERT_INT(ncclCommSplit(comm, 0, 0, &child, NULL), ncclSuccess); /* it has begun */
  for (int n = 0; state(comm) == ncclInProgress; n++)
    CU_ASSERT_PTR_NULL(child);
  CU_ASSERT_PTR_NOT_NULL_FATAL(child);
  expect_misuse(ncclCommCount(child, &size), "the previous call on it");
  expect_misuse(sum(), "a communicator of its family");
  CU_ASSERT(polls(child) > 0);
  CT_ASSERT_INT(ncclCommCount(child, &size), ncclSuccess);
  CT_ASSERT_INT(ncclCommFinalize(child), ncclInProgress);
  polls(child);
  CT_ASSERT_INT(ncclCommDestroy(child), ncclSuccess);
  close_comm();
}

static void an_aborted_split_returns_a_child(void)
{
  ncclComm_t child;
  open_comm();
  polls(comm);
  CT_ASSERT_INT(ncclCommSplit(comm, 0, 0, &child, NULL), ncclSuccess); /* it has begun */
  CU_ASSERT_PTR_NULL(child);
  CT_ASSERT_INT(ncclCommAbort(comm), ncclSuccess);
  CU_ASSERT_PTR_NOT_NULL_FATAL(child);
  CT_ASSERT_INT(ncclCommAbort(child), ncclSuccess);
  CT_ASSERT_INT(ncclMemFree(from), ncclSuccess);
  CT_ASSERT_INT(fake_nccl_misuses(), 0);
}

static void an_operation_is_enqueued_late(void)
{
  open_comm();
  polls(comm);
  CT_ASSERT_INT(sum(), ncclInProgress);
  CT_ASSERT_INT(cudaStreamSynchronize(stream), cudaSuccess);
  CT_ASSERT_NEAR(to[N - 1], -1, 0);
  CU_ASSERT(polls(comm) > 0);
  CT_ASSERT_INT(cudaStreamSynchronize(stream), cudaSuccess);
  CT_ASSERT_NEAR(to[N - 1], N - 1, 0);

  CT_ASSERT_INT(sum(), ncclInProgress);
  CT_ASSERT_INT(cudaMemsetAsync(from, 0, sizeof *from, stream), cudaSuccess);
  polls(comm);
  CT_ASSERT_HAS(ncclGetLastError(NULL), "work was put into a stream");
  CT_ASSERT_INT(fake_nccl_misuses(), 1);
  CT_ASSERT_INT(cudaStreamSynchronize(stream), cudaSuccess);
  close_comm();
}

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

static void a_group_starts_as_a_whole(void)
{
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t other;
  void *handle;
  open_comm();
  polls(comm);
  expect_misuse(ncclGroupEnd(), "no group is open");
  CT_ASSERT_INT(ncclGroupStart(), ncclSuccess);
  CT_ASSERT_INT(sum(), ncclInProgress);
  CT_ASSERT_INT(ncclAllGather(to, from, N, ncclFloat32, comm, stream), ncclInProgress);
  CT_ASSERT_INT(state(comm), ncclSuccess); /* nothing has begun */
  CT_ASSERT_INT(cudaStreamSynchronize(stream), cudaSuccess);
  CT_ASSERT_NEAR(to[N - 1], -1, 0);
  CT_ASSERT_INT(ncclGetUniqueId(&id), ncclSuccess);
  config.blocking = 0;
  expect_misuse(ncclCommInitRankConfig(&other, 1, id, 0, &config), "within a group");
  expect_misuse(ncclCommSplit(comm, 0, 0, &other, NULL), "within a group");
  expect_misuse(ncclCommRegister(comm, from, N, &handle), "within a group");
  CT_ASSERT_INT(ncclGroupEnd(), ncclInProgress);
  CU_ASSERT(polls(comm) > 0);
  CT_ASSERT_INT(cudaStreamSynchronize(stream), cudaSuccess);
  CT_ASSERT_NEAR(to[N - 1], N - 1, 0);
  close_comm();
}

static void nothing_follows_finalize(void)
{
  int size;
  open_comm();
  polls(comm);
  CT_ASSERT_INT(ncclCommDestroy(comm), ncclSuccess); /* possible, but waits for others */
  CT_ASSERT_HAS(ncclGetLastError(NULL), "before ncclCommFinalize");
  CT_ASSERT_INT(fake_nccl_misuses(), 1);
  CT_ASSERT_INT(ncclMemFree(from), ncclSuccess);
  open_comm();
  polls(comm);
  CT_ASSERT_INT(ncclCommFinalize(comm), ncclInProgress);
  expect_misuse(ncclCommCount(comm, &size), "after ncclCommFinalize");
  expect_misuse(ncclCommFinalize(comm), "after ncclCommFinalize");
  expect_misuse(ncclCommDestroy(comm), "the previous call on it");
  polls(comm);
  ncclComm_t old = comm;
  close_comm();
  expect_misuse(ncclCommCount(old, &size), "destroyed or aborted");
  expect_misuse(ncclCommAbort(old), "destroyed or aborted");
  expect_misuse(ncclCommCount(NULL, &size), "NULL");
}

static void finalize_waits_for_graphs(void)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  open_comm();
  polls(comm);
  CT_ASSERT_INT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  CT_ASSERT_INT(sum(), ncclInProgress);
  polls(comm);
  CT_ASSERT_INT(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  CT_ASSERT_INT(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  CT_ASSERT_INT(cudaGraphDestroy(graph), cudaSuccess);
  CT_ASSERT_INT(cudaGraphLaunch(exec, stream), cudaSuccess);
  CT_ASSERT_INT(cudaStreamSynchronize(stream), cudaSuccess);
  CT_ASSERT_NEAR(to[N - 1], N - 1, 0);
  CT_ASSERT_INT(ncclCommFinalize(comm), ncclInProgress);
  for (int i = 0; i < 100; i++)
    CT_ASSERT_INT(state(comm), ncclInProgress);
  CT_ASSERT_INT(cudaGraphExecDestroy(exec), cudaSuccess);
  polls(comm);
  close_comm();
}

static void only_own_memory_is_registered(void)
{
  void *handle, *foreign;
  open_comm();
  polls(comm);
  CT_ASSERT_INT(cudaMalloc(&foreign, 100), cudaSuccess);
  expect_misuse(ncclCommRegister(comm, foreign, 100, &handle), "not memory of ncclMemAlloc");
  expect_misuse(ncclMemFree(foreign), "not memory of ncclMemAlloc");
  CT_ASSERT_INT(cudaFree(foreign), cudaSuccess);
  handle = &foreign;
  CT_ASSERT_INT(ncclCommRegister(comm, from, 2 * N * sizeof *from, &handle), ncclInProgress);
  for (int n = 0; state(comm) == ncclInProgress; n++)
    CU_ASSERT_PTR_NULL(handle);
  CU_ASSERT_PTR_NOT_NULL(handle);
  CT_ASSERT_INT(sum(), ncclInProgress);
  polls(comm);
  CT_ASSERT_INT(ncclCommDeregister(comm, handle), ncclInProgress);
  CT_ASSERT_HAS(ncclGetLastError(NULL), "may still access");
  CT_ASSERT_INT(fake_nccl_misuses(), 1);
  polls(comm);
  CT_ASSERT_INT(cudaStreamSynchronize(stream), cudaSuccess);
  expect_misuse(ncclCommDeregister(comm, handle), "no handle");
  close_comm();
}

static void an_abort_excludes_other_threads(void)
{
  open_comm();
  atomic_store(&comm->inside, 1);                  /* as if another thread were in a call */
  CT_ASSERT_INT(ncclCommAbort(comm), ncclSuccess); /* while it is in progress, too */
  CT_ASSERT_HAS(ncclGetLastError(NULL), "another thread");
  CT_ASSERT_INT(fake_nccl_misuses(), 1);
  CT_ASSERT_INT(ncclMemFree(from), ncclSuccess);
}

static void progress_is_drawn(void)
{
  int in_progress = 0;
  open_comm();
  polls(comm);
  setenv("CTRAIN_FAKE_NCCL_PROGRESS", "7", 1);
  for (int i = 0; i < 100; i++) {
    in_progress += sum() == ncclInProgress;
    polls(comm);
  }
  CU_ASSERT(in_progress > 20 && in_progress < 80);
  setenv("CTRAIN_FAKE_NCCL_PROGRESS", "always", 1);
  CT_ASSERT_INT(cudaStreamSynchronize(stream), cudaSuccess);
  close_comm();
}

/* ---- in other processes ---- */

static void leaked_communicators_are_told(void)
{
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    open_comm();
    exit(0);
  }
  CT_ASSERT_INT(waitpid(child, &status, 0), child);
  CT_ASSERT_INT(WEXITSTATUS(status), 86);
}

/* What a rank does in a collective that the other rank calls with 64 floats. */
typedef void rank_fn(void);

static void calls_less(void)
{
  (void)ncclAllReduce(from, to, N / 2, ncclFloat32, ncclSum, comm, stream);
}
static void calls_another_type(void)
{
  (void)ncclAllReduce(from, to, N, ncclInt8, ncclSum, comm, stream);
}
static void calls_another(void)
{
  (void)ncclBroadcast(from, to, N, ncclFloat32, 0, comm, stream);
}
static void registers(void)
{
  void *handle;
  (void)ncclCommRegister(comm, from, 2 * N * sizeof *from, &handle);
  polls(comm);
  (void)sum();
}
static void captures(void)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  (void)cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  (void)sum();
  polls(comm);
  (void)cudaStreamEndCapture(stream, &graph);
  (void)cudaGraphInstantiate(&exec, graph, 0);
  (void)cudaGraphLaunch(exec, stream);
}
static void calls_the_same(void)
{
  (void)sum();
}

/* Returns the state of the communicator of two ranks after a collective. */
static ncclResult_t state_of_rank(const ncclUniqueId *id, int rank, rank_fn *act)
{
  setenv("NCCL_HOSTID", rank ? "other" : "one", 1);
  open_rank(id, 2, rank);
  polls(comm);
  act();
  polls(comm);
  for (int i = 0; i < 10000 && comm->rounds < 1 && state(comm) == ncclSuccess; i++)
    usleep(1000);
  return state(comm);
}

static void ranks_must_agree(void)
{
  static const struct {
    rank_fn *act;
    const char *says;
  } cases[] = {{calls_the_same, NULL},
               {calls_less, "different counts"},
               {calls_another_type, "different types"},
               {calls_another, "different collectives"},
               {registers, "registered and not"},
               {captures, "captured and not"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ncclUniqueId id;
    int status = 0;
    CT_ASSERT_INT(ncclGetUniqueId(&id), ncclSuccess);
    for (int rank = 0; rank < 2; rank++) /* this process must not have threads */
      if (fork() == 0) {
        ncclResult_t r = state_of_rank(&id, rank, rank ? cases[i].act : calls_the_same);
        ncclResult_t expected = cases[i].says ? ncclInvalidUsage : ncclSuccess;
        int told = !cases[i].says || strstr(ncclGetLastError(comm), cases[i].says) != NULL;
        _exit(r == expected && told ? 0 : 1);
      }
    for (int rank = 0; rank < 2; rank++) {
      wait(&status);
      if (status) printf("# %s\n", cases[i].says ? cases[i].says : "the same");
      CT_ASSERT_INT(status, 0);
    }
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_call_in_progress_excludes_others),
                                    CT_TEST(a_child_comes_late),
                                    CT_TEST(an_aborted_split_returns_a_child),
                                    CT_TEST(an_operation_is_enqueued_late),
                                    CT_TEST(a_group_starts_as_a_whole),
                                    CT_TEST(nothing_follows_finalize),
                                    CT_TEST(finalize_waits_for_graphs),
                                    CT_TEST(only_own_memory_is_registered),
                                    CT_TEST(an_abort_excludes_other_threads),
                                    CT_TEST(progress_is_drawn),
                                    CT_TEST(leaked_communicators_are_told),
                                    CT_TEST(ranks_must_agree),
                                    CT_TEST_END};
  return ct_test_main("fake_nccl", tests, argc, argv);
}
