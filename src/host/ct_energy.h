/** \file ct_energy.h  The energy that this machine has used, by counters or power meters that
 * everybody may read.  Layer 0.
 *
 * Linux's powercap shows RAPL, Intel's and AMD's counters of packages and memory; since
 * CVE-2020-8694 root alone may read them, unless the site has opened them.  HPE Cray's pm_counters
 * count the whole node and are open to all.  NVIDIA's Grace has no counters: hwmon shows the power
 * of each socket, averaged over a second at most. */
#ifndef CT_ENERGY_H
#define CT_ENERGY_H

enum { CT_ENERGY_COUNTERS = 32 };

/** Plain data of a fixed size. */
typedef struct ct_energy {
  int counters;                     /**< 0: there are none to be read */
  double joule[CT_ENERGY_COUNTERS]; /**< since some moment … */
  double range[CT_ENERGY_COUNTERS]; /**< … or since it last reached this much, and began at 0 */
  double watt;                      /**< without counters, the power now; 0: not known … */
  double at;                        /**< … and when that was, of ct_clock() */
  int whole;                        /**< 1: of the whole node, with all that is in it */
  char from[80];                    /**< who counts, of what; without counters: why nobody does */
} ct_energy_t;

/** Local, never fails.  Files are looked for below \a root: "" is the machine itself. */
void ct_energy_read(const char *root, ct_energy_t *out);
/** Pure.  Joules from one reading to a later one; < 0: it is not known.  Of power meters the mean
 * of both readings counts for the time between them, so who sums up reads each second or so. */
double ct_energy_between(const ct_energy_t *from, const ct_energy_t *to);

#endif
