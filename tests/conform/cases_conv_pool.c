/* Test cases of CONV_POOL; see cases.h.  What the maxima need is said in draw_conv_pool.c. */
#include "tests/conform/draw_sizes.h"

#include <stdlib.h>
#include <string.h>

typedef struct conv_pool_row {
  int n, in, out, size[3]; /* of x; size[0] 0: images */
  int kernel, stride, pad; /* of the convolution */
  int window, step;        /* of the pooling */
  int average, relu, act;
  double alpha;
  int rows;
  data_kind_t data;
} conv_pool_row_t;

static void make_conv_pool(const conv_pool_row_t *r, op_case_t *out)
{
  int dims = r->size[0] ? 3 : 2;
  ct_shape_t x = ct_shape(2 + dims, r->n, r->in), y = x;
  y.dim[1] = r->out;
  case_start(out, CT_OP_CONV_POOL, &x, &y);
  ct_op_conv_pool_t *o = &out->desc.u.conv_pool;
  for (int i = 0; i < dims; i++) {
    o->conv.kernel[i] = r->kernel;
    o->conv.stride[i] = r->stride;
    o->conv.pad[i] = r->pad;
    o->conv.dilate[i] = 1;
    o->pool.kernel[i] = r->window;
    o->pool.stride[i] = r->step;
    out->desc.x.dim[2 + i] = r->size[3 - dims + i];
    int64_t mid = ct_op_window_out(out->desc.x.dim[2 + i], r->kernel, r->stride, r->pad, 1);
    out->desc.y.dim[2 + i] = ct_op_pool_out(mid, r->window, r->step, 0, 1, 0);
  }
  o->conv.groups = o->conv.bias = 1;
  o->conv.relu = r->relu && r->average;
  o->pool.relu = r->relu && !r->average;
  o->pool.average = r->average;
  o->act = r->act;
  o->alpha = r->alpha;
  o->rows = r->rows;
  out->data = r->data;
}

enum {
  LEAKY = 1 + CT_ACT_LEAKY_RELU,
  GELU = 1 + CT_ACT_GELU,
  SILU = 1 + CT_ACT_SILU,
  TANH = 1 + CT_ACT_TANH
};

static int case_conv_pool(int i, op_case_t *out)
{
  static const conv_pool_row_t rows[] = {
      /* CosmoFlow: slabs that divide the rows and others, one slab, slabs of one row */
      {2, 4, 16, {12, 10, 10}, 3, 1, 1, 2, 2, 0, 0, LEAKY, 0.25, 2, DATA_TIES},
      {1, 4, 16, {14, 10, 10}, 3, 1, 1, 2, 2, 0, 0, LEAKY, 0.25, 3, DATA_TIES},
      {1, 16, 32, {9, 8, 7}, 3, 1, 1, 2, 2, 0, 1, 0, 0, 4, DATA_TIES},
      {3, 3, 5, {8, 6, 6}, 3, 1, 1, 2, 2, 0, 0, 0, 0, 1, DATA_TIES},
      /* windows that overlap; a stride that leaves rows of x unread; no padding */
      {2, 3, 8, {0, 23, 11}, 5, 2, 2, 3, 2, 0, 1, 0, 0, 2, DATA_TIES},
      {2, 8, 17, {0, 19, 9}, 1, 3, 0, 2, 2, 0, 0, LEAKY, 0.5, 2, DATA_TIES},
      {1, 2, 3, {0, 20, 6}, 4, 1, 0, 2, 3, 0, 0, 0, 0, 2, DATA_TIES},
      /* averages: the convolution is computed again */
      {2, 4, 16, {0, 16, 12}, 3, 1, 1, 2, 2, 1, 1, 0, 0, 3, DATA_RANDOM},
      {2, 5, 7, {0, 17, 9}, 3, 1, 1, 3, 2, 1, 0, LEAKY, 0.1, 2, DATA_RANDOM},
      {1, 4, 16, {10, 6, 6}, 3, 1, 1, 2, 2, 1, 0, GELU, 0, 2, DATA_RANDOM},
      {1, 4, 8, {10, 6, 6}, 3, 1, 1, 2, 2, 1, 0, 0, 0, 2, DATA_RANDOM},
  };
  if (i >= COUNT(rows)) return 0;
  make_conv_pool(&rows[i], out);
  return 1;
}

/* Of a single channel: its values are as far apart as those of x. */
static int small_conv_pool(int i, op_case_t *out)
{
  static const conv_pool_row_t rows[] = {
      {2, 2, 2, {0, 7, 4}, 3, 1, 1, 2, 2, 1, 0, GELU, 0, 1, DATA_RANDOM},
      {1, 2, 2, {6, 4, 4}, 3, 1, 1, 2, 2, 1, 0, TANH, 1.2, 2, DATA_RANDOM},
      {1, 2, 2, {0, 9, 4}, 3, 1, 1, 3, 2, 1, 0, 0, 0, 2, DATA_RANDOM},
      {1, 1, 2, {0, 6, 4}, 1, 1, 0, 2, 2, 0, 0, TANH, 1.2, 2, DATA_SPREAD},
      {1, 1, 2, {0, 6, 4}, 1, 1, 0, 2, 2, 0, 0, SILU, 0, 1, DATA_SPREAD},
  };
  if (i >= COUNT(rows)) return 0;
  make_conv_pool(&rows[i], out);
  return 1;
}

/* Few, since each runs in all layouts and in all ways. */
static int case_drawn_conv_pool(int i, op_case_t *out)
{
  char why[128];
  dice_t dice = {.seed = 11, .index = (uint64_t)i};
  if (i >= (getenv("CT_FULL") ? 80 : 16)) return 0;
  while (!draw_conv_pool(&dice, out) || !ct_op_check(&out->desc, why))
    ;
  return 1;
}

const kind_cases_t cases_conv_pool = {
    .cases = {case_conv_pool}, .more = {case_drawn_conv_pool}, .small = {small_conv_pool}};
