/* What batch systems say of a job, and what is made of it when it makes no sense. */
#include <stdio.h>
#include <string.h>

#include "job/ct_job.h"
#include "tests/harness/ct_test.h"

static ct_job_t job;

/* A line of all that is known of the job in such an environment. */
static const char *known(const char *environment)
{
  static char line[1200];
  ct_test_environment = environment;
  ct_job_read(ct_test_getenv, &job);
  snprintf(line, sizeof line, "%s,%s,%d,%d,%d,%d,%s %s,%s", job.system.name, job.id, job.requeues,
           job.tasks, job.nodes, job.cpus, job.end[0].source ? job.end[0].source : "-",
           job.end[0].source ? job.end[0].text : "0", job.scratch);
  return line;
}

static void none(void)
{
  CT_ASSERT_TEXT(known(""), ",,0,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("TMPDIR=/tmp SLURM_NTASKS=4 HOME=/root"), ",,0,0,0,0,- 0,");
  CU_ASSERT_PTR_NULL(job.system.launch);
  CU_ASSERT_PTR_NULL(job.system.say_end);
  CU_ASSERT_PTR_NULL(job.system.all_memory);
  CU_ASSERT_PTR_NULL(job.system.exclude);
}

static void slurm(void)
{
  CT_ASSERT_TEXT(known("SLURM_JOB_ID=77"), "Slurm,77,0,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("SLURM_JOB_ID=77 SLURM_NTASKS=8 SLURM_JOB_NUM_NODES=2 TMPDIR=/tmp/77 "
                       "SLURM_JOB_CPUS_PER_NODE=64(x2),32,128 SLURM_RESTART_COUNT=3 "
                       "SLURM_JOB_END_TIME=1700000000"),
                 "Slurm,77,3,8,2,32,SLURM_JOB_END_TIME 1700000000,"); /* the user's TMPDIR */
  CT_ASSERT_TEXT(known("SLURM_JOB_ID=79 SLURM_CPUS_ON_NODE=16 SLURM_TMPDIR=/disk TMPDIR=/tmp "
                       "SLURM_ARRAY_JOB_ID=77 SLURM_ARRAY_TASK_ID=0"),
                 "Slurm,77_0,0,0,0,16,- 0,/disk");
  CT_ASSERT_HAS(job.system.say_end, "export CTRAIN_END_TIME=$(");
}

static void pbs(void)
{
  CT_ASSERT_TEXT(known("PBS_JOBID=12[3].server PBS_NUM_NODES=2 PBS_NUM_PPN=16 PBS_NP=32 "
                       "PBS_ARRAY_INDEX=3 PBS_WALLTIME=3600 TMPDIR=/var/tmp/pbs.12"),
                 "PBS,12[3].server,0,0,0,16,- 0,/var/tmp/pbs.12");
}

static void lsf(void)
{
  CT_ASSERT_TEXT(known("LSB_JOBID=5 LSB_JOBINDEX=0 LSB_DJOB_NUMPROC=44 LSB_RESTART=Y"),
                 "LSF,5,0,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("LSB_JOBID=5 LSB_JOBINDEX=2 TMPDIR=/tmp/5.tmpdir"), "LSF,5[2],0,0,0,0,- 0,");
}

static void cobalt(void)
{
  CT_ASSERT_TEXT(known("COBALT_JOBID=9 COBALT_ENDTIME=1700000000"),
                 "Cobalt,9,0,0,0,0,COBALT_ENDTIME 1700000000,");
}

static void flux(void)
{
  CT_ASSERT_TEXT(known("FLUX_JOB_ID=f2SoPsfdA7Ub FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=2 TMPDIR=/tmp "
                       "FLUX_JOB_TMPDIR=/tmp/flux-1"),
                 "Flux,f2SoPsfdA7Ub,0,8,2,0,- 0,/tmp/flux-1");
}

static void the_outer_of_two_counts(void)
{
  CT_ASSERT_TEXT(known("FLUX_JOB_ID=f2 FLUX_JOB_SIZE=8 SLURM_JOB_ID=77 SLURM_RESTART_COUNT=1"),
                 "Slurm,77,1,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("FLUX_JOB_ID=f2 SLURM_JOB_END_TIME=1700000000"),
                 "Flux,f2,0,0,0,0,SLURM_JOB_END_TIME 1700000000,");
  known("COBALT_ENDTIME=1700000001 SLURM_JOB_END_TIME=soon");
  CT_ASSERT_TEXT(job.end[0].text, "soon"); /* ct_walltime_open() tells of it */
  CT_ASSERT_TEXT(job.end[1].source, "COBALT_ENDTIME");
  CT_ASSERT_TEXT(job.end[1].text, "1700000001");
  CU_ASSERT_PTR_NULL(job.end[2].source);
}

static void values_that_make_no_sense(void)
{
  CT_ASSERT_TEXT(known("SLURM_JOB_ID="), ",,0,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("SLURM_JOB_ID= PBS_JOBID=1.server"), "PBS,1.server,0,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("SLURM_JOB_ID=7 SLURM_NTASKS=many SLURM_JOB_NUM_NODES=-2 TMPDIR= "
                       "SLURM_RESTART_COUNT= SLURM_JOB_CPUS_PER_NODE=(x2),,-1 "
                       "SLURM_JOB_END_TIME="),
                 "Slurm,7,0,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("SLURM_JOB_ID=7 SLURM_NTASKS=99999999999 "
                       "SLURM_JOB_CPUS_PER_NODE=99999999999 SLURM_CPUS_ON_NODE=8"),
                 "Slurm,7,0,0,0,8,- 0,");
  CT_ASSERT_TEXT(known("SLURM_JOB_ID=7 SLURM_ARRAY_TASK_ID=1"), "Slurm,7,0,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("SLURM_JOB_ID=7 SLURM_ARRAY_JOB_ID=6 SLURM_ARRAY_TASK_ID=x"),
                 "Slurm,7,0,0,0,0,- 0,");
  CT_ASSERT_TEXT(known("SLURM_JOB_ID=7\t8"), "Slurm,,0,0,0,0,- 0,"); /* no word */
}

static void values_that_are_too_long(void)
{
  char path[1100], environment[1300];
  memset(path, 'a', sizeof path);
  snprintf(environment, sizeof environment, "PBS_JOBID=%.64s TMPDIR=/%.1023s", path, path);
  CT_ASSERT_TEXT(known(environment), "PBS,,0,0,0,0,- 0,");
  snprintf(environment, sizeof environment, "PBS_JOBID=%.63s TMPDIR=/%.1022s", path, path);
  known(environment);
  CT_ASSERT_INT(strlen(job.id), 63);
  CT_ASSERT_INT(strlen(job.scratch), 1023);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(none),
                                    CT_TEST(slurm),
                                    CT_TEST(pbs),
                                    CT_TEST(lsf),
                                    CT_TEST(cobalt),
                                    CT_TEST(flux),
                                    CT_TEST(the_outer_of_two_counts),
                                    CT_TEST(values_that_make_no_sense),
                                    CT_TEST(values_that_are_too_long),
                                    CT_TEST_END};
  return ct_test_main("job", tests, argc, argv);
}
