/** \file ct_memory.h  The device memory of one rank's trainer, by what it is for.  Layer 4.
 *
 * The same list is said before a run (ct_trainer_plan_memory(), for `summary` and `doctor`), is
 * what the trainer allocates by, and is counted as it allocates (ct_trainer_memory()). */
#ifndef CT_MEMORY_H
#define CT_MEMORY_H
#include <stddef.h>

typedef enum {
  CT_MEMORY_WEIGHTS,
  CT_MEMORY_BUFFERS,         /**< running statistics */
  CT_MEMORY_LOW_WEIGHTS,     /**< copy of the weights in the low type of mixed precision */
  CT_MEMORY_ROUNDED_WEIGHTS, /**< train.qat: the weights as in eight bits */
  CT_MEMORY_AVERAGES,        /**< of weights and buffers */
  CT_MEMORY_GRADIENTS,       /**< the communicator allocates them */
  CT_MEMORY_PARTIAL_SUMS,    /**< of the gradients of earlier pieces of a batch */
  CT_MEMORY_STATES,          /**< of the optimizer: what this rank updates */
  CT_MEMORY_WHOLE_STATES,    /**< ZeRO-1: of all ranks, while a checkpoint is read or written */
  CT_MEMORY_ACTIVATIONS,     /**< of the largest plan, of training or evaluation */
  CT_MEMORY_SCRATCH,      /**< likewise; with the mode dp that of the loss of the whole batch too */
  CT_MEMORY_BATCHES,      /**< where batches are copied to a device: one in use, one on its way */
  CT_MEMORY_CHANNEL_MAPS, /**< of batches that come as bytes */
  CT_MEMORY_CLASS_WEIGHTS, /**< of the loss */
  CT_MEMORY_STATISTICS,    /**< SyncBN's message */
  CT_MEMORY_NORMS,         /**< of each parameter, where the optimizer's rule wants them */
  CT_MEMORY_DEALT,         /**< mode dp: what rank 0 deals out and collects */
  CT_MEMORY_COUNT
} ct_memory_kind_t;

typedef struct ct_memory {
  size_t bytes[CT_MEMORY_COUNT];
  size_t evaluation;         /**< of the activations, what evaluation alone would need */
  int samples[2];            /**< most at a time, of evaluation, of training */
  unsigned activation_types; /**< of the first plan's values: bits 1 << ct_dtype_t */
} ct_memory_t;

/** How the ranks have a thing. */
typedef enum {
  CT_SPREAD_SAME,   /**< each the whole, and the same */
  CT_SPREAD_SLICES, /**< each a slice of it */
  CT_SPREAD_SUMMED, /**< each its own, which are summed up */
  CT_SPREAD_SHARES, /**< each that of its own samples */
  CT_SPREAD_ROOT    /**< mode dp: only rank 0's counts */
} ct_spread_t;

/** What lies where. */
typedef struct ct_place {
  const char *what;
  unsigned types; /**< bits 1 << ct_dtype_t */
  ct_spread_t spread;
  int on_device; /**< 0: in the host's memory, whatever the device */
} ct_place_t;
enum { CT_PLACES = 8 };

/** Pure. */
size_t ct_memory_total(const ct_memory_t *m);

#endif
