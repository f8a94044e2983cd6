/* What a plan computes: the gradients of graphs that no family has. */
#include "base/ct_rng.h"
#include "tests/unit/plan_make.h"
#include <math.h>

enum { SAMPLES = 3 };
typedef struct machine {
  const ct_backend_t *be;
  ct_dev_t *dev;
  ct_queue_t *q;
  ct_plan_t *p;
  ct_arena_map_t map;
  ct_bind_t b;
} machine_t;

static void *room(const machine_t *m, size_t bytes)
{
  void *p = NULL;
  CT_ASSERT_OK(m->be->mem->alloc(m->dev, CT_MEM_DEVICE, bytes + 1, &p));
  return p;
}

static void initial(const ct_graph_t *g, int param, float *out)
{
  ct_graph_init_param(g, param, 1, out);
}

static void noise(const ct_graph_t *g, int param, float *out)
{
  for (int64_t i = 0; i < g->param[param].count; i++)
    out[i] = ct_rng_normal(2, CT_RNG_TEST, (uint32_t)param, (uint64_t)i);
}

/* Values for the parameters in the layouts of a plan's ops. */
static void put_params(const machine_t *m, const ct_plan_t *p, char *weight,
                       void (*values)(const ct_graph_t *g, int param, float *out))
{
  const ct_graph_t *g = p->graph;
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *par = &g->param[i];
    float *plain = ct_mem_array(par->count, sizeof *plain, "test");
    values(g, i, plain);
    if (par->spec.buffer)
      memcpy(m->b.buffer + m->map.offset[i], plain, (size_t)par->count * sizeof *plain);
    else
      CT_ASSERT_OK(m->be->op->pack(m->q, p->op[p->layer_op[par->layer]].op, par->slot, plain,
                                   weight + m->map.offset[i]));
    ct_mem_free(plain);
  }
}

static void machine_open_in(machine_t *m, int b, const ct_graph_t *g, ct_dtype_t compute,
                            double slab_mb)
{
  ct_plan_opts_t o = {.n = 8, .training = 1, .compute = compute, .slab_mb = slab_mb};
  ct_plan_t *like = plan_with(b, g, &o, NULL);
  o.n = SAMPLES;
  *m = (machine_t){.be = backends[b], .dev = device(b), .p = plan_with(b, g, &o, like)};
  CT_ASSERT_OK(m->be->queue->create(m->dev, &m->q));
  CT_ASSERT_OK(ct_arena_map_make(like, &m->map));
  int64_t count = SAMPLES * ct_shape_count(&g->input);
  float *x = room(m, (size_t)count * sizeof *x);
  int32_t *labels = room(m, SAMPLES * sizeof *labels);
  for (int64_t i = 0; i < count; i++)
    x[i] = ct_rng_normal(1, CT_RNG_TEST, 0, (uint64_t)i);
  for (int i = 0; i < SAMPLES; i++)
    labels[i] = 3 * i;
  m->b = (ct_bind_t){.arena = room(m, m->p->arena_bytes),
                     .scratch = room(m, m->p->scratch_bytes),
                     .weight = room(m, m->map.weight_bytes),
                     .gradient = room(m, m->map.weight_bytes),
                     .buffer = room(m, m->map.buffer_bytes),
                     .map = &m->map,
                     .x = x,
                     .labels = labels,
                     .loss = room(m, sizeof(ct_loss_t)),
                     .loss_scale = 1,
                     .seed = 5};
  put_params(m, like, m->b.weight, initial); /* in the layouts of another batch size */
  ct_plan_free(like);
}

static void machine_open(machine_t *m, int b, const ct_graph_t *g)
{
  machine_open_in(m, b, g, CT_F32, 0);
}

static void machine_close(machine_t *m)
{
  void *all[] = {m->b.arena,
                 m->b.scratch,
                 m->b.weight,
                 m->b.gradient,
                 m->b.buffer,
                 (void *)(uintptr_t)m->b.x,
                 (void *)(uintptr_t)m->b.labels,
                 m->b.loss};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    m->be->mem->free(m->dev, CT_MEM_DEVICE, all[i]);
  m->be->queue->destroy(m->q);
  ct_plan_free(m->p);
  ct_arena_map_clear(&m->map);
}

/* The loss after the first so many works. */
static double run(const machine_t *m, int launches)
{
  for (int i = 0; i < launches; i++)
    CT_ASSERT_OK(ct_plan_run(m->p, i, &m->b, m->q));
  CT_ASSERT_OK(m->be->queue->sync(m->q));
  return m->b.loss->sum;
}

static double product(const float *a, const float *b, size_t count)
{
  double sum = 0;
  for (size_t i = 0; i < count; i++)
    sum += (double)a[i] * b[i];
  return sum;
}

static double loss_at(const machine_t *m, const float *w, const float *direction, double step)
{
  float *now = (float *)m->b.weight;
  for (size_t i = 0; i < m->map.weight_bytes / sizeof *w; i++)
    now[i] = (float)(w[i] + step * direction[i]);
  return run(m, m->p->loss_launch + 1);
}

/* The loss rises along a direction as the gradient says; half of the direction is the gradient's
 * own, half is noise, which a gradient that is missing altogether does not escape. */
static void check_slope(int b, int graph)
{
  machine_t m;
  ct_graph_t *g = odd_graph(graph);
  machine_open(&m, b, g);
  size_t count = m.map.weight_bytes / sizeof(float);
  float *w = ct_mem_array((int64_t)count, sizeof *w, "test"), *d = room(&m, m.map.weight_bytes);
  memcpy(w, m.b.weight, m.map.weight_bytes);
  put_params(&m, m.p, (char *)d, noise);
  run(&m, m.p->launches);
  const float *gradient = (float *)m.b.gradient;
  double ratio = sqrt(product(gradient, gradient, count) / product(d, d, count));
  for (size_t i = 0; i < count; i++)
    d[i] = (float)(gradient[i] + ratio * d[i]);
  double expected = product(gradient, d, count), step = 3e-3 / expected;
  double slope = (loss_at(&m, w, d, step) - loss_at(&m, w, d, -step)) / (2 * step);
  CT_ASSERT_NEAR(slope / expected, 1, 1e-3);
  m.be->mem->free(m.dev, CT_MEM_DEVICE, d);
  ct_mem_free(w);
  machine_close(&m);
  ct_graph_free(g);
}

static void gradients_are_those_of_the_loss(void)
{
  for (int b = 0; b < BACKENDS; b++)
    for (int graph = 0; graph < ODD_GRAPHS; graph++)
      check_slope(b, graph);
}

/* The gradient in a low type is that in float32 up to its few digits: a wrong cast or a lost
 * gradient would be seen. */
static void check_low(int graph, ct_dtype_t compute, double tolerance)
{
  machine_t m, low;
  double off = 0;
  ct_graph_t *g = odd_graph(graph);
  machine_open(&m, REF, g);
  machine_open_in(&low, REF, g, compute, 0);
  double loss = run(&m, m.p->launches);
  CT_ASSERT_NEAR(run(&low, low.p->launches) / loss, 1, tolerance);
  const float *a = (float *)m.b.gradient, *b = (float *)low.b.gradient;
  size_t count = m.map.weight_bytes / sizeof *a;
  for (size_t i = 0; i < count; i++)
    off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
  CT_ASSERT_NEAR(sqrt(off / product(a, a, count)), 0, tolerance);
  CU_ASSERT(off > 0);
  machine_close(&low);
  machine_close(&m);
  ct_graph_free(g);
}

static void low_types_give_the_gradients_roughly(void)
{
  for (int graph = 0; graph < ODD_GRAPHS; graph++) {
    check_low(graph, CT_BF16, 0.1);
    check_low(graph, CT_F16, 0.02);
  }
}

/* Seed, step and place in the batch reach the op that needs them. */
static void dropout_is_drawn_for_the_place(void)
{
  for (int b = 0; b < BACKENDS; b++) {
    machine_t m;
    ct_graph_t *g = layers(touches_input, ct_shape(4, 1, 3, 6, 6));
    machine_open(&m, b, g);
    double loss[4];
    for (int k = 0; k < 4; k++) {
      ct_bind_t before = m.b;
      if (k == 1) m.b.seed++;
      if (k == 2) m.b.step++;
      if (k == 3) m.b.first++;
      loss[k] = run(&m, m.p->loss_launch + 1);
      m.b = before;
      for (int other = 0; other < k; other++)
        CU_ASSERT(loss[other] != loss[k]);
    }
    CU_ASSERT(run(&m, m.p->loss_launch + 1) == loss[0]);
    machine_close(&m);
    ct_graph_free(g);
  }
}

/* ---- slabs ---- */

/* Three convolutions with a pooling, the last of which is an average; a fourth that two read. */
static const char pooled[] =
    "layers:\n" CONV "- leaky_relu: {negative_slope: 0.3}\n- maxpool: {kernel: 2}\n" CONV
    "- relu:\n- maxpool: {kernel: 3, stride: 2}\n" CONV "- gelu:\n- avgpool: {kernel: 2}\n" CONV
    "  name: a\n- maxpool: {kernel: 1}\n  name: m\n- concat:\n  from: [m, a]\n" TAIL;

static int in_slabs(const ct_plan_t *p)
{
  int n = 0;
  for (int o = 0; o < p->ops; o++)
    n += p->op[o].desc.kind == CT_OP_CONV_POOL;
  return n;
}

/* The same network in slabs and in whole tensors: the loss has the same bits where the convolutions
 * have the same order of sums, the gradients are sums in another order. */
static void check_slabs(int b, ct_dtype_t compute, double tolerance)
{
  machine_t whole, slabs;
  ct_graph_t *g = layers(pooled, ct_shape(4, 1, 3, 30, 22));
  machine_open_in(&whole, b, g, compute, 0);
  machine_open_in(&slabs, b, g, compute, 1e-6);
  CU_ASSERT_EQUAL(in_slabs(whole.p), 0);
  CU_ASSERT_EQUAL(in_slabs(slabs.p), 3);
  CU_ASSERT(slabs.p->arena_bytes < whole.p->arena_bytes);
  double loss = run(&whole, whole.p->launches), other = run(&slabs, slabs.p->launches);
  if (b == REF) CU_ASSERT(loss == other);
  CT_ASSERT_NEAR(other / loss, 1, tolerance);
  double off = 0;
  const float *x = (float *)whole.b.gradient, *y = (float *)slabs.b.gradient;
  size_t count = whole.map.weight_bytes / sizeof *x;
  CU_ASSERT_EQUAL_FATAL(whole.map.weight_bytes, slabs.map.weight_bytes);
  for (size_t i = 0; i < count; i++)
    off += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
  CT_ASSERT_NEAR(sqrt(off / product(x, x, count)), 0, tolerance);
  machine_close(&slabs);
  machine_close(&whole);
  ct_graph_free(g);
}

static void slabs_give_the_same_gradients(void)
{
  for (int b = 0; b < BACKENDS; b++)
    check_slabs(b, CT_F32, 1e-5);
  check_slabs(REF, CT_BF16, 1e-2);
}

/* Not in slabs: other readers, a batchnorm or an addition between, and too small ones. */
static void only_large_poolings_of_a_convolution_are_in_slabs(void)
{
  for (int graph = 0; graph < ODD_GRAPHS; graph++) {
    ct_graph_t *g = odd_graph(graph);
    ct_plan_t *p = plan_with(REF, g, &(ct_plan_opts_t){.n = 2, .slab_mb = 1e-9}, NULL);
    CU_ASSERT_EQUAL(in_slabs(p), 0);
    ct_plan_free(p);
    ct_graph_free(g);
  }
  ct_graph_t *g = layers(pooled, ct_shape(4, 1, 3, 30, 22));
  double first = 5 * 30 * 22 * 4 / 0x1p20;
  const struct {
    double slab_mb;
    int want;
  } row[] = {{first, 0}, {0.99 * first, 1}, {0.2 * first, 2}};
  for (int i = 0; i < 3; i++) {
    ct_plan_t *p = plan_with(REF, g, &(ct_plan_opts_t){.n = 2, .slab_mb = row[i].slab_mb}, NULL);
    CU_ASSERT_EQUAL(in_slabs(p), row[i].want);
    ct_plan_free(p);
  }
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(gradients_are_those_of_the_loss),
                                    CT_TEST(low_types_give_the_gradients_roughly),
                                    CT_TEST(dropout_is_drawn_for_the_place),
                                    CT_TEST(slabs_give_the_same_gradients),
                                    CT_TEST(only_large_poolings_of_a_convolution_are_in_slabs),
                                    CT_TEST_END};
  int rc = ct_test_main("plan_run", tests, argc, argv);
  close_devices();
  return rc;
}
