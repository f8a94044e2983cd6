/* The optimizer's kernels of the CPU backend: what the conformance suite cannot see from
 * outside.  Any number of threads gives the same bits, and so does a range in pieces; every
 * instruction set gives the same sums. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "cpu/kern/op.h"
#include "cpu/ct_cpu.h"
#include "tests/harness/ct_test.h"

enum { COUNT = 300007 };
enum { W, G, STATE, ARRAYS = STATE + CT_RULE_STATES };

static ct_dev_t *dev;
static ct_queue_t *queue;
static cpu__isa_t widest;

static ct_op_t *prepare(ct_op_kind_t kind, int rule, double p)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_t *op = NULL;
  ct_op_desc_flat(&d, kind, (int64_t)COUNT, rule, p);
  CT_ASSERT_OK(ct_backend_cpu.op->prepare(dev, &d, NULL, &op, &info));
  return op;
}

static float *numbers(uint32_t stream)
{
  float *v = ct_mem_array(COUNT, sizeof *v, "test");
  for (int64_t i = 0; i < COUNT; i++)
    v[i] = ct_rng_uniform(1, CT_RNG_TEST, stream, (uint64_t)i) - (stream < STATE ? 0.5f : -0.5f);
  return v;
}

/* ---- sums ---- */

static double power_of(const float *g, double p, cpu__isa_t isa, int threads)
{
  ct_grad_stat_t stat = {0};
  ct_op_t *op = prepare(CT_OP_GRADSTAT, 0, p);
  ct_op_args_t a = {.pass = CT_FWD, .scale = 0.3f, .count = COUNT, .stat = &stat, .dy = g};
  dev->isa = isa;
  dev->threads = threads;
  CT_ASSERT_OK(ct_backend_cpu.op->run(queue, op, &a));
  ct_backend_cpu.op->release(op);
  return stat.power;
}

static void powers_are_the_same_everywhere(void)
{
  static const double norms[] = {1, 2, 3, INFINITY};
  float *g = numbers(G);
  for (int n = 0; n < 4; n++) {
    double want = power_of(g, norms[n], CPU__PORTABLE, 1);
    CU_ASSERT(want > 0);
    for (cpu__isa_t isa = CPU__PORTABLE; isa <= widest; isa++)
      for (int threads = 1; threads <= 5; threads += 2)
        CT_ASSERT_NEAR(power_of(g, norms[n], isa, threads), want, 0);
  }
  ct_mem_free(g);
}

/* ---- rules ---- */

typedef struct memory {
  float *v[ARRAYS];
  double norms[2];
} memory_t;

static void open_memory(memory_t *m)
{
  for (int k = W; k < ARRAYS; k++)
    m->v[k] = numbers((uint32_t)k);
}

static void close_memory(memory_t *m)
{
  for (int k = W; k < ARRAYS; k++)
    ct_mem_free(m->v[k]);
}

/* One step of a rule, the update in so many pieces that begin at multiples of 16. */
static void step(int rule, memory_t *m, int threads, int64_t piece)
{
  ct_op_t *measure = prepare(CT_OP_MEASURE, rule, 0), *update = prepare(CT_OP_UPDATE, rule, 0);
  ct_op_args_t a = {.pass = CT_FWD, .scale = 1, .count = COUNT, .norms = m->norms};
  a.hyper = (ct_hyper_t){.lr = 0.1f,
                         .momentum = 0.9f,
                         .weight_decay = 0.01f,
                         .step = 2,
                         .beta2 = 0.99f,
                         .take1 = 0.1f,
                         .take2 = 0.01f,
                         .fix1 = 1.5f,
                         .fix2 = 2,
                         .keep = 0.99f,
                         .eps = 1e-3f,
                         .trust = 0.1f};
  a.ctl.clip_value = 0.4f;
  dev->isa = widest;
  dev->threads = threads;
  for (int64_t first = 0; first < COUNT; first += a.count) {
    a.w[0] = m->v[W] + first;
    a.dy = m->v[G] + first;
    for (int k = 0; k < CT_RULE_STATES; k++)
      a.state[k] = m->v[STATE + k] + first;
    if (first == 0) CT_ASSERT_OK(ct_backend_cpu.op->run(queue, measure, &a));
    a.count = COUNT - first < piece ? COUNT - first : piece;
    CT_ASSERT_OK(ct_backend_cpu.op->run(queue, update, &a));
  }
  ct_backend_cpu.op->release(measure);
  ct_backend_cpu.op->release(update);
}

static int is_same(const memory_t *a, const memory_t *b)
{
  int same = memcmp(a->norms, b->norms, sizeof a->norms) == 0;
  for (int k = W; k < ARRAYS; k++)
    same &= memcmp(a->v[k], b->v[k], COUNT * sizeof(float)) == 0;
  return same;
}

static void rules_do_the_same_everywhere(void)
{
  static const struct {
    int threads;
    int64_t piece;
  } ways[] = {{2, COUNT}, {5, COUNT}, {1, 100000}, {3, 4112}};
  for (int rule = 0; rule < CT_RULE_COUNT; rule++) {
    memory_t want;
    open_memory(&want);
    step(rule, &want, 1, COUNT);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
      memory_t got;
      open_memory(&got);
      step(rule, &got, ways[i].threads, ways[i].piece);
      CU_ASSERT(is_same(&got, &want));
      close_memory(&got);
    }
    close_memory(&want);
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(powers_are_the_same_everywhere),
                                    CT_TEST(rules_do_the_same_everywhere), CT_TEST_END};
  ct_dev_opts_t opts = {.threads = 1};

  if (ct_backend_cpu.open(&opts, &dev) || ct_backend_cpu.queue->create(dev, &queue)) return 1;
  widest = dev->isa;
  int rc = ct_test_main("optimizer kernels", tests, argc, argv);
  ct_backend_cpu.queue->destroy(queue);
  ct_backend_cpu.close(dev);
  return rc;
}
