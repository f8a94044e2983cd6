/** \file rig.h  Holds one op of one backend under test: its memory, its inputs, its results.
 *
 * Host data is always plain float32.  Activations travel to the op's layout and type and back by
 * REORDER ops of the same backend; parameters by pack and unpack.  All device memory is filled with
 * NaN before a run and lies between guards of NaN, and so is the stack, so that a result that was
 * not written, a sum onto old content, a write past the ends, or a product of zero and whatever
 * lies there is seen.  What an op did not ask for points nowhere. */
#ifndef CONFORM_RIG_H
#define CONFORM_RIG_H
#include "backend/ct_backend.h"

/** What every later case needs: the program ends if rc is not CT_OK. */
void must(int rc);
/** Zeroed, or the program ends; freed by ct_mem_free(). */
void *host_array(int64_t n, size_t size);

/** A backend with its device open. */
typedef struct side {
  const ct_backend_t *be;
  ct_dev_t *dev;
  ct_queue_t *queue;
} side_t;

int side_open(side_t *s, const ct_backend_t *be, const ct_dev_opts_t *opts);
void side_close(side_t *s);

/** Device memory between guards. */
typedef struct block {
  side_t *side;
  void *base, *mem; /**< what was allocated; the block in it */
  size_t bytes;
} block_t;

void block_open(block_t *b, side_t *s, size_t bytes);
void block_put(block_t *b, const void *host, size_t bytes);
void block_take(const block_t *b, void *host, size_t bytes);
/** Fills with NaN. */
void block_spoil(block_t *b);
/** 1 if nothing wrote before it or behind its end. */
int block_intact(const block_t *b);
void block_close(block_t *b);

/** How an op is prepared and run. */
enum {
  RIG_JOINT = 1,       /**< one backward run for data and parameters */
  RIG_INPLACE_FWD = 2, /**< y in x's memory; no backward pass then */
  RIG_INPLACE_BWD = 4, /**< dx in dy's memory */
  RIG_DY2 = 8,         /**< with a second gradient */
  RIG_LIKE = 16,       /**< parameters are packed by an op of another batch size */
  RIG_STATS = 32,  /**< SyncBN: forward and backward only leave their sums; rig_finish() goes on */
  RIG_NO_DX = 64,  /**< BNORM with add: only dx2 is wanted */
  RIG_NO_DX2 = 128 /**< only dx is */
};
typedef struct trial {
  const char *name;
  int passes, flags;
  ct_layout_t offered;
} trial_t;

/** Host inputs of an op; what its kind does not take is NULL. */
typedef struct inputs {
  float *x, *x2, *dy, *dy2, *w[4];
  int32_t *labels, *labels2; /**< labels2, mix: where the batch is a multiple of 3 */
  float *mix, *targets, *class_weight,
      *sample_weight; /**< of a loss, whether it uses them or not */
} inputs_t;

typedef enum {
  DATA_RANDOM, /**< around 0, variance 1 */
  DATA_TIES,   /**< the same, rounded to halves: many equal values */
  DATA_SPREAD  /**< all values of x at least 0.2 apart, none near 0 */
} data_kind_t;

/** One element of host memory as a type, CT_F32 or CT_BF16 (the nearest; ties to even). */
void element_put(void *mem, ct_dtype_t dtype, int64_t i, float v);
float element_take(const void *mem, ct_dtype_t dtype, int64_t i);

/** Activations are values that the type of d->x can hold. */
void inputs_open(inputs_t *in, const ct_op_desc_t *d, uint64_t seed, data_kind_t kind);
void inputs_close(inputs_t *in);

/** Host results of an op. */
typedef struct outputs {
  float *y, *dx, *dx2, *dw[4], *running[2];
  ct_loss_t loss;
} outputs_t;

void outputs_open(outputs_t *out, const ct_op_desc_t *d);
void outputs_close(outputs_t *out);

/** Elements of parameter 0 … 3 of an op in the plain layout; 0 if it has none. */
int64_t param_count(const ct_op_desc_t *d, int param);
/** Which parameter the forward pass changes as output running[i]; CT_OP_PARAMS: none. */
int param_running(const ct_op_desc_t *d, int i);
/** Of how many numbers a normalisation takes the mean, and its eps; 0: it is none. */
int64_t normalised(const ct_op_desc_t *d, double *eps);
int takes_x2(const ct_op_desc_t *d);
/** Elements of x2. */
int64_t second_count(const ct_op_desc_t *d);

/** An activation in an op's own layout and type. */
typedef struct tensor {
  block_t own, plain;
  ct_shape_t shape;
  ct_op_t *in, *out; /**< REORDER ops; NULL if it is plain float32 */
} tensor_t;

int tensor_open(tensor_t *t, side_t *s, const ct_shape_t *shape, ct_layout_t layout);
void tensor_put(tensor_t *t, const float *host);
/** Returns 0 if a padding channel is not zero or something was written behind the end. */
int tensor_take(tensor_t *t, float *host);
void tensor_close(tensor_t *t);

typedef struct rig {
  side_t *side;
  trial_t how;
  ct_op_desc_t desc; /**< as prepared */
  ct_op_info_t info;
  ct_op_t *op, *like;
  tensor_t x, x2, y, dy, dy2, dx, dx2;
  block_t w[4], reduced[4], dw[4], saved, scratch, loss_in[6], stats;
  ct_loss_t *loss;
  int done;          /**< passes since the latest forward one */
  ct_op_args_t args; /**< of the latest run; seed, step, first, scale may be set before */
} rig_t;

/** The layout that the op would like, when it is offered one. */
ct_layout_t rig_layout(side_t *s, const ct_op_desc_t *d, ct_layout_t offered);
/** Prepares the op, to see r->info; CT_OK or the backend's code.  The rig can be closed in any
 * case. */
int rig_prepare(rig_t *r, side_t *s, const ct_op_desc_t *d, const trial_t *how);
/** The same, and makes the memory to run it. */
int rig_open(rig_t *r, side_t *s, const ct_op_desc_t *d, const trial_t *how);
int rig_forward(rig_t *r, const inputs_t *in);
/** The passes of the trial but the forward one. */
int rig_backward(rig_t *r, const inputs_t *in);
/** SyncBN: the sums of the latest run, 2C + 1. */
void rig_stats(const rig_t *r, double *sums);
/** SyncBN: the pass behind the latest sums, with those of all. */
int rig_finish(rig_t *r, const double *sums);
/** Results of what was run.  NULL, or what is wrong beside the numbers. */
const char *rig_take(rig_t *r, outputs_t *out);
/** NULL, or which input is not what it was, though no result was to take its place. */
const char *rig_inputs_changed(rig_t *r, const inputs_t *in);
void rig_close(rig_t *r);

/* ---- rig_loss.c: what a loss takes beside the outputs ---- */

void loss_inputs_open(inputs_t *in, const ct_op_desc_t *d, uint64_t seed);
void loss_inputs_close(inputs_t *in);
/** Into device memory, and into r->args. */
void loss_inputs_put(rig_t *r, const inputs_t *in);

#endif
