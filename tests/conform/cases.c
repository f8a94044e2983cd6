/* The ops on which every backend is tested: a table of cases for each kind, at sizes where
 * implementations tend to differ: odd sizes, dims of 1, strides that leave a remainder, groups,
 * padding beyond the edge.  This file has linear layers, convolutions, pooling and element-wise
 * ops; normalisations, sequences, losses and volumes have files of their own.  The last tables are
 * small cases for central differences. */
#include "tests/conform/cases.h"

#include <string.h>

void case_start(op_case_t *out, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y)
{
  ct_op_desc_init(&out->desc, kind, x, y);
  out->data = DATA_RANDOM;
  out->big = ct_shape_bytes(x) > 8 << 20;
}

ct_shape_t case_shape(int ndim, const int dim[4])
{
  return ct_shape(ndim, dim[0], ndim > 1 ? dim[1] : 1, ndim > 2 ? dim[2] : 1,
                  ndim > 3 ? dim[3] : 1);
}

/* ---- convolution ---- */

typedef struct conv_row {
  int n, c, h, w, out, kernel[2], stride[2], pad[2], dilate[2], groups, bias, relu;
} conv_row_t;

static void make_conv(const conv_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(4, r->n, r->c, r->h, r->w), y = x;

  y.dim[1] = r->out;
  for (int i = 0; i < 2; i++) {
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

int case_conv(int i, op_case_t *out)
{
  static const conv_row_t rows[] = {
      /* common windows, 3x3 and 1x1, with all kinds of channel counts */
      {2, 16, 8, 8, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, 0},
      {1, 32, 7, 7, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, 1},
      {2, 64, 14, 14, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 1},
      {3, 16, 5, 7, 32, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 0, 0},
      {2, 64, 4, 4, 16, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      {2, 32, 8, 8, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, 0, 0},
      {2, 32, 8, 8, 64, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, 0, 0},
      /* first layers, and odd numbers of channels */
      {2, 1, 8, 8, 6, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1, 1, 0},
      {2, 6, 14, 14, 16, {5, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 1},
      {1, 3, 32, 32, 64, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1, 0, 0},
      {2, 3, 9, 9, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 1},
      {1, 17, 5, 7, 20, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 0},
      {3, 20, 6, 5, 17, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, 1},
      {1, 20, 1, 1, 3, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      {2, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      /* enough tiles for Winograd; few channels and odd sizes, for this program's own kernels */
      {8, 32, 16, 16, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 1},
      {3, 72, 13, 10, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 1},
      {5, 33, 12, 12, 32, {3, 3}, {1, 1}, {2, 0}, {1, 1}, 1, 1, 0},
      {1, 128, 8, 9, 136, {3, 3}, {1, 1}, {0, 1}, {1, 1}, 1, 0, 1},
      {1, 150, 9, 9, 136, {3, 3}, {1, 1}, {1, 2}, {1, 1}, 1, 1, 0},
      {3, 10, 12, 12, 20, {5, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      {2, 5, 9, 26, 7, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1, 1, 0},
      /* an image that the weight gradient with AMX cuts into two units */
      {2, 16, 96, 100, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 0},
      /* various windows */
      {2, 3, 5, 7, 6, {1, 3}, {1, 1}, {0, 1}, {1, 1}, 1, 0, 0},
      {2, 16, 7, 5, 16, {3, 1}, {2, 1}, {1, 0}, {1, 1}, 1, 1, 0},
      {1, 6, 9, 11, 20, {2, 3}, {2, 3}, {1, 0}, {1, 1}, 1, 1, 1},
      {1, 16, 9, 9, 32, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 1, 0, 0},
      {2, 6, 10, 9, 17, {3, 2}, {2, 1}, {1, 2}, {2, 3}, 1, 1, 0},
      {1, 16, 4, 4, 16, {3, 3}, {3, 3}, {0, 0}, {1, 1}, 1, 0, 0},
      {1, 3, 3, 3, 16, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      /* groups and depthwise */
      {2, 32, 6, 6, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 2, 0, 0},
      {1, 64, 5, 5, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 4, 1, 1},
      {2, 6, 5, 7, 12, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 3, 1, 0},
      {2, 32, 7, 7, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 32, 0, 0},
      {1, 17, 5, 5, 17, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 17, 1, 1},
      {2, 80, 9, 11, 80, {5, 2}, {2, 1}, {2, 1}, {1, 3}, 80, 1, 0},
      {1, 136, 7, 6, 136, {1, 4}, {1, 3}, {0, 3}, {2, 1}, 136, 0, 1},
      {2, 16, 58, 58, 16, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 16, 0, 0},
      /* depthwise: more rows than a band, every remainder of a strip, more samples than parts */
      {1, 32, 31, 30, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 32, 1, 1},
      {1, 40, 29, 27, 40, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 40, 1, 0},
      {19, 16, 7, 8, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 16, 1, 0},
      {1, 24, 14, 17, 24, {2, 7}, {2, 3}, {1, 3}, {3, 2}, 24, 0, 0},
      {2, 16, 2, 1, 16, {1, 1}, {3, 2}, {0, 0}, {1, 1}, 16, 1, 0},
  };

  if (i >= COUNT(rows)) return 0;
  make_conv(&rows[i], out);
  return 1;
}

static int small_conv(int i, op_case_t *out)
{
  static const conv_row_t rows[] = {
      {2, 3, 4, 5, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 0},
      {1, 4, 6, 5, 6, {3, 2}, {2, 1}, {1, 0}, {1, 2}, 2, 0, 0},
      {2, 3, 4, 4, 3, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 3, 1, 0},
  };

  if (i >= COUNT(rows)) return 0;
  make_conv(&rows[i], out);
  return 1;
}

const kind_cases_t cases_conv = {.cases = {case_conv, case_conv3},
                                 .small = {small_conv, small_conv3}};

/* ---- transposed convolution: the convolutions above from y to x ---- */

static void turn(op_case_t *out)
{
  ct_shape_t x = out->desc.y, y = out->desc.x;
  out->desc.kind = CT_OP_CONVT;
  out->desc.x = x;
  out->desc.y = y;
  out->desc.u.conv.relu = 0;
}

static int case_convt(int i, op_case_t *out)
{
  int more = case_conv(i, out);
  if (more) turn(out);
  return more;
}

static int case_convt3(int i, op_case_t *out)
{
  int more = case_conv3(i, out);
  if (more) turn(out);
  return more;
}

static int small_convt(int i, op_case_t *out)
{
  int more = small_conv(i, out);
  if (more) turn(out);
  return more;
}

static int small_convt3(int i, op_case_t *out)
{
  int more = small_conv3(i, out);
  turn(out);
  return more;
}

const kind_cases_t cases_convt = {.cases = {case_convt, case_convt3},
                                  .small = {small_convt, small_convt3}};

/* ---- convolution with a computed weight ---- */

/* Makes the weight of a convolution an input, and the bias. */
static void compute_weight(op_case_t *out)
{
  ct_op_desc_t *d = &out->desc;
  ct_shape_t weight = d->x, bias = ct_shape(1, d->y.dim[1]);
  weight.dim[0] = d->y.dim[1];
  weight.dim[1] /= d->u.conv.groups;
  for (int i = 2; i < weight.ndim; i++)
    weight.dim[i] = d->u.conv.kernel[i - 2];
  d->kind = CT_OP_CONVOLVE;
  d->u.conv.relu = 0;
  ct_op_desc_more(d, &weight, d->u.conv.bias ? &bias : NULL);
}

static int case_convolve(int i, op_case_t *out)
{
  int more = case_conv(i, out);
  if (more) compute_weight(out);
  return more;
}

static int case_convolve3(int i, op_case_t *out)
{
  int more = case_conv3(i, out);
  if (more) compute_weight(out);
  return more;
}

static int small_convolve(int i, op_case_t *out)
{
  int more = small_conv(i, out);
  if (more) compute_weight(out);
  return more;
}

const kind_cases_t cases_convolve = {.cases = {case_convolve, case_convolve3},
                                     .small = {small_convolve}};

/* ---- linear ---- */

/* steps 0: N x in; otherwise sequences of that many steps */
static void make_linear(int n, int steps, int in, int features, int bias, int relu, op_case_t *out)
{
  ct_shape_t x = ct_shape(2, n, in), y = ct_shape(2, n, features);

  if (steps) {
    x = ct_shape(3, n, steps, in);
    y = ct_shape(3, n, steps, features);
  }
  case_start(out, CT_OP_LINEAR, &x, &y);
  out->desc.u.linear.bias = bias;
  out->desc.u.linear.relu = relu;
}

int case_linear(int i, op_case_t *out)
{
  static const int rows[][6] = {
      {1, 0, 1, 1, 1, 0},      {3, 0, 17, 5, 1, 0},       {2, 0, 64, 10, 0, 0},
      {5, 0, 33, 7, 1, 1},     {1, 0, 400, 120, 1, 1},    {16, 0, 32, 64, 1, 0},
      {4, 0, 512, 1000, 1, 0}, {7, 0, 13, 2, 0, 1},       {2, 5, 24, 40, 1, 0},
      {3, 1, 17, 3, 1, 1},     {1, 9, 16, 16, 0, 0},      {300, 2, 20, 36, 1, 0},
      {75, 0, 150, 142, 1, 1}, {16, 0, 2050, 1030, 1, 0}, {11, 60, 203, 35, 1, 0},
  };
  if (i >= COUNT(rows)) return 0;
  const int *r = rows[i];
  make_linear(r[0], r[1], r[2], r[3], r[4], r[5], out);
  return 1;
}

/* x2 is added. */
static int case_linear_add(int i, op_case_t *out)
{
  int more = case_linear(i, out);
  out->desc.u.linear.add = 1;
  return more;
}

/* Weights that ops of other kinds use too. */
static int case_linear_plain(int i, op_case_t *out)
{
  int more = case_linear(i, out);
  out->desc.u.linear.plain = 1;
  return more;
}

static int small_linear(int i, op_case_t *out)
{
  if (i == 0) make_linear(3, 0, 5, 4, 1, 0, out);
  if (i == 1) make_linear(2, 3, 5, 4, 1, 0, out);
  return i < 2;
}

const kind_cases_t cases_linear = {.cases = {case_linear, case_linear_add, case_linear_plain},
                                   .small = {small_linear}};

/* ---- elementwise ---- */

static const int shapes[][4] = {{2, 16, 4, 4}, {1, 3, 5, 7},  {3, 17, 1, 1},   {1, 64, 7, 7},
                                {5, 20, 3, 2}, {2, 32, 1, 9}, {8, 32, 24, 24}, {4, 32, 132, 132}};

static int make_same(int i, ct_op_kind_t kind, op_case_t *out)
{
  static const int flat[][4] = {{7, 33}, {1, 1}, {4, 1000}};
  ct_shape_t x;

  if (i >= COUNT(shapes) + COUNT(flat)) return 0;
  x = i < COUNT(shapes) ? case_shape(4, shapes[i]) : case_shape(2, flat[i - COUNT(shapes)]);
  case_start(out, kind, &x, &x);
  return 1;
}

int case_relu(int i, op_case_t *out)
{
  return make_same(i, CT_OP_RELU, out);
}

int case_add(int i, op_case_t *out)
{
  if (!make_same(i / 2, CT_OP_ADD, out)) return 0;
  out->desc.u.add.relu = i % 2;
  return 1;
}

static int case_dropout(int i, op_case_t *out)
{
  static const double p[] = {0.5, 0.1, 0, 1};

  if (!make_same(i / 2, CT_OP_DROPOUT, out)) return 0;
  out->desc.training = i % 2;
  out->desc.u.dropout.p = p[i / 2 % COUNT(p)];
  out->desc.u.dropout.layer = (uint32_t)i;
  out->desc.u.dropout.whole = i / 2 % 3;
  out->desc.u.dropout.unscaled = i / 2 % 5 == 4;
  return 1;
}

/* Makes one small case of 4 x 6 elements. */
static int make_small(int i, ct_op_kind_t kind, op_case_t *out)
{
  ct_shape_t flat = ct_shape(2, 4, 6);

  case_start(out, kind, &flat, &flat);
  return i == 0;
}

static int small_relu(int i, op_case_t *out)
{
  int more = make_small(i, CT_OP_RELU, out);
  out->data = DATA_SPREAD;
  return more;
}

const kind_cases_t cases_relu = {.cases = {case_relu}, .small = {small_relu}};

static int small_add(int i, op_case_t *out)
{
  int more = make_small(i, CT_OP_ADD, out);
  out->desc.u.add.relu = 1;
  return more;
}

const kind_cases_t cases_add = {.cases = {case_add}, .small = {small_add}};

static int small_dropout(int i, op_case_t *out)
{
  int more = make_small(i, CT_OP_DROPOUT, out);
  out->desc.training = 1;
  out->desc.u.dropout.p = 0.4;
  return more;
}

const kind_cases_t cases_dropout = {.cases = {case_dropout}, .small = {small_dropout}};

static int case_fake_quant(int i, op_case_t *out)
{
  if (!make_same(i / 2, CT_OP_FAKE_QUANT, out)) return 0;
  out->desc.training = i % 2;
  return 1;
}

const kind_cases_t cases_fake_quant = {.more = {case_fake_quant}, .straight = 1, .may_lack = 1};

/* Reorder from N x C x H x W to N x features, both plain. */
static int case_reorder(int i, op_case_t *out)
{
  if (i >= COUNT(shapes)) return 0;
  ct_shape_t x = case_shape(4, shapes[i]);
  ct_shape_t y = ct_shape(2, x.dim[0], ct_shape_sample(&x));
  case_start(out, CT_OP_REORDER, &x, &y);
  return 1;
}

static int small_reorder(int i, op_case_t *out)
{
  ct_shape_t x = ct_shape(4, 2, 3, 2, 2), y = ct_shape(2, 2, 12);
  case_start(out, CT_OP_REORDER, &x, &y);
  return i == 0;
}

const kind_cases_t cases_reorder = {.cases = {case_reorder}, .small = {small_reorder}};

/* ---- pooling ---- */

typedef struct pool_row {
  int n, c, h, w, kernel[2], stride[2], pad[2], average, include_pad, relu;
  data_kind_t data;
} pool_row_t;

static void make_pool(const pool_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(4, r->n, r->c, r->h, r->w), y = x;
  int global = r->kernel[0] == 0;

  for (int i = 0; i < 2; i++) {
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

int case_pool(int i, op_case_t *out)
{
  static const pool_row_t rows[] = {
      {2, 16, 8, 8, {2, 2}, {2, 2}, {0, 0}, 0, 0, 0, DATA_RANDOM},
      {2, 16, 8, 8, {2, 2}, {2, 2}, {0, 0}, 0, 0, 1, DATA_TIES},
      {1, 64, 9, 9, {3, 3}, {2, 2}, {1, 1}, 0, 0, 0, DATA_TIES},
      {2, 6, 7, 5, {3, 3}, {2, 2}, {1, 1}, 0, 0, 1, DATA_RANDOM},
      {1, 17, 5, 7, {3, 2}, {1, 2}, {1, 0}, 0, 0, 0, DATA_TIES},
      {3, 20, 4, 4, {3, 3}, {1, 1}, {1, 1}, 0, 0, 1, DATA_TIES},
      {1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, 0, 0, 0, DATA_RANDOM},
      {2, 32, 7, 6, {3, 3}, {3, 3}, {0, 0}, 0, 0, 0, DATA_RANDOM},
      {8, 32, 24, 24, {2, 2}, {2, 2}, {0, 0}, 0, 0, 1, DATA_RANDOM},
      {4, 32, 132, 132, {3, 3}, {2, 2}, {1, 1}, 0, 0, 0, DATA_RANDOM},
      {2, 16, 8, 8, {2, 2}, {2, 2}, {0, 0}, 1, 0, 0, DATA_RANDOM},
      {1, 17, 5, 7, {3, 3}, {2, 2}, {1, 1}, 1, 0, 0, DATA_RANDOM},
      {2, 6, 5, 7, {3, 3}, {2, 2}, {1, 1}, 1, 1, 0, DATA_RANDOM},
      {2, 32, 6, 5, {3, 2}, {1, 2}, {1, 1}, 1, 0, 0, DATA_RANDOM},
      {2, 64, 7, 7, {0, 0}, {0, 0}, {0, 0}, 1, 0, 0, DATA_RANDOM},
      {1, 17, 5, 7, {0, 0}, {0, 0}, {0, 0}, 1, 0, 0, DATA_RANDOM},
      {3, 20, 1, 1, {0, 0}, {0, 0}, {0, 0}, 1, 0, 0, DATA_RANDOM},
      {2, 300, 9, 11, {0, 0}, {0, 0}, {0, 0}, 1, 0, 0, DATA_RANDOM},
      /* strides larger than the window */
      {2, 16, 9, 10, {2, 1}, {3, 4}, {1, 0}, 0, 0, 1, DATA_TIES},
      {1, 17, 10, 9, {1, 3}, {4, 5}, {0, 1}, 1, 0, 0, DATA_RANDOM},
  };

  if (i >= COUNT(rows)) return 0;
  make_pool(&rows[i], out);
  return 1;
}

static int case_wide_pool(int i, op_case_t *out)
{
  static const pool_row_t rows[] = {
      {2, 16, 20, 17, {16, 16}, {3, 2}, {8, 5}, 0, 0, 1, DATA_TIES},
      {1, 5, 17, 40, {3, 86}, {2, 1}, {1, 43}, 0, 0, 0, DATA_RANDOM},
      {1, 8, 300, 2, {255, 1}, {9, 1}, {0, 0}, 0, 0, 0, DATA_TIES},
  };
  if (i >= COUNT(rows)) return 0;
  make_pool(&rows[i], out);
  return 1;
}

static int small_pool(int i, op_case_t *out)
{
  static const pool_row_t rows[] = {{1, 2, 5, 4, {3, 3}, {2, 2}, {1, 1}, 0, 0, 0, DATA_SPREAD},
                                    {1, 2, 4, 4, {2, 2}, {2, 2}, {0, 0}, 0, 0, 1, DATA_SPREAD},
                                    {1, 2, 5, 4, {3, 2}, {2, 1}, {1, 1}, 1, 0, 0, DATA_RANDOM},
                                    {1, 2, 5, 4, {3, 3}, {2, 2}, {1, 1}, 1, 1, 0, DATA_RANDOM},
                                    {2, 3, 2, 4, {0, 0}, {0, 0}, {0, 0}, 1, 0, 0, DATA_RANDOM}};

  if (i >= COUNT(rows)) return 0;
  make_pool(&rows[i], out);
  return 1;
}

const kind_cases_t cases_pool = {.cases = {case_pool, case_pool3, case_adaptive, case_free_pool},
                                 .more = {case_wide_pool, case_drawn_pool},
                                 .small = {small_pool, small_pool3, small_free_pool}};
