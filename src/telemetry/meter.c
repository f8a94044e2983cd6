/* Energy of all nodes: each node's first rank reads the host's counters, each device is read by the
 * first rank that computes on it. */
#include "telemetry/ct_meter.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_clock.h"
#include "host/ct_energy.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "job/ct_job_energy.h"

/* Counters are read before they begin again at 0, power meters as often as they take an average. */
static const double counters_s = 30, meters_s = 1;

struct ct_meter {
  const ct_topo_t *topo;
  const ct_backend_t *be;
  ct_dev_t *dev;
  int host, gpu; /* 1: this rank reads the node's, the device's */
  int job;
  ct_energy_t last;
  double used, next_s; /* since the beginning, by the host's counters; < 0: not known */
  double gpu_at, job_at;
};

/* ---- whose device ---- */

typedef struct spot {
  int node;
  char bus[32];
} spot_t;

/* owner[r]: 1 if no rank before r has the same device.  Rank 0. */
static void find_owners(const spot_t *all, int ranks, char *owner)
{
  for (int r = 0; r < ranks; r++) {
    owner[r] = all[r].bus[0] != '\0';
    for (int before = 0; before < r && owner[r]; before++)
      if (all[before].node == all[r].node && strcmp(all[before].bus, all[r].bus) == 0) owner[r] = 0;
  }
}

static int choose_readers(ct_meter_t *m)
{
  int rc = CT_OK;
  const ct_topo_t *topo = m->topo;
  spot_t mine = {.node = topo->node_index}, *all = NULL;
  size_t bytes = (size_t)topo->size;
  char *owner = NULL;
  void *shared = NULL;
  ct_dev_id_t id;
  m->be->identify(m->dev, &id);
  snprintf(mine.bus, sizeof mine.bus, "%s", id.bus);
  if (topo->rank == 0) {
    all = ct_mem_array(topo->size, sizeof *all, "the devices of ranks");
    owner = ct_mem_alloc(bytes, "who reads which device");
  }
  CT_TRY_ALL(topo, topo->rank || (all && owner) ? CT_OK : CT_ERR_NOMEM);
  ct_agree_gather(topo, &mine, sizeof mine, all);
  if (owner) find_owners(all, topo->size, owner);
  shared = owner;
  CT_TRY(ct_agree_bytes(topo, CT_OK, &shared, &bytes));
  m->gpu = ((char *)shared)[topo->rank];
  m->host = topo->local_rank == 0;
out:
  if (shared != owner) ct_mem_free(shared);
  ct_mem_free(owner);
  ct_mem_free(all);
  return rc;
}

/* ---- life ---- */

static int opened(ct_meter_t *m)
{
  int rc = choose_readers(m);
  if (rc != CT_OK) return rc;
  if (m->host) ct_energy_read("", &m->last);
  if (m->gpu) m->gpu_at = m->be->joules(m->dev);
  if (m->job && m->topo->rank == 0) m->job_at = ct_job_energy(&m->topo->job);
  m->next_s = ct_clock() + (m->last.watt > 0 ? meters_s : counters_s);
  return CT_OK;
}

int ct_meter_open(const ct_topo_t *topo, const ct_backend_t *be, ct_dev_t *dev, int job,
                  ct_meter_t **out)
{
  int rc = CT_OK;
  ct_meter_t *m = ct_mem_alloc(sizeof *m, "the meter of energy");
  *out = NULL;
  CT_TRY_ALL(topo, m ? CT_OK : CT_ERR_NOMEM);
  *m = (ct_meter_t){.topo = topo, .be = be, .dev = dev, .job = job};
  CT_TRY(opened(m));
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

static void look(ct_meter_t *m)
{
  ct_energy_t now;
  ct_energy_read("", &now);
  double more = ct_energy_between(&m->last, &now);
  m->used = more < 0 || m->used < 0 ? -1 : m->used + more;
  m->last = now;
}

void ct_meter_look(ct_meter_t *m, double now)
{
  if (!m || !m->host || now < m->next_s) return;
  m->next_s = now + (m->last.watt > 0 ? meters_s : counters_s);
  look(m);
}

/* Sums over the ranks. */
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
    snprintf(out->from + len, sizeof out->from - len, ", and %s's accounting says nothing", system);
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
    snprintf(out->from, sizeof out->from, "NVML: GPUs alone, nodes do not tell");
  } else {
    if (!hosts && m->used >= 0)
      snprintf(out->from, sizeof out->from, "not known: some nodes do not tell");
    if (hosts) snprintf(out->from, sizeof out->from, "not known: GPUs do not tell");
    from_job(m, out);
  }
}

int ct_meter_read(ct_meter_t *m, ct_meter_sum_t *out)
{
  int rc = CT_OK;
  double v[NUMBERS] = {0};
  if (m->host) {
    look(m);
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
