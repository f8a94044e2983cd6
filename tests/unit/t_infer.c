/* Inference plans: what is fused in them, and that they compute what evaluation does. */
#include <math.h>

#include "cpu/ct_cpu.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/model_make.h"
#include "tests/unit/net_run.h"

enum { CLASSES = 7, SAMPLES = 2, OUTPUTS = SAMPLES * CLASSES };

/* Ops of a kind; adding: of convolutions that add something. */
static int count_ops(const ct_plan_t *p, ct_op_kind_t kind, int adding)
{
  int n = 0;
  for (int i = 0; i < p->ops; i++)
    n += p->op[i].desc.kind == kind && (!adding || p->op[i].desc.u.conv.add);
  return n;
}

/* The graph on a backend, its sums in convolutions, against the scalar oracle without. */
static void check(const char *yaml, ct_shape_t input, const ct_backend_t *be, int adding)
{
  float want[OUTPUTS], got[OUTPUTS];
  net_t m;
  ct_graph_t *g = make(yaml, input, CLASSES);
  float **plain = net_trained(g), *x = net_noise(&input, SAMPLES);
  CT_ASSERT_OK(net_outputs(g, plain, SAMPLES, x, want));
  CT_ASSERT_OK(net_open(&m, be, g, &(ct_plan_opts_t){.n = SAMPLES, .inference = 1}));
  CT_ASSERT_OK(net_fill(&m, plain));
  CT_ASSERT_INT(count_ops(m.p, CT_OP_CONV, 1), adding);
  CT_ASSERT_INT(m.p->loss_launch, m.p->launches);
  for (int again = 0; again < 2; again++) {
    CT_ASSERT_OK(net_forward(&m, x, got));
    double size = 0;
    for (int i = 0; i < OUTPUTS; i++)
      size = fmax(size, fabs((double)want[i]));
    CT_ASSERT_ARRAY(got, want, OUTPUTS, 2e-5 * size);
  }
  net_close(&m);
  ct_mem_free(x);
  net_discard(g, plain);
  ct_graph_free(g);
}

/* main is a convolution of every kind, to which another's result is added. */
typedef struct row {
  int in, size, out, kernel, stride, padding, groups;
} row_t;

static const row_t rows[] = {
    {64, 16, 64, 3, 1, 1, 1},  /* enough for Winograd */
    {72, 13, 40, 3, 1, 1, 1},  /* the same, and no whole tiles */
    {64, 14, 256, 1, 1, 0, 1}, /* on the tile */
    {1200, 7, 32, 1, 1, 0, 1}, /* in several chunks */
    {32, 9, 64, 3, 2, 1, 1},   /* borders */
    {20, 9, 17, 3, 1, 1, 1},   /* channels that fill no vector */
    {512, 7, 128, 1, 1, 0, 1}, /* of a library */
    {32, 9, 32, 3, 1, 1, 32},  /* depthwise */
    {24, 9, 24, 3, 1, 1, 3},   /* groups */
};

#define CONV "- conv2d: {out: %d, kernel: %d, stride: %d, padding: %d, groups: %d}\n"

/* \a kept: what is added is read once more, so that the sum cannot take its place. */
static void check_row(const row_t *r, int relu, int kept, const ct_backend_t *be)
{
  char yaml[800];
  snprintf(yaml, sizeof yaml,
           "layers:\n" CONV "  name: pre\n" CONV "  name: short\n" CONV
           "  name: main\n  from: pre\n- add:\n  name: sum\n  from: [%s]\n%s%s"
           "- global_avgpool\n- flatten\n- linear: {out: 7}\n",
           r->in, 1, 1, 0, 1, r->out, r->kernel, r->stride, r->padding, 1, r->out, r->kernel,
           r->stride, r->padding, r->groups, relu ? "short, main" : "main, short",
           relu ? "- relu\n" : "", kept ? "- add:\n  name: end\n  from: [sum, short]\n" : "");
  if (relu && kept) return; /* `end` would not read the ReLU */
  check(yaml, image(3, r->size, r->size), be, 1);
}

static void sums_go_into_convolutions(void)
{
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int k = 0; k < 3; k++) {
      if (rows[i].in < 100) check_row(&rows[i], k & 1, k & 2, &ct_backend_ref);
      check_row(&rows[i], k & 1, k & 2, &ct_backend_cpu);
    }
}

static void whole_families(void)
{
  check("family: resnet\ndepth: 50\n", image(3, 32, 32), &ct_backend_cpu, 0);
  check("family: mobilenet_v2\n", image(3, 32, 32), &ct_backend_cpu, 0);
  check("family: vit\ndim: 32\ndepth: 2\nheads: 2\npatch: 8\n", image(3, 16, 16), &ct_backend_cpu,
        0);
}

/* Nothing that backward wants is kept: the activations are a fraction. */
static void memory_is_a_fraction(void)
{
  ct_graph_t *g = make("family: resnet\ndepth: 18\n", image(3, 64, 64), CLASSES);
  ct_dev_t *dev;
  ct_plan_t *training, *inference;
  ct_plan_opts_t o = {.n = 8, .training = 1};
  CT_ASSERT_OK(ct_backend_cpu.open(&(ct_dev_opts_t){.threads = 1}, &dev));
  CT_ASSERT_OK(ct_plan_make(g, &ct_backend_cpu, dev, &o, NULL, &training));
  o = (ct_plan_opts_t){.n = 8, .inference = 1};
  CT_ASSERT_OK(ct_plan_make(g, &ct_backend_cpu, dev, &o, NULL, &inference));
  CU_ASSERT(inference->arena_bytes * 3 < training->arena_bytes);
  ct_plan_free(inference);
  ct_plan_free(training);
  ct_backend_cpu.close(dev);
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(sums_go_into_convolutions), CT_TEST(whole_families),
                                    CT_TEST(memory_is_a_fraction), CT_TEST_END};
  return ct_test_main("infer", tests, argc, argv);
}
