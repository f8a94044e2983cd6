/* The mask of cores, read from .preinit_array, which ld.so runs before constructors of libraries
 * and main().  See sched_setaffinity(2). */
#include "host/ct_cores.h"

#include <omp.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long given[CT_MASK_BYTES / sizeof(unsigned long)];

/* Runs before the C library and the sanitizers are ready: a bare system call. */
__attribute__((no_sanitize("address", "undefined", "thread"))) static void
read_given(int argc, char **argv, char **env)
{
  (void)argc;
  (void)argv;
  (void)env;
  syscall(SYS_sched_getaffinity, 0, sizeof given, given);
}

__attribute__((used, section(".preinit_array"))) static void (*const first)(int, char **,
                                                                            char **) = read_given;

/* Reads the mask now if the C library ignores .preinit_array. */
static const void *mask_given(void)
{
  static const unsigned long none[CT_MASK_BYTES / sizeof(unsigned long)];
  if (memcmp(given, none, sizeof given) == 0) read_given(0, NULL, NULL);
  return given;
}

/* ---- masks ---- */

int ct_cores_count(const unsigned char mask[CT_MASK_BYTES])
{
  int count = 0;
  for (int i = 0; i < CT_MASK_BYTES; i++)
    count += __builtin_popcount(mask[i]);
  return count;
}

int ct_cores_given(unsigned char mask[CT_MASK_BYTES])
{
  memcpy(mask, mask_given(), CT_MASK_BYTES);
  return ct_cores_count(mask);
}

/* LLVM's OpenMP creates its places in its first call, from the mask of the calling thread.  By then
 * GNU's OpenMP, which a library may load as well, has bound that thread to one core. */
static int binds(void)
{
  unsigned char before[CT_MASK_BYTES];
  ct_cores_widen(before);
  int yes = omp_get_proc_bind() != omp_proc_bind_false && omp_get_num_places() > 0;
  ct_cores_narrow(before);
  return yes;
}

int ct_cores_omp(unsigned char mask[CT_MASK_BYTES])
{
  enum { MOST = CT_MASK_BYTES * 8 };
  unsigned char places[CT_MASK_BYTES] = {0};
  int ids[MOST];
  int count = ct_cores_given(mask), n_places = binds() ? omp_get_num_places() : 0;
  for (int p = 0; p < n_places; p++) {
    int n = omp_get_place_num_procs(p);
    if (n > MOST) continue;
    omp_get_place_proc_ids(p, ids);
    for (int i = 0; i < n; i++)
      if (ids[i] >= 0 && ids[i] < MOST)
        places[ids[i] / 8] |= (unsigned char)(mask[ids[i] / 8] & 1 << ids[i] % 8);
  }
  int of_places = ct_cores_count(places);
  if (of_places == 0) return count;
  memcpy(mask, places, CT_MASK_BYTES);
  return of_places;
}

int ct_cores_bound(int threads, unsigned char mask[CT_MASK_BYTES])
{
  memset(mask, 0, CT_MASK_BYTES);
  if (!binds()) return 0;
#pragma omp parallel num_threads(threads)
  {
    unsigned char own[CT_MASK_BYTES] = {0};
    (void)!sched_getaffinity(0, sizeof own, (cpu_set_t *)(void *)own);
#pragma omp critical
    for (int i = 0; i < CT_MASK_BYTES; i++)
      mask[i] |= own[i];
  }
  return ct_cores_count(mask);
}

void ct_cores_widen(unsigned char before[CT_MASK_BYTES])
{
  memset(before, 0, CT_MASK_BYTES);
  (void)!sched_getaffinity(0, CT_MASK_BYTES, (cpu_set_t *)(void *)before);
  (void)!sched_setaffinity(0, CT_MASK_BYTES, mask_given());
}

void ct_cores_narrow(const unsigned char before[CT_MASK_BYTES])
{
  (void)!sched_setaffinity(0, CT_MASK_BYTES, (const cpu_set_t *)(const void *)before);
}
