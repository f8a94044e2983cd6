/* A linear layer over places, or a 1x1 convolution over pixels, and its cross-entropy as one op of
 * a plan. */
#include <math.h>

#include "base/ct_rng.h"
#include "tests/unit/net_run.h"
#include "tests/unit/plan_make.h"

enum { N = 3, PLACES = 5, CLASSES = 1100, IGNORED = -100 };

/* The head has the embedding's table. */
static const char tied[] = "layers:\n- embedding: {rows: 1100, dim: 24}\n  name: table\n"
                           "- layernorm:\n- linear: {out: 1100, bias: no}\n"
                           "  weights: [table.weight]\n";
static const char apart[] = "layers:\n- embedding: {rows: 1100, dim: 24}\n"
                            "- linear: {out: 17}\n- relu:\n- linear: {out: 1100}\n";

/* A sample has as many logits as it takes to be fused. */
enum { SIDE = 64, COLORS = 2, PIXEL_CLASSES = 70 };
static const char pixels[] = "layers:\n- conv2d: {out: 17, kernel: 3, padding: 1}\n- relu:\n"
                             "- conv2d: {out: 70, kernel: 1}\n";
static const char volume[] = "layers:\n- conv3d: {out: 70, kernel: 1, bias: no}\n";

static const ct_backend_t *const hosts[] = {&ct_backend_ref, &ct_backend_cpu};

static int is_image(const ct_graph_t *g)
{
  return g->input.ndim > 2;
}

static ct_plan_opts_t opts_of(const ct_graph_t *g, int training, int unread)
{
  return (ct_plan_opts_t){.n = N,
                          .training = training,
                          .outputs_unread = unread,
                          .loss = {.classes_last = !is_image(g),
                                   .has_ignored = 1,
                                   .ignored = IGNORED,
                                   .label_smoothing = 0.1,
                                   .z_loss = 1e-3}};
}

static ct_graph_t *make_model(const char *yaml)
{
  ct_graph_t *g = NULL;
  ct_shape_t input = ct_shape(2, 1, PLACES);
  int64_t outputs = PLACES * CLASSES;
  if (yaml == pixels) input = ct_shape(4, 1, COLORS, SIDE, SIDE);
  if (yaml == volume) input = ct_shape(5, 1, COLORS, 4, SIDE, SIDE / 4);
  if (input.ndim > 2) outputs = PIXEL_CLASSES * SIDE * SIDE;
  ct_model_opts_t m = {.family = (char *)(uintptr_t) ""};
  ct_yaml_t *root = NULL;
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "test", &root));
  m.layers = ct_yaml_find(root, "layers");
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, outputs, "test", &g));
  ct_yaml_free(root);
  return g;
}

/* Runs forward and backward; *count: of the gradients, which the caller frees. */
static float *gradients(const ct_graph_t *g, const ct_backend_t *be, int unread, ct_loss_t *loss,
                        size_t *count)
{
  net_t m;
  static float x[N * COLORS * SIDE * SIDE];
  static int32_t labels[N * SIDE * SIDE];
  float **plain = net_trained(g);
  const ct_plan_opts_t o = opts_of(g, 1, unread);
  int image = is_image(g), classes = image ? PIXEL_CLASSES : CLASSES;
  int places = N * (image ? SIDE * SIDE : PLACES);
  for (int i = 0; i < places; i++)
    labels[i] = i % 4 == 3 ? IGNORED : i * 91 % classes;
  for (int i = 0; i < (image ? COLORS * places : places); i++)
    x[i] = (float)(i * 37 % 11) / (image ? 11.0F : 1);
  CT_ASSERT_OK(net_open(&m, be, g, &o));
  CT_ASSERT_OK(net_fill(&m, plain));
  void *own = (void *)(uintptr_t)m.b.labels;
  m.b.labels = labels;
  m.b.loss_scale = 0.25F;
  m.b.x = x;
  m.b.gradient = ct_mem_alloc(m.map.gradient_bytes, "test");
  for (int i = 0; i < m.p->launches; i++)
    CT_ASSERT_OK(ct_plan_run(m.p, i, &m.b, m.q));
  CT_ASSERT_OK(m.be->queue->sync(m.q));
  CT_ASSERT_INT(m.p->output[0] < 0, unread);
  CT_ASSERT_INT(m.p->unfused[0] == '\0', unread);
  *loss = m.loss;
  *count = m.map.gradient_bytes / sizeof(float);
  float *out = (float *)(void *)m.b.gradient;
  m.b.labels = own;
  net_close(&m);
  net_discard(g, plain);
  return out;
}

static void one_op_computes_what_two_do(void)
{
  static const char *const models[] = {tied, apart, pixels, volume};
  for (int b = 0; b < 8; b++) {
    ct_graph_t *g = make_model(models[b / 2]);
    ct_loss_t want, got;
    size_t n, same;
    /* gradients of the volume are in the same order on both; float32 sums over all its pixels are
     * less exact than those of the fused op */
    int volumes = b / 2 == 3, images = b / 2 == 2;
    float *a = gradients(g, hosts[volumes ? 0 : b % 2], 0, &want, &n);
    float *f = gradients(g, hosts[b % 2], 1, &got, &same);
    double error = 0, norm = 0;
    CT_ASSERT_INT(n, same);
    for (size_t i = 0; i < n; i++) {
      error += pow(a[i] - f[i], 2);
      norm += pow(a[i], 2);
    }
    CU_ASSERT(norm > 0);
    CT_ASSERT_NEAR(sqrt(error / norm), 0, images ? 2e-5 : 1e-6);
    CT_ASSERT_NEAR(got.sum, want.sum, 1e-6 * want.sum);
    CT_ASSERT_NEAR(got.weight, want.weight, 0);
    CT_ASSERT_INT(got.samples, want.samples);
    CT_ASSERT_INT(got.top5, want.top5);
    ct_mem_free(a);
    ct_mem_free(f);
    ct_graph_free(g);
  }
}

static void the_outputs_have_no_memory(void)
{
  for (int b = 0; b < 4; b++) {
    ct_graph_t *g = make_model(b / 2 ? pixels : apart);
    for (int training = 0; training < 2; training++) {
      ct_plan_opts_t whole = opts_of(g, training, 0), unread = opts_of(g, training, 1);
      ct_plan_t *p = plan_with(b % 2, g, &whole, NULL), *q = plan_with(b % 2, g, &unread, p);
      const size_t logits =
          N * (b / 2 ? SIDE * SIDE * PIXEL_CLASSES : PLACES * CLASSES) * sizeof(float);
      CU_ASSERT(p->arena_bytes > logits * (training ? 2 : 1));
      CU_ASSERT(q->arena_bytes < logits / (b / 2 && training ? 1 : 2));
      CT_ASSERT_TEXT(p->unfused, "the outputs are read");
      ct_plan_free(q);
      ct_plan_free(p);
    }
    ct_graph_free(g);
  }
}

static void others_are_two_ops(void)
{
  ct_graph_t *g = make_model(apart);
  ct_plan_opts_t o = opts_of(g, 1, 1);
  o.loss = (ct_loss_spec_t){.kind = CT_LOSS_MSE};
  ct_plan_t *p = plan_with(1, g, &o, NULL);
  CT_ASSERT_TEXT(p->unfused, "the loss is not cross_entropy");
  CU_ASSERT(p->output[0] >= 0);
  ct_plan_free(p);
  o = opts_of(g, 0, 1);
  o.inference = 1;
  p = plan_with(1, g, &o, NULL);
  CU_ASSERT(p->output[0] >= 0);
  ct_plan_free(p);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(one_op_computes_what_two_do),
                                    CT_TEST(the_outputs_have_no_memory),
                                    CT_TEST(others_are_two_ops), CT_TEST_END};
  int rc = ct_test_main("head_loss", tests, argc, argv);
  close_devices();
  return rc;
}
