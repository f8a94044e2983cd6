/* Learning-rate schedules against torch.optim.lr_scheduler over whole runs:
 * tests/golden/optim.gold, made by make_optim_golden.py. */
#include <math.h>

#include "optim/ct_optim.h"
#include "tests/golden/gold.h"

enum {
  CONSTANT,
  STEP,
  MULTISTEP,
  EXPONENTIAL,
  COSINE,
  POLYNOMIAL,
  ONE_CYCLE,
  PLATEAU,
  RESTARTS,
  LINEAR,
  INVERSE_SQRT
};
enum { PER = 6, TOTAL = 60, WARM = 9 };

static gold_t gold;

static void kinds_have_words(void)
{
  static const char *const words[] = {"constant",        "step",       "multistep",   "exponential",
                                      "cosine",          "polynomial", "one_cycle",   "plateau",
                                      "cosine_restarts", "linear",     "inverse_sqrt"};
  for (int i = CONSTANT; i <= INVERSE_SQRT; i++)
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
  for (int kind = CONSTANT; kind <= INVERSE_SQRT; kind++) {
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
  for (int kind = CONSTANT; kind <= INVERSE_SQRT; kind++) {
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

/* ---- options as they are written ---- */

static int read_yaml(ct_schedule_opts_t *s, const char *yaml)
{
  int rc = CT_OK;
  ct_yaml_t *map = NULL;
  *s = usual(CONSTANT);
  CT_TRY(ct_yaml_parse(yaml, strlen(yaml), "s.yaml", &map));
  CT_TRY(ct_opt_read(ct_schedule_rows, s, map, "s.yaml", "schedule", NULL));
  CT_TRY(ct_schedule_read(s, "s.yaml"));
  CT_TRY(ct_schedule_check(s));
out:
  ct_yaml_free(map);
  return rc;
}

static void free_yaml(ct_schedule_opts_t *s)
{
  ct_schedule_clear(s);
  ct_opt_clear(ct_schedule_rows, s);
}

/* Each record, in steps and in epochs of 6 steps. */
static void units(void)
{
  static const struct {
    const char *record, *yaml;
  } rows[] = {
      {"step", "{kind: step, unit: steps, step_size: 9, gamma: 0.5}"},
      {"step", "{kind: step, step_size: 1.5, gamma: 0.5}"},
      {"step/warm", "{kind: step, unit: steps, warmup: 9, step_size: 9, gamma: 0.5}"},
      {"step/warm", "{kind: step, unit: steps, warmup_epochs: 1.5, step_epochs: 1.5, gamma: 0.5}"},
      {"multistep/warm",
       "{kind: multistep, unit: steps, warmup: 9, milestones: [12, 27, 42], gamma: 0.3}"},
      {"multistep/warm", "{kind: multistep, warmup: 1.5, milestones: [2, 4.5, 7], gamma: 0.3}"},
      {"exponential-steps", "{kind: exponential, unit: steps, gamma: 0.97}"},
      {"restarts", "{kind: cosine_restarts, unit: steps, period: 13, min_lr: 0.01}"},
      {"restarts-longer", "{kind: cosine_restarts, unit: steps, period: 6, period_factor: 2}"},
      {"restarts-longer", "{kind: cosine_restarts, period: 1, period_factor: 2}"},
      {"linear", "{kind: linear, unit: steps, length: 18}"},
      {"linear", "{kind: linear, length: 3}"},
      {"linear-down", "{kind: linear, start_factor: 1, end_factor: 0.1}"},
      {"cosine-from", "{kind: cosine, unit: steps, warmup: 9, warmup_factor: 0.05}"},
      {"inverse_sqrt", "{kind: inverse_sqrt, warmup: 1.5}"},
      {"list", "{list: [{kind: linear, start_factor: 0.2, length: 1}, "
               "{kind: cosine, length: 4, min_lr: 0.01}, {kind: polynomial, power: 2, length: 12, "
               "unit: steps}, "
               "{kind: step, step_size: 5, unit: steps, gamma: 0.5}]}"},
      {"list",
       "{unit: steps, list: [{kind: linear, start_factor: 0.2, length: 6}, "
       "{kind: cosine, length: 24, min_lr: 0.01}, {kind: polynomial, power: 2, length: 12}, "
       "{kind: step, step_size: 5, gamma: 0.5}]}"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char record[80];
    ct_schedule_opts_t s;
    CT_ASSERT_OK(read_yaml(&s, rows[i].yaml));
    snprintf(record, sizeof record, "schedule/%s", rows[i].record);
    check_rates(&s, record);
    free_yaml(&s);
  }
}

static void bad_options_are_refused(void)
{
  static const struct {
    const char *yaml, *word;
  } rows[] = {{"{unit: hours}", "schedule.unit"},
              {"{warmup: 1, warmup_epochs: 1}", "both given"},
              {"{warmup_factor: 0.1}", "schedule.warmup is 0"},
              {"{kind: step, length: 3}", "schedule.length"},
              {"{kind: cosine, period: 3}", "schedule.period"},
              {"{kind: linear, period_factor: 0}", "period_factor"},
              {"{kind: cosine, list: [{kind: step}]}", "kind and schedule.list"},
              {"{list: []}", "s.yaml:1: schedule.list: expected a list"},
              {"{list: [cosine]}", "schedule.list"},
              {"{list: [{kind: cosin}]}", "schedule.list.kind"},
              {"{list: [{kind: step}, {kind: cosine}]}", "schedule 1: length is missing"},
              {"{list: [{kind: plateau}]}", "plateau"},
              {"{list: [{kind: step, warmup: 3}]}", "schedule 1: warm-up"},
              {"{list: [{kind: constant, gamma: 0.3}]}", "schedule 1: schedule.gamma"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ct_schedule_opts_t s;
    CT_ASSERT_FAILS(read_yaml(&s, rows[i].yaml), CT_ERR_USAGE, rows[i].word);
    free_yaml(&s);
  }
}

static void nadam_has_its_own_momentum(void)
{
  ct_optim_opts_t o = {0};
  ct_schedule_opts_t s;
  CT_ASSERT_OK(ct_opt_defaults(ct_optim_rows, &o));
  CT_ASSERT_OK(read_yaml(&s, "{list: [{kind: one_cycle, length: 3}, {kind: constant}]}"));
  CT_ASSERT_OK(ct_optim_check_schedule(&o, &s));
  for (o.kind = 0; strcmp(ct_opt_word(ct_optim_rows, "kind", o.kind), "nadam") != 0;)
    o.kind++;
  CT_ASSERT_FAILS(ct_optim_check_schedule(&o, &s), CT_ERR_USAGE, "cycle_momentum");
  s.part[0].cycle_momentum = 0;
  CT_ASSERT_OK(ct_optim_check_schedule(&o, &s));
  free_yaml(&s);
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
                                    CT_TEST(units),
                                    CT_TEST(bad_options_are_refused),
                                    CT_TEST(nadam_has_its_own_momentum),
                                    CT_TEST_END};
  if (gold_open(&gold, "optim.gold") != CT_OK) return 1;
  int failed = ct_test_main("schedule", tests, argc, argv);
  ct_mem_free(gold.data);
  return failed;
}
