/* Findings about cores: their number for each rank, and whether ranks share them. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

void ct__doctor_bind(const ct_job_facts_t *job, int cores, char *buf, size_t cap)
{
  int n = cores > 0 ? cores : 1;
  switch (job->launch.kind) {
  case CT_LAUNCHER_SRUN:
    snprintf(buf, cap, "srun --cpus-per-task=%d --cpu-bind=cores", n);
    break;
  case CT_LAUNCHER_HYDRA:
    snprintf(buf, cap, "mpiexec -bind-to core:%d", n);
    break;
  case CT_LAUNCHER_OPENMPI:
    snprintf(buf, cap, "mpirun --map-by slot:PE=%d --bind-to core", n);
    break;
  case CT_LAUNCHER_FLUX:
    snprintf(buf, cap, "flux run --cores-per-task=%d", n);
    break;
  case CT_LAUNCHER_NONE:
    snprintf(buf, cap, "start it without taskset or numactl, or with more cores: taskset -c 0-%d",
             n - 1);
    break;
  default:
    snprintf(buf, cap, "set the launcher's options so that each rank has %d core%s of its own", n,
             S(n));
  }
}

void ct__doctor_fewer(const ct_job_facts_t *job, int ranks, char *buf, size_t cap)
{
  int n = ranks > 0 ? ranks : 1;
  switch (job->launch.kind) {
  case CT_LAUNCHER_SRUN:
    snprintf(buf, cap, "srun --ntasks-per-node=%d", n);
    break;
  case CT_LAUNCHER_HYDRA:
    snprintf(buf, cap, job->nodes > 1 ? "mpiexec -ppn %d" : "mpiexec -n %d", n);
    break;
  case CT_LAUNCHER_OPENMPI:
    snprintf(buf, cap, "mpirun --map-by ppr:%d:node", n);
    break;
  case CT_LAUNCHER_FLUX:
    snprintf(buf, cap, "flux run --tasks-per-node=%d", n);
    break;
  default:
    snprintf(buf, cap, "start at most %d rank%s on a node", n, S(n));
  }
}

void ct__doctor_layout(const ct_job_facts_t *job, int ranks, int cores, char *buf, size_t cap)
{
  switch (job->launch.kind) {
  case CT_LAUNCHER_SRUN:
    snprintf(buf, cap, "srun --ntasks-per-node=%d --cpus-per-task=%d --cpu-bind=cores", ranks,
             cores);
    break;
  case CT_LAUNCHER_OPENMPI:
    snprintf(buf, cap, "mpirun --map-by ppr:%d:node:PE=%d --bind-to core", ranks, cores);
    break;
  case CT_LAUNCHER_FLUX:
    snprintf(buf, cap, "flux run --tasks-per-node=%d --cores-per-task=%d", ranks, cores);
    break;
  case CT_LAUNCHER_HYDRA:
  case CT_LAUNCHER_NONE:
    snprintf(buf, cap, "mpiexec %s %d -bind-to core:%d", job->nodes > 1 ? "-ppn" : "-n", ranks,
             cores);
    break;
  default:
    snprintf(buf, cap, "%d ranks on a node, with %d core%s of its own each", ranks, cores,
             S(cores));
  }
}

static int cores_share(const ct__doctor_node_t *d)
{
  int cores = d->allowed / d->n;
  return cores > 0 ? cores : 1;
}

static int asked_for(const ct__doctor_node_t *d)
{
  int from = CT_THREADS_SHARE;
  for (int i = 0; i < d->n; i++)
    if (d->rank[i]->threads_from != CT_THREADS_SHARE) from = d->rank[i]->threads_from;
  return from;
}

/* More threads than cores.  The cure depends on the cause: too many ranks, too many threads, or
 * masks that are too narrow. */
static void cure_too_many(const ct__doctor_node_t *d, char *cure, size_t cap)
{
  char bind[160] = "";
  int from = asked_for(d), wide = d->threads > d->allowed;
  if (d->n > d->allowed) {
    ct__doctor_fewer(d->job, d->allowed, cure, cap);
    return;
  }
  if (d->group_cores < d->allowed) ct__doctor_bind(d->job, cores_share(d), bind, sizeof bind);
  if (wide && from == CT_THREADS_OMP)
    snprintf(cure, cap, "export OMP_NUM_THREADS=%d%s%s", cores_share(d), *bind ? "; " : "", bind);
  else if (wide && from == CT_THREADS_CONFIG)
    snprintf(cure, cap, "--set cpu.threads=%d%s%s", cores_share(d), *bind ? "; " : "", bind);
  else
    snprintf(cure, cap, "%s", *bind ? bind : "start fewer ranks on a node");
}

static int too_many(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char cure[300], of[40] = "";
  int ranks = d->group_ranks, threads = d->group_threads, cores = d->group_cores;
  if (threads <= cores) return 0;
  if (d->allowed > cores) snprintf(of, sizeof of, " of %d", d->allowed);
  cure_too_many(d, cure, sizeof cure);
  const char *key = cores == 1 && d->allowed > 1 ? "one_core" : "oversubscribed";
  if (ranks > 1 && threads == ranks)
    ct__doctor_add(out, CT_FINDING_BAD, key, d, cure, "%d ranks share %d core%s%s", ranks, cores,
                   S(cores), of);
  else
    ct__doctor_add(out, CT_FINDING_BAD, key, d, cure,
                   "%d rank%s with %d threads together %s %d core%s%s", ranks, S(ranks), threads,
                   ranks == 1 ? "has" : "share", cores, S(cores), of);
  return 1;
}

/* OpenMP binds threads in each rank independently: ranks that share cores all bind to the first
 * ones, and too few OMP_PLACES put several threads on one core. */
static int bound(const ct__doctor_node_t *d, ct_findings_t *out)
{
  static const char unset[] = "unset OMP_PROC_BIND OMP_PLACES GOMP_CPU_AFFINITY KMP_AFFINITY";
  unsigned char all[CT_MASK_BYTES] = {0};
  char cure[300] = "";
  int ranks = 0, threads = 0;
  for (int r = 0; r < d->n; r++) {
    const ct_rank_facts_t *f = d->rank[r];
    if (ct_cores_count(f->bound) == 0) continue;
    ranks++;
    threads += f->threads;
    for (int i = 0; i < CT_MASK_BYTES; i++)
      all[i] |= f->bound[i];
  }
  int cores = ct_cores_count(all);
  if (ranks == 0 || threads <= cores) return 0;
  if (ranks > 1) ct__doctor_bind(d->job, cores_share(d), cure, sizeof cure);
  snprintf(cure + strlen(cure), sizeof cure - strlen(cure), "%s%s", *cure ? "; or " : "", unset);
  ct__doctor_add(out, CT_FINDING_BAD, "omp_bound", d, cure,
                 "OpenMP binds %d thread%s of %d rank%s to %d core%s of %d (OMP_PROC_BIND, "
                 "OMP_PLACES)",
                 threads, S(threads), ranks, S(ranks), cores, S(cores), d->allowed);
  return 1;
}

static int idle(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char cure[300];
  if (d->allowed < 4 || d->cores * 2 >= d->allowed)
    return 0; /* half of the cores: possibly one of two hyperthreads */
  if (d->rank[0]->on_gpu && d->cores >= 4 * d->n) return 0; /* enough cores to feed the GPUs */
  ct__doctor_bind(d->job, cores_share(d), cure, sizeof cure);
  ct__doctor_add(out, CT_FINDING_BAD, "idle_cores", d, cure,
                 "%d rank%s may use %d core%s of %d: the others stay idle", d->n, S(d->n), d->cores,
                 S(d->cores), d->allowed);
  return 1;
}

static int few_threads(const ct__doctor_node_t *d, ct_findings_t *out)
{
  int from = asked_for(d);
  if (d->rank[0]->on_gpu || d->cores < 4 || d->threads * 2 >= d->cores) return 0;
  ct__doctor_add(
      out, CT_FINDING_NOTE, "few_threads", d,
      from == CT_THREADS_OMP                  ? "unset OMP_NUM_THREADS"
      : ct_cores_count(d->rank[0]->bound) > 0 ? "unset OMP_PLACES, or more places"
                                              : "--set cpu.threads, or more ranks on a node",
      "%d thread%s on %d cores: the others stay idle", d->threads, S(d->threads), d->cores);
  return 1;
}

/* Threads of several ranks may run on the same core, although there are enough cores. */
static int shared(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char cure[300];
  if (!d->sharing) return 0;
  ct__doctor_bind(d->job, cores_share(d), cure, sizeof cure);
  if (d->alike)
    ct__doctor_add(out, CT_FINDING_NOTE, "not_bound", d, cure,
                   "%d ranks are not bound: they share %d cores", d->n, d->cores);
  else
    ct__doctor_add(out, CT_FINDING_NOTE, "overlap", d, cure,
                   "cores of several ranks overlap, although there are enough");
  return 1;
}

/* The mask does not show the CPU time limit of the cgroup, which stops threads until its next
 * period. */
static void quota(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char cure[300];
  double cores = d->rank[0]->machine.quota;
  if (cores <= 0 || d->threads <= cores + 0.5) return;
  snprintf(cure, sizeof cure, "docker run --cpus=%d; or OMP_NUM_THREADS=%d", d->threads,
           (int)cores > d->n ? (int)cores / d->n : 1);
  ct__doctor_add(out, CT_FINDING_BAD, "quota", d, cure,
                 "%d thread%s, but the cgroup gives them the time of %.1f core%s", d->threads,
                 S(d->threads), cores, S(cores));
}

static void polling(const ct__doctor_node_t *d, ct_findings_t *out)
{
  const char *name = d->job->async_progress;
  char cure[100];
  if (!name || d->threads + d->n <= d->cores) return;
  snprintf(cure, sizeof cure, "unset %s", name);
  ct__doctor_add(out, CT_FINDING_BAD, "async_progress", d, cure,
                 "%s: MPI runs a polling thread in each rank, which takes a core from the compute "
                 "threads: %d rank%s with %d thread%s have %d core%s",
                 name, d->n, S(d->n), d->threads, S(d->threads), d->cores, S(d->cores));
}

static void hyperthreads(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char cure[300];
  for (int i = 0; i < d->n; i++) {
    const ct_rank_facts_t *f = d->rank[i];
    int physical = f->machine.physical;
    if (f->on_gpu || physical == 0 || f->threads <= physical || f->threads > f->machine.cores)
      continue;
    if (d->job->launch.kind == CT_LAUNCHER_SRUN)
      snprintf(cure, sizeof cure, "srun --hint=nomultithread");
    else
      snprintf(cure, sizeof cure, "export OMP_NUM_THREADS=%d", physical);
    ct__doctor_add(out, CT_FINDING_NOTE, "hyperthreads", d, cure,
                   "%d threads of rank %d run on %d physical core%s", f->threads, f->rank, physical,
                   S(physical));
  }
}

/* No rank is near the network card, so messages to other nodes cross the machine. */
static void network(const ct__doctor_node_t *d, ct_findings_t *out)
{
  const ct_machine_t *m = &d->rank[0]->machine;
  const ct_nic_t *far = NULL;
  char cure[300];
  if (d->job->nodes < 2 || m->numa_nodes < 2) return;
  for (int k = 0; k < m->nics; k++) {
    if (m->nic[k].infiniband < m->nic[0].infiniband) continue; /* a slower network */
    if (m->nic[k].numa < 0) return;
    for (int i = 0; i < d->n; i++)
      if (d->rank[i]->machine.numa_cores[m->nic[k].numa] > 0) return;
    far = far ? far : &m->nic[k];
  }
  if (!far) return;
  snprintf(cure, sizeof cure, "numactl --cpunodebind=%d, or a binding of the launcher like it",
           far->numa);
  ct__doctor_add(out, CT_FINDING_NOTE, "network_far", d, cure,
                 "the network card %s is on NUMA node %d, where no rank has cores: messages to "
                 "other nodes cross the machine first",
                 far->name, far->numa);
}

void ct__doctor_cores(const ct__doctor_node_t *d, ct_findings_t *out)
{
  if (d->cores == 0) return; /* not known */
  int told = too_many(d, out) || bound(d, out) || idle(d, out) || few_threads(d, out);
  if (!told) shared(d, out);
  quota(d, out);
  polling(d, out);
  hyperthreads(d, out);
  network(d, out);
}
