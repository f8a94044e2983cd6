/* The fake CUDA runtime: captures and graphs. */
#include "tests/cuda/emu_rig.h"

enum { N = 64, SEEDS = 20 };

#define IS(call, code) CT_ASSERT_INT((call), (code))
#define WELL(call)     IS(call, cudaSuccess)

typedef struct rig {
  cudaStream_t main, side;
  cudaEvent_t fork, join;
  int *x, *y; /* pinned */
} rig_t;

static void open_rig(rig_t *r, const char *order)
{
  setenv("CTRAIN_FAKE_ORDER", order, 1);
  fake_cuda_reset();
  WELL(cudaStreamCreateWithFlags(&r->main, cudaStreamNonBlocking));
  WELL(cudaStreamCreateWithFlags(&r->side, cudaStreamNonBlocking));
  WELL(cudaEventCreateWithFlags(&r->fork, cudaEventDisableTiming));
  WELL(cudaEventCreateWithFlags(&r->join, cudaEventDisableTiming));
  WELL(cudaHostAlloc((void **)&r->x, N * sizeof *r->x, cudaHostAllocDefault));
  WELL(cudaHostAlloc((void **)&r->y, N * sizeof *r->y, cudaHostAllocDefault));
  memset(r->x, 0, N * sizeof *r->x);
  memset(r->y, 0, N * sizeof *r->y);
}

static void close_rig(rig_t *r)
{
  WELL(cudaStreamDestroy(r->main));
  WELL(cudaStreamDestroy(r->side));
  WELL(cudaEventDestroy(r->fork));
  WELL(cudaEventDestroy(r->join));
  WELL(cudaFreeHost(r->x));
  WELL(cudaFreeHost(r->y));
  CT_ASSERT_INT(fake_cuda_alive(), 0);
  unsetenv("CTRAIN_FAKE_ORDER");
  fake_cuda_reset();
}

CT_KERNEL void times_and_plus(int *x, int factor, const int *summand)
{
  GPU_LOOP (i, N)
    x[i] = x[i] * factor + summand[i];
}
CT_KERNEL void plus(int *x, int summand)
{
  GPU_LOOP (i, N)
    x[i] += summand;
}

static void begin_capture(const rig_t *r)
{
  WELL(cudaStreamBeginCapture(r->main, cudaStreamCaptureModeThreadLocal));
}

/* x += 1 on the main stream and y += 10 on the side; then x = 2 x + y.  The wait that joins them is
 * left out if asked. */
static void enqueue_diamond(const rig_t *r, bool joins)
{
  WELL(cudaEventRecord(r->fork, r->main));
  WELL(cudaStreamWaitEvent(r->side, r->fork, 0));
  CT_LAUNCH(plus, 1, 32, r->main, r->x, 1);
  CT_LAUNCH(plus, 1, 32, r->side, r->y, 10);
  WELL(cudaEventRecord(r->join, r->side));
  if (joins) WELL(cudaStreamWaitEvent(r->main, r->join, 0));
  CT_LAUNCH(times_and_plus, 1, 32, r->main, r->x, 2, r->y);
  WELL(cudaGetLastError());
}

static cudaGraphExec_t captured_diamond(const rig_t *r, size_t nodes)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  size_t n = 0;
  begin_capture(r);
  enqueue_diamond(r, true);
  WELL(cudaStreamEndCapture(r->main, &graph));
  WELL(cudaGraphGetNodes(graph, NULL, &n));
  CT_ASSERT_INT(n, nodes);
  WELL(cudaGraphInstantiate(&exec, graph, 0));
  WELL(cudaGraphDestroy(graph));
  return exec;
}

static void diamond(void)
{
  for (int seed = 0; seed <= SEEDS; seed++) {
    rig_t r;
    char order[32];
    snprintf(order, sizeof order, seed ? "random:%d" : "late", seed);
    open_rig(&r, order);
    cudaGraphExec_t exec = captured_diamond(&r, 3);
    CT_ASSERT_INT(r.x[0] + r.y[0], 0); /* nothing was done yet */
    WELL(cudaGraphLaunch(exec, r.main));
    WELL(cudaStreamSynchronize(r.main));
    CT_ASSERT_INT(r.x[0], 12);
    CT_ASSERT_INT(r.y[N - 1], 10);
    r.y[0] = 5; /* what is pointed at is read at each launch */
    WELL(cudaGraphLaunch(exec, r.main));
    WELL(cudaGraphLaunch(exec, r.main));
    WELL(cudaGraphExecDestroy(exec));
    WELL(cudaStreamSynchronize(r.main));
    CT_ASSERT_INT(r.x[0], ((12 + 1) * 2 + 15 + 1) * 2 + 25);
    close_rig(&r);
  }
}

/* The streams are free again, and go on as before. */
static void after_capture(void)
{
  rig_t r;
  enum cudaStreamCaptureStatus status;
  open_rig(&r, "late");
  cudaGraphExec_t exec = captured_diamond(&r, 3);
  WELL(cudaStreamIsCapturing(r.side, &status));
  CT_ASSERT_INT(status, cudaStreamCaptureStatusNone);
  IS(cudaEventSynchronize(r.join), cudaErrorCapturedEvent);
  WELL(cudaGetLastError() == cudaErrorCapturedEvent ? cudaSuccess : cudaErrorUnknown);
  enqueue_diamond(&r, true);
  WELL(cudaStreamSynchronize(r.main));
  CT_ASSERT_INT(r.x[0], 12);
  WELL(cudaGraphExecDestroy(exec));
  close_rig(&r);
}

/* Events that a graph records, again at each launch; the others are only dependencies. */
static void external_events(void)
{
  rig_t r;
  cudaEvent_t from, to;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  float first = -1, again = -1;
  open_rig(&r, "late");
  WELL(cudaEventCreate(&from));
  WELL(cudaEventCreate(&to));
  IS(cudaEventRecordWithFlags(from, r.main, cudaEventRecordExternal), cudaErrorInvalidValue);
  WELL(cudaGetLastError() == cudaErrorInvalidValue ? cudaSuccess : cudaErrorUnknown);
  begin_capture(&r);
  WELL(cudaEventRecordWithFlags(from, r.main, cudaEventRecordExternal));
  CT_LAUNCH(plus, 1, 32, r.main, r.x, 1);
  WELL(cudaEventRecordWithFlags(to, r.main, cudaEventRecordExternal));
  WELL(cudaStreamEndCapture(r.main, &graph));
  WELL(cudaGraphInstantiate(&exec, graph, 0));
  IS(cudaEventElapsedTime(&first, from, to), cudaErrorInvalidResourceHandle); /* not launched yet */
  WELL(cudaGetLastError() == cudaErrorInvalidResourceHandle ? cudaSuccess : cudaErrorUnknown);
  for (int i = 0; i < 2; i++) {
    WELL(cudaGraphLaunch(exec, r.main));
    WELL(cudaStreamSynchronize(r.main));
    WELL(cudaEventElapsedTime(i ? &again : &first, from, to));
  }
  CU_ASSERT(first >= 0 && first < 1e4 && again >= 0 && again < 1e4);
  CT_ASSERT_INT(r.x[0], 2);
  WELL(cudaGraphExecDestroy(exec));
  WELL(cudaGraphDestroy(graph));
  WELL(cudaEventDestroy(from));
  WELL(cudaEventDestroy(to));
  close_rig(&r);
}

/* ---- priorities ---- */

CT_KERNEL void append(int *x, int digit)
{
  if (threadIdx.x == 0) x[0] = x[0] * 10 + digit;
}

/* Two branches append to one number, 1 on the main stream and 2 on a stream of high priority. */
static int order_of_branches(unsigned long long flags)
{
  rig_t r;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  int least, greatest;
  open_rig(&r, "late");
  WELL(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  WELL(cudaStreamDestroy(r.side));
  WELL(cudaStreamCreateWithPriority(&r.side, cudaStreamNonBlocking, greatest));
  begin_capture(&r);
  WELL(cudaEventRecord(r.fork, r.main));
  WELL(cudaStreamWaitEvent(r.side, r.fork, 0));
  CT_LAUNCH(append, 1, 32, r.main, r.x, 1);
  CT_LAUNCH(append, 1, 32, r.side, r.x, 2);
  WELL(cudaEventRecord(r.join, r.side));
  WELL(cudaStreamWaitEvent(r.main, r.join, 0));
  WELL(cudaStreamEndCapture(r.main, &graph));
  WELL(cudaGraphInstantiate(&exec, graph, flags));
  WELL(cudaGraphLaunch(exec, r.main));
  WELL(cudaStreamSynchronize(r.main));
  int order = r.x[0];
  WELL(cudaGraphExecDestroy(exec));
  WELL(cudaGraphDestroy(graph));
  close_rig(&r);
  return order;
}

static void priorities(void)
{
  CT_ASSERT_INT(order_of_branches(0), 12); /* lost */
  CT_ASSERT_INT(order_of_branches(cudaGraphInstantiateFlagUseNodePriority), 21);
}

/* ---- memory and failures ---- */

/* A graph may be destroyed while it runs, but it must not be launched once its memory is freed. */
static void freed_memory(void)
{
  rig_t r;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  int *y;
  for (int i = 0; i < 3; i++) { /* in a kernel, a copy, and a fill with zeros */
    open_rig(&r, "late");
    WELL(cudaMalloc((void **)&y, N * sizeof *y));
    begin_capture(&r);
    if (i == 0) CT_LAUNCH(plus, 1, 32, r.main, y, 1);
    if (i == 1) WELL(cudaMemcpyAsync(r.x, y, sizeof *y, cudaMemcpyDeviceToHost, r.main));
    if (i == 2) WELL(cudaMemsetAsync(y, 0, sizeof *y, r.main));
    WELL(cudaStreamEndCapture(r.main, &graph));
    WELL(cudaGraphInstantiate(&exec, graph, 0));
    WELL(cudaGraphLaunch(exec, r.main));
    WELL(cudaStreamSynchronize(r.main));
    WELL(cudaFree(y));
    WELL(cudaGraphLaunch(exec, r.main));
    IS(cudaStreamSynchronize(r.main), cudaErrorIllegalAddress);
    fake_cuda_reset();
  }
}

/* After each of these failures the stream can be used as before. */
static void injected_failures(void)
{
  static const char *const fail[] = {"cudaStreamBeginCapture:1:900", "cudaStreamEndCapture:1:901",
                                     "cudaGraphInstantiate:1:2"};
  static const cudaError_t code[] = {cudaErrorStreamCaptureUnsupported,
                                     cudaErrorStreamCaptureInvalidated, cudaErrorMemoryAllocation};
  for (int i = 0; i < 3; i++) {
    rig_t r;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t exec = NULL;
    enum cudaStreamCaptureStatus status;
    setenv("CTRAIN_FAKE_CUDA_FAIL", fail[i], 1);
    open_rig(&r, "late");
    IS(cudaStreamBeginCapture(r.main, cudaStreamCaptureModeThreadLocal),
       i == 0 ? code[i] : cudaSuccess);
    (void)cudaGetLastError();
    enqueue_diamond(&r, true);
    if (i > 0) IS(cudaStreamEndCapture(r.main, &graph), i == 1 ? code[i] : cudaSuccess);
    if (i > 1) IS(cudaGraphInstantiate(&exec, graph, 0), code[i]);
    CU_ASSERT((graph != NULL) == (i == 2) && exec == NULL);
    if (graph) WELL(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
    WELL(cudaStreamIsCapturing(r.side, &status));
    CT_ASSERT_INT(status, cudaStreamCaptureStatusNone);
    if (i > 0) enqueue_diamond(&r, true);
    WELL(cudaStreamSynchronize(r.main));
    CT_ASSERT_INT(r.x[0], 12);
    unsetenv("CTRAIN_FAKE_CUDA_FAIL");
    close_rig(&r);
  }
}

/* ---- what is forbidden meanwhile ---- */

/* After a forbidden call: the capture is of no use, but the stream is, once it has ended. */
static void expect_invalid(const rig_t *r, cudaError_t code)
{
  cudaGraph_t graph;
  IS(cudaStreamEndCapture(r->main, &graph), code);
  CU_ASSERT(graph == NULL);
  (void)cudaGetLastError();
  CT_LAUNCH(plus, 1, 32, r->main, r->x, 1);
  WELL(cudaGetLastError());
  WELL(cudaStreamSynchronize(r->main));
}

static void forbidden_calls(void)
{
  rig_t r;
  void *p;
  int pageable[N];
  open_rig(&r, "random:1");
  for (int i = 0; i < 9; i++) {
    begin_capture(&r);
    const cudaError_t code[] = {i == 0   ? cudaStreamSynchronize(r.main)
                                : i == 1 ? cudaStreamSynchronize(r.side)
                                : i == 2 ? cudaStreamQuery(r.main)
                                : i == 3 ? cudaDeviceSynchronize()
                                : i == 4 ? cudaMalloc(&p, 1)
                                : i == 5 ? cudaFree(NULL)
                                : i == 6 ? cudaHostAlloc(&p, 1, 0)
                                : i == 7
                                    ? cudaMemcpy(r.x, r.y, 4, cudaMemcpyDefault)
                                    : cudaMemcpyAsync(r.x, pageable, 4, cudaMemcpyDefault, r.main)};
    CT_ASSERT_INT(code[0], cudaErrorStreamCaptureUnsupported);
    CT_LAUNCH(plus, 1, 32, r.main, r.x, 1);
    IS(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    expect_invalid(&r, cudaErrorStreamCaptureInvalidated);
  }
  CT_ASSERT_INT(r.x[0], 9);
  close_rig(&r);
}

static void wrong_dependencies(void)
{
  rig_t r;
  cudaGraph_t graph;
  open_rig(&r, "random:1");
  begin_capture(&r);
  enqueue_diamond(&r, false);
  expect_invalid(&r, cudaErrorStreamCaptureUnjoined);
  WELL(cudaEventRecord(r.fork, r.side)); /* work that is no part of the graph */
  begin_capture(&r);
  IS(cudaStreamWaitEvent(r.main, r.fork, 0), cudaErrorStreamCaptureIsolation);
  expect_invalid(&r, cudaErrorStreamCaptureInvalidated);
  begin_capture(&r);
  WELL(cudaEventRecord(r.fork, r.main));
  WELL(cudaStreamWaitEvent(r.side, r.fork, 0));
  IS(cudaStreamEndCapture(r.side, &graph), cudaErrorStreamCaptureUnmatched);
  expect_invalid(&r, cudaErrorStreamCaptureInvalidated);
  IS(cudaStreamEndCapture(r.main, &graph), cudaErrorIllegalState);
  IS(cudaStreamBeginCapture(0, cudaStreamCaptureModeThreadLocal),
     cudaErrorStreamCaptureUnsupported);
  close_rig(&r);
}

/* A fault within a graph is told by whoever waits for it. */
CT_KERNEL void divergent(int *x)
{
  if (threadIdx.x < 5) __syncthreads();
  x[threadIdx.x] = 0;
}

static void fault_in_graph(void)
{
  rig_t r;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  open_rig(&r, "late");
  begin_capture(&r);
  CT_LAUNCH(divergent, 1, 32, r.main, r.x);
  WELL(cudaStreamEndCapture(r.main, &graph));
  WELL(cudaGraphInstantiate(&exec, graph, 0));
  WELL(cudaGraphLaunch(exec, r.main));
  IS(cudaStreamSynchronize(r.main), cudaErrorLaunchFailure);
  fake_cuda_reset();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(diamond),         CT_TEST(after_capture),
                                    CT_TEST(external_events), CT_TEST(priorities),
                                    CT_TEST(freed_memory),    CT_TEST(injected_failures),
                                    CT_TEST(forbidden_calls), CT_TEST(wrong_dependencies),
                                    CT_TEST(fault_in_graph),  CT_TEST_END};
  return ct_test_main("fake CUDA graphs", tests, argc, argv);
}
