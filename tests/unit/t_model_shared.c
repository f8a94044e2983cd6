/* Models whose layers share parameters, parameters as layers, and further names of parameters. */
#include "tests/unit/model_make.h"

static const char twice[] = "layers:\n"
                            "- conv2d: {out: 4, kernel: 3, padding: 1}\n"
                            "  name: a\n"
                            "  weights: [c.weight, c.bias]\n"
                            "- conv2d: {out: 4, kernel: 3, padding: 1}\n"
                            "  name: b\n"
                            "  weights: [c.weight, c.bias]\n"
                            "- parameter: {shape: [4], fill: 0.5}\n"
                            "  name: kept\n"
                            "- constant: {shape: [2, 3]}\n"
                            "  name: mask\n"
                            "- flatten:\n"
                            "  from: b\n"
                            "- linear: {out: 10}\n"
                            "tied: [again.weight=linear1.weight]\n";

static void layers_share_parameters(void)
{
  ct_graph_t *g = make(twice, image(4, 5, 5), 10);
  if (!g) return;
  int weight = ct_graph_find_param(g, "c.weight");
  CT_ASSERT_INT(layer(g, "a")->param[0], weight);
  CT_ASSERT_INT(layer(g, "b")->param[0], weight);
  CT_ASSERT_INT(layer(g, "b")->param[1], layer(g, "a")->param[1]);
  CT_ASSERT_INT(g->param[weight].uses, 2);
  CT_ASSERT_INT(g->param[weight].layer, 0);
  CT_ASSERT_INT(ct_graph_find_param(g, "a.weight"), -1);
  CT_ASSERT_INT(g->params, 6);
  CT_ASSERT_INT(ct_graph_count(g), 4 * 4 * 9 + 4 + 4 + 100 * 10 + 10);
  ct_graph_free(g);
}

/* A tensor that no layer reads is kept for state dicts, and is not trained. */
static void a_parameter_may_stand_alone(void)
{
  float values[4] = {0};
  ct_graph_t *g = make(twice, image(4, 5, 5), 10);
  if (!g) return;
  int kept = ct_graph_find_param(g, "kept"), mask = ct_graph_find_param(g, "mask");
  CT_ASSERT_INT(g->param[kept].frozen, 1);
  CT_ASSERT_INT(g->param[mask].spec.buffer, CT_CONSTANT);
  CT_ASSERT_INT(layer(g, "kept")->out.batch, 0);
  ct_graph_init_param(g, kept, 1, values);
  CU_ASSERT(values[0] == 0.5f && values[3] == 0.5f);
  ct_graph_free(g);
}

static void parameters_have_further_names(void)
{
  ct_graph_t *g = make(twice, image(4, 5, 5), 10);
  if (!g) return;
  CT_ASSERT_INT(g->ties, 1);
  CT_ASSERT_TEXT(g->tied[0].name, "again.weight");
  CT_ASSERT_INT(g->tied[0].param, ct_graph_find_param(g, "linear1.weight"));
  ct_graph_free(g);
}

static void what_cannot_be_shared_is_refused(void)
{
#define A "layers:\n- {linear: {out: 4}, name: a}\n- "
  static const struct {
    const char *yaml, *text;
  } cases[] = {
      {A "{linear: {out: 4}, name: b, weights: [a.weight]}",
       "m.yaml:3: layer 'b' (linear): parameter a.weight is 4x10 of layer 'a', expected 4x4"},
      {A "{linear: {out: 4}, name: a.weight.b, weights: a.weight}",
       "m.yaml:3: weights: expected a list of up to 4 names"},
      {A "{linear: {out: 4}, name: b, weights: [a, b, c, d, e]}", "up to 4 names"},
      {A "{linear: {out: 4}, name: b, weights: [[a]]}", "expected the name of a parameter"},
      {A "{parameter: {shape: [4]}, name: a.bias}",
       "m.yaml:3: layer 'a.bias' (parameter): there is a parameter a.bias already; to share it, "
       "name it in `weights`"},
      {A "{buffer: {shape: [4]}, name: b, weights: [a.bias]}", "expected 4, a buffer"},
      {A "{parameter: {shape: [1, 2, 4]}, name: b}\n- {lstm: {hidden: 4}, from: b}",
       "its input, 1x2x4, is made of parameters alone"},
      {A "{parameter: {shape: [0]}, name: b}", "shape: 0 is not a whole number of at least 1"},
      {A "{parameter: {shape: []}, name: b}", "shape: expected 1 to 8 numbers, not 0"},
      {A "{parameter: {shape: [1, 1, 1, 1, 1, 1, 1, 1, 1]}, name: b}", "not 9"},
      {A "{parameter: {shape: [4]}, name: b, from: a}", "takes no input, but has one input"},
      {A "{linear: {out: 4}, name: b, share: a}",
       "m.yaml:3: layer 'b' (linear): parameter a.weight is 4x10 of layer 'a', expected 4x4"},
      {A "{linear: {out: 4}, name: b, share: c}",
       "m.yaml:3: share: no layer before this one is called 'c'"},
      {A "{linear: {out: 4}, name: b, share: [a]}",
       "m.yaml:3: share: expected the name of a layer"},
      {A "{linear: {out: 4}, name: b, share: a, weights: [a.weight]}", "has `weights` already"},
      {A "{batchnorm: {}, name: b, share: a}",
       "share: layer 'a' is of the kind linear, not batchnorm"},
      {A "{relu: {}, name: b}\n- {relu: {}, name: c, share: b}", "'b' (relu) has no parameters"},
      {A "{linear: {out: 4, bias: no}, name: b, from: input, share: a}",
       "layer 'b' (linear): has 1 parameters, not 2"},
      {A "{linear: {out: 4, bias: no}, name: b, from: input}\n"
         "- {linear: {out: 4}, name: c, from: input, share: b}",
       "m.yaml:4: share: layer 'b' has 1 parameters, 'c' has 2"},
      {A "{linear: {out: 4}, name: b}\ntied: [x]", "model.tied: 'x': expected NAME=PARAMETER"},
      {A "{linear: {out: 4}, name: b}\ntied: [x=c]", "the model has no parameter c"},
      {A "{linear: {out: 4}, name: b}\ntied: [b.bias=a.bias]",
       "model.tied: 'b.bias' is a parameter of its own"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_graph_t *g;
    CT_ASSERT_FAILS(make_for(cases[i].yaml, ct_shape(2, 1, 10), 4, &g), CT_ERR_USAGE,
                    cases[i].text);
    CU_ASSERT_PTR_NULL(g);
  }
}

static void survives_any_failed_allocation(void)
{
  int rc = CT_ERR_NOMEM;
  int64_t live = ct_mem_live();
  for (int64_t n = 1; n < 2000 && rc != CT_OK; n++) {
    ct_graph_t *g;
    ct_mem_fail_at(n);
    rc = make_for(twice, image(4, 5, 5), 10, &g);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || (rc == CT_ERR_NOMEM && !g));
    ct_graph_free(g);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
  CT_ASSERT_INT(rc, CT_OK);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(layers_share_parameters),        CT_TEST(a_parameter_may_stand_alone),
      CT_TEST(parameters_have_further_names),  CT_TEST(what_cannot_be_shared_is_refused),
      CT_TEST(survives_any_failed_allocation), CT_TEST_END};
  return ct_test_main("model shared", tests, argc, argv);
}
