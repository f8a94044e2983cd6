/* What the HDF5 reader says about files that are not as they should be. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "data/feed/ct_feed.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

/* "bad superblock version number", says HDF5. */
static void a_group_and_a_newer_file_are_told(void)
{
  const char *dir = ct_test_dir();
  char path[CT_PATH_MAX], *bytes;
  size_t n;
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  array_t a = {PLAIN, CT_U8, 2, {3, 4}, 1};
  hid_t file = begin_file(dir, "a.h5");
  hid_t group = H5Gcreate2(file, "images", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  write_array(group, "a", &a, 0);
  ct__h5_drop(group);
  write_labels(file, "labels", CT_I32, 1, 3, 0);
  end_file(file);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "'images' (data.input) is a group, not an array; it holds: a: name one");
  spec.input = "images/b";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "the file contains: images/, labels");
  spec.input = "images/a";
  if (CT_ASSERT_OK(ops->open(&spec, &r)) == CT_OK) ops->close(r);
  snprintf(path, sizeof path, "%s/a.h5", dir);
  CT_ASSERT_OK(ct_file_read(path, &bytes, &n));
  bytes[8] = 9; /* the version of its first block */
  CT_ASSERT_OK(ct_file_write(path, bytes, n));
  ct_mem_free(bytes);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "a newer HDF5 than the");
}

static void wrong_files_are_named(void)
{
  const char *dir = ct_test_dir();
  char path[700];
  ct_reader_t *r = NULL;
  ct_reader_spec_t spec = spec_of(dir);
  char *gone[] = {"gone.h5"};
  ct_opt_texts_t files = {gone, 1}, none = {NULL, 0};
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_USAGE, "no file matches '*.h5'");
  spec.files = &files;
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_IO, "gone.h5: cannot open: No such file");
  spec.files = &none;
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "no sample");
  spec = spec_of(dir);
  snprintf(path, sizeof path, "%s/text.h5", dir);
  CT_ASSERT_OK(ct_file_write(path, "no HDF5 file at all", 19));
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "text.h5: cannot be read as an HDF5 file");
  CU_ASSERT(r == NULL);
}

static void shards_must_be_alike(void)
{
  const char *dir = ct_test_dir();
  array_t a = {PLAIN, CT_U8, 4, {5, 1, 8, 8}, 1}, b = {PLAIN, CT_U8, 4, {5, 1, 8, 9}, 1};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  write_shard(dir, "a.h5", &a, 0);
  write_shard(dir, "b.h5", &b, 0);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "b.h5: samples are uint8 1x1x8x9, but those");
  CT_ASSERT_HAS(ct_err_last()->text, "a.h5 are uint8 1x1x8x8");
  a.type = CT_F32;
  write_shard(dir, "b.h5", &a, 0);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "b.h5: samples are float32 1x1x8x8");
  a = (array_t){PLAIN, CT_U8, 4, {5, 3, 8, 8}, 1}, b = (array_t){PLAIN, CT_U8, 4, {5, 8, 8, 3}, 1};
  write_shard(dir, "a.h5", &a, 0);
  write_shard(dir, "b.h5", &b, 0);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "b.h5: samples are uint8 1x3x8x8 (channels last), but those");
}

static void odd_arrays_are_told(void)
{
  const char *dir = ct_test_dir();
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  hsize_t dims[6] = {2, 2, 2, 2, 2, 2}, zero[2] = {3, 0};
  hid_t file = begin_file(dir, "a.h5"), space = H5Screate_simple(6, dims, NULL);
  hid_t scalar = H5Screate(H5S_SCALAR), empty = H5Screate_simple(2, zero, NULL);
  static const char *const names[] = {"six", "scalar", "bits", "string", "empty"};
  hid_t types[] = {H5T_STD_U8LE, H5T_STD_U8LE, H5T_STD_B8LE, H5T_C_S1, H5T_STD_U8LE};
  hid_t spaces[] = {space, scalar, space, space, empty};
  for (int i = 0; i < 5; i++)
    ct__h5_drop(
        H5Dcreate2(file, names[i], types[i], spaces[i], H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  ct__h5_drop(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  ct__h5_drop(space);
  ct__h5_drop(scalar);
  ct__h5_drop(empty);
  end_file(file);
  spec.input = "six";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "array 'six' has 6 dims, expected 1 to 5");
  spec.input = "scalar";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "has 0 dims");
  spec.input = "bits";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "is of type a bit field, expected integers");
  spec.input = "string";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "is of type a string");
  spec.input = "empty";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "impossible dim 0");
  spec.input = "group";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "'group' (data.input) is a group");
  spec.input = "";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "array '' (data.");
}

static size_t negate(unsigned flags, size_t nvalues, const unsigned values[], size_t bytes,
                     size_t *size, void **data)
{
  (void)flags, (void)nvalues, (void)values, (void)size;
  for (size_t i = 0; i < bytes; i++)
    ((unsigned char *)*data)[i] ^= 0xff;
  return bytes;
}

/* A filter that the library had when the file was written, and has no more. */
static void a_missing_filter_is_named(void)
{
  const char *dir = ct_test_dir();
  ct_reader_t *r = NULL;
  ct_reader_spec_t spec = spec_of(dir);
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, 300, 1, 1, "negative", NULL, NULL, negate};
  hsize_t dims[2] = {6, 5}, chunk[2] = {2, 5};
  const char x[30] = {1};
  char sample[5];
  hid_t file = begin_file(dir, "a.h5"), space = H5Screate_simple(2, dims, NULL);
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  CU_ASSERT(H5Zregister(&filter) >= 0);
  H5Pset_chunk(list, 2, chunk);
  H5Pset_filter(list, 300, 0, 0, NULL);
  hid_t array = H5Dcreate2(file, "images", H5T_STD_I8LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_INT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
  write_labels(file, "labels", CT_I8, 1, 6, 0);
  ct__h5_drop(array);
  ct__h5_drop(list);
  ct__h5_drop(space);
  CU_ASSERT(H5Fclose(file) >= 0);
  CU_ASSERT(H5Zunregister(300) >= 0);
  ct__h5_unlock();
  if (CT_ASSERT_OK(ops->open(&spec, &r)) == CT_OK)
    CT_ASSERT_FAILS(ops->read(r, 1, (int64_t[]){3}, sample, NULL), CT_ERR_IO,
                    "lacks filter 300 (negative)");
  ops->close(r);
}

/* Compressed bytes overwritten in the file: told with the file and the samples, and only for
 * those. */
static void damaged_chunks_are_named(void)
{
  const char *dir = ct_test_dir();
  char path[700], x[64 * 100];
  char *data;
  size_t bytes;
  ct_reader_t *r;
  array_t a = {DEFLATED, CT_U8, 2, {20, 100}, 10};
  int64_t index[] = {3, 4}, other[] = {12, 19}, y[2];
  write_shard(dir, "a.h5", &a, 0);
  snprintf(path, sizeof path, "%s/a.h5", dir);
  CT_ASSERT_OK(ct_file_read(path, &data, &bytes));
  size_t at = 0; /* the first zlib stream of level 6 */
  while (at + 2 < bytes && ((uint8_t)data[at] != 0x78 || ((uint8_t)data[at + 1] & 0xe0) != 0x80))
    at++;
  CU_ASSERT(at + 40 < bytes);
  int fd = open(path, O_WRONLY);
  CT_ASSERT_INT(pwrite(fd, "\xff\xff\xff\xff\xff\xff", 6, (off_t)at + 20), 6);
  close(fd);
  ct_mem_free(data);
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  for (int again = 0; again < 2; again++)
    CT_ASSERT_FAILS(ops->read(r, 2, index, x, y), CT_ERR_FORMAT,
                    "a.h5: array 'images': the chunk of samples 0 to 9 is damaged: it cannot be "
                    "decompressed");
  CT_ASSERT_INT(check_samples(r, 2, other), 0);
  ops->close(r);
}

static void indices_are_checked(void)
{
  const char *dir = ct_test_dir();
  char x[8];
  int64_t index[] = {20}, y[1];
  ct_reader_t *r;
  array_t a = {CHUNKED, CT_U8, 2, {20, 8}, 10};
  write_shard(dir, "a.h5", &a, 0);
  write_shard(dir, "b.h5", &a, 0);
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  CT_ASSERT_OK(ops->read(r, 1, index, x, y));
  index[0] = 40;
  CT_ASSERT_FAILS(ops->read(r, 1, index, x, y), CT_ERR_ARG,
                  "sample 40 is out of range: there are 40");
  index[0] = -1;
  CT_ASSERT_FAILS(ops->read(r, 1, index, NULL, y), CT_ERR_ARG, "sample -1 is out of range");
  char location[64];
  ops->location(r, 19, location, sizeof location);
  CT_ASSERT_TEXT(location, "a.h5, sample 19");
  ops->location(r, 20, location, sizeof location);
  CT_ASSERT_TEXT(location, "b.h5, sample 0");
  ops->close(r);
}

static uint64_t fingerprint(const char *dir)
{
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  uint64_t f = ops->info(r)->fingerprint;
  ops->close(r);
  return f;
}

static void fingerprints_tell_data_sets_apart(void)
{
  const char *dir = ct_test_dir(), *other = ct_test_dir();
  array_t a = {PLAIN, CT_U8, 2, {20, 8}, 1};
  write_shard(dir, "a.h5", &a, 0);
  write_shard(other, "a.h5", &a, 0);
  uint64_t first = fingerprint(dir);
  CU_ASSERT(fingerprint(other) == first); /* the place does not matter */
  write_shard(other, "b.h5", &a, 0);
  CU_ASSERT(fingerprint(other) != first);
  a.dims[0] = 21;
  write_shard(dir, "a.h5", &a, 0);
  CU_ASSERT(fingerprint(dir) != first);
}

/* 4x4x4 is the same shape either way. */
static void fingerprints_tell_orders_apart(void)
{
  const char *dir[] = {ct_test_dir(), ct_test_dir()};
  array_t a = {PLAIN, CT_U8, 4, {5, 4, 4, 4}, 1};
  uint64_t print[2];
  for (int i = 0; i < 2; i++) {
    hid_t file = begin_file(dir[i], "a.h5");
    write_array(file, "images", &a, 0);
    write_labels(file, "labels", CT_I32, 1, 5, 0);
    hid_t array = H5Dopen2(file, "images", H5P_DEFAULT);
    CU_ASSERT(ct__h5_put_attr_text(array, "layout", i ? "NHWC" : "NCHW"));
    ct__h5_drop(array);
    end_file(file);
    print[i] = fingerprint(dir[i]);
  }
  CU_ASSERT(print[0] != print[1]);
}

/* ---- attributes ---- */

static void put_classes(hid_t file, hid_t type, hsize_t n, const void *value)
{
  hid_t space = n == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, NULL);
  hid_t attr = H5Acreate2(file, "classes", type, space, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(H5Awrite(attr, type, value) >= 0);
  ct__h5_drop(attr);
  ct__h5_drop(space);
}

static void wrong_classes_are_told(void)
{
  static const char *const texts[] = {
      "a.h5: attribute 'classes' is a string, expected one integer",
      "a.h5: attribute 'classes' is float64, expected one integer",
      "a.h5: attribute 'classes' is 2 values of int64, expected one integer",
      "a.h5: attribute 'classes' is 0, expected 1 to 10000000 classes",
      "a.h5: attribute 'classes' is 1000000000, expected 1 to 10000000 classes"};
  static const int64_t numbers[] = {10, 10, 0, 1000000000};
  const double real = 10;
  const char *dir = ct_test_dir();
  array_t a = {PLAIN, CT_U8, 2, {5, 4}, 1};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  for (int i = 0; i < 5; i++) {
    hid_t file = begin_file(dir, "a.h5");
    write_array(file, "images", &a, 0);
    write_labels(file, "labels", CT_I32, 1, 5, 0);
    if (i == 0) CU_ASSERT(ct__h5_put_attr_text(file, "classes", "10"));
    if (i == 1) put_classes(file, H5T_NATIVE_DOUBLE, 1, &real);
    if (i >= 2) put_classes(file, H5T_NATIVE_INT64, i == 2 ? 2 : 1, numbers + (i == 2 ? 0 : i - 1));
    end_file(file);
    CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, texts[i]);
  }
}

static void a_layout_that_is_no_text_is_told(void)
{
  const char *dir = ct_test_dir();
  array_t a = {PLAIN, CT_U8, 4, {5, 4, 4, 4}, 1};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", &a, 0);
  write_labels(file, "labels", CT_I32, 1, 5, 0);
  hid_t array = H5Dopen2(file, "images", H5P_DEFAULT);
  CU_ASSERT(ct__h5_put_attr_int(array, "layout", 1));
  ct__h5_drop(array);
  end_file(file);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "attribute 'layout' of array 'images' is 'int64', expected NCHW or NHWC");
}

/* ---- memory and faults ---- */

static void no_memory_at_any_point(void)
{
  const char *dir = ct_test_dir();
  array_t a = {DEFLATED, CT_U8, 2, {20, 30}, 16};
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  write_shard(dir, "a.h5", &a, 0);
  write_shard(dir, "b.h5", &a, 20);
  for (int64_t nth = 1; rc != CT_OK && nth < 100; nth++) {
    ct_reader_t *r = NULL;
    ct_reader_spec_t spec = spec_of(dir);
    ct_mem_fail_at(nth);
    rc = ops->open(&spec, &r);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || (rc == CT_ERR_NOMEM && !r));
    ops->close(r);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
}

static void fault_point(void)
{
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of("/");
  setenv("CTRAIN_FAULTS", "reader.open@0:1", 1);
  ct_fault_setup(0);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FAULT, "reader.open");
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(0);
}

static void what_is_no_regular_file_is_refused(void)
{
  const char *dir[] = {ct_test_dir(), ct_test_dir()};
  char path[2][CT_PATH_MAX];
  for (int i = 0; i < 2; i++) {
    ct_reader_t *r;
    ct_reader_spec_t spec = spec_of(dir[i]);
    CT_ASSERT_OK(ct_path_join(path[i], sizeof path[i], dir[i], "a.h5"));
    CT_ASSERT_INT(i ? mkdir(path[i], 0700) : mkfifo(path[i], 0600), 0);
    CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_IO,
                    i ? "a.h5: is a directory" : "a.h5: is a FIFO, expected a regular file");
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(a_group_and_a_newer_file_are_told),
      CT_TEST(wrong_files_are_named),
      CT_TEST(shards_must_be_alike),
      CT_TEST(odd_arrays_are_told),
      CT_TEST(a_missing_filter_is_named),
      CT_TEST(damaged_chunks_are_named),
      CT_TEST(indices_are_checked),
      CT_TEST(fingerprints_tell_data_sets_apart),
      CT_TEST(fingerprints_tell_orders_apart),
      CT_TEST(wrong_classes_are_told),
      CT_TEST(a_layout_that_is_no_text_is_told),
      CT_TEST(no_memory_at_any_point),
      CT_TEST(fault_point),
      CT_TEST(what_is_no_regular_file_is_refused),
      CT_TEST_END,
  };
  return ct_test_main("h5_bad", tests, argc, argv);
}
