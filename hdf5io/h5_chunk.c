/* Decodes chunks without HDF5: its lock is one for the whole process, so with HDF5's own filters
 * only one thread of a rank could decompress.  libdeflate is faster than the zlib that HDF5 uses,
 * too. */
#include "hdf5io/h5_chunk.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

int ct__h5_filters_find(hid_t creation, ct__h5_filters_t *f)
{
  int n = H5Pget_nfilters(creation), known = n >= 0;
  *f = (ct__h5_filters_t){.n = n, .shuffle = -1, .deflate = -1};
  for (int i = 0; i < n && known; i++) {
    unsigned flags, values[8] = {0};
    size_t nvalues = 8;
    H5Z_filter_t id =
        H5Pget_filter2(creation, (unsigned)i, &flags, &nvalues, values, 0, NULL, NULL);
    if (id == H5Z_FILTER_SHUFFLE && i == 0) {
      f->shuffle = i;
      f->item = values[0];
    } else if (id == H5Z_FILTER_DEFLATE && f->deflate < 0) {
      f->deflate = i;
    } else {
      known = 0;
    }
  }
  return known && (f->shuffle < 0 || f->item > 0);
}

size_t ct__h5_chunk_bound(const ct__h5_filters_t *f, size_t bytes)
{
  return f->n ? bytes + bytes / 500 + 64 : bytes; /* more than zlib's compressBound() */
}

int ct__h5_decoder_make(ct__h5_decoder_t *d, size_t chunk_bytes)
{
  d->scratch = ct_mem_alloc(chunk_bytes, "a shuffled chunk");
  if (!d->scratch) return CT_ERR_NOMEM;
  d->inflate = libdeflate_alloc_decompressor();
  if (d->inflate) return CT_OK;
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for a decompressor");
}

void ct__h5_decoder_clear(ct__h5_decoder_t *d)
{
  ct_mem_free(d->scratch);
  if (d->inflate) libdeflate_free_decompressor(d->inflate);
  *d = (ct__h5_decoder_t){0};
}

/* Shuffled: the first bytes of all elements, then all second bytes, …; a rest that is no whole
 * element stands at the end as it is (H5Zshuffle.c). */
static void unshuffle(const uint8_t *from, size_t bytes, size_t item, uint8_t *to)
{
  size_t n = bytes / item;
  for (size_t k = 0; k < item; k++)
    for (size_t i = 0; i < n; i++)
      to[i * item + k] = from[k * n + i];
  memcpy(to + n * item, from + n * item, bytes - n * item);
}

const char *ct__h5_chunk_decode(ct__h5_decoder_t *d, const ct__h5_filters_t *f, uint32_t skipped,
                                const void *raw, size_t raw_bytes, void *out, size_t bytes)
{
  int shuffled = f->shuffle >= 0 && !(skipped >> f->shuffle & 1) && f->item > 1;
  int deflated = f->deflate >= 0 && !(skipped >> f->deflate & 1);
  void *plain = shuffled ? d->scratch : out;
  size_t got = raw_bytes;
  if (deflated && libdeflate_zlib_decompress(d->inflate, raw, raw_bytes, plain, bytes, &got) !=
                      LIBDEFLATE_SUCCESS)
    return "it cannot be decompressed";
  if (got != bytes) return "it is too short or too long";
  if (!deflated) memcpy(plain, raw, bytes);
  if (shuffled) unshuffle(plain, bytes, f->item, out);
  return NULL;
}
