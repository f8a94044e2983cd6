/* Which plan a convolution gets, and how it is run, on an invented cuDNN: the layer of
 * cuda/conv/dnn.h is played here, with engines of a script that take their time.  That cuDNN itself
 * makes plans is t_dnn's to see. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "cuda/conv/conv_plan.h"
#include "cuda/gpu.h"
#include "tests/cuda/emu/fake_cuda.h"
#include "tests/harness/ct_test.h"

/* ---- the invented cuDNN ---- */

enum { ENGINES = 6, RUNS = 200, MIB = 1 << 20 };
static const unsigned nondeterministic = 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;

typedef struct engine {
  int fused;          /* does graphs with a bias; 0: those without */
  int ms;             /* of a run */
  int no_plan, fails; /* it turns out when a plan is made; when it is run */
  int last_resort;    /* proposed by mode FALLBACK; 2: by both modes */
  unsigned notes;
  size_t workspace;
} engine_t;

/* Engines in the order of heuristics; plans made and runs so far. */
static struct {
  engine_t engine[ENGINES];
  int engines, made, runs;
  int ran[RUNS]; /* which engine */
  void *at[GPU_DNN_POINTERS], *workspace;
  int pointers;
} dnn;

static void script(const engine_t *engine, int n)
{
  memset(&dnn, 0, sizeof dnn);
  memcpy(dnn.engine, engine, (size_t)n * sizeof *engine);
  dnn.engines = n;
}

/* Every descriptor is the number of an engine. */
static gpu__dnn_desc_t new_desc(int engine)
{
  int *d = ct_mem_alloc(sizeof *d, "test");
  *d = engine;
  return d;
}
static int engine_of(gpu__dnn_desc_t d)
{
  return *(int *)d;
}
void gpu__dnn_free(gpu__dnn_desc_t d)
{
  ct_mem_free(d);
}

gpu__dnn_desc_t gpu__dnn_tensor(gpu__dnn_graph_t *g, int64_t id, ct_dtype_t type, int ndim,
                                const int64_t *dim)
{
  (void)g, (void)id, (void)type, (void)ndim, (void)dim;
  return NULL;
}
gpu__dnn_desc_t gpu__dnn_between(gpu__dnn_graph_t *g, int ndim, const int64_t *dim)
{
  (void)g, (void)ndim, (void)dim;
  return NULL;
}
void gpu__dnn_conv(gpu__dnn_graph_t *g, int pass, const gpu__dnn_window_t *window,
                   gpu__dnn_desc_t x, gpu__dnn_desc_t w, gpu__dnn_desc_t y)
{
  (void)pass, (void)window, (void)x, (void)w, (void)y;
  g->ops = 1;
}
void gpu__dnn_add(gpu__dnn_graph_t *g, gpu__dnn_desc_t a, gpu__dnn_desc_t b, gpu__dnn_desc_t y)
{
  (void)a, (void)b, (void)y;
  g->ops++;
}
int gpu__dnn_finish(gpu__dnn_graph_t *g, const gpu__dnn_target_t *t)
{
  (void)t;
  return g->rc;
}
void gpu__dnn_graph_clear(gpu__dnn_graph_t *g)
{
  g->ops = 0;
}

int gpu__dnn_configs(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g,
                     cudnnBackendHeurMode_t mode, gpu__dnn_configs_t *out)
{
  (void)t;
  out->count = 0;
  int other = mode == CUDNN_HEUR_MODE_A;
  for (int i = 0; i < dnn.engines; i++)
    if (dnn.engine[i].fused == (g->ops == 2) && dnn.engine[i].last_resort != other)
      out->at[out->count++] = new_desc(i);
  return CT_OK;
}
void gpu__dnn_configs_clear(gpu__dnn_configs_t *c)
{
  while (c->count > 0)
    gpu__dnn_free(c->at[--c->count]);
}
int gpu__dnn_notes(gpu__dnn_desc_t config, unsigned *notes)
{
  *notes = dnn.engine[engine_of(config)].notes;
  return CT_OK;
}
int gpu__dnn_engine(gpu__dnn_desc_t config, int *engine)
{
  *engine = engine_of(config);
  return CT_OK;
}
int gpu__dnn_plan_make(const gpu__dnn_target_t *t, gpu__dnn_desc_t *config, gpu__dnn_plan_t *out)
{
  const engine_t *e = &dnn.engine[engine_of(*config)];
  (void)t;
  dnn.made++;
  if (e->no_plan) return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "no plan");
  *out = (gpu__dnn_plan_t){new_desc(engine_of(*config)), *config, e->workspace};
  *config = NULL;
  return CT_OK;
}
int gpu__dnn_plan_write(const gpu__dnn_plan_t *p, ct_str_t *json)
{
  return ct_str_add(json, "{\"engine\": %d}", engine_of(p->plan));
}
int gpu__dnn_plan_read(const gpu__dnn_target_t *t, const char *json, gpu__dnn_plan_t *out)
{
  int engine;
  (void)t;
  if (sscanf(json, "{\"engine\": %d}", &engine) != 1) return CT_ERR_FORMAT;
  *out = (gpu__dnn_plan_t){new_desc(engine), NULL, dnn.engine[engine].workspace};
  return CT_OK;
}
void gpu__dnn_plan_clear(gpu__dnn_plan_t *p)
{
  gpu__dnn_free(p->plan);
  gpu__dnn_free(p->config);
  *p = (gpu__dnn_plan_t){.plan = NULL};
}
void gpu__dnn_memory_clear(gpu__dnn_memory_t *m)
{
  (void)m;
}

/* What a run puts where it writes: 1, 2, 3 … in bfloat16; all of its workspace is overwritten. */
typedef struct job {
  int ms;
  uint16_t *to;
  void *workspace;
  size_t bytes;
} job_t;

static cudaError_t work(void *args)
{
  const job_t *j = args;
  usleep((unsigned)j->ms * 1000);
  memset(j->workspace, 0xff, j->bytes);
  for (int i = 0; i < 8; i++)
    j->to[i] = ct_bf16_of((float)i + 1);
  return cudaSuccess;
}

int gpu__dnn_run(cudnnHandle_t handle, const gpu__dnn_plan_t *p, gpu__dnn_memory_t *m, int n,
                 void *const at[], void *workspace, cudaStream_t s)
{
  const engine_t *e = &dnn.engine[engine_of(p->plan)];
  job_t j = {e->ms, at[GPU_CONV_W - 1], workspace, e->workspace};
  (void)handle, (void)m;
  CU_ASSERT_FATAL(dnn.runs < RUNS);
  dnn.ran[dnn.runs++] = engine_of(p->plan);
  memcpy(dnn.at, at, (size_t)n * sizeof *at);
  dnn.pointers = n;
  dnn.workspace = workspace;
  if (e->fails) return ct_err_set(CT_ERR_DEVICE, __FILE__, __LINE__, "no run");
  return fake_cuda_work(s, work, &j, sizeof j) == cudaSuccess ? CT_OK : CT_ERR_DEVICE;
}

size_t cudnnGetVersion(void)
{
  return 91900;
}

/* ---- what conv_*.c take from their module ---- */

int gpu__check(cudaError_t e, const char *call, const char *file, int line)
{
  if (e == cudaSuccess) return CT_OK;
  int code = e == cudaErrorMemoryAllocation ? CT_ERR_NOMEM : CT_ERR_DEVICE;
  return ct_err_set(code, file, line, "%s: %s", call, cudaGetErrorString(e));
}

/* ---- convolutions ---- */

static gpu__libraries_t libraries;
static ct_dev_t dev;

static void open_dev(int autotune, const char *cache)
{
  fake_cuda_reset();
  dev = (ct_dev_t){.libraries = &libraries, .autotune = autotune, .workspace = (size_t)256 * MIB};
  if (cache) CT_ASSERT_OK(gpu__choices_open("a GPU", cache, &dev.choices));
}

static void close_dev(void)
{
  gpu__conv_plans_free(libraries.conv_plans);
  libraries.conv_plans = NULL;
  gpu__choices_save(dev.choices);
  gpu__choices_close(dev.choices);
  dev.choices = NULL;
  CT_ASSERT_INT(fake_cuda_alive(), 0);
}

/* 3x3 filters of 8 elements at least, on 8x8 images. */
static ct_op_desc_t conv(int passes, ct_dtype_t type)
{
  ct_op_desc_t d;
  ct_shape_t x = ct_shape(4, 2, 2, 8, 8), y = ct_shape(4, 2, 4, 8, 8);
  x.dtype = y.dtype = type;
  ct_op_desc_init(&d, CT_OP_CONV, &x, &y);
  for (int i = 0; i < 2; i++) {
    d.u.conv.kernel[i] = 3;
    d.u.conv.stride[i] = d.u.conv.pad[i] = d.u.conv.dilate[i] = 1;
  }
  d.u.conv.groups = 1;
  d.passes = passes;
  return d;
}

/* The engine that a forward pass gets, or -1; *scratch may be NULL. */
static int engine_for(const ct_op_desc_t *d, size_t *scratch)
{
  gpu__conv_t *c = NULL;
  gpu__conv_pass_t p = {.d = d, .pass = CT_FWD};
  const gpu__conv_algo_t *algo = NULL;
  const char *algorithm;
  size_t bytes = 0;
  if (gpu__conv_make(&dev, d, &c, &bytes, &algorithm) != CT_OK) return -1;
  CT_ASSERT_OK(gpu__conv_algo(&dev, &p, &algo));
  if (scratch) *scratch = bytes;
  gpu__conv_free(c);
  return algo ? engine_of(algo->plan.plan) : -1;
}

/* ---- choices ---- */

static void the_first_that_can_is_taken(void)
{
  ct_op_desc_t d = conv(CT_FWD, CT_F16);
  script((engine_t[]){{.notes = nondeterministic}, {.no_plan = 1}, {.ms = 9}, {.ms = 0}}, 4);
  open_dev(0, NULL);
  CT_ASSERT_INT(engine_for(&d, NULL), 2);
  CT_ASSERT_INT(dnn.runs, 0);
  close_dev();
}

static void float32_is_float32_unless_tf32_is_allowed(void)
{
  ct_op_desc_t d = conv(CT_FWD, CT_F32);
  script((engine_t[]){{.notes = 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, {.ms = 0}}, 2);
  open_dev(0, NULL);
  CT_ASSERT_INT(engine_for(&d, NULL), 1);
  close_dev();
  dev.tf32 = 1;
  gpu__conv_pass_t p = {.d = &d, .pass = CT_FWD, .tf32 = 1};
  const gpu__conv_algo_t *algo = NULL;
  CT_ASSERT_OK(gpu__conv_algo(&dev, &p, &algo));
  CT_ASSERT_INT(algo ? engine_of(algo->plan.plan) : -1, 0);
  close_dev();
}

static void the_fastest_is_measured(void)
{
  ct_op_desc_t d = conv(CT_FWD, CT_F16);
  size_t scratch = 0;
  script((engine_t[]){{.ms = 12, .workspace = 100},
                      {.fails = 1},
                      {.ms = 1, .workspace = 300},
                      {.ms = 60},
                      {.notes = nondeterministic}},
         5);
  open_dev(1, NULL);
  CT_ASSERT_INT(engine_for(&d, &scratch), 2);
  CT_ASSERT_INT(scratch, 300);
  CT_ASSERT_INT(dnn.runs, 4 + 1 + 4 + 2); /* slow ones run once, after a warm-up */
  close_dev();
}

static void a_large_workspace_is_the_last_resort(void)
{
  ct_op_desc_t d = conv(CT_FWD, CT_F16);
  script((engine_t[]){{.workspace = (size_t)900 * MIB}, {.workspace = (size_t)256 * MIB}}, 2);
  open_dev(0, NULL);
  CT_ASSERT_INT(engine_for(&d, NULL), 1);
  close_dev();
  script((engine_t[]){{.workspace = (size_t)900 * MIB},
                      {.workspace = (size_t)300 * MIB},
                      {.workspace = (size_t)600 * MIB}},
         3);
  open_dev(0, NULL);
  CT_ASSERT_INT(engine_for(&d, NULL), 1);
  close_dev();
}

/* Engines of last resort come after the others, each engine once. */
static void engines_of_last_resort_are_candidates_too(void)
{
  ct_op_desc_t d = conv(CT_FWD, CT_F16);
  gpu__conv_pass_t p = {.d = &d, .pass = CT_FWD};
  gpu__conv_algo_t algo[ENGINES];
  static const int order[] = {1, 3, 0, 4};
  int n = 0;
  script((engine_t[]){{.last_resort = 1},
                      {.last_resort = 2},
                      {.workspace = (size_t)900 * MIB, .last_resort = 2},
                      {.ms = 0},
                      {.last_resort = 1}},
         5);
  open_dev(0, NULL);
  gpu__dnn_target_t t = gpu__conv_target(&dev);
  CT_ASSERT_OK(gpu__conv_algos(&t, &p, 0, ENGINES, algo, &n));
  CT_ASSERT_INT(n, 4);
  for (int i = 0; i < n; i++) {
    CT_ASSERT_INT(algo[i].engine, order[i]);
    CT_ASSERT_INT(algo[i].last_resort, i >= 2);
    gpu__dnn_plan_clear(&algo[i].plan);
  }
  close_dev();
}

/* An engine of last resort that adds the bias does not replace a good one that leaves it to us. */
static void a_bias_is_not_worth_a_last_resort(void)
{
  ct_op_desc_t d = conv(CT_FWD, CT_F16);
  d.u.conv.bias = 1;
  for (int i = 0; i < 2; i++) {
    script((engine_t[]){{.fused = 1, .last_resort = 1}, {.last_resort = i}}, 2);
    open_dev(0, NULL);
    CT_ASSERT_INT(engine_for(&d, NULL), i ? 0 : 1);
    close_dev();
  }
}

static void the_library_keeps_its_choice_unless_another_is_clearly_faster(void)
{
  const float same[] = {1, 0.98F, 0.975F}, faster[] = {1, 0.96F, 0.95F, 2};
  const float broken[] = {INFINITY, 3, 2}, none[] = {INFINITY, INFINITY};
  CT_ASSERT_INT(gpu__choices_fastest(same, 3), 0);
  CT_ASSERT_INT(gpu__choices_fastest(faster, 4), 2);
  CT_ASSERT_INT(gpu__choices_fastest(broken, 3), 2);
  CT_ASSERT_INT(gpu__choices_fastest(none, 2), -1);
  CT_ASSERT_INT(gpu__choices_fastest(same, 0), -1);
}

static void without_memory_nothing_is_measured(void)
{
  ct_op_desc_t d = conv(CT_FWD, CT_F16);
  script((engine_t[]){{.ms = 9, .workspace = (size_t)100 * MIB}, {.ms = 0}}, 2);
  ct_str_t text = {0};
  char dir[CT_PATH_MAX];
  snprintf(dir, sizeof dir, "%s/no-memory", ct_test_dir());
  setenv("CTRAIN_FAKE_GPU_MEMORY", "1000000", 1);
  open_dev(1, dir);
  CT_ASSERT_INT(engine_for(&d, NULL), 0);
  CT_ASSERT_INT(dnn.runs, 0);
  CT_ASSERT_OK(gpu__choices_text(dev.choices, &text)); /* the other ranks do the same */
  CT_ASSERT_HAS(text.data, "forward, workspace 268435456fused 0, notes 0, engine 0");
  ct_str_clear(&text);
  close_dev();
  CT_ASSERT_INT(ct_file_is_dir(dir), 0);
  unsetenv("CTRAIN_FAKE_GPU_MEMORY");
}

static void what_has_no_plan_is_refused(void)
{
  ct_op_desc_t d = conv(CT_FWD | CT_BWD_PARAM, CT_F16);
  gpu__conv_t *c = NULL;
  size_t scratch;
  const char *algorithm;
  for (int autotune = 0; autotune < 2; autotune++) {
    script((engine_t[]){{.notes = nondeterministic}, {.no_plan = 1}}, 2);
    open_dev(autotune, NULL);
    CT_ASSERT_FAILS(gpu__conv_make(&dev, &d, &c, &scratch, &algorithm), CT_ERR_UNSUP,
                    "forward pass of conv 2x2x8x8");
    close_dev();
  }
}

static void the_algorithm_names_engines_and_workspaces(void)
{
  ct_op_desc_t d = conv(CT_FWD | CT_BWD_PARAM, CT_F16);
  gpu__conv_t *c = NULL;
  size_t scratch;
  const char *algorithm = "";
  script((engine_t[]){{.notes = nondeterministic},
                      {.workspace = 12000000, .notes = 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD}},
         2);
  open_dev(0, NULL);
  CT_ASSERT_OK(gpu__conv_make(&dev, &d, &c, &scratch, &algorithm));
  CT_ASSERT_TEXT(algorithm, "cuDNN, winograd, low gradient, forward 1 (12 MB), weight 1 (12 MB)");
  gpu__conv_free(c);
  close_dev();
}

static void equal_layers_share_a_plan(void)
{
  ct_op_desc_t d = conv(CT_FWD | CT_BWD_DATA, CT_F16), other = d;
  script((engine_t[]){{.ms = 0}, {.fused = 1}}, 2);
  open_dev(0, NULL);
  engine_for(&d, NULL);
  CT_ASSERT_INT(dnn.made, 2);
  engine_for(&d, NULL);
  CT_ASSERT_INT(dnn.made, 2);
  other.u.conv.bias = 1; /* is nothing to the backward pass */
  CT_ASSERT_INT(engine_for(&other, NULL), 1);
  CT_ASSERT_INT(dnn.made, 3);
  close_dev();
}

static void what_was_measured_is_kept(void)
{
  ct_op_desc_t d = conv(CT_FWD, CT_F16);
  const engine_t engines[] = {{.ms = 9}, {.ms = 0}};
  char dir[CT_PATH_MAX];
  snprintf(dir, sizeof dir, "%s/plans", ct_test_dir());
  for (int process = 0; process < 3; process++) {
    script(engines, 2);
    open_dev(process < 2, dir);
    CT_ASSERT_INT(engine_for(&d, NULL), process < 2 ? 1 : 0); /* the third does not ask for it */
    CT_ASSERT_INT(dnn.runs, process == 0 ? 8 : 0);
    close_dev();
  }
  script(engines, 2);
  open_dev(1, "/dev/null/plans");
  CT_ASSERT_INT(engine_for(&d, NULL), 1);
  close_dev();
}

/* ---- runs ---- */

enum { X, W, Y, BIAS, SCRATCH, BLOCKS };

/* Device memory, all of it 1 in float32. */
static void memory(float *block[BLOCKS])
{
  float one[1024];
  for (int i = 0; i < 1024; i++)
    one[i] = 1;
  for (int i = 0; i < BLOCKS; i++) {
    CT_ASSERT_INT(cudaMalloc((void **)&block[i], sizeof one), cudaSuccess);
    cudaMemcpy(block[i], one, sizeof one, cudaMemcpyHostToDevice);
  }
}

static void free_all(float *block[BLOCKS], gpu__conv_t *c)
{
  gpu__conv_free(c);
  for (int i = 0; i < BLOCKS; i++)
    cudaFree(block[i]);
  close_dev();
}

static gpu__conv_t *make(const ct_op_desc_t *d, size_t *scratch)
{
  gpu__conv_t *c = NULL;
  const char *algorithm;
  CT_ASSERT_OK(gpu__conv_make(&dev, d, &c, scratch, &algorithm));
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  return c;
}

/* Through scratch, behind the workspace. */
static void low_gradients_become_float32(void)
{
  ct_op_desc_t d = conv(CT_BWD_PARAM, CT_BF16);
  float *m[BLOCKS], dw[8];
  size_t scratch = 0;
  script((engine_t[]){{.workspace = 1000}}, 1);
  open_dev(0, NULL);
  memory(m);
  gpu__conv_t *c = make(&d, &scratch);
  CT_ASSERT_INT(scratch, 1024 + 4 * 2 * 9 * 2);
  CT_ASSERT_OK(gpu__conv_backward_weight(c, m[X], m[Y], m[W], m[SCRATCH], 0));
  CT_ASSERT_INT(cudaMemcpy(dw, m[W], sizeof dw, cudaMemcpyDeviceToHost), cudaSuccess);
  for (int i = 0; i < 8; i++)
    CT_ASSERT_NEAR(dw[i], i + 1, 0);
  CU_ASSERT_PTR_EQUAL(dnn.at[GPU_CONV_X - 1], m[X]);
  CU_ASSERT_PTR_EQUAL(dnn.at[GPU_CONV_Y - 1], m[Y]);
  CU_ASSERT_PTR_EQUAL(dnn.workspace, m[SCRATCH]);
  free_all(m, c);
}

/* y is 1, and the engine does not write it: what a kernel adds is seen. */
static void bias_and_relu_follow_where_they_are_not_fused(void)
{
  static const struct {
    int bias, relu, engine, pointers;
    float y;
  } rows[] = {{0, 0, 0, 3, 1}, {1, 0, 1, 4, 1}, {0, 1, 0, 3, 1}, {1, 1, 0, 3, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    ct_op_desc_t d = conv(CT_FWD, CT_F32);
    float *m[BLOCKS], y;
    size_t scratch;
    script((engine_t[]){{.fused = 0}, {.fused = 1}}, 2);
    open_dev(0, NULL);
    memory(m);
    d.u.conv.bias = rows[i].bias;
    d.u.conv.relu = rows[i].relu;
    gpu__conv_t *c = make(&d, &scratch);
    CT_ASSERT_OK(gpu__conv_forward(c, m[X], m[W], m[BIAS], m[Y], m[SCRATCH], 0));
    CT_ASSERT_INT(cudaMemcpy(&y, m[Y], sizeof y, cudaMemcpyDeviceToHost), cudaSuccess);
    CT_ASSERT_INT(dnn.ran[0], rows[i].engine);
    CT_ASSERT_INT(dnn.pointers, rows[i].pointers);
    CT_ASSERT_NEAR(y, rows[i].y, 0);
    free_all(m, c);
  }
}

static void without_samples_gradients_are_zero(void)
{
  ct_op_desc_t d = conv(CT_FWD | CT_BWD_DATA | CT_BWD_PARAM, CT_F32);
  float *m[BLOCKS], dw[4 * 2 * 9 + 1];
  size_t scratch;
  script(NULL, 0);
  open_dev(0, NULL);
  memory(m);
  d.x.dim[0] = d.y.dim[0] = 0;
  gpu__conv_t *c = make(&d, &scratch);
  CT_ASSERT_OK(gpu__conv_forward(c, m[X], m[W], NULL, m[Y], m[SCRATCH], 0));
  CT_ASSERT_OK(gpu__conv_backward_data(c, m[Y], m[W], m[X], m[SCRATCH], 0));
  CT_ASSERT_OK(gpu__conv_backward_weight(c, m[X], m[Y], m[W], m[SCRATCH], 0));
  CT_ASSERT_INT(cudaMemcpy(dw, m[W], sizeof dw, cudaMemcpyDeviceToHost), cudaSuccess);
  for (int i = 0; i <= 4 * 2 * 9; i++)
    CT_ASSERT_NEAR(dw[i], i == 4 * 2 * 9, 0);
  CT_ASSERT_INT(dnn.runs, 0);
  free_all(m, c);
}

static void nothing_is_lost(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(the_first_that_can_is_taken),
      CT_TEST(float32_is_float32_unless_tf32_is_allowed),
      CT_TEST(the_fastest_is_measured),
      CT_TEST(a_large_workspace_is_the_last_resort),
      CT_TEST(engines_of_last_resort_are_candidates_too),
      CT_TEST(a_bias_is_not_worth_a_last_resort),
      CT_TEST(the_library_keeps_its_choice_unless_another_is_clearly_faster),
      CT_TEST(without_memory_nothing_is_measured),
      CT_TEST(what_has_no_plan_is_refused),
      CT_TEST(the_algorithm_names_engines_and_workspaces),
      CT_TEST(equal_layers_share_a_plan),
      CT_TEST(what_was_measured_is_kept),
      CT_TEST(low_gradients_become_float32),
      CT_TEST(bias_and_relu_follow_where_they_are_not_fused),
      CT_TEST(without_samples_gradients_are_zero),
      CT_TEST(nothing_is_lost),
      CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR); /* not the warning about files that cannot be written */
  return ct_test_main("convolutions' plans", tests, argc, argv);
}
