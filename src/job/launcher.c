/* Launchers: did they start as many tasks as MPI sees, and which one was it?
 *
 * Launchers leave their variables to everything that is started below them, so the innermost one
 * counts: the rows stand in the order in which launchers are nested in practice, innermost
 * first, and the first row that applies decides.
 *
 * - PMI_SIZE comes from a process manager that spoke PMI to this very process: hydra's mpiexec,
 *   srun --mpi=pmi2, Flux.  Under mpiexec inside a Slurm job the variables of Slurm are those of
 *   hydra's proxy (one per node), so they must not be asked before it; likewise under Open MPI.
 * - Flux often runs inside a Slurm allocation, never the other way round.
 * - Slurm sets SLURM_NTASKS for a whole job as well: in the batch script and in the shell of
 *   salloc, where one process on its own (`ctrain-hpc summary`) is what was meant, and harmless.
 *   Tasks that srun started are known by a step number; those of the batch script and of
 *   salloc's interactive shell are pseudo steps, if they are set at all (slurm.h:
 *   SLURM_MAX_NORMAL_STEP_ID).
 * - PMIx, PALS and ALPS tell a task its number but not how many there are.  A number that the
 *   world does not have gives them away as well; only the first task cannot know. */
#include "job/ct_launcher.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_text.h"
#include "job/number.h"

typedef struct launcher {
  const char *name;
  const char *tasks[2]; /* how many; the first that is set.  None: not told */
  const char *task[2];  /* which one */
  int steps_only;       /* applies to tasks of ordinary Slurm steps */
  const char *cure;     /* NULL: the general one */
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

/* A task of an ordinary step of srun. */
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

int ct_launch_check(ct_env_t env, int world, const char *library, int *speaker)
{
  int rc = CT_OK;
  *speaker = 1;
  const launcher_t *l = launchers;
  while (l < launchers + LAUNCHERS && !applies(env, l))
    l++;
  if (l == launchers + LAUNCHERS) return CT_OK;

  int64_t tasks = ct__job_number(env, l->tasks), task = ct__job_number(env, l->task);
  if (tasks < 0) tasks = task + 1; /* at least */
  if (tasks <= world) return CT_OK;
  int64_t first = l->tasks[0] ? 0 : world; /* the first that can know */
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

void ct_launch_read(ct_env_t env, ct_launch_t *out)
{
  const char *pmi = env("SLURM_MPI_TYPE"); /* how srun tells MPI */
  *out = (ct_launch_t){.kind = CT_LAUNCH_NONE};
  if (env("HYDI_CONTROL_FD") || (env("PMI_SIZE") && env("MPI_LOCALNRANKS"))) {
    *out = (ct_launch_t){CT_LAUNCH_HYDRA, "mpiexec (hydra)"};
  } else if (env("OMPI_COMM_WORLD_SIZE")) {
    *out = (ct_launch_t){CT_LAUNCH_OPENMPI, "mpirun (Open MPI)"};
  } else if (env("FLUX_TASK_RANK")) {
    *out = (ct_launch_t){CT_LAUNCH_FLUX, "Flux"};
  } else if (is_in_step(env)) {
    out->kind = CT_LAUNCH_SRUN;
    if (!pmi || !*pmi) pmi = env("PMIX_RANK") ? "pmix" : env("PMI_SIZE") ? "pmi2" : "no PMI";
    snprintf(out->name, sizeof out->name, "srun (%s)", strcmp(pmi, "none") == 0 ? "no PMI" : pmi);
  } else if (env("PMI_SIZE") || env("PMIX_RANK") || env("PALS_RANKID") || env("ALPS_APP_PE")) {
    *out = (ct_launch_t){CT_LAUNCH_OTHER, "a launcher"};
    const char *name = env("PALS_RANKID") ? "PALS" : env("ALPS_APP_PE") ? "aprun" : NULL;
    if (name) snprintf(out->name, sizeof out->name, "%s", name);
  }
}

int ct_launch_local_ranks(ct_env_t env)
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
