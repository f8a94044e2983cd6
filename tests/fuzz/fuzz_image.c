/* Fuzz target: any bytes as an image.
 *
 * Either they are refused with a message, or a part of it has the pixels of the whole, at any of
 * its sizes, and as many as were asked for; nothing stays allocated. */
#include "base/ct_mem.h"
#include "data/image/ct_image.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_PIXELS = 1 << 20, GUARD = 64 };

/* The decoded part, with bytes behind it that must stay; NULL: refused. */
static uint8_t *decode(const uint8_t *file, size_t bytes, const ct_image_info_t *is,
                       const ct_image_part_t *part)
{
  size_t n = (size_t)(3 * part->height * part->width);
  uint8_t *out = calloc(n + GUARD, 1);
  int rc = ct_image_decode_part(file, bytes, is, part, 3, out);
  must(rc == CT_OK || rc == CT_ERR_FORMAT, "an image is damaged, or it is decoded");
  for (int i = 0; i < GUARD; i++)
    must(out[n + (size_t)i] == 0, "nothing is written behind the pixels");
  if (rc == CT_OK) return out;
  free(out);
  return NULL;
}

/* 16 bits a channel: as a whole, and in no other way. */
static void check_wide(const uint8_t *file, size_t bytes, const ct_image_info_t *is)
{
  size_t n = (size_t)(3 * is->height * is->width);
  uint16_t *out = calloc(n + GUARD, sizeof *out);
  int rc = ct_image_decode_wide(file, bytes, is, 3, out);
  must(rc == CT_OK || rc == CT_ERR_FORMAT, "an image of 16 bits is damaged, or it is decoded");
  for (int i = 0; i < GUARD; i++)
    must(out[n + (size_t)i] == 0, "nothing is written behind the pixels");
  must(ct_image_decode(file, bytes, is, 3, (uint8_t *)out) == CT_ERR_DATA, "8 bits are refused");
  free(out);
}

/* Damage within rows that a part passes over may show in the whole alone. */
static void check(const uint8_t *file, size_t bytes, const ct_image_info_t *is, int reduce)
{
  int64_t h = (is->height + reduce - 1) / reduce, w = (is->width + reduce - 1) / reduce;
  ct_image_part_t all = {reduce, 0, 0, h, w};
  ct_image_part_t middle = {reduce, h / 3, w / 3, (h + 2) / 3, (w + 2) / 3};
  uint8_t *whole = decode(file, bytes, is, &all), *part = decode(file, bytes, is, &middle);
  must(!whole || part, "a part of what can be decoded can be decoded");
  free(whole);
  free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live();
  ct_image_info_t is;
  int rc = ct_image_info(data, bytes, &is);
  must(rc == CT_OK || rc == CT_ERR_FORMAT, "it is an image, or it is none");
  if (rc == CT_OK && is.bits == 16 && is.height * is.width <= MOST_PIXELS)
    check_wide(data, bytes, &is);
  else if (rc == CT_OK && is.height * is.width <= MOST_PIXELS)
    for (int reduce = 1; reduce <= (ct_image_reduces(data, bytes) ? 8 : 1); reduce *= 2)
      check(data, bytes, &is, reduce);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
