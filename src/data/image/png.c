/* Decodes PNG with libpng.  Its errors are longjmp()s: everything that is freed after an error is
 * in a struct that outlives it, and no other variable is used. */
#include "config.h"
#include "data/image/image.h"

#define MAGIC "\x89PNG\r\n\x1a\n"

#ifdef HAVE_PNG

#  include <png.h>
#  include <string.h>

#  include "base/ct_err.h"
#  include "base/ct_file.h"
#  include "base/ct_mem.h"

enum { CHUNK_HEADER = 8 /* bytes */ };

typedef struct source {
  const unsigned char *at;
  size_t left;
  int has_pixels; /* 1: all rows were read; 2: and the file ended after them, before another
                     chunk */
  char why[160];
  png_structp png;
  png_infop info;
} source_t;

static void read_bytes(png_structp png, png_bytep to, png_size_t n)
{
  source_t *s = png_get_io_ptr(png);
  if (s->has_pixels && s->left == 0 && n == CHUNK_HEADER) s->has_pixels = 2;
  if (n > s->left) png_error(png, "the file ends too early");
  memcpy(to, s->at, n);
  s->at += n;
  s->left -= n;
}

static void fail(png_structp png, png_const_charp text)
{
  source_t *s = png_get_error_ptr(png);
  snprintf(s->why, sizeof s->why, "%s", text);
  longjmp(png_jmpbuf(png), 1);
}

static void ignore(png_structp png, png_const_charp text)
{
  (void)png, (void)text;
}

static int png_begin(source_t *s)
{
  s->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, s, fail, ignore);
  s->info = s->png ? png_create_info_struct(s->png) : NULL;
  if (!s->info) return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for libpng");
  png_set_read_fn(s->png, s, read_bytes);
  png_set_user_limits(s->png, CT_IMAGE_SIDE, CT_IMAGE_SIDE);
  return CT_OK;
}

/* Reads everything before the pixels; called after setjmp(). */
static void png_read_header(const source_t *s, ct_image_info_t *out)
{
  png_read_info(s->png, s->info);
  int colour = png_get_color_type(s->png, s->info) & PNG_COLOR_MASK_COLOR;
  *out =
      (ct_image_info_t){png_get_image_height(s->png, s->info), png_get_image_width(s->png, s->info),
                        colour ? 3 : 1, png_get_bit_depth(s->png, s->info) == 16 ? 16 : 8};
}

static size_t png_bytes_of(const ct_image_info_t *info)
{
  return info->bits == 16 ? 2 : 1;
}

/* Requests 8 bits a channel (16 stay 16) and 1 or 3 channels. */
static void read_pixels(source_t *s, const ct_image_info_t *info, uint8_t *out)
{
  const uint16_t one = 1;
  size_t row = (size_t)(info->width * info->channels) * png_bytes_of(info);
  png_set_expand(s->png);
  if (*(const char *)&one) png_set_swap(s->png); /* to the byte order of this machine */
  png_set_strip_alpha(s->png);
  int passes = png_set_interlace_handling(s->png);
  png_read_update_info(s->png, s->info);
  if (png_get_rowbytes(s->png, s->info) != row) png_error(s->png, "rows are of no known kind");
  for (int p = 0; p < passes; p++)
    for (int64_t y = 0; y < info->height; y++)
      png_read_row(s->png, out + (size_t)y * row, NULL);
  s->has_pixels = 1;
  png_read_end(s->png, NULL);
}

static int open_png(source_t *s, ct_image_info_t *out)
{
  int rc = CT_OK;
  CT_TRY(png_begin(s));
  if (setjmp(png_jmpbuf(s->png)))
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "is damaged: libpng: %s", s->why);
  png_read_header(s, out);
  rc = ct__image_check(out->height, out->width);
out:
  return rc;
}

static int png_decode_rows(source_t *s, const ct_image_info_t *info, uint8_t *out)
{
  s->has_pixels = 0;
  if (setjmp(png_jmpbuf(s->png))) { /* a file without IEND is accepted, as in Pillow */
    if (s->has_pixels == 2) return CT_OK;
    return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "is damaged: libpng: %s", s->why);
  }
  read_pixels(s, info, out);
  return CT_OK;
}

static int png_info_of(const void *file, size_t bytes, ct_image_info_t *out)
{
  source_t s = {.at = file, .left = bytes};
  int rc = open_png(&s, out);
  png_destroy_read_struct(&s.png, &s.info, NULL);
  return rc;
}

static void copy_part(const uint8_t *whole, const ct_image_info_t *info,
                      const ct_image_part_t *part, uint8_t *out)
{
  size_t pixel = (size_t)info->channels * png_bytes_of(info), row = (size_t)part->width * pixel;
  const uint8_t *from = whole + (size_t)(part->top * info->width + part->left) * pixel;
  for (int64_t y = 0; y < part->height; y++, out += row, from += (size_t)info->width * pixel)
    memcpy(out, from, row);
}

/* Decodes a PNG. Rows are predicted from previous rows and may be interlaced, so all rows are read
 * for any part. */
static int png_decode(const void *file, size_t bytes, const ct_image_info_t *info,
                      const ct_image_part_t *part, uint8_t *out)
{
  int rc = CT_OK, is_whole = part->height == info->height && part->width == info->width;
  source_t s = {.at = file, .left = bytes};
  ct_image_info_t is;
  uint8_t *own = NULL;
  CT_TRY(open_png(&s, &is));
  CT_TRY(ct__image_check_same(&is, info));
  if (!is_whole)
    own = ct_mem_alloc((size_t)(info->height * info->width * info->channels) * png_bytes_of(info),
                       "an image");
  if (!is_whole && !own) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(png_decode_rows(&s, info, is_whole ? out : own));
  if (!is_whole) copy_part(own, info, part, out);
out:
  ct_mem_free(own);
  png_destroy_read_struct(&s.png, &s.info, NULL);
  return rc;
}

const ct__image_format_t ct__image_png = {"PNG",       MAGIC,      sizeof MAGIC - 1,
                                          png_info_of, png_decode, 0};

int ct_image_write_mask(const char *path, int64_t h, int64_t w, const uint8_t *pixels,
                        const uint8_t *palette)
{
  int rc = CT_OK;
  png_alloc_size_t bytes = 0;
  void *file = NULL;
  png_image im = {.version = PNG_IMAGE_VERSION,
                  .width = (png_uint_32)w,
                  .height = (png_uint_32)h,
                  .colormap_entries = palette ? 256 : 0,
                  .format = palette ? PNG_FORMAT_RGB_COLORMAP : PNG_FORMAT_GRAY};
  if (!png_image_write_to_memory(&im, NULL, &bytes, 0, pixels, 0, palette))
    CT_FAIL(CT_ERR_IO, "%s: cannot be made: %s", path, im.message);
  file = ct_mem_alloc(bytes, "a PNG file");
  if (!file) CT_TRY(CT_ERR_NOMEM);
  if (!png_image_write_to_memory(&im, file, &bytes, 0, pixels, 0, palette))
    CT_FAIL(CT_ERR_IO, "%s: cannot be made: %s", path, im.message);
  CT_TRY(ct_file_write(path, file, bytes));
out:
  ct_mem_free(file);
  return rc;
}

#else

#  include "base/ct_err.h"

int ct_image_write_mask(const char *path, int64_t h, int64_t w, const uint8_t *pixels,
                        const uint8_t *palette)
{
  (void)h;
  (void)w;
  (void)pixels;
  (void)palette;
  return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__,
                    "%s: this build has no library to write PNG: write a file .h5", path);
}

const ct__image_format_t ct__image_png = {"PNG", MAGIC, sizeof MAGIC - 1, NULL, NULL, 0};

#endif
