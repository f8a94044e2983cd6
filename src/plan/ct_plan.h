/** \file ct_plan.h  Plans: a model compiled to ops in order, with all memory assigned.  Layer 3.
 *
 * A plan is made once for (model, local batch, training or not).  It then runs without decisions or
 * allocations.  Nine compiler passes make it, one file each:
 *
 *   lower.c     layers -> ops; fuses ReLU and residual add                           (pure)
 *   fuse.c      chains of elementwise ops become one                                 (pure)
 *   slabs.c     large convolutions with their pooling become one op in slabs         (device)
 *   cache.c     caches of keys and values, for decoding                              (pure)
 *   quantize.c  which ops compute in int8                                            (device)
 *   precision.c which tensors have reduced precision in mixed precision              (device)
 *   prepare.c   asks the backend for layouts, algorithms and bytes, op by op         (device)
 *   launches.c  the launches of forward and backward                                 (pure)
 *   offsets.c   life times, in-place sharing, an offset in one arena for each tensor (pure)
 *
 * place.c, asked by prepare.c, makes one tensor of the results of a chain of concatenations.
 * recompute.c makes a training plan fit into less memory: some values are made again in backward.
 *
 * arena.c lays out the parameters, and buckets.c cuts the gradient arena into the buckets that are
 * all-reduced during backward (pure). */
#ifndef CT_PLAN_H
#define CT_PLAN_H
#include "backend/ct_backend.h"
#include "model/ct_graph.h"
#include "model/ct_quant.h"

/** A tensor of the plan: an activation, a gradient, or data that an op saves for its backward
 * pass. */
typedef struct ct_value {
  size_t bytes;
  ct_shape_t shape;     /**< zero for saved data */
  ct_quant_params_t qp; /**< int8 plans: scale and zero point of a value that can be CT_U8 */
  int grad;             /**< 1: backward needs its gradient, because a trained layer precedes it */
  int external;         /**< 1: the network's input, whose memory comes with each batch; from 2 on:
                             the extra inputs */
  int param;            /**< 1 + index of the parameter whose gradient in the arena the value is; 0:
                             it is none */
  int exact;            /**< 1: float32 in mixed precision too, because indices come from it */
  int added;       /**< 1 + index of a parameter whose gradient the value is where a micro-batch
                             adds (ct_bind_t.adds); elsewhere that gradient in the arena takes its
                             place.  0: none */
  int first, last; /**< first and last launch that access the value */
  int state;       /**< 1: keeps its contents between runs, in an arena of its own */
  size_t offset;   /**< in the activation arena, or in that of states, in bytes */
  int same_as;     /**< in-place sharing: value whose memory this one uses; -1: own memory */
} ct_value_t;

/** An op of the plan. */
typedef struct ct_plan_op {
  ct_op_desc_t desc;
  int layer;   /**< layer that the op computes; -1: none (reorder, gradient sum, loss) */
  int trained; /**< 1: has trained parameters */
  int head; /**< LOSS, HEAD_LOSS: number of the loss that it computes; -1: none, it only states the
                             layout of an output without a loss; 0 for other ops */
  int output; /**< LOSS: number of the output that it reads; HEAD_LOSS: that it replaces */
  int in[CT_OP_INPUTS]; /**< input values; -1: none */
  int out;              /**< output value */
  int saved;            /**< value for data saved for the backward pass, or -1 */
  ct_op_t *op;          /**< owned */
  ct_op_t *empty; /**< owned; SyncBN: prepared for the forward pass of an empty batch; else NULL */
  ct_op_info_t info;
} ct_plan_op_t;

/** A launch: one run of one op.  x … dw are values; -1: not used by the op.  A SyncBN has two
 * launches in each direction: one with the pass CT_FWD_STATS (backward: CT_BWD_STATS), then one
 * with CT_FWD (CT_BWD_DATA).  Between the two, the caller all-reduces ct_bind_t.stats over the
 * group.  All plans of a model have the same SyncBN launches in the same order. */
typedef struct ct_plan_launch {
  int op, pass;
  int x, x2, x3, y, dy, dy2, dx, dx2, dx3, dx_add;
  int saved;            /**< what the op saves for its backward pass */
  int dw[CT_OP_PARAMS]; /**< values for the gradients of parameters; -1: in the gradient arena */
  int again; /**< 1: a forward launch in the middle of backward, which makes values once more */
  int adds;  /**< 1: adds to the gradients of parameters, which an earlier launch wrote;
                CT_ADDS_LATER: does so where the micro-batch adds */
  int late;  /**< 1 + index in ct_plan_t.late; 0: none */
} ct_plan_launch_t;
#define CT_ADDS_LATER 2

/** A table whose gradient is complete, but for the rows of its embedding, before the last launches
 * of backward, such as one that is also the weight of the last layer.  The embedding's launch does
 * not run: it copies its indices and the gradients of its rows to ct_bind_t.late, and the caller
 * adds those of all ranks to the reduced gradient. */
typedef struct ct_late_rows {
  int param;      /**< index in graph.param */
  int op;         /**< in ct_plan_t.op */
  int64_t sample; /**< indices of one sample */
} ct_late_rows_t;
#define CT_LATE_MAX 4

/** Layout of all parameters in the arenas; made from the first plan of a model, identical on all
 * ranks.  Trained parameters come in the order in which backward completes their gradients, each
 * aligned to 64 bytes; with ct_plan_opts_t.slices first those that are read in reduced precision
 * alone, then those that an op reads in float32.  Then come the frozen parameters of partly trained
 * layers (backward writes their gradients, which are ignored), then the other frozen parameters. */
typedef struct ct_arena_map {
  int params;
  size_t *offset;      /**< bytes; per graph parameter, in the weight arena or the buffer arena */
  size_t *bytes;       /**< size without alignment padding */
  int *order;          /**< trained parameters, sorted by offset */
  int trained;         /**< number of trained parameters */
  size_t weight_bytes; /**< size of all parameters but buffers */
  size_t low_bytes;    /**< ct_plan_opts_t.slices: bytes of the trained parameters at the beginning
                       that ops read in reduced precision alone; the others are whole in float32 on
                       each rank */
  size_t gradient_bytes; /**< size of the gradient arena */
  size_t
      trained_bytes; /**< bytes of the trained parameters at the beginning of the arenas: this part
                          is all-reduced and updated, and an optimizer state has this size */
  size_t buffer_bytes;
  uint64_t layout; /**< hash of all layouts; identical on all ranks */
} ct_arena_map_t;

/** A slice of the gradient arena that is all-reduced once launch \a after is done. */
typedef struct ct_bucket {
  size_t offset, bytes;
  int after; /**< index into ct_plan_t.launch */
} ct_bucket_t;

/** One of the losses of a model. */
typedef struct ct_head {
  ct_loss_spec_t loss;
  const char *name;          /**< borrowed; of the output, for people */
  int output;                /**< number of the output of the graph that it is of */
  int target;                /**< 0: the first target of the data; k: the k-th further one */
  double weight;             /**< factor of this loss in the sum of the losses */
  const float *class_weight; /**< borrowed; [ct_op_classes()]; NULL: 1 */
  const float *place_weight; /**< borrowed; [ct_op_places()]; NULL: 1 */
} ct_head_t;
typedef struct ct_heads {
  ct_head_t of[CT_OUTPUTS];
  int n;
} ct_heads_t;

#define CT_ACCUMULATE_EXACT 2

/** Options of a plan. */
typedef struct ct_plan_opts {
  int n; /**< batch size in samples, at least 1 */
  int training;
  int inference;        /**< not training: computes only the logits and needs no labels */
  ct_dtype_t compute;   /**< CT_F32, or for mixed precision CT_BF16 or CT_F16 */
  int sync_bn;          /**< training: batchnorms use the statistics of a group of ranks */
  int64_t cache;        /**< inference: elements of a sequence that the caches of keys and values
                             hold, which a run continues from ct_bind_t.position on; 0: no caches */
  int only_cache;       /**< 1: computes nothing but the contents of the caches */
  double slab_mb;       /**< a convolution whose output is larger than so many MiB per sample is one
                             op with its pooling (slabs.c); 0: never */
  int bytes;            /**< 1: the input is uint8, and an op converts it to floats */
  int channels_last;    /**< 1: the uint8 input is in CT_NHWC */
  int64_t late_samples; /**< training: samples of all ranks; the rows of a shared table are late
                                (ct_late_rows_t) if so many samples have at most as many indices as
                                the table has rows.  0: never */
  int slices; /**< 1: the float32 weights are divided among the ranks, where ops read a copy in
                   reduced precision (ct_arena_map_t.low_bytes) */
  ct_loss_spec_t loss; /**< the loss of the first output ... */
  ct_heads_t heads;    /**< ... unless n > 0: the losses.  Training leaves
                            out layers that no loss needs, other plans compute all outputs */
  int accumulates;     /**< training: 1: micro-batches after the first add to the gradients in the
                             arena (ct_bind_t.adds); CT_ACCUMULATE_EXACT: each adds its whole
                             gradient, so that a sum of sums is independent of who computes it */
  int outputs_unread;  /**< 1: nobody reads the outputs: a linear layer before the only loss may be
                           fused with it.  Inference computes its outputs in any case */
  const ct_quant_t *quant; /**< scales and zero points for a folded graph; borrowed during
                                ct_plan_make(); not for training.  NULL: no int8 */
} ct_plan_opts_t;

/** What ct_plan_limit() has done. */
typedef struct ct_plan_again {
  int launches;   /**< launches that make values once more */
  int unmet;      /**< 1: the last limit cannot be met */
  double flops;   /**< of these launches */
  double share;   /**< their modelled time, as a part of that of all other launches */
  double seconds; /**< modelled time of the step without a limit */
  size_t least;   /**< bytes of the smallest arena that can be; 0: not known yet */
  size_t most;    /**< bytes of the arena without a limit */
} ct_plan_again_t;

typedef struct ct_plan {
  const ct_backend_t *be;  /**< borrowed */
  ct_dev_t *dev;           /**< borrowed */
  const ct_graph_t *graph; /**< borrowed */
  ct_plan_opts_t o;
  int64_t cap_ops, cap_values, cap_launches;
  ct_plan_op_t *op;
  int ops;
  ct_value_t *value;
  int values;
  ct_plan_launch_t *launch;
  int launches;
  int loss_launch; /**< index of the launch of the last loss; the losses come one after another,
                      earlier launches are forward, later ones backward; inference, which has no
                      loss: equal to `launches` */
  int input;       /**< value of the network's input */
  int logits;      /**< value of the first output, or of the first that is computed; -1: none */
  int output[CT_OUTPUTS]; /**< values of the outputs, plain float32; -1: it is not computed */
  char unfused[128]; /**< why the last layer and its loss are two ops, although the layer is linear
                          over places or a 1x1 convolution; else "" */
  int extra[CT_INPUTS_EXTRA]; /**< values of the extra inputs */
  int *layer_op;              /**< per layer: the op with its parameters, or -1 */
  ct_late_rows_t late[CT_LATE_MAX];
  int lates;
  size_t arena_bytes; /**< activations, gradients and saved data */
  ct_plan_again_t again;
  struct {
    ct_plan_launch_t *launch; /**< owned; NULL: no limit was ever set */
    int launches, values;
    int *dropped;     /**< owned; per launch, what becomes of it: see recompute.c */
    int *least;       /**< owned; the same for again.least; NULL: not known yet */
  } unlimited;        /**< the plan without a limit */
  size_t state_bytes; /**< values that keep their contents; the same in all plans of a batch
                                   size and `cache` */
  size_t scratch_bytes;
} ct_plan_t;

/** Local.  Makes a plan.  \a like: a plan of the same model and device, or NULL; the new plan uses
 * the parameter layouts of \a like.
 * CT_ERR_UNSUP names the layer and the missing feature of the backend; CT_ERR_USAGE: training a
 * model without parameters. */
int ct_plan_make(const ct_graph_t *g, const ct_backend_t *be, ct_dev_t *dev,
                 const ct_plan_opts_t *o, const ct_plan_t *like, ct_plan_t **out);
/** Frees the plan and its prepared ops; \a p may be NULL. */
void ct_plan_free(ct_plan_t *p);

/** Local, pure.  Changes the launches of a training plan so that its arena has at most \a
 * arena_bytes, at the least modelled time: values that are only kept for backward are dropped after
 * their last reader in forward, and made again by a further forward launch just before backward
 * reads them.  The results have the same bits.  It starts from the plan without a limit each time,
 * which SIZE_MAX restores; p->again says what was done.  Launches move: make buckets after it
 * (ct_buckets_make()).  CT_ERR_NOMEM with p->again.unmet 1: the limit cannot be met; the message
 * says the least that can, and the plan is as it was.  Any other failure leaves a plan that can
 * only be freed. */
int ct_plan_limit(ct_plan_t *p, size_t arena_bytes);

/** Local.  Makes the arena layout from a plan (the first one of the model). */
int ct_arena_map_make(const ct_plan_t *p, ct_arena_map_t *out);
/** Frees the contents; the struct may be all zero: nothing to free. */
void ct_arena_map_clear(ct_arena_map_t *m);
/** Local.  CT_ERR_UNSUP: an op of another plan reads a parameter in float32 that is in slices. */
int ct_arena_map_check(const ct_arena_map_t *m, const ct_plan_t *p);

/** Pure.  Cuts [0, trained_bytes) into buckets of at least \a bucket_bytes (the last may be
 * smaller), at parameter boundaries, into bucket[cap].  Returns the number of buckets: at least 1
 * if the model has trained parameters. */
int ct_buckets_make(const ct_plan_t *p, const ct_arena_map_t *m, size_t bucket_bytes, int cap,
                    ct_bucket_t *bucket);

/** Pure.  Returns the least memory traffic of launch \a i in bytes: each operand once, where
 * parameters are read by forward and backward data and written by backward to parameters. */
double ct_plan_launch_bytes(const ct_plan_t *p, int i);
/** Pure.  Returns the modelled time of launch \a i in seconds, for comparisons between launches:
 * the rates are those of a typical device of the backend. */
double ct_plan_launch_seconds(const ct_plan_t *p, int i);

/** Pure.  Returns the bytes of the gradient arena that launch \a i completes; the sum over all
 * launches of a training plan is trained_bytes. */
size_t ct_plan_launch_completes(const ct_plan_t *p, const ct_arena_map_t *m, int i);

/** What a loss after the first reads. */
typedef struct ct_head_bind {
  const int32_t *labels, *labels2;
  const float *mix, *targets, *class_weight, *place_weight; /**< as in ct_op_args_t */
  float scale;                                              /**< factor of the gradient */
} ct_head_bind_t;

/** The memory of one run of a plan; all pointers are device memory unless noted. */
typedef struct ct_bind {
  char *arena, *scratch;
  char *state;             /**< ct_plan_t.state_bytes, which only runs of the plans write */
  char *weight;            /**< the float32 weights from ct_arena_map_t.low_bytes on */
  char *gradient, *buffer; /**< gradient may be NULL in evaluation */
  const char
      *reduced; /**< the weights in reduced precision, at half the offsets of the float32 weights;
                     NULL if the backend does not use them */
  const ct_arena_map_t *map;
  const void *x; /**< input batch in plain float32, or as ct_plan_opts_t says */
  const float *extra[CT_INPUTS_EXTRA]; /**< extra inputs in plain float32 */
  const float *affine;                 /**< ct_op_args_t.affine, with ct_plan_opts_t.bytes */
  const int32_t *labels, *labels2;
  const float *mix, *targets, *class_weight, *place_weight; /**< as in ct_op_args_t */
  const float *weights;                                     /**< ct_op_args_t.sample_weight */
  ct_loss_t *loss;  /**< staging memory: one for each loss */
  double *stats;    /**< SyncBN: 2C + 1 numbers for the largest C */
  int adds;         /**< 1: the gradients are added to those in the arena; needs `accumulates` */
  int keep_running; /**< 1: do not update running statistics */
  float loss_scale; /**< factor of the gradient: loss scale / global batch */
  ct_head_bind_t more[CT_OUTPUTS - 1]; /**< the losses after the first */
  uint64_t seed;                       /**< dropout */
  int64_t step, first;
  const int32_t *position; /**< ct_op_args_t.position */
  struct {
    float *index; /**< [n * ct_late_rows_t.sample] */
    char *row;    /**< gradients of the rows of these indices */
  } late[CT_LATE_MAX];
} ct_bind_t;

/** Local, Hot.  Enqueues launch \a i. */
int ct_plan_run(const ct_plan_t *p, int i, const ct_bind_t *b, ct_queue_t *q);

/** Local, Hot.  Replaces ct_plan_run() on a rank whose batch is empty.  For a SyncBN it contributes
 * zeros to the sums and updates the running statistics from the group; other launches do
 * nothing. */
int ct_plan_run_empty(const ct_plan_t *p, int i, const ct_bind_t *b, ct_queue_t *q);

/** Pure.  Returns the losses of a plan's options: o->heads, or o->loss of the first output. */
ct_heads_t ct_plan_heads(const ct_plan_opts_t *o);

/** Local.  Prepares the only loss of a training plan for \a n samples as a separate op, for callers
 * that concatenate the outputs of several plans.  The caller owns *op. */
int ct_plan_whole_loss(const ct_plan_t *p, int n, ct_op_t **op, size_t *scratch);

/** Pure.  Returns the index in ct_plan_t.late of the table that is parameter \a param; -1: it is
 * none. */
int ct_plan_late(const ct_plan_t *p, int param);

/** Returns the value that owns the memory of \a v: \a v itself, or the value whose memory \a v
 * uses. */
int ct_plan_root(const ct_plan_t *p, int v);

#endif
