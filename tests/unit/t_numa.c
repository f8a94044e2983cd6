/* Where pages are: the kernel's lists of made-up machines, findings about them, and this machine as
 * it is. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_hash.h"
#include "doctor/ct_doctor.h"
#include "host/ct_numa.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/doctor_judge.h"

#define MAPS "proc/self/numa_maps"

static void cores_of_four_nodes(void)
{
  const char *root = ct_test_dir();
  unsigned char mask[CT_MASK_BYTES] = {0xF0, 0xFF, 0x01}; /* 4 to 16 */
  int own[CT_NUMA_MAX];
  uint64_t bare;
  CT_ASSERT_INT(ct__numa_cores(root, mask, own, &bare), 0);
  ct_test_put(root, "sys/devices/system/node/online", "0-2,4\n");
  ct_test_put(root, "sys/devices/system/node/node0/cpulist", "0-7\n");
  ct_test_put(root, "sys/devices/system/node/node1/cpulist", "8-15\n");
  ct_test_put(root, "sys/devices/system/node/node2/cpulist", "\n");
  ct_test_put(root, "sys/devices/system/node/node4/cpulist", "16-23\n");
  CT_ASSERT_INT(ct__numa_cores(root, mask, own, &bare), 4);
  CT_ASSERT_INT(own[0], 4);
  CT_ASSERT_INT(own[1], 8);
  CT_ASSERT_INT(own[2], 0);
  CT_ASSERT_INT(own[4], 1);
  CT_ASSERT_INT((int64_t)bare, 1 << 2);
}

static void lines_of_a_process(void)
{
  static const char maps[] =
      "55d0c0000000 default file=/usr/bin/ctrain-hpc mapped=90 N1=90 kernelpagesize_kB=4\n"
      "55d0d0000000 default heap anon=30 dirty=30 N0=10 N3=20 kernelpagesize_kB=4\n"
      "7f0000000000 interleave:0-3 anon=1024 dirty=1024 N0=512 N2=512 kernelpagesize_kB=4\n"
      "7f0010000000 bind:1 anon=2 dirty=2 N1=2 kernelpagesize_kB=2048\n"
      "7f0020000000 default file=/dev/shm/mpi dirty=9 N2=9 kernelpagesize_kB=4\n"
      "7ffc00000000 default stack anon=3 dirty=3 N0=3 kernelpagesize_kB=4\n";
  const char *root = ct_test_dir();
  ct_numa_t n;
  ct_numa_read(root, NULL, &n); /* no such file */
  CT_ASSERT_TEXT(n.policy, "");
  ct_test_put(root, MAPS, maps);
  ct_numa_read(root, NULL, &n);
  CT_ASSERT_INT(n.bytes[0], 4096 * (10 + 512 + 3));
  CT_ASSERT_INT(n.bytes[1], 2 * 2048 * 1024);
  CT_ASSERT_INT(n.bytes[2], 4096 * 512);
  CT_ASSERT_INT(n.bytes[3], 4096 * 20);
  CT_ASSERT_TEXT(n.policy, "interleave:0-3"); /* 4 MiB, as the next, which is not more */
  ct_numa_read(root, (const void *)0x7f0000001000, &n);
  CT_ASSERT_INT(n.bytes[0] + n.bytes[2], 4096 * 1024);
  CT_ASSERT_INT(n.bytes[1] + n.bytes[3], 0);
  ct_numa_read(root, (const void *)0x7f0010200000, &n);
  CT_ASSERT_INT(n.bytes[0] + n.bytes[2], 0);
  CT_ASSERT_TEXT(n.policy, "bind:1");
  ct_test_put(root, MAPS, "nonsense\n\n7f00 default N64=1 N-1=2 Nx=3 kernelpagesize_kB=4\n");
  ct_numa_read(root, NULL, &n);
  CT_ASSERT_INT(n.bytes[0] + n.bytes[63], 0);
}

/* Random mappings: the sums by node, and what is remote for random cores. */
static void random_maps(void)
{
  uint64_t draw = 20261126;
  for (int round = 0; round < 50; round++) {
    const char *root = ct_test_dir();
    char text[8192] = "";
    size_t len = 0;
    ct_machine_t m = {.numa_nodes = 4};
    int64_t sum[4] = {0}, all = 0, remote = 0;
    ct_numa_t n;
    for (int i = 0; i < 20; i++) {
      int file = (draw = ct_hash_int((int64_t)draw, 1)) % 4 == 0;
      int node = (int)(draw >> 8 & 3), pages = (int)(draw >> 16 & 1023),
          kb = draw >> 40 & 1 ? 4 : 64;
      len += (size_t)snprintf(text + len, sizeof text - len,
                              "%x000 default %sanon=%d N%d=%d N%d=%d kernelpagesize_kB=%d\n", 1 + i,
                              file ? "file=/lib/N0=9 " : "", pages, node, pages, (node + 1) % 4, i,
                              kb);
      if (file) continue;
      sum[node] += 1024LL * pages * kb;
      sum[(node + 1) % 4] += 1024LL * i * kb;
    }
    m.numa_cores[draw >> 50 & 3] = 2;
    for (int k = 0; k < 4; k++) {
      all += sum[k];
      if (!m.numa_cores[k]) remote += sum[k];
    }
    ct_test_put(root, MAPS, text);
    ct_numa_read(root, NULL, &n);
    for (int k = 0; k < 4; k++)
      CT_ASSERT_INT(n.bytes[k], sum[k]);
    CT_ASSERT_INT((int64_t)(1e6 * ct_numa_remote(&n, &m) + 0.5),
                  (int64_t)(1e6 * (double)remote / (double)all + 0.5));
  }
}

/* ---- findings ---- */

enum { CORES = 64, NODES = 4 };

/* One machine of 64 cores in 4 NUMA nodes, with nothing to complain about.  \a each 64: the ranks
 * are not bound. */
static void make(int ranks, int each, int threads, int launcher)
{
  memset(facts, 0, sizeof facts);
  memset(&job, 0, sizeof job);
  job = (ct_job_facts_t){.ranks = ranks, .nodes = 1, .equal_nodes = 1, .left_s = -1};
  job.launch.kind = (ct_launcher_kind_t)launcher;
  for (int r = 0; r < ranks; r++) {
    ct_machine_t *m = &facts[r].machine;
    *m = (ct_machine_t){.host = "n001", .online = CORES, .allowed = CORES, .numa_nodes = NODES};
    m->memory_total = m->memory_free = m->shm_total = m->shm_free = (int64_t)64 << 30;
    m->memory_limit = m->address_space = m->locked = m->files = CT_NO_LIMIT;
    m->stack = 8 << 20;
    for (int i = 0; i < each; i++) {
      int core = (r * each + i) % CORES;
      m->mask[core / 8] |= (unsigned char)(1 << core % 8);
      m->cores++;
      m->numa_cores[core * NODES / CORES]++;
    }
    facts[r].rank = r;
    facts[r].threads = threads;
    facts[r].gpu.numa = -1;
  }
}

/* A rank's pages: how many there are on each of 4 NUMA nodes. */
static void have_pages(int rank, const char *policy, int64_t a, int64_t b, int64_t c, int64_t d)
{
  facts[rank].memory = (ct_numa_t){.bytes = {a, b, c, d}};
  snprintf(facts[rank].memory.policy, sizeof facts[rank].memory.policy, "%s", policy);
}

static void several_numa_nodes(void)
{
  static const struct {
    int ranks, threads, launcher;
    const char *cure;
  } spanning[] = {
      {1, 64, CT_LAUNCHER_SRUN, "srun --ntasks-per-node=4 --cpus-per-task=16 --cpu-bind=cores"},
      {1, 64, CT_LAUNCHER_HYDRA, "mpiexec -n 4 -bind-to core:16"},
      {1, 64, CT_LAUNCHER_NONE, "mpiexec -n 4 -bind-to core:16"},
      {2, 32, CT_LAUNCHER_OPENMPI, "mpirun --map-by ppr:4:node:PE=16 --bind-to core"},
      {3, 21, CT_LAUNCHER_FLUX, "flux run --tasks-per-node=4 --cores-per-task=16"},
      {1, 64, CT_LAUNCHER_OTHER, "4 ranks on a node, with 16 cores of its own each"}};
  for (size_t i = 0; i < sizeof spanning / sizeof *spanning; i++) {
    make(spanning[i].ranks, 64, spanning[i].threads, spanning[i].launcher);
    judge();
    expect("numa", CT_FINDING_NOTE, "cores of 4 NUMA nodes", spanning[i].cure);
  }
  make(4, 16, 16, CT_LAUNCHER_SRUN);
  expect_good();
}

static void pages_far_from_cores(void)
{
  make(4, 16, 16, CT_LAUNCHER_SRUN);
  expect_good(); /* not known, as in containers that hide these files */
  CU_ASSERT(find("numa") == NULL);
  for (int r = 0; r < 4; r++)
    have_pages(r, "default", r == 0 ? 95 : 0, r == 1 ? 95 : 0, r == 2 ? 100 : 0, r == 3 ? 95 : 5);
  expect_good();
  expect("numa", CT_FINDING_OK, "on the NUMA nodes of their ranks", "");
  have_pages(2, "default", 20, 0, 80, 0); /* its node was nearly full */
  judge();
  expect("numa_remote", CT_FINDING_NOTE, "20% of the pages that rank 2", "numactl --membind=NODE");
  have_pages(2, "bind:1", 0, 100, 0, 0);
  judge();
  expect("numa_remote", CT_FINDING_BAD, "100% of the pages that rank 2 touches first",
         "without numactl --interleave");
  CT_ASSERT_HAS(find("numa_remote")->what, "bind:1");
  have_pages(2, "interleave:0-3", 25, 25, 25, 25);
  judge();
  expect("numa_remote", CT_FINDING_BAD, "75% of the pages", "without numactl --interleave");
  facts[2].machine.numa_bare = 3; /* fast memory without cores is meant to be used */
  have_pages(2, "bind:0-1", 50, 50, 0, 0);
  CT_ASSERT_INT((int)(100 * ct_numa_remote(&facts[2].memory, &facts[2].machine)), 0);
}

/* A rank on all NUMA nodes may alternate between them, but not use one for all. */
static void pages_of_a_wide_rank(void)
{
  make(1, 64, 64, CT_LAUNCHER_SRUN);
  have_pages(0, "interleave:0-3", 25, 25, 25, 25);
  judge();
  expect("numa", CT_FINDING_NOTE, "4 NUMA nodes, between which its pages alternate", "srun");
  CU_ASSERT(find("numa_policy") == NULL && find("numa_remote") == NULL);
  have_pages(0, "bind:1-2", 0, 50, 50, 0);
  judge();
  expect("numa_policy", CT_FINDING_BAD, "cores of 4 NUMA nodes, but its memory is on 2 of them",
         "--interleave is fine");
  have_pages(0, "default", 30, 20, 25, 25);
  judge();
  CU_ASSERT(find("numa_policy") == NULL && find("numa_remote") == NULL);
  facts[0].machine.numa_nodes = 1;
  memset(facts[0].machine.numa_cores, 0, sizeof facts[0].machine.numa_cores);
  facts[0].machine.numa_cores[0] = 64;
  have_pages(0, "default", 100, 0, 0, 0);
  expect_good();
}

/* ---- this machine ---- */

static void shares_by_node(void)
{
  char text[40];
  ct_machine_t m = {.numa_nodes = 4, .numa_cores = {16, 0, 16, 0}};
  ct_numa_text(&(ct_numa_t){.policy = ""}, &m, text, sizeof text);
  CT_ASSERT_TEXT(text, "");
  ct_numa_text(&(ct_numa_t){.bytes = {6, 0, 1, 1}}, &m, text, sizeof text);
  CT_ASSERT_TEXT(text, "node 0: 75%, node 2: 12%, node 3: 12% (");
}

/* Returns the largest difference between the bytes on nodes of this process. */
static int64_t unevenness(const ct_numa_t *n, const ct_machine_t *m)
{
  int64_t least = INT64_MAX, most = 0;
  for (int i = 0; i < CT_NUMA_MAX; i++) {
    if (m->numa_cores[i] == 0) continue;
    if (n->bytes[i] < least) least = n->bytes[i];
    if (n->bytes[i] > most) most = n->bytes[i];
  }
  return most - least;
}

/* What a probe finds, and blocks that are spread, on whatever machine this is. */
static void this_machine(void)
{
  enum { BYTES = 32 << 20 };
  ct_numa_t n;
  ct_machine_t m;
  int64_t all = 0, calls = ct_mem_live();
  ct_machine_read(&m, 0);
  ct_numa_probe(2, &n);
  CT_ASSERT_INT(ct_mem_live(), calls);
  for (int i = 0; i < CT_NUMA_MAX; i++)
    all += n.bytes[i];
  if (n.policy[0]) CU_ASSERT(all >= 16 << 20);
  CT_ASSERT_INT(ct_numa_spans(&m) > 0, m.numa_nodes > 0);
  char *p = ct_mem_try(BYTES);
  CU_ASSERT_FATAL(p != NULL);
  omp_set_num_threads(1); /* the node of one thread is near it */
  ct_numa_spread(p, BYTES);
  omp_set_num_threads(m.cores);
  ct_numa_spread(p, BYTES);
  ct_numa_spread(p + 1, BYTES - 1);
  ct_numa_spread(p, 1);
  memset(p, 1, BYTES);
  CT_ASSERT_INT(p[BYTES - 1], 1);
  ct_numa_read("", p, &n);
  if (strncmp(n.policy, "interleave", 10) == 0) /* several nodes, and permitted */
    CU_ASSERT(unevenness(&n, &m) <= 4 << 20);
  ct_mem_free(p);
  ct_mem_fail_at(1);
  ct_numa_probe(1, &n);
  ct_mem_fail_at(0);
  CT_ASSERT_TEXT(n.policy, "");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(cores_of_four_nodes), CT_TEST(lines_of_a_process),   CT_TEST(random_maps),
      CT_TEST(several_numa_nodes),  CT_TEST(pages_far_from_cores), CT_TEST(pages_of_a_wide_rank),
      CT_TEST(shares_by_node),      CT_TEST(this_machine),         CT_TEST_END};
  return ct_test_main("numa", tests, argc, argv);
}
