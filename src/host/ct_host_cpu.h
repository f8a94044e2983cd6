/** \file ct_host_cpu.h  The processor that this thread runs on, its clock, and the load of the
 * machine.
 * Layer 0.
 *
 * All functions are local and never fail: unknown values are 0, "" or -1. */
#ifndef CT_CPU_H
#define CT_CPU_H

/** Plain data of a fixed size: ranks exchange it as bytes. */
typedef struct ct_cpu {
  char model[64];    /**< "AMD EPYC 9655 96-Core Processor"; on ARM the name of the core: "ARM
                        Neoverse V2" */
  char governor[24]; /**< frequency governor: "performance", "powersave" … */
  double mhz;        /**< current clock frequency */
  double max_mhz;    /**< highest clock frequency */
  int turbo;         /**< 1: may exceed the base clock; 0: switched off; -1: not known */
  double load;       /**< load average of the machine over the last minute; -1: not known */
} ct_cpu_t;

/** Reads a few small files of /proc and /sys below \a root ("": the machine itself).  \a cpu:
 * number of the CPU; -1: the one that this thread runs on. */
void ct_cpu_read(const char *root, int cpu, ct_cpu_t *out);

/** Returns the seconds for which this thread was runnable but off-CPU so far, because other threads
 * used its cores (the run delay in schedstat of proc(5)).  \a root: as for ct_cpu_read().  < 0: the
 * kernel does not count them. */
double ct_cpu_offcpu(const char *root);

#endif
