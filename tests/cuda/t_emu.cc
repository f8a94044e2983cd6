/* The emulator of CUDA's device side: elements, sums, launches, and what is found out about
 * pointers. */
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/emu_rig.h"
extern "C" {
uint16_t ct__ref_narrowed(ct_dtype_t low, double v);
double ct__ref_widened(ct_dtype_t low, uint16_t bits);
}

/* ---- elements ---- */

template <class T, int N> CT_KERNEL void add_number(int64_t n, T *x)
{
  GPU_LOOP (i, n)
    gpu_store(&x[i], gpu_load(&x[i]) + N);
}

static cudaError_t add_two(ct_dtype_t type, int64_t n, void *x)
{
  GPU_BY_TYPE(type, T, CT_LAUNCH((add_number<T, 2>), gpu_grid(n, 32), 32, 0, n, (T *)x));
  return cudaGetLastError();
}

static void elements(void)
{
  const int64_t n = 1000;
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    for (int i = 0; i < n; i++)
      numbers[i] = (float)i;
    CT_ASSERT_INT(add_two(CT_F32, n, numbers), cudaSuccess);
    int wrong = 0;
    for (int i = 0; i < n; i++)
      wrong += numbers[i] != (float)i + 2;
    CT_ASSERT_INT(wrong, 0);
    gpu_f16 *halves = (gpu_f16 *)numbers;
    for (int i = 0; i < n; i++)
      gpu_store(&halves[i], (float)i);
    CT_ASSERT_INT(add_two(CT_F16, n, numbers), cudaSuccess);
    for (int i = 0; i < n; i++)
      wrong += gpu_load(&halves[i]) != (float)i + 2;
    CT_ASSERT_INT(wrong, 0);
    CT_ASSERT_INT(add_two(CT_I32, n, numbers), cudaErrorInvalidValue);
    end();
  }
  CT_ASSERT_INT(gpu_grid(0, 256), 1);
  CT_ASSERT_INT(gpu_grid(256, 256), 1);
  CT_ASSERT_INT(gpu_grid(257, 256), 2);
  CT_ASSERT_INT(gpu_grid((int64_t)1 << 40, 256), GPU_MAX_GRID);
}

CT_KERNEL void note_places(float *x)
{
  int block = (int)((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x);
  x[block * gpu_threads() + gpu_thread()] = (float)(block * gpu_threads() + gpu_thread());
}

static void pixels(void)
{
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    CT_LAUNCH(note_places, dim3(3, 2, 4), dim3(4, 3, 5), 0, numbers);
    expect_right();
    int wrong = 0;
    for (int i = 0; i < 24 * 60; i++)
      wrong += numbers[i] != (float)i;
    CT_ASSERT_INT(wrong, 0);
    end();
  }
}

/* Every pattern there and back, and numbers around every pattern, as the reference backend
 * rounds. */
static void low_types(void)
{
  int wrong = 0;
  for (uint32_t i = 0; i < 65536; i++) {
    gpu_f16 half = {(uint16_t)i};
    gpu_bf16 brain = {(uint16_t)i};
    float h = gpu_load(&half), b = gpu_load(&brain);
    wrong += !(h == (float)ct__ref_widened(CT_F16, half.bits)) && h == h;
    wrong += !(b == (float)ct__ref_widened(CT_BF16, brain.bits)) && b == b;
    for (int step = -2; step <= 2; step++) {
      float near_h = __uint_as_float(__float_as_uint(h) + (uint32_t)(step * 0x800));
      float near_b = __uint_as_float(__float_as_uint(b) + (uint32_t)(step * 0x4000));
      gpu_store(&half, near_h);
      wrong += half.bits != ct__ref_narrowed(CT_F16, near_h);
      gpu_store(&half, nextafterf(near_h, 0));
      wrong += half.bits != ct__ref_narrowed(CT_F16, nextafterf(near_h, 0));
      gpu_store(&half, near_b);
      wrong += half.bits != ct__ref_narrowed(CT_F16, near_b);
      gpu_store(&brain, near_b);
      wrong += brain.bits != ct__ref_narrowed(CT_BF16, near_b);
      gpu_store(&brain, nextafterf(near_b, INFINITY));
      wrong += brain.bits != ct__ref_narrowed(CT_BF16, nextafterf(near_b, INFINITY));
    }
  }
  CT_ASSERT_INT(wrong, 0);
}

CT_KERNEL void double_packs(int64_t n, float *x, int64_t shift)
{
  GPU_LOOP (i, n / gpu_pack<float>::n) {
    gpu_pack<float> p = gpu_load_pack(x + i * p.n + shift);
    for (int k = 0; k < p.n; k++)
      gpu_store(&p.v[k], 2 * gpu_load(&p.v[k]));
    gpu_store_pack(x + i * p.n + shift, p);
  }
}

static void packs(void)
{
  begin("random");
  for (int i = 0; i < 64; i++)
    numbers[i] = (float)i;
  CT_LAUNCH(double_packs, 1, 32, 0, 64, numbers, 0);
  expect_right();
  int wrong = 0;
  for (int i = 0; i < 64; i++)
    wrong += numbers[i] != 2 * (float)i;
  CT_ASSERT_INT(wrong, 0);
  CT_ASSERT_INT(gpu_is_aligned(numbers), 1);
  CT_ASSERT_INT(gpu_is_aligned(numbers + 1), 0);
  CT_LAUNCH(double_packs, 1, 32, 0, 32, numbers, 1);
  expect_fault("not aligned to 16 bytes", "kernel.h:");
  end();
}

/* ---- sums ---- */

CT_KERNEL void sums(int64_t n, const float *x, float *sum, double *exact, float *max)
{
  float s = 0, m = -INFINITY;
  for (int64_t i = gpu_thread(); i < n; i += gpu_threads()) {
    s += x[i];
    m = gpu_larger(m, x[i]);
  }
  double d = gpu_block_sum((double)s);
  s = gpu_block_sum(s);
  m = gpu_block_max(m);
  int64_t count = gpu_block_sum((int64_t)1);
  sum[gpu_thread()] = s + (float)(count - gpu_threads());
  exact[gpu_thread()] = d;
  max[gpu_thread()] = m;
}

static void block_sums(void)
{
  enum { N = 1000, THREADS = 192 };
  float first = 0;
  for (int o = 0; o < ORDERS; o++) {
    double *exact, right = 0;
    begin(orders[o]);
    cudaMalloc((void **)&exact, THREADS * sizeof *exact);
    for (int i = 0; i < N; i++) {
      numbers[i] = (float)(i * 7919 % N) / 977;
      right += numbers[i];
    }
    float *sum = numbers + N, *max = sum + THREADS;
    CT_LAUNCH(sums, 1, dim3(32, 3, 2), 0, N, numbers, sum, exact, max);
    expect_right();
    int wrong = 0;
    for (int i = 0; i < THREADS; i++)
      wrong += sum[i] != sum[0] || exact[i] != exact[0] || max[i] != 999.0f / 977;
    CT_ASSERT_INT(wrong, 0);
    CT_ASSERT_NEAR(sum[0], right, 1e-3);
    CT_ASSERT_NEAR(exact[0], right, 1e-3);
    if (o == 0) first = sum[0];
    CU_ASSERT(sum[0] == first); /* to the bit, in every order */
    numbers[500] = NAN;
    CT_LAUNCH(sums, 1, dim3(32, 3, 2), 0, N, numbers, sum, exact, max);
    CU_ASSERT(max[0] != max[0]);
    cudaFree(exact);
    end();
  }
}

CT_KERNEL void count_blocks(unsigned *counter, int *last)
{
  CT_SHARED(unsigned, before, 1);
  __threadfence();
  if (threadIdx.x == 0) before[0] = atomicAdd(counter, 1u);
  __syncthreads();
  if (before[0] == gridDim.x - 1) atomicAdd(last, 1);
}

static void last_block(void)
{
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    unsigned *counter = (unsigned *)numbers;
    int *last = (int *)numbers + 1;
    *counter = 0;
    *last = 0;
    CT_LAUNCH(count_blocks, 37, 32, 0, counter, last);
    expect_right();
    CT_ASSERT_INT(*counter, 37);
    CT_ASSERT_INT(*last, 32);
    end();
  }
}

/* The threads and the blocks really come in different orders. */
CT_KERNEL void take_numbers(unsigned *counter, unsigned *taken)
{
  taken[gpu_first()] = atomicAdd(counter, 1u);
}

static void orders_differ(void)
{
  enum { N = 6 * 64 };
  unsigned seen[ORDERS][N];
  for (int o = 0; o < ORDERS; o++) {
    begin(orders[o]);
    unsigned *counter = (unsigned *)numbers;
    *counter = 0;
    CT_LAUNCH(take_numbers, 6, 64, 0, counter, counter + 1);
    expect_right();
    memcpy(seen[o], counter + 1, sizeof *seen);
    end();
  }
  int wrong = 0;
  for (int i = 0; i < N; i++)
    wrong += seen[0][i] != (unsigned)i || seen[1][i] != (unsigned)(N - 1 - i);
  CT_ASSERT_INT(wrong, 0);
  for (int o = 1; o < ORDERS; o++)
    for (int p = 0; p < o; p++)
      CU_ASSERT(memcmp(seen[o], seen[p], sizeof *seen) != 0);
}

/* ---- launches ---- */

static void configurations(void)
{
  const struct {
    dim3 grid, block;
    cudaError_t code;
  } cases[] = {{1, 1024, cudaSuccess},
               {1, 1025, cudaErrorInvalidConfiguration},
               {0, 32, cudaErrorInvalidConfiguration},
               {1, 0, cudaErrorInvalidConfiguration},
               {dim3(1, 65536), 32, cudaErrorInvalidConfiguration},
               {dim3(1, 1, 65536), 32, cudaErrorInvalidConfiguration},
               {0x80000000u, 32, cudaErrorInvalidConfiguration},
               {1, dim3(1, 1, 65), cudaErrorInvalidConfiguration},
               {1, dim3(32, 32, 2), cudaErrorInvalidConfiguration}};
  begin("asc");
  for (const auto &c : cases) {
    CT_LAUNCH((add_number<float, 1>), c.grid, c.block, 0, 1, numbers);
    CT_ASSERT_INT(cudaPeekAtLastError(), c.code);
    CT_ASSERT_INT(cudaGetLastError(), c.code);
    CT_ASSERT_INT(cudaGetLastError(), cudaSuccess);
  }
  end();
}

struct pointers_t {
  float *at[2];
  int n;
};
CT_KERNEL void fill_all(pointers_t p)
{
  for (int i = 0; i < p.n; i++)
    p.at[i][threadIdx.x] = 7;
}

/* A GPU has no access to it; the emulator would. */
static void host_pointers(void)
{
  float *heap = (float *)malloc(64 * sizeof *heap);
  begin("asc");
  CT_LAUNCH((add_number<float, 1>), 1, 32, 0, 32, heap);
  CT_ASSERT_INT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  CT_ASSERT_INT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  if (!emu_has_asan) { /* in structs they are not looked for then */
    begin("asc");
    CT_LAUNCH(fill_all, 1, 32, 0, pointers_t{{numbers, heap}, 2});
    CT_ASSERT_INT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  }
  begin("asc");
  float *pinned;
  cudaHostAlloc((void **)&pinned, 128, cudaHostAllocDefault);
  cudaHostRegister(heap, 64 * sizeof *heap, cudaHostRegisterDefault);
  CT_LAUNCH(fill_all, 1, 32, 0, pointers_t{{numbers, pinned}, 2});
  CT_LAUNCH(fill_all, 1, 32, 0, pointers_t{{heap, heap + 32}, 2});
  expect_right();
  CU_ASSERT(pinned[31] == 7 && heap[63] == 7);
  cudaHostUnregister(heap);
  cudaFreeHost(pinned);
  free(heap);
  end();
}

/* ---- what the sanitizer finds ---- */

#if defined(__SANITIZE_ADDRESS__)
#  define WITH_ASAN 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define WITH_ASAN 1
#  endif
#endif

CT_KERNEL void no_bound(float *x)
{
  x[gpu_first()] = 1;
}
CT_KERNEL void beyond_shared(float *x)
{
  CT_SHARED(float, kept, 32);
  CT_SHARED(float, other, 32);
  kept[threadIdx.x + 1] = 1;
  other[threadIdx.x] = 2;
  __syncthreads();
  x[0] = kept[0] + other[0];
}

#ifdef WITH_ASAN
/* 1 if a child that does it is ended by the sanitizer. */
static int is_caught(void (*launch)(void))
{
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(0);
    launch();
    _exit(0);
  }
  waitpid(child, &status, 0);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
#endif

static void launch_no_bound(void)
{
  CT_LAUNCH(no_bound, ROOM / 32 + 1, 32, 0, numbers);
}
static void launch_beyond_shared(void)
{
  CT_LAUNCH(beyond_shared, 1, 32, 0, numbers);
}
static void launch_right(void)
{
  CT_LAUNCH((add_number<float, 1>), 4, 256, 0, ROOM, numbers);
}

static void bounds(void)
{
  begin("random");
#ifdef WITH_ASAN
  CT_ASSERT_INT(is_caught(launch_right), 0);
  CT_ASSERT_INT(is_caught(launch_no_bound), 1);
  CT_ASSERT_INT(is_caught(launch_beyond_shared), 1);
#else
  (void)launch_no_bound, (void)launch_beyond_shared, (void)launch_right;
  ct_test_skip("built without -fsanitize=address");
#endif
  end();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(elements),
                                    CT_TEST(pixels),
                                    CT_TEST(low_types),
                                    CT_TEST(packs),
                                    CT_TEST(block_sums),
                                    CT_TEST(last_block),
                                    CT_TEST(orders_differ),
                                    CT_TEST(configurations),
                                    CT_TEST(host_pointers),
                                    CT_TEST(bounds),
                                    CT_TEST_END};
  return ct_test_main("emulator", tests, argc, argv);
}
