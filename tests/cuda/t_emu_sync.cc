/* The emulator of CUDA's device side: what the threads of a block and of a warp do together.
 * Kernels that are right give the same in every order; kernels with a mistake each are found. */
#include "tests/cuda/emu_rig.h"

/* ---- barriers ---- */

template <bool BARRIER> CT_KERNEL void reverse(float *x)
{
  CT_SHARED(float, kept, 256);
  unsigned i = threadIdx.x;
  kept[i] = x[i];
  if (BARRIER) __syncthreads();
  x[i] = kept[255 - i];
}

static void shared_memory(void)
{
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    for (int i = 0; i < 256; i++)
      numbers[i] = (float)i;
    CT_LAUNCH(reverse<true>, 1, 256, 0, numbers);
    expect_right();
    int wrong = 0;
    for (int i = 0; i < 256; i++)
      wrong += numbers[i] != (float)(255 - i);
    CT_ASSERT_INT(wrong, 0);
    end();
  }
}

/* What nobody has written yet is NaN, also if it was there in the block before. */
static void missing_barrier(void)
{
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    for (int i = 0; i < 256; i++)
      numbers[i] = 1;
    for (int launch = 0; launch < 2; launch++) {
      CT_LAUNCH(reverse<false>, 1, 256, 0, numbers);
      expect_right();
      int nans = 0;
      for (int i = 0; i < 256; i++)
        nans += numbers[i] != numbers[i];
      CU_ASSERT(nans > 0);
    }
    end();
  }
}

template <class T> CT_KERNEL void two_arrays(T *x)
{
  CT_SHARED(T, first, 32);
  CT_SHARED(T, second, 32);
  first[threadIdx.x] = (T)threadIdx.x;
  second[threadIdx.x] = (T)(100 + threadIdx.x);
  __syncthreads();
  x[blockIdx.x * 32 + threadIdx.x] = first[31 - threadIdx.x] + second[threadIdx.x];
  CT_ASSERT_INT(sizeof first, 32 * sizeof(T));
}

static void arrays_of_templates(void)
{
  begin("random");
  int *integers = (int *)numbers;
  CT_LAUNCH(two_arrays<float>, 3, 32, 0, numbers);
  CT_LAUNCH(two_arrays<int>, 3, 32, 0, integers + 96);
  expect_right();
  int wrong = 0;
  for (int i = 0; i < 96; i++)
    wrong += numbers[i] != 131 || integers[96 + i] != 131;
  CT_ASSERT_INT(wrong, 0);
  end();
}

CT_KERNEL void too_much_shared(float *x)
{
  CT_SHARED(float, big, 12 * 1024);
  CT_SHARED(float, one, 1);
  big[threadIdx.x] = one[0] = 0;
  x[0] = big[0];
}

static void shared_limit(void)
{
  begin("asc");
  CT_LAUNCH(too_much_shared, 1, 32, 0, numbers);
  expect_fault("more than 49152 bytes of shared memory", "too_much_shared");
  end();
}

CT_KERNEL void barrier_of_some(float *x)
{
  if (threadIdx.x < 40) __syncthreads();
  x[threadIdx.x] = 1;
}

CT_KERNEL void two_barriers(float *x)
{
  if (threadIdx.x < 40)
    __syncthreads();
  else
    __syncthreads();
  x[threadIdx.x] = 1;
}

static void divergent_barriers(void)
{
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    CT_LAUNCH(barrier_of_some, 1, 64, 0, numbers);
    expect_fault("__syncthreads waits for thread", "which has ended");
    CT_ASSERT_HAS(emu_fault(), "t_emu_sync.cc:");
    end();
    begin(orders[o]);
    CT_LAUNCH(two_barriers, 1, 64, 0, numbers);
    expect_fault("__syncthreads, but other threads of the block are at", "two_barriers");
    end();
  }
  /* a fault leaves nothing behind that would disturb the next launch */
  begin("random");
  CT_LAUNCH(reverse<true>, 1, 256, 0, numbers);
  expect_right();
  end();
}

CT_KERNEL void votes(int *x)
{
  int of_three = __syncthreads_count(threadIdx.x % 3 == 0);
  int some = __syncthreads_or(threadIdx.x == 7), none = __syncthreads_or(0);
  int all = __syncthreads_and(1), not_all = __syncthreads_and(threadIdx.x != 7);
  x[threadIdx.x] = of_three + 100 * some + 1000 * none + 10000 * all + 100000 * not_all;
}

static void voting(void)
{
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    int *x = (int *)numbers, wrong = 0;
    CT_LAUNCH(votes, 1, 96, 0, x);
    expect_right();
    for (int i = 0; i < 96; i++)
      wrong += x[i] != 32 + 100 + 10000;
    CT_ASSERT_INT(wrong, 0);
    end();
  }
}

/* ---- warps ---- */

CT_KERNEL void shuffles(int *x)
{
  int lane = (int)threadIdx.x % 32, *mine = x + threadIdx.x * 8;
  mine[0] = __shfl_sync(0xffffffffu, lane, 5);
  mine[1] = __shfl_xor_sync(0xffffffffu, lane, 3);
  mine[2] = __shfl_down_sync(0xffffffffu, lane, 30);
  mine[3] = __shfl_up_sync(0xffffffffu, lane, 1);
  mine[4] = (int)__ballot_sync(0xffffffffu, lane < 4);
  mine[5] = (int)__shfl_xor_sync(0xffffffffu, 0.5 + lane, 1);
  if (lane < 16) { /* a half of the warp alone */
    mine[6] = __shfl_xor_sync(0x0000ffffu, lane, 15);
    __syncwarp(0x0000ffffu);
  }
  __syncwarp();
  mine[7] = __any_sync(0xffffffffu, lane == 3) + 10 * __all_sync(0xffffffffu, lane < 32) +
            100 * __all_sync(0xffffffffu, lane < 31);
}

static void warps(void)
{
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    int *x = (int *)numbers, wrong = 0;
    CT_LAUNCH(shuffles, 1, 64, 0, x);
    expect_right();
    for (int t = 0; t < 64; t++, x += 8) {
      int lane = t % 32;
      wrong += x[0] != 5 || x[1] != (lane ^ 3) || x[2] != (lane + 30 > 31 ? lane : lane + 30);
      wrong += x[3] != (lane ? lane - 1 : 0) || x[4] != 15 || x[5] != (lane ^ 1) || x[7] != 11;
      wrong += lane < 16 && x[6] != (lane ^ 15);
    }
    CT_ASSERT_INT(wrong, 0);
    end();
  }
}

CT_KERNEL void shuffle_of_some(float *x)
{
  if (threadIdx.x % 32 > 3) x[threadIdx.x] = __shfl_down_sync(0xffffffffu, x[threadIdx.x], 1);
}
CT_KERNEL void shuffle_outside(float *x)
{
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, x[threadIdx.x], 16);
}
CT_KERNEL void shuffle_without_itself(float *x)
{
  x[threadIdx.x] = __shfl_sync(0x0000ffffu, x[threadIdx.x], 0);
}
CT_KERNEL void shuffle_or_barrier(float *x)
{
  if (threadIdx.x % 2)
    __syncthreads();
  else
    x[threadIdx.x] = __shfl_sync(0xffffffffu, x[threadIdx.x], 0);
}
CT_KERNEL void shuffle_or_ballot(float *x)
{
  if (threadIdx.x % 2)
    __ballot_sync(0xffffffffu, 1);
  else
    x[threadIdx.x] = __shfl_sync(0xffffffffu, x[threadIdx.x], 0);
}

static void wrong_shuffles(void)
{
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    CT_LAUNCH(shuffle_of_some, 1, 64, 0, numbers);
    expect_fault("a shuffle waits for thread", "which has ended");
    end();
    begin(orders[o]);
    CT_LAUNCH(shuffle_outside, 1, 32, 0, numbers);
    expect_fault("which is not in the mask 0000ffff", "shuffle_outside");
    end();
    begin(orders[o]);
    CT_LAUNCH(shuffle_without_itself, 1, 32, 0, numbers);
    expect_fault("is not in its own mask", "shuffle_without_itself");
    end();
    begin(orders[o]);
    CT_LAUNCH(shuffle_without_itself, 1, 8, 0, numbers);
    expect_fault("in a warp of 8 threads", "shuffle_without_itself");
    end();
    begin(orders[o]);
    CT_LAUNCH(shuffle_or_barrier, 1, 32, 0, numbers);
    expect_fault("a shuffle waits for thread", "which is at");
    end();
    begin(orders[o]);
    CT_LAUNCH(shuffle_or_ballot, 1, 32, 0, numbers);
    expect_fault("a ballot", "a shuffle");
    end();
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(shared_memory), CT_TEST(missing_barrier),    CT_TEST(arrays_of_templates),
      CT_TEST(shared_limit),  CT_TEST(divergent_barriers), CT_TEST(voting),
      CT_TEST(warps),         CT_TEST(wrong_shuffles),     CT_TEST_END};
  return ct_test_main("emulator, together", tests, argc, argv);
}
