/* Folding: what becomes of the layers, and that the folded network computes the same. */
#include "model/ct_fold.h"

#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/model_make.h"
#include "tests/unit/net_run.h"

static float **folded(const ct_fold_t *f, float *const *plain)
{
  float **out = ct_mem_array(f->graph->params, sizeof *out, "test");
  for (int i = 0; i < f->graph->params; i++) {
    out[i] = ct_mem_array(f->graph->param[i].count, sizeof **out, "test");
    ct_fold_param(f, i, (const float *const *)plain, out[i]);
  }
  return out;
}

static void check_same(const char *yaml, ct_shape_t input, int norms_left)
{
  enum { CLASSES = 7 };
  enum { N = 1 }; /* folding is of weights, and knows no samples */
  float whole[N * CLASSES], less[N * CLASSES];
  ct_graph_t *g = make(yaml, input, CLASSES);
  ct_fold_t f;
  CT_ASSERT_OK(ct_fold_make(g, &f));
  float **plain = net_trained(g), **own = folded(&f, plain);
  float *x = net_noise(&input, N);
  CT_ASSERT_OK(net_outputs(g, plain, N, x, whole));
  CT_ASSERT_OK(net_outputs(f.graph, own, N, x, less));
  double most = 0, scale = 0;
  for (int i = 0; i < N * CLASSES; i++) {
    most = fmax(most, fabs((double)whole[i] - less[i]));
    scale = fmax(scale, fabs((double)whole[i]));
  }
  CU_ASSERT(scale > 0.1);
  if (most > 1e-5 * scale) CT_ASSERT_TEXT(yaml, "not the same outputs");
  int left = 0;
  for (int i = 0; i < f.graph->layers; i++)
    left += f.graph->layer[i].ops->op == CT_OP_BNORM;
  CT_ASSERT_INT(left, norms_left);
  net_discard(f.graph, own);
  net_discard(g, plain);
  ct_mem_free(x);
  ct_fold_clear(&f);
  ct_graph_free(g);
}

static void the_same_is_computed(void)
{
  check_same("family: resnet\ndepth: 18\n", image(3, 32, 32), 0);
  check_same("family: mobilenet_v2\n", image(3, 32, 32), 0);
  check_same("family: densenet\ndepth: 121\n", image(3, 32, 32), 58 + 3 + 1);
}

/* Linear layers and groups; a convolution that has a bias; one that two read. */
static const char odd[] = "layers:\n"
                          "  - conv2d: {out: 6, kernel: 3, groups: 2, bias: true}\n"
                          "    name: a\n"
                          "  - batchnorm: {eps: 0.1}\n"
                          "    name: an\n"
                          "  - dropout\n"
                          "  - conv2d: {out: 6, kernel: 3, padding: 1, bias: false}\n"
                          "    name: b\n"
                          "  - batchnorm:\n"
                          "    name: bn\n"
                          "  - add:\n"
                          "    from: [b, bn]\n"
                          "  - flatten\n"
                          "  - linear: {out: 5, bias: false}\n"
                          "    name: c\n"
                          "  - batchnorm:\n"
                          "    name: cn\n"
                          "  - relu\n"
                          "  - linear: {out: 7}\n"
                          "    name: d\n"
                          "  - batchnorm\n"
                          "  - dropout\n";

static void odd_graphs_too(void)
{
  check_same(odd, image(4, 6, 6), 1);
  check_same("layers:\n  - dropout\n  - batchnorm\n  - flatten\n", image(7, 1, 1), 1);
  check_same("layers:\n  - relu\n  - dropout\n  - flatten\n", image(7, 1, 1), 0);
}

static void the_graph_says_what_it_is(void)
{
  ct_graph_t *g = make(odd, image(4, 6, 6), 7);
  ct_fold_t f;
  CT_ASSERT_OK(ct_fold_make(g, &f));
  CT_ASSERT_INT(f.norms, 3);
  CT_ASSERT_INT(f.dropouts, 2);
  CT_ASSERT_INT(f.graph->layers, g->layers - 5);
  CU_ASSERT(ct_graph_find_param(f.graph, "c.bias") >= 0);
  CU_ASSERT(ct_graph_find_param(f.graph, "b.bias") < 0);
  CU_ASSERT(ct_graph_find_param(f.graph, "an.weight") < 0);
  for (int i = 0; i < f.graph->layers; i++)
    CT_ASSERT_TEXT(f.graph->layer[i].name, g->layer[f.layer[i]].name);
  CT_ASSERT_TEXT(g->layer[f.norm[0]].name, "an");
  CT_ASSERT_INT(f.norm[1], -1);
  ct_fold_clear(&f);
  ct_graph_free(g);
}

static void nothing_is_left_without_memory(void)
{
  ct_graph_t *g = make(odd, image(4, 6, 6), 7);
  int64_t live = ct_mem_live();
  int rc = CT_ERR_NOMEM;
  for (int64_t i = 1; rc != CT_OK; i++) {
    ct_fold_t f;
    ct_mem_fail_at(i);
    rc = ct_fold_make(g, &f);
    ct_mem_fail_at(0);
    if (rc != CT_OK) CU_ASSERT_PTR_NULL(f.graph);
    ct_fold_clear(&f);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_same_is_computed), CT_TEST(odd_graphs_too),
                                    CT_TEST(the_graph_says_what_it_is),
                                    CT_TEST(nothing_is_left_without_memory), CT_TEST_END};
  return ct_test_main("fold", tests, argc, argv);
}
