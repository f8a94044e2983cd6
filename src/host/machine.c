/* Reads cores, memory, limits and devices.  Sources: proc(5), cgroups(7),
 * Documentation/admin-guide/cgroup-v2.rst, sysfs-devices-system-cpu. */
#include "host/ct_machine.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_text.h"

/* ---- cores ---- */

static int bit(const unsigned char *mask, int i)
{
  return mask[i / 8] >> i % 8 & 1;
}

/* Counts each physical core once, by its first CPU in the mask. */
static int count_physical(const ct_machine_t *m)
{
  char path[128], text[256];
  unsigned char siblings[CT_MASK_BYTES];
  int count = 0;
  for (int i = 0; i < CT_MASK_BYTES * 8; i++) {
    if (!bit(m->mask, i)) continue;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", i);
    if (!ct_file_peek(path, text, sizeof text)) return 0;
    ct__machine_list(text, siblings);
    int first = 0;
    while (first < i && !(bit(siblings, first) && bit(m->mask, first)))
      first++;
    count += first == i;
  }
  return count;
}

static void read_cores(ct_machine_t *m, int thorough)
{
  char text[4096];
  unsigned char online[CT_MASK_BYTES];
  m->cores = ct_cores_given(m->mask);
  if (ct_file_peek("/sys/devices/system/cpu/online", text, sizeof text))
    m->online = ct__machine_list(text, online);
  if (m->online < m->cores) m->online = m->cores;
  m->numa_nodes = ct__numa_cores("", m->mask, m->numa_cores, &m->numa_bare);
  if (thorough) m->physical = count_physical(m);
}

/* ---- control groups ---- */

/* Calls \a take for a file of this process' cgroup and of each parent cgroup, since a limit applies
 * to all children.  In a container the path is the host's but the mount is the container's cgroup:
 * then the file is at the top of the mount. */
static void each_level(const char *mount, const char *path, const char *file,
                       void (*take)(ct_machine_t *, const char *), ct_machine_t *m)
{
  char at[CT_PATH_MAX], full[CT_PATH_MAX], text[128];
  if (ct_text_format(at, sizeof at, "%s", strcmp(path, "/") == 0 ? "" : path) != CT_OK) return;
  for (;;) {
    if (ct_text_format(full, sizeof full, "%s%s/%s", mount, at, file) == CT_OK &&
        ct_file_peek(full, text, sizeof text))
      take(m, text);
    char *slash = strrchr(at, '/');
    if (!slash) break;
    *slash = '\0';
  }
}

/* Reads a limit in bytes, or a limit on the number of tasks, which has the same format. */
static void take_memory(ct_machine_t *m, const char *text)
{
  int64_t limit = ct__machine_limit(text);
  if (limit < m->memory_limit) m->memory_limit = limit;
}

static void take_quota(ct_machine_t *m, const char *text)
{
  double quota = ct__machine_quota(text);
  if (quota > 0 && (m->quota == 0 || quota < m->quota)) m->quota = quota;
}

/* Version 1 has quota and period in two files; a quota of -1 means no limit. */
static void read_quota1(ct_machine_t *m, const char *path)
{
  char dir[CT_PATH_MAX], name[CT_PATH_MAX], quota[32], period[32], both[80];
  if (ct_text_format(dir, sizeof dir, "/sys/fs/cgroup/cpu%s", path) != CT_OK) return;
  if (access(dir, F_OK) != 0) strcpy(dir, "/sys/fs/cgroup/cpu");
  if (ct_path_join(name, sizeof name, dir, "cpu.cfs_quota_us") != CT_OK) return;
  if (!ct_file_peek(name, quota, sizeof quota)) return;
  if (ct_path_join(name, sizeof name, dir, "cpu.cfs_period_us") != CT_OK) return;
  if (!ct_file_peek(name, period, sizeof period)) return;
  snprintf(both, sizeof both, "%s %s", quota, period);
  take_quota(m, both);
}

static void take_cores(ct_machine_t *m, const char *text)
{
  unsigned char cores[CT_MASK_BYTES];
  int count = ct__machine_list(text, cores);
  if (count > 0 && count < m->allowed) m->allowed = count;
}

static void read_cgroups(ct_machine_t *m)
{
  char text[8192], path[CT_PATH_MAX];
  m->memory_limit = CT_NO_LIMIT;
  m->allowed = m->online;
  if (!ct_file_peek("/proc/self/cgroup", text, sizeof text)) return;
  if (ct__machine_cgroup(text, "memory", path, sizeof path))
    each_level("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes", take_memory, m);
  else if (ct__machine_cgroup(text, "", path, sizeof path))
    each_level("/sys/fs/cgroup", path, "memory.max", take_memory, m);
  if (ct__machine_cgroup(text, "cpu", path, sizeof path))
    read_quota1(m, path);
  else if (ct__machine_cgroup(text, "", path, sizeof path))
    each_level("/sys/fs/cgroup", path, "cpu.max", take_quota, m);
  if (ct__machine_cgroup(text, "cpuset", path, sizeof path))
    each_level("/sys/fs/cgroup/cpuset", path, "cpuset.effective_cpus", take_cores, m);
  else if (ct__machine_cgroup(text, "", path, sizeof path))
    each_level("/sys/fs/cgroup", path, "cpuset.cpus.effective", take_cores, m);
  if (m->allowed < m->cores) m->allowed = m->cores;
}

/* ---- memory and limits ---- */

static int64_t limit(int resource)
{
  struct rlimit r;
  if (getrlimit(resource, &r) != 0) return -1;
  return r.rlim_cur == RLIM_INFINITY || r.rlim_cur > INT64_MAX ? CT_NO_LIMIT : (int64_t)r.rlim_cur;
}

static void read_memory(ct_machine_t *m)
{
  char text[4096] = "";
  struct statvfs shm;
  ct_file_peek("/proc/meminfo", text, sizeof text);
  m->memory_total = ct__machine_meminfo(text, "MemTotal:");
  m->memory_free = ct__machine_meminfo(text, "MemAvailable:");
  m->address_space = limit(RLIMIT_AS);
  m->stack = limit(RLIMIT_STACK);
  m->files = limit(RLIMIT_NOFILE);
  m->locked = limit(RLIMIT_MEMLOCK);
  m->core = limit(RLIMIT_CORE);
  m->shm_total = m->shm_free = -1;
  if (statvfs("/dev/shm", &shm) == 0) {
    m->shm_total = (int64_t)(shm.f_blocks * shm.f_frsize);
    m->shm_free = (int64_t)(shm.f_bavail * shm.f_frsize);
  }
}

static void add_limit(char *buf, size_t cap, int64_t most, const char *of_what)
{
  size_t n = strlen(buf);
  if (most == CT_NO_LIMIT) return;
  snprintf(buf + n, cap - n, "%s%" PRId64 " %s", n ? ", " : "; limits: ", most, of_what);
}

void ct_machine_threads(char *buf, size_t cap)
{
  char text[8192], path[CT_PATH_MAX];
  ct_machine_t m = {.memory_limit = CT_NO_LIMIT};
  int64_t addresses = limit(RLIMIT_AS);
  buf[0] = '\0';
  if (ct_file_peek("/proc/self/cgroup", text, sizeof text)) {
    if (ct__machine_cgroup(text, "pids", path, sizeof path))
      each_level("/sys/fs/cgroup/pids", path, "pids.max", take_memory, &m);
    else if (ct__machine_cgroup(text, "", path, sizeof path))
      each_level("/sys/fs/cgroup", path, "pids.max", take_memory, &m);
  }
  add_limit(buf, cap, limit(RLIMIT_NPROC), "processes of the user (ulimit -u)");
  add_limit(buf, cap, m.memory_limit, "of the cgroup (pids.max)");
  add_limit(buf, cap, addresses == CT_NO_LIMIT ? addresses : addresses >> 10,
            "KiB of addresses (ulimit -v)");
}

/* ---- devices, and what is running ---- */

/* Counts the names in a directory that are \a prefix and a digit; all names for "". */
static int count_entries(const char *dir, const char *prefix)
{
  int count = 0;
  size_t len = strlen(prefix);
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    char next = e->d_name[len < strlen(e->d_name) ? len : 0];
    if (e->d_name[0] == '.' || strncmp(e->d_name, prefix, len) != 0) continue;
    count += !len || (next >= '0' && next <= '9');
  }
  if (d) closedir(d);
  return count;
}

/* Returns a hash of the build id of a loaded object; 0: the object does not have a build id.  The
 * notes of an object consist of three words and two texts, each padded to 4 bytes (elf(5)). */
static uint64_t build_number(const struct dl_phdr_info *o)
{
  for (int i = 0; i < o->dlpi_phnum; i++) {
    if (o->dlpi_phdr[i].p_type != PT_NOTE) continue;
    const char *p = (const char *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
    for (const char *end = p + o->dlpi_phdr[i].p_memsz; p + sizeof(ElfW(Nhdr)) < end;) {
      const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)p;
      const char *name = p + sizeof *note, *number = name + (note->n_namesz + 3) / 4 * 4;
      if (note->n_type == NT_GNU_BUILD_ID && strncmp(name, "GNU", 4) == 0)
        return ct_hash(number, note->n_descsz, 0);
      p = number + (note->n_descsz + 3) / 4 * 4;
    }
  }
  return 0;
}

/* Adds an object.  The program comes first, without a name.  The sum over libraries does not depend
 * on their order and excludes the vdso, which the kernel maps. */
static int add_object(struct dl_phdr_info *o, size_t bytes, void *to)
{
  ct_machine_t *m = to;
  (void)bytes;
  if (o->dlpi_name[0] == '\0')
    m->program = m->program ? m->program : build_number(o);
  else if (!strstr(o->dlpi_name, "vdso"))
    m->libraries += build_number(o);
  return 0;
}

void ct_machine_read(ct_machine_t *m, int thorough)
{
  memset(m, 0, sizeof *m); /* with the padding, since the struct is sent as bytes */
  gethostname(m->host, sizeof m->host - 1);
  read_cores(m, thorough);
  read_cgroups(m);
  read_memory(m);
  m->infiniband = count_entries("/sys/class/infiniband", "");
  m->nics = ct_machine_nics("", m->nic);
  m->nvidia = count_entries("/dev", "nvidia");
  dl_iterate_phdr(add_object, m);
}
