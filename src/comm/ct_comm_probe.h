/** \file ct_comm_probe.h  What all-reduces take here and now.  Layer 1. */
#ifndef CT_COMM_PROBE_H
#define CT_COMM_PROBE_H
#include "comm/ct_comm.h"
#include "comm/ct_comm_model.h"

typedef struct ct_comm_probe {
  /** The line through the sizes.  alpha_s: a sum over all ranks but for its bytes; bytes_per_s: of
   * the buffer's bytes, INFINITY if that cannot be seen. */
  ct_link_t link;
  int sizes;      /**< of which it was made */
  double seconds; /**< that took */
} ct_comm_probe_t;

/** Collective; at least two ranks.  Opens a communicator of its own, which is closed again, and
 * sums up 256 KiB, 1 MiB and 4 MiB: each four times, of which the fastest counts, as the slowest
 * rank saw it, behind one that opens the connections.  Calls that would make it longer than a
 * second by those before are left out, but the first ones of the two least sizes.  The same numbers
 * on all ranks. */
int ct_comm_probe(const ct_comm_ops_t *ops, const ct_topo_t *t, const ct_backend_t *be,
                  ct_dev_t *dev, const ct_comm_opts_t *o, ct_comm_probe_t *out);

#endif
