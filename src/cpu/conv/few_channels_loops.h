/** \file conv/few_channels_loops.h  Inner loops of convolutions with few channels.
 * Module-internal.
 *
 * A vector holds 8 or 16 channels of the tensor that is written; the elements of the tensor that is
 * read are broadcast one by one.  So only the written tensor is padded to whole vectors.  Layers of
 * 1 to 16 channels, for which oneDNN pads both tensors, run near the peak of the processor.  A lane
 * is an element of a vector, so here one of its channels.  The loops are written once, in
 * conv/few_channels_body.h, and compiled for each instruction set in few_channels_*.c. */
#ifndef CT_CPU_FEW_CHANNELS_LOOPS_H
#define CT_CPU_FEW_CHANNELS_LOOPS_H
#include <stdint.h>

/** The image that is read element by element.  Channel c of pixel (i, j) is at c / step * group +
 * (i * width + j) * step + c % step; step is 1, 8 or 16. */
typedef struct cpu__few_image {
  const float *data;
  int64_t group, width;
  int step, channels;
} cpu__few_image_t;

/** Arguments of a loop.  The kernel is 3x3 or 5x5.  w, bias and out have one vector of channels;
 * out is dense: (i * cols + j) * lanes. */
typedef struct cpu__few_task {
  cpu__few_image_t in;
  int kernel;
  float *w;           /**< [in.channels][kernel][kernel][lanes]; the gradient loop adds to it */
  float *bias;        /**< the gradient loop adds the bias gradient to it */
  float *out;         /**< read-only in the gradient loop */
  int64_t rows, cols; /**< size of out */
  int outs;           /**< channels of out without padding */
  int relu;
  float
      *workspace; /**< workspace for the gradient with a plain image: cpu__few_workspace() floats */
} cpu__few_task_t;

/** Returns the floats of 8 planes whose rows are padded to whole vectors. */
static inline int64_t cpu__few_workspace(int64_t rows, int64_t cols)
{
  return 8 * rows * ((cols + 15) / 16 * 16);
}

/** Contributions of a row of y to a row of x (col2im).  Each pixel of y has a strip of
 * [kernel][channels] values for the `kernel` neighbouring pixels of x. */
typedef struct cpu__few_strips {
  const float *data;
  int64_t strip; /**< stride between strips in floats */
  int64_t count; /**< number of strips in the row */
  int kernel, channels;
  int64_t left; /**< padding at the left */
  int64_t cols; /**< pixels of the row of x */
} cpu__few_strips_t;

typedef struct cpu__few_loops {
  /** out[i][j] = bias + sum over c, u, v of in[c][i + u][j + v] * w[c][u][v], optionally ReLU. */
  void (*correlate)(const cpu__few_task_t *a);
  /** Sums the strips into one row of out. */
  void (*overlap)(const cpu__few_strips_t *a, float *out);
  /** w[c][u][v] += sum over i, j of out[i][j] * in[c][i + u][j + v]; bias += sum of out. */
  void (*gradient)(const cpu__few_task_t *a);
} cpu__few_loops_t;

/** The loops for vectors of 8 and of 16 channels, for each instruction set. */
extern const cpu__few_loops_t cpu__few_loops_avx2_8, cpu__few_loops_avx512_8,
    cpu__few_loops_avx512_16, cpu__few_loops_neon_8;

#endif
