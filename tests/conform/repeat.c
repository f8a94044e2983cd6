/* Steps that are replayed as a whole (CUDA graphs): work between queue->begin() and start() must
 * give the same bits as the same work enqueued normally, even if parameters change between steps.
 */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_rng.h"
#include "tests/conform/check.h"
#include "tests/harness/ct_test.h"

enum { N = 6, K = 10, COUNT = N * K, AREAS = 2 };

/* A model that consists of its weights [N, K]: with dropout applied, they are the outputs that a
 * loss gets. */
typedef struct little {
  side_t *side;
  ct_op_t *dropout, *loss, *gradstat, *update;
  block_t w, mean, square, labels, saved, scratch;
  struct {
    block_t y, dy, g, copy;
  } area[AREAS]; /* memory that may differ from step to step */
  ct_loss_t *result;
  ct_grad_stat_t *stat;
} little_t;

typedef enum {
  DIRECT, /* without begin() */
  WHOLE,  /* begin(), end(), capture() if the recording changed, start(1) */
  ANEW,   /* begin(), end(), capture() in any case, start(1) */
  AGAIN,  /* begin(), start(1): replays the last recording */
  PIECES, /* begin(), end(), start(0) */
  LOOSE   /* begin(), start(0) */
} way_t;

static const struct step {
  way_t way;
  int key, area, numbers;
} steps[] = {{WHOLE, 0, 0, 1},                    /* first recording */
             {WHOLE, 0, 0, 2},                    /* other op arguments */
             {WHOLE, 1, 1, 3},                    /* another key */
             {WHOLE, 0, 0, 4},  {WHOLE, 1, 1, 5}, /* alternating keys */
             {PIECES, 0, 0, 6}, {LOOSE, 0, 0, 7},   {WHOLE, 0, 0, 8},
             {WHOLE, 0, 1, 9}, /* other memory for a known key */
             {AGAIN, 0, 1, 9},  {DIRECT, 0, 0, 10}, {WHOLE, 0, 1, 11},
             {LOOSE, 2, 0, 12}, {WHOLE, 2, 0, 13},  {ANEW, 2, 0, 14},
             {WHOLE, 2, 0, 15}, {ANEW, 2, 1, 16}};
enum { STEPS = sizeof steps / sizeof steps[0], SKIPPED = 4 /* infinite loss scale */ };

/* The state after each step. */
typedef struct trace {
  float w[STEPS][COUNT], copy[STEPS][COUNT];
  double loss[STEPS], power[STEPS];
} trace_t;

/* ---- making ---- */

static ct_op_info_t prepare(side_t *s, const ct_op_desc_t *d, ct_op_t **op)
{
  ct_op_info_t info = {0};
  must(s->be->op->prepare(s->dev, d, NULL, op, &info));
  return info;
}

static void make_ops(little_t *m)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_shape_t x = ct_shape(2, N, K);

  ct_op_desc_init(&d, CT_OP_DROPOUT, &x, &x);
  d.passes = CT_FWD | CT_BWD_DATA;
  d.training = 1;
  d.u.dropout.p = 0.3;
  prepare(m->side, &d, &m->dropout);
  ct_op_desc_init(&d, CT_OP_LOSS, &x, &x);
  d.passes = CT_FWD | CT_BWD_DATA;
  info = prepare(m->side, &d, &m->loss);
  block_open(&m->saved, m->side, info.saved);
  block_open(&m->scratch, m->side, info.scratch);
  ct_op_desc_flat(&d, CT_OP_GRADSTAT, COUNT, 0, 2);
  prepare(m->side, &d, &m->gradstat);
  ct_op_desc_flat(&d, CT_OP_UPDATE, COUNT, CT_RULE_ADAM, 0);
  prepare(m->side, &d, &m->update);
}

static void *staging(side_t *s, size_t bytes)
{
  void *p;
  must(s->be->mem->alloc(s->dev, CT_MEM_STAGING, bytes, &p));
  return p;
}

static void little_open(little_t *m, side_t *s)
{
  float w[COUNT], zero[COUNT] = {0};
  int32_t labels[N];

  *m = (little_t){.side = s};
  make_ops(m);
  for (int i = 0; i < COUNT; i++)
    w[i] = ct_rng_normal(3, CT_RNG_TEST, 0, (uint64_t)i);
  for (int i = 0; i < N; i++)
    labels[i] = i % K;
  block_open(&m->w, s, sizeof w);
  block_open(&m->mean, s, sizeof w);
  block_open(&m->square, s, sizeof w);
  block_open(&m->labels, s, sizeof labels);
  block_put(&m->w, w, sizeof w);
  block_put(&m->mean, zero, sizeof zero);
  block_put(&m->square, zero, sizeof zero);
  block_put(&m->labels, labels, sizeof labels);
  for (int i = 0; i < AREAS; i++) {
    block_open(&m->area[i].y, s, sizeof w);
    block_open(&m->area[i].dy, s, sizeof w);
    block_open(&m->area[i].g, s, sizeof w);
    block_open(&m->area[i].copy, s, sizeof w);
  }
  m->result = staging(s, sizeof *m->result);
  m->stat = staging(s, sizeof *m->stat);
}

static void little_close(little_t *m)
{
  side_t *s = m->side;
  ct_op_t *ops[] = {m->dropout, m->loss, m->gradstat, m->update};
  block_t *blocks[] = {&m->w, &m->mean, &m->square, &m->labels, &m->saved, &m->scratch};

  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
    s->be->op->release(ops[i]);
  for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
    block_close(blocks[i]);
  for (int i = 0; i < AREAS; i++) {
    block_close(&m->area[i].y);
    block_close(&m->area[i].dy);
    block_close(&m->area[i].g);
    block_close(&m->area[i].copy);
  }
  s->be->mem->free(s->dev, CT_MEM_STAGING, m->result);
  s->be->mem->free(s->dev, CT_MEM_STAGING, m->stat);
}

/* ---- stepping ---- */

/* The op arguments of a step, different in every step. */
static ct_op_args_t numbers(const little_t *m, int n)
{
  float size = 1 + (float)n;
  return (ct_op_args_t){.pass = CT_FWD,
                        .count = COUNT,
                        .scale = n == SKIPPED ? INFINITY : size,
                        .hyper = {.lr = 0.1f / size,
                                  .step = n,
                                  .momentum = 0.9f,
                                  .beta2 = 0.99f,
                                  .take1 = 0.1f,
                                  .take2 = 0.01f,
                                  .fix2 = 1 + 1 / size,
                                  .keep = 1 - 0.01f / size,
                                  .eps = 1e-6f},
                        .ctl = {m->stat, 0.5 / size, 2, 0.5f / size, 1},
                        .seed = 77,
                        .step = n,
                        .first = 10 * n};
}

static void run(const little_t *m, ct_op_t *op, const ct_op_args_t *a)
{
  CT_ASSERT_OK(m->side->be->op->run(m->side->queue, op, a));
}

static void enqueue(const little_t *m, const struct step *s)
{
  const ct_mem_ops_t *mem = m->side->be->mem;
  const float *dy = m->area[s->area].dy.mem;
  ct_op_args_t a = numbers(m, s->numbers);

  a.x = m->w.mem;
  a.y = m->area[s->area].y.mem;
  run(m, m->dropout, &a);
  a.pass = CT_FWD | CT_BWD_DATA;
  a.x = a.y;
  a.dx = m->area[s->area].dy.mem;
  a.labels = m->labels.mem;
  a.loss = m->result;
  a.saved = m->saved.mem;
  a.scratch = m->scratch.mem;
  run(m, m->loss, &a);
  a.pass = CT_BWD_DATA;
  a.dy = dy;
  a.dx = m->area[s->area].g.mem;
  run(m, m->dropout, &a);
  CT_ASSERT_OK(mem->zero(m->side->queue, (float *)m->area[s->area].g.mem + 3, 5 * sizeof(float)));
  a.pass = CT_FWD;
  a.scale = 1 / a.scale;
  if (s->numbers == SKIPPED) a.scale = 1;
  a.dy = m->area[s->area].g.mem;
  a.stat = m->stat;
  run(m, m->gradstat, &a);
  a.w[0] = m->w.mem;
  a.state[0] = m->mean.mem;
  a.state[1] = m->square.mem;
  run(m, m->update, &a);
  CT_ASSERT_OK(
      mem->copy(m->side->queue, m->area[s->area].copy.mem, m->w.mem, COUNT * sizeof(float)));
}

static void take_step(const little_t *m, const struct step *s, way_t way)
{
  const ct_queue_ops_t *queue = m->side->be->queue;
  ct_queue_t *q = m->side->queue;
  int same = 1;

  *m->stat = (ct_grad_stat_t){0};
  if (way != DIRECT) CT_ASSERT_OK(queue->begin(q, s->key));
  enqueue(m, s);
  int whole = way == WHOLE || way == ANEW;
  if (whole || way == PIECES) CT_ASSERT_OK(queue->end(q, &same));
  if (way == ANEW || (way == WHOLE && !same)) CT_ASSERT_OK(queue->capture(q));
  if (way != DIRECT) CT_ASSERT_OK(queue->start(q, whole || way == AGAIN));
  CT_ASSERT_OK(queue->sync(q));
}

static void take_steps(side_t *s, int direct, trace_t *t)
{
  little_t m;

  little_open(&m, s);
  for (int i = 0; i < STEPS; i++) {
    take_step(&m, &steps[i], direct ? DIRECT : steps[i].way);
    block_take(&m.w, t->w[i], sizeof t->w[i]);
    block_take(&m.area[steps[i].area].copy, t->copy[i], sizeof t->copy[i]);
    t->loss[i] = m.result->sum;
    t->power[i] = m.stat->power;
  }
  little_close(&m);
}

void check_repeat(void)
{
  static trace_t got, want;

  take_steps(&tested, 1, &want);
  take_steps(&tested, 0, &got);
  for (int i = 0; i < STEPS; i++) {
    int skipped = steps[i].numbers == SKIPPED;
    check(memcmp(got.w[i], want.w[i], sizeof got.w[i]) == 0, "step %d: other weights", i);
    check(memcmp(got.copy[i], want.w[i], sizeof got.w[i]) == 0, "step %d: other copies", i);
    CT_ASSERT_NEAR(got.loss[i], want.loss[i], 0);
    if (!skipped) CT_ASSERT_NEAR(got.power[i], want.power[i], 0);
    if (i > 0) /* checks the test itself: a step changes the weights, or is skipped */
      check((memcmp(want.w[i], want.w[i - 1], sizeof want.w[i]) == 0) == skipped, "step %d", i);
  }
}

void check_repeat_refuses(void)
{
  const ct_queue_ops_t *queue = tested.be->queue;
  ct_queue_t *q = tested.queue;

  if (!tested.be->repeats) return;
  CT_ASSERT_FAILS(queue->begin(q, CT_REPEATS), CT_ERR_ARG, "repeated");
  CT_ASSERT_OK(queue->begin(q, 0));
  CT_ASSERT_FAILS(queue->begin(q, 1), CT_ERR_ARG, "repeated");
  CT_ASSERT_FAILS(queue->sync(q), CT_ERR_ARG, "repeated");
  CT_ASSERT_OK(queue->start(q, 0));
  CT_ASSERT_OK(queue->sync(q));
}
