/* Bitshuffle (filter 32008, Kiyoshi Masui's). Per block of elements it stores first all lowest bits
 * of the elements' first bytes, then all second bits, and so on; each block may be compressed
 * separately.
 *
 * It is reversed in three passes over a block, which stays in the cache: the eight bit rows of a
 * byte are interleaved by unshuffling, every eight bytes are transposed as a bit matrix, and the
 * resulting byte planes are unshuffled. */
#include <string.h>

#include "config.h"
#include "hdf5io/filter/h5_filter.h"

enum { LZ4 = 2, ZSTD = 3, USUAL = 8192, LEAST = 128 };

static int know(ct__h5_step_t *step, size_t n, const unsigned *values)
{
  if (n < 3 || values[2] == 0 || values[2] > CT__H5_BIT_BLOCK / 8) return 0;
  step->item = values[2];
  step->block = n > 3 ? values[3] : 0;
  step->codec = n > 4 ? values[4] : 0;
  if (step->block == 0) step->block = USUAL / step->item / 8 * 8;
  if (step->block < LEAST && (n < 4 || values[3] == 0)) step->block = LEAST;
  int has = step->codec == 0;
#ifdef HAVE_LZ4
  has |= step->codec == LZ4;
#endif
#ifdef HAVE_ZSTD
  has |= step->codec == ZSTD;
#endif
  return has && step->block % 8 == 0 && step->block <= CT__H5_BIT_BLOCK / step->item;
}

/* Hacker's Delight 7-3: bit j of byte i becomes bit i of byte j. */
static void transpose_bits(uint8_t *bytes, size_t n)
{
  for (size_t i = 0; i + 8 <= n; i += 8) {
    uint64_t x, t;
    memcpy(&x, bytes + i, 8);
    t = (x ^ x >> 7) & 0x00aa00aa00aa00aaull, x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000cccc0000ccccull, x ^= t ^ t << 14;
    t = (x ^ x >> 28) & 0x00000000f0f0f0f0ull, x ^= t ^ t << 28;
    memcpy(bytes + i, &x, 8);
  }
}

/* Reverses a block of n elements, a multiple of 8. */
static void unshuffle_bits(const uint8_t *from, size_t n, size_t item, uint8_t *planes, uint8_t *to)
{
  for (size_t k = 0; k < item; k++)
    ct__h5_unshuffle(from + k * n, n, 8, planes + k * n);
  transpose_bits(planes, item * n);
  ct__h5_unshuffle(planes, item * n, item, to);
}

/* Reads the next block and decompresses it; *block: its bytes. 0 if it is damaged. */
static int take_block(ct__h5_decoder_t *d, uint32_t codec, ct__h5_bytes_t *from, size_t bytes,
                      uint8_t *workspace, const uint8_t **block)
{
  size_t stored = bytes, got = bytes;
  *block = workspace;
  if (codec && from->n < 4) return 0;
  if (codec) {
    stored = ct__h5_big32(from->at);
    *from = (ct__h5_bytes_t){from->at + 4, from->n - 4};
  }
  if (stored > from->n) return 0;
  ct__h5_bytes_t in = {from->at, stored};
  *from = (ct__h5_bytes_t){from->at + stored, from->n - stored};
  if (codec == LZ4) return ct__h5_unlz4(in, workspace, bytes);
  if (codec == ZSTD) return ct__h5_unzstd(d, in, workspace, &got) && got == bytes;
  *block = in.at;
  return 1;
}

static const char *filter_bitshuffle_decode(ct__h5_decoder_t *d, const ct__h5_step_t *step,
                                            ct__h5_bytes_t from, uint8_t *to, size_t *bytes)
{
  uint8_t *workspace = d->workspace + 2 * d->cap;
  size_t item = step->item, block = step->block, done = 0;
  uint64_t plain = from.n;
  if (step->codec) {
    if (from.n < 12) return "it is too short";
    plain = ct__h5_big64(from.at);
    block = ct__h5_big32(from.at + 8) / item;
    from = (ct__h5_bytes_t){from.at + 12, from.n - 12};
  }
  if (plain > *bytes) return "it is too long";
  if (plain % item || block == 0 || block % 8 || block > CT__H5_BIT_BLOCK / item)
    return "its blocks are of an odd size, or larger than 64 KB";
  size_t whole = plain / item / 8 * 8 * item; /* the remainder is stored unshuffled after the
                                                 blocks */
  while (done < whole) {
    const uint8_t *stored;
    size_t n = (whole - done) / item < block ? (whole - done) / item : block;
    if (!take_block(d, step->codec, &from, n * item, workspace, &stored))
      return "a block cannot be decompressed";
    unshuffle_bits(stored, n, item, workspace + CT__H5_BIT_BLOCK, to + done);
    done += n * item;
  }
  if (from.n != plain - whole) return "it is too short or too long";
  memcpy(to + whole, from.at, from.n);
  *bytes = plain;
  return NULL;
}

const ct__h5_filter_t ct__h5_filter_bitshuffle = {CT__H5_BITSHUFFLE, .know = know,
                                                  .decode = filter_bitshuffle_decode};
