/* Ways to make a step that must not change what it means: pieces, shards, SyncBN, ZeRO; and those
 * that do, in the way that is asked for: freezing, clipping, loss scaling, weights of classes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "tests/mpi/flaky.h"
#include "tests/mpi/trainer_rig.h"

static const ct_topo_t *const topo = &ct_test_topo;

static rig_opts_t opts(const char *model)
{
  return (rig_opts_t){.model = model, .max_batch = 16};
}

/* The same alone: all pieces of all ranks one after another. */
static rig_opts_t alone(rig_opts_t o)
{
  o.alone = 1;
  o.step_opts.micro_batches =
      (o.step_opts.micro_batches ? o.step_opts.micro_batches : 1) * topo->size;
  return o;
}

static float *weights(rig_t *r, int param)
{
  float *w = malloc((size_t)r->graph->param[param].count * sizeof *w);
  CT_ASSERT_OK(ct_trainer_get(r->t, param, w));
  return w;
}

/* Parameters of the two are near, all of them; running statistics only if \a buffers. */
static void near(rig_t *a, rig_t *b, double tolerance, int buffers)
{
  for (int p = 0; p < a->graph->params; p++) {
    if (a->graph->param[p].spec.buffer && !buffers) continue;
    float *x = weights(a, p), *y = weights(b, p);
    for (int64_t i = 0; i < a->graph->param[p].count; i++)
      CT_ASSERT_NEAR(x[i], y[i], tolerance);
    free(x);
    free(y);
  }
}

static int same(rig_t *a, rig_t *b, int param)
{
  float *x = weights(a, param), *y = weights(b, param);
  int equal = memcmp(x, y, (size_t)a->graph->param[param].count * sizeof *x) == 0;
  free(x);
  free(y);
  return equal;
}

/* Steps with full, odd and nearly empty batches. */
static void train(rig_t *a, rig_t *b, double tolerance)
{
  static const int batches[] = {12, 7, 3, 1, 12};
  for (int s = 0; s < 5; s++) {
    double x = rig_step(a, s, batches[s]), y = rig_step(b, s, batches[s]);
    CT_ASSERT_NEAR(x, y, tolerance);
  }
}

static void pieces_equal_the_whole_batch(void)
{
  for (int i = 0; i < 6; i++) {
    rig_t cut, whole;
    rig_opts_t o = opts(i % 2 ? rig_shared : rig_plain), w = o;
    o.step_opts.micro_batches = 1 + i / 2;
    o.blocking = 1;
    w.alone = 1;
    rig_start(&cut, &o);
    rig_start(&whole, &w);
    train(&cut, &whole, 2e-6);
    near(&cut, &whole, 2e-6, 0);
    rig_close(&cut);
    rig_close(&whole);
  }
}

static int power_of_two(int n)
{
  return (n & (n - 1)) == 0;
}

/* The bits of eight logical shards, whatever the ranks; with batchnorm too. */
static void shards_have_the_same_bits(void)
{
  const char *const models[] = {rig_plain, rig_norm, rig_shared};
  for (int m = 0; m < 3 && power_of_two(topo->size); m++) {
    rig_t ranks, one;
    rig_opts_t o = opts(models[m]);
    o.step_opts =
        (ct_step_opts_t){.micro_batches = 8 / topo->size, .fixed_order = 1, .clip_norm = 1};
    rig_start(&ranks, &o);
    o = alone(o);
    rig_start(&one, &o);
    train(&ranks, &one, 1e-12);
    CT_ASSERT_OK(ct_trainer_broadcast(ranks.t, 1));
    for (int p = 0; p < ranks.graph->params; p++)
      if (!same(&ranks, &one, p)) CT_ASSERT_TEXT(ranks.graph->param[p].name, "has the same bits");
    rig_close(&ranks);
    rig_close(&one);
  }
}

static void sync_bn_equals_one_big_batch(void)
{
  for (int micro_batches = 1; micro_batches <= 2; micro_batches++) {
    rig_t ranks, one;
    rig_opts_t o = opts(rig_norm), w = opts(rig_norm);
    o.step_opts = (ct_step_opts_t){.micro_batches = micro_batches, .sync_bn = topo->size};
    rig_start(&ranks, &o);
    w.alone = 1;
    w.step_opts.micro_batches = micro_batches;
    rig_start(&one, &w);
    if (micro_batches == 1) { /* else the pieces hold other samples together */
      train(&ranks, &one, 2e-5);
      near(&ranks, &one, 2e-5, 1);
    } else {
      rig_step(&ranks, 0, 12);
      rig_step(&ranks, 1, 3); /* some ranks and pieces have nothing */
    }
    uint64_t here = rig_snapshot(&ranks, &(ct_position_t){0}, 1);
    CT_ASSERT_OK(ct_agree_same(topo, "everything, running statistics too", here));
    rig_close(&ranks);
    rig_close(&one);
  }
}

static void groups_of_one_are_no_sync_bn(void)
{
  rig_t grouped, off;
  rig_opts_t o = opts(rig_norm), w = opts(rig_norm);
  o.step_opts.sync_bn = 1;
  rig_start(&grouped, &o);
  rig_start(&off, &w);
  train(&grouped, &off, 1e-5);
  near(&grouped, &off, 1e-5, 1);
  rig_close(&grouped);
  rig_close(&off);
}

/* Neighbouring ranks are a group: they alone have the same statistics. */
static void statistics_are_those_of_the_group(void)
{
  const struct {
    int sync_bn, size;
  } cases[] = {{1, 1}, {2, 2}, {3, 3}, {topo->size, topo->size}, {CT_SYNC_NODE, topo->local_size}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rig_t r;
    uint64_t all[16] = {0};
    rig_opts_t o = opts(rig_norm);
    o.step_opts.sync_bn = cases[i].sync_bn;
    o.blocking = 1;
    rig_start(&r, &o);
    rig_step(&r, 0, 12);
    uint64_t mine = rig_snapshot(&r, &(ct_position_t){0}, 1);
    ct_agree_gather(topo, &mine, sizeof mine, all);
    for (int a = 0; a < topo->size && topo->rank == 0; a++)
      for (int b = 0; b < a; b++)
        CT_ASSERT_INT(all[a] == all[b], a / cases[i].size == b / cases[i].size);
    rig_close(&r);
  }
}

/* A rank fails in the middle: nobody waits for its statistics. */
static void sync_bn_survives_a_failure(void)
{
  static const ct_op_kind_t kinds[] = {CT_OP_CONV, CT_OP_BNORM, CT_OP_LOSS};
  for (int k = 0; k < 3; k++)
    for (int nth = 1; nth <= 3; nth++) {
      rig_t r;
      ct_step_status_t status = {0};
      rig_opts_t o = opts(rig_norm);
      o.step_opts.sync_bn = topo->size;
      rig_start(&r, &o);
      if (topo->rank == topo->size - 1) flaky_order(FLAKY_RUN, kinds[k], nth);
      rig_load(&r, 0, 8);
      int rc = rig_run(&r, &status);
      CT_ASSERT_OK(ct_agree_same(topo, "the code", (uint64_t)(int64_t)rc));
      flaky_clear();
      rig_step(&r, 1, 8);
      rig_close(&r);
    }
}

/* A rank fails in any of its pieces: the others learn it, and the next step is as ever. */
static void pieces_survive_a_failure(void)
{
  for (int k = 0; k < 8; k++) {
    rig_t r;
    ct_step_status_t status = {0};
    rig_opts_t o = opts(rig_plain);
    o.step_opts = (ct_step_opts_t){.micro_batches = 4, .fixed_order = k % 2};
    if (k % 2 && !power_of_two(topo->size)) continue;
    rig_start(&r, &o);
    if (topo->rank == topo->size - 1) flaky_order(FLAKY_RUN, CT_OP_LINEAR, 2 + 4 * (k / 2));
    rig_load(&r, 0, 8 * topo->size);
    int rc = rig_run(&r, &status);
    CU_ASSERT(rc != CT_OK);
    CT_ASSERT_OK(ct_agree_same(topo, "the code", (uint64_t)(int64_t)rc));
    flaky_clear();
    rig_step(&r, 1, 12);
    rig_close(&r);
  }
}

/* Also where a rule needs norms of whole parameters: LARS, LAMB. */
static void zero_changes_nothing(void)
{
  static const ct_optim_opts_t optims[] = {
      {0},
      {0},
      {.kind = 4, .lr = 0.5, .momentum = 0.9, .weight_decay = 1e-3, .trust = 0.01},
      {.kind = 5, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .weight_decay = 0.1}};
  for (int c = 0; c < 4; c++) {
    rig_t zero, all;
    rig_opts_t o = opts(rig_norm);
    o.optim = optims[c];
    o.step_opts.clip_norm = c % 2 ? 0.5 : 0;
    rig_start(&all, &o);
    o.step_opts.zero = 1;
    rig_start(&zero, &o);
    train(&zero, &all, 1e-6);
    near(&zero, &all, 1e-6, 0);
    CT_ASSERT_OK(ct_trainer_verify(zero.t));
    if (c == 0) CU_ASSERT(rig_hash(&zero) == rig_hash(&all));
    rig_close(&zero);
    rig_close(&all);
  }
}

/* One run updates all parameters of a group; the number of runs does not grow with the model. */
static void a_group_with_norms_is_one_run(void)
{
  for (int clip = 0; clip < 2; clip++) {
    rig_t r;
    rig_opts_t o = opts(rig_norm);
    o.optim =
        (ct_optim_opts_t){.kind = 5, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .weight_decay = 0.1};
    o.optim.no_decay_bias_norm = 1;
    o.bucket_mb = clip ? 0 : 100; /* clipping waits for all buckets, of a parameter each */
    o.step_opts.clip_norm = clip ? 1 : 0;
    rig_start(&r, &o);
    flaky_runs(CT_OP_MEASURE);
    flaky_runs(CT_OP_UPDATE);
    rig_step(&r, 0, 8);
    CT_ASSERT_INT(flaky_runs(CT_OP_MEASURE), 2);
    CT_ASSERT_INT(flaky_runs(CT_OP_UPDATE), 2);
    rig_close(&r);
  }
}

/* Also where neighbours of other groups lie in the same bucket. */
static void groups_have_their_own_numbers(void)
{
  static const char yaml[] = "- {match: '*.bias', lr: 0}\n";
  for (int zero = 0; zero < 2; zero++) {
    rig_t r, before;
    ct_yaml_t *groups = NULL;
    rig_opts_t o = opts(rig_plain);
    CT_ASSERT_OK(ct_yaml_parse(yaml, strlen(yaml), "test", &groups));
    o.optim = (ct_optim_opts_t){.lr = 0.05, .groups = groups};
    o.bucket_mb = 1;
    o.blocking = 1;
    o.step_opts.zero = zero;
    rig_start(&before, &o);
    rig_start(&r, &o);
    rig_step(&r, 0, 8);
    for (int p = 0; p < r.graph->params; p++) {
      const ct_param_t *par = &r.graph->param[p];
      int stays = strstr(par->name, ".bias") != NULL;
      if (same(&r, &before, p) != stays) CT_ASSERT_TEXT(par->name, stays ? "stays" : "moves");
    }
    rig_close(&r);
    rig_close(&before);
    ct_yaml_free(groups);
  }
}

static void frozen_ones_keep_their_bits(void)
{
  for (int bn = 0; bn < 2; bn++) {
    rig_t r, before;
    rig_opts_t o = opts(rig_norm);
    o.blocking = 1;
    rig_start(&before, &o);
    o.freeze = "norm"; /* one of two batchnorms */
    o.freeze_bn = bn;
    rig_start(&r, &o);
    for (int s = 0; s < 3; s++)
      rig_step(&r, s, 8);
    for (int p = 0; p < r.graph->params; p++) {
      const ct_param_t *par = &r.graph->param[p];
      int in_norm = strncmp(par->name, "norm.", 5) == 0;
      int stays = in_norm && (!par->spec.buffer || bn);
      CT_ASSERT_INT(same(&r, &before, p), stays);
    }
    rig_close(&r);
    rig_close(&before);
  }
}

static void clipping_bounds_the_update(void)
{
  rig_t r, before;
  ct_step_status_t status = {0};
  ct_step_report_t report = {0};
  rig_opts_t o = opts(rig_plain);
  o.optim = (ct_optim_opts_t){.lr = 1};
  o.step_opts.clip_norm = 1e-3;
  o.blocking = 1;
  rig_start(&before, &o);
  rig_start(&r, &o);
  rig_load(&r, 0, 8);
  CT_ASSERT_OK(ct_trainer_step(r.t, &r.batch, CT_OK, &(ct_schedule_point_t){0}, &status, &report));
  CU_ASSERT(report.grad_norm > 1e-2);
  double sum = 0;
  for (int p = 0; p < r.graph->params; p++) {
    float *x = weights(&r, p), *y = weights(&before, p);
    for (int64_t i = 0; i < r.graph->param[p].count; i++)
      sum += (double)(x[i] - y[i]) * (x[i] - y[i]);
    free(x);
    free(y);
  }
  CT_ASSERT_NEAR(sqrt(sum), 1e-3, 1e-6);
  rig_close(&r);
  rig_close(&before);
}

/* An infinity on one rank: all skip that step, and scale less from then on. */
static void an_overflow_is_skipped_by_all(void)
{
  rig_t r;
  ct_step_status_t status = {0};
  ct_step_report_t report = {0};
  rig_opts_t o = opts(rig_plain);
  o.step_opts.compute = CT_F16;
  rig_start(&r, &o);
  rig_step(&r, 0, 8);
  float *before = weights(&r, 0), *after;
  char fault[32];
  snprintf(fault, sizeof fault, "step.overflow@%d:1", topo->size - 1);
  setenv("CTRAIN_FAULTS", fault, 1);
  ct_fault_setup(topo->rank);
  rig_load(&r, 1, 8);
  CT_ASSERT_OK(ct_trainer_step(r.t, &r.batch, CT_OK, &(ct_schedule_point_t){0}, &status, &report));
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(topo->rank);
  CT_ASSERT_INT(report.skipped, 1);
  CU_ASSERT(report.loss_scale == 65536);
  CU_ASSERT(isinf(report.grad_norm));
  after = weights(&r, 0);
  CU_ASSERT(memcmp(before, after, (size_t)r.graph->param[0].count * sizeof *after) == 0);
  free(before);
  free(after);
  rig_load(&r, 1, 8);
  CT_ASSERT_OK(ct_trainer_step(r.t, &r.batch, CT_OK, &(ct_schedule_point_t){0}, &status, &report));
  CT_ASSERT_INT(report.skipped, 0);
  CU_ASSERT(report.loss_scale == 32768);
  CT_ASSERT_OK(ct_trainer_verify(r.t));
  rig_close(&r);
}

static void half_precision_is_near(void)
{
  static const ct_dtype_t types[] = {CT_BF16, CT_F16};
  for (int k = 0; k < 2; k++) {
    rig_t half, full;
    rig_opts_t o = opts(rig_norm);
    rig_start(&full, &o);
    o.step_opts.compute = types[k];
    rig_start(&half, &o);
    for (int s = 0; s < 3; s++) {
      double x = rig_step(&half, s, 8), y = rig_step(&full, s, 8);
      CT_ASSERT_NEAR(x, y, 0.05);
      CU_ASSERT(x != y);
    }
    rig_close(&half);
    rig_close(&full);
  }
}

/* Ranks have samples of different weight: the divisor is that of the whole batch. */
static void weights_of_classes_are_global(void)
{
  static const float weight[RIG_CLASSES] = {1, 5, 0.1f, 2, 1, 1, 3, 1, 0.5f, 1};
  rig_t ranks, one;
  rig_opts_t o = opts(rig_plain);
  o.class_weight = weight;
  o.loss = (ct_loss_spec_t){.weighted = 1, .has_ignored = 1, .ignored = 4, .label_smoothing = 0.1};
  rig_start(&ranks, &o);
  o.alone = 1;
  rig_start(&one, &o);
  for (int s = 0; s < 3; s++) {
    ct_step_status_t a = {0}, b = {0};
    rig_load(&ranks, s, 9);
    rig_load(&one, s, 9);
    CT_ASSERT_OK(rig_run(&ranks, &a));
    CT_ASSERT_OK(rig_run(&one, &b));
    CT_ASSERT_NEAR(a.loss_sum / a.loss_weight, b.loss_sum / b.loss_weight, 1e-6);
  }
  near(&ranks, &one, 2e-6, 0);
  rig_close(&ranks);
  rig_close(&one);
}

static void a_rank_that_differs_is_named(void)
{
  rig_t r;
  float w[8192];
  char name[32];
  rig_opts_t o = opts(rig_plain);
  o.blocking = 1;
  rig_start(&r, &o);
  CT_ASSERT_OK(ct_trainer_verify(r.t));
  if (topo->rank == topo->size - 1 && topo->rank > 0) {
    CT_ASSERT_OK(ct_trainer_get(r.t, 0, w));
    w[0] += 1e-6f;
    CT_ASSERT_OK(ct_trainer_set(r.t, 0, w));
  }
  snprintf(name, sizeof name, "%d", topo->size - 1);
  if (topo->size > 1) CT_ASSERT_FAILS(ct_trainer_verify(r.t), CT_ERR_DIFFER, name);
  rig_close(&r);
}

/* Nor do pieces, groups of ranks, slices of states or norms. */
static void a_step_allocates_nothing(void)
{
  static const float weight[RIG_CLASSES] = {1, 5, 0.1f, 2, 1, 1, 3, 1, 0.5f, 1};
  const ct_step_opts_t step_opts_list[] = {
      {.micro_batches = 3, .sync_bn = topo->size, .zero = 1, .clip_norm = 1},
      {.compute = CT_F16, .micro_batches = 2, .sync_bn = 1, .clip_value = 1, .zero = 1},
      {.compute = CT_BF16,
       .micro_batches = 4,
       .fixed_order = 1,
       .clip_norm = 1,
       .clip_p = INFINITY}};
  for (int k = 0; k < (power_of_two(topo->size) ? 3 : 2); k++) {
    rig_t r;
    rig_opts_t o = opts(rig_norm);
    o.step_opts = step_opts_list[k];
    o.class_weight = weight;
    o.loss = (ct_loss_spec_t){.weighted = 1};
    o.optim = (ct_optim_opts_t){.kind = 5, .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999}; /* LAMB */
    o.optim.weight_decay = 0.1;
    rig_start(&r, &o);
    CT_ASSERT_OK(ct_trainer_prepare(r.t, 4 * topo->size + 1, 4 * topo->size, 1));
    rig_step(&r, 0, 4 * topo->size);
    int64_t calls = ct_mem_calls();
    for (int s = 1; s < 6; s++)
      rig_step(&r, s, s % 2 ? 4 * topo->size : 1);
    CT_ASSERT_INT(ct_mem_calls(), calls);
    CT_ASSERT_OK(ct_trainer_verify(r.t));
    rig_close(&r);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(pieces_equal_the_whole_batch),      CT_TEST(shards_have_the_same_bits),
      CT_TEST(sync_bn_equals_one_big_batch),      CT_TEST(groups_of_one_are_no_sync_bn),
      CT_TEST(statistics_are_those_of_the_group), CT_TEST(sync_bn_survives_a_failure),
      CT_TEST(pieces_survive_a_failure),          CT_TEST(zero_changes_nothing),
      CT_TEST(a_group_with_norms_is_one_run),     CT_TEST(groups_have_their_own_numbers),
      CT_TEST(frozen_ones_keep_their_bits),       CT_TEST(clipping_bounds_the_update),
      CT_TEST(an_overflow_is_skipped_by_all),     CT_TEST(half_precision_is_near),
      CT_TEST(weights_of_classes_are_global),     CT_TEST(a_rank_that_differs_is_named),
      CT_TEST(a_step_allocates_nothing),          CT_TEST_END};
  return ct_test_mpi_main("recipe", tests, argc, argv);
}
