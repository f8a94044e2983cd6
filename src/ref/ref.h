/** \file ref.h  Internals of the reference backend: its objects, and one table per kind of op.
 *
 * The code is written for readability: plain layouts, one loop per dimension, sums in double,
 * results rounded once when they are stored in the type of the activation.  Parameters are float32.
 * Nothing is optimized. */
#ifndef CT_REF_INTERNAL_H
#define CT_REF_INTERNAL_H
#include <pthread.h>

#include "base/ct_err.h"
#include "backend/ct_backend.h"

/** When enqueued work runs (CTRAIN_REF_ORDER). */
typedef enum {
  CT_REF_INLINE, /**< immediately */
  CT_REF_LATE,   /**< when it is waited for */
  CT_REF_RANDOM  /**< at a random time between enqueueing and waiting, queues in random order */
} ct__ref_order_t;

struct ct_dev {
  ct__ref_order_t order;
  uint64_t seed;        /**< seed of the random order */
  uint64_t drawn;       /**< number of random numbers drawn so far */
  ct_queue_t *queues;   /**< list of existing queues */
  pthread_mutex_t lock; /**< protects all queues and events: a data thread may have its own queue */
  char description[64];
};

/** The implementation of a kind of op. */
typedef struct ct__ref_kind {
  /** Changes the defaults of ct_op_info_of(); NULL: no changes. */
  void (*needs)(const ct_op_desc_t *d, ct_op_info_t *info);
  int (*run)(const ct_op_desc_t *d, const ct_op_args_t *a);
  int reduced; /**< 1: supports bf16 and fp16; 0: float32 only, because of its sums */
} ct__ref_kind_t;

struct ct_op {
  const ct__ref_kind_t *kind;
  ct_op_desc_t desc;
  ct_op_info_t info;
};

/** One table per kind, ct__ref_<word>. */
#define X(name, word, ...) extern const ct__ref_kind_t ct__ref_##word;
CT_OP_LIST(X)
#undef X
extern const ct__ref_kind_t ct__ref_int8; /**< int8 versions of all kinds */

/** The tables, indexed by kind. */
extern const ct__ref_kind_t *const ct__ref_kinds[CT_OP_COUNT];

extern const ct_queue_ops_t ct__ref_queue_ops;
extern const ct_op_ops_t ct__ref_op_ops;

/** Writes element i of the gradient of parameter k, or adds to it. */
static inline void ct__ref_gradient(const ct_op_args_t *a, int k, int64_t i, double v)
{
  float *dw = a->dw[k];
  dw[i] = (float)(a->adds_dw ? dw[i] + v : v);
}

/** Convert from and to bf16 or fp16, rounding to nearest (ref_low.c). */
double ct__ref_widened(ct_dtype_t reduced, uint16_t bits);
uint16_t ct__ref_narrowed(ct_dtype_t reduced, double v);

/** A window over 3 dims: depth, height, width; 2-dim windows have depth 1. */
typedef struct ct__ref_window {
  int64_t in[3], out[3];
  int kernel[3], stride[3], pad[3], dilate[3];
} ct__ref_window_t;

/** Returns the window of a convolution or pooling over d->x, extended to 3 dims; \a dilate NULL:
 * all
 * 1. */
ct__ref_window_t ct__ref_window(const ct_op_desc_t *d, const int kernel[3], const int stride[3],
                                const int pad[3], const int dilate[3]);
/** Returns the product of the three sizes. */
static inline int64_t ct__ref_volume(const int64_t size[3])
{
  return size[0] * size[1] * size[2];
}

/** Enqueues an op, or runs it immediately, depending on the device's order. */
int ct__ref_enqueue_run(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args);
/** Enqueues a copy; \a src NULL: writes zeros. */
int ct__ref_enqueue_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes);

/** Returns element i of a float32, bf16 or fp16 activation. */
static inline double ct__ref_get(ct_dtype_t t, const void *p, int64_t i)
{
  if (t == CT_F32) return ((const float *)p)[i];
  return ct__ref_widened(t, ((const uint16_t *)p)[i]);
}

/** Stores v as element i, rounded to nearest, ties to even; infinity on overflow. */
static inline void ct__ref_set(ct_dtype_t t, void *p, int64_t i, double v)
{
  if (t == CT_F32)
    ((float *)p)[i] = (float)v;
  else
    ((uint16_t *)p)[i] = ct__ref_narrowed(t, v);
}

/** Returns element i of the parameter w as an op of type t uses it: convolutions and GEMMs round
 * the parameter to t first, as torch.autocast does. */
static inline double ct__ref_weight(ct_dtype_t t, const float *w, int64_t i)
{
  return t == CT_F32 ? w[i] : ct__ref_widened(t, ct__ref_narrowed(t, w[i]));
}

/** Returns PyTorch's ReLU of v: NaN stays NaN. */
static inline double ct__ref_relu_of(double v)
{
  return v <= 0 ? 0 : v;
}

#endif
