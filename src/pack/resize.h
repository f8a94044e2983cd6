/** \file resize.h  Images of 8 bits in another size.  Internal. */
#ifndef CT_PACK_RESIZE_H
#define CT_PACK_RESIZE_H
#include <stdint.h>

/** Pixels, row by row, channels together. */
typedef struct ct__pack_image {
  uint8_t *data;
  int64_t height, width;
  int channels;
} ct__pack_image_t;

/** Local.  Bilinear with antialiasing, the bits of Image.resize(…, BILINEAR) of Pillow 13, which
 * makes the pass down first where the height shrinks by more than twice what the width does, in
 * pixels (older ones never do: there they differ by 1): \a out has its sides and its memory.
 * CT_ERR_NOMEM. */
int ct__pack_resize(const ct__pack_image_t *in, const ct__pack_image_t *out);

#endif
