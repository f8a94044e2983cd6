/* Reads samples as they are stored, without HDF5: contiguous arrays, and chunks, of which a sample
 * may have many (one per channel, or h5py's automatic ones).
 *
 * Chunks adjacent in the file are read by one request: on a file system with 5 ms per request the
 * number of requests counts, not their size. */
#include "hdf5io/read/h5_block.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/feed/ct_io_times.h"

enum {
  TOGETHER = 1 << 20, /* maximum bytes of chunks read by one request */
  MOST_GAP = 16 << 10 /* maximum gap between two of them, which is read in vain */
};

/* ---- buffers ---- */

/* Returns 1 if a decoded chunk has the memory layout of its samples, so that it can be decoded in
 * place. */
static int is_as_in_memory(const ct__h5_shard_t *s)
{
  for (int i = 1; i < s->ndim; i++)
    if (s->chunk[i] != s->dims[i]) return 0;
  return s->beside == 1 && ct__h5_convert_nothing(&s->convert);
}

static size_t stored_row(const ct__h5_shard_t *s)
{
  return s->row_bytes / s->convert.here * s->convert.stored;
}

/* Returns the offset of the shard's trajectory in a chunk of several. */
static size_t own_part(const ct__h5_shard_t *s)
{
  return (size_t)(s->at.index % s->beside) * (s->chunk_bytes / (size_t)s->beside);
}

static void at_least(size_t *n, size_t bytes)
{
  if (*n < bytes) *n = bytes;
}

void ct__h5_load_add(ct__h5_load_sizes_t *n, const ct__h5_shard_t *s)
{
  if (s->access == CT__H5_IN_A_ROW && s->convert.stored != s->convert.here)
    at_least(&n->raw, (size_t)s->block_rows * stored_row(s));
  if (s->access != CT__H5_IN_CHUNKS) return;
  at_least(&n->raw, ct__h5_chunk_bound(&s->filters, s->chunk_bytes));
  at_least(&n->plain, s->chunk_bytes);
  if (s->row_chunks > 1) at_least(&n->raw, TOGETHER);
  int64_t extents = 2 * s->row_chunks; /* a block smaller than a chunk may span two */
  if (extents > n->extents) n->extents = extents;
}

int ct__h5_load_make(ct__h5_load_t *l, const ct__h5_load_sizes_t *n)
{
  l->raw_cap = n->raw;
  l->raw = ct_mem_alloc(n->raw ? n->raw : 1, "stored chunks");
  l->plain = ct_mem_alloc(n->plain ? n->plain : 1, "a decoded chunk");
  l->extent = ct_mem_array(n->extents, sizeof *l->extent, "offsets of chunks");
  l->extents_cap = n->extents;
  if (!l->raw || !l->plain || !l->extent) return CT_ERR_NOMEM;
  return ct__h5_decoder_make(&l->decoder, n->plain ? n->plain : 1);
}

void ct__h5_load_clear(ct__h5_load_t *l)
{
  ct_mem_free(l->raw);
  ct_mem_free(l->plain);
  ct_mem_free(l->extent);
  ct__h5_decoder_clear(&l->decoder);
  *l = (ct__h5_load_t){0};
}

/* ---- extents of samples ---- */

/* Finds the first element of the k-th chunk among the chunks that hold samples from \a first on. */
static void chunk_start(const ct__h5_shard_t *s, int64_t first, int64_t k, hsize_t *start)
{
  start[0] = (hsize_t)((first / s->chunk[0] + k / s->row_chunks) * s->chunk[0]);
  k %= s->row_chunks;
  for (int i = s->ndim - 1; i > 0; i--) {
    int64_t along = (s->dims[i] + s->chunk[i] - 1) / s->chunk[i];
    start[i] = (hsize_t)(k % along * s->chunk[i]);
    k /= along;
  }
}

/* Returns 1 for a partial edge chunk, which the file may store unfiltered. */
static int is_over_edge(const ct__h5_shard_t *s, const hsize_t *start)
{
  if (s->at.index / s->beside * s->beside + s->beside > s->trajectories) return 1;
  for (int i = 0; i < s->ndim; i++)
    if ((int64_t)start[i] + s->chunk[i] > s->dims[i]) return 1;
  return 0;
}

static int note_chunk(const ct__h5_shard_t *s, const ct__h5_array_t *a, const hsize_t *start,
                      ct__h5_extent_t *out)
{
  hsize_t stored[CT__H5_MOST_STORED];
  ct__h5_shard_stored(s, s->at.index / s->beside * s->beside, start, stored);
  if (!ct__h5_note_chunk(a->id, stored, out)) return 0;
  if (s->edges_plain && is_over_edge(s, start)) out->skipped = ~0u;
  return 1;
}

static int find_in_a_row(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t first,
                         int64_t rows, ct__h5_extent_t *out)
{
  haddr_t start = H5Dget_offset(a->id);
  size_t row = stored_row(s);
  int64_t at = s->at.index * s->count + first;
  *out = (ct__h5_extent_t){(int64_t)start + at * (int64_t)row, rows * (int64_t)row, 0};
  return start != HADDR_UNDEF; /* undefined: never written */
}

int ct__h5_block_find(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t first, int64_t rows,
                      ct__h5_load_t *l)
{
  hsize_t start[CT__H5_MOST_DIMS];
  l->nextents = 1;
  if (s->access == CT__H5_IN_A_ROW) return find_in_a_row(s, a, first, rows, l->extent);
  if (s->access != CT__H5_IN_CHUNKS) return 0;
  int64_t layers = (first + rows - 1) / s->chunk[0] - first / s->chunk[0] + 1;
  l->nextents = layers * s->row_chunks;
  for (int64_t k = 0; k < l->nextents; k++) {
    chunk_start(s, first, k, start);
    if (!note_chunk(s, a, start, &l->extent[k]) || l->extent[k].bytes > (int64_t)l->raw_cap)
      return 0;
  }
  return 1;
}

int ct__h5_row_find(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t row,
                    ct__h5_extent_t *out)
{
  hsize_t start[CT__H5_MOST_DIMS] = {0};
  if (s->access == CT__H5_IN_A_ROW) return find_in_a_row(s, a, row, 1, out);
  int64_t within = row % s->chunk[0];
  start[0] = (hsize_t)(row - within);
  if (!note_chunk(s, a, start, out)) return 0;
  if (out->bytes == 0) return 1;
  if (out->bytes != (int64_t)s->chunk_bytes) return 0;
  out->bytes = (int64_t)stored_row(s);
  out->at += (int64_t)own_part(s) + within * out->bytes;
  return 1;
}

/* ---- from chunks to samples ---- */

/* Intersection of a chunk and the requested samples, in elements. */
typedef struct part {
  int64_t from[CT__H5_MOST_DIMS]; /* start within the chunk */
  int64_t to[CT__H5_MOST_DIMS];   /* start within the requested samples */
  int64_t n[CT__H5_MOST_DIMS];
} part_t;

static part_t block_cut(const ct__h5_shard_t *s, const hsize_t *start, int64_t first, int64_t rows)
{
  part_t p = {0};
  for (int i = 0; i < s->ndim; i++) {
    int64_t begin = (int64_t)start[i], end = begin + s->chunk[i];
    int64_t low = i ? 0 : first, high = i ? s->dims[i] : first + rows;
    int64_t from = begin > low ? begin : low, last = end < high ? end : high;
    p.from[i] = from - begin;
    p.to[i] = from - low;
    p.n[i] = last - from;
  }
  return p;
}

static void block_fill(const ct__h5_shard_t *s, int64_t n, char *to)
{
  size_t bytes = s->convert.here;
  for (int64_t i = 0; i < n; i++)
    memcpy(to + (size_t)i * bytes, s->fill, bytes);
}

/* Copies a decoded chunk, or fill values if NULL, to the samples, in runs that are contiguous in
 * both. */
static void scatter(const ct__h5_shard_t *s, const part_t *p, const char *chunk, char *to)
{
  int last = s->ndim - 1; /* the dim along which runs extend */
  int64_t run = 1, at[CT__H5_MOST_DIMS] = {0};
  for (; last > 0 && p->n[last] == s->chunk[last] && p->n[last] == s->dims[last]; last--)
    run *= p->n[last];
  run *= p->n[last];
  for (;;) {
    int64_t source = 0, target = 0;
    for (int i = 0; i < s->ndim; i++) {
      source = source * s->chunk[i] + p->from[i] + at[i];
      target = (i ? target * s->dims[i] : 0) + p->to[i] + at[i];
    }
    char *dst = to + (size_t)target * s->convert.here;
    if (chunk)
      ct__h5_convert(&s->convert, chunk + (size_t)source * s->convert.stored, (size_t)run, dst);
    else
      block_fill(s, run, dst);
    int i = last - 1;
    for (; i >= 0 && ++at[i] == p->n[i]; i--)
      at[i] = 0;
    if (i < 0) break;
  }
}

static const char *block_decode(const ct__h5_shard_t *s, ct__h5_load_t *l,
                                const ct__h5_extent_t *extent, const char *raw, void *to)
{
  ct_io_phase_t before = ct_io_enter(CT_IO_DECOMPRESS);
  const char *why = ct__h5_chunk_decode(&l->decoder, &s->filters, extent->skipped, raw,
                                        (size_t)extent->bytes, to, s->chunk_bytes);
  ct_io_enter(before);
  ct_io_count(CT_IO_DECOMPRESS, (int64_t)s->chunk_bytes);
  return why;
}

/* Decodes the k-th chunk from its stored bytes at raw. NULL, or a description of the error. */
static const char *use_chunk(const ct__h5_shard_t *s, int64_t first, int64_t rows, ct__h5_load_t *l,
                             int64_t k, const char *raw, char *to)
{
  hsize_t start[CT__H5_MOST_DIMS];
  const ct__h5_extent_t *extent = &l->extent[k];
  chunk_start(s, first, k, start);
  part_t p = block_cut(s, start, first, rows);
  int64_t behind = (int64_t)start[0] - first + s->chunk[0];
  if (extent->bytes == 0) {
    scatter(s, &p, NULL, to);
    return NULL;
  }
  if (is_as_in_memory(s) && p.from[0] == 0 && behind <= s->block_rows)
    return block_decode(s, l, extent, raw, to + (size_t)p.to[0] * s->row_bytes);
  if (s->filters.n == 0 && extent->bytes == (int64_t)s->chunk_bytes) {
    scatter(s, &p, raw + own_part(s), to);
    return NULL;
  }
  const char *why = block_decode(s, l, extent, raw, l->plain);
  if (!why) scatter(s, &p, l->plain + own_part(s), to);
  return why;
}

/* Returns the number of chunks from the k-th on to read by one request; *bytes: their total
 * size. */
static int64_t count_together(const ct__h5_load_t *l, int64_t k, size_t *bytes)
{
  const ct__h5_extent_t *p = &l->extent[k];
  int64_t n = 1, end = p->at + p->bytes;
  for (; p->bytes > 0 && k + n < l->nextents; n++) {
    const ct__h5_extent_t *next = &l->extent[k + n];
    if (next->bytes == 0 || next->at < end || next->at > end + MOST_GAP ||
        next->at + next->bytes - p->at > (int64_t)l->raw_cap)
      break;
    end = next->at + next->bytes;
  }
  *bytes = (size_t)(end - p->at);
  return n;
}

static int read_chunks(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t first,
                       int64_t rows, ct__h5_load_t *l, char *to)
{
  int rc = CT_OK;
  size_t bytes;
  for (int64_t k = 0, n = 1; k < l->nextents; k += n) {
    n = count_together(l, k, &bytes);
    if (bytes > 0) CT_TRY(ct__h5_array_read(a, l->extent[k].at, bytes, l->raw));
    for (int64_t i = k; i < k + n; i++) {
      const char *why =
          use_chunk(s, first, rows, l, i, l->raw + (l->extent[i].at - l->extent[k].at), to);
      if (why)
        CT_FAIL(CT_ERR_FORMAT, "%s: array '%s': the chunk of samples %lld to %lld is damaged: %s",
                s->path, a->name, (long long)first, (long long)(first + rows - 1), why);
    }
  }
out:
  return rc;
}

static int read_in_a_row(const ct__h5_shard_t *s, const ct__h5_array_t *a,
                         const ct__h5_extent_t *extent, ct__h5_load_t *l, void *to)
{
  int rc = CT_OK;
  int is_wider = s->convert.stored != s->convert.here;
  void *stored = is_wider ? l->raw : to;
  CT_TRY(ct__h5_array_read(a, extent->at, (size_t)extent->bytes, stored));
  if (!ct__h5_convert_nothing(&s->convert))
    ct__h5_convert(&s->convert, stored, (size_t)extent->bytes / s->convert.stored, to);
out:
  return rc;
}

int ct__h5_block_name(const ct__h5_array_t *a, int64_t first, int64_t rows, int rc)
{
  if (rc == CT_ERR_IO)
    ct_err_suffix(" (samples %lld to %lld of array '%s')", (long long)first,
                  (long long)(first + rows - 1), a->name);
  return rc;
}

int ct__h5_block_read(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t first, int64_t rows,
                      ct__h5_load_t *l, void *to)
{
  return s->access == CT__H5_IN_A_ROW ? read_in_a_row(s, a, l->extent, l, to)
                                      : read_chunks(s, a, first, rows, l, to);
}

int ct__h5_row_read(const ct__h5_shard_t *s, const ct__h5_array_t *a, int64_t rows,
                    const ct__h5_extent_t *extent, void *to)
{
  int64_t bytes = rows * (int64_t)s->row_bytes;
  if (extent->bytes == 0) {
    block_fill(s, bytes / (int64_t)s->convert.here, to);
    return CT_OK;
  }
  ct__h5_extent_t all = {extent->at, bytes, 0};
  return read_in_a_row(s, a, &all, NULL, to);
}
