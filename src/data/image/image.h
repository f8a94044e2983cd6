/** \file image.h  Image formats: a table of functions for each.  Internal to data. */
#ifndef CT_DATA_IMAGE_H
#define CT_DATA_IMAGE_H
#include "data/image/ct_image.h"

typedef struct ct__image_format {
  const char *name;
  const char *magic; /**< first bytes of its files */
  size_t magic_bytes;
  /* info and decode are NULL if this build does not support the format */
  int (*info)(const void *file, size_t bytes, ct_image_info_t *out);
  /* out[part->height][part->width][info->channels], of uint16 if info->bits is 16 */
  int (*decode)(const void *file, size_t bytes, const ct_image_info_t *info,
                const ct_image_part_t *part, uint8_t *out);
  int reduces; /* part->reduce may be 2, 4, 8 */
} ct__image_format_t;

extern const ct__image_format_t ct__image_png, ct__image_jpeg;

/** Checks the size of an image.  CT_ERR_FORMAT if it is impossible or exceeds the limits. */
int ct__image_check(int64_t height, int64_t width);
/** Checks an image that was read again.  CT_ERR_FORMAT if its size has changed. */
int ct__image_check_same(const ct_image_info_t *is, const ct_image_info_t *was);

#endif
