/* Samples that are read without HDF5, wherever it put them: against what was written, and whether
 * it was really read without it. */
#include "tests/unit/h5_files.h"

static const ct_reader_ops_t *const ops = &ct_reader_hdf5;

enum { DEFLATE = 1, SHUFFLE = 2, EDGES_PLAIN = 4, LATEST = 8, USER_BLOCK = 16, GROWS = 32 };

typedef struct layout {
  hsize_t dims[4], chunk[4]; /* chunk[0] 0: not chunked */
  int flags;
  int by_hdf5; /* expected */
} layout_t;

static hid_t create_file(const char *dir, int flags)
{
  char path[700];
  snprintf(path, sizeof path, "%s/a.h5", dir);
  hid_t create = H5Pcreate(H5P_FILE_CREATE), access = H5Pcreate(H5P_FILE_ACCESS);
  if (flags & USER_BLOCK) H5Pset_userblock(create, 2048);
  if (flags & LATEST) H5Pset_libver_bounds(access, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, create, access);
  ct__h5_drop(create);
  ct__h5_drop(access);
  return file;
}

static hid_t create_array(hid_t file, const layout_t *l, hid_t type)
{
  hsize_t most[4];
  for (int i = 0; i < 4; i++)
    most[i] = l->flags & GROWS ? H5S_UNLIMITED : l->dims[i];
  hid_t list = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(4, l->dims, most);
  if (l->chunk[0]) H5Pset_chunk(list, 4, l->chunk);
  if (l->flags & SHUFFLE) H5Pset_shuffle(list);
  if (l->flags & DEFLATE) H5Pset_deflate(list, 4);
  if (l->flags & EDGES_PLAIN) H5Pset_chunk_opts(list, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
  hid_t array = H5Dcreate2(file, "images", type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  CU_ASSERT(array >= 0);
  ct__h5_drop(space);
  ct__h5_drop(list);
  return array;
}

static void write_layout(const char *dir, const layout_t *l, hid_t type)
{
  hsize_t elements = l->dims[1] * l->dims[2] * l->dims[3];
  int32_t *x = malloc(l->dims[0] * elements * sizeof *x);
  for (hsize_t i = 0; i < l->dims[0] * elements; i++)
    x[i] = (int32_t)element((int64_t)(i / elements), (int64_t)(i % elements));
  ct__h5_lock();
  hid_t file = create_file(dir, l->flags), array = create_array(file, l, type);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, x) >= 0);
  ct__h5_drop(array);
  write_labels(file, "labels", CT_I64, 1, l->dims[0], 0);
  end_file(file);
  free(x);
}

static void check_layout(const char *dir, const layout_t *l, hid_t type)
{
  write_layout(dir, l, type);
  for (int cached = 0; cached <= 1; cached++) {
    ct_reader_t *r = NULL;
    ct_reader_spec_t spec = spec_of(dir);
    spec.cache_bytes = cached ? 1 << 20 : 0;
    if (CT_ASSERT_OK(ops->open(&spec, &r)) == CT_OK) {
      CT_ASSERT_INT(ops->info(r)->layout.by_hdf5, l->by_hdf5);
      check_all(r, (int64_t)l->dims[0]);
    }
    ops->close(r);
  }
}

static const layout_t layouts[] = {
    {{23, 3, 5, 7}, {0}, 0, 0},
    {{23, 3, 5, 7}, {0}, USER_BLOCK, 0},
    {{23, 3, 5, 7}, {4, 3, 5, 7}, 0, 0},
    {{23, 3, 5, 7}, {4, 3, 5, 7}, USER_BLOCK | DEFLATE | SHUFFLE, 0},
    {{23, 3, 5, 7}, {1, 1, 5, 7}, DEFLATE | SHUFFLE, 0}, /* a channel a chunk */
    {{23, 3, 5, 7}, {1, 1, 5, 7}, 0, 0},
    {{23, 3, 5, 7}, {4, 2, 3, 4}, DEFLATE, 0}, /* over all edges */
    {{23, 3, 5, 7}, {4, 2, 3, 4}, DEFLATE | SHUFFLE | EDGES_PLAIN | LATEST, 0},
    {{23, 3, 5, 7}, {4, 2, 3, 4}, DEFLATE | SHUFFLE | EDGES_PLAIN | LATEST | GROWS, 0},
    {{23, 3, 5, 7}, {50, 3, 5, 4}, SHUFFLE | GROWS, 0}, /* longer than there are samples */
    {{23, 3, 5, 7}, {50, 3, 5, 7}, DEFLATE | GROWS | LATEST, 0},
    {{23, 3, 5, 7}, {5, 4, 6, 9}, GROWS, 0}, /* larger than a sample */
    {{1, 3, 5, 7}, {1, 3, 5, 7}, LATEST | DEFLATE, 0},
    {{23, 3, 5, 1}, {7, 1, 1, 1}, DEFLATE | USER_BLOCK | LATEST, 0},
};

static void layouts_are_read_without_hdf5(void)
{
  const hid_t types[] = {H5T_STD_U8LE,  H5T_STD_I16BE,  H5T_STD_U16LE,  H5T_STD_U16BE,
                         H5T_STD_U32BE, H5T_IEEE_F32LE, H5T_IEEE_F64BE, H5T_STD_U64LE};
  const char *dir = ct_test_dir();
  for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
      check_layout(dir, &layouts[i], types[t]);
}

static void halves_are_read_without_hdf5(void)
{
  ct__h5_lock();
  hid_t half = ct__h5_type_stored(CT_F16), brain = ct__h5_type_stored(CT_BF16);
  H5Tset_order(brain, H5T_ORDER_BE);
  ct__h5_unlock();
  check_layout(ct_test_dir(), &layouts[0], half);
  check_layout(ct_test_dir(), &layouts[6], half);
  check_layout(ct_test_dir(), &layouts[6], brain);
}

/* Numbers of 12 bits in 16. */
static void odd_types_are_left_to_hdf5(void)
{
  ct__h5_lock();
  hid_t odd = H5Tcopy(H5T_STD_U16LE);
  H5Tset_precision(odd, 12);
  ct__h5_unlock();
  layout_t l = layouts[3];
  l.by_hdf5 = 1;
  check_layout(ct_test_dir(), &l, odd);
}

/* Chunks of a sample that were never written, among others that were. */
static void holes_in_samples_are_filled(void)
{
  const char *dir = ct_test_dir();
  hsize_t dims[2] = {6, 8}, chunk[2] = {2, 3}, start[2] = {2, 3}, count[2] = {2, 3};
  const int16_t fill = -7, written[6] = {1, 2, 3, 4, 5, 6};
  int16_t x[48];
  int64_t index[6] = {0, 1, 2, 3, 4, 5};
  hid_t file = begin_file(dir, "a.h5"), list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 2, chunk);
  H5Pset_deflate(list, 1);
  H5Pset_fill_value(list, H5T_NATIVE_INT16, &fill);
  hid_t space = H5Screate_simple(2, dims, NULL), memory = H5Screate_simple(2, count, NULL);
  hid_t array = H5Dcreate2(file, "images", H5T_STD_I16BE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_INT16, memory, space, H5P_DEFAULT, written) >= 0);
  ct__h5_drop(array);
  ct__h5_drop(memory);
  ct__h5_drop(space);
  ct__h5_drop(list);
  write_labels(file, "labels", CT_U8, 1, 6, 0);
  end_file(file);
  ct_reader_t *r;
  ct_reader_spec_t spec = spec_of(dir);
  CT_ASSERT_OK(ops->open(&spec, &r));
  CT_ASSERT_INT(ops->info(r)->layout.by_hdf5, 0);
  CT_ASSERT_OK(ops->read(r, 6, index, x, NULL));
  for (int i = 0; i < 48; i++) {
    int row = i / 8, column = i % 8;
    int is_written = row >= 2 && row < 4 && column >= 3 && column < 6;
    CT_ASSERT_INT(x[i], is_written ? written[(row - 2) * 3 + column - 3] : fill);
  }
  ops->close(r);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(layouts_are_read_without_hdf5), CT_TEST(halves_are_read_without_hdf5),
      CT_TEST(odd_types_are_left_to_hdf5), CT_TEST(holes_in_samples_are_filled), CT_TEST_END};
  return ct_test_main("h5_layouts", tests, argc, argv);
}
