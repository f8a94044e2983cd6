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
#include "cpu/cpu_ops.h"
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
    for (int64_t j = 0; j < a->count[i]; j++) {
      double off = fabs((double)a->out[i][j] - b->out[i][j]);
      if (!(off <= most)) most = off; /* NaN too */
    }
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
    if (!(off <= tolerance)) printf("# isa %d: %s\n", (int)isa, ct_op_text(d, text, sizeof text));
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
  ct_op_desc_t d[4] = {bnorm(x, CT_C16, 0, 1), pool(x, CT_C16, 2, 2, 0), pool(x, CT_C8, 3, 1, 0)};

  x.layout = CT_C16;
  CU_ASSERT(ct_shape_bytes(&x) > CPU__STREAM_MIN);
  ct_op_desc_init(&d[3], CT_OP_RELU, &x, &x);
  d[3].passes = CT_FWD | CT_BWD_DATA;
  for (int i = 0; i < 4; i++) {
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

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(all_agree_on_bnorm),
                                    CT_TEST(all_agree_on_pooling),
                                    CT_TEST(all_agree_on_the_loss),
                                    CT_TEST(all_drop_the_same),
                                    CT_TEST(large_tensors_come_out_whole),
                                    CT_TEST(variance_survives_a_large_mean),
                                    CT_TEST_END};
  ct_dev_opts_t opts = {.threads = 1};

  if (ct_backend_cpu.open(&opts, &dev) || ct_backend_cpu.queue->create(dev, &queue)) return 1;
  widest = dev->isa;
  int rc = ct_test_main("own kernels", tests, argc, argv);
  ct_backend_cpu.queue->destroy(queue);
  ct_backend_cpu.close(dev);
  return rc;
}
