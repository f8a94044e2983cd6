/* Real-valued targets and ignored labels: from files and made-up data, through the feed. */
#include <math.h>
#include <string.h>

#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "data/feed/ct_feed.h"
#include "pack/ct_pack_in.h"
#include "pack/ct_pack_job.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

/* ---- files ---- */

/* images [n, 4], targets of any shape; element i of sample k is element(k, i) in both. */
static void write_file(const char *dir, const char *name, const array_t *targets, int64_t first)
{
  array_t images = {PLAIN, CT_U8, 2, {targets->dims[0], 4}, 1};
  hid_t file = begin_file(dir, name);
  write_array(file, "images", &images, first);
  write_array(file, "targets", targets, first);
  end_file(file);
}

static void targets_of_any_shape(void)
{
  static const array_t kinds[] = {{PLAIN, CT_F32, 1, {20}, 1},
                                  {SHUFFLED_DEFLATED, CT_F64, 2, {20, 3}, 7},
                                  {SWAPPED, CT_F32, 4, {20, 2, 3, 2}, 1}};
  static const int64_t index[] = {39, 0, 20, 7};
  for (int i = 0; i < 3; i++) {
    const char *dir = ct_test_dir();
    ct_reader_spec_t spec = spec_of(dir);
    ct_reader_t *r;
    float y[4 * 12];
    write_file(dir, "a.h5", &kinds[i], 0);
    write_file(dir, "b.h5", &kinds[i], 20);
    spec.target = "targets";
    if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) continue;
    int64_t targets = i == 0 ? 1 : i == 1 ? 3 : 12;
    CT_ASSERT_INT(ops->info(r)->targets, targets);
    CT_ASSERT_OK(ops->read(r, 4, index, NULL, y));
    for (int64_t k = 0; k < 4 * targets; k++)
      CT_ASSERT_NEAR(y[k], element(index[k / targets], k % targets), 0);
    ops->close(r);
  }
}

static void targets_that_differ_are_told(void)
{
  static const array_t two = {PLAIN, CT_F32, 2, {20, 2}, 1}, three = {PLAIN, CT_F32, 2, {20, 3}, 1};
  const char *dir = ct_test_dir();
  ct_reader_spec_t spec = spec_of(dir);
  ct_reader_t *r;
  array_t images = {PLAIN, CT_U8, 2, {21, 4}, 1};
  write_file(dir, "a.h5", &two, 0);
  write_file(dir, "b.h5", &three, 20);
  spec.target = "targets";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "b.h5: a sample has 3 targets, but in ");
  hid_t file = begin_file(dir, "b.h5");
  write_array(file, "images", &images, 0);
  write_array(file, "targets", &two, 0);
  end_file(file);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "holds 20 targets for 21 samples");
}

/* csv -> pack -> reader */
static void packed_targets_come_back(void)
{
  static const char csv[] = "a,b,t,u\n1,2,0.5,-3\n3,4,1e-3,7\n5,255,0,0.25\n";
  static const float want[] = {0.5f, -3, 1e-3f, 7, 0, 0.25f};
  static const int64_t index[] = {0, 1, 2};
  const char *dir = ct_test_dir();
  char path[700], pattern[700];
  ct_pack_csv_t flat = {.label = -1, .targets = 2};
  ct_topo_t alone = {.size = 1};
  ct_pack_source_t in;
  ct_pack_result_t result;
  ct_reader_t *r;
  uint8_t x[6];
  float y[6];
  snprintf(path, sizeof path, "%s/in.csv", dir);
  snprintf(pattern, sizeof pattern, "%s/out-%%d.h5", dir);
  CT_ASSERT_OK(ct_file_write(path, csv, sizeof csv - 1));
  if (CT_ASSERT_OK(ct_pack_open_csv(path, &flat, &in)) != CT_OK) return;
  CT_ASSERT_INT(in.x.dtype, CT_U8); /* targets do not count */
  ct_pack_job_t job = {.output = pattern, .shards = 2, .deflate = 4, .last = INT64_MAX};
  CT_ASSERT_OK(ct_pack_run(&alone, &in, &job, &result));
  in.close(in.state);
  ct_reader_spec_t spec = spec_of(dir);
  spec.target = "targets";
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  CT_ASSERT_INT(ops->info(r)->targets, 2);
  CT_ASSERT_INT(ops->info(r)->classes, 0);
  CT_ASSERT_OK(ops->read(r, 3, index, x, y));
  CT_ASSERT_INT(memcmp(x, (uint8_t[]){1, 2, 3, 4, 5, 255}, 6), 0);
  for (int i = 0; i < 6; i++)
    CT_ASSERT_NEAR(y[i], want[i], 0);
  ops->close(r);
  flat.targets = 4;
  CT_ASSERT_FAILS(ct_pack_open_csv(path, &flat, &in), CT_ERR_FORMAT,
                  "has 4 columns, and the last 4 of them should be targets");
  flat = (ct_pack_csv_t){.shape = ct_shape(2, 1, 3), .label = -1, .targets = 2};
  CT_ASSERT_FAILS(ct_pack_open_csv(path, &flat, &in), CT_ERR_FORMAT,
                  "in.csv:2: found 4 numbers, expected 5 (those of a sample, and its targets)");
}

/* ---- made-up data ---- */

/* One step of gradient descent on all samples finds the linear map: the waves are orthogonal. */
static void synthetic_targets_can_be_learned(void)
{
  enum { N = 400, D = 64, K = 3 };
  static float x[N][D], y[N][K];
  static double map[K][D];
  int64_t shape[] = {1, 8, 8};
  double error = 0, size = 0;
  ct_reader_t *r;
  ct_reader_spec_t spec = {
      .samples = N, .shape = shape, .shape_dims = 3, .seed = 1, .targets = K, .classes = 5};
  CT_ASSERT_OK(ct_reader_synthetic.open(&spec, &r));
  CT_ASSERT_INT(ct_reader_synthetic.info(r)->targets, K);
  for (int64_t i = 0; i < N; i++)
    CT_ASSERT_OK(ct_reader_synthetic.read(r, 1, &i, x[i], y[i]));
  for (int i = 0; i < N; i++)
    for (int k = 0; k < K; k++)
      for (int j = 0; j < D; j++)
        map[k][j] += 3.0 / N * y[i][k] * x[i][j]; /* y has variance 1/3 */
  for (int i = 0; i < N; i++) {
    for (int k = 0; k < K; k++) {
      double dot = 0, norm = 0;
      for (int j = 0; j < D; j++) {
        dot += map[k][j] * x[i][j];
        norm += map[k][j] * map[k][j];
      }
      error += pow(dot / norm - y[i][k], 2);
      size += y[i][k] * y[i][k];
    }
  }
  CU_ASSERT(error < 0.2 * size);
  ct_reader_synthetic.close(r);
}

/* ---- the feed ---- */

static ct_dataset_t open_synthetic(int64_t targets, const char *transforms)
{
  static int64_t shape[] = {1, 4, 4};
  ct_dataset_t d;
  ct_yaml_t *list = NULL;
  ct_reader_spec_t spec = {
      .samples = 50, .classes = 10, .shape = shape, .shape_dims = 3, .targets = targets};
  if (transforms) CT_ASSERT_OK(ct_yaml_parse(transforms, strlen(transforms), "x.yaml", &list));
  ct_transforms_opts_t o = {.list = list, .training = 1};
  CT_ASSERT_OK(ct_dataset_open(&ct_reader_synthetic, &spec, &o, "x.yaml", &d));
  ct_yaml_free(list);
  return d;
}

static void batches_have_targets(void)
{
  ct_dataset_t d = open_synthetic(3, NULL);
  ct_sampler_t s = {.seed = 5, .samples = 50, .batch = 16, .shuffle = 1};
  CT_ASSERT_INT(d.classes, 3); /* outputs */
  for (int workers = 0; workers <= 2; workers++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    float y[3];
    CT_ASSERT_OK(ct_feed_open(
        &d, &s, &(ct_feed_opts_t){.rank = 1, .size = 2, .workers = workers, .one_epoch = 1}, &f));
    for (int step = 0; step < 4; step++) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      for (int i = 0; i < b->n; i++) {
        CT_ASSERT_OK(d.ops->read(d.reader, 1, &b->ids[i], NULL, y));
        CT_ASSERT_INT(memcmp(y, b->targets + 3 * i, sizeof y), 0);
        CT_ASSERT_INT(b->labels[i], 0);
      }
    }
    ct_feed_close(f);
  }
  ct_dataset_close(&d);
}

/* A mixed target is the mean of two, weighted by the share. */
static void targets_are_mixed(void)
{
  ct_dataset_t d = open_synthetic(1, "- mixup: {alpha: 1}\n");
  ct_sampler_t s = {.seed = 5, .samples = 50, .batch = 50};
  ct_feed_t *f;
  const ct_batch_t *b;
  int64_t found = 0, mixed = 0;
  CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .one_epoch = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  for (int64_t i = 0; i < 50; i++) {
    float own, other;
    int fits = 0;
    CT_ASSERT_OK(d.ops->read(d.reader, 1, &b->ids[i], NULL, &own));
    for (int64_t k = 0; k < 50; k++) {
      CT_ASSERT_OK(d.ops->read(d.reader, 1, &k, NULL, &other));
      fits |= fabsf(b->mix[i] * own + (1 - b->mix[i]) * other - b->targets[i]) < 1e-6f;
    }
    found += fits;
    mixed += b->mix[i] < 1;
  }
  CT_ASSERT_INT(found, 50);
  CU_ASSERT(mixed > 40);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* Four samples of two targets; target 1 of sample 2 is infinite. */
static int open_infinite(const char *transforms, ct_dataset_t *d)
{
  const char *dir = ct_test_dir();
  array_t images = {PLAIN, CT_U8, 2, {4, 4}, 1};
  float y[4][2] = {{1, 2}, {3, 4}, {5, INFINITY}, {7, 8}};
  hsize_t dims[] = {4, 2};
  hid_t file = begin_file(dir, "a.h5"), space = H5Screate_simple(2, dims, NULL);
  write_array(file, "images", &images, 0);
  hid_t array =
      H5Dcreate2(file, "labels", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, y) >= 0);
  ct__h5_drop(array);
  ct__h5_drop(space);
  end_file(file);
  ct_yaml_t *list = NULL;
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ct_yaml_parse(transforms, strlen(transforms), "x.yaml", &list));
  ct_transforms_opts_t o = {.list = list, .training = 1};
  int rc = CT_ASSERT_OK(ct_dataset_open(ops, &spec, &o, "x.yaml", d));
  ct_yaml_free(list);
  return rc;
}

static void targets_that_are_not_finite_are_named(void)
{
  ct_sampler_t s = {.samples = 4, .batch = 4};
  ct_dataset_t d;
  ct_feed_t *f;
  const ct_batch_t *b;
  if (open_infinite("[]", &d) != CT_OK) return;
  CT_ASSERT_OK(
      ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 1, .one_epoch = 1}, &f));
  CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA, "a.h5, sample 2: target 1 is not finite");
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* Sample 3 alone: what fails is the partner. */
static void mixed_in_targets_that_are_not_finite_are_named(void)
{
  ct_sampler_t s = {.samples = 4, .batch = 1};
  int bad = 0, good = 0;
  ct_dataset_t d;
  if (open_infinite("[mixup]", &d) != CT_OK) return;
  for (int64_t epoch = 0; epoch < 30; epoch++) {
    ct_feed_t *f;
    const ct_batch_t *b;
    ct_feed_opts_t o = {.size = 1, .epoch = epoch, .cursor = 3, .one_epoch = 1};
    CT_ASSERT_OK(ct_feed_open(&d, &s, &o, &f));
    int rc = ct_feed_next(f, &b);
    if (rc != CT_OK)
      CT_ASSERT_FAILS(rc, CT_ERR_DATA, "a.h5, sample 2: target 1 is not finite");
    else
      CU_ASSERT(isfinite(b->targets[0]) && isfinite(b->targets[1]));
    bad += rc != CT_OK;
    good += rc == CT_OK;
    ct_feed_close(f);
  }
  CU_ASSERT(bad > 2 && good > 10);
  ct_dataset_close(&d);
}

static void no_memory_at_any_point(void)
{
  ct_dataset_t d = open_synthetic(2, "- mixup: {alpha: 1}\n");
  ct_sampler_t s = {.samples = 50, .batch = 8};
  ct_feed_t *f;
  int64_t live = ct_mem_live(), at = 1;
  for (;; at++) {
    ct_mem_fail_at(at);
    int rc = ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 1, .one_epoch = 1}, &f);
    ct_mem_fail_at(0);
    if (rc == CT_OK) break;
    CT_ASSERT_INT(rc, CT_ERR_NOMEM);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CU_ASSERT(at > 8);
  ct_feed_close(f);
  CT_ASSERT_INT(ct_mem_live(), live);
  ct_dataset_close(&d);
}

/* Label 9 may be there, though it is no class, and is not counted as one. */
static void the_ignored_label_is_allowed(void)
{
  ct_dataset_t d = open_synthetic(0, NULL);
  ct_sampler_t s = {.samples = 50, .batch = 50};
  ct_feed_t *f;
  const ct_batch_t *b;
  d.has_ignored = 1;
  d.ignored = 9;
  CT_ASSERT_OK(ct_dataset_count_classes(&d, 0));
  CT_ASSERT_INT(d.classes, 9);
  for (int allowed = 1; allowed >= 0; allowed--) {
    d.has_ignored = allowed;
    CT_ASSERT_OK(ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .one_epoch = 1}, &f));
    if (allowed) {
      CT_ASSERT_OK(ct_feed_next(f, &b));
      CT_ASSERT_INT(b->labels[9], 9);
    } else {
      CT_ASSERT_FAILS(ct_feed_next(f, &b), CT_ERR_DATA, "label 9 is not in 0 to 8");
    }
    ct_feed_close(f);
  }
  ct_dataset_close(&d);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(targets_of_any_shape),
                                    CT_TEST(targets_that_differ_are_told),
                                    CT_TEST(packed_targets_come_back),
                                    CT_TEST(synthetic_targets_can_be_learned),
                                    CT_TEST(batches_have_targets),
                                    CT_TEST(targets_are_mixed),
                                    CT_TEST(targets_that_are_not_finite_are_named),
                                    CT_TEST(mixed_in_targets_that_are_not_finite_are_named),
                                    CT_TEST(no_memory_at_any_point),
                                    CT_TEST(the_ignored_label_is_allowed),
                                    CT_TEST_END};
  return ct_test_main("targets", tests, argc, argv);
}
