/* The feed for a device with memory of its own: where batches lie, and looking ahead. */
#include <pthread.h>
#include <string.h>

#include "tests/unit/feed_fake.h"

/* ---- memory of the caller's ---- */

typedef struct store {
  int64_t arrays;  /* not yet freed */
  int64_t fail_at; /* the nth allocation; 0: none */
} store_t;

static int store_alloc(void *ctx, size_t bytes, void **out)
{
  store_t *s = ctx;
  *out = NULL;
  if (s->fail_at && --s->fail_at == 0)
    return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__, "no page can be locked");
  *out = ct_mem_alloc(bytes, "a test");
  s->arrays++;
  return CT_OK;
}

static void store_release(void *ctx, void *p)
{
  store_t *s = ctx;
  s->arrays -= p != NULL;
  ct_mem_free(p);
}

/* x and labels of each batch: workers + 2 of them. */
static void batches_lie_in_the_memory_that_is_given(void)
{
  store_t store = {0};
  ct_dataset_t d = open_fake(20);
  ct_sampler_t s = sampler(20, 8);
  ct_feed_opts_t o = {.size = 1, .workers = 2, .mem = {store_alloc, store_release, &store}};
  ct_feed_t *f;
  const ct_batch_t *b;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &o, &f));
  CT_ASSERT_INT(store.arrays, 2 * 4);
  CT_ASSERT_OK(ct_feed_next(f, &b));
  check_batch(b, &s, 0, 0, 0, 1);
  ct_feed_close(f);
  CT_ASSERT_INT(store.arrays, 0);
  for (int nth = 1; nth <= 2 * 4; nth++) {
    store.fail_at = nth;
    CT_ASSERT_FAILS(ct_feed_open(&d, &s, &o, &f), CT_ERR_DEVICE, "no page can be locked");
    CT_ASSERT_INT(store.arrays, 0);
  }
  ct_dataset_close(&d);
}

/* ---- looking ahead ---- */

static const ct_batch_t *wait_ahead(ct_feed_t *f)
{
  const ct_batch_t *b = NULL;
  for (int i = 0; i < 2000 && !(b = ct_feed_ahead(f)); i++)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  return b;
}

/* What was seen ahead is what comes, and stays as it is while the batch before it is in use, and
 * then as long as any batch. */
static void one_can_look_ahead(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_fake(40);
  ct_sampler_t s = sampler(40, 8);
  CT_ASSERT_OK(
      ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 2, .one_epoch = 1}, &f));
  for (int64_t cursor = 0; cursor < 40; cursor += 8) {
    const ct_batch_t *ahead = wait_ahead(f);
    check_batch(ahead, &s, 0, cursor, 0, 1);
    CU_ASSERT(ct_feed_ahead(f) == ahead);
    CT_ASSERT_OK(ct_feed_next(f, &b));
    CU_ASSERT(b == ahead);
    check_batch(b, &s, 0, cursor, 0, 1);
  }
  CU_ASSERT(ct_feed_ahead(f) == NULL); /* the end */
  CT_ASSERT_OK(ct_feed_next(f, &b));
  CU_ASSERT(b == NULL);
  ct_feed_close(f);
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1}, &f));
  CU_ASSERT(ct_feed_ahead(f) == NULL); /* made when asked for */
  CT_ASSERT_OK(ct_feed_next(f, &b));
  check_batch(b, &s, 0, 0, 0, 1);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* A failure is told by the call that it concerns, and nothing before. */
static void a_failed_batch_is_not_seen_ahead(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_fake(16);
  ct_sampler_t s = sampler(16, 4);
  s.shuffle = 0;
  d.reader->bad_label_at = 5;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  CT_ASSERT_INT(waits_for(&d.reader->reads, 3), 3);
  CU_ASSERT(ct_feed_ahead(f) == NULL);
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA, "sample 5: label 77");
  check_batch(wait_ahead(f), &s, 0, 8, 0, 1);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* ---- samples that stay bytes ---- */

/* The stored bytes, and the feed has no other array of samples. */
static void samples_can_stay_bytes(void)
{
  store_t store = {0};
  ct_dataset_t d = open_fake(20);
  ct_sampler_t s = sampler(20, 8);
  CU_ASSERT(ct_dataset_is_bytes(&d));
  for (int workers = 0; workers <= 2; workers += 2) {
    ct_feed_t *f;
    const ct_batch_t *b;
    ct_feed_opts_t o = {.size = 1,
                        .workers = workers,
                        .one_epoch = 1,
                        .bytes = 1,
                        .mem = {store_alloc, store_release, &store}};
    CT_ASSERT_OK(ct_feed_open(&d, &s, &o, &f));
    CT_ASSERT_INT(store.arrays, workers ? 8 : 2);
    for (int64_t cursor = 0; cursor < 20; cursor += 8) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      CU_ASSERT(b->x == NULL);
      CT_ASSERT_INT(b->n, cursor < 16 ? 8 : 4);
      for (int i = 0; i < 30 * b->n; i++)
        CT_ASSERT_INT(b->bytes[i], element(b->ids[i / 30], i % 30));
      CT_ASSERT_INT(b->labels[1], b->ids[1] % 10);
    }
    ct_feed_close(f);
    CT_ASSERT_INT(store.arrays, 0);
  }
  ct_dataset_close(&d);
}

static void only_bytes_can_stay_bytes(void)
{
  ct_feed_t *f;
  ct_dataset_t d = open_fake(20);
  ct_sampler_t s = sampler(20, 8);
  ct_feed_opts_t o = {.size = 1, .bytes = 1};
  d.info.x.dtype = CT_I8;
  CU_ASSERT(!ct_dataset_is_bytes(&d));
  CT_ASSERT_FAILS(ct_feed_open(&d, &s, &o, &f), CT_ERR_ARG, "a feed of bytes");
  d.info.x.dtype = CT_U8;
  d.transforms = (ct_transforms_t *)&d; /* not looked into */
  CU_ASSERT(!ct_dataset_is_bytes(&d));
  CT_ASSERT_FAILS(ct_feed_open(&d, &s, &o, &f), CT_ERR_ARG, "a feed of bytes");
  d.transforms = NULL;
  ct_dataset_close(&d);
}

/* ---- announcing ---- */

enum { SAMPLES = 50, BATCH = 8, STEPS = 7, EPOCHS = 3 };

/* How often each sample was announced and not read yet; never touched by two at a time. */
static struct announced {
  pthread_mutex_t lock;
  int times[SAMPLES], all;
} announced = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note_ahead(ct_reader_t *r, int n, const int64_t index[])
{
  (void)r;
  pthread_mutex_lock(&announced.lock);
  for (int i = 0; i < n; i++)
    announced.times[index[i]]++;
  announced.all += n;
  pthread_mutex_unlock(&announced.lock);
}

/* The second of two ranks, which has half of each batch. */
static void announce_steps(int workers, int one_epoch, int steps)
{
  ct_reader_ops_t ops = fake;
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_fake(SAMPLES);
  ct_sampler_t s = sampler(SAMPLES, BATCH);
  ct_feed_opts_t o = {.rank = 1, .size = 2, .workers = workers, .one_epoch = one_epoch};
  ops.ahead = note_ahead;
  d.ops = &ops;
  d.readahead = 3;
  memset(announced.times, 0, sizeof announced.times);
  announced.all = 0;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &o, &f));
  for (int i = 0; i < steps; i++) {
    CT_ASSERT_OK(ct_feed_next(f, &b));
    CU_ASSERT_FATAL(b != NULL);
    pthread_mutex_lock(&announced.lock);
    for (int k = 0; k < b->n && i > 0; k++) /* nobody announces the first */
      CU_ASSERT(--announced.times[b->ids[k]] >= 0);
    pthread_mutex_unlock(&announced.lock);
  }
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void batches_to_come_are_announced(void)
{
  announce_steps(1, 0, EPOCHS * STEPS);
  announce_steps(3, 0, EPOCHS * STEPS);
  announce_steps(1, 1, STEPS);
  CT_ASSERT_INT(announced.all, (SAMPLES - BATCH) / 2); /* nothing of an epoch that will not be */
  announce_steps(0, 0, 1);
  CT_ASSERT_INT(announced.all, 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(batches_lie_in_the_memory_that_is_given),
      CT_TEST(one_can_look_ahead),
      CT_TEST(a_failed_batch_is_not_seen_ahead),
      CT_TEST(samples_can_stay_bytes),
      CT_TEST(only_bytes_can_stay_bytes),
      CT_TEST(batches_to_come_are_announced),
      CT_TEST_END,
  };
  return ct_test_main("feed_ahead", tests, argc, argv);
}
