/* Groups ranks by node: most problems concern cores, memory or GPUs that the ranks of a node
 * share. */
#include <string.h>

#include "doctor/doctor.h"
#include "base/ct_mem.h"

static int overlap(const ct_rank_facts_t *a, const ct_rank_facts_t *b, size_t bytes)
{
  for (size_t i = 0; i < bytes; i++)
    if (a->machine.mask[i] & b->machine.mask[i]) return 1;
  return 0;
}

/* The length of the masks in bytes, up to the highest core that is set. */
static size_t mask_bytes(const ct__doctor_node_t *d)
{
  size_t bytes = 0;
  for (int i = 0; i < d->n; i++)
    for (size_t b = CT_MASK_BYTES; b > bytes; b--)
      if (d->rank[i]->machine.mask[b - 1]) bytes = b;
  return bytes;
}

/* The number of cores in the union of the masks that overlap with that of rank \a from; -1: of all
 * masks. */
static int count_union(const ct__doctor_node_t *d, int from, size_t bytes)
{
  unsigned char all[CT_MASK_BYTES] = {0};
  int count = 0;
  const ct_rank_facts_t *first = from < 0 ? NULL : d->rank[from];
  for (int i = 0; i < d->n; i++) {
    if (first && i != from && !overlap(first, d->rank[i], bytes)) continue;
    for (size_t b = 0; b < bytes; b++)
      all[b] |= d->rank[i]->machine.mask[b];
  }
  for (size_t b = 0; b < bytes; b++)
    count += __builtin_popcount(all[b]);
  return count;
}

/* The threads of a rank with a GPU only feed it: it needs at least one core. */
static int busy_threads(const ct_rank_facts_t *f)
{
  return f->on_gpu ? 1 : f->threads;
}

/* Stores the group of ranks that share cores with rank \a i, if it lacks more cores than the group
 * stored before. */
static void judge_group(ct__doctor_node_t *d, int i, size_t bytes)
{
  int ranks = 0, threads = 0;
  for (int j = 0; j < d->n; j++) {
    if (j != i && !overlap(d->rank[i], d->rank[j], bytes)) continue;
    if (j < i && d->alike) return; /* this group was judged at rank j */
    d->sharing |= j != i;
    ranks++;
    threads += busy_threads(d->rank[j]);
  }
  int cores = d->alike ? d->cores : count_union(d, i, bytes);
  if (d->group_ranks && threads - cores <= d->group_threads - d->group_cores) return;
  d->group_ranks = ranks;
  d->group_threads = threads;
  d->group_cores = cores;
}

static void describe_node(ct__doctor_node_t *d)
{
  size_t bytes = mask_bytes(d);
  int of_the_job = d->rank[0]->cpus_of_the_job;
  d->alike = 1;
  d->cores = count_union(d, -1, bytes);
  d->allowed = d->rank[0]->machine.allowed;
  for (int i = 0; i < d->n; i++) {
    d->threads += busy_threads(d->rank[i]);
    d->alike &= memcmp(d->rank[i]->machine.mask, d->rank[0]->machine.mask, bytes) == 0;
    if (d->rank[i]->machine.allowed > d->allowed) d->allowed = d->rank[i]->machine.allowed;
  }
  if (of_the_job > 0 && of_the_job < d->allowed) d->allowed = of_the_job;
  if (d->allowed < d->cores) d->allowed = d->cores;
  for (int i = 0; i < d->n; i++)
    judge_group(d, i, bytes);
}

static void sort(const ct_rank_facts_t *f, const ct_job_facts_t *job, const ct_rank_facts_t **order,
                 ct__doctor_node_t *nodes)
{
  int at = 0;
  for (int r = 0; r < job->ranks; r++)
    nodes[f[r].node].n++;
  for (int i = 0; i < job->nodes; i++) {
    nodes[i].index = i;
    nodes[i].job = job;
    nodes[i].rank = order + at;
    at += nodes[i].n;
    nodes[i].n = 0; /* counted again below */
  }
  for (int r = 0; r < job->ranks; r++) {
    ct__doctor_node_t *d = &nodes[f[r].node];
    d->rank[d->n++] = &f[r];
  }
  for (int i = 0; i < job->nodes; i++)
    describe_node(&nodes[i]);
}

int ct__doctor_nodes_make(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                          ct__doctor_nodes_t *out)
{
  out->node = ct_mem_array(job->nodes, sizeof *out->node, "the table of nodes");
  out->order = ct_mem_array(job->ranks, sizeof *out->order, "the order of ranks");
  if (!out->node || !out->order) return CT_ERR_NOMEM;
  sort(f, job, out->order, out->node);
  return CT_OK;
}

void ct__doctor_nodes_clear(ct__doctor_nodes_t *n)
{
  ct_mem_free(n->order);
  ct_mem_free(n->node);
}
