/* Describes shards of image files, and reads them through HDF5. */
#include "hdf5io/read/h5_encoded.h"

#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/image/ct_image.h"

enum {
  SIZES = 3,              /* height, width, channels */
  BLOCK_BYTES = 256 << 10 /* bytes of samples that stay together in a block-shuffled order */
};

/* ---- arrays with offsets and sizes ---- */

/* Reads a whole array `images.offsets` or `images.sizes` as \a type; *out is allocated. \a columns
 * 0: it has one dim. */
static int encoded_load(const ct__h5_shard_t *s, hid_t file, const char *input, const char *what,
                        ct_dtype_t type, int64_t rows, int columns, void **out)
{
  int rc = CT_OK;
  char name[300], why[200];
  hsize_t dims[2] = {0, 0};
  hid_t space = -1, stored = -1;
  ct__h5_array_t a;
  *out = NULL;
  snprintf(name, sizeof name, "%s.%s", input, what);
  CT_TRY(ct__h5_array_open(&a, file, s->path, name, "input"));
  space = H5Dget_space(a.id);
  stored = H5Dget_type(a.id);
  int ndim = H5Sget_simple_extent_ndims(space);
  if (ndim == 1 || ndim == 2) H5Sget_simple_extent_dims(space, dims, NULL);
  if (H5Tget_class(stored) != H5T_INTEGER || ndim != (columns ? 2 : 1) ||
      dims[0] != (hsize_t)rows || (columns && dims[1] != (hsize_t)columns))
    CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' is not %lld%s integers, for %lld samples", s->path, name,
            (long long)rows, columns ? " x 3" : "", (long long)s->count);
  *out = ct_mem_array(rows * (columns ? columns : 1) + 1, ct_dtype_size(type), name);
  if (!*out) CT_TRY(CT_ERR_NOMEM);
  if (rows > 0 && !ct__h5_read_rows(a.id, type, 0, rows, *out))
    CT_FAIL(CT_ERR_IO, "%s: cannot read array '%s': %s", s->path, name,
            ct__h5_why(why, sizeof why));
out:
  if (rc != CT_OK) {
    ct_mem_free(*out);
    *out = NULL;
  }
  ct__h5_drop(stored);
  ct__h5_drop(space);
  ct__h5_array_shut(&a);
  return rc;
}

int ct__h5_encoded_offsets(const ct__h5_shard_t *s, hid_t file, const char *input, int64_t **out)
{
  int rc = CT_OK;
  void *at = NULL;
  *out = NULL;
  CT_TRY(encoded_load(s, file, input, "offsets", CT_I64, s->count + 1, 0, &at));
  const int64_t *offset = at;
  if (offset[0] != 0 || offset[s->count] != s->dims[0])
    CT_FAIL(CT_ERR_FORMAT,
            "%s: array '%s.offsets' goes from %lld to %lld, but '%s' holds bytes 0 to %lld",
            s->path, input, (long long)offset[0], (long long)offset[s->count], input,
            (long long)s->dims[0]);
  for (int64_t i = 0; i < s->count; i++)
    if (offset[i + 1] < offset[i])
      CT_FAIL(CT_ERR_FORMAT, "%s: array '%s.offsets' decreases after sample %lld", s->path, input,
              (long long)i);
  *out = at;
  at = NULL;
out:
  ct_mem_free(at);
  return rc;
}

/* Loads the image sizes without the channels, which are equal for all samples once decoded. */
static int load_sizes(ct__h5_shard_t *s, hid_t file, const char *input)
{
  int rc = CT_OK;
  void *loaded = NULL;
  CT_TRY(encoded_load(s, file, input, "sizes", CT_I32, s->count, SIZES, &loaded));
  const int32_t *size = loaded;
  s->sizes = ct_mem_array(2 * s->count + 1, sizeof *s->sizes, "the sizes of images");
  if (!s->sizes) CT_TRY(CT_ERR_NOMEM);
  s->has_sizes = 1;
  for (int64_t i = 0; i < s->count; i++, size += SIZES) {
    if (size[0] < 1 || size[0] > CT_IMAGE_SIDE || size[1] < 1 || size[1] > CT_IMAGE_SIDE ||
        (size[2] != 1 && size[2] != 3))
      CT_FAIL(CT_ERR_FORMAT,
              "%s: array '%s.sizes' says that sample %lld is %d x %d pixels of %d channels",
              s->path, input, (long long)i, size[0], size[1], size[2]);
    for (int k = 0; k < 2; k++) {
      s->sizes[2 * i + k] = size[k];
      if (size[k] > s->x.dim[2 + k]) s->x.dim[2 + k] = size[k];
    }
    if (size[2] > s->x.dim[1]) s->x.dim[1] = size[2];
  }
out:
  ct_mem_free(loaded);
  return rc;
}

/* ---- bytes of a sample ---- */

int ct__h5_encoded_reserve(ct_reader_file_t *to, int64_t bytes)
{
  to->bytes = (size_t)bytes;
  return ct_mem_grow(&to->v, &to->cap, bytes > 0 ? bytes : 1, 1);
}

int ct__h5_encoded_apart(const ct__h5_shard_t *s, hid_t array, int64_t i, ct_reader_file_t *to)
{
  int rc = CT_OK;
  char why[200];
  hsize_t at = (hsize_t)i, one = 1;
  hvl_t v = {0};
  hid_t type = H5Tvlen_create(H5T_NATIVE_UINT8), space = H5Dget_space(array);
  hid_t memory = H5Screate_simple(1, &one, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, &at, NULL, &one, NULL);
  int done = H5Dread(array, type, memory, space, H5P_DEFAULT, &v) >= 0;
  if (!done)
    CT_FAIL(CT_ERR_IO, "%s: cannot read sample %lld: %s", s->path, (long long)i,
            ct__h5_why(why, sizeof why));
  CT_TRY(ct__h5_encoded_reserve(to, (int64_t)v.len));
  if (v.len) memcpy(to->v, v.p, v.len);
out:
  if (done) H5Dvlen_reclaim(type, memory, H5P_DEFAULT, &v);
  ct__h5_drop(memory);
  ct__h5_drop(space);
  ct__h5_drop(type);
  return rc;
}

int ct__h5_encoded_joined(const ct__h5_shard_t *s, hid_t array, int64_t at, int64_t bytes, void *to)
{
  char why[200];
  if (bytes == 0 || ct__h5_read_rows(array, CT_U8, at, bytes, to)) return CT_OK;
  return ct_err_set(CT_ERR_IO, __FILE__, __LINE__, "%s: cannot read bytes %lld to %lld: %s",
                    s->path, (long long)at, (long long)(at + bytes - 1),
                    ct__h5_why(why, sizeof why));
}

/* ---- describing ---- */

static int is_apart(hid_t type)
{
  hid_t base = H5Tget_class(type) == H5T_VLEN ? H5Tget_super(type) : -1;
  int is = base >= 0 && H5Tget_class(base) == H5T_INTEGER && H5Tget_size(base) == 1;
  ct__h5_drop(base);
  return is;
}

static int find_encoding(ct__h5_shard_t *s, hid_t array, const char *input)
{
  int rc = CT_OK;
  char word[40] = "";
  hid_t type = H5Dget_type(array);
  int is_bytes = H5Tget_class(type) == H5T_INTEGER && H5Tget_size(type) == 1;
  if (is_apart(type)) s->encoding = CT__H5_APART;
  if (s->encoding || !ct__h5_has_attr(array, "encoding")) goto out;
  if (!ct__h5_attr_text(array, "encoding", word, sizeof word))
    ct__h5_attr_kind(array, "encoding", word, sizeof word);
  if (strcmp(word, "image") != 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute 'encoding' of array '%s' is '%s', expected image",
            s->path, input, word);
  if (!is_bytes)
    CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' has the attribute 'encoding', but is not of bytes",
            s->path, input);
  s->encoding = CT__H5_JOINED;
out:
  ct__h5_drop(type);
  return rc;
}

static int check_spec(const ct__h5_shard_t *s, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  if (s->ndim != 1)
    CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' of encoded images has %d dims, expected 1", s->path,
            spec->input, s->ndim);
  if (spec->shape)
    CT_FAIL(CT_ERR_USAGE, "data.shape is given, but '%s' of %s holds encoded images", spec->input,
            s->path);
  if (spec->channels && spec->channels != 1 && spec->channels != 3)
    CT_FAIL(CT_ERR_USAGE,
            "the model's samples have %d channels, but encoded images are read with 1 or 3",
            spec->channels);
out:
  return rc;
}

static void find_access(ct__h5_shard_t *s, hid_t array)
{
  hid_t creation = H5Dget_create_plist(array);
  int contiguous = H5Pget_layout(creation) == H5D_CONTIGUOUS;
  s->access = CT__H5_BY_HDF5;
  if (s->encoding == CT__H5_APART)
    snprintf(s->slow, sizeof s->slow, "has variable-length elements");
  else if (contiguous && H5Pget_external_count(creation) == 0)
    s->access = CT__H5_IN_A_ROW;
  else
    snprintf(s->slow, sizeof s->slow, "is not contiguous");
  ct__h5_drop(creation);
}

static int describe_joined(ct__h5_shard_t *s, hid_t file, const char *input)
{
  int rc = CT_OK;
  char name[300];
  int64_t *offset = NULL;
  ct__h5_array_t a;
  snprintf(name, sizeof name, "%s.offsets", input);
  CT_TRY(ct__h5_array_open(&a, file, s->path, name, "input"));
  hid_t space = H5Dget_space(a.id);
  s->count = H5Sget_simple_extent_npoints(space) - 1;
  ct__h5_drop(space);
  ct__h5_array_shut(&a);
  if (s->count < 0) CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' is empty", s->path, name);
  CT_TRY(ct__h5_encoded_offsets(s, file, input, &offset));
  snprintf(name, sizeof name, "%s.sizes", input);
  if (H5Lexists(file, name, H5P_DEFAULT) > 0) CT_TRY(load_sizes(s, file, input));
out:
  ct_mem_free(offset);
  return rc;
}

/* Uses the size of the first image for all. */
static int guess_size(ct__h5_shard_t *s, hid_t file, hid_t array, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  int64_t *offset = NULL;
  ct_image_info_t is;
  ct_reader_file_t f = {0};
  s->x.dim[1] = 3;
  if (s->count == 0) return CT_OK;
  if (s->encoding == CT__H5_APART) {
    CT_TRY(ct__h5_encoded_apart(s, array, 0, &f));
  } else {
    CT_TRY(ct__h5_encoded_offsets(s, file, spec->input, &offset));
    CT_TRY(ct__h5_encoded_reserve(&f, offset[1]));
    CT_TRY(ct__h5_encoded_joined(s, array, 0, offset[1], f.v));
  }
  rc = ct_image_info(f.v, f.bytes, &is);
  if (rc != CT_OK) {
    ct_err_prefix(rc, "%s: array '%s': sample 0: ", s->path, spec->input);
    goto out;
  }
  s->x.dim[2] = is.height;
  s->x.dim[3] = is.width;
out:
  ct_mem_free(offset);
  ct_mem_free(f.v);
  return rc;
}

int ct__h5_encoded_describe(ct__h5_shard_t *s, hid_t file, hid_t array,
                            const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  hsize_t dim = 0;
  CT_TRY(find_encoding(s, array, spec->input));
  if (!s->encoding) return CT_OK;
  hid_t space = H5Dget_space(array);
  s->ndim = H5Sget_simple_extent_ndims(space);
  if (s->ndim == 1) H5Sget_simple_extent_dims(space, &dim, NULL);
  ct__h5_drop(space);
  CT_TRY(check_spec(s, spec));
  s->dims[0] = s->count = (int64_t)dim;
  s->x = ct_shape(4, 1, 1, 1, 1);
  s->x.dtype = CT_U8;
  s->channels_last = 1;
  find_access(s, array);
  if (s->encoding == CT__H5_JOINED) CT_TRY(describe_joined(s, file, spec->input));
  if (!s->sizes) CT_TRY(guess_size(s, file, array, spec));
  if (spec->channels) s->x.dim[1] = spec->channels;
  s->row_bytes = (size_t)ct_shape_sample(&s->x);
  s->block_rows = 1;
  if (s->encoding == CT__H5_JOINED && s->dims[0] > 0)
    s->block_rows = BLOCK_BYTES / (s->dims[0] / (s->count + 1) + 1) + 1;
out:
  return rc;
}
