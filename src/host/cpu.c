/* Reads the model and clock of a processor.  Sources: proc(5),
 * Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst.  Virtual machines have no cpufreq:
 * there the clock comes from /proc/cpuinfo. */
#include "host/ct_host_cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_file.h"
/* Reads the first line of a small file; returns 0 if it cannot be read. */
static int cpu_line_of(const char *root, const char *path, char *buf, size_t cap)
{
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  size_t n = ct_file_peek(whole, buf, cap);
  buf[strcspn(buf, "\n")] = '\0';
  return n > 0;
}

/* Returns the number in a file; 0: it cannot be read. */
static double number_of(const char *root, const char *path)
{
  char text[64];
  return cpu_line_of(root, path, text, sizeof text) ? strtod(text, NULL) : 0;
}

static double clock_of(const char *root, int cpu, const char *file)
{
  char path[128];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/%s", cpu, file);
  return 1e-3 * number_of(root, path); /* of kHz */
}

/* Copies the text after the colon of "model name : …", without the newline. */
static void value_of(const char *line, char *buf, size_t cap)
{
  const char *colon = strchr(line, ':');
  if (!colon) return;
  colon += 1 + strspn(colon + 1, " \t");
  snprintf(buf, cap, "%.*s", (int)strcspn(colon, "\n"), colon);
}

/* "CPU part	: 0xd4f" */
static long integer_of(const char *line)
{
  char value[64] = "";
  value_of(line, value, sizeof value);
  return strtol(value, NULL, 0);
}

/* ARM processors report numbers instead of names.  Sources: the kernel's
 * arch/arm64/include/asm/cputype.h, and the manuals of the cores. */
static void name_arm(long maker, long part, char *buf, size_t cap)
{
  static const struct {
    int maker, part;
    const char *name;
  } known[] = {
      {0x41, 0xd03, "ARM Cortex-A53"},       {0x41, 0xd07, "ARM Cortex-A57"},
      {0x41, 0xd08, "ARM Cortex-A72"},       {0x41, 0xd0b, "ARM Cortex-A76"},
      {0x41, 0xd0c, "ARM Neoverse N1"},      {0x41, 0xd40, "ARM Neoverse V1"},
      {0x41, 0xd49, "ARM Neoverse N2"},      {0x41, 0xd4f, "ARM Neoverse V2"},
      {0x41, 0xd84, "ARM Neoverse V3"},      {0x41, 0xd8e, "ARM Neoverse N3"},
      {0x42, 0x516, "Broadcom ThunderX2"},   {0x43, 0x0af, "Cavium ThunderX2"},
      {0x46, 0x001, "Fujitsu A64FX"},        {0x48, 0xd01, "HiSilicon Kunpeng 920"},
      {0x6d, 0xd49, "Microsoft Cobalt 100"}, {0xc0, 0xac3, "Ampere AmpereOne"},
      {0xc0, 0xac4, "Ampere AmpereOne A"},
  };
  snprintf(buf, cap, "ARM, implementer 0x%02lx, part 0x%03lx", maker, part);
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].maker == maker && known[i].part == part) snprintf(buf, cap, "%s", known[i].name);
}

/* Reads the entry of the processor, or the last entry if none has its number. */
static void read_info(const char *root, int cpu, ct_cpu_t *out)
{
  char path[512], line[4096], value[64] = "";
  int at = -1;
  long maker = -1, part = -1;
  snprintf(path, sizeof path, "%s/proc/cpuinfo", root);
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f)) {
    if (strncmp(line, "processor", 9) == 0) {
      if (at == cpu) break;
      value_of(line, value, sizeof value);
      at = atoi(value);
    }
    if (strncmp(line, "model name", 10) == 0) value_of(line, out->model, sizeof out->model);
    if (strncmp(line, "cpu MHz", 7) == 0) {
      value_of(line, value, sizeof value);
      out->mhz = strtod(value, NULL);
    }
    if (strncmp(line, "CPU implementer", 15) == 0) maker = integer_of(line);
    if (strncmp(line, "CPU part", 8) == 0) part = integer_of(line);
  }
  if (f) fclose(f);
  if (!out->model[0] && maker >= 0 && part >= 0)
    name_arm(maker, part, out->model, sizeof out->model);
}

/* Reads whether turbo is on.  The file of Intel's driver is 1 if turbo is off; the file of other
 * drivers is 1 if it is on. */
static int read_turbo(const char *root)
{
  char text[16];
  if (cpu_line_of(root, "/sys/devices/system/cpu/intel_pstate/no_turbo", text, sizeof text))
    return text[0] == '0';
  if (cpu_line_of(root, "/sys/devices/system/cpu/cpufreq/boost", text, sizeof text))
    return text[0] == '1';
  return -1;
}

void ct_cpu_read(const char *root, int cpu, ct_cpu_t *out)
{
  char path[128], text[64];
  memset(out, 0, sizeof *out);
  if (cpu < 0) cpu = sched_getcpu();
  if (cpu < 0) cpu = 0;
  read_info(root, cpu, out);
  double now = clock_of(root, cpu, "scaling_cur_freq");
  if (now > 0) out->mhz = now;
  out->max_mhz = clock_of(root, cpu, "cpuinfo_max_freq");
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu);
  cpu_line_of(root, path, out->governor, sizeof out->governor);
  out->turbo = read_turbo(root);
  out->load = cpu_line_of(root, "/proc/loadavg", text, sizeof text) ? strtod(text, NULL) : -1;
}

double ct_cpu_offcpu(const char *root)
{
  char text[96], *end;
  if (!cpu_line_of(root, "/proc/thread-self/schedstat", text, sizeof text)) return -1;
  strtoull(text, &end, 10); /* nanoseconds on a CPU; the next number is the nanoseconds runnable but
                               off-CPU */
  return *end == ' ' ? 1e-9 * (double)strtoull(end, NULL, 10) : -1;
}
