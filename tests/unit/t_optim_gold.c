/* Optimizers, clipping and loss scaling against PyTorch, on both backends:
 * tests/golden/optim.gold, made by make_optim_golden.py, which has the same problem and
 * options. */
#include <math.h>

#include "backend/ct_update.h"
#include "cpu/ct_cpu.h"
#include "optim/ct_optim.h"
#include "ref/ct_ref.h"
#include "tests/golden/gold.h"

enum { PARAMS = 3, COUNT = 40, STEPS = 50, ARENA = 64 };
static const int sizes[PARAMS] = {20, 5, 15}, places[PARAMS] = {0, 32, 48};
static const int shown[] = {1, 2, 5, 10, 20, 35, 50};
enum { SHOWN = 7 };
enum { SGD, ADAM, ADAMW, RMSPROP, LARS, LAMB, NADAM, RADAM, ADAMAX, ADAGRAD, ADADELTA, LION };

static gold_t gold;

typedef struct side {
  const ct_backend_t *be;
  ct_dev_t *dev;
  ct_queue_t *queue;
} side_t;
static side_t sides[2] = {{.be = &ct_backend_ref}, {.be = &ct_backend_cpu}};

typedef struct run {
  side_t *side;
  ct_op_t *gradstat, *measure, *update;
  float w[ARENA], g[ARENA], state[CT_RULE_STATES][ARENA];
  ct_grad_stat_t stat;
} run_t;

static void run_op(run_t *r, ct_op_t *op, const ct_op_args_t *a)
{
  CT_ASSERT_OK(r->side->be->op->run(r->side->queue, op, a));
  CT_ASSERT_OK(r->side->be->queue->sync(r->side->queue));
}

static ct_op_t *prepare(side_t *s, ct_op_kind_t kind, int rule, double p)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_t *op = NULL;
  ct_op_desc_flat(&d, kind, ARENA, rule, p);
  CT_ASSERT_OK(s->be->op->prepare(s->dev, &d, NULL, &op, &info));
  return op;
}

static void open_run(run_t *r, side_t *s, int rule, double p)
{
  *r = (run_t){.side = s};
  r->gradstat = prepare(s, CT_OP_GRADSTAT, 0, p);
  r->measure = prepare(s, CT_OP_MEASURE, rule, 0);
  r->update = prepare(s, CT_OP_UPDATE, rule, 0);
}

static void close_run(run_t *r)
{
  r->side->be->op->release(r->gradstat);
  r->side->be->op->release(r->measure);
  r->side->be->op->release(r->update);
}

/* Parameter k of the arena as 40 numbers that follow each other, and back. */
static void gather(const float *arena, float *flat)
{
  for (int k = 0, n = 0; k < PARAMS; n += sizes[k++])
    memcpy(flat + n, arena + places[k], (size_t)sizes[k] * sizeof *flat);
}

static void scatter(const float *flat, float *arena)
{
  for (int k = 0, n = 0; k < PARAMS; n += sizes[k++])
    memcpy(arena + places[k], flat + n, (size_t)sizes[k] * sizeof *flat);
}

static ct_op_args_t args_of(run_t *r, int k)
{
  ct_op_args_t a = {.pass = CT_FWD, .scale = 1, .count = sizes[k], .stat = &r->stat};
  a.w[0] = r->w + places[k];
  a.dy = r->g + places[k];
  for (int s = 0; s < CT_RULE_STATES; s++)
    a.state[s] = r->state[s] + places[k];
  return a;
}

static void check_near(const float *got, const float *want, int n, double tol, const char *what)
{
  if (ct_test_off_rel(got, want, n).most > tol) printf("# %s\n", what);
  CT_ASSERT_ARRAY_REL(got, want, n, tol);
}

/* ---- rules ---- */

static void gradient(run_t *r, int step)
{
  float w[COUNT], g[COUNT];
  gather(r->w, w);
  for (int i = 0; i < COUNT; i++) {
    double sum = 0.5 * gold_noise((uint64_t)(100 + step), (uint64_t)i) + ((double)w[i] - 1);
    for (int j = 0; j < COUNT; j++)
      sum += 0.3 * gold_noise(1, (uint64_t)(i * COUNT + j)) * ((double)w[j] - 1);
    g[i] = (float)sum;
  }
  scatter(g, r->g);
}

static void step_rule(run_t *r, const ct_optim_opts_t *o, int step)
{
  static const ct_schedule_point_t at = {0};
  int states, rule = ct_optim_rule(o, &states);
  int momentum = o->kind == SGD || o->kind == RMSPROP || o->kind == LARS;
  for (int k = 0; k < PARAMS; k++) {
    ct_param_group_t group = {o->lr, k == 1 ? 0 : o->weight_decay,
                              momentum ? o->momentum : o->beta1, 0};
    double norms[2];
    ct_op_args_t a = args_of(r, k);
    a.hyper = ct_optim_hyper(o, &group, &at, step);
    a.scale = o->maximize ? -1 : 1;
    a.norms = norms;
    for (int s = states; s < CT_RULE_STATES; s++)
      a.state[s] = NULL;
    if (ct_rule_needs_norms(rule)) run_op(r, r->measure, &a);
    run_op(r, r->update, &a);
  }
}

static void check_rule(side_t *s, const char *name, const ct_optim_opts_t *o, double tol)
{
  char text[128];
  float want[SHOWN * COUNT], got[SHOWN * COUNT];
  int states, rule = ct_optim_rule(o, &states), n = 0;
  run_t r;
  open_run(&r, s, rule, 2);
  for (int i = 0; i < COUNT; i++)
    got[i] = gold_noise(2, (uint64_t)i);
  scatter(got, r.w);
  for (int step = 0; step < STEPS; step++) {
    gradient(&r, step);
    step_rule(&r, o, step);
    if (step + 1 == shown[n]) gather(r.w, got + COUNT * n++);
  }
  snprintf(text, sizeof text, "rule/%s", name);
  gold_take(&gold, text, SHOWN * COUNT, want);
  check_near(got, want, SHOWN * COUNT, tol, name);
  for (int k = 0; k < states; k++) {
    snprintf(text, sizeof text, "state/%s/%s", name, ct_optim_state_name(o, k));
    gold_take(&gold, text, COUNT, want);
    gather(r.state[k], got);
    check_near(got, want, COUNT, 5 * tol,
               text); /* sums of gradients as they are, without the rate */
  }
  close_run(&r);
}

static void check_rules(const char *const *name, const ct_optim_opts_t *opts, int n, double tol)
{
  for (int i = 0; i < 2 * n; i++) {
    ct_optim_opts_t o = opts[i / 2];
    if (o.beta1 == 0) o.beta1 = 0.9;
    if (o.beta2 == 0) o.beta2 = 0.999;
    if (o.alpha == 0) o.alpha = 0.99;
    if (o.trust == 0) o.trust = 0.001;
    if (o.rho == 0) o.rho = 0.9;
    if (o.momentum_decay == 0) o.momentum_decay = 0.004;
    check_rule(&sides[i % 2], name[i / 2], &o, tol);
  }
}

static void sgd(void)
{
  static const char *const name[] = {"sgd", "sgd-nesterov", "sgd-dampening"};
  static const ct_optim_opts_t opts[] = {
      {.lr = 0.02, .momentum = 0.9},
      {.lr = 0.02, .momentum = 0.9, .nesterov = 1, .weight_decay = 0.01},
      {.lr = 0.05, .momentum = 0.8, .dampening = 0.3, .weight_decay = 0.1}};
  check_rules(name, opts, 3, 1e-6);
}

static void adam(void)
{
  static const char *const name[] = {"adam", "adam-decay"};
  static const ct_optim_opts_t opts[] = {
      {.kind = ADAM, .lr = 0.01},
      {.kind = ADAM, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.05}};
  check_rules(name, opts, 2, 1e-6);
}

static void adamw(void)
{
  static const char *const name[] = {"adamw", "adamw-decay"};
  static const ct_optim_opts_t opts[] = {
      {.kind = ADAMW, .lr = 0.01, .weight_decay = 0.01},
      {.kind = ADAMW, .lr = 0.02, .beta1 = 0.85, .beta2 = 0.98, .eps = 1e-4, .weight_decay = 0.5}};
  check_rules(name, opts, 2, 1e-6);
}

static void rmsprop(void)
{
  static const char *const name[] = {"rmsprop", "rmsprop-momentum", "rmsprop-centered",
                                     "rmsprop-all"};
  static const ct_optim_opts_t opts[] = {
      {.kind = RMSPROP, .lr = 0.01},
      {.kind = RMSPROP, .lr = 0.002, .alpha = 0.9, .momentum = 0.9, .weight_decay = 0.05},
      {.kind = RMSPROP, .lr = 0.005, .centered = 1, .eps = 1e-3},
      {.kind = RMSPROP,
       .lr = 0.001,
       .alpha = 0.95,
       .momentum = 0.8,
       .centered = 1,
       .eps = 1e-3,
       .weight_decay = 0.05}};
  check_rules(name, opts, 4, 1e-6);
}

static void lars(void)
{
  static const char *const name[] = {"lars", "lars-nesterov", "lars-plain"};
  static const ct_optim_opts_t opts[] = {
      {.kind = LARS, .lr = 1, .momentum = 0.9, .weight_decay = 0.01},
      {.kind = LARS,
       .lr = 0.5,
       .momentum = 0.8,
       .weight_decay = 0.1,
       .nesterov = 1,
       .trust = 0.02,
       .eps = 1e-3},
      {.kind = LARS, .lr = 0.1, .weight_decay = 0.05, .trust = 0.1}};
  check_rules(name, opts, 3, 1e-6);
}

static void lamb(void)
{
  static const char *const name[] = {"lamb", "lamb-decay"};
  static const ct_optim_opts_t opts[] = {
      {.kind = LAMB, .lr = 0.02, .weight_decay = 0.01},
      {.kind = LAMB, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-4, .weight_decay = 0.2}};
  check_rules(name, opts, 2, 1e-6);
}

static void options_of_all(void)
{
  static const char *const name[] = {"sgd-maximize", "adam-amsgrad", "adamw-amsgrad"};
  static const ct_optim_opts_t opts[] = {
      {.lr = 0.0002, .momentum = 0.9, .weight_decay = 0.1, .maximize = 1},
      {.kind = ADAM, .lr = 0.02, .beta2 = 0.8, .weight_decay = 0.05, .amsgrad = 1},
      {.kind = ADAMW,
       .lr = 0.01,
       .beta1 = 0.8,
       .beta2 = 0.9,
       .weight_decay = 0.1,
       .amsgrad = 1,
       .maximize = 1}};
  check_rules(name, opts, 3, 2e-6);
}

static void nadam_and_radam(void)
{
  static const char *const name[] = {"nadam", "nadam-decay", "nadam-decoupled",
                                     "radam", "radam-decay", "radam-decoupled"};
  static const ct_optim_opts_t opts[] = {
      {.kind = NADAM, .lr = 0.002},
      {.kind = NADAM,
       .lr = 0.01,
       .beta1 = 0.8,
       .beta2 = 0.99,
       .weight_decay = 0.1,
       .momentum_decay = 0.06},
      {.kind = NADAM, .lr = 0.02, .eps = 1e-3, .weight_decay = 0.2, .decoupled_weight_decay = 1},
      {.kind = RADAM, .lr = 0.001},
      {.kind = RADAM, .lr = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-6, .weight_decay = 0.1},
      {.kind = RADAM, .lr = 0.02, .weight_decay = 0.2, .decoupled_weight_decay = 1}};
  check_rules(name, opts, 6, 1e-6);
}

static void adamax_adagrad_and_adadelta(void)
{
  static const char *const name[] = {"adamax",      "adamax-decay", "adagrad",
                                     "adagrad-all", "adadelta",     "adadelta-rho"};
  static const ct_optim_opts_t opts[] = {
      {.kind = ADAMAX, .lr = 0.002},
      {.kind = ADAMAX, .lr = 0.01, .beta1 = 0.8, .beta2 = 0.9, .eps = 1e-4, .weight_decay = 0.9},
      {.kind = ADAGRAD, .lr = 0.01},
      {.kind = ADAGRAD,
       .lr = 0.1,
       .lr_decay = 0.5,
       .weight_decay = 0.1,
       .initial_accumulator_value = 0.3,
       .eps = 1e-3},
      {.kind = ADADELTA, .lr = 1},
      {.kind = ADADELTA, .lr = 0.5, .rho = 0.95, .eps = 1e-4, .weight_decay = 0.9}};
  check_rules(name, opts, 6, 1e-6);
}

static void lion(void)
{
  static const char *const name[] = {"lion", "lion-decay"};
  static const ct_optim_opts_t opts[] = {
      {.kind = LION, .lr = 0.01, .beta2 = 0.99},
      {.kind = LION, .lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.5}};
  check_rules(name, opts, 2, 1e-6);
}

/* ---- clipping ---- */

static void load_gradient(run_t *r, float factor)
{
  float g[COUNT];
  for (int i = 0; i < COUNT; i++)
    g[i] = factor * gold_noise(3, (uint64_t)i);
  scatter(g, r->g);
}

/* A step of -g, so that the weights show what the rule saw. */
static void step_back(run_t *r, const ct_grad_ctl_t *ctl, float scale, float *out)
{
  memset(r->w, 0, sizeof r->w);
  for (int k = 0; k < PARAMS; k++) {
    ct_op_args_t a = args_of(r, k);
    a.hyper = (ct_hyper_t){.lr = -1, .step = 1};
    a.ctl = *ctl;
    a.scale = scale;
    run_op(r, r->update, &a);
  }
  gather(r->w, out);
}

static void count_up(run_t *r, float scale)
{
  r->stat = (ct_grad_stat_t){0};
  for (int k = 0; k < PARAMS; k++) {
    ct_op_args_t a = args_of(r, k);
    a.scale = scale;
    run_op(r, r->gradstat, &a);
  }
}

static void check_clip(side_t *s, double norm, double p)
{
  char name[64];
  float want[1 + COUNT], got[1 + COUNT];
  run_t r;
  open_run(&r, s, CT_RULE_SGD, p);
  load_gradient(&r, 128); /* as if the loss had been scaled */
  count_up(&r, 1.0f / 128);
  CT_ASSERT_INT(r.stat.nonfinite, 0);
  got[0] = (float)ct_grad_norm(&r.stat, p);
  ct_grad_ctl_t ctl = {.stat = &r.stat, .clip_norm = norm, .clip_p = p, .skip_nonfinite = 1};
  step_back(&r, &ctl, 1.0f / 128, got + 1);
  snprintf(name, sizeof name, "clip/%g/%g", norm, p);
  gold_take(&gold, name, 1 + COUNT, want);
  check_near(got, want, 1 + COUNT, 1e-6, name);
  close_run(&r);
}

static void clipping_by_norm(void)
{
  static const double norms[] = {0.05, 1, 100}, p[] = {1, 2, 3, INFINITY};
  for (int i = 0; i < 24; i++)
    check_clip(&sides[i % 2], norms[i / 8], p[i / 2 % 4]);
}

static void clipping_by_value(void)
{
  float want[1 + COUNT], got[COUNT];
  gold_take(&gold, "clip/value", 1 + COUNT, want);
  for (int i = 0; i < 2; i++) {
    run_t r;
    open_run(&r, &sides[i], CT_RULE_SGD, 2);
    load_gradient(&r, 1);
    step_back(&r, &(ct_grad_ctl_t){.clip_value = 0.2f}, 1, got);
    check_near(got, want + 1, COUNT, 0, "clip/value");
    close_run(&r);
  }
}

/* A norm that is infinite or NaN: the step is skipped, or what PyTorch's clipping makes of it. */
static void check_nonfinite(side_t *s, float bad, double p)
{
  float got[COUNT];
  run_t r;
  open_run(&r, s, CT_RULE_SGD, p);
  load_gradient(&r, 1);
  r.g[places[1] + 2] = bad;
  r.g[places[2]] = -bad;
  count_up(&r, 1);
  CT_ASSERT_INT(r.stat.nonfinite, 2);
  CU_ASSERT(isnan(bad) ? isnan(r.stat.power) : isinf(r.stat.power));
  ct_grad_ctl_t ctl = {.stat = &r.stat, .clip_norm = 1, .clip_p = p, .skip_nonfinite = 1};
  step_back(&r, &ctl, 1, got);
  for (int i = 0; i < COUNT; i++)
    CT_ASSERT_NEAR(got[i], 0, 0);
  ctl.skip_nonfinite = 0;
  step_back(&r, &ctl, 1, got);
  CU_ASSERT(isnan(got[22]) && isnan(got[25]));
  CU_ASSERT(isnan(bad) ? isnan(got[0]) : got[0] == 0);
  close_run(&r);
}

static void nonfinite_gradients(void)
{
  static const float bad[] = {INFINITY, NAN};
  static const double p[] = {1, 2, 3, INFINITY};
  for (int i = 0; i < 16; i++)
    check_nonfinite(&sides[i % 2], bad[i / 2 % 2], p[i / 4]);
}

static void a_skipped_step_changes_no_moments(void)
{
  ct_grad_stat_t stat = {.nonfinite = 1};
  double norms[2] = {1, 1};
  for (int i = 0; i < 2; i++) {
    run_t r;
    open_run(&r, &sides[i], CT_RULE_LAMB, 2);
    load_gradient(&r, 1);
    ct_op_args_t a = args_of(&r, 0);
    a.ctl = (ct_grad_ctl_t){.stat = &stat, .skip_nonfinite = 1};
    a.norms = norms;
    a.hyper = (ct_hyper_t){
        .lr = 1, .step = 1, .take1 = 0.1f, .take2 = 0.1f, .fix1 = 1, .fix2 = 1, .eps = 1};
    run_op(&r, r.measure, &a);
    CT_ASSERT_NEAR(norms[0] + norms[1], 0, 0);
    CT_ASSERT_NEAR(r.state[0][0], 0, 0);
    a.ctl.skip_nonfinite = 0;
    run_op(&r, r.measure, &a);
    CU_ASSERT(norms[1] > 0 && r.state[0][0] != 0);
    close_run(&r);
  }
}

/* ---- loss scaling ---- */

static void scaler_is_grad_scaler(void)
{
  enum { STEPS_OF_SCALER = 8000, CHANGES = 7 };
  float want[2 * CHANGES];
  ct_scaler_t s;
  int n = 0;
  gold_take(&gold, "scaler", 2 * CHANGES, want);
  ct_scaler_init(&s, 1);
  CT_ASSERT_NEAR(ct_scaler_scale(&s), 65536, 0);
  for (int step = 0; step < STEPS_OF_SCALER; step++) {
    double before = ct_scaler_scale(&s);
    ct_scaler_update(&s, step == 3 || step == 4 || step == 1000 || step == 5500);
    if (ct_scaler_scale(&s) == before || n == CHANGES) continue;
    CT_ASSERT_INT(step, want[2 * n]);
    CT_ASSERT_NEAR(ct_scaler_scale(&s), want[2 * n + 1], 0);
    n++;
  }
  CT_ASSERT_INT(n, CHANGES);
}

static void scaler_can_be_off(void)
{
  ct_scaler_t s;
  ct_scaler_init(&s, 0);
  ct_scaler_update(&s, 1);
  CT_ASSERT_NEAR(ct_scaler_scale(&s), 1, 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(sgd),
                                    CT_TEST(adam),
                                    CT_TEST(adamw),
                                    CT_TEST(rmsprop),
                                    CT_TEST(lars),
                                    CT_TEST(lamb),
                                    CT_TEST(options_of_all),
                                    CT_TEST(nadam_and_radam),
                                    CT_TEST(adamax_adagrad_and_adadelta),
                                    CT_TEST(lion),
                                    CT_TEST(clipping_by_norm),
                                    CT_TEST(clipping_by_value),
                                    CT_TEST(nonfinite_gradients),
                                    CT_TEST(a_skipped_step_changes_no_moments),
                                    CT_TEST(scaler_is_grad_scaler),
                                    CT_TEST(scaler_can_be_off),
                                    CT_TEST_END};
  ct_dev_opts_t dev = {.threads = 1};
  if (gold_open(&gold, "optim.gold") != CT_OK) return 1;
  for (int i = 0; i < 2; i++) {
    if (sides[i].be->open(&dev, &sides[i].dev) != CT_OK) return 1;
    if (sides[i].be->queue->create(sides[i].dev, &sides[i].queue) != CT_OK) return 1;
  }
  int failed = ct_test_main("optim_gold", tests, argc, argv);
  for (int i = 0; i < 2; i++) {
    sides[i].be->queue->destroy(sides[i].queue);
    sides[i].be->close(sides[i].dev);
  }
  ct_mem_free(gold.data);
  return failed;
}
