/** \file emu.h  Emulates CUDA device code with the host's C++ compiler; cuda/kernels/kernel.h
 * includes it in place of nvcc's headers.
 *
 * A kernel is an ordinary function here.  The threads of a block run one after another.  Each runs
 * until it ends or reaches a barrier or a shuffle; there it is suspended on its own stack until the
 * other threads arrive (emu.cc).  The order of threads and blocks is set by
 *
 *     CTRAIN_EMU_ORDER=asc | desc | random[:seed]      (default random:1, another one each launch)
 *
 * and a correct kernel gives the same bits in every order.  The emulator detects: barriers and
 * shuffles that not all threads reach, or that they reach at different lines; shuffles from lanes
 * outside the mask; reads of uninitialized shared memory (it is filled with NaN at the start of a
 * block); more than 48 KB of shared memory; unaligned vector accesses; with -fsanitize=address also
 * accesses out of bounds.  The first fault of a launch is printed with kernel, block, thread, file
 * and line; the launch then ends, and the fake runtime returns cudaErrorLaunchFailure from then on.
 *
 * It does not detect: races between two barriers, unless an order exposes them; speed problems;
 * effects of nvcc or of the GPU's arithmetic. */
#ifndef EMU_H
#define EMU_H
#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <math.h>
#include <vector_functions.h>

/* ---- the running thread ---- */

struct emu_thread_t {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
};
extern struct emu_thread_t emu_now;
#define threadIdx (emu_now.thread)
#define blockIdx  (emu_now.block)
#define blockDim  (emu_now.block_dim)
#define gridDim   (emu_now.grid_dim)
static const int warpSize = 32;

#undef __launch_bounds__
#define __launch_bounds__(...)
#define CT_KERNEL static
#define CT_D      static inline
#define CT_HD     static inline

/* ---- launches ---- */

/** A kernel with its arguments: body(args) runs one thread. */
struct emu_kernel_t {
  const char *name;
  dim3 grid, block;
  void (*body)(const void *args);
};

/** Local.  Runs all threads of a launch; concurrent launches wait.  Returns 0, or 1 after a fault,
 * whose text emu_fault() returns until the next launch. */
int emu_run(const emu_kernel_t *kernel, const void *args);
const char *emu_fault(void);
/** Sets the order of threads and blocks as CTRAIN_EMU_ORDER does; NULL: reads the environment
 * again. */
void emu_order(const char *order);

/** Part of the fake runtime (fake_cuda.h): enqueues a launch with a copy of its arguments.  Before
 * that, emu_see_*() check each argument: a kernel must not get a pointer to pageable host memory,
 * neither as an argument nor inside a struct. (Inside a struct, pointers to the host's stack are
 * accepted, since they may be uninitialized padding.) */
void emu_enqueue(cudaStream_t stream, const emu_kernel_t *kernel, const void *args, size_t bytes);
void emu_see_pointer(const char *kernel, const void *p);
void emu_see_words(const char *kernel, const void *words, size_t bytes);
extern const bool emu_has_asan; /* 1: this build has the address sanitizer */

template <class T> static inline void emu_see(const char *kernel, T *p)
{
  emu_see_pointer(kernel, (const void *)p);
}
template <class T> static inline void emu_see(const char *kernel, const T &v)
{
  if constexpr (__is_class(T)) emu_see_words(kernel, &v, sizeof v);
  (void)kernel, (void)v;
}

template <class T> struct emu_same {
  typedef T type;
};
/* Converts the arguments to the parameter types P of the kernel, as a call does. */
template <auto K, class... P>
static inline void emu_launch(void (*)(P...), const char *name, dim3 grid, dim3 block,
                              cudaStream_t stream, typename emu_same<P>::type... args)
{
  auto bound = [args...] { K(args...); };
  static_assert(__is_trivially_copyable(decltype(bound)), "arguments of a kernel are plain data");
  static_assert(sizeof bound <= 4096, "too many bytes of arguments for a kernel");
  emu_kernel_t kernel = {name, grid, block, [](const void *p) { (*(const decltype(bound) *)p)(); }};
  (emu_see(name, args), ...);
  emu_enqueue(stream, &kernel, &bound, sizeof bound);
}
#define CT_LAUNCH(kernel, grid, block, stream, ...) \
  emu_launch<kernel>(kernel, #kernel, dim3(grid), dim3(block), (stream), __VA_ARGS__)

/* ---- shared memory ---- */

/** Address of a shared array in the current block. */
struct emu_shared_t {
  uint64_t block;
  unsigned char *at;
};
extern uint64_t emu_block_number; /**< number of the current block, from 1 */
unsigned char *emu_shared_new(emu_shared_t *place, size_t bytes, const char *file, int line);
static inline unsigned char *emu_shared(emu_shared_t *place, size_t bytes, const char *file,
                                        int line)
{
  return place->block == emu_block_number ? place->at : emu_shared_new(place, bytes, file, line);
}
/* One static object per declaration, and per template instance. */
#define CT_SHARED(T, name, n)              \
  static emu_shared_t emu_place_of_##name; \
  T(&name)[n] = *(T(*)[n])emu_shared(&emu_place_of_##name, sizeof(T) * (n), __FILE__, __LINE__)

/* ---- barriers and warp operations ---- */

enum emu_join_t { EMU_SYNCTHREADS, EMU_SYNCWARP, EMU_SHUFFLE, EMU_BALLOT };

/** Waits for all threads of the block, which must arrive at the same line.  Returns the number of
 * threads with a nonzero \a vote. */
int emu_join_block(int vote, const char *file, int line);
/** Waits for the lanes of the mask, each with a value of at most 8 bytes.  Returns the value of \a
 * lane, or for EMU_BALLOT the mask of lanes with a nonzero value. */
uint64_t emu_join_warp(emu_join_t what, unsigned mask, uint64_t value, int lane, const char *file,
                       int line);
/** Reports a fault of the running thread and ends the launch. */
[[noreturn]] void emu_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int emu_lane(void);

template <class T>
static inline T emu_shuffle(unsigned mask, T v, int lane, const char *file, int line)
{
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA shuffles 4 or 8 bytes");
  uint64_t value = 0;
  memcpy(&value, &v, sizeof v);
  value = emu_join_warp(EMU_SHUFFLE, mask, value, lane, file, line);
  memcpy(&v, &value, sizeof v);
  return v;
}
/* A source lane outside the warp means the lane itself, as in CUDA. */
template <class T>
static inline T emu_shuffle_to(unsigned mask, T v, int lane, const char *file, int line)
{
  return emu_shuffle(mask, v, lane < 0 || lane > 31 ? emu_lane() : lane, file, line);
}
static inline unsigned emu_ballot(unsigned mask, int vote, const char *file, int line)
{
  return (unsigned)emu_join_warp(EMU_BALLOT, mask, vote != 0, emu_lane(), file, line);
}
static inline void emu_syncwarp(const char *file, int line, unsigned mask = 0xffffffffu)
{
  emu_join_warp(EMU_SYNCWARP, mask, 0, emu_lane(), file, line);
}

#define __syncthreads()          ((void)emu_join_block(0, __FILE__, __LINE__))
#define __syncthreads_count(p)   emu_join_block((p) != 0, __FILE__, __LINE__)
#define __syncthreads_or(p)      (emu_join_block((p) != 0, __FILE__, __LINE__) != 0)
#define __syncthreads_and(p)     (emu_join_block((p) == 0, __FILE__, __LINE__) == 0)
#define __syncwarp(...)          emu_syncwarp(__FILE__, __LINE__, ##__VA_ARGS__)
#define __shfl_sync(m, v, lane)  emu_shuffle((m), (v), (lane)&31, __FILE__, __LINE__)
#define __shfl_xor_sync(m, v, x) emu_shuffle_to((m), (v), emu_lane() ^ (x), __FILE__, __LINE__)
#define __shfl_down_sync(m, v, d) \
  emu_shuffle_to((m), (v), emu_lane() + (int)(d), __FILE__, __LINE__)
#define __shfl_up_sync(m, v, d) emu_shuffle_to((m), (v), emu_lane() - (int)(d), __FILE__, __LINE__)
#define __ballot_sync(m, p)     emu_ballot((m), (p) ? 1 : 0, __FILE__, __LINE__)
#define __any_sync(m, p)        (emu_ballot((m), (p) ? 1 : 0, __FILE__, __LINE__) != 0)
#define __all_sync(m, p)        (emu_ballot((m), (p) ? 0 : 1, __FILE__, __LINE__) == 0)
#define __threadfence()         ((void)0)
#define __threadfence_block()   ((void)0)

/* ---- integer atomics; floating-point ones would make sums depend on the order ---- */

template <class T> static inline T emu_integer(T v)
{
  static_assert(T(1) / T(2) == T(0), "no atomics of floats: their sum has no fixed order");
  return v;
}
template <class T> static inline T atomicAdd(T *p, T v)
{
  T old = emu_integer(*p);
  *p = old + v;
  return old;
}
template <class T> static inline T atomicMax(T *p, T v)
{
  T old = emu_integer(*p);
  *p = v > old ? v : old;
  return old;
}
template <class T> static inline T atomicOr(T *p, T v)
{
  T old = *p;
  *p = old | v;
  return old;
}
template <class T> static inline T atomicExch(T *p, T v)
{
  T old = *p;
  *p = v;
  return old;
}

/* ---- intrinsics ---- */

/* macros, since the C library has internal functions with these names */
#define __expf(v) expf(v)
#define __logf(v) logf(v)

template <class T> static inline T __ldg(const T *p)
{
  return *p;
}
template <class T> static inline T min(T a, T b)
{
  return b < a ? b : a;
}
template <class T> static inline T max(T a, T b)
{
  return a < b ? b : a;
}
static inline int __popc(unsigned v)
{
  return __builtin_popcount(v);
}
static inline int __popcll(unsigned long long v)
{
  return __builtin_popcountll(v);
}
static inline int __clz(int v)
{
  return v ? __builtin_clz((unsigned)v) : 32;
}
static inline int __ffs(int v)
{
  return __builtin_ffs(v);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
  return (unsigned)((uint64_t)a * b >> 32);
}
static inline float rsqrtf(float v)
{
  return 1 / sqrtf(v);
}
static inline double rsqrt(double v)
{
  return 1 / sqrt(v);
}
static inline float __fdividef(float a, float b)
{
  return a / b;
}
static inline float __fadd_rn(float a, float b)
{
  return a + b;
}
static inline float __fmul_rn(float a, float b)
{
  return a * b;
}
static inline float __fmaf_rn(float a, float b, float c)
{
  return fmaf(a, b, c);
}
static inline int __float_as_int(float v)
{
  int bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}
static inline unsigned __float_as_uint(float v)
{
  return (unsigned)__float_as_int(v);
}
static inline float __uint_as_float(unsigned bits)
{
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}
static inline float __int_as_float(int bits)
{
  return __uint_as_float((unsigned)bits);
}

/* ---- bf16 and fp16: round to nearest even, same bits as src/ref/ref_low.c ---- */

static inline float emu_f16_float(uint16_t bits)
{
  uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
           fraction = bits & 1023;
  if (exponent == 0) return (sign ? -0x1p-24f : 0x1p-24f) * (float)fraction;
  exponent = exponent == 31 ? 255 : exponent + 112; /* infinity or NaN; otherwise changes the
                                                       exponent bias */
  return __uint_as_float(sign | exponent << 23 | fraction << 13);
}
static inline uint16_t emu_f16_of(float v)
{
  uint32_t bits = __float_as_uint(v), size = bits & 0x7fffffff;
  uint16_t sign = bits >> 16 & 0x8000;
  if (v != v) return 0x7e00;
  if (size >= 0x477ff000) return sign | 0x7c00; /* 65520 and above become infinity */
  if (size < 0x38800000) {                      /* below 2^-14: subnormal, rounded by adding 0.5 */
    return sign | (uint16_t)(__float_as_uint(fabsf(v) + 0.5f) - 0x3f000000);
  }
  return sign | (uint16_t)((size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13);
}
static inline uint16_t emu_bf16_of(float v)
{
  uint32_t bits = __float_as_uint(v);
  if (v != v) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define emu_aligned(p, bytes)                                                                    \
  ((uintptr_t)(p) % (bytes) ? emu_fail(__FILE__, __LINE__, "%s = %p is not aligned to %d bytes", \
                                       #p, (const void *)(p), (int)(bytes))                      \
                            : (void)0)

#endif
