/* Reads any samples of an HDF5 data set, from many threads.
 *
 * Samples are read in file order and in blocks, each block once for all samples of a batch in it.
 * Samples that are contiguous in the file and do not fit into the cache are read directly to their
 * destination. HDF5 is called under its lock only to find file extents; reading, decoding and
 * copying are done outside of the lock, by all threads in parallel. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "data/feed/ct_io_times.h"
#include "hdf5io/read/h5_reader.h"

void ct__h5_reader_lock(void)
{
  ct_io_phase_t before = ct_io_enter(CT_IO_LOCK);
  ct__h5_lock();
  ct_io_enter(before);
}

void ct__h5_reader_abandon(ct_reader_t *r, int shard)
{
  ct__h5_reader_lock();
  ct__h5_files_abandon(r->files, r->shards.v[shard].file);
  ct__h5_unlock();
}

int ct__h5_reader_straight(const ct_reader_t *r, const ct__h5_shard_t *s)
{
  return s->straight && !r->info.layout.cached;
}

int ct__h5_reader_shard(const ct_reader_t *r, int64_t index)
{
  int low = 0, high = r->shards.n - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (r->shards.v[middle].first <= index)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* Warns once: a process that modifies one file may modify all, and there may be thousands. */
static void log_change(ct_reader_t *r, const ct__h5_shard_t *s)
{
  if (atomic_exchange(&r->change_logged, 1)) return;
  ct_log_all(CT_LOG_WARN,
             "%s: file or external source changed after it was opened; samples may mix old and new "
             "data (further files are not reported)",
             s->path);
}

int ct__h5_reader_try_again(ct_reader_t *r, int shard, ct__h5_retry_t *retry, int rc)
{
  double most_s = atomic_load(&r->gave_up[shard]) ? 0 : r->retry_s;
  int again = ct__h5_retry_again(retry, rc, most_s);
  if (again) ct__h5_reader_abandon(r, shard);
  if (!again && rc == CT_ERR_IO) atomic_store(&r->gave_up[shard], 1);
  return again;
}

void ct__h5_reader_succeeded(ct_reader_t *r, int shard, const ct__h5_retry_t *retry)
{
  ct__h5_retry_done(retry, r->shards.v[shard].path);
  if (atomic_load_explicit(&r->gave_up[shard], memory_order_relaxed))
    atomic_store(&r->gave_up[shard], 0);
}

static int load_labels(ct_reader_t *r, int shard)
{
  int rc = CT_OK, changed = 0;
  ct__h5_file_t *f;
  ct__h5_shard_t *s = &r->shards.v[shard];
  ct__h5_reader_lock();
  ct_io_phase_t before = ct_io_enter(CT_IO_OPEN);
  if (!atomic_load_explicit(&r->has_labels[shard], memory_order_relaxed)) {
    CT_TRY(ct__h5_files_open(r->files, s->file, s->path, &f));
    char *to = r->labels + (size_t)s->first * r->label_bytes;
    CT_TRY(ct__h5_shard_labels(s, &r->shards.v[0], f->file, &r->spec, to, &changed));
    if (changed) log_change(r, s);
    atomic_store_explicit(&r->has_labels[shard], 1, memory_order_release);
  }
out:
  ct_io_enter(before);
  ct__h5_unlock();
  return rc;
}

static int need_labels(ct_reader_t *r, int shard)
{
  int rc;
  ct__h5_retry_t retry = {0};
  if (atomic_load_explicit(&r->has_labels[shard], memory_order_acquire)) return CT_OK;
  while ((rc = load_labels(r, shard)) != CT_OK && ct__h5_reader_try_again(r, shard, &retry, rc))
    continue;
  if (rc == CT_OK) ct__h5_reader_succeeded(r, shard, &retry);
  return rc;
}

int ct__h5_reader_array(ct_reader_t *r, int shard, ct__h5_file_t **file)
{
  int rc = CT_OK;
  ct__h5_file_t *f;
  ct__h5_shard_t *s = &r->shards.v[shard];
  ct_io_phase_t before = ct_io_enter(CT_IO_OPEN);
  CT_TRY(ct__h5_files_open(r->files, s->file, s->path, &f));
  ct__h5_array_t *a = ct__h5_reader_own(r, f);
  if (a->id < 0) CT_TRY(ct__h5_shard_open(s, &r->shards.v[0], f->file, &r->spec, a));
  if (s->access != CT__H5_BY_HDF5) ct__h5_array_cache(a, r->disk_cache);
  if (a->changed) log_change(r, s);
  *file = f;
out:
  ct_io_enter(before);
  return rc;
}

/* Needs HDF5's lock. Reads samples through HDF5. */
static int read_by_hdf5(ct_reader_t *r, const ct__h5_shard_t *s, ct__h5_array_t *a, int64_t first,
                        int64_t rows, void *to)
{
  int rc = CT_OK;
  ct_io_phase_t before = ct_io_enter(CT_IO_READ);
  CT_TRY(ct__h5_array_need(a, first, rows));
  CT_TRY(ct__h5_shard_read(s, a, first, rows, to));
  if (a->changed) log_change(r, s);
out:
  ct_io_enter(before);
  ct_io_count(CT_IO_READ, rows * (int64_t)s->row_bytes);
  return rc;
}

int ct__h5_reader_check(ct_reader_t *r, const ct__h5_shard_t *s, ct__h5_file_t *f, int64_t first,
                        int64_t rows, int rc)
{
  int changed = 0;
  int is_other = ct__h5_array_stat(ct__h5_reader_own(r, f), &changed);
  if (is_other != CT_OK) rc = ct__h5_block_name(ct__h5_reader_own(r, f), first, rows, is_other);
  if (changed) log_change(r, s);
  ct__h5_file_release(f);
  return rc;
}

static int load_once(ct_reader_t *r, int shard, int64_t first, int64_t rows, ct__h5_load_t *l,
                     void *to)
{
  int rc = CT_OK, found = 0;
  ct__h5_file_t *f;
  const ct__h5_shard_t *s = &r->shards.v[shard];
  ct__h5_reader_lock();
  CT_TRY(ct__h5_reader_array(r, shard, &f));
  found =
      s->access != CT__H5_BY_HDF5 && ct__h5_block_find(s, ct__h5_reader_own(r, f), first, rows, l);
  if (found)
    ct__h5_file_hold(f);
  else
    CT_TRY(read_by_hdf5(r, s, ct__h5_reader_own(r, f), first, rows, to));
out:
  ct__h5_unlock();
  if (found) {
    rc = ct__h5_block_read(s, ct__h5_reader_own(r, f), first, rows, l, to);
    ct__h5_block_name(ct__h5_reader_own(r, f), first, rows, rc);
    rc = ct__h5_reader_check(r, s, f, first, rows, rc);
  }
  return rc;
}

static int load_rows(ct_reader_t *r, int shard, int64_t first, int64_t rows, ct__h5_load_t *l,
                     void *to)
{
  int rc;
  ct__h5_retry_t retry = {0};
  while ((rc = load_once(r, shard, first, rows, l, to)) != CT_OK &&
         ct__h5_reader_try_again(r, shard, &retry, rc))
    continue;
  if (rc == CT_OK) ct__h5_reader_succeeded(r, shard, &retry);
  return rc;
}

static int load_block(ct_reader_t *r, int shard, int64_t block, ct__h5_load_t *l, void *to)
{
  const ct__h5_shard_t *s = &r->shards.v[shard];
  int64_t first = (block - s->first_block) * s->block_rows, left = s->count - first;
  return load_rows(r, shard, first, left < s->block_rows ? left : s->block_rows, l, to);
}

/* Shell sort, since qsort() may allocate. */
void ct__h5_reader_sort(ct__h5_pick_t *p, int n)
{
  for (int gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
    for (int i = gap; i < n; i++) {
      ct__h5_pick_t x = p[i];
      int k = i;
      for (; k >= gap && p[k - gap].index > x.index; k -= gap)
        p[k] = p[k - gap];
      p[k] = x;
    }
  }
}

/* Returns the number of a sample's block in the data set. */
static int64_t block_of(const ct__h5_shard_t *s, int64_t index)
{
  return s->first_block + (index - s->first) / s->block_rows;
}

static ct__h5_block_t hold_block(ct_reader_t *r, int64_t block)
{
  ct_io_phase_t before = ct_io_enter(CT_IO_LOCK);
  ct__h5_block_t b = ct__h5_cache_hold(r->cache, block);
  ct_io_enter(before);
  return b;
}

/* Holds a block of a shard, which is loaded if needed. */
static int need_block(ct_reader_t *r, ct__h5_scratch_t *w, int shard, int64_t block,
                      ct__h5_block_t *b)
{
  int rc = CT_OK;
  *b = hold_block(r, block);
  if (!b->load) return CT_OK;
  rc = load_block(r, shard, block, &w->load, b->data);
  ct__h5_cache_loaded(r->cache, b, rc == CT_OK);
  return rc;
}

/* Copies all leading picks that are in the same block; *used: their number. */
static int copy_block(ct_reader_t *r, ct__h5_scratch_t *w, const ct__h5_pick_t *p, int n, char *x,
                      int *used)
{
  const ct__h5_shard_t *s = &r->shards.v[p->shard];
  int64_t block = block_of(s, p->index);
  int64_t first = s->first + (block - s->first_block) * s->block_rows;
  ct__h5_block_t b;
  int rc = need_block(r, w, p->shard, block, &b);
  if (rc != CT_OK) return rc;
  int i = 0;
  for (; i < n && p[i].shard == p->shard && block_of(s, p[i].index) == block; i++) {
    const char *row = (const char *)b.data + (size_t)(p[i].index - first) * s->row_bytes;
    memcpy(x + (size_t)p[i].to * s->row_bytes, row, s->row_bytes);
  }
  ct__h5_cache_release(r->cache, &b);
  *used = i;
  return CT_OK;
}

/* Needs HDF5's lock. Finds the extents of picks of one shard. Picks that HDF5 must read are read at
 * once and get extent -1. */
static int find_rows(ct_reader_t *r, ct__h5_scratch_t *w, ct__h5_file_t *f, const ct__h5_pick_t *p,
                     int n, char *x)
{
  int rc = CT_OK;
  const ct__h5_shard_t *s = &r->shards.v[p->shard];
  for (int i = 0; i < n; i++) {
    int64_t row = p[i].index - s->first;
    int direct = s->access != CT__H5_BY_HDF5;
    if (direct && ct__h5_row_find(s, ct__h5_reader_own(r, f), row, &w->extents[i])) continue;
    CT_TRY(read_by_hdf5(r, s, ct__h5_reader_own(r, f), row, 1, x + (size_t)p[i].to * s->row_bytes));
    w->extents[i].at = -1;
  }
out:
  return rc;
}

/* Returns the number of leading picks that are contiguous in the file and at their destination. */
static int count_run(const ct__h5_pick_t *p, const ct__h5_extent_t *extent, int n)
{
  int i = 1;
  while (i < n && extent->bytes > 0 && extent[i].bytes > 0 && p[i].to == p[i - 1].to + 1 &&
         extent[i].at == extent[i - 1].at + extent[i - 1].bytes)
    i++;
  return i;
}

static int read_rows(const ct__h5_shard_t *s, const ct__h5_array_t *a, const ct__h5_pick_t *p,
                     const ct__h5_extent_t *extent, int n, char *x)
{
  for (int i = 0, run = 1; i < n; i += run) {
    run = 1;
    if (extent[i].at < 0) continue;
    run = count_run(p + i, extent + i, n - i);
    int rc = ct__h5_row_read(s, a, run, &extent[i], x + (size_t)p[i].to * s->row_bytes);
    if (rc != CT_OK) return ct__h5_block_name(a, p[i].index - s->first, run, rc);
  }
  return CT_OK;
}

static int read_straight_once(ct_reader_t *r, ct__h5_scratch_t *w, const ct__h5_pick_t *p, int n,
                              char *x)
{
  int rc = CT_OK;
  ct__h5_file_t *f = NULL;
  const ct__h5_shard_t *s = &r->shards.v[p->shard];
  ct__h5_reader_lock();
  CT_TRY(ct__h5_reader_array(r, p->shard, &f));
  CT_TRY(find_rows(r, w, f, p, n, x));
  ct__h5_file_hold(f);
out:
  ct__h5_unlock();
  if (rc != CT_OK) return rc;
  int64_t first = p[0].index - s->first, last = p[n - 1].index - s->first;
  rc = read_rows(s, ct__h5_reader_own(r, f), p, w->extents, n, x);
  return ct__h5_reader_check(r, s, f, first, last - first + 1, rc);
}

/* Reads all leading picks of one shard, bypassing the cache. */
static int read_straight(ct_reader_t *r, ct__h5_scratch_t *w, const ct__h5_pick_t *p, int n,
                         char *x, int *used)
{
  int rc, of_shard = 1, shard = p->shard;
  ct__h5_retry_t retry = {0};
  while (of_shard < n && p[of_shard].shard == shard)
    of_shard++;
  *used = of_shard;
  while ((rc = read_straight_once(r, w, p, of_shard, x)) != CT_OK &&
         ct__h5_reader_try_again(r, shard, &retry, rc))
    continue;
  if (rc == CT_OK) ct__h5_reader_succeeded(r, shard, &retry);
  return rc;
}

static int check_index(const ct_reader_t *r, int n, const int64_t index[])
{
  for (int i = 0; i < n; i++)
    if (index[i] < 0 || index[i] >= r->info.samples)
      return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__,
                        "sample %lld is out of range: there are %lld", (long long)index[i],
                        (long long)r->info.samples);
  return CT_OK;
}

static int read_labels(ct_reader_t *r, int n, const int64_t index[], char *y)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++) {
    CT_TRY(need_labels(r, ct__h5_reader_shard(r, index[i])));
    memcpy(y + (size_t)i * r->label_bytes, r->labels + (size_t)index[i] * r->label_bytes,
           r->label_bytes);
  }
out:
  return rc;
}

static int read_samples(ct_reader_t *r, ct__h5_scratch_t *w, int n, const int64_t index[], char *x)
{
  int rc = CT_OK, used = 0;
  for (int i = 0; i < n; i++)
    w->picks[i] = (ct__h5_pick_t){index[i], ct__h5_reader_shard(r, index[i]), i};
  ct__h5_reader_sort(w->picks, n);
  for (int i = 0; i < n; i += used) {
    const ct__h5_pick_t *p = &w->picks[i];
    if (ct__h5_reader_straight(r, &r->shards.v[p->shard]))
      CT_TRY(read_straight(r, w, p, n - i, x, &used));
    else
      CT_TRY(copy_block(r, w, p, n - i, x, &used));
  }
out:
  return rc;
}

ct__h5_scratch_t *ct__h5_reader_take(ct_reader_t *r)
{
  ct_io_phase_t before = ct_io_enter(CT_IO_LOCK);
  pthread_mutex_lock(&r->lock);
  while (!r->free_scratch)
    pthread_cond_wait(&r->freed, &r->lock);
  ct__h5_scratch_t *w = r->free_scratch;
  r->free_scratch = w->next;
  pthread_mutex_unlock(&r->lock);
  ct_io_enter(before);
  return w;
}

void ct__h5_reader_give(ct_reader_t *r, ct__h5_scratch_t *w)
{
  pthread_mutex_lock(&r->lock);
  w->next = r->free_scratch;
  r->free_scratch = w;
  pthread_cond_signal(&r->freed);
  pthread_mutex_unlock(&r->lock);
}

int ct__h5_reader_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  ct__h5_scratch_t *w = NULL;
  CT_TRY(check_index(r, n, index));
  if (y && r->info.unlabelled) memset(y, 0, (size_t)n * sizeof(int64_t));
  if (y && !r->info.unlabelled) CT_TRY(read_labels(r, n, index, y));
  if (!x) goto out;
  w = ct__h5_reader_take(r);
  for (int first = 0; first < n; first += CT__H5_AT_ONCE) {
    int part = n - first < CT__H5_AT_ONCE ? n - first : CT__H5_AT_ONCE;
    CT_TRY(read_samples(r, w, part, index + first, (char *)x + (size_t)first * r->sample_bytes));
  }
out:
  if (w) ct__h5_reader_give(r, w);
  return rc;
}

/* Copies the leading samples of a range that are in the same block; *used: their number. */
static int copy_range(ct_reader_t *r, ct__h5_scratch_t *w, int shard, int64_t row, int64_t n,
                      char *x, int64_t *used)
{
  ct__h5_block_t b;
  const ct__h5_shard_t *s = &r->shards.v[shard];
  int64_t within = row % s->block_rows, left = s->block_rows - within;
  int rc = need_block(r, w, shard, s->first_block + row / s->block_rows, &b);
  if (rc != CT_OK) return rc;
  *used = n < left ? n : left;
  memcpy(x, (const char *)b.data + (size_t)within * s->row_bytes, (size_t)*used * s->row_bytes);
  ct__h5_cache_release(r->cache, &b);
  return CT_OK;
}

/* Samples that are contiguous in the file, and do not all fit into the cache, are read by requests
 * of at most a block. */
int ct__h5_reader_range(ct_reader_t *r, int64_t first, int64_t n, void *x)
{
  int rc = CT_OK;
  ct__h5_scratch_t *w = NULL;
  int shard = ct__h5_reader_shard(r, first);
  const ct__h5_shard_t *s = &r->shards.v[shard];
  int64_t row = first - s->first, used = 0;
  char *to = x;
  if (!r->spec.tokens.context || first < 0 || n < 0 || row > s->count - n)
    CT_FAIL(CT_ERR_ARG, "samples %lld to %lld are not of one run", (long long)first,
            (long long)(first + n - 1));
  int direct = s->access == CT__H5_IN_A_ROW && !r->info.layout.cached;
  w = ct__h5_reader_take(r);
  for (; n > 0; n -= used, row += used, to += (size_t)used * s->row_bytes) {
    used = n < s->block_rows ? n : s->block_rows;
    CT_TRY(direct ? load_rows(r, shard, row, used, &w->load, to)
                  : copy_range(r, w, shard, row, n, to, &used));
  }
out:
  if (w) ct__h5_reader_give(r, w);
  return rc;
}
