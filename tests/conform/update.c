/* The optimizer's ops GRADSTAT, MEASURE and UPDATE with every rule, on ranges of odd lengths, most
 * of which start at multiples of 16 floats. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "tests/conform/check.h"
#include "tests/harness/ct_test.h"

enum { W, G, STATE, ARRAYS = STATE + CT_RULE_STATES, STEPS = 3, AHEAD = 48, BEHIND = 5 };
static const int64_t counts[] = {1, 7, 16, 1000, 1001, 20011};

/* Number of elements before a range: slices of ZeRO-1 may start anywhere. */
static int64_t ahead(int64_t count)
{
  return count % 11 == 0 ? AHEAD - 3 : AHEAD;
}

/* Inputs and results of one backend. */
typedef struct arena {
  int64_t count, all; /* count: of the range; all: with the elements before and after it */
  float *v[ARRAYS];
  double norms[2];
  ct_dtype_t reduced_type; /* type of the reduced-precision copy of the weights, where supported;
                          CT_F32: none */
  uint16_t *reduced;
} arena_t;

/* Element i of array k before the first step. */
static float initial(int k, int64_t i)
{
  float x = ct_rng_normal(6, CT_RNG_TEST, (uint32_t)k, (uint64_t)i);
  if (k == STATE) return 0.5f + fabsf(x); /* a mean square is larger than the square of the mean */
  return k == STATE + 1 ? 0.01f + 0.1f * fabsf(x) : x; /* and positive */
}

static void arena_open(arena_t *m, int64_t count, ct_dtype_t reduced_type)
{
  *m =
      (arena_t){.count = count, .all = ahead(count) + count + BEHIND, .reduced_type = reduced_type};
  m->reduced = ct_mem_array(m->all, sizeof *m->reduced, "test");
  for (int k = 0; k < ARRAYS; k++) {
    m->v[k] = ct_mem_array(m->all, sizeof(float), "test");
    for (int64_t i = 0; i < m->all; i++)
      m->v[k][i] = initial(k, i);
  }
}

static void arena_close(arena_t *m)
{
  for (int k = 0; k < ARRAYS; k++)
    ct_mem_free(m->v[k]);
  ct_mem_free(m->reduced);
}

static ct_op_t *prepare(side_t *s, ct_op_kind_t kind, int rule, double p, ct_dtype_t reduced_type)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_t *op = NULL;
  ct_op_desc_flat(&d, kind, 1 << 20, rule, p);
  d.y.dtype = reduced_type;
  CT_ASSERT_OK(s->be->op->prepare(s->dev, &d, NULL, &op, &info));
  return op;
}

static void *staging(side_t *s, size_t bytes)
{
  void *p = NULL;
  CT_ASSERT_OK(s->be->mem->alloc(s->dev, CT_MEM_STAGING, bytes, &p));
  return p;
}

/* ---- rules ---- */

typedef struct trial_rule {
  int rule;
  ct_hyper_t hyper;
  ct_grad_ctl_t ctl; /* a norm is computed from the statistics { 9, 0 } */
} trial_rule_t;

/* Returns 1 if the rule only skips nonfinite gradients: its steps get one. */
static int is_skipped(const trial_rule_t *t)
{
  return t->ctl.skip_nonfinite && t->ctl.clip_norm == 0;
}

/* Makes steps with a rule, each with other gradients. */
static void take_steps(side_t *s, const trial_rule_t *t, arena_t *m)
{
  size_t bytes = (size_t)m->all * sizeof(float);
  block_t b[ARRAYS], norms, reduced;
  ct_op_t *measure = prepare(s, CT_OP_MEASURE, t->rule, 0, CT_F32);
  ct_op_t *update =
      prepare(s, CT_OP_UPDATE, t->rule, 0, s->be->reduced_weights ? m->reduced_type : CT_F32);
  ct_grad_stat_t *stat = staging(s, sizeof *stat);
  ct_op_args_t a = {.pass = CT_FWD, .scale = 0.125f, .count = m->count, .ctl = t->ctl};

  for (int k = 0; k < ARRAYS; k++) {
    block_open(&b[k], s, bytes);
    block_put(&b[k], m->v[k], bytes);
  }
  block_open(&norms, s, sizeof m->norms);
  block_open(&reduced, s, bytes / 2);
  stat->power = 9;
  stat->nonfinite = is_skipped(t);
  if (t->ctl.clip_norm > 0 || is_skipped(t)) a.ctl.stat = stat;
  a.norms = norms.mem;
  a.w[0] = (float *)b[W].mem + ahead(m->count);
  a.y = (uint16_t *)reduced.mem + ahead(m->count);
  a.dy = (float *)b[G].mem + ahead(m->count);
  for (int k = 0; k < CT_RULE_STATES; k++)
    a.state[k] = (float *)b[STATE + k].mem + ahead(m->count);
  for (int step = 1; step <= STEPS; step++) {
    a.hyper = t->hyper;
    a.hyper.step = step;
    if (ct_rule_needs_norms(t->rule)) {
      CT_ASSERT_OK(s->be->op->run(s->queue, measure, &a));
    } else {
      a.norms = NULL;
    }
    CT_ASSERT_OK(s->be->op->run(s->queue, update, &a));
    CT_ASSERT_OK(s->be->queue->sync(s->queue));
    for (int64_t i = 0; i < m->all; i++)
      m->v[G][i] = ct_rng_normal(5, CT_RNG_TEST, (uint32_t)step, (uint64_t)i);
    block_put(&b[G], m->v[G], bytes);
  }
  if (a.norms) block_take(&norms, m->norms, sizeof m->norms);
  for (int k = 0; k < ARRAYS; k++) {
    block_take(&b[k], m->v[k], bytes);
    CU_ASSERT(block_intact(&b[k]));
    block_close(&b[k]);
  }
  block_take(&reduced, m->reduced, reduced.bytes);
  CU_ASSERT(block_intact(&reduced));
  block_close(&reduced);
  block_close(&norms);
  s->be->mem->free(s->dev, CT_MEM_STAGING, stat);
  s->be->op->release(measure);
  s->be->op->release(update);
}

/* Returns 1 if nothing was written outside the range. */
static int is_kept_beside(const arena_t *m, const arena_t *before)
{
  int64_t behind = ahead(m->count) + m->count;
  for (int k = 0; k < ARRAYS; k++) {
    if (k == G) continue;
    if (memcmp(m->v[k], before->v[k], (size_t)ahead(m->count) * sizeof(float)) != 0) return 0;
    if (memcmp(m->v[k] + behind, before->v[k] + behind, BEHIND * sizeof(float)) != 0) return 0;
  }
  return 1;
}

/* Returns 1 if the copy holds the rounded weights of the range (unless the step was skipped), and
 * the initial NaN outside of it. */
static int is_copied(const arena_t *m, int written)
{
  int64_t first = ahead(m->count);
  for (int64_t i = 0; i < m->all; i++) {
    uint16_t want = 0xffff;
    if (written && i >= first && i < first + m->count)
      element_put(&want, m->reduced_type, 0, m->v[W][i]);
    if (m->reduced[i] != want) return 0;
  }
  return 1;
}

static void check_rule(const trial_rule_t *t, int number, int64_t count)
{
  static const ct_dtype_t types[] = {CT_F32, CT_BF16, CT_F16};
  ct_dtype_t type = types[(number + count) % 3];
  static const char *const names[] = {"weights", "gradient", "state 0", "state 1", "state 2"};
  arena_t got, want, before;
  char why[80];
  arena_open(&got, count, type);
  arena_open(&want, count, type);
  arena_open(&before, count, type);
  take_steps(&tested, t, &got);
  take_steps(&reference, t, &want);
  for (int k = 0; k < ARRAYS; k++) {
    check(is_close(got.v[k], want.v[k], got.all, 0, 2e-6, why), "trial %d, %d elements: %s: %s",
          number, (int)count, names[k], why);
  }
  for (int k = 0; k < 2; k++)
    CT_ASSERT_NEAR(got.norms[k], want.norms[k], 1e-6 * want.norms[k]);
  check(is_kept_beside(&got, &before), "trial %d, %d elements: writes beside its range", number,
        (int)count);
  check(is_copied(&got, tested.be->reduced_weights && type != CT_F32 && !is_skipped(t)),
        "trial %d, %d elements: the weights in %s", number, (int)count, ct_dtype_name(type));
  arena_close(&got);
  arena_close(&want);
  arena_close(&before);
}

/* Arguments for Adam and similar rules. */
#define MOMENTS                                                                             \
  .momentum = 0.9f, .beta2 = 0.99f, .take1 = 0.1f, .take2 = 0.01f, .fix1 = 1.5f, .fix2 = 2, \
  .eps = 1e-6f, .keep = 1

static const trial_rule_t trials[] = {
    {CT_RULE_SGD, {.lr = 0.1f}, {0}},
    {CT_RULE_SGD, {.lr = 0.1f, .weight_decay = 0.01f}, {0}},
    {CT_RULE_SGD, {.lr = 0.05f, .momentum = 0.9f}, {.clip_value = 0.1f}},
    {CT_RULE_SGD, {.lr = 0.1f, .momentum = 0.9f, .dampening = 0.5f}, {.clip_norm = 1, .clip_p = 2}},
    {CT_RULE_SGD,
     {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 1e-4f, .nesterov = 1},
     {.clip_norm = 2, .clip_p = 3, .clip_value = 0.05f}},
    {CT_RULE_ADAM, {.lr = 0.1f, MOMENTS}, {0}},
    {CT_RULE_ADAM, {.lr = 0.1f, .weight_decay = 0.1f, MOMENTS}, {.clip_norm = 100, .clip_p = 1}},
    {CT_RULE_RMSPROP, {.lr = 0.1f, MOMENTS}, {0}},
    {CT_RULE_RMSPROP, {.lr = 0.1f, .weight_decay = 0.1f, .take2 = 0.1f, .eps = 0.1f}, {0}},
    {CT_RULE_RMSPROP_CENTERED, {.lr = 0.1f, .beta2 = 0.9f, .take2 = 0.1f, .eps = 0.1f}, {0}},
    {CT_RULE_RMSPROP_CENTERED, {.lr = 0.1f, .weight_decay = 0.1f, MOMENTS}, {0}},
    {CT_RULE_LARS, {.lr = 0.1f, .momentum = 0.9f, .weight_decay = 0.1f, .trust = 0.1f}, {0}},
    {CT_RULE_LARS,
     {.lr = 0.1f, .momentum = 0.9f, .nesterov = 1, .trust = 0.1f},
     {.clip_norm = 1, .clip_p = INFINITY}},
    {CT_RULE_LAMB, {.lr = 0.1f, .weight_decay = 0.1f, MOMENTS}, {.clip_value = 0.1f}},
    {CT_RULE_LAMB, {.lr = 0.1f, MOMENTS}, {.clip_norm = 1, .clip_p = 2, .skip_nonfinite = 1}},
    {CT_RULE_ADAM, {.lr = 0.1f, MOMENTS}, {.skip_nonfinite = 1}},
    {CT_RULE_LAMB, {.lr = 0.1f, .weight_decay = 0.1f, MOMENTS}, {.skip_nonfinite = 1}},
    {CT_RULE_AMSGRAD, {.lr = 0.1f, .weight_decay = 0.1f, MOMENTS}, {0}},
    {CT_RULE_NADAM, {.lr = 0.1f, .lr_gradient = 0.05f, .weight_decay = 0.1f, MOMENTS}, {0}},
    {CT_RULE_RADAM, {.lr = 0.1f, MOMENTS}, {.clip_value = 0.1f}},
    {CT_RULE_RADAM, {.lr = 0.1f, .take1 = 0.1f, .beta2 = 0.99f, .keep = 0.9f}, {0}},
    {CT_RULE_ADAMAX, {.lr = 0.1f, MOMENTS}, {.clip_norm = 1, .clip_p = 2, .skip_nonfinite = 1}},
    {CT_RULE_ADAGRAD, {.lr = 0.1f, .initial = 0.5f, .weight_decay = 0.1f, .eps = 1e-3f}, {0}},
    {CT_RULE_ADADELTA, {.lr = 1, .beta2 = 0.9f, .take2 = 0.1f, .eps = 1e-3f}, {0}},
    {CT_RULE_LION,
     {.lr = 0.1f, .take1 = 0.1f, .take2 = 0.01f, .keep = 0.9f},
     {.skip_nonfinite = 1}},
    {CT_RULE_LION, {.lr = 0.1f, .take1 = 0.1f, .take2 = 0.01f, .keep = 0.9f}, {0}},
    {CT_RULE_MUON, {.lr = 0.1f, MOMENTS}, {0}},
    {CT_RULE_MUON, {.lr = 0.1f, .matrix = 1, .keep = 0.9f, .ratio = 1}, {.skip_nonfinite = 1}},
    {CT_RULE_MUON, {.lr = 0.1f, .matrix = 1, .keep = 0, .ratio = 1}, {0}},
    {CT_RULE_MUON_DIRECTION, {.take1 = 0.1f, .nesterov = 1}, {.clip_norm = 1, .clip_p = 2}},
    {CT_RULE_AVERAGE, {.lr = 0.001f}, {0}},
    {CT_RULE_AVERAGE, {.lr = 0.75f}, {0}},
    {CT_RULE_AVERAGE, {.lr = 1}, {0}},
};
enum { TRIALS = sizeof trials / sizeof trials[0] };

void check_update_of(int which, int64_t count)
{
  check_rule(&trials[which % TRIALS], which % TRIALS, count);
}

void check_update(void)
{
  for (int t = 0; t < TRIALS; t++)
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
      check_update_of(t, counts[c]);
}

/* ---- segments ---- */

/* Lengths of parameters, in the order of the table; each begins at a multiple of 16 floats, except
 * after a length of 33. Every third is left out, as another parameter group's. */
static const int64_t lengths[] = {7,    4096, 33,   4097, 1,    20011, 16, 12288,
                                  1000, 5000, 8191, 3,    4095, 64,    640};
enum { LENGTHS = sizeof lengths / sizeof lengths[0], STATE_FIRST = 32 };

/* Makes the table; *all: elements of the arrays. The states of the segments are packed, as with
 * ZeRO-1. */
static int make_table(ct_segment_t *table, int64_t *all, int64_t *count)
{
  int n = 0, chunks = 17; /* the chunks of segments before these */
  int64_t at = 16, state = STATE_FIRST;
  *count = 0;
  for (int i = 0; i < LENGTHS; i++) {
    int64_t rounded = lengths[i] == 33 ? 33 : (lengths[i] + 15) / 16 * 16;
    if (i % 3 != 2) {
      table[n++] = (ct_segment_t){.first = at,
                                  .state = state,
                                  .count = lengths[i],
                                  .norms = i,
                                  .chunk = chunks,
                                  .weight = at};
      chunks += (int)((lengths[i] + CT_SEGMENT_CHUNK - 1) / CT_SEGMENT_CHUNK);
      state += rounded;
      *count += lengths[i];
    }
    at += rounded;
  }
  *all = at + BEHIND;
  return n;
}

/* Arrays in device memory: a step with all segments in one run, or one by one. */
typedef struct fleet {
  block_t b[ARRAYS], norms, reduced, table;
  float *v[ARRAYS];
  uint16_t *copy;
  double sums[2 * LENGTHS];
  ct_segment_t host[LENGTHS];
  int64_t all, count;
  int n;
} fleet_t;

static void fleet_run(side_t *s, fleet_t *f, ct_op_t *op, const ct_op_args_t *a, int one_by_one)
{
  const ct_segment_t *table = f->table.mem;
  for (int i = 0; i < (one_by_one ? f->n : 1); i++) {
    ct_op_args_t part = *a;
    part.segment = table + i;
    part.segments = one_by_one ? 1 : f->n;
    part.count = one_by_one ? f->host[i].count : f->count;
    CT_ASSERT_OK(s->be->op->run(s->queue, op, &part));
  }
}

static ct_op_t *prepare_segments(side_t *s, ct_op_kind_t kind, int rule, ct_dtype_t reduced)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_t *op = NULL;
  ct_op_desc_flat(&d, kind, 1 << 17, rule, 0);
  d.u.update.segments = LENGTHS;
  if (kind == CT_OP_UPDATE && s->be->reduced_weights) d.y.dtype = reduced;
  CT_ASSERT_OK(s->be->op->prepare(s->dev, &d, NULL, &op, &info));
  return op;
}

static void fleet_open(side_t *s, fleet_t *f)
{
  *f = (fleet_t){0};
  f->n = make_table(f->host, &f->all, &f->count);
  size_t bytes = (size_t)f->all * sizeof(float);
  for (int k = 0; k < ARRAYS; k++) {
    f->v[k] = host_array(f->all, sizeof(float));
    for (int64_t i = 0; i < f->all; i++)
      f->v[k][i] = initial(k, i);
    block_open(&f->b[k], s, bytes);
    block_put(&f->b[k], f->v[k], bytes);
  }
  f->copy = host_array(f->all, sizeof *f->copy);
  block_open(&f->reduced, s, (size_t)f->all * sizeof *f->copy);
  block_put(&f->reduced, f->copy, (size_t)f->all * sizeof *f->copy);
  block_open(&f->norms, s, sizeof f->sums);
  block_put(&f->norms, f->sums, sizeof f->sums);
  block_open(&f->table, s, sizeof f->host);
  block_put(&f->table, f->host, sizeof f->host);
}

static void fleet_take(fleet_t *f)
{
  for (int k = 0; k < ARRAYS; k++) {
    block_take(&f->b[k], f->v[k], (size_t)f->all * sizeof(float));
    CU_ASSERT(block_intact(&f->b[k]));
    block_close(&f->b[k]);
  }
  block_take(&f->reduced, f->copy, (size_t)f->all * sizeof *f->copy);
  block_take(&f->norms, f->sums, sizeof f->sums);
  CU_ASSERT(block_intact(&f->reduced) && block_intact(&f->norms) && block_intact(&f->table));
  block_close(&f->reduced);
  block_close(&f->norms);
  block_close(&f->table);
}

static void fleet_close(fleet_t *f)
{
  for (int k = 0; k < ARRAYS; k++)
    ct_mem_free(f->v[k]);
  ct_mem_free(f->copy);
}

static void fleet_steps(side_t *s, const trial_rule_t *t, int one_by_one, fleet_t *f)
{
  ct_op_t *measure = prepare_segments(s, CT_OP_MEASURE, t->rule, CT_F32);
  ct_op_t *update = prepare_segments(s, CT_OP_UPDATE, t->rule, CT_BF16);
  ct_grad_stat_t *stat = staging(s, sizeof *stat);
  fleet_open(s, f);
  ct_op_args_t a = {.pass = CT_FWD, .scale = 0.125f, .ctl = t->ctl, .norms = f->norms.mem};
  *stat = (ct_grad_stat_t){.power = 9, .nonfinite = is_skipped(t)};
  if (t->ctl.clip_norm > 0 || is_skipped(t)) a.ctl.stat = stat;
  a.w[0] = f->b[W].mem;
  a.y = f->reduced.mem;
  a.dy = f->b[G].mem;
  for (int k = 0; k < CT_RULE_STATES; k++)
    a.state[k] = f->b[STATE + k].mem;
  for (int step = 1; step <= STEPS; step++) {
    a.hyper = t->hyper;
    a.hyper.step = step;
    if (ct_rule_needs_norms(t->rule) || t->rule == CT_RULE_MUON)
      fleet_run(s, f, measure, &a, one_by_one); /* muon: scales to norm 1 */
    fleet_run(s, f, update, &a, one_by_one);
    CT_ASSERT_OK(s->be->queue->sync(s->queue));
  }
  fleet_take(f);
  s->be->mem->free(s->dev, CT_MEM_STAGING, stat);
  s->be->op->release(measure);
  s->be->op->release(update);
}

/* One run for many parameters: the reference's results, and the bits of a run for each. */
static void check_segments(const trial_rule_t *t, int number)
{
  fleet_t got, want, single;
  char why[80];
  fleet_steps(&tested, t, 0, &got);
  fleet_steps(&tested, t, 1, &single);
  fleet_steps(&reference, t, 0, &want);
  for (int k = 0; k < ARRAYS; k++) {
    check(is_close(got.v[k], want.v[k], got.all, 0, 2e-6, why), "trial %d, segments: array %d: %s",
          number, k, why);
    check(memcmp(got.v[k], single.v[k], (size_t)got.all * sizeof(float)) == 0,
          "trial %d, segments: array %d has other bits than one by one", number, k);
  }
  for (int k = 0; k < 2 * LENGTHS; k++)
    CT_ASSERT_NEAR(got.sums[k], want.sums[k], 1e-6 * want.sums[k]);
  CU_ASSERT(memcmp(got.sums, single.sums, sizeof got.sums) == 0);
  CU_ASSERT(memcmp(got.copy, single.copy, (size_t)got.all * sizeof *got.copy) == 0);
  if (tested.be->reduced_weights && !is_skipped(t)) CU_ASSERT(got.copy[got.host[1].first] != 0);
  fleet_close(&got);
  fleet_close(&want);
  fleet_close(&single);
}

static void check_all_updates(void)
{
  check_update();
  for (int t = 0; t < TRIALS; t++)
    check_segments(&trials[t], t);
}

const kind_cases_t cases_update = {.check = check_all_updates};

const kind_cases_t cases_measure = {.check = check_all_updates};

/* ---- gradient statistics ---- */

/* Computes the statistics of two ranges, the second a part of the first. */
static ct_grad_stat_t count_up(side_t *s, double p, const float *g, int64_t count)
{
  block_t b;
  ct_op_t *op = prepare(s, CT_OP_GRADSTAT, 0, p, CT_F32);
  ct_grad_stat_t *stat = staging(s, sizeof *stat), result;
  ct_op_args_t a = {.pass = CT_FWD, .scale = 0.5f, .count = count, .stat = stat};

  *stat = (ct_grad_stat_t){0};
  block_open(&b, s, (size_t)(AHEAD + count) * sizeof *g);
  block_put(&b, g, b.bytes);
  a.dy = (float *)b.mem + AHEAD;
  CT_ASSERT_OK(s->be->op->run(s->queue, op, &a));
  a.dy = (float *)b.mem + AHEAD / 3;
  a.count = count / 2;
  CT_ASSERT_OK(s->be->op->run(s->queue, op, &a));
  CT_ASSERT_OK(s->be->queue->sync(s->queue));
  result = *stat;
  block_close(&b);
  s->be->mem->free(s->dev, CT_MEM_STAGING, stat);
  s->be->op->release(op);
  return result;
}

static void check_count(double p, const float *g, int64_t count)
{
  ct_grad_stat_t got = count_up(&tested, p, g, count);
  ct_grad_stat_t want = count_up(&reference, p, g, count);
  int same = isnan(want.power) ? isnan(got.power)
                               : got.power == want.power ||
                                     fabs(got.power - want.power) <= 1e-12 * fabs(want.power);
  check(same && got.nonfinite == want.nonfinite,
        "p %g, %d elements: %.15g and %d, not %.15g and %d", p, (int)count, got.power,
        (int)got.nonfinite, want.power, (int)want.nonfinite);
}

void check_gradstat_of(int which, int64_t count)
{
  static const double norms[] = {1, 2, 3, 0.5, INFINITY};
  double p = norms[which % 5];
  float *g = host_array(AHEAD + count, sizeof *g);

  for (int64_t i = 0; i < AHEAD + count; i++)
    g[i] = ct_rng_normal(7, CT_RNG_TEST, 0, (uint64_t)i);
  check_count(p, g, count);
  g[AHEAD + count - 1] = -INFINITY;
  check_count(p, g, count);
  g[AHEAD + count / 2] = NAN;
  check_count(p, g, count);
  g[AHEAD + count / 2] = 3e38f; /* its power overflows a float */
  check_count(p, g, count);
  ct_mem_free(g);
}

void check_gradstat(void)
{
  for (size_t n = 0; n < 5 * sizeof counts / sizeof counts[0]; n++)
    check_gradstat_of((int)(n % 5), counts[n / 5]);
}

const kind_cases_t cases_gradstat = {.check = check_gradstat};
