/* Memory and copies (fake_cuda.h). */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/cuda/emu/fake.h"

/* ---- address ranges ---- */

const fake_memory_t *fake_memory_of(const void *p, const unsigned char **start)
{
  const unsigned char *at = (const unsigned char *)p;
  if (!fake) return NULL;
  auto next = fake->memory.upper_bound(at);
  if (next == fake->memory.begin()) return NULL;
  --next;
  *start = next->first;
  return at < next->first + next->second.bytes ? &next->second : NULL;
}

/* Provided by the address sanitizer if it is linked in. */
extern "C" int __asan_address_is_poisoned(const volatile void *p) __attribute__((weak));

/* Returns 1 if the word is the address of mapped memory outside the stack.  Uninitialized padding
 * after an int or a float may contain parts of old addresses. */
int fake_is_host_heap(const void *p)
{
  uintptr_t word = (uintptr_t)p, here = (uintptr_t)&word, page = 4096;
  if (word < 0x100080000000 || word >> 47) return 0; /* unmapped, or the sanitizer's */
  if (word > here - (8 << 20) && word < here + (8 << 20)) return 0;
  if (msync((void *)(word / page * page), 1, MS_ASYNC) != 0) return 0;
  return __asan_address_is_poisoned ? !__asan_address_is_poisoned(p) : (uint32_t)word >= 1 << 16;
}

/* Checks that n bytes at p lie within one known allocation. */
static cudaError_t check_range(const void *p, size_t n)
{
  const unsigned char *start;
  const fake_memory_t *m = fake_memory_of(p, &start);
  if (!p) return cudaErrorInvalidValue;
  return m && (const unsigned char *)p + n > start + m->bytes ? cudaErrorInvalidValue : cudaSuccess;
}

static bool is_device(const void *p)
{
  const unsigned char *start;
  const fake_memory_t *m = fake_memory_of(p, &start);
  return m && m->kind == FAKE_DEVICE;
}

static bool is_pageable(const void *p)
{
  const unsigned char *start;
  return fake_memory_of(p, &start) == NULL;
}

/* ---- allocation ---- */

static cudaError_t allocate(void **out, size_t bytes, fake_kind_t kind)
{
  fake_device_t *device = &fake->device[fake_current()];
  *out = NULL;
  if (bytes == 0) return cudaSuccess;
  if (kind == FAKE_DEVICE && bytes > fake->memory_bytes - device->used)
    return cudaErrorMemoryAllocation;
  *out = fake_space_new(bytes);
  if (!*out) return cudaErrorMemoryAllocation;
  memset(*out, 0xa5, bytes);
  fake->memory[(unsigned char *)*out] = {kind, fake_current(), bytes};
  if (kind == FAKE_DEVICE) device->used += bytes;
  return cudaSuccess;
}

/* Frees memory.  CUDA may wait for the device then, but does not promise it: work that the program
 * has not waited for must not use this memory. */
static cudaError_t release(void *p, fake_kind_t kind, const char *call)
{
  auto m = fake->memory.find((unsigned char *)p);
  if (!p) return cudaSuccess;
  if (m == fake->memory.end() || m->second.kind != kind)
    return kind == FAKE_REGISTERED ? cudaErrorHostMemoryNotRegistered : cudaErrorInvalidValue;
  auto host = std::make_shared<fake_who_t>(fake_who_t{call, 0, 0, fake_host_clock()});
  cudaError_t rc = fake_run_device(m->second.device, false);
  if (rc == cudaSuccess) {
    fake_access_begin(host);
    fake_cuda_access(p, m->second.bytes, 1);
    rc = fake->device[m->second.device].broken = fake_access_end();
  }
  fake_forget(p, m->second.bytes);
  if (kind == FAKE_DEVICE) fake->device[m->second.device].used -= m->second.bytes;
  if (kind != FAKE_REGISTERED) fake_space_free(p, m->second.bytes);
  fake->memory.erase(m);
  return rc;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
  FAKE_CALL(FAKE_UNSAFE);
  return call.done(allocate(out, bytes, FAKE_DEVICE));
}

cudaError_t cudaFree(void *p)
{
  FAKE_CALL(FAKE_UNSAFE);
  return call.done(release(p, FAKE_DEVICE, __func__));
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned int)
{
  FAKE_CALL(FAKE_UNSAFE);
  return call.done(allocate(out, bytes, FAKE_PINNED));
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
  return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *p)
{
  FAKE_CALL(FAKE_UNSAFE);
  return call.done(release(p, FAKE_PINNED, __func__));
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned int)
{
  FAKE_CALL(FAKE_UNSAFE);
  const unsigned char *start, *end = (unsigned char *)p + bytes;
  if (!p || bytes == 0) return call.done(cudaErrorInvalidValue);
  const fake_memory_t *m = fake_memory_of(end - 1, &start);
  if ((m && start + m->bytes > p) || !is_pageable(p))
    return call.done(cudaErrorHostMemoryAlreadyRegistered);
  fake->memory[(unsigned char *)p] = {FAKE_REGISTERED, fake_current(), bytes};
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
  FAKE_CALL(FAKE_UNSAFE);
  return call.done(p ? release(p, FAKE_REGISTERED, __func__) : cudaErrorInvalidValue);
}

cudaError_t cudaHostGetDevicePointer(void **out, void *p, unsigned int)
{
  FAKE_CALL(FAKE_HARMLESS);
  *out = p;
  return call.done(is_pageable(p) || is_device(p) ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
  FAKE_CALL(FAKE_HARMLESS);
  *total = fake->memory_bytes;
  *left = fake->memory_bytes - fake->device[fake_current()].used;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *a, const void *p)
{
  FAKE_CALL(FAKE_HARMLESS);
  const unsigned char *start;
  const fake_memory_t *m = fake_memory_of(p, &start);
  memset(a, 0, sizeof *a);
  a->type = !m                       ? cudaMemoryTypeUnregistered
            : m->kind == FAKE_DEVICE ? cudaMemoryTypeDevice
                                     : cudaMemoryTypeHost;
  a->device = m ? m->device : -2;
  a->devicePointer = m ? (void *)p : NULL;
  a->hostPointer = m && m->kind == FAKE_DEVICE ? NULL : (void *)p;
  return cudaSuccess;
}

/* ---- copies ---- */

static cudaError_t check_copy(const void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (check_range(dst, n) != cudaSuccess || check_range(src, n) != cudaSuccess)
    return cudaErrorInvalidValue;
  if (kind == cudaMemcpyDefault) return cudaSuccess;
  return to_device == is_device(dst) && from_device == is_device(src) ? cudaSuccess
                                                                      : cudaErrorInvalidValue;
}

static cudaError_t wait_for(const CUstream_st *s)
{
  return fake_run_until(s->line, s->line->put);
}

static cudaError_t put_copy(CUstream_st *s, void *dst, const void *src, size_t n)
{
  const void *both[] = {dst, src};
  return fake_put(
      s, "a copy",
      [=] {
        fake_cuda_access(src, n, 0);
        fake_cuda_access(dst, n, 1);
        memcpy(dst, src, n);
        return cudaSuccess;
      },
      both, sizeof both);
}

/* The source is read, and the destination written, when the copy's turn comes, in pageable memory
 * too: that a copy of pageable memory waits for it is not promised. */
static cudaError_t copy_async(CUstream_st *s, void *dst, const void *src, size_t n)
{
  if (s->capture && (is_pageable(src) || is_pageable(dst))) {
    fake_invalidate(s->capture.get());
    return cudaErrorStreamCaptureUnsupported;
  }
  cudaError_t rc = put_copy(s, dst, src, n);
  return rc == cudaSuccess && !is_device(src) && !is_device(dst) ? wait_for(s) : rc;
}

/* From pageable memory to the device: returns when the source is copied.  Within the device: returns
 * at once.  Else: returns when the copy is complete. */
static cudaError_t copy_now(CUstream_st *s, void *dst, const void *src, size_t n)
{
  if (!is_pageable(src) || !is_device(dst)) {
    cudaError_t rc = put_copy(s, dst, src, n);
    return rc == cudaSuccess && !(is_device(src) && is_device(dst)) ? wait_for(s) : rc;
  }
  cudaError_t rc = wait_for(s);
  if (rc != cudaSuccess) return rc;
  auto staged = std::make_shared<std::vector<unsigned char>>((const unsigned char *)src,
                                                             (const unsigned char *)src + n);
  return fake_put(s, "a copy", [=] {
    fake_cuda_access(dst, n, 1);
    memcpy(dst, staged->data(), n);
    return cudaSuccess;
  });
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s) return call.done(cudaErrorInvalidResourceHandle);
  if (n == 0) return cudaSuccess;
  cudaError_t rc = check_copy(dst, src, n, kind);
  return call.done(rc == cudaSuccess ? copy_async(s, dst, src, n) : rc);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t n, enum cudaMemcpyKind kind)
{
  FAKE_CALL(FAKE_UNSAFE);
  CUstream_st *s = fake_stream(NULL);
  if (n == 0) return cudaSuccess;
  cudaError_t rc = check_copy(dst, src, n, kind);
  return call.done(rc == cudaSuccess ? copy_now(s, dst, src, n) : rc);
}

static cudaError_t set(CUstream_st *s, void *dst, int value, size_t n)
{
  if (is_pageable(dst) || check_range(dst, n) != cudaSuccess) return cudaErrorInvalidValue;
  return fake_put(
      s, "a memset",
      [=] {
        fake_cuda_access(dst, n, 1);
        memset(dst, value, n);
        return cudaSuccess;
      },
      &dst, sizeof dst);
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t n, cudaStream_t stream)
{
  FAKE_CALL(FAKE_HARMLESS);
  CUstream_st *s = fake_stream(stream);
  if (!s) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(n > 0 ? set(s, dst, value, n) : cudaSuccess);
}

cudaError_t cudaMemset(void *dst, int value, size_t n)
{
  FAKE_CALL(FAKE_UNSAFE);
  CUstream_st *s = fake_stream(NULL);
  cudaError_t rc = n > 0 ? set(s, dst, value, n) : cudaSuccess;
  /* of device memory, without waiting for it */
  return call.done(rc == cudaSuccess && !is_device(dst) ? wait_for(s) : rc);
}
