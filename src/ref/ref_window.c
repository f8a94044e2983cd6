/* The geometry of windows, for convolution and pooling. */
#include "ref/ref.h"

ct__ref_window_t ct__ref_window(const ct_op_desc_t *d, const int kernel[3], const int stride[3],
                                const int pad[3], const int dilate[3])
{
  int missing = 5 - d->x.ndim;
  ct__ref_window_t w = {.in = {1}, .out = {1}, .kernel = {1}, .stride = {1}, .dilate = {1}};

  for (int i = missing; i < 3; i++) {
    w.in[i] = d->x.dim[2 + i - missing];
    w.out[i] = d->y.dim[2 + i - missing];
    w.kernel[i] = kernel[i - missing];
    w.stride[i] = stride[i - missing];
    w.pad[i] = pad[i - missing];
    w.dilate[i] = dilate ? dilate[i - missing] : 1;
  }
  return w;
}
