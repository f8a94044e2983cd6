/* Who and where the ranks are; what a launcher did wrong; signals. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "job/ct_stop.h"
#include "job/ct_launcher.h"
#include "comm/sharing.h"
#include "tests/harness/ct_test_mpi.h"

/* ---- launchers ---- */

typedef struct launch_case {
  const char *what;
  int world, rc, speaks;
  const char *variables;
} launch_case_t;

/* clang-format off */
static const launch_case_t launches[] = {
    {"by hand", 1, CT_OK, 1, ""},
    {"mpiexec", 4, CT_OK, 1, "PMI_SIZE=4 PMI_RANK=2"},
    {"mpiexec of another MPI", 1, CT_ERR_USAGE, 1, "PMI_SIZE=4 PMI_RANK=0"},
    {"the same, a later task", 1, CT_ERR_USAGE, 0, "PMI_SIZE=4 PMI_RANK=2"},
    {"mpiexec in a Slurm job: proxies", 4, CT_OK, 1,
     "PMI_SIZE=4 PMI_RANK=3 SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_NTASKS=8 SLURM_STEP_ID=0"},
    {"mpiexec -n 1 over 2 proxies", 1, CT_OK, 1,
     "PMI_SIZE=1 PMI_RANK=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=3"},
    {"Open MPI", 8, CT_OK, 1, "OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=7 PMIX_RANK=7"},
    {"Open MPI's mpirun, another MPI", 1, CT_ERR_USAGE, 0,
     "OMPI_COMM_WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=7 PMIX_RANK=7"},
    {"srun --mpi=none", 1, CT_ERR_USAGE, 1,
     "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0"},
    {"srun --mpi=none, old names, a later task", 1, CT_ERR_USAGE, 0,
     "SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_STEPID=12"},
    {"srun --mpi=pmix, MPI without PMIx", 1, CT_ERR_USAGE, 0,
     "SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_STEP_ID=0 PMIX_RANK=1"},
    {"srun -n 1", 1, CT_OK, 1, "SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0"},
    {"srun, one world", 4, CT_OK, 1, "SLURM_PROCID=3 SLURM_NTASKS=4 SLURM_STEP_ID=0"},
    {"a step of one task in a job of 8", 1, CT_OK, 1,
     "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=1"},
    {"batch script", 1, CT_OK, 1, "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=7"},
    {"batch script, pseudo step", 1, CT_OK, 1,
     "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_ID=4294967291"},
    {"salloc's interactive step", 1, CT_OK, 1,
     "SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_ID=4294967290"},
    {"Flux in a Slurm step", 1, CT_ERR_USAGE, 0,
     "FLUX_JOB_SIZE=2 FLUX_TASK_RANK=1 SLURM_STEP_ID=0 SLURM_NTASKS=1 SLURM_PROCID=0"},
    {"PMIx, first task: cannot know", 1, CT_OK, 1, "PMIX_RANK=0"},
    {"PMIx, second task", 1, CT_ERR_USAGE, 1, "PMIX_RANK=1"},
    {"PMIx, third task", 1, CT_ERR_USAGE, 0, "PMIX_RANK=2"},
    {"PMIx, one world", 4, CT_OK, 1, "PMIX_RANK=3"},
    {"PALS", 1, CT_ERR_USAGE, 0, "PALS_RANKID=5"},
    {"ALPS", 1, CT_ERR_USAGE, 1, "ALPS_APP_PE=1"},
    {"senseless values", 1, CT_OK, 1, "PMI_SIZE=many SLURM_NTASKS=-3 SLURM_STEP_ID=x"},
};
/* clang-format on */

static void launchers(void)
{
  for (size_t i = 0; i < sizeof launches / sizeof *launches; i++) {
    const launch_case_t *l = &launches[i];
    char text[200];
    int speaks;
    ct_test_environment = l->variables;
    int rc = ct_launcher_check(ct_test_getenv, l->world, "MPICH Version: 4.0.2", &speaks);
    snprintf(text, sizeof text, "%s: %s %d", l->what, ct_err_name(l->rc), l->speaks);
    char got[200];
    snprintf(got, sizeof got, "%s: %s %d", l->what, ct_err_name(rc), speaks);
    CT_ASSERT_TEXT(got, text);
  }
}

static void launchers_cure(void)
{
  int speaks;
  ct_test_environment = "SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=0";
  CT_ASSERT_FAILS(ct_launcher_check(ct_test_getenv, 1, "MPICH", &speaks), CT_ERR_USAGE,
                  "srun started 4 tasks but MPI sees 1");
  CT_ASSERT_HAS(ct_err_last()->text, "srun --mpi=pmi2");
  ct_test_environment = "PMI_SIZE=2 PMI_RANK=0";
  CT_ASSERT_FAILS(ct_launcher_check(ct_test_getenv, 1, "Open MPI v4", &speaks), CT_ERR_USAGE,
                  "MPI library of this program (Open MPI v4)");
  ct_test_environment = "PMIX_RANK=3";
  CT_ASSERT_FAILS(ct_launcher_check(ct_test_getenv, 1, "MPICH", &speaks), CT_ERR_USAGE,
                  "at least 4 tasks");
}

/* This program as a singleton, of which no launcher knows, in the given environment; its stderr is
 * read back.  Its exit status. */
static int run_alone(const char *environment, const char *mode, char *said, size_t cap)
{
  char command[1024], self[512] = "";
  said[0] = '\0';
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return -1;
  snprintf(command, sizeof command,
           "env $(env | sed -nE '/^OMPI_ALLOW/d; s/^((PMI|PMIX|OMPI|PRTE)_[^=]*)=.*/-u \\1/p') "
           "-u CTRAIN_NODE_SIZE %s %s %s 2>&1",
           environment, self, mode);
  FILE *pipe = popen(command, "r");
  if (!pipe) return -1;
  said[fread(said, 1, cap - 1, pipe)] = '\0';
  int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int open_alone(int argc, char **argv)
{
  ct_topo_t t;
  int rc = ct_topo_open(&t, &argc, &argv);
  if (rc != CT_OK) {
    ct_log(CT_LOG_ERROR, "%s", ct_err_last()->text);
    return ct_err_exit_status(rc);
  }
  if (strcmp(argv[1], "panic") == 0) ct_panic(&t, "the %dth thing broke", 5);
  printf("%d threads\n", t.threads);
  ct_topo_close(&t);
  return 0;
}

static void singletons_are_refused_once(void)
{
  char said[4096];
  if (ct_test_topo.rank != 0) return;
  const char *step = "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4";
  char environment[200];
  snprintf(environment, sizeof environment, "%s SLURM_PROCID=0", step);
  CT_ASSERT_INT(run_alone(environment, "open", said, sizeof said), 2);
  CT_ASSERT_HAS(said, "srun started 4 tasks but MPI sees 1");
  snprintf(environment, sizeof environment, "%s SLURM_PROCID=2", step);
  CT_ASSERT_INT(run_alone(environment, "open", said, sizeof said), 2);
  CT_ASSERT_TEXT(said, "");
}

static void threads_are_asked_for(void)
{
  char said[4096];
  if (ct_test_topo.rank != 0) return;
  CT_ASSERT_INT(run_alone("OMP_NUM_THREADS=5,2", "open", said, sizeof said), 0);
  CT_ASSERT_TEXT(said, "5 threads\n");
  CT_ASSERT_INT(run_alone("-u OMP_NUM_THREADS", "open", said, sizeof said), 0);
  CT_ASSERT_HAS(said, " threads\n");
  CU_ASSERT(atoi(said) >= 1 && atoi(said) <= sysconf(_SC_NPROCESSORS_CONF));
}

static void panic_has_last_words(void)
{
  char said[4096];
  if (ct_test_topo.rank != 0) return;
  CT_ASSERT_INT(run_alone("OMP_NUM_THREADS=1", "panic", said, sizeof said), 1);
  CT_ASSERT_HAS(said, "the 5th thing broke");
  CT_ASSERT_HAS(said, ct_test_topo.host);
}

/* ---- places ---- */

static void nodes_are_numbered(void)
{
  static const int equal[] = {0, 1, 0, 1, 4, 4}, uneven[] = {0, 0, 2}, one[] = {0, 0, 0};
  static const int uneven_amid[] = {0, 0, 2, 3, 3};
  ct__sharing_nodes_t n = ct__sharing_nodes(equal, 6, 5);
  CT_ASSERT_INT(n.nodes, 3);
  CT_ASSERT_INT(n.index, 2);
  CT_ASSERT_INT(n.equal, 1);
  CT_ASSERT_INT(ct__sharing_nodes(equal, 6, 3).index, 1);
  n = ct__sharing_nodes(uneven, 3, 2);
  CT_ASSERT_INT(n.nodes, 2);
  CT_ASSERT_INT(n.index, 1);
  CT_ASSERT_INT(n.equal, 0);
  n = ct__sharing_nodes(uneven_amid, 5, 4);
  CT_ASSERT_INT(n.nodes, 3);
  CT_ASSERT_INT(n.index, 2);
  CT_ASSERT_INT(n.equal, 0);
  n = ct__sharing_nodes(one, 3, 2);
  CT_ASSERT_INT(n.nodes, 1);
  CT_ASSERT_INT(n.index, 0);
  CT_ASSERT_INT(n.equal, 1);
}

static void cores_are_divided(void)
{
  static const unsigned char all[] = {0xff, 0x01, 0xff, 0x01,
                                      0xff, 0x01, 0xff, 0x01}; /* 9 cores, 4 ranks */
  static const unsigned char own[] = {0x0f, 0xf0, 0x0f};       /* 0 and 2 share */
  static const unsigned char none[] = {0, 0};
  CT_ASSERT_INT(ct__sharing_threads(all, 2, 4, 3), 2);
  CT_ASSERT_INT(ct__sharing_threads(all, 2, 1, 0), 9);
  CT_ASSERT_INT(ct__sharing_threads(own, 1, 3, 0), 2);
  CT_ASSERT_INT(ct__sharing_threads(own, 1, 3, 1), 4);
  CT_ASSERT_INT(ct__sharing_threads(own, 1, 2, 0), 4);
  CT_ASSERT_INT(ct__sharing_threads(none, 1, 2, 1), 1);
  CT_ASSERT_INT(ct__sharing_threads((const unsigned char[]){1, 1, 1}, 1, 3, 0), 1);
}

static void ranks_know_their_place(void)
{
  const ct_topo_t *t = &ct_test_topo;
  int rank, size, here;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_size(t->node, &here);
  CT_ASSERT_INT(t->rank, rank);
  CT_ASSERT_INT(t->size, size);
  CT_ASSERT_INT(t->local_size, here);
  CU_ASSERT(t->threads >= 1);
  CU_ASSERT(t->init_s > 0);
  CU_ASSERT(t->host[0] != '\0');

  /* All ranks are on this machine: its real nodes are one, those of the switch have k ranks. */
  const char *text = getenv("CTRAIN_NODE_SIZE");
  int k = text ? atoi(text) : size;
  CT_ASSERT_INT(t->nodes, (size + k - 1) / k);
  CT_ASSERT_INT(t->node_index, rank / k);
  CT_ASSERT_INT(t->local_rank, rank % k);
  CT_ASSERT_INT(t->equal_nodes, size % k == 0);
}

/* ---- signals ---- */

/* A child, so that this process keeps its own handlers: bit 0, flag at first; then one bit each. */
static int child_of_signals(void)
{
  ct_stop_setup();
  if (ct_stop_asked() != 0) return 1;
  raise(SIGUSR1);
  if (ct_stop_asked() != SIGUSR1) return 2;
  raise(SIGTERM);
  raise(SIGUSR2);
  if (ct_stop_asked() != SIGUSR1) return 3;
  raise(SIGINT);
  raise(SIGINT); /* an echo of it */
  if (ct_stop_asked() != SIGUSR1 || ct_stop_interrupts() != 1) return 4;
  usleep(300000);
  raise(SIGINT);
  return 5; /* not reached: the second one kills */
}

static void signals_only_set_a_flag(void)
{
  int status;
  pid_t child = fork();
  if (child == 0) _exit(child_of_signals());
  CU_ASSERT_FATAL(child > 0);
  CT_ASSERT_INT(waitpid(child, &status, 0), child);
  CT_ASSERT_INT(WIFEXITED(status) ? WEXITSTATUS(status) : 0, 0);
  CT_ASSERT_INT(WIFSIGNALED(status) ? WTERMSIG(status) : 0, SIGINT);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(launchers),
                                    CT_TEST(launchers_cure),
                                    CT_TEST(singletons_are_refused_once),
                                    CT_TEST(threads_are_asked_for),
                                    CT_TEST(panic_has_last_words),
                                    CT_TEST(nodes_are_numbered),
                                    CT_TEST(cores_are_divided),
                                    CT_TEST(ranks_know_their_place),
                                    CT_TEST(signals_only_set_a_flag),
                                    CT_TEST_END};
  if (argc > 1 && (strcmp(argv[1], "open") == 0 || strcmp(argv[1], "panic") == 0))
    return open_alone(argc, argv);
  return ct_test_mpi_main("topo", tests, argc, argv);
}
