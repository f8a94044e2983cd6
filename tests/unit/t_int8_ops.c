/* Ops in eight bits: the CPU's against the reference, which rounds bytes and weights and computes
 * in float32. */
#include <math.h>
#include <string.h>

#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "cpu/ct_cpu.h"
#include "ref/ct_ref.h"
#include "tests/conform/draw.h"
#include "tests/harness/ct_test.h"

enum { REF, CPU, BACKENDS };

static const ct_backend_t *backend(int b)
{
  return b == CPU ? &ct_backend_cpu : &ct_backend_ref;
}

static ct_dev_t *open_device(int b)
{
  ct_dev_t *dev = NULL;
  const ct_dev_opts_t o = {.threads = 2};
  CT_ASSERT_OK(backend(b)->open(&o, &dev));
  return dev;
}

static uint8_t byte_of(int what, int64_t i)
{
  float v = 128 + 40 * ct_rng_normal(5, CT_RNG_TEST, (uint32_t)what, (uint64_t)i);
  return (uint8_t)fmaxf(0, fminf(v, 255));
}

static float number(int what, int64_t i)
{
  return 0.3F * ct_rng_normal(6, CT_RNG_TEST, (uint32_t)what, (uint64_t)i);
}

/* x of a case in a layout: what lies at element i of the plain one. */
static void *make_input(const ct_shape_t *s, int what)
{
  int64_t n = ct_shape_count(s), channels = s->dim[1], inner = ct_shape_sample(s) / channels;
  uint8_t *q = ct_mem_array(n + 1, sizeof(float), "test");
  for (int64_t i = 0; i < n; i++) {
    int64_t sample = i / (channels * inner), c = i / inner % channels, at = i;
    if (s->layout == CT_NHWC) at = (sample * inner + i % inner) * channels + c;
    if (s->dtype == CT_U8)
      q[at] = byte_of(what, i);
    else
      ((float *)(void *)q)[at] = number(what, i);
  }
  return q;
}

/* One forward run on a backend, plain float32 or bytes into out.  0: it does not support it. */
static int run_on(int b, const ct_op_desc_t *desc, int times, float *out)
{
  const ct_backend_t *be = backend(b);
  ct_dev_t *dev = open_device(b);
  ct_queue_t *q = NULL;
  ct_op_t *op = NULL;
  ct_op_info_t info;
  char why[128];
  ct_op_desc_t d = *desc;
  d.x.layout = be->op->wants(dev, &d);
  int able = be->op->supports(dev, &d, why);
  if (!able) goto out;
  CT_ASSERT_OK(be->queue->create(dev, &q));
  CT_ASSERT_OK(be->op->prepare(dev, &d, NULL, &op, &info));
  ct_shape_t second = ct_op_second(&d), y = d.y;
  second.layout = d.x.layout;
  second.dtype = d.x.dtype;
  y.layout = info.y_layout;
  ct_op_args_t a = {.pass = CT_FWD, .x = make_input(&d.x, 1), .x2 = make_input(&second, 2)};
  a.y = ct_mem_alloc(ct_shape_bytes(&y) + 1, "test");
  a.scratch = ct_mem_alloc(info.scratch + 64, "test");
  a.saved = ct_mem_alloc(info.saved + 64, "test");
  for (int t = 0; t < times; t++) { /* again with other parameters */
    for (int i = 0; i < CT_OP_PARAMS; i++) {
      int64_t n = ct_op_param_count(&d, i);
      if (!n) continue;
      float *plain = ct_mem_array(n, sizeof *plain, "test");
      for (int64_t k = 0; k < n; k++)
        plain[k] = number(10 + i + 100 * t, k);
      if (!a.w[i]) a.w[i] = ct_mem_alloc(info.param_bytes[i], "test");
      CT_ASSERT_OK(be->op->pack(q, op, i, plain, a.w[i]));
      ct_mem_free(plain);
    }
    CT_ASSERT_OK(be->op->run(q, op, &a));
    CT_ASSERT_OK(be->queue->sync(q));
  }
  int64_t n = ct_shape_count(&y), channels = y.dim[1], inner = ct_shape_sample(&y) / channels;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i, sample = i / (channels * inner), c = i / inner % channels;
    if (y.layout == CT_NHWC) at = (sample * inner + i % inner) * channels + c;
    out[i] = y.dtype == CT_U8 ? ((uint8_t *)a.y)[at] : ((float *)a.y)[at];
  }
  for (int i = 0; i < CT_OP_PARAMS; i++)
    ct_mem_free(a.w[i]);
  ct_mem_free((void *)(uintptr_t)a.x);
  ct_mem_free((void *)(uintptr_t)a.x2);
  ct_mem_free(a.y);
  ct_mem_free(a.scratch);
  ct_mem_free(a.saved);
out:
  be->op->release(op);
  be->queue->destroy(q);
  be->close(dev);
  return able;
}

static int has_vnni(void)
{
  ct_dev_t *dev = open_device(CPU);
  char why[128];
  ct_op_desc_t d;
  const ct_shape_t x = ct_shape(2, 16, 64);
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &x);
  d.x.dtype = CT_U8;
  d.q.x = ct_quant_params_of(0, 1);
  int able = ct_backend_cpu.op->supports(dev, &d, why);
  ct_backend_cpu.close(dev);
  return able || !strstr(why, "VNNI");
}

/* Bytes may differ by one where a sum lies in the middle between two, or almost: in few places.
 * small: nothing but such a place, or zeros, may be all there is, or one byte whose number lies so
 * may be in a third of it, and the CPU may refuse it. */
static void compare(const ct_op_desc_t *d, const char *what, int small)
{
  int64_t n = ct_shape_count(&d->y), off = 0;
  float *want = ct_mem_array(n, sizeof *want, "test"), *got = ct_mem_array(n, sizeof *got, "test");
  int product = d->kind == CT_OP_CONV || d->kind == CT_OP_LINEAR;
  double largest = 0, most = 0;
  CU_ASSERT(run_on(REF, d, 2, want));
  int able = run_on(CPU, d, 2, got);
  if (!able && (small || (product && !has_vnni()))) goto out;
  CU_ASSERT(able);
  for (int64_t i = 0; i < n; i++) {
    double e = fabs((double)got[i] - want[i]);
    if (e > most) most = e;
    if (fabs((double)want[i]) > largest) largest = fabs((double)want[i]);
    off += e > 0;
  }
  int good = d->y.dtype == CT_U8 ? most <= 1 && off <= n / (small ? 3 : 20) + small
                                 : most <= 1e-5 * fmax(largest, small);
  int empty = largest == 0 && !small;
  if (!able || !good || empty)
    fprintf(stderr, "%s: able %d, differs by %g of %g, %ld of %ld\n", what, able, most, largest,
            (long)off, (long)n);
  CU_ASSERT(good && !empty);
out:
  ct_mem_free(want);
  ct_mem_free(got);
}

static void same_on_both(const ct_op_desc_t *d, const char *what)
{
  compare(d, what, 0);
}

static void bytes(ct_op_desc_t *d, double low, double high)
{
  d->x.dtype = CT_U8;
  d->q.x = ct_quant_params_of(low, high);
}

static void to_bytes(ct_op_desc_t *d, double low, double high)
{
  d->y.dtype = CT_U8;
  d->q.y = ct_quant_params_of(low, high);
}

static ct_op_desc_t conv(int64_t c, int64_t out, int size, int kernel, int stride, int groups)
{
  ct_op_desc_t d;
  int pad = kernel / 2;
  int64_t y = (size + 2 * pad - kernel) / stride + 1;
  ct_shape_t in = ct_shape(4, 2, c, size, size), to = ct_shape(4, 2, out, y, y);
  ct_op_desc_init(&d, CT_OP_CONV, &in, &to);
  for (int i = 0; i < 3; i++) {
    d.u.conv.kernel[i] = kernel;
    d.u.conv.stride[i] = stride;
    d.u.conv.pad[i] = pad;
    d.u.conv.dilate[i] = 1;
  }
  d.u.conv.groups = groups;
  d.u.conv.bias = 1;
  return d;
}

static void convolutions(void)
{
  const struct {
    int64_t c, out;
    int size, kernel, stride, groups, relu;
    double low, high, y_low, y_high;
  } c[] = {{3, 32, 20, 7, 2, 1, 1, -2, 2.5, 0, 30},      {32, 48, 14, 3, 1, 1, 1, 0, 6, 0, 20},
           {64, 32, 7, 1, 1, 1, 0, -1, 3, -8, 8},        {32, 64, 9, 1, 2, 1, 1, 0, 3, 0, 9},
           {32, 32, 11, 3, 1, 32, 1, 0, 6, 0, 9},        {32, 32, 11, 3, 2, 4, 0, 0, 3, -9, 5},
           {32, 40, 14, 3, 1, 1, 0, -3, 4, -40, 40},     {1, 20, 28, 5, 1, 1, 1, -0.5, 3, 0, 20},
           {32, 48, 14, 1, 1, 1, CT_RELU6, -3, 4, 0, 20}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++)
    for (int to = 0; to < 2; to++) {
      ct_op_desc_t d = conv(c[i].c, c[i].out, c[i].size, c[i].kernel, c[i].stride, c[i].groups);
      char text[160];
      d.u.conv.relu = c[i].relu;
      bytes(&d, c[i].low, c[i].high);
      if (to) to_bytes(&d, c[i].y_low, c[i].y_high);
      same_on_both(&d, ct_op_text(&d, text, sizeof text));
    }
}

/* Right, or refused. */
static void groups_of_padded_windows(void)
{
  const struct {
    int64_t c, out;
    int size, kernel, groups, volume;
  } c[] = {{85, 85, 5, 4, 5, 0},
           {34, 30, 4, 4, 2, 0},
           {6, 26, 6, 8, 2, 0},
           {8, 8, 3, 2, 8, 1},
           {17, 17, 4, 4, 17, 1}};
  for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
    ct_op_desc_t d = conv(c[i].c, c[i].out, c[i].size, c[i].kernel, 1, c[i].groups);
    char text[160];
    d.x.ndim = d.y.ndim = 4 + c[i].volume;
    d.x.dim[4] = d.x.dim[3];
    d.y.dim[4] = d.y.dim[3];
    bytes(&d, -2, 2.5);
    compare(&d, ct_op_text(&d, text, sizeof text), 1);
  }
}

static void sums_into_convolutions(void)
{
  for (int relu = 0; relu < 2; relu++)
    for (int kernel = 1; kernel < 4; kernel += 2) {
      ct_op_desc_t d = conv(64, 64, 8, kernel, 1, 1);
      d.u.conv.relu = relu;
      d.u.conv.add = 1;
      bytes(&d, 0, 5);
      to_bytes(&d, relu ? 0 : -20, 25);
      d.q.x2 = ct_quant_params_of(-9, 12);
      same_on_both(&d, "conv + x2");
    }
}

static ct_op_desc_t linear(int ndim, int in, int out)
{
  ct_op_desc_t d;
  ct_shape_t x = ndim == 2 ? ct_shape(2, 5, in) : ct_shape(3, 2, 7, in);
  ct_shape_t y = ndim == 2 ? ct_shape(2, 5, out) : ct_shape(3, 2, 7, out);
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &y);
  d.u.linear.bias = 1;
  return d;
}

static void linear_layers(void)
{
  for (int ndim = 2; ndim < 4; ndim++)
    for (int relu = 0; relu < 2; relu++) {
      ct_op_desc_t d = linear(ndim, 96, 30);
      d.u.linear.relu = relu;
      bytes(&d, -2, 3);
      same_on_both(&d, "linear");
      to_bytes(&d, relu ? 0 : -9, 8);
      same_on_both(&d, "linear to bytes");
      d = linear(ndim, 64, 10);
      d.u.linear.relu = relu;
      d.q.dynamic = 1;
      same_on_both(&d, "dynamic linear");
    }
}

static ct_op_desc_t pool(int kernel, int stride, int pad)
{
  ct_op_desc_t d;
  int64_t y = (13 + 2 * pad - kernel) / stride + 1;
  ct_shape_t in = ct_shape(4, 2, 24, 13, 13), to = ct_shape(4, 2, 24, y, y);
  ct_op_desc_init(&d, CT_OP_POOL, &in, &to);
  for (int i = 0; i < 3; i++) {
    d.u.pool.kernel[i] = kernel;
    d.u.pool.stride[i] = stride;
    d.u.pool.pad[i] = pad;
  }
  bytes(&d, -2, 2);
  return d;
}

static void pooling(void)
{
  ct_op_desc_t d = pool(3, 2, 1);
  to_bytes(&d, -2, 2);
  same_on_both(&d, "max pooling");
  for (int include = 0; include < 2; include++) {
    d = pool(3, 2, 1);
    d.u.pool.average = 1;
    d.u.pool.include_pad = include;
    same_on_both(&d, "average to float32");
    to_bytes(&d, -1, 1);
    same_on_both(&d, "average");
  }
  d = pool(13, 1, 0);
  d.u.pool.global = 1;
  same_on_both(&d, "global average to float32");
  to_bytes(&d, -1, 1);
  same_on_both(&d, "global average");
}

static void pointwise(void)
{
  const ct_shape_t x = ct_shape(4, 2, 10, 5, 5), wide = ct_shape(4, 2, 25, 5, 5);
  const ct_act_t acts[] = {CT_ACT_RELU6, CT_ACT_SIGMOID, CT_ACT_SILU, CT_ACT_GELU};
  ct_op_desc_t d;
  ct_op_desc_init(&d, CT_OP_ADD, &x, &x);
  for (int relu = 0; relu < 2; relu++) {
    d.u.add.relu = relu;
    bytes(&d, -2, 3);
    d.q.x2 = ct_quant_params_of(-1, 4);
    to_bytes(&d, relu ? 0 : -4, 5);
    same_on_both(&d, "add");
  }
  to_bytes(&d, -4, 5); /* 0 is not byte 0 */
  same_on_both(&d, "add with a ReLU");
  for (int i = 0; i < 4; i++) {
    ct_op_desc_init(&d, CT_OP_ACT, &x, &x);
    d.u.act.kind = acts[i];
    bytes(&d, -4, 9);
    to_bytes(&d, -1, 7);
    same_on_both(&d, "activation");
  }
  ct_op_desc_init(&d, CT_OP_RELU, &x, &x);
  bytes(&d, -4, 9);
  to_bytes(&d, 0, 9);
  same_on_both(&d, "relu");
  ct_op_desc_init(&d, CT_OP_CONCAT, &x, &wide);
  bytes(&d, -4, 9);
  d.q.x2 = ct_quant_params_of(-9, 9);
  to_bytes(&d, -9, 9);
  same_on_both(&d, "concat");
}

static void reorders(void)
{
  const ct_shape_t x = ct_shape(4, 2, 20, 9, 9), flat = ct_shape(2, 2, 20 * 81);
  for (int layout = 0; layout < 2; layout++) {
    ct_op_desc_t d;
    ct_op_desc_init(&d, CT_OP_REORDER, &x, &x);
    d.x.layout = d.y.layout = CT_PLAIN;
    to_bytes(&d, -0.5, 0.7);
    same_on_both(&d, "rounding");
    ct_op_desc_init(&d, CT_OP_REORDER, &x, layout ? &flat : &x);
    bytes(&d, -3, 7);
    same_on_both(&d, "numbers");
    to_bytes(&d, -3, 7);
    same_on_both(&d, "moving");
  }
}

/* ---- what is drawn ---- */

static draws_t range = {.seed = 1, .count = 150};

static ct_quant_params_t draw_pair(dice_t *dice, int above)
{
  double low = above ? 0 : -0.1 * (double)dice_throw(dice, 0, 90);
  return ct_quant_params_of(low, 0.1 * (double)dice_throw(dice, 1, 120));
}

/* Ops of float32 become ops of bytes. */
static void try_draw(int64_t i)
{
  static const ct_op_kind_t kinds[] = {CT_OP_CONV,   CT_OP_CONV, CT_OP_POOL,   CT_OP_LINEAR,
                                       CT_OP_CONCAT, CT_OP_ADD,  CT_OP_SELECT, CT_OP_ACT,
                                       CT_OP_RELU,   CT_OP_LSTM};
  dice_t dice = {.seed = range.seed, .index = (uint64_t)i};
  draw_t w;
  ct_op_desc_t *d = &w.c.desc;
  char text[160], why[128];
  draw_case(&dice, kinds[dice_throw(&dice, 0, 9)], &w);
  d->training = 0;
  d->x.dtype = d->y.dtype = CT_F32;
  d->q.dynamic = d->kind == CT_OP_LSTM || (d->kind == CT_OP_LINEAR && dice_is(&dice, 50));
  if (!d->q.dynamic) {
    d->x.dtype = CT_U8;
    d->q.x = draw_pair(&dice, 0);
    d->q.x2 = draw_pair(&dice, 0);
    if (dice_is(&dice, 70)) d->y.dtype = CT_U8;
    d->q.y = d->y.dtype == CT_U8 ? draw_pair(&dice, dice_is(&dice, 50)) : (ct_quant_params_t){0};
    int keeps = d->kind == CT_OP_SELECT || (d->kind == CT_OP_POOL && !d->u.pool.average);
    if (keeps && d->y.dtype == CT_U8) d->q.y = d->q.x;
  }
  if (!ct_op_check(d, why)) return;
  unsigned failed = draws_next(range.seed, i, ct_op_text(d, text, sizeof text));
  compare(d, text, 1);
  draws_done(failed);
}

static void drawn(void)
{
  draws_begin("t_int8_ops");
  for (int64_t i = range.first; i < range.first + range.count; i++)
    try_draw(i);
  draws_end();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(convolutions),
      CT_TEST(groups_of_padded_windows),
      CT_TEST(sums_into_convolutions),
      CT_TEST(linear_layers),
      CT_TEST(pooling),
      CT_TEST(pointwise),
      CT_TEST(reorders),
      CT_TEST(drawn),
      CT_TEST_END,
  };
  char *only[] = {argv[0], "drawn", NULL};
  if (!draws_options(&range, &argc, argv)) return 1;
  return ct_test_main("int8_ops", tests, range.asked ? 2 : argc, range.asked ? only : argv);
}
