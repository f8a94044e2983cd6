/* Asks the system to read ahead what will be needed soon, so that disks have more concurrent
 * requests than there are reading threads. These are hints: errors are reported later, when the
 * samples are read. */
#include <fcntl.h>

#include "data/feed/ct_io_times.h"
#include "hdf5io/read/h5_reader.h"

/* Returns 1 if the block was requested recently. Blocks of data that stay in memory are requested
 * once; others may have left the page cache before their next use. */
static int was_asked(ct_reader_t *r, int64_t block, int now)
{
  enum { CALLS = 256 };
  long long age = r->info.layout.cached ? 0 : now / CALLS;
  long long key = age << 40 | (block + 1);
  atomic_llong *slot = &r->asked[block % CT__H5_ASKED];
  return atomic_exchange_explicit(slot, key, memory_order_relaxed) == key;
}

/* Needs HDF5's lock. Finds the extents of a block or sample if they are known without reading;
 * returns their number, or 0. */
static int64_t readahead_find(ct_reader_t *r, const ct__h5_pick_t *p, int64_t first, int64_t rows,
                              ct__h5_file_t **f, ct__h5_scratch_t *w,
                              const ct__h5_extent_t **extent)
{
  const ct__h5_shard_t *s = &r->shards.v[p->shard];
  if (s->access == CT__H5_BY_HDF5 || ct__h5_reader_array(r, p->shard, f) != CT_OK) return 0;
  int is_row = ct__h5_reader_straight(r, s);
  *extent = is_row ? w->extents : w->load.extent;
  if (is_row) return ct__h5_row_find(s, ct__h5_reader_own(r, *f), first, w->extents);
  return ct__h5_block_find(s, ct__h5_reader_own(r, *f), first, rows, &w->load) ? w->load.nextents
                                                                               : 0;
}

static void ask(ct_reader_t *r, const ct__h5_pick_t *p, int64_t first, int64_t rows,
                ct__h5_scratch_t *w)
{
  ct__h5_file_t *f;
  const ct__h5_extent_t *extent;
  ct__h5_reader_lock();
  int64_t n = readahead_find(r, p, first, rows, &f, w, &extent);
  if (n) ct__h5_file_hold(f);
  ct__h5_unlock();
  if (!n) return;
  ct_io_phase_t before = ct_io_enter(CT_IO_READ);
  for (int64_t i = 0; i < n; i++)
    if (extent[i].bytes > 0)
      ct__h5_array_ahead(ct__h5_reader_own(r, f), extent[i].at, extent[i].bytes);
  ct_io_enter(before);
  ct__h5_file_release(f);
}

void ct__h5_reader_ahead(ct_reader_t *r, int n, const int64_t index[])
{
  if (r->info.varies || r->info.encoded) return; /* their offsets are in another array */
  /* Of a file a sample, the hint opens the file; it must still be open when it is read. */
  if (r->shards.v[0].at.lead < 0 && n > r->files->most / 8) return;
  ct__h5_scratch_t *w = ct__h5_reader_take(r);
  int now = atomic_fetch_add(&r->asks, 1);
  if (n > CT__H5_AT_ONCE) n = CT__H5_AT_ONCE;
  for (int i = 0; i < n; i++)
    w->picks[i] = (ct__h5_pick_t){index[i], ct__h5_reader_shard(r, index[i]), i};
  ct__h5_reader_sort(w->picks, n);
  for (int i = 0; i < n; i++) {
    const ct__h5_pick_t *p = &w->picks[i];
    const ct__h5_shard_t *s = &r->shards.v[p->shard];
    int64_t each = ct__h5_reader_straight(r, s) ? 1 : s->block_rows;
    int64_t row = p->index - s->first, first = row / each * each;
    int64_t rows = s->count - first < each ? s->count - first : each;
    if (!was_asked(r, s->first + first, now)) ask(r, p, first, rows, w);
  }
  ct__h5_reader_give(r, w);
}
