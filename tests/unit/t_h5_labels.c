/* The HDF5 reader's labels: their types, the classes that they name, and wrong ones. */
#include <unistd.h>

#include "data/feed/ct_feed.h"
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

static void labels_of_all_kinds(void)
{
  static const ct_dtype_t types[] = {CT_U8, CT_I16, CT_I64};
  const char *dir = ct_test_dir();
  array_t a = {PLAIN, CT_U8, 2, {30, 4}, 1};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  spec.target = "target";
  for (int i = 0; i < 6; i++) {
    hid_t file = begin_file(dir, "a.h5");
    write_array(file, "images", &a, 0);
    write_labels(file, "target", types[i % 3], 1 + i / 3, 30, 0);
    end_file(file);
    CT_ASSERT_OK(ops->open(&spec, &r));
    check_all(r, 30);
    ops->close(r);
  }
  spec.target = ""; /* none: 0, also if there are others or no array of them */
  int64_t index[] = {7, 3}, y[] = {5, 5};
  CT_ASSERT_OK(ops->open(&spec, &r));
  CT_ASSERT_OK(ops->read(r, 2, index, NULL, y));
  CT_ASSERT_INT(y[0] + y[1], 0);
  CU_ASSERT(ops->info(r)->unlabelled);
  ops->close(r);
}

static void wrong_labels_are_told(void)
{
  const char *dir = ct_test_dir();
  array_t a = {PLAIN, CT_U8, 2, {30, 4}, 1}, two = {PLAIN, CT_I32, 2, {30, 2}, 1};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", &a, 0);
  write_array(file, "two", &two, 0);
  write_labels(file, "few", CT_I32, 1, 29, 0);
  end_file(file);
  spec.target = "two";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "more than one number for a sample");
  spec.target = "few";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "holds 29 labels for 30 samples");
  spec.target = "labels";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "array 'labels' (data.target) not found; the file contains: few, images, two");
}

/* A mask belongs to each pixel of its sample: the message says both sizes. */
static void masks_of_another_size_are_told(void)
{
  const char *dir = ct_test_dir();
  array_t a = {PLAIN, CT_U8, 4, {30, 3, 6, 5}, 1}, fits = {PLAIN, CT_U8, 3, {30, 6, 5}, 1};
  array_t half = {PLAIN, CT_U8, 3, {30, 3, 2}, 1};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", &a, 0);
  write_array(file, "fits", &fits, 0);
  write_array(file, "half", &half, 0);
  end_file(file);
  spec.target = "half";
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT,
                  "array 'half' is 30x3x2, more than one number for a sample: expected a label "
                  "each, or masks as high and wide as the samples, which are 1x3x6x5");
  spec.target = "fits";
  CT_ASSERT_OK(ops->open(&spec, &r));
  CU_ASSERT(ops->info(r)->by_pixel);
  ops->close(r);
}

static void classes_come_from_the_attribute(void)
{
  const char *dir = ct_test_dir();
  array_t a = {PLAIN, CT_U8, 2, {5, 4}, 1};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  for (int i = 0; i < 2; i++) {
    hid_t file = begin_file(dir, i ? "b.h5" : "a.h5");
    write_array(file, "images", &a, 0);
    write_labels(file, "labels", CT_I32, 1, 5, 0);
    CU_ASSERT(ct__h5_put_attr_int(file, "classes", 17 + i));
    end_file(file);
    if (i) break;
    CT_ASSERT_OK(ops->open(&spec, &r));
    CT_ASSERT_INT(ops->info(r)->classes, 17);
    ops->close(r);
  }
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "b.h5: attribute 'classes' is 18, but in ");
}

/* 0, 1, 2, 0, 1 … of the type, one value a sample, and so many further dims of 1. */
static void write_typed(const char *dir, hid_t type, const void *values, int dims)
{
  hsize_t n[4] = {5, 1, 1, 1};
  array_t a = {PLAIN, CT_U8, 2, {5, 4}, 1};
  hid_t file = begin_file(dir, "a.h5"), space = H5Screate_simple(dims, n, NULL);
  write_array(file, "images", &a, 0);
  hid_t array = H5Dcreate2(file, "labels", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(array, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
  ct__h5_drop(array);
  ct__h5_drop(space);
  end_file(file);
}

/* As h5py has booleans: an enumeration of bytes. */
static hid_t boolean_type(void)
{
  int8_t value[] = {0, 1};
  hid_t type = H5Tenum_create(H5T_NATIVE_INT8);
  H5Tenum_insert(type, "FALSE", &value[0]);
  H5Tenum_insert(type, "TRUE", &value[1]);
  return type;
}

static void labels_of_other_types(void)
{
  static const int8_t values[] = {0, 1, 1, 0, 1};
  const char *dir = ct_test_dir();
  int64_t index[] = {0, 1, 2, 3, 4}, y[5];
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  hid_t boolean = boolean_type(), text = H5Tcopy(H5T_C_S1);
  for (int dims = 1; dims < 5; dims++)
    for (int is_boolean = 0; is_boolean < 2; is_boolean++) {
      write_typed(dir, is_boolean ? boolean : H5T_NATIVE_INT8, values, dims);
      if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) continue;
      CT_ASSERT_INT(ops->info(r)->targets, 0);
      CT_ASSERT_OK(ops->read(r, 5, index, NULL, y));
      for (int i = 0; i < 5; i++)
        CT_ASSERT_INT(y[i], values[i]);
      ops->close(r);
    }
  H5Tset_size(text, 1);
  write_typed(dir, text, values, 1);
  CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, "numpy.unique(names, return_inverse=True)");
  ct__h5_drop(boolean);
  ct__h5_drop(text);
}

/* A data set of n samples with these labels. */
static int open_labels(const char *dir, const int32_t *y, hsize_t n, ct_dataset_t *d)
{
  array_t a = {PLAIN, CT_U8, 2, {n, 4}, 1};
  ct_reader_spec_t spec = spec_of(dir);
  hid_t file = begin_file(dir, "a.h5"), space = H5Screate_simple(1, &n, NULL);
  write_array(file, "images", &a, 0);
  hid_t array =
      H5Dcreate2(file, "labels", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, y) >= 0);
  ct__h5_drop(array);
  ct__h5_drop(space);
  end_file(file);
  return CT_ASSERT_OK(ct_dataset_open(ops, &spec, NULL, "x", d));
}

/* Counts the classes; \a text: what was logged meanwhile, then a point. */
static void count_classes(ct_dataset_t *d, char *text, size_t cap)
{
  int ends[2], saved = dup(STDERR_FILENO);
  CT_ASSERT_INT(pipe(ends), 0);
  dup2(ends[1], STDERR_FILENO);
  CT_ASSERT_OK(ct_dataset_count_classes(d, 0));
  CT_ASSERT_INT(write(STDERR_FILENO, ".", 1), 1);
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(ends[1]);
  memset(text, 0, cap);
  CU_ASSERT(read(ends[0], text, cap - 1) > 0);
  close(ends[0]);
}

/* One label that is far from the others. */
static void an_odd_label_is_named(void)
{
  const char *dir = ct_test_dir();
  char text[500];
  ct_dataset_t d;
  for (int i = 0; i < 2; i++) {
    int32_t y[5] = {0, 1, 2, i ? 10000000 : 5, 1};
    if (open_labels(dir, y, 5, &d) != CT_OK) return;
    if (i) {
      CT_ASSERT_FAILS(ct_dataset_count_classes(&d, 0), CT_ERR_DATA,
                      "a.h5, sample 3: label 10000000 is not a class number");
    } else {
      count_classes(&d, text, sizeof text);
      CT_ASSERT_HAS(text, "a.h5, sample 3: has label 5, so there are 6 classes for 5 samples");
    }
    ct_dataset_close(&d);
  }
}

/* Labels 0 to 3, multiplied and shifted, and the warning about them. */
static void check_said(int times, int plus, const char *words)
{
  char text[500];
  int32_t y[60];
  ct_dataset_t d;
  for (int i = 0; i < 60; i++)
    y[i] = i % 4 * times + plus;
  if (open_labels(ct_test_dir(), y, 60, &d) != CT_OK) return;
  count_classes(&d, text, sizeof text);
  if (words)
    CT_ASSERT_HAS(text, words);
  else
    CT_ASSERT_TEXT(text, ".");
  CT_ASSERT_INT(d.classes, 3 * times + plus + 1);
  ct_dataset_close(&d);
}

static void labels_that_leave_classes_out(void)
{
  check_said(1, 0, NULL);
  check_said(2, 0, NULL);
  check_said(1, 1, "labels go from 1 to 4, and none is 0");
  check_said(10, 0, "labels from 0 to 30 have only 4 different values, so 27 of 31 classes");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(labels_of_all_kinds),
      CT_TEST(wrong_labels_are_told),
      CT_TEST(masks_of_another_size_are_told),
      CT_TEST(labels_of_other_types),
      CT_TEST(classes_come_from_the_attribute),
      CT_TEST(an_odd_label_is_named),
      CT_TEST(labels_that_leave_classes_out),
      CT_TEST_END,
  };
  return ct_test_main("h5_labels", tests, argc, argv);
}
