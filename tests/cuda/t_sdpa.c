/* Attention on cuDNN, as far as it can be tried without a GPU: cuDNN makes its plans for a device
 * from its properties alone (tests/cuda/deviceprop). It compiles the kernels then, for which it
 * loads a driver: where there is none, fake_driver.c. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "cuda/attention/sdpa_plan.h"
#include "tests/harness/ct_test.h"

/* Asked by the address sanitizer: cuDNN leaves memory behind in libraries that it has unloaded, so
 * that they cannot be named to the leak check. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
  return "detect_leaks=0";
}

static const struct {
  const char *name;
  int sm;
} arch[] = {{"a100", 80}, {"h100", 90}, {"b200", 100}};
enum { ARCHS = sizeof arch / sizeof *arch, HOPPER = 1 };
static gpu__dnn_target_t target[ARCHS];

static void load_driver(void)
{
  char path[CT_PATH_MAX];
  const char *build = getenv("CT_BUILD");
  if (dlopen("libcuda.so.1", RTLD_NOW)) return;
  snprintf(path, sizeof path, "%s/tests/cuda/fake_driver.so", build ? build : ".");
  if (!dlopen(path, RTLD_NOW)) printf("# %s\n", dlerror());
}

/* Returns 1 if cuDNN can load the compiler of its kernels; else skips the test. */
static int has_compiler(void)
{
  char name[32];
  snprintf(name, sizeof name, "libnvrtc.so.%d", CUDART_VERSION / 1000);
  if (dlopen(name, RTLD_NOW)) return 1;
  ct_test_skip("no NVRTC");
  return 0;
}

static void open_targets(void)
{
  char path[CT_PATH_MAX], *json = NULL;
  size_t bytes;
  const char *source = getenv("CT_SRC");
  for (int i = 0; i < ARCHS; i++) {
    snprintf(path, sizeof path, "%s/tests/cuda/deviceprop/%s.json", source ? source : ".",
             arch[i].name);
    CT_ASSERT_OK(ct_file_read(path, &json, &bytes));
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    CT_ASSERT_OK(gpu__dnn_properties(json, &target[i].properties));
    CU_ASSERT_PTR_NOT_NULL_FATAL(target[i].properties);
    ct_mem_free(json);
  }
}

/* Samples, tokens, heads, features of a head. */
static const gpu__attention_t vit = {.n = 256, .t = 197, .heads = 12, .wide = 64},
                              tiny = {.n = 3, .t = 2, .heads = 1, .wide = 8},
                              odd = {.n = 2, .t = 65, .heads = 3, .wide = 24},
                              wide = {.n = 2, .t = 50, .heads = 2, .wide = 128},
                              huge = {.n = 1, .t = 33, .heads = 1, .wide = 256};

static gpu__sdpa_spec_t spec_of(ct_dtype_t type, const gpu__attention_t *a, int back, int sm)
{
  return (gpu__sdpa_spec_t){.type = type, .shape = *a, .back = back, .sm = sm};
}

static int has_plan(int where, ct_dtype_t type, const gpu__attention_t *a, int back,
                    size_t *workspace)
{
  gpu__sdpa_spec_t spec = spec_of(type, a, back, arch[where].sm);
  gpu__dnn_plan_t plan = {.plan = NULL};
  CT_ASSERT_INT(gpu__sdpa_fits(&spec), 1);
  if (gpu__sdpa_plan(&target[where], &spec, cudnnGetVersion(), &plan) != CT_OK) {
    printf("# %s, %d tokens, heads of %d, back %d: %s\n", arch[where].name, (int)a->t, (int)a->wide,
           back, ct_err_last()->text);
    return 0;
  }
  *workspace = plan.workspace;
  gpu__dnn_plan_clear(&plan);
  return 1;
}

/* Both passes. Forward needs no workspace; backward at most that of one gradient for each score in
 * tiles of 64 x 64, and some numbers for each query. */
static void check_plans(int where, ct_dtype_t type, const gpu__attention_t *a)
{
  int64_t t = (a->t + 63) / 64 * 64, heads = a->n * a->heads;
  size_t forward = 0, backward = 0;
  CU_ASSERT(has_plan(where, type, a, 0, &forward));
  CU_ASSERT(has_plan(where, type, a, 1, &backward));
  CU_ASSERT(forward <= 1 << 20);
  CU_ASSERT(backward <= (size_t)(heads * (t * t * 2 + t * 64)) + (1 << 20));
}

static void attention_has_plans(void)
{
  static const gpu__attention_t *const others[ARCHS] = {&odd, &tiny, &wide};
  if (!has_compiler()) return;
  for (int i = 0; i < ARCHS; i++) {
    check_plans(i, CT_BF16, &vit);
    check_plans(i, CT_F16, others[i]);
  }
}

/* GPT-2's heads, and more keys than queries. */
static void causal_attention_has_plans(void)
{
  gpu__attention_t gpt = {.n = 8, .t = 1024, .heads = 12, .wide = 64, .causal = 1}, more = odd;
  if (!has_compiler()) return;
  more.s = 70;
  more.causal = 1;
  for (int i = 0; i < ARCHS; i++) {
    check_plans(i, CT_BF16, &gpt);
    check_plans(i, CT_F16, &more);
  }
}

static void hopper_takes_large_heads(void)
{
  size_t bytes;
  for (int i = 0; i < ARCHS; i++) {
    gpu__sdpa_spec_t spec = spec_of(CT_BF16, &huge, 1, arch[i].sm);
    CT_ASSERT_INT(gpu__sdpa_fits(&spec), i == HOPPER);
  }
  if (!has_compiler()) return;
  CU_ASSERT(has_plan(HOPPER, CT_BF16, &huge, 0, &bytes));
  CU_ASSERT(has_plan(HOPPER, CT_BF16, &huge, 1, &bytes));
}

static void other_attention_is_left_to_the_kernels(void)
{
  static const gpu__attention_t one = {.n = 2, .t = 1, .heads = 2, .wide = 64},
                                uneven = {.n = 2, .t = 7, .heads = 2, .wide = 12},
                                none = {.n = 0, .t = 7, .heads = 2, .wide = 8};
  gpu__sdpa_spec_t no[] = {spec_of(CT_F32, &vit, 0, 90), spec_of(CT_F16, &vit, 0, 75),
                           spec_of(CT_BF16, &one, 1, 90), spec_of(CT_BF16, &uneven, 0, 90),
                           spec_of(CT_BF16, &none, 0, 90)};
  for (size_t i = 0; i < sizeof no / sizeof *no; i++)
    CT_ASSERT_INT(gpu__sdpa_fits(&no[i]), 0);
}

/* Backward read out of bounds in 9.15.0; Blackwell's is deterministic from 9.18 on. */
static void old_versions_are_refused(void)
{
  gpu__sdpa_spec_t hopper = spec_of(CT_BF16, &tiny, 1, 90),
                   blackwell = spec_of(CT_BF16, &tiny, 1, 100);
  gpu__dnn_plan_t plan;
  CT_ASSERT_FAILS(gpu__sdpa_plan(&target[HOPPER], &hopper, 91500, &plan), CT_ERR_UNSUP,
                  "cuDNN 9.15.1");
  CT_ASSERT_FAILS(gpu__sdpa_plan(&target[2], &blackwell, 91701, &plan), CT_ERR_UNSUP,
                  "cuDNN 9.18.0");
  CU_ASSERT_PTR_NULL(plan.plan);
}

static void what_cudnn_cannot_do_is_said(void)
{
  static const gpu__attention_t uneven = {.n = 2, .t = 7, .heads = 2, .wide = 12};
  gpu__sdpa_spec_t spec = spec_of(CT_BF16, &uneven, 0, 90);
  gpu__dnn_plan_t plan;
  CT_ASSERT_FAILS(gpu__sdpa_plan(&target[HOPPER], &spec, cudnnGetVersion(), &plan), CT_ERR_UNSUP,
                  "none of its 0 plans works");
}

static void memory_is_freed(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(open_targets),
                                    CT_TEST(attention_has_plans),
                                    CT_TEST(causal_attention_has_plans),
                                    CT_TEST(hopper_takes_large_heads),
                                    CT_TEST(other_attention_is_left_to_the_kernels),
                                    CT_TEST(old_versions_are_refused),
                                    CT_TEST(what_cudnn_cannot_do_is_said),
                                    CT_TEST(memory_is_freed),
                                    CT_TEST_END};
  load_driver();
  int rc = ct_test_main("attention on cuDNN", tests, argc, argv);
  for (int i = 0; i < ARCHS; i++)
    gpu__dnn_free(target[i].properties);
  return rc;
}
