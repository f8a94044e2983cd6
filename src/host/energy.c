/* Reads energy counters and power meters.  Sources: Documentation/power/powercap/powercap.rst; HPE
 * Cray's "PM counters"; Documentation/hwmon/acpi_power_meter.rst and the NVIDIA Grace Performance
 * Tuning Guide. */
#include "host/ct_energy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_clock.h"
#include "base/ct_file.h"

enum { PACKAGES = 16, PARTS = 4, HWMONS = 64 };

/* Reads a small file; 0: it cannot be read, and errno is set. */
static int energy_read_text(const char *root, const char *path, char *buf, size_t cap)
{
  char whole[512];
  snprintf(whole, sizeof whole, "%s%s", root, path);
  return ct_file_peek(whole, buf, cap) > 0;
}

static void energy_add(ct_energy_t *e, double joule, double range)
{
  if (e->counters == CT_ENERGY_COUNTERS) return;
  e->joule[e->counters] = joule;
  e->range[e->counters++] = range;
}

/* Adds a zone of powercap if its name has the prefix.  Returns 1 if the zone exists. */
static int add_zone(const char *root, const char *zone, const char *name, ct_energy_t *e)
{
  char path[128], text[64], range[64];
  snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%s/name", zone);
  if (!energy_read_text(root, path, text, sizeof text)) return 0;
  if (strncmp(text, name, strlen(name)) != 0) return 1;
  snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%s/max_energy_range_uj", zone);
  energy_read_text(root, path, range, sizeof range);
  snprintf(path, sizeof path, "/sys/class/powercap/intel-rapl:%s/energy_uj", zone);
  if (energy_read_text(root, path, text, sizeof text))
    energy_add(e, 1e-6 * strtod(text, NULL), 1e-6 * strtod(range, NULL));
  else
    snprintf(e->from, sizeof e->from, "not known: RAPL is there, but energy_uj: %s",
             strerror(errno));
  return 1;
}

/* Adds the packages and the memory of each.  Leaves out the zone of the whole board, which contains
 * both. */
static void add_packages(const char *root, ct_energy_t *e)
{
  char zone[16];
  for (int i = 0; i < PACKAGES; i++) {
    snprintf(zone, sizeof zone, "%d", i);
    if (!add_zone(root, zone, "package", e)) break;
    for (int k = 0; k < PARTS; k++) {
      snprintf(zone, sizeof zone, "%d:%d", i, k);
      if (!add_zone(root, zone, "dram", e)) break;
    }
  }
}

/* Adds the meters of Grace that measure a processor with its memory.  Other meters measure parts of
 * a processor, or a module with its GPU. */
static void add_sockets(const char *root, ct_energy_t *e)
{
  static const char name[] = "Grace Power Socket";
  char path[128], text[64];
  double watt = 0;
  for (int i = 0; i < HWMONS; i++) {
    snprintf(path, sizeof path, "/sys/class/hwmon/hwmon%d/device/power1_oem_info", i);
    if (!energy_read_text(root, path, text, sizeof text) ||
        strncmp(text, name, sizeof name - 1) != 0)
      continue;
    snprintf(path, sizeof path, "/sys/class/hwmon/hwmon%d/device/power1_average", i);
    if (!energy_read_text(root, path, text, sizeof text)) {
      snprintf(e->from, sizeof e->from, "not known: hwmon is there, but power1_average: %s",
               strerror(errno));
      return;
    }
    watt += 1e-6 * strtod(text, NULL);
  }
  if (watt <= 0) return;
  e->watt = watt;
  e->at = ct_clock();
  snprintf(e->from, sizeof e->from, "hwmon: processors and their memory, read each second");
}

void ct_energy_read(const char *root, ct_energy_t *out)
{
  char text[64];
  memset(out, 0, sizeof *out);
  snprintf(out->from, sizeof out->from,
           "not known: neither RAPL, pm_counters nor Grace's hwmon are shown here");
  if (energy_read_text(root, "/sys/cray/pm_counters/energy", text, sizeof text)) {
    energy_add(out, strtod(text, NULL), 0);
    snprintf(out->from, sizeof out->from, "pm_counters: the whole node");
    out->whole = 1;
    return;
  }
  add_packages(root, out);
  if (out->counters) snprintf(out->from, sizeof out->from, "RAPL: processors and their memory");
  if (!out->counters) add_sockets(root, out);
}

double ct_energy_between(const ct_energy_t *from, const ct_energy_t *to)
{
  double sum = 0;
  if (from->watt > 0 && to->watt > 0) return (from->watt + to->watt) / 2 * (to->at - from->at);
  if (!to->counters || from->counters != to->counters) return -1;
  for (int i = 0; i < to->counters; i++) {
    double d = to->joule[i] - from->joule[i];
    sum += d < 0 ? d + to->range[i] : d;
  }
  return sum;
}
