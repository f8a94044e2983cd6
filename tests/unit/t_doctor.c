/* The judge, on made-up jobs of many clusters; who launched them; the binding line. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/doctor_judge.h"

#define GIB ((int64_t)1 << 30)

/* ---- made-up jobs ---- */

/* A node's cores, and how they are given to its ranks. */
typedef struct shape {
  int nodes, ranks, cores, each, threads; /* each 0: ranks are not bound */
} shape_t;

static void use_core(ct_machine_t *m, int i)
{
  m->mask[i / 8] |= (unsigned char)(1 << i % 8);
  m->cores++;
  m->numa_cores[i * m->numa_nodes / m->online]++;
}

/* A good machine: two NUMA nodes if it has 16 cores or more, 4 GiB a core, no limits. */
static void good_machine(ct_machine_t *m, int node, int cores)
{
  snprintf(m->host, sizeof m->host, "n%03d", node + 1);
  m->online = m->allowed = cores;
  m->numa_nodes = cores >= 16 ? 2 : 1;
  m->memory_total = m->memory_free = 4 * GIB * cores;
  m->memory_limit = m->address_space = m->locked = CT_NO_LIMIT;
  m->stack = 8 << 20;
  m->files = 65536;
  m->shm_total = m->shm_free = m->memory_total / 2;
  m->program = m->libraries = 17;
}

static void make(shape_t s, ct_launcher_kind_t by)
{
  memset(facts, 0, sizeof facts);
  memset(&job, 0, sizeof job);
  job.launch.kind = by;
  job.ranks = s.nodes * s.ranks;
  job.nodes = s.nodes;
  job.equal_nodes = 1;
  job.left_s = -1;
  for (int r = 0; r < job.ranks; r++) {
    ct_rank_facts_t *f = &facts[r];
    int place = r % s.ranks, first = s.each ? place * s.each % s.cores : 0;
    f->rank = r;
    f->node = r / s.ranks;
    f->threads = s.threads;
    f->mpi = 5;
    f->gpu.numa = -1;
    good_machine(&f->machine, f->node, s.cores);
    for (int i = 0; i < (s.each ? s.each : s.cores); i++)
      use_core(&f->machine, first + i);
  }
}

/* What the batch system says to each process of the job. */
static void be_in(const char *environment)
{
  ct_test_environment = environment;
  ct_job_read(ct_test_getenv, &job.batch);
}

/* ---- cores ---- */

static void plain_and_good(void)
{
  make((shape_t){8, 16, 128, 8, 8}, CT_LAUNCHER_SRUN);
  expect_good();
  make((shape_t){1, 1, 8, 0, 8}, CT_LAUNCHER_NONE);
  expect_good();
  make((shape_t){1, 2, 2, 1, 1}, CT_LAUNCHER_HYDRA);
  expect_good();
}

static void all_on_one_core(void)
{
  make((shape_t){1, 64, 64, 1, 1}, CT_LAUNCHER_SRUN);
  for (int r = 0; r < 64; r++)
    facts[r].machine = facts[0].machine;
  judge();
  expect("one_core", CT_FINDING_BAD, "64 ranks share 1 core of 64",
         "srun --cpus-per-task=1 --cpu-bind=cores");
  make((shape_t){2, 4, 32, 1, 8}, CT_LAUNCHER_HYDRA);
  judge();
  expect("one_core", CT_FINDING_BAD, "1 rank with 8 threads together has 1 core of 32",
         "mpiexec -bind-to core:8");
  CT_ASSERT_INT(find("one_core")->nodes, 2);
  CT_ASSERT_TEXT(find("one_core")->host, "n001");
}

static void too_many_threads(void)
{
  make((shape_t){2, 4, 16, 0, 16}, CT_LAUNCHER_FLUX);
  for (int r = 0; r < job.ranks; r++)
    facts[r].threads_from = CT_THREADS_OMP;
  judge();
  expect("oversubscribed", CT_FINDING_BAD, "4 ranks with 64 threads together share 16 cores",
         "export OMP_NUM_THREADS=4");
  make((shape_t){1, 8, 4, 0, 1}, CT_LAUNCHER_HYDRA);
  judge();
  expect("oversubscribed", CT_FINDING_BAD, "8 ranks share 4 cores", "mpiexec -n 4");
  make((shape_t){2, 8, 4, 0, 1}, CT_LAUNCHER_SRUN);
  judge();
  expect("oversubscribed", CT_FINDING_BAD, "8 ranks share 4 cores", "srun --ntasks-per-node=4");
  make((shape_t){1, 2, 8, 4, 8}, CT_LAUNCHER_OPENMPI);
  facts[0].threads_from = facts[1].threads_from = CT_THREADS_CONFIG;
  judge();
  expect("oversubscribed", CT_FINDING_BAD, "1 rank with 8 threads together has 4 cores of 8",
         "--set cpu.threads=4; mpirun --map-by slot:PE=4 --bind-to core");
}

/* On a GPU the threads of a rank do not compute. */
static void threads_on_gpus(void)
{
  make((shape_t){1, 4, 32, 1, 8}, CT_LAUNCHER_SRUN);
  for (int r = 0; r < 4; r++)
    facts[r].on_gpu = 1, facts[r].gpus = 4;
  judge();
  CU_ASSERT(find("one_core") == NULL && find("oversubscribed") == NULL);
  expect("idle_cores", CT_FINDING_BAD, "4 ranks may use 4 cores of 32", "--cpus-per-task=8");
}

static void idle_cores(void)
{
  make((shape_t){4, 1, 64, 1, 1}, CT_LAUNCHER_SRUN);
  judge();
  expect("idle_cores", CT_FINDING_BAD, "1 rank may use 1 core of 64", "srun --cpus-per-task=64");
  CT_ASSERT_INT(find("idle_cores")->nodes, 4);
  for (int r = 0; r < 4; r++)
    facts[r].cpus_of_the_job = 1; /* more was not asked for */
  expect_good();
  make((shape_t){1, 1, 64, 0, 1}, CT_LAUNCHER_NONE);
  facts[0].threads_from = CT_THREADS_OMP;
  judge();
  expect("few_threads", CT_FINDING_NOTE, "1 thread on 64 cores", "unset OMP_NUM_THREADS");
}

/* One thread on each physical core of two hyperthreads, by the launcher's masks or by
 * OMP_NUM_THREADS. */
static void one_hyperthread_of_two(void)
{
  make((shape_t){2, 4, 128, 16, 16}, CT_LAUNCHER_SRUN);
  expect_good();
  make((shape_t){2, 8, 128, 16, 8}, CT_LAUNCHER_SRUN);
  for (int r = 0; r < job.ranks; r++)
    facts[r].threads_from = CT_THREADS_OMP;
  expect_good();
}

/* Whoever has the whole node need not use all of it, if the GPUs are fed. */
static void gpus_with_enough_cores(void)
{
  make((shape_t){2, 4, 128, 8, 8}, CT_LAUNCHER_SRUN);
  for (int r = 0; r < job.ranks; r++)
    facts[r].on_gpu = 1, facts[r].gpus = 4;
  expect_good();
}

static void masks_that_overlap(void)
{
  make((shape_t){1, 4, 8, 0, 2}, CT_LAUNCHER_HYDRA);
  judge();
  expect("not_bound", CT_FINDING_NOTE, "4 ranks are not bound: they share 8 cores",
         "mpiexec -bind-to core:2");
  make((shape_t){1, 2, 8, 4, 3}, CT_LAUNCHER_HYDRA);
  use_core(&facts[0].machine, 4);
  judge();
  expect("overlap", CT_FINDING_NOTE, "overlap", "core:4");
  CT_ASSERT_INT(ct_doctor_count(&found, CT_FINDING_BAD), 0);
}

static void uneven_ranks(void)
{
  make((shape_t){2, 2, 16, 8, 8}, CT_LAUNCHER_SRUN);
  facts[3].threads = 5;
  expect_good();
  facts[3].threads = 4; /* half as many are too few */
  judge();
  expect("uneven", CT_FINDING_BAD, "rank 3 on n002 has 4 threads", "--cpus-per-task=8");
  facts[3].threads = 1;
  judge();
  expect("uneven", CT_FINDING_BAD, "rank 3 on n002 has 1 thread, but rank 0 on n001 has 8",
         "--cpus-per-task=8");
}

static void several_numa_nodes(void)
{
  make((shape_t){1, 1, 64, 0, 64}, CT_LAUNCHER_HYDRA);
  judge();
  expect("numa", CT_FINDING_NOTE, "cores of 2 NUMA nodes", "mpiexec -n 2 -bind-to core:32");
  make((shape_t){1, 4, 64, 0, 16}, CT_LAUNCHER_HYDRA);
  judge();
  expect("numa", CT_FINDING_NOTE, "rank 0, with 16 threads", "mpiexec -bind-to core:16");
}

static void hyperthreads_and_quota(void)
{
  make((shape_t){1, 2, 8, 4, 4}, CT_LAUNCHER_SRUN);
  facts[0].machine.physical = facts[1].machine.physical = 2;
  judge();
  expect("hyperthreads", CT_FINDING_NOTE, "4 threads of rank 0 run on 2 physical cores",
         "--hint=nomultithread");
  make((shape_t){1, 2, 8, 4, 4}, CT_LAUNCHER_HYDRA);
  facts[0].machine.quota = 2;
  judge();
  expect("quota", CT_FINDING_BAD, "8 threads, but the cgroup gives them the time of 2.0 cores",
         "docker run --cpus=8");
}

/* ---- memory, limits, GPUs ---- */

static void small_shm(void)
{
  make((shape_t){1, 4, 8, 2, 2}, CT_LAUNCHER_HYDRA);
  facts[0].machine.shm_total = facts[0].machine.shm_free = 64 << 20;
  judge();
  expect("shm", CT_FINDING_BAD, "/dev/shm has 64 MiB", "docker run --shm-size=2g");
  facts[0].machine.shm_total = 2 * GIB;
  facts[0].machine.shm_free = 1 << 20;
  judge();
  expect("shm", CT_FINDING_BAD, "full: 1.0 MiB of 2.0 GiB", "ls -l /dev/shm");
  make((shape_t){1, 1, 8, 0, 8}, CT_LAUNCHER_NONE);
  facts[0].machine.shm_total = facts[0].machine.shm_free = 64 << 20;
  expect_good(); /* one rank does not need it */
}

static void locked_memory(void)
{
  make((shape_t){2, 4, 8, 2, 2}, CT_LAUNCHER_SRUN);
  facts[0].machine.locked = 64 << 10;
  expect_good();
  facts[0].machine.infiniband = 1;
  judge();
  expect("memlock", CT_FINDING_BAD, "the limit is 64 KiB", "ulimit -l unlimited");
}

static void other_limits(void)
{
  make((shape_t){2, 4, 8, 2, 2}, CT_LAUNCHER_SRUN);
  for (int r = 0; r < 4; r++) {
    facts[r].machine.files = 128;
    facts[r].machine.stack = 64 << 10;
    facts[r].machine.address_space = 8 * GIB;
  }
  judge();
  expect("files", CT_FINDING_BAD, "only 128 files", "ulimit -n 4096");
  expect("stack", CT_FINDING_BAD, "64 KiB", "ulimit -s");
  expect("address_space", CT_FINDING_NOTE, "8.0 GiB", "ulimit -v unlimited");
}

static void little_memory(void)
{
  make((shape_t){1, 4, 8, 2, 2}, CT_LAUNCHER_SRUN);
  facts[0].machine.memory_limit = GIB / 2;
  judge();
  expect("memory", CT_FINDING_BAD, "only 128 MiB of memory for each rank (its cgroup",
         "fewer ranks");
  facts[0].machine.memory_limit = 8 * GIB;
  job.has_config = 1;
  job.data.batch = job.data.samples = 64;
  job.data.rank_bytes = 3 * GIB;
  be_in("SLURM_JOB_ID=7");
  judge();
  expect("memory", CT_FINDING_BAD, "4 ranks of about 3.0 GiB each, but its cgroup has only 8.0 GiB",
         "sbatch --mem=0");
  be_in("PBS_JOBID=7.server");
  judge();
  expect("memory", CT_FINDING_BAD, "4 ranks of about 3.0 GiB each",
         "fewer ranks on a node, or a smaller data.batch");
}

static void gpus_far_from_cores(void)
{
  make((shape_t){2, 4, 64, 8, 8}, CT_LAUNCHER_SRUN);
  for (int r = 0; r < 8; r++) { /* ranks 0-3 of a node have cores 0-31: NUMA node 0 */
    facts[r].on_gpu = 1;
    facts[r].gpus = 4;
    facts[r].gpu.numa = 1;
    snprintf(facts[r].gpu.bus, sizeof facts[r].gpu.bus, "0000:%02x:00.0", r % 4);
    snprintf(facts[r].gpu.uuid, sizeof facts[r].gpu.uuid, "GPU-%d", r);
  }
  judge();
  expect("gpu_far", CT_FINDING_BAD, "rank 0 uses the GPU at 0000:00:00.0, on NUMA node 1",
         "srun --gpu-bind=closest");
  CT_ASSERT_INT(find("gpu_far")->nodes, 2);
  for (int r = 0; r < 8; r++)
    facts[r].gpu.numa = 0;
  judge();
  CU_ASSERT(find("gpu_far") == NULL && find("gpu_shared") == NULL);
  snprintf(facts[1].gpu.uuid, sizeof facts[1].gpu.uuid, "GPU-0");
  judge();
  expect("gpu_shared", CT_FINDING_BAD, "ranks 0 and 1 have the same GPU",
         "one rank for each GPU: srun --ntasks-per-node=4");
  job.share_gpu = 1;
  judge();
  expect("gpu_shared", CT_FINDING_NOTE, "ranks 0 and 1", "");
}

static void gpus_not_used(void)
{
  make((shape_t){1, 1, 8, 0, 8}, CT_LAUNCHER_NONE);
  facts[0].machine.nvidia = 4;
  expect_good(); /* device: cpu was asked for */
  job.wants_gpu = 1;
  judge();
  expect("gpu_unused", CT_FINDING_BAD, "4 NVIDIA GPUs are there", "docker run --gpus all");
  snprintf(facts[0].no_device, sizeof facts[0].no_device, "no CUDA driver");
  judge();
  expect("device", CT_FINDING_BAD, "no CUDA driver", "");
  facts[0] = (ct_rank_facts_t){.machine = facts[0].machine, .on_gpu = 1, .gpus = 4, .mpi = 5};
  judge();
  expect("gpu_idle", CT_FINDING_NOTE, "4 GPUs are visible", "one rank for each GPU");
}

/* ---- the job ---- */

static void other_versions(void)
{
  make((shape_t){2, 2, 8, 4, 4}, CT_LAUNCHER_SRUN);
  facts[2].machine.program = facts[3].machine.program = 18;
  judge();
  expect("program", CT_FINDING_BAD, "rank 2 on n002 runs another program than rank 0 on n001",
         "the same file");
  facts[2].machine.program = facts[3].machine.program = 17;
  facts[3].mpi = 6;
  facts[2].machine.libraries = 1;
  judge();
  expect("mpi", CT_FINDING_BAD, "rank 3 on n002 has another MPI library", "LD_LIBRARY_PATH");
  expect("libraries", CT_FINDING_NOTE, "rank 2 on n002", "ldd");
}

static void nodes_of_the_job(void)
{
  make((shape_t){2, 2, 8, 4, 4}, CT_LAUNCHER_SRUN);
  be_in("SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=4");
  job.left_s = 20;
  job.equal_nodes = 0;
  facts[2].clock_s = facts[3].clock_s = 90;
  judge();
  expect("idle_nodes", CT_FINDING_NOTE, "the job has 4 nodes, but ranks run on 2",
         "srun --mpi=pmi2 --kill-on-bad-exit=1 --nodes=4");
  expect("walltime", CT_FINDING_NOTE, "in 20 s", "");
  expect("unequal_nodes", CT_FINDING_NOTE, "more ranks than others", "");
  expect("clock", CT_FINDING_NOTE, "the clock of n002 is 90 s ahead of that of n001", "");
  be_in("SLURM_JOB_ID=7");
  job.left_s = -1;
  judge();
  expect("no_end", CT_FINDING_NOTE, "the end of this job is unknown",
         "export CTRAIN_END_TIME=$(date");
  job.left_s = INFINITY;
  judge();
  CU_ASSERT(find("no_end") == NULL && find("walltime") == NULL);
  make((shape_t){1, 1, 8, 0, 8}, CT_LAUNCHER_NONE);
  be_in("SLURM_JOB_ID=7 SLURM_NTASKS=16");
  judge();
  expect("alone", CT_FINDING_NOTE, "one process alone, in a job of 16 tasks",
         "srun --mpi=pmi2 --kill-on-bad-exit=1 --ntasks=16 ctrain-hpc");
  be_in("FLUX_JOB_ID=f2 FLUX_JOB_SIZE=8");
  judge();
  expect("alone", CT_FINDING_NOTE, "in a job of 8 tasks", "flux run --ntasks=8 ctrain-hpc");
  make((shape_t){2, 2, 8, 4, 4}, CT_LAUNCHER_FLUX);
  be_in("FLUX_JOB_ID=f2 FLUX_JOB_SIZE=8 FLUX_JOB_NNODES=4");
  judge();
  expect("idle_nodes", CT_FINDING_NOTE, "the job has 4 nodes", "flux run --nodes=4 ctrain-hpc");
  job.batch.system.launch = NULL; /* nobody knows how */
  judge();
  CT_ASSERT_TEXT(find("idle_nodes")->cure, "");
}

static void run_directory(void)
{
  make((shape_t){2, 2, 8, 4, 4}, CT_LAUNCHER_SRUN);
  snprintf(job.dir, sizeof job.dir, "/scratch/run");
  job.volume = (ct_volume_t){.type = "lustre", .writable = 1, .free = 100 * GIB, .files = 1000};
  job.volume.flock_error = 38; /* harmless: HDF5 is told not to lock */
  expect_good();
  snprintf(job.file_locking, sizeof job.file_locking, "TRUE");
  judge();
  expect("locking", CT_FINDING_BAD, "(lustre) has no file locks", "unset HDF5_USE_FILE_LOCKING");
  job.data.checkpoint_bytes = (size_t)(60 * GIB);
  judge();
  expect("space", CT_FINDING_BAD, "/scratch/run has 100 GiB free", "run.dir");
  job.volume = (ct_volume_t){.type = "ext4", .error = 30, .free = GIB};
  judge();
  expect("directory", CT_FINDING_BAD, "/scratch/run cannot be written: Read-only", "run.dir");
  job.volume = (ct_volume_t){.type = "tmpfs", .writable = 1, .local = 1, .free = -1};
  judge();
  expect("local", CT_FINDING_NOTE, "is tmpfs", "share");
}

static void data_of_the_run(void)
{
  make((shape_t){2, 4, 8, 2, 2}, CT_LAUNCHER_SRUN);
  job.has_config = 1;
  job.data = (ct_data_facts_t){.samples = 50000,
                               .batch = 64,
                               .files = 8,
                               .blocks = 800,
                               .block_rows = 63,
                               .block_bytes = 1 << 20,
                               .shuffled = 1};
  expect_good();
  job.data.batch = 6;
  judge();
  expect("batch", CT_FINDING_BAD, "2 of 8 ranks never have a sample", "data.batch=8");
  snprintf(job.data.repack, sizeof job.data.repack, "h5repack -l images:CHUNK=8x28x28 a b");
  job.data.batch = 64;
  judge();
  expect("chunks", CT_FINDING_NOTE, "each costs a chunk of 63 (1.0 MiB); data.shuffle: blocks",
         "h5repack -l images:CHUNK=8x28x28 a b");
  job.data.block_bytes--; /* as small as that is no matter */
  expect_good();
  job.data.block_bytes++;
  job.data.shuffled = 0;
  expect_good();
  job.data.shuffled = 1;
  job.data.batch = 63;
  job.data.block_bytes = (size_t)GIB;
  judge();
  expect("batch", CT_FINDING_NOTE, "not a multiple of 8 ranks", "data.batch=64");
  expect("chunks", CT_FINDING_BAD, "a chunk of data.train is 1.0 GiB", "h5repack");
  job.data.cached = 1;
  judge();
  CU_ASSERT(find("chunks") == NULL);
  snprintf(job.data.error, sizeof job.data.error, "train.h5: has no array 'images'");
  judge();
  expect("data", CT_FINDING_BAD, "train.h5: has no array 'images'", "");
}

/* ---- launchers and lines ---- */

static void launchers(void)
{
  static const struct {
    const char *name, *variables;
    ct_launcher_kind_t kind;
  } cases[] = {{"", "", CT_LAUNCHER_NONE},
               {"", "SLURM_JOB_ID=7 SLURM_NTASKS=8", CT_LAUNCHER_NONE},
               {"", "SLURM_JOB_ID=7 SLURM_STEP_ID=4294967291", CT_LAUNCHER_NONE},
               {"mpiexec (hydra)", "PMI_SIZE=2 PMI_RANK=0 MPI_LOCALNRANKS=2 HYDI_CONTROL_FD=7",
                CT_LAUNCHER_HYDRA},
               {"mpiexec (hydra)",
                "PMI_SIZE=2 MPI_LOCALNRANKS=2 SLURM_STEP_ID=0 SLURM_MPI_TYPE=none",
                CT_LAUNCHER_HYDRA},
               {"srun (pmi2)", "PMI_SIZE=2 PMI_RANK=0 SLURM_STEP_ID=0 SLURM_MPI_TYPE=pmi2",
                CT_LAUNCHER_SRUN},
               {"srun (pmi2)", "PMI_SIZE=2 PMI_RANK=0 SLURM_STEPID=3", CT_LAUNCHER_SRUN},
               {"srun (pmix)", "PMIX_RANK=1 SLURM_STEP_ID=0", CT_LAUNCHER_SRUN},
               {"srun (no PMI)", "SLURM_STEP_ID=0 SLURM_MPI_TYPE=none", CT_LAUNCHER_SRUN},
               {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=1 SLURM_STEP_ID=0",
                CT_LAUNCHER_OPENMPI},
               {"Flux", "FLUX_TASK_RANK=1 PMI_SIZE=2 SLURM_STEP_ID=0", CT_LAUNCHER_FLUX},
               {"PALS", "PALS_RANKID=3 PMI_SIZE=4", CT_LAUNCHER_OTHER},
               {"a launcher", "PMI_SIZE=4", CT_LAUNCHER_OTHER}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ct_launcher_t l;
    ct_test_environment = cases[i].variables;
    ct_launcher_read(ct_test_getenv, &l);
    CT_ASSERT_TEXT(l.name, cases[i].name);
    CT_ASSERT_INT(l.kind, cases[i].kind);
  }
}

static void expect_line(const char *line)
{
  ct__doctor_nodes_t nodes;
  ct_str_t text = {0};
  CT_ASSERT_OK(ct__doctor_nodes_make(facts, &job, &nodes));
  CT_ASSERT_OK(ct__doctor_line(nodes.node, &job, &text));
  CT_ASSERT_TEXT(text.data, line);
  ct__doctor_nodes_clear(&nodes);
  ct_str_clear(&text);
}

static void binding_lines(void)
{
  make((shape_t){2, 2, 4, 2, 1}, CT_LAUNCHER_SRUN);
  snprintf(job.launch.name, sizeof job.launch.name, "srun (pmi2)");
  expect_line("2 nodes x 2 ranks x 1 thread on 2 cores each, launched by srun (pmi2)");
  make((shape_t){1, 2, 2, 0, 1}, CT_LAUNCHER_NONE);
  expect_line("1 node x 2 ranks x 1 thread sharing 2 cores");
  make((shape_t){1, 1, 8, 0, 8}, CT_LAUNCHER_NONE);
  expect_line("1 node x 1 rank x 8 threads on 8 cores");
  make((shape_t){2, 2, 8, 4, 4}, CT_LAUNCHER_NONE);
  job.ranks = 3; /* one of them alone on the second node, with less */
  facts[2].threads = 2;
  expect_line("2 nodes x 1 to 2 ranks x 2 to 4 threads on 4 cores each");
}

/* Node by node, in whatever order the launcher numbered the ranks. */
static void many_nodes(void)
{
  int64_t live = ct_mem_live();
  make((shape_t){64, 16, 128, 8, 8}, CT_LAUNCHER_SRUN);
  expect_good();
  for (int r = 0; r < job.ranks; r++) { /* cyclic: rank r is on node r % 64 */
    ct_rank_facts_t *f = &facts[r];
    f->node = r % 64;
    snprintf(f->machine.host, sizeof f->machine.host, "n%03d", f->node + 1);
    f->machine.cores = 0;
    memset(f->machine.mask, 0, sizeof f->machine.mask);
    memset(f->machine.numa_cores, 0, sizeof f->machine.numa_cores);
    for (int i = 0; i < 8; i++)
      use_core(&f->machine, r / 64 * 8 + i);
  }
  expect_good();
  facts[700].threads = 9;
  judge();
  expect("oversubscribed", CT_FINDING_BAD, "1 rank with 9 threads", "--cpus-per-task=8");
  CT_ASSERT_TEXT(find("oversubscribed")->host, "n061");
  CT_ASSERT_INT(find("oversubscribed")->nodes, 1);
  CT_ASSERT_INT(ct_mem_live(), live);
}

static void no_memory(void)
{
  make((shape_t){1, 2, 2, 1, 1}, CT_LAUNCHER_HYDRA);
  for (int i = 1; i <= 2; i++) {
    ct_mem_fail_at(i);
    CT_ASSERT_INT(ct_doctor_judge(facts, &job, &found), CT_ERR_NOMEM);
  }
  ct_mem_fail_at(0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(plain_and_good),
                                    CT_TEST(all_on_one_core),
                                    CT_TEST(too_many_threads),
                                    CT_TEST(threads_on_gpus),
                                    CT_TEST(idle_cores),
                                    CT_TEST(masks_that_overlap),
                                    CT_TEST(one_hyperthread_of_two),
                                    CT_TEST(gpus_with_enough_cores),
                                    CT_TEST(uneven_ranks),
                                    CT_TEST(several_numa_nodes),
                                    CT_TEST(hyperthreads_and_quota),
                                    CT_TEST(small_shm),
                                    CT_TEST(locked_memory),
                                    CT_TEST(other_limits),
                                    CT_TEST(little_memory),
                                    CT_TEST(gpus_far_from_cores),
                                    CT_TEST(gpus_not_used),
                                    CT_TEST(other_versions),
                                    CT_TEST(nodes_of_the_job),
                                    CT_TEST(run_directory),
                                    CT_TEST(data_of_the_run),
                                    CT_TEST(launchers),
                                    CT_TEST(binding_lines),
                                    CT_TEST(many_nodes),
                                    CT_TEST(no_memory),
                                    CT_TEST_END};
  return ct_test_main("doctor", tests, argc, argv);
}
