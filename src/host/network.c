/* Lists network cards from sysfs: Documentation/ABI/testing/sysfs-bus-pci (numa_node),
 * sysfs-class-infiniband, sysfs-class-net.  An InfiniBand or RoCE card also has a network
 * interface; it is listed once, by its InfiniBand name, which MPI uses. */
#include "host/ct_machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_text.h"

enum { MOST = 64 }; /* maximum number of directory entries that are read */

typedef struct names {
  int n;
  char name[MOST][sizeof((ct_nic_t *)0)->name];
} names_t;

static int network_by_name(const void *a, const void *b)
{
  return strcmp(a, b);
}

/* Lists a directory in order; names that are too long are skipped. */
static void network_list(const char *dir, names_t *out)
{
  out->n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && out->n < MOST && (e = readdir(d));)
    if (e->d_name[0] != '.' && strlen(e->d_name) < sizeof out->name[0])
      strcpy(out->name[out->n++], e->d_name);
  if (d) closedir(d);
  qsort(out->name, (size_t)out->n, sizeof out->name[0], network_by_name);
}

/* Reads the first word of a small file; returns 0 if it cannot be read. */
static int network_word_of(const char *dir, const char *file, char *buf, size_t cap)
{
  char path[CT_PATH_MAX];
  if (ct_path_join(path, sizeof path, dir, file) != CT_OK) return 0;
  size_t n = ct_file_peek(path, buf, cap);
  buf[strcspn(buf, " \n")] = '\0';
  return n > 0;
}

/* Returns the NUMA node of a device; -1: not known, as in virtual machines. */
static int numa_of(const char *device)
{
  char text[24];
  int64_t number;
  if (!network_word_of(device, "device/numa_node", text, sizeof text)) return -1;
  if (ct_text_int(text, &number) != CT_OK || number < 0 || number >= CT_NUMA_MAX) return -1;
  return (int)number;
}

/* Returns 1 if both are on the same device. */
static int same_device(const char *a, const char *b)
{
  char path[CT_PATH_MAX], x[CT_PATH_MAX], y[CT_PATH_MAX];
  if (ct_path_join(path, sizeof path, a, "device") != CT_OK || !realpath(path, x)) return 0;
  if (ct_path_join(path, sizeof path, b, "device") != CT_OK || !realpath(path, y)) return 0;
  return strcmp(x, y) == 0;
}

/* Returns 1 for an interface that has a physical device and a connected cable and is not listed as
 * an InfiniBand card. */
static int counts(const char *root, const char *interface, const ct_nic_t *nic, int n)
{
  char path[CT_PATH_MAX], state[24] = "";
  if (ct_path_join(path, sizeof path, interface, "device") != CT_OK || access(path, F_OK) != 0)
    return 0;
  if (network_word_of(interface, "operstate", state, sizeof state) && strcmp(state, "down") == 0)
    return 0;
  for (int i = 0; i < n; i++)
    if (ct_text_format(path, sizeof path, "%s/sys/class/infiniband/%s", root, nic[i].name) ==
            CT_OK &&
        same_device(interface, path))
      return 0;
  return 1;
}

int ct_machine_nics(const char *root, ct_nic_t nic[CT_NICS])
{
  static const char *const class[] = {"infiniband", "net"};
  int n = 0;
  char dir[CT_PATH_MAX], path[CT_PATH_MAX];
  names_t names;
  for (int k = 0; k < 2; k++) {
    if (ct_text_format(dir, sizeof dir, "%s/sys/class/%s", root, class[k]) != CT_OK) break;
    network_list(dir, &names);
    for (int i = 0, infiniband = n; i < names.n && n < CT_NICS; i++) {
      if (ct_path_join(path, sizeof path, dir, names.name[i]) != CT_OK) continue;
      if (k == 1 && !counts(root, path, nic, infiniband)) continue;
      nic[n] = (ct_nic_t){.numa = numa_of(path), .infiniband = k == 0};
      strcpy(nic[n++].name, names.name[i]);
    }
  }
  return n;
}
