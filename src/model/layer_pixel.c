/* torch.nn.PixelShuffle and PixelUnshuffle: … x C r r x H x W becomes … x C x H r x W r and
 * back. */
#include <string.h>

#include "base/ct_err.h"
#include "model/layer_axes.h"

typedef struct {
  int64_t factor;
} pixel_t;

static const ct_opt_t pixel_rows[] = {
    CT_OPT_INT(pixel_t, factor, NULL, 1, 1 << 15, "factor of height and width"), CT_OPT_END};

/* Checks the last three dims. */
static int pixel_check(const ct_shape_t *in)
{
  int rc = CT_OK;
  char text[80];
  if (in->ndim < 3 || in->ndim + 2 > CT_MAX_DIMS)
    CT_FAIL(CT_ERR_SHAPE, "needs … x C x H x W, but its input is %s",
            ct_shape_text(in, text, sizeof text));
  for (int i = in->ndim - 3; i < in->ndim; i++)
    CT_TRY(ct__layer_keeps_batch(in, i, "to shuffle"));
out:
  return rc;
}

static int shuffle_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, c = in->ndim - 3;
  int64_t r = ((const pixel_t *)opts)->factor;
  CT_TRY(pixel_check(in));
  if (in->dim[c] % (r * r))
    CT_FAIL(CT_ERR_SHAPE, "its input has %lld channels, not a multiple of %lld",
            (long long)in->dim[c], (long long)(r * r));
  *out = *in;
  out->dim[c] /= r * r;
  out->dim[c + 1] *= r;
  out->dim[c + 2] *= r;
out:
  return rc;
}

static int unshuffle_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, c = in->ndim - 3;
  int64_t r = ((const pixel_t *)opts)->factor;
  CT_TRY(pixel_check(in));
  if (in->dim[c + 1] % r || in->dim[c + 2] % r)
    CT_FAIL(CT_ERR_SHAPE, "its input has %lld x %lld pixels, not multiples of %lld",
            (long long)in->dim[c + 1], (long long)in->dim[c + 2], (long long)r);
  *out = *in;
  out->dim[c] *= r * r;
  out->dim[c + 1] /= r;
  out->dim[c + 2] /= r;
out:
  return rc;
}

/* Sets views with the dims C, r, r, H, W and C, H, r, W, r in place of the last three.  `small` is
 * the side with more channels. */
static void pixel_views(const ct_shape_t *small, int64_t r, int n, int64_t *deep, int64_t *wide)
{
  int64_t c = small->dim[n] / (r * r), h = small->dim[n + 1], w = small->dim[n + 2];
  memcpy(deep, small->dim, (size_t)n * sizeof *deep);
  memcpy(wide, small->dim, (size_t)n * sizeof *wide);
  memcpy(deep + n, (const int64_t[]){c, r, r, h, w}, 5 * sizeof *deep);
  memcpy(wide + n, (const int64_t[]){c, h, r, w, r}, 5 * sizeof *wide);
}

static void pixel_map(const void *opts, ct_op_desc_t *d, int back)
{
  static const int forth_order[] = {0, 3, 1, 4, 2}, back_order[] = {0, 2, 4, 1, 3};
  int n = d->x.ndim - 3;
  int64_t r = ((const pixel_t *)opts)->factor;
  pixel_views(back ? &d->y : &d->x, r, n, back ? d->u.strided.y_view : d->u.strided.x_view,
              back ? d->u.strided.x_view : d->u.strided.y_view);
  d->u.strided.x_view_dims = d->u.strided.y_view_dims = n + 5;
  for (int i = 0; i < n + 5; i++) {
    d->u.strided.from[i] = i < n ? i : n + (back ? back_order : forth_order)[i - n];
    d->u.strided.step[i] = 1;
  }
}

static void shuffle_attributes(const void *opts, ct_op_desc_t *d)
{
  pixel_map(opts, d, 0);
}

static void unshuffle_attributes(const void *opts, ct_op_desc_t *d)
{
  pixel_map(opts, d, 1);
}

const ct_layer_ops_t ct__layer_pixel_shuffle = {
    .kind = "pixel_shuffle",
    .help = "enlarges images with the pixels of further channels",
    .opts_bytes = sizeof(pixel_t),
    .opts = pixel_rows,
    .inputs = 1,
    .general = 1,
    .infer = shuffle_infer,
    .op = CT_OP_STRIDED,
    .attributes = shuffle_attributes,
};

const ct_layer_ops_t ct__layer_pixel_unshuffle = {
    .kind = "pixel_unshuffle",
    .help = "makes images smaller and their pixels channels: the inverse of pixel_shuffle",
    .opts_bytes = sizeof(pixel_t),
    .opts = pixel_rows,
    .inputs = 1,
    .general = 1,
    .infer = unshuffle_infer,
    .op = CT_OP_STRIDED,
    .attributes = unshuffle_attributes,
};
