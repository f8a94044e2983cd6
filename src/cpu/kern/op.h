/** \file kern/op.h  Ops of the CPU backend: common types and helpers.  Module-internal.
 *
 * The backend (cpu/backend.c) owns the device and dispatches each op by its kind to a table of the
 * type below.  Each kind has one file: kinds built on GEMMs and convolutions are in the folder
 * above (conv/conv.c, linear.c, …), the other kinds in this folder.  A new kind in CT_OP_LIST needs
 * a table cpu__<word>. */
#ifndef CT_KERN_OP_H
#define CT_KERN_OP_H
#include "backend/ct_backend.h"

/** Instruction sets that have kernels; each includes those before it.  dev->isa is what the
 * processor has, limited by oneDNN's variable ONEDNN_MAX_CPU_ISA, so that one switch controls
 * library and kernels. */
typedef enum {
  CPU__PORTABLE,
  CPU__AVX2 /**< and FMA */,
  CPU__AVX512 /**< F, BW, DQ, VL */
} cpu__isa_t;

/** 1: "portable" code is compiled for NEON, which every 64-bit ARM processor has: four floats, 32
 * registers, fused multiply-adds. */
#ifdef __aarch64__
#  define CPU__NEON 1
#else
#  define CPU__NEON 0
#endif

struct ct_dev {
  /** OpenMP threads of every parallel region.  The backend sets the team size before each call of a
   * table below, so a plain `#pragma omp parallel for` is correct. */
  int threads;
  int conv_direct;
  cpu__isa_t isa;
  double bf16_rate;       /**< throughput of oneDNN's bf16 GEMMs relative to float32; 0: none */
  struct cpu__dnnl *dnnl; /**< folder onednn */
  float *packing;         /**< packing buffers of all threads, one after the other:
                               cpu/gemm/gemm_blocked.h */
  char describe[96];
};

typedef struct cpu__op_kind cpu__op_kind_t;

/** Header of every prepared op; the struct of each kind begins with it. */
struct ct_op {
  const cpu__op_kind_t *kind;
  ct_dev_t *dev;
  ct_op_desc_t desc;                /**< y.layout equals info->y_layout once prepared */
  size_t param_bytes[CT_OP_PARAMS]; /**< as in ct_op_info_t */
};

/** One kind of op; entries as in ct_op_ops_t.  The backend checks arguments, allocates, and
 * frees. */
struct cpu__op_kind {
  size_t size; /**< size of the kind's own struct; the backend allocates it zeroed and fills the
                    header */
  int bf16;    /**< 1: x and y may both be CT_BF16; a cast: one of them */
  int plain;   /**< 1: only works in the plain layout, and asks for it */
  /* checks the limits of the kind; the descriptor is already valid, and types and `plain` are
   * checked; NULL: no further limits */
  int (*supports)(ct_dev_t *dev, const ct_op_desc_t *d, char why[128]);
  /* as ct_op_ops_t.wants; NULL: accepts the layout d->x.layout */
  ct_layout_t (*wants)(ct_dev_t *dev, const ct_op_desc_t *d);
  /* fills op and info; on entry info is the result of ct_op_info_of() with algorithm "by hand".
   * like: an op of the same kind, or NULL.  On failure the backend calls clear().  NULL: nothing to
   * do */
  int (*prepare)(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info);
  /* returns 1 if a bf16 op runs faster in float32 on converted copies of its activations
   * (storage.c, in_floats.c); must not depend on the batch size.  NULL: never */
  int (*stores)(ct_dev_t *dev, const ct_op_desc_t *d);
  /* Hot.  runs the op; synchronous */
  int (*run)(ct_op_t *op, const ct_op_args_t *a);
  /* frees what prepare made besides the struct itself; must accept a half-prepared op; NULL:
   * nothing to free */
  void (*clear)(ct_op_t *op);
  /* as in ct_op_ops_t; NULL: the op's own layout is the plain one, and param_bytes are copied */
  int (*pack)(ct_op_t *op, int param, const float *plain, void *own);
  int (*unpack)(ct_op_t *op, int param, const void *own, float *plain);
};

/** One table per kind, cpu__<word>. */
#define X(name, word, ...) extern const cpu__op_kind_t cpu__##word;
CT_OP_LIST(X)
#undef X

/** The value of cpu__op_kind.stores of kinds that compute in float32 only. */
static inline int cpu__always(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  (void)d;
  return 1;
}
/** Returns the table of a kind. */
const cpu__op_kind_t *cpu__kind_of(ct_op_kind_t kind);
/** Computes y = x + x2, then optional ReLU; all tensors have the same layout.  x2 may be NULL, y
 * may equal x or x2. */
void cpu__add_of(const ct_dev_t *dev, const ct_shape_t *s, const void *x, const void *x2, void *y,
                 int relu);
/** Applies ReLU in place. */
void cpu__relu_of(const ct_dev_t *dev, const ct_shape_t *s, void *x);
/** Hot.  Computes the column sums of x [rows, columns], in double and in the order of the rows. */
void cpu__column_sums(const ct_dev_t *dev, int64_t rows, int64_t columns, const float *x,
                      float *sums);

/** An activation in any layout, seen as n x groups x inner x lanes elements.  A lane is one of the
 * channels that are adjacent in memory; channel c is in group c / lanes at lane c % lanes; inner is
 * the number of pixels.  Plain layout: 1 lane; NHWC: one group of C lanes; blocked: 8 or 16 lanes,
 * and in the last group the lanes beyond the last channel are padding. */
typedef struct cpu__view {
  int64_t n, groups, inner, lanes;
  int64_t c; /**< channels without padding */
} cpu__view_t;

/** Returns the channels per block of a blocked layout; 1 for other layouts. */
static inline int cpu__lanes(ct_layout_t layout)
{
  return layout == CT_C16 ? 16 : layout == CT_C8 ? 8 : 1;
}

static inline cpu__view_t cpu__view(const ct_shape_t *s)
{
  cpu__view_t v = {.n = s->dim[0], .c = s->ndim > 1 ? s->dim[1] : 1, .inner = 1};
  for (int i = 2; i < s->ndim; i++)
    v.inner *= s->dim[i];
  v.lanes = s->layout == CT_NHWC ? v.c : cpu__lanes(s->layout);
  v.groups = (v.c + v.lanes - 1) / v.lanes;
  return v;
}

/** Returns 1 if the elements are in the order of the plain layout. */
static inline int cpu__is_plain(const ct_shape_t *s)
{
  return s->layout == CT_PLAIN || (s->layout == CT_NHWC && cpu__view(s).inner == 1);
}

/** Returns the offset of pixel 0 of channel c of an image; the next pixel is v->lanes further. */
static inline int64_t cpu__pixels(const cpu__view_t *v, int64_t image, int64_t c)
{
  return (image * v->groups + c / v->lanes) * v->inner * v->lanes + c % v->lanes;
}

/** Returns the blocked layout for the device's vectors: CT_C16 with AVX-512, else CT_C8. */
static inline ct_layout_t cpu__blocked(const ct_dev_t *dev)
{
  return dev->isa == CPU__AVX512 ? CT_C16 : CT_C8;
}

/** A thread's part of a flat range; it begins at a cache line of an aligned tensor. */
typedef struct cpu__part {
  int64_t first, count;
} cpu__part_t;

static inline cpu__part_t cpu__part(int64_t count, int parts, int k)
{
  int64_t size = ((count + parts - 1) / parts + 31) / 32 * 32, first = k * size;
  if (first >= count) return (cpu__part_t){0, 0};
  return (cpu__part_t){first, count - first < size ? count - first : size};
}

/** Minimum number of elements for which a parallel region pays off: `#pragma omp parallel for if
 * (count > CPU__PARALLEL_MIN)`. */
#define CPU__PARALLEL_MIN 8192

static inline int cpu__is_parallel(const ct_shape_t *s)
{
  return ct_shape_padded(s) > CPU__PARALLEL_MIN;
}

/** Size in bytes above which non-temporal stores are faster for a tensor that is written once. */
#define CPU__STREAM_MIN (8 << 20)

#endif
