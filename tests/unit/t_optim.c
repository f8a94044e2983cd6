/* The expected numbers are PyTorch's (2.15, float32 parameters). */
#include <string.h>

#include "base/ct_err.h"
#include "optim/ct_optim.h"
#include "tests/harness/ct_test.h"

enum { CONSTANT, STEP, COSINE };

static void kinds_have_words(void)
{
  CT_ASSERT_TEXT(ct_opt_word(ct_schedule_rows, "kind", CONSTANT), "constant");
  CT_ASSERT_TEXT(ct_opt_word(ct_schedule_rows, "kind", STEP), "step");
  CT_ASSERT_TEXT(ct_opt_word(ct_schedule_rows, "kind", COSINE), "cosine");
}

/* ---- schedules ---- */

static double lr_at(const ct_schedule_opts_t *s, double lr, int64_t step, int64_t per_epoch,
                    int64_t total)
{
  ct_schedule_point_t at = {
      .opts = s, .step = step, .steps_per_epoch = per_epoch, .total_steps = total};
  return ct_schedule_lr(&at, lr);
}

/* The first n rates of a run of \a total steps, 2 an epoch. */
static void check_rates(const ct_schedule_opts_t *s, int n, int64_t total, const double *expected)
{
  for (int t = 0; t < n; t++)
    CT_ASSERT_NEAR(lr_at(s, 0.1, t, 2, total), expected[t], 1e-10);
}

static void constant_is_constant(void)
{
  ct_schedule_opts_t s = {.kind = CONSTANT};
  check_rates(&s, 3, 3, (const double[]){0.1, 0.1, 0.1});
}

static void cosine_is_cosine_annealing(void)
{
  /* CosineAnnealingLR(SGD(lr=0.1), T_max=8, eta_min=0.01) */
  static const double expected[] = {0.1,           0.09657457896, 0.08681980515,
                                    0.07222075446, 0.055,         0.03777924554,
                                    0.02318019485, 0.01342542104, 0.01};
  ct_schedule_opts_t s = {.kind = COSINE, .min_lr = 0.01};
  check_rates(&s, 9, 8, expected);
}

static void cosine_stays_at_its_end(void)
{
  ct_schedule_opts_t s = {.kind = COSINE, .min_lr = 0.01};
  CT_ASSERT_NEAR(lr_at(&s, 0.1, 100, 2, 8), 0.01, 1e-12);
  s.warmup_epochs = 4; /* as long as the run */
  CT_ASSERT_NEAR(lr_at(&s, 0.1, 8, 2, 8), 0.01, 1e-12);
}

static void step_is_step_lr(void)
{
  /* StepLR(SGD(lr=0.1), step_size=3, gamma=0.5); 1.5 epochs of 2 steps */
  static const double expected[] = {0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025};
  ct_schedule_opts_t s = {.kind = STEP, .step_epochs = 1.5, .gamma = 0.5};
  check_rates(&s, 9, 100, expected);
}

static void step_of_less_than_a_step(void)
{
  ct_schedule_opts_t s = {.kind = STEP, .step_epochs = 1e-6, .gamma = 0.5};
  check_rates(&s, 3, 3, (const double[]){0.1, 0.05, 0.025});
}

static void warmup_comes_first(void)
{
  /* SequentialLR([LambdaLR(lambda t: (t + 1) / 4), CosineAnnealingLR(T_max=6)], milestones=[4]) */
  static const double expected[] = {0.025,         0.05,  0.075, 0.1,   0.1,
                                    0.09330127019, 0.075, 0.05,  0.025, 0.006698729811};
  ct_schedule_opts_t s = {.kind = COSINE, .warmup_epochs = 2};
  check_rates(&s, 10, 10, expected);
}

/* ---- optimizer ---- */

/* Weights after three steps on gradients that are exact in float32, at a rate of 0.1. */
static void check_sgd(ct_optim_opts_t o, double w0, double w1)
{
  static const float g[3][2] = {{1, -2}, {0.25f, 0.5f}, {-3, 0.125f}};
  float w[2] = {0.5f, -1.25f}, state[2][CT_RULE_STATES] = {{0}};
  for (int step = 0; step < 3; step++) {
    ct_param_group_t group = {0.1, o.weight_decay, o.momentum};
    ct_hyper_t h = ct_optim_hyper(&o, &group, &(ct_schedule_point_t){0}, step);
    for (int i = 0; i < 2; i++)
      w[i] = ct_rule_sgd(&h, w[i], g[step][i], &state[i][0], &state[i][1], &state[i][2]);
  }
  CT_ASSERT_NEAR(w[0], w0, 1e-6);
  CT_ASSERT_NEAR(w[1], w1, 1e-6);
}

static void sgd_is_pytorchs(void)
{
  /* w = Parameter([0.5, -1.25]); SGD([w], lr=0.1, …); three steps with the gradients above */
  check_sgd((ct_optim_opts_t){0}, 0.675000012, -1.11249995);
  check_sgd((ct_optim_opts_t){.momentum = 0.9}, 0.4815, -0.815499961);
  check_sgd((ct_optim_opts_t){.momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01}, 0.453954309,
            -0.798748672);
  check_sgd((ct_optim_opts_t){.momentum = 0.9, .nesterov = 1, .weight_decay = 0.01}, 0.655451834,
            -0.713283896);
}

static void momentum_needs_a_state(void)
{
  int states;
  ct_optim_opts_t o = {.momentum = 0.9};
  CT_ASSERT_INT(ct_optim_rule(&o, &states), CT_RULE_SGD);
  CT_ASSERT_INT(states, 1);
  CT_ASSERT_TEXT(ct_optim_state_name(&o, 0), "momentum_buffer");
  o.momentum = 0;
  ct_optim_rule(&o, &states);
  CT_ASSERT_INT(states, 0);
}

static ct_optim_opts_t usual(void)
{
  ct_optim_opts_t o = {0};
  CT_ASSERT_OK(ct_opt_defaults(ct_optim_rows, &o));
  return o;
}

static void nesterov_needs_momentum(void)
{
  ct_optim_opts_t o = usual();
  o.nesterov = 1;
  CT_ASSERT_OK(ct_optim_check(&o));
  o.dampening = 0.1;
  CT_ASSERT_FAILS(ct_optim_check(&o), CT_ERR_USAGE, "dampening is 0.1");
  o.dampening = o.momentum = 0;
  CT_ASSERT_FAILS(ct_optim_check(&o), CT_ERR_USAGE, "momentum is 0");
}

static void defaults_are_in_range(void)
{
  ct_optim_opts_t o = {0};
  ct_schedule_opts_t s = {0};
  CT_ASSERT_OK(ct_opt_defaults(ct_optim_rows, &o));
  CT_ASSERT_OK(ct_opt_defaults(ct_schedule_rows, &s));
  CT_ASSERT_OK(ct_optim_check(&o));
  CT_ASSERT_NEAR(lr_at(&s, o.lr, 0, 10, 100), 0.1, 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(kinds_have_words),
                                    CT_TEST(constant_is_constant),
                                    CT_TEST(cosine_is_cosine_annealing),
                                    CT_TEST(cosine_stays_at_its_end),
                                    CT_TEST(step_is_step_lr),
                                    CT_TEST(step_of_less_than_a_step),
                                    CT_TEST(warmup_comes_first),
                                    CT_TEST(sgd_is_pytorchs),
                                    CT_TEST(momentum_needs_a_state),
                                    CT_TEST(nesterov_needs_momentum),
                                    CT_TEST(defaults_are_in_range),
                                    CT_TEST_END};
  return ct_test_main("optim", tests, argc, argv);
}
