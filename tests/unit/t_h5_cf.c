/* Packed and missing numbers of netCDF-4 (tests/golden/make_cf.py), and what is refused of them. */
#include <math.h>

#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "data/ct_dataset.h"
#include "tests/unit/h5_files.h"

enum { SAMPLES = 7, OF_ONE = 12, ALL = SAMPLES * OF_ONE };
static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

static ct_reader_spec_t spec_of_array(const char *name, int64_t cache_bytes)
{
  static char dir[CT_PATH_MAX];
  static char *names[1] = {"cf.nc"};
  static const ct_opt_texts_t files = {names, 1};
  snprintf(dir, sizeof dir, "%s/tests/golden", getenv("CT_SRC") ? getenv("CT_SRC") : ".");
  return (ct_reader_spec_t){.dir = dir,
                            .files = &files,
                            .input = name,
                            .target = "",
                            .cache_bytes = cache_bytes,
                            .threads = 1};
}

/* All samples, the last one first; 0: they cannot be read. */
static int read_all(const ct_reader_spec_t *spec, void *x, size_t bytes, ct_reader_info_t *info)
{
  ct_reader_t *r = NULL;
  int good = CT_ASSERT_OK(ops->open(spec, &r)) == CT_OK;
  if (good) *info = *ops->info(r);
  for (int64_t i = SAMPLES - 1; i >= 0 && good; i--)
    good = CT_ASSERT_OK(ops->read(r, 1, &i, (char *)x + (size_t)i * OF_ONE * bytes, NULL)) == CT_OK;
  ops->close(r);
  return good;
}

static int count_wrong(const float *is, const float *expected)
{
  int wrong = 0;
  for (int i = 0; i < ALL; i++)
    wrong += isnan(expected[i]) ? !isnan(is[i]) : is[i] != expected[i];
  return wrong;
}

static void numbers_are_those_of_netcdf(void)
{
  static const char *const names[] = {"scaled",         "scale_alone", "offset_alone", "unsigned",
                                      "unsigned_short", "several",     "range",        "least",
                                      "most",           "wide",        "wide_chunks",  "large",
                                      "largest",        "by_default"};
  for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
    float is[ALL], expected[ALL];
    char name[40], what[100];
    ct_reader_info_t info;
    snprintf(name, sizeof name, "%s_is", names[k]);
    ct_reader_spec_t plain = spec_of_array(name, 0);
    if (!read_all(&plain, expected, sizeof(float), &info)) return;
    CT_ASSERT_TEXT(info.packed, "");
    for (int64_t cache = 0; cache <= 1 << 20; cache += 1 << 20) {
      ct_reader_spec_t spec = spec_of_array(names[k], cache);
      if (!read_all(&spec, is, sizeof(float), &info)) return;
      CT_ASSERT_INT(info.x.dtype, CT_F32);
      CT_ASSERT_INT(info.missing, 1);
      CT_ASSERT_INT(info.layout.by_hdf5, 0);
      snprintf(what, sizeof what, "%s: %d wrong", names[k], count_wrong(is, expected));
      if (count_wrong(is, expected)) CT_ASSERT_TEXT(what, "");
    }
  }
}

static void what_is_told_to_other_ranks_is_enough(void)
{
  void *known;
  float is[ALL], expected[ALL];
  ct_reader_info_t info;
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of_array("scaled", 0);
  if (!read_all(&spec, expected, sizeof(float), &info)) return;
  CT_ASSERT_TEXT(info.packed, "x 0.01 + 273; -32767 is missing");
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  CT_ASSERT_OK(ops->share(r, &known, &spec.known_bytes));
  ops->close(r);
  spec.known = known;
  if (!read_all(&spec, is, sizeof(float), &info)) return;
  CT_ASSERT_INT(count_wrong(is, expected), 0);
  ct_mem_free(known);
}

static void the_user_may_want_others(void)
{
  float is[ALL], expected[ALL];
  double stored[ALL];
  int16_t packed[ALL];
  ct_reader_info_t info;
  ct_reader_spec_t spec = spec_of_array("scaled", 0);
  if (!read_all(&spec, expected, sizeof(float), &info)) return;
  spec.fills_missing = 1;
  spec.missing = -5;
  if (!read_all(&spec, is, sizeof(float), &info)) return;
  CT_ASSERT_INT(info.missing, 0);
  int filled = 0;
  for (int i = 0; i < ALL; i++) {
    filled += isnan(expected[i]) != 0;
    if (isnan(expected[i])) expected[i] = -5;
  }
  CU_ASSERT(filled > 0);
  CT_ASSERT_INT(count_wrong(is, expected), 0);
  spec.as_stored = 1;
  if (!read_all(&spec, packed, sizeof(int16_t), &info)) return;
  CT_ASSERT_INT(info.x.dtype, CT_I16);
  for (int i = 0; i < ALL; i++)
    if (packed[i] != -32767) CU_ASSERT(expected[i] == (float)(packed[i] * 0.01 + 273.0));
  spec = spec_of_array("wide", 0);
  spec.as_stored = 1;
  if (!read_all(&spec, stored, sizeof(double), &info)) return;
  CT_ASSERT_INT(info.x.dtype, CT_F64);
}

/* ---- labels, targets, classes of places ---- */

static void put(hid_t object, const char *name, hid_t type, const void *value)
{
  hid_t space = H5Screate(H5S_SCALAR);
  hid_t attr = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(H5Awrite(attr, type, value) >= 0);
  ct__h5_drop(attr);
  ct__h5_drop(space);
}

static void put_array(hid_t file, const char *name, int ndim, const hsize_t *dims, const short *v,
                      double scale, short fill)
{
  hid_t space = H5Screate_simple(ndim, dims, NULL);
  hid_t array = H5Dcreate2(file, name, H5T_STD_I16BE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_SHORT, H5S_ALL, H5S_ALL, H5P_DEFAULT, v) >= 0);
  if (scale != 1) put(array, "scale_factor", H5T_NATIVE_DOUBLE, &scale);
  put(array, "_FillValue", H5T_NATIVE_SHORT, &fill);
  ct__h5_drop(array);
  ct__h5_drop(space);
}

static const char *write_set(void)
{
  static const short label[] = {0, 2, -1, 1}, target[] = {10, -1, 30, -40};
  static const hsize_t flat[] = {4}, planes[] = {4, 2, 3};
  const char *dir = ct_test_dir();
  short mask[24];
  for (int i = 0; i < 24; i++)
    mask[i] = (short)(i % 4 - 1);
  array_t a = {PLAIN, CT_U8, 3, {4, 2, 3}, 1};
  hid_t file = begin_file(dir, "a.h5");
  write_array(file, "images", &a, 0);
  put_array(file, "labels", 1, flat, label, 1, -1);
  put_array(file, "targets", 1, flat, target, 0.5, -1);
  put_array(file, "masks", 3, planes, mask, 1, -1);
  end_file(file);
  return dir;
}

static void labels_stay_whole_and_targets_are_unpacked(void)
{
  const int64_t ids[] = {0, 1, 2, 3};
  int64_t y[4] = {0};
  float v[4] = {0};
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(write_set());
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  CT_ASSERT_INT(ops->info(r)->targets, 0);
  CT_ASSERT_OK(ops->read(r, 4, ids, NULL, y)); /* and a warning */
  CU_ASSERT(y[0] == 0 && y[1] == 2 && y[2] == -1 && y[3] == 1);
  ops->close(r);
  spec.target = "targets";
  if (CT_ASSERT_OK(ops->open(&spec, &r)) != CT_OK) return;
  CT_ASSERT_INT(ops->info(r)->targets, 1);
  CT_ASSERT_OK(ops->read(r, 4, ids, NULL, v));
  CU_ASSERT(v[0] == 5 && isnan(v[1]) && v[2] == 15 && v[3] == -20);
  ops->close(r);
}

static void classes_of_places_stay_whole(void)
{
  const int64_t ids[] = {0, 1, 2, 3};
  int16_t classes[24];
  float values[24];
  ct_dataset_t d;
  ct_reader_spec_t spec = spec_of(write_set());
  spec.target = "masks";
  if (CT_ASSERT_OK(ct_dataset_open(ops, &spec, NULL, "t", &d)) != CT_OK) return;
  CT_ASSERT_INT(d.info.dense_target.dtype, CT_I16);
  CT_ASSERT_INT(d.by_class, 1);
  CT_ASSERT_OK(d.ops->read(d.reader, 4, ids, NULL, classes));
  for (int i = 0; i < 24; i++)
    CT_ASSERT_INT(classes[i], i % 4 - 1);
  ct_dataset_close(&d);
  ct_transforms_opts_t as_values = {.training = 1, .values = 1};
  if (CT_ASSERT_OK(ct_dataset_open(ops, &spec, &as_values, "t", &d)) != CT_OK) return;
  CT_ASSERT_INT(d.info.dense_target.dtype, CT_F32);
  CT_ASSERT_OK(d.ops->read(d.reader, 4, ids, NULL, values));
  for (int i = 0; i < 24; i++)
    CU_ASSERT(i % 4 == 0 ? isnan(values[i]) : values[i] == (float)(i % 4 - 1));
  ct_dataset_close(&d);
}

/* ---- what is not understood ---- */

static void odd_attributes_are_refused(void)
{
  const char *dir = ct_test_dir();
  static const double zero = 0, half = 0.5;
  static const struct {
    const char *name, *text;
    const double *number;
    const char *says;
  } cases[] = {
      {"scale_factor", "0.01", NULL, "attribute 'scale_factor' of array 'images' is a string"},
      {"missing_value", "none", NULL, "attribute 'missing_value' of array 'images' is a string"},
      {"scale_factor", NULL, &zero, "scale_factor is 0"},
      {"add_offset", NULL, &half, NULL},
      {"_FillValue", NULL, &half, NULL}, /* no integer is 0.5 */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_reader_t *r = NULL;
    array_t a = {PLAIN, CT_I16, 3, {4, 2, 3}, 1};
    hid_t file = begin_file(dir, "a.h5");
    write_array(file, "images", &a, 0);
    write_labels(file, "labels", CT_I32, 1, 4, 0);
    hid_t array = H5Dopen2(file, "images", H5P_DEFAULT);
    if (cases[i].text) CU_ASSERT(ct__h5_put_attr_text(array, cases[i].name, cases[i].text));
    if (cases[i].number) put(array, cases[i].name, H5T_NATIVE_DOUBLE, cases[i].number);
    ct__h5_drop(array);
    end_file(file);
    ct_reader_spec_t spec = spec_of(dir);
    if (cases[i].says)
      CT_ASSERT_FAILS(ops->open(&spec, &r), CT_ERR_FORMAT, cases[i].says);
    else
      CT_ASSERT_OK(ops->open(&spec, &r));
    ops->close(r);
    spec.as_stored = 1;
    CT_ASSERT_OK(ops->open(&spec, &r));
    ops->close(r);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(numbers_are_those_of_netcdf),
      CT_TEST(what_is_told_to_other_ranks_is_enough),
      CT_TEST(the_user_may_want_others),
      CT_TEST(labels_stay_whole_and_targets_are_unpacked),
      CT_TEST(classes_of_places_stay_whole),
      CT_TEST(odd_attributes_are_refused),
      CT_TEST_END,
  };
  return ct_test_main("h5_cf", tests, argc, argv);
}
