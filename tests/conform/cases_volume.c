/* Test cases of activations, concatenation, 3D ops, adaptive average pooling and upsampling; see
 * cases.c. */
#include "tests/conform/cases.h"

#include <string.h>

/* ---- activations ---- */

static void make_act(ct_act_t kind, const ct_shape_t *x, op_case_t *out)
{
  case_start(out, CT_OP_ACT, x, x);
  out->desc.u.act.kind = kind;
  out->desc.u.act.alpha = ct_act_facts_of(kind)->alpha == CT_ALPHA_SLOPE ? 0.3 : 1.2;
}

/* Widely spread values, some of which are far in the saturated range. */
static int case_act(int i, op_case_t *out)
{
  const ct_shape_t shapes[] = {ct_shape(4, 2, 16, 4, 4), ct_shape(4, 3, 17, 5, 7),
                               ct_shape(2, 7, 33), ct_shape(5, 2, 20, 2, 3, 2),
                               ct_shape(4, 2, 32, 24, 24)};
  int kinds = CT_ACT_COUNT;

  if (i >= kinds * COUNT(shapes)) return 0;
  make_act((ct_act_t)(i % kinds), &shapes[i / kinds], out);
  if (i % 2) out->data = DATA_SPREAD;
  return 1;
}

/* ---- concatenation ---- */

static void make_concat(const ct_shape_t *x, int more, op_case_t *out)
{
  ct_shape_t y = *x;
  y.dim[x->ndim == 3 ? 2 : 1] += more;
  case_start(out, CT_OP_CONCAT, x, &y);
}

static int case_concat(int i, op_case_t *out)
{
  /* the first input fills blocks of 16 or 8 channels, or neither; so does the second */
  const ct_shape_t shapes[] = {ct_shape(4, 2, 16, 4, 5), ct_shape(4, 3, 32, 3, 3),
                               ct_shape(4, 2, 8, 5, 4),  ct_shape(4, 1, 5, 3, 7),
                               ct_shape(2, 4, 7),        ct_shape(5, 2, 16, 2, 3, 4),
                               ct_shape(4, 2, 48, 1, 1), ct_shape(4, 4, 64, 12, 12),
                               ct_shape(3, 2, 16, 5),    ct_shape(3, 3, 7, 32)};
  static const int more[] = {16, 12, 8, 6, 9, 17, 3, 32, 11, 16};

  if (i >= COUNT(shapes)) return 0;
  make_concat(&shapes[i], more[i], out);
  return 1;
}

/* Parts of larger tensors. */
static int case_concat_part(int i, op_case_t *out)
{
  const ct_shape_t shapes[] = {ct_shape(4, 3, 16, 4, 5), ct_shape(4, 2, 32, 3, 3),
                               ct_shape(4, 2, 8, 5, 4), ct_shape(5, 2, 5, 3, 2, 2)};
  const int64_t within[] = {0, 64, 24, 30};

  if (i >= 2 * COUNT(shapes)) return 0;
  make_concat(&shapes[i / 2], i / 2 == 1 ? 16 : 8, out);
  out->desc.u.concat.placed = i % 2;
  out->desc.within = within[i / 2];
  return 1;
}

/* ---- volumes ---- */

typedef struct conv3_row {
  int n, c, size[3], out, kernel[3], stride[3], pad[3], dilate[3], groups, bias, relu;
} conv3_row_t;

static void make_conv3(const conv3_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(5, r->n, r->c, r->size[0], r->size[1], r->size[2]), y = x;

  y.dim[1] = r->out;
  for (int i = 0; i < 3; i++) {
    y.dim[2 + i] =
        ct_op_window_out(x.dim[2 + i], r->kernel[i], r->stride[i], r->pad[i], r->dilate[i]);
  }
  case_start(out, CT_OP_CONV, &x, &y);
  memcpy(out->desc.u.conv.kernel, r->kernel, sizeof r->kernel);
  memcpy(out->desc.u.conv.stride, r->stride, sizeof r->stride);
  memcpy(out->desc.u.conv.pad, r->pad, sizeof r->pad);
  memcpy(out->desc.u.conv.dilate, r->dilate, sizeof r->dilate);
  out->desc.u.conv.groups = r->groups;
  out->desc.u.conv.bias = r->bias;
  out->desc.u.conv.relu = r->relu;
}

typedef struct pool3_row {
  int n, c, size[3], kernel[3], stride[3], pad[3], average, include_pad, relu;
  data_kind_t data;
} pool3_row_t;

static void make_pool3(const pool3_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(5, r->n, r->c, r->size[0], r->size[1], r->size[2]), y = x;
  int global = r->kernel[0] == 0;

  for (int i = 0; i < 3; i++) {
    y.dim[2 + i] =
        global ? 1 : ct_op_window_out(x.dim[2 + i], r->kernel[i], r->stride[i], r->pad[i], 1);
  }
  case_start(out, CT_OP_POOL, &x, &y);
  memcpy(out->desc.u.pool.kernel, r->kernel, sizeof r->kernel);
  memcpy(out->desc.u.pool.stride, r->stride, sizeof r->stride);
  memcpy(out->desc.u.pool.pad, r->pad, sizeof r->pad);
  out->desc.u.pool.average = r->average;
  out->desc.u.pool.global = global;
  out->desc.u.pool.include_pad = r->include_pad;
  out->desc.u.pool.relu = r->relu;
  out->data = r->data;
}

static void make_adaptive(const ct_shape_t *x, int d, int h, int w, op_case_t *out)
{
  ct_shape_t y = x->ndim == 4 ? ct_shape(4, x->dim[0], x->dim[1], h, w)
                              : ct_shape(5, x->dim[0], x->dim[1], d, h, w);
  case_start(out, CT_OP_POOL, x, &y);
  out->desc.u.pool.average = out->desc.u.pool.adaptive = 1;
}

int case_adaptive(int i, op_case_t *out)
{
  /* equal windows, different and overlapping ones, fewer inputs than outputs, one global window */
  const ct_shape_t shapes[] = {ct_shape(4, 2, 16, 8, 6), ct_shape(4, 1, 17, 10, 11),
                               ct_shape(4, 2, 32, 1, 2), ct_shape(5, 2, 5, 4, 5, 6),
                               ct_shape(5, 3, 8, 3, 4, 5)};
  static const int sizes[][3] = {{0, 4, 3}, {0, 7, 7}, {0, 7, 7}, {2, 3, 4}, {1, 1, 1}};

  if (i >= COUNT(shapes)) return 0;
  make_adaptive(&shapes[i], sizes[i][0], sizes[i][1], sizes[i][2], out);
  return 1;
}

int case_conv3(int i, op_case_t *out)
{
  static const conv3_row_t rows[] = {
      {2, 16, {4, 5, 6}, 16, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, 1, 0},
      {1, 32, {4, 4, 4}, 64, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, 0, 1},
      {2, 4, {8, 8, 8}, 16, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1, 1, 0},
      {1, 17, {3, 5, 4}, 20, {1, 3, 2}, {1, 2, 1}, {0, 1, 0}, {1, 1, 2}, 1, 1, 1},
      {2, 6, {4, 3, 5}, 12, {2, 2, 2}, {1, 1, 2}, {0, 1, 0}, {1, 1, 1}, 3, 1, 0},
      {2, 1, {1, 1, 1}, 1, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, 1, 0},
  };

  if (i >= COUNT(rows)) return 0;
  make_conv3(&rows[i], out);
  return 1;
}

int case_pool3(int i, op_case_t *out)
{
  static const pool3_row_t rows[] = {
      {2, 16, {4, 6, 8}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, 0, 0, 0, DATA_RANDOM},
      {1, 17, {5, 4, 7}, {3, 2, 3}, {2, 1, 2}, {1, 0, 1}, 0, 0, 1, DATA_TIES},
      {2, 32, {3, 5, 4}, {3, 3, 3}, {1, 2, 1}, {1, 1, 1}, 0, 0, 0, DATA_TIES},
      {2, 16, {4, 4, 4}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, 1, 0, 0, DATA_RANDOM},
      {1, 5, {5, 4, 7}, {3, 2, 3}, {2, 1, 2}, {1, 1, 1}, 1, 0, 0, DATA_RANDOM},
      {2, 20, {5, 4, 3}, {3, 2, 3}, {2, 1, 2}, {1, 0, 1}, 1, 1, 0, DATA_RANDOM},
      {2, 17, {3, 4, 2}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 1, 0, 0, DATA_RANDOM},
  };

  if (i >= COUNT(rows)) return 0;
  make_pool3(&rows[i], out);
  return 1;
}

/* ---- pooling: maxima with gaps and adaptive ones, rounded up, with a divisor ---- */

typedef struct free_row {
  int ndim, size[3], kernel[3], stride[3], pad[3], gap[3], average, include_pad, ceil, divisor;
} free_row_t;

static void make_free(const free_row_t *r, int channels, op_case_t *out)
{
  ct_shape_t x = ct_shape(r->ndim, 2, channels, r->size[0], r->size[1], r->size[2]), y = x;
  for (int i = 0; i < r->ndim - 2; i++)
    y.dim[2 + i] =
        ct_op_pool_out(x.dim[2 + i], r->kernel[i], r->stride[i], r->pad[i], 1 + r->gap[i], r->ceil);
  case_start(out, CT_OP_POOL, &x, &y);
  memcpy(out->desc.u.pool.kernel, r->kernel, sizeof r->kernel);
  memcpy(out->desc.u.pool.stride, r->stride, sizeof r->stride);
  memcpy(out->desc.u.pool.pad, r->pad, sizeof r->pad);
  memcpy(out->desc.u.pool.gap, r->gap, sizeof r->gap);
  out->desc.u.pool.average = r->average;
  out->desc.u.pool.include_pad = r->include_pad;
  out->desc.u.pool.ceil = r->ceil;
  out->desc.u.pool.divisor = r->divisor;
}

static const free_row_t free_rows[] = {
    {4, {7, 6, 1}, {2, 3, 1}, {2, 2, 1}, {0, 1, 0}, {0, 0, 0}, 0, 0, 1, 0},
    {4, {8, 9, 1}, {3, 3, 1}, {2, 2, 1}, {1, 1, 0}, {0, 0, 0}, 0, 0, 1, 0},
    {4, {9, 7, 1}, {2, 3, 1}, {1, 2, 1}, {1, 1, 0}, {1, 0, 0}, 0, 0, 0, 0},
    {4, {9, 8, 1}, {3, 2, 1}, {2, 3, 1}, {1, 0, 0}, {1, 2, 0}, 0, 0, 1, 0},
    {4, {7, 6, 1}, {3, 3, 1}, {2, 2, 1}, {1, 1, 0}, {0, 0, 0}, 1, 1, 1, 0},
    {4, {7, 6, 1}, {3, 2, 1}, {2, 3, 1}, {1, 1, 0}, {0, 0, 0}, 1, 0, 1, 0},
    {4, {6, 5, 1}, {2, 3, 1}, {2, 1, 1}, {0, 1, 0}, {0, 0, 0}, 1, 1, 0, 5},
    {5, {5, 4, 6}, {2, 2, 3}, {2, 1, 2}, {1, 0, 1}, {1, 0, 1}, 0, 0, 0, 0},
    {5, {5, 4, 6}, {2, 3, 3}, {2, 2, 2}, {0, 1, 1}, {0, 0, 0}, 1, 1, 1, 0},
    {5, {4, 3, 5}, {2, 2, 2}, {1, 2, 2}, {1, 0, 1}, {0, 0, 0}, 1, 0, 1, 7}};

int case_free_pool(int i, op_case_t *out)
{
  static const int channels[] = {16, 5, 17, 32};
  const ct_shape_t shapes[] = {ct_shape(4, 2, 16, 8, 6), ct_shape(4, 1, 17, 5, 9),
                               ct_shape(5, 2, 5, 4, 5, 6), ct_shape(4, 2, 8, 2, 3)};
  static const int sizes[][3] = {{0, 4, 3}, {0, 3, 4}, {2, 3, 4}, {0, 5, 3}};
  int wide = i - COUNT(free_rows);
  if (wide >= COUNT(shapes)) return 0;
  if (wide < 0) {
    make_free(&free_rows[i], channels[i % COUNT(channels)], out);
  } else {
    make_adaptive(&shapes[wide], sizes[wide][0], sizes[wide][1], sizes[wide][2], out);
    out->desc.u.pool.average = 0;
  }
  if (!out->desc.u.pool.average && i % 2) out->data = DATA_TIES;
  return 1;
}

int small_free_pool(int i, op_case_t *out)
{
  const ct_shape_t image = ct_shape(4, 1, 2, 3, 5);
  if (i > COUNT(free_rows)) return 0;
  if (i < COUNT(free_rows)) {
    make_free(&free_rows[i], 2, out);
  } else {
    make_adaptive(&image, 0, 2, 7, out);
    out->desc.u.pool.average = 0;
  }
  if (!out->desc.u.pool.average) out->data = DATA_SPREAD;
  return 1;
}

/* ---- resizing ---- */

/* n, c, d (0: an image), h, w, scale, linear */
static void make_upsample(const int r[7], op_case_t *out)
{
  ct_shape_t x = ct_shape(4, r[0], r[1], r[3], r[4]);
  if (r[2]) x = ct_shape(5, r[0], r[1], r[2], r[3], r[4]);
  ct_shape_t y = x;
  for (int k = 2; k < x.ndim; k++)
    y.dim[k] *= r[5];
  case_start(out, CT_OP_UPSAMPLE, &x, &y);
  out->desc.u.upsample.mode = r[6] ? CT_RESIZE_LINEAR : CT_RESIZE_NEAREST;
}

static int case_upsample(int i, op_case_t *out)
{
  static const int rows[][7] = {
      {2, 16, 0, 3, 5, 2, 0}, {1, 3, 0, 4, 4, 3, 0},  {2, 17, 0, 5, 3, 2, 1},
      {1, 1, 0, 1, 1, 4, 1},  {3, 4, 0, 1, 6, 3, 1},  {1, 16, 2, 3, 2, 2, 0},
      {2, 3, 3, 2, 4, 2, 1},  {1, 20, 1, 2, 3, 3, 1}, {2, 20, 0, 4, 3, 4, 1},
      {1, 5, 0, 6, 5, 1, 1},
  };
  if (i >= COUNT(rows)) return 0;
  make_upsample(rows[i], out);
  return 1;
}

/* Every mode to sizes that are no multiples, up and down, with given factors. */
typedef struct resize_row {
  ct_resize_t mode;
  int corners, ndim, x[3], y[3];
  double scale[3];
} resize_row_t;

static const resize_row_t resize_rows[] = {
    {CT_RESIZE_NEAREST, 0, 4, {5, 7}, {8, 3}, {0}},
    {CT_RESIZE_NEAREST, 0, 4, {5, 6}, {8, 4}, {1.7, 0.8}},
    {CT_RESIZE_NEAREST_EXACT, 0, 4, {5, 7}, {8, 3}, {0}},
    {CT_RESIZE_NEAREST_EXACT, 0, 5, {3, 2, 4}, {4, 5, 3}, {0}},
    {CT_RESIZE_LINEAR, 0, 4, {5, 7}, {9, 4}, {0}},
    {CT_RESIZE_LINEAR, 1, 4, {5, 7}, {9, 4}, {0}},
    {CT_RESIZE_LINEAR, 1, 4, {4, 1}, {1, 3}, {0}},
    {CT_RESIZE_LINEAR, 0, 4, {5, 6}, {8, 13}, {1.7, 2.25}},
    {CT_RESIZE_LINEAR, 1, 5, {3, 2, 4}, {5, 3, 2}, {0}},
    {CT_RESIZE_LINEAR, 0, 5, {3, 4, 2}, {2, 7, 3}, {0}},
    {CT_RESIZE_BICUBIC, 0, 4, {5, 7}, {9, 4}, {0}},
    {CT_RESIZE_BICUBIC, 1, 4, {4, 3}, {7, 2}, {0}},
    {CT_RESIZE_BICUBIC, 0, 4, {5, 6}, {8, 4}, {1.7, 0.8}},
    {CT_RESIZE_BICUBIC, 0, 4, {2, 1}, {4, 2}, {0}}};

static int make_resize(int i, int n, int channels, op_case_t *out)
{
  if (i >= COUNT(resize_rows)) return 0;
  const resize_row_t *r = &resize_rows[i];
  ct_shape_t x = ct_shape(r->ndim, n, channels, r->x[0], r->x[1], r->x[2]), y = x;
  for (int k = 0; k < r->ndim - 2; k++)
    y.dim[2 + k] = r->y[k];
  case_start(out, CT_OP_UPSAMPLE, &x, &y);
  out->desc.u.upsample.mode = r->mode;
  out->desc.u.upsample.align_corners = r->corners;
  memcpy(out->desc.u.upsample.scale, r->scale, sizeof r->scale);
  return 1;
}

static int case_resize(int i, op_case_t *out)
{
  static const int channels[] = {16, 5, 33};
  return make_resize(i, 1 + i % 3, channels[i % COUNT(channels)], out);
}

static int small_resize(int i, op_case_t *out)
{
  return make_resize(i, 1, 2, out);
}

static int small_upsample(int i, op_case_t *out)
{
  static const int rows[][7] = {{2, 2, 0, 3, 4, 2, 0}, {1, 2, 0, 4, 3, 3, 1}, {2, 1, 0, 1, 3, 4, 1},
                                {1, 2, 2, 3, 2, 2, 0}, {2, 1, 3, 2, 4, 2, 1}, {1, 2, 1, 2, 3, 3, 1},
                                {1, 2, 0, 3, 2, 1, 1}};
  if (i >= COUNT(rows)) return 0;
  make_upsample(rows[i], out);
  return 1;
}

const kind_cases_t cases_upsample = {.cases = {case_upsample, case_resize},
                                     .small = {small_upsample, small_resize}};

/* ---- for central differences ---- */

static int small_act(int i, op_case_t *out)
{
  const ct_shape_t flat = ct_shape(2, 4, 6);
  if (i >= CT_ACT_COUNT) return 0;
  make_act((ct_act_t)i, &flat, out);
  if (i <= CT_ACT_RELU6) out->data = DATA_SPREAD; /* no derivative where the function has a kink */
  return 1;
}

const kind_cases_t cases_act = {.cases = {case_act}, .small = {small_act}};

static int small_concat(int i, op_case_t *out)
{
  const ct_shape_t image = ct_shape(4, 1, 2, 3, 5);
  make_concat(&image, 3, out);
  return i == 0;
}

const kind_cases_t cases_concat = {.cases = {case_concat, case_concat_part},
                                   .small = {small_concat}};

int small_conv3(int i, op_case_t *out)
{
  static const conv3_row_t row = {1,         3,         {3, 2, 4}, 2, {2, 2, 3}, {1, 1, 2},
                                  {0, 1, 1}, {1, 1, 1}, 1,         1, 0};
  make_conv3(&row, out);
  return i == 0;
}

int small_pool3(int i, op_case_t *out)
{
  static const pool3_row_t rows[] = {
      {1, 2, {3, 4, 2}, {2, 3, 2}, {1, 2, 2}, {1, 1, 0}, 0, 0, 0, DATA_SPREAD},
      {1, 2, {3, 4, 2}, {2, 3, 2}, {1, 2, 2}, {1, 1, 0}, 1, 1, 0, DATA_RANDOM}};
  const ct_shape_t image = ct_shape(4, 1, 2, 3, 5);
  if (i < COUNT(rows)) make_pool3(&rows[i], out);
  if (i == COUNT(rows)) make_adaptive(&image, 0, 2, 7, out);
  return i <= COUNT(rows);
}
