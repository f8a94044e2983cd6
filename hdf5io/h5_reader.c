/* The reader of HDF5 data sets: any sample of many files, for many threads.
 *
 * Samples are read in blocks, by place in the file, each block once for all samples of a batch that
 * lie in it.  HDF5 is called under its one lock to fetch bytes; decompression and copies are made
 * outside of it, by as many threads as there are. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_beat.h"
#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_cache.h"
#include "hdf5io/h5_files.h"
#include "hdf5io/h5_list.h"

enum {
  AT_ONCE = 1024, /* samples sorted by place together */
  LARGE_ROWS =
      256 << 10, /* bytes of a block of an array without chunks, if all of them fit in memory */
  SMALL_ROWS = 16 << 10, /* and if not: most of a block is then read in vain */
  LARGE_CHUNK = 4 << 20  /* worth a warning if chunks do not fit in memory */
};

/* Where a wanted sample lies and where it is to go. */
typedef struct pick {
  int64_t block; /* number in the data set */
  int shard, to;
} pick_t;

/* What one thread needs during a read. */
typedef struct work {
  ct__h5_decode_t decode;
  pick_t picks[AT_ONCE];
  struct work *next; /* free ones */
} work_t;

struct ct_reader {
  ct_reader_info_t info;
  char *input, *target;
  ct__h5_list_t shards;
  size_t sample_bytes;

  char *labels;            /* or targets, of all shards; read with a shard's first use */
  size_t label_bytes;      /* of one sample */
  atomic_char *has_labels; /* [shards] */

  ct__h5_cache_t *cache;
  work_t *works, *free_works;
  int nworks;
  pthread_mutex_t lock;  /* of free_works */
  pthread_cond_t worked; /* one became free */

  ct__h5_files_t files; /* under HDF5's lock */
  int told_of_change;   /* likewise */
};

/* ---- opening ---- */

/* The file stays open: its samples are likely to be read soon. */
static int describe(ct_reader_t *r, int shard, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  ct__h5_file_t *f;
  ct__h5_shard_t *s = &r->shards.v[shard];
  ct__h5_lock();
  CT_TRY(ct_file_regular(s->path));
  CT_TRY(ct__h5_files_open(&r->files, shard, s->path, &f));
  CT_TRY(ct__h5_shard_describe(s, f->file, spec));
  ct_beat_progress();
out:
  ct__h5_unlock();
  return rc;
}

/* What another process found out, or what the files say. */
static int know_shards(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  if (spec->known)
    CT_TRY(ct__h5_list_unpack(&r->shards, spec->known, spec->known_bytes));
  else
    CT_TRY(ct__h5_list_find(&r->shards, spec));
  CT_TRY(ct__h5_files_make(&r->files, r->shards.n));
  for (int i = 0; i < r->shards.n && !spec->known; i++)
    CT_TRY(describe(r, i, spec));
  CT_TRY(ct__h5_list_finish(&r->shards));
  const ct__h5_shard_t *first = &r->shards.v[0];
  r->sample_bytes = first->row_bytes;
  r->info.samples = r->shards.samples;
  r->info.x = first->x;
  r->info.channels_last = first->channels_last;
  r->info.classes = first->classes;
  r->info.targets = first->targets;
  r->info.unlabelled = !r->target[0];
  r->label_bytes = r->info.targets ? (size_t)r->info.targets * sizeof(float) : sizeof(int64_t);
out:
  return rc;
}

static void warn_of_files(const ct__h5_list_t *l)
{
  if (l->n > CT__H5_FILES_OPEN)
    ct_log(
        CT_LOG_WARN,
        "%s and the others are %d files, of which a rank keeps %d open: in random order most reads "
        "open one; write the data again as fewer, larger files",
        l->v[0].path, l->n, CT__H5_FILES_OPEN);
}

/* In random order each sample would cost the reading of a whole chunk. */
static void warn_of_chunks(const ct__h5_shard_t *s)
{
  char size[32];
  if (s->block_rows < 2 || ct__h5_shard_block_bytes(s) < LARGE_CHUNK) return;
  ct_log(CT_LOG_WARN,
         "%s: each sample read costs a block of %lld samples (%s), and the data do not fit in "
         "data.cache_mb: raise it, or write the data again with smaller chunks",
         s->path, (long long)s->block_rows,
         ct_text_bytes((double)ct__h5_shard_block_bytes(s), size, sizeof size));
}

/* Numbers the blocks of all shards; returns how many there are. */
static int64_t number_blocks(ct_reader_t *r, int64_t cache_bytes)
{
  int64_t blocks = 0;
  int fits = (double)r->info.samples * (double)r->sample_bytes <= (double)cache_bytes;
  r->info.layout.cached = fits;
  if (!fits) warn_of_chunks(&r->shards.v[0]);
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

static void tell_layout(ct_reader_t *r, int64_t blocks)
{
  const ct__h5_shard_t *first = &r->shards.v[0];
  r->info.layout.files = r->shards.n;
  r->info.layout.blocks = blocks;
  r->info.layout.block_rows = first->block_rows;
  r->info.layout.block_bytes = ct__h5_shard_block_bytes(first);
  r->info.layout.compressed = first->chunk_raw && first->filters.deflate >= 0;
}

static int make_works(ct_reader_t *r, int threads, size_t chunk_bytes, size_t stored_bytes)
{
  int rc = CT_OK;
  int64_t processors = sysconf(_SC_NPROCESSORS_ONLN);
  r->nworks = threads > 0 ? threads : processors > 0 ? (int)processors : 1;
  r->works = ct_mem_array(r->nworks, sizeof *r->works, "the reader's threads");
  if (!r->works) return CT_ERR_NOMEM;
  for (int i = 0; i < r->nworks; i++) {
    work_t *w = &r->works[i];
    ct__h5_decode_t *d = &w->decode;
    w->next = r->free_works;
    r->free_works = w;
    d->raw_cap = stored_bytes;
    d->raw = ct_mem_alloc(d->raw_cap, "a stored chunk");
    if (!d->raw) return CT_ERR_NOMEM;
    CT_TRY(ct__h5_decoder_make(&d->decoder, chunk_bytes));
  }
out:
  return rc;
}

static int make_buffers(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  size_t block = 0, chunk = 1, stored = 1;
  int64_t blocks = number_blocks(r, spec->cache_bytes);
  tell_layout(r, blocks);
  for (int i = 0; i < r->shards.n; i++) {
    const ct__h5_shard_t *s = &r->shards.v[i];
    size_t bytes = ct__h5_shard_block_bytes(s);
    if (bytes > block) block = bytes;
    if (!s->chunk_raw) continue;
    if (bytes > chunk) chunk = bytes;
    if (ct__h5_chunk_bound(&s->filters, bytes) > stored)
      stored = ct__h5_chunk_bound(&s->filters, bytes);
  }
  CT_TRY(make_works(r, spec->threads, chunk, stored));
  int64_t slots = spec->cache_bytes / (int64_t)block;
  if (slots < r->nworks) slots = r->nworks; /* one each, whatever the budget says */
  if (slots > blocks) slots = blocks;
  CT_TRY(ct__h5_cache_open(block, slots, &r->cache));
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
  uint64_t h = ct_hash_text(r->input, ct_hash_text(r->target, 0));
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
  ct__h5_files_clear(&r->files);
  ct__h5_unlock();
  for (int i = 0; r->works && i < r->nworks; i++) {
    ct__h5_decode_t *d = &r->works[i].decode;
    ct_mem_free(d->raw);
    ct__h5_decoder_clear(&d->decoder);
  }
  ct_mem_free(r->works);
  ct__h5_cache_close(r->cache);
  ct__h5_list_clear(&r->shards);
  ct_mem_free(r->labels);
  ct_mem_free(r->has_labels);
  ct_mem_free(r->input);
  ct_mem_free(r->target);
  pthread_cond_destroy(&r->worked);
  pthread_mutex_destroy(&r->lock);
  ct_mem_free(r);
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
  pthread_cond_init(&r->worked, NULL);
  r->input = ct_mem_strdup(spec->input);
  r->target = ct_mem_strdup(spec->target);
  if (!r->input || !r->target) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(know_shards(r, spec));
  warn_of_files(&r->shards);
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
  return i < r->shards.n ? r->shards.v[i].path : NULL;
}

static int hdf5_move(ct_reader_t *r, int i, const char *path)
{
  char *copy = ct_mem_strdup(path);
  if (!copy) return CT_ERR_NOMEM;
  ct__h5_lock();
  ct__h5_files_shut(&r->files, i);
  ct_mem_free(r->shards.v[i].path);
  r->shards.v[i].path = copy;
  r->shards.v[i].stamp.inode = 0;
  ct__h5_unlock();
  return CT_OK;
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

/* ---- reading ---- */

/* The shard that holds a sample: the last that begins at it or before, of those that are not
 * empty. */
static int find_shard(const ct_reader_t *r, int64_t index)
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

/* Once: who writes to one file of a data set may do so to all, and there may be thousands. */
static void tell_of_change(ct_reader_t *r, const ct__h5_shard_t *s)
{
  if (r->told_of_change) return;
  r->told_of_change = 1;
  ct_log_all(
      CT_LOG_WARN,
      "%s: it, or a file that it takes samples from, was modified after its header was read: "
      "samples may be mixed from before and after that (files after this one are not told)",
      s->path);
}

static int need_labels(ct_reader_t *r, int shard)
{
  int rc = CT_OK, changed = 0;
  ct__h5_file_t *f;
  ct__h5_shard_t *s = &r->shards.v[shard];
  if (atomic_load_explicit(&r->has_labels[shard], memory_order_acquire)) return rc;
  ct__h5_lock();
  if (!atomic_load_explicit(&r->has_labels[shard], memory_order_relaxed)) {
    CT_TRY(ct__h5_files_open(&r->files, shard, s->path, &f));
    char *to = r->labels + (size_t)s->first * r->label_bytes;
    CT_TRY(ct__h5_shard_labels(s, f->file, r->target, to, &changed));
    if (changed) tell_of_change(r, s);
    atomic_store_explicit(&r->has_labels[shard], 1, memory_order_release);
  }
out:
  ct__h5_unlock();
  return rc;
}

/* With HDF5's lock: the array of samples of a shard, opened. */
static int open_array(ct_reader_t *r, int shard, ct__h5_array_t **array)
{
  int rc = CT_OK;
  ct__h5_file_t *f;
  ct__h5_shard_t *s = &r->shards.v[shard];
  CT_TRY(ct__h5_files_open(&r->files, shard, s->path, &f));
  if (f->array.id < 0) CT_TRY(ct__h5_shard_open(s, f->file, r->input, &f->array));
  *array = &f->array;
out:
  return rc;
}

static int load_block(ct_reader_t *r, const pick_t *p, ct__h5_decode_t *d, void *to)
{
  int rc = CT_OK;
  ct__h5_array_t *array;
  const ct__h5_shard_t *s = &r->shards.v[p->shard];
  int64_t block = p->block - s->first_block;
  ct__h5_lock();
  rc = open_array(r, p->shard, &array);
  if (rc == CT_OK) rc = ct__h5_shard_fetch(s, array, block, d, to);
  if (rc == CT_OK && array->changed) tell_of_change(r, s);
  ct__h5_unlock();
  if (rc == CT_OK) rc = ct__h5_shard_decode(s, block, d, to);
  return rc;
}

/* By block: each is then needed once, and the disk is read forwards.  Shell's sort: qsort() may
 * allocate. */
static void sort_picks(pick_t *p, int n)
{
  for (int gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11) {
    for (int i = gap; i < n; i++) {
      pick_t x = p[i];
      int k = i;
      for (; k >= gap && p[k - gap].block > x.block; k -= gap)
        p[k] = p[k - gap];
      p[k] = x;
    }
  }
}

/* All picks of one block, the first of those left; returns how many in *used. */
static int copy_block(ct_reader_t *r, work_t *w, const pick_t *p, int n, const int64_t index[],
                      char *x, int *used)
{
  const ct__h5_shard_t *s = &r->shards.v[p->shard];
  int64_t first = s->first + (p->block - s->first_block) * s->block_rows;
  ct__h5_block_t b = ct__h5_cache_hold(r->cache, p->block);
  if (b.load) {
    int rc = load_block(r, p, &w->decode, b.data);
    ct__h5_cache_loaded(r->cache, &b, rc == CT_OK);
    if (rc != CT_OK) return rc;
  }
  int i = 0;
  for (; i < n && p[i].block == p->block; i++) {
    const char *row = (const char *)b.data + (size_t)(index[p[i].to] - first) * s->row_bytes;
    memcpy(x + (size_t)p[i].to * s->row_bytes, row, s->row_bytes);
  }
  ct__h5_cache_release(r->cache, &b);
  *used = i;
  return CT_OK;
}

static int check_index(const ct_reader_t *r, int n, const int64_t index[])
{
  for (int i = 0; i < n; i++)
    if (index[i] < 0 || index[i] >= r->info.samples)
      return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "there is no sample %lld among %lld",
                        (long long)index[i], (long long)r->info.samples);
  return CT_OK;
}

static int read_labels(ct_reader_t *r, int n, const int64_t index[], char *y)
{
  int rc = CT_OK;
  for (int i = 0; i < n; i++) {
    CT_TRY(need_labels(r, find_shard(r, index[i])));
    memcpy(y + (size_t)i * r->label_bytes, r->labels + (size_t)index[i] * r->label_bytes,
           r->label_bytes);
  }
out:
  return rc;
}

static int read_samples(ct_reader_t *r, work_t *w, int n, const int64_t index[], char *x)
{
  int rc = CT_OK, used = 0;
  for (int i = 0; i < n; i++) {
    int shard = find_shard(r, index[i]);
    const ct__h5_shard_t *s = &r->shards.v[shard];
    int64_t block = s->first_block + (index[i] - s->first) / s->block_rows;
    w->picks[i] = (pick_t){block, shard, i};
  }
  sort_picks(w->picks, n);
  for (int i = 0; i < n; i += used)
    CT_TRY(copy_block(r, w, &w->picks[i], n - i, index, x, &used));
out:
  return rc;
}

static work_t *take_work(ct_reader_t *r)
{
  pthread_mutex_lock(&r->lock);
  while (!r->free_works)
    pthread_cond_wait(&r->worked, &r->lock);
  work_t *w = r->free_works;
  r->free_works = w->next;
  pthread_mutex_unlock(&r->lock);
  return w;
}

static void give_work(ct_reader_t *r, work_t *w)
{
  pthread_mutex_lock(&r->lock);
  w->next = r->free_works;
  r->free_works = w;
  pthread_cond_signal(&r->worked);
  pthread_mutex_unlock(&r->lock);
}

static int hdf5_read(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  int rc = CT_OK;
  work_t *w = NULL;
  CT_TRY(check_index(r, n, index));
  if (y && r->info.unlabelled) memset(y, 0, (size_t)n * sizeof(int64_t));
  if (y && !r->info.unlabelled) CT_TRY(read_labels(r, n, index, y));
  if (!x) goto out;
  w = take_work(r);
  for (int first = 0; first < n; first += AT_ONCE) {
    int part = n - first < AT_ONCE ? n - first : AT_ONCE;
    CT_TRY(read_samples(r, w, part, index + first, (char *)x + (size_t)first * r->sample_bytes));
  }
out:
  if (w) give_work(r, w);
  return rc;
}

static void hdf5_place(const ct_reader_t *r, int64_t index, char *buf, size_t cap)
{
  const ct__h5_shard_t *s = &r->shards.v[find_shard(r, index)];
  ct_text_fit(buf, cap, "%s, sample %lld", s->name, (long long)(index - s->first));
}

const ct_reader_ops_t ct_reader_hdf5 = {
    .format = CT__H5_FORMAT,
    .open = hdf5_open,
    .share = hdf5_share,
    .file = hdf5_file,
    .move = hdf5_move,
    .info = hdf5_info,
    .blocks = hdf5_blocks,
    .read = hdf5_read,
    .place = hdf5_place,
    .close = hdf5_close,
};
