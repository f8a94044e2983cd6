/* The timeline against cases that can be worked out by hand, and the model against a study that was
 * measured: steps of ResNet-18, 16 samples a rank, on 1, 2, 4, 8 and 16 nodes with links of 200
 * Mbit/s (tests/golden/resnet18-nodes.jsonl; the times of its ops are those of one core).  Steps
 * were measured, kinds of time are made up from the single rank's.  The prior of fit.c was chosen
 * with this study in view: the test keeps what was reached, and is no proof for other networks. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "study/model/ct_scaling.h"
#include "tests/harness/ct_test.h"

/* ---- the timeline ---- */

static ct_timeline_launch_t launches[] = {{1, 0}, {1, 3e6}, {1, 1e6}, {1, 0}};
static const ct_timeline_t timeline = {launches, 4, 1};

static ct_timeline_case_t on_nodes(int nodes)
{
  return (ct_timeline_case_t){.local_ranks = 1,
                              .nodes = nodes,
                              .compute_s = 0.4,
                              .bucket_bytes = 1e6,
                              .piece_bytes = 1e9,
                              .under_way = 8,
                              .algorithm = CT_COMM_RING,
                              .between = {0, 1e8}};
}

static void alone_there_are_no_messages(void)
{
  ct_timeline_case_t c = on_nodes(1);
  CT_ASSERT_NEAR(ct_timeline_run(&timeline, &c), 0.4, 1e-12);
}

/* Two rounds of 1.5 MB from 0.2 s on, and of 0.5 MB from 0.3 s on.  The first message of a bucket
 * is noticed behind the next work; all else overlaps. */
static void messages_overlap_with_backward(void)
{
  ct_timeline_case_t c = on_nodes(2);
  CT_ASSERT_NEAR(ct_timeline_run(&timeline, &c), 0.4 + 0.005, 1e-12);
  launches[3].bytes = 2e6; /* nothing is left to overlap with: two rounds of 1 MB behind the rest */
  CT_ASSERT_NEAR(ct_timeline_run(&timeline, &c), 0.4 + 0.02 + 0.005, 1e-12);
  launches[3].bytes = 0;
}

static void without_overlap_it_is_rounds_and_bytes(void)
{
  ct_timeline_launch_t last[] = {{1, 0}, {1, 8e6}};
  const ct_timeline_t t = {last, 2, 1};
  for (int n = 2; n <= 1000; n *= 3) {
    ct_timeline_case_t c = on_nodes(n);
    c.between.alpha_s = 1e-4;
    CT_ASSERT_NEAR(ct_timeline_run(&t, &c), 0.4 + 2 * (n - 1) * 1e-4 + 2 * 8e6 * (n - 1) / n / 1e8,
                   1e-9);
  }
}

static void levels_follow_one_another(void)
{
  ct_timeline_launch_t last[] = {{1, 0}, {1, 8e6}};
  const ct_timeline_t t = {last, 2, 1};
  ct_timeline_case_t c = on_nodes(4);
  c.local_ranks = 2;
  c.inside = (ct_link_t){1e-5, 1e9};
  CT_ASSERT_NEAR(ct_timeline_run(&t, &c), 0.4 + 2e-5 + 8e-3 + 1.5 * 0.08, 1e-9);
}

/* Known to six digits: Harter (1961). */
static void the_slowest_of_many(void)
{
  CT_ASSERT_NEAR(ct_timeline_largest_of(1), 0, 0);
  CT_ASSERT_NEAR(ct_timeline_largest_of(2), 0.56419, 2e-5);
  CT_ASSERT_NEAR(ct_timeline_largest_of(5), 1.16296, 2e-5);
  CT_ASSERT_NEAR(ct_timeline_largest_of(16), 1.76599, 2e-5);
  CT_ASSERT_NEAR(ct_timeline_largest_of(100), 2.50759, 2e-5);
}

/* ---- a study ---- */

static void intervals_of_medians(void)
{
  double v[] = {5, 1, 4, 2, 6, 3}, many[20], one[] = {7};
  ct_study_ratio_t m = ct_study_median(v, 6);
  CT_ASSERT_NEAR(m.median, 3.5, 0);
  CT_ASSERT_NEAR(m.low, 1, 0);
  CT_ASSERT_NEAR(m.high, 6, 0);
  CT_ASSERT_NEAR(m.covers, 1 - 2. / 64, 1e-9);
  m = ct_study_median(v, 5);
  CT_ASSERT_NEAR(m.covers, 1 - 2. / 32, 1e-9);
  for (int i = 0; i < 20; i++)
    many[i] = i + 1;
  m = ct_study_median(many, 20); /* the 6th and 15th: 95.86 % */
  CT_ASSERT_NEAR(m.low, 6, 0);
  CT_ASSERT_NEAR(m.high, 15, 0);
  CT_ASSERT_NEAR(m.covers, 0.958611, 1e-6);
  CT_ASSERT_NEAR(ct_study_median(one, 1).covers, 0, 0);
}

static const char *stored(void)
{
  static char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/tests/golden/resnet18-nodes.jsonl", getenv("CT_SRC"));
  return path;
}

/* The stored study without the sizes beyond. */
static const char *up_to(int ranks)
{
  static char path[CT_PATH_MAX];
  char *text = NULL, *line, *rest, key[32];
  size_t bytes;
  ct_str_t out = {0};
  CT_ASSERT_OK(ct_file_read(stored(), &text, &bytes));
  for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
    int keep = !strstr(line, "\"event\":\"point\"");
    for (int n = 1; n <= ranks && !keep; n++) {
      snprintf(key, sizeof key, "\"ranks\":%d,", n);
      keep = strstr(line, key) != NULL;
    }
    if (keep) CT_ASSERT_OK(ct_str_add(&out, "%s\n", line));
  }
  snprintf(path, sizeof path, "%s/points.jsonl", ct_test_dir());
  CT_ASSERT_OK(ct_file_write(path, out.data, out.len));
  ct_str_clear(&out);
  ct_mem_free(text);
  return path;
}

static ct_study_t study;
static ct_scaling_t model;

static void fitted_to(const char *path)
{
  CT_ASSERT_OK(ct_study_read(path, &study));
  CT_ASSERT_OK(ct_scaling_fit(&study, NULL, NULL, &model));
}

static double predicted(int ranks)
{
  ct_scaling_ask_t ask = {.ranks = ranks};
  ct_scaling_prediction_t p;
  CT_ASSERT_OK(ct_scaling_predict(&model, &ask, &p));
  CT_ASSERT_NEAR(ct_terms_all(&p.terms), p.step_s, 1e-12);
  return p.step_s;
}

static void four_times_as_far_within_its_band(void)
{
  static const double at_8 = 5.8293, at_16 = 6.2031;
  fitted_to(up_to(4));
  CT_ASSERT_NEAR(predicted(8) / at_8, 1, fmin(0.1, ct_scaling_band(&model, 8)));
  CT_ASSERT_NEAR(predicted(16) / at_16, 1, fmin(0.1, ct_scaling_band(&model, 16)));
  CT_ASSERT_NEAR(predicted(8) / at_8, 1, 0.04);
  CT_ASSERT_NEAR(predicted(16) / at_16, 1, 0.04);
  ct_study_clear(&study);
}

static void it_tells_how_far_it_reaches(void)
{
  fitted_to(stored());
  CT_ASSERT_INT(model.left_ranks, 16);
  CT_ASSERT_INT(model.left_from, 8);
  CU_ASSERT(fabs(model.left_out) < 0.05);
  CT_ASSERT_NEAR(ct_scaling_band(&model, 64), 2 * ct_scaling_band(&model, 32), 1e-9);
  CU_ASSERT(ct_scaling_band(&model, 16) >= 0.02);
  ct_study_clear(&study);
}

static void accounts_add_up(void)
{
  fitted_to(stored());
  for (int i = 0; i < study.sizes; i++) {
    ct_terms_t t = ct_scaling_terms(&study, &model, &study.size[i]);
    CT_ASSERT_NEAR(ct_terms_all(&t), study.size[i].breakdown.mean.step_s, 1e-9);
    if (study.size[i].ranks > 2) CT_ASSERT_INT(ct_terms_largest(&t), CT_TERM_BANDWIDTH);
  }
  ct_study_clear(&study);
}

static void what_would_be_if(void)
{
  double best;
  ct_scaling_prediction_t knee, p;
  ct_scaling_ask_t ask = {.ranks = 64, .faster = 1e6};
  fitted_to(stored());
  CT_ASSERT_OK(ct_scaling_predict(&model, &ask, &p));
  CT_ASSERT_NEAR(p.step_s, study.size[0].breakdown.mean.step_s, 0.01);
  CT_ASSERT_INT(ct_scaling_knee(&model, 0.75, 1000, &knee), 2);
  CT_ASSERT_INT(ct_terms_largest(&knee.terms), CT_TERM_BANDWIDTH);
  CT_ASSERT_INT(ct_scaling_knee(&model, 0.01, 1000, &knee), 0);
  ask.faster = 1;
  CT_ASSERT_OK(ct_scaling_best_bucket(&model, &ask, &best));
  CU_ASSERT(best >= 256 << 10 && best <= 64 << 20);
  ask.bucket_bytes = best;
  CT_ASSERT_OK(ct_scaling_predict(&model, &ask, &p));
  CU_ASSERT(p.step_s <= predicted(64) + 1e-12);
  ct_study_clear(&study);
}

/* ---- what is refused ---- */

static void reads(const char *text, int code, const char *word)
{
  char path[CT_PATH_MAX];
  snprintf(path, sizeof path, "%s/points.jsonl", ct_test_dir());
  CT_ASSERT_OK(ct_file_write(path, text, strlen(text)));
  CT_ASSERT_FAILS(ct_study_read(path, &study), code, word);
}

static void bad_lines_are_named(void)
{
  reads("", CT_ERR_FORMAT, "no measurements");
  reads("{\"event\":\"study\"}\n[1]\n", CT_ERR_FORMAT, "points.jsonl:2");
  reads("{\"event\":\"point\",\"step_s\":1}\n", CT_ERR_FORMAT, "ranks");
  reads("{\"event\":\"point\",\"ranks\":0}\n", CT_ERR_FORMAT, "ranks");
  reads("{\"event\":\"point\",\"ranks\":2}\n", CT_ERR_FORMAT, "step_s");
  reads("{\"event\":\"point\",\"ranks\":20000000}\n", CT_ERR_FORMAT, "10000000");
  reads("{\"event\":\"point\",\"ranks\":2.5}\n", CT_ERR_FORMAT, "integer");
  reads("{\"event\":\"point\",\"ranks\":2,\"step_s\":\"1\"}\n", CT_ERR_FORMAT, "step_s");
  reads("{\"event\":\"point\",\"ranks\":2,\"step_s\":1,\"kind\":\"fun\"}\n", CT_ERR_FORMAT, "fun");
  reads("{\"event\":\"timeline\",\"works\":[[1,2],[3]]}\n", CT_ERR_FORMAT, "works[1]");
}

/* A line that was being written when the study was broken off. */
static void half_a_line_is_none(void)
{
  char path[CT_PATH_MAX];
  static const char text[] = "{\"event\":\"point\",\"ranks\":2,\"step_s\":1}\n"
                             "{\"event\":\"point\",\"ranks\":4,\"error\":\"no nodes\"}\n"
                             "{\"event\":\"point\",\"ranks\":2,\"st";
  snprintf(path, sizeof path, "%s/points.jsonl", ct_test_dir());
  CT_ASSERT_OK(ct_file_write(path, text, strlen(text)));
  CT_ASSERT_OK(ct_study_read(path, &study));
  CT_ASSERT_INT(study.sizes, 2);
  CT_ASSERT_TEXT(study.size[1].error, "no nodes");
  CT_ASSERT_FAILS(ct_scaling_fit(&study, NULL, NULL, &model), CT_ERR_USAGE, "time breakdown");
  ct_study_clear(&study);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(alone_there_are_no_messages),
                                    CT_TEST(messages_overlap_with_backward),
                                    CT_TEST(without_overlap_it_is_rounds_and_bytes),
                                    CT_TEST(levels_follow_one_another),
                                    CT_TEST(the_slowest_of_many),
                                    CT_TEST(intervals_of_medians),
                                    CT_TEST(four_times_as_far_within_its_band),
                                    CT_TEST(it_tells_how_far_it_reaches),
                                    CT_TEST(accounts_add_up),
                                    CT_TEST(what_would_be_if),
                                    CT_TEST(bad_lines_are_named),
                                    CT_TEST(half_a_line_is_none),
                                    CT_TEST_END};
  return ct_test_main("scaling", tests, argc, argv);
}
