/* The formats of the system's files, as recorded on several machines; and this machine as it is. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_machine.h"
#include "base/ct_text.h"
#include "tests/harness/ct_test.h"

static int has(const unsigned char *mask, int i)
{
  return mask[i / 8] >> i % 8 & 1;
}

static void lists_of_cores(void)
{
  unsigned char mask[CT_MASK_BYTES];
  CT_ASSERT_INT(ct__machine_list("0-3,8,10-11\n", mask), 7);
  CU_ASSERT(has(mask, 0) && has(mask, 3) && !has(mask, 4) && has(mask, 8) && has(mask, 11));
  CT_ASSERT_INT(ct__machine_list("0\n", mask), 1);
  CT_ASSERT_INT(ct__machine_list("", mask), 0);
  CT_ASSERT_INT(ct__machine_list("\n", mask), 0);
  CT_ASSERT_INT(ct__machine_list("0-63,128-191\n", mask), 128);
  CT_ASSERT_INT(ct__machine_list("5,5,4-6", mask), 3);
  CT_ASSERT_INT(ct__machine_list("8190-9000", mask), 2); /* beyond what a mask holds */
  CT_ASSERT_INT(ct__machine_list("nonsense", mask), 0);
}

static void memory_of_the_machine(void)
{
  static const char text[] = "MemTotal:       24684096 kB\nMemFree:        19931440 kB\n"
                             "MemAvailable:   23782356 kB\nBuffers:           66160 kB\n";
  CT_ASSERT_INT(ct__machine_meminfo(text, "MemTotal:"), 24684096LL * 1024);
  CT_ASSERT_INT(ct__machine_meminfo(text, "MemAvailable:"), 23782356LL * 1024);
  CT_ASSERT_INT(ct__machine_meminfo(text, "SwapTotal:"), -1);
  CT_ASSERT_INT(ct__machine_meminfo("", "MemTotal:"), -1);
}

static void paths_of_cgroups(void)
{
  static const char v1[] = "9:name=systemd:/\n6:freezer:/\n"
                           "4:memory:/slurm/uid_1000/job_12/step_0\n2:cpu,cpuacct:/docker/ab\n"
                           "0::/init.scope\n";
  static const char v2[] = "0::/system.slice/slurmstepd.scope/job_12/step_0/user/task_1\n";
  char path[256] = "";
  CT_ASSERT_INT(ct__machine_cgroup(v1, "memory", path, sizeof path), 1);
  CT_ASSERT_TEXT(path, "/slurm/uid_1000/job_12/step_0");
  CT_ASSERT_INT(ct__machine_cgroup(v1, "cpu", path, sizeof path), 1);
  CT_ASSERT_TEXT(path, "/docker/ab");
  CT_ASSERT_INT(ct__machine_cgroup(v1, "cpuacct", path, sizeof path), 1);
  CT_ASSERT_INT(ct__machine_cgroup(v1, "cpuset", path, sizeof path), 0);
  CT_ASSERT_INT(ct__machine_cgroup(v2, "memory", path, sizeof path), 0);
  CT_ASSERT_INT(ct__machine_cgroup(v2, "", path, sizeof path), 1);
  CT_ASSERT_TEXT(path, "/system.slice/slurmstepd.scope/job_12/step_0/user/task_1");
  CT_ASSERT_INT(ct__machine_cgroup("", "", path, sizeof path), 0);
  CT_ASSERT_INT(ct__machine_cgroup("no colon\n1:half", "half", path, sizeof path), 0);
}

static void limits_of_cgroups(void)
{
  CT_ASSERT_INT(ct__machine_limit("max\n"), CT_NO_LIMIT);
  CT_ASSERT_INT(ct__machine_limit("9223372036854771712\n"), CT_NO_LIMIT); /* version 1's none */
  CT_ASSERT_INT(ct__machine_limit("8589934592\n"), 8LL << 30);
  CT_ASSERT_INT(ct__machine_limit(""), CT_NO_LIMIT);
  CT_ASSERT_NEAR(ct__machine_quota("200000 100000\n"), 2.0, 1e-12);
  CT_ASSERT_NEAR(ct__machine_quota("150000\n 100000\n"), 1.5, 1e-12);
  CT_ASSERT_NEAR(ct__machine_quota("max 100000\n"), 0, 0);
  CT_ASSERT_NEAR(ct__machine_quota("-1 100000\n"), 0, 0);
  CT_ASSERT_NEAR(ct__machine_quota(""), 0, 0);
}

static void file_systems(void)
{
  static const char mounts[] =
      "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
      "27 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw,discard\n"
      "44 27 0:57 / /scratch rw - fuse.beegfs beegfs_nodev rw\n"
      "45 27 0:61 / /home rw,relatime - nfs4 server:/home rw,vers=4.2\n";
  char type[32] = "";
  CT_ASSERT_INT(ct__machine_mount(mounts, 254, 0, type, sizeof type), 1);
  CT_ASSERT_TEXT(type, "ext4");
  CT_ASSERT_INT(ct__machine_mount(mounts, 0, 57, type, sizeof type), 1);
  CT_ASSERT_TEXT(type, "fuse.beegfs");
  CT_ASSERT_INT(ct__machine_mount(mounts, 0, 61, type, sizeof type), 1);
  CT_ASSERT_TEXT(type, "nfs4");
  CT_ASSERT_INT(ct__machine_mount(mounts, 8, 1, type, sizeof type), 0);
  CT_ASSERT_INT(ct__machine_mount("36 35 8:1 / /cut rw", 8, 1, type, sizeof type), 0);
  CT_ASSERT_TEXT(ct__machine_fs(0x6969), "nfs");
  CT_ASSERT_TEXT(ct__machine_fs(0x0BD00BD0), "lustre");
  CT_ASSERT_TEXT(ct__machine_fs((long)(int)0x9123683E), "btrfs"); /* as a 32-bit number says it */
  CU_ASSERT(ct__machine_fs(0x1234) == NULL);
}

static void this_machine(void)
{
  static ct_machine_t m;
  int numa = 0;
  ct_machine_read(&m, 1);
  CU_ASSERT(m.host[0] != '\0');
  CU_ASSERT(m.cores >= 1 && m.cores <= m.allowed && m.allowed <= m.online);
  CU_ASSERT(m.physical <= m.cores);
  CU_ASSERT(m.memory_total > 0 && m.memory_free > 0 && m.memory_free <= m.memory_total);
  CU_ASSERT(m.memory_limit > 0 && m.files > 0 && m.stack > 0);
  for (int i = 0; i < CT_NUMA_MAX; i++)
    numa += m.numa_cores[i];
  if (m.numa_nodes) CT_ASSERT_INT(numa, m.cores);
}

static void a_directory(void)
{
  ct_volume_t v;
  char path[CT_PATH_MAX];
  const char *dir = ct_test_dir();
  ct_volume_read(dir, &v);
  CU_ASSERT(v.there && v.writable && v.type[0] && v.free > 0 && v.total >= v.free);
  CT_ASSERT_INT(v.fcntl_error, 0);
  CT_ASSERT_OK(ct_path_join(path, sizeof path, dir, "not/yet/there"));
  ct_volume_read(path, &v); /* that of the nearest one above */
  CU_ASSERT(!v.there && v.writable && v.free > 0);
  CU_ASSERT(!ct_file_exists(path));
  ct_volume_read("/proc", &v); /* nobody may make a file there */
  CU_ASSERT(v.there && !v.writable && v.error != 0);
  CT_ASSERT_TEXT(v.type, "proc");
  CT_ASSERT_INT(rmdir(dir), 0); /* nothing was left in it */
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(lists_of_cores),   CT_TEST(memory_of_the_machine),
                                    CT_TEST(paths_of_cgroups), CT_TEST(limits_of_cgroups),
                                    CT_TEST(file_systems),     CT_TEST(this_machine),
                                    CT_TEST(a_directory),      CT_TEST_END};
  return ct_test_main("machine", tests, argc, argv);
}
