/* The ops that every backend is tried with: rows of a table for each kind, chosen where code is
 * likely to differ: odd sizes, one of everything, strides that leave a rest, groups, padding beyond
 * the edge.  What only volumes have is in cases_volume.c. */
#include "tests/conform/cases.h"

#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

static void start(op_case_t *out, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y)
{
  ct_op_desc_init(&out->desc, kind, x, y);
  out->data = DATA_RANDOM;
  out->big = ct_shape_bytes(x) > 8 << 20;
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
  start(out, CT_OP_CONV, &x, &y);
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
      /* the usual: 3x3 and 1x1, in every kind of channel count */
      {2, 16, 8, 8, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, 0},
      {1, 32, 7, 7, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, 1},
      {2, 64, 14, 14, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 1},
      {3, 16, 5, 7, 32, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 0, 0},
      {2, 64, 4, 4, 16, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      {2, 32, 8, 8, 32, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, 0, 0},
      {2, 32, 8, 8, 64, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 1, 0, 0},
      /* input layers and odd channels */
      {2, 1, 8, 8, 6, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1, 1, 0},
      {2, 6, 14, 14, 16, {5, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 1},
      {1, 3, 32, 32, 64, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1, 0, 0},
      {2, 3, 9, 9, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 1},
      {1, 17, 5, 7, 20, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 0},
      {3, 20, 6, 5, 17, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 0, 1},
      {1, 20, 1, 1, 3, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      {2, 1, 1, 1, 1, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      /* enough tiles for Winograd; few channels, by hand, with odd sizes */
      {8, 32, 16, 16, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 1},
      {3, 72, 13, 10, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 1},
      {5, 33, 12, 12, 32, {3, 3}, {1, 1}, {2, 0}, {1, 1}, 1, 1, 0},
      {1, 128, 8, 9, 136, {3, 3}, {1, 1}, {0, 1}, {1, 1}, 1, 0, 1},
      {1, 150, 9, 9, 136, {3, 3}, {1, 1}, {1, 2}, {1, 1}, 1, 1, 0},
      {3, 10, 12, 12, 20, {5, 5}, {1, 1}, {0, 0}, {1, 1}, 1, 1, 0},
      {2, 5, 9, 26, 7, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1, 1, 0},
      /* windows of every kind */
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
      /* depthwise: more rows than a band, every length of a strip, more samples than parts */
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

/* ---- linear ---- */

/* steps 0: N x in; else a sequence of so many steps */
static void make_linear(int n, int steps, int in, int features, int bias, int relu, op_case_t *out)
{
  ct_shape_t x = ct_shape(2, n, in), y = ct_shape(2, n, features);

  if (steps) {
    x = ct_shape(3, n, steps, in);
    y = ct_shape(3, n, steps, features);
  }
  start(out, CT_OP_LINEAR, &x, &y);
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
      {75, 0, 150, 142, 1, 1}, {16, 0, 2050, 1030, 1, 0},
  };
  if (i >= COUNT(rows)) return 0;
  const int *r = rows[i];
  make_linear(r[0], r[1], r[2], r[3], r[4], r[5], out);
  return 1;
}

/* ---- batch normalisation ---- */

typedef struct bnorm_row {
  int ndim, dim[4], training, relu, add;
  double momentum;
} bnorm_row_t;

static ct_shape_t shape_of(int ndim, const int dim[4])
{
  return ct_shape(ndim, dim[0], ndim > 1 ? dim[1] : 1, ndim > 2 ? dim[2] : 1,
                  ndim > 3 ? dim[3] : 1);
}

static void make_bnorm(const bnorm_row_t *r, op_case_t *out)
{
  ct_shape_t x = shape_of(r->ndim, r->dim);

  start(out, CT_OP_BNORM, &x, &x);
  out->desc.training = r->training;
  out->desc.u.bnorm.eps = 1e-5;
  out->desc.u.bnorm.momentum = r->momentum;
  out->desc.u.bnorm.relu = r->relu;
  out->desc.u.bnorm.add = r->add;
}

int case_bnorm(int i, op_case_t *out)
{
  static const bnorm_row_t rows[] = {
      {4, {4, 16, 5, 7}, 1, 0, 0, 0.1},   {4, {2, 32, 8, 8}, 1, 1, 0, 0.1},
      {4, {3, 64, 4, 4}, 1, 1, 1, 0.1},   {4, {2, 17, 5, 5}, 1, 0, 1, 0.01},
      {4, {5, 3, 3, 1}, 1, 1, 1, 1.0},    {4, {1, 20, 5, 7}, 1, 1, 0, 0.1},
      {2, {6, 33}, 1, 0, 0, 0.1},         {4, {8, 6, 1, 1}, 1, 1, 1, 0.1},
      {4, {8, 16, 24, 24}, 1, 1, 1, 0.1}, {4, {4, 16, 5, 7}, 0, 0, 0, 0.1},
      {4, {2, 20, 4, 4}, 0, 1, 0, 0.1},   {4, {2, 64, 3, 3}, 0, 1, 1, 0.1},
      {2, {1, 17}, 0, 0, 0, 0.1},         {4, {4, 32, 132, 132}, 1, 1, 1, 0.1},
      {4, {2, 16, 3, 5}, 1, 6, 0, 0.1},   {4, {2, 19, 3, 3}, 1, 6, 1, 0.1},
      {4, {2, 20, 2, 4}, 0, 6, 0, 0.1},   {2, {6, 33}, 1, 6, 1, 0.1},
      {4, {1, 6, 1, 1}, 1, 0, 0, 0.1}, /* one element per channel */
  };

  if (i >= COUNT(rows)) return 0;
  make_bnorm(&rows[i], out);
  return 1;
}

/* ---- elementwise ---- */

static const int shapes[][4] = {{2, 16, 4, 4}, {1, 3, 5, 7},  {3, 17, 1, 1},   {1, 64, 7, 7},
                                {5, 20, 3, 2}, {2, 32, 1, 9}, {8, 32, 24, 24}, {4, 32, 132, 132}};

static int make_same(int i, ct_op_kind_t kind, op_case_t *out)
{
  static const int flat[][4] = {{7, 33}, {1, 1}, {4, 1000}};
  ct_shape_t x;

  if (i >= COUNT(shapes) + COUNT(flat)) return 0;
  x = i < COUNT(shapes) ? shape_of(4, shapes[i]) : shape_of(2, flat[i - COUNT(shapes)]);
  start(out, kind, &x, &x);
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

int case_dropout(int i, op_case_t *out)
{
  static const double p[] = {0.5, 0.1, 0, 1};

  if (!make_same(i / 2, CT_OP_DROPOUT, out)) return 0;
  out->desc.training = i % 2;
  out->desc.u.dropout.p = p[i / 2 % COUNT(p)];
  out->desc.u.dropout.layer = (uint32_t)i;
  return 1;
}

/* N x C x H x W to N x features, both plain. */
int case_flatten(int i, op_case_t *out)
{
  if (i >= COUNT(shapes)) return 0;
  ct_shape_t x = shape_of(4, shapes[i]);
  ct_shape_t y = ct_shape(2, x.dim[0], ct_shape_sample(&x));
  start(out, CT_OP_REORDER, &x, &y);
  return 1;
}

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
  start(out, CT_OP_POOL, &x, &y);
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
      /* inputs between the windows */
      {2, 16, 9, 10, {2, 1}, {3, 4}, {1, 0}, 0, 0, 1, DATA_TIES},
      {1, 17, 10, 9, {1, 3}, {4, 5}, {0, 1}, 1, 0, 0, DATA_RANDOM},
  };

  if (i >= COUNT(rows)) return 0;
  make_pool(&rows[i], out);
  return 1;
}

int case_wide_pool(int i, op_case_t *out)
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

/* ---- loss ---- */

typedef struct loss_row {
  int n, outputs;
  data_kind_t data;
  ct_loss_spec_t spec;
} loss_row_t;

/* With a label for each place; places[1] 0: they lie in a row. */
typedef struct places_row {
  loss_row_t loss;
  int places[2];
} places_row_t;

static void make_loss(const loss_row_t *r, op_case_t *out)
{
  ct_shape_t x = ct_shape(2, r->n, r->outputs);

  start(out, CT_OP_LOSS, &x, &x);
  out->desc.u.loss = r->spec;
  out->data = r->data;
}

int case_places(int i, op_case_t *out)
{
  static const places_row_t rows[] = {
      {{3, 2, DATA_TIES, {0}}, {5, 7}},
      {{2, 17, DATA_RANDOM, {.weighted = 1, .has_ignored = 1, .ignored = 255}}, {19, 33}},
      {{1, 4, DATA_TIES, {.label_smoothing = 0.2, .has_ignored = 1, .ignored = 1}}, {300}},
      {{2, 3, DATA_RANDOM, {.label_smoothing = 0.1, .weighted = 1, .sample_weighted = 1}},
       {40, 41}},
      {{2, 1, DATA_RANDOM, {.label_smoothing = 1}}, {3, 2}},
      {{2,
        3,
        DATA_RANDOM,
        {.label_smoothing = 0.2, .weighted = 1, .sample_weighted = 1, .has_ignored = 1}},
       {2, 3}}};
  if (i >= COUNT(rows)) return 0;
  const places_row_t *r = &rows[i];
  ct_shape_t x = ct_shape(r->places[1] ? 4 : 3, r->loss.n, r->loss.outputs, r->places[0],
                          r->places[1] ? r->places[1] : 1);
  make_loss(&r->loss, out);
  out->desc.x = out->desc.y = x;
  return 1;
}

int case_loss(int i, op_case_t *out)
{
  static const loss_row_t rows[] = {
      {1, 2, DATA_RANDOM, {0}},
      {7, 5, DATA_TIES, {0}},
      {16, 10, DATA_RANDOM, {0}},
      {33, 10, DATA_TIES, {0}}, /* mixed */
      {5, 1000, DATA_RANDOM, {0}},
      {64, 17, DATA_TIES, {0}},
      {3, 4, DATA_SPREAD, {0}},
      {3, 50001, DATA_RANDOM, {.label_smoothing = 0.1}},
      {2, 3000, DATA_TIES, {.weighted = 1}},
      {16, 10, DATA_RANDOM, {.label_smoothing = 0.1}},
      {9, 10, DATA_RANDOM, {.label_smoothing = 0.2, .weighted = 1}},
      {20, 33, DATA_RANDOM, {.weighted = 1, .has_ignored = 1, .ignored = -100}},
      {33, 1000, DATA_RANDOM, {.weighted = 1, .has_ignored = 1, .ignored = 3}},
      {24, 17, DATA_RANDOM, {.label_smoothing = 0.1, .has_ignored = 1, .ignored = 255}},
      {2, 9000, DATA_TIES, {.kind = CT_LOSS_MSE}},
      {1, 1, DATA_RANDOM, {.kind = CT_LOSS_L1}},
      {8, 3, DATA_TIES, {.kind = CT_LOSS_L1}},
      {9, 100, DATA_RANDOM, {.kind = CT_LOSS_L1, .one_hot = 1}},
      {64, 200, DATA_TIES, {.kind = CT_LOSS_BCE, .one_hot = 1}},
      {6, 10, DATA_RANDOM, {.kind = CT_LOSS_BCE, .one_hot = 1}},
      {6, 10, DATA_RANDOM, {.sample_weighted = 1, .weighted = 1, .label_smoothing = 0.1}},
      {7, 5, DATA_RANDOM, {.kind = CT_LOSS_MSE, .sample_weighted = 1}},
      {4, 9, DATA_RANDOM, {.kind = CT_LOSS_BCE, .one_hot = 1, .sample_weighted = 1}},
      {3, 1, DATA_RANDOM, {.weighted = 1}},
      {12, 7, DATA_RANDOM, {.label_smoothing = 1, .weighted = 1, .sample_weighted = 1}},
  };

  if (i < COUNT(rows)) {
    make_loss(&rows[i], out);
    return 1;
  }
  /* each kind, of targets and of labels; a sample's outputs may be of any shape */
  i -= COUNT(rows);
  ct_loss_kind_t kind = (ct_loss_kind_t)(i / 2);
  ct_shape_t x = ct_shape(kind == CT_LOSS_CROSS_ENTROPY ? 2 : 4, 4, 35, 5, 7);
  if (i >= 2 * CT_LOSS_COUNT) return 0;
  start(out, CT_OP_LOSS, &x, &x);
  out->desc.u.loss.kind = kind;
  out->desc.u.loss.one_hot = i % 2;
  return 1;
}

/* ---- sequences ---- */

static void make_lnorm(const int dim[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(dim[3] ? 4 : dim[2] ? 3 : 2, dim[0], dim[1], dim[2], dim[3]);

  start(out, CT_OP_LNORM, &x, &x);
  out->desc.u.lnorm.eps = 1e-5;
}

int case_lnorm(int i, op_case_t *out)
{
  static const int rows[][4] = {{3, 7, 24, 0},   {1, 1, 5, 0},    {5, 33, 0, 0},
                                {2, 65, 192, 0}, {4, 50, 100, 0}, {2, 3, 5, 17}};

  if (i >= COUNT(rows)) return 0;
  make_lnorm(rows[i], out);
  return 1;
}

/* {n, steps, features, hidden} */
static void make_lstm(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r[0], r[1], r[2]), y = ct_shape(3, r[0], r[1], r[3]);
  start(out, CT_OP_LSTM, &x, &y);
}

int case_lstm(int i, op_case_t *out)
{
  static const int rows[][4] = {{3, 5, 7, 16}, {1, 1, 1, 1},    {2, 1, 8, 17}, {4, 9, 28, 32},
                                {5, 2, 3, 50}, {33, 6, 20, 64}, {1, 12, 40, 5}};

  if (i >= COUNT(rows)) return 0;
  make_lstm(rows[i], out);
  return 1;
}

/* {n, tokens, features, heads} */
static void make_attention(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r[0], r[1], r[2]);

  start(out, CT_OP_ATTENTION, &x, &x);
  out->desc.u.attention.heads = r[3];
}

int case_attention(int i, op_case_t *out)
{
  static const int rows[][4] = {{2, 5, 16, 2},  {1, 1, 4, 1},  {3, 1, 6, 3},
                                {2, 17, 12, 4}, {1, 9, 20, 1}, {2, 40, 48, 6},
                                {1, 65, 64, 4}, {3, 4, 5, 5},  {1, 190, 6, 2}};

  if (i >= COUNT(rows)) return 0;
  make_attention(rows[i], out);
  return 1;
}

/* {n, features, height, width} */
static void make_tokens(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(4, r[0], r[1], r[2], r[3]), y = ct_shape(3, r[0], 1 + r[2] * r[3], r[1]);
  start(out, CT_OP_TOKENS, &x, &y);
}

int case_tokens(int i, op_case_t *out)
{
  static const int rows[][4] = {{2, 16, 4, 4}, {1, 1, 1, 1}, {3, 17, 2, 5}, {4, 64, 8, 8}};

  if (i >= COUNT(rows)) return 0;
  make_tokens(rows[i], out);
  return 1;
}

/* {n, steps, features, index} */
static void make_select(const int r[4], op_case_t *out)
{
  ct_shape_t x = ct_shape(3, r[0], r[1], r[2]), y = ct_shape(2, r[0], r[2]);

  start(out, CT_OP_SELECT, &x, &y);
  out->desc.u.select.index = r[3];
}

int case_select(int i, op_case_t *out)
{
  static const int rows[][4] = {
      {2, 5, 7, 0}, {3, 4, 16, -1}, {1, 1, 1, -1}, {4, 6, 33, 5}, {2, 3, 4, 1}};

  if (i >= COUNT(rows)) return 0;
  make_select(rows[i], out);
  return 1;
}

/* ---- for central differences ---- */

static void gradient_sequences(int i, op_case_t *out)
{
  static const int lnorm[4] = {2, 3, 5, 0}, lstm[][4] = {{2, 3, 4, 3}, {1, 2, 1, 2}};
  static const int attention[][4] = {{2, 3, 4, 2}, {1, 4, 3, 1}}, tokens[4] = {2, 3, 2, 2};
  static const int choice[4] = {2, 3, 4, -1};

  if (i == 0) make_lnorm(lnorm, out);
  if (i == 1 || i == 2) make_lstm(lstm[i - 1], out);
  if (i == 3 || i == 4) make_attention(attention[i - 3], out);
  if (i == 5) make_tokens(tokens, out);
  if (i == 6) make_select(choice, out);
  if (i == 7) make_linear(2, 3, 5, 4, 1, 0, out);
}

static int gradient_layers(int i, op_case_t *out)
{
  static const conv_row_t convs[] = {
      {2, 3, 4, 5, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, 1, 0},
      {1, 4, 6, 5, 6, {3, 2}, {2, 1}, {1, 0}, {1, 2}, 2, 0, 0},
      {2, 3, 4, 4, 3, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 3, 1, 0},
  };
  static const bnorm_row_t bnorms[] = {
      {4, {2, 3, 3, 2}, 1, 0, 0, 0.1}, {4, {2, 2, 3, 3}, 1, 1, 1, 0.1}, {2, {8, 3}, 1, 1, 0, 0.1},
      {4, {2, 3, 2, 2}, 0, 1, 1, 0.1}, {4, {2, 3, 3, 2}, 0, 0, 0, 0.1}, {2, {8, 3}, 0, 1, 0, 0.1}};

  if (i < COUNT(convs)) {
    make_conv(&convs[i], out);
    return COUNT(convs);
  }
  i -= COUNT(convs);
  if (i < COUNT(bnorms)) make_bnorm(&bnorms[i], out);
  if (i == COUNT(bnorms)) make_linear(3, 0, 5, 4, 1, 0, out);
  return COUNT(convs) + COUNT(bnorms) + 1;
}

static int gradient_others(int i, op_case_t *out)
{
  static const pool_row_t pools[] = {{1, 2, 5, 4, {3, 3}, {2, 2}, {1, 1}, 0, 0, 0, DATA_SPREAD},
                                     {1, 2, 4, 4, {2, 2}, {2, 2}, {0, 0}, 0, 0, 1, DATA_SPREAD},
                                     {1, 2, 5, 4, {3, 2}, {2, 1}, {1, 1}, 1, 0, 0, DATA_RANDOM},
                                     {1, 2, 5, 4, {3, 3}, {2, 2}, {1, 1}, 1, 1, 0, DATA_RANDOM},
                                     {2, 3, 2, 4, {0, 0}, {0, 0}, {0, 0}, 1, 0, 0, DATA_RANDOM}};
  ct_shape_t flat = ct_shape(2, 4, 6);

  if (i < COUNT(pools)) {
    make_pool(&pools[i], out);
    return 1;
  }
  static const ct_op_kind_t kinds[] = {CT_OP_RELU, CT_OP_ADD, CT_OP_DROPOUT};
  i -= COUNT(pools);
  if (i >= COUNT(kinds)) return 0;
  start(out, kinds[i], &flat, &flat);
  out->data = kinds[i] == CT_OP_RELU ? DATA_SPREAD : DATA_RANDOM;
  if (kinds[i] == CT_OP_ADD) out->desc.u.add.relu = 1;
  if (kinds[i] == CT_OP_DROPOUT) {
    out->desc.training = 1;
    out->desc.u.dropout.p = 0.4;
  }
  return 1;
}

/* ---- upsampling ---- */

/* {n, c, depth (0: an image), height, width, factor, linear} */
int case_upsample(int i, op_case_t *out)
{
  static const int rows[][7] = {
      {2, 16, 0, 3, 5, 2, 0}, {1, 3, 0, 4, 4, 3, 0},  {2, 17, 0, 5, 3, 2, 1},
      {1, 1, 0, 1, 1, 4, 1},  {3, 4, 0, 1, 6, 3, 1},  {1, 16, 2, 3, 2, 2, 0},
      {2, 3, 3, 2, 4, 2, 1},  {1, 20, 1, 2, 3, 3, 1}, {2, 20, 0, 4, 3, 4, 1},
      {1, 5, 0, 6, 5, 1, 1},
  };
  if (i >= COUNT(rows)) return 0;
  const int *r = rows[i];
  ct_shape_t x = ct_shape(4, r[0], r[1], r[3], r[4]);
  if (r[2]) x = ct_shape(5, r[0], r[1], r[2], r[3], r[4]);
  ct_shape_t y = x;
  for (int k = 2; k < x.ndim; k++)
    y.dim[k] *= r[5];
  start(out, CT_OP_UPSAMPLE, &x, &y);
  out->desc.u.upsample.linear = r[6];
  return 1;
}

/* L1 has no derivative where an output is its target: the eight spread values are not near 0 or
 * 1. */
int case_loss_gradient(int i, op_case_t *out)
{
  static const loss_row_t rows[] = {
      {4, 6, DATA_RANDOM, {0}},
      {6, 5, DATA_RANDOM, {.label_smoothing = 0.2, .weighted = 1, .has_ignored = 1, .ignored = 2}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_MSE}},
      {3, 5, DATA_RANDOM, {.kind = CT_LOSS_MSE, .one_hot = 1}},
      {2, 4, DATA_SPREAD, {.kind = CT_LOSS_L1, .one_hot = 1}},
      {4, 3, DATA_RANDOM, {.kind = CT_LOSS_BCE}},
      {3, 5, DATA_RANDOM, {.kind = CT_LOSS_BCE, .one_hot = 1}},
      {2, 4, DATA_RANDOM, {.sample_weighted = 1, .kind = CT_LOSS_BCE}}};

  if (i >= COUNT(rows)) return 0;
  make_loss(&rows[i], out);
  return 1;
}

int case_gradient(int i, op_case_t *out)
{
  enum { SEQUENCES = 8 };
  int layers = gradient_layers(i, out);
  if (i < layers) return 1;
  i -= layers;
  if (i >= SEQUENCES) return gradient_others(i - SEQUENCES, out);
  gradient_sequences(i, out);
  return 1;
}
