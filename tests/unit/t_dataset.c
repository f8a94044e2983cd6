/* Options, data sets and the synthetic reader. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "data/feed/ct_feed.h"
#include "hdf5io/ct_h5.h"
#include "tests/unit/distribution.h"

/* ---- options and data set ---- */

static void options_become_a_spec(void)
{
  static const char yaml[] = "train: [a.h5, b.h5]\nval: synthetic\nshape: [1, 8, 8]\n"
                             "layout: nhwc\ncache_mb: 2\nworkers: 3\nclasses: 6\n"
                             "synthetic_targets: 5\n";
  double eight[] = {1, 1, 1, 1, 1, 1, 1, 1};
  ct_data_opts_t o = {0};
  ct_yaml_t *n;
  int64_t shape[CT_MAX_DIMS - 1];
  ct_reader_spec_t spec;
  CT_ASSERT_OK(ct_opt_defaults(ct_data_rows, &o));
  CT_ASSERT_FAILS(ct_data_spec(&o, &o.val, "d", 1, shape, &spec), CT_ERR_USAGE,
                  "data.val: no files are given");
  CT_ASSERT_INT(o.batch, 64);
  CU_ASSERT(o.shuffle);
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  CT_ASSERT_OK(ct_opt_read(ct_data_rows, &o, n, "x.yaml", "data", NULL));
  CT_ASSERT_OK(ct_data_spec(&o, &o.train, "d", 9, shape, &spec));
  CT_ASSERT_INT(spec.files->n, 2);
  CT_ASSERT_TEXT(spec.dir, "d");
  CT_ASSERT_TEXT(spec.input, "images");
  CT_ASSERT_TEXT(spec.target, "labels");
  CT_ASSERT_INT(spec.layout, 2);
  CT_ASSERT_INT(spec.shape_dims, 3);
  CT_ASSERT_INT(spec.shape[1], 8);
  CT_ASSERT_INT(spec.cache_bytes, 2000000);
  CT_ASSERT_INT(spec.threads, 3);
  CT_ASSERT_INT(spec.seed, 9);
  CT_ASSERT_INT(spec.samples, 1024);
  CT_ASSERT_INT(spec.classes, 6);
  CT_ASSERT_INT(spec.targets, 5);
  o.workers = 0; /* the main thread reads */
  CT_ASSERT_OK(ct_data_spec(&o, &o.train, "d", 9, shape, &spec));
  CT_ASSERT_INT(spec.threads, 1);
  o.shape.v[1] = 2.5;
  CT_ASSERT_FAILS(ct_data_spec(&o, &o.train, "d", 9, shape, &spec), CT_ERR_USAGE, "2.5");
  ct_opt_doubles_t given = o.shape;
  o.shape = (ct_opt_doubles_t){.v = eight, .n = 8};
  CT_ASSERT_FAILS(ct_data_spec(&o, &o.train, "d", 9, shape, &spec), CT_ERR_USAGE,
                  "data.shape: has 8 numbers, a sample up to 7");
  o.shape = (ct_opt_doubles_t){0};
  CT_ASSERT_OK(ct_data_spec(&o, &o.train, "d", 9, shape, &spec));
  CU_ASSERT_PTR_NULL(spec.shape);
  o.shape = given;
  ct_yaml_free(n);
  ct_opt_clear(ct_data_rows, &o);
}

/* ---- which reader ---- */

static char blocks[600]; /* what the watch would name while the probe waits */

static int begins_with_k(FILE *f)
{
  ct_heartbeat_file_read(blocks, sizeof blocks);
  return fgetc(f) == 'k';
}

static const ct_reader_ops_t kept = {.format = {"kept", {".kept", ".k"}, begins_with_k}};
static const ct_reader_ops_t *const readers[] = {&ct_reader_hdf5, &kept, &ct_reader_synthetic,
                                                 NULL};

/* Its name, or that of the error. */
static const char *reader_of(const char *dir, char *file)
{
  int64_t row;
  ct_opt_texts_t files = {.v = (char *[]){file, "other.kept"}, .n = strcmp(file, "two") ? 1 : 2};
  if (files.n == 2) files.v[0] = "synthetic";
  ct_reader_spec_t spec = {.dir = dir, .files = &files};
  int rc = ct_reader_find(readers, &spec, &row);
  return rc == CT_OK ? readers[row]->format.name : ct_err_name(rc);
}

static void a_file_finds_its_reader(void)
{
  static const char signature[] = "\211HDF\r\n\032\n";
  static char small[1024] = "anything", large[(1 << 20) + 8] = "anything", odd[4096] = "anything";
  const char *dir = ct_test_dir();
  char path[600];
  memcpy(small + 512, signature, 8);
  memcpy(large + (1 << 20), signature, 8);
  memcpy(odd + 1536, signature, 8);
  for (int i = 0; i < 6; i++) {
    static const char *const names[] = {"first", "second", "third", "fourth", "odd", "empty"};
    const char *holds[] = {"kept here", signature, small, large, odd, ""};
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    CT_ASSERT_OK(ct_file_write(path, holds[i],
                               (size_t[]){9, 8, sizeof small, sizeof large, sizeof odd, 0}[i]));
  }
  CT_ASSERT_TEXT(reader_of(dir, "synthetic"), "synthetic");
  CT_ASSERT_TEXT(reader_of(dir, "not-there.h5"), "HDF5"); /* by the name alone */
  CT_ASSERT_TEXT(reader_of(dir, "train-*.hdf5"), "HDF5");
  CT_ASSERT_TEXT(reader_of(dir, "a.h5.k"), "kept");
  CT_ASSERT_TEXT(reader_of(dir, "first"), "kept"); /* by what is in it */
  CT_ASSERT_TEXT(blocks + strlen(dir), "/first");
  ct_heartbeat_file_read(blocks, sizeof blocks);
  CT_ASSERT_TEXT(blocks, "");
  CT_ASSERT_TEXT(reader_of(dir, "sec*"), "HDF5");
  CT_ASSERT_TEXT(reader_of(dir, "third"), "HDF5"); /* behind a block of the user's … */
  CT_ASSERT_TEXT(reader_of(dir, "fourth"), "HDF5");
  CT_ASSERT_TEXT(reader_of(dir, "odd"), ct_err_name(CT_ERR_FORMAT)); /* … of a power of 2 */
  CT_ASSERT_TEXT(reader_of(dir, "empty"), ct_err_name(CT_ERR_FORMAT));
  CT_ASSERT_TEXT(
      ct_err_last()->text + strlen(dir),
      "/empty: is in no format that can be read here; there are HDF5 (.h5, .hdf5, .nc, .nc4), "
      "kept (.kept, .k)");
  CT_ASSERT_TEXT(reader_of(dir, "two"), ct_err_name(CT_ERR_IO)); /* a file of that name */
  CT_ASSERT_TEXT(reader_of(dir, ".k"), ct_err_name(CT_ERR_IO));  /* no suffix but a name */
}

static void classes_are_counted(void)
{
  ct_dataset_t d;
  ct_reader_spec_t spec = {.samples = 600, .classes = 7};
  CT_ASSERT_OK(ct_dataset_open(&ct_reader_synthetic, &spec, NULL, "x.yaml", &d));
  d.classes = 0;
  CT_ASSERT_OK(ct_dataset_count_classes(&d, 4));
  CT_ASSERT_INT(d.classes, 4);
  CT_ASSERT_OK(ct_dataset_count_classes(&d, 0));
  CT_ASSERT_INT(d.classes, 7);
  d.has_ignored = 1;
  d.ignored = 6; /* the loss leaves it out: it is no class */
  CT_ASSERT_OK(ct_dataset_count_classes(&d, 0));
  CT_ASSERT_INT(d.classes, 6);
  ct_dataset_close(&d);
  ct_dataset_close(&d); /* closed already */
}

/* ---- synthetic ---- */

static void synthetic_is_a_function_of_seed_and_number(void)
{
  ct_reader_t *r, *other;
  int64_t shape[] = {2, 6, 7}, ids[] = {5, 99, 5}, y[3];
  float x[3][84], z[84];
  ct_reader_spec_t spec = {
      .samples = 100, .classes = 7, .shape = shape, .shape_dims = 3, .seed = 4};
  CT_ASSERT_OK(ct_reader_synthetic.open(&spec, &r));
  spec.seed = 5;
  CT_ASSERT_OK(ct_reader_synthetic.open(&spec, &other));
  const ct_reader_info_t *info = ct_reader_synthetic.info(r);
  CT_ASSERT_INT(info->samples, 100);
  CT_ASSERT_INT(info->classes, 7);
  CU_ASSERT(info->fingerprint != ct_reader_synthetic.info(other)->fingerprint);
  CT_ASSERT_OK(ct_reader_synthetic.read(r, 3, ids, x, y));
  CT_ASSERT_INT(y[0], 5);
  CT_ASSERT_INT(y[1], 99 % 7);
  CT_ASSERT_INT(memcmp(x[0], x[2], sizeof x[0]), 0);
  CU_ASSERT(memcmp(x[0], x[1], sizeof x[0]) != 0);
  CT_ASSERT_OK(ct_reader_synthetic.read(other, 1, ids, z, NULL));
  CU_ASSERT(memcmp(x[0], z, sizeof z) != 0);
  ids[1] = 100;
  CT_ASSERT_FAILS(ct_reader_synthetic.read(r, 3, ids, x, y), CT_ERR_ARG, "sample 100");
  char location[64];
  ct_reader_synthetic.location(r, 5, location, sizeof location);
  CT_ASSERT_TEXT(location, "synthetic sample 5");
  ct_reader_synthetic.close(r);
  ct_reader_synthetic.close(other);
  spec.samples = 0;
  CT_ASSERT_FAILS(ct_reader_synthetic.open(&spec, &r), CT_ERR_USAGE, "at least 1");
}

/* The mean image of a class is its wave: the nearest of them tells the class of nearly all
 * samples. */
static void synthetic_can_be_learned(void)
{
  enum { N = 1000, D = 64, K = 10 };
  static float x[N][D];
  static double mean[K][D];
  int64_t shape[] = {1, 8, 8}, y;
  int right = 0;
  double sum = 0, squares = 0;
  ct_reader_t *r;
  ct_reader_spec_t spec = {.samples = N, .shape = shape, .shape_dims = 3, .seed = 1};
  CT_ASSERT_OK(ct_reader_synthetic.open(&spec, &r));
  for (int64_t i = 0; i < N; i++) {
    CT_ASSERT_OK(ct_reader_synthetic.read(r, 1, &i, x[i], &y));
    for (int k = 0; k < D; k++) {
      mean[y][k] += x[i][k] * K / N;
      sum += x[i][k];
      squares += x[i][k] * x[i][k];
    }
  }
  for (int i = 0; i < N; i++) {
    int best = 0;
    double least = INFINITY;
    for (int c = 0; c < K; c++) {
      double distance = 0;
      for (int k = 0; k < D; k++)
        distance += (x[i][k] - mean[c][k]) * (x[i][k] - mean[c][k]);
      if (distance < least) least = distance, best = c;
    }
    right += best == i % K;
  }
  CU_ASSERT(right > 0.95 * N);
  CT_ASSERT_NEAR(sum / (N * D), 0.1, 0.2); /* class 0 is constant 1 */
  CT_ASSERT_NEAR(sqrt(squares / (N * D)), 1.35, 0.15);
  ct_reader_synthetic.close(r);
}

/* Whoever goes on with other data must be told: each of their numbers counts. */
static void synthetic_fingerprints_differ(void)
{
  enum { KINDS = 8 };
  int64_t dims[][3] = {{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {1, 6, 1}};
  const ct_reader_spec_t base = {
      .samples = 9, .classes = 5, .shape = dims[0], .shape_dims = 3, .seed = 1};
  ct_reader_spec_t spec[KINDS];
  uint64_t print[KINDS];
  for (int i = 0; i < KINDS; i++)
    spec[i] = base;
  spec[1].samples = 5;
  spec[2].classes = 9;
  spec[3].targets = 5;
  spec[4].seed = 2;
  for (int i = 5; i < KINDS; i++)
    spec[i].shape = dims[i - 4];
  for (int i = 0; i < KINDS; i++) {
    ct_reader_t *r;
    CT_ASSERT_OK(ct_reader_synthetic.open(&spec[i], &r));
    print[i] = ct_reader_synthetic.info(r)->fingerprint;
    for (int k = 0; k < i; k++)
      CU_ASSERT(print[k] != print[i]);
    ct_reader_synthetic.close(r);
  }
}

/* Column x of row y of the wave: class or target k has the frequencies k / grid down and k % grid
 * across. */
static double wave(int64_t k, int64_t grid, int64_t y, int64_t rows, int64_t x, int64_t width)
{
  double down = (double)(k / grid * y) / (double)rows;
  return cos(2 * M_PI * (down + (double)(k % grid * x) / (double)width));
}

/* What is left without its wave is noise: uniform from -2 to 2, other numbers in each pixel and
 * channel. */
static void a_class_is_a_wave_in_noise(void)
{
  enum { N = 60, C = 2, H = 6, W = 7, D = C * H * W, GRID = 3, CLASSES = 8 };
  static float x[D];
  static double noise[N * D];
  int64_t shape[] = {C, H, W}, y, same = 0;
  ct_reader_t *r;
  ct_reader_spec_t spec = {
      .samples = N, .classes = CLASSES, .shape = shape, .shape_dims = 3, .seed = 1};
  CT_ASSERT_OK(ct_reader_synthetic.open(&spec, &r));
  for (int64_t i = 0; i < N; i++) {
    CT_ASSERT_OK(ct_reader_synthetic.read(r, 1, &i, x, &y));
    CT_ASSERT_INT(y, i % CLASSES);
    for (int k = 0; k < D; k++)
      noise[i * D + k] = x[k] - wave(y, GRID, k / W % H, H, k % W, W);
    for (int k = 1; k < D; k++)
      same += fabs(noise[i * D + k] - noise[i * D + k - 1]) < 1e-5;
    for (int k = H * W; k < D; k++)
      same += fabs(noise[i * D + k] - noise[i * D + k - H * W]) < 1e-5;
  }
  expect_uniform("synthetic noise", noise, N * D, -2, 2, 1e-4);
  CU_ASSERT(same < 10);
  ct_reader_synthetic.close(r);
}

/* Targets are uniform from -1 to 1 and independent, and each is the amplitude of its wave. */
static void a_target_is_an_amplitude(void)
{
  enum { N = 3000, H = 6, W = 7, K = 3, GRID = 2 };
  static float x[H * W];
  static double target[K][N], noise[N * H * W];
  float y[K];
  int pair[16] = {0};
  int64_t shape[] = {1, H, W};
  ct_reader_t *r;
  ct_reader_spec_t spec = {.samples = N, .targets = K, .shape = shape, .shape_dims = 3, .seed = 1};
  CT_ASSERT_OK(ct_reader_synthetic.open(&spec, &r));
  for (int64_t i = 0; i < N; i++) {
    CT_ASSERT_OK(ct_reader_synthetic.read(r, 1, &i, x, y));
    for (int k = 0; k < K; k++)
      target[k][i] = y[k];
    pair[4 * (int)(2 * y[0] + 2) + (int)(2 * y[1] + 2)]++;
    for (int p = 0; p < H * W; p++) {
      double sum = 0;
      for (int k = 0; k < K; k++)
        sum += y[k] * wave(k, GRID, p / W, H, p % W, W);
      noise[i * H * W + p] = x[p] - sum;
    }
  }
  for (int k = 0; k < K; k++)
    expect_uniform("synthetic targets", target[k], N, -1, 1, 0);
  expect_even("two targets", pair, 16);
  expect_uniform("synthetic noise", noise, N * H * W, -0.5, 0.5, 1e-4);
  ct_reader_synthetic.close(r);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(options_become_a_spec),
      CT_TEST(a_file_finds_its_reader),
      CT_TEST(classes_are_counted),
      CT_TEST(synthetic_is_a_function_of_seed_and_number),
      CT_TEST(synthetic_can_be_learned),
      CT_TEST(synthetic_fingerprints_differ),
      CT_TEST(a_class_is_a_wave_in_noise),
      CT_TEST(a_target_is_an_amplitude),
      CT_TEST_END,
  };
  return ct_test_main("dataset", tests, argc, argv);
}
