/* Samples of several arrays: which are joined, which become inputs of their own, and what a batch
 * has of these. */
#include <math.h>

#include "base/ct_mem.h"
#include "data/feed/ct_feed.h"
#include "tests/unit/h5_files.h"

enum { SAMPLES = 20, IMAGE = 2 * 3 * 5, WAVE = 6 };

/* images and more are alike but for their channels; wave, whole and last are not. */
static const char *write_arrays(const char *dir)
{
  const array_t images = {DEFLATED, CT_U8, 4, {SAMPLES, 2, 3, 5}, 7},
                extra = {PLAIN, CT_U8, 4, {SAMPLES, 1, 3, 5}, 1},
                wave = {SHUFFLED_DEFLATED, CT_F32, 2, {SAMPLES, WAVE}, 3},
                whole = {SWAPPED, CT_I16, 3, {SAMPLES, 2, 5}, 1},
                few = {PLAIN, CT_F32, 2, {SAMPLES - 1, 2}, 1};
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", &images, 0);
  write_array(file, "more", &extra, 0);
  write_array(file, "wave", &wave, 0);
  write_array(file, "whole", &whole, 0);
  write_array(file, "few", &few, 0);
  write_labels(file, "labels", CT_I64, 1, SAMPLES, 0);
  end_file(file);
  return dir;
}

static int open_arrays(const char *dir, int n, char **names, int apart, ct_dataset_t *d)
{
  const ct_opt_texts_t inputs = {names, n};
  ct_reader_spec_t spec = spec_of(dir);
  spec.input = names[0];
  spec.inputs = &inputs;
  spec.apart = apart;
  return ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "x.yaml", d);
}

/* Each array holds the same function of its sample. */
static int is_of(const float *x, int64_t sample, int64_t n)
{
  int same = 1;
  for (int64_t i = 0; i < n; i++)
    same &= x[i] == (float)element(sample, i);
  return same;
}

static int batches_are_right(const ct_dataset_t *d, int workers)
{
  int wrong = 0, seen = 0;
  const ct_batch_t *b;
  ct_feed_t *f;
  ct_sampler_t order = {.seed = 3, .samples = SAMPLES, .batch = 6, .shuffle = 1};
  ct_feed_opts_t o = {.size = 1, .workers = workers, .one_epoch = 1};
  CT_ASSERT_OK(ct_feed_open(d, &order, &o, &f));
  while (ct_feed_next(f, &b) == CT_OK && b)
    for (int i = 0; i < b->n; i++, seen++) {
      wrong += !is_of(b->x + i * IMAGE, b->ids[i], IMAGE);
      wrong += !is_of(b->extra[0] + i * WAVE, b->ids[i], WAVE);
      wrong += !is_of(b->extra[1] + i * 10, b->ids[i], 10);
    }
  ct_feed_close(f);
  return wrong == 0 && seen == SAMPLES;
}

static void batches_have_all_inputs(void)
{
  char text[100], *names[] = {"images", "wave", "whole"};
  ct_dataset_t d;
  if (CT_ASSERT_OK(open_arrays(write_arrays(ct_test_dir()), 3, names, 0, &d)) != CT_OK) return;
  CT_ASSERT_TEXT(ct_inputs_text(&d.extra, text, sizeof text), "wave=6, whole=1x2x5");
  CU_ASSERT(d.extra.x[1].dtype == CT_F32 && d.info.extra.x[1].dtype == CT_I16);
  CT_ASSERT_INT(ct_shape_sample(&d.x), IMAGE);
  CU_ASSERT(batches_are_right(&d, 0));
  CU_ASSERT(batches_are_right(&d, 2));
  ct_dataset_close(&d);
}

static void those_alike_are_joined(void)
{
  char text[100], *names[] = {"images", "wave", "more"};
  const char *dir = write_arrays(ct_test_dir());
  ct_dataset_t d;
  if (CT_ASSERT_OK(open_arrays(dir, 3, names, 0, &d)) != CT_OK) return;
  CT_ASSERT_TEXT(ct_inputs_text(&d.extra, text, sizeof text), "wave=6");
  CT_ASSERT_INT(d.x.dim[1], 3);
  ct_dataset_close(&d);
  if (CT_ASSERT_OK(open_arrays(dir, 3, names, 1, &d)) != CT_OK) return;
  CT_ASSERT_TEXT(ct_inputs_text(&d.extra, text, sizeof text), "wave=6, more=1x3x5");
  CT_ASSERT_INT(d.x.dim[1], 2);
  ct_dataset_close(&d);
}

/* What another rank needs to know: it opens the same without a look at the files. */
static void another_rank_opens_the_same(void)
{
  char *names[] = {"images", "wave", "more"};
  const char *dir = write_arrays(ct_test_dir());
  const ct_opt_texts_t inputs = {names, 3};
  void *bytes = NULL;
  ct_dataset_t first, second;
  ct_reader_spec_t spec = spec_of(dir);
  spec.inputs = &inputs;
  if (CT_ASSERT_OK(open_arrays(dir, 3, names, 0, &first)) != CT_OK) return;
  CT_ASSERT_OK(first.ops->share(first.reader, &bytes, &spec.known_bytes));
  spec.known = bytes;
  if (CT_ASSERT_OK(ct_dataset_open(&ct_reader_hdf5, &spec, NULL, "x.yaml", &second)) == CT_OK) {
    CU_ASSERT(ct_inputs_same(&first.extra, &second.extra));
    CU_ASSERT(ct_shape_same(&first.x, &second.x));
    CU_ASSERT(first.info.fingerprint == second.info.fingerprint);
    ct_dataset_close(&second);
  }
  ct_dataset_close(&first);
  ct_mem_free(bytes);
}

static void what_does_not_fit_is_told(void)
{
  char *twice[] = {"images", "wave", "wave"}, *fewer[] = {"images", "few"},
       *none[] = {"images", "nothing"};
  const char *dir = write_arrays(ct_test_dir());
  ct_dataset_t d;
  CT_ASSERT_FAILS(open_arrays(dir, 3, twice, 0, &d), CT_ERR_USAGE, "'wave' is named twice");
  CT_ASSERT_FAILS(open_arrays(dir, 2, fewer, 0, &d), CT_ERR_FORMAT,
                  "array 'few' holds 19 samples, but 'images' 20");
  CT_ASSERT_FAILS(open_arrays(dir, 2, none, 0, &d), CT_ERR_FORMAT, "array 'nothing' (data.");
}

static void a_number_that_is_none_is_told(void)
{
  const char *dir = write_arrays(ct_test_dir());
  char path[700], *names[] = {"images", "wave"};
  float wave[SAMPLES][WAVE] = {0};
  ct_dataset_t d;
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_sampler_t order = {.samples = SAMPLES, .batch = SAMPLES};
  ct_feed_opts_t o = {.size = 1, .one_epoch = 1};
  wave[13][2] = NAN;
  snprintf(path, sizeof path, "%s/a.h5", dir);
  ct__h5_lock();
  hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT);
  hid_t array = H5Dopen2(file, "wave", H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave) >= 0);
  ct__h5_drop(array);
  end_file(file);
  if (CT_ASSERT_OK(open_arrays(dir, 2, names, 0, &d)) != CT_OK) return;
  CT_ASSERT_OK(ct_feed_open(&d, &order, &o, &f));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA,
                  "a.h5, sample 13: its 'wave' holds a value that is not finite");
  ct_feed_close(f);
  ct_dataset_close(&d);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(batches_have_all_inputs),       CT_TEST(those_alike_are_joined),
      CT_TEST(another_rank_opens_the_same),   CT_TEST(what_does_not_fit_is_told),
      CT_TEST(a_number_that_is_none_is_told), CT_TEST_END};
  return ct_test_main("inputs", tests, argc, argv);
}
