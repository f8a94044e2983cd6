/* The process's cores, however OpenMP binds its threads: a child of this program says what it sees.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/ct_cores.h"
#include "base/ct_err.h"
#include "host/ct_thread.h"
#include "doctor/ct_doctor.h"
#include "tests/harness/ct_test.h"

static int own_count(unsigned char mask[CT_MASK_BYTES])
{
  memset(mask, 0, CT_MASK_BYTES);
  (void)!sched_getaffinity(0, CT_MASK_BYTES, (cpu_set_t *)(void *)mask);
  return ct_cores_count(mask);
}

static void *count_here(void *count)
{
  unsigned char mask[CT_MASK_BYTES];
  *(int *)count = own_count(mask);
  return NULL;
}

/* Given to the process, to OpenMP, bound by two threads of it; of a new thread; of a program that
 * is started; of the main thread, before all this and after it. */
static int say(void)
{
  unsigned char mask[CT_MASK_BYTES], before[CT_MASK_BYTES], after[CT_MASK_BYTES];
  int own = own_count(before), thread = 0;
  pthread_t t;
  if (ct_thread_start(&t, 0, count_here, &thread, "to count") != CT_OK) return 1;
  pthread_join(t, NULL);
  int given = ct_cores_given(mask), omp = ct_cores_omp(mask), bound = ct_cores_bound(2, mask);
  ct_cores_widen(mask);
  int wide = own_count(after);
  ct_cores_narrow(mask);
  own_count(after);
  printf("%d %d %d %d %d %d %d\n", given, omp, bound, thread, wide, own,
         memcmp(before, after, sizeof after) == 0);
  return 0;
}

typedef struct said {
  int given, omp, bound, thread, wide, own, same;
} said_t;

static said_t ask(const char *env)
{
  char self[400], command[600];
  said_t s = {0};
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = '\0';
  snprintf(command, sizeof command,
           "env -u OMP_PROC_BIND -u OMP_PLACES -u GOMP_CPU_AFFINITY -u KMP_AFFINITY %s %s say", env,
           self);
  FILE *f = popen(command, "re");
  CU_ASSERT_FATAL(f != NULL);
  int read = fscanf(f, "%d %d %d %d %d %d %d", &s.given, &s.omp, &s.bound, &s.thread, &s.wide,
                    &s.own, &s.same);
  CT_ASSERT_INT(read, 7);
  CT_ASSERT_INT(pclose(f), 0);
  return s;
}

static int cores(void)
{
  unsigned char mask[CT_MASK_BYTES];
  return own_count(mask);
}

static void all_are_given(const said_t *s)
{
  CT_ASSERT_INT(s->given, cores());
  CT_ASSERT_INT(s->thread, cores());
  CT_ASSERT_INT(s->wide, cores());
  CT_ASSERT_INT(s->same, 1);
}

static void unbound(void)
{
  static const char *const env[] = {"", "OMP_PROC_BIND=false"};
  for (int i = 0; i < 2; i++) {
    said_t s = ask(env[i]);
    all_are_given(&s);
    CT_ASSERT_INT(s.omp, cores());
    CT_ASSERT_INT(s.own, cores());
    CT_ASSERT_INT(s.bound, 0);
  }
}

static void bound_to_all(void)
{
  static const char *const env[] = {"OMP_PROC_BIND=close", "OMP_PROC_BIND=true",
                                    "OMP_PROC_BIND=spread OMP_PLACES=cores", "OMP_PLACES=threads",
                                    "OMP_PROC_BIND=close OMP_PLACES=sockets"};
  for (int i = 0; i < 5; i++) {
    said_t s = ask(env[i]);
    all_are_given(&s);
    CT_ASSERT_INT(s.omp, cores());
    CU_ASSERT(s.bound >= (cores() > 1 ? 2 : 1));
  }
}

/* All threads on the first core, by each of the ways to say so. */
static void bound_to_one(void)
{
  unsigned char mask[CT_MASK_BYTES];
  char env[80];
  int first = 0;
  own_count(mask);
  while (!(mask[first / 8] >> first % 8 & 1))
    first++;
  for (int i = 0; i < 2; i++) {
    snprintf(env, sizeof env, i ? "OMP_PLACES='{%d}' OMP_PROC_BIND=true" : "OMP_PLACES='{%d}'",
             first);
    said_t s = ask(env);
    all_are_given(&s);
    CT_ASSERT_INT(s.omp, 1);
    CT_ASSERT_INT(s.bound, 1);
    CT_ASSERT_INT(s.own, 1);
  }
}

/* ---- what the doctor says of it ---- */

static ct_rank_facts_t facts[2];
static ct_job_facts_t job;
static ct_findings_t found;

/* Ranks of so many threads on a good node of 8 cores. */
static void make(int ranks, int threads)
{
  memset(facts, 0, sizeof facts);
  job = (ct_job_facts_t){.ranks = ranks, .nodes = 1, .left_s = -1};
  job.launch.kind = ranks > 1 ? CT_LAUNCH_HYDRA : CT_LAUNCH_NONE;
  for (int r = 0; r < ranks; r++) {
    facts[r].rank = r;
    facts[r].threads = threads;
    facts[r].machine.mask[0] = 0xff;
    facts[r].machine.cores = facts[r].machine.online = facts[r].machine.allowed = 8;
  }
}

static const ct_finding_t *find(const char *key)
{
  CT_ASSERT_OK(ct_doctor_judge(facts, &job, &found));
  for (int i = 0; i < found.n; i++)
    if (strcmp(found.list[i].key, key) == 0) return &found.list[i];
  return NULL;
}

static void expect(const char *key, const char *what, const char *cure)
{
  const ct_finding_t *f = find(key);
  CU_ASSERT_FATAL(f != NULL);
  CT_ASSERT_INT(f->level, CT_FINDING_BAD);
  CT_ASSERT_HAS(f->what, what);
  CT_ASSERT_HAS(f->cure, cure);
}

/* Each rank's threads from the first core of its mask on. */
static void ranks_on_the_same_cores(void)
{
  make(2, 4);
  facts[0].bound[0] = facts[1].bound[0] = 0x0f;
  expect("omp_bound", "OpenMP binds 8 threads of 2 ranks to 4 cores of 8",
         "mpiexec -bind-to core:4; or unset OMP_PROC_BIND");
  facts[1].bound[0] = 0xf0;
  CU_ASSERT(find("omp_bound") == NULL);
  make(1, 4);
  facts[0].bound[0] = 0x01;
  expect("omp_bound", "OpenMP binds 4 threads of 1 rank to 1 core of 8", "unset OMP_PROC_BIND");
}

/* MPI's own thread takes a core, unless one is left. */
static void progress_thread(void)
{
  make(2, 4);
  job.async_progress = "MPICH_ASYNC_PROGRESS";
  expect("async_progress", "MPICH_ASYNC_PROGRESS: MPI runs a polling thread",
         "unset MPICH_ASYNC_PROGRESS");
  make(2, 3);
  job.async_progress = "MPICH_ASYNC_PROGRESS";
  CU_ASSERT(find("async_progress") == NULL);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(unbound),         CT_TEST(bound_to_all),
                                    CT_TEST(bound_to_one),    CT_TEST(ranks_on_the_same_cores),
                                    CT_TEST(progress_thread), CT_TEST_END};
  if (argc > 1 && strcmp(argv[1], "say") == 0) return say();
  return ct_test_main("cores", tests, argc, argv);
}
