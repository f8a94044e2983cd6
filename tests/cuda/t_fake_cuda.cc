/* The fake CUDA runtime: streams, events, memory and errors behave as CUDA's do, and mistakes
 * show. */
#include "tests/cuda/emu_rig.h"

enum { N = 64, SEEDS = 20 };

static void open_fake(const char *order)
{
  setenv("CTRAIN_FAKE_ORDER", order, 1);
  fake_cuda_reset();
}

static void close_fake(void)
{
  unsetenv("CTRAIN_FAKE_ORDER");
  unsetenv("CTRAIN_FAKE_HAZARDS");
  unsetenv("CTRAIN_FAKE_CUDA_FAIL");
  unsetenv("CTRAIN_FAKE_GPU_MEMORY");
  unsetenv("CTRAIN_FAKE_GPUS");
  unsetenv("CUDA_VISIBLE_DEVICES");
  fake_cuda_reset();
}

static void in_order(int seed, char text[32])
{
  snprintf(text, 32, "random:%d", seed);
}

/* The code of a call, which is then forgotten. */
#define IS(call, code)             \
  do {                             \
    CT_ASSERT_INT((call), (code)); \
    (void)cudaGetLastError();      \
  } while (0)
#define WELL(call) IS(call, cudaSuccess)

static cudaStream_t stream(void)
{
  cudaStream_t s;
  WELL(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  return s;
}

static cudaEvent_t event(void)
{
  cudaEvent_t e;
  WELL(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
  return e;
}

static int *device_ints(void)
{
  int *p;
  WELL(cudaMalloc((void **)&p, N * sizeof *p));
  return p;
}

static int *pinned_ints(void)
{
  int *p;
  WELL(cudaHostAlloc((void **)&p, N * sizeof *p, cudaHostAllocDefault));
  memset(p, 0, N * sizeof *p);
  return p;
}

CT_KERNEL void times_and_plus(int *x, int factor, int summand)
{
  GPU_LOOP (i, N)
    x[i] = x[i] * factor + summand;
}

static void enqueue(cudaStream_t s, int *x, int factor, int summand)
{
  CT_LAUNCH(times_and_plus, 2, 32, s, x, factor, summand);
  WELL(cudaGetLastError());
}

/* ---- devices ---- */

static void devices(void)
{
  int n = -1;
  struct cudaDeviceProp p, q;
  char bus[32];
  setenv("CTRAIN_FAKE_GPUS", "0", 1);
  open_fake("inline");
  IS(cudaGetDeviceCount(&n), cudaErrorNoDevice);
  CT_ASSERT_INT(n, 0);
  IS(cudaSetDevice(0), cudaErrorNoDevice);
  setenv("CTRAIN_FAKE_GPUS", "-1", 1);
  open_fake("inline");
  IS(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
  WELL(cudaDriverGetVersion(&n));
  CT_ASSERT_INT(n, 0);
  setenv("CTRAIN_FAKE_GPUS", "4", 1);
  setenv("CUDA_VISIBLE_DEVICES", "2,1,9,0", 1);
  open_fake("inline");
  WELL(cudaGetDeviceCount(&n));
  CT_ASSERT_INT(n, 2);
  WELL(cudaGetDeviceProperties(&p, 0));
  WELL(cudaGetDeviceProperties(&q, 1));
  CT_ASSERT_TEXT(p.name, "fake GPU");
  CU_ASSERT(memcmp(&p.uuid, &q.uuid, sizeof p.uuid) != 0);
  WELL(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
  CT_ASSERT_TEXT(bus, "0000:03:00.0");
  CT_ASSERT_INT(fake_cuda_touched(0) + fake_cuda_touched(1), 0);
  WELL(cudaSetDevice(1));
  cudaStream_t s = stream();
  CT_ASSERT_INT(fake_cuda_touched(0), 0);
  CT_ASSERT_INT(fake_cuda_touched(1), 1);
  IS(cudaSetDevice(2), cudaErrorInvalidDevice);
  WELL(cudaSetDevice(0)); /* the stream is not of this device */
  int *x = device_ints();
  CT_LAUNCH(times_and_plus, 1, 32, s, x, 1, 1);
  IS(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  close_fake();
}

/* ---- memory ---- */

static void memory(void)
{
  unsigned char *a, *b;
  size_t left, all;
  setenv("CTRAIN_FAKE_GPU_MEMORY", "1000", 1);
  open_fake("inline");
  WELL(cudaMalloc((void **)&a, 600));
  CT_ASSERT_INT((uintptr_t)a % 256, 0);
  CU_ASSERT(a[0] == 0xa5 && a[599] == 0xa5);
  CT_ASSERT_INT(cudaMalloc((void **)&b, 401), cudaErrorMemoryAllocation);
  CT_ASSERT_INT(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  CT_ASSERT_INT(cudaGetLastError(), cudaErrorMemoryAllocation);
  WELL(cudaGetLastError());
  WELL(cudaMalloc((void **)&b, 400));
  WELL(cudaMemGetInfo(&left, &all));
  CT_ASSERT_INT(left, 0);
  CT_ASSERT_INT(all, 1000);
  CT_ASSERT_INT(fake_cuda_alive(), 2);
  IS(cudaMemset(a, 0, 601), cudaErrorInvalidValue);
  IS(cudaMemcpy(a, b, 400, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  WELL(cudaMemcpy(a, b, 400, cudaMemcpyDefault));
  WELL(cudaDeviceSynchronize());
  WELL(cudaFree(b));
  IS(cudaFree(b), cudaErrorInvalidValue);
  IS(cudaFreeHost(a), cudaErrorInvalidValue);
  WELL(cudaFree(a));
  WELL(cudaFree(NULL));
  WELL(cudaMemGetInfo(&left, &all));
  CT_ASSERT_INT(left, 1000);
  CT_ASSERT_INT(fake_cuda_alive(), 0);
  close_fake();
}

static void registered_memory(void)
{
  int host[2 * N] = {0};
  open_fake("late");
  WELL(cudaHostRegister(host, N * sizeof *host, cudaHostRegisterDefault));
  IS(cudaHostRegister(host + 1, 4, cudaHostRegisterDefault), cudaErrorHostMemoryAlreadyRegistered);
  enqueue(0, host, 0, 5);
  CT_ASSERT_INT(host[3], 0);
  int *x = device_ints();
  WELL(cudaMemcpyAsync(x, host + N, N * sizeof *x, cudaMemcpyDefault, 0)); /* what is behind it */
  WELL(cudaHostUnregister(host));                                          /* waits */
  CT_ASSERT_INT(host[3], 5);
  IS(cudaHostUnregister(host), cudaErrorHostMemoryNotRegistered);
  WELL(cudaDeviceSynchronize());
  close_fake();
}

/* Memory of the host is read and written when a copy's turn comes. */
static void copy_late(int *host)
{
  open_fake("late");
  cudaStream_t s = stream();
  int *x = device_ints();
  if (!host) host = pinned_ints();
  host[0] = 1;
  WELL(cudaMemcpyAsync(x, host, N * sizeof *x, cudaMemcpyDefault, s));
  host[0] = 2;
  enqueue(s, x, 1, 10);
  WELL(cudaMemcpyAsync(host, x, N * sizeof *x, cudaMemcpyDefault, s));
  CT_ASSERT_INT(host[0], 2);
  WELL(cudaStreamSynchronize(s));
  CT_ASSERT_INT(host[0], 12);
  close_fake();
}

static void copies(void)
{
  int pageable[N] = {0};
  copy_late(pageable);
  copy_late(NULL);
}

/* Whether the host can see that a copy or a fill is complete when the call returns. */
static void copies_that_wait(void)
{
  int pageable[N] = {1};
  open_fake("late");
  int *x = device_ints(), *y = device_ints(), *pinned = pinned_ints();
  WELL(cudaMemcpy(x, pageable, sizeof pageable, cudaMemcpyDefault));
  CT_ASSERT_INT(x[0] == 1, 0); /* it may be on its way */
  pageable[0] = 2;
  pinned[0] = 3;
  WELL(cudaMemcpy(y, pinned, sizeof pageable, cudaMemcpyDefault));
  CT_ASSERT_INT(x[0], 1);
  CT_ASSERT_INT(y[0], 3);
  WELL(cudaMemcpy(y, x, sizeof pageable, cudaMemcpyDefault));
  CT_ASSERT_INT(y[0], 3);
  WELL(cudaMemcpy(pinned, pageable, sizeof pageable, cudaMemcpyDefault));
  CT_ASSERT_INT(pinned[0], 2);
  CT_ASSERT_INT(y[0], 1);
  WELL(cudaMemset(y, 0, sizeof pageable));
  CT_ASSERT_INT(y[0], 1);
  WELL(cudaMemset(pinned, 0, sizeof pageable));
  CT_ASSERT_INT(pinned[0], 0);
  WELL(cudaMemcpyAsync(pinned, pageable, sizeof pageable, cudaMemcpyDefault, stream()));
  CT_ASSERT_INT(pinned[0], 2);
  WELL(cudaFree(x));
  WELL(cudaFree(y));
  close_fake();
}

/* ---- hazards ---- */

enum between_t { NOTHING, EVENT, HOST, OTHER_EVENT, BETWEENS };

static void order(between_t how, cudaStream_t from, cudaStream_t to, cudaEvent_t e)
{
  if (how == OTHER_EVENT) WELL(cudaEventRecord(e, to));
  if (how == EVENT) WELL(cudaEventRecord(e, from));
  if (how == EVENT || how == OTHER_EVENT) WELL(cudaStreamWaitEvent(to, e, 0));
  if (how == HOST) WELL(cudaStreamSynchronize(from));
}

/* The work of a library on one stream. */
struct touch_t {
  int *x;
  int writes;
};
static cudaError_t touch(void *args)
{
  const touch_t *t = (const touch_t *)args;
  fake_cuda_access(t->x, 4, t->writes);
  return cudaSuccess;
}

/* Work number i on x: reads with 0 to 1, writes with 2 to 5. */
static void use(int i, cudaStream_t s, int *x, int *other)
{
  touch_t t = {x, i == 2};
  if (i == 0 || i == 2) WELL(fake_cuda_work(s, touch, &t, sizeof t));
  if (i == 1) WELL(cudaMemcpyAsync(other, x, 8, cudaMemcpyDefault, s));
  if (i == 3) WELL(cudaMemsetAsync(x, 0, 8, s));
  if (i == 4) CT_LAUNCH(times_and_plus, 2, 32, s, x, 1, 1);
  if (i == 5) WELL(cudaMemcpyAsync(x, other, 8, cudaMemcpyDefault, s));
}

static int hazards_of(const char *in, int first, int second, between_t how)
{
  open_fake(in);
  cudaStream_t a = stream(), b = stream();
  cudaEvent_t e = event();
  int *x = device_ints(), *one = device_ints(), *two = device_ints();
  use(first, a, x, one);
  order(how, a, b, e);
  use(second, b, x, two);
  cudaError_t rc = cudaDeviceSynchronize();
  int found = fake_cuda_hazards();
  CT_ASSERT_INT(rc, found ? cudaErrorIllegalAddress : cudaSuccess);
  close_fake();
  return found;
}

/* Each order of execution shows what the program forgot. */
static void two_streams_need_an_order(void)
{
  static const char *const orders_of_streams[] = {"inline", "late", "random:1", "random:2"};
  for (const char *in : orders_of_streams)
    for (int first = 0; first < 6; first++)
      for (int second = 0; second < 6; second++) {
        bool both_read = first < 2 && second < 2;
        /* kernels have no calls before accesses in builds with sanitizers */
        if (!fake_cuda_sees_kernels() && (first == 4 || second == 4)) continue;
        for (int how = 0; how < BETWEENS; how++) {
          bool ordered = how == EVENT || how == HOST;
          CT_ASSERT_INT(hazards_of(in, first, second, (between_t)how) > 0, !both_read && !ordered);
        }
      }
}

static void different_bytes_need_none(void)
{
  open_fake("random");
  cudaStream_t a = stream(), b = stream();
  int *x = device_ints();
  WELL(cudaMemsetAsync(x, 0, 8, a));
  WELL(cudaMemsetAsync(x + 2, 0, 8, b));
  WELL(cudaDeviceSynchronize());
  WELL(cudaMemsetAsync(x + 1, 0, 8, a)); /* after what the host has waited for */
  WELL(cudaDeviceSynchronize());
  CT_ASSERT_INT(fake_cuda_hazards(), 0);
  close_fake();
}

/* CUDA may wait when memory is freed, or not. */
static void freeing_waits_for_nothing(void)
{
  for (int waits = 0; waits < 2; waits++) {
    open_fake("late");
    cudaStream_t s = stream();
    int *x = device_ints(), *pinned = pinned_ints();
    WELL(cudaMemcpyAsync(x, pinned, N * sizeof *x, cudaMemcpyDefault, s));
    if (waits) WELL(cudaStreamSynchronize(s));
    IS(cudaFree(x), waits ? cudaSuccess : cudaErrorIllegalAddress);
    CT_ASSERT_INT(fake_cuda_hazards(), !waits);
    close_fake();
  }
}

/* ---- streams and events ---- */

/* Some of these tests have accesses that nothing orders. */
static void open_lenient(const char *order)
{
  setenv("CTRAIN_FAKE_HAZARDS", "0", 1);
  open_fake(order);
}

/* Two streams: x = 0 on one, then x + 3 on the other; in how many orders that goes wrong. */
static int wrong_orders(bool waits)
{
  int wrong = 0;
  for (int seed = 1; seed <= SEEDS; seed++) {
    char order[32];
    in_order(seed, order);
    open_lenient(order);
    cudaStream_t a = stream(), b = stream();
    cudaEvent_t done = event();
    int *x = device_ints(), *result = pinned_ints();
    enqueue(a, x, 0, 0);
    WELL(cudaEventRecord(done, a));
    if (waits) WELL(cudaStreamWaitEvent(b, done, 0));
    enqueue(b, x, 1, 3);
    WELL(cudaMemcpyAsync(result, x, N * sizeof *x, cudaMemcpyDefault, b));
    WELL(cudaStreamSynchronize(b));
    wrong += result[0] != 3;
    WELL(cudaStreamDestroy(a));
    WELL(cudaStreamDestroy(b));
    WELL(cudaEventDestroy(done));
    WELL(cudaFree(x));
    WELL(cudaFreeHost(result));
    CT_ASSERT_INT(fake_cuda_alive(), 0);
  }
  close_fake();
  return wrong;
}

static void missing_wait(void)
{
  CT_ASSERT_INT(wrong_orders(true), 0);
  int wrong = wrong_orders(false);
  CU_ASSERT(wrong > 0 && wrong < SEEDS);
}

static void waiting_for_events(void)
{
  open_lenient("late");
  cudaStream_t a = stream(), b = stream();
  cudaEvent_t first = event(), second = event();
  int *x = pinned_ints();
  WELL(cudaEventQuery(first)); /* never recorded */
  WELL(cudaStreamWaitEvent(b, first, 0));
  enqueue(a, x, 0, 1);
  WELL(cudaEventRecord(first, a));
  enqueue(a, x, 1, 1);
  WELL(cudaEventRecord(second, a));
  WELL(cudaEventSynchronize(first));
  CT_ASSERT_INT(x[0], 1); /* and no more than that */
  int asked = 0;
  while (cudaEventQuery(second) == cudaErrorNotReady)
    CU_ASSERT_FATAL(asked++ < 100);
  CT_ASSERT_INT(x[0], 2);
  enqueue(a, x, 1, 1);
  WELL(cudaEventRecord(second, a));
  WELL(cudaStreamWaitEvent(b, second, 0));
  enqueue(a, x, 1, 1);
  enqueue(b, x, 1, 0);
  WELL(cudaStreamSynchronize(b));
  CT_ASSERT_INT(x[0], 3);
  WELL(cudaDeviceSynchronize());
  CT_ASSERT_INT(x[0], 4);
  close_fake();
}

static void times(void)
{
  open_fake("late");
  float ms = -1;
  cudaEvent_t from, to, untimed = event();
  WELL(cudaEventCreate(&from));
  WELL(cudaEventCreate(&to));
  WELL(cudaEventRecord(from, 0));
  WELL(cudaEventRecord(to, 0));
  IS(cudaEventElapsedTime(&ms, from, to), cudaErrorNotReady);
  WELL(cudaEventSynchronize(to));
  WELL(cudaEventElapsedTime(&ms, from, to));
  CU_ASSERT(ms >= 0 && ms < 1e3);
  IS(cudaEventElapsedTime(&ms, untimed, to), cudaErrorInvalidResourceHandle);
  close_fake();
}

/* A stream that is destroyed still does its work; asking leads to an end. */
static void streams(void)
{
  open_fake("late");
  cudaStream_t s = stream();
  int *x = pinned_ints();
  enqueue(s, x, 0, 1);
  WELL(cudaStreamDestroy(s));
  IS(cudaStreamSynchronize(s), cudaErrorInvalidResourceHandle);
  WELL(cudaDeviceSynchronize());
  CT_ASSERT_INT(x[0], 1);
  s = stream();
  for (int i = 0; i < 200; i++)
    enqueue(s, x, 1, 1);
  int asked = 0;
  while (cudaStreamQuery(s) == cudaErrorNotReady)
    asked++;
  CU_ASSERT(asked > 1);
  CT_ASSERT_INT(x[0], 201);
  close_fake();
}

/* The same environment, the same order. */
static void repeatable(void)
{
  int done[2];
  for (int i = 0; i < 2; i++) {
    open_lenient("random:5");
    cudaStream_t a = stream(), b = stream();
    int *x = pinned_ints();
    x[0] = 1;
    for (int k = 0; k < 8; k++) {
      enqueue(a, x, 3, 1);
      enqueue(b, x, 1, 1);
    }
    WELL(cudaDeviceSynchronize());
    done[i] = x[0];
  }
  CT_ASSERT_INT(done[0], done[1]);
  close_fake();
}

/* ---- work of libraries ---- */

typedef struct patient {
  int *x, asked;
} patient_t;

/* Needs to be asked three times, as if another process had to be waited for. */
static cudaError_t add_one_at_last(void *args)
{
  patient_t *p = (patient_t *)args;
  if (++p->asked < 3) return cudaErrorNotReady;
  p->x[0] += p->asked;
  return cudaSuccess;
}

static cudaError_t fails(void *)
{
  return cudaErrorECCUncorrectable;
}

static void nest(void *arg)
{
  *(cudaError_t *)arg = cudaDeviceSynchronize();
}

static void work_of_libraries(void)
{
  const char *const each[] = {"inline", "late", "random:1", "random:2"};
  for (const char *order : each) {
    open_fake(order);
    int *x = pinned_ints();
    patient_t p = {x, 0};
    cudaError_t nested = cudaSuccess;
    x[0] = 1;
    WELL(fake_cuda_work(0, add_one_at_last, &p, sizeof p));
    enqueue(0, x, 10, 0);
    WELL(cudaLaunchHostFunc(0, nest, &nested));
    WELL(cudaStreamSynchronize(0));
    CT_ASSERT_INT(x[0], 40);
    IS(nested, cudaErrorNotPermitted);
    WELL(fake_cuda_work(0, fails, NULL, 0));
    IS(cudaStreamSynchronize(0), cudaErrorECCUncorrectable);
    IS(cudaMalloc((void **)&x, 1), cudaErrorECCUncorrectable); /* the device is lost */
    IS(cudaGetLastError(), cudaErrorECCUncorrectable);
    IS(cudaGetLastError(), cudaErrorECCUncorrectable);
  }
  close_fake();
}

/* ---- errors ---- */

static void injected_failures(void)
{
  void *p;
  setenv("CTRAIN_FAKE_CUDA_FAIL",
         "cudaMalloc:2:2,cudaLaunchKernel:1:719,cudaEventCreateWithFlags:1", 1);
  open_fake("inline");
  cudaEvent_t e;
  WELL(cudaMalloc(&p, 8));
  IS(cudaMalloc(&p, 8), cudaErrorMemoryAllocation);
  WELL(cudaMalloc(&p, 8));
  IS(cudaEventCreateWithFlags(&e, 0), cudaErrorUnknown);
  WELL(cudaEventCreateWithFlags(&e, 0));
  CT_LAUNCH(times_and_plus, 1, 32, 0, (int *)p, 1, 1);
  IS(cudaGetLastError(), cudaErrorLaunchFailure);
  IS(cudaStreamSynchronize(0), cudaErrorLaunchFailure); /* stays */
  CT_ASSERT_TEXT(cudaGetErrorName(cudaErrorLaunchFailure), "cudaErrorLaunchFailure");
  CT_ASSERT_TEXT(cudaGetErrorString(cudaErrorLaunchFailure), "unspecified launch failure");
  close_fake();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(devices),
                                    CT_TEST(memory),
                                    CT_TEST(registered_memory),
                                    CT_TEST(copies),
                                    CT_TEST(copies_that_wait),
                                    CT_TEST(two_streams_need_an_order),
                                    CT_TEST(different_bytes_need_none),
                                    CT_TEST(freeing_waits_for_nothing),
                                    CT_TEST(missing_wait),
                                    CT_TEST(waiting_for_events),
                                    CT_TEST(times),
                                    CT_TEST(streams),
                                    CT_TEST(repeatable),
                                    CT_TEST(work_of_libraries),
                                    CT_TEST(injected_failures),
                                    CT_TEST_END};
  return ct_test_main("fake CUDA", tests, argc, argv);
}
