/* torch.nn.MaxPool1d to 3d, AvgPool1d to 3d: six kinds that differ in the number of dims and in the
 * reduction. */
#include "model/layer_usual.h"
#include "model/layer_window.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t kernel[3], stride[3], padding[3];
  int ceil_mode;
  int64_t dilation[3];   /* maximum only */
  int count_include_pad; /* average only */
  int64_t divisor_override;
} pool_t;

#define WINDOW(SIZE, order, padding_help)                                                     \
  SIZE(pool_t, kernel, NULL, 1, 4096, "size of the window, in pixels: " order),               \
      SIZE(pool_t, stride, "0", 0, 4096, "pixels from window to window; 0: the kernel size"), \
      SIZE(pool_t, padding, "0", 0, 2048, padding_help "; at most half the kernel"),          \
      CT_OPT_BOOL(pool_t, ceil_mode, "false", "round the number of windows up")
#define MAXIMUM(SIZE, order)                                                       \
  {                                                                                \
    WINDOW(SIZE, order, "pixels on each side, never the maximum"),                 \
        SIZE(pool_t, dilation, "1", 1, 4096, "pixels from tap to tap"), CT_OPT_END \
  }
#define AVERAGE(SIZE, order)                                                             \
  {                                                                                      \
    WINDOW(SIZE, order, "zeros on each side, in pixels"),                                \
        CT_OPT_BOOL(pool_t, count_include_pad, "true", "padding counts in the average"), \
        CT_OPT_INT(pool_t, divisor_override, "0", 0, INT32_MAX,                          \
                   "what sums are divided by; 0: the number of pixels"),                 \
        CT_OPT_END                                                                       \
  }

static const ct_opt_t max_rows1[] = MAXIMUM(CT_OPT_SINGLE, "steps");
static const ct_opt_t max_rows2[] = MAXIMUM(CT_OPT_PAIR, "rows, columns");
static const ct_opt_t max_rows3[] = MAXIMUM(CT_OPT_TRIPLE, "depth, rows, columns");
static const ct_opt_t average_rows1[] = AVERAGE(CT_OPT_SINGLE, "steps");
static const ct_opt_t average_rows2[] = AVERAGE(CT_OPT_PAIR, "rows, columns");
static const ct_opt_t average_rows3[] = AVERAGE(CT_OPT_TRIPLE, "depth, rows, columns");

/* Returns the window; stride 0 stands for the size of the kernel. */
static ct__layer_window_t window_of(const pool_t *o, int space)
{
  ct__layer_window_t w = {.space = space, .ceil = o->ceil_mode, .dilation = {1, 1, 1}};
  for (int i = 0; i < space; i++) {
    w.kernel[i] = o->kernel[i];
    w.stride[i] = o->stride[i] ? o->stride[i] : o->kernel[i];
    w.padding[i] = o->padding[i];
    if (o->dilation[i]) w.dilation[i] = o->dilation[i];
  }
  return w;
}

/* Computes the output shape.  Like PyTorch, it refuses padding of more than half the kernel: some
 * windows would consist of padding only. */
static int pool_infer(const pool_t *o, int space, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  ct__layer_window_t w = window_of(o, space);
  CT_TRY(ct__layer_want_space(in, space));
  for (int i = 0; i < space; i++)
    if (2 * w.padding[i] > w.kernel[i])
      CT_FAIL(CT_ERR_SHAPE, "padding %" PRId64 " is more than half of its kernel %" PRId64,
              w.padding[i], w.kernel[i]);
  CT_TRY(ct__layer_window_infer(&w, in, in->dim[1], out));
out:
  return rc;
}

static int infer1(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return pool_infer(opts, 1, in, out);
}

static int infer2(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return pool_infer(opts, 2, in, out);
}

static int infer3(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  return pool_infer(opts, 3, in, out);
}

static void maximum(const void *opts, ct_op_desc_t *d)
{
  ct__layer_window_t w = window_of(opts, d->x.ndim - 2);
  ct__layer_window_ints(w.space, w.kernel, d->u.pool.kernel);
  ct__layer_window_ints(w.space, w.stride, d->u.pool.stride);
  ct__layer_window_ints(w.space, w.padding, d->u.pool.pad);
  for (int i = 0; i < w.space; i++)
    d->u.pool.gap[i] = (int)w.dilation[i] - 1;
  d->u.pool.ceil = w.ceil;
}

static void average(const void *opts, ct_op_desc_t *d)
{
  const pool_t *o = opts;
  maximum(opts, d);
  d->u.pool.average = 1;
  d->u.pool.include_pad = o->count_include_pad;
  d->u.pool.divisor = (int)o->divisor_override;
}

#define KIND(word, text, rows, shape, what)                              \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,                \
                                           .help = text,                 \
                                           .opts_bytes = sizeof(pool_t), \
                                           .opts = rows,                 \
                                           .inputs = 1,                  \
                                           .infer = shape,               \
                                           .op = CT_OP_POOL,             \
                                           .attributes = what};

KIND(maxpool1d, "maximum over windows of sequences", max_rows1, infer1, maximum)
KIND(maxpool, "maximum over windows", max_rows2, infer2, maximum)
KIND(maxpool3d, "maximum over windows of volumes", max_rows3, infer3, maximum)
KIND(avgpool1d, "average over windows of sequences", average_rows1, infer1, average)
KIND(avgpool, "average over windows", average_rows2, infer2, average)
KIND(avgpool3d, "average over windows of volumes", average_rows3, infer3, average)
