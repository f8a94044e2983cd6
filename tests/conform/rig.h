/** \file rig.h  Runs one op of a tested backend: owns its memory, inputs and results.
 *
 * Host data is always plain float32.  Activations are converted to and from the op's layout and
 * type by REORDER ops of the same backend; parameters by pack and unpack.  Before a run, all device
 * memory and its guards are filled with NaN, and so is the stack.  This reveals results that were
 * not written, sums onto old content, writes out of bounds, and products of zero with uninitialized
 * memory.  Pointers that an op did not ask for are invalid. */
#ifndef CONFORM_RIG_H
#define CONFORM_RIG_H
#include "backend/ct_backend.h"

/** Ends the program if rc is not CT_OK; for steps that all later cases need. */
void must(int rc);
/** Returns zeroed memory, to be freed by ct_mem_free(); ends the program if there is none. */
void *host_array(int64_t n, size_t size);

/** A backend with its open device. */
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
  void *base, *mem; /**< base: the allocation; mem: the usable part of it */
  size_t bytes;
} block_t;

void block_open(block_t *b, side_t *s, size_t bytes);
void block_put(block_t *b, const void *host, size_t bytes);
void block_take(const block_t *b, void *host, size_t bytes);
/** Fills the block with NaN. */
void block_spoil(block_t *b);
/** Returns 1 if nothing was written before or after the block. */
int block_intact(const block_t *b);
void block_close(block_t *b);

/** Flags: how an op is prepared and run. */
enum {
  RIG_JOINT = 1,          /**< one backward run for data and parameters */
  RIG_INPLACE_FWD = 2,    /**< y is in x's memory, without a backward pass */
  RIG_INPLACE_BWD = 4,    /**< dx is in dy's memory */
  RIG_DY2 = 8,            /**< a second gradient dy2 is added */
  RIG_LIKE = 16,          /**< parameters are packed by an op of another batch size */
  RIG_STATS = 32,         /**< SyncBN: forward and backward only compute their sums; rig_finish()
                        completes them */
  RIG_NO_DX = 64,         /**< BNORM with add: only dx2 is computed */
  RIG_NO_DX2 = 128,       /**< BNORM with add: only dx is computed */
  RIG_ADD_DX = 256,       /**< LNORM, BNORM: dy2, which has the shape of x, is added to dx */
  RIG_ADD_DW = 512,       /**< the parameter gradients are written, then added to themselves */
  RIG_INPLACE_ADD = 2048, /**< dx is in the memory of the gradient that is added to it */
  RIG_AGAIN = 1024        /**< forward runs once more: rig_again() */
};
typedef struct trial {
  const char *name;
  int passes, flags;
  ct_layout_t offered;
} trial_t;

/** Host inputs of an op; inputs that its kind does not have are NULL. */
typedef struct inputs {
  float *x, *x2, *x3, *dy, *dy2, *w[4];
  int32_t *labels, *labels2; /**< labels2 and mix: only if the batch is a multiple of 3 */
  float *mix, *targets, *class_weight, *sample_weight,
      *place_weight; /**< inputs of a loss, even if it does not use them */
} inputs_t;

typedef enum {
  DATA_RANDOM, /**< mean 0, variance 1 */
  DATA_TIES,   /**< the same, rounded to halves: many equal values */
  DATA_SPREAD  /**< all values of x at least 0.2 apart, none near 0 */
} data_kind_t;

/** Writes or reads one element of host memory as CT_F32 or CT_BF16 (round to nearest even). */
void element_put(void *mem, ct_dtype_t dtype, int64_t i, float v);
float element_take(const void *mem, ct_dtype_t dtype, int64_t i);

/** Creates random inputs; activations are values that the type of d->x can represent. */
void inputs_open(inputs_t *in, const ct_op_desc_t *d, uint64_t seed, data_kind_t kind);
void inputs_close(inputs_t *in);

/** Host results of an op. */
typedef struct outputs {
  float *y, *dx, *dx2, *dx3, *dw[4], *running[2];
  ct_loss_t loss;
} outputs_t;

void outputs_open(outputs_t *out, const ct_op_desc_t *d);
void outputs_close(outputs_t *out);

/** Number of elements of parameter 0 … 3 of an op in the plain layout; 0 if it has none. */
int64_t param_count(const ct_op_desc_t *d, int param);
/** Index of the parameter that the forward pass updates as running[i]; CT_OP_PARAMS: none. */
int param_running(const ct_op_desc_t *d, int i);
/** Number of values over which a normalisation takes the mean, and its eps; 0: not a normalisation.
 */
int64_t normalised(const ct_op_desc_t *d, double *eps);
int takes_x2(const ct_op_desc_t *d);
/** Number of elements of x2. */
int64_t second_count(const ct_op_desc_t *d);
/** Number of elements of x3; 0: the op has none. */
int64_t third_count(const ct_op_desc_t *d);
/** Returns 1 if the op has a third input that is no parameter. */
int takes_x3(const ct_op_desc_t *d);

/** An activation in an op's own layout and type, alone or as the first channels of a larger tensor.
 */
typedef struct tensor {
  block_t own, plain;
  block_t alone; /**< of a part: the part without the rest, which is NaN */
  ct_shape_t shape;
  ct_op_t *in, *out; /**< REORDER ops; NULL if it is plain float32 */
} tensor_t;

int tensor_open(tensor_t *t, side_t *s, const ct_shape_t *shape, ct_layout_t layout);
/** The same for a part of a tensor of shape \a around. */
int tensor_open_in(tensor_t *t, side_t *s, const ct_shape_t *shape, const ct_shape_t *around,
                   ct_layout_t layout);
/** Returns the block that holds the tensor and nothing else. */
block_t *tensor_alone(tensor_t *t);
/** Copies a part of a larger tensor to its place in it, or from there.  Returns 1 if the rest of
 * the larger tensor is NaN, as block_spoil() leaves it. */
int tensor_move_part(tensor_t *t, int to_place);
void tensor_put(tensor_t *t, const float *host);
/** Reads the tensor.  Returns 0 if a padding channel is not zero or something was written after the
 * end. */
int tensor_take(tensor_t *t, float *host);
void tensor_close(tensor_t *t);

typedef struct rig {
  side_t *side;
  trial_t how;
  ct_op_desc_t desc; /**< descriptor as prepared */
  ct_op_info_t info;
  ct_op_t *op, *like;
  tensor_t x, x2, x3, y, dy, dy2, dx, dx2, dx3;
  block_t w[4], reduced[4], dw[4], saved, scratch, loss_in[7], stats, places;
  ct_loss_t *loss;
  int done;          /**< passes run since the last forward pass */
  ct_op_args_t args; /**< arguments of the last run; seed, step, first, scale may be set before
                          it */
} rig_t;

/** Returns the layout that the op prefers when \a offered is offered. */
ct_layout_t rig_layout(side_t *s, const ct_op_desc_t *d, ct_layout_t offered);
/** Prepares the op and fills r->info.  Returns CT_OK or the backend's error.  The rig can be closed
 * in any case. */
int rig_prepare(rig_t *r, side_t *s, const ct_op_desc_t *d, const trial_t *how);
/** Prepares the op and allocates the memory to run it. */
int rig_open(rig_t *r, side_t *s, const ct_op_desc_t *d, const trial_t *how);
/** Puts the first input of a concatenation where it has to be; other ops: nothing. */
void rig_place(rig_t *r);
/** Takes dx of a concatenation from its place in dy. */
void rig_take_placed(rig_t *r);
int rig_forward(rig_t *r, const inputs_t *in);
/** Returns 1 if an op has to be able to make dropped results again (rig_again.c). */
int rig_can_again(const ct_op_desc_t *d);
/** Runs forward once more with `again` after its results were spoiled.  CT_ERR_DIFFER: they have
 * other bits, or a parameter has changed. */
int rig_again(rig_t *r);
/** Runs the passes of the trial except the forward pass. */
int rig_backward(rig_t *r, const inputs_t *in);
/** SyncBN: reads the 2C + 1 sums of the last run. */
void rig_stats(const rig_t *r, double *sums);
/** SyncBN: completes the pass with the sums over all ranks. */
int rig_finish(rig_t *r, const double *sums);
/** Reads the results of the run.  Returns NULL, or an error found besides the values. */
const char *rig_take(rig_t *r, outputs_t *out);
/** Returns NULL, or the name of an input that was changed although no result shares its memory. */
const char *rig_inputs_changed(rig_t *r, const inputs_t *in);
void rig_close(rig_t *r);

/* ---- rig_loss.c: additional inputs of losses ---- */

void loss_inputs_open(inputs_t *in, const ct_op_desc_t *d, uint64_t seed);
void loss_inputs_close(inputs_t *in);
/** Copies the inputs to device memory and sets r->args. */
void loss_inputs_put(rig_t *r, const inputs_t *in);

#endif
