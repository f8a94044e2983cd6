/* The trainer's state: into a checkpoint file and back, at every rank, and what does not fit. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "comm/ct_agree.h"
#include "hdf5io/ct_h5.h"
#include "tests/mpi/flaky.h"
#include "tests/mpi/trainer_rig.h"

static const ct_topo_t *topo = &ct_test_topo;
static const ct_store_ops_t *ops = &ct_store_hdf5;
static const char *const orders[] = {"inline", "late", "random:1"};
enum { ORDERS = sizeof orders / sizeof *orders };

/* ---- helpers ---- */

static void told_by_zero(int rc, int code, const char *word)
{
  CT_ASSERT_FAILS(rc, code, word);
  CT_ASSERT_INT(ct_err_last()->rank, 0);
}

/* A file in a new directory; on rank 0 alone. */
static const char *new_path(void)
{
  static char path[700];
  if (topo->rank == 0) snprintf(path, sizeof path, "%s/state.h5", ct_test_dir());
  return path;
}

/* What rig_snapshot() left, to a file. */
static void save(const rig_t *r, const char *path)
{
  ct_store_t *s = NULL;
  if (topo->rank) return;
  CT_ASSERT_OK(ops->create(path, &s));
  for (int i = 0; i < r->items; i++)
    CT_ASSERT_OK(ops->put(s, r->item[i].name, &r->item[i].shape, r->item[i].data));
  CT_ASSERT_OK(ops->commit(s));
}

static int restore(rig_t *r, const char *path, int with_optim, ct_position_t *at)
{
  ct_store_t *s = NULL;
  if (topo->rank == 0) CT_ASSERT_OK(ops->open(path, &s));
  int rc = ct_trainer_restore(r->t, ops, s, with_optim, at);
  if (s) ops->close(s);
  return rc;
}

static void inject(const char *faults)
{
  if (faults) setenv("CTRAIN_FAULTS", faults, 1);
  if (!faults) unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(topo->rank);
}

static void steps(rig_t *r, int from, int to)
{
  for (int s = from; s < to; s++)
    rig_step(r, s, 4 * topo->size - s % 3);
}

static int has_item(const rig_t *r, const char *name)
{
  for (int i = 0; i < r->items; i++)
    if (strcmp(r->item[i].name, name) == 0) return 1;
  return 0;
}

/* ---- tests ---- */

static void same_best(const ct_best_t *a, const ct_best_t *b)
{
  CT_ASSERT_INT(a->kind, b->kind);
  CT_ASSERT_NEAR(a->value, b->value, 0);
  CT_ASSERT_INT(a->step, b->step);
  CT_ASSERT_INT(a->bad, b->bad);
}

static void it_goes_on_as_if_it_had_not_stopped(void)
{
  static const ct_position_t at = {
      .step = 4,
      .epoch = 2,
      .cursor = 31,
      .skipped = 6,
      .plateau = {.best = 0.75, .factor = 0.125, .bad = 3},
      .best = {.kind = CT_SCORE_TOP1, .value = 0.625, .step = 3, .bad = 1},
      .early = {.kind = CT_SCORE_LOSS, .value = 1.5, .step = 2, .bad = 2}};
  static const ct_step_opts_t step_opts_list[] = {
      {0}, {.zero = 1}, {.compute = CT_F16}, {.ema = 0.75}, {.zero = 1, .ema = 0.25}};
  enum { STEP_OPTS = sizeof step_opts_list / sizeof *step_opts_list };
  for (int k = 0; k < STEP_OPTS * ORDERS; k++) {
    rig_t whole, cut;
    ct_position_t found = {0};
    const char *path = new_path();
    const rig_opts_t opts = {.model = rig_norm,
                             .order = orders[k / STEP_OPTS],
                             .blocking = 1,
                             .step_opts = step_opts_list[k % STEP_OPTS]};
    rig_start(&whole, &opts);
    if (opts.step_opts.compute == CT_F16)
      inject("step.overflow@0:2"); /* and the scale is another one */
    steps(&whole, 0, 4);
    inject(NULL);
    uint64_t all = rig_snapshot(&whole, &at, 1), shared = rig_snapshot(&whole, &at, 0);
    rig_same("the state", shared);
    save(&whole, path);
    steps(&whole, 4, 7);

    rig_start(&cut, &opts);
    steps(&cut, 20, 23); /* something else is in its memory, also another number of good steps */
    CT_ASSERT_OK(restore(&cut, path, 1, &found));
    CT_ASSERT_INT(found.step, at.step);
    CT_ASSERT_INT(found.epoch, at.epoch);
    CT_ASSERT_INT(found.cursor, at.cursor);
    CT_ASSERT_INT(found.skipped, at.skipped);
    CT_ASSERT_NEAR(found.plateau.best, at.plateau.best, 0);
    CT_ASSERT_NEAR(found.plateau.factor, at.plateau.factor, 0);
    CT_ASSERT_INT(found.plateau.bad, at.plateau.bad);
    same_best(&found.best, &at.best);
    same_best(&found.early, &at.early);
    CU_ASSERT(rig_snapshot(&cut, &found, 0) == shared);
    uint64_t restored = rig_snapshot(&cut, &found, 1);
    CU_ASSERT(topo->rank || restored == all);
    rig_same("all of it", restored); /* the running statistics are rank 0's now */
    steps(&cut, 4, 7);
    CU_ASSERT(rig_hash(&cut) == rig_hash(&whole));
    rig_same("the state", rig_hash(&cut));
    rig_close(&whole);
    rig_close(&cut);
  }
}

static void a_failed_step_can_be_undone(void)
{
  rig_t r;
  ct_step_status_t word = {0};
  ct_position_t at = {.step = 2};
  const char *path = new_path();
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .order = "late", .blocking = 1});
  steps(&r, 0, 2);
  rig_snapshot(&r, &at, 1);
  save(&r, path);
  steps(&r, 2, 4);
  uint64_t want = rig_hash(&r);
  if (topo->rank == topo->size - 1) flaky_order(FLAKY_RUN, CT_OP_UPDATE, 2);
  rig_load(&r, 4, 3 * topo->size);
  CT_ASSERT_FAILS(rig_run(&r, &word), CT_ERR_DEVICE, "run of update");
  flaky_clear();
  CT_ASSERT_OK(restore(&r, path, 1, &at));
  steps(&r, 2, 4);
  CU_ASSERT(rig_hash(&r) == want);
  rig_close(&r);
}

static void a_checkpoint_is_a_state_dict(void)
{
  static const char *const names[] = {"/model/conv.weight",
                                      "/model/conv.bias",
                                      "/model/norm.running_mean",
                                      "/model/norm.running_var",
                                      "/model/norm.num_batches_tracked",
                                      "/model/last.bias",
                                      "/optim/momentum_buffer/conv.weight",
                                      "/optim/momentum_buffer/norm2.bias",
                                      "/train/step",
                                      "/train/epoch",
                                      "/train/cursor"};
  rig_t r;
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .blocking = 1});
  steps(&r, 0, 3);
  rig_hash(&r);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!has_item(&r, names[i])) CU_FAIL(names[i]);
  CU_ASSERT(!has_item(&r, "/optim/momentum_buffer/norm.running_mean"));
  for (int i = 0; i < r.items; i++)
    if (strcmp(r.item[i].name, "/model/norm.num_batches_tracked") == 0) {
      CT_ASSERT_INT(*(int64_t *)r.item[i].data, 3);
      CT_ASSERT_INT(r.item[i].shape.ndim, 0);
    }
  rig_close(&r);
}

/* For evaluation, or to start anew from trained weights: where there are averages, from those. */
static void weights_alone_are_those_evaluated(double ema)
{
  rig_t r, eval;
  ct_loss_t want = {0}, sum = {0};
  ct_position_t at = {.step = 3, .epoch = 1, .cursor = 5};
  const char *path = new_path();
  float want_logits[4 * RIG_CLASSES], logits[4 * RIG_CLASSES];
  rig_start(&r,
            &(rig_opts_t){.model = rig_norm, .max_eval = 4, .blocking = 1, .step_opts.ema = ema});
  CT_ASSERT_INT(ct_trainer_use_average(r.t, 1), 0); /* there is none before the first step */
  steps(&r, 0, 3);
  rig_snapshot(&r, &at, 1);
  save(&r, path);
  CT_ASSERT_INT(ct_trainer_use_average(r.t, 1), ema > 0);
  CT_ASSERT_OK(ct_trainer_broadcast(r.t, 1));
  rig_load(&r, 9, 4 * topo->size);
  CT_ASSERT_OK(rig_forward(&r, &want));
  CT_ASSERT_OK(ct_trainer_logits(r.t, want_logits));

  rig_start(
      &eval,
      &(rig_opts_t){.model = rig_norm, .max_eval = 4, .evaluation = 1, .seed = 7, .blocking = 1});
  CT_ASSERT_OK(restore(&eval, path, 0, &at));
  CT_ASSERT_INT(at.step + at.epoch + at.cursor, 0); /* nothing of the run, only of the model */
  rig_load(&eval, 9, 4 * topo->size);
  CT_ASSERT_OK(rig_forward(&eval, &sum));
  CT_ASSERT_OK(ct_trainer_logits(eval.t, logits));
  CU_ASSERT(sum.sum == want.sum && sum.top1 == want.top1);
  CU_ASSERT(memcmp(logits, want_logits, sizeof logits) == 0);
  rig_close(&r);
  rig_close(&eval);
}

static void weights_alone(void)
{
  weights_alone_are_those_evaluated(0);
  weights_alone_are_those_evaluated(0.9);
}

/* Parameters one behind another. */
static int64_t all_parameters(const rig_t *r, float *out)
{
  int64_t n = 0;
  for (int i = 0; i < r->graph->params; i++) {
    CT_ASSERT_OK(ct_trainer_get(r->t, i, out + n));
    n += r->graph->param[i].count;
  }
  return n;
}

/* By the formula, from what each step leaves; looking at the averages changes nothing. */
static void averages_follow_the_steps(void)
{
  static const ct_step_opts_t step_opts_list[] = {
      {.ema = 0.8}, {.ema = 0.3, .zero = 1}, {.ema = 0.8, .micro_batches = 2}};
  enum { MOST = 1 << 16 };
  for (int k = 0; k < 3; k++) {
    rig_t r, other;
    ct_loss_t sum = {0};
    float *want = ct_mem_array(3 * MOST, sizeof *want, "test"), *now = want + MOST;
    float *average = now + MOST;
    const rig_opts_t opts = {.model = rig_norm,
                             .max_eval = 4,
                             .order = orders[k],
                             .blocking = 1,
                             .step_opts = step_opts_list[k]};
    rig_start(&r, &opts);
    rig_start(&other, &opts);
    for (int step = 0; step < 5; step++) {
      steps(&r, step, step + 1);
      steps(&other, step, step + 1);
      double far = 0, kept = step ? step_opts_list[k].ema : 0;
      int64_t n = all_parameters(&r, now);
      CU_ASSERT_FATAL(n < MOST);
      CT_ASSERT_INT(ct_trainer_use_average(r.t, 1), 1);
      all_parameters(&r, average);
      CT_ASSERT_OK(rig_forward(&r, &sum));
      CT_ASSERT_INT(ct_trainer_use_average(r.t, 0), 0);
      for (int64_t i = 0; i < n; i++) {
        want[i] = (float)(kept * want[i] + (1 - kept) * now[i]);
        far = fmax(far, fabs(want[i] - average[i]) / fmax(1, fabs(want[i])));
      }
      CU_ASSERT(far < 1e-6);
    }
    uint64_t shared = rig_hash(&r);
    CU_ASSERT(shared == rig_hash(&other));
    rig_same("the state with averages", shared);
    ct_mem_free(want);
    rig_close(&r);
    rig_close(&other);
  }
}

/* Another model's checkpoint: rank 0 reads it, all are told which array it is. */
static void what_does_not_fit_is_named(void)
{
  static const struct {
    const char *const *from, *const *to;
    int code;
    const char *word;
  } pairs[] = {{&rig_norm, &rig_plain, CT_ERR_FORMAT, "array '/model/conv2d1.weight' not found"},
               {&rig_norm, &rig_wider, CT_ERR_SHAPE, "'/model/wide.weight' is float32 12x108"},
               {&rig_norm, &rig_longer, CT_ERR_FORMAT, "array '/model/more.weight' not found"},
               {&rig_longer, &rig_norm, CT_ERR_FORMAT, "'/model/more.weight', which the model"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    rig_t from, to;
    ct_position_t at = {.step = -5};
    const char *path = new_path();
    rig_start(&from, &(rig_opts_t){.model = *pairs[i].from, .blocking = 1});
    rig_hash(&from);
    save(&from, path);
    rig_start(&to, &(rig_opts_t){.model = *pairs[i].to, .blocking = 1});
    told_by_zero(restore(&to, path, 1, &at), pairs[i].code, pairs[i].word);
    CT_ASSERT_INT(at.step, -5);
    rig_close(&from);
    rig_close(&to);
  }
}

static void without_its_optimizer_it_is_no_checkpoint(void)
{
  rig_t r;
  ct_position_t at;
  const char *path = new_path();
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1});
  rig_hash(&r);
  while (r.items && strncmp(r.item[r.items - 1].name, "/model/", 7) != 0)
    r.items--;
  save(&r, path);
  told_by_zero(restore(&r, path, 1, &at), CT_ERR_FORMAT, "'/optim/momentum_buffer/");
  CT_ASSERT_OK(restore(&r, path, 0, &at));
  rig_close(&r);
}

/* Checkpoints that know nothing of scores or of samples left out: the run goes on, and has no best
 * one yet. */
static void older_ones_have_no_best(void)
{
  static const ct_best_t none = {0};
  rig_t r;
  const ct_position_t at = {.step = 3, .skipped = 2, .best = {CT_SCORE_TOP1, 0.5, 2, 1}};
  ct_position_t found = {0};
  const char *path = new_path();
  int kept = 0;
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1});
  rig_snapshot(&r, &at, 1);
  for (int i = 0; i < r.items; i++)
    if (!strstr(r.item[i].name, "/train/best_") && !strstr(r.item[i].name, "/train/early_") &&
        !strstr(r.item[i].name, "/train/skipped"))
      r.item[kept++] = r.item[i];
  CT_ASSERT_INT(r.items - kept, 9);
  r.items = kept;
  save(&r, path);
  CT_ASSERT_OK(restore(&r, path, 1, &found));
  CT_ASSERT_INT(found.step, 3);
  CT_ASSERT_INT(found.skipped, 0);
  same_best(&found.best, &none);
  same_best(&found.early, &none);
  rig_close(&r);
}

/* Every allocation and every call of the device on the way, on the rank that makes it. */
static void restoring_may_fail(void)
{
  rig_t r;
  ct_position_t at = {.step = 1};
  const char *path = new_path();
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .order = "late", .blocking = 1});
  steps(&r, 0, 1);
  uint64_t want = rig_snapshot(&r, &at, 0);
  save(&r, path);
  for (int bad = 0; bad<topo->size; bad += topo->size> 1 ? topo->size - 1 : 1)
    for (int64_t nth = 1; nth < 100; nth++) {
      ct_store_t *s = NULL;
      if (topo->rank == 0) CT_ASSERT_OK(ops->open(path, &s));
      if (topo->rank == bad) ct_mem_fail_at(nth);
      int rc = ct_trainer_restore(r.t, ops, s, 1, &at);
      ct_mem_fail_at(0);
      if (s) ops->close(s);
      if (rc == CT_OK) break;
      CT_ASSERT_FAILS(rc, CT_ERR_NOMEM, "cannot allocate");
      CT_ASSERT_INT(ct_err_last()->rank, bad);
      CU_ASSERT(nth < 99);
    }
  static const flaky_call_t calls[] = {FLAKY_PACK, FLAKY_COPY, FLAKY_SYNC};
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
    if (topo->rank == 0) flaky_order(calls[c], FLAKY_ANY, 2);
    told_by_zero(restore(&r, path, 1, &at), CT_ERR_DEVICE, "the device broke in ");
    flaky_clear();
  }
  CT_ASSERT_OK(restore(&r, path, 1, &at));
  CU_ASSERT(rig_snapshot(&r, &at, 0) == want);
  rig_close(&r);
}

static void a_snapshot_may_fail(void)
{
  static const flaky_call_t calls[] = {FLAKY_UNPACK, FLAKY_COPY, FLAKY_SYNC};
  rig_t r;
  ct_position_t at = {.step = 2};
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .order = "late", .blocking = 1});
  steps(&r, 0, 2);
  r.items = ct_trainer_items(r.t);
  r.item = ct_mem_array(r.items, sizeof *r.item, "test");
  int64_t nth = 1;
  for (; nth < 200; nth++) {
    ct_mem_fail_at(nth);
    int rc = ct_trainer_snapshot(r.t, &at, r.item);
    ct_mem_fail_at(0);
    if (rc == CT_OK) break;
    CT_ASSERT_FAILS(rc, CT_ERR_NOMEM, "snapshot");
  }
  CU_ASSERT(nth > 2 && nth < 200);
  uint64_t want = rig_snapshot(&r, &at, 1);
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
    flaky_order(calls[c], FLAKY_ANY, 3);
    CT_ASSERT_FAILS(ct_trainer_snapshot(r.t, &at, r.item), CT_ERR_DEVICE, "the device broke in ");
    flaky_clear();
  }
  int64_t made = ct_mem_calls();
  CU_ASSERT(rig_snapshot(&r, &at, 1) == want);
  CT_ASSERT_INT(ct_mem_calls(), made); /* its arrays are made once */
  rig_close(&r);
}

/* The writer reads the snapshot while training goes on. */
static void a_snapshot_stays_as_it_is(void)
{
  rig_t r;
  ct_position_t at = {.step = 1};
  const char *path = new_path();
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .order = "random:4", .blocking = 1});
  steps(&r, 0, 1);
  uint64_t want = rig_snapshot(&r, &at, 1);
  steps(&r, 1, 3);
  save(&r, path);
  CT_ASSERT_OK(restore(&r, path, 1, &at));
  uint64_t found = rig_snapshot(&r, &at, 1);
  CU_ASSERT(topo->rank || found == want);
  rig_close(&r);
}

/* One parameter at a time, in plain layout. */
static void parameters_can_be_read_and_written(void)
{
  rig_t r;
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .order = "late", .blocking = 1});
  for (int i = 0; i < r.graph->params; i++) {
    int64_t n = r.graph->param[i].count, wrong = 0;
    float *in = ct_mem_array(n, sizeof *in, "test"), *out = ct_mem_array(n, sizeof *out, "test");
    ct_graph_init_param(r.graph, i, 1, in);
    CT_ASSERT_OK(ct_trainer_get(r.t, i, out)); /* of rank 0, at the start */
    CU_ASSERT(memcmp(in, out, (size_t)n * sizeof *in) == 0);
    for (int64_t k = 0; k < n; k++)
      in[k] = (float)(k + i);
    CT_ASSERT_OK(ct_trainer_set(r.t, i, in));
    CT_ASSERT_OK(ct_trainer_get(r.t, i, out));
    for (int64_t k = 0; k < n; k++)
      wrong += out[k] != (float)(k + i);
    CT_ASSERT_INT(wrong, 0);
    ct_mem_free(in);
    ct_mem_free(out);
  }
  rig_close(&r);
}

/* Before evaluation the buffers of rank 0 are everybody's, and nothing else. */
static void buffers_are_given_to_all(void)
{
  rig_t r;
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .order = "late"});
  for (int i = 0; i < r.graph->params; i++) {
    int64_t n = r.graph->param[i].count;
    float *w = ct_mem_array(n, sizeof *w, "test");
    for (int64_t k = 0; k < n; k++)
      w[k] = (float)topo->rank;
    CT_ASSERT_OK(ct_trainer_set(r.t, i, w));
    ct_mem_free(w);
  }
  for (int only = 1; only >= 0; only--) {
    CT_ASSERT_OK(ct_trainer_broadcast(r.t, only));
    for (int i = 0; i < r.graph->params; i++) {
      int64_t n = r.graph->param[i].count;
      float *w = ct_mem_array(n, sizeof *w, "test");
      CT_ASSERT_OK(ct_trainer_get(r.t, i, w));
      int whose = only && !r.graph->param[i].spec.buffer ? topo->rank : 0;
      CU_ASSERT(w[0] == (float)whose && w[n - 1] == (float)whose);
      ct_mem_free(w);
    }
  }
  rig_close(&r);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(it_goes_on_as_if_it_had_not_stopped),
                                    CT_TEST(a_failed_step_can_be_undone),
                                    CT_TEST(a_checkpoint_is_a_state_dict),
                                    CT_TEST(weights_alone),
                                    CT_TEST(averages_follow_the_steps),
                                    CT_TEST(what_does_not_fit_is_named),
                                    CT_TEST(without_its_optimizer_it_is_no_checkpoint),
                                    CT_TEST(older_ones_have_no_best),
                                    CT_TEST(restoring_may_fail),
                                    CT_TEST(a_snapshot_may_fail),
                                    CT_TEST(a_snapshot_stays_as_it_is),
                                    CT_TEST(parameters_can_be_read_and_written),
                                    CT_TEST(buffers_are_given_to_all),
                                    CT_TEST_END};
  return ct_test_mpi_main("trainer_state", tests, argc, argv);
}
