/* The queues of the reference backend in their treacherous modes (CTRAIN_REF_ORDER), and what the
 * reference refuses. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "ref/ct_ref.h"
#include "tests/harness/ct_test.h"

static const ct_mem_ops_t *mem;
static const ct_queue_ops_t *que;

enum { QUEUES = 3 };

typedef struct bench {
  ct_dev_t *dev;
  ct_queue_t *q[QUEUES];
} bench_t;

static void bench_open(bench_t *b, const char *order)
{
  const ct_dev_opts_t opts = {.threads = 1};

  mem = ct_backend_ref.mem;
  que = ct_backend_ref.queue;
  if (order) {
    setenv("CTRAIN_REF_ORDER", order, 1);
  } else {
    unsetenv("CTRAIN_REF_ORDER");
  }
  CT_ASSERT_OK(ct_backend_ref.open(&opts, &b->dev));
  for (int i = 0; i < QUEUES; i++)
    CT_ASSERT_OK(que->create(b->dev, &b->q[i]));
  unsetenv("CTRAIN_REF_ORDER");
}

static void bench_close(bench_t *b)
{
  for (int i = 0; i < QUEUES; i++)
    que->destroy(b->q[i]);
  ct_backend_ref.close(b->dev);
}

static void put(ct_queue_t *q, int *dst, const int *src)
{
  CT_ASSERT_OK(mem->copy(q, dst, src, sizeof *dst));
}

static void inline_work_is_done_at_once(void)
{
  bench_t b;
  int one = 1, x = 0;

  bench_open(&b, NULL);
  put(b.q[0], &x, &one);
  CT_ASSERT_INT(x, 1);
  CT_ASSERT_OK(mem->zero(b.q[0], &x, sizeof x));
  CT_ASSERT_INT(x, 0);
  bench_close(&b);
}

static void late_work_is_done_when_waited_for(void)
{
  bench_t b;
  int one = 1, x = 0, y = 0, z = 0;
  ct_event_t *ev = NULL;

  bench_open(&b, "late");
  CT_ASSERT_HAS(ct_backend_ref.describe(b.dev), "late");
  put(b.q[0], &x, &one);
  CT_ASSERT_OK(que->mark(b.q[0], &ev));
  put(b.q[0], &y, &one);
  put(b.q[1], &z, &one);
  CT_ASSERT_INT(x + y + z, 0); /* who forgets to wait reads old numbers */
  CT_ASSERT_OK(que->wait(ev));
  CT_ASSERT_INT(x, 1);
  CT_ASSERT_INT(y + z, 0); /* nor is more done than was waited for */
  CT_ASSERT_OK(que->sync(b.q[0]));
  CT_ASSERT_INT(y, 1);
  CT_ASSERT_INT(z, 0);
  que->destroy(b.q[1]);
  b.q[1] = NULL;
  CT_ASSERT_INT(z, 1);
  que->unmark(ev);
  bench_close(&b);
}

/* A source that is overwritten too early reaches the other side changed. */
static void late_work_reads_late(void)
{
  bench_t b;
  int source = 1, x = 0;

  bench_open(&b, "late");
  put(b.q[0], &x, &source);
  source = 2;
  CT_ASSERT_OK(que->sync(b.q[0]));
  CT_ASSERT_INT(x, 2);
  bench_close(&b);
}

/* q0 writes x; q1 copies it after a mark, or forgets to ask for the order. */
static int copied_by_another_queue(const char *order, int with_after)
{
  bench_t b;
  int one = 1, x = 0, y = 0;
  ct_event_t *ev = NULL;

  bench_open(&b, order);
  put(b.q[0], &x, &one);
  CT_ASSERT_OK(que->mark(b.q[0], &ev));
  if (with_after) CT_ASSERT_OK(que->after(b.q[1], ev));
  put(b.q[1], &y, &x);
  CT_ASSERT_OK(que->sync(b.q[1]));
  que->unmark(ev);
  bench_close(&b);
  return y;
}

static void a_forgotten_after_is_seen(void)
{
  int seen = 0;

  CT_ASSERT_INT(copied_by_another_queue(NULL, 0), 1);
  CT_ASSERT_INT(copied_by_another_queue("late", 1), 1);
  CT_ASSERT_INT(copied_by_another_queue("late", 0), 0);
  for (int seed = 0; seed < 20; seed++) {
    char order[32];
    snprintf(order, sizeof order, "random:%d", seed);
    CT_ASSERT_INT(copied_by_another_queue(order, 1), 1);
    seen += copied_by_another_queue(order, 0) == 0;
  }
  CU_ASSERT(seen > 0 && seen < 20);
}

/* Every queue puts its number in front of a shared list, several times; returns the list as a
 * number. */
static int64_t interleaving(const char *order)
{
  enum { EACH = 5, ALL = QUEUES * EACH };
  const int number[QUEUES] = {1, 2, 3};
  bench_t b;
  int list[ALL] = {0};
  int64_t key = 0;

  bench_open(&b, order);
  for (int i = 0; i < ALL; i++) {
    ct_queue_t *q = b.q[i % QUEUES];
    CT_ASSERT_OK(mem->copy(q, list + 1, list, sizeof list - sizeof *list)); /* all move up */
    put(q, list, &number[i % QUEUES]);
  }
  for (int i = 0; i < QUEUES; i++)
    CT_ASSERT_OK(que->sync(b.q[i]));
  bench_close(&b);
  for (int i = 0; i < ALL; i++)
    key = 4 * key + list[i];
  return key;
}

static void random_order_differs_by_seed_only(void)
{
  int64_t a = interleaving("random:1"), b = interleaving("random:1");
  int different = 0;

  CT_ASSERT_INT(a, b);
  for (int seed = 2; seed < 6; seed++) {
    char order[32];
    snprintf(order, sizeof order, "random:%d", seed);
    different += interleaving(order) != a;
  }
  CU_ASSERT(different > 0);
  CT_ASSERT_INT(interleaving("inline"), interleaving(NULL));
}

/* A ring of queues, each waiting for the one before, gives the same sum in every order. */
static void legal_programs_do_not_depend_on_the_order(void)
{
  static const char *const orders[] = {"inline", "late", "random", "random:1", "random:12"};
  enum { STEPS = 200 };

  for (int o = 0; o < 5; o++) {
    bench_t b;
    ct_event_t *ev[QUEUES] = {NULL};
    int chain[STEPS + 1] = {42};
    bench_open(&b, orders[o]);
    for (int i = 0; i < STEPS; i++) {
      ct_queue_t *q = b.q[i % QUEUES];
      if (i > 0) CT_ASSERT_OK(que->after(q, ev[(i - 1) % QUEUES]));
      put(q, &chain[i + 1], &chain[i]);
      CT_ASSERT_OK(que->mark(q, &ev[i % QUEUES]));
    }
    CT_ASSERT_OK(que->wait(ev[(STEPS - 1) % QUEUES]));
    CT_ASSERT_INT(chain[STEPS], 42);
    for (int i = 0; i < QUEUES; i++)
      que->unmark(ev[i]);
    bench_close(&b);
  }
}

/* An event and waiting work may outlive the queue they are about. */
static void a_mark_outlives_its_queue(void)
{
  static const char *const orders[] = {"inline", "late", "random:3"};

  for (int o = 0; o < 3; o++) {
    bench_t b;
    ct_event_t *ev = NULL;
    int one = 1, x = 0, y = 0;
    int64_t live = ct_mem_live();
    bench_open(&b, orders[o]);
    put(b.q[0], &x, &one);
    CT_ASSERT_OK(que->mark(b.q[0], &ev));
    CT_ASSERT_OK(que->after(b.q[1], ev));
    put(b.q[1], &y, &x);
    que->destroy(b.q[0]);
    b.q[0] = NULL;
    CT_ASSERT_OK(que->wait(ev));
    que->unmark(ev);
    CT_ASSERT_OK(que->sync(b.q[1]));
    CT_ASSERT_INT(y, 1);
    bench_close(&b);
    CT_ASSERT_INT(ct_mem_live(), live);
  }
}

static void enqueuing_allocates_only_for_more_than_ever_before(void)
{
  bench_t b;
  int one = 1, x;

  bench_open(&b, "late");
  for (int round = 0; round < 3; round++) {
    int64_t before = ct_mem_calls();
    for (int i = 0; i < 1000; i++)
      put(b.q[0], &x, &one);
    CT_ASSERT_OK(que->sync(b.q[0]));
    if (round > 0) CT_ASSERT_INT(ct_mem_calls(), before);
  }
  ct_mem_fail_at(1);
  CT_ASSERT_OK(mem->copy(b.q[0], &x, &one, sizeof x));
  CT_ASSERT_FAILS(mem->copy(b.q[1], &x, &one, sizeof x), CT_ERR_NOMEM, "");
  ct_mem_fail_at(0);
  bench_close(&b);
}

/* ---- errors ---- */

static void late_errors_come_with_the_wait(void)
{
  const ct_op_ops_t *ops = ct_backend_ref.op;
  const float x[4] = {0};
  const int32_t labels[2] = {0, 7}, good[2] = {0, 1};
  ct_shape_t s = ct_shape(2, 2, 2);
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_t *op;
  ct_loss_t loss;
  ct_event_t *ev = NULL;
  bench_t b;

  bench_open(&b, "late");
  ct_op_desc_init(&d, CT_OP_LOSS, &s, &s);
  CT_ASSERT_OK(ops->prepare(b.dev, &d, NULL, &op, &info));
  ct_op_args_t a = {.pass = CT_FWD, .x = x, .labels = labels, .loss = &loss};
  CT_ASSERT_OK(ops->run(b.q[0], op, &a));
  CT_ASSERT_OK(que->mark(b.q[0], &ev));
  ct_err_set(CT_ERR_IO, "elsewhere", 1, "another error meanwhile");
  CT_ASSERT_FAILS(que->wait(ev), CT_ERR_DATA, "label 7 of sample 1");
  CT_ASSERT_FAILS(que->sync(b.q[0]), CT_ERR_DATA, "label 7 of sample 1");
  a.labels = good;
  CT_ASSERT_OK(ops->run(b.q[0], op, &a));
  CT_ASSERT_OK(que->sync(b.q[0])); /* told once, then forgotten */
  que->unmark(ev);
  ops->release(op);
  bench_close(&b);
}

static void a_bad_order_is_refused(void)
{
  static const char *const bad[] = {"later", "random:", "random:x", "Late"};
  const ct_dev_opts_t opts = {.threads = 1};
  ct_dev_t *dev;

  for (int i = 0; i < 4; i++) {
    setenv("CTRAIN_REF_ORDER", bad[i], 1);
    CT_ASSERT_FAILS(ct_backend_ref.open(&opts, &dev), CT_ERR_USAGE, bad[i]);
    CU_ASSERT(dev == NULL);
  }
  unsetenv("CTRAIN_REF_ORDER");
}

static void wrong_descriptors_are_refused(void)
{
  ct_shape_t x = ct_shape(4, 2, 4, 5, 5), y = ct_shape(4, 2, 6, 4, 4), flat = ct_shape(2, 2, 99);
  const struct {
    ct_op_kind_t kind;
    const ct_shape_t *y;
    int groups, passes;
    const char *word;
  } cases[] = {
      {CT_OP_CONV, &y, 1, 1, "output's size"}, {CT_OP_CONV, &x, 3, 1, "groups"},
      {CT_OP_BNORM, &y, 0, 1, "shape"},        {CT_OP_RELU, &y, 0, 1, "shape"},
      {CT_OP_POOL, &y, 0, 1, "channels"},      {CT_OP_REORDER, &flat, 0, 1, "number of elements"},
      {CT_OP_LOSS, &x, 0, 1, "N x classes"},   {CT_OP_UPDATE, &x, 0, 2, "backward"},
      {CT_OP_RELU, &x, 0, 64, "pass"},
  };
  bench_t b;

  bench_open(&b, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ct_op_desc_t d;
    ct_op_info_t info;
    ct_op_t *op;
    char why[128];
    ct_op_desc_init(&d, cases[i].kind, &x, cases[i].y);
    d.passes = cases[i].passes;
    if (d.kind == CT_OP_CONV) {
      d.u.conv = (__typeof__(d.u.conv)){
          .kernel = {1, 1}, .stride = {1, 1}, .dilate = {1, 1}, .groups = cases[i].groups};
    }
    if (d.kind == CT_OP_LOSS) d.x = ct_shape(1, 8);
    CT_ASSERT_INT(ct_backend_ref.op->supports(b.dev, &d, why), 0);
    CT_ASSERT_HAS(why, cases[i].word);
    CT_ASSERT_FAILS(ct_backend_ref.op->prepare(b.dev, &d, NULL, &op, &info), CT_ERR_UNSUP,
                    cases[i].word);
  }
  bench_close(&b);
}

static void only_prepared_passes_run(void)
{
  ct_shape_t s = ct_shape(2, 1, 1);
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_t *op;
  ct_op_args_t a = {.pass = CT_BWD_DATA};
  bench_t b;

  bench_open(&b, "late"); /* said at once, even so */
  ct_op_desc_init(&d, CT_OP_RELU, &s, &s);
  CT_ASSERT_OK(ct_backend_ref.op->prepare(b.dev, &d, NULL, &op, &info));
  CT_ASSERT_FAILS(ct_backend_ref.op->run(b.q[0], op, &a), CT_ERR_ARG, "relu 1x1");
  ct_backend_ref.op->release(op);
  bench_close(&b);
}

/* A rank may have no samples in the last step of an epoch. */
static void an_empty_batch_is_fine(void)
{
  ct_shape_t x = ct_shape(4, 0, 2, 3, 3), y = ct_shape(4, 0, 2, 1, 1);
  float w[2] = {1, 1}, bias[2] = {0}, mean[2] = {3, 4}, var[2] = {5, 6};
  float dw[36] = {1}, db[2] = {1};
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_t *op;
  double scratch[9];
  bench_t b;

  bench_open(&b, NULL);
  ct_op_desc_init(&d, CT_OP_BNORM, &x, &x);
  d.training = 1;
  d.u.bnorm.momentum = 0.1;
  CT_ASSERT_OK(ct_backend_ref.op->prepare(b.dev, &d, NULL, &op, &info));
  ct_op_args_t a = {.pass = CT_FWD, .w = {w, bias, mean, var}, .dw = {dw, db}, .scratch = scratch};
  CT_ASSERT_OK(ct_backend_ref.op->run(b.q[0], op, &a));
  CT_ASSERT_NEAR(mean[1] + var[1], 10, 0);
  ct_backend_ref.op->release(op);
  ct_op_desc_init(&d, CT_OP_CONV, &x, &y);
  d.passes = CT_BWD_PARAM;
  d.u.conv = (__typeof__(d.u.conv)){
      .kernel = {3, 3}, .stride = {1, 1}, .dilate = {1, 1}, .groups = 1, .bias = 1};
  CT_ASSERT_OK(ct_backend_ref.op->prepare(b.dev, &d, NULL, &op, &info));
  a.pass = CT_BWD_PARAM;
  CT_ASSERT_OK(ct_backend_ref.op->run(b.q[0], op, &a));
  CT_ASSERT_NEAR(dw[0] + db[0], 0, 0);
  ct_backend_ref.op->release(op);
  bench_close(&b);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(inline_work_is_done_at_once),
      CT_TEST(late_work_is_done_when_waited_for),
      CT_TEST(late_work_reads_late),
      CT_TEST(a_forgotten_after_is_seen),
      CT_TEST(random_order_differs_by_seed_only),
      CT_TEST(legal_programs_do_not_depend_on_the_order),
      CT_TEST(a_mark_outlives_its_queue),
      CT_TEST(enqueuing_allocates_only_for_more_than_ever_before),
      CT_TEST(late_errors_come_with_the_wait),
      CT_TEST(a_bad_order_is_refused),
      CT_TEST(wrong_descriptors_are_refused),
      CT_TEST(only_prepared_passes_run),
      CT_TEST(an_empty_batch_is_fine),
      CT_TEST_END,
  };
  return ct_test_main("ref", tests, argc, argv);
}
