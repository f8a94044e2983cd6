/* Energy of all nodes: the first rank of each node reads the host's counters, the first rank that
 * computes on a device reads the counter of the device. */
#include "telemetry/ct_meter.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_clock.h"
#include "host/ct_energy.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "job/ct_job_energy.h"

/* Counters are read before they wrap to 0, power meters once per averaging interval. */
static const double counters_s = 30, meters_s = 1;

struct ct_meter {
  const ct_topo_t *topo;
  const ct_backend_t *be;
  ct_dev_t *dev;
  int host, gpu; /* 1: this rank reads the counters of the node, of its device */
  int job;
  ct_energy_t last;
  double used, next_s; /* joules so far by the host's counters, < 0: unknown; time of next read */
  double gpu_at, job_at;
};

/* ---- open and close ---- */

typedef struct bus {
  char name[32];
} bus_t;

/* *reads: 1 if this is the first rank of its node that computes on this device. */
static int choose_readers(const ct_topo_t *topo, const ct_dev_id_t *id, int *reads)
{
  int rc = CT_OK;
  bus_t *all = ct_mem_array(topo->local_size, sizeof *all, "the devices of a node");
  CT_TRY_ALL(topo, all ? CT_OK : CT_ERR_NOMEM);
  bus_t *mine = &all[topo->local_rank];
  snprintf(mine->name, sizeof mine->name, "%s", id->bus);
  if (topo->local_size > 1) {
    MPI_Request request;
    CT_MPI(topo, MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, (int)sizeof *all, MPI_BYTE,
                                topo->node, &request));
    ct_mpi_wait(topo, &request);
  }
  *reads = mine->name[0] != '\0';
  for (int before = 0; before < topo->local_rank; before++)
    if (strcmp(all[before].name, mine->name) == 0) *reads = 0;
out:
  ct_mem_free(all);
  return rc;
}

static void meter_begin(ct_meter_t *m)
{
  if (m->host) ct_energy_read("", &m->last);
  if (m->gpu) m->gpu_at = m->be->joules(m->dev);
  if (m->job && m->topo->rank == 0) m->job_at = ct_job_energy(&m->topo->job);
  m->next_s = ct_clock() + (m->last.watt > 0 ? meters_s : counters_s);
}

int ct_meter_open(const ct_topo_t *topo, const ct_backend_t *be, ct_dev_t *dev, int job,
                  ct_meter_t **out)
{
  int rc = CT_OK;
  ct_dev_id_t id;
  ct_meter_t *m = ct_mem_alloc(sizeof *m, "the energy meter");
  *out = NULL;
  CT_TRY_ALL(topo, m ? CT_OK : CT_ERR_NOMEM);
  *m = (ct_meter_t){.topo = topo, .be = be, .dev = dev, .job = job, .host = topo->local_rank == 0};
  be->identify(dev, &id);
  CT_TRY(choose_readers(topo, &id, &m->gpu));
  meter_begin(m);
  *out = m;
  m = NULL;
out:
  ct_mem_free(m);
  return rc;
}

void ct_meter_close(ct_meter_t *m)
{
  ct_mem_free(m);
}

/* ---- reading ---- */

static void sample(ct_meter_t *m)
{
  ct_energy_t now;
  ct_energy_read("", &now);
  double more = ct_energy_between(&m->last, &now);
  m->used = more < 0 || m->used < 0 ? -1 : m->used + more;
  m->last = now;
}

void ct_meter_sample(ct_meter_t *m, double now)
{
  if (!m || !m->host || now < m->next_s) return;
  m->next_s = now + (m->last.watt > 0 ? meters_s : counters_s);
  sample(m);
}

/* Values that are summed over the ranks. */
enum { HOST, HOSTS_SILENT, WHOLE, GPU, GPUS, GPUS_SILENT, NUMBERS };

static void from_job(const ct_meter_t *m, ct_meter_sum_t *out)
{
  size_t len = strlen(out->from);
  const char *system = m->topo->job.system.name;
  if (!m->job || !m->topo->job.system.energy) return;
  double now = ct_job_energy(&m->topo->job);
  if (m->job_at >= 0 && now > m->job_at) {
    out->joule = now - m->job_at;
    snprintf(out->from, sizeof out->from, "%s's accounting of this job step", system);
  } else {
    snprintf(out->from + len, sizeof out->from - len, ", and %s's accounting has no energy",
             system);
  }
}

static void conclude(const ct_meter_t *m, const double *v, ct_meter_sum_t *out)
{
  int hosts = v[HOSTS_SILENT] == 0, gpus = v[GPUS] > 0 && v[GPUS_SILENT] == 0;
  snprintf(out->from, sizeof out->from, "%s", m->last.from);
  out->joule = -1;
  if (hosts && (v[WHOLE] >= m->topo->nodes || v[GPUS] == 0)) {
    out->joule = v[HOST];
  } else if (hosts && gpus) {
    out->joule = v[HOST] + v[GPU];
    snprintf(out->from, sizeof out->from, "%s; NVML: GPUs", m->last.from);
  } else if (gpus) {
    out->joule = v[GPU];
    snprintf(out->from, sizeof out->from, "NVML: GPUs only, nodes have no readable counters");
  } else {
    if (!hosts && m->used >= 0)
      snprintf(out->from, sizeof out->from, "unknown: some nodes have no readable counters");
    if (hosts) snprintf(out->from, sizeof out->from, "unknown: some GPUs have no counters");
    from_job(m, out);
  }
}

int ct_meter_read(ct_meter_t *m, ct_meter_sum_t *out)
{
  int rc = CT_OK;
  double v[NUMBERS] = {0};
  if (m->host) {
    sample(m);
    v[HOST] = m->used < 0 ? 0 : m->used;
    v[HOSTS_SILENT] = m->used < 0;
    v[WHOLE] = m->last.whole;
  }
  if (m->gpu) {
    double now = m->be->joules(m->dev);
    v[GPUS] = 1;
    v[GPUS_SILENT] = now < 0 || m->gpu_at < 0;
    v[GPU] = v[GPUS_SILENT] > 0 ? 0 : now - m->gpu_at;
  }
  CT_TRY(ct_agree_doubles(m->topo, v, NUMBERS, 0));
  conclude(m, v, out);
out:
  return rc;
}
