/* The prefetching feed: while a step runs, threads read, convert and transform the next batches.
 *
 * Batches are stored in a ring of slots that are allocated once.  The samples of a batch and the
 * draws of its transforms depend on its number alone, so any number of threads yields the same
 * batches in the same order. */
#include "data/feed/ct_feed.h"

#include <pthread.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "host/ct_thread.h"
#include "data/feed/batch.h"
#include "data/transform/transforms.h"

/* A batch being made.  The worker that began it writes it without the lock until it is ready. */
typedef struct slot {
  ct_batch_t batch;
  int ready;
  int rc;            /* return code of making it */
  ct_err_info_t err; /* the error, if making it failed */
} slot_t;

/* With 0 workers the caller makes the batches. */
typedef struct maker {
  ct_feed_t *feed;
  ct__make_t make;
  ct_io_times_t times;
  int64_t *ahead; /* [max] samples of a later batch, for readahead; NULL: no readahead */
  pthread_t thread;
} maker_t;

/* Batches are numbered from 0 in the order of their steps; number k is in slot k % depth. released
 * <= taken <= begun <= released + depth. */
struct ct_feed {
  const ct_dataset_t *data;
  ct_sampler_t sampler;
  int rank, size, max, one_epoch, bytes;
  int workers, running, depth;
  ct_feed_mem_t mem; /* of the arrays of batches */
  slot_t *slots;
  maker_t *makers;

  pthread_mutex_t lock; /* protects everything below and slot_t.ready */
  pthread_cond_t ready; /* signalled when a batch is ready */
  pthread_cond_t space; /* a slot was released, or stop */
  int64_t epoch;        /* epoch of the next batch to begin */
  int64_t cursor;       /* position of that batch in the epoch */
  int64_t begun, taken, released;
  int ended, stop;
};

/* ---- the next batch ---- */

/* Needs f->lock. Begins the batch of the next step. */
static slot_t *feed_begin(ct_feed_t *f)
{
  slot_t *s = &f->slots[f->begun++ % f->depth];
  ct_batch_t *b = &s->batch;
  b->epoch = f->epoch;
  b->cursor = f->cursor;
  b->global = ct_sampler_batch(&f->sampler, f->cursor);
  b->n = (int)ct_sampler_local_batch(&f->sampler, b->global, f->rank, f->size, &b->first);
  s->ready = 0;
  f->cursor += b->global;
  if (f->cursor == ct_sampler_epoch(&f->sampler)) {
    f->cursor = 0;
    f->epoch++;
    f->ended = f->one_epoch;
  }
  return s;
}

static void feed_fill(maker_t *m, slot_t *s)
{
  s->rc = ct__make_batch(&m->make, &s->batch);
  if (s->rc != CT_OK) s->err = *ct_err_last();
}

/* Announces to the reader the batch \a steps after the one at (epoch, cursor). */
static void announce(const maker_t *m, int64_t epoch, int64_t cursor, int64_t steps)
{
  const ct_feed_t *f = m->feed;
  const ct_sampler_t *s = &f->sampler;
  int64_t first, left = (ct_sampler_epoch(s) - cursor + s->batch - 1) / s->batch;
  cursor += steps * s->batch;
  if (steps >= left) {
    epoch += 1 + (steps - left) / ct_sampler_steps(s);
    cursor = (steps - left) % ct_sampler_steps(s) * s->batch;
    if (f->one_epoch) return;
  }
  int n = (int)ct_sampler_local_batch(s, ct_sampler_batch(s, cursor), f->rank, f->size, &first);
  for (int i = 0; i < n; i++)
    m->ahead[i] = ct_sampler_at(s, epoch, cursor + first + i);
  f->data->ops->ahead(f->data->reader, n, m->ahead);
}

/* Announces samples to the reader. The first batch of a feed announces all following ones up to
 * that distance, each later batch one. */
static void look_ahead(const maker_t *m, const ct_batch_t *b, int is_first)
{
  int64_t most = m->feed->data->readahead;
  for (int64_t i = is_first ? 1 : most; m->ahead && i <= most; i++)
    announce(m, b->epoch, b->cursor, i);
}

static void *work(void *arg)
{
  maker_t *m = arg;
  ct_feed_t *f = m->feed;
  ct_io_times_begin(&m->times, CT_IO_WAIT);
  pthread_mutex_lock(&f->lock);
  for (;;) {
    while (!f->stop && (f->ended || f->begun - f->released >= f->depth))
      pthread_cond_wait(&f->space, &f->lock);
    if (f->stop) break;
    int is_first = f->begun == 0;
    slot_t *s = feed_begin(f);
    pthread_mutex_unlock(&f->lock);
    ct_io_enter(CT_IO_COPY);
    look_ahead(m, &s->batch, is_first);
    feed_fill(m, s);
    ct_io_enter(CT_IO_WAIT);
    pthread_mutex_lock(&f->lock);
    s->ready = 1;
    pthread_cond_signal(&f->ready);
  }
  pthread_mutex_unlock(&f->lock);
  ct_io_times_begin(NULL, CT_IO_WAIT);
  return NULL;
}

/* ---- opening ---- */

static int host_alloc(void *ctx, size_t bytes, void **out)
{
  (void)ctx;
  *out = ct_mem_alloc(bytes, "the batches of a feed");
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static void host_free(void *ctx, void *p)
{
  (void)ctx;
  ct_mem_free(p);
}

static int makers_of(const ct_feed_t *f)
{
  return f->workers > 0 ? f->workers : 1;
}

/* Allocates one array of a batch, for n samples. */
static int alloc_array(const ct_feed_t *f, int64_t n, size_t sample, void **out)
{
  size_t bytes;
  if (__builtin_mul_overflow((size_t)n, sample, &bytes)) bytes = SIZE_MAX;
  return f->mem.alloc(f->mem.ctx, bytes, out);
}

static int alloc_batch(ct_feed_t *f, int64_t n, ct_batch_t *b)
{
  int rc = CT_OK, mixes = ct__transforms_mixes(f->data->transforms);
  size_t targets = (size_t)f->data->info.targets;
  size_t sample = (size_t)ct_shape_sample(&f->data->x);
  if (f->bytes)
    CT_TRY(alloc_array(f, n, sample, (void **)&b->bytes));
  else
    CT_TRY(alloc_array(f, n, sample * sizeof *b->x, (void **)&b->x));
  for (int k = 0; k < f->data->extra.n; k++)
    CT_TRY(alloc_array(f, n, (size_t)ct_shape_sample(&f->data->extra.x[k]) * sizeof *b->extra[k],
                       (void **)&b->extra[k]));
  for (int k = 0; k < f->data->more.n; k++)
    CT_TRY(alloc_array(f, n, (size_t)ct_shape_sample(&f->data->more.x[k]) * sizeof(float),
                       &b->more[k]));
  size_t labels = (size_t)f->data->pixels * sizeof *b->labels;
  CT_TRY(alloc_array(f, n, labels, (void **)&b->labels));
  if (f->data->info.weighted) CT_TRY(alloc_array(f, n, sizeof *b->weights, (void **)&b->weights));
  if (targets) CT_TRY(alloc_array(f, n, targets * sizeof *b->targets, (void **)&b->targets));
  if (mixes) CT_TRY(alloc_array(f, n, sizeof *b->labels2, (void **)&b->labels2));
  if (mixes) CT_TRY(alloc_array(f, n, sizeof *b->mix, (void **)&b->mix));
  b->ids = ct_mem_array(n, sizeof *b->ids, "the sample numbers of a batch");
  if (!b->ids) rc = CT_ERR_NOMEM;
out:
  return rc;
}

static void free_batch(const ct_feed_t *f, ct_batch_t *b)
{
  void *arrays[] = {b->x, b->bytes, b->labels, b->labels2, b->mix, b->targets, b->weights};
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
    f->mem.release(f->mem.ctx, arrays[i]);
  for (int k = 0; k < CT_INPUTS_EXTRA; k++)
    f->mem.release(f->mem.ctx, b->extra[k]);
  for (int k = 0; k < CT_TARGETS_MORE; k++)
    f->mem.release(f->mem.ctx, b->more[k]);
  ct_mem_free(b->ids);
}

/* Returns the bytes of a sample in a batch, as alloc_batch() allocates them. */
static size_t batch_bytes(const ct_dataset_t *d, int bytes)
{
  int mixes = ct__transforms_mixes(d->transforms);
  size_t sum = (size_t)ct_shape_sample(&d->x) * (bytes ? 1 : sizeof(float));
  for (int k = 0; k < d->extra.n; k++)
    sum += (size_t)ct_shape_sample(&d->extra.x[k]) * sizeof(float);
  for (int k = 0; k < d->more.n; k++)
    sum += (size_t)ct_shape_sample(&d->more.x[k]) * sizeof(float);
  sum += (size_t)d->pixels * sizeof(int32_t) + (size_t)d->info.targets * sizeof(float);
  if (d->info.weighted) sum += sizeof(float);
  if (mixes) sum += sizeof(int32_t) + sizeof(float);
  return sum + sizeof(int64_t); /* the numbers of the samples */
}

size_t ct_feed_bytes(const ct_dataset_t *d, int64_t n, int workers, int bytes)
{
  size_t depth = workers > 0 ? (size_t)workers + 2 : 1, makers = workers > 0 ? (size_t)workers : 1;
  return depth * (size_t)n * batch_bytes(d, bytes) + makers * ct__make_bytes(d, n, bytes);
}

static int alloc_buffers(ct_feed_t *f)
{
  int rc = CT_OK;
  int64_t n = f->max > 0 ? f->max : 1;
  for (int i = 0; i < f->depth; i++)
    CT_TRY(alloc_batch(f, n, &f->slots[i].batch));
  for (int i = 0; i < f->workers && f->data->readahead > 0 && f->data->ops->ahead; i++) {
    f->makers[i].ahead = ct_mem_array(n, sizeof *f->makers[i].ahead, "the next samples");
    if (!f->makers[i].ahead) CT_TRY(CT_ERR_NOMEM);
  }
  for (int i = 0; i < makers_of(f); i++)
    CT_TRY(ct__make_init(&f->makers[i].make, f->data, &f->sampler, n, f->bytes));
out:
  return rc;
}

static int start_workers(ct_feed_t *f)
{
  int rc = CT_OK;
  for (; f->running < f->workers; f->running++) {
    maker_t *m = &f->makers[f->running];
    m->feed = f;
    CT_TRY(ct_thread_start(&m->thread, 0, work, m, "to read samples (data.workers)"));
  }
out:
  return rc;
}

static int check_start(const ct_dataset_t *d, const ct_sampler_t *s, const ct_feed_opts_t *o)
{
  int rc = CT_OK;
  int64_t first, most = s->batch < s->samples ? s->batch : s->samples;
  if (s->batch < 1 || ct_sampler_epoch(s) < 1 || s->samples > d->info.samples)
    CT_FAIL(CT_ERR_ARG, "a feed of %lld samples in batches of %lld from a data set of %lld",
            (long long)s->samples, (long long)s->batch, (long long)d->info.samples);
  if (o->rank < 0 || o->rank >= o->size)
    CT_FAIL(CT_ERR_ARG, "a feed for rank %d of %d", o->rank, o->size);
  if (o->cursor < 0 || o->cursor > ct_sampler_epoch(s))
    CT_FAIL(CT_ERR_ARG, "a feed from sample %lld of an epoch of %lld", (long long)o->cursor,
            (long long)ct_sampler_epoch(s));
  if (ct_sampler_local_batch(s, most, o->rank, o->size, &first) > INT32_MAX)
    CT_FAIL(CT_ERR_ARG, "a batch of more than %d samples on one rank", INT32_MAX);
  if (o->bytes && !ct_dataset_is_bytes(d))
    CT_FAIL(CT_ERR_ARG,
            "a feed of bytes from samples that are not stored so, or whose values are changed");
out:
  return rc;
}

static int feed_create(const ct_dataset_t *d, const ct_sampler_t *s, const ct_feed_opts_t *o,
                       ct_feed_t **out)
{
  int rc = CT_OK;
  int64_t first;
  ct_feed_t *f = ct_mem_alloc(sizeof *f, "the feed");
  *out = f;
  if (!f) return CT_ERR_NOMEM;
  pthread_mutex_init(&f->lock, NULL);
  pthread_cond_init(&f->ready, NULL);
  pthread_cond_init(&f->space, NULL);
  f->data = d;
  f->sampler = *s;
  f->rank = o->rank;
  f->size = o->size;
  f->max = (int)ct_sampler_local_batch(s, ct_sampler_batch(s, 0), o->rank, o->size, &first);
  f->one_epoch = o->one_epoch;
  f->bytes = o->bytes;
  f->mem = o->mem.alloc ? o->mem : (ct_feed_mem_t){host_alloc, host_free, NULL};
  /* one batch in use, one ready, one being made by each worker */
  f->workers = o->workers;
  f->depth = f->workers > 0 ? f->workers + 2 : 1;
  f->slots = ct_mem_array(f->depth, sizeof *f->slots, "the slots of the feed");
  f->makers = ct_mem_array(makers_of(f), sizeof *f->makers, "the feed's workers");
  if (!f->slots || !f->makers) rc = CT_ERR_NOMEM;
  return rc;
}

int ct_feed_open(const ct_dataset_t *d, const ct_sampler_t *s, const ct_feed_opts_t *o,
                 ct_feed_t **out)
{
  int rc = CT_OK;
  ct_feed_t *f = NULL;
  *out = NULL;
  CT_TRY(check_start(d, s, o));
  CT_TRY(feed_create(d, s, o, &f));
  f->epoch = o->epoch;
  f->cursor = o->cursor;
  if (o->cursor == ct_sampler_epoch(s)) { /* a checkpoint at the end of an epoch */
    f->cursor = 0;
    f->epoch++;
    f->ended = o->one_epoch;
  }
  CT_TRY(alloc_buffers(f));
  CT_TRY(start_workers(f));
  *out = f;
  f = NULL;
out:
  ct_feed_close(f);
  return rc;
}

/* ---- using ---- */

int ct_feed_next(ct_feed_t *f, const ct_batch_t **out)
{
  slot_t *s = NULL;
  *out = NULL;
  pthread_mutex_lock(&f->lock);
  if (f->released < f->taken) { /* the caller no longer uses the last one */
    f->released++;
    pthread_cond_signal(&f->space);
  }
  if (f->workers == 0 && !f->ended) {
    s = feed_begin(f);
    ct_io_times_begin(&f->makers[0].times, CT_IO_COPY);
    feed_fill(&f->makers[0], s);
    ct_io_times_begin(NULL, CT_IO_COPY);
    s->ready = 1;
  }
  /* After the last batch of an epoch no batch was begun and none will be. */
  if (f->taken < f->begun || !f->ended) {
    s = &f->slots[f->taken % f->depth];
    while (f->taken == f->begun || !s->ready)
      pthread_cond_wait(&f->ready, &f->lock);
    f->taken++;
  }
  pthread_mutex_unlock(&f->lock);
  if (!s) return CT_OK;
  if (s->rc != CT_OK) {
    ct_err_put(&s->err);
    return s->rc;
  }
  *out = &s->batch;
  return CT_OK;
}

const ct_batch_t *ct_feed_ahead(ct_feed_t *f)
{
  pthread_mutex_lock(&f->lock);
  const slot_t *s = f->taken < f->begun ? &f->slots[f->taken % f->depth] : NULL;
  int ready = s && s->ready && s->rc == CT_OK;
  pthread_mutex_unlock(&f->lock);
  return ready ? &s->batch : NULL;
}

const ct_io_times_t *ct_feed_times(const ct_feed_t *f, int i)
{
  return i < makers_of(f) ? &f->makers[i].times : NULL;
}

int ct_feed_max(const ct_feed_t *f)
{
  return f->max;
}

void ct_feed_close(ct_feed_t *f)
{
  if (!f) return;
  pthread_mutex_lock(&f->lock);
  f->stop = 1;
  pthread_cond_broadcast(&f->space);
  pthread_mutex_unlock(&f->lock);
  for (int i = 0; i < f->running; i++)
    pthread_join(f->makers[i].thread, NULL);
  for (int i = 0; f->slots && i < f->depth; i++)
    free_batch(f, &f->slots[i].batch);
  for (int i = 0; f->makers && i < makers_of(f); i++) {
    ct__make_clear(&f->makers[i].make);
    ct_mem_free(f->makers[i].ahead);
  }
  ct_mem_free(f->slots);
  ct_mem_free(f->makers);
  pthread_cond_destroy(&f->space);
  pthread_cond_destroy(&f->ready);
  pthread_mutex_destroy(&f->lock);
  ct_mem_free(f);
}
