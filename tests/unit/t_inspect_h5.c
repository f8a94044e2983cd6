/* Any HDF5 file as a list of arrays: of all types and shapes, by whatever layout. */
#include <hdf5.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "hdf5io/ct_h5.h"
#include "tests/harness/ct_test.h"

static const ct_weights_ops_t *const ops = &ct_weights_any_hdf5;

enum { ROWS = 1000000, COLUMNS = 3 }; /* more than a block of what is read at once */
static uint16_t numbers[ROWS][COLUMNS];

static void put(hid_t file, const char *name, hid_t type, hid_t space, hid_t how, hid_t memory,
                const void *data)
{
  hid_t array = H5Dcreate2(file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
  if (data) H5Dwrite(array, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
  H5Dclose(array);
}

/* A compressed array of big-endian integers, a scalar, a text, nothing; and names that lead there.
 */
static const char *make_file(void)
{
  static char path[600];
  hsize_t dims[2] = {ROWS, COLUMNS}, chunk[2] = {1000, 2};
  double scalar = 2.5;
  for (int i = 0; i < ROWS * COLUMNS; i++)
    numbers[i / COLUMNS][i % COLUMNS] = (uint16_t)(i * 31);
  snprintf(path, sizeof path, "%s/any.h5", ct_test_dir());
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  hid_t group = H5Gcreate2(file, "deep", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t how = H5Pcreate(H5P_DATASET_CREATE), plain = H5Screate_simple(2, dims, NULL),
        one = H5Screate(H5S_SCALAR), none = H5Screate(H5S_NULL), text = H5Tcopy(H5T_C_S1);
  H5Pset_chunk(how, 2, chunk);
  H5Pset_deflate(how, 1);
  put(group, "numbers", H5T_STD_U16BE, plain, how, H5T_NATIVE_UINT16, numbers);
  put(file, "scalar", H5T_IEEE_F64LE, one, H5P_DEFAULT, H5T_NATIVE_DOUBLE, &scalar);
  put(file, "text", text, one, H5P_DEFAULT, text, "x");
  put(file, "void", H5T_STD_I8LE, none, H5P_DEFAULT, H5T_NATIVE_INT8, NULL);
  H5Lcreate_soft("/deep/numbers", file, "link", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_soft("/nowhere", file, "broken", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_hard(file, "/", group, "cycle", H5P_DEFAULT, H5P_DEFAULT);
  H5Tclose(text);
  H5Sclose(none);
  H5Sclose(one);
  H5Sclose(plain);
  H5Pclose(how);
  H5Gclose(group);
  H5Fclose(file);
  return path;
}

static void arrays_are_listed(void)
{
  ct_weights_t *w;
  ct_tensor_t t;
  CT_ASSERT_OK(ops->open(make_file(), NULL, &w));
  CT_ASSERT_INT(ops->count(w), 3);
  ops->tensor(w, 0, &t);
  CT_ASSERT_TEXT(t.name, "deep/numbers");
  CT_ASSERT_TEXT(ct_elem_name(t.type), "uint16");
  CU_ASSERT(t.ndim == 2 && t.dim[0] == ROWS && t.dim[1] == COLUMNS && t.count == ROWS * COLUMNS);
  ops->tensor(w, 1, &t);
  CT_ASSERT_TEXT(t.name, "link");
  ops->tensor(w, 2, &t);
  CU_ASSERT(t.ndim == 0 && t.count == 1 && t.type == CT_ELEM_F64);
  CT_ASSERT_TEXT(ops->remark(w), "not shown: 'text' is a string, 'void' is empty");
  ops->close(w);
}

/* Pieces that begin and end anywhere, forwards and back. */
static void pieces_are_read(void)
{
  ct_weights_t *w;
  static uint16_t got[ROWS * COLUMNS];
  double scalar = 0;
  CT_ASSERT_OK(ops->open(make_file(), "", &w));
  for (int64_t at = 0, n; at < ROWS * COLUMNS; at += n) {
    n = ROWS * COLUMNS - at < 1000 ? ROWS * COLUMNS - at : 1000;
    CT_ASSERT_OK(ops->read(w, 0, at, n, got + at));
  }
  CU_ASSERT(memcmp(got, numbers, sizeof numbers) == 0);
  CT_ASSERT_OK(ops->read(w, 2, 0, 1, &scalar));
  CU_ASSERT(scalar == 2.5);
  CT_ASSERT_OK(ops->read(w, 1, 4, 2, got));
  CU_ASSERT(got[0] == 4 * 31 && got[1] == 5 * 31);
  ops->close(w);
}

static void no_part_has_a_name(void)
{
  ct_weights_t *w;
  CT_ASSERT_FAILS(ops->open(make_file(), "model", &w), CT_ERR_FORMAT, "'model'");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(arrays_are_listed), CT_TEST(pieces_are_read),
                                    CT_TEST(no_part_has_a_name), CT_TEST_END};
  return ct_test_main("inspect_h5", tests, argc, argv);
}
