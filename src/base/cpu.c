/* Sources: proc(5), Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst.  Virtual
 * machines show no cpufreq: there the clock is what /proc/cpuinfo says. */
#include "base/ct_cpu.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first line of a small file; 0: it cannot be read. */
static int line_of(const char *root, const char *path, char *buf, size_t cap)
{
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  int fd = open(whole, O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? -1 : read(fd, buf, cap - 1);
  if (fd >= 0) close(fd);
  buf[n > 0 ? n : 0] = '\0';
  buf[strcspn(buf, "\n")] = '\0';
  return n > 0;
}

/* 0: it is not there. */
static double number_of(const char *root, const char *path)
{
  char text[64];
  return line_of(root, path, text, sizeof text) ? strtod(text, NULL) : 0;
}

static double clock_of(const char *root, int cpu, const char *file)
{
  char path[128];
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/%s", cpu, file);
  return 1e-3 * number_of(root, path); /* of kHz */
}

/* "model name	: …" behind the colon, without the newline. */
static void value_of(const char *line, char *buf, size_t cap)
{
  const char *colon = strchr(line, ':');
  if (!colon) return;
  colon += 1 + strspn(colon + 1, " \t");
  snprintf(buf, cap, "%.*s", (int)strcspn(colon, "\n"), colon);
}

/* The entry of that processor; where there is none of its number, the last one's. */
static void read_info(const char *root, int cpu, ct_cpu_t *out)
{
  char path[512], line[4096], value[64] = "";
  int at = -1;
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
  }
  if (f) fclose(f);
}

/* Intel's own driver says whether it is off, the others whether it is on. */
static int read_turbo(const char *root)
{
  char text[16];
  if (line_of(root, "/sys/devices/system/cpu/intel_pstate/no_turbo", text, sizeof text))
    return text[0] == '0';
  if (line_of(root, "/sys/devices/system/cpu/cpufreq/boost", text, sizeof text))
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
  line_of(root, path, out->governor, sizeof out->governor);
  out->turbo = read_turbo(root);
  out->load = line_of(root, "/proc/loadavg", text, sizeof text) ? strtod(text, NULL) : -1;
}

double ct_cpu_taken(const char *root)
{
  char text[96], *end;
  if (!line_of(root, "/proc/thread-self/schedstat", text, sizeof text)) return -1;
  strtoull(text, &end, 10); /* ns that it ran; behind them those that it waited for a core */
  return *end == ' ' ? 1e-9 * (double)strtoull(end, NULL, 10) : -1;
}
