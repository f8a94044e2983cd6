/** \file ct_devices.h  Which rank has which device.  Layer 1. */
#ifndef CT_DEVICES_H
#define CT_DEVICES_H
#include "backend/ct_backend.h"
#include "comm/ct_topo.h"

/** One rank's line of the table. */
typedef struct ct_device_row {
  ct_dev_id_t id;
  int local_rank;
  char host[64];
} ct_device_row_t;

/** Local, pure.  The device of a local rank among those that its process sees.  One that sees a
 * single device (as launchers give each task its own) has that, else local rank r has device r.
 * CT_ERR_USAGE: there are too few, and they may not be shared; if they may, they are dealt out in
 * turn. */
int ct_devices_choose(int local_rank, int visible, int share, int *index);
/** Local, pure.  CT_ERR_USAGE names the first two ranks that have the same device, unless they may
 * share it.  *shared: 1 if any have, or have parts of one (MIG): then NCCL would refuse them. */
int ct_devices_check(const ct_device_row_t *row, int ranks, int share, int *shared);
/** Collective.  Gathers the table and checks it; it is told to the log (DEBUG).  Devices without an
 * identity, as those of the CPU, may always be the same. */
int ct_devices_agree(const ct_topo_t *t, const ct_dev_id_t *mine, int share, int *shared);

#endif
