/* Fuzz target: any bytes as a chunk of HDF5.  Eight bytes before it say how it is decoded: two
 * filters (a number each, 0: none), the bytes of an element, what is in blocks of bitshuffle, an
 * eighth of their elements, the mask of skipped filters, the chunk's size (2).
 *
 * Either it is refused in words, or the chunk is filled, the same each time; no byte beside it is
 * written, and nothing stays allocated. */
#include "base/ct_mem.h"
#include "hdf5io/filter/h5_filter.h"
#include "tests/fuzz/fuzz.h"

enum { GUARD = 64 };

static void add(ct__h5_filters_t *f, const uint8_t *head, int which)
{
  static const int ids[] = {H5Z_FILTER_DEFLATE, H5Z_FILTER_SHUFFLE, H5Z_FILTER_FLETCHER32,
                            CT__H5_LZF,         CT__H5_LZ4,         CT__H5_BITSHUFFLE,
                            CT__H5_ZSTD,        CT__H5_BLOSC,       CT__H5_BLOSC2};
  const unsigned values[5] = {head[2] ? head[2] : 1, 0, head[2], 8u * head[4], head[3] % 4};
  ct__h5_step_t step = {.id = ids[which % 9]};
  const ct__h5_filter_t *filter = ct__h5_filter_find(step.id);
  if (!filter || (filter->know && !filter->know(&step, 5, values))) return;
  f->step[f->n++] = step;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live();
  ct__h5_filters_t f = {0};
  ct__h5_decoder_t d = {0};
  if (bytes < 8) return 0;
  size_t size = data[6] | (size_t)data[7] << 8;
  if (data[0]) add(&f, data, data[0] - 1);
  if (data[1]) add(&f, data, data[1] - 1);
  must(ct__h5_decoder_make(&d, size) == CT_OK, "there is memory");
  uint8_t *out[2];
  const char *why[2];
  for (int i = 0; i < 2; i++) {
    out[i] = malloc(size + GUARD);
    memset(out[i], 0xa5, size + GUARD);
    why[i] = ct__h5_chunk_decode(&d, &f, data[5], data + 8, bytes - 8, out[i], size);
    for (size_t k = 0; k < GUARD; k++)
      must(out[i][size + k] == 0xa5, "nothing is written behind the chunk");
  }
  must(!why[0] == !why[1], "it is refused each time, or never");
  must(why[0] || memcmp(out[0], out[1], size) == 0, "it is decoded to the same");
  must(!why[0] || why[0][0], "a refusal has words");
  free(out[0]);
  free(out[1]);
  ct__h5_decoder_clear(&d);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
