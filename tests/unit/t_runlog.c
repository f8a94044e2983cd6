/* metrics.jsonl as who watches a run reads it: while it grows, after a restart, when it is
 * replaced, and with lines that are none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "telemetry/ct_runlog.h"
#include "tests/harness/ct_test.h"

static char dir[CT_PATH_MAX];

static void append(const char *text)
{
  char path[CT_PATH_MAX + 20];
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  FILE *f = fopen(path, "a");
  CU_ASSERT_FATAL(f != NULL);
  fputs(text, f);
  fclose(f);
}

static void begin(ct_runlog_t *r)
{
  snprintf(dir, sizeof dir, "%s", ct_test_dir());
  CT_ASSERT_OK(ct_runlog_open(dir, r));
}

static int64_t more(ct_runlog_t *r)
{
  int64_t lines = -1;
  CT_ASSERT_OK(ct_runlog_more(r, &lines));
  return lines;
}

static const char start[] =
    "{\"event\":\"start\",\"run\":1,\"time\":\"2026-01-01T00:00:00.000Z\",\"elapsed_s\":0.5,"
    "\"name\":\"digits\",\"device\":\"cpu\",\"ranks\":2,\"nodes\":1,\"samples\":100,\"batch\":30,"
    "\"step\":0}\n";

static void step(int run, int at, double loss)
{
  char line[300];
  snprintf(
      line, sizeof line,
      "{\"event\":\"step\",\"run\":%d,\"elapsed_s\":%d,\"step\":%d,\"epoch\":1,\"loss\":%g,"
      "\"lr\":0.1,\"samples_per_s\":60,\"samples\":30,\"data_s\":0.25,\"comm_exposed_s\":0.05}\n",
      run, at, at, loss);
  append(line);
}

static void lines_that_are_not_whole_wait(void)
{
  ct_runlog_t r;
  begin(&r);
  append(start);
  append("{\"event\":\"step\",\"st");
  CT_ASSERT_INT(more(&r), 1);
  CT_ASSERT_TEXT(r.name, "digits");
  CT_ASSERT_INT(r.batch, 30);
  CT_ASSERT_INT(r.step, 0);
  append("ep\":7,\"epoch\":2,\"loss\":0.5}\n");
  CT_ASSERT_INT(more(&r), 1);
  CT_ASSERT_INT(r.step, 7);
  CT_ASSERT_INT(more(&r), 0);
  CT_ASSERT_INT(ct_runlog_curve(&r, "loss")->n, 1);
  CU_ASSERT_PTR_NULL(ct_runlog_curve(&r, "top1"));
  ct_runlog_close(&r);
}

/* The second start goes on from step 2, and has the clock begin anew; the third begins it all. */
static void time_is_that_of_all_starts(void)
{
  ct_runlog_t r;
  begin(&r);
  append(start);
  for (int i = 1; i <= 3; i++)
    step(1, i, i); /* elapsed_s is the number of the step */
  append("{\"event\":\"start\",\"run\":2,\"elapsed_s\":0.25,\"step\":2}\n");
  step(2, 3, 30);
  more(&r);
  const ct_curve_t *c = ct_runlog_curve(&r, "loss");
  CT_ASSERT_INT(c->n, 3);
  CU_ASSERT_DOUBLE_EQUAL(c->at_s[1], 2, 0);
  CU_ASSERT_DOUBLE_EQUAL(c->at_s[2], 3 + 3, 0);
  CU_ASSERT_DOUBLE_EQUAL(r.before_s + r.elapsed_s, 6, 0);
  append("{\"event\":\"start\",\"run\":3,\"elapsed_s\":0.5,\"step\":0}\n");
  step(3, 1, 1);
  more(&r);
  CT_ASSERT_INT(c->n, 1);
  CU_ASSERT_DOUBLE_EQUAL(c->at_s[0], 1, 0);
  ct_runlog_close(&r);
}

static void the_last_line_of_a_step_counts(void)
{
  ct_runlog_t r;
  begin(&r);
  append(start);
  for (int i = 1; i <= 6; i++)
    step(1, i, i);
  append(
      "{\"event\":\"eval\",\"step\":3,\"loss\":5}\n{\"event\":\"eval\",\"step\":6,\"loss\":1}\n");
  CT_ASSERT_INT(more(&r), 9);
  append("{\"event\":\"start\",\"run\":2,\"step\":3}\n");
  more(&r);
  CT_ASSERT_INT(ct_runlog_curve(&r, "eval.loss")->n, 1);
  step(2, 4, 40);
  step(2, 5, 50);
  more(&r);
  const ct_curve_t *c = ct_runlog_curve(&r, "loss");
  CT_ASSERT_INT(c->n, 5);
  CU_ASSERT(c->value[2] == 3 && c->value[3] == 40 && c->value[4] == 50 && c->step[4] == 5);
  CT_ASSERT_INT(r.run, 2);
  CT_ASSERT_INT(r.step, 5);
  CT_ASSERT_NEAR(r.waits_data, 0.5, 1e-9);
  CT_ASSERT_NEAR(r.waits_messages, 0.1, 1e-9);
  ct_runlog_close(&r);
}

static void a_file_that_is_replaced_is_read_anew(void)
{
  ct_runlog_t r;
  char path[CT_PATH_MAX + 20];
  begin(&r);
  append(start);
  step(1, 1, 1);
  step(1, 2, 1);
  more(&r);
  snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
  CT_ASSERT_OK(ct_file_write(path, start, strlen(start)));
  CT_ASSERT_INT(more(&r), 1);
  CT_ASSERT_INT(r.step, 0);
  CU_ASSERT_PTR_NULL(ct_runlog_curve(&r, "loss"));
  ct_runlog_close(&r);
}

static void mistakes_name_the_line(void)
{
  ct_runlog_t r;
  int64_t lines;
  begin(&r);
  CT_ASSERT_FAILS(ct_runlog_more(&r, &lines), CT_ERR_IO, "metrics.jsonl: cannot open");
  append(start);
  append("{\"event\": 1}\n");
  CT_ASSERT_FAILS(ct_runlog_more(&r, &lines), CT_ERR_FORMAT,
                  "metrics.jsonl:2: the key \"event\" is missing");
  ct_runlog_close(&r);
  begin(&r);
  append("[1, 2]\n");
  CT_ASSERT_FAILS(ct_runlog_more(&r, &lines), CT_ERR_FORMAT,
                  "metrics.jsonl:1: expected a JSON object");
  ct_runlog_close(&r);
  begin(&r);
  append("{\"event\"\n");
  CT_ASSERT_FAILS(ct_runlog_more(&r, &lines), CT_ERR_FORMAT, "metrics.jsonl:1: ");
  ct_runlog_close(&r);
}

static void how_it_stands_is_told(void)
{
  ct_runlog_t r;
  char path[CT_PATH_MAX + 20];
  static const char config[] = "train: {epochs: 5, steps: 0}\n";
  ct_str_t text = {0};
  begin(&r);
  snprintf(path, sizeof path, "%s/config.yaml", dir);
  CT_ASSERT_OK(ct_file_write(path, config, strlen(config)));
  append(start);
  step(1, 1, 4);
  step(1, 10, 2);
  append("{\"event\":\"eval\",\"step\":5,\"epoch\":1,\"loss\":1,\"top1\":0.75}\n");
  append("{\"event\":\"eval\",\"step\":10,\"epoch\":2,\"loss\":2,\"top1\":0.5}\n");
  append("{\"event\":\"straggler\",\"step\":9,\"rank\":1,\"host\":\"node7\"}\n");
  append("{\"event\":\"checkpoint\",\"step\":5,\"file\":\"step-5.h5\",\"best\":1}\n");
  more(&r);
  CT_ASSERT_INT(ct_runlog_total(&r), 20);
  r.changed = 700;
  r.holder = CT_HOLDER_LIVES;
  CT_ASSERT_OK(ct_runlog_text(&r, 80, 0, 1000, &text));
  CT_ASSERT_HAS(text.data, "digits: running, for 10.0 s; silent for 5m00s\n");
  CT_ASSERT_HAS(text.data, "  2 ranks on 1 node, cpu\n");
  CT_ASSERT_HAS(text.data, "step 10/20, epoch 2/5  [################................]  50 %");
  CT_ASSERT_HAS(text.data, "  loss              2            #_\n");
  CT_ASSERT_HAS(text.data, "  top-1             0.5          best 0.75, after step 5\n");
  CT_ASSERT_HAS(text.data, "waits             data 50%, communication 10%");
  CT_ASSERT_HAS(text.data, "slow              rank 1 on node7, at step 9");
  CT_ASSERT_HAS(text.data, "best              step-5.h5");
  ct_str_clear(&text);
  r.holder = CT_HOLDER_UNKNOWN;
  CT_ASSERT_OK(ct_runlog_text(&r, 80, 0, 760, &text));
  CT_ASSERT_HAS(text.data, "digits: running, for 10.0 s\n");
  ct_str_clear(&text);
  CT_ASSERT_OK(ct_runlog_text(&r, 80, 0, 761, &text));
  CT_ASSERT_HAS(text.data, "digits: no sign of life since 1970-01-01T00:11:40Z, after 10.0 s\n");
  ct_str_clear(&text);
  r.holder = CT_HOLDER_GONE;
  CT_ASSERT_OK(ct_runlog_text(&r, 80, 0, 700, &text));
  CT_ASSERT_HAS(text.data, "digits: killed after step 10, after 10.0 s\n");
  ct_str_clear(&text);
  append("{\"event\":\"end\",\"step\":10,\"reason\":\"error\",\"error\":\"the loss is nan\"}\n");
  more(&r);
  CT_ASSERT_OK(ct_runlog_text(&r, 10, 1, 1000, &text)); /* a narrow terminal */
  CT_ASSERT_HAS(text.data, "digits: error after 10.0 s\n");
  CT_ASSERT_HAS(text.data, "  the loss is nan\n");
  ct_str_clear(&text);
  ct_runlog_close(&r);
}

/* The noise of steps that take the same is no mountain. */
static void a_constant_rate_is_a_line(void)
{
  ct_runlog_t r;
  ct_str_t text = {0};
  char line[200];
  begin(&r);
  append(start);
  for (int i = 1; i <= 8; i++) {
    snprintf(line, sizeof line,
             "{\"event\":\"step\",\"step\":%d,\"epoch\":1,\"loss\":%d,\"samples_per_s\":%g}\n", i,
             9 - i, 1000 + (i % 2 ? 0.5 : -0.5) * i);
    append(line);
  }
  more(&r);
  CT_ASSERT_OK(ct_runlog_text(&r, 80, 0, 0, &text));
  CT_ASSERT_HAS(text.data, "  samples/s         996          --------\n");
  CT_ASSERT_HAS(text.data, "  loss              1            #*+=-,._\n");
  ct_str_clear(&text);
  ct_runlog_close(&r);
}

static void nothing_stays_allocated(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(lines_that_are_not_whole_wait),
                                    CT_TEST(the_last_line_of_a_step_counts),
                                    CT_TEST(time_is_that_of_all_starts),
                                    CT_TEST(a_file_that_is_replaced_is_read_anew),
                                    CT_TEST(mistakes_name_the_line),
                                    CT_TEST(how_it_stands_is_told),
                                    CT_TEST(a_constant_rate_is_a_line),
                                    CT_TEST(nothing_stays_allocated),
                                    CT_TEST_END};
  return ct_test_main("runlog", tests, argc, argv);
}
