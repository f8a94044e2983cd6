/* A linear layer over places and its cross-entropy as one op of a plan. */
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

static const ct_backend_t *const hosts[] = {&ct_backend_ref, &ct_backend_cpu};

static ct_plan_opts_t opts_of(int training, int unread)
{
  return (ct_plan_opts_t){.n = N,
                          .training = training,
                          .outputs_unread = unread,
                          .loss = {.classes_last = 1,
                                   .has_ignored = 1,
                                   .ignored = IGNORED,
                                   .label_smoothing = 0.1,
                                   .z_loss = 1e-3}};
}

static ct_graph_t *make_model(const char *yaml)
{
  ct_graph_t *g = NULL;
  ct_shape_t input = ct_shape(2, 1, PLACES);
  ct_model_opts_t m = {.family = (char *)(uintptr_t) ""};
  ct_yaml_t *root = NULL;
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "test", &root));
  m.layers = ct_yaml_find(root, "layers");
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, PLACES * CLASSES, "test", &g));
  ct_yaml_free(root);
  return g;
}

/* Runs forward and backward; *count: of the gradients, which the caller frees. */
static float *gradients(const ct_graph_t *g, const ct_backend_t *be, int unread, ct_loss_t *loss,
                        size_t *count)
{
  net_t m;
  float **plain = net_trained(g), x[N * PLACES];
  const ct_plan_opts_t o = opts_of(1, unread);
  int32_t labels[N * PLACES];
  for (int i = 0; i < N * PLACES; i++) {
    x[i] = (float)(i * 37 % 11);
    labels[i] = i % 4 == 3 ? IGNORED : i * 91 % CLASSES;
  }
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
  for (int b = 0; b < 4; b++) {
    ct_graph_t *g = make_model(b / 2 ? apart : tied);
    ct_loss_t want, got;
    size_t n, same;
    float *a = gradients(g, hosts[b % 2], 0, &want, &n);
    float *f = gradients(g, hosts[b % 2], 1, &got, &same);
    double error = 0, norm = 0;
    CT_ASSERT_INT(n, same);
    for (size_t i = 0; i < n; i++) {
      error += pow(a[i] - f[i], 2);
      norm += pow(a[i], 2);
    }
    CU_ASSERT(norm > 0);
    CT_ASSERT_NEAR(sqrt(error / norm), 0, 1e-6);
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
  for (int b = 0; b < 2; b++) {
    ct_graph_t *g = make_model(apart);
    for (int training = 0; training < 2; training++) {
      ct_plan_opts_t whole = opts_of(training, 0), unread = opts_of(training, 1);
      ct_plan_t *p = plan_with(b, g, &whole, NULL), *q = plan_with(b, g, &unread, p);
      const size_t logits = N * PLACES * CLASSES * sizeof(float);
      CU_ASSERT(p->arena_bytes > logits * (training ? 2 : 1));
      CU_ASSERT(q->arena_bytes < logits / 2);
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
  ct_plan_opts_t o = opts_of(1, 1);
  o.loss = (ct_loss_spec_t){.kind = CT_LOSS_MSE};
  ct_plan_t *p = plan_with(1, g, &o, NULL);
  CT_ASSERT_TEXT(p->unfused, "the loss is not cross_entropy");
  CU_ASSERT(p->output[0] >= 0);
  ct_plan_free(p);
  o = opts_of(0, 1);
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
