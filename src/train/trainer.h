/** \file trainer.h  What the files of this folder share. */
#ifndef CT_TRAINER_PRIVATE_H
#define CT_TRAINER_PRIVATE_H
#include "train/ct_trainer.h"

#define CT_BUCKETS_MAX 512

/** The plan for one local batch size. */
typedef struct ct_variant {
  ct_plan_t *plan;
  ct_bucket_t *bucket; /**< training only */
} ct_variant_t;

struct ct_trainer {
  ct_trainer_env_t env;
  ct_queue_t *q;
  ct_event_t *ready; /**< end of the work that fills a bucket */
  ct_variant_t *variant;
  int variants;
  int64_t cap_variants;
  ct_arena_map_t map;
  int buckets; /**< the same for every variant and rank */
  ct_op_t *update;
  int states; /**< float32 arrays of the optimizer */

  char *arena, *scratch, *weight, *gradient, *buffer, *state[CT_RULE_STATES];
  size_t arena_bytes, scratch_bytes;
  float *x; /**< the batch on the device; NULL where host memory is device memory */
  int32_t *labels;
  int max_n;             /**< samples for which there is room */
  ct_loss_t *loss;       /**< staging */
  const ct_plan_t *last; /**< of the last forward, while its logits are there */

  int64_t steps; /**< optimizer steps, for the rule and dropout */
  int ticket[CT_BUCKETS_MAX];
  int sent;              /**< buckets of this step on their way */
  double exposed_s;      /**< seconds of this step in the communicator */
  int failed;            /**< code of the step's first failure on this rank … */
  ct_err_info_t failure; /**< … and its record */
  float **snap;          /**< host arrays of the last snapshot, by item */
  int64_t *snap_int;     /**< its integers */
};

/** Local.  The plan for n samples, made if it is new; grows the activation arena if it has to (no work may be
 * pending then).  CT_ERR_ARG: more samples than were announced. */
int ct__trainer_variant(ct_trainer_t *t, int n, int training, const ct_variant_t **out);
/** Everything a plan is run on, for batch \a b. */
int ct__trainer_bind(ct_trainer_t *t, const ct_batch_t *b, ct_bind_t *bind);

#endif
