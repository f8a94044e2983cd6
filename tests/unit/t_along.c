/* Arrays whose pixels move along with those of the samples, from a file through the feed. */
#include <string.h>

#include "base/ct_err.h"
#include "data/feed/ct_feed.h"
#include "data/transform/transforms.h"
#include "tests/unit/h5_files.h"

enum { SAMPLES = 12 };

/* All arrays hold the same numbers, in the order of their elements. */
static void write_file(const char *dir, int volumes)
{
  static const array_t image = {PLAIN, CT_U8, 4, {SAMPLES, 1, 4, 6}, 1},
                       map = {PLAIN, CT_U8, 3, {SAMPLES, 4, 6}, 1},
                       field = {PLAIN, CT_F32, 3, {SAMPLES, 4, 6}, 1},
                       coarse = {PLAIN, CT_U8, 3, {SAMPLES, 2, 3}, 1},
                       volume = {PLAIN, CT_F32, 5, {SAMPLES, 1, 2, 3, 3}, 1},
                       voxels = {PLAIN, CT_I32, 4, {SAMPLES, 2, 3, 3}, 1};
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", volumes ? &volume : &image, 0);
  write_array(file, "masks", volumes ? &voxels : &map, 0);
  write_array(file, "seconds", volumes ? &voxels : &map, 0);
  write_array(file, "fields", volumes ? &volume : &field, 0);
  write_array(file, "others", volumes ? &volume : &image, 0);
  write_array(file, "coarse", &coarse, 0);
  end_file(file);
}

static int open_data(const char *dir, const char *list, const char *first, ct_dataset_t *d)
{
  char yaml[200], *inputs[] = {"images", "others"},
                  *targets[] = {(char *)first, "seconds", "fields"};
  ct_opt_texts_t in = {inputs, 2}, of = {targets, 3};
  ct_reader_spec_t spec = spec_of(dir);
  ct_yaml_t *n = NULL;
  spec.inputs = &in;
  spec.apart = 1;
  spec.layout = 1;
  spec.places = 1;
  spec.target = first;
  spec.targets_of = &of;
  spec.targets_apart = 1;
  snprintf(yaml, sizeof yaml, "t: [%s]", list);
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  ct_transforms_opts_t o = {.list = ct_yaml_find(n, "t"), .training = 1};
  int rc = ct_dataset_open(&ct_reader_hdf5, &spec, &o, "x.yaml", d);
  ct_yaml_free(n);
  if (rc == CT_OK) d->more_as[0].labels = 1;
  if (rc == CT_OK) d->classes = 0;
  return rc;
}

/* Returns how many pixels of all samples differ from those of their stored order. */
static int check_batch(const ct_dataset_t *d, const ct_batch_t *b, int *wrong)
{
  int64_t n = ct_shape_sample(&d->x);
  const int32_t *second = b->more[0];
  const float *field = b->more[1];
  int moved = 0;
  for (int64_t i = 0; i < b->n * n; i++) {
    const float v = b->x[i], other = b->extra[0][i];
    *wrong += v != (float)b->labels[i] || v != (float)second[i] || v != field[i] || v != other;
    moved += v != (float)element(b->ids[i / n], i % n);
  }
  return moved;
}

static void expect_along(const char *dir, const char *list)
{
  ct_dataset_t d;
  ct_feed_t *f;
  const ct_batch_t *b;
  int wrong = 0, moved = 0;
  ct_sampler_t s = {.seed = 3, .samples = SAMPLES, .batch = 5, .shuffle = 1};
  if (CT_ASSERT_OK(open_data(dir, list, "masks", &d)) != CT_OK) return;
  int64_t n = ct_shape_sample(&d.x);
  CT_ASSERT_INT(d.pixels, n);
  CT_ASSERT_INT(ct_shape_sample(&d.more.x[0]), n);
  CT_ASSERT_INT(ct_shape_sample(&d.extra.x[0]), n);
  CT_ASSERT_OK(
      ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .one_epoch = 1, .workers = 2}, &f));
  for (;;) {
    CT_ASSERT_OK(ct_feed_next(f, &b));
    if (!b) break;
    moved += check_batch(&d, b, &wrong);
  }
  if (wrong || !moved) printf("# %s\n", list);
  CT_ASSERT_INT(wrong, 0);
  CU_ASSERT(moved > 20);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* Values between pixels are means, labels those of a pixel: of the sample, or 0 outside. */
static void labels_are_not_averaged(void)
{
  static const char list[] = "random_rotation: {degrees: [30, 30], interpolation: bilinear}";
  const char *dir = ct_test_dir();
  ct_dataset_t d;
  ct_feed_t *f;
  const ct_batch_t *b;
  int wrong = 0, means = 0;
  ct_sampler_t s = {.seed = 3, .samples = SAMPLES, .batch = SAMPLES};
  write_file(dir, 0);
  if (CT_ASSERT_OK(open_data(dir, list, "masks", &d)) != CT_OK) return;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .one_epoch = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  for (int64_t i = 0; i < SAMPLES * 24; i++) {
    const int32_t label = b->labels[i];
    int known = label == 0;
    for (int64_t k = 0; k < 24; k++)
      known |= label == element(b->ids[i / 24], k);
    wrong += !known || label != ((const int32_t *)b->more[0])[i];
    wrong += b->x[i] != ((const float *)b->more[1])[i] || b->extra[0][i] != (float)label;
    means += b->x[i] != (float)label;
  }
  CT_ASSERT_INT(wrong, 0);
  CU_ASSERT(means > 100);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void all_arrays_of_pixels_move_with_their_sample(void)
{
  static const char *const images[] = {
      "random_flip",
      "random_vertical_flip",
      "symmetry",
      "roll: [-1]",
      "{random_crop: {size: 3}}, symmetry",
      "{random_crop: {padding: [1, 2]}}, roll: [1, 2]",
      "center_crop: [5, 4]",
      "symmetry, {gaussian_noise: {sigma: 0}}, random_rotation: 90",
      "elastic_transform: {sigma: 0.3, interpolation: nearest}",
      "random_affine: {degrees: 0, translate: [0.5, 0.3]}",
      "random_perspective: {p: 1, interpolation: nearest}"};
  const char *dir = ct_test_dir();
  write_file(dir, 0);
  for (size_t i = 0; i < sizeof images / sizeof *images; i++)
    expect_along(dir, images[i]);
}

static void voxels_move_with_their_sample(void)
{
  const char *dir = ct_test_dir();
  write_file(dir, 1);
  expect_along(dir, "symmetry");
  expect_along(dir, "roll: [1, 2, 3], symmetry: {rotations: true}");
}

/* A range of classes is checked after the pixels moved; 101 is no class of padding. */
static void labels_that_moved_are_checked(void)
{
  ct_dataset_t d;
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_sampler_t s = {.seed = 3, .samples = SAMPLES, .batch = 5};
  const char *dir = ct_test_dir();
  write_file(dir, 0);
  if (CT_ASSERT_OK(open_data(dir, "symmetry", "masks", &d)) != CT_OK) return;
  d.more_as[0].classes = 50;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .one_epoch = 1}, &f));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA, "is not in 0 to 49 (50 classes)");
  ct_feed_close(f);
  ct_dataset_close(&d);
}

static void targets_of_another_resolution_are_refused(void)
{
  ct_dataset_t d;
  const char *dir = ct_test_dir();
  write_file(dir, 0);
  CT_ASSERT_FAILS(open_data(dir, "to_tensor, random_flip", "coarse", &d), CT_ERR_USAGE,
                  "x.yaml: transforms: random_flip moves the pixels of samples, which are 1x4x6, "
                  "but data.target is 1x2x3 and cannot move along with them");
  if (CT_ASSERT_OK(open_data(dir, "to_tensor, gaussian_noise", "coarse", &d)) == CT_OK)
    ct_dataset_close(&d);
  if (CT_ASSERT_OK(open_data(dir, "resize: [2, 3]", "coarse", &d)) == CT_OK) ct_dataset_close(&d);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(labels_are_not_averaged),
      CT_TEST(all_arrays_of_pixels_move_with_their_sample),
      CT_TEST(voxels_move_with_their_sample),
      CT_TEST(labels_that_moved_are_checked),
      CT_TEST(targets_of_another_resolution_are_refused),
      CT_TEST_END,
  };
  return ct_test_main("pixels that move along", tests, argc, argv);
}
