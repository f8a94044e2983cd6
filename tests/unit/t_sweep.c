/* Which runs --over, --random and --seed mean. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/ct_commands.h"
#include "sweep/ct_sweep.h"
#include "base/ct_err.h"
#include "tests/harness/ct_test.h"

static ct_sweep_plan_t plan;

/* plan_of(NULL-ended words behind `sweep x.yaml`): the code; the plan is in `plan`. */
static int plan_of(const char *const *word)
{
  char *argv[32] = {"sweep", "x.yaml"};
  int argc = 2;
  const ct_command_t *cmd;
  ct_args_t a;
  while (*word)
    argv[argc++] = (char *)(uintptr_t)*word++;
  CT_ASSERT_OK(ct_command_find("sweep", &cmd));
  CT_ASSERT_OK(ct_args_parse(&a, cmd, argc, argv));
  int rc = ct_sweep_plan(&a, &plan);
  ct_args_clear(&a);
  return rc;
}
#define PLAN(...) plan_of((const char *const[]){__VA_ARGS__, NULL})

static void all_combinations_in_their_order(void)
{
  static const char *const names[] = {"lr=0.1,batch=64", "lr=0.1,batch=128", "lr=0.03,batch=64",
                                      "lr=0.03,batch=128"};
  CT_ASSERT_OK(PLAN("--over", "optim.lr=0.1,0.03", "--over", "data.batch=64,128"));
  CT_ASSERT_INT(plan.runs, 4);
  for (int i = 0; i < 4; i++)
    CT_ASSERT_TEXT(plan.run[i].name, names[i]);
  CT_ASSERT_TEXT(plan.run[1].set[0], "optim.lr=0.1");
  CT_ASSERT_TEXT(plan.run[1].set[1], "data.batch=128");
  ct_sweep_plan_clear(&plan);
}

static void a_value_is_any_scalar_or_list(void)
{
  CT_ASSERT_OK(PLAN("--over", "model.hidden=[1,2],[3]", "--over", "run.name='a,b',{c: [d,e]}"));
  CT_ASSERT_INT(plan.runs, 4);
  CT_ASSERT_TEXT(plan.run[3].set[0], "model.hidden=[3]");
  CT_ASSERT_TEXT(plan.run[0].set[1], "run.name='a,b'");
  CT_ASSERT_TEXT(plan.run[1].set[1], "run.name={c: [d,e]}");
  for (int i = 0; i < 4; i++)
    CU_ASSERT(ct_text_is_name(plan.run[i].name) && !strpbrk(plan.run[i].name, " []{}':"));
  CU_ASSERT(strcmp(plan.run[0].name, plan.run[1].name) != 0);
  ct_sweep_plan_clear(&plan);
}

static void keys_of_one_word_stand_whole(void)
{
  CT_ASSERT_OK(PLAN("--over", "optim.kind=sgd", "--over", "schedule.kind=step"));
  CT_ASSERT_TEXT(plan.run[0].name, "optim.kind=sgd,schedule.kind=step");
  ct_sweep_plan_clear(&plan);
}

static void names_of_unlike_values_are_unlike(void)
{
  CT_ASSERT_OK(PLAN("--over", "init.from=a/b,a b,a_b"));
  CT_ASSERT_INT(plan.runs, 3);
  CU_ASSERT(strcmp(plan.run[0].name, plan.run[1].name) != 0);
  CT_ASSERT_TEXT(plan.run[2].name, "from=a_b");
  ct_sweep_plan_clear(&plan);
  CT_ASSERT_OK(PLAN("--over", "optim.lr=0.1,0.1"));
  CT_ASSERT_INT(plan.runs, 1);
  ct_sweep_plan_clear(&plan);
}

static double value(int64_t run, int key)
{
  return strtod(strchr(plan.run[run].set[key], '=') + 1, NULL);
}

/* Each decade has a third of the draws, each whole number a sixth: within 5 standard deviations. */
static void draws_fill_their_range(void)
{
  enum { N = 2000 };
  int decade[3] = {0}, whole[6] = {0};
  CT_ASSERT_OK(PLAN("--over", "optim.lr=log:1e-4..1e-1", "--over", "data.batch=lin:3..8", "--over",
                    "optim.eps=lin:0.5..0.75", "--random", "2000", "--seed", "5"));
  CT_ASSERT_INT(plan.runs, N);
  for (int64_t i = 0; i < N; i++) {
    double lr = value(i, 0), batch = value(i, 1), eps = value(i, 2);
    CU_ASSERT(lr >= 1e-4 && lr <= 1e-1 && eps >= 0.5 && eps <= 0.75);
    CU_ASSERT(batch == floor(batch) && batch >= 3 && batch <= 8);
    decade[(int)fmin(floor(log10(lr) + 4), 2)]++;
    whole[(int)batch - 3]++;
  }
  for (int i = 0; i < 3; i++)
    CT_ASSERT_NEAR(decade[i], N / 3.0, 5 * sqrt(N * 2.0 / 9));
  for (int i = 0; i < 6; i++)
    CT_ASSERT_NEAR(whole[i], N / 6.0, 5 * sqrt(N * 5.0 / 36));
  ct_sweep_plan_clear(&plan);
}

static void more_draws_begin_with_the_same(void)
{
  char first[3][200];
  CT_ASSERT_OK(PLAN("--over", "optim.lr=log:1e-4..1e-1", "--random", "3"));
  for (int i = 0; i < 3; i++)
    strcpy(first[i], plan.run[i].name);
  ct_sweep_plan_clear(&plan);
  CT_ASSERT_OK(PLAN("--over", "optim.lr=log:1e-4..1e-1", "--random", "9", "--seed", "0"));
  for (int i = 0; i < 3; i++)
    CT_ASSERT_TEXT(plan.run[i].name, first[i]);
  ct_sweep_plan_clear(&plan);
}

static void there_are_no_more_than_combinations(void)
{
  CT_ASSERT_OK(PLAN("--over", "optim.lr=1,2", "--over", "data.batch=1,2,3", "--random", "50"));
  CT_ASSERT_INT(plan.runs, 6);
  ct_sweep_plan_clear(&plan);
}

static void what_is_wrong_is_told(void)
{
  static const char *const wrong[] = {
      "optim.lr",    "=1",          "optim.lr=", "optim.lr=1,,2", "lr=lin:1",
      "lr=lin:2..1", "lr=log:0..1", "lr=log:..", "lr=lin:1..x"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    CT_ASSERT_FAILS(PLAN("--over", wrong[i], "--random", "2"), CT_ERR_USAGE, wrong[i]);
  }
  CT_ASSERT_FAILS(PLAN("--over", "lr=lin:1..2"), CT_ERR_USAGE, "--random N");
  CT_ASSERT_FAILS(PLAN("--over", "lr=1", "--seed", "2"), CT_ERR_USAGE, "--random");
  CT_ASSERT_FAILS(PLAN("--over", "lr=1", "--over", "lr=2"), CT_ERR_USAGE, "before");
  CT_ASSERT_FAILS(PLAN("--json"), CT_ERR_USAGE, "over what");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(all_combinations_in_their_order),
                                    CT_TEST(a_value_is_any_scalar_or_list),
                                    CT_TEST(keys_of_one_word_stand_whole),
                                    CT_TEST(names_of_unlike_values_are_unlike),
                                    CT_TEST(draws_fill_their_range),
                                    CT_TEST(more_draws_begin_with_the_same),
                                    CT_TEST(there_are_no_more_than_combinations),
                                    CT_TEST(what_is_wrong_is_told),
                                    CT_TEST_END};
  return ct_test_main("sweep", tests, argc, argv);
}
