/** \file ct_clock.h  The monotonic clock, and medians of times.  Layer 0. */
#ifndef CT_CLOCK_H
#define CT_CLOCK_H

/** Returns CLOCK_MONOTONIC in seconds. */
double ct_clock(void);
/** Returns the seconds since this process was started (exec), from /proc/self/stat; 0: unknown. */
double ct_clock_since_exec(void);
/** Return the median of n > 0 measurements.  For even n, ct_clock_median() returns the mean of the
 * two middle measurements, and ct_clock_lower_median() returns the lower of the two.  Both
 * functions sort s in place. */
double ct_clock_median(double *s, int n);
double ct_clock_lower_median(double *s, int n);

#endif
