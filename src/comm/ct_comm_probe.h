/** \file ct_comm_probe.h  Measures the cost of all-reduces on this system. Layer 1. */
#ifndef CT_COMM_PROBE_H
#define CT_COMM_PROBE_H
#include "comm/ct_comm.h"
#include "comm/ct_comm_model.h"

typedef struct ct_comm_probe {
  /** The latency-bandwidth fit. alpha_s: time of an all-reduce of 0 bytes; bytes_per_s: buffer
   * bytes per second, INFINITY if it cannot be resolved. */
  ct_link_t link;
  int sizes;      /**< number of sizes measured */
  double seconds; /**< duration of the probe */
} ct_comm_probe_t;

/** Collective; at least two ranks. Opens a temporary communicator, establishes the connections with
 * one all-reduce, then measures all-reduces of 256 KiB, 1 MiB and 4 MiB, four each. The fastest
 * counts, by the time of the slowest rank. Calls that would make the probe exceed a second, judging
 * by earlier ones, are skipped, except the first call of the two smallest sizes. Results are
 * identical on all ranks. */
int ct_comm_probe(const ct_comm_ops_t *ops, const ct_topo_t *t, const ct_backend_t *be,
                  ct_dev_t *dev, const ct_comm_opts_t *o, ct_comm_probe_t *out);

#endif
