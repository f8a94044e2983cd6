/* The backend that only takes time: recorded ops are found again, at other batch sizes too, others
 * go by the rates, and a wait takes no processor. */
#include <stdio.h>
#include <time.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_text.h"
#include "sim/ct_sim.h"
#include "sim/sim.h"
#include "tests/harness/ct_test.h"

static ct_op_desc_t linear(int64_t batch, int64_t out)
{
  ct_op_desc_t d;
  ct_shape_t x = ct_shape(2, batch, (int64_t)20), y = ct_shape(2, batch, out);
  ct_op_desc_init(&d, CT_OP_LINEAR, &x, &y);
  d.passes |= CT_BWD_DATA | CT_BWD_PARAM;
  return d;
}

static const char *record(char path[CT_PATH_MAX], const char *text)
{
  snprintf(path, CT_PATH_MAX, "%s/ops.json", ct_test_dir());
  FILE *f = fopen(path, "w");
  fputs(text, f);
  fclose(f);
  return path;
}

#define LINEAR(seconds, pass) \
  "{\"op\": \"linear 8x20 -> 8x10\", \"pass\": \"" pass "\", \"seconds\": " #seconds "}"

static void recorded_ops_are_found(void)
{
  char path[CT_PATH_MAX];
  ct__sim_times_t *t = NULL;
  double flops = 1, bytes = 1;
  ct_op_desc_t same = linear(8, 10), twice = linear(16, 10), other = linear(8, 11);
  record(path, "{\"step_s\": 1}\n{\"flop_per_s\": 2e9, \"ops\": [" LINEAR(
                   0.1, "forward") ", " LINEAR(0.3, "forward") ", " LINEAR(0.7, "backward") "]}");
  CT_ASSERT_OK(ct__sim_times_read(path, &t));
  CT_ASSERT_INT(ct__sim_times_count(t), 2);
  CT_ASSERT_NEAR(ct__sim_times_of(t, &same, CT_FWD), 0.2, 1e-12); /* the mean of both */
  CT_ASSERT_NEAR(ct__sim_times_of(t, &twice, CT_FWD), 0.4, 1e-12);
  CT_ASSERT_NEAR(ct__sim_times_of(t, &same, CT_BWD_DATA | CT_BWD_PARAM), 0.7, 1e-12);
  CU_ASSERT(ct__sim_times_of(t, &same, CT_BWD_DATA) < 0);
  CU_ASSERT(ct__sim_times_of(t, &other, CT_FWD) < 0);
  ct__sim_times_rates(t, &flops, &bytes);
  CT_ASSERT_NEAR(flops, 2e9, 1);
  CT_ASSERT_NEAR(bytes, 1, 0); /* not in the file */
  ct__sim_times_free(t);
  CU_ASSERT(ct__sim_times_of(NULL, &same, CT_FWD) < 0);
}

static void other_files_are_refused(void)
{
  static const struct {
    const char *text, *said;
  } bad[] = {{"", "no list \"ops\""},
             {"{\"step_s\": 1}", "no list \"ops\""},
             {"{\"ops\": []}", "no list \"ops\""},
             {"{\"ops\": [{\"op\": \"linear\", \"pass\": \"forward\"}]}", "ops[0] has no op"},
             {"{\"ops\": [" LINEAR(1, "forward") ", " LINEAR(-1, "forward") "]}", "ops[1]"}};
  char path[CT_PATH_MAX];
  ct__sim_times_t *t;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    CT_ASSERT_FAILS(ct__sim_times_read(record(path, bad[i].text), &t), CT_ERR_FORMAT, bad[i].said);
    CU_ASSERT_PTR_NULL(t);
  }
  CT_ASSERT_FAILS(ct__sim_times_read("/nowhere/ops.json", &t), CT_ERR_IO, "/nowhere/ops.json");
}

/* Seconds of so many forward passes of one op on such a device. */
static double passes(const ct_dev_sim_t *sim, int n)
{
  const ct_backend_t *be = &ct_backend_sim;
  ct_dev_opts_t o = {.sim = *sim};
  ct_dev_t *dev = NULL;
  ct_queue_t *q = NULL;
  ct_op_t *op = NULL;
  ct_op_info_t info;
  ct_op_desc_t d = linear(8, 10);
  ct_op_args_t a = {.pass = CT_FWD};
  CT_ASSERT_OK(be->open(&o, &dev));
  CT_ASSERT_OK(be->queue->create(dev, &q));
  CT_ASSERT_OK(be->op->prepare(dev, &d, NULL, &op, &info));
  double begin = ct_clock();
  for (int i = 0; i < n; i++)
    CT_ASSERT_OK(be->op->run(q, op, &a));
  double took = ct_clock() - begin;
  be->op->release(op);
  be->queue->destroy(q);
  be->close(dev);
  return took;
}

/* Lower bounds only: a busy machine takes longer. */
static void time_passes_without_work(void)
{
  char path[CT_PATH_MAX];
  record(path, "{\"ops\": [" LINEAR(0.002, "forward") "]}");
  clock_t before = clock();
  CU_ASSERT(passes(&(ct_dev_sim_t){.times = path}, 50) > 0.099);
  CU_ASSERT(passes(&(ct_dev_sim_t){.times = path, .slow = 3}, 20) > 0.119);
  /* 3200 FLOP at 1e6 a second, 240 numbers at 1e12 bytes */
  CU_ASSERT(passes(&(ct_dev_sim_t){.flop_rate = 1e6, .byte_rate = 1e12}, 20) > 0.063);
  double cpu = (double)(clock() - before) / CLOCKS_PER_SEC;
  if (cpu > 0.1) printf("# %g s of the processor in 0.28 s\n", cpu);
  CU_ASSERT(cpu <= 0.1);
}

static void noise_keeps_the_mean(void)
{
  /* 1000 ops of 100 us with a spread of 0.5: the mean's own spread is 1.7 % */
  double took =
      passes(&(ct_dev_sim_t){.flop_rate = 32e6, .byte_rate = 1e12, .noise = 0.5, .seed = 7}, 1000);
  CU_ASSERT(took > 0.09);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(recorded_ops_are_found), CT_TEST(other_files_are_refused),
      CT_TEST(time_passes_without_work), CT_TEST(noise_keeps_the_mean), CT_TEST_END};
  return ct_test_main("sim", tests, argc, argv);
}
