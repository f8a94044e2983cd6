/* Decodes JPEG through libjpeg's interface (libjpeg-turbo) with its default (slow, exact)
 * transform, so pixels are bit-identical to Pillow and torchvision.io.  Errors are longjmp()s, as
 * in png.c. */
#include "config.h"
#include "data/image/image.h"

#define MAGIC "\xff\xd8\xff"

#ifdef HAVE_JPEG

#  include <jpeglib.h>
#  include <jerror.h>
#  include <setjmp.h>
#  include <string.h>

#  include "base/ct_err.h"
#  include "base/ct_mem.h"

/* Partial rows and skipped rows need libjpeg-turbo 1.5. */
#  if defined LIBJPEG_TURBO_VERSION_NUMBER && LIBJPEG_TURBO_VERSION_NUMBER >= 1005000
#    define HAS_PARTS 1
#  else
#    define HAS_PARTS 0
#  endif

enum {
  MOST_SCANS = 500, /* limit of scans of a progressive image, against decompression bombs */
  MARGIN = 8 /* columns beside a part that the interpolation of its columns needs, and spare ones */
};

typedef struct source {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  jmp_buf back;
  uint8_t *row; /* owned: a decoded row; NULL: rows are decoded directly into the result */
  char why[JMSG_LENGTH_MAX];
} source_t;

static void fail(j_common_ptr jpeg)
{
  source_t *s = jpeg->client_data;
  jpeg->err->format_message(jpeg, s->why);
  longjmp(s->back, 1);
}

/* Damage that the decoder can handle is ignored, as in other programs; missing pixels are an
 * error. */
static void message(j_common_ptr jpeg, int level)
{
  if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) fail(jpeg);
}

static void count_scans(j_common_ptr jpeg)
{
  source_t *s = jpeg->client_data;
  if (s->jpeg.input_scan_number <= MOST_SCANS) return;
  snprintf(s->why, sizeof s->why, "more than %d scans", MOST_SCANS);
  longjmp(s->back, 1);
}

static int damaged(const source_t *s)
{
  return ct_err_set(CT_ERR_FORMAT, __FILE__, __LINE__, "is damaged: libjpeg: %s", s->why);
}

static int open_jpeg(source_t *s, const void *file, size_t bytes, ct_image_info_t *out)
{
  struct jpeg_decompress_struct *j = &s->jpeg;
  j->err = jpeg_std_error(&s->errors);
  s->errors.error_exit = fail;
  s->errors.emit_message = message;
  s->progress.progress_monitor = count_scans;
  j->client_data = s;
  if (setjmp(s->back)) return damaged(s);
  jpeg_create_decompress(j);
  j->progress = &s->progress;
  jpeg_mem_src(j, file, (unsigned long)bytes);
  jpeg_read_header(j, TRUE);
  int grey = j->jpeg_color_space == JCS_GRAYSCALE;
  *out = (ct_image_info_t){j->image_height, j->image_width, grey ? 1 : 3, 8};
  return ct__image_check(out->height, out->width);
}

/* Adobe's programs write CMYK inverted, with or without a marker, and Pillow treats all CMYK as
 * inverted.  The arithmetic is Pillow's too (src/libImaging/Convert.c, cmyk2rgb). */
static void cmyk_to_rgb(const uint8_t *from, int64_t n, uint8_t *to)
{
  for (int64_t i = 0; i < n; i++, from += 4, to += 3)
    for (int c = 0; c < 3; c++) {
      int white = from[3], product = (255 - from[c]) * white + 128;
      to[c] = (uint8_t)(white - ((product + (product >> 8)) >> 8));
    }
}

static int is_cmyk(const struct jpeg_decompress_struct *j)
{
  return j->jpeg_color_space == JCS_CMYK || j->jpeg_color_space == JCS_YCCK;
}

/* Called after setjmp().  Afterwards rows begin at column *left, and the next row is part->top. */
static void go_to_part(struct jpeg_decompress_struct *j, const ct_image_part_t *part, int64_t *left)
{
  *left = 0;
#  if HAS_PARTS
  int64_t first = part->left > MARGIN ? part->left - MARGIN : 0;
  int64_t end = part->left + part->width + MARGIN;
  if (end > j->output_width) end = j->output_width;
  JDIMENSION at = (JDIMENSION)first, width = (JDIMENSION)(end - first);
  if (width < j->output_width) {
    jpeg_crop_scanline(j, &at, &width);
    *left = at;
  }
  if (part->top > 0) jpeg_skip_scanlines(j, (JDIMENSION)part->top);
#  endif
}

/* Copies the part of a decoded row, which begins at column \a left, to \a to. */
static void take_row(const source_t *s, int64_t left, const ct_image_info_t *info,
                     const ct_image_part_t *part, uint8_t *to)
{
  int64_t skip = part->left - left;
  if (is_cmyk(&s->jpeg))
    cmyk_to_rgb(s->row + 4 * skip, part->width, to);
  else
    memcpy(to, s->row + skip * info->channels, (size_t)(part->width * info->channels));
}

static int jpeg_read_rows(source_t *s, const ct_image_info_t *info, const ct_image_part_t *part,
                          uint8_t *out)
{
  struct jpeg_decompress_struct *j = &s->jpeg;
  int64_t left;
  if (setjmp(s->back)) return damaged(s);
  j->out_color_space = is_cmyk(j) ? JCS_CMYK : info->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  j->scale_num = 1;
  j->scale_denom = (unsigned)part->reduce;
  jpeg_start_decompress(j);
  go_to_part(j, part, &left);
  while (j->output_scanline < part->top + part->height) {
    int64_t y = j->output_scanline - part->top;
    uint8_t *to = out + y * part->width * info->channels;
    JSAMPROW row = s->row ? s->row : to;
    if (jpeg_read_scanlines(j, &row, 1) < 1) break;
    if (s->row && y >= 0) take_row(s, left, info, part, to);
  }
  if (j->output_scanline == j->output_height) jpeg_finish_decompress(j);
  return CT_OK;
}

static int64_t reduced(int64_t side, int reduce)
{
  return (side + reduce - 1) / reduce;
}

static int make_row(source_t *s, const ct_image_info_t *info, const ct_image_part_t *part)
{
  int64_t width = reduced(info->width, part->reduce);
  int is_whole = part->width == width && part->height == reduced(info->height, part->reduce);
  if (is_whole && !is_cmyk(&s->jpeg)) return CT_OK;
  s->row = ct_mem_alloc((size_t)(4 * width), "a row of an image");
  return s->row ? CT_OK : CT_ERR_NOMEM;
}

static int jpeg_info_of(const void *file, size_t bytes, ct_image_info_t *out)
{
  source_t s = {.row = NULL};
  int rc = open_jpeg(&s, file, bytes, out);
  jpeg_destroy_decompress(&s.jpeg);
  return rc;
}

static int jpeg_decode(const void *file, size_t bytes, const ct_image_info_t *info,
                       const ct_image_part_t *part, uint8_t *out)
{
  int rc = CT_OK;
  source_t s = {.row = NULL};
  ct_image_info_t is;
  CT_TRY(open_jpeg(&s, file, bytes, &is));
  CT_TRY(ct__image_check_same(&is, info));
  CT_TRY(make_row(&s, info, part));
  CT_TRY(jpeg_read_rows(&s, info, part, out));
out:
  jpeg_destroy_decompress(&s.jpeg);
  ct_mem_free(s.row);
  return rc;
}

const ct__image_format_t ct__image_jpeg = {"JPEG",       MAGIC,       sizeof MAGIC - 1,
                                           jpeg_info_of, jpeg_decode, 1};

#else

const ct__image_format_t ct__image_jpeg = {"JPEG", MAGIC, sizeof MAGIC - 1, NULL, NULL, 1};

#endif
