/** \file needs.h  Memory that a rank will need, from its plans.  Layer 5. */
#ifndef CT_NEEDS_H
#define CT_NEEDS_H
#include "config/ct_config.h"
#include "train/ct_trainer.h"

/** Bytes of one rank; evaluation is used instead of activations, not besides. */
typedef struct ct_needs {
  size_t activations, scratch, weights, gradients, states, evaluation, batches;
} ct_needs_t;

/** Local.  What a rank that trains on \a n samples at a time would allocate on a device: plans are made,
 * and nothing is run. */
int ct_needs_of_plans(const ct_config_t *c, const ct_graph_t *g, const ct_recipe_t *how, int n,
                      const ct_dataset_t *data, int ranks, const ct_backend_t *be, ct_dev_t *dev,
                      ct_needs_t *out);
/** Samples that the rank with the most of them has at a time. */
int ct_needs_samples(const ct_config_t *c, const ct_recipe_t *how, int64_t samples, int ranks);
/** All of it in training. */
size_t ct_needs_total(const ct_needs_t *n);

#endif
