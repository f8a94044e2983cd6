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

static ct_dataset_t open_with(const char *yaml, int64_t samples)
{
  ct_dataset_t d;
  ct_yaml_t *n = NULL;
  ct_reader_spec_t spec = {.samples = samples, .classes = 10};
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  ct_transforms_opts_t o = {.list = ct_yaml_find(n, "t"), .training = 1};
  CT_ASSERT_OK(ct_dataset_open(&fake, &spec, &o, "x.yaml", &d));
  ct_yaml_free(n);
  return d;
}

/* The bytes of a sample in the order of its values. */
static uint8_t byte_at(const ct_dataset_t *d, const uint8_t *sample, int64_t i)
{
  int64_t channels = d->x.dim[1], plane = ct_shape_sample(&d->x) / channels;
  return sample[d->info.channels_last ? i % plane * channels + i / plane : i];
}

/* Flips and crops move bytes: converted later they have the bits of values that were moved. */
static void moved_bytes_are_moved_values(const char *yaml, int channels_last)
{
  ct_feed_t *bytes, *values;
  const ct_batch_t *b, *v;
  ct_dataset_t d = open_with(yaml, 40);
  ct_sampler_t s = sampler(40, 8);
  d.info.channels_last = channels_last;
  CU_ASSERT(ct_dataset_is_bytes(&d));
  ct_feed_opts_t o = {.size = 1, .workers = 2};
  CT_ASSERT_OK(ct_feed_open(&d, &s, &o, &values));
  o.bytes = 1;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &o, &bytes));
  for (int k = 0; k < 12; k++) {
    CT_ASSERT_OK(ct_feed_next(bytes, &b));
    CT_ASSERT_OK(ct_feed_next(values, &v));
    int64_t sample = ct_shape_sample(&d.x), plane = sample / d.x.dim[1];
    int differ = 0;
    for (int64_t i = 0; i < b->n * sample; i++) {
      int64_t c = d.affine.channels > 1 ? i % sample / plane : 0;
      float byte = byte_at(&d, b->bytes + i / sample * sample, i % sample);
      float value = d.affine.a[c] * byte;
      differ += value + d.affine.b[c] != v->x[i];
    }
    CT_ASSERT_INT(differ, 0);
  }
  ct_feed_close(bytes);
  ct_feed_close(values);
  ct_dataset_close(&d);
}

static void transformed_samples_can_stay_bytes(void)
{
  static const char *const lists[] = {
      "t: [random_flip, to_tensor, {normalize: {mean: 0.5, std: 0.25}}]",
      "t: [to_tensor, {random_crop: {size: [2, 3], padding: 1}}, random_flip, "
      "{normalize: {mean: [0.4, 0.5, 0.3], std: [0.2, 0.3, 0.25]}}]",
      "t: [{random_crop: {padding: [2, 1]}}, {center_crop: {size: [4, 2]}}, random_flip, "
      "{normalize: {mean: [40, 50, 30], std: 20}}]",
      "t: [to_tensor, {normalize: {mean: [0.4, 0.5, 0.3], std: 0.2}}, random_flip, "
      "{random_crop: {size: [1, 4]}}]"};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    for (int channels_last = 0; channels_last < 2; channels_last++)
      moved_bytes_are_moved_values(lists[i], channels_last);
}

static void only_bytes_can_stay_bytes(void)
{
  static const char *const of_values[] = {
      "t: [{resize: {size: 4}}]", "t: [{random_erasing: {}}]", "t: [random_flip, {mixup: {}}]",
      "t: [{normalize: {mean: 3, std: 2}}, {random_crop: {padding: 1}}]"};
  ct_feed_t *f;
  ct_dataset_t d = open_fake(20);
  ct_sampler_t s = sampler(20, 8);
  ct_feed_opts_t o = {.size = 1, .bytes = 1};
  d.info.x.dtype = CT_I8;
  CU_ASSERT(!ct_dataset_is_bytes(&d));
  CT_ASSERT_FAILS(ct_feed_open(&d, &s, &o, &f), CT_ERR_ARG, "a feed of bytes");
  d.info.x.dtype = CT_U8;
  ct_dataset_close(&d);
  for (size_t i = 0; i < sizeof of_values / sizeof *of_values; i++) {
    d = open_with(of_values[i], 40);
    CU_ASSERT(!ct_dataset_is_bytes(&d));
    CT_ASSERT_FAILS(ct_feed_open(&d, &s, &o, &f), CT_ERR_ARG, "a feed of bytes");
    ct_dataset_close(&d);
  }
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
      CT_TEST(batches_lie_in_the_memory_that_is_given), CT_TEST(one_can_look_ahead),
      CT_TEST(a_failed_batch_is_not_seen_ahead),        CT_TEST(samples_can_stay_bytes),
      CT_TEST(transformed_samples_can_stay_bytes),      CT_TEST(only_bytes_can_stay_bytes),
      CT_TEST(batches_to_come_are_announced),           CT_TEST_END,
  };
  return ct_test_main("feed_ahead", tests, argc, argv);
}
