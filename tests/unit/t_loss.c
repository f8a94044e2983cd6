/* The losses of both backends against PyTorch's: sums, what to divide them by, gradients,
 * counts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/ct_cpu.h"
#include "ref/ct_ref.h"
#include "tests/golden/gold.h"
#include "tests/harness/ct_test.h"
#include "tests/unit/loss_gold.h"

static const ct_backend_t *const backends[] = {&ct_backend_ref, &ct_backend_cpu};

typedef struct inputs {
  float x[N * K], mix[N], weight[K], real[N * K], share[N * K];
  int32_t labels[N], labels2[N];
} inputs_t;

/* As in make_loss.py. */
static void inputs_make(inputs_t *in, int ignore)
{
  for (int i = 0; i < N * K; i++) {
    in->x[i] = 8 * gold_noise(1, (uint64_t)i);
    in->real[i] = 4 * gold_noise(4, (uint64_t)i);
    in->share[i] = 0.5f + gold_noise(5, (uint64_t)i);
  }
  for (int i = 0; i < K; i++)
    in->weight[i] = 1.25f + gold_noise(3, (uint64_t)i);
  for (int i = 0; i < N; i++) {
    in->labels[i] = (i * 5 + 2) % K;
    in->labels2[i] = (i * 3 + 1) % K;
    in->mix[i] = i == 3 ? 1 : 0.5f + gold_noise(2, (uint64_t)i);
  }
  if (ignore) in->labels[1] = in->labels[4] = in->labels2[2] = in->labels2[4] = IGNORED;
}

/* One op on outputs of shape s, forward and backward apart. */
static int carry_out(const ct_backend_t *be, const ct_loss_spec_t *spec, const ct_shape_t *s,
                     ct_op_args_t *a)
{
  int rc = CT_OK;
  const ct_dev_opts_t opts = {.threads = 1};
  ct_dev_t *dev = NULL;
  ct_queue_t *q = NULL;
  ct_op_t *op = NULL;
  ct_op_desc_t d;
  ct_op_info_t info = {0};

  ct_op_desc_init(&d, CT_OP_LOSS, s, s);
  d.passes = CT_FWD | CT_BWD_DATA;
  d.u.loss = *spec;
  CT_TRY(be->open(&opts, &dev));
  CT_TRY(be->queue->create(dev, &q));
  CT_TRY(be->op->prepare(dev, &d, NULL, &op, &info));
  a->scratch = ct_mem_alloc(info.scratch + 1, "test");
  for (int pass = CT_FWD; pass <= CT_BWD_DATA; pass *= 2) {
    memset(a->scratch, 0xff, info.scratch);
    a->pass = pass;
    CT_TRY(be->op->run(q, op, a));
  }
  CT_TRY(be->queue->sync(q));
out:
  ct_mem_free(a->scratch);
  be->op->release(op);
  be->queue->destroy(q);
  be->close(dev);
  return rc;
}

static void check_case(const ct_backend_t *be, int i, const ct_shape_t *s)
{
  const ct_loss_spec_t *spec = &gold[i].spec;
  inputs_t in;
  ct_loss_t loss;
  float dx[N * K];
  double error = 0, norm = 0;

  inputs_make(&in, spec->has_ignored);
  ct_op_args_t a = {.x = in.x,
                    .dx = dx,
                    .labels = in.labels,
                    .labels2 = gold[i].mixed ? in.labels2 : NULL,
                    .mix = gold[i].mixed ? in.mix : NULL,
                    .targets = spec->kind == CT_LOSS_BCE ? in.share : in.real,
                    .class_weight = in.weight,
                    .loss = &loss,
                    .scale = 0.5f};
  CT_ASSERT_OK(carry_out(be, spec, s, &a));
  CT_ASSERT_NEAR(loss.sum, gold[i].sum, 5e-7 * fabs(gold[i].sum));
  CT_ASSERT_NEAR(loss.weight, gold[i].weight, 1e-6 * gold[i].weight);
  CT_ASSERT_NEAR(loss.abs_error, gold[i].abs_error, 5e-7 * gold[i].abs_error);
  for (int k = 0; k < N * K; k++) {
    error += pow(dx[k] - 0.5 * gold[i].dx[k], 2);
    norm += pow(0.5 * gold[i].dx[k], 2);
  }
  CT_ASSERT_NEAR(sqrt(error / norm), 0, 5e-7);
  CT_ASSERT_INT(loss.samples, spec->has_ignored ? N - 2 : N);
}

static void losses_are_torchs(void)
{
  const ct_shape_t s = ct_shape(2, N, K);
  for (size_t b = 0; b < 2; b++)
    for (size_t i = 0; i < sizeof gold / sizeof gold[0]; i++)
      check_case(backends[b], (int)i, &s);
}

/* A sample's outputs may be of any shape. */
static void any_shape_of_outputs(void)
{
  const ct_shape_t s = ct_shape(4, N, 1, K, 1);
  for (size_t b = 0; b < 2; b++)
    for (size_t i = 0; i < sizeof gold / sizeof gold[0]; i++)
      if (gold[i].spec.kind != CT_LOSS_CROSS_ENTROPY) check_case(backends[b], (int)i, &s);
}

/* ---- corners ---- */

enum { CORNER_N = 4, CORNER_MOST = CORNER_N * 4 * 6 };

static int every(int which, int i)
{
  return which == 2 || (which == 1 && i % 2 == 0);
}

/* As in make_loss.py's corner(). */
static void corner_inputs(int i, ct_op_args_t *a)
{
  static float x[CORNER_MOST], target[CORNER_MOST], of_class[4], of_sample[CORNER_N];
  static int32_t labels[CORNER_N * 6];
  int classes = corners[i].classes, pixels = corners[i].pixels;

  for (int k = 0; k < CORNER_N * classes * pixels; k++) {
    x[k] = 8 * gold_noise(1, (uint64_t)k);
    target[k] = 0.5f + gold_noise(5, (uint64_t)k);
  }
  for (int k = 0; k < CORNER_N * pixels; k++)
    labels[k] = every(corners[i].ignored, k) ? IGNORED : (k * 5 + 2) % classes;
  for (int k = 0; k < classes; k++)
    of_class[k] = k % 2 == classes % 2 ? 0 : 1.5f;
  for (int k = 0; k < CORNER_N; k++)
    of_sample[k] = every(corners[i].weighed, k) ? 0 : 0.5f + (float)k;
  a->x = x;
  a->targets = target;
  a->labels = labels;
  a->class_weight = of_class;
  a->sample_weight = of_sample;
}

static void check_corner(const ct_backend_t *be, int i)
{
  int classes = corners[i].classes, pixels = corners[i].pixels, count = CORNER_N * classes * pixels;
  const ct_shape_t s = ct_shape(pixels > 1 ? 3 : 2, CORNER_N, classes, pixels);
  float dx[CORNER_MOST];
  ct_loss_t loss;
  ct_op_args_t a = {.dx = dx, .loss = &loss, .scale = 1};
  double along[2] = {0, 0}, room = 1e-6 * corners[i].norm + 2e-7;

  corner_inputs(i, &a);
  CT_ASSERT_OK(carry_out(be, &corners[i].spec, &s, &a));
  CT_ASSERT_NEAR(loss.sum, corners[i].sum, 5e-7 * (1 + corners[i].sum));
  CT_ASSERT_NEAR(loss.weight, corners[i].weight, 1e-6 * corners[i].weight);
  CT_ASSERT_INT(loss.samples, corners[i].counted);
  for (int k = 0; k < count; k++) {
    along[0] += dx[k] * gold_noise(6, (uint64_t)k);
    along[1] += dx[k] * gold_noise(7, (uint64_t)k);
  }
  CT_ASSERT_NEAR(along[0], corners[i].along[0], room);
  CT_ASSERT_NEAR(along[1], corners[i].along[1], room);
}

/* Weights of 0, all labels ignored, all of a label spread, one class, a label for each place. */
static void corners_are_torchs(void)
{
  for (size_t b = 0; b < 2; b++)
    for (size_t i = 0; i < sizeof corners / sizeof corners[0]; i++)
      check_corner(backends[b], (int)i);
}

/* ---- other kinds ---- */

enum { OTHER_MOST = OTHER_N * 3 * 700 };

/* As in make_loss.py's targets_of(). */
static float other_target(const ct_loss_spec_t *o, int classes, int i)
{
  float share = 0.5f + gold_noise(5, (uint64_t)i);
  if (o->skips_nan && i % 3 == 1) return NAN;
  switch (o->kind) {
  case CT_LOSS_SOFT_MARGIN:
  case CT_LOSS_HINGE_EMBEDDING:
    return share < 0.5f ? -1 : 1;
  case CT_LOSS_SOFT_CROSS_ENTROPY:
    return share * 2 / (float)classes;
  case CT_LOSS_KL:
    return o->logs ? -share : share;
  case CT_LOSS_BCE:
  case CT_LOSS_POISSON:
  case CT_LOSS_SIGMOID_DICE:
    return share;
  default:
    return 4 * gold_noise(4, (uint64_t)i);
  }
}

static void other_inputs(int c, ct_op_args_t *a)
{
  static float x[OTHER_MOST], target[OTHER_MOST], weight[OTHER_MOST], place[OTHER_MOST];
  static int32_t labels[OTHER_MOST];
  const ct_loss_spec_t *o = &others[c].spec;
  int classes = others[c].classes, places = others[c].places, count = classes * places;
  for (int i = 0; i < OTHER_N * count; i++) {
    x[i] = 8 * gold_noise(1, (uint64_t)i);
    if (o->kind == CT_LOSS_POISSON && !o->logs) x[i] = fabsf(x[i]);
    target[i] = other_target(o, classes, i);
  }
  for (int i = 0; i < OTHER_N * places; i++)
    labels[i] = o->has_ignored && i % 2 == 0 ? IGNORED : (i * 5 + 2) % classes;
  for (int i = 0; i < count; i++) {
    weight[i] = o->kind == CT_LOSS_BCE ? 0.5f + (float)(i % 3) : 0.25f + 0.5f * (float)i;
    place[i] = 0.5f + (float)(i % 5);
  }
  a->x = x;
  a->targets = target;
  a->labels = labels;
  a->class_weight = weight;
  a->place_weight = place;
}

static void check_other(const ct_backend_t *be, int c)
{
  static float dx[OTHER_MOST];
  int classes = others[c].classes, places = others[c].places, count = OTHER_N * classes * places;
  int last = others[c].spec.classes_last;
  const ct_shape_t s =
      ct_shape(places > 1 ? 3 : 2, OTHER_N, last ? places : classes, last ? classes : places);
  ct_loss_t loss;
  ct_op_args_t a = {.dx = dx, .loss = &loss, .scale = 1};
  double along[2] = {0, 0}, room = 2e-6 * others[c].norm + 2e-7;
  other_inputs(c, &a);
  CT_ASSERT_OK(carry_out(be, &others[c].spec, &s, &a));
  CT_ASSERT_NEAR(loss.sum, others[c].sum, 1e-6 * (0.1 + fabs(others[c].sum)));
  CT_ASSERT_NEAR(loss.weight, others[c].weight, 1e-6 * others[c].weight);
  for (int i = 0; i < count; i++) {
    along[0] += dx[i] * gold_noise(6, (uint64_t)i);
    along[1] += dx[i] * gold_noise(7, (uint64_t)i);
  }
  CT_ASSERT_NEAR(along[0], others[c].along[0], room);
  CT_ASSERT_NEAR(along[1], others[c].along[1], room);
}

/* Focal factors, weights of places, missing targets, losses of a sample as a whole. */
static void others_are_torchs(void)
{
  for (size_t b = 0; b < 2; b++)
    for (size_t c = 0; c < sizeof others / sizeof others[0]; c++)
      check_other(backends[b], (int)c);
}

/* Where a logit is far from 0 the exponentials must not overflow, nor vanish what is left. */
static void bce_far_from_zero(void)
{
  static const float x[] = {1000, -1000, 1000, -1000, 30, -30}, t[] = {1, 0, 0, 1, 1, 0};
  const ct_shape_t s = ct_shape(2, 1, 6);
  const ct_loss_spec_t spec = {.kind = CT_LOSS_BCE};
  for (size_t b = 0; b < 2; b++) {
    ct_loss_t loss;
    float dx[6];
    ct_op_args_t a = {.x = x, .dx = dx, .targets = t, .loss = &loss, .scale = 6};
    CT_ASSERT_OK(carry_out(backends[b], &spec, &s, &a));
    CT_ASSERT_NEAR(loss.sum, (2000 + 2 * 9.3576229688e-14) / 6, 1e-6);
    CT_ASSERT_NEAR(dx[0], 0, 0);
    CT_ASSERT_NEAR(dx[2], 1, 0);
    CT_ASSERT_NEAR(dx[3], -1, 0);
    CT_ASSERT_NEAR(dx[5], 9.3576229688e-14, 1e-19);
  }
}

/* The gradient of |0| is 0, as in PyTorch. */
static void l1_at_its_minimum(void)
{
  static const float x[] = {1, 2, -3}, t[] = {1, 3, -3.5f};
  static const float want[] = {0, -1, 1};
  const ct_shape_t s = ct_shape(2, 1, 3);
  const ct_loss_spec_t spec = {.kind = CT_LOSS_L1};
  for (size_t b = 0; b < 2; b++) {
    ct_loss_t loss;
    float dx[3];
    ct_op_args_t a = {.x = x, .dx = dx, .targets = t, .loss = &loss, .scale = 3};
    CT_ASSERT_OK(carry_out(backends[b], &spec, &s, &a));
    for (int i = 0; i < 3; i++)
      CT_ASSERT_NEAR(dx[i], want[i], 0);
  }
}

/* Top-k is of the first label; a sample whose label is ignored is not counted. */
static void hits_are_of_counted_labels(void)
{
  static const float x[] = {3, 2, 1, 3, 2, 1, 3, 2, 1, NAN, 2, 1}, mix[] = {0.25f, 1, 0.25f, 1};
  static const int32_t labels[] = {0, 7, 1, 1}, labels2[] = {2, 2, 7, 2};
  const ct_shape_t s = ct_shape(2, 4, 3);
  const ct_loss_spec_t spec = {.has_ignored = 1, .ignored = 7};
  for (size_t b = 0; b < 2; b++) {
    ct_loss_t loss;
    float dx[12];
    ct_op_args_t a = {.x = x,
                      .dx = dx,
                      .labels = labels,
                      .labels2 = labels2,
                      .mix = mix,
                      .loss = &loss,
                      .scale = 1};
    CT_ASSERT_OK(carry_out(backends[b], &spec, &s, &a));
    CT_ASSERT_INT(loss.samples, 3);
    CT_ASSERT_INT(loss.top1, 1); /* sample 0; a NaN is ahead of sample 3's label */
    CT_ASSERT_INT(loss.top5, 3);
    CT_ASSERT_NEAR(loss.weight, 1 + 0.25 + 1, 0);
    for (int i = 3; i < 6; i++)
      CT_ASSERT_NEAR(dx[i], 0, 0);
  }
}

static void bad_labels_are_named(void)
{
  static const float x[6] = {0};
  const ct_shape_t s = ct_shape(2, 2, 3);
  const ct_loss_spec_t specs[] = {{.kind = CT_LOSS_CROSS_ENTROPY, .has_ignored = 1, .ignored = -1},
                                  {.kind = CT_LOSS_MSE, .one_hot = 1}};
  for (int i = 0; i < 4; i++) {
    int32_t labels[2] = {0, 3}, labels2[2] = {1, -2};
    float mix[2] = {1, 0.5f}, dx[6];
    ct_loss_t loss;
    ct_op_args_t a = {.x = x, .dx = dx, .labels = labels, .loss = &loss, .scale = 1};
    CT_ASSERT_FAILS(carry_out(backends[i / 2], &specs[i % 2], &s, &a), CT_ERR_DATA,
                    "label 3 of sample 1");
    labels[1] = 0;
    a.labels2 = labels2;
    a.mix = mix;
    CT_ASSERT_FAILS(carry_out(backends[i / 2], &specs[i % 2], &s, &a), CT_ERR_DATA,
                    "label -2 of sample 1");
    mix[1] = 1; /* then nobody looks at it */
    CT_ASSERT_OK(carry_out(backends[i / 2], &specs[i % 2], &s, &a));
  }
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(losses_are_torchs),
                                    CT_TEST(any_shape_of_outputs),
                                    CT_TEST(corners_are_torchs),
                                    CT_TEST(others_are_torchs),
                                    CT_TEST(bce_far_from_zero),
                                    CT_TEST(l1_at_its_minimum),
                                    CT_TEST(hits_are_of_counted_labels),
                                    CT_TEST(bad_labels_are_named),
                                    CT_TEST_END};
  return ct_test_main("loss", tests, argc, argv);
}
