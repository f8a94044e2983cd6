/* Measures of evaluations against scikit-learn and torchmetrics (golden/make_measures.py), for one
 * rank; that several ranks have the same results cli/eval.test looks at. */
#include <math.h>

#include "eval/class_counts.h"
#include "eval/field_errors.h"
#include "eval/ranking_metrics.h"
#include "eval/ct_eval_metrics.h"
#include "tests/golden/gold.h"

enum { MOST = 800 };
static const ct_topo_t alone = {.size = 1, .nodes = 1};

static float outputs[MOST], answers[MOST], expected[12];

static void take(const gold_t *g, const char *name, const char *what, int64_t n, float *out)
{
  char record[64];
  snprintf(record, sizeof record, "%s.%s", name, what);
  gold_take(g, record, n, out);
}

static void check_classes(const gold_t *g, const char *name, int n, int classes)
{
  int32_t labels[MOST];
  double auc = 0, map = 0;
  float expected_map;
  ct_confusion_t c;
  ct__ranking_t s = {.classes = classes, .softmax = 1};
  take(g, name, "outputs", n * classes, outputs);
  take(g, name, "labels", n, answers);
  take(g, name, "expected", 4, expected);
  take(g, name, "map", 1, &expected_map);
  CT_ASSERT_OK(ct_confusion_open(classes, &c));
  CT_ASSERT_OK(ct__ranking_open(&s, n));
  for (int i = 0; i < n; i++) {
    labels[i] = (int32_t)answers[i];
    ct_confusion_add(&c, outputs + i * classes, 1, labels[i]);
  }
  for (int i = 0; i < n; i += 7) { /* batch by batch */
    ct__compared_t b = {
        .n = i + 7 < n ? 7 : n - i, .out = outputs + i * classes, .labels = labels + i};
    ct__ranking_batch(&s, &b);
  }
  ct_prf_t macro = ct_prf_macro(&c);
  CT_ASSERT_OK(ct__ranking_auc(&s, &alone, &auc, &map));
  CT_ASSERT_NEAR(macro.precision, expected[0], 1e-6);
  CT_ASSERT_NEAR(macro.recall, expected[1], 1e-6);
  CT_ASSERT_NEAR(macro.f1, expected[2], 1e-6);
  CT_ASSERT_NEAR(auc, expected[3], 1e-6);
  CT_ASSERT_NEAR(map, expected_map, 1e-6);
  ct__ranking_close(&s);
  ct_confusion_close(&c);
}

static void classes_as_scikit_learn(void)
{
  gold_t g = {0};
  if (CT_ASSERT_OK(gold_open(&g, "measures.gold")) != CT_OK) return;
  check_classes(&g, "four", 60, 4);
  check_classes(&g, "ties", 60, 4);
  check_classes(&g, "two", 40, 2);
  check_classes(&g, "absent", 40, 5);
  ct_mem_free(g.data);
}

static void check_values(const gold_t *g, const char *name, int n, int k)
{
  double r2 = 0;
  ct__ranking_t s = {.outputs = k};
  take(g, name, "outputs", n * k, outputs);
  take(g, name, "targets", n * k, answers);
  take(g, name, "expected", 1, expected);
  CT_ASSERT_OK(ct__ranking_open(&s, n));
  ct__compared_t b = {.n = n, .out = outputs, .targets = answers};
  ct__ranking_batch(&s, &b);
  CT_ASSERT_OK(ct__ranking_r2(&s, &alone, &r2));
  CT_ASSERT_NEAR(r2, expected[0], 1e-5);
  ct__ranking_close(&s);
}

static void values_as_scikit_learn(void)
{
  gold_t g = {0};
  if (CT_ASSERT_OK(gold_open(&g, "measures.gold")) != CT_OK) return;
  check_values(&g, "values", 50, 3);
  check_values(&g, "constant", 8, 2);
  ct_mem_free(g.data);
}

static void what_cannot_be_measured_is_no_number(void)
{
  ct_scored_t same[] = {{1, 1}, {2, 1}}, odd[] = {{1, 1}, {NAN, 0}};
  double value = 0, map = 0;
  ct_confusion_t c;
  ct__ranking_t s = {.classes = 3}, v = {.outputs = 2};
  CU_ASSERT(isnan(ct_auc(same, 2)));
  CU_ASSERT(isnan(ct_auc(odd, 2)));
  CU_ASSERT(isnan(ct_auc(same, 0)));
  CT_ASSERT_OK(ct_confusion_open(3, &c));
  CU_ASSERT(isnan(ct_prf_macro(&c).f1) && isnan(ct_prf_class(&c, 1).recall));
  ct_confusion_close(&c);
  CT_ASSERT_OK(ct__ranking_open(&s, 0));
  CT_ASSERT_OK(ct__ranking_auc(&s, &alone, &value, &map));
  CU_ASSERT(isnan(value) && isnan(map));
  ct__ranking_close(&s);
  CT_ASSERT_OK(ct__ranking_open(&v, 0));
  CT_ASSERT_OK(ct__ranking_r2(&v, &alone, &value));
  CU_ASSERT(isnan(value));
  ct__ranking_close(&v);
}

static void ignored_labels_are_left_out(void)
{
  double value = 0, map = 0;
  int32_t labels[] = {0, 255, 1, 0};
  float out[] = {3, 1, 0, 9, 1, 2, 2, 3}; /* scores of the second class: 1, -, 2, 3 */
  ct__ranking_t s = {.classes = 2};
  ct__compared_t b = {.n = 4, .out = out, .labels = labels, .has_ignored = 1, .ignored = 255};
  CT_ASSERT_OK(ct__ranking_open(&s, 4));
  ct__ranking_batch(&s, &b);
  CT_ASSERT_INT(s.n, 3);
  CT_ASSERT_OK(ct__ranking_auc(&s, &alone, &value, &map));
  CT_ASSERT_NEAR(value, 0.5, 0);
  ct__ranking_close(&s);
}

/* ---- pixels and sets of labels ---- */

/* Counts a batch of n samples in two parts. */
static void count(ct__class_counts_t *s, ct__compared_t b, int n)
{
  int64_t values = b.classes * b.places;
  CT_ASSERT_OK(ct__class_counts_open(s, b.places));
  b.n = 1;
  CT_ASSERT_OK(ct__class_counts_batch(s, &b));
  b.out += values;
  if (b.labels) b.labels += b.places;
  if (b.targets) b.targets += values;
  b.n = n - 1;
  CT_ASSERT_OK(ct__class_counts_batch(s, &b));
  ct__class_counts_sum(s, &alone);
}

static void check_overlaps(ct__class_counts_t *s, const float *e)
{
  CT_ASSERT_NEAR(ct_class_mean(s->all, ct_class_iou), e[0], 1e-6);
  CT_ASSERT_NEAR(ct__sample_mean(&s->iou), e[1], 1e-6);
  CT_ASSERT_NEAR(ct_class_mean(s->all, ct_class_dice), e[2], 1e-6);
  CT_ASSERT_NEAR(ct__sample_mean(&s->dice), e[3], 1e-6);
}

static void pixels_as_torchmetrics(void)
{
  enum { N = 6, CLASSES = 4, PLACES = 30 };
  int32_t labels[N * PLACES];
  gold_t g = {0};
  ct_confusion_t c;
  if (CT_ASSERT_OK(gold_open(&g, "measures.gold")) != CT_OK) return;
  take(&g, "pixels", "outputs", N * CLASSES * PLACES, outputs);
  take(&g, "pixels", "labels", N * PLACES, answers);
  take(&g, "pixels", "expected", 4, expected);
  for (int i = 0; i < N * PLACES; i++)
    labels[i] = (int32_t)answers[i];
  CT_ASSERT_OK(ct_confusion_open(CLASSES, &c));
  ct__class_counts_t s = {.all = &c, .by_sample = 1};
  count(&s,
        (ct__compared_t){.classes = CLASSES,
                         .places = PLACES,
                         .out = outputs,
                         .labels = labels,
                         .has_ignored = 1,
                         .ignored = 255},
        N);
  check_overlaps(&s, expected);
  CT_ASSERT_INT(s.iou.n, N - 1); /* one has no known pixel */
  ct__class_counts_close(&s);
  ct_confusion_close(&c);
  ct_mem_free(g.data);
}

static void check_sets(const gold_t *g, const char *name, int n, int classes, int places)
{
  double auc, map;
  float ranked[2];
  ct_confusion_t c;
  take(g, name, "outputs", n * classes * places, outputs);
  take(g, name, "targets", n * classes * places, answers);
  take(g, name, "expected", 10, expected);
  CT_ASSERT_OK(ct_confusion_open_sets(classes, &c));
  ct__class_counts_t s = {.all = &c, .by_sample = 1};
  ct__compared_t b = {.classes = classes, .places = places, .out = outputs, .targets = answers};
  count(&s, b, n);
  ct_prf_t macro = ct_prf_macro(&c);
  const double got[] = {macro.precision, macro.recall,           macro.f1,
                        ct_f1_micro(&c), ct_subset_accuracy(&c), ct_label_accuracy(&c)};
  for (int i = 0; i < 6; i++)
    CT_ASSERT_NEAR(got[i], expected[i], 1e-6);
  check_overlaps(&s, expected + 6);
  ct__class_counts_close(&s);
  ct_confusion_close(&c);
  if (places > 1) return;
  ct__ranking_t r = {.classes = classes, .sets = 1};
  take(g, name, "ranked", 2, ranked);
  CT_ASSERT_OK(ct__ranking_open(&r, n));
  b.n = n;
  ct__ranking_batch(&r, &b);
  CT_ASSERT_OK(ct__ranking_auc(&r, &alone, &auc, &map));
  CT_ASSERT_NEAR(auc, ranked[0], 1e-6);
  CT_ASSERT_NEAR(map, ranked[1], 1e-6);
  ct__ranking_close(&r);
}

static void sets_as_scikit_learn(void)
{
  gold_t g = {0};
  if (CT_ASSERT_OK(gold_open(&g, "measures.gold")) != CT_OK) return;
  check_sets(&g, "sets", 50, 5, 1);
  check_sets(&g, "tied", 50, 5, 1);
  check_sets(&g, "masks", 4, 2, 20);
  ct_mem_free(g.data);
}

static void sets_need_targets_0_and_1(void)
{
  static const float out[] = {1, 2}, targets[] = {1, 0.5f};
  static const int64_t ids[] = {17};
  ct_confusion_t c;
  CT_ASSERT_OK(ct_confusion_open_sets(2, &c));
  ct__class_counts_t s = {.all = &c};
  ct__compared_t b = {
      .n = 1, .classes = 2, .places = 1, .out = out, .targets = targets, .ids = ids};
  CT_ASSERT_OK(ct__class_counts_open(&s, 1));
  CT_ASSERT_FAILS(ct__class_counts_batch(&s, &b), CT_ERR_DATA, "target 1 of sample 17 is 0.5");
  ct__class_counts_close(&s);
  ct_confusion_close(&c);
}

/* Across the blocks of pixels, with equal logits and NaN. */
static void predictions_of_many_pixels(void)
{
  enum { CLASSES = 3, PLACES = 2500 };
  static float logits[CLASSES * PLACES];
  static int32_t said[PLACES];
  for (int i = 0; i < CLASSES * PLACES; i++)
    logits[i] = i * 7 % 11 == 0 ? NAN : (float)(i * 13 % 5);
  ct_confusion_predict(logits, CLASSES, PLACES, PLACES, said);
  for (int i = 0; i < PLACES; i++) {
    int best = 0;
    for (int k = 1; k < CLASSES; k++) {
      float x = logits[k * PLACES + i], most = logits[best * PLACES + i];
      if (!isnan(most) && (isnan(x) || x > most)) best = k;
    }
    CT_ASSERT_INT(said[i], best);
  }
}

/* ---- fields ---- */

static void check_fields(const gold_t *g, const char *name)
{
  enum { N = 3, CHANNELS = 2, PLACES = 41 };
  float channels[3 * CHANNELS];
  ct_eval_result_t e = {0};
  take(g, name, "outputs", N * CHANNELS * PLACES, outputs);
  take(g, name, "targets", N * CHANNELS * PLACES, answers);
  take(g, name, "expected", 3, expected);
  take(g, name, "channels", 3 * CHANNELS, channels);
  ct__field_errors_t s = {.channels = CHANNELS};
  ct__compared_t b = {
      .n = N, .classes = CHANNELS, .places = PLACES, .out = outputs, .targets = answers};
  CT_ASSERT_OK(ct__field_errors_open(&s, PLACES));
  ct__field_errors_batch(&s, &b);
  ct__field_errors_result(&s, &alone, &e);
  CT_ASSERT_NEAR(e.more.of[CT_SCORE_RMSE], expected[0], 1e-6 * expected[0]);
  CT_ASSERT_NEAR(e.more.of[CT_SCORE_VRMSE], expected[1], 1e-6);
  CT_ASSERT_NEAR(e.more.of[CT_SCORE_RELATIVE_L2], expected[2], 1e-6);
  CT_ASSERT_INT(e.channels, CHANNELS);
  for (int k = 0; k < CHANNELS; k++) {
    CT_ASSERT_NEAR(e.channel[k].mae, channels[3 * k], 1e-6 * channels[3 * k]);
    CT_ASSERT_NEAR(e.channel[k].rmse, channels[3 * k + 1], 1e-6 * channels[3 * k + 1]);
    CT_ASSERT_NEAR(e.channel[k].vrmse, channels[3 * k + 2], 1e-6);
  }
  ct__field_errors_close(&s);
}

static void fields_as_torch(void)
{
  gold_t g = {0};
  if (CT_ASSERT_OK(gold_open(&g, "measures.gold")) != CT_OK) return;
  check_fields(&g, "fields");
  check_fields(&g, "missing");
  ct_mem_free(g.data);
}

/* Unknown targets (NaN) are as if they were not there: R2 of the second output, and the labels of
 * the second class, are those of the first two samples. */
static void unknown_targets_are_left_out(void)
{
  float out[] = {1, 2, 3, -5, 5, 9}, target[] = {2, 1, 2, 0, 6, NAN}, set[] = {1, 1, 0, 0, 1, NAN};
  double r2 = 0, auc = 0, map = 0;
  ct_confusion_t c;
  ct__ranking_t s = {.outputs = 2}, ranked = {.classes = 2, .sets = 1};
  ct__compared_t b = {.n = 3, .classes = 2, .places = 1, .out = out, .targets = target};
  CT_ASSERT_OK(ct__ranking_open(&s, 3));
  ct__ranking_batch(&s, &b);
  CT_ASSERT_OK(ct__ranking_r2(&s, &alone, &r2));
  double first = 1 - 3 / (32.0 / 3), second = 1 - 26 / 0.5;
  CT_ASSERT_NEAR(r2, (first + second) / 2, 1e-12);
  ct__ranking_close(&s);
  b.targets = set;
  CT_ASSERT_OK(ct_confusion_open_sets(2, &c));
  ct__class_counts_t counts = {.all = &c};
  CT_ASSERT_OK(ct__class_counts_open(&counts, 1));
  CT_ASSERT_OK(ct__class_counts_batch(&counts, &b));
  CT_ASSERT_INT(c.set[1].seen, 2);
  CT_ASSERT_INT(c.set[1].predicted, 1);
  CT_ASSERT_NEAR(ct_subset_accuracy(&c), 2.0 / 3, 1e-12); /* the second: 3 is no label */
  ct__class_counts_close(&counts);
  ct_confusion_close(&c);
  CT_ASSERT_OK(ct__ranking_open(&ranked, 3));
  ct__ranking_batch(&ranked, &b);
  CT_ASSERT_OK(ct__ranking_auc(&ranked, &alone, &auc, &map));
  CT_ASSERT_NEAR(auc, (0.5 + 1) / 2, 1e-12);
  ct__ranking_close(&ranked);
}

/* Numbers of very different size, in any order and in parts: what is lost in one double is not. */
static void exact_sums_in_any_order(void)
{
  static const double x[] = {1e300, 1, 5e-324, 1e-300, 3, 0, 0x1.fffffffffffffp1023, 1e16, 0.1};
  enum { N = sizeof x / sizeof *x };
  ct__exact_t up = {.nan = 0}, down[2] = {{.nan = 0}, {.nan = 0}};
  for (int i = 0; i < N; i++) {
    ct__exact_add(&up, x[i]);
    ct__exact_add(&down[i % 2], x[N - 1 - i]);
  }
  for (int k = 0; k < CT__EXACT_LIMBS; k++)
    down[0].limb[k] += down[1].limb[k];
  CU_ASSERT(memcmp(&up, &down[0], sizeof up) == 0);
  ct__exact_t few = {.nan = 0};
  ct__exact_add(&few, 1e16);
  for (int i = 0; i < 10; i++)
    ct__exact_add(&few, 0.75);
  CU_ASSERT(ct__exact_value(&few) == 1e16 + 8); /* each 0.75 alone would be rounded off */
  ct__exact_add(&few, INFINITY);
  CU_ASSERT(isinf(ct__exact_value(&few)));
  ct__exact_add(&few, NAN);
  CU_ASSERT(isnan(ct__exact_value(&few)));
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(classes_as_scikit_learn),
                                    CT_TEST(values_as_scikit_learn),
                                    CT_TEST(what_cannot_be_measured_is_no_number),
                                    CT_TEST(ignored_labels_are_left_out),
                                    CT_TEST(pixels_as_torchmetrics),
                                    CT_TEST(sets_as_scikit_learn),
                                    CT_TEST(sets_need_targets_0_and_1),
                                    CT_TEST(predictions_of_many_pixels),
                                    CT_TEST(fields_as_torch),
                                    CT_TEST(unknown_targets_are_left_out),
                                    CT_TEST(exact_sums_in_any_order),
                                    CT_TEST_END};
  return ct_test_main("measures", tests, argc, argv);
}
