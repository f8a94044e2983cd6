/** \file kern/loops.h  The inner loops of the own kernels.  Module-internal.
 *
 * A loop works on one piece of a tensor for one thread; it knows neither threads nor layouts.
 * The loops are written once, in body_*.h, over a vector of CPU__VW floats (kern/vec.h),
 * and compiled once for each instruction set, in isa_*.c, and once more for activations in
 * bfloat16, in bf16_*.c; each of these gives one table of the type below.  The kernels
 * (kern/bnorm.c, kern/pool.c, ...) cut tensors into pieces, share them out among the threads, and
 * call the table that fits. */
#ifndef CT_KERN_LOOPS_H
#define CT_KERN_LOOPS_H
#include <string.h>
#include "backend/ct_dropout.h"
#include "backend/ct_update.h"
#include "cpu/kern/op.h"

/** Most floats of a vector. */
#define CPU__LANES_MAX 16

/** A piece of an activation: rows x width elements, rows `stride` elements apart.  Lane j of each
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
  const void *x, *x2; /**< x2: NULL or the second summand */
  void *y;
  int relu, stream; /**< relu: 1 or CT_RELU6 */
} cpu__bn_fwd_t;

/** How the backward pass knows what the fused ReLU cut off. */
typedef enum {
  CPU__MASK_NONE,
  CPU__MASK_X /**< computes y anew from x */,
  CPU__MASK_Y
} cpu__mask_t;

typedef struct cpu__bn_bwd {
  const void *x, *y, *dy, *dy2; /**< dy2: NULL or the second summand */
  void *dx, *dx2;               /**< or NULL; dx2: the masked gradient */
  cpu__mask_t mask;
  int relu6;           /**< it cut at 6 too */
  int stream, stream2; /**< of dx, dx2 */
} cpu__bn_bwd_t;

/** A window along one axis: its first element and the one behind its last, within the image. */
typedef struct cpu__extent {
  int32_t from, to;
} cpu__extent_t;

/** Pooling over one volume, or image, which is a volume of depth 1, of one vector of channels.  [0]
 * is along the depth, [1] the height, [2] the width. */
typedef struct cpu__pool {
  int64_t in[3], out[3];
  int kernel[3], stride[3], pad[3]; /**< of a maximum */
  cpu__extent_t *window[3];         /**< average: of each output */
  cpu__extent_t *cover[3];          /**< of each input: the windows over it */
  float *share[3];                  /**< average: for each output 1 / the elements that count */
  int tiles; /**< the windows tile an image: none overlap, and no pixel is left out */
  int wide;  /**< a place within a window takes four bytes instead of one */
  int relu;
} cpu__pool_t;

/** One vector of channels within a layout. */
typedef struct cpu__pixels {
  int64_t step; /**< elements from one pixel to the next */
  int lanes;    /**< channels that are there; the vector's others are 0 and not stored */
} cpu__pixels_t;

/** Windows of a maximum up to which a place within one is kept in a byte. */
#define CPU__POOL_BYTE_PLACES 255

/** Outputs of one axis of a convolution that the same taps reach: first, first + out_step, ... */
typedef struct cpu__reach {
  int32_t first, count;
  int32_t tap, taps; /**< the first tap that is within the image, and how many are */
  int32_t in;        /**< the input that the first tap of the first output reads */
} cpu__reach_t;

/** A convolution of single channels over one image of one vector of channels, or the gradient of
 * its input, which is one too.  [0] is along the height, [1] the width. */
typedef struct cpu__depthwise {
  int64_t lanes;             /**< elements from one pixel, or tap, to the next */
  int64_t in_cols, out_cols; /**< pixels of a row */
  int64_t kernel_cols;
  cpu__reach_t *row, *col; /**< that together are the rows and the columns of the output */
  int rows, cols;
  int64_t tap_step[2]; /**< from one of these taps to the next */
  int64_t in_step[2];  /**< and of the inputs that they read */
  int64_t advance[2];  /**< of inputs, from one of these outputs to the next */
  int64_t out_step[2];
  int relu, stream;
} cpu__depthwise_t;

/** What an optimizer rule works on. */
typedef struct cpu__update {
  ct_rule_t rule;
  ct_hyper_t hyper;
  ct_grad_map_t map;
  float *w, *state[CT_RULE_STATES]; /**< a state that the rule does not touch may be NULL */
  const float *g;
} cpu__update_t;
/** An activation function. */
typedef struct cpu__act {
  ct_act_t kind;
  float alpha;
} cpu__act_t;

typedef struct cpu__loops {
  int width; /**< elements of a vector */

  /** y = x + x2, then ReLU if asked; x2 may be NULL. */
  void (*add)(int64_t count, const void *x, const void *x2, void *y, int relu, int stream);
  /** dx = dy + dy2, but 0 where the ReLU with output y cut off; y and dy2 may be NULL. */
  void (*add_bwd)(int64_t count, const void *y, const void *dy, const void *dy2, void *dx,
                  int stream);

  /** Sums of x. */
  void (*bn_sums)(cpu__rows_t r, const void *x, float *sums);
  void (*bn_apply)(cpu__rows_t r, const cpu__bn_fwd_t *a, const float *coefs);
  /** Sums of the masked gradient. */
  void (*bn_bwd_sums)(cpu__rows_t r, const cpu__bn_bwd_t *a, const float *coefs, float *sums);
  void (*bn_bwd_apply)(cpu__rows_t r, const cpu__bn_bwd_t *a, const float *coefs);

  /** place: for each output where in its window the maximum was, counted row by row; one byte
   * per lane of a whole vector; NULL if no backward pass follows. */
  void (*max)(const cpu__pool_t *p, cpu__pixels_t px, const void *x, void *y, uint8_t *place,
              int stream);
  void (*max_bwd)(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *place, const void *dy,
                  void *dx, int stream);
  void (*average)(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py, const void *x, void *y);
  void (*average_bwd)(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py, const void *dy,
                      void *dx);

  /** y = bias + the sum over the taps; w as [tap][lanes]. */
  void (*depthwise)(const cpu__depthwise_t *p, const void *x, const float *w, const float *bias,
                    void *y);
  /** Adds to dw and db what one image brings; p is that of the forward pass, db may be NULL. */
  void (*depthwise_grad)(const cpu__depthwise_t *p, const void *x, const void *dy, float *dw,
                         float *db);

  /** Dropout of `count` elements of the sample at `position` of the global batch, from element
   * `first` of its plain layout on; in memory they are `step` floats apart. */
  void (*drop)(const ct_dropout_t *d, int64_t position, int64_t first, int64_t count, int64_t step,
               const void *in, void *out);

  void (*act)(cpu__act_t f, int64_t count, const void *x, void *y);
  /** dx = (dy + dy2) f'; v is x or y, as CT_ACT_LIST says; dy2 may be NULL. */
  void (*act_bwd)(cpu__act_t f, int64_t count, const void *v, const void *dy, const void *dy2,
                  void *dx);

  /* ---- of the tables for float32 only ---- */

  /** The largest x, and the sum of exp(x - largest). */
  void (*exp_sum)(int64_t count, const float *x, float *largest, float *sum);
  /** dx = factor * exp(x - shift), where x <= shift. */
  void (*exp_scaled)(int64_t count, const float *x, float shift, float factor, float *dx);
  /** The same of n columns at once: element k of column i is x[k * apart + i]; each has its own
   * largest, sum, shift and factor. */
  void (*exp_sum_columns)(int64_t count, int64_t apart, int64_t n, const float *x, float *largest,
                          float *sum);
  void (*exp_scaled_columns)(int64_t count, int64_t apart, int64_t n, const float *x,
                             const float *shift, const float *factor, float *dx);

  /** Sum of |g * scale|^p, or with p infinite the largest |g * scale|; not a finite number if one
   * of them is not. */
  double (*powers)(int64_t count, const float *g, float scale, double p);
  /** Sums of squares of `count` weights from `first`, and of the values that the rule measures. */
  void (*measure)(const cpu__update_t *u, int64_t first, int64_t count, double sums[2]);
  /** The rule over `count` elements from `first`. */
  void (*update)(const cpu__update_t *u, int64_t first, int64_t count);
  /** Adds rows of `count` floats, `stride` apart, to the sums. */
  void (*add_rows)(int64_t rows, int64_t count, int64_t stride, const float *x, double *sums);
  float (*dot)(int64_t count, const float *a, const float *b);
  /** x = softmax(scale x), with scale > 0. */
  void (*softmax)(int64_t count, float scale, float *x);
  /** From the gradient dp of the softmax p, with `mean` the sum of p dp, to that of its unscaled
   * input. */
  void (*softmax_bwd)(int64_t count, float scale, const float *p, float mean, float *dp);

  /** One step of one sample.  gates: the sums of i, f, g, o, h each; become the gates.  c0: the
   * cells before, NULL: zero. */
  void (*lstm)(int64_t h, float *gates, const float *c0, float *c, float *y);
  /** Gradients of those sums.  dh: of y from the step after, NULL: zero; dc: of c from the step
   * after, becomes that of c0. */
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
   * is one of CT_POINT_LOSS_LIST. */
  void (*point_sums)(ct_loss_kind_t kind, int64_t count, const float *x, const float *t,
                     float *sums);
  /** dx = factor * d(loss)/dx of each output. */
  void (*point_slopes)(ct_loss_kind_t kind, int64_t count, const float *x, const float *t,
                       float factor, float *dx);

  /* ---- of the tables for bfloat16 only ---- */

  void (*to_floats)(int64_t count, const void *x, float *y);
  /** To nearest, ties to even; then ReLU if asked. */
  void (*from_floats)(int64_t count, const float *x, void *y, int relu, int stream);
} cpu__loops_t;

extern const cpu__loops_t cpu__loops_scalar, cpu__loops_portable, cpu__loops_avx2,
    cpu__loops_avx512;
extern const cpu__loops_t cpu__loops_bf16_scalar, cpu__loops_bf16_portable, cpu__loops_bf16_avx2,
    cpu__loops_bf16_avx512;

/** The loops of the device's widest vectors, on activations of CT_F32 or CT_BF16. */
const cpu__loops_t *cpu__loops(const ct_dev_t *dev, ct_dtype_t dtype);
/** The loops of the widest vectors that `lanes` channels side by side fill, as far as the device
 * has them; 1 lane: single elements. */
const cpu__loops_t *cpu__loops_for(const ct_dev_t *dev, ct_dtype_t dtype, int64_t lanes);

/** Element i of an activation; NULL stays NULL. */
static inline void *cpu__at(const void *p, int64_t i, ct_dtype_t dtype)
{
  return p ? (char *)(uintptr_t)p + i * (int64_t)ct_dtype_size(dtype) : NULL;
}

/** Whole activations between bfloat16 and float32, the same layout on both sides (kern/cast.c); to
 * bfloat16 with a ReLU if asked. */
void cpu__to_floats(const ct_dev_t *dev, int64_t count, const void *x, float *y);
void cpu__from_floats(const ct_dev_t *dev, int64_t count, const float *x, void *y, int relu);

/** 1 if an output of so many bytes is better stored around the caches, and may be, being
 * aligned. */
static inline int cpu__streams(const void *p, size_t bytes)
{
  return bytes > CPU__STREAM_MIN && (uintptr_t)p % 64 == 0;
}

#endif
