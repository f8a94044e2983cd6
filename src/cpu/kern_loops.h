/** \file kern_loops.h  The inner loops of the own kernels.  Module-internal.
 *
 * A loop works on one piece of a tensor for one thread; it knows neither threads nor layouts.
 * The loops are written once, in kern_body_*.h, over a vector of CPU__VW floats (kern_vec.h),
 * and compiled once for each instruction set, in kern_isa_*.c; each of these gives one table of
 * the type below.  The kernels (kern_bnorm.c, kern_pool.c, ...) cut tensors into pieces, share
 * them out among the threads, and call the table that fits. */
#ifndef CT_KERN_LOOPS_H
#define CT_KERN_LOOPS_H
#include "backend/ct_dropout.h"
#include "backend/ct_update.h"
#include "cpu/cpu_ops.h"

/** Most floats of a vector. */
#define CPU__LANES_MAX 16

/** A piece of an activation: rows x width floats, rows `stride` floats apart.  Lane j of each
 * vector of a row belongs to the j-th channel of the piece, or every lane to its only channel. */
typedef struct cpu__rows {
  int64_t rows, width, stride;
} cpu__rows_t;

/** What batch normalisation knows of the channels of a piece: vectors that follow each other. */
enum {
  CPU__BN_MEAN,
  CPU__BN_SCALE, /**< weight / std */
  CPU__BN_BIAS,
  CPU__BN_DY_MEAN,  /**< backward: mean of dy */
  CPU__BN_DY_SLOPE, /**< backward: mean of dy * (x - mean), over the variance */
  CPU__BN_COEFS
};

/** Its sums over a piece, likewise. */
enum {
  CPU__BN_SUM,   /**< forward: of x - shift; backward: of dy */
  CPU__BN_DOT,   /**< forward: of (x - shift)^2; backward: of dy * (x - mean) */
  CPU__BN_SHIFT, /**< forward only: a value of the piece, so near its mean that nothing cancels */
  CPU__BN_SUMS
};

typedef struct cpu__bn_fwd {
  const float *x, *x2; /**< x2: NULL or the second summand */
  float *y;
  int relu, stream;
} cpu__bn_fwd_t;

/** How the backward pass knows what the fused ReLU cut off. */
typedef enum {
  CPU__MASK_NONE,
  CPU__MASK_X /**< computes y anew from x */,
  CPU__MASK_Y
} cpu__mask_t;

typedef struct cpu__bn_bwd {
  const float *x, *y, *dy, *dy2; /**< dy2: NULL or the second summand */
  float *dx, *dx2;               /**< or NULL; dx2: the masked gradient */
  cpu__mask_t mask;
  int stream, stream2; /**< of dx, dx2 */
} cpu__bn_bwd_t;

/** Pooling over one image of one vector of channels.  Windows are clipped to the image.  [0] is
 * along the height, [1] along the width. */
typedef struct cpu__pool {
  int64_t in[2], out[2];
  int kernel[2], stride[2], pad[2];
  int32_t (*cover[2])[2]; /**< for each input row (column) the first and last window over it */
  float *share[2];        /**< average: for each window 1 / the rows (columns) it counts */
  int tiles;              /**< the windows tile the image: none overlap, and no pixel is left out */
  int relu;
} cpu__pool_t;

/** One vector of channels within a layout. */
typedef struct cpu__pixels {
  int64_t step; /**< floats from one pixel to the next */
  int lanes;    /**< channels that are there; the vector's others are 0 and not stored */
} cpu__pixels_t;

/** A window's place that no window has: the fused ReLU cut the output off. */
#define CPU__POOL_NONE 255

/** What an optimizer rule works on. */
typedef struct cpu__update {
  ct_rule_t rule;
  ct_hyper_t hyper;
  ct_grad_map_t map;
  float *w, *state[CT_RULE_STATES]; /**< a state that the rule does not touch may be NULL */
  const float *g;
} cpu__update_t;

typedef struct cpu__loops {
  int width; /**< floats of a vector */

  /** y = x + x2, then ReLU if asked; x2 may be NULL. */
  void (*add)(int64_t count, const float *x, const float *x2, float *y, int relu, int stream);
  /** dx = dy + dy2, but 0 where the ReLU with output y cut off; y and dy2 may be NULL. */
  void (*add_bwd)(int64_t count, const float *y, const float *dy, const float *dy2, float *dx,
                  int stream);
  /** Sums of x. */
  void (*bn_sums)(cpu__rows_t r, const float *x, float *sums);
  void (*bn_apply)(cpu__rows_t r, const cpu__bn_fwd_t *a, const float *coefs);
  /** Sums of the masked gradient. */
  void (*bn_bwd_sums)(cpu__rows_t r, const cpu__bn_bwd_t *a, const float *coefs, float *sums);
  void (*bn_bwd_apply)(cpu__rows_t r, const cpu__bn_bwd_t *a, const float *coefs);

  /** place: for each output where in its window the maximum was, counted row by row; one byte
   * per lane of a whole vector; NULL if no backward pass follows. */
  void (*max)(const cpu__pool_t *p, cpu__pixels_t px, const float *x, float *y, uint8_t *place,
              int stream);
  void (*max_bwd)(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *place, const float *dy,
                  float *dx, int stream);
  void (*average)(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py, const float *x,
                  float *y);
  void (*average_bwd)(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py, const float *dy,
                      float *dx);

  /** Dropout of `count` elements of the sample at `position` of the global batch, from element
   * `first` of its plain layout on; in memory they are `step` floats apart. */
  void (*drop)(const ct_dropout_t *d, int64_t position, int64_t first, int64_t count, int64_t step,
               const float *in, float *out);

  /** The largest x, and the sum of exp(x - largest). */
  void (*exp_sum)(int64_t count, const float *x, float *largest, float *sum);
  /** dx = factor * exp(x - shift), where x <= shift. */
  void (*exp_scaled)(int64_t count, const float *x, float shift, float factor, float *dx);

  /** Sum of |g * scale|^p, or with p infinite the largest |g * scale|; not a finite number if one
   * of them is not. */
  double (*powers)(int64_t count, const float *g, float scale, double p);
  /** Sums of squares of `count` weights from `first`, and of the values that the rule measures. */
  void (*measure)(const cpu__update_t *u, int64_t first, int64_t count, double sums[2]);
  /** The rule over `count` elements from `first`. */
  void (*update)(const cpu__update_t *u, int64_t first, int64_t count);
  /** From the gradient of the softmax p to that of its input times `scale`, in place. */
  void (*softmax_bwd)(int64_t count, const float *p, float scale, float *dp);

  /** One step of one sample.  gates: the sums of i, f, g, o without their bias, h each; become the
   * gates.  c0: the cells before, NULL: zero. */
  void (*lstm)(int64_t h, const float *bias, float *gates, const float *c0, float *c, float *y);
  /** Gradients of those sums.  dh: of y from the step after, NULL: zero; dc: of c from the step after,
   * becomes that of c0. */
  void (*lstm_bwd)(int64_t h, const float *gates, const float *c0, const float *c, const float *dy,
                   const float *dh, float *dc, float *dgates);

  /** Layer normalisation of one row; stats: its mean and 1 / std. */
  void (*lnorm)(int64_t count, const float *x, const float *w, const float *b, float eps, float *y,
                float *stats);
  void (*lnorm_bwd)(int64_t count, const float *x, const float *w, const float *stats,
                    const float *dy, float *dx);
  /** Adds the row's part of the parameters' gradients. */
  void (*lnorm_sums)(int64_t count, const float *x, const float *stats, const float *dy, float *dw,
                     float *db);

  /** Of outputs x with targets t: sums[0] of their losses, sums[1] of their absolute errors; kind
   * is a ct_loss_kind_t, not cross-entropy. */
  void (*point_sums)(int kind, int64_t count, const float *x, const float *t, float *sums);
  /** dx = factor * d(loss)/dx of each output. */
  void (*point_slopes)(int kind, int64_t count, const float *x, const float *t, float factor,
                       float *dx);
} cpu__loops_t;

extern const cpu__loops_t cpu__loops_scalar, cpu__loops_portable, cpu__loops_avx2,
    cpu__loops_avx512;

/** The loops of the device's widest vectors. */
const cpu__loops_t *cpu__loops(const ct_dev_t *dev);
/** The loops of the widest vectors that `lanes` channels side by side fill, as far as the device
 * has them; 1 lane: single floats. */
const cpu__loops_t *cpu__loops_for(const ct_dev_t *dev, int64_t lanes);

/** 1 if an output of so many bytes is better stored around the caches, and may be, being
 * aligned. */
static inline int cpu__streams(const void *p, size_t bytes)
{
  return bytes > CPU__STREAM_MIN && (uintptr_t)p % 64 == 0;
}

#endif
