/* Patterns of parameter names, and freezing. */
#include "base/ct_err.h"
#include "model/ct_graph.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/model_make.h"

static void patterns(void)
{
  static const struct {
    const char *pattern, *name;
    int matches;
  } rows[] = {{"conv1.weight", "conv1.weight", 1},
              {"conv1.*", "conv1.weight", 1},
              {"conv*", "conv1.sub.weight", 1},
              {"conv?.weight", "conv1.weight", 1},
              {"conv[12].weight", "conv2.weight", 1},
              {"conv[12].weight", "conv3.weight", 0},
              {"*.bias", "layer1.0.bn1.bias", 1},
              {"layer1", "layer1.0.bn1.bias", 1},
              {"layer1.0", "layer1.0.bn1.bias", 1},
              {"layer1", "layer10.weight", 0},
              {"layer1.", "layer1.0.weight", 0},
              {"conv1.weigh", "conv1.weight", 0},
              {"layer?", "layer1.0.weight", 0},
              {"", "conv1.weight", 0},
              {"*", "conv1.weight", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (ct_graph_matches(rows[i].pattern, rows[i].name) != rows[i].matches)
      CT_ASSERT_TEXT(rows[i].pattern, rows[i].name);
  }
}

static const char model[] = "layers:\n"
                            "  - conv2d: {out: 4, kernel: 3}\n"
                            "    name: a.conv\n"
                            "  - batchnorm:\n"
                            "    name: a.norm\n"
                            "  - conv2d: {out: 4, kernel: 3}\n"
                            "    name: b.conv\n"
                            "  - batchnorm:\n"
                            "    name: b.norm\n"
                            "  - flatten\n"
                            "  - linear: {out: 3}\n"
                            "    name: head\n";

/* Freezes what up to two patterns match, in a new graph. */
static int freeze(const char *a, const char *b, int freeze_bn, ct_graph_t **g, int *updating)
{
  char *v[] = {(char *)(uintptr_t)a, (char *)(uintptr_t)b};
  ct_opt_texts_t patterns_given = {v, !!a + !!b};
  *g = make(model, image(2, 8, 8), 3);
  return ct_graph_freeze(*g, &patterns_given, freeze_bn, updating);
}

static int frozen(const ct_graph_t *g, const char *name)
{
  return param(g, name)->frozen;
}

static void nothing_is_frozen_without_patterns(void)
{
  ct_graph_t *g;
  int updating = 9;
  CT_ASSERT_OK(freeze(NULL, NULL, 0, &g, &updating));
  for (int i = 0; i < g->params; i++)
    CT_ASSERT_INT(g->param[i].frozen, 0);
  CU_ASSERT(!layer(g, "a.norm")->keeps_stats && !layer(g, "b.norm")->keeps_stats);
  CT_ASSERT_INT(updating, 0);
  ct_graph_free(g);
}

static void a_part_is_frozen(void)
{
  ct_graph_t *g;
  int updating;
  CT_ASSERT_OK(freeze("a", "b.conv.*", 0, &g, &updating));
  CU_ASSERT(frozen(g, "a.conv.weight") && frozen(g, "a.norm.bias") && frozen(g, "b.conv.bias"));
  CU_ASSERT(!frozen(g, "b.norm.weight") && !frozen(g, "head.weight"));
  CU_ASSERT(!frozen(g, "a.norm.running_mean")); /* not a trained parameter */
  CU_ASSERT(!layer(g, "a.norm")->keeps_stats);
  CT_ASSERT_INT(updating, 1);
  ct_graph_free(g);
}

static void statistics_of_frozen_norms(void)
{
  ct_graph_t *g;
  int updating;
  CT_ASSERT_OK(freeze("a.norm", "b.norm.weight", 1, &g, &updating));
  CT_ASSERT_INT(layer(g, "a.norm")->keeps_stats, 1);
  CT_ASSERT_INT(layer(g, "b.norm")->keeps_stats, 0); /* its bias is trained */
  CT_ASSERT_INT(layer(g, "a.conv")->keeps_stats, 0);
  CT_ASSERT_INT(updating, 0);
  ct_graph_free(g);
  CT_ASSERT_OK(freeze(NULL, NULL, 1, &g, &updating));
  CU_ASSERT(layer(g, "a.norm")->keeps_stats && layer(g, "b.norm")->keeps_stats);
  CU_ASSERT(!frozen(g, "a.norm.weight"));
  ct_graph_free(g);
}

static void senseless_patterns_are_refused(void)
{
  ct_graph_t *g;
  int updating;
  CT_ASSERT_FAILS(freeze("a", "c.*", 0, &g, &updating), CT_ERR_USAGE, "'c.*'");
  ct_graph_free(g);
  CT_ASSERT_FAILS(freeze("a.norm.running_*", NULL, 0, &g, &updating), CT_ERR_USAGE, "running_");
  ct_graph_free(g);
  CT_ASSERT_FAILS(freeze("[ab].*", "head", 0, &g, &updating), CT_ERR_USAGE,
                  "no parameter to train");
  ct_graph_free(g);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(patterns),
                                    CT_TEST(nothing_is_frozen_without_patterns),
                                    CT_TEST(a_part_is_frozen),
                                    CT_TEST(statistics_of_frozen_norms),
                                    CT_TEST(senseless_patterns_are_refused),
                                    CT_TEST_END};
  return ct_test_main("freeze", tests, argc, argv);
}
