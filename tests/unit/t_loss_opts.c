/* Section `loss`, and the confusion matrix. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "setup/ct_result.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "plan/ct_loss.h"
#include "tests/harness/ct_test.h"

static ct_loss_opts_t read_opts(const char *yaml)
{
  ct_loss_opts_t o = {0};
  ct_yaml_t *n = NULL;
  CT_ASSERT_OK(ct_opt_defaults(ct_loss_rows, &o));
  CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "x.yaml", &n));
  CT_ASSERT_OK(ct_opt_read(ct_loss_rows, &o, n, "x.yaml", "loss", NULL));
  ct_yaml_free(n);
  return o;
}

static void options_become_a_spec(void)
{
  static const struct {
    const char *yaml;
    int has_targets;
    ct_loss_spec_t want;
  } cases[] = {
      {"{}", 0, {0}},
      {"{label_smoothing: 0.1, class_weights: [1, 2]}", 0, {.weighted = 1, .label_smoothing = 0.1}},
      {"{z_loss: 1e-4}", 0, {.z_loss = 1e-4}},
      {"{ignore_index: -100}", 0, {.has_ignored = 1, .ignored = -100}},
      {"{ignore_index: 0}", 0, {.has_ignored = 1, .ignored = 0}},
      {"{kind: mse}", 1, {.kind = CT_LOSS_MSE}},
      {"{reduction: elements}", 0, {.divisor = CT_DIVISOR_ELEMENTS}},
      {"{kind: l1}", 0, {.kind = CT_LOSS_L1, .one_hot = 1}},
      {"{kind: bce}", 0, {.kind = CT_LOSS_BCE, .one_hot = 1}},
      {"{kind: bce, gamma: 2, alpha: 0.25, pos_weight: 3}",
       1,
       {.kind = CT_LOSS_BCE, .gamma = 2, .alpha = 0.25, .weighted = 1}},
      {"{kind: huber, delta: 0.5, ignore_value: -999}",
       1,
       {.kind = CT_LOSS_HUBER, .param = 0.5, .skips_nan = 1}},
      {"{kind: smooth_l1}", 1, {.kind = CT_LOSS_SMOOTH_L1, .param = 1}},
      {"{kind: poisson}", 1, {.kind = CT_LOSS_POISSON, .logs = 1}},
      {"{kind: kl}", 1, {.kind = CT_LOSS_KL}},
      {"{kind: dice, place_weights: latitude}",
       0,
       {.kind = CT_LOSS_DICE, .param = 1, .place_weighted = 1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const ct_loss_spec_t *want = &cases[i].want;
    ct_loss_opts_t o = read_opts(cases[i].yaml);
    ct_loss_spec_t s;
    CT_ASSERT_OK(ct_loss_spec(&o, cases[i].has_targets, &s));
    CT_ASSERT_INT(s.kind, want->kind);
    CT_ASSERT_INT(s.one_hot, want->one_hot);
    CT_ASSERT_INT(s.weighted, want->weighted);
    CT_ASSERT_INT(s.divisor, want->divisor);
    CT_ASSERT_INT(s.has_ignored, want->has_ignored);
    CT_ASSERT_INT(s.ignored, want->ignored);
    CT_ASSERT_INT(s.place_weighted, want->place_weighted);
    CT_ASSERT_INT(s.skips_nan, want->skips_nan);
    CT_ASSERT_INT(s.logs, want->logs);
    CT_ASSERT_NEAR(s.label_smoothing, want->label_smoothing, 0);
    CT_ASSERT_NEAR(s.z_loss, want->z_loss, 0);
    CT_ASSERT_NEAR(s.gamma, want->gamma, 0);
    CT_ASSERT_NEAR(s.alpha, want->alpha, 0);
    CT_ASSERT_NEAR(s.param, want->param, 0);
    ct_opt_clear(ct_loss_rows, &o);
  }
}

static void class_weights_become_floats(void)
{
  ct_loss_opts_t o = read_opts("{class_weights: [0.5, 2, 1e-3]}");
  const ct_shape_t x = ct_shape(3, 1, 3, 2);
  float w[6];
  CT_ASSERT_INT(ct_loss_class_count(&o, &x), 3);
  ct_loss_class_weights(&o, &x, w);
  CT_ASSERT_NEAR(w[0], 0.5, 0);
  CT_ASSERT_NEAR(w[2], 1e-3f, 0);
  ct_opt_clear(ct_loss_rows, &o);
  o = read_opts("{kind: bce, pos_weight: [0.5, 2, 3]}"); /* one for each output */
  CT_ASSERT_INT(ct_loss_class_count(&o, &x), 6);
  ct_loss_class_weights(&o, &x, w);
  CT_ASSERT_NEAR(w[1], 0.5, 0);
  CT_ASSERT_NEAR(w[2], 2, 0);
  CT_ASSERT_NEAR(w[5], 3, 0);
  ct_opt_clear(ct_loss_rows, &o);
}

static ct_graph_t *make_model(const char *layers, int64_t outputs)
{
  ct_graph_t *g = NULL;
  ct_shape_t x = ct_shape(4, 1, 1, 2, 2);
  ct_model_opts_t o = {0};
  CT_ASSERT_OK(ct_yaml_parse(layers, strlen(layers), "x.yaml", &o.layers));
  CT_ASSERT_OK(ct_graph_make(&o, &x, NULL, outputs, "x.yaml", &g));
  ct_yaml_free(o.layers);
  return g;
}

static void options_must_fit_model_and_data(void)
{
  static const struct {
    const char *yaml;
    int64_t targets;
    int code;
    const char *word;
  } cases[] = {
      {"{}", 0, CT_OK, ""},
      {"{class_weights: [1, 2, 3, 4]}", 0, CT_OK, ""},
      {"{kind: mse}", 4, CT_OK, ""},
      {"{kind: bce}", 0, CT_OK, ""},
      {"{}", 4, CT_ERR_USAGE, "loss.kind is cross_entropy, which is of class labels"},
      {"{kind: l1}", 3, CT_ERR_USAGE,
       "the last layer 'linear1' (linear) gives 1x4, but a sample has 3"},
      {"{class_weights: [1, 2]}", 0, CT_ERR_USAGE, "loss.class_weights has 2 numbers"},
      {"{class_weights: [1, 0, 1, 1]}", 0, CT_OK, ""},
      {"{class_weights: [1, -1, 1, 1]}", 0, CT_ERR_USAGE, "loss.class_weights: -1, of class 1"},
      {"{class_weights: [0, 0, 0, 0]}", 0, CT_ERR_USAGE, "loss.class_weights are all 0"},
      {"{kind: mse, label_smoothing: 0.1}", 4, CT_ERR_USAGE,
       "loss.label_smoothing is for cross_entropy, soft_cross_entropy, but loss.kind is mse"},
      {"{gamma: 2, label_smoothing: 0.1}", 0, CT_ERR_USAGE, "loss.gamma, of the focal loss"},
      {"{kind: mse, z_loss: 1e-4}", 4, CT_ERR_USAGE, "loss.z_loss is for cross_entropy, but"},
      {"{kind: mse, gamma: 2}", 4, CT_ERR_USAGE, "loss.gamma is for cross_entropy, bce"},
      {"{kind: bce, alpha: 1}", 4, CT_ERR_USAGE, "loss.alpha is 1, expected a number below 1"},
      {"{kind: huber, delta: 0}", 4, CT_ERR_USAGE, "loss.delta is 0"},
      {"{kind: huber, beta: 2}", 4, CT_ERR_USAGE, "loss.beta is for smooth_l1"},
      {"{kind: dice, smooth: 0}", 0, CT_ERR_USAGE, "loss.smooth is 0"},
      {"{kind: bce, pos_weight: [1, 2, 3]}", 4, CT_ERR_USAGE, "loss.pos_weight has 3 numbers"},
      {"{kind: bce, pos_weight: -1}", 4, CT_ERR_USAGE, "loss.pos_weight: -1"},
      {"{kind: mse, ignore_value: none}", 4, CT_ERR_USAGE, "loss.ignore_value: 'none'"},
      {"{kind: dice, ignore_value: 1}", 0, CT_ERR_USAGE, "loss.ignore_value is for mse"},
      {"{kind: dice}", 4, CT_ERR_USAGE, "loss.kind is dice, which is of class labels"},
      {"{kind: kl, log_target: true}", 4, CT_OK, ""},
      {"{kind: soft_cross_entropy}", 4, CT_OK, ""},
      {"{kind: bce, class_weights: 1}", 4, CT_ERR_USAGE, "loss.class_weights is for cross_entropy"},
      {"{kind: l1, ignore_index: 3}", 4, CT_ERR_USAGE, "loss.ignore_index is for cross_entropy"},
      {"{ignore_index: none}", 0, CT_ERR_USAGE, "loss.ignore_index: 'none' is not a label"},
      {"{ignore_index: 3000000000}", 0, CT_ERR_USAGE, "loss.ignore_index: '3000000000'"},
  };
  ct_graph_t *g = make_model("[flatten, {linear: {out: 4}}]", 4);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_loss_opts_t o = read_opts(cases[i].yaml);
    if (cases[i].code == CT_OK)
      CT_ASSERT_OK(ct_loss_check(&o, g, 4, cases[i].targets, 1));
    else
      CT_ASSERT_FAILS(ct_loss_check(&o, g, 4, cases[i].targets, 1), cases[i].code, cases[i].word);
    ct_opt_clear(ct_loss_rows, &o);
  }
  ct_graph_free(g);
}

/* Cross-entropy is of N x classes, the others of any shape. */
static void outputs_of_any_shape(void)
{
  ct_graph_t *g = make_model("[{conv2d: {out: 3, kernel: 1}}]", 12);
  ct_loss_opts_t o = read_opts("{kind: mse}");
  CT_ASSERT_OK(ct_loss_check(&o, g, 12, 12, 1));
  CT_ASSERT_FAILS(ct_loss_check(&o, g, 12, 0, 4), CT_ERR_USAGE, "a label per pixel");
  o.kind = CT_LOSS_CROSS_ENTROPY;
  CT_ASSERT_FAILS(ct_loss_check(&o, g, 12, 0, 1), CT_ERR_USAGE,
                  "the last layer 'conv2d1' (conv2d)");
  CT_ASSERT_OK(ct_loss_check(&o, g, 3, 0, 4)); /* a label for each place */
  CT_ASSERT_FAILS(ct_loss_check(&o, g, 3, 0, 9), CT_ERR_USAGE, "a sample has 9 labels");
  ct_opt_clear(ct_loss_rows, &o);
  ct_graph_free(g);
}

/* ---- the matrix ---- */

/* An evaluation's JSON, appended to out. */
static void add_json(const ct_eval_result_t *e, const ct_confusion_t *c, ct_str_t *out)
{
  json_t *o = ct_result_eval_json(e, c, &(ct_opt_texts_t){0});
  char *text = json_dumps(o, 0);
  CU_ASSERT_FATAL(text != NULL);
  CT_ASSERT_OK(ct_str_add(out, "%s", text));
  free(text);
  json_decref(o);
}

static void predictions_are_counted(void)
{
  static const float logits[] = {1, 2, 3, 3, 2, 1, 0, 5, 5, 1, NAN, 9, 1, 2, 3};
  static const int32_t labels[] = {2, 1, 1, 2, -100};
  static const int64_t want[] = {0, 0, 0, 1, 1, 0, 0, 1, 1};
  ct_confusion_t c;
  ct_eval_result_t e = {.loss = 0.5, .top1 = 0.5, .top5 = 1, .samples = 4};
  ct_str_t text = {0};
  char path[700], *file = NULL;
  size_t bytes;
  CT_ASSERT_OK(ct_confusion_open(3, &c));
  for (int i = 0; i < 5; i++)
    ct_confusion_add(&c, logits + 3 * i, 1, labels[i]);
  for (int i = 0; i < 9; i++)
    CT_ASSERT_INT(c.count[i], want[i]);
  CT_ASSERT_INT(ct_confusion_samples(&c, 1), 2);
  CT_ASSERT_INT(ct_confusion_right(&c, 1), 1);
  CT_ASSERT_NEAR(ct_confusion_iou(&c, 1), 1.0 / 3, 1e-15);
  CT_ASSERT_NEAR(ct_confusion_iou(&c, 2), 0.5, 0);
  CT_ASSERT_OK(ct_result_classes(&c, 0, &(ct_opt_texts_t){0}, &text));
  CT_ASSERT_HAS(text.data, "    0         0          -          -        -\n"
                           "      1         2     0.5000     0.5000   0.5000\n"
                           "      2         2     0.5000     1.0000   0.6667\n"
                           "   mean               0.3333     0.5000   0.3889\n");
  ct_str_clear(&text);
  add_json(&e, &c, &text);
  CT_ASSERT_HAS(text.data, "\"top1\": 0.5");
  CT_ASSERT_HAS(text.data, "\"accuracy\": null");
  CU_ASSERT(strstr(text.data, "mae") == NULL);
  ct_str_clear(&text);
  snprintf(path, sizeof path, "%s/c.csv", ct_test_dir());
  CT_ASSERT_OK(ct_result_confusion(&c, &(ct_opt_texts_t){0}, path));
  CT_ASSERT_OK(ct_file_read(path, &file, &bytes));
  CT_ASSERT_TEXT(file, "label,0,1,2\n0,0,0,0\n1,1,1,0\n2,0,1,1\n");
  ct_mem_free(file);
  ct_confusion_close(&c);
}

static void regression_has_no_top_k(void)
{
  ct_eval_result_t e = {.loss = 0.5, .mae = 0.25, .regression = 1, .samples = 4};
  ct_str_t text = {0};
  CT_ASSERT_OK(ct_result_eval(&e, &text));
  add_json(&e, NULL, &text);
  CT_ASSERT_HAS(text.data, "  mae               0.2500\n");
  CT_ASSERT_HAS(text.data, "\"mae\": 0.25");
  CU_ASSERT(strstr(text.data, "top") == NULL);
  ct_str_clear(&text);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(options_become_a_spec),
                                    CT_TEST(class_weights_become_floats),
                                    CT_TEST(options_must_fit_model_and_data),
                                    CT_TEST(outputs_of_any_shape),
                                    CT_TEST(predictions_are_counted),
                                    CT_TEST(regression_has_no_top_k),
                                    CT_TEST_END};
  return ct_test_main("loss options", tests, argc, argv);
}
