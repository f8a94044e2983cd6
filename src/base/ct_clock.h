/** \file ct_clock.h  Monotonic seconds.  Layer 0. */
#ifndef CT_CLOCK_H
#define CT_CLOCK_H

/** CLOCK_MONOTONIC in seconds. */
double ct_clock(void);
/** Seconds since this process was started (exec), from /proc/self/stat; 0 where unknown. */
double ct_clock_since_exec(void);

#endif
