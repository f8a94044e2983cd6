/* Conformance tests that every backend must pass: conform_backend NAME [part of a test's name].
 * With --draw N [--seed S]: N random descriptors instead; with --draw-one S:I: only the one that a
 * failure printed.
 *
 * Results are compared with those of the reference backend, which tests/unit/t_op.c compares with
 * PyTorch's numbers.  Without a name, the reference is compared with itself: that does not test its
 * forward results, but tests layouts, aliasing and, by central differences, gradients. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "ref/ct_ref.h"
#include "tests/conform/check.h"
#include "tests/conform/draw.h"
#include "tests/harness/ct_test.h"
#ifndef CT_CONFORM_REF_ONLY
#  include "comm/ct_module.h"
#  include "cpu/ct_cpu.h"
#endif

side_t tested, reference;

/* A backend without a table here is a module. */
static const struct {
  const char *name;
  const ct_backend_t *backend;
  ct_dev_opts_t opts;
} registry[] = {
    {"ref", &ct_backend_ref, {.threads = 1}},
#ifndef CT_CONFORM_REF_ONLY
    {"cpu", &ct_backend_cpu, {.threads = 2}},
    {"cpu-direct", &ct_backend_cpu, {.threads = 1, .conv_direct = 1}},
    {"cuda", NULL, {.timeout_s = 60}},
#endif
};

static const ct_backend_t *backend_of(size_t i)
{
#ifndef CT_CONFORM_REF_ONLY
  const ct_module_t *module;
  if (!registry[i].backend)
    return ct_module_load(registry[i].name, &module) == CT_OK ? module->backend : NULL;
#endif
  return registry[i].backend;
}

/* ---- device, memory, queue ---- */

static void device(void)
{
  char why[128];

  CT_ASSERT_INT(tested.be->size, sizeof(ct_backend_t));
  CU_ASSERT(tested.be->probe(why) >= 1);
  CU_ASSERT(strlen(tested.be->describe(tested.dev)) > 0);
  printf("# %s: %s\n", tested.be->name, tested.be->describe(tested.dev));
}

static void memory_is_aligned_and_zeroed(void)
{
  static const size_t sizes[] = {1, 63, 64, 4097, 5 << 20};
  const ct_mem_ops_t *mem = tested.be->mem;

  for (size_t i = 0; i < 2 * sizeof sizes / sizeof sizes[0]; i++) {
    ct_mem_kind_t kind = i % 2 ? CT_MEM_STAGING : CT_MEM_DEVICE;
    size_t n = sizes[i / 2];
    unsigned char *back = ct_mem_alloc(n, "test");
    void *p = NULL;
    if (CT_ASSERT_OK(mem->alloc(tested.dev, kind, n, &p))) return;
    CT_ASSERT_INT((uintptr_t)p % 64, 0);
    memset(back, 1, n);
    CT_ASSERT_OK(mem->copy(tested.queue, back, p, n));
    CT_ASSERT_OK(tested.be->queue->sync(tested.queue));
    size_t dirty = 0;
    for (size_t k = 0; k < n; k++)
      dirty += back[k] != 0;
    CT_ASSERT_INT(dirty, 0);
    mem->free(tested.dev, kind, p);
    ct_mem_free(back);
  }
  mem->free(tested.dev, CT_MEM_DEVICE, NULL);
}

static void memory_is_pinned(void)
{
  enum { N = 5000 };
  const ct_mem_ops_t *mem = tested.be->mem;
  float *host = ct_mem_array(N, sizeof *host, "test"), last = 0;
  block_t b;
  block_open(&b, &tested, N * sizeof *host);
  CT_ASSERT_OK(mem->pin(tested.dev, host, N * sizeof *host));
  host[N - 1] = 3;
  CT_ASSERT_OK(mem->copy(tested.queue, b.mem, host, N * sizeof *host));
  CT_ASSERT_OK(mem->copy(tested.queue, &last, (float *)b.mem + N - 1, sizeof last));
  CT_ASSERT_OK(tested.be->queue->sync(tested.queue));
  CT_ASSERT_NEAR(last, 3, 0);
  mem->unpin(tested.dev, host);
  block_close(&b);
  ct_mem_free(host);
}

static void copies_and_zeros_are_exact(void)
{
  unsigned char in[300], out[300], want[300];
  block_t b;

  for (int i = 0; i < 300; i++)
    in[i] = (unsigned char)(i * 7 + 1);
  memcpy(want, in, sizeof in);
  memset(want + 13, 0, 101);
  memcpy(want + 200, in + 1, 99);
  block_open(&b, &tested, sizeof in);
  block_put(&b, in, sizeof in);
  CT_ASSERT_OK(tested.be->mem->zero(tested.queue, (char *)b.mem + 13, 101));
  CT_ASSERT_OK(tested.be->mem->copy(tested.queue, (char *)b.mem + 200, in + 1, 99));
  CT_ASSERT_OK(tested.be->mem->copy(tested.queue, b.mem, in, 0));
  block_take(&b, out, sizeof out);
  CU_ASSERT(memcmp(out, want, sizeof want) == 0);
  CU_ASSERT(block_intact(&b));
  block_close(&b);
}

/* A value is passed between two queues, each step after an event of the other; the host waits only
 * for the last. */
static void queues_wait_for_each_other(void)
{
  enum { ROUNDS = 50, SLOTS = 2 * ROUNDS + 1 };
  const ct_queue_ops_t *ops = tested.be->queue;
  ct_queue_t *other = NULL;
  ct_event_t *ev = NULL;
  block_t b;
  float *slot, last = 0, one = 1;

  if (CT_ASSERT_OK(ops->create(tested.dev, &other))) return;
  block_open(&b, &tested, SLOTS * sizeof(float));
  slot = b.mem;
  CT_ASSERT_OK(tested.be->mem->copy(tested.queue, slot, &one, sizeof one));
  for (int i = 0; i < 2 * ROUNDS; i++) {
    ct_queue_t *from = i % 2 ? other : tested.queue, *to = i % 2 ? tested.queue : other;
    CT_ASSERT_OK(ops->mark(from, &ev));
    CT_ASSERT_OK(ops->after(to, ev));
    CT_ASSERT_OK(tested.be->mem->copy(to, slot + i + 1, slot + i, sizeof *slot));
  }
  CT_ASSERT_OK(tested.be->mem->copy(tested.queue, &last, slot + SLOTS - 1, sizeof last));
  CT_ASSERT_OK(ops->mark(tested.queue, &ev));
  int done = ops->done(ev);
  CU_ASSERT(done == 0 || (done == 1 && last == 1));
  CT_ASSERT_OK(ops->wait(ev));
  CT_ASSERT_NEAR(last, 1, 0);
  CT_ASSERT_INT(ops->done(ev), 1);
  ops->unmark(ev);
  ops->unmark(NULL);
  ops->destroy(other);
  ops->destroy(NULL);
  block_close(&b);
}

/* ---- ops ---- */

static int is_there(next_case_t *const lists[4])
{
  op_case_t c;
  return lists[0] && lists[0](0, &c);
}

/* Fails for a kind that has no cases, or whose parameters rig_data.c does not know. */
static void every_kind_is_tried(void)
{
  for (int k = 0; k < CT_OP_COUNT; k++) {
    const kind_cases_t *t = kind_cases[k];
    const char *name = ct_op_name((ct_op_kind_t)k);
    ct_op_desc_t d;
    int flat = ct_op_is((ct_op_kind_t)k, CT_KIND_FLAT);
    check(flat ? t->check != NULL : is_there(t->cases) || is_there(t->more), "no cases of %s",
          name);
    check(flat || t->straight || is_there(t->small), "no small cases of %s", name);
    sound_op((ct_op_kind_t)k, &d);
    for (int i = 0; i < CT_OP_PARAMS; i++) {
      int64_t n = ct_op_param_count(&d, i);
      check(n == 0 || n == param_count(&d, i), "rig_data.c: parameter %d of %s", i, name);
    }
  }
}

/* Returns 1 for what a backend need not support. */
static int is_optional(const ct_op_desc_t *d)
{
  return kind_cases[d->kind]->may_lack || ct_op_adds_second(d) || d->within || ct_op_is_placed(d);
}

static void run_all(next_case_t *const lists[4], void (*what)(const op_case_t *))
{
  op_case_t c;
  char why[128];
  for (int l = 0; l < 4 && lists[l]; l++)
    for (int i = 0; lists[l](i, &c); i++) {
      if (is_optional(&c.desc) && !tested.be->op->supports(tested.dev, &c.desc, why)) continue;
      what(&c);
    }
}

static void try_kind(ct_op_kind_t kind)
{
  const kind_cases_t *t = kind_cases[kind];
  run_all(t->cases, check_parity);
  run_all(t->more, check_parity);
  if (t->check) t->check();
}

static void try_gradients(ct_op_kind_t kind)
{
  run_all(kind_cases[kind]->small, check_gradient);
}

#define X(name, word, ...)             \
  static void of_##word(void)          \
  {                                    \
    try_kind(CT_OP_##name);            \
  }                                    \
  static void gradient_of_##word(void) \
  {                                    \
    try_gradients(CT_OP_##name);       \
  }
CT_OP_LIST(X)
#undef X

static const ct_test_t of_kinds[] = {
#define X(name, word, ...) {#word, of_##word}, {"gradient_" #word, gradient_of_##word},
    CT_OP_LIST(X)
#undef X
};

static void sync_bnorm(void)
{
  run_all((next_case_t *const[4]){case_bnorm}, check_sync_bnorm);
}
static void bnorm_options(void)
{
  run_all((next_case_t *const[4]){case_bnorm}, check_bnorm_options);
}

/* Two halves of a batch with their offsets must give the same masks as the whole batch. */
static void dropout_follows_the_global_batch(void)
{
  enum { N = 6, SAMPLE = 37 };
  trial_t how = {"dropout", CT_FWD, 0, CT_PLAIN};
  ct_shape_t whole = ct_shape(2, N, SAMPLE), half = ct_shape(2, N / 2, SAMPLE);
  ct_op_desc_t d;
  inputs_t in;
  outputs_t all, part;
  rig_t r;

  ct_op_desc_init(&d, CT_OP_DROPOUT, &whole, &whole);
  d.training = 1;
  d.u.dropout.p = 0.3;
  d.u.dropout.layer = 5;
  inputs_open(&in, &d, 1, DATA_SPREAD);
  outputs_open(&all, &d);
  outputs_open(&part, &d);
  for (int i = 0; i < 3; i++) {
    d.x = d.y = i == 0 ? whole : half;
    inputs_t at = in;
    at.x += i == 2 ? N / 2 * SAMPLE : 0;
    CT_ASSERT_OK(rig_open(&r, &tested, &d, &how));
    r.args.seed = 42;
    r.args.step = 1000;
    r.args.first = i == 2 ? N / 2 : 0;
    CT_ASSERT_OK(rig_forward(&r, &at));
    float *to = i == 0 ? all.y : part.y + (i == 2 ? N / 2 * SAMPLE : 0);
    tensor_take(&r.y, to);
    rig_close(&r);
  }
  CU_ASSERT(memcmp(all.y, part.y, sizeof(float) * N * SAMPLE) == 0);
  inputs_close(&in);
  outputs_close(&all);
  outputs_close(&part);
}

/* ---- error handling ---- */

static void allocates_nothing(const op_case_t *c)
{
  ct_op_kind_t kind = c->desc.kind;
  int forward = kind == CT_OP_RANDOM || kind == CT_OP_POSITION || kind == CT_OP_CACHE;
  int back = kind == CT_OP_OPERAND ? CT_BWD_PARAM : forward ? 0 : CT_BWD_DATA;
  trial_t how = {"steady", CT_FWD | back, 0, CT_PLAIN};
  inputs_t in;
  rig_t r;
  inputs_open(&in, &c->desc, 1, c->data);
  if (CT_ASSERT_OK(rig_open(&r, &tested, &c->desc, &how)) == CT_OK) {
    CT_ASSERT_OK(rig_forward(&r, &in));
    CT_ASSERT_OK(rig_backward(&r, &in));
    int64_t before = ct_mem_calls();
    CT_ASSERT_OK(tested.be->op->run(tested.queue, r.op, &r.args));
    CT_ASSERT_OK(tested.be->queue->sync(tested.queue));
    check(ct_mem_calls() == before, "%s allocates in run()", ct_op_name(c->desc.kind));
  }
  rig_close(&r);
  inputs_close(&in);
}

static void a_run_allocates_nothing(void)
{
  for (int k = 0; k < CT_OP_COUNT; k++) {
    const kind_cases_t *t = kind_cases[k];
    next_case_t *next = t->cases[0] ? t->cases[0] : t->more[0];
    op_case_t c;
    if (next && !t->may_lack && next(1, &c)) allocates_nothing(&c);
  }
}

/* The error may come at once, or when the host waits for the queue. */
static void a_bad_label_is_an_error(void)
{
  static const int32_t bad[] = {-1, 10, 1 << 30};
  trial_t how = {"labels", CT_FWD | CT_BWD_DATA, RIG_JOINT, CT_PLAIN};
  ct_shape_t x = ct_shape(2, 4, 10);
  ct_op_desc_t d;
  inputs_t in;
  rig_t r;

  ct_op_desc_init(&d, CT_OP_LOSS, &x, &x);
  inputs_open(&in, &d, 1, DATA_RANDOM);
  for (int i = 0; i < 3; i++) {
    in.labels[2] = bad[i];
    CT_ASSERT_OK(rig_open(&r, &tested, &d, &how));
    CT_ASSERT_FAILS(rig_forward(&r, &in), CT_ERR_DATA, "label");
    rig_close(&r);
  }
  in.labels[2] = 9;
  CT_ASSERT_OK(rig_open(&r, &tested, &d, &how));
  CT_ASSERT_OK(rig_forward(&r, &in));
  rig_close(&r);
  inputs_close(&in);
}

/* The error text must be that of ct_op_check(), which needs no backend. */
static void what_is_wrong_is_refused(void)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  char why[128], own[128];
  const char *words;

  for (int i = 0; case_bad(i, &d, &words); i++) {
    ct_op_t *op = (ct_op_t *)&d;
    CT_ASSERT_INT(ct_op_check(&d, why), 0);
    CT_ASSERT_INT(tested.be->op->supports(tested.dev, &d, own), 0);
    CT_ASSERT_TEXT(own, why);
    CT_ASSERT_FAILS(tested.be->op->prepare(tested.dev, &d, NULL, &op, &info), CT_ERR_UNSUP, why);
    CU_ASSERT(op == NULL);
  }
}

static void what_cannot_be_done_is_refused(void)
{
  op_case_t c;
  ct_op_t *op = (ct_op_t *)&c;
  ct_op_info_t info;
  char why[128] = "";

  case_conv(0, &c);
  ct_op_desc_type(&c.desc, CT_F64);
  CT_ASSERT_INT(tested.be->op->supports(tested.dev, &c.desc, why), 0);
  CU_ASSERT(strlen(why) > 0);
  CU_ASSERT(tested.be->op->prepare(tested.dev, &c.desc, NULL, &op, &info) != CT_OK);
  CU_ASSERT(op == NULL);
  ct_op_desc_type(&c.desc, CT_F16);
  if (!tested.be->op->supports(tested.dev, &c.desc, why)) CU_ASSERT(strstr(why, "float16") != NULL);
  tested.be->op->release(NULL);
}

static void nothing_is_lost(void)
{
  ct_queue_t *q = NULL;
  int64_t before = ct_mem_live();

  CT_ASSERT_OK(tested.be->queue->create(tested.dev, &q));
  tested.be->queue->destroy(q);
  op_case_t c;
  kind_cases[CT_OP_BNORM]->small[0](0, &c);
  check_gradient(&c);
  CT_ASSERT_INT(ct_mem_live(), before);
}

/* Inserts the tests of kinds between the others; a check shared by several kinds is added once, at
 * the end. */
static void put_together(const ct_test_t *first, const ct_test_t *rest, ct_test_t *out)
{
  while (first->name)
    *out++ = *first++;
  for (int k = 0; k < CT_OP_COUNT; k++) {
    const kind_cases_t *t = kind_cases[k];
    int again = k + 1 < CT_OP_COUNT && t->check && t->check == kind_cases[k + 1]->check;
    if (!again) *out++ = of_kinds[2 * k];
    if (t->small[0]) *out++ = of_kinds[2 * k + 1];
  }
  while (rest->name)
    *out++ = *rest++;
  *out = (ct_test_t)CT_TEST_END;
}

int main(int argc, char **argv)
{
  static const ct_test_t first[] = {
      CT_TEST(every_kind_is_tried),          CT_TEST(device),
      CT_TEST(memory_is_aligned_and_zeroed), CT_TEST(memory_is_pinned),
      CT_TEST(copies_and_zeros_are_exact),   CT_TEST(queues_wait_for_each_other),
      {"check_reorders", check_reorders},    CT_TEST_END,
  };
  static const ct_test_t rest[] = {
      CT_TEST(sync_bnorm),
      CT_TEST(bnorm_options),
      CT_TEST(dropout_follows_the_global_batch),
      CT_TEST(check_repeat),
      CT_TEST(check_repeat_refuses),
      {"bf16", check_bf16},
      {"bytes", check_bytes},
      {"f16", check_f16},
      {"relu_keeps_nan", check_relu_keeps_nan},
      {"drawn", check_drawn},
      CT_TEST(a_run_allocates_nothing),
      CT_TEST(a_bad_label_is_an_error),
      CT_TEST(what_is_wrong_is_refused),
      CT_TEST(what_cannot_be_done_is_refused),
      CT_TEST(nothing_is_lost),
      CT_TEST_END,
  };
  ct_test_t tests[COUNT(first) + COUNT(of_kinds) + COUNT(rest)];
  put_together(first, rest, tests);
  if (!draws_options(&check_drawn_range, &argc, argv)) return 1;
  const char *name = argc > 1 ? argv[1] : "ref";
  const ct_dev_opts_t one = {.threads = 1};
  char suite[64];
  size_t i = 0, n = sizeof registry / sizeof registry[0];

  while (i < n && strcmp(registry[i].name, name) != 0)
    i++;
  if (i == n) {
    printf("Bail out! no backend is called '%s'\n", name);
    return 1;
  }
  const ct_backend_t *be = backend_of(i);
  if (!be || side_open(&reference, &ct_backend_ref, &one) ||
      side_open(&tested, be, &registry[i].opts)) {
    printf("Bail out! %s\n", ct_err_last()->text);
    return 1;
  }
  snprintf(suite, sizeof suite, "backend %s", name);
  char program[64], *only[] = {argv[0], "drawn", NULL};
  snprintf(program, sizeof program, "conform_backend %s", name);
  check_drawn_program = program;
  int failed = check_drawn_range.asked ? ct_test_main(suite, tests, 2, only)
                                       : ct_test_main(suite, tests, argc > 1 ? argc - 1 : argc,
                                                      argc > 1 ? argv + 1 : argv);
  side_close(&tested);
  side_close(&reference);
  return failed;
}
