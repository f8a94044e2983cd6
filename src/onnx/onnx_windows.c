/* Convolutions, pooling and resizing as ONNX nodes. */
#include "onnx/onnx_layer.h"

#include "base/ct_err.h"
#include "base/ct_mem.h"

static void ints(ct__onnx_t *o, const char *name, int n, const int v[])
{
  int64_t wide[3] = {0};
  for (int i = 0; i < n; i++)
    wide[i] = v[i];
  ct__onnx_ints(o, name, n, wide);
}

static void window(ct__onnx_t *o, int space, const int kernel[3], const int stride[3],
                   const int pad[3])
{
  int64_t pads[6];
  for (int i = 0; i < space; i++)
    pads[i] = pads[space + i] = pad[i];
  ints(o, "kernel_shape", space, kernel);
  ints(o, "strides", space, stride);
  ct__onnx_ints(o, "pads", 2 * space, pads);
}

void ct__onnx_conv(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_op_desc_t *d = l->d;
  int space = d->x.ndim - 2;
  const ct_shape_t *w = &o->g->param[o->g->layer[l->id].param[0]].spec.shape;
  const char *weight = ct__onnx_weight(o, l->id, 0, CT__ONNX_PARAM, "", 0, w->ndim, w->dim);
  const char *bias = d->u.conv.bias ? ct__onnx_bias(o, l->id, 1) : NULL;
  ct__onnx_node(o, "Conv", OUT(l->y), IN(l->x, weight, bias));
  window(o, space, d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad);
  ints(o, "dilations", space, d->u.conv.dilate);
  ct__onnx_int(o, "group", d->u.conv.groups);
}

void ct__onnx_convolve(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_op_desc_t *d = l->d;
  int space = d->x.ndim - 2;
  ct__onnx_node(o, "Conv", OUT(l->y), IN(l->x, l->x2, l->x3));
  window(o, space, d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad);
  ints(o, "dilations", space, d->u.conv.dilate);
  ct__onnx_int(o, "group", d->u.conv.groups);
}

/* ONNX's output_padding makes the output as large as the op's. */
void ct__onnx_convt(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_op_desc_t *d = l->d;
  int space = d->x.ndim - 2, extra[3] = {0};
  const ct_shape_t *w = &o->g->param[o->g->layer[l->id].param[0]].spec.shape;
  const char *weight = ct__onnx_weight(o, l->id, 0, CT__ONNX_PARAM, "", 0, w->ndim, w->dim);
  const char *bias = d->u.conv.bias ? ct__onnx_bias(o, l->id, 1) : NULL;
  for (int i = 0; i < space; i++)
    extra[i] = (int)(d->y.dim[2 + i] - (d->x.dim[2 + i] - 1) * d->u.conv.stride[i] +
                     2 * (int64_t)d->u.conv.pad[i] -
                     (int64_t)d->u.conv.dilate[i] * (d->u.conv.kernel[i] - 1) - 1);
  ct__onnx_node(o, "ConvTranspose", OUT(l->y), IN(l->x, weight, bias));
  window(o, space, d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad);
  ints(o, "dilations", space, d->u.conv.dilate);
  ints(o, "output_padding", space, extra);
  ct__onnx_int(o, "group", d->u.conv.groups);
}

/* Adaptive average pooling, whose windows may overlap and differ in size: multiplies by an
 * averaging matrix over rows, and one over columns. */
static const char *averages(ct__onnx_t *o, int id, const char *word, int64_t in, int64_t n,
                            int left)
{
  const int64_t dim[2] = {left ? n : in, left ? in : n};
  float *v = ct_mem_array(n * in, sizeof *v, "averages");
  if (!v && o->rc == CT_OK) o->rc = CT_ERR_NOMEM;
  if (o->rc != CT_OK) {
    ct_mem_free(v);
    return word;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t first = i * in / n, end = ((i + 1) * in + n - 1) / n;
    for (int64_t k = first; k < end; k++)
      v[left ? i * in + k : k * n + i] = 1 / (float)(end - first);
  }
  const char *name = ct__onnx_const_floats(o, id, word, 2, dim, v);
  ct_mem_free(v);
  return name;
}

static int unsupported(ct__onnx_t *o, const char *what)
{
  if (o->rc == CT_OK)
    o->rc = ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "%s cannot be written to ONNX", what);
  return 0;
}

/* Windows of one size that tile the input. */
static void tiles(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_op_desc_t *d = l->d;
  int space = d->x.ndim - 2, kernel[3], pad[3] = {0};
  for (int i = 0; i < space; i++)
    kernel[i] = (int)(d->x.dim[2 + i] / d->y.dim[2 + i]);
  ct__onnx_node(o, ct_op_averages(d) ? "AveragePool" : "MaxPool", OUT(l->y), IN(l->x));
  window(o, space, kernel, kernel, pad);
}

static void adaptive_pool(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const int64_t *x = l->d->x.dim + 2, *y = l->d->y.dim + 2;
  int space = l->d->x.ndim - 2, whole = 1;
  for (int i = 0; i < space; i++)
    whole &= x[i] % y[i] == 0;
  if (whole) {
    tiles(o, l);
    return;
  }
  if (!ct_op_averages(l->d) || space > 2) {
    unsupported(o, "an adaptive pooling, of volumes or maxima, whose windows differ in size");
    return;
  }
  const char *columns = averages(o, l->id, "columns", x[space - 1], y[space - 1], 0);
  const char *half = l->x;
  if (space == 2) {
    const char *rows = averages(o, l->id, "rows", x[0], y[0], 1);
    half = ct__onnx_name(o, l->id, "pooled_rows");
    ct__onnx_node(o, "MatMul", OUT(half), IN(rows, l->x));
  }
  ct__onnx_node(o, "MatMul", OUT(l->y), IN(half, columns));
}

void ct__onnx_pool(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_op_desc_t *d = l->d;
  int space = d->x.ndim - 2, average = ct_op_averages(d), dilate[3], pixels = 1, gaps = 0;
  if (d->u.pool.global) {
    ct__onnx_node(o, "GlobalAveragePool", OUT(l->y), IN(l->x));
    return;
  }
  if (d->u.pool.adaptive) {
    adaptive_pool(o, l);
    return;
  }
  const char *y = d->u.pool.divisor ? ct__onnx_name(o, l->id, "mean") : l->y;
  for (int i = 0; i < space; i++) {
    dilate[i] = 1 + d->u.pool.gap[i];
    gaps |= d->u.pool.gap[i];
    pixels *= d->u.pool.kernel[i];
  }
  if (d->u.pool.divisor && d->u.pool.ceil) {
    unsupported(o, "a pooling with ceil_mode and divisor_override");
    return;
  }
  ct__onnx_node(o, average ? "AveragePool" : "MaxPool", OUT(y), IN(l->x));
  window(o, space, d->u.pool.kernel, d->u.pool.stride, d->u.pool.pad);
  if (d->u.pool.ceil) ct__onnx_int(o, "ceil_mode", 1);
  if (average)
    ct__onnx_int(o, "count_include_pad", d->u.pool.divisor ? 1 : d->u.pool.include_pad);
  else if (gaps)
    ints(o, "dilations", space, dilate);
  if (!d->u.pool.divisor) return;
  const char *factor =
      ct__onnx_scalar(o, l->id, "factor", (double)pixels / (double)d->u.pool.divisor);
  ct__onnx_node(o, "Mul", OUT(l->y), IN(y, factor));
}

/* The sizes of the output: of the batch, which only Shape provides at run time, and the channels,
 * then of the pixels. */
static const char *resize_sizes(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_shape_t *y = &l->d->y;
  const char *first = ct__onnx_name(o, l->id, "first"), *sizes = ct__onnx_name(o, l->id, "sizes");
  const char *pixels = ct__onnx_const_ints(o, l->id, "pixels", 1, y->ndim - 2, y->dim + 2);
  ct__onnx_node(o, "Shape", OUT(first), IN(l->x));
  ct__onnx_int(o, "start", 0);
  ct__onnx_int(o, "end", 2);
  ct__onnx_node(o, "Concat", OUT(sizes), IN(first, pixels));
  ct__onnx_int(o, "axis", 0);
  return sizes;
}

/* Adds a Resize node, by scales if the layer maps coordinates by given factors, else by sizes. */
void ct__onnx_upsample(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  static const char *const mode[] = {"nearest", "linear", "nearest", "cubic"};
  float scale[CT_MAX_DIMS];
  const ct_op_desc_t *d = l->d;
  const int64_t dims = d->x.ndim;
  ct_resize_t m = d->u.upsample.mode;
  int scaled = d->u.upsample.scale[0] != 0;
  const char *scales = "", *sizes = NULL;
  for (int i = 0; i < dims; i++)
    scale[i] = i < 2 ? 1 : (float)d->u.upsample.scale[i - 2];
  if (scaled)
    scales = ct__onnx_const_floats(o, l->id, "scales", 1, &dims, scale);
  else
    sizes = resize_sizes(o, l);
  ct__onnx_node(o, "Resize", OUT(l->y), IN(l->x, "", scales, sizes));
  ct__onnx_text(o, "mode", mode[m]);
  ct__onnx_text(o, "coordinate_transformation_mode",
                d->u.upsample.align_corners ? "align_corners"
                : m == CT_RESIZE_NEAREST    ? "asymmetric"
                                            : "half_pixel");
  if (m == CT_RESIZE_NEAREST) ct__onnx_text(o, "nearest_mode", "floor");
  if (m == CT_RESIZE_NEAREST_EXACT) ct__onnx_text(o, "nearest_mode", "round_prefer_ceil");
  if (m == CT_RESIZE_BICUBIC) ct__onnx_float(o, "cubic_coeff_a", -0.75);
}
