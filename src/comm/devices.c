/* Assigns devices to ranks: chosen by local rank, then compared over all ranks, since two ranks on
 * one GPU are a common launcher misconfiguration that otherwise goes unnoticed. */
#include "comm/ct_devices.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"

int ct_devices_choose(int local_rank, int visible, int share, int *index)
{
  int rc = CT_OK;
  *index = visible == 1 ? 0 : local_rank;
  if (*index < visible) return CT_OK;
  if (!share || visible < 1)
    CT_FAIL(
        CT_ERR_USAGE,
        "local rank %d has no GPU, since %d are visible: start fewer ranks on a node, make more "
        "GPUs visible to them, or let them share (parallel.share_gpu: true)",
        local_rank, visible);
  *index = local_rank % visible;
out:
  return rc;
}

/* Compares devices by their UUIDs, which are globally unique. */
static int devices_is_same(const ct_device_row_t *a, const ct_device_row_t *b)
{
  return a->id.uuid[0] && strcmp(a->id.uuid, b->id.uuid) == 0;
}

static int is_same_board(const ct_device_row_t *a, const ct_device_row_t *b)
{
  return a->id.bus[0] && strcmp(a->id.bus, b->id.bus) == 0 && strcmp(a->host, b->host) == 0;
}

static int devices_refuse(const ct_device_row_t *row, int r, int s)
{
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "rank %d on %s and rank %d on %s have the same GPU, %s at %s (%s): start fewer "
                    "ranks on a node, or let them share it (parallel.share_gpu: true)",
                    r, row[r].host, s, row[s].host, row[r].id.name, row[r].id.bus, row[r].id.uuid);
}

int ct_devices_check(const ct_device_row_t *row, int ranks, int share, int *shared)
{
  int rc = CT_OK;
  *shared = 0;
  for (int r = 0; r < ranks; r++)
    for (int s = r + 1; s < ranks; s++) {
      int same = devices_is_same(&row[r], &row[s]);
      if (same && !share) return devices_refuse(row, r, s);
      if (same || is_same_board(&row[r], &row[s])) *shared = 1;
    }
  return rc;
}

static void log_device(const ct_device_row_t *row, int ranks)
{
  for (int r = 0; r < ranks && row[r].id.uuid[0]; r++)
    ct_log(CT_LOG_DEBUG, "rank %d: %s, local rank %d, %s at %s, NUMA node %d, %s", r, row[r].host,
           row[r].local_rank, row[r].id.name, row[r].id.bus, row[r].id.numa, row[r].id.uuid);
}

int ct_devices_agree(const ct_topo_t *t, const ct_dev_id_t *mine, int share, int *shared)
{
  int rc = CT_OK;
  ct_device_row_t *row = ct_mem_array(t->size, sizeof *row, "the table of devices");
  CT_TRY_ALL(t, row ? CT_OK : CT_ERR_NOMEM);
  row[t->rank].id = *mine;
  row[t->rank].local_rank = t->local_rank;
  snprintf(row[t->rank].host, sizeof row[t->rank].host, "%s", t->host);
  if (t->size > 1) {
    MPI_Request request;
    CT_MPI(t, MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, row, (int)sizeof *row, MPI_BYTE,
                             t->world, &request));
    ct_mpi_wait(t, &request);
  }
  log_device(row, t->size);
  CT_TRY_ALL(t, ct_devices_check(row, t->size, share, shared));
out:
  ct_mem_free(row);
  return rc;
}
