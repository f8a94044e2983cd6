/* Samples that differ in size, from a format of the test's own: each must become what it becomes in
 * a data set of samples that are all of its size. */
#include <stdlib.h>

#include "data/feed/ct_feed.h"
#include "hdf5io/ct_h5.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/pgm_reader.h"

enum { SAMPLES = 23, MOST = 12 * 12 };
static const ct_reader_ops_t *const readers[] = {&ct_reader_hdf5, &ct_reader_pgm, NULL};

/* ---- data sets ---- */

static const char *dir; /* of the whole program */

/* From 5 x 5 to 12 x 12, wider and higher ones. */
static int height(int i)
{
  return 5 + i * 3 % 8;
}

static int width(int i)
{
  return 5 + i * 5 % 8;
}

/* So many images of the size of image \a of; -1: each of its own. */
static void write_images(const char *path, int n, int of)
{
  FILE *f = fopen(path, "w");
  for (int i = 0; i < n && f; i++) {
    int h = height(of < 0 ? i : of), w = width(of < 0 ? i : of);
    fprintf(f, "P5 %d %d 255\n", w, h);
    for (int k = 0; k < h * w; k++)
      fputc((i * 31 + k * k) % 251, f);
  }
  if (f) fclose(f);
}

static int open_data(const char *yaml, const char *file, ct_dataset_t *d)
{
  int rc = CT_OK;
  int64_t row;
  ct_yaml_t *n = NULL;
  char *names[] = {(char *)(uintptr_t)file};
  ct_opt_texts_t files = {.v = names, .n = 1};
  ct_reader_spec_t spec = {.dir = dir, .files = &files};
  *d = (ct_dataset_t){0};
  CT_TRY(ct_reader_find(readers, &spec, &row));
  CT_TRY(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  ct_transforms_opts_t o = {.list = ct_yaml_find(n, "t"), .training = 1};
  CT_TRY(ct_dataset_open(readers[row], &spec, &o, "x.yaml", d));
out:
  ct_yaml_free(n);
  return rc;
}

static int open_images(const char *yaml, int n, int of, ct_dataset_t *d)
{
  char path[600];
  if (!dir) dir = ct_test_dir();
  CT_ASSERT_OK(ct_path_join(path, sizeof path, dir, "images.pgm"));
  write_images(path, n, of);
  return open_data(yaml, "images.pgm", d);
}

/* All samples of an epoch, by their numbers. */
typedef struct seen {
  float x[SAMPLES][MOST], mix[SAMPLES];
  int32_t labels[SAMPLES], labels2[SAMPLES];
} seen_t;

static void see(const ct_dataset_t *d, int ranks, int workers, seen_t *s)
{
  size_t sample = (size_t)ct_shape_sample(&d->x);
  ct_sampler_t sampler = {.seed = 3, .samples = d->info.samples, .batch = 7, .shuffle = 1};
  memset(s, 0, sizeof *s);
  for (int rank = 0; rank < ranks; rank++) {
    const ct_batch_t *b;
    ct_feed_t *f;
    ct_feed_opts_t o = {.rank = rank, .size = ranks, .workers = workers, .one_epoch = 1};
    if (CT_ASSERT_OK(ct_feed_open(d, &sampler, &o, &f)) != CT_OK) return;
    int64_t before = ct_mem_calls();
    for (;;) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      for (int i = 0; b && i < b->n; i++) {
        memcpy(s->x[b->ids[i]], b->x + (size_t)i * sample, sample * sizeof(float));
        s->labels[b->ids[i]] = b->labels[i];
        if (b->mix) s->labels2[b->ids[i]] = b->labels2[i];
        if (b->mix) s->mix[b->ids[i]] = b->mix[i];
      }
      if (!b) break;
    }
    CT_ASSERT_INT(ct_mem_calls(), before);
    ct_feed_close(f);
  }
}

static seen_t want, got;

/* ---- tests ---- */

/* A data set of samples of one size goes the way that is planned at the opening. */
static void each_becomes_what_it_does_among_its_like(void)
{
  static const char *const lists[] = {
      "t: [{resize: {size: [6, 11]}}]",
      "t: [{resize: {size: 7}}, {center_crop: {size: 7}}, {normalize: {mean: 1, std: 2}}]",
      "t: [{center_crop: {size: [12, 9]}}, random_flip]",
      "t: [to_tensor, {random_resized_crop: {size: 6}}, {color_jitter: {brightness: 0.5}}]",
      "t: [{random_crop: {size: 8, padding: 2}}, {random_erasing: {p: 1}}]",
      "t: [random_flip, {resize: {size: 9}}, {random_crop: {size: 9}}]"};
  for (size_t k = 0; k < sizeof lists / sizeof *lists; k++) {
    ct_dataset_t varied, like;
    CT_ASSERT_OK(open_images(lists[k], SAMPLES, -1, &varied));
    CU_ASSERT(varied.info.varies);
    see(&varied, 1, 0, &got);
    for (int i = 0; i < SAMPLES; i++) {
      CT_ASSERT_OK(open_images(lists[k], SAMPLES, i, &like));
      CU_ASSERT(!like.info.varies && ct_shape_same(&like.x, &varied.x));
      see(&like, 1, 0, &want);
      CT_ASSERT_INT(memcmp(got.x[i], want.x[i], sizeof got.x[i]), 0);
      CT_ASSERT_INT(got.labels[i], i % 10);
      ct_dataset_close(&like);
    }
    for (int ranks = 1; ranks <= 3; ranks++) {
      see(&varied, ranks, ranks, &want);
      CT_ASSERT_INT(memcmp(&got, &want, sizeof got), 0);
    }
    ct_dataset_close(&varied);
  }
}

static void they_can_be_mixed(void)
{
  ct_dataset_t plain, mixed;
  int blends = 0;
  CT_ASSERT_OK(open_images("t: [{center_crop: {size: 8}}]", SAMPLES, -1, &plain));
  CT_ASSERT_OK(open_images("t: [{center_crop: {size: 8}}, mixup]", SAMPLES, -1, &mixed));
  see(&plain, 1, 0, &want);
  see(&mixed, 1, 2, &got);
  for (int i = 0; i < SAMPLES; i++) {
    int partner = 0, wrong = 1;
    float share = got.mix[i];
    for (; partner < SAMPLES && wrong; partner++) {
      wrong = partner % 10 != got.labels2[i];
      for (int k = 0; k < 64 && !wrong; k++) {
        float y = share * want.x[i][k] + (1 - share) * want.x[partner][k];
        wrong = !(y - got.x[i][k] < 1e-3f && got.x[i][k] - y < 1e-3f);
      }
    }
    CU_ASSERT(!wrong);
    blends += partner - 1 != i;
  }
  CU_ASSERT(blends > 10);
  ct_dataset_close(&plain);
  ct_dataset_close(&mixed);
}

static void what_does_not_make_them_alike_is_told(void)
{
  ct_dataset_t d;
  CT_ASSERT_FAILS(open_images("t: [to_tensor]", SAMPLES, -1, &d), CT_ERR_USAGE,
                  "x.yaml: samples differ in size, and after the transforms they still do: image 0 "
                  "is 1x1x5x5 and becomes 1x1x5x5, not 1x1x12x12");
  CT_ASSERT_FAILS(open_images("t: [{resize: {size: 8}}]", SAMPLES, -1, &d), CT_ERR_USAGE,
                  "image 1 is 1x1x8x10 and becomes 1x1x8x10, not 1x1x8x8");
  CT_ASSERT_FAILS(open_images("t: [{random_crop: {size: 8}}]", SAMPLES, -1, &d), CT_ERR_USAGE,
                  "x.yaml: image 0 has shape 1x1x5x5, which the transform random_crop cannot take");
}

static int open_loosely(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  int rc = pgm_open(spec, out);
  if (rc == CT_OK) (*out)->info.varies = 1;
  return rc;
}

/* Its samples might differ, but these do not: nothing has to be done to them. */
static void alike_by_chance(void)
{
  ct_dataset_t d, by_chance;
  CT_ASSERT_OK(open_images("t: [to_tensor]", SAMPLES, 4, &d));
  CU_ASSERT(ct_dataset_is_bytes(&d));
  ct_opt_texts_t files = {.v = (char *[]){"images.pgm"}, .n = 1};
  ct_reader_spec_t spec = {.dir = dir, .files = &files};
  ct_reader_ops_t loose = ct_reader_pgm;
  loose.open = open_loosely;
  CT_ASSERT_OK(ct_dataset_open(&loose, &spec, NULL, "x.yaml", &by_chance));
  by_chance.affine = d.affine;
  CU_ASSERT(!ct_dataset_is_bytes(&by_chance));
  see(&d, 1, 0, &want);
  see(&by_chance, 1, 2, &got);
  CT_ASSERT_INT(memcmp(&got, &want, sizeof got), 0);
  ct_dataset_close(&by_chance);
  ct_dataset_close(&d);
}

/* What a reader says of one sample goes beyond what it said of all. */
static void lying_shape(const ct_reader_t *r, int64_t index, ct_shape_t *out)
{
  pgm_shape(r, index, out);
  out->dim[index == 3 ? 1 : 2] += index == 3 || index == 5 ? 8 : 0;
}

static void a_sample_that_is_larger_than_the_largest_is_told(void)
{
  ct_dataset_t d;
  ct_opt_texts_t files = {.v = (char *[]){"images.pgm"}, .n = 1};
  CT_ASSERT_OK(open_images("t: [{center_crop: {size: 8}}]", SAMPLES, -1, &d));
  ct_dataset_close(&d);
  ct_reader_spec_t spec = {.dir = dir, .files = &files};
  ct_reader_ops_t lying = ct_reader_pgm;
  lying.shape = lying_shape;
  CT_ASSERT_FAILS(ct_dataset_open(&lying, &spec, NULL, "x.yaml", &d), CT_ERR_USAGE, "image 0");
  ct_yaml_t *n = NULL;
  static const char yaml[] = "t: [{center_crop: {size: 8}}]";
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  ct_transforms_opts_t o = {.list = ct_yaml_find(n, "t"), .training = 1};
  CT_ASSERT_FAILS(ct_dataset_open(&lying, &spec, &o, "x.yaml", &d), CT_ERR_FORMAT,
                  "image 3: has shape 1x9x6x12, which exceeds the largest shape that the reader "
                  "reported, 1x1x12x12");
  ct_yaml_free(n);
}

static void no_memory_at_any_point(void)
{
  static const char yaml[] = "t: [{resize: {size: 9}}, {center_crop: {size: 8}}, mixup]";
  ct_sampler_t s = {.samples = SAMPLES, .batch = 4};
  ct_dataset_t first;
  CT_ASSERT_OK(open_images(yaml, SAMPLES, -1, &first));
  ct_dataset_close(&first);
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  for (int64_t nth = 1; rc != CT_OK && nth < 300; nth++) {
    ct_dataset_t d = {0};
    ct_feed_t *f = NULL;
    ct_mem_fail_at(nth);
    rc = open_data(yaml, "images.pgm", &d);
    if (rc == CT_OK) rc = ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 2}, &f);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    ct_feed_close(f);
    ct_dataset_close(&d);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(each_becomes_what_it_does_among_its_like),
      CT_TEST(they_can_be_mixed),
      CT_TEST(what_does_not_make_them_alike_is_told),
      CT_TEST(alike_by_chance),
      CT_TEST(a_sample_that_is_larger_than_the_largest_is_told),
      CT_TEST(no_memory_at_any_point),
      CT_TEST_END,
  };
  return ct_test_main("samples that differ in size", tests, argc, argv);
}
