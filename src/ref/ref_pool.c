/* Pooling, with the semantics of torch.nn.MaxPool2d and 3d, AvgPool2d and 3d, AdaptiveMaxPool2d and
 * 3d, and AdaptiveAvgPool2d and 3d.  Images have depth 1. */
#include "ref/ref.h"

#include <math.h>

/* A plane of an activation; at: its first element. */
typedef struct plane {
  ct_dtype_t t;
  void *p;
  int64_t at;
} plane_t;

static double get(const plane_t *p, int64_t i)
{
  return ct__ref_get(p->t, p->p, p->at + i);
}

static void pool_set(const plane_t *p, int64_t i, double v)
{
  ct__ref_set(p->t, p->p, p->at + i, v);
}

/* The elements of an output's window that are inside the image, per dim. */
typedef struct pool_window {
  int64_t from[3], count[3];
  int step[3];
} window_t;

static ct__ref_window_t geometry(const ct_op_desc_t *d)
{
  const int *gap = d->u.pool.gap, dilate[3] = {gap[0] + 1, gap[1] + 1, gap[2] + 1};
  return ct__ref_window(d, d->u.pool.kernel, d->u.pool.stride, d->u.pool.pad, dilate);
}

/* Returns the window of output i. */
static window_t pool_window(const ct_op_desc_t *d, const ct__ref_window_t *g, int64_t i)
{
  window_t w = {.step = {1, 1, 1}};
  for (int k = 2; k >= 0; k--) {
    int64_t at = i % g->out[k], in = g->in[k], out = g->out[k];
    i /= out;
    if (!ct_op_has_kernel(d)) { /* a global average is an adaptive one with a single output */
      w.from[k] = at * in / out;
      w.count[k] = ((at + 1) * in + out - 1) / out - w.from[k];
      continue;
    }
    int64_t first = at * g->stride[k] - g->pad[k];
    w.step[k] = g->dilate[k];
    w.from[k] = -1;
    for (int tap = 0; tap < g->kernel[k]; tap++) {
      int64_t pixel = first + tap * w.step[k];
      if (pixel < 0 || pixel >= in) continue;
      if (w.from[k] < 0) w.from[k] = pixel;
      w.count[k]++;
    }
  }
  return w;
}

static int64_t elements(const window_t *w)
{
  return w->count[0] * w->count[1] * w->count[2];
}

/* Returns the offset in the image of element i of the window, counted in scan order. */
static int64_t element(const ct__ref_window_t *g, const window_t *w, int64_t i)
{
  int64_t cols = w->count[2], rows = w->count[1];
  int64_t depth = w->from[0] + i / cols / rows * w->step[0];
  int64_t row = w->from[1] + i / cols % rows * w->step[1];
  return (depth * g->in[1] + row) * g->in[2] + w->from[2] + i % cols * w->step[2];
}

static int keeps_origins(const ct_op_desc_t *d)
{
  return !ct_op_averages(d) && (d->passes & CT_BWD_DATA);
}

/* Returns the first largest element of the window, in scan order; NaN counts as largest, as in
 * PyTorch. */
static int64_t find_max(const ct__ref_window_t *g, const plane_t *x, const window_t *w)
{
  int64_t best = element(g, w, 0);

  for (int64_t k = 0; k < elements(w); k++) {
    int64_t i = element(g, w, k);
    if (get(x, i) > get(x, best) || isnan(get(x, i))) best = i;
  }
  return best;
}

/* Max pooling.  from (saved): per output the arg-max, or -1 where the ReLU zeroed the output. */
static void max_forward(const ct_op_desc_t *d, const plane_t *x, const plane_t *y, int32_t *from)
{
  ct__ref_window_t g = geometry(d);
  for (int64_t i = 0; i < ct__ref_volume(g.out); i++) {
    window_t w = pool_window(d, &g, i);
    int64_t best = find_max(&g, x, &w);
    int cut = d->u.pool.relu && get(x, best) <= 0;
    pool_set(y, i, cut ? 0 : get(x, best));
    if (from) from[i] = cut ? -1 : (int32_t)best;
  }
}

static void max_backward(int64_t out, const int32_t *from, const plane_t *dy, double *dx)
{
  for (int64_t i = 0; i < out; i++) {
    if (from[i] >= 0) dx[from[i]] += get(dy, i);
  }
}

/* Returns what the sum of output i's window is divided by. */
static double divisor(const ct_op_desc_t *d, const ct__ref_window_t *g, const window_t *w,
                      int64_t i)
{
  double all = 1;
  if (d->u.pool.divisor) return d->u.pool.divisor;
  if (!ct_op_has_kernel(d) || !d->u.pool.include_pad) return (double)elements(w);
  for (int k = 2; k >= 0; k--) { /* the part of the window in the padded image */
    int64_t from = i % g->out[k] * g->stride[k] - g->pad[k], to = from + g->kernel[k];
    i /= g->out[k];
    all *= (double)((to < g->in[k] + g->pad[k] ? to : g->in[k] + g->pad[k]) - from);
  }
  return all;
}

static void average_forward(const ct_op_desc_t *d, const plane_t *x, const plane_t *y)
{
  ct__ref_window_t g = geometry(d);
  for (int64_t i = 0; i < ct__ref_volume(g.out); i++) {
    window_t w = pool_window(d, &g, i);
    double sum = 0;
    for (int64_t k = 0; k < elements(&w); k++)
      sum += get(x, element(&g, &w, k));
    pool_set(y, i, sum / divisor(d, &g, &w, i));
  }
}

static void average_backward(const ct_op_desc_t *d, const plane_t *dy, double *dx)
{
  ct__ref_window_t g = geometry(d);
  for (int64_t i = 0; i < ct__ref_volume(g.out); i++) {
    window_t w = pool_window(d, &g, i);
    double share = get(dy, i) / divisor(d, &g, &w, i);
    for (int64_t k = 0; k < elements(&w); k++)
      dx[element(&g, &w, k)] += share;
  }
}

static void pool_forward(const ct_op_desc_t *d, const plane_t *x, const plane_t *y, int32_t *from)
{
  if (ct_op_averages(d)) {
    average_forward(d, x, y);
  } else {
    max_forward(d, x, y, from);
  }
}

static void pool_backward(const ct_op_desc_t *d, const int32_t *from, const plane_t *dy,
                          const plane_t *dx, double *sum)
{
  ct__ref_window_t g = geometry(d);
  for (int64_t i = 0; i < ct__ref_volume(g.in); i++)
    sum[i] = 0;
  if (ct_op_averages(d)) {
    average_backward(d, dy, sum);
  } else {
    max_backward(ct__ref_volume(g.out), from, dy, sum);
  }
  for (int64_t i = 0; i < ct__ref_volume(g.in); i++)
    pool_set(dx, i, sum[i]);
}

static int pool_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  ct__ref_window_t g = geometry(d);
  ct_dtype_t t = d->x.dtype;
  int64_t in = ct__ref_volume(g.in), out = ct__ref_volume(g.out);

  for (int64_t plane = 0; plane < d->x.dim[0] * d->x.dim[1]; plane++) {
    int32_t *from = keeps_origins(d) ? (int32_t *)a->saved + plane * out : NULL;
    plane_t x = {t, (void *)(uintptr_t)a->x, plane * in}, y = {t, a->y, plane * out};
    plane_t dy = {t, (void *)(uintptr_t)a->dy, plane * out}, dx = {t, a->dx, plane * in};
    if (a->pass & CT_FWD) pool_forward(d, &x, &y, from);
    if (a->pass & CT_BWD_DATA) pool_backward(d, from, &dy, &dx, a->scratch);
  }
  return CT_OK;
}

static void pool_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  ct__ref_window_t g = geometry(d);
  if (!(d->passes & CT_BWD_DATA)) return;
  info->scratch = (size_t)ct__ref_volume(g.in) * sizeof(double);
  if (keeps_origins(d)) info->saved = (size_t)ct_shape_count(&d->y) * sizeof(int32_t);
}

const ct__ref_kind_t ct__ref_pool = {.run = pool_run, .needs = pool_needs, .reduced = 1};
