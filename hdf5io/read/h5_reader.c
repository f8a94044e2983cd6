/* The HDF5 data set reader: examines the files and allocates the memory for reading (h5_read.c). */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_heartbeat.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/read/h5_encoded.h"
#include "hdf5io/read/h5_reader.h"
#include "hdf5io/read/h5_dims.h"

enum {
  LARGE_ROWS =
      256 << 10, /* block size in bytes for an array without chunks, if the data set fits into
                    memory */
  SMALL_ROWS = 16 << 10, /* and if it does not, since then most of a block is read in vain */
  LARGE_CHUNK = 4 << 20  /* chunks from this size cause a warning if the data does not fit into
                            memory */
};

/* ---- opening ---- */

/* Leaves the file open, since its samples are likely to be read soon. */
static int describe_once(ct_reader_t *r, int shard, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  ct__h5_file_t *f;
  ct__h5_shard_t *s = &r->shards.v[shard];
  ct__h5_reader_lock();
  CT_TRY(ct_file_regular(s->path));
  CT_TRY(ct__h5_files_open(r->files, s->file, s->path, &f));
  CT_TRY(ct__h5_shard_describe(s, f->file, spec));
  ct_heartbeat_progress();
out:
  ct__h5_unlock();
  return rc;
}

/* Retries only after file system errors; a missing name is a configuration error. */
static int reader_describe(ct_reader_t *r, int shard, const ct_reader_spec_t *spec)
{
  int rc;
  const char *path = r->shards.v[shard].path;
  ct__h5_retry_t retry = {0};
  for (;;) {
    ct__h5_note_no_error();
    rc = describe_once(r, shard, spec);
    if (rc == CT_OK || !ct__h5_note_error() || !ct__h5_retry_again(&retry, rc, r->retry_s)) break;
    ct__h5_reader_abandon(r, shard);
  }
  if (rc == CT_OK) ct__h5_retry_done(&retry, path);
  return rc;
}

/* Of a file a sample, only the first is opened: there may be thousands.  The headers of the others
 * are checked when they are read. */
static int describe_all(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK, one = spec->view == CT_VIEW_FILE;
  for (int i = 0; i < r->shards.n && !(one && i); i++)
    CT_TRY(reader_describe(r, i, spec));
  if (one) ct__h5_list_as_first(&r->shards);
  if (spec->view == CT_VIEW_TRAJECTORIES) CT_TRY(ct__h5_list_trajectories(&r->shards));
out:
  return rc;
}

/* Shares the open files with the readers of other arrays, or makes the table of them. */
static int share_files(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK, arrays = spec->readers > 0 ? spec->readers : 1;
  ct__h5_files_t *files = spec->beside ? spec->beside->files : NULL;
  ct__h5_lock();
  if (!files) CT_TRY(ct__h5_files_make(r->shards.files, arrays, r->nscratch, &files));
  CT_TRY(ct__h5_files_join(files, &r->number));
  r->files = files;
out:
  ct__h5_unlock();
  return rc;
}

/* Gets the shards from another process's results or from the files. */
static int know_shards(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  if (spec->known)
    CT_TRY(ct__h5_list_unpack(&r->shards, spec->known, spec->known_bytes));
  else
    CT_TRY(ct__h5_list_find(&r->shards, spec));
  CT_TRY(share_files(r, spec));
  if (!spec->known) CT_TRY(describe_all(r, spec));
  CT_TRY(ct__h5_list_finish(&r->shards));
  const ct__h5_shard_t *first = &r->shards.v[0];
  r->sample_bytes = first->row_bytes;
  r->info.samples = r->shards.samples;
  r->info.x = first->x;
  r->info.channels_last = first->channels_last;
  r->info.classes = first->classes;
  r->info.class_names = first->class_names;
  r->info.documents = first->documents;
  r->info.eot = first->eot;
  r->info.pad = first->pad;
  r->info.text_bytes = ct__h5_list_text_bytes(&r->shards);
  r->info.targets = first->targets;
  r->info.by_pixel = first->by_pixel;
  r->info.unlabelled = !r->spec.target[0];
  ct__h5_see_text(first, r->info.seen, sizeof r->info.seen);
  r->info.doubtful = first->doubtful;
  r->info.wide = first->convert.kind == CT__H5_UINT16;
  if (first->convert.kind == CT__H5_CF) {
    ct__h5_cf_text(&first->convert.cf, r->info.packed, sizeof r->info.packed);
    r->info.missing = isnan(first->convert.cf.fill);
  }
  if (first->encoding) ct__h5_encoded_sum_up(r);
  r->label_bytes = r->info.targets ? (size_t)r->info.targets * sizeof(float) : sizeof(int64_t);
out:
  return rc;
}

static void warn_of_files(const ct__h5_list_t *l)
{
  if (l->files > CT__H5_FILES_OPEN && l->v[0].at.lead >= 0)
    ct_log(CT_LOG_WARN,
           "%s: the data set has %d files, but a rank keeps only %d open: in random order most "
           "reads open a file; repack the data into fewer, larger files",
           l->v[0].path, l->files, CT__H5_FILES_OPEN);
}

/* Reported for the first shard. */
static void log_booleans(const ct_reader_t *r)
{
  if (r->shards.v[0].enumerated)
    ct_log(CT_LOG_INFO,
           "%s: array '%s' is of an enumeration, as booleans are: its numbers are the labels "
           "(false 0, true 1)",
           r->shards.v[0].path, r->spec.target);
}

/* Returns the number of shards that HDF5 itself must read. */
static int count_slow(const ct_reader_t *r)
{
  int n = 0;
  for (int i = 0; i < r->shards.n; i++)
    n += r->shards.v[i].slow[0] != 0;
  return n;
}

static void warn_of_slow(const ct_reader_t *r)
{
  for (int i = 0; i < r->shards.n; i++) {
    const ct__h5_shard_t *s = &r->shards.v[i];
    if (!s->slow[0]) continue;
    ct_log(CT_LOG_WARN,
           "%s: array '%s' %s, so it is read by the HDF5 library, by one thread of a rank at a "
           "time, regardless of data.workers",
           s->path, r->spec.input, s->slow);
    return;
  }
}

/* Warns about large chunks: in random order each sample would cost reading a whole chunk. */
static void warn_of_chunks(const ct__h5_shard_t *s)
{
  char size[32];
  if (s->straight || s->block_rows < 2 || ct__h5_shard_block_bytes(s) < LARGE_CHUNK) return;
  ct_log(CT_LOG_WARN,
         "%s: reading a sample reads a block of %lld samples (%s), and the data do not fit in "
         "data.cache_mb: raise it, or repack the data with smaller chunks",
         s->path, (long long)s->block_rows,
         ct_text_bytes((double)ct__h5_shard_block_bytes(s), size, sizeof size));
}

/* Numbers the blocks of all shards; returns their number. */
static int64_t number_blocks(ct_reader_t *r, int64_t cache_bytes)
{
  int64_t blocks = 0;
  int fits = (double)r->info.samples * (double)r->sample_bytes <= (double)cache_bytes;
  if (r->info.encoded) fits = 0;
  r->info.layout.cached = fits;
  if (!fits && !r->info.encoded) warn_of_chunks(&r->shards.v[0]);
  int64_t rows = (fits ? LARGE_ROWS : SMALL_ROWS) / (int64_t)r->sample_bytes;
  for (int i = 0; i < r->shards.n; i++) {
    ct__h5_shard_t *s = &r->shards.v[i];
    s->order_rows = s->block_rows;
    if (s->block_rows == 0) {
      s->block_rows = rows > 0 ? rows : 1;
      s->order_rows = LARGE_ROWS / (int64_t)s->row_bytes;
    }
    s->first_block = blocks;
    blocks += (s->count + s->block_rows - 1) / s->block_rows;
  }
  return blocks;
}

static void log_layout(ct_reader_t *r, int64_t blocks)
{
  const ct__h5_shard_t *first = &r->shards.v[0];
  r->info.layout.files = r->shards.files;
  r->info.layout.blocks = blocks;
  r->info.layout.block_rows = first->block_rows;
  r->info.layout.block_bytes = ct__h5_shard_block_bytes(first);
  r->info.layout.compressed =
      first->access == CT__H5_IN_CHUNKS && ct__h5_filters_compress(&first->filters);
  r->info.layout.by_hdf5 = count_slow(r);
  int whole = first->access == CT__H5_IN_CHUNKS && !first->straight && !r->info.encoded;
  r->info.layout.dims = whole ? first->ndim : 0;
  for (int i = 0; i < r->info.layout.dims; i++)
    r->info.layout.dim[i] = first->dims[i];
}

static int make_scratch(ct_reader_t *r, const ct__h5_load_sizes_t *sizes)
{
  int rc = CT_OK;
  r->scratch = ct_mem_array(r->nscratch, sizeof *r->scratch, "the reader's threads");
  if (!r->scratch) return CT_ERR_NOMEM;
  for (int i = 0; i < r->nscratch; i++) {
    r->scratch[i].next = r->free_scratch;
    r->free_scratch = &r->scratch[i];
    CT_TRY(ct__h5_load_make(&r->scratch[i].load, sizes));
  }
out:
  return rc;
}

static int make_buffers(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  size_t block = 0;
  ct__h5_load_sizes_t sizes = {.extents = 1};
  int64_t blocks = number_blocks(r, spec->cache_bytes);
  log_layout(r, blocks);
  for (int i = 0; i < r->shards.n; i++) {
    const ct__h5_shard_t *s = &r->shards.v[i];
    size_t bytes = ct__h5_shard_block_bytes(s);
    if (s->encoding) continue;
    int by_range = spec->tokens.context && s->access == CT__H5_IN_CHUNKS;
    if (bytes > block && (by_range || !ct__h5_reader_straight(r, s))) block = bytes;
    ct__h5_load_add(&sizes, s);
  }
  CT_TRY(make_scratch(r, &sizes));
  if (block == 0) block = 1; /* the cache is not used */
  int64_t slots = spec->cache_bytes / (int64_t)block;
  if (slots < r->nscratch) slots = r->nscratch; /* at least one per thread, whatever the budget */
  if (slots > blocks) slots = blocks;
  if (block > 1) r->info.layout.cache_bytes = (size_t)slots * block;
  CT_TRY(ct__h5_cache_open(block, slots, &r->cache));
  r->gave_up = ct_mem_array(r->shards.n, sizeof *r->gave_up, "the shards");
  r->offsets = ct_mem_array(r->shards.n, sizeof *r->offsets, "the shards");
  if (!r->gave_up || !r->offsets) CT_TRY(CT_ERR_NOMEM);
  if (r->info.unlabelled) goto out;
  r->labels = ct_mem_array(r->info.samples, r->label_bytes, "the labels of all samples");
  r->has_labels = ct_mem_array(r->shards.n, sizeof *r->has_labels, "the labels of all samples");
  if (!r->labels || !r->has_labels) rc = CT_ERR_NOMEM;
out:
  return rc;
}

static uint64_t fingerprint(const ct_reader_t *r)
{
  const ct_shape_t *x = &r->info.x;
  uint64_t h = ct_hash_text(r->spec.input, ct_hash_text(r->spec.target, 0));
  h = ct_hash_int(x->dtype, ct_hash_int(r->info.channels_last, h));
  h = ct_hash_int(r->info.targets, h);
  for (int i = 0; i < x->ndim; i++)
    h = ct_hash_int(x->dim[i], h);
  for (int i = 0; i < r->shards.n; i++)
    h = ct_hash_int(r->shards.v[i].count, ct_hash_text(r->shards.v[i].name, h));
  return h;
}

static void hdf5_close(ct_reader_t *r)
{
  if (!r) return;
  ct__h5_lock();
  if (r->files) ct__h5_files_leave(r->files, r->number);
  ct__h5_unlock();
  for (int i = 0; r->scratch && i < r->nscratch; i++)
    ct__h5_load_clear(&r->scratch[i].load);
  ct_mem_free(r->scratch);
  ct__h5_cache_close(r->cache);
  for (int i = 0; r->offsets && i < r->shards.n; i++)
    ct_mem_free(r->offsets[i]);
  ct_mem_free(r->offsets);
  ct__h5_list_clear(&r->shards);
  ct_mem_free(r->labels);
  ct_mem_free(r->has_labels);
  ct_mem_free(r->gave_up);
  ct_mem_free((void *)(uintptr_t)r->spec.input);
  ct_mem_free((void *)(uintptr_t)r->spec.target);
  ct_mem_free((void *)(uintptr_t)r->spec.shape);
  pthread_cond_destroy(&r->freed);
  pthread_mutex_destroy(&r->lock);
  ct_mem_free(r);
}

/* Copies what describes arrays. */
static int copy_spec(const ct_reader_spec_t *from, ct_reader_spec_t *to)
{
  int64_t *shape = NULL;
  *to = (ct_reader_spec_t){.input = ct_mem_strdup(from->input),
                           .target = ct_mem_strdup(from->target),
                           .places = from->places,
                           .as_stored = from->as_stored,
                           .fills_missing = from->fills_missing,
                           .missing = from->missing,
                           .values = from->values,
                           .classes_of_pixels = from->classes_of_pixels,
                           .layout = from->layout,
                           .view = from->view,
                           .tokens = from->tokens,
                           .shape_dims = from->shape_dims};
  if (from->shape) shape = ct_mem_array(from->shape_dims, sizeof *shape, "a shape");
  if (shape) memcpy(shape, from->shape, (size_t)from->shape_dims * sizeof *shape);
  to->shape = shape;
  return to->input && to->target && (shape || !from->shape) ? CT_OK : CT_ERR_NOMEM;
}

static int hdf5_open(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  int rc = CT_OK;
  ct_reader_t *r = NULL;
  *out = NULL;
  CT_TRY(ct_fault("reader.open"));
  r = ct_mem_alloc(sizeof *r, "the reader");
  if (!r) CT_TRY(CT_ERR_NOMEM);
  pthread_mutex_init(&r->lock, NULL);
  pthread_cond_init(&r->freed, NULL);
  CT_TRY(copy_spec(spec, &r->spec));
  int64_t processors = sysconf(_SC_NPROCESSORS_ONLN);
  r->nscratch = spec->threads > 0 ? spec->threads : processors > 0 ? (int)processors : 1;
  r->retry_s = spec->retry_s;
  CT_TRY(know_shards(r, spec));
  warn_of_files(&r->shards);
  log_booleans(r);
  warn_of_slow(r);
  CT_TRY(make_buffers(r, spec));
  r->info.fingerprint = fingerprint(r);
  *out = r;
  r = NULL;
out:
  hdf5_close(r);
  return rc;
}

static int hdf5_share(const ct_reader_t *r, void **bytes, size_t *n)
{
  return ct__h5_list_pack(&r->shards, bytes, n);
}

static const char *hdf5_file(const ct_reader_t *r, int i)
{
  int shard = ct__h5_list_of_file(&r->shards, i);
  return shard >= 0 ? r->shards.v[shard].path : NULL;
}

static int hdf5_move(ct_reader_t *r, int i, const char *path)
{
  int rc = CT_OK, shard = ct__h5_list_of_file(&r->shards, i);
  ct__h5_lock();
  ct__h5_files_shut(r->files, i);
  for (; shard >= 0 && shard < r->shards.n && r->shards.v[shard].file == i; shard++) {
    char *copy = ct_mem_strdup(path);
    if (!copy) CT_TRY(CT_ERR_NOMEM);
    ct_mem_free(r->shards.v[shard].path);
    r->shards.v[shard].path = copy;
    r->shards.v[shard].stamp.inode = 0;
  }
out:
  ct__h5_unlock();
  return rc;
}

static void hdf5_keep_in(ct_reader_t *r, ct_cache_t *cache)
{
  ct__h5_lock();
  for (int i = 0; i < r->shards.files; i++)
    ct__h5_files_shut(r->files, i);
  r->disk_cache = cache;
  ct__h5_unlock();
}

static int hdf5_blocks(const ct_reader_t *r, int i, ct_block_run_t *out)
{
  if (i >= r->shards.n) return 0;
  const ct__h5_shard_t *s = &r->shards.v[i];
  *out = (ct_block_run_t){s->first, s->count, s->order_rows > 0 ? s->order_rows : 1};
  return 1;
}

static const ct_reader_info_t *hdf5_info(const ct_reader_t *r)
{
  return &r->info;
}

static int hdf5_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = ct__h5_reader_read(r, n, index, r->info.encoded ? NULL : x, y);
  if (rc == CT_OK && x && r->info.encoded) rc = ct__h5_encoded_read(r, n, index, x);
  return rc;
}

static void hdf5_location(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  const ct__h5_shard_t *s = &r->shards.v[ct__h5_reader_shard(r, index)];
  long long i = index - s->first;
  if (s->at.lead > 0)
    ct_text_fit(buf, cap, "%s, trajectory %lld, time %lld", s->name, (long long)s->at.index, i);
  else if (s->at.lead < 0)
    ct_text_fit(buf, cap, "%s", s->name);
  else
    ct_text_fit(buf, cap, "%s, %s %lld", s->name, r->spec.tokens.context ? "token" : "sample", i);
}

const ct_reader_ops_t ct_reader_hdf5 = {
    .format = CT__H5_DATA_FORMAT,
    .open = hdf5_open,
    .share = hdf5_share,
    .file = hdf5_file,
    .move = hdf5_move,
    .keep_in = hdf5_keep_in,
    .info = hdf5_info,
    .blocks = hdf5_blocks,
    .shape = ct__h5_encoded_shape,
    .ahead = ct__h5_reader_ahead,
    .read = hdf5_read,
    .range = ct__h5_reader_range,
    .encoded = ct__h5_encoded_file,
    .location = hdf5_location,
    .close = hdf5_close,
};
