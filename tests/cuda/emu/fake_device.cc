/* Devices, errors, and the common start of all runtime functions (fake_cuda.h). */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "tests/cuda/emu/fake.h"

fake_state_t *fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static thread_local cudaError_t last = cudaSuccess;
static thread_local int current;
static thread_local bool locked;

/* ---- the environment ---- */

static int64_t number(const char *name, int64_t otherwise)
{
  const char *text = getenv(name);
  return text && *text ? strtoll(text, NULL, 0) : otherwise;
}

/* Applies CUDA_VISIBLE_DEVICES up to the first entry that is not a device. */
static void choose_visible(int present)
{
  const char *text = getenv("CUDA_VISIBLE_DEVICES");
  fake->gpus = 0;
  if (!text) {
    for (int i = 0; i < present; i++)
      fake->physical[fake->gpus++] = i;
    return;
  }
  while (fake->gpus < FAKE_MAX_GPUS) {
    char *end;
    long i = strtol(text, &end, 10);
    if (end == text || i < 0 || i >= present) return;
    fake->physical[fake->gpus++] = (int)i;
    if (*end != ',') return;
    text = end + 1;
  }
}

static void read_failures(const char *text)
{
  while (text && *text) {
    char function[64];
    long call = 0;
    int code = cudaErrorUnknown, length = 0;
    if (sscanf(text, "%63[a-zA-Z0-9_]:%ld%n:%d%n", function, &call, &length, &code, &length) < 2) {
      fprintf(stderr, "fake cuda: CTRAIN_FAKE_CUDA_FAIL=%s is not function:count[:code]\n", text);
      abort();
    }
    fake->failures.push_back({function, call, (cudaError_t)code});
    text += length;
    if (*text == ',') text++;
  }
}

static void write_account(void);

static void read_environment(void)
{
  int64_t present = number("CTRAIN_FAKE_GPUS", 1);
  const char *order = getenv("CTRAIN_FAKE_ORDER");
  if (!order) order = "random";
  const char *colon = strchr(order, ':');
  static const int once = atexit(write_account);
  (void)once;
  fake = new fake_state_t();
  fake->absent = present < 0 ? cudaErrorInsufficientDriver : cudaErrorNoDevice;
  choose_visible((int)(present > FAKE_MAX_GPUS ? (int64_t)FAKE_MAX_GPUS : present));
  fake->memory_bytes = (size_t)number("CTRAIN_FAKE_GPU_MEMORY", (int64_t)8 << 30);
  fake->order = strcmp(order, "inline") == 0 ? fake_state_t::INLINE
                : strcmp(order, "late") == 0 ? fake_state_t::LATE
                                             : fake_state_t::RANDOM;
  fake->seed = (colon ? strtoull(colon + 1, NULL, 10) : 1) * 0x9e3779b97f4a7c15u | 1;
  fake->hazards = number("CTRAIN_FAKE_HAZARDS", 1) != 0;
  read_failures(getenv("CTRAIN_FAKE_CUDA_FAIL"));
}

uint64_t fake_draw(void)
{
  fake->seed ^= fake->seed << 13;
  fake->seed ^= fake->seed >> 7;
  fake->seed ^= fake->seed << 17;
  return fake->seed >> 8;
}

/* ---- calls ---- */

/* Returns true for functions that need memory of the host or the device. */
static bool allocates(const char *function)
{
  static const char *const names[] = {"cudaMalloc",
                                      "cudaHostAlloc",
                                      "cudaHostRegister",
                                      "cudaStreamCreateWithPriority",
                                      "cudaEventCreateWithFlags",
                                      "cudaGraphInstantiate"};
  for (const char *name : names)
    if (strcmp(function, name) == 0) return true;
  return strncmp(function, "library:", 8) == 0;
}

/* Returns true for calls whose number is the same in each run, which polling is not. */
static bool is_countable(const char *function)
{
  return function[0] != '\0' && strncmp(function, "fake_", 5) != 0 &&
         strcmp(function, "cudaStreamQuery") != 0 && strcmp(function, "cudaEventQuery") != 0 &&
         strcmp(function, "cudaGetLastError") != 0;
}

static cudaError_t injected_as(const char *name, const char *function)
{
  int64_t call = ++fake->calls[name];
  for (const auto &f : fake->failures) {
    if (f.call != call || f.function != name) continue;
    fake->failed = function;
    return f.code;
  }
  return cudaSuccess;
}

static cudaError_t injected(const char *function)
{
  cudaError_t rc = injected_as(function, function), other;
  if (is_countable(function) && (other = injected_as("any", function)) != cudaSuccess) rc = other;
  if (allocates(function) && (other = injected_as("alloc", function)) != cudaSuccess)
    rc = cudaErrorMemoryAllocation;
  return rc;
}

/* Writes what happened to a file of this process, for tests. */
static void write_account(void)
{
  const char *path = getenv("CTRAIN_FAKE_CUDA_ACCOUNT");
  char name[4096];
  if (!path || !*path || !fake) return;
  snprintf(name, sizeof name, "%s.%d", path, (int)getpid());
  FILE *f = fopen(name, "w");
  if (!f) return;
  fprintf(f, "alloc %lld\nany %lld\nfailed %s\nalive %d\nhazards %d\n",
          (long long)fake->calls["alloc"], (long long)fake->calls["any"],
          fake->failed.empty() ? "none" : fake->failed.c_str(), fake_cuda_alive(),
          fake_cuda_hazards());
  fclose(f);
}

/* Returns true for errors that make the context unusable. */
static bool is_fatal(cudaError_t code)
{
  return code == cudaErrorLaunchFailure || code == cudaErrorIllegalAddress ||
         code == cudaErrorECCUncorrectable || code == cudaErrorHardwareStackError ||
         code == cudaErrorLaunchTimeout || code == cudaErrorAssert;
}

fake_call::fake_call(const char *function, fake_use_t use, bool needs_device)
{
  rc = cudaErrorNotPermitted; /* called from an action of a stream */
  holds = !locked;
  if (!holds) return;
  pthread_mutex_lock(&lock);
  locked = true;
  if (!fake) read_environment();
  rc = injected(function);
  if (!needs_device) return;
  if (fake->gpus == 0) {
    rc = fake->absent;
    return;
  }
  fake_device_t *device = &fake->device[current];
  device->touched = true;
  if (rc != cudaSuccess && is_fatal(rc)) device->broken = rc;
  if (device->broken != cudaSuccess) rc = device->broken;
  fake_capture_t *capture = fake_capturing();
  if (rc == cudaSuccess && use == FAKE_UNSAFE && capture) {
    fake_invalidate(capture);
    rc = cudaErrorStreamCaptureUnsupported;
  }
}

fake_call::~fake_call()
{
  if (!holds) return;
  locked = false;
  pthread_mutex_unlock(&lock);
}

cudaError_t fake_call::done(cudaError_t code)
{
  if (code != cudaSuccess) last = code;
  return code;
}

int fake_current(void)
{
  return current;
}

void fake_unlock_a_while(void)
{
  pthread_mutex_unlock(&lock);
  usleep(20);
  pthread_mutex_lock(&lock);
}

extern "C" void fake_cuda_reset(void)
{
  pthread_mutex_lock(&lock);
  if (fake) {
    for (auto &m : fake->memory)
      if (m.second.kind != FAKE_REGISTERED) fake_space_free((void *)m.first, m.second.bytes);
    for (int i = 0; i < FAKE_MAX_GPUS; i++)
      delete fake->device[i].legacy;
    for (auto s : fake->streams)
      delete s;
    for (auto e : fake->events)
      delete e;
    for (auto g : fake->graphs)
      delete g;
    for (auto g : fake->execs)
      delete g;
    delete fake;
  }
  fake_access_reset();
  read_environment();
  last = cudaSuccess;
  current = 0;
  pthread_mutex_unlock(&lock);
}

extern "C" int fake_cuda_alive(void)
{
  fake_call call(__func__, FAKE_HARMLESS, false);
  return (int)(fake->memory.size() + fake->streams.size() + fake->events.size() +
               fake->graphs.size() + fake->execs.size());
}

extern "C" cudaError_t fake_cuda_library(const char *function)
{
  fake_call call((std::string("library:") + function).c_str(), FAKE_HARMLESS);
  return call.rc;
}

extern "C" int fake_cuda_touched(int device)
{
  fake_call call(__func__, FAKE_HARMLESS, false);
  return fake->device[device].touched;
}

/* ---- devices ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
  fake_call call(__func__, FAKE_HARMLESS, false);
  *count = 0;
  if (call.rc != cudaSuccess) return call.done(call.rc);
  *count = fake->gpus;
  return call.done(fake->gpus > 0 ? cudaSuccess : fake->absent);
}

cudaError_t cudaSetDevice(int device)
{
  fake_call call(__func__, FAKE_HARMLESS, false);
  if (call.rc != cudaSuccess) return call.done(call.rc);
  if (fake->gpus == 0) return call.done(fake->absent);
  if (device < 0 || device >= fake->gpus) return call.done(cudaErrorInvalidDevice);
  current = device;
  fake->device[device].touched = true;
  return call.done(fake->device[device].broken);
}

cudaError_t cudaGetDevice(int *device)
{
  fake_call call(__func__, FAKE_HARMLESS, false);
  if (call.rc != cudaSuccess) return call.done(call.rc);
  if (fake->gpus == 0) return call.done(fake->absent);
  *device = current;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
  fake_call call(__func__, FAKE_HARMLESS, false);
  if (call.rc != cudaSuccess) return call.done(call.rc);
  if (fake->gpus == 0) return call.done(fake->absent);
  if (device < 0 || device >= fake->gpus) return call.done(cudaErrorInvalidDevice);
  memset(prop, 0, sizeof *prop);
  snprintf(prop->name, sizeof prop->name, "fake GPU");
  memcpy(prop->uuid.bytes, "ctrain fake gpu", 15);
  prop->uuid.bytes[15] = (char)fake->physical[device];
  prop->pciBusID = 1 + fake->physical[device];
  prop->totalGlobalMem = fake->memory_bytes;
  prop->sharedMemPerBlock = 48 << 10;
  prop->regsPerBlock = 65536;
  prop->warpSize = 32;
  prop->maxThreadsPerBlock = 1024;
  prop->maxThreadsDim[0] = prop->maxThreadsDim[1] = 1024;
  prop->maxThreadsDim[2] = 64;
  prop->maxGridSize[0] = 0x7fffffff;
  prop->maxGridSize[1] = prop->maxGridSize[2] = 65535;
  prop->major = 9;
  prop->multiProcessorCount = 4;
  prop->unifiedAddressing = 1;
  prop->asyncEngineCount = 3;
  prop->maxThreadsPerMultiProcessor = 2048;
  prop->l2CacheSize = 50 << 20;
  prop->memoryBusWidth = 5120;
  prop->concurrentKernels = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
  struct cudaDeviceProp p;
  cudaError_t rc = cudaGetDeviceProperties(&p, device);
  if (rc != cudaSuccess) return rc;
  switch (attr) {
  case cudaDevAttrMultiProcessorCount:
    *value = p.multiProcessorCount;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMajor:
    *value = p.major;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMinor:
    *value = p.minor;
    return cudaSuccess;
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    *value = p.maxThreadsPerMultiProcessor;
    return cudaSuccess;
  case cudaDevAttrHostNumaId:
  case cudaDevAttrComputeMode:
    *value = 0;
    return cudaSuccess;
  default:
    fprintf(stderr, "fake cuda: cudaDeviceGetAttribute(%d) is not known\n", (int)attr);
    return cudaErrorInvalidValue;
  }
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int cap, int device)
{
  struct cudaDeviceProp p;
  cudaError_t rc = cudaGetDeviceProperties(&p, device);
  if (rc == cudaSuccess) snprintf(text, (size_t)cap, "0000:%02X:00.0", (unsigned)p.pciBusID);
  return rc;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
  fake_call call(__func__, FAKE_HARMLESS, false);
  if (call.rc != cudaSuccess) return call.done(call.rc);
  *version = fake->gpus == 0 && fake->absent == cudaErrorInsufficientDriver ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

/* ---- errors ---- */

static cudaError_t last_error(bool forget)
{
  fake_call call("cudaGetLastError", FAKE_HARMLESS, false);
  cudaError_t code = last;
  if (forget) last = cudaSuccess;
  if (fake->device[current].broken != cudaSuccess) code = fake->device[current].broken;
  return code;
}

cudaError_t cudaGetLastError(void)
{
  return last_error(true);
}

cudaError_t cudaPeekAtLastError(void)
{
  return last_error(false);
}

static const struct {
  cudaError_t code;
  const char *name, *text;
} known[] = {
#define KNOWN(code, text) \
  {                       \
    code, #code, text     \
  }
    KNOWN(cudaSuccess, "no error"),
    KNOWN(cudaErrorInvalidValue, "invalid argument"),
    KNOWN(cudaErrorMemoryAllocation, "out of memory"),
    KNOWN(cudaErrorInitializationError, "initialization error"),
    KNOWN(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    KNOWN(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    KNOWN(cudaErrorInsufficientDriver,
          "CUDA driver version is insufficient for CUDA runtime version"),
    KNOWN(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    KNOWN(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    KNOWN(cudaErrorInvalidDevice, "invalid device ordinal"),
    KNOWN(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    KNOWN(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    KNOWN(cudaErrorNotReady, "device not ready"),
    KNOWN(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    KNOWN(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    KNOWN(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    KNOWN(cudaErrorHostMemoryAlreadyRegistered,
          "part or all of the requested memory range is already mapped"),
    KNOWN(cudaErrorHostMemoryNotRegistered,
          "pointer does not correspond to a registered memory region"),
    KNOWN(cudaErrorLaunchFailure, "unspecified launch failure"),
    KNOWN(cudaErrorNotPermitted, "operation not permitted"),
    KNOWN(cudaErrorNotSupported, "operation not supported"),
    KNOWN(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    KNOWN(cudaErrorStreamCaptureInvalidated,
          "operation failed due to a previous error during capture"),
    KNOWN(cudaErrorStreamCaptureMerge,
          "operation would result in a merge of separate capture sequences"),
    KNOWN(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    KNOWN(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    KNOWN(cudaErrorStreamCaptureIsolation,
          "dependency created on uncaptured work in another stream"),
    KNOWN(cudaErrorStreamCaptureImplicit,
          "operation would make the legacy stream depend on a capturing blocking stream"),
    KNOWN(cudaErrorCapturedEvent,
          "operation not permitted on an event last recorded in a capturing stream"),
    KNOWN(cudaErrorStreamCaptureWrongThread,
          "attempt to terminate a thread-local capture sequence from another thread"),
    KNOWN(cudaErrorUnknown, "unknown error"),
};

const char *cudaGetErrorName(cudaError_t code)
{
  for (const auto &k : known)
    if (k.code == code) return k.name;
  return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t code)
{
  for (const auto &k : known)
    if (k.code == code) return k.text;
  return "unrecognized error code";
}
