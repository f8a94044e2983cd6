/** \file ct_energy.h  The energy that this machine has used, from counters or power meters that
 * every user may read.  Layer 0.
 *
 * Linux's powercap shows RAPL, the counters of packages and memory of Intel and AMD.  Since
 * CVE-2020-8694 only root may read them, unless the site permits it to users.  HPE Cray's
 * pm_counters count the whole node, and every user may read them.  NVIDIA's Grace has power meters
 * instead of counters: hwmon shows the power of each socket, averaged over at most one second. */
#ifndef CT_ENERGY_H
#define CT_ENERGY_H

enum { CT_ENERGY_COUNTERS = 32 };

/** Plain data of a fixed size. */
typedef struct ct_energy {
  int counters;                     /**< number of readable counters; may be 0 */
  double joule[CT_ENERGY_COUNTERS]; /**< value of each counter: joules since an arbitrary time */
  double range[CT_ENERGY_COUNTERS]; /**< value at which each counter wraps around to 0 */
  double watt;                      /**< if counters is 0: current power of the power meters; 0: not
                                         known */
  double at;                        /**< ct_clock() when watt was read */
  int whole;                        /**< 1: the values include all components of the node */
  char from[80];                    /**< source of the values and what they include; "not known"
                                         with the reason if there are none */
} ct_energy_t;

/** Local, never fails.  Reads files below \a root ("": the machine itself). */
void ct_energy_read(const char *root, ct_energy_t *out);
/** Pure.  Returns the joules used between two readings; < 0: not known.  With power meters, the
 * result is the mean power of both readings times the time between them, so read them about every
 * second. */
double ct_energy_between(const ct_energy_t *from, const ct_energy_t *to);

#endif
