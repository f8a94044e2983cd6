/* The trainer on several ranks: whatever fails on one of them, all learn of it and nobody waits;
 * nothing that is computed depends on the rank count, the buckets or the order in which a device
 * does its work. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "tests/mpi/flaky.h"
#include "tests/mpi/trainer_rig.h"

static const ct_topo_t *topo = &ct_test_topo;
static const char *const orders[] = {"inline", "late", "random:1"};
enum { ORDERS = sizeof orders / sizeof *orders };

/* ---- helpers ---- */

/* ---- failures of a step ---- */

/* The nth call of the kind fails on the rank.  0: there are not so many. */
static int fail_once(rig_t *r, flaky_call_t call, int bad, int64_t nth, const char *word)
{
  ct_step_status_t out = {0};
  flaky_clear();
  if (topo->rank == bad) flaky_order(call, FLAKY_ANY, nth);
  rig_load(r, 1, 3 * topo->size);
  int rc = rig_run(r, &out);
  if (rc == CT_OK) return 0;
  rig_told(rc, CT_ERR_DEVICE, bad, word);
  CT_ASSERT_INT(out.err_rank, bad);
  return 1;
}

static void any_call_of_a_step_may_fail(void)
{
  static const struct {
    flaky_call_t call;
    int64_t least; /* there are at least so many in a step */
    const char *word;
  } calls[] = {{FLAKY_COPY, 2, "in copy"},
               {FLAKY_RUN, 15, "in run of "},
               {FLAKY_MARK, 5, "in mark"},
               {FLAKY_WAIT, 5, "in wait"},
               {FLAKY_SYNC, 1, "in sync"}};
  for (int o = 0; o < ORDERS; o++) {
    rig_t r;
    rig_start(&r, &(rig_opts_t){.model = rig_plain, .order = orders[o]});
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
      int64_t nth = 1;
      while (fail_once(&r, calls[c].call, rig_last_rank(), nth, calls[c].word) && nth < 200)
        nth++;
      CU_ASSERT(nth > calls[c].least && nth < 200);
      fail_once(&r, calls[c].call, 0, 1, calls[c].word);
      rig_goes_on(&r);
    }
    rig_close(&r);
  }
}

static void zeros_may_fail(void)
{
  rig_t r;
  ct_step_status_t word = {0};
  if (topo->size == 1) {
    ct_test_skip("needs a rank without samples");
    return;
  }
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = "late"});
  if (topo->rank == rig_last_rank()) flaky_order(FLAKY_ZERO, FLAKY_ANY, 1);
  rig_load(&r, 0, 1);
  rig_told(rig_run(&r, &word), CT_ERR_DEVICE, rig_last_rank(), "in zero");
  rig_goes_on(&r);
  rig_close(&r);
}

static void the_first_failure_is_the_one_told(void)
{
  static const struct {
    flaky_call_t call;
    int64_t nth;
  } later[] = {{FLAKY_ZERO, 1},
               {FLAKY_MARK, 2},
               {FLAKY_WAIT, 1},
               {FLAKY_SYNC, 1}}; /* mark 1: of the batch */
  for (int o = 0; o < ORDERS; o++) {
    rig_t r;
    ct_step_status_t word = {0};
    rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = orders[o]});
    if (topo->rank == rig_last_rank()) {
      flaky_order(FLAKY_RUN, CT_OP_LOSS, 1);
      for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        flaky_order(later[i].call, FLAKY_ANY, later[i].nth);
    }
    rig_load(&r, 0, 2 * topo->size);
    rig_told(rig_run(&r, &word), CT_ERR_DEVICE, rig_last_rank(), "in run of loss");
    rig_goes_on(&r);
    rig_close(&r);
  }
}

/* A device may notice only when it does the work. */
static void work_may_fail_late(void)
{
  for (int o = 0; o < ORDERS; o++) {
    rig_t r;
    ct_step_status_t word = {0};
    ct_loss_t sum = {0};
    rig_start(&r,
              &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = orders[o], .max_eval = 4});
    rig_load(&r, 0, 2 * topo->size);
    if (topo->rank == rig_last_rank()) r.batch.labels[1] = 99;
    rig_told(rig_run(&r, &word), CT_ERR_DATA, rig_last_rank(), "label 99 of sample 1");
    CT_ASSERT_INT(word.samples, 2 * rig_last_rank()); /* of those that did not fail */
    int rc = rig_forward(&r, &sum);
    CT_ASSERT_INT(rc, topo->rank == rig_last_rank() ? CT_ERR_DATA : CT_OK);
    CT_ASSERT_INT(sum.samples, topo->rank == rig_last_rank() ? 0 : 2);
    rig_goes_on(&r);
    rig_close(&r);
  }
}

static void no_batch_on_one_rank(void)
{
  rig_t r;
  ct_step_status_t word = {0};
  ct_step_report_t times = {0};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = "late"});
  rig_load(&r, 0, 3 * topo->size);
  int bad = topo->rank == rig_last_rank(), rc = CT_OK;
  const ct_batch_t none = {.global = r.batch.global};
  if (bad) rc = ct_err_set(CT_ERR_DATA, __FILE__, __LINE__, "shard.h5: sample 7 is torn");
  rc = ct_trainer_step(r.t, bad ? &none : &r.batch, rc, &(ct_schedule_point_t){0}, &word, &times);
  rig_told(rc, CT_ERR_DATA, rig_last_rank(), "shard.h5: sample 7");
  rig_goes_on(&r);
  rig_close(&r);
}

static void a_loss_that_is_no_number(void)
{
  for (int o = 0; o < ORDERS; o++) {
    rig_t r;
    char range[64];
    ct_step_status_t word = {0};
    rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .order = orders[o]});
    for (int bad = 0; bad < topo->size; bad++) {
      rig_load(&r, 0, 2 * topo->size);
      r.batch.epoch = 3;
      r.batch.cursor = 100;
      if (topo->rank == bad) r.batch.x[5] = NAN;
      CT_ASSERT_OK(ct_trainer_broadcast(r.t, 0));
      rig_told(rig_run(&r, &word), CT_ERR_NONFINITE, bad, "(epoch 4, ");
      snprintf(range, sizeof range, "samples %d to %d of it", 100 + 2 * bad, 101 + 2 * bad);
      CT_ASSERT_HAS(ct_err_last()->text, range);
      for (int i = 0; i < r.graph->params; i++) { /* the step has spoilt the weights */
        float *w = ct_mem_array(r.graph->param[i].count, sizeof *w, "test");
        ct_graph_init_param(r.graph, i, 1, w);
        CT_ASSERT_OK(ct_trainer_set(r.t, i, w));
        ct_mem_free(w);
      }
    }
    rig_close(&r);
  }
}

/* Infinite from the first sample on, with no NaN anywhere. */
static void an_infinite_loss(void)
{
  rig_t r;
  ct_step_status_t word = {0};
  const ct_loss_spec_t mse = {.kind = CT_LOSS_MSE, .one_hot = 1};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .loss = mse});
  float bias[RIG_CLASSES] = {INFINITY};
  CT_ASSERT_OK(ct_trainer_set(r.t, r.graph->params - 1, bias));
  rig_load(&r, 0, 2 * topo->size);
  rig_told(rig_run(&r, &word), CT_ERR_NONFINITE, 0, "the loss is inf at step 1");
  rig_close(&r);
}

static void more_samples_than_announced(void)
{
  rig_t r;
  ct_step_status_t word = {0};
  ct_loss_t sum = {0};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .max_batch = 3, .max_eval = 2});
  rig_step(&r, 0, 3 * topo->size);
  rig_load(&r, 1, 3 * topo->size);
  if (topo->rank == rig_last_rank()) r.batch.n = 4;
  int64_t calls = ct_mem_calls();
  rig_told(rig_run(&r, &word), CT_ERR_ARG, rig_last_rank(),
           "4 samples, where at most 3 were announced");
  CT_ASSERT_INT(ct_mem_calls(), calls); /* nothing is planned for it */
  r.batch.n = 4;
  CT_ASSERT_FAILS(ct_trainer_forward(r.t, &r.batch, &sum), CT_ERR_ARG, "at most 3");
  CT_ASSERT_FAILS(ct_trainer_prepare(r.t, 100, 4 * topo->size, 1), CT_ERR_ARG, "at most 3");
  CT_ASSERT_INT(sum.samples, 0);
  rig_goes_on(&r);
  rig_close(&r);
}

/* ---- a new batch size in the middle of a run ---- */

static int new_size(rig_t *r, int n)
{
  ct_step_status_t word = {0};
  rig_load(r, 1, n * topo->size);
  return rig_run(r, &word);
}

static void a_plan_may_fail_in_a_step(void)
{
  for (int o = 0; o < ORDERS; o++) {
    rig_t r;
    int64_t nth = 1;
    int rc, bad = topo->rank == rig_last_rank();
    rig_start(
        &r,
        &(rig_opts_t){
            .model = rig_plain, .blocking = 1, .order = orders[o], .max_batch = 2, .max_eval = 8});
    for (; nth < 1000; nth++) { /* an op of the new plan */
      flaky_clear();
      if (bad) flaky_order(FLAKY_PREPARE, FLAKY_ANY, nth);
      if ((rc = new_size(&r, 4)) == CT_OK) break;
      rig_told(rc, CT_ERR_DEVICE, rig_last_rank(), "in prepare of ");
    }
    flaky_clear();
    CU_ASSERT(nth > 5 && nth < 1000);
    for (nth = 1; nth < 1000; nth++) { /* memory of the host */
      if (bad) ct_mem_fail_at(nth);
      rc = new_size(&r, 3);
      ct_mem_fail_at(0);
      if (rc == CT_OK) break;
      rig_told(rc, CT_ERR_NOMEM, rig_last_rank(), "cannot allocate");
    }
    CU_ASSERT(nth > 10 && nth < 1000);
    rig_goes_on(&r);
    rig_close(&r);
  }
}

/* The larger arena takes the place of the old one: when there is none, nothing of it is used any
 * more. */
static void the_arena_may_fail_to_grow(void)
{
  rig_t r;
  ct_loss_t sum = {0};
  float logits[8 * RIG_CLASSES];
  rig_start(&r,
            &(rig_opts_t){
                .model = rig_plain, .blocking = 1, .order = "late", .max_batch = 2, .max_eval = 2});
  CT_ASSERT_FAILS(ct_trainer_logits(r.t, logits), CT_ERR_ARG, "no forward pass");
  rig_load(&r, 1, 2 * topo->size);
  CT_ASSERT_OK(rig_forward(&r, &sum));
  CT_ASSERT_OK(ct_trainer_logits(r.t, logits));
  if (topo->rank == rig_last_rank()) flaky_order(FLAKY_ALLOC, FLAKY_ANY, 1);
  int rc = new_size(&r, 2); /* training needs more than evaluation, but it came first */
  CT_ASSERT_OK(rc);
  CT_ASSERT_OK(ct_trainer_logits(r.t, logits));
  rig_close(&r);
  flaky_clear();

  rig_start(&r,
            &(rig_opts_t){
                .model = rig_plain, .blocking = 1, .order = "late", .max_batch = 2, .max_eval = 8});
  CU_ASSERT(isfinite(rig_step(&r, 0, 2 * topo->size)));
  CT_ASSERT_OK(ct_trainer_logits(r.t, logits));
  if (topo->rank == rig_last_rank()) flaky_order(FLAKY_ALLOC, FLAKY_ANY, 1);
  rig_told(new_size(&r, 8), CT_ERR_NOMEM, rig_last_rank(), "in alloc");
  if (topo->rank == rig_last_rank())
    CT_ASSERT_FAILS(ct_trainer_logits(r.t, logits), CT_ERR_ARG, "no forward pass");
  CT_ASSERT_OK(new_size(&r, 8));
  CT_ASSERT_OK(ct_trainer_logits(r.t, logits));
  rig_goes_on(&r);
  rig_close(&r);
}

/* ---- creating ---- */

/* Returns a budget with which launches are made again. */
static size_t tight_budget(void)
{
  rig_t r;
  ct_memory_t m;
  const ct_batches_t none[2] = {{0}};
  rig_open(&r, &(rig_opts_t){.model = rig_norm, .max_eval = 2, .blocking = 1});
  r.env.memory = 1;
  CT_ASSERT_OK(ct_trainer_plan_memory(&r.env, none, &m));
  CU_ASSERT(m.budget.least < ct_budget_peak(&m.budget, 1));
  rig_close(&r);
  return m.budget.least;
}

/* The rank's nth allocation fails; 1 if the trainer was made all the same. */
static int made_without(int bad, int64_t nth, size_t budget)
{
  rig_t r;
  int64_t live = ct_mem_live();
  rig_open(&r, &(rig_opts_t){.model = rig_norm, .max_eval = 2, .blocking = 1});
  r.env.memory = budget;
  if (topo->rank == bad) ct_mem_fail_at(nth);
  int rc = rig_create(&r);
  ct_mem_fail_at(0);
  if (rc != CT_OK) {
    rig_told(rc, CT_ERR_NOMEM, bad, "cannot allocate");
    CU_ASSERT_PTR_NULL(r.t);
  }
  rig_close(&r);
  CT_ASSERT_INT(ct_mem_live(), live);
  return rc == CT_OK;
}

static void a_trainer_needs_memory_on_all_ranks(void)
{
  int64_t nth = 1;
  while (!made_without(rig_last_rank(), nth, 0) && nth < 300)
    nth++;
  CU_ASSERT(nth > 50 && nth < 300);
  for (nth--; !made_without(0, nth, 0) && nth < 300;) /* rank 0 draws the weights besides */
    nth++;
  CU_ASSERT(nth > 50 && nth < 300);
}

/* A failed allocation is not taken for a budget that cannot be met. */
static void a_trainer_with_a_budget_needs_memory(void)
{
  int64_t nth = 1;
  size_t budget = tight_budget();
  while (!made_without(rig_last_rank(), nth, budget) && nth < 500)
    nth++;
  CU_ASSERT(nth > 80 && nth < 500);
}

static void a_trainer_needs_a_device_on_all_ranks(void)
{
  static const struct {
    flaky_call_t call;
    int code, everywhere; /* 0: on rank 0 only, which draws the weights */
    const char *word;
  } calls[] = {{FLAKY_CREATE, CT_ERR_DEVICE, 1, "in create"},
               {FLAKY_PREPARE, CT_ERR_DEVICE, 1, "in prepare of "},
               {FLAKY_ALLOC, CT_ERR_NOMEM, 1, "in alloc"},
               {FLAKY_SYNC, CT_ERR_DEVICE, 1, "in sync"},
               {FLAKY_PACK, CT_ERR_DEVICE, 0, "in pack"},
               {FLAKY_COPY, CT_ERR_DEVICE, 0, "in copy"}};
  for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
    int bad = calls[c].everywhere ? rig_last_rank() : 0;
    for (int64_t nth = 1;; nth++) {
      rig_t r;
      int64_t live = ct_mem_live();
      rig_open(&r, &(rig_opts_t){.model = rig_norm, .blocking = 1, .order = orders[nth % ORDERS]});
      if (topo->rank == bad) flaky_order(calls[c].call, FLAKY_ANY, nth);
      int rc = rig_create(&r);
      if (rc != CT_OK) rig_told(rc, calls[c].code, bad, calls[c].word);
      flaky_clear();
      rig_close(&r);
      CT_ASSERT_INT(ct_mem_live(), live);
      if (rc != CT_OK && nth < 100) continue;
      CU_ASSERT(nth > 1 && nth < 100);
      break;
    }
  }
}

/* ---- what is computed ---- */

/* Batches of any size, also such that leave ranks without samples, give what one rank alone gives:
 * losses, with the same masks of dropout, and weights. */
static void the_rank_count_changes_nothing(void)
{
  static const int batches[] = {7, 7, 2, 1, 7, 5, 1, 7};
  for (int o = 0; o < ORDERS; o++) {
    rig_t all, one;
    rig_start(&all, &(rig_opts_t){.model = rig_plain, .order = orders[o], .max_batch = 7});
    rig_start(&one, &(rig_opts_t){.model = rig_plain, .alone = 1, .max_batch = 7, .bucket_mb = 1});
    for (int s = 0; s < 8; s++)
      CT_ASSERT_NEAR(rig_step(&all, s, batches[s]), rig_step(&one, s, batches[s]), 1e-6);
    rig_same("the state", rig_hash(&all));
    for (int i = 0; i < all.graph->params; i++) {
      int64_t n = all.graph->param[i].count;
      float *a = ct_mem_array(n, sizeof *a, "test"), *b = ct_mem_array(n, sizeof *b, "test");
      CT_ASSERT_OK(ct_trainer_get(all.t, i, a));
      CT_ASSERT_OK(ct_trainer_get(one.t, i, b));
      CT_ASSERT_ARRAY(a, b, n, 1e-6);
      ct_mem_free(a);
      ct_mem_free(b);
    }
    rig_close(&all);
    rig_close(&one);
  }
}

/* Evaluation: the sums over the ranks are those of one rank, and the state is as it was. */
static void evaluation_counts_each_sample(void)
{
  rig_t all, one;
  ct_loss_t sum = {0}, want = {0};
  rig_start(&all,
            &(rig_opts_t){
                .model = rig_plain, .blocking = 1, .order = "late", .max_batch = 8, .max_eval = 7});
  rig_start(&one, &(rig_opts_t){.model = rig_plain, .alone = 1, .max_batch = 8, .max_eval = 7});
  rig_step(&all, 0, 8);
  rig_step(&one, 0, 8);
  uint64_t before = rig_hash(&all);
  for (int s = 1; s < 4; s++) {
    rig_load(&all, s, 8 - 2 * s);
    rig_load(&one, s, 8 - 2 * s);
    CT_ASSERT_OK(rig_forward(&all, &sum));
    CT_ASSERT_OK(rig_forward(&one, &want));
  }
  ct_step_status_t w = {
      .loss_sum = sum.sum, .samples = sum.samples, .top1 = sum.top1, .top5 = sum.top5};
  CT_ASSERT_OK(ct_step_agree(topo, &w));
  CT_ASSERT_NEAR(w.loss_sum, want.sum, 1e-4);
  CT_ASSERT_INT(w.samples, 12);
  CT_ASSERT_INT(want.samples, 12);
  CT_ASSERT_INT(w.top1, want.top1);
  CT_ASSERT_INT(w.top5, want.top5);
  CU_ASSERT(rig_hash(&all) == before);
  rig_close(&all);
  rig_close(&one);
}

/* The order of the device's work, the size of the buckets and the place of the batch: the same
 * bits. */
static void how_it_is_done_changes_nothing(void)
{
  static const char *const ways[] = {"inline", "late", "random:1", "random:2"};
  uint64_t want = 0;
  for (int k = 0; k < 4 * 2 * 2; k++) {
    rig_t r;
    rig_start(&r, &(rig_opts_t){.model = rig_norm,
                                .order = ways[k % 4],
                                .bucket_mb = k / 4 % 2 ? 0.002 : 0,
                                .in_place = k / 8,
                                .blocking = k % 4 != 1});
    for (int s = 0; s < 2; s++)
      rig_step(&r, s, 4 * topo->size - s);
    uint64_t hash = rig_hash(&r);
    if (k == 0) want = hash;
    CU_ASSERT(hash == want);
    rig_close(&r);
  }
}

/* The caller may pass a word of the step before. */
static void the_word_is_filled_in(void)
{
  rig_t r;
  ct_step_status_t word;
  ct_step_report_t times = {.data_s = 2 + topo->rank};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1});
  memset(&word, 0x3f, sizeof word);
  word.stop = topo->rank == rig_last_rank() ? 15 : 0;
  rig_load(&r, 0, 1); /* most ranks have nothing to report */
  CT_ASSERT_OK(ct_trainer_step(r.t, &r.batch, CT_OK, &(ct_schedule_point_t){0}, &word, &times));
  CT_ASSERT_INT(word.err, CT_OK);
  CT_ASSERT_INT(word.stop, 15);
  CT_ASSERT_INT(word.samples, 1);
  CU_ASSERT(word.loss_sum > 0 && word.loss_sum < 100);
  CU_ASSERT(word.top1 >= 0 && word.top1 <= word.top5 && word.top5 <= 1);
  CU_ASSERT(word.time_max.s[CT_TIME_DATA] == 2 + rig_last_rank());
  CU_ASSERT(word.work_max >= times.compute_s && word.work_max < 60);
  CU_ASSERT(times.compute_s > 0 && times.comm_exposed_s >= 0);
  rig_close(&r);
}

static void a_step_allocates_nothing(void)
{
  for (int o = 0; o < 2; o++) { /* in random order the queue's length is random */
    rig_t r;
    ct_loss_t sum = {0};
    rig_start(&r, &(rig_opts_t){.model = rig_norm, .order = orders[o], .max_eval = 4});
    CT_ASSERT_OK(ct_trainer_prepare(r.t, 4 * topo->size + 1, 4 * topo->size, 1));
    CT_ASSERT_OK(ct_trainer_prepare(r.t, 3, 3, 0));
    rig_step(&r, 0, 4 * topo->size);
    int64_t calls = ct_mem_calls();
    for (int s = 1; s < 7; s++) {
      rig_step(&r, s, s % 3 ? 4 * topo->size : 1);
      rig_load(&r, s, 3);
      CT_ASSERT_OK(rig_forward(&r, &sum));
    }
    CT_ASSERT_INT(ct_mem_calls(), calls);
    rig_close(&r);
  }
}

/* The second time nothing is known of the first: weights, statistics, states, averages, dropout. */
static void begun_anew_it_does_the_same(void)
{
  for (int o = 0; o < ORDERS; o++) {
    rig_t r;
    uint64_t first[2] = {0, 0};
    rig_opts_t opts = {.model = rig_norm, .order = orders[o], .step_opts = {.ema = 0.9}};
    rig_start(&r, &opts);
    CT_ASSERT_OK(ct_trainer_remember(r.t));
    uint64_t begin = rig_hash(&r);
    for (int turn = 0; turn < 2; turn++) {
      CU_ASSERT(rig_hash(&r) == begin);
      for (int step = 0; step < 3; step++)
        rig_step(&r, step, 3 * topo->size);
      first[turn] = rig_hash(&r);
      if (turn == 0) ct_trainer_use_average(r.t, 1);
      CT_ASSERT_OK(ct_trainer_restart(r.t));
    }
    CU_ASSERT(first[0] != begin);
    CU_ASSERT(first[0] == first[1]);
    rig_close(&r);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(any_call_of_a_step_may_fail),
                                    CT_TEST(zeros_may_fail),
                                    CT_TEST(the_first_failure_is_the_one_told),
                                    CT_TEST(work_may_fail_late),
                                    CT_TEST(no_batch_on_one_rank),
                                    CT_TEST(a_loss_that_is_no_number),
                                    CT_TEST(an_infinite_loss),
                                    CT_TEST(more_samples_than_announced),
                                    CT_TEST(a_plan_may_fail_in_a_step),
                                    CT_TEST(the_arena_may_fail_to_grow),
                                    CT_TEST(a_trainer_needs_memory_on_all_ranks),
                                    CT_TEST(a_trainer_with_a_budget_needs_memory),
                                    CT_TEST(a_trainer_needs_a_device_on_all_ranks),
                                    CT_TEST(the_rank_count_changes_nothing),
                                    CT_TEST(evaluation_counts_each_sample),
                                    CT_TEST(how_it_is_done_changes_nothing),
                                    CT_TEST(the_word_is_filled_in),
                                    CT_TEST(a_step_allocates_nothing),
                                    CT_TEST(begun_anew_it_does_the_same),
                                    CT_TEST_END};
  return ct_test_mpi_main("trainer", tests, argc, argv);
}
