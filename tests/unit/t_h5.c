/* The HDF5 reader on every layout that people's files have. */
#include <libdeflate.h>
#include <pthread.h>
#include <unistd.h>

#include "base/ct_mem.h"
#include "data/feed/ct_feed.h"
#include "hdf5io/filter/h5_chunk.h"
#include "hdf5io/read/h5_files.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

static void every_layout_and_type_is_read(void)
{
  static const ct_dtype_t types[] = {CT_U8, CT_I8, CT_I16, CT_I32, CT_I64, CT_F32, CT_F64};
  for (int how = PLAIN; how <= SWAPPED; how++) {
    const char *dir = ct_test_dir();
    for (int t = 0; t < 7; t++) {
      ct_reader_t *r = NULL;
      array_t a = {how, types[t], 4, {23, 3, 5, 6}, 7};
      write_shard(dir, "a.h5", &a, 0);
      a.dims[0] = 0, a.chunk = 4; /* an empty one in the middle */
      write_shard(dir, "b.h5", &a, 23);
      a.dims[0] = 40, a.chunk = how == LOOSE ? 50 : 8;
      write_shard(dir, "c.h5", &a, 23);
      ct_reader_spec_t spec = spec_of(dir);
      spec.cache_bytes = t % 2 ? 1 << 20 : 0;
      if (CT_ASSERT_OK(ops->open(&spec, &r)) == CT_OK) {
        CT_ASSERT_INT(ops->info(r)->x.dtype, types[t]);
        check_all(r, 63);
      }
      ops->close(r);
    }
  }
}

/* Types that the program does not have are read as wider ones that hold their values. */
static void other_types_are_widened(void)
{
  ct__h5_lock();
  const struct {
    hid_t stored;
    ct_dtype_t type;
    double value;
  } cases[] = {{H5T_STD_U16LE, CT_I32, 60000},
               {H5T_STD_U32BE, CT_I64, 4e9},
               {H5T_STD_U64LE, CT_F64, 9223372036854775808.0},
               {ct__h5_type_stored(CT_F16), CT_F32, 1.5},
               {ct__h5_type_stored(CT_BF16), CT_F32, -3}};
  ct__h5_unlock();
  const char *dir = ct_test_dir();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_reader_t *r = NULL;
    ct_reader_spec_t spec = spec_of(dir);
    double x[4] = {0, 0, 0, cases[i].value};
    _Alignas(8) char sample[16];
    hsize_t dims[2] = {2, 2};
    hid_t file = begin_file(dir, "a.h5"), space = H5Screate_simple(2, dims, NULL);
    hid_t array =
        H5Dcreate2(file, "images", cases[i].stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    CU_ASSERT(H5Dwrite(array, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
    ct__h5_drop(array);
    ct__h5_drop(space);
    write_labels(file, "labels", CT_I64, 1, 2, 0);
    end_file(file);
    if (CT_ASSERT_OK(ops->open(&spec, &r)) == CT_OK) {
      CT_ASSERT_INT(ops->info(r)->x.dtype, cases[i].type);
      CT_ASSERT_OK(ops->read(r, 1, (int64_t[]){1}, sample, NULL));
      double is = cases[i].type == CT_F32   ? ((float *)sample)[1]
                  : cases[i].type == CT_F64 ? ((double *)sample)[1]
                  : cases[i].type == CT_I32 ? ((int32_t *)sample)[1]
                                            : (double)((int64_t *)sample)[1];
      CT_ASSERT_NEAR(is, cases[i].value, 0);
    }
    ops->close(r);
  }
}

/* Chunks that were never written read as fill values. */
static void holes_are_read(void)
{
  const char *dir = ct_test_dir();
  hid_t file = begin_file(dir, "a.h5");
  hsize_t dims[2] = {20, 4}, chunk[2] = {5, 4};
  float fill = 2.5f, x[80];
  int64_t index[20], y[20];
  hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(2, dims, NULL);
  H5Pset_chunk(list, 2, chunk);
  H5Pset_deflate(list, 1);
  H5Pset_fill_value(list, H5T_NATIVE_FLOAT, &fill);
  hid_t array = H5Dcreate2(file, "images", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  ct__h5_drop(array);
  ct__h5_drop(space);
  ct__h5_drop(list);
  write_labels(file, "labels", CT_U8, 1, 20, 0);
  end_file(file);
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  for (int i = 0; i < 20; i++)
    index[i] = i;
  CT_ASSERT_OK(ops->read(r, 20, index, x, y));
  for (int i = 0; i < 80; i++)
    CT_ASSERT_NEAR(x[i], 2.5, 0);
  ops->close(r);
}

/* Elements of a sample, and samples of a chunk. */
enum { WIDE = 6, LONG = 4 };

/* Writes a chunk past HDF5's filters, as if those of the mask \a skipped had been left out. */
static void write_chunk(hid_t array, int chunk, uint32_t skipped)
{
  enum { BYTES = LONG * WIDE * 2 };
  hsize_t at[2] = {(hsize_t)chunk * LONG, 0};
  int16_t x[LONG * WIDE];
  char plain[BYTES], packed[BYTES + 64];
  size_t n = 0;
  for (int i = 0; i < LONG * WIDE; i++)
    x[i] = (int16_t)element(chunk * LONG + i / WIDE, i % WIDE);
  for (int i = 0; i < BYTES; i++) /* the low bytes of all numbers, then the high ones */
    plain[i] = ((char *)x)[skipped & 1 ? i : i < BYTES / 2 ? 2 * i : 2 * (i - BYTES / 2) + 1];
  struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
  if (!(skipped & 2)) n = libdeflate_zlib_compress(c, plain, BYTES, packed, sizeof packed);
  libdeflate_free_compressor(c);
  CU_ASSERT(H5Dwrite_chunk(array, H5P_DEFAULT, skipped, at, n ? n : BYTES, n ? packed : plain) >=
            0);
}

/* A writer may leave out filters of single chunks; the file says which. */
static void skipped_filters_are_skipped(void)
{
  const char *dir = ct_test_dir();
  array_t a = {SHUFFLED_DEFLATED, CT_I16, 2, {4 * LONG, WIDE}, LONG};
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", &a, 0);
  write_labels(file, "labels", CT_I64, 1, a.dims[0], 0);
  hid_t array = H5Dopen2(file, "images", H5P_DEFAULT);
  for (uint32_t skipped = 0; skipped < 4; skipped++)
    write_chunk(array, (int)skipped, skipped);
  ct__h5_drop(array);
  end_file(file);
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  check_all(r, 4 * LONG);
  ops->close(r);
}

static int64_t files_open(void)
{
  ct__h5_lock();
  int64_t n = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_FILE);
  ct__h5_unlock();
  return n;
}

static void more_shards_than_open_files(void)
{
  enum { FILES = CT__H5_FILES_OPEN + 6 };
  const char *dir = ct_test_dir();
  char name[32];
  array_t a = {CHUNKED, CT_U8, 2, {3, 5}, 2};
  for (int i = 0; i < FILES; i++) {
    snprintf(name, sizeof name, "s-%03d.h5", i);
    write_shard(dir, name, &a, 3 * i);
  }
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  spec.cache_bytes = 0;
  CT_ASSERT_OK(ops->open(&spec, &r));
  check_all(r, 3 * FILES);
  CT_ASSERT_INT(files_open(), CT__H5_FILES_OPEN);
  ops->close(r);
  CT_ASSERT_INT(files_open(), 0);
}

/* More samples in a call than are sorted at once. */
static void large_reads(void)
{
  const char *dir = ct_test_dir();
  array_t a = {DEFLATED, CT_U8, 2, {2500, 3}, 100};
  ct_reader_t *r;
  write_shard(dir, "a.h5", &a, 0);
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  check_all(r, 2500);
  ops->close(r);
}

/* ---- what a sample is ---- */

static void check_shape(const char *dir, ct_reader_spec_t spec, int last, const char *text)
{
  ct_reader_t *r = NULL;
  char is[64];
  (void)dir;
  if (CT_ASSERT_OK(ops->open(&spec, &r)) == CT_OK) {
    CT_ASSERT_TEXT(ct_shape_text(&ops->info(r)->x, is, sizeof is), text);
    CT_ASSERT_INT(ops->info(r)->channels_last, last);
  }
  ops->close(r);
}

static void shapes_are_understood(void)
{
  static const struct {
    int ndim;
    hsize_t dims[5];
    int layout, last;
    const char *text;
  } cases[] = {
      {1, {4}, 0, 0, "1x1"},
      {2, {4, 64}, 0, 0, "1x64"},
      {3, {4, 28, 20}, 0, 0, "1x1x28x20"},
      {3, {4, 28, 3}, 2, 0, "1x1x28x3"}, /* no channels to be last */
      {4, {4, 3, 8, 6}, 0, 0, "1x3x8x6"},
      {4, {4, 8, 6, 3}, 0, 1, "1x3x8x6"},
      {4, {4, 8, 6, 1}, 0, 1, "1x1x8x6"},
      {4, {4, 3, 6, 3}, 0, 0, "1x3x6x3"},
      {4, {4, 16, 6, 7}, 0, 0, "1x16x6x7"},
      {4, {4, 8, 6, 3}, 1, 0, "1x8x6x3"},
      {4, {4, 8, 6, 5}, 2, 1, "1x5x8x6"},
      {4, {4, 24, 20, 5}, 0, 1, "1x5x24x20"},
      {4, {4, 20, 24, 5}, 0, 1, "1x5x20x24"},
      {4, {4, 9, 9, 8}, 0, 1, "1x8x9x9"},       /* beside a square */
      {4, {4, 24, 20, 12}, 0, 0, "1x24x20x12"}, /* doubtful */
      {4, {4, 24, 20, 5}, 1, 0, "1x24x20x5"},
      {4, {4, 24, 5, 5}, 0, 0, "1x24x5x5"},
      {4, {4, 3, 20, 2}, 0, 0, "1x3x20x2"},
      {5, {4, 8, 9, 10, 2}, 0, 1, "1x2x8x9x10"},
      {5, {4, 2, 9, 10, 3}, 0, 0, "1x2x9x10x3"},
      {5, {4, 2, 3, 5, 6}, 0, 0, "1x2x3x5x6"},
      {5, {4, 2, 3, 5, 4}, 2, 1, "1x4x2x3x5"},
  };
  const char *dir = ct_test_dir();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    array_t a = {PLAIN, CT_U8, cases[i].ndim, {0}, 1};
    memcpy(a.dims, cases[i].dims, sizeof cases[i].dims);
    write_shard(dir, "a.h5", &a, 0);
    ct_reader_spec_t spec = spec_of(dir);
    spec.layout = cases[i].layout;
    check_shape(dir, spec, cases[i].last, cases[i].text);
  }
}

/* An attribute as h5py writes it: a string of variable length. */
static void put_layout(hid_t file, const char *word)
{
  hid_t array = H5Dopen2(file, "images", H5P_DEFAULT), type = H5Tcopy(H5T_C_S1);
  hid_t space = H5Screate(H5S_SCALAR);
  H5Tset_size(type, H5T_VARIABLE);
  hid_t attr = H5Acreate2(array, "layout", type, space, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(H5Awrite(attr, type, &word) >= 0);
  ct__h5_drop(attr);
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(array);
}

static void the_layout_attribute_decides(void)
{
  const char *dir = ct_test_dir();
  static const char *const words[] = {"NHWC", "NCHW", "HWCN"};
  ct_reader_t *r;
  for (int i = 0; i < 3; i++) {
    array_t a = {PLAIN, CT_U8, 4, {2, 7, 8, 9}, 1};
    hid_t file = begin_file(dir, "a.h5");
    write_array(file, "images", &a, 0);
    write_labels(file, "labels", CT_I32, 1, 2, 0);
    put_layout(file, words[i]);
    end_file(file);
    ct_reader_spec_t spec = spec_of(dir);
    if (i < 2)
      check_shape(dir, spec, !i, i ? "1x7x8x9" : "1x9x7x8");
    else
      CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "is 'HWCN', expected NCHW or NHWC");
    spec.layout = 1; /* the option stands above the attribute */
    check_shape(dir, spec, 0, "1x7x8x9");
  }
}

static void flat_samples_are_seen_in_a_shape(void)
{
  const char *dir = ct_test_dir();
  int64_t shape[] = {3, 4, 5};
  ct_reader_t *r;
  array_t a = {CHUNKED, CT_U8, 2, {9, 60}, 2};
  write_shard(dir, "a.h5", &a, 0);
  ct_reader_spec_t spec = spec_of(dir);
  spec.shape = shape;
  spec.shape_dims = 3;
  check_shape(dir, spec, 0, "1x3x4x5");
  spec.shape_dims = 2;
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "are 1x60, which cannot be seen as 1x3x4");
  array_t b = {PLAIN, CT_U8, 4, {9, 3, 4, 5}, 2};
  write_shard(dir, "a.h5", &b, 0);
  spec.shape_dims = 3;
  check_shape(dir, spec, 0, "1x3x4x5");
  shape[0] = 4, shape[1] = 3;
  check_shape(dir, spec, 0, "1x4x3x5");
  shape[0] = 5, shape[1] = 3, shape[2] = 4;
  check_shape(dir, spec, 1, "1x5x3x4"); /* the same dims with channels last */
  spec.layout = 1;
  check_shape(dir, spec, 0, "1x5x3x4");
  shape[0] = 7;
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "cannot be seen as 1x7x3x4");
}

/* N x D x H x W is not rewritten to train on its volumes. */
static void what_was_seen_is_told(void)
{
  static struct {
    hsize_t dims[5];
    int ndim, layout, doubtful;
    int64_t shape[4];
    const char *dims_text, *as;
  } cases[] = {
      {{4, 24, 20, 5}, 4, 0, 0, {0}, "24x20x5", "5 channels of 24x20 (data.layout: auto)"},
      {{4, 24, 20, 12}, 4, 0, 1, {0}, "24x20x12", "24 channels of 20x12 (data.layout: auto)"},
      {{4, 24, 20, 12}, 4, 1, 0, {0}, "24x20x12", "24 channels of 20x12 (data.layout: nchw)"},
      {{4, 24, 20, 12}, 4, 2, 0, {0}, "24x20x12", "12 channels of 24x20 (data.layout: nhwc)"},
      {{4, 6, 8, 8}, 4, 0, 0, {1, 6, 8, 8}, "6x8x8", "1 channel of 6x8x8 (data.shape)"},
      {{4, 28, 28}, 3, 0, 0, {0}, "28x28", "1 channel of 28x28 (data.layout: auto)"},
      {{4, 30}, 2, 0, 0, {0}, "", ""}};
  const char *dir = ct_test_dir();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char text[200] = "";
    ct_reader_t *r;
    array_t a = {CHUNKED, CT_U8, cases[i].ndim, {0}, 2};
    memcpy(a.dims, cases[i].dims, sizeof cases[i].dims);
    write_shard(dir, "a.h5", &a, 0);
    ct_reader_spec_t spec = spec_of(dir);
    spec.layout = cases[i].layout;
    if (cases[i].shape[0]) spec.shape = cases[i].shape;
    spec.shape_dims = 4;
    if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
    if (cases[i].as[0])
      snprintf(text, sizeof text, "samples %s read as %s", cases[i].dims_text, cases[i].as);
    CT_ASSERT_TEXT(ops->info(r)->seen, text);
    CT_ASSERT_INT(ops->info(r)->doubtful, cases[i].doubtful);
    ops->close(r);
  }
}

static void channels_last_reaches_the_batch_transposed(void)
{
  const char *dir = ct_test_dir();
  array_t a = {DEFLATED, CT_U8, 4, {6, 5, 4, 3}, 4};
  ct_dataset_t d;
  ct_feed_t *f;
  const ct_batch_t *b;
  ct_sampler_t s = {.samples = 6, .batch = 6};
  write_shard(dir, "a.h5", &a, 0);
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ct_dataset_open(ops, &spec, NULL, "x", &d));
  d.classes = 10;
  CT_ASSERT_OK(
      ct_feed_open(&d, &s, &(ct_feed_opts_t){.size = 1, .workers = 1, .one_epoch = 1}, &f));
  CT_ASSERT_OK(ct_feed_next(f, &b));
  for (int n = 0; n < 6; n++)
    for (int c = 0; c < 3; c++)
      for (int k = 0; k < 20; k++)
        CT_ASSERT_NEAR(b->x[60 * n + 20 * c + k], (double)element(n, 3 * k + c), 0);
  ct_feed_close(f);
  ct_dataset_close(&d);
}

/* ---- threads ---- */

typedef struct job {
  ct_reader_t *r;
  int64_t samples;
  int number, wrong;
} job_t;

static void *read_much(void *arg)
{
  job_t *j = arg;
  int64_t index[16];
  for (int round = 0; round < 100; round++) {
    for (int i = 0; i < 16; i++)
      index[i] =
          (int64_t)(ct_rng_u64(2, CT_RNG_TEST, (uint32_t)(100 * j->number + round), (uint64_t)i) %
                    (uint64_t)j->samples);
    j->wrong += check_samples(j->r, 16, index) != 0;
  }
  return NULL;
}

/* More threads than the reader was told, and a cache that is always too small. */
static void threads_share_a_reader(void)
{
  const char *dir = ct_test_dir();
  array_t a = {SHUFFLED_DEFLATED, CT_F32, 3, {60, 6, 6}, 8};
  pthread_t threads[4];
  job_t jobs[4];
  write_shard(dir, "a.h5", &a, 0);
  a.how = CHECKED;
  write_shard(dir, "b.h5", &a, 60);
  for (int cache = 0; cache <= 1; cache++) {
    ct_reader_t *r;
    ct_reader_spec_t spec = spec_of(dir);
    spec.cache_bytes = cache ? 1 << 20 : 0;
    CT_ASSERT_OK(ops->open(&spec, &r));
    for (int i = 0; i < 4; i++) {
      jobs[i] = (job_t){r, 120, i, 0};
      pthread_create(&threads[i], NULL, read_much, &jobs[i]);
    }
    for (int i = 0; i < 4; i++) {
      pthread_join(threads[i], NULL);
      CT_ASSERT_INT(jobs[i].wrong, 0);
    }
    ops->close(r);
  }
}

static void reading_allocates_nothing(void)
{
  const char *dir = ct_test_dir();
  array_t a = {DEFLATED, CT_U8, 2, {200, 30}, 16};
  int64_t index[64], y[64];
  static char x[64 * 30];
  ct_reader_t *r;
  write_shard(dir, "a.h5", &a, 0);
  ct_reader_spec_t spec = spec_of(dir);
  spec.cache_bytes = 2000;
  CT_ASSERT_OK(ops->open(&spec, &r));
  int64_t before = ct_mem_calls();
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < 64; i++)
      index[i] = (round * 64 + i * 17) % 200;
    CT_ASSERT_OK(ops->read(r, 64, index, x, y));
  }
  CT_ASSERT_INT(ct_mem_calls(), before);
  ops->close(r);
}

static void the_version_is_told(void)
{
  CT_ASSERT_HAS(ct_h5_version(), ".");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(every_layout_and_type_is_read),
      CT_TEST(other_types_are_widened),
      CT_TEST(holes_are_read),
      CT_TEST(skipped_filters_are_skipped),
      CT_TEST(more_shards_than_open_files),
      CT_TEST(large_reads),
      CT_TEST(shapes_are_understood),
      CT_TEST(the_layout_attribute_decides),
      CT_TEST(flat_samples_are_seen_in_a_shape),
      CT_TEST(what_was_seen_is_told),
      CT_TEST(channels_last_reaches_the_batch_transposed),
      CT_TEST(threads_share_a_reader),
      CT_TEST(reading_allocates_nothing),
      CT_TEST(the_version_is_told),
      CT_TEST_END,
  };
  return ct_test_main("h5", tests, argc, argv);
}
