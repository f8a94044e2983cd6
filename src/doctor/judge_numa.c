/* Findings about NUMA nodes: ranks on several of them, and pages far from the cores. */
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

/* Returns the number of NUMA nodes where ranks of the node have cores. */
static int domains_of(const ct__doctor_node_t *d)
{
  int n = 0;
  for (int k = 0; k < CT_NUMA_MAX; k++) {
    int cores = 0;
    for (int i = 0; i < d->n; i++)
      cores += d->rank[i]->machine.numa_cores[k];
    n += cores > 0;
  }
  return n;
}

static int most_cores(const ct_machine_t *m)
{
  int most = 0;
  for (int k = 0; k < CT_NUMA_MAX; k++)
    if (m->numa_cores[k] > most) most = m->numa_cores[k];
  return most;
}

/* The next larger number of ranks that divides evenly among the NUMA nodes. */
static void cure_spanning(const ct__doctor_node_t *d, char *cure, size_t cap)
{
  int domains = domains_of(d), ranks = (d->n + domains - 1) / domains * domains;
  ct__doctor_layout(d->job, ranks, d->cores >= ranks ? d->cores / ranks : 1, cure, cap);
}

static int has_policy(const ct_rank_facts_t *f, const char *start)
{
  return strncmp(f->memory.policy, start, strlen(start)) == 0;
}

/* A part of the memory of such a rank is remote for some of its threads. */
static void spanning(const ct__doctor_node_t *d, ct_findings_t *out)
{
  char cure[300];
  for (int i = 0; i < d->n; i++) {
    const ct_rank_facts_t *f = d->rank[i];
    int spans = ct_numa_spans(&f->machine), share = d->cores / d->n, most = most_cores(&f->machine);
    if (f->on_gpu || spans < 2) continue;
    if (f->threads <= most)
      ct__doctor_bind(d->job, share < most ? share : most, cure, sizeof cure);
    else
      cure_spanning(d, cure, sizeof cure);
    ct__doctor_add(out, CT_FINDING_NOTE, "numa", d, cure,
                   "rank %d, with %d thread%s, may use cores of %d NUMA nodes%s", f->rank,
                   f->threads, S(f->threads), spans,
                   has_policy(f, "interleave") ? ", between which its pages alternate" : "");
  }
}

/* All pages of a rank on few of its NUMA nodes: their memory serves the threads of all. */
static void crowded(const ct__doctor_node_t *d, ct_findings_t *out)
{
  for (int i = 0; i < d->n; i++) {
    const ct_rank_facts_t *f = d->rank[i];
    int used = 0, spans = ct_numa_spans(&f->machine);
    for (int k = 0; k < CT_NUMA_MAX; k++)
      used += f->memory.bytes[k] > 0;
    if (f->threads <= most_cores(&f->machine) || used >= spans) continue;
    if (!has_policy(f, "bind") && !has_policy(f, "prefer")) continue;
    ct__doctor_add(out, CT_FINDING_BAD, "numa_policy", d,
                   "start it without numactl --membind and --preferred, and srun without "
                   "--mem-bind; --interleave is fine",
                   "rank %d has cores of %d NUMA nodes, but its memory is on %d of them (memory "
                   "policy %s)",
                   f->rank, spans, used, f->memory.policy);
  }
}

/* The rank's pages are on NUMA nodes where it has no cores. */
static void remote(const ct__doctor_node_t *d, ct_findings_t *out)
{
  for (int i = 0; i < d->n; i++) {
    const ct_rank_facts_t *f = d->rank[i];
    double share = ct_numa_remote(&f->memory, &f->machine);
    int chosen = !has_policy(f, "default") && !has_policy(f, "local");
    if (share <= 0.1) continue;
    ct__doctor_add(out, share > 0.5 ? CT_FINDING_BAD : CT_FINDING_NOTE, "numa_remote", d,
                   chosen ? "start it without numactl --interleave, --membind and --preferred, and "
                            "srun without --mem-bind"
                          : "numactl --membind=NODE of its cores, or srun --mem-bind=local: both "
                            "drop cached files there; if they fail, the job may not use that "
                            "memory (cpuset.mems)",
                   "%.0f%% of the pages that rank %d touches first are on NUMA nodes without cores "
                   "of it (memory policy %s)",
                   100 * share, f->rank, f->memory.policy);
  }
}

void ct__doctor_numa(const ct__doctor_node_t *d, ct_findings_t *out)
{
  spanning(d, out);
  crowded(d, out);
  remote(d, out);
}
