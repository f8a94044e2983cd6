/* Images: pixels are Pillow's, damage is told, and files of them are a data set. */
#include <libdeflate.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "config.h"
#include "data/ct_dataset.h"
#include "data/image/ct_image.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/image_gold.h"

enum { IMAGES = sizeof images / sizeof *images, PIXELS = IMAGE_H * IMAGE_W };

#if defined HAVE_PNG && defined HAVE_JPEG

static unsigned crc_of(int i, int channels)
{
  uint8_t out[3 * PIXELS];
  uint16_t wide[3 * PIXELS]; /* little-endian, as the machines that this runs on */
  ct_image_info_t info;
  CT_ASSERT_OK(ct_image_info(images[i].file, images[i].bytes, &info));
  CT_ASSERT_INT(info.bits, images[i].bits);
  CT_ASSERT_INT(info.height, IMAGE_H);
  CT_ASSERT_INT(info.width, IMAGE_W);
  CT_ASSERT_INT(info.channels, images[i].channels);
  if (info.bits == 16) {
    CT_ASSERT_FAILS(ct_image_decode(images[i].file, images[i].bytes, &info, channels, out),
                    CT_ERR_DATA, "16 bits a channel");
    CT_ASSERT_OK(ct_image_decode_wide(images[i].file, images[i].bytes, &info, channels, wide));
    return libdeflate_crc32(0, wide, 2 * (size_t)(channels * PIXELS));
  }
  CT_ASSERT_FAILS(ct_image_decode_wide(images[i].file, images[i].bytes, &info, channels, wide),
                  CT_ERR_DATA, "8 bits a channel");
  CT_ASSERT_OK(ct_image_decode(images[i].file, images[i].bytes, &info, channels, out));
  return libdeflate_crc32(0, out, (size_t)(channels * PIXELS));
}

static void pixels_are_pillows(void)
{
  for (int i = 0; i < IMAGES; i++) {
    if (crc_of(i, 3) != images[i].rgb) CT_ASSERT_TEXT(images[i].name, "other colours");
    if (crc_of(i, 1) != images[i].grey) CT_ASSERT_TEXT(images[i].name, "another grey");
  }
}

/* Exactly so many bytes, so that reading beyond them is found. */
static int decode(const unsigned char *file, size_t bytes)
{
  int rc = CT_OK;
  ct_image_info_t info;
  uint8_t out[3 * PIXELS];
  uint16_t wide[3 * PIXELS];
  unsigned char *copy = malloc(bytes ? bytes : 1);
  memcpy(copy, file, bytes);
  CT_TRY(ct_image_info(copy, bytes, &info));
  int fits = info.height * info.width <= PIXELS;
  if (fits && info.bits == 16) CT_TRY(ct_image_decode_wide(copy, bytes, &info, 3, wide));
  if (fits && info.bits == 8) CT_TRY(ct_image_decode(copy, bytes, &info, 3, out));
out:
  free(copy);
  return rc;
}

/* A PNG that ends before its last chunk, IEND, has all its pixels: it is read, as by Pillow. */
static void a_cut_file_is_told(void)
{
  enum { IEND = 12 };
  for (int i = 0; i < IMAGES; i++)
    for (size_t n = 0; n < images[i].bytes - 2; n++) {
      int lacks_end = images[i].file[0] == 0x89 && n == images[i].bytes - IEND;
      if (decode(images[i].file, n) != (lacks_end ? CT_OK : CT_ERR_FORMAT))
        CT_ASSERT_TEXT(images[i].name, lacks_end ? "refused" : "accepted although it was cut");
    }
}

/* Whether an error is found is the format's business. */
static void no_flipped_bit_does_harm(void)
{
  unsigned char file[1024];
  for (int i = 0; i < IMAGES; i++)
    for (size_t bit = 0; bit < 8 * images[i].bytes; bit++) {
      memcpy(file, images[i].file, images[i].bytes);
      file[bit / 8] ^= (unsigned char)(1 << bit % 8);
      decode(file, images[i].bytes);
    }
}

static void what_is_no_image_is_refused(void)
{
  ct_image_info_t info;
  uint8_t out[3 * PIXELS];
  CT_ASSERT_FAILS(ct_image_info("GIF89a", 6, &info), CT_ERR_FORMAT, "neither a PNG nor a JPEG");
  CT_ASSERT_FAILS(ct_image_info("", 0, &info), CT_ERR_FORMAT, "neither");
  CT_ASSERT_OK(ct_image_info(images[0].file, images[0].bytes, &info));
  info.width--;
  CT_ASSERT_FAILS(ct_image_decode(images[0].file, images[0].bytes, &info, 3, out), CT_ERR_FORMAT,
                  "when it was opened");
  unsigned char huge[512];
  for (int i = 0; i < IMAGES; i++) { /* 65,000 x 65,000 pixels */
    if (strcmp(images[i].name, "420.jpg") != 0) continue;
    memcpy(huge, images[i].file, images[i].bytes);
    for (size_t k = 0; k + 9 < images[i].bytes; k++)
      if (huge[k] == 0xff && huge[k + 1] == 0xc0) memset(huge + k + 5, 0xfd, 4);
    CT_ASSERT_FAILS(ct_image_info(huge, images[i].bytes, &info), CT_ERR_FORMAT, "pixels");
  }
}

/* ---- as a data set ---- */

static const char *dir;

static void write_files(void)
{
  char path[CT_PATH_MAX];
  dir = ct_test_dir();
  for (int i = 0; i < IMAGES; i++) {
    ct_text_fit(path, sizeof path, "%s/%s%02d-%s", dir, images[i].bits == 16 ? "wide-" : "", i,
                images[i].name);
    CT_ASSERT_OK(ct_file_write(path, images[i].file, images[i].bytes));
  }
  ct_text_fit(path, sizeof path, "%s/a[1].png", dir);
  CT_ASSERT_OK(ct_file_write(path, images[1].file, images[1].bytes));
  ct_text_fit(path, sizeof path, "%s/bad.png", dir);
  CT_ASSERT_OK(ct_file_write(path, images[1].file, 60));
}

static int open_files(char *pattern, const char *target, int channels, const ct_reader_t *like,
                      ct_reader_t **out)
{
  void *known = NULL;
  size_t bytes = 0;
  const ct_opt_texts_t files = {&pattern, 1};
  if (like) CT_ASSERT_OK(ct_reader_images.share(like, &known, &bytes));
  ct_reader_spec_t spec = {.dir = dir,
                           .files = &files,
                           .input = "",
                           .target = target,
                           .channels = channels,
                           .known = known,
                           .known_bytes = bytes};
  int rc = ct_reader_images.open(&spec, out);
  ct_mem_free(known);
  return rc;
}

static void files_are_samples(void)
{
  ct_reader_t *r, *other;
  char all[] = "[0-9]*", shape[64], location[200];
  uint8_t x[2 * 3 * PIXELS];
  int64_t y[2] = {7, 7}, index[2] = {8, 1};
  write_files();
  CT_ASSERT_OK(open_files(all, "", 0, NULL, &r));
  const ct_reader_info_t *info = ct_reader_images.info(r);
  CT_ASSERT_INT(info->samples, IMAGES - 1); /* all but that of 16 bits */
  CT_ASSERT_TEXT(ct_shape_text(&info->x, shape, sizeof shape), "1x3x11x13");
  CU_ASSERT(!info->varies && info->channels_last && info->unlabelled);
  CT_ASSERT_OK(ct_reader_images.read(r, 2, index, x, y));
  CT_ASSERT_INT(libdeflate_crc32(0, x, 3 * PIXELS), images[9].rgb);
  CT_ASSERT_INT(libdeflate_crc32(0, x + 3 * PIXELS, 3 * PIXELS), images[1].rgb);
  CU_ASSERT(y[0] == 0 && y[1] == 0);
  ct_reader_images.location(r, 8, location, sizeof location);
  CT_ASSERT_HAS(location, "/09-444.jpg");
  CT_ASSERT_OK(open_files(all, "", 0, r, &other)); /* another rank: no file is touched */
  CT_ASSERT_INT(ct_reader_images.info(other)->samples, IMAGES - 1);
  CU_ASSERT(ct_reader_images.info(other)->fingerprint == info->fingerprint);
  ct_reader_images.close(other);
  ct_reader_images.close(r);
  CT_ASSERT_OK(open_files(all, "", 1, NULL, &r));
  CT_ASSERT_OK(ct_reader_images.read(r, 1, index, x, NULL));
  CT_ASSERT_INT(libdeflate_crc32(0, x, PIXELS), images[9].grey);
  index[0] = IMAGES;
  CT_ASSERT_FAILS(ct_reader_images.read(r, 1, index, x, NULL), CT_ERR_ARG, "out of range");
  ct_reader_images.close(r);
}

static void names_and_errors(void)
{
  ct_reader_t *r;
  char pattern_like[] = "a[1].png", bad[] = "bad.png", wide[] = "wide-*", none[] = "none.png";
  CT_ASSERT_OK(open_files(pattern_like, "", 0, NULL, &r));
  CT_ASSERT_INT(ct_reader_images.info(r)->x.dim[1], 1); /* grey */
  ct_reader_images.close(r);
  CT_ASSERT_FAILS(open_files(pattern_like, "labels", 0, NULL, &r), CT_ERR_USAGE, "no labels");
  CT_ASSERT_OK(open_files(bad, "", 0, NULL, &r)); /* its header is whole */
  uint8_t x[3 * PIXELS];
  CT_ASSERT_FAILS(ct_reader_images.read(r, 1, (const int64_t[]){0}, x, NULL), CT_ERR_FORMAT,
                  "bad.png: is damaged");
  ct_reader_images.close(r);
  CT_ASSERT_FAILS(open_files(wide, "", 0, NULL, &r), CT_ERR_DATA, "grey16.png: has 16 bits");
  CT_ASSERT_FAILS(open_files(none, "", 0, NULL, &r), CT_ERR_IO, "none.png");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(pixels_are_pillows),
                                    CT_TEST(a_cut_file_is_told),
                                    CT_TEST(no_flipped_bit_does_harm),
                                    CT_TEST(what_is_no_image_is_refused),
                                    CT_TEST(files_are_samples),
                                    CT_TEST(names_and_errors),
                                    CT_TEST_END};
  return ct_test_main("image", tests, argc, argv);
}

#else

static void the_missing_library_is_named(void)
{
  int refused = 0;
  ct_image_info_t info;
  for (int i = 0; i < IMAGES; i++)
    refused += ct_image_info(images[i].file, images[i].bytes, &info) == CT_ERR_UNSUP;
  CU_ASSERT(refused > 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_missing_library_is_named), CT_TEST_END};
  return ct_test_main("image", tests, argc, argv);
}

#endif
