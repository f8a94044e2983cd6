#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_cache.h"
#include "hdf5io/h5_shard.h"

enum {
  MAX_OPEN = 64,  /* files open at once */
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
  ct__decode_t decode;
  pick_t picks[AT_ONCE];
  struct work *next; /* free ones */
} work_t;

typedef struct open_file {
  int shard; /* -1: none */
  hid_t file, array;
  uint64_t used; /* the time of its last use */
} open_file_t;

struct ct_reader {
  ct_reader_info_t info;
  char *input, *target;
  ct__shard_t *shards;
  int nshards;
  size_t sample_bytes;

  char *labels;            /* or targets, of all shards; read with a shard's first use */
  size_t label_bytes;      /* of one sample */
  atomic_char *has_labels; /* [nshards] */

  ct__cache_t *cache;
  work_t *works, *free_works;
  int nworks;
  pthread_mutex_t lock;  /* of free_works */
  pthread_cond_t worked; /* one became free */

  open_file_t open[MAX_OPEN]; /* under HDF5's lock */
  uint64_t time;
};

/* ---- opened files: with HDF5's lock ---- */

static void close_file(open_file_t *f)
{
  if (f->shard < 0) return;
  ct__h5_drop(f->array);
  ct__h5_drop(f->file);
  f->shard = -1;
}

/* An empty entry, or the one whose use is the longest ago. */
static open_file_t *oldest_file(ct_reader_t *r)
{
  open_file_t *oldest = &r->open[0];
  for (int i = 0; i < MAX_OPEN; i++) {
    if (r->open[i].shard < 0) return &r->open[i];
    if (r->open[i].used < oldest->used) oldest = &r->open[i];
  }
  return oldest;
}

static int open_file(ct_reader_t *r, int shard, open_file_t **out)
{
  int rc = CT_OK;
  char why[200];
  hid_t file = -1, array = -1;
  const char *path = r->shards[shard].path;
  *out = NULL;
  for (int i = 0; i < MAX_OPEN && !*out; i++)
    if (r->open[i].shard == shard) *out = &r->open[i];
  if (!*out) {
    CT_TRY(ct__h5_open(path, &file));
    array = H5Dopen2(file, r->input, H5P_DEFAULT);
    if (array < 0)
      CT_FAIL(CT_ERR_FORMAT, "%s: cannot open array '%s': %s", path, r->input,
              ct__h5_why(why, sizeof why));
    *out = oldest_file(r);
    close_file(*out);
    **out = (open_file_t){.shard = shard, .file = file, .array = array};
    file = -1;
  }
  (*out)->used = ++r->time;
out:
  ct__h5_drop(file);
  return rc;
}

/* ---- opening ---- */

/* Appends the files of one pattern. */
static int add_files(ct_reader_t *r, const char *dir, const char *pattern, int64_t *cap)
{
  int rc = CT_OK, n;
  char **list = NULL;
  CT_TRY(ct_file_glob(dir, pattern, &list, &n));
  CT_TRY(ct_mem_grow((void **)&r->shards, cap, r->nshards + n, sizeof *r->shards));
  for (int i = 0; i < n; i++) {
    ct__shard_t *s = &r->shards[r->nshards];
    s->path = ct_mem_strdup(list[i]);
    if (!s->path) CT_TRY(CT_ERR_NOMEM);
    const char *slash = strrchr(s->path, '/');
    s->name = slash ? slash + 1 : s->path;
    r->nshards++;
  }
out:
  ct_file_list_free(list, n);
  return rc;
}

static int describe(ct_reader_t *r, int shard, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  hid_t file = -1;
  ct__shard_t *s = &r->shards[shard];
  ct__h5_lock();
  CT_TRY(ct__h5_open(s->path, &file));
  CT_TRY(ct__shard_describe(s, file, spec));
out:
  ct__h5_drop(file);
  ct__h5_unlock();
  return rc;
}

static int check_alike(const ct__shard_t *a, const ct__shard_t *b)
{
  int rc = CT_OK;
  char x[64], y[64];
  if (a->x.dtype != b->x.dtype || !ct_shape_same(&a->x, &b->x) ||
      a->channels_last != b->channels_last)
    CT_FAIL(CT_ERR_FORMAT, "%s: samples are %s %s%s, but those of %s are %s %s%s", b->path,
            ct_dtype_name(b->x.dtype), ct_shape_text(&b->x, x, sizeof x),
            b->channels_last ? " (channels last)" : "", a->path, ct_dtype_name(a->x.dtype),
            ct_shape_text(&a->x, y, sizeof y), a->channels_last ? " (channels last)" : "");
  if (a->targets != b->targets)
    CT_FAIL(CT_ERR_FORMAT, "%s: a sample has %lld targets, but in %s it has %lld (0: a label)",
            b->path, (long long)b->targets, a->path, (long long)a->targets);
  if (a->classes != b->classes)
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute 'classes' is %lld, but in %s it is %lld (0: none)",
            b->path, (long long)b->classes, a->path, (long long)a->classes);
out:
  return rc;
}

static int describe_all(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  int64_t cap = 0;
  for (int i = 0; i < spec->files->n; i++)
    CT_TRY(add_files(r, spec->dir, spec->files->v[i], &cap));
  for (int i = 0; i < r->nshards; i++) {
    ct__shard_t *s = &r->shards[i];
    CT_TRY(describe(r, i, spec));
    CT_TRY(check_alike(&r->shards[0], s));
    s->first = r->info.samples;
    r->info.samples += s->count;
  }
  if (r->info.samples == 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: there is no sample in it%s",
            r->nshards ? r->shards[0].path : "data",
            r->nshards > 1 ? ", nor in the other files" : "");
  r->sample_bytes = r->shards[0].row_bytes;
  r->info.x = r->shards[0].x;
  r->info.channels_last = r->shards[0].channels_last;
  r->info.classes = r->shards[0].classes;
  r->info.targets = r->shards[0].targets;
  r->label_bytes = r->info.targets ? (size_t)r->info.targets * sizeof(float) : sizeof(int64_t);
out:
  return rc;
}

/* In random order each sample would cost the reading of a whole chunk. */
static void warn_of_chunks(const ct__shard_t *s)
{
  char size[32];
  if (s->block_rows < 2 || ct__shard_block_bytes(s) < LARGE_CHUNK) return;
  ct_log(CT_LOG_WARN,
         "%s: each sample read costs a block of %lld samples (%s), and the data do not fit in "
         "data.cache_mb: raise it, or write the data again with smaller chunks",
         s->path, (long long)s->block_rows,
         ct_text_bytes((double)ct__shard_block_bytes(s), size, sizeof size));
}

/* Numbers the blocks of all shards; returns how many there are. */
static int64_t number_blocks(ct_reader_t *r, int64_t cache_bytes)
{
  int64_t blocks = 0;
  int fits = (double)r->info.samples * (double)r->sample_bytes <= (double)cache_bytes;
  if (!fits) warn_of_chunks(&r->shards[0]);
  int64_t rows = (fits ? LARGE_ROWS : SMALL_ROWS) / (int64_t)r->sample_bytes;
  for (int i = 0; i < r->nshards; i++) {
    ct__shard_t *s = &r->shards[i];
    if (s->block_rows == 0) s->block_rows = rows > 0 ? rows : 1;
    s->first_block = blocks;
    blocks += (s->count + s->block_rows - 1) / s->block_rows;
  }
  return blocks;
}

static int make_works(ct_reader_t *r, int threads, size_t block_bytes)
{
  int64_t processors = sysconf(_SC_NPROCESSORS_ONLN);
  r->nworks = threads > 0 ? threads : processors > 0 ? (int)processors : 1;
  r->works = ct_mem_array(r->nworks, sizeof *r->works, "the reader's threads");
  if (!r->works) return CT_ERR_NOMEM;
  for (int i = 0; i < r->nworks; i++) {
    work_t *w = &r->works[i];
    ct__decode_t *d = &w->decode;
    w->next = r->free_works;
    r->free_works = w;
    d->raw_cap = ct__chunk_bound(block_bytes);
    d->raw = ct_mem_alloc(d->raw_cap, "a stored chunk");
    d->scratch = ct_mem_alloc(block_bytes, "a shuffled chunk");
    d->inflate = libdeflate_alloc_decompressor();
    if (!d->raw || !d->scratch) return CT_ERR_NOMEM;
    if (!d->inflate)
      return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for a decompressor");
  }
  return CT_OK;
}

static int make_buffers(ct_reader_t *r, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  size_t block = 0, chunk = 1;
  int64_t blocks = number_blocks(r, spec->cache_bytes);
  for (int i = 0; i < r->nshards; i++) {
    const ct__shard_t *s = &r->shards[i];
    size_t bytes = ct__shard_block_bytes(s);
    if (bytes > block) block = bytes;
    if (s->chunk_raw && bytes > chunk) chunk = bytes;
  }
  CT_TRY(make_works(r, spec->threads, chunk));
  int64_t slots = spec->cache_bytes / (int64_t)block;
  if (slots < r->nworks) slots = r->nworks; /* one each, whatever the budget says */
  if (slots > blocks) slots = blocks;
  CT_TRY(ct__cache_open(block, slots, &r->cache));
  r->labels = ct_mem_array(r->info.samples, r->label_bytes, "the labels of all samples");
  r->has_labels = ct_mem_array(r->nshards, sizeof *r->has_labels, "the labels of all samples");
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
  for (int i = 0; i < r->nshards; i++)
    h = ct_hash_int(r->shards[i].count, ct_hash_text(r->shards[i].name, h));
  return h;
}

static void hdf5_close(ct_reader_t *r)
{
  if (!r) return;
  ct__h5_lock();
  for (int i = 0; i < MAX_OPEN; i++)
    close_file(&r->open[i]);
  ct__h5_unlock();
  for (int i = 0; r->works && i < r->nworks; i++) {
    ct__decode_t *d = &r->works[i].decode;
    ct_mem_free(d->raw);
    ct_mem_free(d->scratch);
    if (d->inflate) libdeflate_free_decompressor(d->inflate);
  }
  ct_mem_free(r->works);
  ct__cache_close(r->cache);
  for (int i = 0; i < r->nshards; i++)
    ct_mem_free(r->shards[i].path);
  ct_mem_free(r->shards);
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
  for (int i = 0; i < MAX_OPEN; i++)
    r->open[i].shard = -1;
  r->input = ct_mem_strdup(spec->input);
  r->target = ct_mem_strdup(spec->target);
  if (!r->input || !r->target) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(describe_all(r, spec));
  CT_TRY(make_buffers(r, spec));
  r->info.fingerprint = fingerprint(r);
  *out = r;
  r = NULL;
out:
  hdf5_close(r);
  return rc;
}

static const ct_reader_info_t *hdf5_info(const ct_reader_t *r)
{
  return &r->info;
}

/* ---- reading ---- */

/* The shard that holds a sample: the last that begins at it or before, of those that are not empty. */
static int find_shard(const ct_reader_t *r, int64_t index)
{
  int low = 0, high = r->nshards - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (r->shards[middle].first <= index)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

static int need_labels(ct_reader_t *r, int shard)
{
  int rc = CT_OK;
  open_file_t *f;
  const ct__shard_t *s = &r->shards[shard];
  if (!r->target[0] || atomic_load_explicit(&r->has_labels[shard], memory_order_acquire)) return rc;
  ct__h5_lock();
  if (!atomic_load_explicit(&r->has_labels[shard], memory_order_relaxed)) {
    CT_TRY(open_file(r, shard, &f));
    char *to = r->labels + (size_t)s->first * r->label_bytes;
    CT_TRY(ct__shard_labels(s, f->file, r->target, to));
    atomic_store_explicit(&r->has_labels[shard], 1, memory_order_release);
  }
out:
  ct__h5_unlock();
  return rc;
}

static int load_block(ct_reader_t *r, const pick_t *p, ct__decode_t *d, void *to)
{
  int rc = CT_OK;
  open_file_t *f;
  const ct__shard_t *s = &r->shards[p->shard];
  int64_t block = p->block - s->first_block;
  ct__h5_lock();
  rc = open_file(r, p->shard, &f);
  if (rc == CT_OK) rc = ct__shard_fetch(s, f->array, block, d, to);
  ct__h5_unlock();
  if (rc == CT_OK) rc = ct__shard_decode(s, block, d, to);
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
  const ct__shard_t *s = &r->shards[p->shard];
  int64_t first = s->first + (p->block - s->first_block) * s->block_rows;
  ct__block_t b = ct__cache_hold(r->cache, p->block);
  if (b.load) {
    int rc = load_block(r, p, &w->decode, b.data);
    ct__cache_loaded(r->cache, &b, rc == CT_OK);
    if (rc != CT_OK) return rc;
  }
  int i = 0;
  for (; i < n && p[i].block == p->block; i++) {
    const char *row = (const char *)b.data + (size_t)(index[p[i].to] - first) * s->row_bytes;
    memcpy(x + (size_t)p[i].to * s->row_bytes, row, s->row_bytes);
  }
  ct__cache_release(r->cache, &b);
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
    const ct__shard_t *s = &r->shards[shard];
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
  if (y) CT_TRY(read_labels(r, n, index, y));
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
  const ct__shard_t *s = &r->shards[find_shard(r, index)];
  snprintf(buf, cap, "%s, sample %lld", s->name, (long long)(index - s->first));
}

const ct_reader_ops_t ct_reader_hdf5 = {
    .size = sizeof(ct_reader_ops_t),
    .name = "hdf5",
    .open = hdf5_open,
    .info = hdf5_info,
    .read = hdf5_read,
    .place = hdf5_place,
    .close = hdf5_close,
};
