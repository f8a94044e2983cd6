/* Samples that cannot be made: another takes their place, the same at any number of ranks. */
#include "tests/unit/feed_fake.h"

enum { SAMPLES = 16, BATCH = 8 };

/* Sample 5 has an impossible label, 6 cannot be read; both are in the first
 * batch. */
static ct_dataset_t open_damaged(void)
{
  ct_dataset_t d = open_fake(SAMPLES);
  d.reader->bad_label_at = 5;
  d.reader->fail_at = 6;
  d.skip = 1;
  return d;
}

static ct_sampler_t in_order(void)
{
  ct_sampler_t s = sampler(SAMPLES, BATCH);
  s.shuffle = 0;
  return s;
}

static void check_sample(const ct_batch_t *b, int i, int64_t id)
{
  CT_ASSERT_INT(b->ids[i], id);
  CT_ASSERT_INT(b->labels[i], id % 10);
  for (int k = 0; k < 30; k++)
    CT_ASSERT_INT(b->x[30 * i + k], element(id, k));
}

static void the_next_good_one_takes_its_place(void)
{
  ct_sampler_t s = in_order();
  for (int size = 1; size <= 4; size++) {
    for (int rank = 0, skipped = 0; rank < size; rank++) {
      ct_feed_t *f;
      const ct_batch_t *b;
      ct_dataset_t d = open_damaged();
      ct_feed_opts_t o = {.rank = rank, .size = size, .workers = rank % 2};
      CT_ASSERT_OK(ct_feed_open(&d, &s, &o, &f));
      CT_ASSERT_OK(ct_feed_next(f, &b));
      for (int i = 0; i < b->n; i++) {
        int64_t id = b->first + i;
        check_sample(b, i, id == 5 || id == 6 ? 7 : id);
      }
      skipped += b->skipped;
      for (int i = 0; i < b->skipped; i++) {
        CT_ASSERT_INT(b->skip[i].instead, 7);
        if (b->skip[i].id == 5)
          CT_ASSERT_HAS(b->skip[i].why, "fake.h5, sample 5: label 77 is not in 0 to 9");
        else
          CT_ASSERT_HAS(b->skip[i].why, "fake sample 6 is gone");
      }
      if (rank == size - 1) CT_ASSERT_INT(skipped, 2);
      CT_ASSERT_OK(ct_feed_next(f, &b)); /* the rest is whole */
      CT_ASSERT_INT(b->skipped, 0);
      check_sample(b, 0, 8 + b->first);
      ct_feed_close(f);
      ct_dataset_close(&d);
    }
  }
}

static void behind_the_last_comes_the_first(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_damaged();
  ct_sampler_t s = in_order();
  d.reader->fail_at = -1;
  d.reader->bad_label_at = SAMPLES - 1;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .cursor = BATCH}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  CT_ASSERT_INT(b->skipped, 1);
  CT_ASSERT_INT(b->skip[0].id, SAMPLES - 1);
  check_sample(b, BATCH - 1, 0);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* More than are told of by name. */
static void all_are_counted(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_damaged();
  ct_sampler_t s = in_order();
  d.classes = 2; /* labels 2 to 7 of the batch are none, nor is what follows up to 9 */
  d.reader->fail_at = d.reader->bad_label_at = -1;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  CT_ASSERT_INT(b->skipped, 6);
  CT_ASSERT_INT(b->skip[CT_SKIPS_LOGGED - 1].id, 2 + CT_SKIPS_LOGGED - 1);
  for (int i = 2; i < BATCH; i++)
    check_sample(b, i, 10);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void where_all_are_damaged_it_is_the_first_error(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_damaged();
  ct_sampler_t s = in_order();
  d.classes = 1;
  d.reader->bad_label_at = 0; /* the only one of class 0 but sample 10 */
  d.reader->fail_at = 10;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1}, &f));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA, "fake.h5, sample 0: label 77");
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void nothing_is_left_out_unless_asked_for(void)
{
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_dataset_t d = open_damaged();
  ct_sampler_t s = in_order();
  d.skip = 0;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1}, &f));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_IO, "fake sample 6 is gone");
  ct_feed_close(f);
  ct_dataset_close(&d);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(the_next_good_one_takes_its_place),
      CT_TEST(behind_the_last_comes_the_first),
      CT_TEST(all_are_counted),
      CT_TEST(where_all_are_damaged_it_is_the_first_error),
      CT_TEST(nothing_is_left_out_unless_asked_for),
      CT_TEST_END,
  };
  return ct_test_main("feed_skip", tests, argc, argv);
}
