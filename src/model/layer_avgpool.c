/* torch.nn.AvgPool2d, ceil_mode = False. */
#include "model/layer_common.h"

typedef struct {
  int64_t kernel[2], stride[2], padding[2];
  int count_include_pad;
} avgpool_t;

static const ct_opt_t rows[] = {
    CT_OPT_PAIR(avgpool_t, kernel, NULL, 1, 4096, "size of the window, in pixels: rows, columns"),
    CT_OPT_PAIR(avgpool_t, stride, "0", 0, 4096, "pixels from window to window; 0: as kernel"),
    CT_OPT_PAIR(avgpool_t, padding, "0", 0, 2048,
                "zeros on each side, in pixels; at most half the kernel"),
    CT_OPT_BOOL(avgpool_t, count_include_pad, "true", "padding counts in the average"), CT_OPT_END};

static ct__window_t window(const avgpool_t *o)
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
  const avgpool_t *o = opts;
  ct__window_t w = window(o);
  (void)index;
  ct__pool_lower(&w, in, out, d);
  d->u.pool.average = 1;
  d->u.pool.include_pad = o->count_include_pad;
}

const ct_layer_ops_t ct__layer_avgpool = {
    .kind = "avgpool",
    .help = "average over windows",
    .opts_bytes = sizeof(avgpool_t),
    .opts = rows,
    .inputs = 1,
    .infer = infer,
    .params = ct__no_params,
    .lower = lower,
};
