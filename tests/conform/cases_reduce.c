/* Test cases of matrix products, softmax and reductions; see cases.c. */
#include <math.h>
#include <string.h>

#include "tests/conform/check.h"
#include "tests/conform/draw_sizes.h"

/* ---- matrix products ---- */

typedef struct matmul_row {
  int a_dims, a[5], b_dims, b[5], y_dims, y[5], a_turned, b_turned;
} matmul_row_t;

static ct_shape_t shape_of(int n, const int dim[5])
{
  ct_shape_t s = ct_shape(n, 1);
  for (int i = 0; i < n; i++)
    s.dim[i] = dim[i];
  return s;
}

static void make_matmul(const matmul_row_t *r, op_case_t *out)
{
  ct_shape_t a = shape_of(r->a_dims, r->a), b = shape_of(r->b_dims, r->b);
  ct_shape_t y = shape_of(r->y_dims, r->y);
  case_start(out, CT_OP_MATMUL, &a, &y);
  ct_op_desc_more(&out->desc, &b, NULL);
  out->desc.u.matmul.a_turned = r->a_turned;
  out->desc.u.matmul.b_turned = r->b_turned;
}

/* A weight for all; attention heads; one matrix for all on the left; broadcasting of both; weights
 * of groups; products with a single row, column or inner element. */
static int case_matmul(int i, op_case_t *out)
{
  static const matmul_row_t rows[] = {
      {2, {5, 7}, 2, {7, 3}, 2, {5, 3}, 0, 0},
      {3, {4, 9, 16}, 2, {16, 33}, 3, {4, 9, 33}, 0, 0},
      {3, {4, 9, 16}, 2, {33, 16}, 3, {4, 9, 33}, 0, 1},
      {3, {4, 16, 9}, 2, {16, 33}, 3, {4, 9, 33}, 1, 0},
      {4, {3, 4, 49, 32}, 4, {3, 4, 49, 32}, 4, {3, 4, 49, 49}, 0, 1},
      {4, {3, 4, 49, 49}, 4, {3, 4, 49, 32}, 4, {3, 4, 49, 32}, 0, 0},
      {4, {3, 4, 49, 49}, 4, {3, 4, 49, 32}, 4, {3, 4, 49, 32}, 1, 0},
      {4, {3, 4, 32, 17}, 4, {3, 4, 5, 32}, 4, {3, 4, 17, 5}, 1, 1},
      {2, {6, 5}, 3, {7, 5, 4}, 3, {7, 6, 4}, 0, 0},
      {2, {5, 6}, 4, {2, 3, 4, 5}, 4, {2, 3, 6, 4}, 1, 1},
      {4, {2, 1, 3, 4}, 4, {1, 5, 4, 6}, 4, {2, 5, 3, 6}, 0, 0},
      {5, {2, 1, 3, 2, 4}, 4, {5, 1, 4, 3}, 5, {2, 5, 3, 2, 3}, 0, 0},
      {4, {2, 3, 8, 8}, 3, {3, 8, 8}, 4, {2, 3, 8, 8}, 0, 0},
      {3, {5, 1, 7}, 3, {5, 7, 1}, 3, {5, 1, 1}, 0, 0},
      {3, {5, 7, 1}, 3, {5, 1, 3}, 3, {5, 7, 3}, 0, 0},
      {3, {1, 65, 130}, 3, {1, 130, 257}, 3, {1, 65, 257}, 0, 0},
      {2, {200, 300}, 2, {300, 100}, 2, {200, 100}, 0, 0},
  };
  if (i >= COUNT(rows)) return 0;
  make_matmul(&rows[i], out);
  return 1;
}

static int small_matmul(int i, op_case_t *out)
{
  static const matmul_row_t rows[] = {
      {3, {2, 3, 4}, 2, {4, 2}, 3, {2, 3, 2}, 0, 0},
      {3, {2, 4, 3}, 2, {2, 4}, 3, {2, 3, 2}, 1, 1},
      {4, {2, 1, 2, 3}, 3, {3, 3, 2}, 4, {2, 3, 2, 2}, 0, 0},
      {2, {2, 3}, 3, {3, 2, 3}, 3, {3, 2, 2}, 0, 1},
      {2, {2, 3}, 3, {2, 2, 3}, 3, {2, 3, 3}, 1, 0},
  };
  if (i >= COUNT(rows)) return 0;
  make_matmul(&rows[i], out);
  return 1;
}

const kind_cases_t cases_matmul = {.cases = {case_matmul}, .small = {small_matmul}};

/* ---- attention ---- */

/* {heads before the last two dims, two of them; queries, keys, features, features of values} */
static void make_sdpa(const int r[6], int causal, op_case_t *out)
{
  ct_shape_t q = ct_shape(4, r[0], r[1], r[2], r[4]), k = ct_shape(4, r[0], r[1], r[3], r[4]);
  ct_shape_t v = ct_shape(4, r[0], r[1], r[3], r[5]), y = ct_shape(4, r[0], r[1], r[2], r[5]);
  case_start(out, CT_OP_SDPA, &q, &y);
  ct_op_desc_more(&out->desc, &k, &v);
  out->desc.u.sdpa.causal = causal;
  out->desc.u.sdpa.scale = 1 / sqrt(r[4]);
}

static int case_sdpa(int i, op_case_t *out)
{
  static const int rows[][6] = {
      {2, 3, 17, 17, 8, 8},   {1, 1, 1, 1, 1, 1},   {2, 2, 5, 40, 12, 7},  {1, 2, 70, 33, 16, 16},
      {3, 1, 197, 197, 6, 6}, {1, 1, 9, 2, 33, 20}, {1, 2, 250, 260, 4, 4}};
  if (i >= 2 * COUNT(rows)) return 0;
  make_sdpa(rows[i / 2], i % 2, out);
  return 1;
}

static int small_sdpa(int i, op_case_t *out)
{
  static const int rows[][6] = {{1, 2, 3, 3, 2, 2}, {1, 1, 4, 3, 3, 2}, {1, 1, 2, 4, 2, 3}};
  if (i >= 2 * COUNT(rows)) return 0;
  make_sdpa(rows[i / 2], i % 2, out);
  return 1;
}

/* GPT-2's and Llama's heads, each mask in each form, more queries than keys and the other way
 * around, decoding with a cache; at the end several blocks of queries and keys. */
static int case_heads(int i, op_case_t *out)
{
  static const sdpa_row_t rows[] = {
      {2, 70, 0, 3, 0, 8, 8, 1, .causal = 1},
      {2, 33, 0, 4, 2, 8, 8, 1, .causal = 1},
      {1, 150, 0, 2, 0, 64, 64, 1, .causal = 1},
      {2, 17, 9, 4, 1, 6, 6, 2, .causal = 0},
      {2, 17, 40, 4, 2, 6, 5, 0, .causal = 1},
      {1, 70, 33, 6, 3, 16, 20, 0, .causal = 0},
      {3, 40, 0, 2, 0, 7, 7, 1, .causal = 1, .mask = CT_MASK_FIRST},
      {3, 40, 0, 4, 2, 8, 8, 1, .causal = 0, .mask = CT_MASK_FIRST},
      {3, 20, 70, 2, 1, 8, 8, 2, .causal = 1, .mask = CT_MASK_FIRST},
      {3, 70, 0, 2, 0, 16, 16, 1, .causal = 0, .mask = CT_MASK_KEYS},
      {2, 9, 70, 4, 2, 8, 8, 2, .causal = 1, .mask = CT_MASK_KEYS},
      {2, 33, 0, 3, 0, 8, 8, 1, .causal = 0, .mask = CT_MASK_BIAS},
      {2, 33, 0, 3, 0, 8, 8, 1, .causal = 1, .mask = CT_MASK_BIAS, .bias = 1},
      {2, 33, 35, 4, 2, 8, 8, 2, .causal = 0, .mask = CT_MASK_BIAS, .bias = 2},
      {3, 17, 20, 4, 2, 5, 5, 2, .causal = 1, .mask = CT_MASK_BIAS, .bias = 3},
      {2, 1, 40, 4, 2, 8, 8, 2, .causal = 1, .cached = 1},
      {2, 5, 70, 2, 0, 16, 12, 0, .causal = 1, .cached = 1},
      {2, 3, 40, 4, 2, 8, 8, 2, .causal = 1, .cached = 1, .mask = CT_MASK_FIRST},
      {1, 4, 7, 2, 0, 8, 8, 2, .causal = 1, .cached = 1, .mask = CT_MASK_BIAS},
      {1, 400, 0, 2, 1, 8, 8, 1, .causal = 1},
      {1, 390, 800, 2, 1, 8, 5, 0, .causal = 0},
      {1, 400, 0, 2, 0, 4, 4, 1, .causal = 0, .mask = CT_MASK_FIRST},
      {1, 230, 410, 2, 1, 5, 5, 2, .causal = 1, .mask = CT_MASK_FIRST},
      {2, 140, 420, 2, 0, 8, 8, 2, .causal = 0, .mask = CT_MASK_KEYS},
      {2, 230, 400, 2, 1, 8, 8, 2, .causal = 0, .mask = CT_MASK_BIAS, .bias = 1},
      {1, 400, 0, 2, 1, 8, 8, 1, .causal = 1, .mask = CT_MASK_BIAS},
  };
  if (i >= COUNT(rows)) return 0;
  sdpa_with_heads(out, &rows[i]);
  return 1;
}

static int small_heads(int i, op_case_t *out)
{
  static const sdpa_row_t rows[] = {
      {2, 4, 0, 2, 0, 2, 2, 1, .causal = 1},
      {1, 3, 4, 2, 1, 2, 3, 0, .causal = 0},
      {2, 4, 0, 2, 1, 2, 2, 1, .causal = 1, .mask = CT_MASK_FIRST},
      {2, 3, 4, 1, 0, 2, 2, 2, .causal = 0, .mask = CT_MASK_KEYS},
      {2, 3, 0, 2, 0, 2, 2, 1, .causal = 0, .mask = CT_MASK_BIAS},
      {2, 3, 0, 2, 1, 2, 2, 1, .causal = 1, .mask = CT_MASK_BIAS, .bias = 1},
      {2, 3, 4, 2, 0, 2, 2, 2, .causal = 0, .mask = CT_MASK_BIAS, .bias = 2},
      {2, 3, 4, 2, 1, 2, 2, 2, .causal = 1, .mask = CT_MASK_BIAS, .bias = 3},
  };
  if (i >= COUNT(rows)) return 0;
  sdpa_with_heads(out, &rows[i]);
  return 1;
}

const kind_cases_t cases_sdpa = {.cases = {case_sdpa, case_heads},
                                 .small = {small_sdpa, small_heads}};

/* ---- softmax ---- */

static int case_softmax(int i, op_case_t *out)
{
  static const struct {
    int n, x[5], dim, log;
  } rows[] = {
      {2, {5, 7}, 1, 0},          {2, {5, 7}, 1, 1},         {3, {2, 5, 1}, 2, 0},
      {4, {3, 4, 49, 49}, 3, 0},  {4, {2, 21, 17, 9}, 1, 0}, {4, {2, 21, 17, 9}, 1, 1},
      {3, {4, 1000, 3}, 1, 0},    {2, {9, 130}, 0, 1},       {5, {2, 3, 4, 5, 6}, 2, 0},
      {4, {2, 16, 64, 65}, 1, 0}, {2, {64, 1000}, 1, 1},     {1, {70}, 0, 0},
  };
  if (i >= COUNT(rows)) return 0;
  ct_shape_t x = shape_of(rows[i].n, rows[i].x);
  case_start(out, CT_OP_SOFTMAX, &x, &x);
  out->desc.u.softmax.dim = rows[i].dim;
  out->desc.u.softmax.log = rows[i].log;
  return 1;
}

static int small_softmax(int i, op_case_t *out)
{
  ct_shape_t x = ct_shape(3, 2, 3, 4);
  case_start(out, CT_OP_SOFTMAX, &x, &x);
  out->desc.u.softmax.dim = i / 2;
  out->desc.u.softmax.log = i % 2;
  return i < 6;
}

/* Runs a row of softmax forward. */
static void run_row(int n, const float *x, float *y)
{
  static const trial_t how = {.name = "masked", .passes = CT_FWD};
  ct_shape_t s = ct_shape(2, 1, n);
  op_case_t c;
  inputs_t in;
  outputs_t out;
  rig_t r;
  case_start(&c, CT_OP_SOFTMAX, &s, &s);
  c.desc.u.softmax.dim = 1;
  inputs_open(&in, &c.desc, 1, DATA_RANDOM);
  outputs_open(&out, &c.desc);
  memcpy(in.x, x, (size_t)n * sizeof *x);
  check(!rig_open(&r, &tested, &c.desc, &how) && !rig_forward(&r, &in) && !rig_take(&r, &out),
        "softmax with a mask");
  memcpy(y, out.y, (size_t)n * sizeof *y);
  rig_close(&r);
  outputs_close(&out);
  inputs_close(&in);
}

/* Masked elements get 0; a row that is masked as a whole is NaN, as in PyTorch. */
static void check_softmax(void)
{
  float x[20], y[20];
  double sum = 0;
  char why[128];
  op_case_t c;
  case_softmax(0, &c);
  if (!tested.be->op->supports(tested.dev, &c.desc, why)) return;
  for (int i = 0; i < 20; i++)
    x[i] = i % 3 ? -INFINITY : (float)i / 4;
  run_row(20, x, y);
  for (int i = 0; i < 20; i++) {
    sum += y[i];
    check(i % 3 ? y[i] == 0 : y[i] > 0, "softmax of a masked row: %g at %d", y[i], i);
  }
  check(fabs(sum - 1) < 1e-6, "softmax of a masked row has the sum %g", sum);
  for (int i = 0; i < 20; i++)
    x[i] = -INFINITY;
  run_row(20, x, y);
  for (int i = 0; i < 20; i++)
    check(isnan(y[i]), "softmax of a wholly masked row: %g at %d", y[i], i);
}

const kind_cases_t cases_softmax = {
    .cases = {case_softmax}, .small = {small_softmax}, .check = check_softmax};

/* ---- reductions ---- */

static void make_reduce(ct_reduction_t mode, const ct_shape_t *x, unsigned dims, int keep,
                        op_case_t *out)
{
  ct_shape_t y = *x;
  int n = 0;
  for (int i = 0; i < x->ndim && mode != CT_RED_CUMSUM; i++) {
    if (dims >> i & 1 && !keep) continue;
    y.dim[n++] = dims >> i & 1 ? 1 : x->dim[i];
  }
  y.ndim = mode == CT_RED_CUMSUM ? x->ndim : n;
  if (y.ndim == 0) y = ct_shape(1, 1);
  case_start(out, CT_OP_REDUCE, x, &y);
  out->desc.u.reduce.mode = mode;
  out->desc.u.reduce.dims = dims;
  out->desc.u.reduce.p = 2;
  out->desc.u.reduce.correction = 1;
  if (mode >= CT_RED_AMAX && mode <= CT_RED_MIN) out->data = DATA_TIES;
}

/* Rows, columns, pixels, channels, dims apart, all dims. */
static const struct {
  int n, x[5];
  unsigned dims;
  int keep;
} reduce_rows[] = {
    {2, {5, 7}, 2, 0},         {2, {9, 130}, 1, 1},         {4, {2, 32, 7, 5}, 12, 1},
    {4, {2, 32, 7, 5}, 12, 0}, {4, {2, 21, 7, 5}, 12, 1},   {4, {2, 21, 7, 5}, 2, 1},
    {4, {2, 6, 5, 7}, 10, 0},  {4, {2, 6, 5, 7}, 5, 1},     {3, {3, 4, 300}, 7, 0},
    {4, {2, 16, 9, 10}, 8, 1}, {5, {2, 8, 3, 4, 5}, 28, 1}, {3, {4, 70, 300}, 2, 0},
    {4, {1, 300, 5, 3}, 4, 0},
};

static int case_reduce(int i, op_case_t *out)
{
  int rows = COUNT(reduce_rows), mode = i / rows, row = i % rows;
  if (mode >= CT_RED_COUNT) return 0;
  ct_shape_t x = shape_of(reduce_rows[row].n, reduce_rows[row].x);
  unsigned dims = reduce_rows[row].dims;
  if (mode == CT_RED_MAX || mode == CT_RED_MIN || mode == CT_RED_CUMSUM)
    dims &= ~dims + 1;                              /* the first of the dims */
  if (mode == CT_RED_PROD && row > 2) x.dim[1] = 2; /* few values, so that none overflows */
  make_reduce((ct_reduction_t)mode, &x, dims, reduce_rows[row].keep, out);
  return 1;
}

/* Norms of other orders. */
static int case_norm(int i, op_case_t *out)
{
  static const double p[] = {1, INFINITY, 3, 1.5};
  int rows = COUNT(reduce_rows);
  if (i >= rows * COUNT(p)) return 0;
  ct_shape_t x = shape_of(reduce_rows[i % rows].n, reduce_rows[i % rows].x);
  make_reduce(CT_RED_NORM, &x, reduce_rows[i % rows].dims, reduce_rows[i % rows].keep, out);
  out->desc.u.reduce.p = p[i / rows];
  if (isinf(p[i / rows])) out->data = DATA_TIES;
  return 1;
}

/* Products with zeros; the gradient is 0 except at a single zero. */
static int case_zeros(int i, op_case_t *out)
{
  const ct_shape_t x[] = {ct_shape(2, 40, 3), ct_shape(3, 4, 5, 9), ct_shape(2, 3, 40)};
  if (i >= COUNT(x)) return 0;
  make_reduce(CT_RED_PROD, &x[i], 2, 0, out);
  out->data = DATA_TIES;
  return 1;
}

static int small_reduce(int i, op_case_t *out)
{
  ct_shape_t x = ct_shape(3, 2, 3, 4), row = ct_shape(2, 1, 7);
  int mode = i % CT_RED_COUNT, one = mode == CT_RED_MAX || mode == CT_RED_MIN;
  unsigned dims = i < CT_RED_COUNT ? 2 : 4;
  if (i >= 2 * CT_RED_COUNT + 3) return 0;
  if (mode != CT_RED_CUMSUM && !one && i >= CT_RED_COUNT) dims = 5;
  make_reduce((ct_reduction_t)mode, &x, dims, 0, out);
  if (i >= 2 * CT_RED_COUNT) {
    static const double p[] = {1, INFINITY, 3};
    make_reduce(CT_RED_NORM, &row, 2, 1, out);
    out->desc.u.reduce.p = p[i - 2 * CT_RED_COUNT];
  }
  out->data = mode == CT_RED_PROD || mode == CT_RED_LOGSUMEXP ? DATA_RANDOM : DATA_SPREAD;
  return 1;
}

const kind_cases_t cases_reduce = {
    .cases = {case_reduce, case_norm}, .more = {case_zeros}, .small = {small_reduce}};
