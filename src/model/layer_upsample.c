/* torch.nn.functional.interpolate: to a size, or by factors, in five modes.  `area` is adaptive
 * average pooling. */
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

typedef struct {
  ct_opt_doubles_t scale, size;
  char *like;
  int mode, align_corners;
} upsample_t;

enum { AREA = CT_RESIZE_COUNT };

static const ct_opt_t rows[] = {
    {"scale", CT_OPT_T_DOUBLES, offsetof(upsample_t, scale), "2", 1e-6, 4096, 0,
     "scale factor: one number, or one per dimension; without effect if size or like is given"},
    {"size", CT_OPT_T_DOUBLES, offsetof(upsample_t, size), "", 1, INT32_MAX, 0,
     "size of the output in pixels: one number, or one per dimension"},
    CT_OPT_TEXT(upsample_t, like, "",
                "name of the layer, or `input`, whose size in pixels the output gets"),
    CT_OPT_CHOICE(
        upsample_t, mode, "nearest", "nearest|linear|nearest-exact|bicubic|area",
        "nearest pixel; linear (bilinear, trilinear) or cubic interpolation between pixel "
        "centres; average of the pixels that an output covers"),
    CT_OPT_BOOL(upsample_t, align_corners, "false",
                "linear and bicubic: the corner pixels keep their places"),
    CT_OPT_END};

static int upsample_like(void *opts, const char **name, const ct_shape_t *shape)
{
  int rc = CT_OK;
  upsample_t *o = opts;
  char text[80];
  *name = o->like;
  if (!shape) return CT_OK;
  if (o->size.n) CT_FAIL(CT_ERR_USAGE, "takes `size` or `like`, not both");
  if (shape->ndim < 3 || shape->ndim > 5)
    CT_FAIL(CT_ERR_SHAPE, "like: %s is %s, but sizes in pixels have sequences, images and volumes",
            o->like, ct__layer_shape_text(shape, text, sizeof text));
  double *v = ct_mem_array(shape->ndim - 2, sizeof *v, "a list of numbers");
  if (!v) return CT_ERR_NOMEM;
  for (int i = 2; i < shape->ndim; i++)
    v[i - 2] = (double)shape->dim[i];
  ct_mem_free(o->size.v);
  o->size = (ct_opt_doubles_t){v, shape->ndim - 2};
  o->like[0] = '\0';
out:
  return rc;
}

static int upsample_size(const upsample_t *o, int i, int space, const ct_shape_t *in, int64_t *out)
{
  int rc = CT_OK;
  char shape[80];
  const ct_opt_doubles_t *list = o->size.n ? &o->size : &o->scale;
  const char *word = o->size.n ? "size" : "scale";
  if (list->n != 1 && list->n != space)
    CT_FAIL(CT_ERR_SHAPE, "%s: expected one number, or one for each of %d dims, not %d", word,
            space, list->n);
  double v = list->v[list->n == 1 ? 0 : i];
  double size = o->size.n ? v : (double)in->dim[2 + i] * v;
  if (o->size.n && size != (double)(int64_t)size)
    CT_FAIL(CT_ERR_SHAPE, "size: %g is not a whole number", size);
  if (size >= (double)INT32_MAX + 1)
    CT_FAIL(CT_ERR_SHAPE, "its input of %s is too large for %s %g",
            ct_shape_text(in, shape, sizeof shape), word, v);
  *out = (int64_t)size;
  if (*out < 1)
    CT_FAIL(CT_ERR_SHAPE, "scale %g leaves nothing of its input of %s", v,
            ct_shape_text(in, shape, sizeof shape));
out:
  return rc;
}

static int upsample_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const upsample_t *o = opts;
  CT_TRY(ct__layer_want_channels(in));
  if (o->mode == CT_RESIZE_BICUBIC && in->ndim != 4)
    CT_FAIL(CT_ERR_SHAPE, "mode bicubic is for images, N x C x H x W");
  if (o->align_corners && o->mode != CT_RESIZE_BICUBIC && o->mode != CT_RESIZE_LINEAR)
    CT_FAIL(CT_ERR_SHAPE, "align_corners is for the modes linear and bicubic");
  *out = *in;
  for (int i = 0; i < in->ndim - 2; i++)
    CT_TRY(upsample_size(o, i, in->ndim - 2, in, &out->dim[2 + i]));
out:
  return rc;
}

static void upsample_attributes(const void *opts, ct_op_desc_t *d)
{
  const upsample_t *o = opts;
  if (o->mode == AREA) {
    d->kind = CT_OP_POOL;
    d->u.pool.average = d->u.pool.adaptive = 1;
    return;
  }
  d->u.upsample.mode = (ct_resize_t)o->mode;
  d->u.upsample.align_corners = o->align_corners;
  for (int i = 0; i < d->x.ndim - 2 && !o->size.n; i++)
    d->u.upsample.scale[i] = o->scale.v[o->scale.n == 1 ? 0 : i];
}

const ct_layer_ops_t ct__layer_upsample = {
    .kind = "upsample",
    .help = "resizes a sequence, image or volume",
    .opts_bytes = sizeof(upsample_t),
    .opts = rows,
    .inputs = 1,
    .like = upsample_like,
    .infer = upsample_infer,
    .op = CT_OP_UPSAMPLE,
    .attributes = upsample_attributes,
};
