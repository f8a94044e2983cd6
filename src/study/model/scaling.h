/** \file scaling.h  What the files of this folder share. */
#ifndef CT_SCALING_PRIVATE_H
#define CT_SCALING_PRIVATE_H
#include "study/model/ct_scaling.h"

typedef struct ct__scaling_messages {
  int local_ranks, nodes;
  double compute_s, bucket_bytes;
  int algorithm;
  ct_link_t inside, between;
} ct__scaling_messages_t;

/** Seconds that messages, the step status's too, make a step longer than its compute. */
double ct__scaling_exposed(const ct_scaling_t *m, const ct__scaling_messages_t *q);

#endif
