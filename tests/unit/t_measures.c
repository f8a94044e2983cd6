/* Measures of evaluations against scikit-learn (golden/make_measures.py), for one rank; that
 * several ranks have the same results cli/eval.test looks at. */
#include <math.h>

#include "eval/ranking_metrics.h"
#include "eval/ct_eval_metrics.h"
#include "tests/golden/gold.h"

enum { MOST = 600 };
static const ct_topo_t alone = {.size = 1, .nodes = 1};

static float outputs[MOST], answers[MOST], expected[4];

static void take(const gold_t *g, const char *name, const char *what, int64_t n, float *out)
{
  char record[64];
  snprintf(record, sizeof record, "%s.%s", name, what);
  gold_take(g, record, n, out);
}

static void check_classes(const gold_t *g, const char *name, int n, int classes)
{
  int32_t labels[MOST];
  double auc = 0;
  ct_confusion_t c;
  ct__ranking_t s = {.classes = classes, .softmax = 1};
  take(g, name, "outputs", n * classes, outputs);
  take(g, name, "labels", n, answers);
  take(g, name, "expected", 4, expected);
  CT_ASSERT_OK(ct_confusion_open(classes, &c));
  CT_ASSERT_OK(ct__ranking_open(&s, n));
  for (int i = 0; i < n; i++) {
    labels[i] = (int32_t)answers[i];
    ct_confusion_add(&c, outputs + i * classes, 1, labels[i]);
  }
  for (int i = 0; i < n; i += 7) { /* batch by batch */
    ct_batch_t b = {.n = i + 7 < n ? 7 : n - i, .labels = labels + i};
    ct__ranking_batch(&s, &b, outputs + i * classes, 0, 0);
  }
  ct_prf_t macro = ct_prf_macro(&c);
  CT_ASSERT_OK(ct__ranking_auc(&s, &alone, &auc));
  CT_ASSERT_NEAR(macro.precision, expected[0], 1e-6);
  CT_ASSERT_NEAR(macro.recall, expected[1], 1e-6);
  CT_ASSERT_NEAR(macro.f1, expected[2], 1e-6);
  CT_ASSERT_NEAR(auc, expected[3], 1e-6);
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
  ct_batch_t b = {.n = n, .targets = answers};
  ct__ranking_batch(&s, &b, outputs, 0, 0);
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
  double value = 0;
  ct_confusion_t c;
  ct__ranking_t s = {.classes = 3}, v = {.outputs = 2};
  CU_ASSERT(isnan(ct_auc(same, 2)));
  CU_ASSERT(isnan(ct_auc(odd, 2)));
  CU_ASSERT(isnan(ct_auc(same, 0)));
  CT_ASSERT_OK(ct_confusion_open(3, &c));
  CU_ASSERT(isnan(ct_prf_macro(&c).f1) && isnan(ct_prf_class(&c, 1).recall));
  ct_confusion_close(&c);
  CT_ASSERT_OK(ct__ranking_open(&s, 0));
  CT_ASSERT_OK(ct__ranking_auc(&s, &alone, &value));
  CU_ASSERT(isnan(value));
  ct__ranking_close(&s);
  CT_ASSERT_OK(ct__ranking_open(&v, 0));
  CT_ASSERT_OK(ct__ranking_r2(&v, &alone, &value));
  CU_ASSERT(isnan(value));
  ct__ranking_close(&v);
}

static void ignored_labels_are_left_out(void)
{
  double value = 0;
  int32_t labels[] = {0, 255, 1, 0};
  float out[] = {3, 1, 0, 9, 1, 2, 2, 3}; /* scores of the second class: 1, -, 2, 3 */
  ct__ranking_t s = {.classes = 2};
  ct_batch_t b = {.n = 4, .labels = labels};
  CT_ASSERT_OK(ct__ranking_open(&s, 4));
  ct__ranking_batch(&s, &b, out, 1, 255);
  CT_ASSERT_INT(s.n, 3);
  CT_ASSERT_OK(ct__ranking_auc(&s, &alone, &value));
  CT_ASSERT_NEAR(value, 0.5, 0);
  ct__ranking_close(&s);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(classes_as_scikit_learn),
                                    CT_TEST(values_as_scikit_learn),
                                    CT_TEST(what_cannot_be_measured_is_no_number),
                                    CT_TEST(ignored_labels_are_left_out), CT_TEST_END};
  return ct_test_main("measures", tests, argc, argv);
}
