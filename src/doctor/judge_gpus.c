/* Findings about GPUs: whether each rank has its own, near its cores, and whether some are idle. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

static void far_from_cores(const ct__doctor_node_t *d, ct_findings_t *out)
{
  static const char *const cures[] = {
      [CT_LAUNCHER_SRUN] = "srun --gpu-bind=closest --cpu-bind=cores, with --gpus-per-node",
      [CT_LAUNCHER_HYDRA] = "mpiexec -bind-to numa",
      [CT_LAUNCHER_OPENMPI] = "mpirun --map-by numa --bind-to numa",
      [CT_LAUNCHER_FLUX] = "flux run -o cpu-affinity=per-task -o gpu-affinity=per-task",
      [CT_LAUNCHER_OTHER] = "bind each rank to cores of its GPU's NUMA node"};
  char cure[300];
  for (int i = 0; i < d->n; i++) {
    const ct_rank_facts_t *f = d->rank[i];
    int numa = f->gpu.numa;
    if (!f->on_gpu || numa < 0 || numa >= CT_NUMA_MAX || f->machine.numa_nodes < 2) continue;
    if (f->machine.numa_cores[numa] > 0) continue;
    if (d->job->launch.kind == CT_LAUNCHER_NONE)
      snprintf(cure, sizeof cure, "numactl --cpunodebind=%d", numa);
    else
      snprintf(cure, sizeof cure, "%s", cures[d->job->launch.kind]);
    ct__doctor_add(out, CT_FINDING_BAD, "gpu_far", d, cure,
                   "rank %d uses the GPU at %s, on NUMA node %d, but has no cores there", f->rank,
                   f->gpu.bus, numa);
  }
}

static void same_gpu(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char fewer[160], cure[300];
  ct__doctor_fewer(d->job, d->rank[0]->gpus, fewer, sizeof fewer);
  snprintf(cure, sizeof cure, "one rank for each GPU: %s", fewer);
  for (int i = 0; i < d->n; i++)
    for (int j = i + 1; j < d->n; j++) {
      const ct_rank_facts_t *a = d->rank[i], *b = d->rank[j];
      if (!a->gpu.uuid[0] || strcmp(a->gpu.uuid, b->gpu.uuid) != 0) continue;
      ct__doctor_add(out, d->job->share_gpu ? CT_FINDING_NOTE : CT_FINDING_BAD, "gpu_shared", d,
                     cure, "ranks %d and %d have the same GPU, at %s", a->rank, b->rank,
                     a->gpu.bus);
    }
}

/* GPUs that no rank uses. */
static void not_used(const ct__doctor_node_t *d, ct_findings_t *out)
{
  const ct_rank_facts_t *f = d->rank[0];
  int n = f->machine.nvidia;
  if (f->on_gpu && f->gpus > d->n && d->n > 0) {
    ct__doctor_add(out, CT_FINDING_NOTE, "gpu_idle", d, "one rank for each GPU",
                   "%d GPUs are visible, but there %s %d rank%s", f->gpus, d->n == 1 ? "is" : "are",
                   d->n, S(d->n));
  } else if (!f->on_gpu && d->job->wants_gpu && n > 0 && !f->no_device[0]) {
    ct__doctor_add(out, CT_FINDING_BAD, "gpu_unused", d,
                   "docker run --gpus all, or load the driver; '--set device=cuda' prints the "
                   "reason, '--set device=cpu' silences this note",
                   "%d NVIDIA GPU%s there, but cannot be used: no driver, or no CUDA "
                   "in this build",
                   n, n == 1 ? " is" : "s are");
  }
}

void ct__doctor_gpus(const ct__doctor_node_t *d, ct_findings_t *out)
{
  for (int i = 0; i < d->n; i++)
    if (d->rank[i]->no_device[0])
      ct__doctor_add(out, CT_FINDING_BAD, "device", d, "", "%s", d->rank[i]->no_device);
  far_from_cores(d, out);
  same_gpu(d, out);
  not_used(d, out);
}
