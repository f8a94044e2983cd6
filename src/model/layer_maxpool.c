/* torch.nn.MaxPool2d, ceil_mode = False. */
#include "model/layer_common.h"

typedef struct {
  int64_t kernel[2], stride[2], padding[2];
} maxpool_t;

static const ct_opt_t rows[] = {
    CT_OPT_PAIR(maxpool_t, kernel, NULL, 1, 4096, "size of the window, in pixels: rows, columns"),
    CT_OPT_PAIR(maxpool_t, stride, "0", 0, 4096, "pixels from window to window; 0: as kernel"),
    CT_OPT_PAIR(maxpool_t, padding, "0", 0, 2048,
                "pixels on each side, never the maximum; at most half the kernel"),
    CT_OPT_END};

static ct__window_t window(const maxpool_t *o)
{
  return ct__pool_window(o->kernel, o->stride, o->padding);
}

static int infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  ct__window_t w = window(opts);
  return ct__pool_infer(&w, in, out);
}

static void lower(const void *opts, int index, const ct_shape_t *in, const ct_shape_t *out,
                  ct_op_desc_t *d)
{
  ct__window_t w = window(opts);
  (void)index;
  ct__pool_lower(&w, in, out, d);
}

const ct_layer_ops_t ct__layer_maxpool = {
    .kind = "maxpool",
    .help = "maximum over windows",
    .opts_bytes = sizeof(maxpool_t),
    .opts = rows,
    .inputs = 1,
    .infer = infer,
    .params = ct__no_params,
    .lower = lower,
};
