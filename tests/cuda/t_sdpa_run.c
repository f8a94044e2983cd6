/* How attention keeps and runs its plans, on an invented cuDNN. That cuDNN itself makes plans is
 * t_sdpa's to see. */
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "cuda/attention/sdpa_plan.h"
#include "cuda/gpu.h"
#include "cuda/library_handles.h"
#include "tests/cuda/emu/fake_cuda.h"
#include "tests/harness/ct_test.h"

/* ---- the invented cuDNN ---- */

/* Plans and runs so far, and what the last run was given. */
static struct {
  int has_none[2]; /* forward and backward have no plan */
  int made, runs, back, sm, pointers;
  void *at[GPU_DNN_POINTERS], *workspace;
} dnn;

int gpu__sdpa_fits(const gpu__sdpa_spec_t *spec)
{
  return spec->type != CT_F32;
}

/* The plan's descriptor is the pass. */
int gpu__sdpa_plan(const gpu__dnn_target_t *t, const gpu__sdpa_spec_t *spec, size_t version,
                   gpu__dnn_plan_t *out)
{
  int *pass;
  (void)t, (void)version;
  dnn.made++;
  dnn.sm = spec->sm;
  if (dnn.has_none[spec->back]) return ct_err_set(CT_ERR_UNSUP, __FILE__, __LINE__, "no plan");
  pass = ct_mem_alloc(sizeof *pass, "test");
  *pass = spec->back;
  *out = (gpu__dnn_plan_t){.plan = pass, .workspace = spec->back ? 700 : 20};
  return CT_OK;
}

void gpu__dnn_plan_clear(gpu__dnn_plan_t *p)
{
  ct_mem_free(p->plan);
}

int gpu__dnn_run(cudnnHandle_t handle, const gpu__dnn_plan_t *p, gpu__dnn_memory_t *m, int n,
                 void *const at[], void *workspace, cudaStream_t s)
{
  (void)handle, (void)m, (void)s;
  dnn.runs++;
  dnn.back = *(int *)p->plan;
  dnn.pointers = n;
  memcpy(dnn.at, at, (size_t)n * sizeof *at);
  dnn.workspace = workspace;
  return CT_OK;
}

void gpu__dnn_memory_clear(gpu__dnn_memory_t *m)
{
  (void)m;
}

size_t cudnnGetVersion(void)
{
  return 91900;
}

int gpu__check(cudaError_t e, const char *call, const char *file, int line)
{
  if (e == cudaSuccess) return CT_OK;
  return ct_err_set(CT_ERR_DEVICE, file, line, "%s: %s", call, cudaGetErrorString(e));
}

/* ---- tests ---- */

static gpu__libraries_t libraries;
static ct_dev_t dev;
static const gpu__attention_t shape = {.n = 2, .t = 5, .heads = 3, .wide = 16};

static void open_dev(void)
{
  fake_cuda_reset();
  memset(&dnn, 0, sizeof dnn);
  dev = (ct_dev_t){.libraries = &libraries, .sm = 90};
}

static void close_dev(void)
{
  gpu__sdpa_plans_free(libraries.sdpa_plans);
  libraries.sdpa_plans = NULL;
  CT_ASSERT_INT(ct_mem_live(), 0);
}

static gpu__sdpa_t *make(ct_dtype_t type, const gpu__attention_t *a, int back, size_t workspace)
{
  gpu__sdpa_t *p = NULL;
  size_t scratch = 1;
  CT_ASSERT_OK(gpu__sdpa_make(&dev, type, a, back, &p, &scratch));
  if (p) CT_ASSERT_INT((int)scratch, (int)workspace);
  return p;
}

static void equal_layers_share_plans(void)
{
  gpu__attention_t longer = shape;
  gpu__sdpa_t *p[5];
  longer.t++;
  open_dev();
  p[0] = make(CT_BF16, &shape, 1, 700);
  CT_ASSERT_INT(dnn.made, 2);
  CT_ASSERT_INT(dnn.sm, 90);
  p[1] = make(CT_BF16, &shape, 1, 700);
  p[2] = make(CT_BF16, &shape, 0, 20);
  CT_ASSERT_INT(dnn.made, 2);
  p[3] = make(CT_F16, &shape, 0, 20);
  CT_ASSERT_INT(dnn.made, 3);
  p[4] = make(CT_BF16, &longer, 1, 700);
  CT_ASSERT_INT(dnn.made, 5);
  for (int i = 0; i < 5; i++) {
    CU_ASSERT_PTR_NOT_NULL(p[i]);
    gpu__sdpa_free(p[i]);
  }
  close_dev();
}

/* Each pass is searched once, though twelve layers ask. */
static void without_a_plan_there_is_no_attention(void)
{
  open_dev();
  CU_ASSERT_PTR_NULL(make(CT_F32, &shape, 1, 0));
  CT_ASSERT_INT(dnn.made, 0);
  dnn.has_none[1] = 1;
  for (int i = 0; i < 12; i++)
    CU_ASSERT_PTR_NULL(make(CT_BF16, &shape, 1, 0));
  CT_ASSERT_INT(dnn.made, 2);
  gpu__sdpa_t *inference = make(CT_BF16, &shape, 0, 20);
  CU_ASSERT_PTR_NOT_NULL(inference);
  CT_ASSERT_INT(dnn.made, 2);
  gpu__sdpa_free(inference);
  close_dev();
}

/* Parts of qkv are 3 * 16 elements of two bytes apart. */
static void plans_get_each_tensor(void)
{
  enum { PART = 96 };
  static char qkv[3 * PART], dqkv[3 * PART], c[1], dc[1], work[1];
  static float stats[1], sums[1];
  open_dev();
  gpu__sdpa_t *p = make(CT_F16, &shape, 1, 700);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  gpu__attention_io_t io = gpu__attention_packed(CT_F16, &shape, qkv, dqkv);
  io.y = c;
  io.dy = dc;
  io.stats = stats;
  io.sums = sums;
  CT_ASSERT_OK(gpu__sdpa_forward(p, &io, work, 0));
  CT_ASSERT_INT(dnn.back, 0);
  CT_ASSERT_INT(dnn.pointers, GPU_SDPA_FORWARD_IDS);
  CU_ASSERT(dnn.at[GPU_SDPA_Q - 1] == qkv && dnn.at[GPU_SDPA_K - 1] == qkv + PART);
  CU_ASSERT(dnn.at[GPU_SDPA_V - 1] == qkv + 2 * PART && dnn.at[GPU_SDPA_C - 1] == c);
  CU_ASSERT(dnn.at[GPU_SDPA_STATS - 1] == stats && dnn.workspace == work);
  CT_ASSERT_NEAR(*(float *)dnn.at[GPU_SDPA_SCALE - 1], 0.25, 0);
  CT_ASSERT_OK(gpu__sdpa_backward(p, &io, work, 0));
  CT_ASSERT_INT(dnn.back, 1);
  CT_ASSERT_INT(dnn.pointers, GPU_SDPA_BACKWARD_IDS);
  CU_ASSERT(dnn.at[GPU_SDPA_Q - 1] == qkv && dnn.at[GPU_SDPA_V - 1] == qkv + 2 * PART);
  CU_ASSERT(dnn.at[GPU_SDPA_C - 1] == c && dnn.at[GPU_SDPA_DC - 1] == dc);
  CU_ASSERT(dnn.at[GPU_SDPA_DQ - 1] == dqkv && dnn.at[GPU_SDPA_DK - 1] == dqkv + PART);
  CU_ASSERT(dnn.at[GPU_SDPA_DV - 1] == dqkv + 2 * PART && dnn.at[GPU_SDPA_SUMS - 1] == sums);
  CT_ASSERT_NEAR(*(float *)dnn.at[GPU_SDPA_SCALE - 1], 0.25, 0);
  CT_ASSERT_NEAR(*(float *)dnn.at[GPU_SDPA_ONE - 1], 1, 0);
  CT_ASSERT_INT(dnn.runs, 2);
  gpu__sdpa_free(p);
  close_dev();
}

/* The score of hidden keys is the last tensor of a causal pass. */
static void causal_plans_get_a_number_more(void)
{
  static char qkv[1], dqkv[1], work[1];
  gpu__attention_t causal = shape;
  causal.causal = 1;
  open_dev();
  gpu__sdpa_t *p = make(CT_F16, &causal, 1, 700), *other = make(CT_F16, &shape, 1, 700);
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  CT_ASSERT_INT(dnn.made, 4);
  gpu__attention_io_t io = gpu__attention_packed(CT_F16, &causal, qkv, dqkv);
  CT_ASSERT_OK(gpu__sdpa_forward(p, &io, work, 0));
  CT_ASSERT_INT(dnn.pointers, GPU_SDPA_FORWARD_IDS + 1);
  CU_ASSERT(*(float *)dnn.at[GPU_SDPA_FORWARD_IDS] < -1e38f);
  CT_ASSERT_OK(gpu__sdpa_backward(p, &io, work, 0));
  CT_ASSERT_INT(dnn.pointers, GPU_SDPA_BACKWARD_IDS + 1);
  CU_ASSERT(*(float *)dnn.at[GPU_SDPA_BACKWARD_IDS] < -1e38f);
  gpu__sdpa_free(p);
  gpu__sdpa_free(other);
  close_dev();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {
      CT_TEST(equal_layers_share_plans), CT_TEST(without_a_plan_there_is_no_attention),
      CT_TEST(plans_get_each_tensor), CT_TEST(causal_plans_get_a_number_more), CT_TEST_END};
  ct_log_setup(0, 1, CT_LOG_ERROR); /* not the warning about slower kernels */
  return ct_test_main("runs of attention", tests, argc, argv);
}
