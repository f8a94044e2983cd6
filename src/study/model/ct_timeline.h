/** \file ct_timeline.h  How long a step takes on many ranks, from what its parts take.  Layer 4.
 * All functions are pure.
 *
 * Per level, inside a node and between nodes, a message of m bytes takes alpha + m / B (Hockney
 * 1994).  A step is its works one after another.  A bucket of gradients is posted behind the work
 * that completes it, cut into pieces of which some are under way at a time, and goes through its
 * rounds: those of an all-reduce inside a node, then those between the nodes.  Messages move on
 * when the library is entered: behind a work of backward, and in the wait at the end.  Constants of
 * a benchmark that does nothing but wait are therefore too good; those fitted to steps hold. */
#ifndef CT_TIMELINE_H
#define CT_TIMELINE_H
#include "comm/ct_comm_model.h"

/** A work, or several: its share of the time, and how many bytes of gradients it completes. */
typedef struct ct_timeline_work {
  double share, bytes;
} ct_timeline_work_t;

typedef struct ct_timeline {
  ct_timeline_work_t *work; /**< owned by whoever made it */
  int works;
  int loss; /**< from this work on it is backward */
} ct_timeline_t;

typedef struct ct_timeline_case {
  int local_ranks, nodes;
  double compute_s;    /**< all works together */
  double bucket_bytes; /**< a bucket is at least so long */
  double piece_bytes;
  int under_way; /**< pieces, at most */
  int algorithm; /**< ct_comm_algorithm_t; -1: the one that this program takes */
  ct_link_t inside, between;
} ct_timeline_case_t;

enum { CT_TIMELINE_UNDER_WAY = 8, CT_TIMELINE_PIECE = 1 << 20 };

/** Seconds from the begin of the step until all gradients are summed up; at least compute_s. */
double ct_timeline_run(const ct_timeline_t *t, const ct_timeline_case_t *c);

/** What the largest of n independent draws of a standard normal distribution is in the mean: 0,
 * 0.56, 0.85, 1.03, … */
double ct_timeline_largest_of(int n);

#endif
