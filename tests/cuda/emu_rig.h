/* emu_rig.h  What the tests of the emulator share: a launch in each order of threads. */
#ifndef EMU_RIG_H
#define EMU_RIG_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cuda/kernels/kernel.h"
#include "tests/cuda/emu/fake_cuda.h"
extern "C" {
#include "tests/harness/ct_test.h"
}

static const char *const orders[] = {"asc", "desc", "random:1", "random:2", "random:3"};
enum { ORDERS = sizeof orders / sizeof *orders, ROOM = 4096 };

static float *numbers; /* of the device, ROOM of them */

static inline void begin(const char *order)
{
  setenv("CTRAIN_FAKE_ORDER", "inline", 1);
  fake_cuda_reset();
  emu_order(order);
  CT_ASSERT_INT(cudaMalloc((void **)&numbers, ROOM * sizeof(float)), cudaSuccess);
}

static inline void end(void)
{
  cudaFree(numbers);
}

/* Continues an FNV-1a hash, which begins with RIG_HASH, over the bytes. */
static const uint64_t RIG_HASH = 0xcbf29ce484222325u;
static inline uint64_t rig_hash(uint64_t h, const void *bytes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    h = (h ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return h;
}

/* The launch ended well. */
static inline void expect_right(void)
{
  CT_ASSERT_INT(cudaGetLastError(), cudaSuccess);
  CT_ASSERT_INT(cudaDeviceSynchronize(), cudaSuccess);
}

/* The launch ended with a fault whose text has both words. */
static inline void expect_fault(const char *word, const char *other)
{
  CT_ASSERT_INT(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  CT_ASSERT_INT(cudaGetLastError(), cudaErrorLaunchFailure);
  CT_ASSERT_HAS(emu_fault(), word);
  CT_ASSERT_HAS(emu_fault(), other);
}

#endif
