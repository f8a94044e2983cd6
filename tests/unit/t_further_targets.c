/* Targets after the first, and labels for the places of a sample: what a feed makes of them. */
#include "data/ct_dataset.h"
#include "data/feed/ct_feed.h"
#include "tests/unit/h5_files.h"

enum { SAMPLES = 30, PLACES = 5, VALUES = 6 };

/* `places`: labels from 0 to 100 of 5 places; `values`: 2x3 numbers; `cls`: a label from 0 to 9. */
static void write_all(const char *dir)
{
  array_t x = {PLAIN, CT_F32, 2, {SAMPLES, 4}, 1},
          places = {PLAIN, CT_I64, 2, {SAMPLES, PLACES}, 1};
  array_t values = {CHUNKED, CT_F64, 3, {SAMPLES, 2, 3}, 7};
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", &x, 0);
  write_array(file, "places", &places, 0);
  write_array(file, "values", &values, 0);
  write_labels(file, "cls", CT_I16, 1, SAMPLES, 0);
  end_file(file);
}

static void check_batch(const ct_dataset_t *d, const ct_batch_t *b)
{
  for (int i = 0; i < b->n; i++) {
    const int32_t *cls = b->more[1];
    const float *values = b->more[0];
    for (int k = 0; k < PLACES && d->pixels == PLACES; k++)
      CT_ASSERT_INT(b->labels[i * PLACES + k], element(b->ids[i], k));
    for (int k = 0; k < VALUES; k++)
      CT_ASSERT_NEAR(values[i * VALUES + k], element(b->ids[i], k), 0);
    CT_ASSERT_INT(cls[i], b->ids[i] % 10);
  }
}

static int open_all(const char *dir, char *targets[3], ct_dataset_t *d)
{
  const ct_opt_texts_t names = {targets, 3};
  ct_reader_spec_t spec = spec_of(dir);
  spec.target = targets[0];
  spec.targets_of = &names;
  spec.targets_apart = spec.places = 1;
  return ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "a.yaml", d);
}

static void a_batch_has_all_targets(void)
{
  static char *targets[] = {"places", "values", "cls"};
  const char *dir = ct_test_dir();
  const ct_sampler_t order = {.samples = SAMPLES, .batch = 8, .seed = 3, .shuffle = 1};
  const ct_batch_t *b;
  ct_dataset_t d;
  write_all(dir);
  for (int workers = 0; workers < 3; workers++) {
    ct_feed_t *f;
    int n = 0;
    CT_ASSERT_OK(open_all(dir, targets, &d));
    CT_ASSERT_INT(d.pixels, PLACES);
    CT_ASSERT_INT(d.more.n, 2);
    CT_ASSERT_INT(ct_shape_sample(&d.more.x[0]), VALUES);
    d.classes = 101;
    d.more_as[1] = (ct_more_as_t){.labels = 1, .classes = 10};
    const ct_feed_opts_t o = {.size = 1, .workers = workers, .one_epoch = 1};
    CT_ASSERT_OK(ct_feed_open(&d, &order, &o, &f));
    while (ct_feed_next(f, &b) == CT_OK && b) {
      check_batch(&d, b);
      n += b->n;
    }
    CT_ASSERT_INT(n, SAMPLES);
    ct_feed_close(f);
    ct_dataset_close(&d);
  }
}

/* The error of the first batch. */
static int first_batch(ct_dataset_t *d)
{
  const ct_sampler_t order = {.samples = SAMPLES, .batch = SAMPLES};
  const ct_batch_t *b;
  ct_feed_t *f;
  CT_ASSERT_OK(ct_feed_open(d, &order, &(ct_feed_opts_t){.size = 1, .one_epoch = 1}, &f));
  int rc = ct_feed_next(f, &b);
  ct_feed_close(f);
  return rc;
}

static void wrong_labels_name_their_sample(void)
{
  static char *targets[] = {"places", "values", "cls"};
  const char *dir = ct_test_dir();
  ct_dataset_t d;
  write_all(dir);
  CT_ASSERT_OK(open_all(dir, targets, &d));
  d.classes = 101;
  d.more_as[1] = (ct_more_as_t){.labels = 1, .classes = 9};
  CT_ASSERT_FAILS(first_batch(&d), CT_ERR_DATA, "sample 9: label 9 is not in 0 to 8");
  d.more_as[1].has_ignored = 1;
  d.more_as[1].ignored = 9;
  CT_ASSERT_OK(first_batch(&d));
  d.classes = 100;
  CT_ASSERT_FAILS(first_batch(&d), CT_ERR_DATA, "label 100 is not in 0 to 99");
  ct_dataset_close(&d);
}

static void arrays_that_do_not_fit_are_told(void)
{
  static char *missing[] = {"cls", "values", "nothing"}, *few[] = {"cls", "values", "few"};
  const char *dir = ct_test_dir();
  ct_dataset_t d;
  write_all(dir);
  CT_ASSERT_FAILS(open_all(dir, missing, &d), CT_ERR_FORMAT, "nothing");
  hid_t file = begin_file(dir, "a.h5");
  array_t x = {PLAIN, CT_F32, 2, {SAMPLES, 4}, 1}, v = {PLAIN, CT_F32, 2, {SAMPLES, 2}, 1};
  write_array(file, "images", &x, 0);
  write_array(file, "values", &v, 0);
  write_labels(file, "cls", CT_I16, 1, SAMPLES, 0);
  write_labels(file, "few", CT_I16, 1, SAMPLES - 1, 0);
  end_file(file);
  CT_ASSERT_FAILS(open_all(dir, few, &d), CT_ERR_FORMAT, "array 'few' holds 29 samples");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_batch_has_all_targets),
                                    CT_TEST(wrong_labels_name_their_sample),
                                    CT_TEST(arrays_that_do_not_fit_are_told), CT_TEST_END};
  return ct_test_main("further_targets", tests, argc, argv);
}
