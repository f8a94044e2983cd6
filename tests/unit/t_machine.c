/* The formats of the system's files, as recorded on several machines; and this machine as it is. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/ct_host_cpu.h"
#include "host/ct_energy.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "host/ct_machine.h"
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

/* ---- processors and energy, from files as machines have them ---- */

static const char *root; /* of the test */

static void put(const char *path, const char *text)
{
  ct_test_put(root, path, text);
}

static void a_processor(void)
{
  ct_cpu_t c;
  root = ct_test_dir();
  put("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast 9000\ncpu MHz\t\t: 2400.125\n\n"
                      "processor\t: 1\nmodel name\t: Fast 9000\ncpu MHz\t\t: 1200.5\n");
  ct_cpu_read(root, 1, &c);
  CT_ASSERT_TEXT(c.model, "Fast 9000");
  CT_ASSERT_NEAR(c.mhz, 1200.5, 0);
  CU_ASSERT(c.max_mhz == 0 && c.turbo == -1 && c.load == -1 && !c.governor[0]);
  put("proc/loadavg", "3.25 1.00 0.50 2/345 6789\n");
  put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3100000\n");
  put("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "4500000\n");
  put("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  put("sys/devices/system/cpu/cpufreq/boost", "0\n");
  ct_cpu_read(root, 0, &c);
  CT_ASSERT_NEAR(c.mhz, 3100, 1e-9);
  CT_ASSERT_NEAR(c.max_mhz, 4500, 1e-9);
  CT_ASSERT_TEXT(c.governor, "powersave");
  CU_ASSERT(c.turbo == 0 && c.load == 3.25);
  put("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
  ct_cpu_read(root, 0, &c);
  CT_ASSERT_INT(c.turbo, 1);
  ct_cpu_read("", -1, &c); /* this one has a load at least */
  CU_ASSERT(c.load >= 0);
}

/* Grace, as its kernel shows it; then a core that nobody has heard of. */
static void a_processor_that_says_numbers(void)
{
  static const char entry[] = "processor\t: 0\nBogoMIPS\t: 2000.00\nFeatures\t: fp asimd sve2\n"
                              "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\n"
                              "CPU part\t: 0xd4f\nCPU revision\t: 0\n\n";
  ct_cpu_t c;
  root = ct_test_dir();
  put("proc/cpuinfo", entry);
  ct_cpu_read(root, 0, &c);
  CT_ASSERT_TEXT(c.model, "ARM Neoverse V2");
  CT_ASSERT_NEAR(c.mhz, 0, 0);
  put("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x4f\nCPU part\t: 0x01a\n");
  ct_cpu_read(root, 0, &c);
  CT_ASSERT_TEXT(c.model, "ARM, implementer 0x4f, part 0x01a");
}

static void time_that_others_had_the_core(void)
{
  CU_ASSERT(ct_cpu_offcpu(root) < 0);
  put("proc/thread-self/schedstat", "12000000000 2500000000 77\n");
  CT_ASSERT_NEAR(ct_cpu_offcpu(root), 2.5, 1e-12);
  put("proc/thread-self/schedstat", "7\n");
  CU_ASSERT(ct_cpu_offcpu(root) < 0);
}

static void energy_of_packages_and_memory(void)
{
  ct_energy_t before, after;
  root = ct_test_dir();
  ct_energy_read(root, &before);
  CT_ASSERT_INT(before.counters, 0);
  CT_ASSERT_TEXT(before.from,
                 "not known: neither RAPL, pm_counters nor Grace's hwmon are shown here");
  put("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  put("sys/class/powercap/intel-rapl:0/energy_uj", "9000000\n");
  put("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "10000000\n");
  put("sys/class/powercap/intel-rapl:0:0/name", "core\n"); /* part of the package */
  put("sys/class/powercap/intel-rapl:0:0/energy_uj", "1\n");
  put("sys/class/powercap/intel-rapl:0:1/name", "dram\n");
  put("sys/class/powercap/intel-rapl:0:1/energy_uj", "500000\n");
  put("sys/class/powercap/intel-rapl:1/name", "psys\n"); /* all of it again */
  put("sys/class/powercap/intel-rapl:1/energy_uj", "1\n");
  ct_energy_read(root, &before);
  CT_ASSERT_INT(before.counters, 2);
  put("sys/class/powercap/intel-rapl:0/energy_uj", "2000000\n"); /* went over its end */
  put("sys/class/powercap/intel-rapl:0:1/energy_uj", "750000\n");
  ct_energy_read(root, &after);
  CT_ASSERT_NEAR(ct_energy_between(&before, &after), 3.25, 1e-9);
}

static void energy_that_only_root_may_read(void)
{
  ct_energy_t e, none = {0};
  root = ct_test_dir();
  if (geteuid() == 0) {
    CU_ASSERT(ct_energy_between(&none, &none) < 0);
    return; /* root reads it all the same */
  }
  put("sys/class/powercap/intel-rapl:0/name", "package-0\n");
  put("sys/class/powercap/intel-rapl:0/energy_uj", "9000000\n");
  char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/sys/class/powercap/intel-rapl:0/energy_uj", root);
  CT_ASSERT_INT(chmod(path, 0), 0);
  ct_energy_read(root, &e);
  CU_ASSERT(e.counters == 0 && strstr(e.from, "Permission denied"));
}

static void energy_of_a_whole_node(void)
{
  ct_energy_t before, after;
  root = ct_test_dir();
  put("sys/cray/pm_counters/energy", "1000 J 1690000000 us\n");
  ct_energy_read(root, &before);
  put("sys/cray/pm_counters/energy", "1250 J 1690000001 us\n");
  ct_energy_read(root, &after);
  CT_ASSERT_NEAR(ct_energy_between(&before, &after), 250, 0);
  CT_ASSERT_TEXT(after.from, "pm_counters: the whole node");
}

/* Two sockets; the first meter is of both with their GPU. */
static void energy_by_power_meters(void)
{
  ct_energy_t before, after;
  root = ct_test_dir();
  put("sys/class/hwmon/hwmon0/device/power1_oem_info", "Module Power Socket 0\n");
  put("sys/class/hwmon/hwmon0/device/power1_average", "900000000\n");
  put("sys/class/hwmon/hwmon2/device/power1_oem_info", "Grace Power Socket 0\n");
  put("sys/class/hwmon/hwmon2/device/power1_average", "100000000\n");
  put("sys/class/hwmon/hwmon5/device/power1_oem_info", "Grace Power Socket 1\n");
  put("sys/class/hwmon/hwmon5/device/power1_average", "150000000\n");
  ct_energy_read(root, &before);
  CT_ASSERT_NEAR(before.watt, 250, 1e-9);
  CT_ASSERT_TEXT(before.from, "hwmon: processors and their memory, read each second");
  put("sys/class/hwmon/hwmon5/device/power1_average", "250000000\n");
  ct_energy_read(root, &after);
  CU_ASSERT(after.at >= before.at);
  after.at = before.at + 2;
  CT_ASSERT_NEAR(ct_energy_between(&before, &after), 600, 1e-9);
  root = ct_test_dir(); /* where they are gone */
  ct_energy_read(root, &after);
  CU_ASSERT(ct_energy_between(&before, &after) < 0);
}

/* As lustre_user.h lays them out. */
static void stripes_of_lustre(void)
{
  const uint8_t plain[32] = {0xD0, 0x0B, 0xD3, 0x0B, 1, [28] = 0x02, 0x01};
  uint8_t parts[32 + 2 * 48 + 2 * 32] = {0xD0, 0x0B, 0xD6, 0x0B, [14] = 2};
  CT_ASSERT_INT(ct__machine_stripes(plain, sizeof plain), 0x102);
  CT_ASSERT_INT(ct__machine_stripes(plain, sizeof plain - 1), 0);
  CT_ASSERT_INT(ct__machine_stripes((const uint8_t *)"something else, long enough to be one", 32),
                0);
  for (int i = 0; i < 2; i++) {
    uint8_t *entry = parts + 32 + i * 48, *layout = parts + 128 + i * 32;
    entry[4] = 0x10;
    entry[24] = (uint8_t)(128 + i * 32);
    memcpy(layout, plain, sizeof plain);
    layout[28] = (uint8_t)(1 + 3 * i);
    layout[29] = 0;
  }
  CT_ASSERT_INT(ct__machine_stripes(parts, sizeof parts), 4);
  parts[32 + 48 + 4] = 0; /* the second one has no room on a target yet */
  CT_ASSERT_INT(ct__machine_stripes(parts, sizeof parts), 1);
  CT_ASSERT_INT(ct__machine_stripes(parts, 128), 0);
  parts[14] = parts[15] = 0xff;
  CT_ASSERT_INT(ct__machine_stripes(parts, sizeof parts), 1);
  CT_ASSERT_INT(ct_machine_stripes("/nothing"), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(lists_of_cores),
                                    CT_TEST(memory_of_the_machine),
                                    CT_TEST(paths_of_cgroups),
                                    CT_TEST(limits_of_cgroups),
                                    CT_TEST(file_systems),
                                    CT_TEST(this_machine),
                                    CT_TEST(a_directory),
                                    CT_TEST(a_processor),
                                    CT_TEST(a_processor_that_says_numbers),
                                    CT_TEST(time_that_others_had_the_core),
                                    CT_TEST(energy_of_packages_and_memory),
                                    CT_TEST(energy_that_only_root_may_read),
                                    CT_TEST(energy_of_a_whole_node),
                                    CT_TEST(energy_by_power_meters),
                                    CT_TEST(stripes_of_lustre),
                                    CT_TEST_END};
  return ct_test_main("machine", tests, argc, argv);
}
