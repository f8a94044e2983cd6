/* Parity with PyTorch: logits, loss, every gradient, and the losses of some SGD steps, from the
 * same weights and batches.  t_golden BACKEND FILE.gold [fp16]: model, shapes and rates are in the
 * file (make_golden.py), and which test it is for: one in mixed precision compares the losses of 50
 * steps with autocast's, in bfloat16 or, if asked, in float16.  Under mpiexec the global batch is
 * shared among the ranks. */
#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "model/ct_observe.h"
#include "tests/golden/gold.h"
#include "tests/harness/ct_test.h"
#include "tests/harness/ct_test_backend.h"
#include "tests/harness/ct_test_mpi.h"
#include "tests/unit/model_make.h"
#include "train/ct_trainer.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAP       8192
#define PROJ      16
#define AMP_STEPS 50
#define AMP_NEAR  0.02 /* of the loss */
#define TOLERANCE 1e-4

/* What make_golden.py trained. */
static struct config {
  char *model; /* text */
  ct_shape_t input;
  int batch; /* of the losses; the batch of the gradients is in the file */
  double lr;
  int qat;
  char *frozen; /* a parameter, or NULL */
} config;

static const ct_backend_t *backend;
static const ct_comm_ops_t *comm;
static ct_dtype_t amp; /* CT_F32: off */
static double slab_mb; /* 0: whole tensors */
static gold_t gold;

/* A record of the file; NULL if it has none of that name. */
static const float *record(const char *group, const char *name, int64_t *count)
{
  char want[160];
  snprintf(want, sizeof want, "%s%s", group, name);
  const char *found = gold_find(&gold, want, count);
  if (!found) return NULL;
  float *copy = ct_mem_array(*count, sizeof *copy, "golden record");
  memcpy(copy, found, (size_t)*count * sizeof *copy);
  return copy;
}

/* Text has spaces behind it; NULL if there is none. */
static char *text(const char *name)
{
  int64_t n;
  const char *found = gold_find(&gold, name, &n);
  if (!found) return NULL;
  char *copy = ct_mem_alloc((size_t)n * 4 + 1, "golden text");
  memcpy(copy, found, (size_t)n * 4);
  for (int64_t i = n * 4; i > 0 && copy[i - 1] == ' ';)
    copy[--i] = 0;
  return copy;
}

/* 0: a record is not there. */
static int read_config(void)
{
  int64_t dims, n;
  const float *shape = record("", "shape", &dims), *training = record("", "training", &n);
  config.model = text("model");
  config.frozen = text("freeze");
  int fine = config.model && shape && training && n == 3 && dims < CT_MAX_DIMS;
  if (fine) {
    config.input = ct_shape((int)dims + 1, 1, 1, 1, 1, 1);
    for (int i = 0; i < dims; i++)
      config.input.dim[1 + i] = (int64_t)shape[i];
    config.batch = (int)training[0];
    config.lr = training[1];
    config.qat = training[2] != 0;
  }
  ct_mem_free((void *)(uintptr_t)shape);
  ct_mem_free((void *)(uintptr_t)training);
  return fine;
}

/* ---- a trainer on it ---- */

typedef struct fixture {
  ct_dev_t *dev;
  ct_comm_t *comm;
  ct_graph_t *whole, *graph; /* graph: what is trained, the whole or the observed one */
  ct_observed_t observed;
  ct_trainer_t *t;
  ct_optim_opts_t optim;
  ct_batch_t batch;
} fixture_t;

static int freeze(ct_graph_t *g)
{
  int updating;
  ct_opt_texts_t patterns = {.v = &config.frozen, .n = 1};
  return config.frozen && CT_ASSERT_OK(ct_graph_freeze(g, &patterns, 0, &updating));
}

static int make_graph(fixture_t *f)
{
  int rc = CT_OK;
  CT_TRY(make_for(config.model, config.input, 10, &f->whole));
  if (config.qat) CT_TRY(ct_observed_make(f->whole, &f->observed));
  f->graph = config.qat ? f->observed.graph : f->whole;
out:
  return rc;
}

static void set_up(fixture_t *f)
{
  const ct_topo_t *topo = &ct_test_topo;
  char why[128];
  int devices = backend->probe(why);
  ct_dev_opts_t dev = {.index = devices > 0 ? topo->local_rank % devices : 0,
                       .threads = topo->threads,
                       .timeout_s = 120};
  memset(f, 0, sizeof *f);
  f->optim =
      (ct_optim_opts_t){.lr = config.lr, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = 1};
  if (CT_ASSERT_OK(make_graph(f))) return;
  if (freeze(f->graph)) return;
  for (int i = 0; i < f->graph->params; i++) /* load_weights() overwrites them: save the time */
    if (!f->graph->param[i].spec.buffer) f->graph->param[i].spec.init = CT_INIT_ZERO;
  if (CT_ASSERT_OK(backend->open(&dev, &f->dev))) return;
  if (CT_ASSERT_OK(comm->open(topo, backend, f->dev, &(ct_comm_opts_t){0}, &f->comm))) return;
  int64_t first, n = ct_sampler_cut(config.batch, 0, topo->size, &first);
  ct_trainer_env_t env = {.topo = topo,
                          .be = backend,
                          .dev = f->dev,
                          .comm_ops = comm,
                          .comm = f->comm,
                          .graph = f->graph,
                          .optim = &f->optim,
                          .step_opts = {.compute = amp, .qat = config.qat, .slab_mb = slab_mb},
                          .bucket_mb = 0.05,
                          .seed = 1,
                          .max_batch = (int)n,
                          .repeat_batch = config.batch,
                          .training = 1};
  if (CT_ASSERT_OK(ct_trainer_create(&env, &f->t))) return;
  int64_t per = ct_shape_count(&f->graph->input);
  f->batch.x = ct_mem_array(n * per, sizeof(float), "batch");
  f->batch.labels = ct_mem_array(n, sizeof(int32_t), "batch");
}

static void tear_down(fixture_t *f)
{
  ct_trainer_destroy(f->t);
  comm->close(f->comm);
  backend->close(f->dev);
  ct_observed_clear(&f->observed);
  ct_graph_free(f->whole);
  ct_mem_free(f->batch.x);
  ct_mem_free(f->batch.labels);
}

static void load_weights(fixture_t *f)
{
  int trained = 0;
  for (int i = 0; i < f->graph->params; i++) {
    const ct_param_t *p = &f->graph->param[i];
    int64_t n;
    if (p->spec.buffer) continue;
    const float *init = record("init/", p->name, &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(init);
    float *w = ct_mem_array(p->count, sizeof *w, "weights");
    uint64_t seed = n > 2 ? (uint64_t)init[2] : (uint64_t)(1000 + trained);
    for (int64_t k = 0; k < p->count; k++) {
      float scaled = init[0] * gold_noise(seed, (uint64_t)k);
      w[k] = scaled + init[1];
    }
    CT_ASSERT_OK(ct_trainer_set(f->t, i, w));
    ct_mem_free(w);
    ct_mem_free((void *)(uintptr_t)init);
    trained++;
  }
}

static void load_batch(fixture_t *f, int step, int global)
{
  const ct_topo_t *topo = &ct_test_topo;
  f->batch.global = global;
  f->batch.n = (int)ct_sampler_cut(global, topo->rank, topo->size, &f->batch.first);
  int64_t per = ct_shape_count(&f->graph->input);
  for (int64_t i = 0; i < f->batch.n * per; i++)
    f->batch.x[i] = 3.4641016f * gold_noise((uint64_t)step, (uint64_t)(f->batch.first * per + i));
  for (int i = 0; i < f->batch.n; i++)
    f->batch.labels[i] = (int32_t)(((f->batch.first + i) * 7 + step * 3) % 10);
}

static double train_step(fixture_t *f, int step, int global)
{
  ct_step_status_t status = {0};
  ct_step_report_t times = {0};
  load_batch(f, step, global);
  CT_ASSERT_OK(ct_trainer_step(f->t, &f->batch, CT_OK, &(ct_schedule_point_t){0}, &status, &times));
  CT_ASSERT_INT(status.samples, global);
  return status.loss_sum / (double)status.samples;
}

/* ---- comparisons ---- */

static double distance(const float *a, const float *b, int64_t n, int64_t stride)
{
  double diff = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) {
    double d = (double)a[i * stride] - b[i];
    diff += d * d;
    norm += (double)b[i] * b[i];
  }
  return norm > 0 ? sqrt(diff / norm) : sqrt(diff);
}

/* The root mean square of the sums of the difference under random signs estimates its norm, over
 * elements that the sample of `grad/` left out too. */
static double projected(const float *g, int64_t count, const float *proj)
{
  double norm = 0, sum = 0;
  for (int64_t i = 0; i < count; i++)
    norm += (double)g[i] * g[i];
  for (int j = 0; j < PROJ; j++) {
    double s = 0;
    for (int64_t i = 0; i < count; i++)
      s += gold_noise((uint64_t)(5000 + j), (uint64_t)i) < 0 ? -(double)g[i] : g[i];
    double d = s / sqrt(norm) - proj[j];
    sum += d * d;
  }
  return sqrt(sum / PROJ);
}

/* A number of the file, or what it is without. */
static double number(const char *name, double otherwise)
{
  int64_t n;
  const float *v = record("", name, &n);
  double number = v ? v[0] : otherwise;
  ct_mem_free((void *)(uintptr_t)v);
  return number;
}

/* 1 if the gradient is known to be zero, and then it must be. */
static int is_zero(const char *name, const float *g, int64_t count)
{
  int64_t n;
  double norm = 0;
  const float *zero = record("zero/", name, &n);
  if (!zero) return 0;
  for (int64_t i = 0; i < count; i++)
    norm += (double)g[i] * g[i];
  CT_ASSERT_NEAR(sqrt(norm), 0, 1e-4);
  ct_mem_free((void *)(uintptr_t)zero);
  return 1;
}

static int is_trained(const ct_param_t *p)
{
  return !p->spec.buffer && !p->frozen;
}

static void compare_gradient(fixture_t *f, int i)
{
  const ct_param_t *p = &f->graph->param[i];
  int64_t n, m, cap = (int64_t)number("cap", CAP);
  double allowed = number("tolerance", TOLERANCE);
  float *g = ct_mem_array(p->count, sizeof *g, "gradient");
  CT_ASSERT_OK(ct_trainer_get_gradient(f->t, i, g));
  if (!is_zero(p->name, g, p->count)) {
    const float *want = record("grad/", p->name, &n), *proj = record("proj/", p->name, &m);
    CU_ASSERT_PTR_NOT_NULL_FATAL(want);
    CU_ASSERT_PTR_NOT_NULL_FATAL(proj);
    double near = distance(g, want, n, (p->count + cap - 1) / cap);
    double whole = projected(g, p->count, proj);
    if (!(near <= allowed && whole <= allowed)) printf("# gradient of %s\n", p->name);
    CT_ASSERT_NEAR(near, 0, allowed);
    CT_ASSERT_NEAR(whole, 0, allowed);
    ct_mem_free((void *)(uintptr_t)want);
    ct_mem_free((void *)(uintptr_t)proj);
  }
  ct_mem_free(g);
}

static void first_step(void)
{
  fixture_t f;
  int64_t n;
  set_up(&f);
  CU_ASSERT_PTR_NOT_NULL(f.t);
  if (f.t) {
    load_weights(&f);
    const float *batch = record("", "batch", &n);
    double loss = train_step(&f, (int)batch[0], (int)batch[1]);
    const float *want = record("", "loss", &n), *logits = record("", "logits", &n);
    CT_ASSERT_NEAR(loss, want[0], TOLERANCE);
    float *mine = ct_mem_array(f.batch.n * 10, sizeof *mine, "logits");
    CT_ASSERT_OK(ct_trainer_logits(f.t, mine));
    CT_ASSERT_NEAR(distance(mine, logits + f.batch.first * 10, f.batch.n * 10, 1), 0, TOLERANCE);
    for (int i = 0; i < f.graph->params; i++)
      if (is_trained(&f.graph->param[i])) compare_gradient(&f, i);
    ct_mem_free(mine);
    ct_mem_free((void *)(uintptr_t)batch);
    ct_mem_free((void *)(uintptr_t)want);
    ct_mem_free((void *)(uintptr_t)logits);
  }
  tear_down(&f);
}

static void losses(void)
{
  fixture_t f;
  int64_t n;
  set_up(&f);
  CU_ASSERT_PTR_NOT_NULL(f.t);
  if (f.t) {
    load_weights(&f);
    const float *want = record("", "losses", &n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(want);
    for (int s = 0; s < n; s++)
      CT_ASSERT_NEAR(train_step(&f, s, config.batch), want[s], TOLERANCE);
    ct_mem_free((void *)(uintptr_t)want);
  }
  tear_down(&f);
}

static void fifty_losses_in_mixed_precision(void)
{
  fixture_t f;
  int64_t n;
  set_up(&f);
  CU_ASSERT_PTR_NOT_NULL(f.t);
  if (f.t) {
    load_weights(&f);
    const float *want = record("", "amp_losses", &n);
    CT_ASSERT_INT(n, AMP_STEPS);
    for (int s = 0; s < AMP_STEPS; s++)
      CT_ASSERT_NEAR(train_step(&f, s % 3, config.batch) / want[s], 1, AMP_NEAR);
    ct_mem_free((void *)(uintptr_t)want);
  }
  tear_down(&f);
}

int main(int argc, char **argv)
{
  static const ct_test_t float32[] = {CT_TEST(first_step), CT_TEST(losses), CT_TEST_END};
  static const ct_test_t one_step[] = {CT_TEST(first_step), CT_TEST_END};
  static const ct_test_t mixed[] = {CT_TEST(fifty_losses_in_mixed_precision), CT_TEST_END};
  char suite[64];
  int64_t n;
  if (argc < 3) return 2;
  backend = ct_test_backend(argv[1], &comm);
  if (!backend) {
    printf("Bail out! %s\n", ct_err_last()->text);
    return 1;
  }
  const char *slash = strrchr(argv[2], '/');
  snprintf(suite, sizeof suite, "golden %.40s on %s", slash ? slash + 1 : argv[2], argv[1]);
  if (ct_file_read(argv[2], &gold.data, &gold.bytes) != CT_OK || !read_config()) {
    printf("Bail out! %s is no file of make_golden.py\n", argv[2]);
    return 1;
  }
  if (gold_find(&gold, "amp_losses", &n))
    amp = argc > 3 && strcmp(argv[3], "fp16") == 0 ? CT_F16 : CT_BF16;
  if (argc > 3 && strcmp(argv[3], "slabs") == 0) slab_mb = 1e-4;
  int steps = gold_find(&gold, "losses", &n) && n > 0;
  int rc = ct_test_mpi_main(suite, amp ? mixed : steps ? float32 : one_step, 1, argv);
  ct_mem_free(config.model);
  ct_mem_free(config.frozen);
  ct_mem_free(gold.data);
  return rc;
}
