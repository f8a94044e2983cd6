/* Files as h5py and hdf5plugin write them, one array for each filter, type, byte order and layout
 * (tests/golden/make_h5.py): all have the same numbers, and nearly all are read without HDF5's
 * help. */
#include <libdeflate.h>

#include "base/ct_text.h"
#include "config.h"
#include "hdf5io/filter/h5_filter.h"
#include "tests/unit/h5_files.h"

enum { SAMPLES = 6, OF_ONE = 2 * 3 * 5, BY_HDF5 = 1, LACKS = 2, HALF_FILLED = 4 };

#ifdef HAVE_LZ4
enum { LZ4 = 0 };
#else
enum { LZ4 = LACKS };
#endif
#ifdef HAVE_ZSTD
enum { ZSTD = 0 };
#else
enum { ZSTD = LACKS };
#endif
#ifdef HAVE_BLOSC
enum { BLOSC = 0 };
#else
enum { BLOSC = LACKS };
#endif

#ifdef HAVE_BLOSC2
enum { BLOSC2 = 0 };
#else
enum { BLOSC2 = LACKS };
#endif

typedef struct row {
  const char *array;
  int is; /* BY_HDF5, LACKS: of no filter that is here */
} row_t;

static int64_t value(int64_t k)
{
  return (k * 7 + k / 11) % 101;
}

static double number(const ct_shape_t *x, const void *data, int64_t i)
{
  switch (x->dtype) {
  case CT_F32:
    return (double)((const float *)data)[i];
  case CT_F64:
    return ((const double *)data)[i];
  case CT_U8:
    return ((const uint8_t *)data)[i];
  case CT_I8:
    return ((const int8_t *)data)[i];
  case CT_I16:
    return ((const int16_t *)data)[i];
  case CT_I32:
    return ((const int32_t *)data)[i];
  default:
    return (double)((const int64_t *)data)[i];
  }
}

/* One after the other from the last on, then all at once. */
static int64_t count_wrong(ct_reader_t *r, int half_filled)
{
  const ct_shape_t *x = &ct_reader_hdf5.info(r)->x;
  double data[SAMPLES * OF_ONE];
  int64_t ids[SAMPLES], y[SAMPLES], wrong = 0;
  for (int64_t k = 0; k < 2 * SAMPLES; k++) {
    int64_t first = k < SAMPLES ? SAMPLES - 1 - k : 0, n = k < SAMPLES ? 1 : SAMPLES;
    for (int64_t i = 0; i < n; i++)
      ids[i] = first + i;
    memset(data, 0xee, sizeof data);
    if (CT_ASSERT_OK(ct_reader_hdf5.read(r, (int)n, ids, data, y)) != CT_OK) return -1;
    for (int64_t i = 0; i < n * OF_ONE; i++) {
      int64_t sample = first + i / OF_ONE;
      int is_filled = !half_filled || sample < 2 || sample >= 4;
      wrong += number(x, data, i) != (is_filled ? (double)value(first * OF_ONE + i) : 17);
    }
    for (int64_t i = 0; i < n; i++)
      wrong += y[i] != first + i;
  }
  return wrong;
}

static const char *golden(void)
{
  static char dir[CT_PATH_MAX];
  snprintf(dir, sizeof dir, "%s/tests/golden/h5", getenv("CT_SRC") ? getenv("CT_SRC") : ".");
  return dir;
}

static void check_array(const char *file, const char *name, int is)
{
  char what[200];
  char *names[1] = {(char *)(uintptr_t)file};
  ct_opt_texts_t files = {names, 1};
  for (int cached = 0; cached < 2; cached++) {
    ct_reader_t *r;
    ct_reader_spec_t spec = {.dir = golden(),
                             .files = &files,
                             .input = name,
                             .target = "labels",
                             .layout = 1,
                             .cache_bytes = cached << 20,
                             .threads = 2};
    if (CT_ASSERT_OK(ct_reader_hdf5.open(&spec, &r)) != CT_OK) return;
    const ct_reader_info_t *info = ct_reader_hdf5.info(r);
    if (is & LACKS) {
      CU_ASSERT_EQUAL(info->layout.by_hdf5, 1);
    } else {
      int64_t wrong = count_wrong(r, is & HALF_FILLED);
      snprintf(what, sizeof what, "%s %s: %lld wrong, by_hdf5 %d", file, name, (long long)wrong,
               info->layout.by_hdf5);
      if (wrong || info->layout.by_hdf5 != (is & BY_HDF5)) CT_ASSERT_TEXT("", what);
    }
    ct_reader_hdf5.close(r);
  }
}

static void every_filter(void)
{
  static const row_t rows[] = {
      {"gzip", 0},
      {"gzip-shuffle", 0},
      {"shuffle", 0},
      {"fletcher", 0},
      {"gzip-shuffle-fletcher", 0},
      {"lzf", 0},
      {"lzf-shuffle-fletcher", 0},
      {"lz4", LZ4},
      {"lz4-blocks-shuffle", LZ4},
      {"zstd", ZSTD},
      {"zstd-shuffle", ZSTD},
      {"bitshuffle", 0},
      {"bitshuffle-lz4", LZ4},
      {"bitshuffle-lz4-blocks", LZ4},
      {"bitshuffle-zstd", ZSTD},
      {"blosc-blosclz", BLOSC},
      {"blosc-lz4", BLOSC},
      {"blosc-lz4hc", BLOSC},
      {"blosc-zlib", BLOSC},
      {"blosc-zstd", BLOSC},
      {"scaleoffset", BY_HDF5},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char name[60];
    snprintf(name, sizeof name, "filter-%s", rows[i].array);
    check_array("matrix.h5", name, rows[i].is);
  }
  /* many builds of HDF5 have no szip */
  check_array("matrix.h5", "filter-szip", H5Zfilter_avail(H5Z_FILTER_SZIP) > 0 ? BY_HDF5 : LACKS);
}

/* Frames of Blosc2, of one dim and of several, whole blocks and cut ones. */
static void frames_of_blosc2(void)
{
  static const char *const arrays[] = {"blosclz", "lz4",   "lz4hc", "zlib",    "zstd", "bits",
                                       "plain",   "delta", "edge",  "one-dim", "u1"};
  for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
    char name[60];
    snprintf(name, sizeof name, "filter-%s", arrays[i]);
    check_array("blosc2.h5", name, BLOSC2);
  }
}

/* Chunks of 700 x 13 of an array of 3000 x 40: each is of several blocks. */
static void blocks_of_blosc2(void)
{
  enum { ROWS = 3000, COLUMNS = 40 };
  static float row[COLUMNS];
  char *names[1] = {"blosc2.h5"};
  ct_opt_texts_t files = {names, 1};
  int64_t wrong = 0, y;
  int lacks = BLOSC2;
  ct_reader_t *r;
  ct_reader_spec_t spec = {.dir = golden(),
                           .files = &files,
                           .input = "blocks",
                           .target = "",
                           .cache_bytes = 1 << 20,
                           .threads = 1};
  CT_ASSERT_OK(ct_reader_hdf5.open(&spec, &r));
  CT_ASSERT_INT(ct_reader_hdf5.info(r)->layout.by_hdf5, lacks != 0);
  for (int64_t i = 0; i < ROWS && !lacks; i++) {
    CT_ASSERT_OK(ct_reader_hdf5.read(r, 1, &i, row, &y));
    for (int64_t k = 0; k < COLUMNS; k++)
      wrong += row[k] != (float)value(i * COLUMNS + k);
  }
  CT_ASSERT_INT(wrong, 0);
  ct_reader_hdf5.close(r);
}

static void every_type(void)
{
  static const char *const types[] = {"u1", "i1", "u2", "i2", "u4", "i4",
                                      "u8", "i8", "f2", "f4", "f8"};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
    char name[60];
    snprintf(name, sizeof name, "type-%s", types[i]);
    check_array("matrix.h5", name, 0);
    snprintf(name, sizeof name, "type-big-%s", types[i]);
    if (types[i][1] != '1') check_array("matrix.h5", name, 0);
  }
  check_array("matrix.h5", "bits-i2", LZ4);
  check_array("matrix.h5", "bits-f8", LZ4);
}

/* In the format of HDF5 1.6, and in the latest. */
static void every_layout(void)
{
  static const row_t rows[] = {
      {"layout-contiguous", 0},   {"layout-contiguous-big", 0},
      {"layout-chunked", 0},      {"layout-edge", 0},
      {"layout-edge-all", 0},     {"layout-channel", 0},
      {"layout-automatic", 0},    {"layout-single", 0},
      {"layout-unlimited", 0},    {"layout-unlimited-two", 0},
      {"layout-early", 0},        {"link-hard", 0},
      {"link-soft", 0},           {"link-external", 0},
      {"fill-late", HALF_FILLED}, {"fill-early", HALF_FILLED},
      {"virtual", BY_HDF5},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    check_array("old.h5", rows[i].array, rows[i].is);
    check_array("latest.h5", rows[i].array, rows[i].is);
  }
  check_array("user-block.h5", "images", 0);
  check_array("user-block.h5", "contiguous", 0);
}

/* What HDF5 reads, but at no cost: it is in the file's header. */
static void compact_arrays(void)
{
  check_array("old.h5", "layout-compact", 0);
  check_array("latest.h5", "layout-compact", 0);
}

static void raw_files(void)
{
  check_array("raw.h5", "images", BY_HDF5);
}

/* ---- decoders alone ---- */

static const char *decode(const ct__h5_filters_t *f, uint32_t skipped, const void *raw, size_t n,
                          void *out, size_t bytes)
{
  ct__h5_decoder_t d = {0};
  const char *why = "no memory";
  if (CT_ASSERT_OK(ct__h5_decoder_make(&d, bytes)) == CT_OK)
    why = ct__h5_chunk_decode(&d, f, skipped, raw, n, out, bytes);
  ct__h5_decoder_clear(&d);
  return why;
}

/* Against the definition, with rests that are no whole vector and no whole element. */
static void shuffled_bytes_of_any_size(void)
{
  enum { MOST = 700 };
  uint8_t plain[MOST], stored[MOST], got[MOST + 1];
  for (int i = 0; i < MOST; i++)
    plain[i] = (uint8_t)(i * 37 + i / 256);
  for (size_t item = 1; item <= 17; item++) {
    for (size_t bytes = 1; bytes <= MOST; bytes += bytes % 5 + 1) {
      size_t n = bytes / item, wrong = 0;
      for (size_t i = 0; i < bytes; i++)
        stored[i < n * item ? i % item * n + i / item : i] = plain[i];
      memset(got, 0xaa, sizeof got);
      ct__h5_unshuffle(stored, bytes, item, got);
      for (size_t i = 0; i < bytes; i++)
        wrong += got[i] != plain[i];
      CU_ASSERT_EQUAL(wrong, 0);
      CU_ASSERT_EQUAL(got[bytes], 0xaa);
    }
  }
}

/* All bytes of a chunk but one, or one bit of it changed. */
static void damaged_checksums(void)
{
  const ct__h5_filters_t f = {1, {{.id = H5Z_FILTER_FLETCHER32}}};
  uint8_t out[6], raw[10] = {1, 2, 3, 4, 5, 6};
  /* words 0x102, 0x304, 0x506; sums 0x90c and 0x102 + 0x406 + 0x90c */
  memcpy(raw + 6, "\x0c\x09\x14\x0e", 4);
  CT_ASSERT_TEXT("right", decode(&f, 0, raw, 10, out, 6) ? "wrong" : "right");
  CU_ASSERT_EQUAL(memcmp(out, raw, 6), 0);
  memcpy(raw + 6, "\x09\x0c\x0e\x14", 4); /* as old HDF5 had it on other machines */
  CU_ASSERT_PTR_NULL(decode(&f, 0, raw, 10, out, 6));
  raw[3] ^= 1;
  CT_ASSERT_TEXT("its checksum (fletcher32) is wrong", decode(&f, 0, raw, 10, out, 6));
  CT_ASSERT_TEXT("it is too short", decode(&f, 0, raw, 3, out, 6));
  CT_ASSERT_TEXT("it is too short or too long", decode(&f, 1, raw, 10, out, 6));
  CU_ASSERT_PTR_NULL(decode(&f, 1, raw, 6, out, 6));
}

/* A filter before another that makes chunks larger: what is between them is larger than the
 * chunk. */
static void any_order_of_filters(void)
{
  enum { BYTES = 64 };
  const ct__h5_filters_t f = {4,
                              {{.id = H5Z_FILTER_FLETCHER32},
                               {.id = H5Z_FILTER_DEFLATE},
                               {.id = H5Z_FILTER_SHUFFLE, .item = 4},
                               {.id = H5Z_FILTER_DEFLATE}}};
  uint8_t plain[BYTES + 4] = {0}, once[200], shuffled[200], twice[300], out[BYTES];
  for (int i = 0; i < BYTES; i += 2)
    plain[i + 1] = (uint8_t)(i / 2 + 1);
  uint32_t first = 0, second = 0;
  for (int i = 0; i < BYTES; i += 2)
    first += plain[i + 1], second += first;
  const uint32_t sums[2] = {first, second};
  for (int i = 0; i < 4; i++)
    plain[BYTES + i] = (uint8_t)(sums[i / 2] >> (i % 2 * 8));
  struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
  size_t n = libdeflate_zlib_compress(c, plain, sizeof plain, once, sizeof once), items = n / 4;
  for (size_t i = 0; i < n; i++)
    shuffled[i < items * 4 ? i % 4 * items + i / 4 : i] = once[i];
  size_t m = libdeflate_zlib_compress(c, shuffled, n, twice, sizeof twice);
  libdeflate_free_compressor(c);
  const char *why = decode(&f, 0, twice, m, out, BYTES);
  CT_ASSERT_TEXT("right", why ? why : "right");
  CU_ASSERT_EQUAL(memcmp(out, plain, BYTES), 0);
  why = decode(&f, 8, shuffled, n, out, BYTES);
  CT_ASSERT_TEXT("right", why ? why : "right");
  why = decode(&f, 11, "\1\0\0\0\2\0\0\0", 8, out, 8); /* the shuffle alone */
  CT_ASSERT_TEXT("right", why ? why : "right");
  CU_ASSERT_EQUAL(memcmp(out, "\1\0\2\0\0\0\0\0", 8), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(every_filter),
      CT_TEST(frames_of_blosc2),
      CT_TEST(blocks_of_blosc2),
      CT_TEST(every_type),
      CT_TEST(every_layout),
      CT_TEST(compact_arrays),
      CT_TEST(raw_files),
      CT_TEST(shuffled_bytes_of_any_size),
      CT_TEST(damaged_checksums),
      CT_TEST(any_order_of_filters),
      CT_TEST_END,
  };
  setenv("HDF5_EXTFILE_PREFIX", golden(), 1); /* HDF5 looks at it once */
  return ct_test_main("h5_matrix", tests, argc, argv);
}
