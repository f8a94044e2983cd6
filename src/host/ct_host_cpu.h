/** \file ct_cpu.h  The processor that this thread runs on, its clock, and what runs beside it.
 * Layer 0.
 *
 * Local, and never fails: what the system does not tell is 0, "" or -1. */
#ifndef CT_CPU_H
#define CT_CPU_H

/** Plain data of a fixed size: ranks send it to each other as bytes. */
typedef struct ct_cpu {
  char model[64];    /**< "AMD EPYC 9655 96-Core Processor"; of ARM's the core: "ARM Neoverse V2" */
  char governor[24]; /**< of the clock: "performance", "powersave" … */
  double mhz, max_mhz; /**< of its clock now, and what it may have at most */
  int turbo;           /**< 1: it may go beyond its base clock; 0: that is switched off; -1 */
  double load;         /**< of the machine in the last minute: threads that run or want to; -1 */
} ct_cpu_t;

/** From a few small files of /proc and /sys below \a root: "" is the machine itself.  \a cpu: its
 * number; -1: the one that this thread runs on. */
void ct_cpu_read(const char *root, int cpu, ct_cpu_t *out);

/** Seconds for which this thread could have run so far, and others had its cores: what a neighbour
 * takes away (the run delay of proc(5)'s schedstat).  \a root as above; < 0: the kernel does not
 * count. */
double ct_cpu_taken(const char *root);

#endif
