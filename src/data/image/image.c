/* Image functions that are common to all formats: recognizing the format, converting between grey
 * and colours. */
#include "data/image/image.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

static const ct__image_format_t *const formats[] = {&ct__image_png, &ct__image_jpeg};
enum { FORMATS = sizeof formats / sizeof *formats };

static const ct__image_format_t *format_of(const void *file, size_t bytes)
{
  for (int i = 0; i < FORMATS; i++)
    if (bytes >= formats[i]->magic_bytes &&
        memcmp(file, formats[i]->magic, formats[i]->magic_bytes) == 0)
      return formats[i];
  return NULL;
}

int ct_image_probe(FILE *f)
{
  char start[16];
  return format_of(start, fread(start, 1, sizeof start, f)) != NULL;
}

static int image_find(const void *file, size_t bytes, const ct__image_format_t **out)
{
  int rc = CT_OK;
  *out = format_of(file, bytes);
  if (!*out) CT_FAIL(CT_ERR_FORMAT, "is neither a PNG nor a JPEG file");
  if (!(*out)->info)
    CT_FAIL(CT_ERR_UNSUP, "is a %s file, for which this build has no library", (*out)->name);
out:
  return rc;
}

int ct_image_info(const void *file, size_t bytes, ct_image_info_t *out)
{
  int rc = CT_OK;
  const ct__image_format_t *f;
  *out = (ct_image_info_t){0};
  CT_TRY(image_find(file, bytes, &f));
  CT_TRY(f->info(file, bytes, out));
out:
  return rc;
}

/* Starts at the last pixel, because the result is larger than the input. */
static void grey_to_colour(uint8_t *at, int64_t pixels)
{
  for (int64_t i = pixels; i-- > 0;)
    at[3 * i] = at[3 * i + 1] = at[3 * i + 2] = at[i];
}

/* ITU-R 601-2 luma, in Pillow's arithmetic. */
static void colour_to_grey(const uint8_t *from, int64_t pixels, uint8_t *to)
{
  for (int64_t i = 0; i < pixels; i++, from += 3)
    to[i] = (uint8_t)((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
}

static void wide_to_colour(uint16_t *at, int64_t pixels)
{
  for (int64_t i = pixels; i-- > 0;)
    at[3 * i] = at[3 * i + 1] = at[3 * i + 2] = at[i];
}

/* Converts 16-bit colours to grey, with the weights of the 8-bit version; the sum just fits into
 * 32 bits. */
static void wide_to_grey(const uint16_t *from, int64_t pixels, uint16_t *to)
{
  for (int64_t i = 0; i < pixels; i++, from += 3)
    to[i] = (uint16_t)((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
}

int ct_image_reduces(const void *file, size_t bytes)
{
  const ct__image_format_t *f = format_of(file, bytes);
  return f && f->reduces;
}

int ct_image_decode_part(const void *file, size_t bytes, const ct_image_info_t *info,
                         const ct_image_part_t *part, int channels, uint8_t *out)
{
  int rc = CT_OK;
  const ct__image_format_t *f;
  int64_t pixels = part->height * part->width;
  int narrows = channels < info->channels;
  uint8_t *own = NULL;
  if (info->bits == 16)
    CT_FAIL(CT_ERR_DATA, "has 16 bits a channel, of which 8 would be lost here: pack without "
                         "--encoded and --resize stores such images as uint16");
  CT_TRY(image_find(file, bytes, &f));
  if (narrows) own = ct_mem_alloc((size_t)(pixels * info->channels), "an image");
  if (narrows && !own) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(f->decode(file, bytes, info, part, narrows ? own : out));
  if (narrows) colour_to_grey(own, pixels, out);
  if (channels > info->channels) grey_to_colour(out, pixels);
out:
  ct_mem_free(own);
  return rc;
}

int ct_image_decode_wide(const void *file, size_t bytes, const ct_image_info_t *info, int channels,
                         uint16_t *out)
{
  int rc = CT_OK;
  const ct__image_format_t *f;
  ct_image_part_t whole = {1, 0, 0, info->height, info->width};
  int64_t pixels = info->height * info->width;
  int narrows = channels < info->channels;
  uint16_t *own = NULL;
  if (info->bits != 16) CT_FAIL(CT_ERR_DATA, "has 8 bits a channel, where the others have 16");
  CT_TRY(image_find(file, bytes, &f));
  if (narrows) own = ct_mem_array(pixels * info->channels, sizeof *own, "an image");
  if (narrows && !own) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(f->decode(file, bytes, info, &whole, (uint8_t *)(narrows ? own : out)));
  if (narrows) wide_to_grey(own, pixels, out);
  if (channels > info->channels) wide_to_colour(out, pixels);
out:
  ct_mem_free(own);
  return rc;
}

int ct_image_decode(const void *file, size_t bytes, const ct_image_info_t *info, int channels,
                    uint8_t *out)
{
  ct_image_part_t whole = {1, 0, 0, info->height, info->width};
  return ct_image_decode_part(file, bytes, info, &whole, channels, out);
}
