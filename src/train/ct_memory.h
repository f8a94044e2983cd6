/** \file ct_memory.h  Device memory of one rank's trainer, by purpose. Layer 4.
 *
 * ct_trainer_plan_memory() predicts these numbers before a run (for `summary` and `doctor`). The
 * trainer allocates exactly these sizes and counts what it allocates (ct_trainer_memory()). */
#ifndef CT_MEMORY_H
#define CT_MEMORY_H
#include <stddef.h>

/** Kinds up to CT_MEMORY_STATES are arrays of parameters. */
typedef enum {
  CT_MEMORY_WEIGHTS,         /**< float32: whole, or with ZeRO-1 partly this rank's slices */
  CT_MEMORY_BUFFERS,         /**< running statistics; twice with train.replay_every */
  CT_MEMORY_REDUCED_WEIGHTS, /**< mixed precision: bf16 or fp16 copy of the weights */
  CT_MEMORY_ROUNDED_WEIGHTS, /**< train.qat: the weights rounded to int8 steps */
  CT_MEMORY_AVERAGES,        /**< EMA of weights and buffers */
  CT_MEMORY_GRADIENTS,       /**< allocated by the communicator */
  CT_MEMORY_PARTIAL_SUMS,    /**< parallel.shards: gradient sums of earlier micro-batches */
  CT_MEMORY_STATES,          /**< optimizer states that this rank updates */
  CT_MEMORY_STATE_PIECE,     /**< ZeRO-1, rank 0: a parameter on its way to or from a checkpoint */
  CT_MEMORY_ACTIVATIONS,     /**< activations of the largest plan (training or evaluation) */
  CT_MEMORY_SCRATCH,         /**< workspace of the largest plan; mode dp adds that of the whole
                                batch's loss */
  CT_MEMORY_BATCHES,         /**< device copies of batches: one in use, one being prefetched */
  CT_MEMORY_CHANNEL_MAPS,    /**< normalization constants for batches that arrive as bytes */
  CT_MEMORY_CLASS_WEIGHTS,   /**< weights of classes and places of the losses */
  CT_MEMORY_STATISTICS,      /**< SyncBN's message buffer */
  CT_MEMORY_NORMS,           /**< per-parameter norms for optimizer rules that need them (lars,
                              lamb) */
  CT_MEMORY_MATRIX,          /**< muon: workspace for a matrix */
  CT_MEMORY_LATE_ROWS,       /**< rows of shared tables, of all ranks (train/late_rows.c) */
  CT_MEMORY_DEALT,           /**< mode dp: buffers that rank 0 scatters from and gathers into */
  CT_MEMORY_COUNT
} ct_memory_kind_t;

/** What a rank's budget (train.memory) is spent on besides activations. */
typedef enum {
  CT_BUDGET_PROCESS,    /**< in use before the trainer is made: program, libraries, open data; on a
                             GPU what libraries hold on the card */
  CT_BUDGET_ARRAYS,     /**< parameters, gradients, states: what does not depend on plans */
  CT_BUDGET_NEIGHBOURS, /**< on a CPU: gradients of the other ranks of the node, in shared memory,
                             of which this rank sums a part */
  CT_BUDGET_CHECKPOINT, /**< on a CPU: the copy of the state that rank 0 writes */
  CT_BUDGET_FEED,       /**< on a CPU: batches, decoded samples, outputs of an evaluation */
  CT_BUDGET_OPS,        /**< on a CPU: code and descriptions of prepared ops */
  CT_BUDGET_SCRATCH,    /**< workspace of the largest plan */
  CT_BUDGET_MARGIN,     /**< for libraries (train/budget.c) */
  CT_BUDGET_COUNT
} ct_budget_kind_t;

/** The budget of a rank, and how the training plan meets it. */
typedef struct ct_budget {
  size_t bytes; /**< 0: there is none */
  size_t taken[CT_BUDGET_COUNT];
  size_t activations;  /**< of the largest training plan */
  size_t whole;        /**< the same without recomputation */
  size_t most;         /**< the most that the activations of any plan may be */
  size_t least;        /**< the least budget that can be met */
  int met;             /**< 1: all training plans fit */
  int evaluation;      /**< samples of a rank that can be evaluated at a time */
  int again, launches; /**< launches of a step: made again, and all without these */
  double seconds;      /**< modelled time of a step without recomputation */
  double flops, share; /**< what they add to a step: FLOPs, and part of its modelled time */
} ct_budget_t;

typedef struct ct_memory {
  size_t bytes[CT_MEMORY_COUNT];
  size_t on_host; /**< optim.place host: states and weights in host memory, not in `bytes` */
  ct_budget_t budget;
  size_t evaluation;         /**< activations that evaluation alone would need */
  int samples[2];            /**< largest local batch: [0] evaluation, [1] training */
  unsigned activation_types; /**< dtypes of the first plan's values: bits 1 << ct_dtype_t */
  size_t logits;     /**< of a batch, which the first plan of training does not store because its
                          last layer and the loss are one op; 0: they are two */
  size_t slabs;      /**< outputs of convolutions of a batch that are not stored either, because
                          the convolution and its pooling are one op */
  char unfused[128]; /**< why they are two; "": the last layer is none that could be fused */
} ct_memory_t;

/** How a buffer is distributed over the ranks. */
typedef enum {
  CT_SPREAD_SAME,    /**< replicated: each rank holds all of it */
  CT_SPREAD_SLICES,  /**< each rank holds one slice */
  CT_SPREAD_SUMMED,  /**< each rank holds its own summand; they are all-reduced */
  CT_SPREAD_SAMPLES, /**< each rank holds the part of its own samples */
  CT_SPREAD_ROOT     /**< mode dp: only rank 0's copy counts */
} ct_spread_t;

/** One row of the memory report: a buffer, its types and where it resides. */
typedef struct ct_residency {
  const char *what;
  unsigned types; /**< bits 1 << ct_dtype_t */
  ct_spread_t spread;
  int on_device; /**< 0: in host memory, whatever the device */
} ct_residency_t;
enum { CT_RESIDENCIES = 8 };

/** Pure. Returns the memory that the process of the rank uses at its peak, in bytes; \a whole:
 * without recomputation. */
size_t ct_budget_peak(const ct_budget_t *b, int whole);
/** Local. CT_ERR_NOMEM: the budget cannot be met; the message says the least. */
int ct_budget_check(const ct_budget_t *b);
/** Pure. Writes what the budget does: "recomputes 23 of 161 launches: 6.1 GiB instead of 9.8 GiB,
 * about +4% time". Returns buf. */
const char *ct_budget_text(const ct_budget_t *b, char *buf, size_t cap);

/** Pure. Returns the sum over all kinds, in bytes. */
size_t ct_memory_total(const ct_memory_t *m);

#endif
