/** \file ct_devices.h  Assignment of devices to ranks. Layer 1. */
#ifndef CT_DEVICES_H
#define CT_DEVICES_H
#include "backend/ct_backend.h"
#include "comm/ct_topo.h"

/** One rank's row of the device table. */
typedef struct ct_device_row {
  ct_dev_id_t id;
  int local_rank;
  char host[64];
} ct_device_row_t;

/** Local, pure. Chooses a device for a local rank among the \a visible devices of its process. If
 * only one is visible (launchers often give each task its own), chooses that one, else device r for
 * local rank r. If the node has more ranks than devices: round robin if \a share is set, else
 * CT_ERR_USAGE. */
int ct_devices_choose(int local_rank, int visible, int share, int *index);
/** Local, pure. CT_ERR_USAGE names the first two ranks with the same device, unless \a share is
 * set. *shared: 1 if ranks share a device or have parts of one (MIG), which NCCL rejects. */
int ct_devices_check(const ct_device_row_t *row, int ranks, int share, int *shared);
/** Collective. Gathers the table, checks it and logs it (DEBUG). Devices without an identity, such
 * as the CPU's, may always be shared. */
int ct_devices_agree(const ct_topo_t *t, const ct_dev_id_t *mine, int share, int *shared);

#endif
