/* Layers with windows, resizing and recurrent layers: shapes, parameters and what they refuse. */
#include "tests/unit/model_make.h"

static ct_shape_t shape_of(int ndim, int64_t c, int64_t a, int64_t b, int64_t d)
{
  return ct_shape(ndim, 1, c, a, b, d);
}

/* Shapes that torch gives. */
static void shapes_are_torchs(void)
{
  static const struct {
    int ndim;
    int64_t size[4];
    const char *kind, *opts, *out;
  } cases[] = {
      {3, {4, 15}, "conv1d", "out: 6, kernel: 3, stride: 2, padding: 1", "1x6x8"},
      {3, {4, 15}, "conv1d", "out: 6, kernel: [3], dilation: 2, groups: 2", "1x6x11"},
      {3, {4, 5}, "conv_transpose1d", "out: 3, kernel: 4, stride: 3, output_padding: 2", "1x3x18"},
      {4,
       {4, 5, 6},
       "conv_transpose2d",
       "out: 2, kernel: [3, 2], stride: 2, padding: 1, output_padding: [1, 0], dilation: [2, 1]",
       "1x2x12x10"},
      {5, {2, 3, 4, 5}, "conv_transpose3d", "out: 4, kernel: 2, stride: 2", "1x4x6x8x10"},
      {3, {4, 10}, "maxpool1d", "kernel: 3, stride: 2", "1x4x4"},
      {3, {4, 10}, "maxpool1d", "kernel: 3, stride: 2, ceil_mode: yes", "1x4x5"},
      {3, {4, 10}, "avgpool1d", "kernel: 2", "1x4x5"},
      {4, {4, 7, 8}, "maxpool", "kernel: 2, ceil_mode: yes", "1x4x4x4"},
      {4, {4, 6, 6}, "maxpool", "kernel: 3, stride: 4, padding: 1, ceil_mode: yes", "1x4x2x2"},
      {4, {4, 9, 9}, "maxpool", "kernel: 3, stride: 1, dilation: [2, 3]", "1x4x5x3"},
      {3, {4, 9}, "adaptive_avgpool", "out: 5", "1x4x5"},
      {4, {4, 9, 7}, "adaptive_maxpool", "out: [5, 2]", "1x4x5x2"},
      {5, {4, 3, 4, 5}, "adaptive_maxpool", "out: 2", "1x4x2x2x2"},
      {3, {4, 9}, "global_avgpool", "", "1x4x1"},
      {3, {4, 9}, "upsample", "", "1x4x18"},
      {4, {4, 5, 6}, "upsample", "scale: [1.7, 0.8], mode: bicubic", "1x4x8x4"},
      {4, {4, 5, 6}, "upsample", "size: [3, 9], mode: area", "1x4x3x9"},
      {4, {4, 5, 6}, "upsample", "like: input, scale: 3", "1x4x5x6"},
      {5, {4, 2, 3, 4}, "upsample", "size: 5, mode: linear, align_corners: yes", "1x4x5x5x5"},
      {3, {7, 5}, "gru", "hidden: 6, reverse: yes", "1x7x6"},
      {3, {7, 5}, "lstm", "hidden: 6, bias: no", "1x7x6"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int id = -1;
    char text[80];
    const int64_t *s = cases[i].size;
    ct_graph_t *g = empty(shape_of(cases[i].ndim, s[0], s[1], s[2], s[3]));
    CT_ASSERT_OK(ct_graph_add(g, &id, "it", cases[i].kind, -1, -2, "%s", cases[i].opts));
    if (g->layers == 1)
      CT_ASSERT_TEXT(ct_shape_text(&g->layer[0].out, text, sizeof text), cases[i].out);
    ct_graph_free(g);
  }
}

static void parameters_are_torchs(void)
{
  static const struct {
    int ndim;
    const char *kind, *opts, *names[4], *shapes[4];
  } cases[] = {
      {3, "conv1d", "out: 6, kernel: 3, groups: 2", {"it.weight", "it.bias"}, {"6x2x3", "6"}},
      {4,
       "conv_transpose2d",
       "out: 6, kernel: [3, 2], groups: 2",
       {"it.weight", "it.bias"},
       {"4x3x3x2", "6"}},
      {3,
       "gru",
       "hidden: 2, params: rnn, level: 1, reverse: yes",
       {"rnn.weight_ih_l1_reverse", "rnn.weight_hh_l1_reverse", "rnn.bias_ih_l1_reverse",
        "rnn.bias_hh_l1_reverse"},
       {"6x5", "6x2", "6", "6"}},
      {3, "lstm", "hidden: 2, bias: no", {"it.weight_ih_l0", "it.weight_hh_l0"}, {"8x5", "8x2"}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int id = -1, n = 0;
    char text[80];
    ct_graph_t *g = empty(shape_of(cases[i].ndim, 4, 5, 6, 7));
    CT_ASSERT_OK(ct_graph_add(g, &id, "it", cases[i].kind, -1, -2, "%s", cases[i].opts));
    while (n < 4 && cases[i].names[n])
      n++;
    CT_ASSERT_INT(g->params, n);
    for (int k = 0; k < n && k < g->params; k++) {
      CT_ASSERT_TEXT(g->param[k].name, cases[i].names[k]);
      CT_ASSERT_TEXT(ct_shape_text(&g->param[k].spec.shape, text, sizeof text), cases[i].shapes[k]);
    }
    ct_graph_free(g);
  }
}

static void wrong_options_are_refused(void)
{
  static const struct {
    int ndim;
    const char *kind, *opts, *text;
  } cases[] = {
      {4, "conv1d", "out: 1, kernel: 3", "needs sequences (N x C x L)"},
      {3, "conv1d", "out: 1, kernel: 9", "its window spans 9 pixels"},
      {3, "conv1d", "out: 1, kernel: [3, 3]", "expected an integer"},
      {4, "conv2d", "out: 1, kernel: 3, padding: [1, 2, 3]", "one number, one for each of 2 dims"},
      {4, "conv2d", "out: 1, kernel: 3, padding: 0.5",
       "expected a whole number up to 4096, same or valid, not '0.5'"},
      {4, "conv2d", "out: 1, kernel: 3, padding: same, stride: 2", "same is for stride 1 only"},
      {4, "conv2d", "out: 1, kernel: 3, padding: [same, 1]", "not 'same'"},
      {4, "conv2d", "out: 1, kernel: 3, padding: -1", "not '-1'"},
      {4, "conv2d", "out: 1, kernel: 3, padding: 1, padding_mode: mirror",
       "expected zeros, reflect, replicate or circular, not 'mirror'"},
      {5, "conv3d", "out: 1, kernel: 3, padding: 1, padding_mode: [zeros, circular]",
       "one word, or one for each of 3 dims, not 2"},
      {4, "pad", "pad: [1, 1], mode: mirror", "not 'mirror'"},
      {4, "pad", "pad: [1, 1], mode: [constant, circular]", "one for each of 1 dims, not 2"},
      {4, "conv_transpose2d", "out: 1, kernel: 3, output_padding: 1",
       "output_padding 1 must be smaller than its stride 1"},
      {4, "conv_transpose2d", "out: 1, kernel: 1, padding: 3", "cuts off the whole output"},
      {4, "conv_transpose2d", "out: 3, kernel: 1, groups: 2", "must divide both its 4 input"},
      {3, "conv_transpose2d", "out: 3, kernel: 1", "needs images"},
      {3, "maxpool1d", "kernel: 2, padding: 2", "more than half of its kernel"},
      {4, "maxpool", "kernel: 3, dilation: 4", "its window spans 9x9 pixels"},
      {4, "adaptive_maxpool", "out: [1, 2, 3]", "one for each of 2 dims, not 3"},
      {4, "adaptive_maxpool", "out: 1.5", "1.5 is not a whole number"},
      {2, "adaptive_avgpool", "out: 1", "needs images"},
      {3, "upsample", "mode: bicubic", "is for images"},
      {4, "upsample", "align_corners: yes", "for the modes linear and bicubic"},
      {4, "upsample", "size: [1, 2, 3]", "one for each of 2 dims, not 3"},
      {4, "upsample", "size: 2.5", "2.5 is not a whole number"},
      {4, "upsample", "like: x", "like: no layer before this one is called 'x'"},
      {4, "upsample", "like: input, size: 3", "takes `size` or `like`, not both"},
      {4, "upsample", "scale: 0.1", "leaves nothing"},
      {4, "glu", "dim: 2", "dim 2 of its input, Nx4x5x6, has no halves"},
      {4, "glu", "dim: 4", "dim: 4 is not a dim of its input"},
      {4, "layernorm", "dim: 1, shape: [4, 5]", "takes a `shape` of one size with `dim`"},
      {4, "gru", "hidden: 2", "needs a sequence"},
      {3, "convolve", "stride: 1", "takes two inputs"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    int id = -1;
    ct_graph_t *g = empty(shape_of(cases[i].ndim, 4, 5, 6, 7));
    int rc = ct_graph_add(g, &id, "it", cases[i].kind, -1, -2, "%s", cases[i].opts);
    CT_ASSERT_FAILS(rc, rc == CT_ERR_USAGE ? CT_ERR_USAGE : CT_ERR_SHAPE, cases[i].text);
    CT_ASSERT_INT(g->layers, 0);
    ct_graph_free(g);
  }
}

#define CONVOLVE(shape, more) \
  "layers:\n"                 \
  "- parameter: {shape: " shape "}\n  name: w\n" more
#define TAIL "- flatten\n- linear: {out: 10}\n"

static void computed_weights_are_checked(void)
{
  static const struct {
    const char *yaml, *text; /* NULL: accepted */
  } cases[] = {
      {CONVOLVE("[6, 4, 3, 3]", "- convolve: {padding: 1}\n  from: [input, w]\n" TAIL), NULL},
      {CONVOLVE("[6, 2, 3, 3]", "- parameter: {shape: [6]}\n  name: b\n"
                                "- convolve: {groups: 2}\n  from: [input, w, b]\n" TAIL),
       NULL},
      {CONVOLVE("[6, 3, 3, 3]", "- convolve:\n  from: [input, w]\n" TAIL),
       "does not fit its input"},
      {CONVOLVE("[6, 4, 3]", "- convolve:\n  from: [input, w]\n" TAIL), "a weight of as many dims"},
      {CONVOLVE("[6, 4, 3, 3]", "- convolve:\n  from: [input, w, w]\n" TAIL),
       "its bias is 6x4x3x3"},
      {CONVOLVE("[6, 4, 3, 3]", "- relu:\n  from: input\n"
                                "- convolve:\n  from: [w, relu1]\n" TAIL),
       "the batch is not the first dim"},
      {CONVOLVE("[1, 4, 5, 6]", "- conv2d: {out: 4, kernel: 1}\n  from: input\n"
                                "- convolve:\n  from: [input, conv2d1]\n" TAIL),
       "must not depend on the batch"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_graph_t *g = NULL;
    int rc = make_for(cases[i].yaml, image(4, 5, 6), 10, &g);
    if (cases[i].text)
      CT_ASSERT_FAILS(rc, CT_ERR_USAGE, cases[i].text);
    else
      CT_ASSERT_OK(rc);
    ct_graph_free(g);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(shapes_are_torchs), CT_TEST(parameters_are_torchs),
                                    CT_TEST(wrong_options_are_refused),
                                    CT_TEST(computed_weights_are_checked), CT_TEST_END};
  return ct_test_main("model windows", tests, argc, argv);
}
