/* Options of optimizers and parameter groups; their arithmetic is in t_optim_gold.c. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "optim/ct_optim.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/model_make.h"

enum {
  SGD,
  ADAM,
  ADAMW,
  RMSPROP,
  LARS,
  LAMB,
  NADAM,
  RADAM,
  ADAMAX,
  ADAGRAD,
  ADADELTA,
  LION,
  MUON,
  KINDS
};

static ct_optim_opts_t usual(int kind)
{
  ct_optim_opts_t o = {0};
  CT_ASSERT_OK(ct_opt_defaults(ct_optim_rows, &o));
  o.kind = kind;
  return o;
}

static void kinds_have_words(void)
{
  static const char *const words[] = {"sgd",      "adam",  "adamw", "rmsprop", "lars",
                                      "lamb",     "nadam", "radam", "adamax",  "adagrad",
                                      "adadelta", "lion",  "muon"};
  static const int rules[] = {CT_RULE_SGD,    CT_RULE_ADAM,    CT_RULE_ADAM,     CT_RULE_RMSPROP,
                              CT_RULE_LARS,   CT_RULE_LAMB,    CT_RULE_NADAM,    CT_RULE_RADAM,
                              CT_RULE_ADAMAX, CT_RULE_ADAGRAD, CT_RULE_ADADELTA, CT_RULE_LION,
                              CT_RULE_MUON};
  for (int i = 0; i < KINDS; i++) {
    int states;
    ct_optim_opts_t o = usual(i);
    CT_ASSERT_TEXT(ct_opt_word(ct_optim_rows, "kind", i), words[i]);
    CT_ASSERT_INT(ct_optim_rule(&o, &states), rules[i]);
    CT_ASSERT_INT(ct_rule_needs_norms(rules[i]), i == LARS || i == LAMB);
    CT_ASSERT_OK(ct_optim_check(&o));
  }
}

/* ---- states ---- */

static void check_states(const ct_optim_opts_t *o, int n, const char *a, const char *b,
                         const char *c)
{
  const char *const want[] = {a, b, c};
  int states;
  ct_optim_rule(o, &states);
  CT_ASSERT_INT(states, n);
  for (int i = 0; i < n; i++)
    CT_ASSERT_TEXT(ct_optim_state_name(o, i), want[i]);
  CT_ASSERT_TEXT(ct_optim_state_name(o, n), "unknown");
}

static void states_have_pytorchs_names(void)
{
  for (int kind = 0; kind <= LAMB; kind++) {
    ct_optim_opts_t o = usual(kind);
    int sgd = kind == SGD || kind == LARS;
    if (kind == RMSPROP) {
      check_states(&o, 2, "square_avg", "momentum_buffer", NULL);
      o.centered = 1;
      check_states(&o, 3, "square_avg", "grad_avg", "momentum_buffer");
      o.momentum = 0;
      check_states(&o, 2, "square_avg", "grad_avg", NULL);
      o.centered = 0;
      check_states(&o, 1, "square_avg", NULL, NULL);
    } else {
      check_states(&o, sgd ? 1 : 2, sgd ? "momentum_buffer" : "exp_avg", "exp_avg_sq", NULL);
      o.momentum = 0;
      check_states(&o, sgd ? 0 : 2, "exp_avg", "exp_avg_sq", NULL);
    }
  }
}

static void states_of_later_kinds(void)
{
  ct_optim_opts_t o = usual(ADAMW);
  o.amsgrad = 1;
  check_states(&o, 3, "exp_avg", "exp_avg_sq", "max_exp_avg_sq");
  o = usual(NADAM);
  check_states(&o, 2, "exp_avg", "exp_avg_sq", NULL);
  o = usual(ADAMAX);
  check_states(&o, 2, "exp_avg", "exp_inf", NULL);
  o = usual(ADAGRAD);
  check_states(&o, 1, "sum", NULL, NULL);
  o = usual(ADADELTA);
  check_states(&o, 2, "square_avg", "acc_delta", NULL);
  o = usual(LION);
  check_states(&o, 1, "exp_avg", NULL, NULL);
}

/* ---- checks ---- */

static void nesterov_needs_momentum(void)
{
  ct_optim_opts_t o = usual(SGD);
  o.nesterov = 1;
  CT_ASSERT_OK(ct_optim_check(&o));
  o.dampening = 0.1;
  CT_ASSERT_FAILS(ct_optim_check(&o), CT_ERR_USAGE, "dampening is 0.1");
  o.dampening = o.momentum = 0;
  CT_ASSERT_FAILS(ct_optim_check(&o), CT_ERR_USAGE, "momentum is 0");
}

static void betas_are_below_one(void)
{
  ct_optim_opts_t o = usual(ADAM);
  o.beta2 = 1;
  CT_ASSERT_FAILS(ct_optim_check(&o), CT_ERR_USAGE, "below 1");
  double two[2] = {1, 2};
  o = usual(MUON);
  o.ns_coefficients = (ct_opt_doubles_t){two, 2};
  CT_ASSERT_FAILS(ct_optim_check(&o), CT_ERR_USAGE, "three numbers, not 2");
}

/* An option other than its default, and which optimizers have it. */
static void options_of_others_are_refused(void)
{
  enum { LETTERS = KINDS }; /* sgd adam adamw rmsprop lars lamb nadam radam adamax adagrad ... */
  static const struct {
    const char *yaml, *kinds;
  } rows[] = {{"momentum: 0.8", "s  rl       m"},
              {"dampening: 0.5", "s   l        "},
              {"nesterov: true", "s   l       m"},
              {"beta1: 0.8", " aa  bnrx  lm"},
              {"beta2: 0.9", " aa  bnrx  lm"},
              {"alpha: 0.9", "   r         "},
              {"centered: true", "   r         "},
              {"eps: 1e-5", " aarlbnrxad m"},
              {"trust: 0.1", "    l        "},
              {"ns_steps: 6", "            m"},
              {"ns_coefficients: [1, 2, 3]", "            m"},
              {"adjust_lr_fn: match_rms_adamw", "            m"},
              {"amsgrad: true", " aa          "},
              {"rho: 0.5", "          d  "},
              {"decoupled_weight_decay: true", "      nr     "},
              {"momentum_decay: 0.1", "      n      "},
              {"lr_decay: 0.1", "         a   "},
              {"initial_accumulator_value: 0.1", "         a   "},
              {"maximize: true", "saarlbnrxadlm"},
              {"lr: 0.2", "saarlbnrxadlm"},
              {"weight_decay: 1", "saarlbnrxadlm"}};
  for (size_t i = 0; i < LETTERS * sizeof rows / sizeof rows[0]; i++) {
    int kind = (int)i % LETTERS;
    const char *yaml = rows[i / LETTERS].yaml;
    ct_optim_opts_t o = usual(kind);
    ct_yaml_t *map = NULL;
    CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "o.yaml", &map));
    CT_ASSERT_OK(ct_opt_read(ct_optim_rows, &o, map, "o.yaml", "optim", NULL));
    if (rows[i / LETTERS].kinds[kind] != ' ')
      CT_ASSERT_OK(ct_optim_check(&o));
    else
      CT_ASSERT_FAILS(ct_optim_check(&o), CT_ERR_USAGE, map->child->key);
    ct_yaml_free(map);
    ct_opt_clear(ct_optim_rows, &o);
  }
}

/* ---- groups ---- */

static const char model[] = "layers:\n"
                            "  - conv2d: {out: 4, kernel: 3}\n"
                            "    name: stem.conv\n"
                            "  - batchnorm:\n"
                            "    name: stem.norm\n"
                            "  - flatten\n"
                            "  - linear: {out: 8}\n"
                            "    name: head.fc1\n"
                            "  - linear: {out: 3}\n"
                            "    name: head.fc2\n";

typedef struct fixture {
  ct_graph_t *graph;
  ct_yaml_t *map;
  ct_optim_opts_t o;
  ct_param_groups_t groups;
} fixture_t;

/* Groups of the options in YAML. */
static int open_groups(fixture_t *f, const char *yaml)
{
  int rc = CT_OK;
  *f = (fixture_t){.graph = make(model, image(2, 6, 6), 3), .o = usual(SGD)};
  CT_TRY(ct_yaml_parse(yaml, strlen(yaml), "g.yaml", &f->map));
  CT_TRY(ct_opt_read(ct_optim_rows, &f->o, f->map, "g.yaml", "optim", NULL));
  CT_TRY(ct_param_groups_make(&f->o, f->graph, "g.yaml", &f->groups));
out:
  return rc;
}

static void close_groups(fixture_t *f)
{
  ct_param_groups_clear(&f->groups);
  ct_opt_clear(ct_optim_rows, &f->o);
  ct_yaml_free(f->map);
  ct_graph_free(f->graph);
}

static const ct_param_group_t *group_of(const fixture_t *f, const char *name)
{
  return &f->groups.group[f->groups.of[ct_graph_find_param(f->graph, name)]];
}

static void without_groups_there_is_one(void)
{
  fixture_t f;
  CT_ASSERT_OK(open_groups(&f, "{lr: 0.5, momentum: 0.25, weight_decay: 0.125}"));
  CT_ASSERT_INT(f.groups.groups, 1);
  for (int i = 0; i < f.graph->params; i++)
    CT_ASSERT_INT(f.groups.of[i], 0);
  CT_ASSERT_NEAR(f.groups.group[0].lr, 0.5, 0);
  CT_ASSERT_NEAR(f.groups.group[0].momentum, 0.25, 0);
  CT_ASSERT_NEAR(f.groups.group[0].weight_decay, 0.125, 0);
  close_groups(&f);
}

static void the_first_match_decides(void)
{
  fixture_t f;
  CT_ASSERT_OK(open_groups(&f, "lr: 0.5\n"
                               "weight_decay: 0.1\n"
                               "groups:\n"
                               "  - {match: head.fc2, lr: 1, momentum: 0}\n"
                               "  - {match: ['head.*', 'stem.n?rm.*'], weight_decay: 0}\n"
                               "  - {match: '*', lr: 2}\n"));
  CT_ASSERT_INT(f.groups.groups, 4);
  CT_ASSERT_NEAR(group_of(&f, "head.fc2.weight")->lr, 1, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc2.bias")->lr, 1, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc2.bias")->momentum, 0, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc2.bias")->weight_decay, 0.1, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.weight")->lr, 0.5, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.weight")->momentum, 0.9, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.weight")->weight_decay, 0, 0);
  CU_ASSERT(group_of(&f, "stem.norm.bias") == group_of(&f, "head.fc1.weight"));
  CT_ASSERT_NEAR(group_of(&f, "stem.conv.weight")->lr, 2, 0);
  CT_ASSERT_INT(f.groups.of[ct_graph_find_param(f.graph, "stem.norm.running_mean")], 0);
  close_groups(&f);
}

static void equal_groups_are_one(void)
{
  fixture_t f;
  CT_ASSERT_OK(open_groups(&f, "groups: [{match: head.fc1, lr: 1}, {match: head.fc2, lr: 1.0}, "
                               "{match: stem, lr: 0.1}]"));
  CT_ASSERT_INT(f.groups.groups, 2);
  CU_ASSERT(group_of(&f, "head.fc1.weight") == group_of(&f, "head.fc2.bias"));
  CT_ASSERT_INT(f.groups.of[ct_graph_find_param(f.graph, "stem.conv.weight")], 0);
  close_groups(&f);
}

static void biases_and_norms_without_decay(void)
{
  fixture_t f;
  CT_ASSERT_OK(open_groups(&f, "weight_decay: 0.1\n"
                               "no_decay_bias_norm: true\n"
                               "groups: [{match: head.fc2, weight_decay: 0.2}]\n"));
  CT_ASSERT_INT(f.groups.groups, 3);
  CT_ASSERT_NEAR(group_of(&f, "stem.conv.weight")->weight_decay, 0.1, 0);
  CT_ASSERT_NEAR(group_of(&f, "stem.conv.bias")->weight_decay, 0, 0);
  CT_ASSERT_NEAR(group_of(&f, "stem.norm.weight")->weight_decay, 0, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.bias")->weight_decay, 0, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc2.bias")->weight_decay, 0.2, 0); /* says it itself */
  close_groups(&f);
}

static void groups_have_beta1_for_momentum(void)
{
  fixture_t f;
  CT_ASSERT_OK(open_groups(&f, "{kind: adam, beta1: 0.8, groups: [{match: head, lr: 1}]}"));
  CT_ASSERT_NEAR(f.groups.group[0].momentum, 0.8, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.bias")->momentum, 0.8, 0);
  close_groups(&f);
}

/* Weights with 2 dims are matrices, but not those of the output layer, unless a group says so. */
static void matrices_of_muon(void)
{
  fixture_t f;
  CT_ASSERT_OK(open_groups(&f, "{kind: muon, momentum: 0.95, beta1: 0.8}"));
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.weight")->matrix, 1, 0); /* 8 x 144 */
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.weight")->momentum, 0.95, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.bias")->matrix, 0, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.bias")->momentum, 0.8, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc2.weight")->matrix, 0, 0);
  CT_ASSERT_NEAR(group_of(&f, "stem.conv.weight")->matrix, 0, 0);
  close_groups(&f);
  CT_ASSERT_OK(open_groups(&f, "{kind: muon, adjust_lr_fn: match_rms_adamw, groups: "
                               "[{match: head.fc1, muon: false}, {match: '*', muon: true}]}"));
  CT_ASSERT_NEAR(group_of(&f, "head.fc1.weight")->matrix, 0, 0);
  CT_ASSERT_NEAR(group_of(&f, "head.fc2.weight")->matrix, 0.2 * sqrt(8), 1e-15); /* 3 x 8 */
  CT_ASSERT_NEAR(group_of(&f, "head.fc2.bias")->matrix, 0, 0);
  CT_ASSERT_NEAR(group_of(&f, "stem.conv.weight")->matrix, 0, 0);
  close_groups(&f);
}

/* torch.optim.AdamW: a weight is multiplied by 1 - lr * weight_decay with the scheduler's lr;
 * Adam's decay is part of the gradient. */
static void adamw_decays_by_the_rate_of_the_step(void)
{
  ct_optim_opts_t o = usual(ADAMW);
  ct_schedule_opts_t s = {0};
  CT_ASSERT_OK(ct_opt_defaults(ct_schedule_rows, &s));
  s.warmup_epochs = 1;
  ct_schedule_point_t at = {.opts = &s, .step = 1, .steps_per_epoch = 8, .total_steps = 80};
  ct_param_group_t group = {.lr = 0.5, .weight_decay = 0.25, .momentum = 0.9};
  CT_ASSERT_NEAR(ct_optim_hyper(&o, &group, &at, 1).keep, 1 - 0.125 * 0.25, 1e-7);
  at.step = 20;
  CT_ASSERT_NEAR(ct_optim_hyper(&o, &group, &at, 20).keep, 1 - 0.5 * 0.25, 1e-7);
  CT_ASSERT_NEAR(ct_optim_hyper(&o, &group, &at, 20).weight_decay, 0, 0);
  o.kind = ADAM;
  CT_ASSERT_NEAR(ct_optim_hyper(&o, &group, &at, 20).keep, 1, 0);
  CT_ASSERT_NEAR(ct_optim_hyper(&o, &group, &at, 20).weight_decay, 0.25, 0);
  ct_opt_clear(ct_schedule_rows, &s);
  ct_opt_clear(ct_optim_rows, &o);
}

/* A buffer is there if only a group has momentum. */
static void momentum_of_a_group_is_a_state(void)
{
  fixture_t f;
  CT_ASSERT_OK(open_groups(&f, "{momentum: 0, groups: [{match: head, momentum: 0.5}]}"));
  check_states(&f.o, 1, "momentum_buffer", NULL, NULL);
  close_groups(&f);
  CT_ASSERT_OK(open_groups(&f, "{momentum: 0, groups: [{match: head, momentum: 0}]}"));
  check_states(&f.o, 0, NULL, NULL, NULL);
  close_groups(&f);
}

static void bad_groups_are_refused(void)
{
  static const struct {
    const char *yaml, *word;
  } rows[] = {{"groups:\n  - {match: hed, lr: 1}", "g.yaml:2: optim.groups: no trained"},
              {"groups:\n  - {match: hed, lr: 1}", "'hed'"},
              {"groups: [{match: [head, '*.running_mean']}]", "'*.running_mean'"},
              {"groups:\n  - match: head\n    lrr: 1", "g.yaml:3: optim.groups.lrr"},
              {"groups:\n  - match: head\n    lrr: 1", "did you mean 'lr'"},
              {"groups: [{match: head, momentum: 2}]", "between 0 and 1"},
              {"groups: [{lr: 1}]", "match: missing"},
              {"groups: [{match: [], lr: 1}]", "no pattern"},
              {"groups: [head]", "expected a map"},
              {"groups: {match: head}", "expected a list"},
              {"groups: [{match: head, muon: true}]", "is of optim.kind muon"},
              {"{kind: adam, groups: [{match: head, momentum: 0.5}]}", "betas"}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    fixture_t f;
    CT_ASSERT_FAILS(open_groups(&f, rows[i].yaml), CT_ERR_USAGE, rows[i].word);
    CU_ASSERT_PTR_NULL(f.groups.group);
    close_groups(&f);
  }
}

static void no_memory_is_an_error(void)
{
  fixture_t f;
  CT_ASSERT_OK(open_groups(&f, "groups: [{match: [head, stem], lr: 1}]"));
  for (int n = 1; n < 50; n++) {
    ct_param_groups_t groups;
    ct_mem_fail_at(n);
    int rc = ct_param_groups_make(&f.o, f.graph, "g.yaml", &groups);
    ct_mem_fail_at(0);
    ct_param_groups_clear(&groups);
    if (rc == CT_OK) break;
    CT_ASSERT_INT(rc, CT_ERR_NOMEM);
  }
  close_groups(&f);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(kinds_have_words),
                                    CT_TEST(states_have_pytorchs_names),
                                    CT_TEST(states_of_later_kinds),
                                    CT_TEST(nesterov_needs_momentum),
                                    CT_TEST(betas_are_below_one),
                                    CT_TEST(options_of_others_are_refused),
                                    CT_TEST(without_groups_there_is_one),
                                    CT_TEST(the_first_match_decides),
                                    CT_TEST(equal_groups_are_one),
                                    CT_TEST(biases_and_norms_without_decay),
                                    CT_TEST(groups_have_beta1_for_momentum),
                                    CT_TEST(momentum_of_a_group_is_a_state),
                                    CT_TEST(matrices_of_muon),
                                    CT_TEST(adamw_decays_by_the_rate_of_the_step),
                                    CT_TEST(bad_groups_are_refused),
                                    CT_TEST(no_memory_is_an_error),
                                    CT_TEST_END};
  return ct_test_main("optim", tests, argc, argv);
}
