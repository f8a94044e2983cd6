/* The mode dp: the same numbers as the gradient all-reduce, by way of rank 0; failures on any
 * rank. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "comm/ct_agree.h"
#include "tests/mpi/flaky.h"
#include "tests/mpi/trainer_rig.h"

static const ct_topo_t *topo = &ct_test_topo;
static const ct_step_opts_t dp = {.strategy = &ct_strategy_dp};

/* The largest difference between the arrays of two trainers; all ranks have the same arrays. */
static double largest_difference(rig_t *a, rig_t *b, int buffers)
{
  double largest = 0;
  rig_hash(a);
  rig_hash(b);
  CT_ASSERT_INT(a->items, b->items);
  for (int i = 0; i < a->items; i++) {
    const ct_ckpt_item_t *x = &a->item[i], *y = &b->item[i];
    if (x->shape.dtype != CT_F32 || (!buffers && strstr(x->name, ".running_"))) continue;
    double off = ct_test_off(x->data, y->data, ct_shape_count(&x->shape)).most;
    if (off > largest) largest = off;
  }
  return largest;
}

static void compare(rig_opts_t o, int buffers, double allowed)
{
  rig_t one, other;
  rig_start(&one, &o);
  o.step_opts.strategy = &ct_strategy_dp;
  rig_start(&other, &o);
  int batch[] = {3 * topo->size + 1, 2 * topo->size, 1, 4 * topo->size};
  for (int step = 0; step < 4; step++) {
    double a = rig_step(&one, step, batch[step]), b = rig_step(&other, step, batch[step]);
    CT_ASSERT_NEAR(a, b, allowed);
    CT_ASSERT_OK(ct_trainer_verify(other.t));
  }
  CU_ASSERT(topo->rank > 0 || largest_difference(&one, &other, buffers) < allowed);
  rig_close(&other);
  rig_close(&one);
}

static void the_numbers_are_those_of_ddp(void)
{
  static const char *const orders[] = {"inline", "late", "random:1"};
  for (int i = 0; i < 3; i++)
    compare((rig_opts_t){.model = rig_plain, .order = orders[i], .in_place = i % 2}, 0, 2e-5);
}

static void with_clipping_and_momentum(void)
{
  compare((rig_opts_t){.model = rig_plain, .step_opts = {.clip_norm = 0.3, .clip_p = 2}}, 0, 2e-5);
}

static void with_mixed_precision(void)
{
  compare((rig_opts_t){.model = rig_plain, .step_opts = {.compute = CT_BF16}}, 0, 5e-3);
  compare((rig_opts_t){.model = rig_plain, .step_opts = {.compute = CT_F16}}, 0, 1e-3);
}

/* Each rank normalizes its own samples in both modes; rank 0's running statistics count. */
static void batchnorms(void)
{
  rig_t r;
  compare((rig_opts_t){.model = rig_norm}, 1, 2e-5);
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .step_opts = dp});
  ct_position_t none = {0};
  for (int step = 0; step < 2; step++) {
    rig_step(&r, step, 3 * topo->size);
    CT_ASSERT_OK(ct_trainer_verify(r.t));
  }
  for (int i = 0; i < r.graph->params; i++) {
    if (!r.graph->param[i].spec.buffer) continue;
    float *own = ct_mem_array(r.graph->param[i].count, sizeof *own, "test");
    CT_ASSERT_OK(ct_trainer_get(r.t, i, own));
    CT_ASSERT_OK(ct_agree_same(topo, "a buffer", (uint64_t)(int64_t)(own[0] * 1e6f)));
    ct_mem_free(own);
  }
  rig_snapshot(&r, &none, 1);
  rig_close(&r);
}

static void goes_on(rig_t *r)
{
  flaky_clear();
  CT_ASSERT_OK(ct_trainer_broadcast(r->t, 0));
  CU_ASSERT(isfinite(rig_step(r, 0, 2 * topo->size)));
  CT_ASSERT_OK(ct_trainer_verify(r->t));
}

/* The nth call of the kind fails on the rank.  0: there are not so many. */
static int fail_once(rig_t *r, flaky_call_t call, int bad, int64_t nth)
{
  ct_step_status_t out = {0};
  flaky_clear();
  if (topo->rank == bad) flaky_order(call, FLAKY_ANY, nth);
  rig_load(r, 1, 3 * topo->size);
  int rc = rig_run(r, &out);
  if (rc == CT_OK) return 0;
  CT_ASSERT_INT(rc, CT_ERR_DEVICE);
  CT_ASSERT_INT(ct_err_last()->rank, bad);
  return 1;
}

static void any_call_may_fail(void)
{
  static const flaky_call_t calls[] = {FLAKY_RUN, FLAKY_COPY, FLAKY_SYNC};
  rig_t r;
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .step_opts = dp});
  for (int c = 0; c < 3; c++)
    for (int bad = 0; bad<topo->size; bad += topo->size> 1 ? topo->size - 1 : 1) {
      int64_t nth = 1;
      while (fail_once(&r, calls[c], bad, nth) && nth < 200)
        nth++;
      CU_ASSERT((nth > 1 || (calls[c] == FLAKY_COPY && bad)) && nth < 200);
      goes_on(&r);
    }
  rig_close(&r);
}

static void no_batch(void)
{
  rig_t r;
  ct_step_status_t word = {0};
  ct_step_report_t report = {0};
  rig_start(&r, &(rig_opts_t){.model = rig_plain, .step_opts = dp});
  for (int bad = 0; bad < topo->size; bad++) {
    rig_load(&r, 0, 3 * topo->size);
    int rc = CT_OK;
    const ct_batch_t none = {.global = r.batch.global};
    if (topo->rank == bad) rc = ct_err_set(CT_ERR_DATA, __FILE__, __LINE__, "sample 7 is torn");
    rc = ct_trainer_step(r.t, rc == CT_OK ? &r.batch : &none, rc, &(ct_schedule_point_t){0}, &word,
                         &report);
    CT_ASSERT_FAILS(rc, CT_ERR_DATA, "sample 7 is torn");
    CT_ASSERT_INT(ct_err_last()->rank, bad);
    goes_on(&r);
  }
  rig_close(&r);
}

static void a_step_allocates_nothing(void)
{
  rig_t r;
  rig_start(&r, &(rig_opts_t){.model = rig_norm, .step_opts = dp});
  CT_ASSERT_OK(ct_trainer_prepare(r.t, 7 * topo->size, 4 * topo->size, 1));
  int64_t calls = ct_mem_calls();
  for (int i = 0; i < 3; i++)
    rig_step(&r, i, i % 2 ? 3 * topo->size : 4 * topo->size);
  CT_ASSERT_INT(ct_mem_calls(), calls);
  rig_close(&r);
}

static void memory_may_run_out(void)
{
  int64_t live = ct_mem_live();
  for (int64_t nth = 1; nth < 60; nth += 7) {
    rig_t r;
    rig_open(&r, &(rig_opts_t){.model = rig_plain, .blocking = 1, .step_opts = dp});
    if (topo->rank == topo->size - 1) ct_mem_fail_at(nth);
    int rc = rig_create(&r);
    ct_mem_fail_at(0);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    rig_close(&r);
  }
  CT_ASSERT_INT(ct_mem_live(), live);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(the_numbers_are_those_of_ddp),
                                    CT_TEST(with_clipping_and_momentum),
                                    CT_TEST(with_mixed_precision),
                                    CT_TEST(batchnorms),
                                    CT_TEST(any_call_may_fail),
                                    CT_TEST(no_batch),
                                    CT_TEST(a_step_allocates_nothing),
                                    CT_TEST(memory_may_run_out),
                                    CT_TEST_END};
  return ct_test_mpi_main("trainer_dp", tests, argc, argv);
}
