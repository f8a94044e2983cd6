/* What every backend must do, whatever it is made of: conform_backend NAME [part of a test's name].
 * With --draw N [--seed S] instead: N drawn descriptors; with --draw-one S:I the one that a failure
 * names.
 *
 * Results are compared with those of the reference backend, which is itself held to PyTorch's
 * numbers by tests/unit/t_op.c.  Without a name the reference is tried against itself: that says
 * nothing about its forward numbers, but does about layouts, aliasing and, by central differences,
 * gradients. */
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

/* One without tables is a module. */
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

/* A value goes round two queues, each step after a mark of the other; only the last is waited
 * for. */
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

static void run_all(int (*next)(int, op_case_t *), void (*what)(const op_case_t *))
{
  op_case_t c;
  for (int i = 0; next(i, &c); i++)
    what(&c);
}

static void conv(void)
{
  run_all(case_conv, check_parity);
}
static void linear(void)
{
  run_all(case_linear, check_parity);
}
static void bnorm(void)
{
  run_all(case_bnorm, check_parity);
}
static void sync_bnorm(void)
{
  run_all(case_bnorm, check_sync_bnorm);
}
static void bnorm_options(void)
{
  run_all(case_bnorm, check_bnorm_options);
}
static void relu(void)
{
  run_all(case_relu, check_parity);
}
static void act(void)
{
  run_all(case_act, check_parity);
}
static void concat(void)
{
  run_all(case_concat, check_parity);
}
static void volume(void)
{
  run_all(case_volume, check_parity);
}
static void pool(void)
{
  run_all(case_pool, check_parity);
  run_all(case_wide_pool, check_parity);
  run_all(case_drawn_pool, check_parity);
}
static void add(void)
{
  run_all(case_add, check_parity);
}
static void dropout(void)
{
  run_all(case_dropout, check_parity);
}
static void flatten(void)
{
  run_all(case_flatten, check_parity);
}
static void losses(void)
{
  run_all(case_loss, check_parity);
  run_all(case_places, check_parity);
}
static void lnorm(void)
{
  run_all(case_lnorm, check_parity);
}
static void lstm(void)
{
  run_all(case_lstm, check_parity);
}
static void attention(void)
{
  run_all(case_attention, check_parity);
}
static void tokens(void)
{
  run_all(case_tokens, check_parity);
}
static void choice(void)
{
  run_all(case_select, check_parity);
}
static void upsampling(void)
{
  run_all(case_upsample, check_parity);
}
static void gradients(void)
{
  run_all(case_gradient, check_gradient);
  run_all(case_loss_gradient, check_gradient);
  run_all(case_volume_gradient, check_gradient);
  run_all(case_upsample, check_gradient);
  op_case_t c;
  if (case_places(4, &c)) check_gradient(&c);
}

/* Two halves of a batch at their places give what the whole gives. */
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

/* ---- manners ---- */

static void a_run_allocates_nothing(void)
{
  int (*const kinds[])(int, op_case_t *) = {case_conv,   case_linear,  case_bnorm,   case_relu,
                                            case_pool,   case_dropout, case_flatten, case_add,
                                            case_loss,   case_lnorm,   case_lstm,    case_attention,
                                            case_tokens, case_select,  case_upsample};

  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    trial_t how = {"steady", CT_FWD | CT_BWD_DATA, 0, CT_PLAIN};
    op_case_t c;
    inputs_t in;
    rig_t r;
    kinds[i](1, &c);
    inputs_open(&in, &c.desc, 1, c.data);
    if (CT_ASSERT_OK(rig_open(&r, &tested, &c.desc, &how)) == CT_OK) {
      CT_ASSERT_OK(rig_forward(&r, &in));
      CT_ASSERT_OK(rig_backward(&r, &in));
      int64_t before = ct_mem_calls();
      CT_ASSERT_OK(tested.be->op->run(tested.queue, r.op, &r.args));
      CT_ASSERT_OK(tested.be->queue->sync(tested.queue));
      check(ct_mem_calls() == before, "%s allocates in run()", ct_op_name(c.desc.kind));
    }
    rig_close(&r);
    inputs_close(&in);
  }
}

/* At once, or when the work is waited for. */
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

/* In the words of ct_op_check(), which needs no backend. */
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
  c.desc.x.dtype = c.desc.y.dtype = CT_F64;
  CT_ASSERT_INT(tested.be->op->supports(tested.dev, &c.desc, why), 0);
  CU_ASSERT(strlen(why) > 0);
  CU_ASSERT(tested.be->op->prepare(tested.dev, &c.desc, NULL, &op, &info) != CT_OK);
  CU_ASSERT(op == NULL);
  c.desc.x.dtype = c.desc.y.dtype = CT_F16;
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
  case_bnorm(0, &c);
  check_gradient(&c);
  CT_ASSERT_INT(ct_mem_live(), before);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(device),
      CT_TEST(memory_is_aligned_and_zeroed),
      CT_TEST(memory_is_pinned),
      CT_TEST(copies_and_zeros_are_exact),
      CT_TEST(queues_wait_for_each_other),
      {"reorder", check_reorders},
      CT_TEST(conv),
      CT_TEST(linear),
      CT_TEST(bnorm),
      CT_TEST(sync_bnorm),
      CT_TEST(bnorm_options),
      CT_TEST(relu),
      CT_TEST(pool),
      CT_TEST(act),
      CT_TEST(concat),
      CT_TEST(volume),
      CT_TEST(add),
      CT_TEST(dropout),
      CT_TEST(dropout_follows_the_global_batch),
      CT_TEST(flatten),
      CT_TEST(losses),
      CT_TEST(lnorm),
      CT_TEST(lstm),
      CT_TEST(attention),
      CT_TEST(tokens),
      CT_TEST(choice),
      CT_TEST(upsampling),
      CT_TEST(check_gradstat),
      CT_TEST(check_update),
      CT_TEST(check_repeat),
      CT_TEST(check_repeat_refuses),
      {"bf16", check_bf16},
      {"bytes", check_bytes},
      {"f16", check_f16},
      {"relu_keeps_nan", check_relu_keeps_nan},
      {"drawn", check_drawn},
      CT_TEST(gradients),
      CT_TEST(a_run_allocates_nothing),
      CT_TEST(a_bad_label_is_an_error),
      CT_TEST(what_is_wrong_is_refused),
      CT_TEST(what_cannot_be_done_is_refused),
      CT_TEST(nothing_is_lost),
      CT_TEST_END,
  };
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
