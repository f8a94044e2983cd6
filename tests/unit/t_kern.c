/* Own kernels of the CPU backend: what the conformance suite cannot see from outside.
 *
 * Every instruction set of this processor and every number of threads is tried on the same op; the
 * loops for any processor on one thread are the measure. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "cpu/kern/loops.h"
#include "cpu/ct_cpu.h"
#include "tests/harness/ct_test.h"

static ct_dev_t *dev;
static ct_queue_t *queue;
static cpu__isa_t widest;

enum { X, X2, DY, DY2, INPUTS };
enum { Y, DX, DX2, DW0, DW1, MEAN, VAR, OUTPUTS };

/* All the memory of one op: inputs, the same at each call; outputs and their elements. */
typedef struct memory {
  float *in[INPUTS], *out[OUTPUTS], *w[2];
  int64_t count[OUTPUTS];
  int32_t labels[64];
  ct_loss_t loss;
} memory_t;

static float *numbers(int64_t count, uint32_t stream, float offset)
{
  float *v = ct_mem_array(count, sizeof *v, "test");
  for (int64_t i = 0; v && i < count; i++)
    v[i] = ct_rng_uniform(1, CT_RNG_TEST, stream, (uint64_t)i) - 0.5f + offset;
  return v;
}

/* Inputs are random; the lanes that pad a blocked layout are 0. */
static float *activation(const ct_shape_t *s, uint32_t stream, float offset)
{
  cpu__view_t v = cpu__view(s);
  float *p = numbers(ct_shape_padded(s), stream, offset);

  for (int64_t i = 0; p && i < v.n * v.groups * v.inner * v.lanes; i++) {
    int64_t channel = i / (v.lanes * v.inner) % v.groups * v.lanes + i % v.lanes;
    if (channel >= v.c) p[i] = 0;
  }
  return p;
}

static void open_memory(memory_t *m, const ct_op_desc_t *d, float offset)
{
  int64_t channels = d->x.ndim > 1 ? d->x.dim[1] : 1;
  int64_t x = ct_shape_padded(&d->x), y = ct_shape_padded(&d->y);
  int64_t count[OUTPUTS] = {y, x, x, channels, channels, channels, channels};

  memset(m, 0, sizeof *m);
  for (int i = 0; i < INPUTS; i++)
    m->in[i] = activation(i < DY ? &d->x : &d->y, (uint32_t)i, i == X ? offset : 0);
  for (int i = 0; i < 2; i++)
    m->w[i] = numbers(channels, (uint32_t)(10 + i), 1);
  for (int i = 0; i < OUTPUTS; i++) {
    m->count[i] = count[i];
    m->out[i] = ct_mem_array(count[i], sizeof(float), "test");
  }
  for (int i = 0; i < 64; i++)
    m->labels[i] = (int32_t)(i * 7 % channels);
}

static void close_memory(memory_t *m)
{
  for (int i = 0; i < INPUTS; i++)
    ct_mem_free(m->in[i]);
  for (int i = 0; i < OUTPUTS; i++)
    ct_mem_free(m->out[i]);
  for (int i = 0; i < 2; i++)
    ct_mem_free(m->w[i]);
}

static void carry_out(const ct_op_desc_t *d, memory_t *m, cpu__isa_t isa, int threads)
{
  const ct_op_ops_t *ops = ct_backend_cpu.op;
  ct_op_t *op;
  ct_op_info_t info;
  ct_op_args_t a = {.x = m->in[X],
                    .x2 = m->in[X2],
                    .y = m->out[Y],
                    .dy = m->in[DY],
                    .dy2 = m->in[DY2],
                    .dx = m->out[DX],
                    .dx2 = m->out[DX2],
                    .w = {m->w[0], m->w[1], m->out[MEAN], m->out[VAR]},
                    .dw = {m->out[DW0], m->out[DW1]},
                    .labels = m->labels,
                    .loss = &m->loss,
                    .scale = 0.5f};

  dev->isa = isa;
  dev->threads = threads;
  if (CT_ASSERT_OK(ops->prepare(dev, d, NULL, &op, &info))) return;
  if (d->kind == CT_OP_POOL) a.dy2 = NULL;
  a.saved = ct_mem_alloc(info.saved + 1, "test");
  a.scratch = ct_mem_alloc(info.scratch + 1, "test");
  for (int i = MEAN; i <= VAR; i++)
    memset(m->out[i], 0, (size_t)m->count[i] * sizeof(float));
  a.pass = CT_FWD;
  CT_ASSERT_OK(ops->run(queue, op, &a));
  a.pass = d->passes & ~CT_FWD;
  CT_ASSERT_OK(ops->run(queue, op, &a));
  ct_mem_free(a.saved);
  ct_mem_free(a.scratch);
  ops->release(op);
}

/* The largest difference of all outputs. */
static double difference(const memory_t *a, const memory_t *b)
{
  double most = 0;

  for (int i = 0; i < OUTPUTS; i++) {
    double off = ct_test_off(b->out[i], a->out[i], a->count[i]).most;
    if (off > most) most = off;
  }
  return most;
}

static int is_same(const memory_t *a, const memory_t *b)
{
  int same = memcmp(&a->loss, &b->loss, sizeof a->loss) == 0;

  for (int i = 0; i < OUTPUTS; i++)
    same &= memcmp(a->out[i], b->out[i], (size_t)a->count[i] * sizeof(float)) == 0;
  return same;
}

/* Each instruction set is near the loops for any processor; any number of threads gives the same
 * bits. */
static void check(const ct_op_desc_t *d, double tolerance)
{
  memory_t any, one, many;
  char text[160];

  open_memory(&any, d, 0);
  open_memory(&one, d, 0);
  open_memory(&many, d, 0);
  carry_out(d, &any, CPU__PORTABLE, 1);
  for (cpu__isa_t isa = CPU__PORTABLE; isa <= widest; isa++) {
    carry_out(d, &one, isa, 1);
    double off = difference(&any, &one);
    if (off > tolerance) printf("# isa %d: %s\n", (int)isa, ct_op_text(d, text, sizeof text));
    CT_ASSERT_NEAR(off, 0, tolerance);
    CT_ASSERT_NEAR(one.loss.sum, any.loss.sum, tolerance);
  }
  for (int threads = 2; threads <= 5; threads += 3) {
    carry_out(d, &many, widest, threads);
    CU_ASSERT(is_same(&one, &many));
  }
  close_memory(&any);
  close_memory(&one);
  close_memory(&many);
}

static const ct_layout_t layouts[] = {CT_PLAIN, CT_C8, CT_C16, CT_NHWC};

static ct_op_desc_t bnorm(ct_shape_t x, ct_layout_t layout, int relu, int add)
{
  ct_op_desc_t d;

  x.layout = layout;
  ct_op_desc_init(&d, CT_OP_BNORM, &x, &x);
  d.passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  d.training = 1;
  d.u.bnorm.eps = 1e-5;
  d.u.bnorm.momentum = 1;
  d.u.bnorm.relu = relu;
  d.u.bnorm.add = add;
  return d;
}

static ct_op_desc_t pool(ct_shape_t x, ct_layout_t layout, int kernel, int stride, int average)
{
  ct_shape_t y = x;
  ct_op_desc_t d;

  for (int i = 2; i < 4; i++)
    y.dim[i] = ct_op_window_out(x.dim[i], kernel, stride, kernel / 2 - 1 + kernel % 2, 1);
  x.layout = y.layout = layout;
  ct_op_desc_init(&d, CT_OP_POOL, &x, &y);
  d.passes = CT_FWD | CT_BWD_DATA;
  for (int i = 0; i < 2; i++) {
    d.u.pool.kernel[i] = kernel;
    d.u.pool.stride[i] = stride;
    d.u.pool.pad[i] = kernel / 2 - 1 + kernel % 2;
  }
  d.u.pool.average = average;
  return d;
}

static void all_agree_on_bnorm(void)
{
  for (int i = 0; i < 4; i++) {
    /* blocks for all threads, and more threads than blocks */
    ct_op_desc_t many =
        bnorm(ct_shape(4, INT64_C(3), INT64_C(83), INT64_C(9), INT64_C(7)), layouts[i], 0, i % 2);
    ct_op_desc_t few = bnorm(ct_shape(4, INT64_C(6), INT64_C(5), INT64_C(20), INT64_C(21)),
                             layouts[i], 0, 1 - i % 2);
    check(&many, 2e-5);
    check(&few, 2e-4);
  }
}

/* Innermost channels are cut into blocks, and pixels into strips: several of both. */
static void all_agree_on_many_innermost_channels(void)
{
  ct_op_desc_t nhwc = bnorm(ct_shape(4, INT64_C(3), INT64_C(1101), INT64_C(5), INT64_C(9)), CT_NHWC,
                            0, 1),
               vectors = bnorm(ct_shape(2, INT64_C(133), INT64_C(1101)), CT_PLAIN, 0, 0);

  check(&nhwc, 5e-5);
  check(&vectors, 5e-5);
}

static void all_agree_on_pooling(void)
{
  ct_shape_t x = ct_shape(4, INT64_C(5), INT64_C(21), INT64_C(14), INT64_C(16));

  for (int i = 0; i < 4; i++) {
    for (int average = 0; average < 2; average++) {
      ct_op_desc_t two = pool(x, layouts[i], 2, 2, average);
      ct_op_desc_t three = pool(x, layouts[i], 3, 2, average);
      check(&two, 1e-6);
      check(&three, 1e-6);
    }
  }
}

static void all_agree_on_the_loss(void)
{
  static const int64_t classes[] = {2, 10, 1000};

  for (int i = 0; i < 3; i++) {
    ct_op_desc_t d;
    ct_shape_t x = ct_shape(2, INT64_C(60), classes[i]), y = ct_shape(1, INT64_C(60));
    ct_op_desc_init(&d, CT_OP_LOSS, &x, &y);
    d.passes = CT_FWD | CT_BWD_DATA;
    check(&d, 2e-5);
  }
}

static void all_drop_the_same(void)
{
  for (int i = 0; i < 4; i++) {
    ct_op_desc_t d;
    ct_shape_t x = ct_shape(4, INT64_C(3), INT64_C(37), INT64_C(11), INT64_C(11));
    x.layout = layouts[i];
    ct_op_desc_init(&d, CT_OP_DROPOUT, &x, &x);
    d.passes = CT_FWD | CT_BWD_DATA;
    d.training = 1;
    d.u.dropout.p = 0.4;
    check(&d, 0);
  }
}

/* Above CPU__STREAM_MIN outputs are stored around the caches. */
static void large_tensors_come_out_whole(void)
{
  ct_shape_t x = ct_shape(4, INT64_C(2), INT64_C(30), INT64_C(184), INT64_C(200));
  ct_shape_t many = ct_shape(4, INT64_C(2), INT64_C(32), INT64_C(184), INT64_C(200));
  ct_op_desc_t d[5] = {bnorm(x, CT_C16, 0, 1), pool(x, CT_C16, 2, 2, 0), pool(x, CT_C8, 3, 1, 0),
                       bnorm(many, CT_NHWC, 0, 1)};

  x.layout = CT_C16;
  CU_ASSERT(ct_shape_bytes(&x) > CPU__STREAM_MIN);
  ct_op_desc_init(&d[4], CT_OP_RELU, &x, &x);
  d[4].passes = CT_FWD | CT_BWD_DATA;
  for (int i = 0; i < 5; i++) {
    memory_t any, own;
    open_memory(&any, &d[i], 0);
    open_memory(&own, &d[i], 0);
    carry_out(&d[i], &any, CPU__PORTABLE, 1);
    carry_out(&d[i], &own, widest, 2);
    CT_ASSERT_NEAR(difference(&any, &own), 0, 1e-3);
    close_memory(&any);
    close_memory(&own);
  }
}

/* Variance 1/12 around a mean of 10000: squares that are not centred would lose all of it. */
static void variance_survives_a_large_mean(void)
{
  for (int i = 0; i < 4; i++) {
    ct_op_desc_t d =
        bnorm(ct_shape(4, INT64_C(16), INT64_C(20), INT64_C(24), INT64_C(25)), layouts[i], 0, 0);
    memory_t m;
    open_memory(&m, &d, 10000);
    carry_out(&d, &m, widest, 2);
    for (int64_t c = 0; c < 20; c++) {
      CT_ASSERT_NEAR(m.out[MEAN][c], 10000, 0.02);
      CT_ASSERT_NEAR(m.out[VAR][c], 1.0 / 12, 0.003);
    }
    close_memory(&m);
  }
}

/* ---- bfloat16 ---- */

/* The memory of the float32 op is large enough. */
static void check_bf16(ct_op_desc_t d)
{
  memory_t one, many;

  open_memory(&one, &d, 0);
  open_memory(&many, &d, 0);
  d.x.dtype = d.y.dtype = CT_BF16;
  for (int i = 0; i < INPUTS; i++) {
    int64_t count = ct_shape_padded(i < DY ? &d.x : &d.y);
    dev->isa = widest;
    cpu__from_floats(dev, count, one.in[i], many.in[i], 0);
    memcpy(one.in[i], many.in[i], (size_t)count * sizeof(uint16_t));
  }
  carry_out(&d, &one, widest, 1);
  for (int threads = 2; threads <= 5; threads += 3) {
    carry_out(&d, &many, widest, threads);
    CU_ASSERT(is_same(&one, &many));
  }
  close_memory(&one);
  close_memory(&many);
}

static void bf16_does_not_depend_on_threads(void)
{
  for (int i = 0; i < 4; i++) {
    ct_shape_t x = ct_shape(4, INT64_C(6), INT64_C(37), INT64_C(20), INT64_C(21));
    check_bf16(bnorm(x, layouts[i], 1, i % 2));
    check_bf16(pool(x, layouts[i], 3, 2, i % 2));
  }
}

static uint32_t bits_of(float f)
{
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits)
{
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* What each instruction set's loops make of some floats, and what one of them is to become. */
static void check_rounding(const uint32_t *in, const uint16_t *want, int64_t count)
{
  float *x = ct_mem_array(count, sizeof *x, "test");
  uint16_t *y = ct_mem_array(count, sizeof *y, "test");

  memcpy(x, in, (size_t)count * sizeof *x);
  for (cpu__isa_t isa = CPU__PORTABLE; isa <= widest; isa++) {
    int64_t wrong = 0;
    dev->isa = isa;
    memset(y, 0x55, (size_t)count * sizeof *y);
    cpu__loops(dev, CT_BF16)->from_floats(count, x, y, 0, 0);
    for (int64_t i = 0; i < count; i++)
      wrong += y[i] != want[i] || ct_bf16_of(x[i]) != want[i];
    CT_ASSERT_INT(wrong, 0);
  }
  ct_mem_free(x);
  ct_mem_free(y);
}

/* Every one there is: exact upwards, and back the same; a signalling NaN comes back quiet. */
static void every_bf16_goes_up_and_back(void)
{
  enum { ALL = 1 << 16, ODD = 3 }; /* from an odd place: no loop runs over whole vectors only */
  uint16_t *all = ct_mem_array(ALL, sizeof *all, "test");
  uint16_t *want = ct_mem_array(ALL, sizeof *want, "test");
  float *up = ct_mem_array(ALL, sizeof *up, "test");

  for (int i = 0; i < ALL; i++) {
    all[i] = want[i] = (uint16_t)i;
    if ((i & 0x7fff) > 0x7f80) want[i] |= 0x40;
  }
  for (cpu__isa_t isa = CPU__PORTABLE; isa <= widest; isa++) {
    int64_t wrong = 0;
    dev->isa = isa;
    cpu__loops(dev, CT_BF16)->to_floats(ALL - ODD, all + ODD, up);
    for (int i = ODD; i < ALL; i++)
      wrong += bits_of(up[i - ODD]) != (uint32_t)i << 16 ||
               bits_of(ct_bf16_float(all[i])) != (uint32_t)i << 16;
    CT_ASSERT_INT(wrong, 0);
    check_rounding((const uint32_t *)(const void *)up, want + ODD, ALL - ODD);
  }
  ct_mem_free(all);
  ct_mem_free(want);
  ct_mem_free(up);
}

static void floats_are_rounded_to_the_nearest(void)
{
  static const struct {
    uint32_t in;
    uint16_t want;
  } rows[] = {
      {0x3f808000, 0x3f80}, /* ties, to even */
      {0x3f818000, 0x3f82}, {0xbf808000, 0xbf80}, {0xbf818000, 0xbf82},
      {0x3f807fff, 0x3f80}, /* just below and above */
      {0x3f808001, 0x3f81}, {0x3f817fff, 0x3f81}, {0x3fffffff, 0x4000},
      {0x7f7fffff, 0x7f80}, /* the largest float is nearer to infinity */
      {0x7f7f7fff, 0x7f7f}, {0x7f800000, 0x7f80}, {0xff800000, 0xff80},
      {0x7f800001, 0x7fc0}, /* NaN, even if all its bits are lost */
      {0x7fffffff, 0x7fff}, {0xff80ffff, 0xffc0}, {0x00000000, 0x0000},
      {0x80000000, 0x8000}, /* denormal numbers */
      {0x00000001, 0x0000}, {0x00008001, 0x0001}, {0x80018000, 0x8002},
      {0x007fffff, 0x0080}, {0x00400000, 0x0040},
  };
  enum { COUNT = sizeof rows / sizeof rows[0] };
  uint32_t in[COUNT];
  uint16_t want[COUNT];

  for (int i = 0; i < COUNT; i++) {
    in[i] = rows[i].in;
    want[i] = rows[i].want;
  }
  check_rounding(in, want, COUNT);
}

/* PyTorch's ReLU: what is not a number stays so, in every instruction set and type. */
static void relu_keeps_nan(void)
{
  enum { COUNT = 37 };
  float x[COUNT], y[COUNT];
  uint16_t low[COUNT], low_y[COUNT];

  for (int i = 0; i < COUNT; i++) {
    x[i] = i % 3 == 0 ? float_of(0x7fc00000) : i % 3 == 1 ? -1 : 2;
    low[i] = ct_bf16_of(x[i]);
  }
  for (cpu__isa_t isa = CPU__PORTABLE; isa <= widest; isa++) {
    int wrong = 0;
    dev->isa = isa;
    cpu__loops(dev, CT_F32)->add(COUNT, x, NULL, y, 1, 0);
    cpu__loops(dev, CT_BF16)->add(COUNT, low, NULL, low_y, 1, 0);
    for (int i = 0; i < COUNT; i++) {
      float v = ct_bf16_float(low_y[i]);
      wrong += i % 3 == 0 ? !isnan(y[i]) || !isnan(v)
                          : y[i] != (i % 3 == 1 ? 0 : 2) || v != (i % 3 == 1 ? 0 : 2);
    }
    CT_ASSERT_INT(wrong, 0);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(all_agree_on_bnorm),
                                    CT_TEST(all_agree_on_many_innermost_channels),
                                    CT_TEST(all_agree_on_pooling),
                                    CT_TEST(all_agree_on_the_loss),
                                    CT_TEST(all_drop_the_same),
                                    CT_TEST(large_tensors_come_out_whole),
                                    CT_TEST(variance_survives_a_large_mean),
                                    CT_TEST(every_bf16_goes_up_and_back),
                                    CT_TEST(floats_are_rounded_to_the_nearest),
                                    CT_TEST(relu_keeps_nan),
                                    CT_TEST(bf16_does_not_depend_on_threads),
                                    CT_TEST_END};
  ct_dev_opts_t opts = {.threads = 1};

  if (ct_backend_cpu.open(&opts, &dev) || ct_backend_cpu.queue->create(dev, &queue)) return 1;
  widest = dev->isa;
  int rc = ct_test_main("own kernels", tests, argc, argv);
  ct_backend_cpu.queue->destroy(queue);
  ct_backend_cpu.close(dev);
  return rc;
}
