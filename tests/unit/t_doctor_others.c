/* Other users of a job's nodes, whom MPICH's mpiexec lets end the job. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/doctor.h"
#include "tests/harness/ct_test.h"

/* ---- the list ---- */

static char proc[600];

static void process(const char *name, uid_t of)
{
  char path[700];
  snprintf(path, sizeof path, "%s/%s", proc, name);
  CT_ASSERT_INT(mkdir(path, 0755), 0);
  CT_ASSERT_INT(chown(path, of, of), 0);
}

static void processes_tell_who_is_there(void)
{
  char who[40];
  if (geteuid() != 0 || chown(ct_test_dir(), 54321, 54321) != 0) {
    ct_test_skip("not root, who can give files away");
    return;
  }
  snprintf(proc, sizeof proc, "%s", ct_test_dir());
  CT_ASSERT_INT(ct__doctor_others(proc, 54321, who, sizeof who), 0);
  CT_ASSERT_TEXT(who, "");
  process("1", 0);
  process("17", 101);     /* a service */
  process("18", 65534);   /* nobody */
  process("19", 61184);   /* a service of systemd's, of the moment */
  process("4711", 54321); /* this one */
  process("self", 54322); /* no process */
  process("sys", 54322);
  CT_ASSERT_INT(ct__doctor_others(proc, 54321, who, sizeof who), 0);
  process("5000", 54323);
  process("5001", 54323);
  CT_ASSERT_INT(ct__doctor_others(proc, 54321, who, sizeof who), 1);
  CT_ASSERT_TEXT(who, "user 54323");
  process("5002", 1234567); /* of a directory service */
  CT_ASSERT_INT(ct__doctor_others(proc, 54321, who, sizeof who), 2);
  CT_ASSERT_INT(ct__doctor_others("/nowhere", 54321, who, sizeof who), 0);
}

/* ---- the finding ---- */

enum { RANKS = 4 };
static ct_rank_facts_t facts[RANKS];
static ct_job_facts_t job;
static ct_findings_t found;

/* Two nodes of two ranks, and so many others on the second. */
static const ct_finding_t *judge(ct_launcher_kind_t by, int others)
{
  memset(facts, 0, sizeof facts);
  memset(&job, 0, sizeof job);
  memset(&found, 0, sizeof found);
  job.launch.kind = by;
  job.ranks = RANKS;
  job.nodes = 2;
  job.equal_nodes = 1;
  job.left_s = -1;
  for (int r = 0; r < RANKS; r++) {
    facts[r].rank = r;
    facts[r].node = r / 2;
    snprintf(facts[r].machine.host, sizeof facts[r].machine.host, "node%d", 1 + r / 2);
  }
  facts[2].others = others;
  if (others) snprintf(facts[2].other, sizeof facts[2].other, "user anna");
  ct__doctor_launch(facts, &job, &found);
  for (int i = 0; i < found.n; i++)
    if (strcmp(found.list[i].key, "others") == 0) return &found.list[i];
  return NULL;
}

static void mpiexec_and_others_are_a_note(void)
{
  const ct_finding_t *f = judge(CT_LAUNCHER_HYDRA, 1);
  CU_ASSERT_FATAL(f != NULL);
  CT_ASSERT_INT(f->level, CT_FINDING_NOTE);
  CT_ASSERT_HAS(f->what, "user anna has processes on node2");
  CT_ASSERT_HAS(f->what, "when anybody connects to its port");
  CT_ASSERT_HAS(f->cure, "srun");
  f = judge(CT_LAUNCHER_HYDRA, 3);
  CU_ASSERT_FATAL(f != NULL);
  CT_ASSERT_HAS(f->what, "user anna and 2 more have processes on node2");
}

static void alone_or_by_another_launcher_it_is_none(void)
{
  CU_ASSERT(judge(CT_LAUNCHER_HYDRA, 0) == NULL);
  CU_ASSERT(judge(CT_LAUNCHER_SRUN, 2) == NULL);
  CU_ASSERT(judge(CT_LAUNCHER_OPENMPI, 2) == NULL);
  CU_ASSERT(judge(CT_LAUNCHER_NONE, 2) == NULL);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(processes_tell_who_is_there),
                                    CT_TEST(mpiexec_and_others_are_a_note),
                                    CT_TEST(alone_or_by_another_launcher_it_is_none), CT_TEST_END};
  return ct_test_main("doctor others", tests, argc, argv);
}
