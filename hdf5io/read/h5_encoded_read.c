/* Reads image files from HDF5 files. A sample of a joined, contiguous array is read directly,
 * without HDF5's lock; all others are read by HDF5. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/image/ct_image.h"
#include "data/feed/ct_io_times.h"
#include "hdf5io/read/h5_encoded.h"
#include "hdf5io/read/h5_reader.h"

void ct__h5_encoded_sum_up(ct_reader_t *r)
{
  ct_reader_info_t *info = &r->info;
  info->encoded = 1;
  for (int i = 0; i < r->shards.n; i++) {
    const ct__h5_shard_t *s = &r->shards.v[i];
    if (s->count == 0) continue;
    if (!s->sizes) info->unsized = 1;
    for (int k = 1; k <= 3; k++)
      if (s->x.dim[k] > info->x.dim[k]) info->x.dim[k] = s->x.dim[k];
  }
  for (int i = 0; i < r->shards.n && !info->unsized; i++) {
    const ct__h5_shard_t *s = &r->shards.v[i];
    for (int64_t k = 0; k < s->count; k++)
      info->varies |= s->sizes[2 * k] != info->x.dim[2] || s->sizes[2 * k + 1] != info->x.dim[3];
  }
}

/* ---- reading ---- */

/* Needs the lock. Loads the shard's offsets if needed. */
static int need_offsets(ct_reader_t *r, int shard, hid_t file)
{
  if (r->offsets[shard] || r->shards.v[shard].encoding != CT__H5_JOINED) return CT_OK;
  return ct__h5_encoded_offsets(&r->shards.v[shard], file, r->spec.input, &r->offsets[shard]);
}

/* Needs the lock. *at: file offset of the sample's bytes, still to be read; -1: HDF5 has already
 * read them. */
static int find_or_read(ct_reader_t *r, int shard, ct__h5_file_t *f, int64_t i, int64_t *at,
                        ct_reader_file_t *to)
{
  int rc = CT_OK;
  const ct__h5_shard_t *s = &r->shards.v[shard];
  *at = -1;
  if (s->encoding == CT__H5_APART)
    return ct__h5_encoded_apart(s, ct__h5_reader_own(r, f)->id, i, to);
  CT_TRY(need_offsets(r, shard, f->file));
  int64_t first = r->offsets[shard][i], bytes = r->offsets[shard][i + 1] - first;
  CT_TRY(ct__h5_encoded_reserve(to, bytes));
  haddr_t start =
      s->access == CT__H5_IN_A_ROW ? H5Dget_offset(ct__h5_reader_own(r, f)->id) : HADDR_UNDEF;
  if (start == HADDR_UNDEF)
    return ct__h5_encoded_joined(s, ct__h5_reader_own(r, f)->id, first, bytes, to->v);
  *at = (int64_t)start + first;
out:
  return rc;
}

static int read_once(ct_reader_t *r, int shard, int64_t i, ct_reader_file_t *to)
{
  int rc = CT_OK;
  int64_t at = -1;
  ct__h5_file_t *f = NULL;
  ct__h5_reader_lock();
  CT_TRY(ct__h5_reader_array(r, shard, &f));
  CT_TRY(find_or_read(r, shard, f, i, &at, to));
  ct__h5_file_hold(f);
out:
  ct__h5_unlock();
  if (rc != CT_OK) return rc;
  if (at >= 0 && to->bytes > 0)
    rc = ct__h5_array_read(ct__h5_reader_own(r, f), at, to->bytes, to->v);
  return ct__h5_reader_check(r, &r->shards.v[shard], f, i, 1, rc);
}

int ct__h5_encoded_file(ct_reader_t *r, int64_t index, ct_reader_file_t *to)
{
  int rc = CT_OK;
  ct__h5_retry_t retry = {0};
  if (index < 0 || index >= r->info.samples)
    CT_FAIL(CT_ERR_ARG, "sample %lld is out of range: there are %lld", (long long)index,
            (long long)r->info.samples);
  int shard = ct__h5_reader_shard(r, index);
  int64_t i = index - r->shards.v[shard].first;
  while ((rc = read_once(r, shard, i, to)) != CT_OK &&
         ct__h5_reader_try_again(r, shard, &retry, rc))
    continue;
  if (rc == CT_OK) ct__h5_reader_succeeded(r, shard, &retry);
out:
  return rc;
}

void ct__h5_encoded_shape(const ct_reader_t *r, int64_t index, ct_shape_t *out)
{
  const ct__h5_shard_t *s = &r->shards.v[ct__h5_reader_shard(r, index)];
  *out = r->info.x;
  out->dim[2] = s->sizes[2 * (index - s->first)];
  out->dim[3] = s->sizes[2 * (index - s->first) + 1];
}

/* Checks that the decoded image has the expected size. */
static int check_size(const ct_reader_t *r, int64_t index, const ct_image_info_t *is)
{
  ct_shape_t x = r->info.x;
  if (r->info.varies) ct__h5_encoded_shape(r, index, &x);
  if (is->height == x.dim[2] && is->width == x.dim[3]) return CT_OK;
  return ct_err_set(
      CT_ERR_FORMAT, __FILE__, __LINE__, "is %lld x %lld pixels, not %lld x %lld %s",
      (long long)is->height, (long long)is->width, (long long)x.dim[2], (long long)x.dim[3],
      r->info.unsized ? "as the first sample (there is no array of sizes): begin the transforms "
                        "with a resize to [h, w] or random_resized_crop"
                      : "as the array of sizes says");
}

static int encoded_read_decode(const ct_reader_t *r, int64_t index, const ct_reader_file_t *f,
                               uint8_t **x)
{
  int rc = CT_OK;
  ct_image_info_t is;
  int channels = (int)r->info.x.dim[1];
  ct_io_phase_t before = ct_io_enter(CT_IO_DECODE);
  CT_TRY(ct_image_info(f->v, f->bytes, &is));
  CT_TRY(check_size(r, index, &is));
  CT_TRY(ct_image_decode(f->v, f->bytes, &is, channels, *x));
  *x += is.height * is.width * channels;
  ct_io_count(CT_IO_DECODE, is.height * is.width * channels);
out:
  ct_io_enter(before);
  return rc;
}

int ct__h5_encoded_read(ct_reader_t *r, int n, const int64_t index[], uint8_t *x)
{
  int rc = CT_OK;
  ct_reader_file_t f = {0};
  for (int i = 0; i < n; i++) {
    CT_TRY(ct__h5_encoded_file(r, index[i], &f));
    rc = encoded_read_decode(r, index[i], &f, &x);
    if (rc == CT_OK) continue;
    int shard = ct__h5_reader_shard(r, index[i]);
    ct_err_prefix(rc, "%s, sample %lld: ", r->shards.v[shard].name,
                  (long long)(index[i] - r->shards.v[shard].first));
    goto out;
  }
out:
  ct_mem_free(f.v);
  return rc;
}
