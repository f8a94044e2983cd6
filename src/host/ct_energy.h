/** \file ct_energy.h  The energy that this machine has used, from counters or power meters that
 * every user may read.  Layer 0.
 *
 * Linux's powercap shows RAPL, the counters of packages and memory of Intel and AMD.  Since
 * CVE-2020-8694 only root may read them, unless the site permits it to users.  HPE Cray's
 * pm_counters count the whole node, and every user may read them.  NVIDIA's Grace has no counters:
 * hwmon shows the power of each socket, averaged over at most one second. */
#ifndef CT_ENERGY_H
#define CT_ENERGY_H

enum { CT_ENERGY_COUNTERS = 32 };

/** Plain data of a fixed size. */
typedef struct ct_energy {
  int counters;                     /**< 0: none is readable */
  double joule[CT_ENERGY_COUNTERS]; /**< since an arbitrary time … */
  double range[CT_ENERGY_COUNTERS]; /**< … wraps around to 0 at this value */
  double watt;                      /**< without counters, the current power; 0: not known … */
  double at;                        /**< … and the ct_clock() of its reading */
  int whole;                        /**< 1: of the whole node, all components included */
  char from[80];                    /**< source of the counters and their scope; without
                                         counters: the reason */
} ct_energy_t;

/** Local, never fails.  Reads files below \a root ("": the machine itself). */
void ct_energy_read(const char *root, ct_energy_t *out);
/** Pure.  Joules between two readings; < 0: not known.  With power meters, this is the mean of both
 * readings times the time between them: read about every second. */
double ct_energy_between(const ct_energy_t *from, const ct_energy_t *to);

#endif
