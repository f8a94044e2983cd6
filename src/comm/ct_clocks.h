/** \file ct_clocks.h  Clock offsets between ranks. Layer 1.
 *
 * ct_clock() starts at a different time on each node. Rank 0 pings the first rank of each other
 * node and assumes that the reply to the fastest ping was sent halfway between its two ends; the
 * error is at most half of its duration (Cristian 1989; shortest of many pings, as in HCA3, Hunold
 * and Carpen-Amarie 2018). Since clocks drift, the offset is measured before and after the interval
 * of interest and interpolated linearly. */
#ifndef CT_CLOCKS_H
#define CT_CLOCKS_H
#include "comm/ct_topo.h"

typedef struct ct_clock_offset {
  double at_s;     /**< this rank's ct_clock() at the measurement */
  double offset_s; /**< rank 0's clock minus this rank's */
  double bound_s;  /**< maximum error of the offset */
} ct_clock_offset_t;

/** Collective. Sends 50 pings per node (about 1 ms), or more if none took less than 50 us. */
void ct_clocks_measure(const ct_topo_t *t, ct_clock_offset_t *out);
/** Pure. Converts time \a s of this rank's clock to rank 0's clock by linear interpolation between
 * two measurements. */
double ct_clocks_convert(const ct_clock_offset_t at[2], double s);

#endif
