/** \file ct_clocks.h  How the ranks' clocks differ.  Layer 1.
 *
 * ct_clock() begins anew on each node.  Rank 0 pings the first rank of each other node; the answer
 * to the fastest ping was given halfway between its two ends, give or take half of its length
 * (Cristian 1989; of many the shortest, as in HCA3, Hunold and Carpen-Amarie 2018).  Clocks drift,
 * so that is done at both ends of what is measured, and what is between lies on a line. */
#ifndef CT_CLOCKS_H
#define CT_CLOCKS_H
#include "comm/ct_topo.h"

typedef struct ct_clock_offset {
  double at_s;     /**< this rank's ct_clock() when it was measured */
  double offset_s; /**< rank 0's less this rank's, then */
  double bound_s;  /**< it is not further off than that */
} ct_clock_offset_t;

/** Collective.  50 pings a node, about 1 ms; more where none was short (50 us). */
void ct_clocks_measure(const ct_topo_t *t, ct_clock_offset_t *out);
/** Pure.  A time \a s of this rank's clock, by rank 0's: on the line through two measurements. */
double ct_clocks_place(const ct_clock_offset_t at[2], double s);

#endif
