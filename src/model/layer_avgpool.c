/* torch.nn.AvgPool2d and AvgPool3d, ceil_mode = False: two kinds, which differ in how many numbers
 * an option has. */
#include "model/layer_usual.h"
#include "model/layer_window.h"

typedef struct {
  int64_t kernel[3], stride[3], padding[3];
  int count_include_pad;
} avgpool_t;

#define ROWS(SIZE, order)                                                                  \
  SIZE(avgpool_t, kernel, NULL, 1, 4096, "size of the window, in pixels: " order),         \
      SIZE(avgpool_t, stride, "0", 0, 4096, "pixels from window to window; 0: as kernel"), \
      SIZE(avgpool_t, padding, "0", 0, 2048,                                               \
           "zeros on each side, in pixels; at most half the kernel"),                      \
      CT_OPT_BOOL(avgpool_t, count_include_pad, "true", "padding counts in the average"),  \
      CT_OPT_END

static const ct_opt_t rows2[] = {ROWS(CT_OPT_PAIR, "rows, columns")};
static const ct_opt_t rows3[] = {ROWS(CT_OPT_TRIPLE, "depth, rows, columns")};

static ct__layer_window_t window(int space, const avgpool_t *o)
{
  return ct__layer_pool_window(space, o->kernel, o->stride, o->padding);
}

static int infer2(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  ct__layer_window_t w = window(2, opts);
  return ct__layer_pool_infer(&w, in, out);
}

static int infer3(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  ct__layer_window_t w = window(3, opts);
  return ct__layer_pool_infer(&w, in, out);
}

static void lower(const void *opts, int index, const ct_shape_t *in, const ct_shape_t *out,
                  ct_op_desc_t *d)
{
  const avgpool_t *o = opts;
  ct__layer_window_t w = window(in->ndim - 2, o);
  (void)index;
  ct__layer_pool_lower(&w, in, out, d);
  d->u.pool.average = 1;
  d->u.pool.include_pad = o->count_include_pad;
}

const ct_layer_ops_t ct__layer_avgpool = {
    .kind = "avgpool",
    .help = "average over windows",
    .opts_bytes = sizeof(avgpool_t),
    .opts = rows2,
    .inputs = 1,
    .infer = infer2,
    .params = ct__layer_no_params,
    .lower = lower,
};

const ct_layer_ops_t ct__layer_avgpool3d = {
    .kind = "avgpool3d",
    .help = "average over windows of volumes",
    .opts_bytes = sizeof(avgpool_t),
    .opts = rows3,
    .inputs = 1,
    .infer = infer3,
    .params = ct__layer_no_params,
    .lower = lower,
};
