/* The CPU backend computes with subnormal numbers as 0, in all threads of its team, also in those
 * that existed before it was opened.  Results are compared as bits: a comparison of floats would
 * itself take a subnormal number for 0. */
#include <omp.h>
#include <string.h>

#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "base/ct_types.h"
#include "cpu/ct_cpu.h"
#include "cpu/kern/op.h"
#include "tests/harness/ct_test.h"

enum { COUNT = 300007, THREADS = 3, SMALLEST_NORMAL = 0x00800000 };
#define SIGN 0x80000000u

static ct_dev_t *dev;
static ct_queue_t *queue;
static uint32_t a[COUNT], b[COUNT], got[COUNT];

static void open_device(int threads)
{
  ct_dev_opts_t opts = {.threads = threads};
  CT_ASSERT_OK(ct_backend_cpu.open(&opts, &dev));
  CT_ASSERT_OK(ct_backend_cpu.queue->create(dev, &queue));
}

static void close_device(void)
{
  ct_backend_cpu.queue->destroy(queue);
  ct_backend_cpu.close(dev);
}

/* Returns the bits of a subnormal number, 0, or a normal number between 2^-126 and 2^-124. */
static uint32_t draw(uint32_t stream, int64_t i)
{
  return (uint32_t)(ct_rng_u64(7, CT_RNG_TEST, stream, (uint64_t)i) % (3 * SMALLEST_NORMAL)) |
         (i % 2 ? SIGN : 0);
}

static float flushed(uint32_t bits)
{
  float f;
  if ((bits & ~SIGN) < SMALLEST_NORMAL) bits &= SIGN;
  memcpy(&f, &bits, sizeof f);
  return f;
}

/* Computes in double, where none of these numbers is subnormal. */
static uint32_t sum_of(uint32_t x, uint32_t y)
{
  double sum = (double)flushed(x) + (double)flushed(y);
  double size = sum < 0 ? -sum : sum;
  float f = size < 0x1p-126 ? 0 : (float)sum;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static ct_op_t *prepare(const ct_op_desc_t *d)
{
  ct_op_info_t info;
  ct_op_t *op = NULL;
  CT_ASSERT_OK(ct_backend_cpu.op->prepare(dev, d, NULL, &op, &info));
  return op;
}

/* ---- one op ---- */

static void add_once(ct_op_t *op, int threads)
{
  int wrong = 0;
  dev->threads = threads;
  memset(got, 0xff, sizeof got);
  ct_op_args_t args = {.pass = CT_FWD, .x = a, .x2 = b, .y = got};
  CT_ASSERT_OK(ct_backend_cpu.op->run(queue, op, &args));
  for (int i = 0; i < COUNT; i++) {
    uint32_t want = sum_of(a[i], b[i]);
    wrong += got[i] != want && (got[i] | want) != SIGN; /* either zero */
  }
  CT_ASSERT_INT(wrong, 0);
}

static void check_add(int threads)
{
  ct_op_desc_t d;
  ct_shape_t flat = ct_shape(2, 1, (int64_t)COUNT);
  open_device(threads);
  for (int i = 0; i < COUNT; i++) {
    a[i] = draw(0, i);
    b[i] = draw(1, i / 2);
  }
  ct_op_desc_init(&d, CT_OP_ADD, &flat, &flat);
  ct_op_t *op = prepare(&d);
  cpu__isa_t widest = dev->isa;
  for (dev->isa = CPU__PORTABLE; dev->isa < widest; dev->isa++)
    add_once(op, threads);
  for (int n = 1; n <= threads; n++)
    add_once(op, n);
  ct_backend_cpu.op->release(op);
  close_device();
}

/* The first device of this program: it sets up the calling thread, and the next one its team. */
static void one_thread_flushes(void)
{
  check_add(1);
}

static void every_thread_flushes(void)
{
  check_add(THREADS);
}

/* ---- an optimizer without gradients ---- */

/* Runs so many steps with gradient 0.  The threads differ from step to step. */
static void idle_steps(ct_op_t *op, float *w, float *g, float *m, int steps)
{
  ct_op_args_t args = {.pass = CT_FWD, .scale = 1, .count = COUNT, .w = {w}, .dy = g, .state = {m}};
  args.hyper = (ct_hyper_t){.lr = 1, .momentum = 0.5f, .step = 2, .keep = 1};
  for (int i = 0; i < steps; i++) {
    dev->threads = 1 + i % THREADS;
    CT_ASSERT_OK(ct_backend_cpu.op->run(queue, op, &args));
  }
}

/* Momenta decay from 1 to below 2^-126, and do not stay among the subnormal numbers.  A run that
 * continues with copies of weights and momenta gives the same bits as one that was not stopped. */
static void momenta_decay_to_zero(void)
{
  enum { STEPS = 140, STOP = 120 };
  ct_op_desc_t d;
  float *v[5], sum = 0;
  open_device(THREADS);
  for (int k = 0; k < 5; k++)
    v[k] = ct_mem_array(COUNT, sizeof(float), "test");
  for (int i = 0; i < COUNT; i++)
    v[1][i] = v[3][i] = ct_rng_uniform(1, CT_RNG_TEST, 2, (uint64_t)i);
  ct_op_desc_flat(&d, CT_OP_UPDATE, COUNT, CT_RULE_SGD, 2);
  ct_op_t *op = prepare(&d);
  idle_steps(op, v[0], v[4], v[1], STEPS);
  idle_steps(op, v[2], v[4], v[3], STOP);
  memcpy(a, v[3], sizeof a);
  memset(v[3], 0xff, sizeof a);
  memcpy(v[3], a, sizeof a);
  idle_steps(op, v[2], v[4], v[3], STEPS - STOP);
  CT_ASSERT_INT(memcmp(v[0], v[2], sizeof a), 0);
  for (int i = 0; i < COUNT; i++)
    sum += v[0][i];
  CU_ASSERT(sum < -COUNT / 4);
  memset(b, 0, sizeof b);
  CT_ASSERT_INT(memcmp(v[1], b, sizeof b), 0);
  CT_ASSERT_INT(memcmp(v[3], b, sizeof b), 0);
  for (int k = 0; k < 5; k++)
    ct_mem_free(v[k]);
  ct_backend_cpu.op->release(op);
  close_device();
}

/* ---- conversions ---- */

/* Subnormal numbers of a half are normal in float32. */
static void halves_are_not_flushed(void)
{
  int wrong = 0;
  open_device(1);
  for (int h = 1; h < 0x400; h++)
    wrong += (double)ct_half_float((uint16_t)h) != h * 0x1p-24;
  CT_ASSERT_INT(wrong, 0);
  close_device();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(one_thread_flushes), CT_TEST(every_thread_flushes),
                                    CT_TEST(momenta_decay_to_zero), CT_TEST(halves_are_not_flushed),
                                    CT_TEST_END};
  int before = 0;
#pragma omp parallel num_threads(THREADS) reduction(+ : before)
  before += omp_get_num_threads() > 0; /* a team from before the backend */
  return before < 1 ? 1 : ct_test_main("subnormal numbers", tests, argc, argv);
}
