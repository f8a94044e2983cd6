/** \file ct_image.h  Decodes PNG and JPEG files.  Layer 2.
 *
 * All functions are local and thread-safe.  The format is recognized by the first bytes of a file,
 * not by its name.  Pixels have 8 bits a channel in the order H x W x C, and are bit-identical to
 * Pillow's `Image.open(f).convert("RGB")` or `.convert("L")` (13.0), which uses the same libraries:
 * 1, 2 and 4 bits are scaled to 8, palettes are applied, transparency is dropped, CMYK becomes RGB;
 * gamma, colour profiles and the Exif orientation are ignored.  PNG files of 16 bits a channel are
 * only decoded to uint16, whereas Pillow drops the lower 8 bits of colours.
 *
 * libjpeg-turbo and libpng are optional; without them the functions return CT_ERR_UNSUP. */
#ifndef CT_IMAGE_H
#define CT_IMAGE_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Limits of height and width, and of the number of pixels. */
#define CT_IMAGE_SIDE   65500
#define CT_IMAGE_PIXELS ((int64_t)1 << 28)

/** Properties of an image that its header contains. */
typedef struct ct_image_info {
  int64_t height, width;
  int channels; /**< 1: grey, 3: colour */
  int bits;     /**< of a channel: 8, or 16 */
} ct_image_info_t;

/** Returns 1 if a file, positioned at its beginning, looks like an image (ct_format_t.probe). */
int ct_image_probe(FILE *f);
/** Reads the header of an image.  CT_ERR_FORMAT: not an image, a damaged header, or larger than the
 * limits; CT_ERR_UNSUP.  Messages do not name the file; the caller prefixes its name. */
int ct_image_info(const void *file, size_t bytes, ct_image_info_t *out);
/** Decodes into out[height][width][channels]; \a channels is 1 or 3, independent of the file
 * (colours to grey: 0.299 R + 0.587 G + 0.114 B).  \a info is the result of ct_image_info() for
 * these bytes.  CT_ERR_FORMAT: damaged, truncated, or of another size than \a info; CT_ERR_DATA:
 * has 16 bits; CT_ERR_UNSUP; CT_ERR_NOMEM. */
int ct_image_decode(const void *file, size_t bytes, const ct_image_info_t *info, int channels,
                    uint8_t *out);

/** Decodes images of 16 bits as ct_image_decode() does those of 8 bits, with the same weights for
 * grey.  CT_ERR_DATA: the image has 8 bits or less. */
int ct_image_decode_wide(const void *file, size_t bytes, const ct_image_info_t *info, int channels,
                         uint16_t *out);

/** Pixels in memory, data[height][width][channels]. */
typedef struct ct_image {
  uint8_t *data;
  int64_t height, width;
  int channels;
} ct_image_t;
/** Resizes \a in to the sides of \a out, which has memory for them: bilinear with antialiasing,
 * computed in float32 and rounded once.  Pixels differ by at most 1 of 255 from Pillow's
 * Image.resize(…, BILINEAR), which rounds after each direction.  CT_ERR_NOMEM. */
int ct_image_resize(const ct_image_t *in, const ct_image_t *out);

/** Writes h x w bytes as a grey PNG, or one with colours if \a palette (R G B of 256 values) is
 * not NULL, atomically.  CT_ERR_IO, CT_ERR_NOMEM; CT_ERR_UNSUP: this program was built without
 * libpng. */
int ct_image_write_mask(const char *path, int64_t h, int64_t w, const uint8_t *pixels,
                        const uint8_t *palette);

/** A window of an image whose sides may be reduced to 1/2, 1/4 or 1/8, rounded up. */
typedef struct ct_image_part {
  int reduce; /**< 1, 2, 4 or 8; must be 1 if ct_image_reduces() returns 0 */
  /* the window, in pixels of the reduced image */
  int64_t top, left, height, width;
} ct_image_part_t;
/** Returns 1 if the format can be decoded at reduced size with less work.  Pixels of a reduced JPEG
 * are in effect means of blocks of pixels, since its cosine transform is computed at the reduced
 * size. */
int ct_image_reduces(const void *file, size_t bytes);
/** Decodes a window of an image as ct_image_decode() does the whole image:
 * out[part->height][part->width][channels].  If reduce is 1, the pixels are those of the same
 * window of the whole image.  Damage outside the window may go unnoticed. */
int ct_image_decode_part(const void *file, size_t bytes, const ct_image_info_t *info,
                         const ct_image_part_t *part, int channels, uint8_t *out);

#endif
