/* Findings about a node's memory and limits, and about its GPUs. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

#define S(n) ((n) == 1 ? "" : "s")
#define MIB  ((int64_t)1 << 20)

static const char *bytes_text(int64_t n, char buf[32])
{
  return ct_text_bytes((double)n, buf, 32);
}

/* ---- memory ---- */

/* What the ranks of a node can have together, and what limits it. */
static int64_t have_memory(const ct_machine_t *m, const char **by)
{
  *by = m->memory_limit < m->memory_free ? "its cgroup" : "the machine";
  return m->memory_limit < m->memory_free ? m->memory_limit : m->memory_free;
}

static void memory(const ct_doctor_node_t *d, ct_findings_t *out)
{
  char a[32], b[32];
  const char *by;
  const int64_t least = 256 * MIB;
  const ct_machine_t *m = &d->rank[0]->machine;
  int64_t have = have_memory(m, &by),
          want = d->rank[0]->on_gpu ? 0 : (int64_t)ct_needs_total(&d->job->needs);
  if (have < 0) return;
  if (want * d->n > have) {
    ct__doctor_add(out, CT_FINDING_BAD, "memory", d,
                   *d->job->batch_system ? "fewer ranks on a node, a smaller data.batch, or more: "
                                           "sbatch --mem=0"
                                         : "fewer ranks on a node, or a smaller data.batch",
                   "%d rank%s of about %s each, but %s has only %s of memory", d->n, S(d->n),
                   bytes_text(want, a), by, bytes_text(have, b));
  } else if (have / d->n < least) {
    ct__doctor_add(out, CT_FINDING_BAD, "memory", d,
                   *d->job->batch_system ? "sbatch --mem=0" : "start fewer ranks on a node",
                   "only %s of memory for each rank (%s has %s)", bytes_text(have / d->n, a), by,
                   bytes_text(have, b));
  }
}

/* MPI and the gradients of ranks that share a node travel through /dev/shm. */
static void shm(const ct_doctor_node_t *d, ct_findings_t *out)
{
  char a[32], b[32];
  const ct_machine_t *m = &d->rank[0]->machine;
  int64_t need = 32 * MIB * d->n + 2 * (int64_t)d->job->needs.gradients;
  if (d->n < 2) return;
  if (need < 128 * MIB) need = 128 * MIB;
  if (m->shm_total < need) {
    ct__doctor_add(out, CT_FINDING_BAD, "shm", d,
                   "docker run --shm-size=2g (or --ipc=host); on a node of its own: "
                   "mount -o remount,size=2g /dev/shm",
                   "/dev/shm has %s, too little for %d ranks: about %s is wanted",
                   bytes_text(m->shm_total > 0 ? m->shm_total : 0, a), d->n, bytes_text(need, b));
  } else if (m->shm_free < need / 2) {
    ct__doctor_add(out, CT_FINDING_BAD, "shm", d,
                   "remove what dead programs left there: ls -l /dev/shm",
                   "/dev/shm is full: %s of %s are free", bytes_text(m->shm_free, a),
                   bytes_text(m->shm_total, b));
  }
}

/* ---- limits ---- */

/* InfiniBand's buffers are locked in memory. */
static void locked(const ct_doctor_node_t *d, ct_findings_t *out)
{
  char a[32];
  const ct_machine_t *m = &d->rank[0]->machine;
  if (!m->infiniband || m->locked < 0 || m->locked >= 64 * MIB) return;
  ct__doctor_add(
      out, d->job->nodes > 1 ? CT_FINDING_BAD : CT_FINDING_NOTE, "memlock", d,
      d->job->launch.kind == CT_LAUNCH_SRUN
          ? "ulimit -l unlimited in the job script, with srun --propagate=MEMLOCK; else "
            "LimitMEMLOCK=infinity for slurmd"
          : "ulimit -l unlimited",
      "InfiniBand needs locked memory, but the limit is %s: MPI and NCCL fall back to slow "
      "TCP, or fail",
      bytes_text(m->locked, a));
}

static void limits(const ct_doctor_node_t *d, ct_findings_t *out)
{
  char cure[300], a[32];
  const ct_machine_t *m = &d->rank[0]->machine;
  int64_t files = 256 + d->job->ranks;
  if (m->files >= 0 && m->files < files) {
    snprintf(cure, sizeof cure, "ulimit -n %lld", (long long)(files > 4096 ? files : 4096));
    ct__doctor_add(out, CT_FINDING_BAD, "files", d, cure,
                   "a rank may open only %lld files; with %d rank%s %lld are wanted",
                   (long long)m->files, d->job->ranks, S(d->job->ranks), (long long)files);
  }
  if (m->stack >= 0 && m->stack < MIB) {
    ct__doctor_add(out, CT_FINDING_BAD, "stack", d, "ulimit -s 8192", "the stack is limited to %s",
                   bytes_text(m->stack, a));
  }
  if (m->address_space >= 0 && m->address_space != CT_NO_LIMIT) {
    int level = d->rank[0]->on_gpu ? CT_FINDING_BAD : CT_FINDING_NOTE;
    ct__doctor_add(out, level, "address_space", d, "ulimit -v unlimited",
                   "addresses are limited to %s%s", bytes_text(m->address_space, a),
                   d->rank[0]->on_gpu ? ", but CUDA reserves far more than it uses" : "");
  }
}

void ct__doctor_memory(const ct_doctor_node_t *d, ct_findings_t *out)
{
  memory(d, out);
  shm(d, out);
  locked(d, out);
  limits(d, out);
}

/* ---- GPUs ---- */

static void far_from_cores(const ct_doctor_node_t *d, ct_findings_t *out)
{
  static const char *const cures[] = {
      [CT_LAUNCH_SRUN] = "srun --gpu-bind=closest --cpu-bind=cores, with --gpus-per-node",
      [CT_LAUNCH_HYDRA] = "mpiexec -bind-to numa",
      [CT_LAUNCH_OPENMPI] = "mpirun --map-by numa --bind-to numa",
      [CT_LAUNCH_FLUX] = "flux run -o cpu-affinity=per-task -o gpu-affinity=per-task",
      [CT_LAUNCH_OTHER] = "bind each rank to cores of its GPU's NUMA node"};
  char cure[300];
  for (int i = 0; i < d->n; i++) {
    const ct_facts_t *f = d->rank[i];
    int numa = f->gpu.numa;
    if (!f->on_gpu || numa < 0 || numa >= CT_NUMA_MAX || f->machine.numa_nodes < 2) continue;
    if (f->machine.numa_cores[numa] > 0) continue;
    if (d->job->launch.kind == CT_LAUNCH_NONE)
      snprintf(cure, sizeof cure, "numactl --cpunodebind=%d", numa);
    else
      snprintf(cure, sizeof cure, "%s", cures[d->job->launch.kind]);
    ct__doctor_add(out, CT_FINDING_BAD, "gpu_far", d, cure,
                   "rank %d uses the GPU at %s, on NUMA node %d, but has no cores there", f->rank,
                   f->gpu.bus, numa);
  }
}

static void same_gpu(const ct_doctor_node_t *d, ct_findings_t *out)
{
  char fewer[160], cure[300];
  ct__doctor_fewer(d->job, d->rank[0]->gpus, fewer, sizeof fewer);
  snprintf(cure, sizeof cure, "one rank for each GPU: %s", fewer);
  for (int i = 0; i < d->n; i++)
    for (int j = i + 1; j < d->n; j++) {
      const ct_facts_t *a = d->rank[i], *b = d->rank[j];
      if (!a->gpu.uuid[0] || strcmp(a->gpu.uuid, b->gpu.uuid) != 0) continue;
      ct__doctor_add(out, d->job->share_gpu ? CT_FINDING_NOTE : CT_FINDING_BAD, "gpu_shared", d,
                     cure, "ranks %d and %d have the same GPU, at %s", a->rank, b->rank,
                     a->gpu.bus);
    }
}

/* There is a GPU, and nothing of it is used. */
static void not_used(const ct_doctor_node_t *d, ct_findings_t *out)
{
  const ct_facts_t *f = d->rank[0];
  int n = f->machine.nvidia;
  if (f->on_gpu && f->gpus > d->n && d->n > 0) {
    ct__doctor_add(out, CT_FINDING_NOTE, "gpu_idle", d, "one rank for each GPU",
                   "%d GPUs are visible, but there %s %d rank%s", f->gpus, d->n == 1 ? "is" : "are",
                   d->n, S(d->n));
  } else if (!f->on_gpu && d->job->wants_gpu && n > 0 && !f->no_device[0]) {
    ct__doctor_add(out, CT_FINDING_BAD, "gpu_unused", d,
                   "docker run --gpus all, or load the driver; '--set device=cuda' tells the "
                   "reason, '--set device=cpu' says that it is meant",
                   "%d NVIDIA GPU%s there, but cannot be used: no driver, or no CUDA "
                   "in this build",
                   n, n == 1 ? " is" : "s are");
  }
}

void ct__doctor_gpus(const ct_doctor_node_t *d, ct_findings_t *out)
{
  for (int i = 0; i < d->n; i++)
    if (d->rank[i]->no_device[0])
      ct__doctor_add(out, CT_FINDING_BAD, "device", d, "", "%s", d->rank[i]->no_device);
  far_from_cores(d, out);
  same_gpu(d, out);
  not_used(d, out);
}
