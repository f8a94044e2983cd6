/* resize and random_resized_crop: bilinear with antialiasing, in float32. */
#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/transform/transforms.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

/* ---- weights ---- */

/* Returns the support of the filter. Where the image is reduced, the filter is a triangle of the
 * width of the scale (ATen, aten/src/ATen/native/cpu/UpSampleKernel.cpp,
 * _compute_indices_weights_aa). */
static double support_of(int64_t in, int64_t out)
{
  double scale = (double)in / (double)out;
  return scale > 1 ? scale : 1;
}

static int64_t span_of(int64_t in, int64_t out)
{
  return 2 * (int64_t)ceil(support_of(in, out)) + 1;
}

int64_t ct__image_taps_workspace(int64_t in, int64_t out)
{
  return out * (2 + span_of(in, out));
}

void ct__image_taps_of(const ct__image_span_t *s, float *workspace, ct__image_taps_t *t)
{
  double scale = s->length / (double)s->out, support = scale > 1 ? scale : 1;
  int64_t span = 2 * (int64_t)ceil(support) + 1;
  *t = (ct__image_taps_t){.outputs = s->n,
                          .span = span,
                          .first = (int32_t *)(void *)workspace,
                          .n = (int32_t *)(void *)workspace + s->n,
                          .weight = workspace + 2 * s->n};
  for (int64_t i = 0; i < s->n; i++) {
    double centre = s->start + scale * ((double)(s->from + i) + 0.5), sum = 0;
    int64_t first = (int64_t)(centre - support + 0.5), end = (int64_t)(centre + support + 0.5);
    if (centre - support + 0.5 < (double)s->lo) first = s->lo;
    if (end > s->hi) end = s->hi;
    float *weight = t->weight + i * t->span;
    for (int64_t k = first; k < end; k++) {
      double w = 1 - fabs(((double)k - centre + 0.5) / support);
      if (w < 0) w = 0;
      weight[k - first] = (float)w;
      sum += w;
    }
    for (int64_t k = 0; k < end - first; k++)
      weight[k] = (float)(weight[k] / sum);
    t->first[i] = (int32_t)first;
    t->n[i] = (int32_t)(end - first);
  }
}

void ct__image_taps(int64_t in, int64_t out, float *workspace, ct__image_taps_t *t)
{
  ct__image_span_t all = {.length = (double)in, .hi = in, .out = out, .n = out};
  ct__image_taps_of(&all, workspace, t);
}

/* ---- arithmetic ---- */

/* row = weighted sum of n rows of x */
static void down(const float *restrict x, int64_t stride, int n, const float *weight,
                 float *restrict row, int64_t w)
{
  for (int64_t i = 0; i < w; i++)
    row[i] = weight[0] * x[i];
  for (int k = 1; k < n; k++) {
    x += stride;
    for (int64_t i = 0; i < w; i++)
      row[i] += weight[k] * x[i];
  }
}

/* Interleaves rows, so that pixels of the same column are adjacent. */
static void interleave(const float *restrict from, int64_t w, float *restrict to)
{
  for (int64_t i = 0; i < w; i++)
    for (int r = 0; r < CT__IMAGE_RESIZE_ROWS; r++)
      to[i * CT__IMAGE_RESIZE_ROWS + r] = from[r * w + i];
}

/* Computes n rows of y; the pixels of a vector have the same weights. */
static void across(const float *restrict rows, const ct__image_taps_t *t, int n, float *restrict y)
{
  const float *weight = t->weight;
  for (int64_t i = 0; i < t->outputs; i++, weight += t->span) {
    const float *x = rows + (int64_t)t->first[i] * CT__IMAGE_RESIZE_ROWS;
    float sum[CT__IMAGE_RESIZE_ROWS] = {0};
    for (int32_t k = 0; k < t->n[i]; k++, x += CT__IMAGE_RESIZE_ROWS)
      for (int r = 0; r < CT__IMAGE_RESIZE_ROWS; r++)
        sum[r] += weight[k] * x[r];
    for (int r = 0; r < n; r++)
      y[r * t->outputs + i] = sum[r];
  }
}

int64_t ct__image_resize_workspace(int64_t w)
{
  return 2 * CT__IMAGE_RESIZE_ROWS * w;
}

void ct__image_resize(const float *x, ct__image_size_t in, ct__image_box_t b,
                      const ct__image_taps_t t[2], float *scratch, float *y)
{
  float *rows = scratch, *mixed = scratch + CT__IMAGE_RESIZE_ROWS * b.w;
  for (int64_t c = 0; c < in.c; c++) {
    const float *corner = x + (c * in.h + b.top) * in.w + b.left;
    for (int64_t i = 0; i < t[0].outputs; i += CT__IMAGE_RESIZE_ROWS) {
      int64_t left = t[0].outputs - i;
      int n = left < CT__IMAGE_RESIZE_ROWS ? (int)left : CT__IMAGE_RESIZE_ROWS;
      for (int r = 0; r < CT__IMAGE_RESIZE_ROWS; r++) {
        int64_t k = i + (r < n ? r : n - 1); /* the last row fills the vector */
        down(corner + t[0].first[k] * in.w, in.w, t[0].n[k], t[0].weight + k * t[0].span,
             rows + r * b.w, b.w);
      }
      interleave(rows, b.w, mixed);
      across(mixed, &t[1], n, y);
      y += n * t[1].outputs;
    }
  }
}

/* Computes the weights that resize a box to \a out; returns the rest of \a workspace after them. */
static float *make_taps(ct__image_box_t b, const ct_shape_t *out, float *workspace,
                        ct__image_taps_t taps[2])
{
  ct__image_taps(b.h, out->dim[2], workspace, &taps[0]);
  workspace += ct__image_taps_workspace(b.h, out->dim[2]);
  ct__image_taps(b.w, out->dim[3], workspace, &taps[1]);
  return workspace + ct__image_taps_workspace(b.w, out->dim[3]);
}

/* Returns the floats needed for the weights of any box of an image. */
static int64_t workspace_of(const ct__transform_t *s)
{
  return ct__image_taps_workspace(s->in.dim[2], s->out.dim[2]) +
         ct__image_taps_workspace(s->in.dim[3], s->out.dim[3]);
}

/* Returns the nearest input of output i, computed in float32 as PyTorch does. */
static int64_t nearest(int64_t i, int64_t in, int64_t out)
{
  int64_t at = (int64_t)floorf((float)i * ((float)in / (float)out));
  return at < in ? at : in - 1;
}

void ct__image_nearest(const float *x, ct__image_size_t in, ct__image_box_t b, float *y,
                       ct__image_size_t out)
{
  for (int64_t c = 0; c < out.c; c++, x += in.h * in.w) {
    for (int64_t row = 0; row < out.h; row++, y += out.w) {
      const float *from = x + (b.top + nearest(row, b.h, out.h)) * in.w + b.left;
      for (int64_t i = 0; i < out.w; i++)
        y[i] = from[nearest(i, b.w, out.w)];
    }
  }
}

/* ---- resize ---- */

typedef struct resize {
  ct_opt_doubles_t size;
  int64_t side[2];
  float *workspace; /* owned: memory of the taps */
  ct__image_taps_t taps[2];
} resize_t;
static const ct_opt_t resize_rows[] = {
    {"size", CT_OPT_T_DOUBLES, offsetof(resize_t, size), NULL, 1, 1e6, 0,
     "[h, w], or the length of the shorter side (the aspect ratio is kept)"},
    CT_OPT_END};

static int fit_resize(ct__transform_t *s)
{
  const resize_t *o = s->o;
  int64_t h = s->in.dim[2], w = s->in.dim[3], side = o->side[0], *out = &s->out.dim[2];
  out[0] = side;
  out[1] = o->side[1];
  if (o->size.n == 1) {
    out[0] = h <= w ? side : side * h / w;
    out[1] = h <= w ? side * w / h : side;
  }
  s->scratch = ct__image_resize_workspace(w) + (s->varies ? workspace_of(s) : 0);
  return 1;
}

static ct__image_box_t whole(const ct__transform_t *s)
{
  return (ct__image_box_t){0, 0, s->in.dim[2], s->in.dim[3]};
}

/* Plans a resize. The weights are computed once, unless samples differ in size. */
static int plan_resize(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  resize_t *o = s->o;
  if (o->size.n < 1 || o->size.n > 2)
    return ct__transform_refuse(at, "size has %d numbers, not 1 or 2", o->size.n);
  CT_TRY(ct__transform_whole(at, "size", &o->size, o->side));
  fit_resize(s);
  if (s->varies) return CT_OK;
  o->workspace = ct_mem_array(workspace_of(s), sizeof *o->workspace, "resize's weights");
  if (!o->workspace) return CT_ERR_NOMEM;
  make_taps(whole(s), &s->out, o->workspace, o->taps);
out:
  return rc;
}

static void resize(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                   float *scratch)
{
  const resize_t *o = s->o;
  const ct__image_taps_t *taps = o->taps;
  ct__image_taps_t own[2];
  (void)d;
  if (s->varies) {
    scratch = make_taps(whole(s), &s->out, scratch, own);
    taps = own;
  }
  ct__image_resize(in, ct__image_size(&s->in), whole(s), taps, scratch, out);
}

static void resize_labels(const ct__transform_t *s, ct__draws_t *d, const float *in, float *out,
                          float *scratch)
{
  (void)d;
  (void)scratch;
  ct__image_nearest(in, ct__image_size(&s->in), whole(s), out, ct__image_size(&s->out));
}

static void view_resized(const ct__transform_t *s, ct__draws_t *d, ct__view_t *v)
{
  (void)d;
  v->box = v->window;
  v->h = s->out.dim[2];
  v->w = s->out.dim[3];
  v->window = (ct__image_box_t){0, 0, v->h, v->w};
}

static void clear_resize(void *o)
{
  ct_mem_free(((resize_t *)o)->workspace);
}

const ct__transform_kind_t ct__transform_resize = {.name = "resize",
                                                   .help = "bilinear, with antialiasing",
                                                   .flags = CT__TRANSFORM_RESIZES,
                                                   .size = sizeof(resize_t),
                                                   .rows = resize_rows,
                                                   .plan = plan_resize,
                                                   .fit = fit_resize,
                                                   .apply = resize,
                                                   .apply_labels = resize_labels,
                                                   .view = view_resized,
                                                   .clear = clear_resize};

/* ---- random_resized_crop ---- */

typedef struct resized {
  int64_t size[2];
  ct_opt_doubles_t scale, ratio;
  double area[2];   /* option scale */
  double aspect[2]; /* option ratio */
} resized_t;
static const ct_opt_t resized_rows[] = {
    CT_OPT_PAIR(resized_t, size, NULL, 1, 1e6, "size of the result: one number or [h, w]"),
    {"scale", CT_OPT_T_DOUBLES, offsetof(resized_t, scale), "[0.08, 1]", 1e-9, 1, 0,
     "[min, max]: area of the window as a fraction of the image"},
    {"ratio", CT_OPT_T_DOUBLES, offsetof(resized_t, ratio), "[0.75, 1.3333333333333333]", 1e-3, 1e3,
     0, "[min, max]: width of the window divided by its height"},
    CT_OPT_END};

static int fit_resized(ct__transform_t *s)
{
  const resized_t *o = s->o;
  s->out.dim[2] = o->size[0];
  s->out.dim[3] = o->size[1];
  s->scratch = workspace_of(s) + ct__image_resize_workspace(s->in.dim[3]);
  return 1;
}

static int plan_resized(ct__transform_t *s, const ct__transform_location_t *at)
{
  int rc = CT_OK;
  resized_t *o = s->o;
  CT_TRY(ct__transform_range(at, "scale", &o->scale, o->area));
  CT_TRY(ct__transform_range(at, "ratio", &o->ratio, o->aspect));
  fit_resized(s);
out:
  return rc;
}

/* Returns the whole image, or the largest center crop that the ratio allows. */
static ct__image_box_t fallback(const resized_t *o, ct__image_size_t s)
{
  ct__image_box_t b = {.h = s.h, .w = s.w};
  double ratio = (double)s.w / (double)s.h;
  if (ratio < o->aspect[0]) b.h = (int64_t)nearbyint((double)s.w / o->aspect[0]);
  if (ratio > o->aspect[1]) b.w = (int64_t)nearbyint((double)s.h * o->aspect[1]);
  b.h = b.h < 1 ? 1 : b.h;
  b.w = b.w < 1 ? 1 : b.w;
  b.top = (s.h - b.h) / 2;
  b.left = (s.w - b.w) / 2;
  return b;
}

static ct__image_box_t draw_box(const resized_t *o, ct__image_size_t s, ct__draws_t *d)
{
  for (int attempt = 0; attempt < 10; attempt++) {
    double area = (double)(s.h * s.w) * ct__draw_in(d, o->area[0], o->area[1]);
    double aspect = exp(ct__draw_in(d, log(o->aspect[0]), log(o->aspect[1])));
    ct__image_box_t b = {.w = (int64_t)nearbyint(sqrt(area * aspect)),
                         .h = (int64_t)nearbyint(sqrt(area / aspect))};
    if (b.w < 1 || b.w > s.w || b.h < 1 || b.h > s.h) continue;
    b.top = ct__draw_below(d, s.h - b.h + 1);
    b.left = ct__draw_below(d, s.w - b.w + 1);
    return b;
  }
  return fallback(o, s);
}

static void random_resized_crop(const ct__transform_t *s, ct__draws_t *d, const float *in,
                                float *out, float *scratch)
{
  const resized_t *o = s->o;
  ct__image_size_t from = ct__image_size(&s->in);
  ct__image_box_t b = draw_box(o, from, d);
  ct__image_taps_t taps[2];
  scratch = make_taps(b, &s->out, scratch, taps);
  ct__image_resize(in, from, b, taps, scratch, out);
}

static void random_resized_labels(const ct__transform_t *s, ct__draws_t *d, const float *in,
                                  float *out, float *scratch)
{
  ct__image_size_t from = ct__image_size(&s->in);
  ct__image_box_t b = draw_box(s->o, from, d);
  (void)scratch;
  ct__image_nearest(in, from, b, out, ct__image_size(&s->out));
}

static void view_box(const ct__transform_t *s, ct__draws_t *d, ct__view_t *v)
{
  ct__image_box_t b = draw_box(s->o, ct__image_size(&s->in), d);
  b.top += v->window.top;
  b.left += v->window.left;
  v->window = b;
  view_resized(s, d, v);
}

const ct__transform_kind_t ct__transform_random_resized_crop = {
    .name = "random_resized_crop",
    .help = "a random window, resized",
    .flags = CT__TRANSFORM_RANDOM | CT__TRANSFORM_RESIZES,
    .size = sizeof(resized_t),
    .rows = resized_rows,
    .plan = plan_resized,
    .fit = fit_resized,
    .apply = random_resized_crop,
    .apply_labels = random_resized_labels,
    .view = view_box};
