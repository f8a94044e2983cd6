/** \file ct_numa.h  The NUMA nodes on which the memory of this process is.  Layer 0.
 *
 * The kernel puts a page on the node of the thread that touches it first, unless a memory policy
 * (numactl(8), mbind(2)) says otherwise or that node is full. */
#ifndef CT_NUMA_H
#define CT_NUMA_H
#include "host/ct_machine.h"

/** Private memory by NUMA node.  Plain data; all zero: not known. */
typedef struct ct_numa {
  int64_t bytes[CT_NUMA_MAX];
  char policy[24]; /**< of the mapping that has the most: "default", "interleave:0-3", "bind:1" */
} ct_numa_t;

/** Local.  Reads \a root/proc/self/numa_maps (\a root "": this process).  \a at: counts only the
 * mapping with this address; NULL: all private memory, without the pages of files. */
void ct_numa_read(const char *root, const void *at, ct_numa_t *out);
/** Local.  Allocates 16 MiB, lets a team of \a threads touch them as ops do, and reads where they
 * are. */
void ct_numa_probe(int threads, ct_numa_t *out);
/** Pure.  Returns the share of the bytes on nodes where the process has no cores but others have;
 * 0 if nothing is known. */
double ct_numa_remote(const ct_numa_t *n, const ct_machine_t *m);
/** Pure.  Writes "node 0: 75%, node 1: 25% (remote)"; "" if nothing is known. */
void ct_numa_text(const ct_numa_t *n, const ct_machine_t *m, char *buf, size_t cap);
/** Pure.  Returns the number of NUMA nodes where the process has cores. */
int ct_numa_spans(const ct_machine_t *m);

/** Local.  If the OpenMP team of the caller needs cores of several NUMA nodes, lets the pages of a
 * block that is not touched yet alternate between these nodes.  For blocks that all threads read
 * whole: otherwise they would be on the node of the main thread, which fills them.  Keeps a policy
 * that numactl set. */
void ct_numa_spread(void *p, size_t bytes);

#endif
