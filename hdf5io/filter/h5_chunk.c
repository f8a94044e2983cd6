/* Decodes chunks without HDF5: HDF5's lock is per process, so with HDF5's own filters only one
 * thread of a rank could decompress. libdeflate is also faster than zlib, which HDF5 uses. */
#include "hdf5io/filter/h5_chunk.h"

#include <libdeflate.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "config.h"
#include "hdf5io/filter/h5_filter.h"
#ifdef HAVE_ZSTD
#  include <zstd.h>
#endif

enum { VALUES = 16 /* maximum filter parameters read */ };

int ct__h5_filters_find(hid_t creation, ct__h5_filters_t *f)
{
  int n = H5Pget_nfilters(creation);
  *f = (ct__h5_filters_t){0};
  for (int i = 0; i < n && n <= CT__H5_STEPS; i++) {
    unsigned flags, values[VALUES] = {0};
    size_t given = VALUES;
    ct__h5_step_t step = {
        .id = H5Pget_filter2(creation, (unsigned)i, &flags, &given, values, 0, NULL, NULL)};
    const ct__h5_filter_t *filter = ct__h5_filter_find(step.id);
    if (given > VALUES) given = VALUES;
    if (!filter || (filter->know && !filter->know(&step, given, values))) break;
    f->step[f->n++] = step;
  }
  return f->n == n;
}

int ct__h5_filters_compress(const ct__h5_filters_t *f)
{
  for (int i = 0; i < f->n; i++) {
    const ct__h5_filter_t *filter = ct__h5_filter_find(f->step[i].id);
    if (filter->compresses || f->step[i].codec) return 1;
  }
  return 0;
}

/* Exceeds zlib's compressBound(), and the bounds of the other libraries for their block sizes. */
static size_t bound(size_t bytes)
{
  return bytes + bytes / 32 + 4096;
}

size_t ct__h5_chunk_bound(const ct__h5_filters_t *f, size_t bytes)
{
  return f->n ? bound(bytes) : bytes;
}

int ct__h5_decoder_make(ct__h5_decoder_t *d, size_t chunk_bytes)
{
  *d = (ct__h5_decoder_t){.cap = bound(chunk_bytes)};
  d->workspace = ct_mem_alloc(2 * d->cap + 2 * CT__H5_BIT_BLOCK, "chunks between their filters");
  if (!d->workspace) return CT_ERR_NOMEM;
  d->inflate = libdeflate_alloc_decompressor();
  int made = d->inflate != NULL;
#ifdef HAVE_ZSTD
  d->zstd = ZSTD_createDCtx();
  made &= d->zstd != NULL;
#endif
  if (made) return CT_OK;
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for a decompressor");
}

void ct__h5_decoder_clear(ct__h5_decoder_t *d)
{
  ct_mem_free(d->workspace);
  if (d->inflate) libdeflate_free_decompressor(d->inflate);
#ifdef HAVE_ZSTD
  ZSTD_freeDCtx(d->zstd);
#endif
  *d = (ct__h5_decoder_t){0};
}

/* Applies the pipeline backwards; the last filter to be applied writes to out. */
const char *ct__h5_chunk_decode(ct__h5_decoder_t *d, const ct__h5_filters_t *f, uint32_t skipped,
                                const void *raw, size_t raw_bytes, void *out, size_t bytes)
{
  const char *why = NULL;
  ct__h5_bytes_t is = {raw, raw_bytes};
  int first = 0, turn = 0;
  while (first < f->n && (skipped >> first & 1))
    first++;
  for (int i = f->n - 1; i >= first && !why; i--) {
    const ct__h5_step_t *step = &f->step[i];
    const ct__h5_filter_t *filter = ct__h5_filter_find(step->id);
    if (skipped >> i & 1) continue;
    if (filter->check) {
      why = filter->check(&is);
      continue;
    }
    uint8_t *to = i == first ? out : d->workspace + (turn++ & 1 ? d->cap : 0);
    size_t n = i == first ? bytes : d->cap;
    why = filter->decode(d, step, is, to, &n);
    is = (ct__h5_bytes_t){to, n};
  }
  if (!why && is.n != bytes) why = "it is too short or too long";
  if (!why && is.at != out) memcpy(out, is.at, bytes);
  return why;
}
