/* Memory shared by the ranks of a node (an MPI-3 window), and reductions in it: each rank reads its
 * slice from all ranks' memory and writes the sum to all of them, which is several times faster
 * than messages inside a node. */
#include "comm/host/window.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/ct_fault.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "comm/ct_mpi.h"
#include "host/ct_numa.h"

enum {
  LINES = 128,           /* two cache lines: the hardware prefetches pairs */
  BLOCK = 1024,          /* floats summed at a time: they stay in the L1 cache */
  PARALLEL_FROM = 65536, /* floats from which several threads pay off */
  SLICE_STEP = 16        /* slices start at cache lines */
};

/* The counters that a rank publishes on its node. */
typedef struct progress {
  _Alignas(LINES) atomic_int_fast64_t posted;
  _Alignas(LINES) atomic_int_fast64_t reduced;
  _Alignas(LINES) atomic_int aborted; /* only that of local rank 0 is used: any rank may set it */
} progress_t;

typedef struct segment {
  MPI_Win win;  /* MPI_WIN_NULL: private memory */
  float *mine;  /* start of this rank's part */
  float **base; /* owned; that of each local rank; shared memory only */
  size_t bytes; /* size of one rank's part */
} segment_t;

struct ct__window {
  const ct_topo_t *t; /* borrowed */
  int sharing;
  int tree; /* 1: sum along a binary tree over the ranks */
  int warned;
  segment_t *segment; /* owned; the allocations */
  int64_t segments, cap;
  segment_t control;      /* memory of the counters */
  progress_t **progress;  /* owned; counters of each local rank */
  int64_t posted;         /* this rank's counter */
  int64_t reduced;        /* this rank's counter */
  int64_t lowest_posted;  /* minimum over all ranks, when last read */
  int64_t lowest_reduced; /* minimum over all ranks, when last read */
};

/* ---- memory ---- */

/* Checks free space. A tmpfs allocates pages when they are touched and raises SIGBUS when none are
 * left, so free space is checked in advance. MPI libraries put windows into /dev/shm; if that does
 * not exist, MPI has to handle it. */
static int enough_space(const ct_topo_t *t, size_t bytes)
{
  int rc = ct_fault("comm.window");
  struct statvfs fs;
  if (rc != CT_OK || t->local_rank != 0 || statvfs("/dev/shm", &fs) != 0) return rc;
  double have = (double)fs.f_bavail * (double)fs.f_frsize;
  double want = (double)bytes * t->local_size + (1 << 20); /* plus MPI's own overhead */
  if (want > have)
    CT_FAIL(CT_ERR_NOMEM, "/dev/shm on %s has %.1f MiB free, but %d ranks need %.1f MiB", t->host,
            have / 1048576, t->local_size, want / 1048576);
out:
  return rc;
}

/* The ranks map the same pages at addresses that differ by whole pages, so all align identically.
 * Each rank touches its own part first, so that it is in NUMA-local memory, or spread over the
 * NUMA nodes of its threads. */
static void find_parts(const ct_topo_t *t, segment_t *s)
{
  for (int r = 0; r < t->local_size; r++) {
    MPI_Aint size;
    int unit;
    void *part;
    CT_MPI(t, MPI_Win_shared_query(s->win, r, &size, &unit, &part));
    s->base[r] = (void *)(((uintptr_t)part + LINES - 1) / LINES * LINES);
  }
  s->mine = s->base[t->local_rank];
  ct_numa_spread(s->mine, s->bytes);
  memset(s->mine, 0, s->bytes);
}

static void free_memory(segment_t *s)
{
  if (s->win != MPI_WIN_NULL)
    MPI_Win_free(&s->win);
  else
    ct_mem_free(s->mine);
}

/* Has the same result on all ranks of the world. */
static int window_share(const ct_topo_t *t, segment_t *s)
{
  int rc = CT_OK;
  size_t page = (size_t)sysconf(_SC_PAGESIZE); /* 64 KiB on some ARM systems */
  size_t bytes = (s->bytes + LINES + page - 1) / page * page;
  void *part;
  s->base = ct_mem_array(t->local_size, sizeof *s->base, "the addresses of the node's memory");
  CT_TRY_ALL(t, s->base ? CT_OK : CT_ERR_NOMEM);
  CT_TRY_ALL(t, enough_space(t, bytes));
  if (MPI_Win_allocate_shared((MPI_Aint)bytes, 1, MPI_INFO_NULL, t->node, &part, &s->win)) {
    s->win = MPI_WIN_NULL;
    rc = ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__,
                    "MPI cannot allocate %zu bytes of shared memory on %s", bytes, t->host);
  }
  CT_TRY_ALL(t, rc);
  find_parts(t, s);
out:
  if (rc != CT_OK && s->win != MPI_WIN_NULL) MPI_Win_free(&s->win);
  return rc;
}

/* Shared on all ranks, or private on all. */
static int make_segment(ct__window_t *w, size_t bytes, segment_t *s)
{
  int rc = CT_OK;
  *s = (segment_t){.win = MPI_WIN_NULL, .bytes = bytes};
  if (w->sharing && window_share(w->t, s) == CT_OK) return CT_OK;
  if (w->sharing && !w->warned) {
    w->warned = 1;
    ct_log(CT_LOG_WARN, "%s: the ranks of a node reduce over MPI, which is slower",
           ct_err_last()->text);
  }
  s->mine = ct_mem_alloc(bytes, "what the ranks reduce");
  CT_TRY_ALL(w->t, s->mine ? CT_OK : CT_ERR_NOMEM);
  ct_numa_spread(s->mine, bytes);
out:
  if (rc != CT_OK) {
    ct_mem_free(s->mine);
    ct_mem_free(s->base);
    *s = (segment_t){.win = MPI_WIN_NULL};
  }
  return rc;
}

int ct__window_alloc(ct__window_t *w, size_t bytes, void **out)
{
  int rc = CT_OK;
  *out = NULL;
  CT_TRY_ALL(w->t, ct_mem_grow((void **)&w->segment, &w->cap, w->segments + 1, sizeof *w->segment));
  CT_TRY(make_segment(w, bytes, &w->segment[w->segments]));
  *out = w->segment[w->segments++].mine;
out:
  return rc;
}

int ct__window_find(const ct__window_t *w, const float *buf, int64_t n, ct__window_location_t *out)
{
  uintptr_t at = (uintptr_t)buf, bytes = (uintptr_t)n * sizeof *buf;
  for (int64_t i = 0; i < w->segments; i++) {
    const segment_t *s = &w->segment[i];
    uintptr_t start = (uintptr_t)s->mine;
    if (s->win == MPI_WIN_NULL || at < start || at + bytes > start + s->bytes) continue;
    *out = (ct__window_location_t){s->base, buf - s->mine};
    return 1;
  }
  return 0;
}

/* ---- creation and destruction ---- */

static int open_counters(ct__window_t *w)
{
  int rc = CT_OK;
  const ct_topo_t *t = w->t;
  w->progress = ct_mem_array(t->local_size, sizeof *w->progress, "the counters of the node");
  CT_TRY_ALL(t, w->progress ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(make_segment(w, sizeof(progress_t), &w->control));
  w->sharing = w->control.win != MPI_WIN_NULL;
  for (int r = 0; w->sharing && r < t->local_size; r++)
    w->progress[r] = (void *)w->control.base[r];
  if (w->sharing) ct_mpi_barrier(t, t->node); /* no rank reads the counters before all are zero */
out:
  return rc;
}

int ct__window_open(const ct_topo_t *t, int may_share, int tree, ct__window_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct__window_t *w = ct_mem_alloc(sizeof *w, "the shared window");
  if (w) w->control.win = MPI_WIN_NULL;
  CT_TRY_ALL(t, w ? CT_OK : CT_ERR_NOMEM);
  w->t = t;
  w->tree = tree;
  w->sharing = may_share && t->equal_nodes && t->local_size > 1;
  if (w->sharing) CT_TRY(open_counters(w));
  *out = w;
  w = NULL;
out:
  ct__window_close(w);
  return rc;
}

static void free_tables(ct__window_t *w)
{
  for (int64_t i = 0; i < w->segments; i++)
    ct_mem_free(w->segment[i].base);
  ct_mem_free(w->control.base);
  ct_mem_free(w->progress);
  ct_mem_free(w->segment);
  ct_mem_free(w);
}

void ct__window_close(ct__window_t *w)
{
  if (!w) return;
  for (int64_t i = 0; i < w->segments; i++)
    free_memory(&w->segment[i]);
  free_memory(&w->control);
  free_tables(w);
}

void ct__window_abort(ct__window_t *w)
{
  if (w->sharing) atomic_store(&w->progress[0]->aborted, 1);
  free_tables(w);
}

int ct__window_sharing(const ct__window_t *w)
{
  return w->sharing;
}

int ct__window_aborted(const ct__window_t *w)
{
  return w->sharing && atomic_load_explicit(&w->progress[0]->aborted, memory_order_relaxed);
}

/* ---- counters ---- */

/* Release order: a rank that reads the counter also sees what this rank wrote to any memory
 * before. */
static void window_show(atomic_int_fast64_t *counter, int64_t value)
{
  atomic_store_explicit(counter, value, memory_order_release);
}

int64_t ct__window_post(ct__window_t *w)
{
  window_show(&w->progress[w->t->local_rank]->posted, ++w->posted);
  return w->posted - 1;
}

void ct__window_reduced(ct__window_t *w)
{
  window_show(&w->progress[w->t->local_rank]->reduced, ++w->reduced);
}

int ct__window_all_posted(ct__window_t *w, int64_t number)
{
  if (w->lowest_posted > number) return 1;
  int64_t lowest = INT64_MAX;
  for (int r = 0; r < w->t->local_size; r++) {
    int64_t at = atomic_load_explicit(&w->progress[r]->posted, memory_order_acquire);
    if (at < lowest) lowest = at;
  }
  w->lowest_posted = lowest;
  return lowest > number;
}

int ct__window_all_reduced(ct__window_t *w, int64_t number)
{
  if (w->lowest_reduced > number) return 1;
  int64_t lowest = INT64_MAX;
  for (int r = 0; r < w->t->local_size; r++) {
    int64_t at = atomic_load_explicit(&w->progress[r]->reduced, memory_order_acquire);
    if (at < lowest) lowest = at;
  }
  w->lowest_reduced = lowest;
  return lowest > number;
}

/* ---- arithmetic ---- */

void ct__window_cut(int64_t *from, int64_t *to, int slices, int index)
{
  int64_t n = *to - *from, end = *to;
  int64_t step = (n + slices - 1) / slices;
  step = (step + SLICE_STEP - 1) / SLICE_STEP * SLICE_STEP;
  *from = index * step < n ? *from + index * step : end;
  *to = end - *from > step ? *from + step : end;
}

void ct__window_slice(const ct__window_t *w, int64_t n, int64_t *from, int64_t *to)
{
  *from = 0;
  *to = n;
  ct__window_cut(from, to, w->t->local_size, w->t->local_rank);
}

/* Computes the sum of one block over 2, 4, 8 … ranks: the sum of its two halves' sums. */
static void sum_tree(float *sum, float *const *base, int ranks, int64_t at, int n)
{
  _Alignas(LINES) float other[BLOCK];
  const float *a = sum, *b = other;
  if (ranks == 2) {
    a = base[0] + at;
    b = base[1] + at;
  } else {
    sum_tree(sum, base, ranks / 2, at, n);
    sum_tree(other, base + ranks / 2, ranks / 2, at, n);
  }
#pragma omp simd
  for (int i = 0; i < n; i++)
    sum[i] = a[i] + b[i];
}

/* Computes the sum of one block over all ranks, in rank order. */
static void sum_block(float *sum, float *const *base, int ranks, int64_t at, int n)
{
  const float *a = base[0] + at, *b = base[1] + at;
#pragma omp simd
  for (int i = 0; i < n; i++)
    sum[i] = a[i] + b[i];
  for (int r = 2; r < ranks; r++) {
    b = base[r] + at;
#pragma omp simd
    for (int i = 0; i < n; i++)
      sum[i] += b[i];
  }
}

void ct__window_sum(ct__window_t *w, ct__window_location_t location, int64_t from, int64_t n,
                    int everywhere)
{
  int ranks = w->t->local_size, me = w->t->local_rank;
  int first = everywhere ? 0 : me, last = everywhere ? ranks - 1 : me;
#pragma omp parallel for schedule(static) num_threads(w->t->threads) if (n >= PARALLEL_FROM)
  for (int64_t i = 0; i < n; i += BLOCK) {
    _Alignas(LINES) float sum[BLOCK];
    int64_t at = location.at + from + i;
    int len = n - i < BLOCK ? (int)(n - i) : BLOCK;
    if (w->tree)
      sum_tree(sum, location.base, ranks, at, len);
    else
      sum_block(sum, location.base, ranks, at, len);
    for (int r = first; r <= last; r++)
      memcpy(location.base[r] + at, sum, (size_t)len * sizeof *sum);
  }
}

void ct__window_spread(ct__window_t *w, ct__window_location_t location, int64_t from, int64_t n)
{
  int me = w->t->local_rank;
  int64_t at = location.at + from;
  for (int r = 0; r < w->t->local_size; r++)
    if (r != me) memcpy(location.base[r] + at, location.base[me] + at, (size_t)n * sizeof(float));
}
