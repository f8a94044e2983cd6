/* Reads and chooses NUMA nodes of memory.  Sources: numa(7), mbind(2); system calls instead of
 * libnuma, which would be one more library for a few lines. */
#include "host/ct_numa.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

enum { PROBE = 16 << 20, LEAST = 4 << 20 };

/* ---- nodes ---- */

int ct__numa_cores(const char *root, const unsigned char mask[CT_MASK_BYTES], int own[CT_NUMA_MAX],
                   uint64_t *bare)
{
  char path[CT_PATH_MAX], text[4096];
  unsigned char nodes[CT_MASK_BYTES], cores[CT_MASK_BYTES];
  *bare = 0;
  memset(own, 0, CT_NUMA_MAX * sizeof *own);
  snprintf(path, sizeof path, "%s/sys/devices/system/node/online", root);
  if (!ct_file_peek(path, text, sizeof text)) return 0;
  int count = ct__machine_list(text, nodes);
  for (int n = 0; n < CT_NUMA_MAX; n++) {
    if (!(nodes[n / 8] >> n % 8 & 1)) continue;
    snprintf(path, sizeof path, "%s/sys/devices/system/node/node%d/cpulist", root, n);
    if (!ct_file_peek(path, text, sizeof text)) continue;
    if (ct__machine_list(text, cores) == 0) *bare |= (uint64_t)1 << n;
    for (int i = 0; i < CT_MASK_BYTES; i++)
      own[n] += __builtin_popcount(cores[i] & mask[i]);
  }
  return count;
}

int ct_numa_spans(const ct_machine_t *m)
{
  int spans = 0;
  for (int n = 0; n < CT_NUMA_MAX; n++)
    spans += m->numa_cores[n] > 0;
  return spans;
}

double ct_numa_remote(const ct_numa_t *n, const ct_machine_t *m)
{
  double all = 0, remote = 0;
  for (int i = 0; i < CT_NUMA_MAX; i++) {
    all += (double)n->bytes[i];
    if (m->numa_cores[i] == 0 && !(m->numa_bare >> i & 1)) remote += (double)n->bytes[i];
  }
  return all > 0 && ct_numa_spans(m) ? remote / all : 0;
}

void ct_numa_text(const ct_numa_t *n, const ct_machine_t *m, char *buf, size_t cap)
{
  double all = 0;
  size_t len = 0;
  *buf = '\0';
  for (int i = 0; i < CT_NUMA_MAX; i++)
    all += (double)n->bytes[i];
  for (int i = 0; i < CT_NUMA_MAX && len < cap; i++)
    if (n->bytes[i] > 0)
      len += (size_t)snprintf(buf + len, cap - len, "%snode %d: %.0f%%%s", len ? ", " : "", i,
                              100 * (double)n->bytes[i] / all, m->numa_cores[i] ? "" : " (remote)");
}

/* ---- pages ---- */

/* A line is "7f52c0000000 default anon=512 dirty=512 N0=256 N2=256 kernelpagesize_kB=4"; mappings
 * of files have file=PATH. */
static int64_t take_line(const char *line, unsigned long at, ct_numa_t *out, int64_t most)
{
  unsigned long start;
  char policy[sizeof out->policy];
  int64_t here = 0;
  const char *kb = strstr(line, "kernelpagesize_kB=");
  int64_t page = 1024 * (kb ? strtoll(kb + strlen("kernelpagesize_kB="), NULL, 10) : 4);
  if (sscanf(line, "%lx %23s", &start, policy) != 2 || strstr(line, " file=")) return most;
  if (at && start > at) return most;
  if (at) { /* lines are sorted: the last one that starts before it */
    *out = (ct_numa_t){.policy = ""};
    most = -1;
  }
  for (const char *word = strstr(line, " N"); word; word = strstr(word + 1, " N")) {
    int node;
    long long pages;
    if (sscanf(word, " N%d=%lld", &node, &pages) != 2 || node < 0 || node >= CT_NUMA_MAX) continue;
    out->bytes[node] += pages * page;
    here += pages * page;
  }
  if (here <= most) return most;
  memcpy(out->policy, policy, sizeof policy);
  return here;
}

void ct_numa_read(const char *root, const void *at, ct_numa_t *out)
{
  char path[CT_PATH_MAX], line[8192];
  int64_t most = -1;
  memset(out, 0, sizeof *out);
  if (ct_text_format(path, sizeof path, "%s/proc/self/numa_maps", root) != CT_OK) return;
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f))
    most = take_line(line, (uintptr_t)at, out, most);
  if (f) fclose(f);
}

void ct_numa_probe(int threads, ct_numa_t *out)
{
  const int64_t page = sysconf(_SC_PAGESIZE);
  volatile char *p = ct_mem_try(PROBE);
  memset(out, 0, sizeof *out);
  if (!p) return;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < PROBE / page; i++)
    p[i * page] = 1;
  ct_numa_read("", (const void *)p, out);
  ct_mem_free((void *)p);
}

/* ---- policy ---- */

void ct_numa_spread(void *p, size_t bytes)
{
  enum { DEFAULT = 0, INTERLEAVE = 3 }; /* MPOL_… of linux/mempolicy.h */
  unsigned char mask[CT_MASK_BYTES];
  int own[CT_NUMA_MAX], most = 0, policy = DEFAULT;
  uint64_t bare, nodes = 0;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = ((uintptr_t)p + page - 1) / page * page,
            to = ((uintptr_t)p + bytes) / page * page;
  if (bytes < LEAST || omp_get_max_threads() == 1) return;
  ct_cores_given(mask);
  if (ct__numa_cores("", mask, own, &bare) < 2) return;
  for (int n = 0; n < CT_NUMA_MAX; n++) {
    if (own[n] > most) most = own[n];
    if (own[n] > 0) nodes |= (uint64_t)1 << n;
  }
  if (omp_get_max_threads() <= most) return; /* its node has enough cores */
  if (syscall(SYS_get_mempolicy, &policy, NULL, 0L, NULL, 0L) == 0 && policy != DEFAULT) return;
  /* only a wish: containers may forbid it */
  (void)!syscall(SYS_mbind, from, to - from, (long)INTERLEAVE, &nodes, CT_NUMA_MAX + 1L, 0L);
}
