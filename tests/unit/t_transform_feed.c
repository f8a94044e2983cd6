/* Augmentation in the feed: samples that depend on (seed, epoch, sample) alone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/feed/ct_feed.h"
#include "data/transform/transforms.h"
#include "tests/harness/ct_test.h"

/* ---- a data set ---- */

enum { SAMPLES = 37, BATCH = 8, SIDE = 8, LENGTH = 3 * SIDE * SIDE };
static const int64_t stored[] = {3, 10, 12};

static const char all[] =
    "t: [{normalize: {mean: 0, std: 4}}, {random_crop: {size: 9, padding: 1}}, random_flip,\n"
    "    {color_jitter: {brightness: 0.3, hue: 0.1}}, {random_resized_crop: {size: 8}},\n"
    "    mixup, {random_erasing: {value: random}}, {normalize: {mean: 1, std: 2}}, cutmix]";

static int open_data(const char *yaml, int training, ct_dataset_t *d)
{
  ct_yaml_t *n = NULL;
  ct_reader_spec_t spec = {.samples = SAMPLES, .classes = 10, .shape = stored, .shape_dims = 3};
  int rc = ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n);
  ct_transforms_opts_t o = {.list = ct_yaml_find(n, "t"), .training = training};
  if (rc == CT_OK) rc = ct_dataset_open(&ct_reader_synthetic, &spec, &o, "x.yaml", d);
  ct_yaml_free(n);
  return rc;
}

/* An epoch as it was seen, by sample number. */
typedef struct seen {
  float x[SAMPLES][LENGTH], mix[SAMPLES];
  int32_t labels[SAMPLES], labels2[SAMPLES];
} seen_t;

static void see(const ct_batch_t *b, seen_t *s)
{
  CU_ASSERT_FATAL(b && b->labels2 && b->mix);
  for (int i = 0; i < b->n; i++) {
    int64_t id = b->ids[i];
    memcpy(s->x[id], b->x + (size_t)i * LENGTH, sizeof s->x[id]);
    s->mix[id] = b->mix[i];
    s->labels[id] = b->labels[i];
    s->labels2[id] = b->labels2[i];
  }
}

/* What is left of an epoch from a cursor on, by all ranks. */
static void see_epoch(const ct_dataset_t *d, uint64_t seed, int64_t epoch, int64_t cursor,
                      int64_t batch, int ranks, int workers, seen_t *s)
{
  ct_sampler_t sampler = {.seed = seed, .samples = SAMPLES, .batch = batch, .shuffle = 1};
  for (int rank = 0; rank < ranks; rank++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    CT_ASSERT_OK(ct_feed_open(d, &sampler,
                              &(ct_feed_opts_t){.rank = rank,
                                                .size = ranks,
                                                .epoch = epoch,
                                                .cursor = cursor,
                                                .workers = workers,
                                                .one_epoch = 1},
                              &f));
    for (;;) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      if (!b) break;
      see(b, s);
    }
    ct_feed_close(f);
  }
}

static seen_t want, got;

static void the_same_at_any_rank_count_and_worker_count(void)
{
  ct_dataset_t d;
  CT_ASSERT_OK(open_data(all, 1, &d));
  CT_ASSERT_INT(ct_shape_sample(&d.x), LENGTH);
  see_epoch(&d, 3, 1, 0, BATCH, 1, 0, &want);
  for (int ranks = 1; ranks <= 3; ranks++)
    for (int workers = 0; workers <= 3; workers += workers ? 2 : 1) {
      memset(&got, 0, sizeof got);
      see_epoch(&d, 3, 1, 0, BATCH + ranks - 1, ranks, workers, &got);
      CT_ASSERT_INT(memcmp(&got, &want, sizeof got), 0);
    }
  see_epoch(&d, 3, 2, 0, BATCH, 1, 0, &got);
  CU_ASSERT(memcmp(got.x, want.x, sizeof got.x) != 0);
  CU_ASSERT(memcmp(got.mix, want.mix, sizeof got.mix) != 0);
  see_epoch(&d, 4, 1, 0, BATCH, 1, 0, &got);
  CU_ASSERT(memcmp(got.x, want.x, sizeof got.x) != 0);
  ct_dataset_close(&d);
}

static void going_on_in_mid_epoch(void)
{
  ct_dataset_t d;
  CT_ASSERT_OK(open_data(all, 1, &d));
  see_epoch(&d, 3, 1, 0, BATCH, 1, 1, &want);
  memset(&got, 0, sizeof got);
  see_epoch(&d, 3, 1, 2 * BATCH, BATCH, 2, 1, &got);
  ct_sampler_t s = {.seed = 3, .samples = SAMPLES, .batch = BATCH, .shuffle = 1};
  for (int at = 2 * BATCH; at < SAMPLES; at++) {
    int64_t id = ct_sampler_at(&s, 1, at);
    CT_ASSERT_INT(memcmp(got.x[id], want.x[id], sizeof got.x[id]), 0);
    CT_ASSERT_INT(got.labels2[id], want.labels2[id]);
  }
  ct_dataset_close(&d);
}

/* ---- mixing ---- */

/* The partner is found from the result: a mixture of two finished samples, or a box of one in the
 * other. */
static void mixtures_are_of_two_samples(void)
{
  ct_dataset_t plain, both;
  ct_feed_t *f;
  const ct_batch_t *b;
  int blends = 0, boxes = 0;
  float x[SAMPLES][3 * 120];
  CT_ASSERT_OK(open_data("t: [random_flip]", 1, &plain));
  CT_ASSERT_OK(open_data("t: [random_flip, mixup, cutmix]", 1, &both));
  ct_sampler_t s = {.seed = 3, .samples = SAMPLES, .batch = SAMPLES};
  CT_ASSERT_OK(ct_feed_open(&plain, &s, &(ct_feed_opts_t){.size = 1, .one_epoch = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  CU_ASSERT(!b->labels2 && !b->mix);
  memcpy(x, b->x, sizeof x);
  ct_feed_close(f);
  CT_ASSERT_OK(ct_feed_open(&both, &s, &(ct_feed_opts_t){.size = 1, .one_epoch = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  for (int i = 0; i < SAMPLES; i++) {
    const float *y = b->x + (size_t)i * 360;
    float share = b->mix[i];
    ct__transform_mix_t m = ct__transform_mix_draw(both.transforms, 3, 0, i, SAMPLES);
    CT_ASSERT_INT(b->labels[i], i % 10);
    CT_ASSERT_INT(b->labels2[i], (m.partner < 0 ? i : m.partner) % 10);
    CT_ASSERT_NEAR(share, m.share, 0);
    blends += m.box.w == 0;
    boxes += m.box.w > 0;
    int own = 0;
    for (int k = 0; k < 360; k++) {
      const float *other = x[m.partner < 0 ? i : m.partner];
      if (m.box.w == 0) CT_ASSERT_NEAR(y[k], share * x[i][k] + (1 - share) * other[k], 1e-6);
      if (m.box.w > 0) CU_ASSERT(y[k] == x[i][k] || y[k] == other[k]);
      own += y[k] == x[i][k];
    }
    if (m.box.w > 0 && m.partner != i) CT_ASSERT_NEAR(own / 360.0, share, 1e-6);
  }
  CU_ASSERT(blends > 5 && boxes > 5);
  ct_feed_close(f);
  ct_dataset_close(&plain);
  ct_dataset_close(&both);
}

/* The classes are 0 to 8: label 9 of samples 9, 19 and 29 is none, and is told also where it is
 * mixed in. */
static void labels_of_partners_are_checked(void)
{
  enum { EPOCHS = 3 };
  char says[100];
  ct_dataset_t d;
  ct_feed_t *f;
  const ct_batch_t *b;
  int by_partner = 0;
  ct_sampler_t s = {.seed = 3, .samples = SAMPLES, .batch = 1};
  CT_ASSERT_OK(open_data("t: [mixup]", 1, &d));
  d.classes = 9;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1}, &f));
  for (int64_t i = 0; i < EPOCHS * SAMPLES; i++) {
    int64_t id = i % SAMPLES;
    int64_t partner = ct__transform_mix_draw(d.transforms, 3, i / SAMPLES, id, SAMPLES).partner;
    if (id % 10 != 9 && partner % 10 != 9) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      continue;
    }
    by_partner += id % 10 != 9;
    snprintf(says, sizeof says, "synthetic sample %d: label 9 is not in 0 to 8",
             (int)(id % 10 == 9 ? id : partner));
    CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA, says);
  }
  CU_ASSERT(by_partner > 2);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* ---- memory ---- */

static void nothing_is_allocated_after_open(void)
{
  ct_dataset_t d;
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_sampler_t s = {.seed = 3, .samples = SAMPLES, .batch = BATCH, .shuffle = 1};
  CT_ASSERT_OK(open_data(all, 1, &d));
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 2}, &f));
  int64_t before = ct_mem_calls();
  for (int step = 0; step < 20; step++)
    CT_ASSERT_OK(ct_feed_next(f, &b));
  CT_ASSERT_INT(ct_mem_calls(), before);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void no_memory_at_any_point(void)
{
  static const char yaml[] = "t: [{resize: {size: 9}}, {normalize: {mean: 0, std: 1}}, mixup]";
  ct_sampler_t s = {.samples = SAMPLES, .batch = 4};
  for (int training = 0; training <= 1; training++) {
    int64_t live = ct_mem_live();
    int rc = CT_ERR_NOMEM;
    for (int64_t nth = 1; rc != CT_OK && nth < 300; nth++) {
      ct_dataset_t d = {0};
      ct_feed_t *f = NULL;
      ct_mem_fail_at(nth);
      rc = open_data(yaml, training, &d);
      if (rc == CT_OK) rc = ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 2}, &f);
      ct_mem_fail_at(0);
      CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
      ct_feed_close(f);
      ct_dataset_close(&d);
      CT_ASSERT_INT(ct_mem_live(), live);
    }
    CT_ASSERT_INT(rc, CT_OK);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(the_same_at_any_rank_count_and_worker_count),
      CT_TEST(going_on_in_mid_epoch),
      CT_TEST(mixtures_are_of_two_samples),
      CT_TEST(labels_of_partners_are_checked),
      CT_TEST(nothing_is_allocated_after_open),
      CT_TEST(no_memory_at_any_point),
      CT_TEST_END,
  };
  return ct_test_main("augmentation in the feed", tests, argc, argv);
}
