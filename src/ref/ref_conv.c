/* Convolution and linear layers.
 *
 * The kernel is split into taps (kernel positions).  A tap (kd, kh, kw) connects the output volume
 * with a shifted, strided view of the input volume; per dim, a span holds the outputs whose input
 * is inside.  The three passes use the same loops and differ in which of x, w and y they
 * accumulate.  Images have depth 1. */
#include "ref/ref.h"

/* Outputs lo … hi-1 of one dim; output o reads input o * stride + at. */
typedef struct span {
  int64_t lo, hi, stride, at;
} span_t;

typedef struct tap {
  span_t range[3];
  const int64_t *in, *out; /* sizes */
} tap_t;

typedef struct geometry {
  int64_t n, groups, ic, oc; /* channels per group */
  ct__ref_window_t w;
  int64_t in_plane, out_plane, taps;
  const ct_op_desc_t *d;
  int x_bias; /* 1: w[1] is added to the gradient of x (transposed convolution) */
} geometry_t;

static geometry_t geometry(const ct_op_desc_t *d)
{
  geometry_t g = {
      .n = d->x.dim[0],
      .groups = d->u.conv.groups,
      .ic = d->x.dim[1] / d->u.conv.groups,
      .oc = d->y.dim[1] / d->u.conv.groups,
      .w = ct__ref_window(d, d->u.conv.kernel, d->u.conv.stride, d->u.conv.pad, d->u.conv.dilate),
      .d = d};
  g.in_plane = ct__ref_volume(g.w.in);
  g.out_plane = ct__ref_volume(g.w.out);
  g.taps = (int64_t)g.w.kernel[0] * g.w.kernel[1] * g.w.kernel[2];
  return g;
}

static span_t span(const geometry_t *g, int dir, int64_t k)
{
  int64_t stride = g->w.stride[dir];
  int64_t at = k * g->w.dilate[dir] - g->w.pad[dir];
  int64_t last = g->w.in[dir] - 1 - at; /* upper limit of o * stride */
  span_t s = {0, 0, stride, at};

  if (at < 0) s.lo = (-at + stride - 1) / stride;
  if (last >= 0) s.hi = last / stride + 1;
  if (s.hi > g->w.out[dir]) s.hi = g->w.out[dir];
  return s;
}

static tap_t tap(const geometry_t *g, int64_t t)
{
  int64_t rows = g->w.kernel[1], cols = g->w.kernel[2];
  return (tap_t){{span(g, 0, t / cols / rows), span(g, 1, t / cols % rows), span(g, 2, t % cols)},
                 g->w.in,
                 g->w.out};
}

/* One row of outputs, from out[0] on, and the offset of the first one's input. */
typedef struct line {
  int64_t in, out, count, stride;
} line_t;

static int64_t lines(const tap_t *t)
{
  int64_t depth = t->range[0].hi - t->range[0].lo, rows = t->range[1].hi - t->range[1].lo;
  return depth > 0 && rows > 0 ? depth * rows : 0;
}

static line_t line(const tap_t *t, int64_t i)
{
  const span_t *z = &t->range[0], *r = &t->range[1], *c = &t->range[2];
  int64_t rows = r->hi - r->lo, depth = z->lo + i / rows, row = r->lo + i % rows;
  int64_t in_row = (depth * z->stride + z->at) * t->in[1] + row * r->stride + r->at;
  return (line_t){.in = in_row * t->in[2] + c->lo * c->stride + c->at,
                  .out = (depth * t->out[1] + row) * t->out[2] + c->lo,
                  .count = c->hi - c->lo,
                  .stride = c->stride};
}

/* A plane of an activation; at: its first element. */
typedef struct plane {
  ct_dtype_t t;
  const void *p;
  int64_t at;
} plane_t;

static double get(const plane_t *p, int64_t i)
{
  return ct__ref_get(p->t, p->p, p->at + i);
}

/* Adds w * x to y, for one tap. */
static void tap_forward(const tap_t *t, plane_t x, double w, double *y)
{
  for (int64_t i = 0; i < lines(t); i++) {
    line_t l = line(t, i);
    for (int64_t k = 0; k < l.count; k++)
      y[l.out + k] += w * get(&x, l.in + k * l.stride);
  }
}

/* Adds w * dy to dx, for one tap. */
static void tap_data(const tap_t *t, plane_t dy, double w, double *dx)
{
  for (int64_t i = 0; i < lines(t); i++) {
    line_t l = line(t, i);
    for (int64_t k = 0; k < l.count; k++)
      dx[l.in + k * l.stride] += w * get(&dy, l.out + k);
  }
}

/* Returns the sum of x * dy, for one tap. */
static double tap_param(const tap_t *t, plane_t x, plane_t dy)
{
  double sum = 0;
  for (int64_t i = 0; i < lines(t); i++) {
    line_t l = line(t, i);
    for (int64_t k = 0; k < l.count; k++)
      sum += get(&x, l.in + k * l.stride) * get(&dy, l.out + k);
  }
  return sum;
}

/* The functions below return offsets of planes and weights: x_at() the offset of the input plane of
 * (image, group, input channel), … */
static int64_t x_at(const geometry_t *g, int64_t n, int64_t group, int64_t ic)
{
  return ((n * g->groups + group) * g->ic + ic) * g->in_plane;
}
static int64_t y_at(const geometry_t *g, int64_t n, int64_t group, int64_t oc)
{
  return ((n * g->groups + group) * g->oc + oc) * g->out_plane;
}
static plane_t x_plane(const geometry_t *g, const void *x, int64_t n, int64_t group, int64_t ic)
{
  return (plane_t){g->d->x.dtype, x, x_at(g, n, group, ic)};
}
static plane_t y_plane(const geometry_t *g, const void *y, int64_t n, int64_t group, int64_t oc)
{
  return (plane_t){g->d->y.dtype, y, y_at(g, n, group, oc)};
}
static int64_t w_at(const geometry_t *g, int64_t group, int64_t oc, int64_t ic)
{
  return ((group * g->oc + oc) * g->ic + ic) * g->taps;
}

static void forward_plane(const geometry_t *g, int64_t n, int64_t group, int64_t oc,
                          const ct_op_args_t *a)
{
  ct_dtype_t type = g->d->x.dtype;
  double *sum = a->scratch;
  double start = g->d->u.conv.bias ? ct__ref_weight(type, a->w[1], group * g->oc + oc) : 0;

  for (int64_t i = 0; i < g->out_plane; i++)
    sum[i] = start;
  for (int64_t i = 0; i < g->out_plane && g->d->u.conv.add; i++)
    sum[i] += ct__ref_get(type, a->x2, y_at(g, n, group, oc) + i);
  for (int64_t ic = 0; ic < g->ic; ic++) {
    for (int64_t t = 0; t < g->taps; t++) {
      tap_t k = tap(g, t);
      double w = ct__ref_weight(type, a->w[0], w_at(g, group, oc, ic) + t);
      tap_forward(&k, x_plane(g, a->x, n, group, ic), w, sum);
    }
  }
  for (int64_t i = 0; i < g->out_plane; i++) {
    double v = g->d->u.conv.relu ? ct__ref_relu_of(sum[i]) : sum[i];
    if (g->d->u.conv.relu == CT_RELU6 && v > CT_RELU6) v = CT_RELU6;
    ct__ref_set(type, a->y, y_at(g, n, group, oc) + i, v);
  }
}

static void data_plane(const geometry_t *g, int64_t n, int64_t group, int64_t ic,
                       const ct_op_args_t *a)
{
  ct_dtype_t type = g->d->x.dtype;
  double *sum = a->scratch;

  double start = g->x_bias ? ct__ref_weight(type, a->w[1], group * g->ic + ic) : 0;

  for (int64_t i = 0; i < g->in_plane; i++)
    sum[i] = start;
  for (int64_t oc = 0; oc < g->oc; oc++) {
    for (int64_t t = 0; t < g->taps; t++) {
      tap_t k = tap(g, t);
      double w = ct__ref_weight(type, a->w[0], w_at(g, group, oc, ic) + t);
      tap_data(&k, y_plane(g, a->dy, n, group, oc), w, sum);
    }
  }
  for (int64_t i = 0; i < g->in_plane; i++)
    ct__ref_set(type, a->dx, x_at(g, n, group, ic) + i, sum[i]);
}

static void param_kernel(const geometry_t *g, int64_t group, int64_t oc, int64_t ic,
                         const ct_op_args_t *a)
{
  float *dw = (float *)a->dw[0] + w_at(g, group, oc, ic);

  for (int64_t t = 0; t < g->taps; t++) {
    tap_t k = tap(g, t);
    double sum = 0;
    for (int64_t n = 0; n < g->n; n++) {
      sum += tap_param(&k, x_plane(g, a->x, n, group, ic), y_plane(g, a->dy, n, group, oc));
    }
    dw[t] = (float)sum;
  }
}

static void param_bias(const geometry_t *g, int64_t group, int64_t oc, const ct_op_args_t *a)
{
  double sum = 0;
  for (int64_t n = 0; n < g->n; n++) {
    plane_t dy = y_plane(g, a->dy, n, group, oc);
    for (int64_t i = 0; i < g->out_plane; i++)
      sum += get(&dy, i);
  }
  ((float *)a->dw[1])[group * g->oc + oc] = (float)sum;
}

/* Loops over all (image, group, channel). */
static void all_forward(const geometry_t *g, const ct_op_args_t *a)
{
  for (int64_t n = 0; n < g->n; n++) {
    for (int64_t group = 0; group < g->groups; group++) {
      for (int64_t oc = 0; oc < g->oc; oc++)
        forward_plane(g, n, group, oc, a);
    }
  }
}
static void all_data(const geometry_t *g, const ct_op_args_t *a)
{
  for (int64_t n = 0; n < g->n; n++) {
    for (int64_t group = 0; group < g->groups; group++) {
      for (int64_t ic = 0; ic < g->ic; ic++)
        data_plane(g, n, group, ic, a);
    }
  }
}
static void all_param(const geometry_t *g, const ct_op_args_t *a)
{
  for (int64_t group = 0; group < g->groups; group++) {
    for (int64_t oc = 0; oc < g->oc; oc++) {
      for (int64_t ic = 0; ic < g->ic; ic++)
        param_kernel(g, group, oc, ic, a);
      if (g->d->u.conv.bias) param_bias(g, group, oc, a);
    }
  }
}

static int conv_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  geometry_t g = geometry(d);

  if (a->pass & CT_FWD) all_forward(&g, a);
  if (a->pass & CT_BWD_DATA) all_data(&g, a);
  if (a->pass & CT_BWD_PARAM) all_param(&g, a);
  return CT_OK;
}

static void conv_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  geometry_t g = geometry(d);
  int64_t plane = g.in_plane > g.out_plane ? g.in_plane : g.out_plane;

  info->scratch = (size_t)plane * sizeof(double);
}

const ct__ref_kind_t ct__ref_conv = {.run = conv_run, .needs = conv_needs, .reduced = 1};

/* ---- transposed: the convolution's passes with x and y swapped ---- */

static void sum_channels(const geometry_t *g, const void *dy, float *db)
{
  int64_t channels = g->d->x.dim[1];
  for (int64_t c = 0; c < channels; c++) {
    double sum = 0;
    for (int64_t n = 0; n < g->n; n++) {
      plane_t plane = x_plane(g, dy, n, c / g->ic, c % g->ic);
      for (int64_t i = 0; i < g->in_plane; i++)
        sum += get(&plane, i);
    }
    db[c] = (float)sum;
  }
}

static int convt_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  ct_op_desc_t conv = ct_op_turned(d);
  geometry_t g = geometry(&conv);
  ct_op_args_t turned = *a;

  g.x_bias = d->u.conv.bias;
  turned.x = a->dy;
  turned.dy = a->x;
  turned.y = a->dx;
  turned.dx = a->y;
  if (a->pass & CT_FWD) all_data(&g, &turned);
  if (a->pass & CT_BWD_DATA) all_forward(&g, &turned);
  if (a->pass & CT_BWD_PARAM) all_param(&g, &turned);
  if (a->pass & CT_BWD_PARAM && d->u.conv.bias) sum_channels(&g, a->dy, a->dw[1]);
  return CT_OK;
}

static void convt_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  ct_op_desc_t conv = ct_op_turned(d);
  conv_needs(&conv, info);
}

const ct__ref_kind_t ct__ref_convt = {.run = convt_run, .needs = convt_needs, .reduced = 1};

/* ---- linear: over the last dim; the other dims are rows ---- */

static int64_t width(const ct_shape_t *s)
{
  return s->dim[s->ndim - 1];
}

static int64_t rows_of(const ct_op_desc_t *d)
{
  return ct_shape_count(&d->x) / width(&d->x);
}

static double weight(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t o, int64_t i)
{
  return ct__ref_weight(d->x.dtype, a->w[0], o * width(&d->x) + i);
}

static double x_of(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n, int64_t i)
{
  return ct__ref_get(d->x.dtype, a->x, n * width(&d->x) + i);
}

static double dy_of(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n, int64_t o)
{
  return ct__ref_get(d->y.dtype, a->dy, n * width(&d->y) + o);
}

static void linear_forward(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t in = width(&d->x), out = width(&d->y), rows = rows_of(d);

  for (int64_t n = 0; n < rows; n++) {
    for (int64_t o = 0; o < out; o++) {
      double sum = d->u.linear.bias ? ct__ref_weight(d->x.dtype, a->w[1], o) : 0;
      for (int64_t i = 0; i < in; i++)
        sum += x_of(d, a, n, i) * weight(d, a, o, i);
      if (d->u.linear.add) sum += ct__ref_get(d->y.dtype, a->x2, n * out + o);
      ct__ref_set(d->y.dtype, a->y, n * out + o, d->u.linear.relu ? ct__ref_relu_of(sum) : sum);
    }
  }
}

static void linear_data(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t in = width(&d->x), out = width(&d->y), rows = rows_of(d);

  for (int64_t n = 0; n < rows; n++) {
    for (int64_t i = 0; i < in; i++) {
      double sum = 0;
      for (int64_t o = 0; o < out; o++)
        sum += dy_of(d, a, n, o) * weight(d, a, o, i);
      ct__ref_set(d->x.dtype, a->dx, n * in + i, sum);
    }
  }
}

static void linear_param(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  int64_t in = width(&d->x), out = width(&d->y), rows = rows_of(d);
  for (int64_t o = 0; o < out; o++) {
    for (int64_t i = 0; i < in; i++) {
      double sum = 0;
      for (int64_t n = 0; n < rows; n++)
        sum += dy_of(d, a, n, o) * x_of(d, a, n, i);
      ct__ref_gradient(a, 0, o * in + i, sum);
    }
    if (!d->u.linear.bias) continue;
    double sum = 0;
    for (int64_t n = 0; n < rows; n++)
      sum += dy_of(d, a, n, o);
    ct__ref_gradient(a, 1, o, sum);
  }
}

static int linear_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  if (a->pass & CT_FWD) linear_forward(d, a);
  if (a->pass & CT_BWD_DATA) linear_data(d, a);
  if (a->pass & CT_BWD_PARAM) linear_param(d, a);
  return CT_OK;
}

static void linear_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  (void)d;
  info->adds_dw = 1;
}

const ct__ref_kind_t ct__ref_linear = {.needs = linear_needs, .run = linear_run, .reduced = 1};
