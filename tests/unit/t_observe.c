/* Rounding as in eight bits on the backends, and where an observed graph has it. */
#include "model/ct_observe.h"

#include <math.h>

#include "backend/ct_fake_quant.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/ct_cpu.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/fake_quant_gold.h"
#include "tests/unit/model_make.h"
#include "tests/unit/net_run.h"

enum { C = 5, SPACE = 3, COUNT = 2 * C * SPACE, ROOM = 2 * 16 * SPACE };

/* ---- the op ---- */

typedef struct side {
  const ct_backend_t *be;
  ct_dev_t *dev;
  ct_queue_t *q;
  ct_layout_t layout;
} side_t;

static void side_open(side_t *s, const ct_backend_t *be, ct_layout_t layout)
{
  ct_dev_opts_t o = {.threads = 2};
  *s = (side_t){.be = be, .layout = layout};
  CT_ASSERT_OK(be->open(&o, &s->dev));
  CT_ASSERT_OK(be->queue->create(s->dev, &s->q));
}

static void side_close(side_t *s)
{
  s->be->queue->destroy(s->q);
  s->be->close(s->dev);
}

/* Where element i of the plain layout lies. */
static int place(ct_layout_t layout, int i)
{
  int n = i / (C * SPACE), c = i % (C * SPACE) / SPACE, at = i % SPACE;
  if (layout == CT_C16) return (n * SPACE + at) * 16 + c;
  return layout == CT_NHWC ? (n * SPACE + at) * C + c : i;
}

/* y and dx of x and dy; the range is changed if training. */
static void run_dy(const side_t *s, int training, int keep, float range[2], const float *x,
                   const float *dy, float *y, float *dx)
{
  ct_shape_t shape = ct_shape(4, 2, C, 1, SPACE);
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_t *op;
  float in[ROOM] = {0}, out[ROOM], given[ROOM] = {0}, back[ROOM];
  shape.layout = s->layout;
  ct_op_desc_init(&d, CT_OP_FAKE_QUANT, &shape, &shape);
  d.training = training;
  d.passes = CT_FWD | CT_BWD_DATA;
  CT_ASSERT_OK(s->be->op->prepare(s->dev, &d, NULL, &op, &info));
  for (int i = 0; i < COUNT; i++) {
    in[place(s->layout, i)] = x[i];
    given[place(s->layout, i)] = dy[i];
  }
  ct_op_args_t a = {.pass = CT_FWD,
                    .x = in,
                    .y = out,
                    .dy = given,
                    .dx = back,
                    .w = {range},
                    .keep_running = keep};
  CT_ASSERT_OK(s->be->op->run(s->q, op, &a));
  a.pass = CT_BWD_DATA;
  CT_ASSERT_OK(s->be->op->run(s->q, op, &a));
  CT_ASSERT_OK(s->be->queue->sync(s->q));
  for (int i = 0; i < COUNT; i++) {
    y[i] = out[place(s->layout, i)];
    dx[i] = back[place(s->layout, i)];
  }
  s->be->op->release(op);
}

/* With dy all 1. */
static void run(const side_t *s, int training, int keep, float range[2], const float *x, float *y,
                float *dx)
{
  float ones[COUNT];
  for (int i = 0; i < COUNT; i++)
    ones[i] = 1;
  run_dy(s, training, keep, range, x, ones, y, dx);
}

static void noise(float *x)
{
  for (int i = 0; i < COUNT; i++)
    x[i] = 3 * ct_rng_normal(5, CT_RNG_TEST, 0, (uint64_t)i);
}

static void check_rounds(const side_t *s)
{
  float x[COUNT], y[COUNT], dx[COUNT], range[2] = {-1, 4};
  ct_quant_params_t pair = ct_quant_params_of(-1, 4);
  int cut = 0;
  noise(x);
  x[0] = 2.5F * pair.scale; /* ties go to even */
  x[1] = -3.5F * pair.scale;
  run(s, 0, 0, range, x, y, dx);
  for (int i = 0; i < COUNT; i++) {
    CU_ASSERT(y[i] == ct_quant_from_u8(&pair, ct_quant_to_u8(&pair, x[i])));
    CU_ASSERT(dx[i] == (x[i] > -1.009 && x[i] < 4.009));
    cut += dx[i] == 0;
  }
  CU_ASSERT(cut > 3 && cut < COUNT - 3);
  CU_ASSERT(range[0] == -1 && range[1] == 4);
}

static void check_follows(const side_t *s)
{
  float x[COUNT], y[COUNT], dx[COUNT], range[2] = {0, 0}, low = 0, high = 0;
  noise(x);
  for (int i = 0; i < COUNT; i++) {
    low = fminf(low, x[i]);
    high = fmaxf(high, x[i]);
  }
  run(s, 0, 0, range, x, y, dx);
  CU_ASSERT(memcmp(x, y, sizeof x) == 0 && dx[3] == 1); /* no range yet */
  run(s, 1, 1, range, x, y, dx);
  CU_ASSERT(range[0] == 0 && range[1] == 0);
  run(s, 1, 0, range, x, y, dx);
  CU_ASSERT(range[0] == low && range[1] == high);
  for (int i = 0; i < COUNT; i++)
    x[i] *= 2;
  run(s, 1, 0, range, x, y, dx);
  CU_ASSERT(fabsf(range[0] - 1.01F * low) < 1e-5F && fabsf(range[1] - 1.01F * high) < 1e-5F);
  x[2] = NAN;
  run(s, 0, 0, range, x, y, dx);
  CU_ASSERT(isnan(y[2]));
}

static int near(float a, float b)
{
  return fabsf(a - b) <= 1e-6F * (1 + fabsf(b));
}

/* Batch after batch of training: the range, what it makes of numbers, and the gradients. */
static void check_as_torch(const side_t *s)
{
  float y[COUNT], dx[COUNT], range[2] = {0, 0};
  int cut = 0;
  for (size_t b = 0; b < sizeof gold / sizeof *gold; b++) {
    if (gold[b].begins) range[0] = range[1] = 0;
    run_dy(s, 1, 0, range, gold[b].x, gold[b].dy, y, dx);
    ct_quant_params_t pair = ct_quant_params_of(range[0], range[1]);
    CU_ASSERT(near(range[0], gold[b].low) && near(range[1], gold[b].high));
    CU_ASSERT(near(pair.scale, gold[b].scale));
    CT_ASSERT_INT(pair.zero, gold[b].zero);
    for (int i = 0; i < COUNT; i++) {
      CU_ASSERT(near(y[i], gold[b].y[i]));
      CU_ASSERT(dx[i] == gold[b].dx[i]);
      cut += dx[i] == 0;
    }
  }
  CU_ASSERT(cut > 10 && cut < 4 * COUNT);
}

static void weights_are_rounded_as_by_torch(void)
{
  enum { CHANNELS = sizeof gold_scale / sizeof *gold_scale };
  int8_t q[COUNT];
  float scale[CHANNELS], w[COUNT];
  ct_quant_weights(CHANNELS, COUNT / CHANNELS, gold_w, q, scale);
  ct_quant_weights_back(CHANNELS, COUNT / CHANNELS, q, scale, w);
  for (int c = 0; c < CHANNELS; c++)
    CU_ASSERT(fabsf(scale[c] - gold_scale[c]) <= 1e-6F * gold_scale[c]);
  for (int i = 0; i < COUNT; i++)
    CU_ASSERT(fabsf(w[i] - gold_rounded[i]) <= 1e-6F * fabsf(gold_rounded[i]));
}

static void all_backends_round_alike(void)
{
  static const struct {
    const ct_backend_t *be;
    ct_layout_t layout;
  } sides[] = {{&ct_backend_ref, CT_PLAIN},
               {&ct_backend_cpu, CT_PLAIN},
               {&ct_backend_cpu, CT_C16},
               {&ct_backend_cpu, CT_NHWC}};
  for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
    side_t s;
    side_open(&s, sides[i].be, sides[i].layout);
    check_rounds(&s);
    check_follows(&s);
    check_as_torch(&s);
    side_close(&s);
  }
}

/* ---- the graph ---- */

static const ct_layer_t *reader_of(const ct_graph_t *g, const char *name)
{
  for (int i = 0; i < g->layers; i++)
    for (int k = 0; k < g->layers; k++)
      if (g->layer[k].in[0] == i && strcmp(g->layer[i].name, name) == 0) return &g->layer[k];
  return NULL;
}

static int quants(const ct_graph_t *g)
{
  int n = 0;
  for (int i = 0; i < g->layers; i++)
    n += g->layer[i].ops->op == CT_OP_FAKE_QUANT;
  return n;
}

static const char net[] = "layers:\n"
                          "  - {conv2d: {out: 6, kernel: 3, padding: 1}, name: a}\n"
                          "  - {batchnorm: {}, name: an}\n"
                          "  - {relu: {}, name: ar}\n"
                          "  - {maxpool: {kernel: 2}, name: p}\n"
                          "  - {conv2d: {out: 6, kernel: 3, padding: 1}, name: b}\n"
                          "  - {batchnorm: {}, name: bn}\n"
                          "  - {add: {}, name: s, from: [bn, p]}\n"
                          "  - {relu: {}, name: sr}\n"
                          "  - {dropout: {}, name: d}\n"
                          "  - {flatten: {}, name: f}\n"
                          "  - {linear: {out: 5}, name: l}\n";

static void places_are_behind_what_is_folded(void)
{
  ct_graph_t *g = make(net, image(3, 8, 8), 5);
  ct_observed_t o;
  ct_quant_t q;
  CT_ASSERT_OK(ct_observed_make(g, &o));
  /* the input, a's ReLU, b with its batchnorm, the sum's ReLU */
  CT_ASSERT_INT(quants(o.graph), 4);
  CT_ASSERT_TEXT(reader_of(o.graph, "ar")->name, "ar.quant");
  CT_ASSERT_TEXT(reader_of(o.graph, "bn")->name, "b.quant");
  CT_ASSERT_TEXT(reader_of(o.graph, "b.quant")->name, "s");
  CT_ASSERT_TEXT(reader_of(o.graph, "sr.quant")->name, "d");
  CU_ASSERT(ct_graph_find_param(o.graph, "input.quant.range") >= 0);
  float **value = net_trained(o.graph);
  for (int i = 0; i < o.graph->params; i++)
    if (ct_observed_is_range(o.graph, i)) {
      value[i][0] = -(float)i;
      value[i][1] = (float)i + 1;
    }
  CT_ASSERT_OK(ct_observed_quant(&o, (const float *const *)value, &q));
  const ct_graph_t *f = o.fold.graph;
  CT_ASSERT_INT(f->layers, 8);
  CU_ASSERT(q.input.scale > 0);
  CU_ASSERT(q.out[0].scale == q.out[1].scale && q.out[0].zero == q.out[1].zero); /* a, its ReLU */
  CU_ASSERT(q.out[1].scale == q.out[2].scale);                                   /* pool */
  CU_ASSERT(q.out[3].scale > q.out[2].scale);                                    /* b */
  CU_ASSERT(q.out[4].scale == q.out[5].scale && q.out[5].scale == q.out[6].scale);
  CU_ASSERT(q.out[7].scale == 0); /* the output is float32 */
  ct_quant_clear(&q);
  net_discard(o.graph, value);
  ct_observed_clear(&o);
  ct_graph_free(g);
}

/* Without ranges it is the same network. */
static void check_same(const char *yaml, ct_shape_t input, int places)
{
  enum { N = 2, CLASSES = 7 };
  float whole[N * CLASSES], observed[N * CLASSES];
  ct_graph_t *g = make(yaml, input, CLASSES);
  ct_observed_t o;
  CT_ASSERT_OK(ct_observed_make(g, &o));
  float **plain = net_trained(g);
  float **own = ct_mem_array(o.graph->params, sizeof *own, "test");
  for (int i = 0; i < o.graph->params; i++) {
    int from = ct_graph_find_param(g, o.graph->param[i].name);
    own[i] = ct_mem_array(o.graph->param[i].count, sizeof **own, "test");
    CU_ASSERT((from < 0) == ct_observed_is_range(o.graph, i));
    if (from >= 0) memcpy(own[i], plain[from], (size_t)g->param[from].count * sizeof(float));
  }
  float *x = net_noise(&input, N);
  CT_ASSERT_OK(net_outputs(g, plain, N, x, whole));
  CT_ASSERT_OK(net_outputs(o.graph, own, N, x, observed));
  CU_ASSERT(fabsf(whole[3]) > 1e-3F);
  for (int i = 0; i < N * CLASSES; i++)
    CU_ASSERT(fabsf(whole[i] - observed[i]) <= 1e-5F * (1 + fabsf(whole[i])));
  CT_ASSERT_INT(quants(o.graph), places);
  net_discard(o.graph, own);
  net_discard(g, plain);
  ct_mem_free(x);
  ct_observed_clear(&o);
  ct_graph_free(g);
}

static void it_computes_the_same_while_there_is_no_range(void)
{
  check_same("family: lenet\n", image(1, 28, 28), 5);
  check_same("family: resnet\ndepth: 18\n", image(3, 16, 16), 1 + 1 + 8 * 3 + 3 + 1);
  check_same("family: vit\ndim: 16\nheads: 2\ndepth: 2\npatch: 8\n", image(3, 16, 16), 6);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(all_backends_round_alike),
      CT_TEST(weights_are_rounded_as_by_torch),
      CT_TEST(places_are_behind_what_is_folded),
      CT_TEST(it_computes_the_same_while_there_is_no_range),
      CT_TEST_END,
  };
  return ct_test_main("observe", tests, argc, argv);
}
