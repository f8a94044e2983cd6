/* torch.nn.MaxPool2d, MaxPool3d, AvgPool2d and AvgPool3d with ceil_mode = False: four kinds that
 * differ in the number of dims and in the reduction. */
#include "model/layer_usual.h"
#include "model/layer_window.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t kernel[3], stride[3], padding[3];
  int count_include_pad; /* average only */
} pool_t;

#define WINDOW(SIZE, order, padding_help)                                                     \
  SIZE(pool_t, kernel, NULL, 1, 4096, "size of the window, in pixels: " order),               \
      SIZE(pool_t, stride, "0", 0, 4096, "pixels from window to window; 0: the kernel size"), \
      SIZE(pool_t, padding, "0", 0, 2048, padding_help "; at most half the kernel")
#define MAXIMUM(SIZE, order)                                                  \
  {                                                                           \
    WINDOW(SIZE, order, "pixels on each side, never the maximum"), CT_OPT_END \
  }
#define AVERAGE(SIZE, order)                                                             \
  {                                                                                      \
    WINDOW(SIZE, order, "zeros on each side, in pixels"),                                \
        CT_OPT_BOOL(pool_t, count_include_pad, "true", "padding counts in the average"), \
        CT_OPT_END                                                                       \
  }

static const ct_opt_t max_rows[] = MAXIMUM(CT_OPT_PAIR, "rows, columns");
static const ct_opt_t max3_rows[] = MAXIMUM(CT_OPT_TRIPLE, "depth, rows, columns");
static const ct_opt_t average_rows[] = AVERAGE(CT_OPT_PAIR, "rows, columns");
static const ct_opt_t average3_rows[] = AVERAGE(CT_OPT_TRIPLE, "depth, rows, columns");

/* Returns the window; stride 0 stands for the size of the kernel. */
static ct__layer_window_t window_of(const pool_t *o, int space)
{
  ct__layer_window_t w = {.space = space, .dilation = {1, 1, 1}};
  for (int i = 0; i < space; i++) {
    w.kernel[i] = o->kernel[i];
    w.stride[i] = o->stride[i] ? o->stride[i] : o->kernel[i];
    w.padding[i] = o->padding[i];
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
}

static void average(const void *opts, ct_op_desc_t *d)
{
  const pool_t *o = opts;
  maximum(opts, d);
  d->u.pool.average = 1;
  d->u.pool.include_pad = o->count_include_pad;
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

KIND(maxpool, "maximum over windows", max_rows, infer2, maximum)
KIND(maxpool3d, "maximum over windows of volumes", max3_rows, infer3, maximum)
KIND(avgpool, "average over windows", average_rows, infer2, average)
KIND(avgpool3d, "average over windows of volumes", average3_rows, infer3, average)
