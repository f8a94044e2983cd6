/* Network cards: from files as machines have them, in findings and in reports. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "host/ct_machine.h"
#include "doctor/ct_doctor.h"
#include "tests/harness/ct_test.h"

/* ---- sysfs ---- */

static const char *root;

static void put(const char *path, const char *text)
{
  ct_test_put(root, path, text);
}

/* What the kernel has as a link to the device. */
static void put_device(const char *class, const char *device)
{
  char link[CT_PATH_MAX], target[CT_PATH_MAX];
  snprintf(link, sizeof link, "%s/sys/class/%s/device", root, class);
  snprintf(target, sizeof target, "../../../devices/%s", device);
  CT_ASSERT_INT(symlink(target, link), 0);
}

static void cards_of_a_machine(void)
{
  ct_nic_t nic[CT_NICS];
  root = ct_test_dir();
  CT_ASSERT_INT(ct_machine_nics(root, nic), 0);
  put("sys/devices/pci1/numa_node", "1\n");
  put("sys/devices/pci2/numa_node", "0\n");
  put("sys/devices/virtio0/vendor", "0x1af4\n");
  put("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
  put_device("infiniband/mlx5_0", "pci1");
  put("sys/class/net/ib0/operstate", "up\n"); /* of the same card */
  put_device("net/ib0", "pci1");
  put("sys/class/net/eth1/operstate", "up\n");
  put_device("net/eth1", "pci2");
  put("sys/class/net/eth0/operstate", "unknown\n"); /* of a virtual machine */
  put_device("net/eth0", "virtio0");
  put("sys/class/net/eth2/operstate", "down\n"); /* without a cable */
  put_device("net/eth2", "pci2");
  put("sys/class/net/lo/operstate", "unknown\n"); /* of no device */
  put("sys/class/net/docker0/operstate", "up\n");
  CT_ASSERT_INT(ct_machine_nics(root, nic), 3);
  CT_ASSERT_TEXT(nic[0].name, "mlx5_0");
  CU_ASSERT(nic[0].numa == 1 && nic[0].infiniband);
  CT_ASSERT_TEXT(nic[1].name, "eth0");
  CU_ASSERT(nic[1].numa == -1 && !nic[1].infiniband);
  CT_ASSERT_TEXT(nic[2].name, "eth1");
  CU_ASSERT(nic[2].numa == 0 && !nic[2].infiniband);
  put("sys/devices/pci1/numa_node", "-1\n"); /* what the kernel writes where there is one alone */
  CT_ASSERT_INT(ct_machine_nics(root, nic), 3);
  CT_ASSERT_INT(nic[0].numa, -1);
}

static void more_cards_than_are_told(void)
{
  ct_nic_t nic[CT_NICS];
  root = ct_test_dir();
  for (int i = 2 * CT_NICS; i > 0; i--) {
    char path[80];
    snprintf(path, sizeof path, "sys/class/infiniband/hfi%02d/node_type", i);
    put(path, "1: CA\n");
  }
  CT_ASSERT_INT(ct_machine_nics(root, nic), CT_NICS);
  CT_ASSERT_TEXT(nic[CT_NICS - 1].name, "hfi08");
  ct_machine_nics("", nic); /* this machine's, whatever they are */
}

/* ---- the doctor ---- */

enum { RANKS = 4, CORES = 16 };
static ct_rank_facts_t facts[RANKS];
static ct_job_facts_t job;
static ct_findings_t found;

/* So many nodes of two NUMA nodes with 8 cores each; each rank has four, the first ones first. */
static void make(int nodes)
{
  memset(facts, 0, sizeof facts);
  job = (ct_job_facts_t){.launch.kind = CT_LAUNCHER_SRUN,
                         .ranks = RANKS,
                         .nodes = nodes,
                         .equal_nodes = 1,
                         .left_s = -1};
  for (int r = 0; r < RANKS; r++) {
    ct_rank_facts_t *f = &facts[r];
    ct_machine_t *m = &f->machine;
    int first = r % (RANKS / nodes) * 4;
    f->rank = r;
    f->node = r / (RANKS / nodes);
    f->threads = m->cores = 4;
    f->gpu.numa = -1;
    snprintf(m->host, sizeof m->host, "n%d", f->node + 1);
    m->online = m->allowed = CORES;
    m->numa_nodes = 2;
    m->memory_total = m->memory_free = m->shm_total = m->shm_free = (int64_t)64 << 30;
    m->memory_limit = m->address_space = m->locked = CT_NO_LIMIT;
    m->stack = 8 << 20;
    m->files = 65536;
    m->mask[first / 8] |= (unsigned char)(15 << first % 8);
    m->numa_cores[first / 8] = 4;
    m->nics = 2;
    m->nic[0] = (ct_nic_t){.name = "mlx5_0", .numa = 1, .infiniband = 1};
    m->nic[1] = (ct_nic_t){.name = "eth0", .numa = 0};
  }
}

/* The finding, or NULL. */
static const ct_finding_t *far(void)
{
  CT_ASSERT_OK(ct_doctor_judge(facts, &job, &found));
  for (int i = 0; i < found.n; i++)
    if (strcmp(found.list[i].key, "network_far") == 0) return &found.list[i];
  return NULL;
}

static void far_from_all_cores(void)
{
  make(2);
  const ct_finding_t *f = far();
  CU_ASSERT_FATAL(f != NULL);
  CT_ASSERT_INT(f->level, CT_FINDING_NOTE);
  CT_ASSERT_INT(f->nodes, 2);
  CT_ASSERT_HAS(f->what, "card mlx5_0 is on NUMA node 1, where no rank has cores");
  CT_ASSERT_HAS(f->cure, "numactl --cpunodebind=1");
}

static void near_enough(void)
{
  make(1); /* there is no other node to send to, and two ranks are near */
  CU_ASSERT(!far());
  make(2);
  for (int r = 0; r < RANKS; r++) /* a second card of the same kind */
    facts[r].machine.nic[1] = (ct_nic_t){.name = "mlx5_1", .numa = 0, .infiniband = 1};
  CU_ASSERT(!far());
  for (int r = 0; r < RANKS; r++)
    facts[r].machine.nic[1].numa = -1; /* which may be near */
  CU_ASSERT(!far());
  make(2);
  for (int r = 0; r < RANKS; r++)
    facts[r].machine.nic[0].infiniband = 0; /* another network, as good as the near one */
  CU_ASSERT(!far());
}

static int no_versions(const char *separator, ct_str_t *out)
{
  (void)separator;
  return ct_str_add(out, "none");
}

static void in_reports(void)
{
  ct_str_t out = {0};
  make(1);
  facts[0].machine.nics = 3;
  facts[0].machine.nic[2] = (ct_nic_t){.name = "eth1", .numa = -1};
  CU_ASSERT(!far());
  CT_ASSERT_OK(ct_doctor_report(facts, &job, &found, no_versions, &out));
  CT_ASSERT_HAS(out.data, "  network     mlx5_0 (InfiniBand) on NUMA node 1, where ranks 2, 3 of "
                          "n1 have cores\n");
  CT_ASSERT_HAS(out.data, "\n              eth0 on NUMA node 0, where ranks 0, 1 of n1 have "
                          "cores\n              eth1\n");
  ct_str_clear(&out);
  CT_ASSERT_OK(ct_doctor_json(facts, &job, &found, &out));
  CT_ASSERT_HAS(out.data, "\"mlx5_0\"");
  CT_ASSERT_HAS(out.data, "\"numa_cores\"");
  ct_str_clear(&out);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(cards_of_a_machine), CT_TEST(more_cards_than_are_told),
                                    CT_TEST(far_from_all_cores), CT_TEST(near_enough),
                                    CT_TEST(in_reports),         CT_TEST_END};
  return ct_test_main("network", tests, argc, argv);
}
