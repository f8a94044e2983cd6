/** \file kern/op.h  What an op of the CPU backend is, and what all its files share.
 * Module-internal.
 *
 * The backend (cpu/backend.c) owns the device and dispatches each op by its kind to a table of the
 * type below; a kind lives in one file: what is mostly products on top (conv/conv.c, linear.c, …),
 * the rest by hand in this folder.  A new kind of CT_OP_LIST wants its table, cpu__<word>. */
#ifndef CT_KERN_OP_H
#define CT_KERN_OP_H
#include "backend/ct_backend.h"

/** Instruction sets that own kernels are written for, each including those before it.  The one to
 * use is dev->isa: what the processor has, limited by oneDNN's variable ONEDNN_MAX_CPU_ISA, so that
 * one switch governs library and kernels alike. */
typedef enum {
  CPU__PORTABLE,
  CPU__AVX2 /**< and FMA */,
  CPU__AVX512 /**< F, BW, DQ, VL */
} cpu__isa_t;

/** 1: what is "portable" is compiled for NEON, which every 64-bit ARM processor has: four floats,
 * 32 registers, fused multiply-adds. */
#ifdef __aarch64__
#  define CPU__NEON 1
#else
#  define CPU__NEON 0
#endif

struct ct_dev {
  /** OpenMP threads of every parallel region: the backend sets them before each call of a table
   * below, so a plain `#pragma omp parallel for` is right. */
  int threads;
  int conv_direct;
  cpu__isa_t isa;
  double bf16_rate; /**< speed of oneDNN's products of bfloat16 against those of float32; 0: none */
  struct cpu__dnnl *dnnl; /**< folder onednn */
  float *packing;         /**< of each thread, one after the other: cpu/gemm/gemm_blocked.h */
  char describe[96];
};

typedef struct cpu__op_kind cpu__op_kind_t;

/** Header of every prepared op; a kind's own struct begins with it. */
struct ct_op {
  const cpu__op_kind_t *kind;
  ct_dev_t *dev;
  ct_op_desc_t desc;                /**< y.layout holds info->y_layout once prepared */
  size_t param_bytes[CT_OP_PARAMS]; /**< as in ct_op_info_t */
};

/** One kind of op.  Meanings are those of ct_op_ops_t; the backend checks arguments, allocates, and
 * frees. */
struct cpu__op_kind {
  size_t size; /**< of the kind's own struct: allocated zeroed by the backend, header filled */
  int bf16;    /**< x and y may both be CT_BF16; a cast: one of them */
  int plain;   /**< 1: works in the plain layout only, and wants it */
  /* what is left to refuse: the descriptor is sound, types and `plain` fit; NULL: nothing */
  int (*supports)(ct_dev_t *dev, const ct_op_desc_t *d, char why[128]);
  /* NULL: the layout that is offered */
  ct_layout_t (*wants)(ct_dev_t *dev, const ct_op_desc_t *d);
  /* fills op and info; info comes as ct_op_info_of() with algorithm "by hand".  like: of the same
   * kind, or NULL.  On failure clear() is called.  NULL: nothing to do */
  int (*prepare)(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info);
  /* 1: an op of bfloat16 is better done in float32 on copies of its activations (storage.c).  Does
   * not depend on the batch size.  NULL: never */
  int (*stores)(ct_dev_t *dev, const ct_op_desc_t *d);
  /* Hot; complete on return */
  int (*run)(ct_op_t *op, const ct_op_args_t *a);
  /* frees what prepare made besides the struct itself; may see a half-prepared op; NULL: nothing */
  void (*clear)(ct_op_t *op);
  /* NULL: the own layout is the plain one (param_bytes are copied) */
  int (*pack)(ct_op_t *op, int param, const float *plain, void *own);
  int (*unpack)(ct_op_t *op, int param, const void *own, float *plain);
};

/** A table for each kind, cpu__<word>. */
#define X(name, word, ...) extern const cpu__op_kind_t cpu__##word;
CT_OP_LIST(X)
#undef X

/** y = x + x2 (x2 may be NULL, y may be either), then ReLU, of tensors in one layout. */
void cpu__add_of(const ct_dev_t *dev, const ct_shape_t *s, const void *x, const void *x2, void *y,
                 int relu);
/** ReLU in place. */
void cpu__relu_of(const ct_dev_t *dev, const ct_shape_t *s, void *x);
/** Hot.  Sums over the rows of x [rows, columns], in double and in the order of the rows. */
void cpu__column_sums(const ct_dev_t *dev, int64_t rows, int64_t columns, const float *x,
                      float *sums);

/** An activation as n x groups x inner x lanes elements, whatever its layout: channel c lies in
 * group c / lanes, lane c % lanes; inner counts the pixels.  Plain: lanes 1; NHWC: one group of C
 * lanes; blocked: lanes 8 or 16, and the last group's lanes beyond c are padding. */
typedef struct cpu__view {
  int64_t n, groups, inner, lanes;
  int64_t c; /**< channels without padding */
} cpu__view_t;

/** Channels side by side in a block; 1 in the other layouts. */
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

/** Elements lie as in the plain layout. */
static inline int cpu__is_plain(const ct_shape_t *s)
{
  return s->layout == CT_PLAIN || (s->layout == CT_NHWC && cpu__view(s).inner == 1);
}

/** Where pixel 0 of channel c of an image lies; the next pixel is v->lanes further. */
static inline int64_t cpu__pixels(const cpu__view_t *v, int64_t image, int64_t c)
{
  return (image * v->groups + c / v->lanes) * v->inner * v->lanes + c % v->lanes;
}

/** The blocked layout that fits the device's vectors: CT_C16 with AVX-512, else CT_C8. */
static inline ct_layout_t cpu__blocked(const ct_dev_t *dev)
{
  return dev->isa == CPU__AVX512 ? CT_C16 : CT_C8;
}

/** A thread's part of a flat range; begins at a cache line of an aligned tensor. */
typedef struct cpu__part {
  int64_t first, count;
} cpu__part_t;

static inline cpu__part_t cpu__part(int64_t count, int parts, int k)
{
  int64_t size = ((count + parts - 1) / parts + 31) / 32 * 32, first = k * size;
  if (first >= count) return (cpu__part_t){0, 0};
  return (cpu__part_t){first, count - first < size ? count - first : size};
}

/** Below this many elements a parallel region costs more than it saves:
 * `#pragma omp parallel for if (count > CPU__PARALLEL_MIN)`. */
#define CPU__PARALLEL_MIN 8192

static inline int cpu__is_parallel(const ct_shape_t *s)
{
  return ct_shape_padded(s) > CPU__PARALLEL_MIN;
}

/** Above this many bytes a tensor that is written once is better stored around the caches. */
#define CPU__STREAM_MIN (8 << 20)

#endif
