/* torch.nn.functional.interpolate (ct_resize.h). */
#include "ref/ref.h"

/* Returns the product of the weights over all axes; x, y: linear voxel indices. */
static double share_of(const ct_op_desc_t *d, int64_t x, int64_t y)
{
  double all = 1;
  for (int k = d->x.ndim - 1; k >= 2 && all != 0; k--) {
    ct_resize_dim_t dim = ct_op_resize_dim(d, k - 2);
    all *= ct_resize_share(&dim, y % d->y.dim[k], x % d->x.dim[k]);
    x /= d->x.dim[k];
    y /= d->y.dim[k];
  }
  return all;
}

/* Computes each output voxel (backward: each input gradient) as a weighted sum over all voxels of
 * the other tensor. */
static int upsample_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t planes = d->x.dim[0] * d->x.dim[1];
  int64_t in = ct_shape_sample(&d->x) / d->x.dim[1], out = ct_shape_sample(&d->y) / d->x.dim[1];
  int back = a->pass == CT_BWD_DATA;
  int64_t to = back ? in : out, from = back ? out : in;
  for (int64_t i = 0; i < to; i++) {
    for (int64_t p = 0; p < planes; p++) {
      double sum = 0;
      for (int64_t k = 0; k < from; k++) {
        double s = back ? share_of(d, i, k) : share_of(d, k, i);
        if (s != 0) sum += s * ct__ref_get(d->x.dtype, back ? a->dy : a->x, p * from + k);
      }
      ct__ref_set(d->x.dtype, back ? a->dx : a->y, p * to + i, sum);
    }
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_upsample = {.run = upsample_run, .reduced = 1};
