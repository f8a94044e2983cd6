/** \file ct_timeline.h  Simulates a data-parallel step: compute overlapped with all-reduces of
 * gradients.  Layer 4.  All functions are pure.
 *
 * A message of m bytes takes alpha + m / B, with a latency alpha and a bandwidth B for each level:
 * inside a node and between nodes (Hockney 1994).  A step is a sequence of launches.  After the
 * launch that completes a bucket of gradients, the bucket is cut into segments, of which a few are
 * in flight at a time.  Each segment passes through the communication rounds of an all-reduce:
 * first inside a node, then between nodes.  Communication progresses only inside the MPI library:
 * after each launch of backward, and in the final wait.  Therefore latency and bandwidth from a
 * benchmark that only waits are too optimistic; use values that were fitted to steps. */
#ifndef CT_TIMELINE_H
#define CT_TIMELINE_H
#include "comm/ct_comm_model.h"

/** One or more launches. */
typedef struct ct_timeline_launch {
  double share; /**< their fraction of the compute time */
  double bytes; /**< bytes of gradients that they complete */
} ct_timeline_launch_t;

typedef struct ct_timeline {
  ct_timeline_launch_t *launch; /**< owned by the caller */
  int launches;
  int loss; /**< index of the first launch of backward */
} ct_timeline_t;

typedef struct ct_timeline_case {
  int local_ranks, nodes;
  double compute_s;    /**< all launches together */
  double bucket_bytes; /**< minimum size of a bucket */
  double piece_bytes;  /**< bytes of a segment */
  int under_way;       /**< maximum number of segments in flight */
  int algorithm;       /**< ct_comm_algorithm_t; -1: the default of this program */
  ct_link_t inside;    /**< latency and bandwidth inside a node */
  ct_link_t between;   /**< latency and bandwidth between nodes */
} ct_timeline_case_t;

enum { CT_TIMELINE_UNDER_WAY = 8, CT_TIMELINE_PIECE = 1 << 20 };

/** Returns the seconds from the begin of the step until all gradients are reduced; at least
 * compute_s. */
double ct_timeline_run(const ct_timeline_t *t, const ct_timeline_case_t *c);

/** Returns the expected maximum of n independent draws from the standard normal distribution: 0,
 * 0.56, 0.85, 1.03, … for n = 1, 2, 3, 4, … */
double ct_timeline_largest_of(int n);

#endif
