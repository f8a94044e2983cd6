/* The report as text. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

static const char *bytes_or_none(int64_t n, char buf[32])
{
  if (n == CT_NO_LIMIT) return "unlimited";
  return n < 0 ? "unknown" : ct_text_bytes((double)n, buf, 32);
}

/* ---- the table of nodes ---- */

static void range_text(const ct__doctor_node_t *d, int (*of)(const ct_rank_facts_t *), char *buf,
                       size_t cap)
{
  int least = of(d->rank[0]), most = least;
  for (int i = 1; i < d->n; i++) {
    int n = of(d->rank[i]);
    least = n < least ? n : least;
    most = n > most ? n : most;
  }
  snprintf(buf, cap, least == most ? "%d" : "%d-%d", least, most);
}

static int threads_of(const ct_rank_facts_t *f)
{
  return f->threads;
}

static int cores_of(const ct_rank_facts_t *f)
{
  return f->machine.cores;
}

static int numa_of(const ct_rank_facts_t *f)
{
  int n = 0;
  for (int i = 0; i < CT_NUMA_MAX; i++)
    n += f->machine.numa_cores[i] > 0;
  return n;
}

/* The row of a node without its host name. */
static int node_row(const ct__doctor_node_t *d, ct_str_t *row)
{
  int rc = CT_OK;
  ct_str_clear(row);
  char cores[48], each[24], threads[24], numa[24], memory[32], gpus[40], of[40];
  const ct_machine_t *m = &d->rank[0]->machine;
  range_text(d, cores_of, each, sizeof each);
  range_text(d, threads_of, threads, sizeof threads);
  range_text(d, numa_of, numa, sizeof numa);
  snprintf(cores, sizeof cores, "%s%s", each, d->sharing ? " shared" : "");
  int64_t most = m->memory_limit < m->memory_total ? m->memory_limit : m->memory_total;
  if (d->rank[0]->on_gpu)
    snprintf(gpus, sizeof gpus, "%d of %d", d->n < d->rank[0]->gpus ? d->n : d->rank[0]->gpus,
             d->rank[0]->gpus);
  else
    snprintf(gpus, sizeof gpus, "%s", m->nvidia ? "not used" : "none");
  snprintf(of, sizeof of, "%s of %d", numa, m->numa_nodes);
  CT_TRY(ct_str_add(row, "%6d  %-11s %-8d %-8s %-11s %-8s %s", d->n, cores, d->allowed, threads, of,
                    bytes_or_none(most, memory), gpus));
out:
  return rc;
}

static int node_table(const ct__doctor_node_t *nodes, const ct_job_facts_t *job, ct_str_t *out)
{
  int rc = CT_OK, wide = 4;
  ct_str_t row = {0}, next = {0};
  for (int i = 0; i < job->nodes; i++) {
    int len = (int)strlen(nodes[i].rank[0]->machine.host);
    wide = len > wide ? len : wide;
  }
  CT_TRY(ct_str_add(out,
                    "  %-*s   ranks  cores each  allowed  threads  NUMA nodes  memory   GPUs\n",
                    wide, "node"));
  for (int i = 0, end; i < job->nodes; i = end) {
    CT_TRY(node_row(&nodes[i], &row));
    for (end = i + 1; end < job->nodes; end++) {
      CT_TRY(node_row(&nodes[end], &next));
      if (strcmp(row.data, next.data) != 0) break;
    }
    CT_TRY(ct_str_add(out, "  %-*s  %s\n", wide, nodes[i].rank[0]->machine.host, row.data));
    if (end == i + 2)
      CT_TRY(ct_str_add(out, "  %s: the same\n", nodes[i + 1].rank[0]->machine.host));
    if (end > i + 2)
      CT_TRY(ct_str_add(out, "  %s to %s, %d nodes: the same\n", nodes[i + 1].rank[0]->machine.host,
                        nodes[end - 1].rank[0]->machine.host, end - i - 1));
  }
out:
  ct_str_clear(&row);
  ct_str_clear(&next);
  return rc;
}

/* ---- other facts ---- */

static int report_launch(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_str_t *out)
{
  static const char *const from[] = {"share of the cores", "OMP_NUM_THREADS", "the configuration"};
  int rc = CT_OK;
  char left[32];
  CT_TRY(ct_str_add(out, "  launch      %s; %s, MPI_THREAD_%s\n",
                    *job->launch.name ? job->launch.name : "no launcher", job->mpi,
                    job->thread_level));
  CT_TRY(ct_str_add(out, "  threads     by %s\n", from[f->threads_from]));
  if (!*job->batch.system.name) goto out;
  CT_TRY(ct_str_add(out, "  job         %s %s", job->batch.system.name, job->batch.id));
  if (job->batch.nodes)
    CT_TRY(ct_str_add(out, ", %d node%s", job->batch.nodes, S(job->batch.nodes)));
  if (job->left_s >= 0 && isfinite(job->left_s))
    CT_TRY(ct_str_add(out, ", ends in %s", ct_text_seconds(job->left_s, left, sizeof left)));
  CT_TRY(ct_str_add(out, "\n"));
  if (*job->batch.scratch) CT_TRY(ct_str_add(out, "  temporary   %s\n", job->batch.scratch));
out:
  return rc;
}

static int system_facts(const ct_machine_t *m, ct_str_t *out)
{
  int rc = CT_OK;
  char a[32], b[32], c[32], d[32];
  CT_TRY(ct_str_add(out, "  memory      %s free, cgroup limit %s, address space %s\n",
                    bytes_or_none(m->memory_free, a),
                    m->memory_limit == CT_NO_LIMIT ? "none" : bytes_or_none(m->memory_limit, b),
                    bytes_or_none(m->address_space, c)));
  CT_TRY(ct_str_add(out, "  /dev/shm    %s, %s free\n", bytes_or_none(m->shm_total, a),
                    bytes_or_none(m->shm_free, b)));
  CT_TRY(ct_str_add(out, "  limits      stack %s, open files %" PRId64 ", locked memory %s, ",
                    bytes_or_none(m->stack, a), m->files, bytes_or_none(m->locked, b)));
  CT_TRY(ct_str_add(out, "core files %s\n", m->core == 0 ? "off" : bytes_or_none(m->core, d)));
  if (m->quota > 0) CT_TRY(ct_str_add(out, "  cgroup      CPU time of %.1f cores\n", m->quota));
out:
  return rc;
}

/* Appends the ranks of a node that have cores on a NUMA node: "rank 0", "ranks 0, 2". */
static int ranks_near(const ct__doctor_node_t *d, int numa, ct_str_t *out)
{
  int rc = CT_OK, n = 0, told = 0;
  for (int i = 0; i < d->n; i++)
    n += d->rank[i]->machine.numa_cores[numa] > 0;
  if (n == d->n) return ct_str_add(out, "all ranks");
  if (n == 0) return ct_str_add(out, "no rank");
  CT_TRY(ct_str_add(out, "rank%s ", S(n)));
  for (int i = 0; i < d->n; i++)
    if (d->rank[i]->machine.numa_cores[numa] > 0)
      CT_TRY(ct_str_add(out, "%s%d", told++ ? ", " : "", d->rank[i]->rank));
out:
  return rc;
}

/* The network cards of the first node, and the ranks near them. */
static int network(const ct__doctor_node_t *d, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_machine_t *m = &d->rank[0]->machine;
  if (m->nics == 0 && m->infiniband)
    CT_TRY(
        ct_str_add(out, "  network     %d InfiniBand device%s\n", m->infiniband, S(m->infiniband)));
  for (int i = 0; i < m->nics; i++) {
    const ct_nic_t *nic = &m->nic[i];
    CT_TRY(ct_str_add(out, "  %-11s %s%s", i ? "" : "network", nic->name,
                      nic->infiniband ? " (InfiniBand)" : ""));
    if (nic->numa >= 0 && m->numa_nodes > 1) {
      CT_TRY(ct_str_add(out, " on NUMA node %d, where ", nic->numa));
      CT_TRY(ranks_near(d, nic->numa, out));
      CT_TRY(ct_str_add(out, " of %s ha%s cores", m->host, d->n == 1 ? "s" : "ve"));
    }
    CT_TRY(ct_str_add(out, "\n"));
  }
out:
  return rc;
}

static int directory(const ct_job_facts_t *job, ct_str_t *out)
{
  int rc = CT_OK;
  char free_text[32];
  const ct_volume_t *v = &job->volume;
  if (!v->type[0]) return CT_OK;
  CT_TRY(ct_str_add(out, "  directory   %s: %s, %s free", job->dir, v->type,
                    bytes_or_none(v->free, free_text)));
  if (v->writable)
    CT_TRY(ct_str_add(out, "; file locks: flock %s, fcntl %s",
                      v->flock_error ? strerror(v->flock_error) : "works",
                      v->fcntl_error ? strerror(v->fcntl_error) : "works"));
  CT_TRY(ct_str_add(out, "; HDF5_USE_FILE_LOCKING %s\n",
                    *job->file_locking ? job->file_locking : "not set: HDF5 locks no files"));
out:
  return rc;
}

static int run_facts(const ct_job_facts_t *job, ct_str_t *out)
{
  int rc = CT_OK;
  char a[32], b[32];
  const ct_data_facts_t *d = &job->data;
  if (!job->has_config || !d->samples) return CT_OK;
  CT_TRY(ct_str_add(
      out, "  data        %" PRId64 " samples (%s), %" PRId64 " %s, %" PRId64 " for evaluation\n",
      d->samples, d->sample, d->targets ? d->targets : d->classes,
      d->targets ? "targets" : "classes", d->val_samples));
  if (d->seen[0]) CT_TRY(ct_str_add(out, "              %s\n", d->seen));
  if (d->packed[0])
    CT_TRY(ct_str_add(out, "              converted by their attributes (%s): data.cf: auto\n",
                      d->packed));
  if (d->files)
    CT_TRY(ct_str_add(out,
                      "  files       %d, in %" PRId64 " chunk%s of %" PRId64 " sample%s (%s%s)%s\n",
                      d->files, d->blocks, S(d->blocks), d->block_rows, S(d->block_rows),
                      ct_text_bytes((double)d->block_bytes, a, sizeof a),
                      d->compressed ? ", deflate" : "", d->cached ? "; all fit in the cache" : ""));
  if (d->stripes_most)
    CT_TRY(ct_str_add(out, "  stripes     of Lustre: %d to %d storage targets for a file\n",
                      d->stripes_least, d->stripes_most));
  CT_TRY(ct_str_add(out, "  batch       %" PRId64 " over %d rank%s\n", d->batch, job->ranks,
                    S(job->ranks)));
  if (d->steps)
    CT_TRY(ct_str_add(out,
                      "  steps       %" PRId64
                      " tried, %.3g ms each; %.3g ms (%.0f %%) of it waits "
                      "for data\n",
                      d->steps, 1e3 * d->step_s, 1e3 * d->wait_s, 100 * d->wait_s / d->step_s));
  if (job->data.rank_bytes)
    CT_TRY(ct_str_add(out, "  needs       about %s of memory for each rank; checkpoints of %s\n",
                      ct_text_bytes((double)job->data.rank_bytes, a, sizeof a),
                      ct_text_bytes((double)job->data.checkpoint_bytes, b, sizeof b)));
  if (d->budget[0]) CT_TRY(ct_str_add(out, "  budget      train.memory: %s\n", d->budget));
out:
  return rc;
}

static double rate_of(const ct_survey_t *l, int phase)
{
  return l->io_s[phase] > 0 ? l->io_bytes[phase] / l->io_s[phase] : 0;
}

/* The rates of one reader thread, as in bench io. */
static int look_rates(const ct_survey_t *l, ct_str_t *out)
{
  int rc = CT_OK;
  char a[32];
  if (rate_of(l, CT_IO_READ) <= 0) return CT_OK;
  CT_TRY(ct_str_add(out, "              a thread reads %s/s",
                    ct_text_bytes(rate_of(l, CT_IO_READ), a, sizeof a)));
  for (int i = CT_IO_DECOMPRESS; i <= CT_IO_DECODE; i++)
    if (rate_of(l, i) > 0)
      CT_TRY(ct_str_add(out, " and %s them at %s/s, to %.2f times the bytes",
                        i == CT_IO_DECODE ? "decodes" : "decompresses",
                        ct_text_bytes(rate_of(l, i), a, sizeof a),
                        l->io_bytes[i] / l->io_bytes[CT_IO_READ]));
  CT_TRY(ct_str_add(out, "\n"));
out:
  return rc;
}

/* The histogram of labels: a bar for each class, or for several consecutive classes. */
static int look_labels(const ct_survey_t *l, ct_str_t *out)
{
  enum { WIDTH = 40 };
  static const char full[] = "########################################";
  int rc = CT_OK;
  int64_t most = 1;
  if (l->classes == 0) return CT_OK;
  CT_TRY(ct_str_add(out,
                    "              %" PRId64 " to %" PRId64 " %s per class, %" PRId64 " of %" PRId64
                    " classes have none\n",
                    l->least, l->most, l->by_pixel ? "pixels" : "samples", l->empty, l->classes));
  for (int i = 0; i < l->bars; i++)
    most = l->bar[i] > most ? l->bar[i] : most;
  for (int i = 0; i < l->bars; i++) {
    char name[48];
    int64_t first = ct_survey_bar_begin(l, i), last = ct_survey_bar_begin(l, i + 1) - 1;
    int width = (int)ceil(WIDTH * (double)l->bar[i] / (double)most);
    snprintf(name, sizeof name, first == last ? "%" PRId64 : "%" PRId64 " to %" PRId64, first,
             last);
    CT_TRY(ct_str_add(out, "              label%s %-12s %12" PRId64 "  %.*s\n",
                      first == last ? " " : "s", name, l->bar[i], width, full));
  }
out:
  return rc;
}

/* The survey of a data set: amount and rate of reading, and labels. */
static int report_look(const char *name, const ct_survey_t *l, int ranks, ct_str_t *out)
{
  int rc = CT_OK;
  char a[32];
  if (l->looked == 0) return CT_OK;
  CT_TRY(ct_str_add(
      out, "  %-11s %" PRId64 " of %" PRId64 " samples read, %.0f per second by %d rank%s", name,
      l->looked, l->samples, (double)l->looked / fmax(l->seconds, 1e-9), ranks, S(ranks)));
  if (l->file_bytes > 0)
    CT_TRY(ct_str_add(out, "; files of %s, %.2f bytes in memory for each of them",
                      ct_text_bytes(l->file_bytes, a, sizeof a),
                      l->bytes / (double)l->looked * (double)l->samples / l->file_bytes));
  CT_TRY(ct_str_add(out, "\n"));
  CT_TRY(look_rates(l, out));
  CT_TRY(look_labels(l, out));
out:
  return rc;
}

static int look_facts(const ct_job_facts_t *job, ct_str_t *out)
{
  int rc = CT_OK;
  const ct_surveys_t *l = job->surveys;
  if (!l) return CT_OK;
  CT_TRY(report_look("train", &l->train, job->ranks, out));
  CT_TRY(report_look("val", &l->val, job->ranks, out));
  if (!l->train.channels || l->train.looked == 0) return CT_OK;
  CT_TRY(ct_str_add(out, "  transforms  "));
  CT_TRY(ct_survey_normalize(&l->train, out));
  CT_TRY(ct_str_add(out, "%s\n", l->train.scale == 255 ? ", after to_tensor" : ""));
out:
  return rc;
}

/* ---- findings ---- */

static int findings_of(const ct_findings_t *f, int level, ct_str_t *out)
{
  static const char *const words[] = {"ok", "note", "BAD"};
  int rc = CT_OK;
  for (int i = 0; i < f->n; i++) {
    if (f->list[i].level != level) continue;
    CT_TRY(ct_str_add(out, "  %-5s ", words[level]));
    CT_TRY(ct__doctor_sentence(&f->list[i], out));
    CT_TRY(ct_str_add(out, "\n"));
    if (f->list[i].cure[0]) CT_TRY(ct_str_add(out, "        cure: %s\n", f->list[i].cure));
  }
out:
  return rc;
}

static int verdict(const ct_findings_t *f, ct_str_t *out)
{
  int bad = ct_doctor_count(f, CT_FINDING_BAD), notes = ct_doctor_count(f, CT_FINDING_NOTE);
  if (bad)
    return ct_str_add(out, "\nVerdict: %d problem%s to fix before a long run\n", bad, S(bad));
  if (notes) return ct_str_add(out, "\nVerdict: good, with %d note%s\n", notes, S(notes));
  return ct_str_add(out, "\nVerdict: good\n");
}

int ct_doctor_report(const ct_rank_facts_t *f, const ct_job_facts_t *job,
                     const ct_findings_t *findings,
                     int (*versions)(const char *separator, ct_str_t *out), ct_str_t *out)
{
  int rc = CT_OK;
  ct__doctor_nodes_t nodes;
  CT_TRY(ct__doctor_nodes_make(f, job, &nodes));
  CT_TRY(ct__doctor_line(nodes.node, job, out));
  CT_TRY(ct_str_add(out, "\n\n"));
  CT_TRY(node_table(nodes.node, job, out));
  CT_TRY(ct_str_add(out, "\n"));
  CT_TRY(report_launch(f, job, out));
  CT_TRY(system_facts(&f->machine, out));
  CT_TRY(network(&nodes.node[0], out));
  CT_TRY(directory(job, out));
  CT_TRY(run_facts(job, out));
  CT_TRY(look_facts(job, out));
  CT_TRY(ct_str_add(out, "  versions    "));
  CT_TRY(versions("\n              ", out));
  CT_TRY(ct_str_add(out, "\n\n"));
  for (int level = CT_FINDING_BAD; level >= CT_FINDING_OK; level--)
    CT_TRY(findings_of(findings, level, out));
  CT_TRY(verdict(findings, out));
out:
  ct__doctor_nodes_clear(&nodes);
  return rc;
}
