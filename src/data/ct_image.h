/** \file ct_image.h  PNG and JPEG: the bytes of a file to pixels.  Layer 2.
 *
 * Local, and any thread may call it: nothing is shared.  The format is found by the first bytes,
 * never by a file's name.  Pixels are 8 bits a channel, row by row, channels together (H x W x C),
 * with the bits of Pillow's `Image.open(f).convert("RGB")` or `.convert("L")` (13.0), from the same
 * libraries: 1, 2 and 4 bits are spread over 8, palettes looked up, transparency is dropped, CMYK
 * becomes RGB; gamma and colour profiles are passed over, and a rotation that Exif asks for is left
 * to the viewer.  PNG files of 16 bits a channel are decoded to uint16 alone, where Pillow drops
 * the lower 8 bits of colours.
 *
 * libjpeg-turbo and libpng are optional: a build without one says so when it is asked
 * (CT_ERR_UNSUP). */
#ifndef CT_IMAGE_H
#define CT_IMAGE_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Height and width are at most this, and an image has at most CT_IMAGE_PIXELS. */
#define CT_IMAGE_SIDE   65500
#define CT_IMAGE_PIXELS ((int64_t)1 << 28)

/** What is known without decoding. */
typedef struct ct_image_info {
  int64_t height, width;
  int channels; /**< 1: grey, 3: colour */
  int bits;     /**< of a channel: 8, or 16 */
} ct_image_info_t;

/** 1 if a file, which is at its beginning, looks like an image (ct_format_t.probe). */
int ct_image_probe(FILE *f);
/** CT_ERR_FORMAT: not an image, damaged before its pixels, or larger than is allowed;
 * CT_ERR_UNSUP. Messages do not name the file: the caller puts that in front. */
int ct_image_info(const void *file, size_t bytes, ct_image_info_t *out);
/** Decodes into out[height][width][channels]; \a channels 1 or 3, whatever the file has (grey of
 * colours: 0.299 R + 0.587 G + 0.114 B).  \a info: what ct_image_info() said of these bytes.
 * CT_ERR_FORMAT: damaged, ends too early, or no longer of that size; CT_ERR_DATA: has 16 bits;
 * CT_ERR_UNSUP; CT_ERR_NOMEM. */
int ct_image_decode(const void *file, size_t bytes, const ct_image_info_t *info, int channels,
                    uint8_t *out);

/** The same of an image of 16 bits, and CT_ERR_DATA of others.  Grey has the same weights. */
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

/** Writes h x w bytes as a grey PNG, which is there whole or not at all.  CT_ERR_IO, CT_ERR_NOMEM;
 * CT_ERR_UNSUP: this build has no libpng. */
int ct_image_write_grey(const char *path, int64_t h, int64_t w, const uint8_t *pixels);

/** A part of an image, of which each side may be 1/2, 1/4 or 1/8, rounded up. */
typedef struct ct_image_part {
  int reduce;                       /**< 1, 2, 4, 8; 1 if ct_image_reduces() says 0 */
  int64_t top, left, height, width; /**< within the image of that size */
} ct_image_part_t;
/** 1 if the format has smaller sizes for less work: a JPEG is then the mean of blocks of pixels, in
 * effect (its cosine transform is done at that size). */
int ct_image_reduces(const void *file, size_t bytes);
/** As ct_image_decode(), of a part: out[part->height][part->width][channels].  With reduce 1 it has
 * the bits of the same part of the whole.  Damage outside of the part may go unnoticed. */
int ct_image_decode_part(const void *file, size_t bytes, const ct_image_info_t *info,
                         const ct_image_part_t *part, int channels, uint8_t *out);

#endif
