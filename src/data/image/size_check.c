/* Checks the sizes of images, for all formats. */
#include "data/image/image.h"

#include <inttypes.h>

#include "base/ct_err.h"

int ct__image_check(int64_t height, int64_t width)
{
  int rc = CT_OK;
  if (height < 1 || width < 1 || height > CT_IMAGE_SIDE || width > CT_IMAGE_SIDE ||
      height * width > CT_IMAGE_PIXELS)
    CT_FAIL(CT_ERR_FORMAT,
            "says that it is %" PRId64 " x %" PRId64 " pixels; up to %d a side and %" PRId64
            " in all are read",
            height, width, CT_IMAGE_SIDE, CT_IMAGE_PIXELS);
out:
  return rc;
}

int ct__image_check_same(const ct_image_info_t *is, const ct_image_info_t *was)
{
  int rc = CT_OK;
  if (is->height != was->height || is->width != was->width || is->channels != was->channels ||
      is->bits != was->bits)
    CT_FAIL(CT_ERR_FORMAT,
            "is %" PRId64 " x %" PRId64 " pixels of %d channels of %d bits, but was %" PRId64
            " x %" PRId64 " of %d of %d when it was opened",
            is->height, is->width, is->channels, is->bits, was->height, was->width, was->channels,
            was->bits);
out:
  return rc;
}
