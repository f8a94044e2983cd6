/* Layer kinds and families of sequences. */
#include "model/ct_family.h"

#include <math.h>

#include "tests/unit/model_make.h"

static void assert_out(const ct_graph_t *g, const char *name, const char *expected)
{
  char text[80];
  CT_ASSERT_TEXT(ct_shape_text(&layer(g, name)->out, text, sizeof text), expected);
}

static void assert_param(const ct_graph_t *g, const char *name, const char *shape)
{
  char text[80];
  CT_ASSERT_TEXT(ct_shape_text(&param(g, name)->spec.shape, text, sizeof text), shape);
}

static void lstm_has_torchs_names(void)
{
  ct_graph_t *g = make("{family: lstm, depth: 2, hidden: 24}", image(1, 7, 5), 3);
  if (!g) return;
  assert_out(g, "sequence", "1x7x5");
  assert_out(g, "lstm1", "1x7x24");
  assert_out(g, "last", "1x24");
  assert_param(g, "lstm.weight_ih_l0", "96x5");
  assert_param(g, "lstm.weight_ih_l1", "96x24");
  assert_param(g, "lstm.weight_hh_l1", "96x24");
  assert_param(g, "lstm.bias_ih_l0", "96");
  assert_param(g, "lstm.bias_hh_l1", "96");
  assert_param(g, "fc.weight", "3x24");
  CT_ASSERT_INT(g->params, 10);
  CT_ASSERT_NEAR(param(g, "lstm.weight_ih_l0")->spec.scale, 1 / sqrt(24), 1e-12);
  ct_graph_free(g);
}

static void lstm_takes_sequences_as_they_are(void)
{
  ct_graph_t *g = make("family: lstm", ct_shape(3, 1, 9, 4), 5);
  if (!g) return;
  assert_out(g, "lstm0", "1x9x128");
  CT_ASSERT_INT(g->layers, 3); /* its usual depth is 1 */
  ct_graph_free(g);
}

static void linear_acts_on_each_step(void)
{
  ct_graph_t *g = make("layers: [sequence, linear: {out: 8}, layernorm, attention: {heads: 2}, "
                       "select: {index: 2}, linear: {out: 3}]",
                       image(1, 6, 5), 3);
  if (!g) return;
  assert_out(g, "linear1", "1x6x8");
  assert_param(g, "linear1.weight", "8x5");
  assert_param(g, "layernorm1.bias", "8");
  assert_param(g, "attention1.in_proj_weight", "24x8");
  assert_param(g, "attention1.in_proj_bias", "24");
  assert_param(g, "attention1.out_proj.weight", "8x8");
  assert_param(g, "attention1.out_proj.bias", "8");
  assert_out(g, "select1", "1x8");
  ct_graph_free(g);
}

static void tokens_of_an_image(void)
{
  ct_graph_t *g = make("layers: [conv2d: {out: 6, kernel: 2, stride: 2, init: trunc_normal}, "
                       "tokens, select: {index: 0}, linear: {out: 2, init: zero}]",
                       image(3, 4, 6), 2);
  if (!g) return;
  assert_out(g, "tokens1", "1x7x6");
  assert_param(g, "class_token", "1x1x6");
  assert_param(g, "tokens1.pos_embedding", "1x7x6");
  ct_graph_free(g);
}

static void vit_is_torchvisions(void)
{
  ct_graph_t *g = make("{family: vit, depth: 12, patch: 16, dim: 768, heads: 12, mlp: 3072}",
                       image(3, 224, 224), 1000);
  if (!g) return;
  CT_ASSERT_INT(ct_graph_count(g), 86567656); /* vit_b_16 */
  CT_ASSERT_INT(g->params, 152);
  assert_param(g, "class_token", "1x1x768");
  assert_param(g, "conv_proj.weight", "768x3x16x16");
  assert_param(g, "encoder.pos_embedding", "1x197x768");
  assert_param(g, "encoder.layers.encoder_layer_11.ln_1.weight", "768");
  assert_param(g, "encoder.layers.encoder_layer_11.self_attention.in_proj_weight", "2304x768");
  assert_param(g, "encoder.layers.encoder_layer_11.self_attention.out_proj.bias", "768");
  assert_param(g, "encoder.layers.encoder_layer_11.mlp.0.weight", "3072x768");
  assert_param(g, "encoder.layers.encoder_layer_11.mlp.3.bias", "768");
  assert_param(g, "encoder.ln.bias", "768");
  assert_param(g, "heads.head.weight", "1000x768");
  ct_graph_free(g);
}

static void truncated_normal_stays_within_two(void)
{
  enum { N = 4096 };
  static float v[N];
  double square = 0, most = 0;
  ct_graph_t *g = make("layers: [conv2d: {out: 4096, kernel: 1, init: trunc_normal}, "
                       "global_avgpool, flatten, linear: {out: 2}]",
                       image(1, 4, 4), 2);
  if (!g) return;
  ct_graph_init_param(g, ct_graph_find_param(g, "conv2d1.weight"), 3, v);
  for (int i = 0; i < N; i++) {
    square += (double)v[i] * v[i] / N;
    most = fmax(most, fabs(v[i]));
  }
  CU_ASSERT(most <= 2 && most > 1.9);
  CT_ASSERT_NEAR(square, 0.774, 0.05); /* variance of a normal number cut at two deviations */
  ct_graph_free(g);
}

static void what_does_not_fit_is_refused(void)
{
  static const struct {
    const char *yaml;
    int code;
    const char *text;
  } cases[] = {
      {"layers: [lstm: {hidden: 4}]", CT_ERR_USAGE, "needs a sequence"},
      {"layers: [sequence, attention: {heads: 3}]", CT_ERR_USAGE, "3 heads must divide its 8"},
      {"layers: [sequence, select: {index: 8}]", CT_ERR_USAGE,
       "index 8 is out of range of a sequence of 8"},
      {"layers: [tokens, sequence]", CT_ERR_USAGE, "images of one channel"},
      {"layers: [sequence, lstm: {hidden: 4, params: a}, lstm: {hidden: 4, params: a}]",
       CT_ERR_USAGE, "there is a parameter a.weight_ih_l0 already"},
      {"{family: vit, patch: 3}", CT_ERR_USAGE, "3 does not divide the image"},
      {"{family: vit, heads: 5}", CT_ERR_USAGE, "5 does not divide model.dim"},
      {"{family: lstm, hidden: [3, 4]}", CT_ERR_USAGE, "model.hidden"},
      {"{family: lstm, depth: 9}", CT_ERR_USAGE, "lstm has no depth 9"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_graph_t *g;
    CT_ASSERT_FAILS(make_for(cases[i].yaml, image(1, 8, 8), 2, &g), cases[i].code, cases[i].text);
    CU_ASSERT_PTR_NULL(g);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(lstm_has_torchs_names),        CT_TEST(lstm_takes_sequences_as_they_are),
      CT_TEST(linear_acts_on_each_step),     CT_TEST(tokens_of_an_image),
      CT_TEST(vit_is_torchvisions),          CT_TEST(truncated_normal_stays_within_two),
      CT_TEST(what_does_not_fit_is_refused), CT_TEST_END,
  };
  return ct_test_main("models of sequences", tests, argc, argv);
}
