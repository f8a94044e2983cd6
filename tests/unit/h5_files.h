/* HDF5 files made for tests, whose samples are functions of their numbers, and the check that a
 * reader gives them back. */
#ifndef CT_TEST_H5_FILES_H
#define CT_TEST_H5_FILES_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_rng.h"
#include "hdf5io/ct_h5.h"
#include "hdf5io/h5_glue.h"
#include "tests/harness/ct_test.h"

/* ---- making files ---- */

enum {
  PLAIN,
  CHUNKED,
  DEFLATED,
  SHUFFLED,
  SHUFFLED_DEFLATED,
  CHECKED,
  SPLIT,
  COMPACT,
  LOOSE,
  SWAPPED
};

typedef struct array {
  int how;
  ct_dtype_t type;
  int ndim;
  hsize_t dims[6];
  hsize_t chunk; /* samples of one */
} array_t;

/* Element i of sample k of a file: a function of the sample's number in the whole data set. */
static inline int64_t element(int64_t sample, int64_t i)
{
  return (sample * 31 + i * 7) % 101;
}

static inline void store(ct_dtype_t type, void *to, int64_t i, int64_t v)
{
  switch (type) {
  case CT_F32:
    ((float *)to)[i] = (float)v;
    break;
  case CT_F64:
    ((double *)to)[i] = (double)v;
    break;
  case CT_U8:
    ((uint8_t *)to)[i] = (uint8_t)v;
    break;
  case CT_I8:
    ((int8_t *)to)[i] = (int8_t)v;
    break;
  case CT_I16:
    ((int16_t *)to)[i] = (int16_t)v;
    break;
  case CT_I32:
    ((int32_t *)to)[i] = (int32_t)v;
    break;
  default:
    ((int64_t *)to)[i] = v;
    break;
  }
}

static inline hid_t creation_of(const array_t *a)
{
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  hsize_t chunk[6];
  memcpy(chunk, a->dims, sizeof chunk);
  chunk[0] = a->chunk;
  if (a->how == COMPACT) H5Pset_layout(list, H5D_COMPACT);
  if (a->how == SPLIT) chunk[a->ndim - 1] = (chunk[a->ndim - 1] + 1) / 2;
  if (a->how != PLAIN && a->how != COMPACT && a->how != SWAPPED) H5Pset_chunk(list, a->ndim, chunk);
  if (a->how == SHUFFLED || a->how == SHUFFLED_DEFLATED) H5Pset_shuffle(list);
  if (a->how == DEFLATED || a->how == SHUFFLED_DEFLATED || a->how == CHECKED || a->how == SPLIT)
    H5Pset_deflate(list, 6);
  if (a->how == CHECKED) H5Pset_fletcher32(list);
  return list;
}

static inline void write_array(hid_t file, const char *name, const array_t *a, int64_t first)
{
  hsize_t most[6], elements = 1;
  for (int i = 0; i < a->ndim; i++)
    most[i] = a->how == LOOSE && i == 0 ? H5S_UNLIMITED : a->dims[i];
  for (int i = 1; i < a->ndim; i++)
    elements *= a->dims[i];
  char *data = calloc(a->dims[0] * elements + 1, 8);
  for (hsize_t i = 0; i < a->dims[0] * elements; i++)
    store(a->type, data, (int64_t)i,
          element(first + (int64_t)(i / elements), (int64_t)(i % elements)));
  hid_t native = ct__h5_type_native(a->type), type = ct__h5_type_stored(a->type);
  if (a->how == SWAPPED) H5Tset_order(type, H5T_ORDER_BE);
  hid_t space = H5Screate_simple(a->ndim, a->dims, most), list = creation_of(a);
  hid_t array = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  CU_ASSERT(array >= 0);
  CU_ASSERT(H5Dwrite(array, native, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
  ct__h5_drop(array);
  ct__h5_drop(list);
  ct__h5_drop(space);
  ct__h5_drop(type);
  ct__h5_drop(native);
  free(data);
}

static inline void write_labels(hid_t file, const char *name, ct_dtype_t type, int ndim, hsize_t n,
                                int64_t first)
{
  hsize_t dims[2] = {n, 1};
  int64_t *y = calloc(n + 1, sizeof *y);
  for (hsize_t i = 0; i < n; i++)
    y[i] = (first + (int64_t)i) % 10;
  hid_t stored = ct__h5_type_stored(type), space = H5Screate_simple(ndim, dims, NULL);
  hid_t array = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(H5Dwrite(array, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, y) >= 0);
  ct__h5_drop(array);
  ct__h5_drop(space);
  ct__h5_drop(stored);
  free(y);
}

static inline hid_t begin_file(const char *dir, const char *name)
{
  char path[700];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  ct__h5_lock();
  hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  CU_ASSERT(file >= 0);
  return file;
}

static inline void end_file(hid_t file)
{
  CU_ASSERT(H5Fclose(file) >= 0);
  ct__h5_unlock();
}

/* A whole shard: images as described, labels int64 [N]. */
static inline void write_shard(const char *dir, const char *name, const array_t *a, int64_t first)
{
  hid_t file = begin_file(dir, name);
  write_array(file, "images", a, first);
  write_labels(file, "labels", CT_I64, 1, a->dims[0], first);
  end_file(file);
}

/* ---- reading them ---- */

/* All files of a directory. */
static inline ct_reader_spec_t spec_of(const char *dir)
{
  static char *patterns[] = {"*.h5"};
  static const ct_opt_texts_t all_files = {patterns, 1};
  return (ct_reader_spec_t){.dir = dir,
                            .files = &all_files,
                            .input = "images",
                            .target = "labels",
                            .cache_bytes = 1 << 20,
                            .threads = 2};
}

static inline int check_samples(ct_reader_t *r, int n, const int64_t *index)
{
  const ct_reader_info_t *info = ct_reader_hdf5.info(r);
  int64_t elements = ct_shape_sample(&info->x);
  size_t bytes = (size_t)elements * ct_dtype_size(info->x.dtype);
  char *x = malloc((size_t)n * bytes + 1), *expected = malloc(bytes);
  int64_t *y = malloc((size_t)n * sizeof *y);
  int wrong = 0, rc = ct_reader_hdf5.read(r, n, index, x, y);
  for (int k = 0; k < n && rc == CT_OK; k++) {
    for (int64_t i = 0; i < elements; i++)
      store(info->x.dtype, expected, i, element(index[k], i));
    wrong += memcmp(x + (size_t)k * bytes, expected, bytes) != 0 || y[k] != index[k] % 10;
  }
  free(x);
  free(expected);
  free(y);
  return rc != CT_OK ? rc : wrong;
}

/* In order, backwards, and at random with repetitions. */
static inline void check_all(ct_reader_t *r, int64_t samples)
{
  enum { MOST = 3000 };
  int64_t index[MOST];
  CT_ASSERT_INT(ct_reader_hdf5.info(r)->samples, samples);
  for (int64_t i = 0; i < samples; i++)
    index[i] = i;
  CT_ASSERT_INT(check_samples(r, (int)samples, index), 0);
  for (int64_t i = 0; i < samples; i++)
    index[i] = samples - 1 - i;
  CT_ASSERT_INT(check_samples(r, (int)samples, index), 0);
  for (int round = 0; round < 5; round++) {
    for (int i = 0; i < 64; i++)
      index[i] =
          (int64_t)(ct_rng_u64(1, CT_RNG_TEST, (uint32_t)round, (uint64_t)i) % (uint64_t)samples);
    CT_ASSERT_INT(check_samples(r, 64, index), 0);
  }
}

#endif
