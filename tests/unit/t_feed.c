/* The feed: the right samples in the right order, converted, and errors with their text. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_mem.h"
#include "data/feed/batch.h"
#include "data/feed/ct_feed.h"
#include "tests/unit/feed_fake.h"

/* ---- order ---- */

/* All steps of two epochs and a bit, from a cursor inside the first. */
static void batches_come_in_step_order(void)
{
  ct_dataset_t d = open_fake(53);
  ct_sampler_t s = sampler(53, 8);
  for (int workers = 0; workers <= 4; workers++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    int64_t epoch = 3, cursor = 16;
    CT_ASSERT_OK(ct_feed_open(
        &d, &s,
        &(ct_feed_opts_t){
            .rank = 1, .size = 3, .epoch = epoch, .cursor = cursor, .workers = workers},
        &f));
    CT_ASSERT_INT(ct_feed_max(f), 3);
    for (int step = 0; step < 17; step++) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      check_batch(b, &s, epoch, cursor, 1, 3);
      cursor += b->global;
      if (cursor == 53) cursor = 0, epoch++;
    }
    ct_feed_close(f);
  }
  ct_dataset_close(&d);
}

static void one_epoch_ends(void)
{
  ct_dataset_t d = open_fake(20);
  ct_sampler_t s = sampler(20, 8);
  for (int workers = 0; workers <= 3; workers++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    CT_ASSERT_OK(ct_feed_open(
        &d, &s, &(ct_feed_opts_t){.size = 1, .epoch = 2, .workers = workers, .one_epoch = 1}, &f));
    for (int64_t cursor = 0; cursor < 20; cursor += 8) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      check_batch(b, &s, 2, cursor, 0, 1);
    }
    for (int again = 0; again < 3; again++) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      CU_ASSERT(b == NULL);
    }
    ct_feed_close(f);
  }
  ct_dataset_close(&d);
}

/* A checkpoint at the end of an epoch has cursor == samples. */
static void start_at_the_end_of_an_epoch(void)
{
  ct_dataset_t d = open_fake(20);
  ct_sampler_t s = sampler(20, 8);
  for (int workers = 0; workers <= 1; workers++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    CT_ASSERT_OK(ct_feed_open(
        &d, &s, &(ct_feed_opts_t){.size = 1, .epoch = 2, .cursor = 20, .workers = workers}, &f));
    CT_ASSERT_OK(ct_feed_next(f, &b));
    check_batch(b, &s, 3, 0, 0, 1);
    ct_feed_close(f);
    CT_ASSERT_OK(ct_feed_open(
        &d, &s,
        &(ct_feed_opts_t){.size = 1, .epoch = 2, .cursor = 20, .workers = workers, .one_epoch = 1},
        &f));
    CT_ASSERT_OK(ct_feed_next(f, &b));
    CU_ASSERT(b == NULL);
    ct_feed_close(f);
  }
  ct_dataset_close(&d);
}

/* 17 samples in batches of 8 on 4 ranks: the last step has one sample, so three ranks have none. */
static void ranks_together_see_every_sample_once(void)
{
  int seen[17] = {0};
  ct_dataset_t d = open_fake(17);
  ct_sampler_t s = sampler(17, 8);
  for (int rank = 0; rank < 4; rank++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    CT_ASSERT_OK(ct_feed_open(
        &d, &s, &(ct_feed_opts_t){.rank = rank, .size = 4, .workers = 1, .one_epoch = 1}, &f));
    for (int step = 0; step < 3; step++) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      CU_ASSERT_FATAL(b != NULL);
      CT_ASSERT_INT(b->n, step < 2 ? 2 : rank == 0);
      for (int i = 0; i < b->n; i++)
        seen[b->ids[i]]++;
    }
    ct_feed_close(f);
  }
  for (int i = 0; i < 17; i++)
    CT_ASSERT_INT(seen[i], 1);
  ct_dataset_close(&d);
}

static void a_rank_without_samples(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_fake(10);
  ct_sampler_t s = sampler(10, 2);
  CT_ASSERT_OK(ct_feed_open(
      &d, &s, &(ct_feed_opts_t){.rank = 3, .size = 4, .workers = 1, .one_epoch = 1}, &f));
  CT_ASSERT_INT(ct_feed_max(f), 0);
  for (int step = 0; step < 5; step++) {
    CT_ASSERT_OK(ct_feed_next(f, &b));
    CU_ASSERT_FATAL(b != NULL);
    CT_ASSERT_INT(b->n, 0);
    CT_ASSERT_INT(b->global, 2);
  }
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* ---- threads ---- */

/* Nobody asks, and the workers fill all slots but not one more. */
static void workers_read_ahead_as_far_as_there_is_room(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_fake(1000);
  ct_sampler_t s = sampler(1000, 8);
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 2}, &f));
  CT_ASSERT_INT(waits_for(&d.reader->reads, 4), 4);
  CT_ASSERT_OK(ct_feed_next(f, &b)); /* borrowed: its slot is not free yet */
  CT_ASSERT_INT(atomic_load(&d.reader->reads), 4);
  CT_ASSERT_OK(ct_feed_next(f, &b));
  CT_ASSERT_INT(waits_for(&d.reader->reads, 5), 5);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void nothing_is_allocated_after_open(void)
{
  ct_dataset_t d = open_fake(1000);
  ct_sampler_t s = sampler(1000, 8);
  for (int workers = 0; workers <= 2; workers += 2) {
    ct_feed_t *f;
    const ct_batch_t *b;
    CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = workers}, &f));
    int64_t before = ct_mem_calls();
    for (int step = 0; step < 200; step++)
      CT_ASSERT_OK(ct_feed_next(f, &b));
    CT_ASSERT_INT(ct_mem_calls(), before);
    ct_feed_close(f);
  }
  ct_dataset_close(&d);
}

static int count_bytes(void *ctx, size_t bytes, void **out)
{
  *(size_t *)ctx += bytes;
  *out = ct_mem_alloc(bytes, "a batch");
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static void free_bytes(void *ctx, void *p)
{
  (void)ctx;
  ct_mem_free(p);
}

static void the_memory_of_a_feed_is_known_before(void)
{
  ct_feed_t *f;
  ct_dataset_t d = open_fake(1000);
  ct_sampler_t s = sampler(1000, 8);
  for (int workers = 0; workers <= 2; workers++) {
    size_t batches = 0, depth = workers ? (size_t)workers + 2 : 1;
    const ct_feed_opts_t o = {
        .size = 1, .workers = workers, .mem = {count_bytes, free_bytes, &batches}};
    CT_ASSERT_OK(ct_feed_open(&d, &s, &o, &f));
    ct_feed_close(f);
    batches += depth * 8 * sizeof(int64_t); /* the numbers of the samples */
    batches += (workers ? (size_t)workers : 1) * ct__make_bytes(&d, 8, 0);
    CT_ASSERT_INT(ct_feed_bytes(&d, 8, workers, 0), batches);
  }
  ct_dataset_close(&d);
}

static void close_while_workers_work(void)
{
  ct_dataset_t d = open_fake(1000);
  ct_sampler_t s = sampler(1000, 100);
  for (int i = 0; i < 50; i++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 3}, &f));
    for (int k = 0; k < i % 4; k++)
      CT_ASSERT_OK(ct_feed_next(f, &b));
    ct_feed_close(f);
  }
  ct_feed_close(NULL);
  ct_dataset_close(&d);
}

static atomic_int signals;

static void count_signal(int number)
{
  (void)number;
  atomic_fetch_add(&signals, 1);
}

/* While the main thread keeps a signal waiting, no worker takes it instead. */
static void signals_are_the_main_threads(void)
{
  ct_feed_t *f;
  ct_dataset_t d = open_fake(1000);
  ct_sampler_t s = sampler(1000, 8);
  struct sigaction count = {.sa_handler = count_signal}, before;
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  sigaction(SIGUSR1, &count, &before);
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 3}, &f));
  CT_ASSERT_INT(waits_for(&d.reader->reads, 5), 5);
  pthread_sigmask(SIG_BLOCK, &one, NULL);
  kill(getpid(), SIGUSR1);
  ct_feed_close(f);
  CT_ASSERT_INT(atomic_load(&signals), 0);
  pthread_sigmask(SIG_UNBLOCK, &one, NULL);
  CT_ASSERT_INT(atomic_load(&signals), 1);
  sigaction(SIGUSR1, &before, NULL);
  ct_dataset_close(&d);
}

/* ---- errors ---- */

static void bad_labels_are_named(void)
{
  ct_dataset_t d = open_fake(16);
  ct_sampler_t s = sampler(16, 4);
  s.shuffle = 0;
  d.reader->bad_label_at = 5;
  for (int workers = 0; workers <= 2; workers++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = workers}, &f));
    CT_ASSERT_OK(ct_feed_next(f, &b));
    CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA,
                    "fake.h5, sample 5: label 77 is not in 0 to 9 (10 classes)");
    CU_ASSERT(b == NULL);
    CT_ASSERT_OK(ct_feed_next(f, &b)); /* it goes on behind it */
    check_batch(b, &s, 0, 8, 0, 1);
    ct_feed_close(f);
  }
  d.classes = 9; /* the first number that is none */
  ct_feed_t *f;
  const ct_batch_t *b;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .cursor = 8}, &f));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA,
                  "fake.h5, sample 9: label 9 is not in 0 to 8 (9 classes)");
  ct_feed_close(f);
  d.classes = 0; /* unknown: then any class number will do */
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .cursor = 4}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  CT_ASSERT_INT(b->labels[1], 77);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void labels_below_0_are_named(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_fake(16);
  ct_sampler_t s = sampler(16, 4);
  s.shuffle = 0;
  d.reader->bad_label_at = 5;
  d.reader->bad_label = -1;
  for (d.classes = 10; d.classes >= 0; d.classes -= 10) {
    CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .cursor = 4}, &f));
    CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA,
                    d.classes ? "fake.h5, sample 5: label -1 is not in 0 to 9 (10 classes)"
                              : "fake.h5, sample 5: label -1 is not a class number");
    ct_feed_close(f);
  }
  ct_dataset_close(&d);
}

/* Beyond the 512 samples that are asked for at once. */
static void all_labels_are_counted(void)
{
  ct_dataset_t d = open_fake(700);
  d.reader->bad_label_at = 600;
  CT_ASSERT_OK(ct_dataset_count_classes(&d, 600));
  CT_ASSERT_INT(d.classes, 10);
  CT_ASSERT_OK(ct_dataset_count_classes(&d, 0));
  CT_ASSERT_INT(d.classes, 78);
  d.reader->bad_label = -1;
  CT_ASSERT_FAILS(ct_dataset_count_classes(&d, 0), CT_ERR_DATA,
                  "fake.h5, sample 600: label -1 is not a class number (classes count from 0)");
  ct_dataset_close(&d);
}

static ct_dataset_t open_flipped(int64_t samples)
{
  static const char yaml[] = "[random_flip]";
  ct_dataset_t d;
  ct_yaml_t *list;
  ct_reader_spec_t spec = {.samples = samples, .classes = 10};
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &list));
  ct_transforms_opts_t o = {.list = list, .training = 1};
  CT_ASSERT_OK(ct_dataset_open(&fake, &spec, &o, "x.yaml", &d));
  ct_yaml_free(list);
  return d;
}

static void values_that_are_not_finite_are_named(void)
{
  static const struct {
    ct_dtype_t type;
    double value;
    int bad;
  } cases[] = {{CT_F32, NAN, 1},  {CT_F32, -INFINITY, 1}, {CT_F64, NAN, 1},
               {CT_F64, 1e39, 1}, {CT_F32, -3.4e38, 0},   {CT_U8, 255, 0}};
  for (int k = 0; k < 12; k++) {
    int i = k / 2;
    ct_feed_t *f;
    const ct_batch_t *b;
    ct_dataset_t d = k % 2 ? open_flipped(9) : open_fake(9);
    ct_sampler_t s = sampler(9, 3);
    s.shuffle = 0;
    d.info.x.dtype = d.reader->info.x.dtype = cases[i].type;
    d.affine = (ct_affine_t){.channels = 1, .a = {1}};
    d.reader->odd = cases[i].value;
    CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .cursor = 3}, &f));
    if (cases[i].bad)
      CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA, "fake.h5, sample 5: holds a value that is");
    else
      CT_ASSERT_OK(ct_feed_next(f, &b));
    ct_feed_close(f);
    ct_dataset_close(&d);
  }
}

static void errors_of_the_reader_come_with_their_text(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_fake(16);
  ct_sampler_t s = sampler(16, 4);
  s.shuffle = 0;
  d.reader->fail_at = 9;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .cursor = 4, .workers = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  waits_for(&d.reader->reads, 3);
  ct_err_set(CT_ERR_ARG, "x", 1, "another thread's text");
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_IO, "fake sample 9 is gone");
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void fault_points(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_fake(16), e;
  ct_sampler_t s = sampler(16, 4);
  setenv("CTRAIN_FAULTS", "feed.read@0:2,reader.open@0:1", 1);
  ct_fault_setup(0);
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_FAULT, "feed.read");
  ct_feed_close(f);
  ct_reader_spec_t spec = {.samples = 10};
  CT_ASSERT_FAILS(ct_dataset_open(&ct_reader_synthetic, &spec, NULL, "x", &e), CT_ERR_FAULT,
                  "reader.open");
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(0);
  ct_dataset_close(&d);
}

static void wrong_arguments(void)
{
  ct_feed_t *f;
  ct_dataset_t d = open_fake(16);
  ct_sampler_t s = sampler(16, 4), larger = sampler(17, 4);
  CT_ASSERT_FAILS(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .cursor = 17}, &f), CT_ERR_ARG,
                  "from sample 17");
  CT_ASSERT_FAILS(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .cursor = -1}, &f), CT_ERR_ARG,
                  "from sample -1");
  CT_ASSERT_FAILS(ct_feed_open(&d, &s, &(ct_feed_opts_t){.rank = 2, .size = 2}, &f), CT_ERR_ARG,
                  "rank 2 of 2");
  CT_ASSERT_FAILS(ct_feed_open(&d, &larger, &(ct_feed_opts_t){.size = 1}, &f), CT_ERR_ARG,
                  "17 samples");
  CU_ASSERT(f == NULL);
  ct_dataset_close(&d);
}

static void no_memory_at_any_point(void)
{
  ct_reader_spec_t spec = {.samples = 10};
  ct_sampler_t s = sampler(10, 4);
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  for (int64_t nth = 1; rc != CT_OK && nth < 100; nth++) {
    ct_dataset_t d = {0};
    ct_feed_t *f = NULL;
    ct_mem_fail_at(nth);
    rc = ct_dataset_open(&ct_reader_synthetic, &spec, NULL, "x", &d);
    if (rc == CT_OK) rc = ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 2}, &f);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    ct_feed_close(f);
    ct_dataset_close(&d);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
}

/* ---- conversion ---- */

static const float *one_batch(ct_dataset_t *d, ct_feed_t **f)
{
  const ct_batch_t *b;
  ct_sampler_t s = sampler(d->info.samples, 3);
  s.shuffle = 0;
  CT_ASSERT_OK(ct_feed_open(d, &s, &(ct_feed_opts_t){.size = 1}, f));
  CT_ASSERT_OK(ct_feed_next(*f, &b));
  return b->x;
}

static void every_type_is_converted(void)
{
  static const ct_dtype_t types[] = {CT_U8, CT_I8, CT_I16, CT_I32, CT_I64, CT_F32, CT_F64};
  for (int t = 0; t < 7; t++) {
    ct_feed_t *f;
    ct_dataset_t d = open_fake(9);
    d.info.x.dtype = d.reader->info.x.dtype = types[t];
    d.affine = (ct_affine_t){.channels = 1, .a = {0.5f}, .b = {-3}};
    const float *x = one_batch(&d, &f);
    for (int i = 0; i < 90; i++)
      CT_ASSERT_NEAR(x[i], 0.5 * element(i / 30, i % 30) - 3, 0);
    ct_feed_close(f);
    ct_dataset_close(&d);
  }
}

static void channels_last_is_transposed(void)
{
  for (int per_channel = 0; per_channel <= 1; per_channel++) {
    ct_feed_t *f;
    ct_dataset_t d = open_fake(9);
    d.info.channels_last = d.reader->info.channels_last = 1;
    d.affine = (ct_affine_t){1, {2, 2, 2}, {1, 1, 1}};
    if (per_channel) d.affine = (ct_affine_t){3, {2, 3, 4}, {1, 5, 9}};
    const float *x = one_batch(&d, &f);
    for (int n = 0; n < 3; n++)
      for (int c = 0; c < 3; c++)
        for (int k = 0; k < 10; k++)
          CT_ASSERT_NEAR(x[30 * n + 10 * c + k],
                         d.affine.a[c] * element(n, 3 * k + c) + d.affine.b[c], 0);
    ct_feed_close(f);
    ct_dataset_close(&d);
  }
}

static void channels_have_their_own_map(void)
{
  ct_feed_t *f;
  ct_dataset_t d = open_fake(9);
  d.affine = (ct_affine_t){3, {2, 3, 4}, {1, 5, 9}};
  const float *x = one_batch(&d, &f);
  for (int i = 0; i < 90; i++) {
    int c = i % 30 / 10;
    CT_ASSERT_NEAR(x[i], d.affine.a[c] * element(i / 30, i % 30) + d.affine.b[c], 0);
  }
  ct_feed_close(f);
  ct_dataset_close(&d);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(batches_come_in_step_order),
      CT_TEST(one_epoch_ends),
      CT_TEST(start_at_the_end_of_an_epoch),
      CT_TEST(ranks_together_see_every_sample_once),
      CT_TEST(a_rank_without_samples),
      CT_TEST(workers_read_ahead_as_far_as_there_is_room),
      CT_TEST(nothing_is_allocated_after_open),
      CT_TEST(the_memory_of_a_feed_is_known_before),
      CT_TEST(close_while_workers_work),
      CT_TEST(signals_are_the_main_threads),
      CT_TEST(bad_labels_are_named),
      CT_TEST(labels_below_0_are_named),
      CT_TEST(all_labels_are_counted),
      CT_TEST(values_that_are_not_finite_are_named),
      CT_TEST(errors_of_the_reader_come_with_their_text),
      CT_TEST(fault_points),
      CT_TEST(wrong_arguments),
      CT_TEST(no_memory_at_any_point),
      CT_TEST(every_type_is_converted),
      CT_TEST(channels_last_is_transposed),
      CT_TEST(channels_have_their_own_map),
      CT_TEST_END,
  };
  return ct_test_main("feed", tests, argc, argv);
}
