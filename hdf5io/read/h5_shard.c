/* One file of a data set: what its samples are and how they are stored.
 *
 * HDF5 is bypassed where possible: arrays without chunks, and chunks with known filters, are read
 * as stored (h5_block.c). Everything else is read through HDF5. */
#include "hdf5io/read/h5_shard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "hdf5io/read/h5_encoded.h"
#include "hdf5io/write/h5_pack.h"
#include "hdf5io/read/h5_dims.h"
#include "hdf5io/read/h5_tokens.h"

enum {
  MAX_STORED_DIMS = CT__H5_MOST_STORED,
  MAX_ROWS = 64 << 20, /* maximum bytes of a block whose chunks may be spread over all samples */
  MAX_CHUNKS = 1 << 20 /* maximum chunks per block */
};

/* ---- content of the file ---- */

static const char *dims_meaning(int lead)
{
  return lead > 0   ? "with trajectories first, then times (data.window)"
         : lead < 0 ? "of one sample (data.files: sample)"
                    : "with samples first";
}

/* Reads the dims that follow s->at; with at.lead 1, *trajectories is the first one. */
static int read_dims(const ct__h5_shard_t *s, hid_t array, const char *name, hsize_t *dims,
                     int *ndim, int64_t *trajectories)
{
  int rc = CT_OK, lead = s->at.lead, least = lead > 0 ? 2 : lead < 0 ? 0 : 1;
  hsize_t stored[H5S_MAX_RANK] = {0};
  hid_t space = H5Dget_space(array);
  int n = H5Sget_simple_extent_ndims(space);
  if (n < least || n - lead > CT__H5_MOST_DIMS)
    CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' has %d dims, expected %d to %d %s", s->path, name, n,
            least, CT__H5_MOST_DIMS + lead, dims_meaning(lead));
  H5Sget_simple_extent_dims(space, stored, NULL);
  *ndim = n - lead;
  if (lead < 0) dims[0] = 1;
  for (int i = lead < 0; i < *ndim; i++)
    dims[i] = stored[i + lead];
  if (trajectories) *trajectories = lead > 0 ? (int64_t)stored[0] : 1;
out:
  ct__h5_drop(space);
  return rc;
}

int ct__h5_shard_stored(const ct__h5_shard_t *s, int64_t lead, const hsize_t *dims, hsize_t *out)
{
  int skipped = s->at.lead < 0, n = 0;
  if (s->at.lead > 0) out[n++] = (hsize_t)lead;
  for (int i = skipped; i < s->ndim; i++)
    out[n++] = dims[i];
  return n;
}

/* ---- element types ---- */

/* Finds the type as which a stored type is read. 1, or 0 if there is none. Types that this program
 * lacks are read as a wider one and converted by HDF5. */
static int find_readable(hid_t type, ct_dtype_t *out)
{
  static const ct_dtype_t wider[] = {[2] = CT_I32, [4] = CT_I64, [8] = CT_F64}; /* indexed by
                                                                                   bytes */
  if (ct__h5_type_find(type, out)) {
    if (*out == CT_F16 || *out == CT_BF16) *out = CT_F32;
    return 1;
  }
  size_t bytes = H5Tget_size(type);
  int is_unsigned = H5Tget_class(type) == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE;
  if (!is_unsigned || (bytes != 2 && bytes != 4 && bytes != 8)) return 0;
  *out = wider[bytes];
  return 1;
}

/* Finds packed values (CF conventions); class labels per pixel stay integers. */
static int find_packed(ct__h5_shard_t *s, hid_t array, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  ct__h5_cf_t cf;
  float fill = spec->fills_missing ? spec->missing : NAN;
  if (spec->as_stored) return CT_OK;
  CT_TRY(ct__h5_cf_find(array, s->path, spec->input, fill, &cf));
  s->by_convert = cf.found && !ct__h5_cf_nothing(&cf);
  int whole = spec->classes_of_pixels && !cf.is_float && !cf.scaled;
  if (!s->by_convert || whole) goto out;
  s->x.dtype = CT_F32;
  s->convert = (ct__h5_convert_t){
      .kind = CT__H5_CF, .stored = (size_t)cf.bytes, .here = sizeof(float), .cf = cf};
out:
  return rc;
}

static int find_type(ct__h5_shard_t *s, hid_t array, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  char text[40];
  const char *name = spec->input;
  hid_t type = H5Dget_type(array);
  CT_TRY(find_packed(s, array, spec));
  if (s->convert.kind == CT__H5_CF) goto out;
  if (s->by_convert) ct__h5_cf_sign(array, type);
  if (!find_readable(type, &s->x.dtype))
    CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' is of type %s, expected integers or floats", s->path,
            name, ct__h5_type_text(type, text, sizeof text));
  if (!ct__h5_convert_find(type, &s->convert) || s->convert.here != ct_dtype_size(s->x.dtype))
    snprintf(s->slow, sizeof s->slow, "has a type that only the library converts");
out:
  ct__h5_drop(type);
  return rc;
}

/* ---- access method ---- */

/* Leaves the array to HDF5. This is not reported as slow if the data is in the object header. */
static void leave_to_hdf5(ct__h5_shard_t *s, const char *why)
{
  s->access = CT__H5_BY_HDF5;
  if (!s->slow[0]) snprintf(s->slow, sizeof s->slow, "%s", why);
}

/* Describes the filters: "is compressed with shuffle, filter 32013". */
static void name_filters(hid_t creation, char *buf, size_t cap)
{
  int n = H5Pget_nfilters(creation);
  snprintf(buf, cap, "is compressed with");
  for (int i = 0; i < n; i++) {
    char name[24] = "";
    unsigned flags;
    size_t nvalues = 0, length = strlen(buf);
    H5Z_filter_t id =
        H5Pget_filter2(creation, (unsigned)i, &flags, &nvalues, NULL, sizeof name, name, NULL);
    name[strcspn(name, ";")] = 0;
    snprintf(buf + length, cap - length, "%s filter %d%s%s", i ? "," : "", (int)id,
             name[0] ? " " : "", name);
  }
}

/* Finds the fill value as in memory; zero if the file does not define one. */
static void find_fill(ct__h5_shard_t *s, hid_t array, hid_t creation)
{
  if (s->by_convert) {
    char stored[sizeof s->fill] = {0};
    hid_t own = H5Dget_type(array);
    if (H5Pget_fill_value(creation, own, stored) < 0) memset(stored, 0, sizeof stored);
    ct__h5_convert(&s->convert, stored, 1, s->fill);
    ct__h5_drop(own);
    return;
  }
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  if (H5Pfill_value_defined(creation, &defined) < 0 || defined == H5D_FILL_VALUE_UNDEFINED) return;
  hid_t type = ct__h5_type_native(s->x.dtype);
  if (H5Pget_fill_value(creation, type, s->fill) < 0) memset(s->fill, 0, sizeof s->fill);
  ct__h5_drop(type);
}

/* Finds the blocks: one chunk, if chunks span whole samples; else all chunks that the same samples
 * are spread over. */
static void find_chunks(ct__h5_shard_t *s, hid_t creation)
{
  unsigned options = 0;
  hsize_t chunk[MAX_STORED_DIMS] = {0};
  char filters[sizeof s->slow];
  int lead = s->at.lead;
  if (H5Pget_chunk(creation, MAX_STORED_DIMS, chunk) != s->ndim + lead) return;
  H5Pget_chunk_opts(creation, &options);
  s->edges_plain = options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS;
  s->chunk_bytes = s->convert.stored;
  s->row_chunks = 1;
  if (lead > 0) s->beside = (int64_t)chunk[0];
  s->chunk_bytes *= (size_t)s->beside;
  for (int i = 0; i < s->ndim; i++) {
    s->chunk[i] = i + lead < 0 ? 1 : (int64_t)chunk[i + lead];
    s->chunk_bytes *= (size_t)s->chunk[i]; /* below 4 GiB, a limit of HDF5 */
    if (i > 0) s->row_chunks *= (s->dims[i] + s->chunk[i] - 1) / s->chunk[i];
  }
  s->block_rows = s->chunk[0] < s->count ? s->chunk[0] : s->count;
  if (s->access == CT__H5_IN_CHUNKS && !ct__h5_filters_find(creation, &s->filters)) {
    name_filters(creation, filters, sizeof filters);
    leave_to_hdf5(s, filters);
  }
  if (s->row_chunks > MAX_CHUNKS) leave_to_hdf5(s, "has too many chunks");
  int64_t most = MAX_ROWS / (int64_t)s->row_bytes;
  int is_whole = s->row_chunks == 1 && s->access == CT__H5_IN_CHUNKS;
  if (!is_whole && s->block_rows > most) s->block_rows = most > 0 ? most : 1;
}

static void find_access(ct__h5_shard_t *s, hid_t array)
{
  hid_t creation = H5Dget_create_plist(array);
  H5D_layout_t layout = H5Pget_layout(creation);
  s->access = layout == H5D_CHUNKED ? CT__H5_IN_CHUNKS : CT__H5_IN_A_ROW;
  if (layout == H5D_VIRTUAL) leave_to_hdf5(s, "is virtual");
  if (H5Pget_external_count(creation) > 0) leave_to_hdf5(s, "is stored in external raw files");
  if (s->slow[0] || layout == H5D_COMPACT) s->access = CT__H5_BY_HDF5;
  if (layout == H5D_COMPACT) s->slow[0] = 0;
  find_fill(s, array, creation);
  if (layout == H5D_CHUNKED) find_chunks(s, creation);
  int is_alone = s->access == CT__H5_IN_A_ROW ||
                 (s->access == CT__H5_IN_CHUNKS && s->row_chunks == 1 && s->filters.n == 0);
  for (int i = 1; i < s->ndim && layout == H5D_CHUNKED; i++)
    is_alone &= s->chunk[i] == s->dims[i];
  s->straight = is_alone && s->convert.stored == s->convert.here;
  ct__h5_drop(creation);
}

static int count_targets(ct__h5_shard_t *s, const char *name, const hsize_t *dims, int ndim)
{
  int rc = CT_OK;
  s->targets = 1;
  for (int i = 1; i < ndim; i++)
    if (dims[i] == 0 || __builtin_mul_overflow(s->targets, (int64_t)dims[i], &s->targets) ||
        s->targets > INT32_MAX)
      CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' has an impossible dim %llu", s->path, name,
              (unsigned long long)dims[i]);
out:
  return rc;
}

/* Returns 1 if the array has one value, or several channels of them, per pixel or voxel of a
 * sample. */
static int is_by_pixel(const ct__h5_shard_t *s, const hsize_t *dims, int ndim)
{
  int space = s->x.ndim - 2, first = 1, last = 1, channels = ndim - 1 - space;
  if (space < 2 || channels < 0 || channels > 1) return 0;
  for (int i = 0; i < space; i++) {
    last &= dims[1 + i] == (hsize_t)s->x.dim[2 + i];
    first &= dims[1 + channels + i] == (hsize_t)s->x.dim[2 + i];
  }
  return first || last;
}

/* Rejects integers whose shape fits neither labels nor masks of the samples' size. */
static int refuse_integers(const ct__h5_shard_t *s, const char *name, const hsize_t *dims, int ndim)
{
  char text[64], of_samples[64];
  ct_shape_t own = {.ndim = ndim};
  for (int i = 0; i < ndim; i++)
    own.dim[i] = (int64_t)dims[i];
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__,
                    "%s: array '%s' is %s, more than one number for a sample: expected a label "
                    "each, or masks as high and wide as the samples, which are %s%s",
                    s->path, name, ct_shape_text(&own, text, sizeof text),
                    ct_shape_text(&s->x, of_samples, sizeof of_samples),
                    ndim == 2 ? "; y.argmax(1) in NumPy makes labels of one-hot rows" : "");
}

/* Rejects a type that is not supported for labels or targets. */
static int refuse_target(const ct__h5_shard_t *s, const char *name, hid_t type)
{
  char text[40];
  return ct_err_set(
      CT_ERR_FORMAT, __FILE__, __LINE__,
      "%s: array '%s' is of type %s, expected integers (class numbers) or floats (targets)%s",
      s->path, name, ct__h5_type_text(type, text, sizeof text),
      H5Tget_class(type) == H5T_STRING
          ? "; in Python, names, labels = numpy.unique(names, return_inverse=True) numbers them"
          : "");
}

/* Returns 1 for one label per sample: N, or N x 1 … x 1. */
static int is_single(const hsize_t *dims, int ndim)
{
  for (int i = 1; i < ndim; i++)
    if (dims[i] != 1) return 0;
  return 1;
}

/* Integers, including booleans, are labels; floats are targets, of any shape; packed integers count
 * as floats. */
static int check_target(ct__h5_shard_t *s, hid_t file, const ct_reader_spec_t *spec)
{
  int rc = CT_OK, ndim;
  const char *name = spec->target;
  float fill = spec->fills_missing ? spec->missing : NAN;
  hsize_t dims[MAX_STORED_DIMS];
  hid_t type = -1;
  ct__h5_array_t array;
  CT_TRY(ct__h5_array_open(&array, file, s->path, name, "target"));
  CT_TRY(read_dims(s, array.id, name, dims, &ndim, NULL));
  type = H5Dget_type(array.id);
  if (!spec->as_stored) CT_TRY(ct__h5_cf_find(array.id, s->path, name, fill, &s->of_target));
  H5T_class_t class = H5Tget_class(type);
  int is_real = class == H5T_FLOAT || s->of_target.scaled;
  s->by_pixel = is_by_pixel(s, dims, ndim);
  s->enumerated = class == H5T_ENUM && !s->by_pixel;
  if (!is_real && class != H5T_INTEGER && !s->enumerated) CT_TRY(refuse_target(s, name, type));
  if (is_real && !s->by_pixel) CT_TRY(count_targets(s, name, dims, ndim));
  int several = !is_real && !s->by_pixel && !is_single(dims, ndim);
  if (several && (!spec->places || class != H5T_INTEGER))
    CT_TRY(refuse_integers(s, name, dims, ndim));
  s->by_pixel |= several;
  if (dims[0] != (hsize_t)s->count)
    CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' holds %llu %s for %lld samples", s->path, name,
            (unsigned long long)dims[0], is_real ? "targets" : "labels", (long long)s->count);
  CT_TRY(ct__h5_array_need(&array, 0, s->at.lead < 0 ? INT64_MAX : s->count));
out:
  ct__h5_drop(type);
  ct__h5_array_shut(&array);
  return rc;
}

/* Returns a hash of everything that the bytes of a sample and their extent depend on. */
static uint64_t hash_stored(hid_t array)
{
  hsize_t dims[MAX_STORED_DIMS] = {0}, chunk[MAX_STORED_DIMS] = {0};
  hid_t space = H5Dget_space(array), type = H5Dget_type(array),
        creation = H5Dget_create_plist(array);
  H5T_class_t class = H5Tget_class(type);
  int ndim = H5Sget_simple_extent_ndims(space), layout = H5Pget_layout(creation);
  if (ndim > 0 && ndim <= MAX_STORED_DIMS) H5Sget_simple_extent_dims(space, dims, NULL);
  if (layout == H5D_CHUNKED) H5Pget_chunk(creation, MAX_STORED_DIMS, chunk);
  uint64_t h = ct_hash_int(ndim, ct_hash_int(layout, class));
  h = ct_hash(chunk, sizeof chunk, ct_hash(dims, sizeof dims, h));
  h = ct_hash_int((int64_t)H5Tget_size(type), h);
  h = ct_hash_int(H5Tget_order(type), h);
  if (class == H5T_INTEGER) h = ct_hash_int(H5Tget_sign(type), h);
  h = ct_hash_int(H5Pget_nfilters(creation), h);
  ct__h5_drop(creation);
  ct__h5_drop(type);
  ct__h5_drop(space);
  return h;
}

static int describe_input(ct__h5_shard_t *s, hid_t array, const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  hsize_t dims[MAX_STORED_DIMS];
  s->beside = 1;
  CT_TRY(find_type(s, array, spec));
  CT_TRY(read_dims(s, array, spec->input, dims, &s->ndim, &s->trajectories));
  s->count = (int64_t)dims[0];
  for (int i = 0; i < s->ndim; i++)
    s->dims[i] = (int64_t)dims[i];
  s->row_bytes = ct_dtype_size(s->x.dtype);
  for (int i = 1; i < s->ndim; i++)
    if (dims[i] == 0 || __builtin_mul_overflow(s->row_bytes, dims[i], &s->row_bytes))
      CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' has an impossible dim %llu", s->path, spec->input,
              (unsigned long long)dims[i]);
  CT_TRY(ct__h5_see(s, array, spec));
  find_access(s, array);
  s->stored = hash_stored(array);
out:
  return rc;
}

/* Returns 1 if the elements of two shards are stored and converted in the same way. */
static int is_stored_as(const ct__h5_shard_t *a, const ct__h5_shard_t *b)
{
  return a->stored == b->stored && a->by_convert == b->by_convert && a->access == b->access &&
         a->convert.kind == b->convert.kind && a->convert.stored == b->convert.stored &&
         a->convert.swap == b->convert.swap &&
         memcmp(&a->convert.cf, &b->convert.cf, sizeof a->convert.cf) == 0;
}

/* Reads the header of the samples of a shard, which must have the type and dims of the first
 * file's. */
static int take_input(ct__h5_shard_t *s, const ct__h5_shard_t *first, hid_t array,
                      const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  char is[64], was[64];
  ct__h5_shard_t own = {.path = s->path, .at = first->at};
  CT_TRY(describe_input(&own, array, spec));
  if (own.x.dtype != first->x.dtype || !ct_shape_same(&own.x, &first->x) ||
      own.ndim != first->ndim || own.channels_last != first->channels_last)
    CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' is %s %s%s, expected %s %s%s as in %s", s->path,
            spec->input, ct_dtype_name(own.x.dtype), ct_shape_text(&own.x, is, sizeof is),
            own.channels_last ? " (channels last)" : "", ct_dtype_name(first->x.dtype),
            ct_shape_text(&first->x, was, sizeof was),
            first->channels_last ? " (channels last)" : "", first->path);
  if (!is_stored_as(&own, first)) { /* the buffers are made for the first file's storage */
    s->access = CT__H5_BY_HDF5;
    s->convert = own.convert;
    s->by_convert = own.by_convert;
    s->stored = own.stored;
  }
  s->undescribed &= ~1;
out:
  return rc;
}

/* The same for its labels or targets. */
static int take_target(ct__h5_shard_t *s, const ct__h5_shard_t *first, hid_t file,
                       const ct_reader_spec_t *spec)
{
  int rc = CT_OK;
  ct__h5_shard_t own = *s;
  own.targets = 0;
  CT_TRY(check_target(&own, file, spec));
  if (own.targets != first->targets || own.by_pixel)
    CT_FAIL(CT_ERR_FORMAT, "%s: array '%s' holds %lld targets, expected %lld as in %s (0: a label)",
            s->path, spec->target, (long long)own.targets, (long long)first->targets, first->path);
  s->of_target = own.of_target;
  s->undescribed &= ~2;
out:
  return rc;
}

/* Checks that the file has not changed since it was described; a local copy has its own stamp. */
static int check_stamp(ct__h5_shard_t *s, ct__h5_array_t *a)
{
  if (a->elsewhere) return CT_OK;
  if (s->stamp.bytes < 0) s->stamp = a->stamp; /* not described at the start */
  int rc = ct__h5_stamp_compare(s->path, &s->stamp, &a->stamp, &a->changed);
  if (rc == CT_OK && s->stamp.inode == 0) s->stamp = a->stamp;
  return rc;
}

int ct__h5_shard_open(ct__h5_shard_t *s, const ct__h5_shard_t *first, hid_t file,
                      const ct_reader_spec_t *spec, ct__h5_array_t *a)
{
  int rc = CT_OK;
  CT_TRY(ct__h5_array_open(a, file, s->path, spec->input, "input"));
  if (s->undescribed & 1)
    CT_TRY(take_input(s, first, a->id, spec));
  else if (hash_stored(a->id) != s->stored)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: the layout of its samples has changed since the run began: the file was replaced, "
            "or this node sees a different file",
            s->path);
  CT_TRY(check_stamp(s, a));
out:
  if (rc != CT_OK) ct__h5_array_shut(a);
  return rc;
}

static int read_classes(ct__h5_shard_t *s, hid_t file)
{
  int rc = CT_OK;
  char kind[60];
  if (!ct__h5_has_attr(file, "classes")) return CT_OK;
  if (!ct__h5_attr_int(file, "classes", &s->classes))
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute 'classes' is %s, expected one integer", s->path,
            ct__h5_attr_kind(file, "classes", kind, sizeof kind));
  if (s->classes < 1 || s->classes > CT_CLASSES_MAX)
    CT_FAIL(CT_ERR_FORMAT, "%s: attribute 'classes' is %lld, expected 1 to %d classes", s->path,
            (long long)s->classes, CT_CLASSES_MAX);
out:
  return rc;
}

/* Files of `pack` contain a format version; files of other programs need none. */
static int check_format(const ct__h5_shard_t *s, hid_t file)
{
  char format[64] = "";
  ct__h5_attr_text(file, "format", format, sizeof format);
  if (strncmp(format, CT__H5_PACK_KIND " ", sizeof CT__H5_PACK_KIND) != 0) return CT_OK;
  return ct_format_number(s->path, format, CT__H5_PACK_KIND, CT__H5_PACK_NUMBER, NULL);
}

int ct__h5_shard_describe(ct__h5_shard_t *s, hid_t file, const ct_reader_spec_t *spec)
{
  int rc = CT_OK, fd;
  ct__h5_array_t array = {.id = -1};
  s->at.lead = spec->view == CT_VIEW_FILE ? -1 : spec->view == CT_VIEW_TRAJECTORIES;
  CT_TRY(check_format(s, file));
  CT_TRY(ct__h5_stamp_take(file, s->path, &fd, &s->stamp));
  CT_TRY(ct__h5_array_open(&array, file, s->path, spec->input, "input"));
  int tokens = spec->tokens.context > 0;
  if (!s->at.lead && !tokens) CT_TRY(ct__h5_encoded_describe(s, file, array.id, spec));
  if (s->encoding)
    s->stored = hash_stored(array.id);
  else
    CT_TRY(describe_input(s, array.id, spec));
  CT_TRY(ct__h5_array_need(&array, 0, s->at.lead ? INT64_MAX : s->dims[0]));
  if (spec->target[0]) CT_TRY(check_target(s, file, spec));
  CT_TRY(tokens ? ct__h5_tokens_describe(s, file, array.id, spec) : read_classes(s, file));
  CT_TRY(ct__h5_class_names(file, s->classes, &s->class_names));
out:
  ct__h5_array_shut(&array);
  return rc;
}

/* ---- reading ---- */

/* HDF5's reason for a failed read in buf (returned); adds the name of a missing filter, which HDF5
 * does not report. */
static const char *why_not(hid_t array, char *buf, size_t cap)
{
  ct__h5_why(buf, cap);
  hid_t creation = array < 0 ? -1 : H5Dget_create_plist(array);
  int n = creation < 0 ? 0 : H5Pget_nfilters(creation);
  for (int i = 0; i < n; i++) {
    char name[40] = "";
    unsigned flags;
    size_t nvalues = 0;
    H5Z_filter_t id =
        H5Pget_filter2(creation, (unsigned)i, &flags, &nvalues, NULL, sizeof name, name, NULL);
    if (id >= 0 && H5Zfilter_avail(id) <= 0)
      snprintf(buf, cap,
               "this HDF5 library lacks filter %d (%s), with which they are compressed: set "
               "HDF5_PLUGIN_PATH to where it is, or write them again with gzip",
               (int)id, name);
  }
  ct__h5_drop(creation);
  return buf;
}

/* Missing labels keep their value, which loss.ignore_index can name. */
static void warn_of_missing(const ct__h5_shard_t *s, const char *target, int64_t n, int64_t which)
{
  if (n > 0)
    ct_log_all(CT_LOG_WARN,
               "%s: array '%s': %lld of %lld labels are missing by its attributes (_FillValue, "
               "missing_value, valid_range), such as %lld: loss.ignore_index leaves one value out",
               s->path, target, (long long)n, (long long)s->count, (long long)which);
}

/* Reads targets or labels and applies the CF attributes. */
static int read_target(const ct__h5_shard_t *s, hid_t array, const char *target, int64_t n,
                       void *to)
{
  const ct__h5_cf_t *cf = &s->of_target;
  int64_t which = 0;
  if (!cf->found)
    return H5Dread(array, s->targets ? H5T_NATIVE_FLOAT : H5T_NATIVE_INT64, H5S_ALL, H5S_ALL,
                   H5P_DEFAULT, to) >= 0;
  char *stored = ct_mem_array(n + 1, (size_t)cf->bytes, "stored targets");
  int done = stored && ct__h5_read_rows_stored(array, s->at, 0, s->count, stored);
  if (done && s->targets) ct__h5_cf_apply(cf, stored, (size_t)n, to);
  if (done && !s->targets)
    warn_of_missing(s, target, ct__h5_cf_labels(cf, stored, (size_t)n, to, &which), which);
  ct_mem_free(stored);
  return done;
}

int ct__h5_shard_labels(ct__h5_shard_t *s, const ct__h5_shard_t *first, hid_t file,
                        const ct_reader_spec_t *spec, void *to, int *changed)
{
  int rc = CT_OK;
  char why[200];
  ct__h5_array_t array = {.id = -1};
  hid_t space = -1;
  const char *target = spec->target;
  int64_t want = s->count * (s->targets ? s->targets : 1);
  if (s->undescribed & 2) CT_TRY(take_target(s, first, file, spec));
  CT_TRY(ct__h5_array_open(&array, file, s->path, target, "target"));
  space = H5Dget_space(array.id);
  if (H5Sget_simple_extent_npoints(space) != want)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: array '%s' no longer has %lld values as when the run began: the file was "
            "replaced, or this node sees a different file",
            s->path, target, (long long)want);
  CT_TRY(check_stamp(s, &array));
  CT_TRY(ct__h5_array_need(&array, 0, s->at.lead ? INT64_MAX : s->count));
  int done = read_target(s, array.id, target, want, to);
  if (!done) why_not(array.id, why, sizeof why);
  CT_TRY(ct__h5_array_check(&array, 0, s->at.lead ? INT64_MAX : s->count));
  if (!done) CT_FAIL(CT_ERR_IO, "%s: cannot read array '%s': %s", s->path, target, why);
  *changed |= array.changed;
out:
  ct__h5_drop(space);
  ct__h5_array_shut(&array);
  return rc;
}

size_t ct__h5_shard_block_bytes(const ct__h5_shard_t *s)
{
  return (size_t)s->block_rows * s->row_bytes;
}

/* Reads elements as stored and converts them here. */
static int read_stored(const ct__h5_shard_t *s, hid_t array, int64_t first, int64_t rows, void *to)
{
  size_t elements = (size_t)rows * (s->row_bytes / s->convert.here);
  char *stored = ct_mem_array((int64_t)elements, s->convert.stored, "stored numbers");
  int done = stored && ct__h5_read_rows_stored(array, s->at, first, rows, stored);
  if (done) ct__h5_convert(&s->convert, stored, elements, to);
  ct_mem_free(stored);
  return done;
}

int ct__h5_shard_read(const ct__h5_shard_t *s, ct__h5_array_t *a, int64_t first, int64_t rows,
                      void *to)
{
  int rc = CT_OK;
  char why[200];
  int done = s->by_convert ? read_stored(s, a->id, first, rows, to)
                           : ct__h5_read_rows_at(a->id, s->x.dtype, s->at, first, rows, to);
  if (!done) why_not(a->id, why, sizeof why);
  /* a changed file is the better explanation */
  CT_TRY(ct__h5_array_check(a, s->at.lead ? 0 : first, s->at.lead ? INT64_MAX : rows));
  if (!done)
    CT_FAIL(CT_ERR_IO, "%s: cannot read samples %lld to %lld of array '%s': %s", s->path,
            (long long)first, (long long)(first + rows - 1), a->name, why);
out:
  return rc;
}
