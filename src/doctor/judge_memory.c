/* Findings about memory, /dev/shm and resource limits that are too small for the ranks of a
 * node. */
#include <stdio.h>

#include "doctor/doctor.h"

static const char *bytes_text(int64_t n, char buf[32])
{
  return ct_text_bytes((double)n, buf, 32);
}

/* The memory that the ranks of a node can use together; *by names its limit. */
static int64_t have_memory(const ct_machine_t *m, const char **by)
{
  *by = m->memory_limit < m->memory_free ? "its cgroup" : "the machine";
  return m->memory_limit < m->memory_free ? m->memory_limit : m->memory_free;
}

static void memory(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char a[32], b[32], cure[200];
  const char *by, *more = d->job->batch.system.all_memory;
  const int64_t least = 256 * MIB;
  const ct_machine_t *m = &d->rank[0]->machine;
  int64_t have = have_memory(m, &by),
          want = d->rank[0]->on_gpu ? 0 : (int64_t)d->job->data.rank_bytes;
  if (have < 0) return;
  if (want * d->n > have) {
    snprintf(cure, sizeof cure, "fewer ranks on a node, %s%s",
             more ? "a smaller data.batch, or more: " : "or a smaller data.batch",
             more ? more : "");
    ct__doctor_add(out, CT_FINDING_BAD, "memory", d, cure,
                   "%d rank%s of about %s each, but %s has only %s of memory", d->n, S(d->n),
                   bytes_text(want, a), by, bytes_text(have, b));
  } else if (have / d->n < least) {
    ct__doctor_add(out, CT_FINDING_BAD, "memory", d, more ? more : "start fewer ranks on a node",
                   "only %s of memory for each rank (%s has %s)", bytes_text(have / d->n, a), by,
                   bytes_text(have, b));
  }
}

/* A budget that is too small ends the run when its plan is made. */
static void budget(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char a[32], cure[100];
  size_t least = d->job->data.least_bytes;
  if (!least || d->rank[0]->rank) return;
  snprintf(cure, sizeof cure, "train.memory of at least %s, or a smaller data.batch",
           bytes_text((int64_t)least, a));
  ct__doctor_add(out, CT_FINDING_BAD, "budget", d, cure, "train.memory %s", d->job->data.budget);
}

/* Ranks of a node exchange messages and gradients through /dev/shm. */
static void shm(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char a[32], b[32];
  const ct_machine_t *m = &d->rank[0]->machine;
  int64_t need = 32 * MIB * d->n + 2 * (int64_t)d->job->data.gradient_bytes;
  if (d->n < 2) return;
  if (need < 128 * MIB) need = 128 * MIB;
  if (m->shm_total < need) {
    ct__doctor_add(out, CT_FINDING_BAD, "shm", d,
                   "docker run --shm-size=2g (or --ipc=host); on a node of its own: "
                   "mount -o remount,size=2g /dev/shm",
                   "/dev/shm has %s, too little for %d ranks, which need about %s",
                   bytes_text(m->shm_total > 0 ? m->shm_total : 0, a), d->n, bytes_text(need, b));
  } else if (m->shm_free < need / 2) {
    ct__doctor_add(out, CT_FINDING_BAD, "shm", d, "remove files of dead processes: ls -l /dev/shm",
                   "/dev/shm is full: %s of %s are free", bytes_text(m->shm_free, a),
                   bytes_text(m->shm_total, b));
  }
}

/* InfiniBand locks its buffers in memory. */
static void locked(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char a[32];
  const ct_machine_t *m = &d->rank[0]->machine;
  if (!m->infiniband || m->locked < 0 || m->locked >= 64 * MIB) return;
  ct__doctor_add(
      out, d->job->nodes > 1 ? CT_FINDING_BAD : CT_FINDING_NOTE, "memlock", d,
      d->job->launch.kind == CT_LAUNCHER_SRUN
          ? "ulimit -l unlimited in the job script, with srun --propagate=MEMLOCK; else "
            "LimitMEMLOCK=infinity for slurmd"
          : "ulimit -l unlimited",
      "InfiniBand needs locked memory, but the limit is %s: MPI and NCCL fall back to slow "
      "TCP, or fail",
      bytes_text(m->locked, a));
}

static void limits(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char cure[300], a[32];
  const ct_machine_t *m = &d->rank[0]->machine;
  int64_t files = 256 + d->job->ranks;
  if (m->files >= 0 && m->files < files) {
    snprintf(cure, sizeof cure, "ulimit -n %lld", (long long)(files > 4096 ? files : 4096));
    ct__doctor_add(out, CT_FINDING_BAD, "files", d, cure,
                   "a rank may open only %lld files; with %d rank%s it needs %lld",
                   (long long)m->files, d->job->ranks, S(d->job->ranks), (long long)files);
  }
  if (m->stack >= 0 && m->stack < MIB) {
    ct__doctor_add(out, CT_FINDING_BAD, "stack", d, "ulimit -s 8192", "the stack is limited to %s",
                   bytes_text(m->stack, a));
  }
  if (m->address_space >= 0 && m->address_space != CT_NO_LIMIT) {
    int level = d->rank[0]->on_gpu ? CT_FINDING_BAD : CT_FINDING_NOTE;
    ct__doctor_add(out, level, "address_space", d, "ulimit -v unlimited",
                   "the address space is limited to %s%s", bytes_text(m->address_space, a),
                   d->rank[0]->on_gpu ? ", but CUDA reserves far more than it uses" : "");
  }
}

void ct__doctor_memory(const ct__doctor_node_t *d, ct_findings_t *out)
{
  memory(d, out);
  budget(d, out);
  shm(d, out);
  locked(d, out);
  limits(d, out);
}
