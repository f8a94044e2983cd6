/* Convolutions on cuDNN, as far as they can be tried without a GPU: cuDNN makes plans for a device
 * from its properties alone (tests/cuda/deviceprop).  A sample of what the model families need;
 * with CT_DNN_ALL=1 in the environment everything, on every architecture and in every type, which
 * takes a minute or two. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_file.h"
#include "base/ct_mem.h"
#include "cuda/conv/conv_plan.h"
#include "cuda/gpu.h"
#include "plan/ct_plan.h"
#include "ref/ct_ref.h"
#include "tests/harness/ct_test.h"

/* Asked by the address sanitizer: cuDNN leaves memory behind in libraries that it has unloaded, so
 * that they cannot be named to the leak check. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
  return "detect_leaks=0";
}

static const char *const arch_name[] = {"a100", "h100", "b200"}; /* sm_80, 90, 100 */
enum { ARCHS = 3, A100 = 0, H100 = 1, TYPES = 3, PASSES = 3, MOST = 1000 };
static const ct_dtype_t types[TYPES] = {CT_F32, CT_F16, CT_BF16};
static gpu__dnn_target_t target[ARCHS];

/* A device that is not there, to make plans for. */
static const gpu__dnn_target_t *on(int arch)
{
  char path[CT_PATH_MAX], *json = NULL;
  size_t bytes;
  const char *source = getenv("CT_SRC");
  if (target[arch].properties) return &target[arch];
  snprintf(path, sizeof path, "%s/tests/cuda/deviceprop/%s.json", source ? source : ".",
           arch_name[arch]);
  CT_ASSERT_OK(ct_file_read(path, &json, &bytes));
  CU_ASSERT_PTR_NOT_NULL_FATAL(json);
  CT_ASSERT_OK(gpu__dnn_properties(json, &target[arch].properties));
  CU_ASSERT_PTR_NOT_NULL_FATAL(target[arch].properties);
  const char *memory = strstr(json, "\"totalGlobalMem\":");
  CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
  target[arch].workspace = gpu__workspace_limit(strtoull(strchr(memory, ':') + 1, NULL, 10));
  ct_mem_free(json);
  return &target[arch];
}

/* ---- which convolutions there are ---- */

static const struct {
  ct_model_opts_t model;
  int ndim;
  int64_t dim[CT_MAX_DIMS];
} models[] = {
    {{.family = "lenet"}, 4, {1, 1, 28, 28}},
    {{.family = "lenet"}, 4, {1, 1, 8, 8}},
    {{.family = "resnet", .depth = 20}, 4, {1, 3, 32, 32}},
    {{.family = "resnet", .depth = 18}, 4, {1, 3, 32, 32}},
    {{.family = "resnet", .depth = 18}, 4, {1, 3, 224, 224}},
    {{.family = "resnet", .depth = 50}, 4, {1, 3, 224, 224}},
    {{.family = "vgg", .depth = 11}, 4, {1, 3, 224, 224}},
    {{.family = "vgg_bn", .depth = 16}, 4, {1, 3, 32, 32}},
    {{.family = "densenet", .depth = 121}, 4, {1, 3, 224, 224}},
    {{.family = "mobilenet_v2"}, 4, {1, 3, 224, 224}},
    {{.family = "cosmoflow"}, 5, {1, 4, 128, 128, 128}},
    {{.family = "cosmoflow"}, 5, {1, 4, 16, 16, 16}},
    {{.family = "vit", .depth = 2, .patch = {16, 16}, .dim = 768, .heads = 12},
     4,
     {1, 3, 224, 224}},
    {{.family = "vit", .depth = 2, .patch = {4, 4}, .dim = 64, .heads = 4}, 4, {1, 1, 28, 28}},
};
enum { MODELS = sizeof models / sizeof *models };

static ct_op_desc_t found[MOST];
static int founds;

static void add_once(const ct_op_desc_t *d)
{
  for (int i = 0; i < founds; i++)
    if (!memcmp(&found[i], d, sizeof *d)) return;
  CU_ASSERT_FATAL(founds < MOST);
  found[founds++] = *d;
}

/* The planner says which passes there are, and what is fused. */
static void gather(int i, int batch)
{
  ct_graph_t *g = NULL;
  ct_plan_t *p = NULL;
  ct_dev_t *dev = NULL;
  ct_model_opts_t m = models[i].model;
  ct_shape_t input = ct_shape_dims(models[i].ndim, models[i].dim);
  m.dropout = -1;
  CT_ASSERT_OK(ct_backend_ref.open(&(ct_dev_opts_t){.threads = 1}, &dev));
  CT_ASSERT_OK(ct_graph_make(&m, &input, NULL, 10, "test", &g));
  CU_ASSERT_PTR_NOT_NULL_FATAL(g);
  CT_ASSERT_OK(ct_plan_make(g, &ct_backend_ref, dev, &(ct_plan_opts_t){.n = batch, .training = 1},
                            NULL, &p));
  CU_ASSERT_PTR_NOT_NULL_FATAL(p);
  for (int k = 0; k < p->ops; k++)
    if (p->op[k].desc.kind == CT_OP_CONV) add_once(&p->op[k].desc);
  ct_plan_free(p);
  ct_graph_free(g);
  ct_backend_ref.close(dev);
}

/* ---- plans ---- */

static unsigned bit(cudnnBackendNumericalNote_t note)
{
  return 1u << note;
}

static void check_notes(const ct_op_desc_t *d, unsigned notes)
{
  CU_ASSERT(!(notes & bit(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)));
  CU_ASSERT(!(notes & bit(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)));
  if (d->x.dtype != CT_F32) return;
  CU_ASSERT(!(notes & bit(CUDNN_NUMERICAL_NOTE_TENSOR_CORE)));
  CU_ASSERT(!(notes & bit(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)));
}

static int tried;

static void has_plan(const gpu__dnn_target_t *t, const ct_op_desc_t *d, int pass)
{
  gpu__conv_pass_t p = {.d = d, .pass = pass};
  gpu__conv_algo_t algo = {.fused = 0};
  if (!(d->passes & pass)) return;
  tried++;
  if (CT_ASSERT_OK(gpu__conv_first_algo(t, &p, &algo))) return;
  check_notes(d, algo.notes);
  CU_ASSERT(algo.plan.workspace <= t->workspace);
  gpu__dnn_plan_clear(&algo.plan);
}

static void every_convolution_of_the_families_has_a_plan(void)
{
  const char *all = getenv("CT_DNN_ALL");
  int whole = all && *all && strcmp(all, "0");
  for (int i = 0; i < MODELS; i++) {
    gather(i, 8);
    if (whole) gather(i, 32);
  }
  for (int k = 0; k < founds * ARCHS * TYPES * PASSES; k++) {
    int pass = k % PASSES, type = k / PASSES % TYPES, arch = k / PASSES / TYPES % ARCHS;
    int conv = k / PASSES / TYPES / ARCHS;
    ct_op_desc_t d = found[conv];
    d.x.dtype = d.y.dtype = types[type];
    /* each pass of each convolution once */
    if (whole || ((conv + pass) % ARCHS == arch && (conv / ARCHS + pass) % TYPES == type))
      has_plan(on(arch), &d, 1 << pass);
  }
  printf("# %d plans of %d convolutions\n", tried, founds);
  CU_ASSERT(tried > 300);
}

/* A convolution of images, or of volumes if depth is not 0; the same in all directions. */
static ct_op_desc_t conv(int64_t channels, int64_t out, int64_t depth, int64_t size, int kernel,
                         int stride, int pad, int dilate, int groups)
{
  ct_op_desc_t d;
  int ndim = depth ? 5 : 4;
  ct_shape_t x = ct_shape(ndim, 3, channels, depth ? depth : size, size, depth ? size : 1), y = x;
  y.dim[1] = out;
  for (int i = 2; i < ndim; i++)
    y.dim[i] = ct_op_window_out(x.dim[i], kernel, stride, pad, dilate);
  ct_op_desc_init(&d, CT_OP_CONV, &x, &y);
  for (int i = 0; i < ndim - 2; i++) {
    d.u.conv.kernel[i] = kernel;
    d.u.conv.stride[i] = stride;
    d.u.conv.pad[i] = pad;
    d.u.conv.dilate[i] = dilate;
  }
  d.u.conv.groups = groups;
  d.passes = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM;
  return d;
}

/* t NULL: one architecture after the other. */
static void try_odd(const gpu__dnn_target_t *t)
{
  ct_op_desc_t odd[] = {
      conv(3, 5, 0, 17, 3, 2, 1, 1, 1),    conv(1, 1, 0, 1, 1, 1, 0, 1, 1),
      conv(7, 7, 0, 13, 3, 1, 2, 2, 7),    conv(17, 34, 0, 9, 5, 3, 2, 1, 17),
      conv(6, 9, 0, 8, 2, 1, 1, 1, 3),     conv(32, 32, 0, 14, 3, 1, 1, 1, 8),
      conv(5, 3, 5, 6, 3, 1, 2, 2, 1),     conv(6, 12, 4, 7, 2, 2, 0, 1, 3),
      conv(16, 16, 8, 8, 3, 1, 1, 1, 16),  conv(64, 64, 0, 3, 7, 1, 3, 1, 1),
      conv(129, 65, 0, 30, 1, 3, 0, 1, 1), conv(2, 4, 0, 40, 11, 4, 2, 1, 1),
  };
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
    for (int k = 0; k < TYPES * PASSES; k++) {
      odd[i].x.dtype = odd[i].y.dtype = types[k / PASSES];
      odd[i].u.conv.bias = i % 2;
      odd[i].u.conv.relu = i % 3 == 1;
      has_plan(t ? t : on((int)i % ARCHS), &odd[i], 1 << k % PASSES);
    }
}

static void odd_convolutions_have_plans(void)
{
  try_odd(NULL);
}

/* Prints cuDNN's properties of the GPU that is here, for tests/cuda/deviceprop. */
static int print_properties(void)
{
  cudnnHandle_t handle = NULL;
  gpu__dnn_desc_t d = NULL;
  char json[4096] = "";
  int64_t n = 0;
  int failed =
      cudnnCreate(&handle) ||
      cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d) ||
      cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle) ||
      cudnnBackendFinalize(d) ||
      cudnnBackendGetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                               sizeof json - 1, &n, json);
  if (failed)
    fprintf(stderr, "cuDNN does not tell the properties of a device\n");
  else
    printf("%s\n", json);
  gpu__dnn_free(d);
  if (handle) cudnnDestroy(handle);
  return failed;
}

static void the_gpu_that_is_here_has_plans_too(void)
{
  gpu__dnn_target_t here = {.workspace = gpu__workspace_limit(0)};
  if (cudnnCreate(&here.handle) != CUDNN_STATUS_SUCCESS) {
    ct_test_skip("no GPU");
    return;
  }
  try_odd(&here);
  cudnnDestroy(here.handle);
}

/* But not with a ReLU: cuDNN's loses NaN. */
static void a_bias_is_fused(void)
{
  ct_op_desc_t d = conv(16, 32, 0, 14, 3, 1, 1, 1, 1);
  gpu__conv_pass_t p = {.d = &d, .pass = CT_FWD};
  gpu__conv_algo_t algo = {.fused = 0};
  for (int i = 0; i < 3 * TYPES; i++) {
    d.x.dtype = d.y.dtype = types[i / 3];
    d.u.conv.bias = i % 3 > 0;
    d.u.conv.relu = i % 3 > 1;
    if (CT_ASSERT_OK(gpu__conv_first_algo(on(i / 3), &p, &algo))) continue;
    CT_ASSERT_INT(algo.fused, i % 3 == 1);
    gpu__dnn_plan_clear(&algo.plan);
  }
}

static void many_ways_are_there_to_be_measured(void)
{
  ct_op_desc_t d = conv(64, 64, 0, 56, 3, 1, 1, 1, 1);
  gpu__conv_pass_t p = {.d = &d};
  gpu__conv_algo_t algo[GPU_CONV_ALGOS];
  d.x.dtype = d.y.dtype = CT_F16;
  for (int k = 0; k < ARCHS * PASSES; k++) {
    int n = 0;
    p.pass = 1 << k % PASSES;
    CT_ASSERT_OK(gpu__conv_algos(on(k / PASSES), &p, 0, GPU_CONV_ALGOS, algo, &n));
    CU_ASSERT(n > GPU_CONV_ALGOS - 3);
    while (n > 0) {
      check_notes(&d, algo[--n].notes);
      CU_ASSERT(algo[n].plan.workspace <= on(k / PASSES)->workspace);
      gpu__dnn_plan_clear(&algo[n].plan);
    }
  }
}

static void tf32_is_used_if_it_may_be(void)
{
  ct_op_desc_t d = conv(64, 64, 0, 56, 3, 1, 1, 1, 1);
  gpu__conv_pass_t p = {.d = &d, .pass = CT_FWD, .tf32 = 1};
  gpu__conv_algo_t algo = {.fused = 0};
  if (CT_ASSERT_OK(gpu__conv_first_algo(on(A100), &p, &algo))) return;
  CU_ASSERT(algo.notes & bit(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  gpu__dnn_plan_clear(&algo.plan);
}

/* Output channels that are no multiple of the groups: the op checks it, cuDNN too. */
static void what_cudnn_cannot_do_is_said(void)
{
  ct_op_desc_t d = conv(16, 16, 0, 8, 3, 1, 1, 1, 4);
  gpu__conv_pass_t p = {.d = &d, .pass = CT_FWD};
  gpu__conv_algo_t algo = {.fused = 0};
  gpu__dnn_desc_t none = NULL;
  d.y.dim[1] = 18;
  int rc = gpu__conv_first_algo(on(A100), &p, &algo);
  CU_ASSERT(rc != CT_OK);
  CT_ASSERT_HAS(ct_err_last()->text, "cuDNN");
  CT_ASSERT_FAILS(gpu__dnn_properties("{}", &none), CT_ERR_DEVICE, "properties of a device");
}

/* ---- ResNet-50 in large batches ---- */

/* Returns 1 if the pass gets an engine that mode A proposes; 0: it proposes none that computes
 * exactly, so an engine of last resort is all there is. */
static int has_good_engine(const gpu__dnn_target_t *t, const ct_op_desc_t *d, int pass)
{
  gpu__conv_pass_t p = {.d = d, .pass = pass};
  gpu__dnn_target_t endless = {.properties = t->properties, .workspace = SIZE_MAX};
  gpu__conv_algo_t algo = {.fused = 0}, best = {.fused = 0};
  CT_ASSERT_OK(gpu__conv_first_algo(t, &p, &algo));
  CT_ASSERT_OK(gpu__conv_first_algo(&endless, &p, &best));
  CT_ASSERT_INT(algo.engine, best.engine);
  CT_ASSERT_INT(algo.plan.workspace, best.plan.workspace);
  gpu__dnn_plan_clear(&algo.plan);
  gpu__dnn_plan_clear(&best.plan);
  return !algo.last_resort;
}

/* The workspace limit refuses no engine: each pass gets the one that it would get without a limit.
 * In reduced precision no engine is a last resort. */
static void resnet50_in_large_batches_gets_good_engines(void)
{
  static const int last_resort[ARCHS][TYPES] = {{2}, {5}, {32}};
  founds = 0;
  gather(5, 256);
  for (int k = 0; k < ARCHS * TYPES; k++) {
    int passes = 0, good = 0;
    for (int i = 0; i < founds * PASSES; i++) {
      ct_op_desc_t d = found[i / PASSES];
      d.x.dtype = d.y.dtype = types[k % TYPES];
      if (!(d.passes & 1 << i % PASSES)) continue;
      passes++;
      good += has_good_engine(on(k / TYPES), &d, 1 << i % PASSES);
    }
    printf("# %s, %s: %d of %d passes\n", arch_name[k / TYPES], ct_dtype_name(types[k % TYPES]),
           good, passes);
    CT_ASSERT_INT(passes, 68);
    CT_ASSERT_INT(passes - good, last_resort[k / TYPES][k % TYPES]);
  }
}

/* A small limit finds plans with a smaller workspace. */
static void a_small_workspace_is_possible(void)
{
  ct_op_desc_t d = conv(64, 64, 0, 56, 3, 1, 1, 1, 1);
  gpu__dnn_target_t small = {.properties = on(H100)->properties, .workspace = 1 << 20};
  d.x.dim[0] = d.y.dim[0] = 256;
  for (int k = 0; k < PASSES; k++) {
    gpu__conv_pass_t p = {.d = &d, .pass = 1 << k};
    gpu__conv_algo_t algo = {.fused = 0};
    if (CT_ASSERT_OK(gpu__conv_first_algo(&small, &p, &algo))) continue;
    CU_ASSERT(algo.plan.workspace <= small.workspace);
    gpu__dnn_plan_clear(&algo.plan);
  }
}

/* ---- choices as text ---- */

static void choices_are_restored_from_text(void)
{
  ct_op_desc_t d = conv(16, 32, 0, 14, 3, 1, 1, 1, 1);
  gpu__conv_pass_t p = {.d = &d, .pass = CT_FWD};
  gpu__conv_algo_t algo = {.fused = 0}, back = {.fused = 0};
  ct_str_t text = {0};
  CT_ASSERT_OK(gpu__conv_first_algo(on(A100), &p, &algo));
  CU_ASSERT(algo.engine > 0);
  algo.fused = 1;
  algo.notes = 0x21;
  CT_ASSERT_OK(gpu__conv_text(&algo, &text));
  CT_ASSERT_INT(gpu__conv_parse(on(A100), text.data, &back), 1);
  CT_ASSERT_INT(back.fused, 1);
  CT_ASSERT_INT(back.notes, 0x21);
  CT_ASSERT_INT(back.engine, algo.engine);
  CT_ASSERT_INT(back.plan.workspace, algo.plan.workspace);
  gpu__dnn_plan_clear(&back.plan);
  text.data[text.len / 2] = '\0';
  CT_ASSERT_INT(gpu__conv_parse(on(A100), text.data, &back), 0);
  CT_ASSERT_INT(gpu__conv_parse(on(A100), "", &back), 0);
  CT_ASSERT_INT(gpu__conv_parse(on(A100), "fused 1, notes 0, engine 1\n{}", &back), 0);
  ct_str_clear(&text);
  gpu__dnn_plan_clear(&algo.plan);
}

/* ---- nothing is lost ---- */

static void memory_is_freed(void)
{
  CT_ASSERT_INT(ct_mem_live(), 0);
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(a_bias_is_fused),
                                    CT_TEST(many_ways_are_there_to_be_measured),
                                    CT_TEST(tf32_is_used_if_it_may_be),
                                    CT_TEST(choices_are_restored_from_text),
                                    CT_TEST(a_small_workspace_is_possible),
                                    CT_TEST(odd_convolutions_have_plans),
                                    CT_TEST(the_gpu_that_is_here_has_plans_too),
                                    CT_TEST(every_convolution_of_the_families_has_a_plan),
                                    CT_TEST(resnet50_in_large_batches_gets_good_engines),
                                    CT_TEST(what_cudnn_cannot_do_is_said),
                                    CT_TEST(memory_is_freed),
                                    CT_TEST_END};
  if (argc == 2 && !strcmp(argv[1], "--properties")) return print_properties();
  int rc = ct_test_main("plans of cuDNN", tests, argc, argv);
  for (int i = 0; i < ARCHS; i++)
    gpu__dnn_free(target[i].properties);
  return rc;
}
