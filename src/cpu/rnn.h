/** \file rnn.h  Common parts of LSTM and GRU (cpu/lstm.c, cpu/gru.c).  Module-internal.
 *
 * Each thread runs some samples through all steps, without waiting for the other threads.  Steps
 * are grouped into blocks: one GEMM multiplies the inputs of a block, and its rows stay in the L2
 * cache until the gates are computed.  A block has a row per sample and step, in this order: row
 * (sample * steps of the block + step).  The size of a block does not depend on the number of
 * threads, so neither do the results.
 *
 * Rows of internal matrices have an odd number of cache lines (cpu__rnn_padded()), so that rows of
 * a GEMM do not fall into the same cache sets. */
#ifndef CT_CPU_RNN_H
#define CT_CPU_RNN_H
#include "cpu/kern/loops.h"
#include "cpu/kern/op.h"
#include "cpu/tile/tile.h"

/** The op of both kinds. */
typedef struct cpu__rnn {
  ct_op_t head;
  const cpu__loops_t *loops;
  const cpu__tiles_t *tiles;
  int64_t n, t, f, h;
  int64_t wide;  /**< rows of W_ih and W_hh: h times the number of gates */
  int64_t row;   /**< wide, padded */
  int64_t depth; /**< maximum rows of a block, unless one step has more */
  int64_t steps; /**< of a block; the last block may have fewer */
  int reverse, bias;
} cpu__rnn_t;

/** The rows of some samples in a block. */
typedef struct cpu__rnn_part {
  int64_t t0, steps; /**< first step, in order of computation, and number of steps */
  int64_t first, n;  /**< samples */
} cpu__rnn_part_t;

/** Memory that is divided into buffers; \a at NULL: only their sizes are added up. */
typedef struct cpu__rnn_space {
  float *at;
  int64_t count; /**< floats taken */
} cpu__rnn_space_t;

/** Returns the next `count` floats, aligned to cache lines. */
static inline float *cpu__rnn_take(cpu__rnn_space_t *space, int64_t count)
{
  float *p = space->at ? space->at + space->count : NULL;
  space->count += (count + 15) / 16 * 16;
  return p;
}

/** Local.  Fills the struct. */
void cpu__rnn_prepare(cpu__rnn_t *k, int gates);

/** Returns the length in floats of a padded row of `count` floats. */
static inline int64_t cpu__rnn_padded(int64_t count)
{
  return ((count + 15) / 16 | 1) * 16;
}

/** Returns the place in the sequence of a step in order of computation. */
static inline int64_t cpu__rnn_place(const cpu__rnn_t *k, int64_t step)
{
  return k->reverse ? k->t - 1 - step : step;
}

/** Returns the row of a sample and step among the rows of all blocks. */
static inline int64_t cpu__rnn_row(const cpu__rnn_t *k, int64_t sample, int64_t step)
{
  int64_t in_block = step % k->steps, t0 = step - in_block;
  int64_t steps = k->t - t0 < k->steps ? k->t - t0 : k->steps;
  return t0 * k->n + sample * steps + in_block;
}

typedef void cpu__rnn_run_t(const cpu__rnn_t *k, const void *buffers, const ct_op_args_t *a,
                            cpu__rnn_part_t p);
/** Hot.  Runs all blocks for all samples, in parallel over samples; backwards from the last block
 * if `back`. */
void cpu__rnn_blocks(const cpu__rnn_t *k, int back, cpu__rnn_run_t *run, const void *buffers,
                     const ct_op_args_t *a);

/** Hot.  Packs W_ih and W_hh: for forward (`back` 0) as F x wide and H x wide, for backward as
 * wide x F and wide x H; a target may be NULL.  cpu__rnn_packed() returns the size of a packed
 * matrix with F or H, `in`, in floats. */
void cpu__rnn_pack_weights(const cpu__rnn_t *k, int back, void *const w[2], float *const packed[2]);
int64_t cpu__rnn_packed(const cpu__rnn_t *k, int back, int64_t in);

/** Returns the first row of p in a buffer for the rows of one block.  The thread uses the same rows
 * in all blocks, since other threads may be at another block. */
static inline int64_t cpu__rnn_begin(const cpu__rnn_t *k, cpu__rnn_part_t p)
{
  return p.first * k->steps;
}

/** Hot.  Computes out = x W_ih + bias; out: the rows of p.  bias: `wide` values, padded.  copy:
 * rows of a block with F values. */
void cpu__rnn_inputs(const cpu__rnn_t *k, cpu__rnn_part_t p, const float *x, const float *w_ih,
                     const float *bias, float *copy, float *out);
/** Hot.  Computes dx from `rows`, the gradients of the rows of p.  copy: as above. */
void cpu__rnn_data(const cpu__rnn_t *k, cpu__rnn_part_t p, const float *rows, const float *w_ih,
                   float *copy, float *dx);

/** Hot.  Stores `rows`, the gradients of the rows of p, for cpu__rnn_weights(): per block, panels
 * of 16 columns.  cpu__rnn_panels() returns the size of the panels of all blocks in floats. */
void cpu__rnn_pack_rows(const cpu__rnn_t *k, cpu__rnn_part_t p, const float *rows, float *panels);
int64_t cpu__rnn_panels(const cpu__rnn_t *k);

/** The gradient of W_ih or W_hh: the products of the packed gradients of all rows with x, or with
 * the y of the step before. */
typedef struct cpu__rnn_grad {
  const float *panels;
  const float *from; /**< x or y */
  int64_t in;        /**< F or H */
  int delay;         /**< 1: from the step before */
  float *turned;     /**< workspace for the transposed result: cpu__rnn_turned() floats */
  float *dw, *db;    /**< db may be NULL */
} cpu__rnn_grad_t;

/** Hot.  Computes both gradients, on all threads. */
void cpu__rnn_weights(const cpu__rnn_t *k, const cpu__rnn_grad_t g[2]);
int64_t cpu__rnn_turned(const cpu__rnn_t *k, int64_t in);

#endif
