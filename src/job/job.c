/* Environment variables of batch systems, one row per system.
 *
 * A batch system inside another one's allocation (Flux in a Slurm job) inherits the outer system's
 * variables. The outer one counts, since it ends and requeues the job. So the rows are in nesting
 * order, outermost first; the end time may come from any of them.
 *
 * Values missing here are not provided by the system. PBS and LSF count slots, which may be cores
 * or tasks; Torque's nodes may share a host, and LSF's hosts may include the launch host; LSF
 * reports that a job was requeued, but not how often; only Slurm and Cobalt provide the end time.
 * TMPDIR belongs to the user under Slurm, where many sites set SLURM_TMPDIR, and under LSF unless
 * configured otherwise. */
#include "job/ct_job.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_text.h"
#include "job/number.h"

typedef struct row {
  ct_job_system_t system;
  const char *id;       /* if set, this row applies */
  const char *array;    /* id of the whole array; NULL: same as id */
  const char *element;  /* index within the array */
  int first_element;    /* smaller indices mean: not an array */
  const char *brackets; /* around the index: one or two characters */
  const char *requeues[2], *tasks[2], *nodes[2];
  const char *cpus[2]; /* a number, or a list such as "64(x2),32" */
  const char *end;
  const char *scratch;
} row_t;

static const row_t rows[] = {
    {.system = {.name = "Slurm",
                .launch = "srun --mpi=pmi2 --kill-on-bad-exit=1",
                .say_end = "export CTRAIN_END_TIME=$(date -d \"$(squeue -h -j $SLURM_JOB_ID "
                           "-o %e)\" +%s) before srun",
                .all_memory = "sbatch --mem=0",
                /* without a step id: all steps of the job, one line each */
                .energy = "timeout 5 sstat -n -P -a -o ConsumedEnergyRaw "
                          "-j \"$SLURM_JOB_ID${SLURM_STEP_ID:+.$SLURM_STEP_ID}\" 2>/dev/null",
                .exclude = "sbatch --exclude="},
     .id = "SLURM_JOB_ID",
     .array = "SLURM_ARRAY_JOB_ID",
     .element = "SLURM_ARRAY_TASK_ID",
     .brackets = "_",
     .requeues = {"SLURM_RESTART_COUNT"},
     .tasks = {"SLURM_NTASKS"},
     .nodes = {"SLURM_JOB_NUM_NODES"},
     .cpus = {"SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_ON_NODE"},
     .end = "SLURM_JOB_END_TIME", /* since 23.02 */
     .scratch = "SLURM_TMPDIR"},
    /* the id of an array element is "1234[5].server"; Torque sets TMPDIR only if configured */
    {.system = {.name = "PBS"}, .id = "PBS_JOBID", .cpus = {"PBS_NUM_PPN"}, .scratch = "TMPDIR"},
    {.system = {.name = "LSF"},
     .id = "LSB_JOBID",
     .element = "LSB_JOBINDEX",
     .first_element = 1,
     .brackets = "[]"},
    {.system = {.name = "Cobalt"}, .id = "COBALT_JOBID", .end = "COBALT_ENDTIME"},
    {.system = {.name = "Flux", .launch = "flux run"},
     .id = "FLUX_JOB_ID",
     .tasks = {"FLUX_JOB_SIZE"},
     .nodes = {"FLUX_JOB_NNODES"},
     .scratch = "FLUX_JOB_TMPDIR"}};
enum { ROWS = sizeof rows / sizeof *rows };

int64_t ct__job_number(ct_env_t env, const char *const name[2])
{
  for (int i = 0; i < 2 && name[i]; i++) {
    const char *text = env(name[i]);
    int64_t value;
    if (text && ct_text_int(text, &value) == CT_OK && value >= 0) return value;
  }
  return -1;
}

static int job_count(ct_env_t env, const char *const name[2])
{
  int64_t value = ct__job_number(env, name);
  return value > 0 && value <= INT_MAX ? (int)value : 0;
}

/* Returns 1 and the variable's value if it is set and fits. */
static int copy(ct_env_t env, const char *name, char *buf, size_t cap)
{
  const char *text = name ? env(name) : NULL;
  int fits = text && *text && strlen(text) < cap;
  snprintf(buf, cap, "%s", fits ? text : "");
  return fits;
}

/* Reads the job's id. It must be one word, since it is written into lines of words. */
static void read_id(ct_env_t env, const row_t *row, char *id, size_t cap)
{
  char whole[32];
  const char *const name[2] = {row->element};
  int64_t element = row->element ? ct__job_number(env, name) : -1;
  copy(env, row->id, id, cap);
  if (element >= row->first_element &&
      copy(env, row->array ? row->array : row->id, whole, sizeof whole))
    snprintf(id, cap, "%s%c%lld%s", whole, row->brackets[0], (long long)element, row->brackets + 1);
  if (strpbrk(id, " \t\n")) *id = '\0';
}

/* Returns the minimum of the list, since the list does not tell which entry is this node's. */
static int least(ct_env_t env, const char *const name[2])
{
  int out = 0;
  for (int i = 0; i < 2 && name[i] && !out; i++) {
    const char *text = env(name[i]);
    while (text && *text) {
      long n = strtol(text, NULL, 10);
      if (n > 0 && n <= INT_MAX && (out == 0 || n < out)) out = (int)n;
      text += strcspn(text, ",");
      text += *text == ',';
    }
  }
  return out;
}

static void read_ends(ct_env_t env, ct_job_t *out)
{
  for (int i = 0, n = 0; i < ROWS && n < CT_JOB_ENDS; i++) {
    const char *text = rows[i].end ? env(rows[i].end) : NULL;
    if (text && *text) out->end[n++] = (ct_job_end_t){rows[i].end, text};
  }
}

void ct_job_read(ct_env_t env, ct_job_t *out)
{
  const row_t *row = rows;
  const char *id;
  *out = (ct_job_t){.requeues = 0};
  read_ends(env, out);
  while (row < rows + ROWS && !((id = env(row->id)) && *id))
    row++;
  if (row == rows + ROWS) return;
  out->system = row->system;
  read_id(env, row, out->id, sizeof out->id);
  out->requeues = job_count(env, row->requeues);
  out->tasks = job_count(env, row->tasks);
  out->nodes = job_count(env, row->nodes);
  out->cpus = least(env, row->cpus);
  copy(env, row->scratch, out->scratch, sizeof out->scratch);
}
