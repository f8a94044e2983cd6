/* Allocates counted blocks of memory.  It does not record errors, since recording an error needs
 * memory, too.  Large blocks are separate mappings, aligned for huge pages. */
#include "base/ct_mem.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __GLIBC__
#  include <malloc.h>
#endif

enum { ALIGN = 64, PAGE = 4096, HUGE_PAGE = 2 << 20, MAPPED_FROM = 4 << 20 };

/* Stored in the 64 bytes before a block. */
typedef struct head {
  void *map;        /* start of the mapping; NULL: from aligned_alloc() */
  size_t map_bytes; /* bytes of the mapping */
} head_t;

static atomic_int_fast64_t calls, live, fail_in;

static head_t *head_of(void *p)
{
  return (head_t *)((char *)p - ALIGN);
}

static size_t round_up(size_t n, size_t to)
{
  return (n + to - 1) / to * to;
}

static int must_fail(void)
{
  return atomic_load_explicit(&fail_in, memory_order_relaxed) > 0 &&
         atomic_fetch_sub(&fail_in, 1) == 1;
}

static void *alloc_small(size_t bytes)
{
  size_t total = round_up(bytes, ALIGN) + ALIGN;
  char *raw = aligned_alloc(ALIGN, total);
  if (!raw) return NULL;
  memset(raw, 0, total);
  return raw + ALIGN;
}

/* A new mapping is already zero, so that only the page before the block is touched. */
static void *alloc_mapped(size_t bytes)
{
  size_t total = round_up(bytes, PAGE) + HUGE_PAGE;
  char *map = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return NULL;
  char *p = (char *)round_up((uintptr_t)map + PAGE, HUGE_PAGE);
  madvise(p, round_up(bytes, PAGE), MADV_HUGEPAGE); /* only advice: may fail */
  *head_of(p) = (head_t){map, total};
  return p;
}

void *ct_mem_try(size_t bytes)
{
  void *p = NULL;
  if (!must_fail() && bytes < SIZE_MAX / 2)
    p = bytes < MAPPED_FROM ? alloc_small(bytes) : alloc_mapped(bytes);
  if (!p) return NULL;
  atomic_fetch_add(&calls, 1);
  atomic_fetch_add(&live, 1);
  return p;
}

void ct_mem_free(void *p)
{
  if (!p) return;
  head_t *head = head_of(p);
  if (head->map)
    munmap(head->map, head->map_bytes);
  else
    free(head);
  atomic_fetch_sub(&live, 1);
}

int64_t ct_mem_calls(void)
{
  return atomic_load(&calls);
}

int64_t ct_mem_live(void)
{
  return atomic_load(&live);
}

void ct_mem_fail_at(int64_t n)
{
  atomic_store(&fail_in, n);
}

size_t ct_mem_peak_rss(void)
{
  struct rusage use;
  return getrusage(RUSAGE_SELF, &use) == 0 ? (size_t)use.ru_maxrss * 1024 : 0;
}

size_t ct_mem_rss(void)
{
  char text[128];
  unsigned long pages = 0;
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[n > 0 ? n : 0] = '\0';
  if (sscanf(text, "%*u %lu", &pages) != 1) return 0;
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

void ct_mem_trim(void)
{
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

int ct_mem_peak_reset(void)
{
  ct_mem_trim(); /* excludes freed memory that is kept for reuse */
  int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  int done = write(fd, "5", 1) == 1;
  close(fd);
  return done;
}
