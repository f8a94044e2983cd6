/* The arithmetic of the reference backend against numbers from elsewhere.
 *
 * Literal results are those of PyTorch 2.15 (CPU) for the same inputs; each case names the call. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/ct_dropout.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "ref/ct_ref.h"
#include "tests/harness/ct_test.h"

static ct_dev_t *dev;
static ct_queue_t *queue;

static const float *sequence(float *v, int n, int a, int b, int m)
{
  for (int i = 0; i < n; i++)
    v[i] = (float)((i * a + b) % m - m / 2) / 8;
  return v;
}

/* Prepares the op and runs its passes one after the other with the same arguments. */
static void carry_out(const ct_op_desc_t *d, ct_op_args_t *a)
{
  const ct_op_ops_t *ops = ct_backend_ref.op;
  ct_op_t *op;
  ct_op_info_t info;

  if (CT_ASSERT_OK(ops->prepare(dev, d, NULL, &op, &info))) return;
  a->saved = ct_mem_alloc(info.saved, "test");
  a->scratch = ct_mem_alloc(info.scratch, "test");
  for (int pass = CT_FWD; pass <= CT_BWD_PARAM; pass *= 2) {
    a->pass = pass;
    if (d->passes & pass) CT_ASSERT_OK(ops->run(queue, op, a));
  }
  CT_ASSERT_OK(ct_backend_ref.queue->sync(queue));
  ct_mem_free(a->saved);
  ct_mem_free(a->scratch);
  ops->release(op);
}

#define CHECK(got, want) CT_ASSERT_ARRAY_REL(got, want, sizeof(want) / sizeof((want)[0]), 2e-6)

static ct_op_desc_t make_conv(ct_shape_t x, int64_t out, const int window[4][2], int groups)
{
  ct_op_desc_t d;
  ct_shape_t y = x;

  y.dim[1] = out;
  for (int i = 0; i < 2; i++) {
    y.dim[2 + i] =
        ct_op_window_out(x.dim[2 + i], window[0][i], window[1][i], window[2][i], window[3][i]);
  }
  ct_op_desc_init(&d, CT_OP_CONV, &x, &y);
  memcpy(d.u.conv.kernel, window[0], sizeof window[0]);
  memcpy(d.u.conv.stride, window[1], sizeof window[1]);
  memcpy(d.u.conv.pad, window[2], sizeof window[2]);
  memcpy(d.u.conv.dilate, window[3], sizeof window[3]);
  d.u.conv.groups = groups;
  return d;
}

/* torch.nn.functional.conv2d(x, w, b, stride=(1, 2), padding=(1, 0), dilation=(2, 1), groups=2) */
static void conv_is_torchs(void)
{
  static const float want_y[] = {
      0.390625f, -1.109375f, -0.9375f,   0.609375f, -0.078125f, 0.453125f, 0.359375f, -1.546875f,
      -0.875f,   0.578125f,  -0.109375f, 0.015625f, -0.296875f, -1.625f,   0.921875f, -0.6875f,
      -0.15625f, -0.078125f, -0.390625f, -1.40625f, 0.859375f,  -0.84375f, -0.25f,    0.140625f};
  static const float want_dx[] = {
      -0.3125f,  0, 0.125f,    -0.96875f,  0, -0.46875f, 0.625f,   0, 0.28125f,
      -0.21875f, 0, 0.140625f, -1.1875f,   0, -0.4375f,  0.71875f, 0, 0.296875f,
      -0.0625f,  0, 0.0625f,   -0.84375f,  0, 1.125f,    0.21875f, 0, -0.78125f,
      -0.09375f, 0, 0.15625f,  -0.703125f, 0, 0.90625f,  0.1875f,  0, -0.6875f};
  static const float want_dw[] = {
      -0.28125f, -0.015625f, 0.609375f,  -0.875f,  0.671875f, -0.1875f,   -0.8125f,   0.53125f,
      0.640625f, -0.640625f, -1.140625f, 0.21875f, -0.3125f,  -0.078125f, -0.515625f, -0.59375f};
  static const float want_db[] = {-0.375f, -0.25f, -0.125f, 0};
  static const int window[4][2] = {{2, 1}, {1, 2}, {1, 0}, {2, 1}};
  float x[36], w[16], b[4], dy[24], y[24], dx[36], dw[16], db[4];
  ct_op_desc_t d = make_conv(ct_shape(4, 1, 4, 3, 3), 4, window, 2);
  ct_op_args_t a = {.x = sequence(x, 36, 37, 11, 23),
                    .dy = sequence(dy, 24, 17, 2, 13),
                    .w = {w, b},
                    .y = y,
                    .dx = dx,
                    .dw = {dw, db}};

  sequence(w, 16, 29, 5, 19);
  sequence(b, 4, 13, 3, 7);
  d.passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  d.u.conv.bias = 1;
  CT_ASSERT_INT(ct_shape_count(&d.y), 24);
  carry_out(&d, &a);
  CHECK(y, want_y);
  CHECK(dx, want_dx);
  CHECK(dw, want_dw);
  CHECK(db, want_db);
}

/* One output, straight from the definition of cross-correlation. */
static double defined_output(const ct_op_desc_t *d, const float *x, const float *w, int64_t oc,
                             int64_t row, int64_t col)
{
  int64_t per_group = d->x.dim[1] / d->u.conv.groups;
  int64_t first = oc / (d->y.dim[1] / d->u.conv.groups) * per_group;
  double sum = 0;

  for (int64_t i = 0; i < per_group * d->u.conv.kernel[0] * d->u.conv.kernel[1]; i++) {
    int64_t kw = i % d->u.conv.kernel[1], kh = i / d->u.conv.kernel[1] % d->u.conv.kernel[0];
    int64_t ic = i / (d->u.conv.kernel[0] * d->u.conv.kernel[1]);
    int64_t r = row * d->u.conv.stride[0] + kh * d->u.conv.dilate[0] - d->u.conv.pad[0];
    int64_t c = col * d->u.conv.stride[1] + kw * d->u.conv.dilate[1] - d->u.conv.pad[1];
    if (r < 0 || r >= d->x.dim[2] || c < 0 || c >= d->x.dim[3]) continue;
    sum += (double)x[((first + ic) * d->x.dim[2] + r) * d->x.dim[3] + c] *
           w[oc * per_group * d->u.conv.kernel[0] * d->u.conv.kernel[1] + i];
  }
  return sum;
}

static void conv_follows_the_definition(void)
{
  static const int windows[][4][2] = {
      {{3, 3}, {1, 1}, {1, 1}, {1, 1}}, {{3, 3}, {2, 2}, {1, 1}, {1, 1}},
      {{2, 3}, {3, 2}, {1, 2}, {1, 1}}, {{3, 2}, {2, 1}, {3, 4}, {2, 3}},
      {{5, 5}, {4, 3}, {4, 2}, {1, 1}}, {{1, 1}, {2, 2}, {0, 0}, {1, 1}}};
  enum { C = 4, H = 6, W = 7, OUT = 6, MOST = 6 * 200 };
  float x[C * H * W], w[OUT * C * 25], y[MOST];

  for (int k = 0; k < 12; k++) {
    ct_op_desc_t d = make_conv(ct_shape(4, 1, C, H, W), OUT, windows[k / 2], 1 + k % 2);
    ct_op_args_t a = {.x = sequence(x, C * H * W, 37, 11, 23), .w = {w}, .y = y};
    int64_t plane = d.y.dim[2] * d.y.dim[3];
    if (OUT * plane > MOST) CU_FAIL("the array is too small");
    sequence(w, OUT * C * 25, 29, 5, 19);
    carry_out(&d, &a);
    for (int64_t i = 0; i < OUT * plane; i++) {
      double want = defined_output(&d, x, w, i / plane, i % plane / d.y.dim[3], i % d.y.dim[3]);
      CT_ASSERT_NEAR(y[i], want, 1e-6);
    }
  }
}

/* torch.nn.functional.linear(x, w, b) */
static void linear_is_torchs(void)
{
  static const float want_y[] = {-1.078125f, 0.78125f, -1.515625f, -1.140625f,
                                 1.140625f,  -0.75f,   1.21875f,   0.21875f};
  static const float want_dx[] = {0.890625f, 0.109375f, 0.8125f, 0.765625f, -1.0625f, 0.671875f};
  static const float want_dw[] = {0.0625f, 0.40625f, -0.328125f, -0.1875f, 0.46875f,  0.046875f,
                                  0.375f,  -1.5f,    0.21875f,   0.125f,   0.390625f, -0.421875f};
  static const float want_db[] = {-0.625f, 0.375f, -0.25f, -0.875f};
  float x[6], w[12], b[4], dy[8], y[8], dx[6], dw[12], db[4];
  ct_shape_t in = ct_shape(2, 2, 3), out = ct_shape(2, 2, 4);
  ct_op_desc_t d;
  ct_op_args_t a = {.x = sequence(x, 6, 37, 11, 23),
                    .dy = sequence(dy, 8, 17, 2, 13),
                    .w = {w, b},
                    .y = y,
                    .dx = dx,
                    .dw = {dw, db}};

  sequence(w, 12, 29, 5, 19);
  sequence(b, 4, 13, 3, 7);
  ct_op_desc_init(&d, CT_OP_LINEAR, &in, &out);
  d.passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  d.u.linear.bias = 1;
  carry_out(&d, &a);
  CHECK(y, want_y);
  CHECK(dx, want_dx);
  CHECK(dw, want_dw);
  CHECK(db, want_db);
}

typedef struct bnorm {
  float x[12], z[12], dy[12], weight[2], bias[2], mean[2], var[2];
  float y[12], dx[12], dz[12], dw[2], db[2];
} bnorm_t;

/* relu(torch.nn.BatchNorm2d(2, eps=1e-3, momentum=0.3)(x) + z) with x of 2 x 2 x 1 x 3 */
static void run_bnorm(bnorm_t *t, int training)
{
  static const bnorm_t start = {
      .weight = {1.5f, -0.5f}, .bias = {0.25f, 1}, .mean = {0.5f, -1}, .var = {2, 0.75f}};
  ct_shape_t x = ct_shape(4, 2, 2, 1, 3);
  ct_op_desc_t d;

  *t = start;
  sequence(t->x, 12, 37, 11, 23);
  sequence(t->z, 12, 17, 2, 13);
  sequence(t->dy, 12, 29, 5, 19);
  ct_op_args_t a = {.x = t->x,
                    .x2 = t->z,
                    .dy = t->dy,
                    .w = {t->weight, t->bias, t->mean, t->var},
                    .y = t->y,
                    .dx = t->dx,
                    .dx2 = t->dz,
                    .dw = {t->dw, t->db}};
  ct_op_desc_init(&d, CT_OP_BNORM, &x, &x);
  d.passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  d.training = training;
  d.u.bnorm.eps = 1e-3;
  d.u.bnorm.momentum = 0.3;
  d.u.bnorm.add = d.u.bnorm.relu = 1;
  carry_out(&d, &a);
}

static void bnorm_training_is_torchs(void)
{
  static const float y[] = {0.137888789f, 0,         2.43085146f, 0.840520501f, 0.283663034f,
                            1.46307135f,  0,         1.93944383f, 0.112111241f, 1.08317327f,
                            0.637581587f, 1.8169899f};
  static const float dx[] = {-1.20126402f,    0.317284882f,  -1.21165979f,  -0.434414506f,
                             -0.0541349463f,  -0.616736054f, 0.26348722f,   1.83765268f,
                             -0.00550102955f, 0.45292744f,   -0.109673671f, 0.762031794f};
  static const float dz[] = {-0.5f, 0,      -0.375f, 0.875f,  -0.25f, 1,
                             0,     1.125f, 0,       -1.125f, 0.125f, -1};
  static const float dw[] = {0.905073762f, -1.40599787f}, db[] = {0.25f, -0.375f};
  static const float mean[] = {0.293749988f, -0.618749976f}, var[] = {1.58890629f, 0.771406233f};
  bnorm_t t;

  run_bnorm(&t, 1);
  CHECK(t.y, y);
  CHECK(t.dx, dx);
  CHECK(t.dz, dz);
  CHECK(t.dw, dw);
  CHECK(t.db, db);
  CHECK(t.mean, mean);
  CHECK(t.var, var);
}

static void bnorm_inference_is_torchs(void)
{
  static const float y[] = {
      0, 0,          0.882549405f, 0.0865170956f, 0, 0.725913525f, 0, 0.26509881f, 0, 0.379706353f,
      0, 1.05287933f};
  static const float dx[] = {0,
                             0,
                             -0.397648126f,
                             -0.504845023f,
                             0,
                             -0.576965749f,
                             0,
                             1.19294453f,
                             0,
                             0.649086475f,
                             0,
                             0.576965749f};
  static const float dz[] = {0, 0, -0.375f, 0.875f, 0, 1, 0, 1.125f, 0, -1.125f, 0, -1};
  static const float dw[] = {0.165686727f, -1.42438424f}, db[] = {0.75f, -0.25f};
  static const float mean[] = {0.5f, -1}, var[] = {2, 0.75f};
  bnorm_t t;

  run_bnorm(&t, 0);
  CHECK(t.y, y);
  CHECK(t.dx, dx);
  CHECK(t.dz, dz);
  CHECK(t.dw, dw);
  CHECK(t.db, db);
  CHECK(t.mean, mean);
  CHECK(t.var, var);
}

/* A batch with one element per channel, where PyTorch refuses: normalised to 0, and the running
 * statistics stay. */
static void bnorm_of_one_element_keeps_the_running_statistics(void)
{
  float x[] = {3}, y[1], w[] = {2}, b[] = {0.5f}, mean[] = {1}, var[] = {1};
  ct_shape_t s = ct_shape(2, 1, 1);
  ct_op_desc_t d;
  ct_op_args_t a = {.x = x, .y = y, .w = {w, b, mean, var}};

  ct_op_desc_init(&d, CT_OP_BNORM, &s, &s);
  d.training = 1;
  d.u.bnorm.eps = 1e-5;
  d.u.bnorm.momentum = 0.25;
  carry_out(&d, &a);
  CT_ASSERT_NEAR(y[0], 0.5, 0);
  CT_ASSERT_NEAR(mean[0], 1, 0);
  CT_ASSERT_NEAR(var[0], 1, 0);
}

static const float picture[20] = {1, 1, 0,  2, -1, 1,  3,  3,  2,  -1,
                                  0, 3, -1, 2, -2, -4, -4, -2, -5, -1};

static void run_pool(ct_op_desc_t *d, const float *x, const float *dy, float *y, float *dx)
{
  ct_op_args_t a = {.x = x, .dy = dy, .y = y, .dx = dx};
  d->passes = CT_FWD | CT_BWD_DATA;
  carry_out(d, &a);
}

/* max_pool2d(x, (2, 3), (2, 1), (0, 1)); equal maxima: the first takes the gradient */
static void max_pool_is_torchs(void)
{
  static const float want_y[] = {3, 3, 3, 3, 2, 3, 3, 3, 2, 2};
  static const float want_dx[] = {0, 0, 0, 5, 0, 0, 6, 4, 0, 0, 0, 21, 0, 19, 0, 0, 0, 0, 0, 0};
  /* relu(max_pool2d(x - 2.5, …)): where the maximum was 2 nothing goes back */
  static const float relu_y[] = {0.5f, 0.5f, 0.5f, 0.5f, 0, 0.5f, 0.5f, 0.5f, 0, 0};
  static const float relu_dx[] = {0, 0, 0, 0, 0, 0, 6, 4, 0, 0, 0, 21, 0, 0, 0, 0, 0, 0, 0, 0};
  float dy[10], y[10], dx[20], lower[20];
  ct_shape_t in = ct_shape(4, 1, 1, 4, 5), out = ct_shape(4, 1, 1, 2, 5);
  ct_op_desc_t d;

  for (int i = 0; i < 10; i++)
    dy[i] = (float)(i + 1);
  for (int i = 0; i < 20; i++)
    lower[i] = picture[i] - 2.5f;
  ct_op_desc_init(&d, CT_OP_POOL, &in, &out);
  d.u.pool.kernel[0] = d.u.pool.stride[0] = 2;
  d.u.pool.kernel[1] = 3;
  d.u.pool.stride[1] = d.u.pool.pad[1] = 1;
  run_pool(&d, picture, dy, y, dx);
  CHECK(y, want_y);
  CHECK(dx, want_dx);
  d.u.pool.relu = 1;
  run_pool(&d, lower, dy, y, dx);
  CHECK(y, relu_y);
  CHECK(dx, relu_dx);
}

/* avg_pool2d(x, (3, 2), (2, 2), (1, 1), count_include_pad=…) and adaptive_avg_pool2d(x, 1) */
static const float with_pad_y[] = {0.333333343f, 1.16666663f,  0.333333343f,
                                   -0.5f,        0.333333343f, -0.833333313f};
static const float with_pad_dx[] = {0,
                                    -0.1875f,
                                    -0.1875f,
                                    0.104166664f,
                                    0.104166664f,
                                    -0.0833333358f,
                                    0.0208333284f,
                                    0.0208333284f,
                                    0.125f,
                                    0.125f,
                                    -0.0833333358f,
                                    0.208333328f,
                                    0.208333328f,
                                    0.020833334f,
                                    0.020833334f,
                                    -0.0833333358f,
                                    0.208333328f,
                                    0.208333328f,
                                    0.020833334f,
                                    0.020833334f};
static const float without_pad_y[] = {1, 1.75f, 0.5f, -1, 0.333333343f, -0.833333313f};
static const float without_pad_dx[] = {0,
                                       -0.28125f,
                                       -0.28125f,
                                       0.15625f,
                                       0.15625f,
                                       -0.166666672f,
                                       -0.0729166716f,
                                       -0.0729166716f,
                                       0.177083328f,
                                       0.177083328f,
                                       -0.166666672f,
                                       0.208333328f,
                                       0.208333328f,
                                       0.020833334f,
                                       0.020833334f,
                                       -0.166666672f,
                                       0.208333328f,
                                       0.208333328f,
                                       0.020833334f,
                                       0.020833334f};

static void average_pool_is_torchs(void)
{
  float dy[6], y[6], dx[20];
  ct_shape_t in = ct_shape(4, 1, 1, 4, 5), out = ct_shape(4, 1, 1, 2, 3),
             one = ct_shape(4, 1, 1, 1, 1);
  ct_op_desc_t d;

  sequence(dy, 6, 37, 11, 23);
  ct_op_desc_init(&d, CT_OP_POOL, &in, &out);
  d.u.pool.kernel[0] = 3;
  d.u.pool.kernel[1] = d.u.pool.stride[0] = d.u.pool.stride[1] = 2;
  d.u.pool.pad[0] = d.u.pool.pad[1] = 1;
  d.u.pool.average = d.u.pool.include_pad = 1;
  run_pool(&d, picture, dy, y, dx);
  CHECK(y, with_pad_y);
  CHECK(dx, with_pad_dx);
  d.u.pool.include_pad = 0;
  run_pool(&d, picture, dy, y, dx);
  CHECK(y, without_pad_y);
  CHECK(dx, without_pad_dx);
  ct_op_desc_init(&d, CT_OP_POOL, &in, &one);
  d.u.pool.global = 1;
  dy[0] = 10;
  run_pool(&d, picture, dy, y, dx);
  CT_ASSERT_NEAR(y[0], -0.15, 1e-7); /* -3 / 20 */
  CT_ASSERT_NEAR(dx[19], 0.5, 0);
}

/* cross_entropy(x, labels, reduction='sum') * 0.5 */
static void xent_is_torchs(void)
{
  static const float x[] = {-4,   -0.5f, 3, -5,   -1.5f, 2,  5.5f, -2.5f, 1,
                            4.5f, -3.5f, 0, 3.5f, -4.5f, -1, 2.5f, -5.5f, -2};
  static const float want[] = {-0.499676734f,   0.0107050035f,   0.354501069f,    0.000118921846f,
                               0.00393815059f,  0.130413651f,    0.361393332f,    0.000121233948f,
                               0.00401471695f,  0.132949188f,    4.45994774e-05f, -0.498523057f,
                               0.361393332f,    0.000121233948f, -0.49598527f,    0.132949188f,
                               4.45994774e-05f, 0.00147693185f};
  static const int32_t labels[] = {0, 5, 2};
  ct_shape_t s = ct_shape(2, 3, 6);
  ct_op_desc_t d;
  ct_loss_t loss;
  float dx[18];
  ct_op_args_t a = {.x = x, .dx = dx, .labels = labels, .loss = &loss, .scale = 0.5f};

  ct_op_desc_init(&d, CT_OP_LOSS, &s, &s);
  d.passes = CT_FWD | CT_BWD_DATA;
  carry_out(&d, &a);
  CT_ASSERT_NEAR(loss.sum, 17.993179175465755, 1e-13);
  CT_ASSERT_INT(loss.samples, 3);
  CT_ASSERT_INT(loss.top1, 0);
  CT_ASSERT_INT(loss.top5, 3); /* ranks 4, 3 and 2 */
  CHECK(dx, want);
}

static void top_k_breaks_ties_by_the_lower_index(void)
{
  static const float x[] = {3, 3, 1, 0, 0, 0, 2, 0,    0,   0,     0, 0, 0, 0,
                            1, 2, 3, 4, 5, 6, 7, 1000, 999, -1000, 0, 0, 0, NAN};
  static const struct {
    int32_t label[4];
    int top1, top5;
  } cases[] = {{{0, 0, 6, 6}, 3, 3}, {{1, 4, 2, 0}, 0, 4}, {{4, 5, 1, 1}, 0, 1}};
  ct_shape_t s = ct_shape(2, 4, 7);
  ct_op_desc_t d;
  ct_loss_t loss;

  ct_op_desc_init(&d, CT_OP_LOSS, &s, &s);
  for (int i = 0; i < 3; i++) {
    ct_op_args_t a = {.x = x, .labels = cases[i].label, .loss = &loss};
    carry_out(&d, &a);
    CT_ASSERT_INT(loss.top1, cases[i].top1);
    CT_ASSERT_INT(loss.top5, cases[i].top5);
  }
}

/* Large logits: torch gives 1.31326162815094 */
static void xent_does_not_overflow(void)
{
  static const float x[] = {1000, 999, -1000};
  static const int32_t label = 1;
  ct_shape_t s = ct_shape(2, 1, 3);
  ct_op_desc_t d;
  ct_loss_t loss;
  ct_op_args_t a = {.x = x, .labels = &label, .loss = &loss};

  ct_op_desc_init(&d, CT_OP_LOSS, &s, &s);
  carry_out(&d, &a);
  CT_ASSERT_NEAR(loss.sum, 1.3132616875182228, 1e-12); /* 1 + log(1 + 1/e) */
}

/* Four steps of torch.optim.SGD with the hyper-parameters, gradients by step */
static void check_sgd(ct_hyper_t hyper, const float want[12], const float *want_state)
{
  ct_shape_t s = ct_shape(1, 3);
  ct_op_desc_t d;
  float w[3], g[3], state[3] = {NAN, NAN, NAN}; /* the first step must not read it */

  sequence(w, 3, 37, 11, 23);
  ct_op_desc_init(&d, CT_OP_UPDATE, &s, &s);
  d.u.update.rule = CT_RULE_SGD;
  for (int step = 0; step < 4; step++) {
    hyper.step = step + 1;
    sequence(g, 3, 5 + step, step + 1, 11);
    for (int i = 0; i < 3; i++)
      g[i] *= 4;
    ct_op_args_t a = {
        .w = {w}, .dy = g, .state = {state}, .count = 3, .scale = 0.25f, .hyper = hyper};
    carry_out(&d, &a);
    for (int i = 0; i < 3; i++)
      CT_ASSERT_NEAR(w[i], want[3 * step + i], 3e-7);
  }
  for (int i = 0; want_state && i < 3; i++)
    CT_ASSERT_NEAR(state[i], want_state[i], 3e-7);
}

static void sgd_is_torchs(void)
{
  static const float decay[] = {0.0500000007f, -1.13637495f, 0.686874986f, 0.0874500051f,
                                -1.17273855f,  0.711188138f, 0.112362556f, -1.23406577f,
                                0.697976947f,  0.124750197f, -1.18283165f, 0.647278965f};
  static const float damped[] = {0.0500000007f, -1.13750005f, 0.6875f,      0.113750003f,
                                 -1.16750002f,  0.756250024f, 0.183624998f, -1.22574997f,
                                 0.811875045f,  0.252762496f, -1.25317502f, 0.836937547f};
  static const float damped_state[] = {-0.691374958f, 0.274249971f, -0.250624955f};
  static const float nesterov[] = {0.0949999988f, -1.14661252f, 0.742562473f, 0.206569493f,
                                   -1.22489774f,  0.83877033f,  0.320425034f, -1.37905908f,
                                   0.878182054f,  0.423722148f, -1.36503649f, 0.828988969f};
  static const float nesterov_state[] = {-1.01241696f, 0.415071428f, -0.0187232494f};

  check_sgd((ct_hyper_t){.lr = 0.1f, .weight_decay = 0.01f}, decay, NULL);
  check_sgd((ct_hyper_t){.lr = 0.1f, .momentum = 0.9f, .dampening = 0.5f}, damped, damped_state);
  check_sgd((ct_hyper_t){.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .nesterov = 1},
            nesterov, nesterov_state);
}

/* ---- dropout ---- */

/* Sample n of the batch is at first + n of the global one; the gradient is dropped like the
 * value. */
static void dropout_op_uses_the_rule(void)
{
  enum { N = 2, SAMPLE = 6 };
  ct_dropout_t rule = ct_dropout_make(11, 12, 13, 0.25);
  ct_shape_t s = ct_shape(2, N, SAMPLE);
  float x[N * SAMPLE], y[N * SAMPLE], dx[N * SAMPLE];
  ct_op_desc_t d;
  ct_op_args_t a = {.x = x, .y = y, .dy = x, .dx = dx, .seed = 11, .step = 12, .first = 100};

  ct_op_desc_init(&d, CT_OP_DROPOUT, &s, &s);
  d.passes = CT_FWD | CT_BWD_DATA;
  d.training = 1;
  d.u.dropout.p = 0.25;
  d.u.dropout.layer = 13;
  for (int i = 0; i < N * SAMPLE; i++)
    x[i] = (float)(i + 1);
  carry_out(&d, &a);
  for (int i = 0; i < N * SAMPLE; i++) {
    float f[4];
    ct_dropout_factors(&rule, 100 + i / SAMPLE, i % SAMPLE / 4, f);
    CT_ASSERT_NEAR(y[i], x[i] * f[i % SAMPLE % 4], 0);
    CT_ASSERT_NEAR(dx[i], y[i], 0);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(conv_is_torchs),
      CT_TEST(conv_follows_the_definition),
      CT_TEST(linear_is_torchs),
      CT_TEST(bnorm_training_is_torchs),
      CT_TEST(bnorm_inference_is_torchs),
      CT_TEST(bnorm_of_one_element_keeps_the_running_statistics),
      CT_TEST(max_pool_is_torchs),
      CT_TEST(average_pool_is_torchs),
      CT_TEST(xent_is_torchs),
      CT_TEST(top_k_breaks_ties_by_the_lower_index),
      CT_TEST(xent_does_not_overflow),
      CT_TEST(sgd_is_torchs),
      CT_TEST(dropout_op_uses_the_rule),
      CT_TEST_END,
  };
  const ct_dev_opts_t opts = {.threads = 1};

  if (ct_backend_ref.open(&opts, &dev) || ct_backend_ref.queue->create(dev, &queue)) {
    printf("Bail out! %s\n", ct_err_last()->text);
    return 1;
  }
  int failed = ct_test_main("ref arithmetic", tests, argc, argv);
  ct_backend_ref.queue->destroy(queue);
  ct_backend_ref.close(dev);
  return failed;
}
