/** \file conv/few_channels_loops.h  Inner loops of convolutions with few channels.
 * Module-internal.
 *
 * A vector holds the channels that are written, 8 or 16; the numbers they are multiplied with are
 * read one by one.  So only the written side is padded to whole vectors, and layers of 1 to 16
 * channels, of which oneDNN pads both sides, run at most of the processor's speed.  The loops are
 * written once, in conv/few_channels_body.h, and compiled for each instruction set in
 * few_channels_*.c. */
#ifndef CT_CPU_FEW_CHANNELS_LOOPS_H
#define CT_CPU_FEW_CHANNELS_LOOPS_H
#include <stdint.h>

/** One image that is read number by number.  Channel c of pixel (i, j) lies at
 * c / step * group + (i * width + j) * step + c % step; step is 1, 8 or 16. */
typedef struct cpu__few_image {
  const float *data;
  int64_t group, width;
  int step, channels;
} cpu__few_image_t;

/** What a loop works on.  The kernel is 3 or 5 wide and high; w, bias and the other image are of
 * one vector of channels, that image densely: (i * cols + j) * lanes. */
typedef struct cpu__few_task {
  cpu__few_image_t in;
  int kernel;
  float *w;           /**< [in.channels][kernel][kernel][lanes]; gradient: added to */
  float *bias;        /**< gradient: of the bias, added to */
  float *out;         /**< gradient: only read */
  int64_t rows, cols; /**< of out */
  int outs;           /**< channels of out that are there */
  int relu;
  float *room; /**< gradient of a plain image: cpu__few_room() floats */
} cpu__few_task_t;

/** 8 planes, of which each row fills whole vectors. */
static inline int64_t cpu__few_room(int64_t rows, int64_t cols)
{
  return 8 * rows * ((cols + 15) / 16 * 16);
}

/** What the pixels of a row of y give to a row of x: a strip each, [kernel][channels] numbers that
 * belong to as many neighbours in x as the kernel is wide. */
typedef struct cpu__few_strips {
  const float *data;
  int64_t strip, count; /**< floats from one to the next; strips of the row */
  int kernel, channels;
  int64_t left, cols; /**< padding; pixels of x */
} cpu__few_strips_t;

typedef struct cpu__few_loops {
  /** out[i][j] = bias + sum over c, u, v of in[c][i + u][j + v] * w[c][u][v], then ReLU if
   * asked. */
  void (*correlate)(const cpu__few_task_t *a);
  /** One row of out from its strips. */
  void (*overlap)(const cpu__few_strips_t *a, float *out);
  /** w[c][u][v] += sum over i, j of out[i][j] * in[c][i + u][j + v]; bias += sum of out. */
  void (*gradient)(const cpu__few_task_t *a);
} cpu__few_loops_t;

/** For 8 and for 16 lanes. */
extern const cpu__few_loops_t cpu__few_loops_avx2_8, cpu__few_loops_avx512_8,
    cpu__few_loops_avx512_16, cpu__few_loops_neon_8;

#endif
