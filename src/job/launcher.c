/* Detects the launcher, and whether it started as many tasks as MPI sees.
 *
 * Launchers pass their variables on to all descendants, so the innermost launcher counts: the rows
 * are in nesting order as found in practice, innermost first, and the first row that applies
 * decides.
 *
 *   - PMI_SIZE comes from a process manager that used PMI with this very process: hydra's mpiexec,
 *     srun --mpi=pmi2, Flux. Under mpiexec inside a Slurm job, Slurm's variables are those of
 *     hydra's proxy (one per node), so they must be checked later; the same holds for Open MPI.
 *   - Flux often runs inside a Slurm allocation, never the other way round.
 *   - Slurm also sets SLURM_NTASKS for a whole job, in the batch script and in salloc's shell,
 *     where a single process (`ctrain-hpc summary`) is intended and harmless. Tasks started by srun
 *     have an ordinary step id; batch scripts and salloc's interactive shell have pseudo step ids,
 *     if any (slurm.h: SLURM_MAX_NORMAL_STEP_ID).
 *   - PMIx, PALS and ALPS provide a task's rank but not the number of tasks. A rank outside of
 *     MPI's world reveals the mismatch too; only task 0 cannot detect it. */
#include "job/ct_launcher.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_text.h"
#include "job/number.h"

typedef struct launcher {
  const char *name;
  const char *tasks[2]; /* number of tasks; the first that is set. None: unknown */
  const char *task[2];  /* rank of the task */
  int steps_only;       /* 1: applies only to tasks of ordinary Slurm steps */
  const char *cure;     /* remedy; NULL: the general one */
} launcher_t;

static const launcher_t launchers[] = {
    {"mpiexec", {"PMI_SIZE"}, {"PMI_RANK"}, 0, 0},
    {"Open MPI's mpirun", {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_RANK"}, 0, 0},
    {"Flux", {"FLUX_JOB_SIZE"}, {"FLUX_TASK_RANK"}, 0, 0},
    {"srun",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     {"SLURM_PROCID"},
     1,
     "start it with 'srun --mpi=pmi2' ('srun --mpi=list' shows what this Slurm has) or with "
     "mpiexec"},
    {"PMIx", {0}, {"PMIX_RANK"}, 0, 0},
    {"PALS", {0}, {"PALS_RANKID"}, 0, 0},
    {"aprun", {0}, {"ALPS_APP_PE"}, 0, 0},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

/* Returns 1 in a task of an ordinary srun step. */
static int is_in_step(ct_env_t env)
{
  static const char *const step[2] = {"SLURM_STEP_ID", "SLURM_STEPID"};
  const int64_t first_pseudo_step = 0xfffffff0;
  int64_t number = ct__job_number(env, step);
  return number >= 0 && number < first_pseudo_step;
}

static int applies(ct_env_t env, const launcher_t *l)
{
  if (l->steps_only && !is_in_step(env)) return 0;
  return ct__job_number(env, l->tasks[0] ? l->tasks : l->task) >= 0;
}

int ct_launcher_check(ct_env_t env, int world, const char *library, int *speaker)
{
  int rc = CT_OK;
  *speaker = 1;
  const launcher_t *l = launchers;
  while (l < launchers + LAUNCHERS && !applies(env, l))
    l++;
  if (l == launchers + LAUNCHERS) return CT_OK;

  int64_t tasks = ct__job_number(env, l->tasks), task = ct__job_number(env, l->task);
  if (tasks < 0) tasks = task + 1; /* at least this many */
  if (tasks <= world) return CT_OK;
  int64_t first = l->tasks[0] ? 0 : world; /* the first task that can detect it */
  *speaker = task < 0 || task == first;
  if (l->cure)
    CT_FAIL(CT_ERR_USAGE, "%s started %s%lld tasks but MPI sees %d, so each would train alone: %s",
            l->name, l->tasks[0] ? "" : "at least ", (long long)tasks, world, l->cure);
  CT_FAIL(
      CT_ERR_USAGE,
      "%s started %s%lld tasks but MPI sees %d, so each would train alone: use the launcher that "
      "belongs to the MPI library of this program (%s)",
      l->name, l->tasks[0] ? "" : "at least ", (long long)tasks, world, library);
out:
  return rc;
}

void ct_launcher_read(ct_env_t env, ct_launcher_t *out)
{
  const char *pmi = env("SLURM_MPI_TYPE"); /* the PMI type that srun used */
  *out = (ct_launcher_t){.kind = CT_LAUNCHER_NONE};
  if (env("HYDI_CONTROL_FD") || (env("PMI_SIZE") && env("MPI_LOCALNRANKS"))) {
    *out = (ct_launcher_t){CT_LAUNCHER_HYDRA, "mpiexec (hydra)"};
  } else if (env("OMPI_COMM_WORLD_SIZE")) {
    *out = (ct_launcher_t){CT_LAUNCHER_OPENMPI, "mpirun (Open MPI)"};
  } else if (env("FLUX_TASK_RANK")) {
    *out = (ct_launcher_t){CT_LAUNCHER_FLUX, "Flux"};
  } else if (is_in_step(env)) {
    out->kind = CT_LAUNCHER_SRUN;
    if (!pmi || !*pmi) pmi = env("PMIX_RANK") ? "pmix" : env("PMI_SIZE") ? "pmi2" : "no PMI";
    snprintf(out->name, sizeof out->name, "srun (%s)", strcmp(pmi, "none") == 0 ? "no PMI" : pmi);
  } else if (env("PMI_SIZE") || env("PMIX_RANK") || env("PALS_RANKID") || env("ALPS_APP_PE")) {
    *out = (ct_launcher_t){CT_LAUNCHER_OTHER, "a launcher"};
    const char *name = env("PALS_RANKID") ? "PALS" : env("ALPS_APP_PE") ? "aprun" : NULL;
    if (name) snprintf(out->name, sizeof out->name, "%s", name);
  }
}

int ct_launcher_local_ranks(ct_env_t env)
{
  static const char *const names[] = {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                      "PALS_LOCAL_SIZE"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    int64_t n;
    const char *text = env(names[i]);
    if (text && ct_text_int(text, &n) == CT_OK && n > 0 && n < 1 << 20) return (int)n;
  }
  return 1;
}
