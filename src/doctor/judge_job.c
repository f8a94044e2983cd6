/* Findings about the job as a whole: launch, versions, the run directory, data. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "doctor/doctor.h"

/* ---- launch and versions ---- */

/* The first rank whose value at an offset differs from that of rank 0; 0: none does. */
static int first_other(const ct_rank_facts_t *f, int ranks, size_t at)
{
  for (int r = 1; r < ranks; r++)
    if (memcmp((const char *)&f[r] + at, (const char *)&f[0] + at, sizeof(uint64_t)) != 0) return r;
  return 0;
}

static void versions(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out)
{
  static const struct {
    size_t at;
    int level;
    const char *key, *what, *cure;
  } checks[] = {{offsetof(ct_rank_facts_t, machine.program), CT_FINDING_BAD, "program",
                 "runs another program",
                 "start the same file everywhere: name it with its path on a shared file system"},
                {offsetof(ct_rank_facts_t, mpi), CT_FINDING_BAD, "mpi", "has another MPI library",
                 "load the same modules on all nodes, and check LD_LIBRARY_PATH"},
                {offsetof(ct_rank_facts_t, machine.libraries), CT_FINDING_NOTE, "libraries",
                 "has other versions of some library", "compare the output of ldd on both nodes"}};
  for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
    int r = first_other(f, job->ranks, checks[i].at);
    if (!r) continue;
    ct__doctor_add(out, checks[i].level, checks[i].key, NULL, checks[i].cure,
                   "rank %d on %s %s than rank 0 on %s", r, f[r].machine.host, checks[i].what,
                   f[0].machine.host);
  }
}

static void clocks(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out)
{
  int far = 0;
  for (int r = 1; r < job->ranks; r++)
    if (fabs(f[r].clock_s - f[0].clock_s) > fabs(f[far].clock_s - f[0].clock_s)) far = r;
  double off = f[far].clock_s - f[0].clock_s;
  if (fabs(off) < 5 || f[far].node == f[0].node)
    return; /* smaller differences can be waiting time */
  ct__doctor_add(out, CT_FINDING_NOTE, "clock", NULL,
                 "ask the administrators for time synchronisation (chrony, NTP): timestamps of "
                 "files and logs are wrong",
                 "the clock of %s is %.0f s %s that of %s", f[far].machine.host, fabs(off),
                 off > 0 ? "ahead of" : "behind", f[0].machine.host);
}

/* Writes "srun --ntasks=8 ctrain-hpc" if the launcher is known. */
static const char *start_with(const ct_job_facts_t *job, const char *option, int n, char cure[300])
{
  const char *launch = job->batch.system.launch;
  *cure = '\0';
  if (launch) snprintf(cure, 300, "%s --%s=%d ctrain-hpc", launch, option, n);
  return cure;
}

static void batch_job(const ct_job_facts_t *job, ct_findings_t *out)
{
  char cure[300];
  if (job->launch.kind == CT_LAUNCHER_NONE && job->batch.tasks > 1) {
    ct__doctor_add(out, CT_FINDING_NOTE, "alone", NULL,
                   start_with(job, "ntasks", job->batch.tasks, cure),
                   "one process alone, in a job of %d tasks", job->batch.tasks);
  } else if (job->batch.nodes > job->nodes) {
    ct__doctor_add(out, CT_FINDING_NOTE, "idle_nodes", NULL,
                   start_with(job, "nodes", job->batch.nodes, cure),
                   "the job has %d nodes, but ranks run on %d", job->batch.nodes, job->nodes);
  }
  if (job->left_s < 0 && *job->batch.system.name) {
    const char *say = job->batch.system.say_end;
    snprintf(cure, sizeof cure, "%s, or --set job.walltime=DURATION",
             say ? say : "export CTRAIN_END_TIME=SECONDS_SINCE_1970");
    ct__doctor_add(out, CT_FINDING_NOTE, "no_end", NULL, cure,
                   "the end of this job is unknown, so a run cannot stop before its time limit");
  }
  if (job->left_s >= 0 && job->left_s < 300) {
    ct__doctor_add(out, CT_FINDING_NOTE, "walltime", NULL, "",
                   "the job reaches its time limit in %.0f s", job->left_s);
  }
}

/* Hydra listens on a port that all users can reach, and aborts when a foreign process connects. */
static void others(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out)
{
  char more[40] = "";
  int first = 0;
  while (first < job->ranks && !f[first].others)
    first++;
  if (job->launch.kind != CT_LAUNCHER_HYDRA || first == job->ranks) return;
  if (f[first].others > 1) snprintf(more, sizeof more, " and %d more", f[first].others - 1);
  ct__doctor_add(
      out, CT_FINDING_NOTE, "others", NULL,
      "srun under Slurm, exclusive nodes, or a private network (docs/cluster.md: other users)",
      "mpiexec aborts the job when anybody connects to its port, and %s%s %s processes on "
      "%s",
      f[first].other, more, f[first].others > 1 ? "have" : "has", f[first].machine.host);
}

/* In each step all ranks wait for the slowest rank. */
static void uneven(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out)
{
  char cure[300];
  int least = 0, most = 0;
  for (int r = 1; r < job->ranks; r++) {
    if (f[r].threads < f[least].threads) least = r;
    if (f[r].threads > f[most].threads) most = r;
  }
  const ct_rank_facts_t *a = &f[least], *b = &f[most];
  if (a->on_gpu || a->threads * 2 > b->threads) return;
  ct__doctor_bind(job, b->threads, cure, sizeof cure);
  ct__doctor_add(
      out, CT_FINDING_BAD, "uneven", NULL, cure,
      "rank %d on %s has %d thread%s, but rank %d on %s has %d: all wait for the slowest", a->rank,
      a->machine.host, a->threads, S(a->threads), b->rank, b->machine.host, b->threads);
}

void ct__doctor_launch(const ct_rank_facts_t *f, const ct_job_facts_t *job, ct_findings_t *out)
{
  versions(f, job, out);
  clocks(f, job, out);
  uneven(f, job, out);
  batch_job(job, out);
  others(f, job, out);
  if (!job->equal_nodes)
    ct__doctor_add(out, CT_FINDING_NOTE, "unequal_nodes", NULL,
                   "a number of ranks that the nodes divide, and --ntasks-per-node or -ppn",
                   "some nodes have more ranks than others: a slower all-reduce algorithm is used");
}

/* ---- the run directory ---- */

static int is_true(const char *word)
{
  return strcmp(word, "TRUE") == 0 || strcmp(word, "1") == 0;
}

static void space(const ct_job_facts_t *job, ct_findings_t *out)
{
  char a[32], b[32];
  const ct_volume_t *v = &job->volume;
  int64_t want =
      2 * (int64_t)
              job->data.checkpoint_bytes; /* a new one is written while the last one still exists */
  if (v->free < 0) return;
  ct_text_bytes((double)v->free, a, sizeof a);
  ct_text_bytes((double)job->data.checkpoint_bytes, b, sizeof b);
  if (v->free < want || v->files == 0) {
    ct__doctor_add(out, CT_FINDING_BAD, "space", NULL,
                   "delete files, or --set run.dir=LARGER_FILE_SYSTEM",
                   "%s has %s free%s, but a checkpoint has about %s", job->dir, a,
                   v->files == 0 ? " and no more files" : "", b);
  } else if (v->free < 1024 * MIB) {
    ct__doctor_add(out, CT_FINDING_NOTE, "space", NULL, "", "%s has %s free", job->dir, a);
  }
}

void ct__doctor_files(const ct_job_facts_t *job, ct_findings_t *out)
{
  const ct_volume_t *v = &job->volume;
  if (!v->type[0]) return;
  if (!v->writable) {
    ct__doctor_add(out, CT_FINDING_BAD, "directory", NULL,
                   "--set run.dir=$SCRATCH/runs/NAME, or another directory of yours",
                   "%s cannot be written: %s", job->dir, strerror(v->error));
  } else {
    space(job, out);
  }
  if (v->local && strcmp(v->type, "overlay") != 0) {
    ct__doctor_add(out, *job->batch.system.name ? CT_FINDING_BAD : CT_FINDING_NOTE, "local", NULL,
                   "--set run.dir= a directory that all nodes share and that stays",
                   "%s is %s: its files are lost with this node or job", job->dir, v->type);
  }
  if (v->writable && v->flock_error && is_true(job->file_locking)) {
    ct__doctor_add(out, CT_FINDING_BAD, "locking", NULL, "unset HDF5_USE_FILE_LOCKING",
                   "%s (%s) has no file locks (%s), but HDF5_USE_FILE_LOCKING is %s", job->dir,
                   v->type, strerror(v->flock_error), job->file_locking);
  }
}

/* ---- data ---- */

static void batch(const ct_job_facts_t *job, ct_findings_t *out)
{
  char cure[300];
  const ct_data_facts_t *d = &job->data;
  if (d->batch < job->ranks) {
    snprintf(cure, sizeof cure, "--set data.batch=%d or more, or fewer ranks", job->ranks);
    ct__doctor_add(out, CT_FINDING_BAD, "batch", NULL, cure,
                   "data.batch is %" PRId64 ", so %" PRId64 " of %d ranks never have a sample",
                   d->batch, job->ranks - d->batch, job->ranks);
  } else if (d->batch % job->ranks) {
    snprintf(cure, sizeof cure, "--set data.batch=%" PRId64,
             (d->batch / job->ranks + 1) * job->ranks);
    ct__doctor_add(out, CT_FINDING_NOTE, "batch", NULL, cure,
                   "data.batch %" PRId64
                   " is not a multiple of %d ranks: some wait for the others in each step",
                   d->batch, job->ranks);
  }
  if (d->samples < d->batch) {
    ct__doctor_add(out, CT_FINDING_NOTE, "few_samples", NULL, "",
                   "data.train has %" PRId64 " samples, fewer than data.batch (%" PRId64 ")",
                   d->samples, d->batch);
  }
}

/* Reading one sample reads and decodes its whole chunk. */
static void blocks(const ct_job_facts_t *job, ct_findings_t *out)
{
  char size[32], cure[300];
  const ct_data_facts_t *d = &job->data;
  if (d->files == 0 || d->cached) return;
  ct_text_fit(cure, sizeof cure, "%s", *d->repack ? d->repack : "pack the data again");
  if (d->block_bytes >= (size_t)(16 * MIB) && d->block_rows > 1) {
    ct__doctor_add(out, d->shuffled ? CT_FINDING_BAD : CT_FINDING_NOTE, "chunks", NULL, cure,
                   "a chunk of data.train is %s (%" PRId64
                   " samples), read as a whole for each of them",
                   ct_text_bytes((double)d->block_bytes, size, sizeof size), d->block_rows);
  } else if (*d->repack && d->shuffled && d->block_rows > 1 && d->block_bytes >= (size_t)MIB) {
    ct__doctor_add(out, CT_FINDING_NOTE, "chunks", NULL, cure,
                   "data.shuffle reads samples in random order, and each costs a chunk of "
                   "%" PRId64 " (%s); data.shuffle: blocks reads each chunk once",
                   d->block_rows, ct_text_bytes((double)d->block_bytes, size, sizeof size));
  } else if (d->blocks < job->ranks) {
    ct__doctor_add(out, CT_FINDING_NOTE, "chunks", NULL,
                   "pack the data again with --shards, in smaller chunks",
                   "data.train has %" PRId64 " chunk%s for %d ranks: several read "
                   "the same ones",
                   d->blocks, S(d->blocks), job->ranks);
  }
}

/* All ranks that read a file with one stripe share the bandwidth of one server. */
static void stripes(const ct_job_facts_t *job, ct_findings_t *out)
{
  const ct_data_facts_t *d = &job->data;
  if (d->large_on_one && d->files < job->ranks)
    ct__doctor_add(
        out, CT_FINDING_NOTE, "stripes", NULL,
        "lfs migrate -c 4 FILE, or lfs setstripe -c 4 DIRECTORY before they are written",
        "%d large file%s of data.train lie%s on one storage target of Lustre each, and %d "
        "ranks read %s",
        d->large_on_one, S(d->large_on_one), d->large_on_one == 1 ? "s" : "", job->ranks,
        d->files == 1 ? "it" : "them");
}

/* Whether the steps that were tried waited for the reader. */
static void waits(const ct_job_facts_t *job, ct_findings_t *out)
{
  char cure[300];
  const ct_data_facts_t *d = &job->data;
  if (!d->steps || d->wait_s < 0.1 * d->step_s) return;
  snprintf(cure, sizeof cure,
           "--set data.workers=%" PRId64 ", if there are cores for them; bench io shows the "
           "time of reader threads",
           2 * d->workers + (d->workers == 0));
  ct__doctor_add(out, CT_FINDING_NOTE, "data_wait", NULL, cure,
                 "a step would wait %.0f %% of its time for data: %.3g ms of %.3g, with "
                 "data.workers %" PRId64,
                 100 * d->wait_s / d->step_s, 1e3 * d->wait_s, 1e3 * d->step_s, d->workers);
}

void ct__doctor_data(const ct_job_facts_t *job, ct_findings_t *out)
{
  if (job->data.error[0]) {
    ct__doctor_add(out, CT_FINDING_BAD, "data", NULL, "", "%s", job->data.error);
    return;
  }
  batch(job, out);
  if (job->data.doubtful)
    ct__doctor_add(out, CT_FINDING_NOTE, "layout", NULL,
                   "data.layout: nhwc if it holds the channels, else data.layout: nchw",
                   "data.train: %s, but the last dim is the smallest", job->data.seen);
  blocks(job, out);
  stripes(job, out);
  waits(job, out);
}
