/** \file ct_clock.h  Monotonic seconds, and what many of them come to.  Layer 0. */
#ifndef CT_CLOCK_H
#define CT_CLOCK_H

/** CLOCK_MONOTONIC in seconds. */
double ct_clock(void);
/** Seconds since this process was started (exec), from /proc/self/stat; 0 where unknown. */
double ct_clock_since_exec(void);
/** The median of n > 0 measurements: of an even number the mean of the two in the middle, or the
 * lower of them, which is one that was measured.  Both sort them. */
double ct_clock_median(double *s, int n);
double ct_clock_lower_median(double *s, int n);

#endif
