/** \file kern/loops.h  Table of inner loops of the kernels.  Module-internal.
 *
 * A loop processes one part of a tensor on one thread; it does not know threads or layouts.  The
 * loops are written once, in body_*.h, with vectors of CPU__VW floats (kern/vec.h).  They are
 * compiled for each instruction set in isa_*.c, and again for bf16 activations in bf16_*.c; each
 * gives one table of the type below.  The kernels (kern/bnorm.c, kern/pool.c, ...) split tensors,
 * distribute the parts over threads, and call the table that fits. */
#ifndef CT_KERN_LOOPS_H
#define CT_KERN_LOOPS_H
#include <string.h>
#include "backend/ct_dropout.h"
#include "backend/ct_update.h"
#include "cpu/kern/op.h"

/** Maximum floats of a vector. */
#define CPU__LANES_MAX 16

/** Part of an activation: rows x width elements, rows `stride` elements apart.  A lane is an
 * element of a vector.  Element j of each row belongs to channel j of the part.  Or the part has
 * only one channel, to which all elements belong: then a row is one vector. */
typedef struct cpu__rows {
  int64_t rows, width, stride;
  int64_t rest;     /**< elements after the last row; only with one channel, else 0 */
  int64_t channels; /**< coefficients and sums of each kind: whole vectors, at least `width` */
} cpu__rows_t;

/** Batch normalisation: coefficients of a part, [CPU__BN_COEFS][channels]. */
enum {
  CPU__BN_MEAN,
  CPU__BN_SCALE, /**< weight / std */
  CPU__BN_BIAS,
  CPU__BN_DY_MEAN,  /**< backward: mean of dy */
  CPU__BN_DY_SLOPE, /**< backward: mean of dy * (x - mean), divided by the variance */
  CPU__BN_COEFS
};

/** Batch normalisation: sums over a part, [CPU__BN_SUMS][channels]. */
enum {
  CPU__BN_SUM,   /**< forward: sum of x - shift; backward: sum of dy */
  CPU__BN_DOT,   /**< forward: sum of (x - shift)^2; backward: sum of dy * (x - mean) */
  CPU__BN_SHIFT, /**< forward only: a value of the part, close enough to its mean to avoid
                      cancellation */
  CPU__BN_SUMS
};

typedef struct cpu__bn_fwd {
  const void *x, *x2; /**< x2: NULL or the second summand */
  void *y;
  int relu;   /**< 0: none; 1: ReLU; CT_RELU6: ReLU6 */
  int stream; /**< 1: non-temporal stores of y */
} cpu__bn_fwd_t;

/** How the backward pass finds the outputs that the fused ReLU zeroed. */
typedef enum { CPU__MASK_NONE, CPU__MASK_X /**< recomputes y from x */, CPU__MASK_Y } cpu__mask_t;

typedef struct cpu__bn_bwd {
  const void *x, *y, *dy, *dy2; /**< dy2: NULL or the second summand */
  const void *dx_add;           /**< NULL or a gradient that is added to dx */
  void *dx;                     /**< may be NULL */
  void *dx2;                    /**< the masked gradient; may be NULL */
  cpu__mask_t mask;
  int relu6;           /**< 1: ReLU6 */
  int stream, stream2; /**< 1: non-temporal stores of dx, dx2 */
} cpu__bn_bwd_t;

/** A part of a row of attention's scores: those from low to high - 1; functions also write the
 * others up to `end`, a multiple of the vector length. */
typedef struct cpu__scores {
  int64_t low, high, end;
  int64_t count;     /**< elements of the part of the bias's gradient, at most `end` */
  float scale;       /**< of the scores, before the bias is added */
  const float *bias; /**< NULL: none */
} cpu__scores_t;

/** A window along one axis, clipped to the image: [from, to). */
typedef struct cpu__extent {
  int32_t from, to;
} cpu__extent_t;

/** Pooling over one volume of one vector of channels; an image is a volume of depth 1.  Index [0]
 * is the depth, [1] the height, [2] the width. */
typedef struct cpu__pool {
  int64_t in[3], out[3];
  int kernel[3], stride[3], pad[3]; /**< max pooling */
  cpu__extent_t *window[3];         /**< average pooling: window of each output */
  cpu__extent_t *cover[3];          /**< per input: the range of windows that contain it */
  float *share[3];                  /**< average pooling: per output 1 / (number of elements by
                                         which the sum is divided) */
  int tiles;                        /**< 1: windows do not overlap and cover the whole image */
  int wide;                         /**< 1: an arg-max index takes four bytes instead of one */
  int relu;
} cpu__pool_t;

/** One vector of channels in some layout. */
typedef struct cpu__pixels {
  int64_t step; /**< stride between pixels in elements */
  int lanes;    /**< valid channels; the other lanes are 0 and not stored */
} cpu__pixels_t;

/** Largest window of max pooling whose arg-max indices fit a byte. */
#define CPU__POOL_BYTE_ARGMAX 255

/** Outputs along one axis of a convolution, first, first + out_step, …, whose windows have the same
 * taps inside the image.  A tap is an element of the kernel. */
typedef struct cpu__reach {
  int32_t first, count;
  int32_t tap, taps; /**< first tap inside the image, and their number */
  int32_t in;        /**< index of the input that `tap` of output `first` reads: inside the image */
} cpu__reach_t;

/** A depthwise convolution of one image and one vector of channels.  The input gradient is also a
 * depthwise convolution.  Index [0] is the height, [1] the width. */
typedef struct cpu__depthwise {
  int64_t lanes;             /**< stride between pixels and between taps in elements */
  int64_t in_cols, out_cols; /**< pixels per row */
  int64_t kernel_cols;
  cpu__reach_t *row, *col; /**< partition of the output's rows and columns */
  int rows, cols;
  int64_t tap_step[2]; /**< stride between taps */
  int64_t in_step[2];  /**< stride between the inputs of adjacent taps */
  int64_t advance[2];  /**< stride between the inputs of adjacent outputs */
  int64_t out_step[2];
  int relu, stream;
} cpu__depthwise_t;

/** Arguments of an optimizer rule. */
typedef struct cpu__update {
  ct_rule_t rule;
  ct_hyper_t hyper;
  ct_grad_map_t map;
  float *w, *state[CT_RULE_STATES]; /**< states that the rule does not use may be NULL */
  const float *g;
} cpu__update_t;
/** An activation function. */
typedef struct cpu__act {
  ct_act_t kind;
  float alpha;
} cpu__act_t;

/** A sum over elements x, with a shift s and an order p; or another combination. */
typedef enum {
  CPU__SUM,             /**< of x */
  CPU__SUM_SQUARES,     /**< of (x - s)^2 */
  CPU__SUM_SIZES,       /**< of |x| */
  CPU__SUM_POWERS,      /**< of |x|^p */
  CPU__SUM_EXPS,        /**< of exp(x - s); all x <= s */
  CPU__SUM_EQUAL,       /**< number of x == s */
  CPU__SUM_EQUAL_SIZES, /**< number of |x| == s */
  CPU__MOST,            /**< largest x; NaN if one is NaN, as the next two */
  CPU__LEAST,           /**< smallest x */
  CPU__LARGEST,         /**< largest |x| */
  CPU__PRODUCT          /**< of all x that are not 0 */
} cpu__sum_t;

/** The gradient of an element x, with coefficients a and m and an order p. */
typedef enum {
  CPU__SLOPE_FILL,       /**< a */
  CPU__SLOPE_LINE,       /**< a (x - m) */
  CPU__SLOPE_SIGN,       /**< a sign(x) */
  CPU__SLOPE_EQUAL,      /**< a if x == m */
  CPU__SLOPE_EQUAL_SIZE, /**< a sign(x) if |x| == m */
  CPU__SLOPE_EXP,        /**< a exp(x - m) */
  CPU__SLOPE_POWER,      /**< a sign(x) (|x| / m)^(p - 1); 0 at 0 */
  CPU__SLOPE_QUOTIENT    /**< a / x; m at 0 */
} cpu__slope_t;

/** An operand of a step of an elementwise program: a block of floats, or (step 0) a vector of
 * CPU__LANES_MAX equal floats. */
typedef struct cpu__lane {
  const float *p;
  int64_t step;
} cpu__lane_t;

/** A loss of outputs one by one; see ct_loss_spec_t. */
typedef struct cpu__points {
  ct_loss_kind_t kind;
  int logs, skips_nan;
  float gamma, alpha, param;
  const float *place, *pos; /**< weights of places, of the target 1 of BCE; NULL: 1 */
} cpu__points_t;

typedef struct cpu__loops {
  int width; /**< elements per vector */

  /** Computes y = x + x2, then optional ReLU; x2 may be NULL. */
  void (*add)(int64_t count, const void *x, const void *x2, void *y, int relu, int stream);
  /** Computes dx = dy + dy2, but 0 where y, the output of the ReLU, is 0; y and dy2 may be NULL. */
  void (*add_bwd)(int64_t count, const void *y, const void *dy, const void *dy2, void *dx,
                  int stream);

  /** Computes the forward sums over x. */
  void (*bn_sums)(cpu__rows_t r, const void *x, float *sums);
  void (*bn_apply)(cpu__rows_t r, const cpu__bn_fwd_t *a, const float *coefs);
  /** Computes the backward sums over the masked gradient. */
  void (*bn_bwd_sums)(cpu__rows_t r, const cpu__bn_bwd_t *a, const float *coefs, float *sums);
  void (*bn_bwd_apply)(cpu__rows_t r, const cpu__bn_bwd_t *a, const float *coefs);

  /** Max pooling.  argmax: per output the arg-max index in its window, counted row by row; one byte
   * per lane of a whole vector (4 bytes with p->wide); NULL if no backward pass follows. */
  void (*max)(const cpu__pool_t *p, cpu__pixels_t px, const void *x, void *y, uint8_t *argmax,
              int stream);
  void (*max_bwd)(const cpu__pool_t *p, cpu__pixels_t px, const uint8_t *argmax, const void *dy,
                  void *dx, int stream);
  void (*average)(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py, const void *x, void *y);
  void (*average_bwd)(const cpu__pool_t *p, cpu__pixels_t px, cpu__pixels_t py, const void *dy,
                      void *dx);

  /** Computes y = bias + the sum over the taps of weight * input; w: [tap][lanes]. */
  void (*depthwise)(const cpu__depthwise_t *p, const void *x, const float *w, const float *bias,
                    void *y);
  /** Adds the contribution of one image to dw and db; p: the same as in the forward pass; db may be
   * NULL. */
  void (*depthwise_grad)(const cpu__depthwise_t *p, const void *x, const void *dy, float *dw,
                         float *db);

  /** Dropout of `count` elements of the sample with index `position` in the global batch, from
   * element `first` of its plain layout on; elements are `step` floats apart in memory. */
  void (*drop)(const ct_dropout_t *d, int64_t position, int64_t first, int64_t count, int64_t step,
               const void *in, void *out);

  /** Computes out = in * factor; 0 if the factor is 0. */
  void (*scale)(float factor, int64_t count, const void *in, void *out);

  void (*act)(cpu__act_t f, int64_t count, const void *x, void *y);
  /** Computes dx = (dy + dy2) * f'(x) from v, which is x or y, as CT_ACT_LIST requires; dy2 may be
   * NULL. */
  void (*act_bwd)(cpu__act_t f, int64_t count, const void *v, const void *dy, const void *dy2,
                  void *dx);

  /* ---- only in the tables for float32 ---- */

  /** Computes a function of up to three operands; those that it lacks may be any readable ones.
   * count is a multiple of CPU__LANES_MAX, here and in the next one. */
  void (*fn)(ct_fn_t fn, int64_t count, const cpu__lane_t of[3], float *out);
  /** Computes the gradient of operand k from the operands, the result (of[3]) and its gradient
   * (of[4]); adds it to out if `add` is set. */
  void (*fn_grad)(ct_fn_t fn, int k, int64_t count, const cpu__lane_t of[5], float *out, int add);
  float (*block_sum)(int64_t count, const float *x);

  /** Computes the largest x, and the sum of exp(x - largest). */
  void (*exp_sum)(int64_t count, const float *x, float *largest, float *sum);
  /** Computes dx = factor * exp(x - shift); all x <= shift. */
  void (*exp_scaled)(int64_t count, const float *x, float shift, float factor, float *dx);
  /** Like exp_sum and exp_scaled, for n columns at once: element k of column i is x[k * apart + i];
   * each column has its own largest, sum, shift and factor. */
  void (*exp_sum_columns)(int64_t count, int64_t apart, int64_t n, const float *x, float *largest,
                          float *sum);
  void (*exp_scaled_columns)(int64_t count, int64_t apart, int64_t n, const float *x,
                             const float *shift, const float *factor, float *dx);

  /** Returns a sum over a row. */
  double (*reduce_row)(cpu__sum_t what, int64_t n, const float *x, float shift, float p);
  /** Adds the sums over `rows` elements of n columns to sums[n]; shift has a value per column. */
  void (*reduce_columns)(cpu__sum_t what, int64_t rows, int64_t apart, int64_t n, const float *x,
                         const float *shift, float p, double *sums);
  /** Computes the gradients of n elements x of a row; `each`: a and m have a value per element,
   * else one. */
  void (*slopes)(cpu__slope_t what, int64_t n, const float *x, const float *a, const float *m,
                 int each, float p, float *dx);
  /** Compute the softmax, or its logarithm, of a row or of n columns, and the gradients. */
  void (*soft_row)(int log_of, int64_t count, const float *x, float *y);
  void (*soft_columns)(int log_of, int64_t count, int64_t apart, int64_t n, const float *x,
                       float *y);
  void (*soft_row_bwd)(int log_of, int64_t count, const float *y, const float *dy, float *dx);
  void (*soft_columns_bwd)(int log_of, int64_t count, int64_t apart, int64_t n, const float *y,
                           const float *dy, float *dx);

  /** Returns the sum of |g * scale|^p; p infinite: the largest |g * scale|.  The result is infinite
   * or NaN if an element is. */
  double (*powers)(int64_t count, const float *g, float scale, double p);
  /** Computes two sums of squares over `count` elements from `first` on: of the weights, and of the
   * values that the rule's MEASURE function returns. */
  void (*norm_sums)(const cpu__update_t *u, int64_t first, int64_t count, double sums[2]);
  /** Applies the rule to `count` elements from `first` on. */
  void (*update)(const cpu__update_t *u, int64_t first, int64_t count);
  /** Adds rows of `count` floats, `stride` apart, to sums[count]. */
  void (*add_rows)(int64_t rows, int64_t count, int64_t stride, const float *x, double *sums);
  float (*dot)(int64_t count, const float *a, const float *b);
  /** Computes a part of a softmax whose row arrives in parts (Milakov and Gimelshein, "Online
   * normalizer calculation for softmax", 2018).  x becomes 2^(score - *most), 0 where there is no
   * score.  *most and *sum are those of the scores so far, before the first part -infinity and 0.
   * Returns the factor of the results of earlier parts. */
  float (*soft_part)(const cpu__scores_t *s, float *x, float *most, float *sum);
  /** Computes the softmax x of a part again, from log2 of the sum, and in place, from the gradient
   * dx of the softmax, that of the scores before scaling; mean: the sum of softmax * gradient over
   * the row.  dbias: NULL, or the gradient of the bias; add: it is added to. */
  void (*soft_part_bwd)(const cpu__scores_t *s, float log_sum, float mean, float *x, float *dx,
                        float *dbias, int add);

  /** Computes one time step of one sample.  gates: on entry the pre-activations of i, f, g, o, with
   * h values each; on return the gates.  c0: previous cell state; NULL: zero. */
  void (*lstm)(int64_t h, float *gates, const float *c0, float *c, float *y);
  /** Computes the gradients of the pre-activations.  dh: gradient of y from the next step; NULL:
   * zero. dc: on entry the gradient of c from the next step; on return the gradient of c0. */
  void (*lstm_bwd)(int64_t h, const float *gates, const float *c0, const float *c, const float *dy,
                   const float *dh, float *dc, float *dgates);
  /** One step of a GRU for one sample, with h values of each gate.  sums: W_ih x + b_ih for r, z,
   * n; states: W_hh h0, NULL at the first step (then h0 is not read); bias: b_hh or NULL.  Writes
   * r, z, n and W_hn h0 + b_hn to gates, and y. */
  void (*gru)(int64_t h, const float *sums, const float *states, const float *bias, const float *h0,
              float *gates, float *y);
  /** Its backward pass.  h0 NULL: the first step.  dh: gradient of y from the next step, not read
   * if `last`; becomes the part of the gradient of h0 that does not pass through W_hh.  dsums,
   * dstates: gradients of sums and states. */
  void (*gru_bwd)(int64_t h, const float *gates, const float *h0, const float *dy, int last,
                  float *dh, float *dsums, float *dstates);

  /** Computes the layer normalisation of one row; stats: mean and 1 / std of the row.  b NULL: by
   * the root mean square, and the mean is 0. */
  void (*lnorm)(int64_t count, const float *x, const float *w, const float *b, float eps, float *y,
                float *stats);
  void (*lnorm_bwd)(int64_t count, const float *x, const float *w, const float *stats,
                    const float *dy, int rms, float *dx);
  /** Adds the contribution of one row to the parameter gradients; db may be NULL. */
  void (*lnorm_sums)(int64_t count, const float *x, const float *stats, const float *dy, float *dw,
                     float *db);

  /** Rotates the pairs x[i], x[i + half] (apart 0: x[2i], x[2i + 1]) by the angles whose cosine and
   * sine are given, i < half.  y may be x. */
  void (*rotate)(int64_t half, int apart, const float *cosine, const float *sine, const float *x,
                 float *y);

  /** Sums over outputs x with targets t, without those whose target is missing: sums[0], the losses
   * times the place weights; sums[1], the absolute errors; sums[2], the place weights; sums[3], the
   * number of outputs. */
  void (*point_sums)(const cpu__points_t *f, int64_t count, const float *x, const float *t,
                     float *sums);
  /** Computes dx = factor * d(loss)/dx per output. */
  void (*point_slopes)(const cpu__points_t *f, int64_t count, const float *x, const float *t,
                       float factor, float *dx);

  /* ---- only in the tables for bf16 ---- */

  void (*to_floats)(int64_t count, const void *x, float *y);
  /** Converts to bf16, after an optional ReLU; rounds to nearest, ties to even. */
  void (*from_floats)(int64_t count, const float *x, void *y, int relu, int stream);
} cpu__loops_t;

extern const cpu__loops_t cpu__loops_scalar, cpu__loops_portable, cpu__loops_avx2,
    cpu__loops_avx512;
extern const cpu__loops_t cpu__loops_bf16_scalar, cpu__loops_bf16_portable, cpu__loops_bf16_avx2,
    cpu__loops_bf16_avx512;

/** Returns the loops for the device's widest vectors, for CT_F32 or CT_BF16 activations. */
const cpu__loops_t *cpu__loops(const ct_dev_t *dev, ct_dtype_t dtype);
/** Returns the loops with the widest vectors of the device whose length divides `lanes`, the number
 * of contiguous channels; lanes 1: scalar loops. */
const cpu__loops_t *cpu__loops_for(const ct_dev_t *dev, ct_dtype_t dtype, int64_t lanes);

/** Returns the address of element i of an activation; NULL if p is NULL. */
static inline void *cpu__at(const void *p, int64_t i, ct_dtype_t dtype)
{
  return p ? (char *)(uintptr_t)p + i * (int64_t)ct_dtype_size(dtype) : NULL;
}

/** Convert whole activations between bf16 and float32 in the same layout (kern/cast.c); to bf16
 * with optional ReLU. */
void cpu__to_floats(const ct_dev_t *dev, int64_t count, const void *x, float *y);
void cpu__from_floats(const ct_dev_t *dev, int64_t count, const float *x, void *y, int relu);

/** Returns 1 if non-temporal stores are faster for an output of this size and p is aligned for
 * them. */
static inline int cpu__streams(const void *p, size_t bytes)
{
  return bytes > CPU__STREAM_MIN && (uintptr_t)p % 64 == 0;
}

#endif
