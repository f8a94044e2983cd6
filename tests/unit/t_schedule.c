/* Learning-rate schedules against torch.optim.lr_scheduler over whole runs:
 * tests/golden/optim.gold, made by make_optim_golden.py. */
#include <math.h>

#include "optim/ct_optim.h"
#include "tests/golden/gold.h"

enum { CONSTANT, STEP, MULTISTEP, EXPONENTIAL, COSINE, POLYNOMIAL, ONE_CYCLE, PLATEAU };
enum { PER = 6, TOTAL = 60, WARM = 9 };

static gold_t gold;

static void kinds_have_words(void)
{
  static const char *const words[] = {"constant", "step",       "multistep", "exponential",
                                      "cosine",   "polynomial", "one_cycle", "plateau"};
  for (int i = CONSTANT; i <= PLATEAU; i++)
    CT_ASSERT_TEXT(ct_opt_word(ct_schedule_rows, "kind", i), words[i]);
}

static ct_schedule_opts_t usual(int kind)
{
  ct_schedule_opts_t s = {0};
  CT_ASSERT_OK(ct_opt_defaults(ct_schedule_rows, &s));
  s.kind = kind;
  return s;
}

static ct_schedule_point_t point(const ct_schedule_opts_t *s, int64_t step)
{
  return (ct_schedule_point_t){.opts = s,
                               .step = step,
                               .steps_per_epoch = PER,
                               .total_steps = TOTAL,
                               .batch = 256,
                               .plateau = 1};
}

static double lr_at(const ct_schedule_opts_t *s, int64_t step)
{
  ct_schedule_point_t at = point(s, step);
  return ct_schedule_lr(&at, 0.1);
}

static void check_rates(const ct_schedule_opts_t *s, const char *record)
{
  float want[TOTAL];
  gold_take(&gold, record, TOTAL, want);
  for (int t = 0; t < TOTAL; t++)
    CT_ASSERT_NEAR(lr_at(s, t), want[t], 1e-7 * want[t] + 1e-14);
}

/* A whole run, and one that begins with a warm-up of 1.5 epochs. */
static void check_schedule(ct_schedule_opts_t *s, const char *name)
{
  char record[80];
  snprintf(record, sizeof record, "schedule/%s", name);
  check_rates(s, record);
  snprintf(record, sizeof record, "schedule/%s/warm", name);
  s->warmup_epochs = (double)WARM / PER;
  check_rates(s, record);
  s->warmup_epochs = 0;
}

static void constant(void)
{
  ct_schedule_opts_t s = usual(CONSTANT);
  CT_ASSERT_NEAR(lr_at(&s, 0), 0.1, 0);
  CT_ASSERT_NEAR(lr_at(&s, 1000), 0.1, 0);
  s.warmup_epochs = 2;
  CT_ASSERT_NEAR(lr_at(&s, 0), 0.1 / 12, 1e-15);
  CT_ASSERT_NEAR(lr_at(&s, 5), 0.05, 1e-15);
  CT_ASSERT_NEAR(lr_at(&s, 11), 0.1, 1e-15);
  ct_schedule_point_t none = {0};
  CT_ASSERT_NEAR(ct_schedule_lr(&none, 0.3), 0.3, 0);
}

static void step(void)
{
  ct_schedule_opts_t s = usual(STEP);
  s.step_epochs = 1.5;
  s.gamma = 0.5;
  check_schedule(&s, "step");
  s.step_epochs = 1e-6; /* less than a step: one step */
  CT_ASSERT_NEAR(lr_at(&s, 2), 0.025, 1e-15);
}

static void multistep(void)
{
  double milestones[] = {2, 4.5, 7};
  ct_schedule_opts_t s = usual(MULTISTEP);
  s.milestones = (ct_opt_doubles_t){milestones, 3};
  s.gamma = 0.3;
  check_schedule(&s, "multistep");
}

static void exponential(void)
{
  ct_schedule_opts_t s = usual(EXPONENTIAL);
  s.gamma = 0.7;
  check_rates(&s, "schedule/exponential");
}

static void cosine(void)
{
  ct_schedule_opts_t s = usual(COSINE);
  s.min_lr = 0.01;
  check_schedule(&s, "cosine");
  CT_ASSERT_NEAR(lr_at(&s, TOTAL), 0.01, 1e-15);
  CT_ASSERT_NEAR(lr_at(&s, 100 * TOTAL), 0.01, 1e-15);
  s.warmup_epochs = 10; /* as long as the run */
  CT_ASSERT_NEAR(lr_at(&s, TOTAL), 0.01, 1e-15);
}

static void polynomial(void)
{
  ct_schedule_opts_t s = usual(POLYNOMIAL);
  s.power = 2.5;
  check_schedule(&s, "polynomial");
  s.min_lr = 0.02;
  s.power = 1;
  CT_ASSERT_NEAR(lr_at(&s, TOTAL / 2), 0.06, 1e-15);
  CT_ASSERT_NEAR(lr_at(&s, TOTAL), 0.02, 1e-15);
}

static void check_momentum(const ct_schedule_opts_t *s, const char *record)
{
  float want[TOTAL];
  gold_take(&gold, record, TOTAL, want);
  for (int t = 0; t < TOTAL; t++) {
    ct_schedule_point_t at = point(s, t);
    CT_ASSERT_NEAR(ct_schedule_momentum(&at, 0.9), want[t], 1e-7);
  }
}

static void one_cycle(void)
{
  ct_schedule_opts_t s = usual(ONE_CYCLE);
  check_schedule(&s, "one_cycle");
  check_momentum(&s, "schedule/one_cycle/momentum");
  check_momentum(&s, "schedule/one_cycle/beta1");
  CT_ASSERT_NEAR(lr_at(&s, 2 * TOTAL), 0.1 / 25 / 1e4, 1e-12);
  s.pct_start = 0.05;
  s.div_factor = 4;
  s.final_div_factor = 100;
  s.base_momentum = 0.7;
  s.max_momentum = 0.99;
  check_schedule(&s, "one_cycle-steep");
  check_momentum(&s, "schedule/one_cycle-steep/momentum");
}

static void one_cycle_of_few_steps(void)
{
  ct_schedule_opts_t s = usual(ONE_CYCLE);
  for (int total = 0; total < 4; total++) {
    for (int t = 0; t < 4; t++) {
      ct_schedule_point_t at = point(&s, t);
      at.total_steps = total;
      CU_ASSERT(isfinite(ct_schedule_lr(&at, 0.1)) && isfinite(ct_schedule_momentum(&at, 0.9)));
    }
  }
}

static void momentum_changes_with_one_cycle_only(void)
{
  for (int kind = CONSTANT; kind <= PLATEAU; kind++) {
    ct_schedule_opts_t s = usual(kind);
    ct_schedule_point_t at = point(&s, 3);
    double m = ct_schedule_momentum(&at, 0.9);
    CU_ASSERT(kind == ONE_CYCLE ? m != 0.9 : m == 0.9);
    CT_ASSERT_NEAR(ct_schedule_momentum(&at, 0), 0, 0); /* what has none gets none */
    s.cycle_momentum = 0;
    CT_ASSERT_NEAR(ct_schedule_momentum(&at, 0.9), 0.9, 0);
  }
}

static void plateau(void)
{
  enum { EVALUATIONS = 60 };
  float loss[EVALUATIONS], rate[EVALUATIONS];
  ct_schedule_opts_t s = usual(PLATEAU);
  ct_plateau_t p;
  int reduced = 0;
  s.gamma = 0.5;
  s.patience = 2;
  s.threshold = 1e-2;
  s.min_lr = 0.002;
  gold_take(&gold, "plateau/loss", EVALUATIONS, loss);
  gold_take(&gold, "plateau/rate", EVALUATIONS, rate);
  ct_plateau_init(&p);
  for (int i = 0; i < EVALUATIONS; i++) {
    double before = p.factor;
    ct_plateau_update(&p, &s, loss[i]);
    ct_schedule_point_t at = point(&s, i);
    at.plateau = p.factor;
    reduced += p.factor != before;
    CT_ASSERT_NEAR(ct_schedule_lr(&at, 0.1), rate[i], 1e-8);
    CT_ASSERT_NEAR(ct_schedule_lr(&at, 1e-3), 1e-3, 0); /* is below min_lr from the start */
  }
  CU_ASSERT(reduced > 3);
}

static void rates_scale_with_the_batch(void)
{
  ct_schedule_opts_t s = usual(COSINE);
  ct_schedule_point_t at = point(&s, 20);
  double before = ct_schedule_lr(&at, 0.1);
  at.batch = 1024;
  CT_ASSERT_NEAR(ct_schedule_lr(&at, 0.1), before, 0);
  s.scale_lr = 1;
  CT_ASSERT_NEAR(ct_schedule_lr(&at, 0.1), 4 * before, 1e-15);
  s.base_batch = 512;
  CT_ASSERT_NEAR(ct_schedule_lr(&at, 0.1), 2 * before, 1e-15);
  s.warmup_epochs = 5;
  CT_ASSERT_NEAR(ct_schedule_lr(&at, 0.1), 0.2 * 21 / 30, 1e-15);
}

static void what_does_not_fit_is_refused(void)
{
  double milestones[] = {2, -1};
  for (int kind = CONSTANT; kind <= PLATEAU; kind++) {
    ct_schedule_opts_t s = usual(kind);
    if (kind == MULTISTEP) s.milestones = (ct_opt_doubles_t){milestones, 1};
    CT_ASSERT_OK(ct_schedule_check(&s));
  }
  ct_schedule_opts_t s = usual(MULTISTEP);
  CT_ASSERT_FAILS(ct_schedule_check(&s), CT_ERR_USAGE, "milestones");
  s.milestones = (ct_opt_doubles_t){milestones, 2};
  CT_ASSERT_FAILS(ct_schedule_check(&s), CT_ERR_USAGE, "-1");
  s.kind = COSINE;
  CT_ASSERT_FAILS(ct_schedule_check(&s), CT_ERR_USAGE, "milestones is given");
  s = usual(COSINE);
  s.gamma = 0.5;
  CT_ASSERT_FAILS(ct_schedule_check(&s), CT_ERR_USAGE, "no meaning with schedule.kind cosine");
  s = usual(STEP);
  s.patience = 3;
  CT_ASSERT_FAILS(ct_schedule_check(&s), CT_ERR_USAGE, "schedule.patience");
  s = usual(STEP);
  s.cycle_momentum = 0;
  CT_ASSERT_FAILS(ct_schedule_check(&s), CT_ERR_USAGE, "schedule.cycle_momentum");
  s = usual(PLATEAU);
  s.gamma = 1;
  CT_ASSERT_FAILS(ct_schedule_check(&s), CT_ERR_USAGE, "below 1");
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(kinds_have_words),
                                    CT_TEST(constant),
                                    CT_TEST(step),
                                    CT_TEST(multistep),
                                    CT_TEST(exponential),
                                    CT_TEST(cosine),
                                    CT_TEST(polynomial),
                                    CT_TEST(one_cycle),
                                    CT_TEST(one_cycle_of_few_steps),
                                    CT_TEST(momentum_changes_with_one_cycle_only),
                                    CT_TEST(plateau),
                                    CT_TEST(rates_scale_with_the_batch),
                                    CT_TEST(what_does_not_fit_is_refused),
                                    CT_TEST_END};
  if (gold_open(&gold, "optim.gold") != CT_OK) return 1;
  int failed = ct_test_main("schedule", tests, argc, argv);
  ct_mem_free(gold.data);
  return failed;
}
