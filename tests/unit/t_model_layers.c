/* Models written layer by layer, and what is wrong with some. */
#include "tests/unit/model_make.h"

/* ---- layers from YAML ---- */

static const char residual[] = "layers:\n"
                               "- conv2d: {out: 16, kernel: 3, padding: 1}\n"
                               "  name: conv1\n"
                               "- relu\n"
                               "- conv2d: {out: 16, kernel: 3, padding: 1}\n"
                               "  name: conv2\n"
                               "- add:\n"
                               "  from: [conv2, relu1]\n"
                               "- {maxpool: {kernel: 2}, name: pool}\n"
                               "- conv2d: {out: 16, kernel: 1, stride: 2}\n"
                               "  from: input\n"
                               "- {add: , from: [pool, conv2d3]}\n"
                               "- flatten: {}\n"
                               "- linear: {out: 10}\n";

static void reads_layers(void)
{
  ct_graph_t *g = make(residual, image(1, 8, 8), 10);
  if (!g) return;
  static const struct {
    const char *name;
    int in[2];
  } expected[] = {{"conv1", {-1, -2}}, {"relu1", {0, -2}},    {"conv2", {1, -2}},
                  {"add1", {2, 1}},    {"pool", {3, -2}},     {"conv2d3", {-1, -2}},
                  {"add2", {4, 5}},    {"flatten1", {6, -2}}, {"linear1", {7, -2}}};
  CT_ASSERT_INT(g->layers, 9);
  for (int i = 0; i < g->layers && i < 9; i++) {
    CT_ASSERT_TEXT(g->layer[i].name, expected[i].name);
    CT_ASSERT_INT(g->layer[i].in[0], expected[i].in[0]);
    CT_ASSERT_INT(g->layer[i].in[1], expected[i].in[1]);
  }
  CT_ASSERT_TEXT(g->param[2].name, "conv2.weight");
  CT_ASSERT_INT(layer(g, "conv2")->param[0], 2);
  CT_ASSERT_INT(layer(g, "conv2")->params, 2);
  CT_ASSERT_INT(layer(g, "relu1")->params, 0);
  CT_ASSERT_INT(param(g, "linear1.weight")->count, 16 * 4 * 4 * 10);
  ct_graph_free(g);
}

static void the_same_layers_from_code_hash_the_same(void)
{
  int id = -1;
  ct_graph_t *y = make("layers: [{conv2d: {out: 2, kernel: 3}, name: a}, {flatten: , name: f}, "
                       "{linear: {out: 3}, name: b}]",
                       image(1, 4, 4), 3);
  ct_graph_t *g = empty(image(1, 4, 4));
  CT_ASSERT_OK(ct_graph_add(g, &id, "a", "conv2d", id, -2, "out: %d, kernel: 3", 2));
  CT_ASSERT_OK(ct_graph_add(g, &id, "f", "flatten", id, -2, NULL));
  CT_ASSERT_OK(ct_graph_add(g, &id, "b", "linear", id, -2, "out: %d", 3));
  CU_ASSERT(y && ct_graph_hash(y) == ct_graph_hash(g));
  ct_graph_free(y);
  ct_graph_free(g);
}

static void a_dumped_configuration_gives_the_same_model(void)
{
  ct_model_opts_t o = {0};
  ct_yaml_t *map = NULL, *dump = NULL;
  ct_str_t text = {0};
  ct_graph_t *first = make(residual, image(1, 8, 8), 10);
  CT_ASSERT_OK(ct_yaml_parse(residual, strlen(residual), "m.yaml", &map));
  CT_ASSERT_OK(ct_opt_defaults(ct_model_rows, &o));
  CT_ASSERT_OK(ct_opt_read(ct_model_rows, &o, map, "m.yaml", "model", NULL));
  dump = ct_opt_dump(ct_model_rows, &o, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(dump);
  CT_ASSERT_OK(ct_yaml_dump(dump, 0, &text));
  ct_graph_t *again = make(text.data, image(1, 8, 8), 10);
  CU_ASSERT(first && again && ct_graph_hash(first) == ct_graph_hash(again));
  ct_graph_free(first);
  ct_graph_free(again);
  ct_str_clear(&text);
  ct_yaml_free(dump);
  ct_yaml_free(map);
  ct_opt_clear(ct_model_rows, &o);
}

/* ---- errors ---- */

typedef struct {
  const char *yaml;
  int code;
  const char *text;
} wrong_t;

static void assert_wrong(const wrong_t *w, ct_shape_t input, int64_t classes)
{
  ct_graph_t *g;
  CT_ASSERT_FAILS(make_for(w->yaml, input, classes, &g), w->code, w->text);
  CU_ASSERT_PTR_NULL(g);
}

static void wrong_layers_are_refused(void)
{
  static const wrong_t cases[] = {
      {"layers:\n- conv2: {out: 1}", CT_ERR_USAGE, "m.yaml:2: 'conv2' is neither a kind"},
      {"layers:\n- conv2: {out: 1}", CT_ERR_USAGE, "did you mean 'conv2d'?"},
      {"layers:\n- relu\n- xyzzyxyzzy", CT_ERR_USAGE, "m.yaml:3: 'xyzzyxyzzy' is not a kind"},
      {"layers:\n- flatten:\n  nam: f", CT_ERR_USAGE, "m.yaml:3: 'nam'"},
      {"layers:\n- flatten:\n  nam: f", CT_ERR_USAGE, "did you mean 'name'?"},
      {"layers:\n- flatten:\n  relu:", CT_ERR_USAGE, "m.yaml:3: one layer cannot be both flatten"},
      {"layers:\n- name: x", CT_ERR_USAGE, "m.yaml:2: this layer has no kind"},
      {"layers:\n- [relu]", CT_ERR_USAGE, "m.yaml:2: a layer is a map"},
      {"layers: []", CT_ERR_USAGE, "m.yaml:1: model.layers: expected a list"},
      {"layers: {relu: }", CT_ERR_USAGE, "m.yaml:1: model.layers: expected a list"},
      {"layers:\n- conv2d: {out: 1, kernle: 3}", CT_ERR_USAGE,
       "m.yaml:2: conv2d.kernle: unknown key; did you mean 'kernel'?"},
      {"layers:\n- flatten\n- linear", CT_ERR_USAGE, "m.yaml:3: linear.out: missing"},
      {"layers:\n- flatten\n- linear: [5]", CT_ERR_USAGE, "m.yaml:3: linear"},
      {"layers:\n- conv2d:\n    out: 1\n    kernel: 0", CT_ERR_USAGE, "m.yaml:4: conv2d.kernel"},
      {"layers:\n- dropout: {p: 1}", CT_ERR_USAGE, "m.yaml:2: dropout.p"},
      {"layers:\n- relu\n- relu:\n  name: relu1", CT_ERR_USAGE,
       "m.yaml:3: layer 'relu1' (relu): there is a layer of that name already"},
      {"layers:\n- relu:\n  name: input", CT_ERR_USAGE, "m.yaml:2: layer 'input' (relu)"},
      {"layers:\n- relu:\n  name: a/b", CT_ERR_USAGE,
       "m.yaml:2: layer 'a/b' (relu): a layer's name"},
      {"layers:\n- relu:\n  name: ''", CT_ERR_USAGE, "m.yaml:2: layer '' (relu)"},
      {"layers:\n- relu:\n  name: [a]", CT_ERR_USAGE, "m.yaml:3: name: expected a word"},
      {"layers:\n- relu\n- relu:\n  from: rleu1", CT_ERR_USAGE,
       "m.yaml:4: from: no layer before this one is called 'rleu1'; did you mean 'relu1'?"},
      {"layers:\n- relu:\n  from: pool\n- relu: \n  name: pool", CT_ERR_USAGE,
       "m.yaml:3: from: no layer before this one is called 'pool'"},
      {"layers:\n- relu\n- add", CT_ERR_USAGE, "m.yaml:3: layer 'add1' (add): takes two inputs"},
      {"layers:\n- relu\n- relu:\n  from: [relu1, input]", CT_ERR_USAGE, "takes one input"},
      {"layers:\n- relu\n- add:\n  from: [relu1]", CT_ERR_USAGE,
       "m.yaml:3: layer 'add1' (add): takes two inputs (write from: [a, b]), or one and a value"},
      {"layers:\n- relu\n- sub:\n  from: [relu1, relu1, relu1, relu1]", CT_ERR_USAGE,
       "m.yaml:4: from: a list must have 1 to 3 names, not 4"},
      {"layers:\n- relu\n- flatten\n- linear: {out: 10}\n  from: input", CT_ERR_USAGE,
       "m.yaml:3: layer 'flatten1' (flatten): no other layer uses its output"},
      {"layers:\n- relu\n- flatten:\n  from: input\n- linear: {out: 10}", CT_ERR_USAGE,
       "m.yaml:2: layer 'relu1' (relu): no other layer uses its output"},
      {"layers:\n- conv2d: {out: 4, kernel: 9}", CT_ERR_USAGE,
       "m.yaml:2: layer 'conv2d1' (conv2d): its window spans 9x9 pixels"},
      {"layers:\n- conv2d: {out: 4, kernel: 3, dilation: [1, 4]}", CT_ERR_USAGE,
       "spans 3x9 pixels"},
      {"layers:\n- conv2d: {out: 4, kernel: 3, groups: 2}", CT_ERR_USAGE, "2 groups must divide"},
      {"layers:\n- maxpool: {kernel: [2, 3], padding: [1, 2]}", CT_ERR_USAGE,
       "padding 2 is more than half of its kernel 3"},
      {"layers:\n- flatten\n- maxpool: {kernel: 2}", CT_ERR_USAGE, "needs images"},
      {"layers:\n- flatten\n- conv2d: {kernel: 2, out: 2}", CT_ERR_USAGE, "needs images"},
      {"layers:\n- flatten\n- global_avgpool", CT_ERR_USAGE, "needs images"},
      {"layers:\n- maxpool: {kernel: 2}\n- add:\n  from: [maxpool1, input]", CT_ERR_USAGE,
       "its inputs cannot be broadcast to one shape: Nx3x4x4 and Nx3x8x8"},
      {"layers:\n- flatten\n- linear: {out: 9}", CT_ERR_USAGE,
       "m.yaml:3: the last layer 'linear1' (linear) gives 9, but the output must be 10 values"},
      {"layers:\n- conv2d: {out: 9, kernel: 7}", CT_ERR_USAGE, "m.yaml:2: the last layer"},
      {"layers:\n- flatten\n- linear: {out: 1000000000}", CT_ERR_USAGE,
       "m.yaml:3: layer 'linear1' (linear): parameter weight has more than 2^36 elements"},
      {"layers:\n- groupnorm: {num_groups: 2}", CT_ERR_USAGE,
       "num_groups 2 must divide its 3 channels"},
      {"layers:\n- global_avgpool\n- instancenorm", CT_ERR_USAGE,
       "needs more than one value of each channel"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_wrong(&cases[i], image(3, 8, 8), 10);
  wrong_t instance = {"layers:\n- instancenorm", CT_ERR_USAGE, "needs more than one value"};
  assert_wrong(&instance, ct_shape(2, 1, 28), 10);
  wrong_t deep = {"layers:\n- batchnorm", CT_ERR_USAGE, "needs N x C and up to 3 dims"};
  assert_wrong(&deep, ct_shape(6, 1, 2, 2, 2, 2, 2), 10);
}

static void wrong_families_are_refused(void)
{
  static const wrong_t cases[] = {
      {"{}", CT_ERR_USAGE, "m.yaml: model: give a family (mlp, lenet, resnet, "},
      {"family: resnte", CT_ERR_USAGE, "did you mean 'resnet'?"},
      {"family: transformer", CT_ERR_USAGE, "expected one of mlp, lenet, resnet"},
      {"{family: resnet, depth: 19}", CT_ERR_USAGE,
       "model.depth: resnet has no depth 19; it has 18"},
      {"{family: mlp, layers: [relu]}", CT_ERR_USAGE, "a family or layers, not both"},
      {"{family: mlp, hidden: [12, 0]}", CT_ERR_USAGE, "model.hidden: a width must be an integer"},
      {"{family: mlp, hidden: 1.5}", CT_ERR_USAGE, "not 1.5"},
      {"{family: mlp, input: [3, 8, 9]}", CT_ERR_USAGE,
       "m.yaml: model.input is 3x8x9, but samples are 3x8x8"},
      {"{family: mlp, input: [3, 8.5, 8]}", CT_ERR_USAGE,
       "must be integers of at least 1, not 8.5"},
      {"{family: mlp, input: [1, 1, 1, 1, 1, 1, 1, 8]}", CT_ERR_USAGE,
       "has 8 numbers, a sample up to 7"},
      {"family: lenet", CT_ERR_USAGE,
       "m.yaml: model lenet for samples of 1x3x2: layer 'pool2' (maxpool)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
    assert_wrong(&cases[i],
                 i + 1 < sizeof cases / sizeof cases[0] ? image(3, 8, 8) : image(1, 3, 2), 10);
  wrong_t features = {"family: resnet", CT_ERR_USAGE, "needs images"};
  assert_wrong(&features, ct_shape(2, 1, 784), 10);
  wrong_t classes = {"family: mlp", CT_ERR_USAGE, "model.classes"};
  assert_wrong(&classes, image(1, 8, 8), 0);
  wrong_t huge = {"family: mlp", CT_ERR_SHAPE, "2^36"};
  assert_wrong(&huge, image((int64_t)1 << 40, (int64_t)1 << 40, 8), 10);
  wrong_t none = {"family: mlp", CT_ERR_SHAPE, "dimension 2 of the samples is 0"};
  assert_wrong(&none, image(1, 0, 8), 10);
}

/* What a checkpoint's configuration says of its input makes the same model again. */
static void the_input_is_noted(void)
{
  ct_model_opts_t o = {0};
  ct_shape_t sample = image(3, 8, 6), noted;
  CT_ASSERT_OK(ct_opt_defaults(ct_model_rows, &o));
  CT_ASSERT_OK(ct_model_input(&o, &noted));
  CT_ASSERT_INT(noted.ndim, 0);
  for (int again = 0; again < 2; again++) {
    CT_ASSERT_OK(ct_model_note_input(&o, &sample, NULL));
    CT_ASSERT_OK(ct_model_input(&o, &noted));
    CU_ASSERT(ct_shape_same(&noted, &sample));
    CT_ASSERT_INT(noted.dim[0], 1);
    sample = ct_shape(2, 1, 5);
  }
  ct_opt_clear(ct_model_rows, &o);
}

static void adding_from_code_says_the_layer(void)
{
  int id = -1;
  char longest[CT_NAME_MAX] = "";
  ct_graph_t *g = empty(image(1, 8, 8));
  memset(longest, 'x', CT_NAME_MAX - 1);
  CT_ASSERT_FAILS(ct_graph_add(g, &id, "a", "conv", -1, -2, NULL), CT_ERR_ARG,
                  "unknown kind 'conv'");
  CT_ASSERT_FAILS(ct_graph_add(g, &id, "a", "linear", -1, -2, "out: -1"), CT_ERR_USAGE,
                  "linear.out");
  CT_ASSERT_FAILS(ct_graph_add(g, &id, "a", "relu", 0, -2, NULL), CT_ERR_ARG,
                  "layer 'a' (relu): input number 0");
  CT_ASSERT_FAILS(ct_graph_add(g, &id, longest, "batchnorm", -1, -2, NULL), CT_ERR_USAGE,
                  "80 characters at most");
  CT_ASSERT_INT(g->layers, 0);
  CT_ASSERT_INT(g->params, 0);
  ct_graph_free(g);
  ct_graph_free(NULL);
}

static void survives_any_failed_allocation(void)
{
  static const char *const yaml[] = {residual, "{family: lenet, depth: 3}"};
  for (int k = 0; k < 2; k++) {
    int rc = CT_ERR_NOMEM;
    int64_t live = ct_mem_live();
    for (int64_t n = 1; n < 2000 && rc != CT_OK; n++) {
      ct_graph_t *g;
      ct_mem_fail_at(n);
      rc = make_for(yaml[k], image(1, 8, 8), 10, &g);
      ct_mem_fail_at(0);
      CU_ASSERT(rc == CT_OK || (rc == CT_ERR_NOMEM && !g));
      ct_graph_free(g);
      CT_ASSERT_INT(ct_mem_live(), live);
    }
    CT_ASSERT_INT(rc, CT_OK);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(reads_layers),
                                    CT_TEST(the_same_layers_from_code_hash_the_same),
                                    CT_TEST(a_dumped_configuration_gives_the_same_model),
                                    CT_TEST(wrong_layers_are_refused),
                                    CT_TEST(wrong_families_are_refused),
                                    CT_TEST(the_input_is_noted),
                                    CT_TEST(adding_from_code_says_the_layer),
                                    CT_TEST(survives_any_failed_allocation),
                                    CT_TEST_END};
  return ct_test_main("model layers", tests, argc, argv);
}
