/* Steps and evaluations of a linear classifier against the same numbers, computed here in double
 * from the whole batch: what is wrong alike at every number of ranks would pass where ranks are
 * compared with each other. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_fault.h"
#include "base/ct_mem.h"
#include "tests/mpi/trainer_rig.h"
#include "eval/ct_eval.h"

static const ct_topo_t *const topo = &ct_test_topo;

enum { D = 72, K = RIG_CLASSES, WEIGHTS = K * D, ALL = WEIGHTS + K };

static const char linear[] = "layers: [flatten, linear: {out: 10}]\n";
static const float class_weight[K] = {1, 5, 0.125f, 2, 1, 1, 3, 1, 0.5f, 1};
static const ct_loss_spec_t weighted = {.weighted = 1, .has_ignored = 1, .ignored = 4};

/* ---- the classifier ---- */

/* The weights [K][D], then the K biases. */
typedef struct linear {
  float v[ALL];
} linear_t;

/* Its parameters are the last two of the graph. */
static linear_t get(rig_t *r)
{
  linear_t m;
  int p = r->graph->params;
  CT_ASSERT_OK(ct_trainer_get(r->t, p - 2, m.v));
  CT_ASSERT_OK(ct_trainer_get(r->t, p - 1, m.v + WEIGHTS));
  return m;
}

/* What the samples of a batch come to. */
typedef struct truth {
  double loss, weight; /* sums over them */
  double slope[ALL];   /* of the loss */
  int64_t samples, top1, top5, confusion[K][K];
} truth_t;

static void find_logits(const linear_t *m, const double x[D], double z[K])
{
  for (int k = 0; k < K; k++) {
    z[k] = m->v[WEIGHTS + k];
    for (int i = 0; i < D; i++)
      z[k] += m->v[k * D + i] * x[i];
  }
}

/* A distribution that is wanted, which need not sum up to 1: a label's share, times its weight. */
static void want_label(const ct_loss_spec_t *l, double q[K], int label, double share)
{
  if (!(l->has_ignored && label == l->ignored))
    q[label] += share * (l->weighted ? class_weight[label] : 1);
}

static void add_sample(truth_t *t, const linear_t *m, const double x[D], const double q[K])
{
  double z[K], sum = 0, all = 0;
  find_logits(m, x, z);
  for (int k = 0; k < K; k++) {
    sum += exp(z[k]);
    all += q[k];
  }
  t->weight += all;
  for (int k = 0; k < K; k++) {
    t->loss += q[k] * (log(sum) - z[k]);
    double slope = all * exp(z[k]) / sum - q[k];
    t->slope[WEIGHTS + k] += slope;
    for (int i = 0; i < D; i++)
      t->slope[k * D + i] += slope * x[i];
  }
}

/* ---- batches ---- */

static int32_t second_label(int step, int64_t place)
{
  return (rig_label(step, place) + 3) % K;
}

static float share_of_first(int64_t place)
{
  static const float shares[] = {0.75f, 1, 0.25f, 0.5f};
  return shares[place % 4];
}

/* This rank's part of a batch; \a mixed: with two labels for a sample. */
static void load(rig_t *r, int step, int global, int mixed)
{
  static int32_t labels2[RIG_ROOM];
  static float mix[RIG_ROOM];
  rig_load(r, step, global);
  for (int i = 0; i < r->batch.n; i++) {
    labels2[i] = second_label(step, r->batch.first + i);
    mix[i] = share_of_first(r->batch.first + i);
  }
  r->batch.labels2 = mixed ? labels2 : NULL;
  r->batch.mix = mixed ? mix : NULL;
}

static truth_t truth_of(const linear_t *m, const ct_loss_spec_t *l, int step, int global, int mixed)
{
  truth_t t = {0};
  for (int64_t n = 0; n < global; n++) {
    double x[D], q[K] = {0}, share = mixed ? share_of_first(n) : 1;
    for (int i = 0; i < D; i++)
      x[i] = rig_element(step, n * D + i);
    want_label(l, q, rig_label(step, n), share);
    if (share < 1) want_label(l, q, second_label(step, n), 1 - share);
    add_sample(&t, m, x, q);
  }
  return t;
}

static rig_opts_t opts(double lr)
{
  return (rig_opts_t){.model = linear, .max_batch = 16, .optim = {.lr = lr}};
}

/* ---- steps ---- */

/* The mean is that over the weights of both labels, of all ranks: in one piece, in two, by way of
 * rank 0. */
static void weights_of_mixed_labels(void)
{
  static const int batches[] = {9, 4, 1, 16}; /* also fewer than ranks */
  for (int k = 0; k < 6; k++) {
    rig_t r;
    rig_opts_t o = opts(1);
    int mixed = k % 2;
    o.loss = weighted;
    o.class_weight = class_weight;
    o.step_opts = (ct_step_opts_t){.micro_batches = k / 2 == 1 ? 2 : 1,
                                   .strategy = k / 2 == 2 ? &ct_strategy_dp : &ct_strategy_ddp};
    rig_start(&r, &o);
    for (int s = 0; s < 4; s++) {
      ct_step_status_t status = {0};
      linear_t m = get(&r), after;
      truth_t t = truth_of(&m, &weighted, s, batches[s], mixed);
      load(&r, s, batches[s], mixed);
      CT_ASSERT_OK(rig_run(&r, &status));
      CT_ASSERT_NEAR(status.loss_sum, t.loss, 1e-5 * t.loss);
      CT_ASSERT_NEAR(status.loss_weight, t.weight, 1e-6 * t.weight);
      after = get(&r);
      for (int i = 0; i < ALL; i++)
        m.v[i] -= (float)(t.slope[i] / t.weight);
      CT_ASSERT_ARRAY(after.v, m.v, ALL, 2e-6);
    }
    rig_close(&r);
  }
}

static double norm_of(const double *v, double p)
{
  double power = 0, most = 0;
  for (int i = 0; i < ALL; i++) {
    power += pow(fabs(v[i]), isinf(p) ? 1 : p);
    most = fmax(most, fabs(v[i]));
  }
  return isinf(p) ? most : pow(power, 1 / p);
}

/* By the norm of the whole gradient, also where each rank updates a slice of it. */
static void clipping_by_every_norm(void)
{
  static const double norms[] = {1, 2, 3, INFINITY};
  enum { BATCH = 10 };
  for (int k = 0; k < 8; k++) {
    rig_t r;
    ct_step_status_t status = {0};
    ct_step_report_t report = {0};
    rig_opts_t o = opts(1);
    double p = norms[k % 4];
    o.step_opts = (ct_step_opts_t){.zero = k / 4, .clip_p = p, .clip_norm = 0.125};
    rig_start(&r, &o);
    linear_t m = get(&r), after;
    truth_t t = truth_of(&m, &o.loss, 5, BATCH, 0);
    for (int i = 0; i < ALL; i++)
      t.slope[i] /= BATCH;
    double norm = norm_of(t.slope, p);
    CU_ASSERT(norm > 2 * o.step_opts.clip_norm);
    load(&r, 5, BATCH, 0);
    CT_ASSERT_OK(
        ct_trainer_step(r.t, &r.batch, CT_OK, &(ct_schedule_point_t){0}, &status, &report));
    CT_ASSERT_NEAR(report.grad_norm, norm, 1e-5 * norm);
    after = get(&r);
    for (int i = 0; i < ALL; i++)
      m.v[i] -= (float)(t.slope[i] * o.step_opts.clip_norm / norm);
    CT_ASSERT_ARRAY(after.v, m.v, ALL, 1e-6);
    rig_close(&r);
  }
}

/* Of the mean over the batch, also where the loss was scaled for half precision. */
static void clipping_by_value(void)
{
  enum { BATCH = 10 };
  const double limit = 0.0625;
  for (int half = 0; half < 2; half++) {
    rig_t r;
    rig_opts_t o = opts(1);
    o.step_opts = (ct_step_opts_t){.compute = half ? CT_F16 : CT_F32, .clip_value = limit};
    rig_start(&r, &o);
    linear_t m = get(&r), after;
    truth_t t = truth_of(&m, &o.loss, 7, BATCH, 0);
    int64_t clipped = 0;
    rig_step(&r, 7, BATCH);
    after = get(&r);
    for (int i = 0; i < ALL; i++) {
      double g = t.slope[i] / BATCH;
      clipped += fabs(g) > limit;
      m.v[i] -= (float)fmax(fmin(g, limit), -limit);
    }
    CU_ASSERT(clipped > ALL / 8 && clipped < ALL);
    CT_ASSERT_ARRAY(after.v, m.v, ALL, half ? 2e-3 : 1e-6);
    rig_close(&r);
  }
}

/* SGD as torch.optim.SGD with Nesterov's momentum, where only the weights decay: each parameter by
 * its own numbers, whatever buckets and slices it lies in. */
static void momentum_and_decay(void)
{
  enum { BATCH = 10, STEPS = 4 };
  const double lr = 0.5, momentum = 0.75, decay = 0.125;
  for (int k = 0; k < 4; k++) {
    rig_t r;
    rig_opts_t o = opts(lr);
    double buffer[ALL] = {0};
    o.optim =
        (ct_optim_opts_t){.lr = lr, .momentum = momentum, .nesterov = 1, .weight_decay = decay};
    o.optim.no_decay_bias_norm = 1;
    o.step_opts.zero = k / 2;
    o.bucket_mb = k % 2; /* one bucket, or one for each parameter */
    rig_start(&r, &o);
    for (int s = 0; s < STEPS; s++) {
      linear_t m = get(&r), after;
      truth_t t = truth_of(&m, &o.loss, s, BATCH, 0);
      rig_step(&r, s, BATCH);
      after = get(&r);
      for (int i = 0; i < ALL; i++) {
        double g = t.slope[i] / BATCH + (i < WEIGHTS ? decay * m.v[i] : 0);
        buffer[i] = momentum * buffer[i] + g;
        m.v[i] -= (float)(lr * (g + momentum * buffer[i]));
      }
      CT_ASSERT_ARRAY(after.v, m.v, ALL, 5e-6);
    }
    rig_close(&r);
  }
}

static int64_t updates_of(rig_t *r)
{
  rig_hash(r);
  for (int i = 0; i < r->items; i++)
    if (strcmp(r->item[i].name, "/optim/updates") == 0) return *(const int64_t *)r->item[i].data;
  return -1;
}

/* The first update of Adam moves every weight by the rate: one that was skipped before it does not
 * count. */
static void a_skipped_update_is_none(void)
{
  enum { BATCH = 10 };
  const double lr = 0.01;
  rig_t r;
  ct_step_status_t status = {0};
  rig_opts_t o = opts(lr);
  o.optim =
      (ct_optim_opts_t){.kind = 1, .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}; /* Adam */
  o.step_opts.compute = CT_F16;
  rig_start(&r, &o);
  linear_t m = get(&r), after;
  load(&r, 6, BATCH, 0);
  setenv("CTRAIN_FAULTS", "step.overflow@0:1", 1);
  ct_fault_setup(topo->rank);
  CT_ASSERT_OK(rig_run(&r, &status));
  unsetenv("CTRAIN_FAULTS");
  ct_fault_setup(topo->rank);
  CT_ASSERT_INT(updates_of(&r), 0);
  after = get(&r);
  CT_ASSERT_ARRAY(after.v, m.v, ALL, 0);
  CT_ASSERT_OK(rig_run(&r, &status));
  CT_ASSERT_INT(updates_of(&r), 1);
  after = get(&r);
  truth_t t = truth_of(&m, &o.loss, 6, BATCH, 0);
  int64_t clear = 0;
  for (int i = 0; i < ALL; i++) {
    if (fabs(t.slope[i]) < 0.1) continue; /* half precision could give it the other sign */
    CT_ASSERT_NEAR(after.v[i] - m.v[i], t.slope[i] > 0 ? -lr : lr, 1e-3 * lr);
    clear++;
  }
  CU_ASSERT(clear > ALL / 2);
  rig_close(&r);
}

/* ---- evaluation ---- */

enum {
  SAMPLES = 23,
  CHANNELS = 2,
  DATA = 30 /* the step that a data set's samples are those of */
};

struct ct_reader {
  ct_reader_info_t info;
};

static int read_samples(ct_reader_t *r, int n, const int64_t index[], void *x, void *y)
{
  (void)r;
  for (int k = 0; k < n; k++) {
    for (int i = 0; x && i < D; i++)
      ((float *)x)[k * D + i] = rig_element(DATA, index[k] * D + i);
    ((int64_t *)y)[k] = rig_label(DATA, index[k]);
  }
  return CT_OK;
}

static const ct_reader_info_t *info_of(const ct_reader_t *r)
{
  return &r->info;
}

static void close_reader(ct_reader_t *r)
{
  ct_mem_free(r);
}

static int open_reader(const ct_reader_spec_t *spec, ct_reader_t **out)
{
  ct_reader_t *r = *out = ct_mem_alloc(sizeof *r, "samples");
  if (!r) return CT_ERR_NOMEM;
  r->info = (ct_reader_info_t){.samples = spec->samples,
                               .classes = K,
                               .x = {.dtype = CT_F32, .ndim = 4, .dim = {1, CHANNELS, 6, 6, 1}}};
  return CT_OK;
}

static const ct_reader_ops_t samples = {.format = {.name = "samples"},
                                        .open = open_reader,
                                        .info = info_of,
                                        .read = read_samples,
                                        .close = close_reader};

/* Running statistics that each rank has otherwise; those of rank 0 are everybody's in an
 * evaluation. */
static void spoil_statistics(rig_t *r, double mean[CHANNELS], double var[CHANNELS])
{
  float v[CHANNELS];
  for (int square = 0; square < 2; square++) {
    int p = ct_graph_find_param(r->graph, square ? "norm.running_var" : "norm.running_mean");
    for (int c = 0; c < CHANNELS; c++) {
      double rank0 = square ? 0.5 + 2 * c : 0.25 - c;
      (square ? var : mean)[c] = rank0;
      v[c] = (float)(rank0 + 3 * topo->rank);
    }
    CT_ASSERT_OK(ct_trainer_set(r->t, p, v));
  }
}

static void add_prediction(truth_t *t, const linear_t *m, const double x[D], int label)
{
  double z[K];
  int ahead = 0, best = 0;
  find_logits(m, x, z);
  for (int k = 0; k < K; k++) {
    ahead += z[k] > z[label];
    if (z[k] > z[best]) best = k;
  }
  t->samples++;
  t->top1 += ahead < 1;
  t->top5 += ahead < 5;
  t->confusion[label][best]++;
}

static truth_t evaluation_of(const linear_t *m, const double mean[CHANNELS],
                             const double var[CHANNELS])
{
  truth_t t = {0};
  for (int64_t n = 0; n < SAMPLES; n++) {
    double x[D], q[K] = {0};
    int label = rig_label(DATA, n);
    for (int i = 0; i < D; i++)
      x[i] = (rig_element(DATA, n * D + i) - mean[i / 36]) / sqrt(var[i / 36] + 1e-5);
    want_label(&weighted, q, label, 1);
    add_sample(&t, m, x, q);
    if (label != weighted.ignored) add_prediction(&t, m, x, label);
  }
  return t;
}

static void check_evaluation(const ct_eval_result_t *got, const truth_t *t)
{
  double n = (double)t->samples;
  CT_ASSERT_NEAR(got->loss, t->loss / t->weight, 1e-5);
  CT_ASSERT_INT(got->samples, t->samples);
  CT_ASSERT_NEAR(got->top1, (double)t->top1 / n, 1e-12);
  CT_ASSERT_NEAR(got->top5, (double)t->top5 / n, 1e-12);
}

/* Every sample once, with rank 0's statistics, and the mean over the weights of the classes. */
static void evaluations(void)
{
  static const int batches[] = {7, 1, SAMPLES};
  static const char model[] =
      "layers:\n- batchnorm:\n  name: norm\n- flatten:\n- linear: {out: 10}\n";
  ct_dataset_t d;
  ct_reader_spec_t spec = {.samples = SAMPLES};
  CT_ASSERT_OK(ct_dataset_open(&samples, &spec, NULL, "test", &d));
  d.has_ignored = 1;
  d.ignored = weighted.ignored;
  for (int k = 0; k < 3; k++) {
    rig_t r;
    double mean[CHANNELS], var[CHANNELS];
    int64_t stop = -1;
    ct_eval_result_t got = {0};
    ct_confusion_t confusion;
    rig_opts_t o = {.model = model, .max_batch = 4, .max_eval = SAMPLES, .loss = weighted};
    o.class_weight = class_weight;
    rig_start(&r, &o);
    linear_t m = get(&r);
    spoil_statistics(&r, mean, var);
    truth_t t = evaluation_of(&m, mean, var);
    CU_ASSERT(t.samples < SAMPLES && t.top1 > 0);
    CT_ASSERT_OK(ct_evaluate(r.t, &d, batches[k], 1, NULL, NULL, &stop, &got));
    CT_ASSERT_INT(stop, 0);
    check_evaluation(&got, &t);
    spoil_statistics(&r, mean, var);
    CT_ASSERT_OK(ct_confusion_open(K, &confusion));
    ct_eval_want_t want = {.confusion = &confusion, .of = CT_SCORE_OF_LABELS};
    memset(confusion.count, 1, sizeof t.confusion); /* it begins anew */
    CT_ASSERT_OK(ct_evaluate(r.t, &d, batches[k], 0, &want, NULL, &stop, &got));
    check_evaluation(&got, &t);
    CU_ASSERT(memcmp(confusion.count, t.confusion, sizeof t.confusion) == 0);
    ct_confusion_close(&confusion);
    rig_close(&r);
  }
  ct_dataset_close(&d);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(weights_of_mixed_labels),
                                    CT_TEST(clipping_by_every_norm),
                                    CT_TEST(clipping_by_value),
                                    CT_TEST(momentum_and_decay),
                                    CT_TEST(a_skipped_update_is_none),
                                    CT_TEST(evaluations),
                                    CT_TEST_END};
  return ct_test_mpi_main("oracle", tests, argc, argv);
}
