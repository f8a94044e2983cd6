/** \file ct_plan.h  From a model to work: which ops run in which order on which bytes.  Layer 3.
 *
 * A plan is made once for (model, local batch, training or not) and then run without deciding or
 * allocating anything.  It is made in six passes, a file each:
 *
 *   lower.c     layers -> ops; fuses ReLU and residual add                           (pure)
 *   quantize.c  which ops compute in eight bits                                      (device)
 *   precision.c which tensors are of the low type of mixed precision                 (device)
 *   prepare.c   asks the backend for layouts, algorithms and bytes, op by op         (device)
 *   launches.c     the works of forward and backward                                    (pure)
 *   offsets.c   life times, in-place sharing, an offset in one arena for each tensor (pure)
 *
 * arena.c lays out the parameters, and buckets.c cuts the gradient arena into the slices that
 * travel during backward (pure). */
#ifndef CT_PLAN_H
#define CT_PLAN_H
#include "backend/ct_backend.h"
#include "model/ct_graph.h"
#include "model/ct_quant.h"

/** A tensor of the plan: a forward value, a gradient, or what an op saves for its backward. */
typedef struct ct_value {
  size_t bytes;
  ct_shape_t shape;     /**< values and gradients; zero for saved bytes */
  ct_quant_pair_t pair; /**< with ct_plan_opts_t.quant: how it would be, or is, CT_U8 */
  int grad;             /**< 1: something trained lies before it, so backward needs its gradient */
  int external;         /**< the network's input, whose memory comes with each batch: 1; its further
                           ones: from 2 on */
  int first, last;      /**< works between which it lives, inclusive */
  size_t offset;        /**< in the activation arena */
  int same_as;          /**< shares the memory of that value (in place); -1: has its own */
} ct_value_t;

/** An op of the plan. */
typedef struct ct_plan_op {
  ct_op_desc_t desc;
  int layer;      /**< whose parameters it has; -1: none (reorder, gradient sum, loss) */
  int trained;    /**< 1: it has parameters to train */
  int in[2];      /**< values; -1: none */
  int out;        /**< value */
  int saved;      /**< value, or -1 */
  ct_op_t *op;    /**< owned */
  ct_op_t *empty; /**< owned; SyncBN: the forward pass of an empty batch; else NULL */
  ct_op_info_t info;
} ct_plan_op_t;

/** One run of one op.  Members are values, -1 where the op does not take it.  A batchnorm with
 * SyncBN has a work with the pass CT_FWD_STATS (CT_BWD_STATS) before its CT_FWD (CT_BWD_DATA);
 * between the two the caller sums ct_bind_t.stats over the group.  All plans of a model have the
 * same of them in the same order. */
typedef struct ct_work {
  int op, pass;
  int x, x2, y, dy, dy2, dx, dx2;
} ct_work_t;

/** Where each parameter lies: made by the first plan of a model, equal on all ranks.  Trained ones
 * lie in the order in which backward finishes their gradients, each on a 64-byte boundary; then the
 * frozen ones of layers that are partly trained (backward writes their gradients too, and nobody
 * reads them); then the other frozen ones. */
typedef struct ct_arena_map {
  int params;
  size_t *offset;      /**< per graph parameter, bytes; in the weight arena, or the buffer arena */
  size_t *bytes;       /**< without the padding to the boundary */
  int *order;          /**< trained parameters by offset */
  int trained;         /**< how many */
  size_t weight_bytes; /**< of the weight arena */
  size_t gradient_bytes; /**< of the gradient arena */
  size_t
      trained_bytes; /**< of the trained ones: the state arenas, and what is reduced and updated */
  size_t buffer_bytes;
  uint64_t layout; /**< hash of all layouts: ranks agree on it */
} ct_arena_map_t;

/** A slice of the gradient arena that is sent when the work \a after is done. */
typedef struct ct_bucket {
  size_t offset, bytes;
  int after; /**< index into ct_plan_t.work */
} ct_bucket_t;

/** What a plan is for. */
typedef struct ct_plan_opts {
  int n; /**< samples, at least 1 */
  int training;
  int inference;      /**< not training: nothing but the logits is computed; no labels are wanted */
  ct_dtype_t compute; /**< CT_F32, or the low type of mixed precision: CT_BF16, CT_F16 */
  int sync_bn;        /**< training: batchnorms take the statistics of a group of ranks */
  int bytes;          /**< 1: the input comes as uint8, and an op makes numbers of it … */
  int channels_last;  /**< … and 1: in CT_NHWC */
  ct_loss_spec_t loss;
  const ct_quant_t *quant; /**< numbers of eight bits, of a folded graph; borrowed while the plan is
                              made; not for training.  NULL: none */
} ct_plan_opts_t;

typedef struct ct_plan {
  const ct_backend_t *be;  /**< borrowed */
  ct_dev_t *dev;           /**< borrowed */
  const ct_graph_t *graph; /**< borrowed */
  ct_plan_opts_t o;
  int64_t cap_ops, cap_values, cap_works;
  ct_plan_op_t *op;
  int ops;
  ct_value_t *value;
  int values;
  ct_work_t *work;
  int works;
  int loss_work; /**< index of the loss: works before it are forward, after it backward; inference:
                    there is none, and it is `works` */
  int input, logits;        /**< values */
  int more[CT_INPUTS_MORE]; /**< those of the further inputs */
  int *layer_op;            /**< per layer: the op that holds its parameters, or -1 */
  size_t arena_bytes;       /**< activations, gradients, saved */
  size_t scratch_bytes;
} ct_plan_t;

/** Local.  \a like: a plan of the same model and device whose parameter layouts are taken over, or
 * NULL. CT_ERR_UNSUP names the layer and what the backend cannot do; CT_ERR_USAGE for training a
 * model without parameters. */
int ct_plan_make(const ct_graph_t *g, const ct_backend_t *be, ct_dev_t *dev,
                 const ct_plan_opts_t *o, const ct_plan_t *like, ct_plan_t **out);
void ct_plan_free(ct_plan_t *p);

/** Local.  The arenas' map from a plan (the first one made for the model). */
int ct_arena_map_make(const ct_plan_t *p, ct_arena_map_t *out);
void ct_arena_map_clear(ct_arena_map_t *m);

/** Pure.  Cuts [0, trained_bytes) into buckets of at least \a bucket_bytes (the last may be
 * smaller), at parameter boundaries; bucket[cap]; returns how many, at least 1 if anything is
 * trained. */
int ct_buckets_make(const ct_plan_t *p, const ct_arena_map_t *m, size_t bucket_bytes, int cap,
                    ct_bucket_t *bucket);

/** Pure.  Bytes of the gradient arena that work \a i completes; over all works of a training plan
 * they sum up to trained_bytes. */
size_t ct_work_completes(const ct_plan_t *p, const ct_arena_map_t *m, int i);

/** The memory a plan is run on; all of the device. */
typedef struct ct_bind {
  char *arena, *scratch;
  char *weight, *gradient, *buffer; /**< gradient may be NULL for evaluation */
  const char
      *low; /**< the weights in the low type, at half their offsets; NULL: the backend wants none */
  const ct_arena_map_t *map;
  const void *x; /**< the network's input, plain float32, or what the options say */
  const float *more[CT_INPUTS_MORE]; /**< its further ones, plain float32 */
  const float *affine;               /**< of ct_plan_opts_t.bytes: ct_op_args_t.affine */
  const int32_t *labels, *labels2;
  const float *mix, *targets, *class_weight, *weights; /**< weights: of the samples */
  ct_loss_t *loss;                                     /**< staging memory */
  double *stats;    /**< SyncBN: device memory, 2C + 1 for the largest C */
  int keep_running; /**< running statistics are left alone */
  float loss_scale; /**< factor of the gradient: 1 / global batch, times the loss scale */
  uint64_t seed;    /**< dropout */
  int64_t step, first;
} ct_bind_t;

/** Local, Hot.  Enqueues work \a i. */
int ct_plan_run(const ct_plan_t *p, int i, const ct_bind_t *b, ct_queue_t *q);

/** Local, Hot.  The same on a rank without samples: the sums of a SyncBN are zeros, and its running
 * statistics become those of the group; all else is nothing. */
int ct_plan_run_empty(const ct_plan_t *p, int i, const ct_bind_t *b, ct_queue_t *q);

/** Local.  The loss of a training plan, but of n samples, as an op of its own: for who has the
 * outputs of other plans together.  *op is the caller's. */
int ct_plan_whole_loss(const ct_plan_t *p, int n, ct_op_t **op, size_t *scratch);

/** The value in whose memory \a v lies: itself, or what it shares in place. */
int ct_plan_root(const ct_plan_t *p, int v);

#endif
