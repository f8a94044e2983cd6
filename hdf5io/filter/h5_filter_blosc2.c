/* Blosc2 (filter 32026), with its own library. A chunk is a Blosc2 chunk, as the first version of
 * the filter wrote it, or a contiguous frame (README_CFRAME_FORMAT.rst of Blosc2) that contains
 * one, as PyTables and hdf5plugin write it. Multidimensional blocks (b2nd) are reordered.
 *
 * It is in a separate file because blosc.h and blosc2.h define the same names. */
#include "config.h"
#include "hdf5io/filter/h5_filter.h"

#ifdef HAVE_BLOSC2
#  include <b2nd.h>
#  include <pthread.h>
#  include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Returns the size of an array in bytes; -1: larger than a chunk. Padding to whole blocks at most
 * doubles each dim; this check stops the library from allocating whatever size a damaged frame
 * states. */
static int64_t filter_blosc2_bytes_of(const b2nd_array_t *a, size_t most)
{
  int64_t n = a->sc->typesize, whole;
  if (a->ndim < 1 || a->ndim > B2ND_MAX_DIM || n < 1) return -1;
  if (__builtin_mul_overflow(n, a->extchunknitems, &whole) || whole < 0 ||
      (uint64_t)whole >> a->ndim > most)
    return -1;
  for (int i = 0; i < a->ndim; i++)
    if (a->shape[i] < 1 || __builtin_mul_overflow(n, a->shape[i], &n)) return -1;
  return (uint64_t)n > most ? -1 : n;
}

/* Takes ownership of the frame. */
static int64_t take_array(blosc2_schunk *frame, uint8_t *to, size_t bytes)
{
  b2nd_array_t *a = NULL;
  const int64_t start[B2ND_MAX_DIM] = {0};
  if (b2nd_from_schunk(frame, &a) < 0) {
    blosc2_schunk_free(frame);
    return -1;
  }
  int64_t n = filter_blosc2_bytes_of(a, bytes);
  if (n > 0 && b2nd_get_slice_cbuffer(a, start, a->shape, to, a->shape, n) < 0) n = -1;
  b2nd_free(a); /* also frees the frame */
  return n;
}

static int64_t take_frame(ct__h5_bytes_t from, uint8_t *to, size_t bytes)
{
  /* read-only, so it is not copied */
  blosc2_schunk *frame =
      blosc2_schunk_from_buffer((uint8_t *)(uintptr_t)from.at, (int64_t)from.n, false);
  int64_t n = -1;
  if (!frame) return -1;
  blosc2_schunk_avoid_cframe_free(frame, true);
  if (blosc2_meta_exists(frame, "b2nd") >= 0 || blosc2_meta_exists(frame, "caterva") >= 0)
    return take_array(frame, to, bytes);
  if (frame->nchunks == 1 && frame->nbytes >= 0 && (uint64_t)frame->nbytes <= bytes)
    n = blosc2_schunk_decompress_chunk(frame, 0, to, (int32_t)frame->nbytes);
  if (n != frame->nbytes) n = -1;
  blosc2_schunk_free(frame);
  return n;
}

static int64_t take_chunk(ct__h5_bytes_t from, uint8_t *to, size_t bytes)
{
  int32_t plain = 0, stored = 0, block;
  blosc2_dparams one = BLOSC2_DPARAMS_DEFAULTS; /* one thread */
  if (from.n < BLOSC_MIN_HEADER_LENGTH || from.n > INT32_MAX ||
      blosc2_cbuffer_sizes(from.at, &plain, &stored, &block) < 0 || plain < 0 ||
      (uint32_t)plain > bytes || stored < 0 || (uint32_t)stored != from.n)
    return -1;
  blosc2_context *context = blosc2_create_dctx(one);
  if (!context) return -1;
  int got = blosc2_decompress_ctx(context, from.at, stored, to, plain);
  blosc2_free_ctx(context);
  return got == plain ? got : -1;
}

static const char *filter_blosc2_decode(ct__h5_decoder_t *d, const ct__h5_step_t *step,
                                        ct__h5_bytes_t from, uint8_t *to, size_t *bytes)
{
  static const char mark[8] = "b2frame"; /* including its NUL, after two bytes of msgpack */
  (void)d, (void)step;
  pthread_once(&once, blosc2_init);
  size_t most = *bytes > INT32_MAX ? INT32_MAX : *bytes;
  int is_frame = from.n > 2 + sizeof mark && memcmp(from.at + 2, mark, sizeof mark) == 0;
  int64_t n = is_frame ? take_frame(from, to, most) : take_chunk(from, to, most);
  if (n < 0) return "it cannot be decompressed";
  *bytes = (size_t)n;
  return NULL;
}

const ct__h5_filter_t ct__h5_filter_blosc2 = {CT__H5_BLOSC2, 1, .decode = filter_blosc2_decode};
#endif
