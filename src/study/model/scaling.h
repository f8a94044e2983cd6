/** \file scaling.h  Functions shared by fit.c and predict.c. */
#ifndef CT_SCALING_PRIVATE_H
#define CT_SCALING_PRIVATE_H
#include "study/model/ct_scaling.h"

/** A case whose communication is simulated. */
typedef struct ct__scaling_messages {
  int local_ranks, nodes;
  double compute_s, bucket_bytes;
  int algorithm;
  ct_link_t inside, between;
} ct__scaling_messages_t;

/** Pure.  Returns the seconds of communication that compute does not hide, including the all-reduce
 * of the step status. */
double ct__scaling_exposed(const ct_scaling_t *m, const ct__scaling_messages_t *q);

#endif
