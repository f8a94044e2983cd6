/* cuda/conv/dnn_*.c over the fake cuDNN: graphs compute what plain loops do (emu/host_conv.c), and
 * each misuse of the library is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cuda/conv/dnn.h"
#include "cuda/gemm_conv.h"
#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_dnn.h"
#include "tests/cuda/emu/host_tune.h"
#include "tests/harness/ct_test.h"

/* The loops of host_conv.c are not tuned here. */
int emu__tune(ct_dev_t *dev, const char *key)
{
  (void)dev;
  (void)key;
  return CT_OK;
}

/* ---- convolutions, as the product makes them ---- */

enum { X, W, Y, BIAS, RESULT, SCRATCH, BLOCKS, BYTES = 1 << 15 };

static cudnnHandle_t handle;
static char *block[BLOCKS];

static void open_all(void)
{
  fake_cuda_reset();
  fake_dnn = (fake_dnn_t){.engines = 1, .workspace = {1000}};
  CT_ASSERT_INT(cudnnCreate(&handle), CUDNN_STATUS_SUCCESS);
  for (int i = 0; i < BLOCKS; i++)
    CT_ASSERT_INT(cudaMalloc((void **)&block[i], BYTES), cudaSuccess);
  for (int i = 0; i < RESULT; i++)
    for (int k = 0; k < BYTES / 4; k++)
      ((float *)(void *)block[i])[k] = (float)((k * 7919 + i * 31) % 17) / 8 - 1;
}

static void close_all(void)
{
  CT_ASSERT_INT(cudaDeviceSynchronize(), cudaSuccess);
  CT_ASSERT_INT(cudnnDestroy(handle), CUDNN_STATUS_SUCCESS);
  for (int i = 0; i < BLOCKS; i++)
    cudaFree(block[i]);
  CT_ASSERT_INT(fake_dnn.alive, 0);
  CT_ASSERT_INT(fake_cuda_hazards(), 0);
  CT_ASSERT_INT(fake_cuda_alive(), 0);
}

static ct_op_desc_t conv(int groups, int stride, int dilate, int bias)
{
  ct_op_desc_t d;
  ct_shape_t x = ct_shape(4, 2, 4, 7, 6), y = ct_shape(4, 2, 6, 1, 1);
  for (int i = 0; i < 2; i++)
    y.dim[2 + i] = (x.dim[2 + i] + 2 - (2 * dilate + 1)) / stride + 1;
  ct_op_desc_init(&d, CT_OP_CONV, &x, &y);
  for (int i = 0; i < 2; i++) {
    d.u.conv.kernel[i] = 3;
    d.u.conv.stride[i] = stride;
    d.u.conv.pad[i] = 1;
    d.u.conv.dilate[i] = dilate;
  }
  d.u.conv.groups = groups;
  d.u.conv.bias = bias;
  return d;
}

/* Makes the graph and the first plan for a pass. */
static int plan_for(const ct_op_desc_t *d, int pass, gpu__dnn_plan_t *plan)
{
  int rc = CT_OK;
  gpu__dnn_graph_t g = {.rc = CT_OK};
  gpu__dnn_target_t target = {.handle = handle};
  gpu__dnn_configs_t configs = {.count = 0};
  gpu__dnn_window_t window = {2,
                              {d->u.conv.stride[0], d->u.conv.stride[1]},
                              {1, 1},
                              {d->u.conv.dilate[0], d->u.conv.dilate[1]}};
  int64_t w_dim[] = {d->y.dim[1], d->x.dim[1] / d->u.conv.groups, 3, 3};
  int64_t b_dim[] = {1, d->y.dim[1], 1, 1};
  gpu__dnn_desc_t x = gpu__dnn_tensor(&g, 1, CT_F32, 4, d->x.dim);
  gpu__dnn_desc_t w = gpu__dnn_tensor(&g, 2, CT_F32, 4, w_dim);
  gpu__dnn_desc_t y = gpu__dnn_tensor(&g, 3, CT_F32, 4, d->y.dim);
  int adds = d->u.conv.bias && pass == CT_FWD;
  gpu__dnn_desc_t sum = adds ? gpu__dnn_between(&g, 4, d->y.dim) : y;
  gpu__dnn_conv(&g, pass, &window, x, w, sum);
  if (adds) gpu__dnn_add(&g, sum, gpu__dnn_tensor(&g, 4, CT_F32, 4, b_dim), y);
  CT_TRY(gpu__dnn_finish(&g, &target));
  CT_TRY(gpu__dnn_configs(&target, &g, CUDNN_HEUR_MODE_A, &configs));
  CT_TRY(gpu__dnn_plan_make(&target, &configs.at[0], plan));
out:
  gpu__dnn_configs_clear(&configs);
  gpu__dnn_graph_clear(&g);
  return rc;
}

/* The same pass by the plain loops of the emulated module, into block RESULT. */
static void expect_pass(const ct_op_desc_t *d, int pass)
{
  gpu__conv_t *c;
  size_t bytes;
  const char *name;
  float *result = (float *)(void *)block[RESULT];
  CT_ASSERT_OK(gpu__conv_make(NULL, d, &c, &bytes, &name));
  if (pass == CT_FWD)
    CT_ASSERT_OK(gpu__conv_forward(c, block[X], block[W], block[BIAS], result, block[SCRATCH], 0));
  else if (pass == CT_BWD_DATA)
    CT_ASSERT_OK(gpu__conv_backward_data(c, block[Y], block[W], result, block[SCRATCH], 0));
  else
    CT_ASSERT_OK(gpu__conv_backward_weight(c, block[X], block[Y], result, block[SCRATCH], 0));
  CT_ASSERT_INT(cudaDeviceSynchronize(), cudaSuccess);
  gpu__conv_free(c);
}

static void check_pass(const ct_op_desc_t *d, int pass)
{
  gpu__dnn_plan_t plan = {.plan = NULL}, again = {.plan = NULL};
  gpu__dnn_memory_t memory = {.pack = NULL};
  gpu__dnn_target_t target = {.handle = handle};
  ct_str_t text = {0};
  void *at[] = {block[X], block[W], block[Y], block[BIAS]};
  int made = pass == CT_FWD ? Y : pass == CT_BWD_DATA ? X : W, n = d->u.conv.bias ? 4 : 3;
  int64_t count = pass == CT_FWD        ? ct_shape_count(&d->y)
                  : pass == CT_BWD_DATA ? ct_shape_count(&d->x)
                                        : d->y.dim[1] * d->x.dim[1] / d->u.conv.groups * 9;
  expect_pass(d, pass);
  CT_ASSERT_OK(plan_for(d, pass, &plan));
  CT_ASSERT_OK(gpu__dnn_plan_write(&plan, &text));
  CT_ASSERT_OK(gpu__dnn_plan_read(&target, text.data, &again));
  CT_ASSERT_INT(again.workspace, 1000);
  CT_ASSERT_OK(gpu__dnn_run(handle, &again, &memory, n, at, block[SCRATCH], 0));
  CT_ASSERT_INT(cudaDeviceSynchronize(), cudaSuccess);
  for (int64_t i = 0; i < count; i++)
    CT_ASSERT_NEAR(((float *)(void *)block[made])[i], ((float *)(void *)block[RESULT])[i], 1e-5);
  gpu__dnn_memory_clear(&memory);
  gpu__dnn_plan_clear(&again);
  gpu__dnn_plan_clear(&plan);
  ct_str_clear(&text);
}

static void graphs_compute_what_loops_do(void)
{
  static const int passes[] = {CT_FWD, CT_BWD_DATA, CT_BWD_PARAM};
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 3; k++) {
      ct_op_desc_t d = conv(i & 1 ? 2 : 1, i & 2 ? 2 : 1, i & 4 ? 2 : 1, k == 0);
      open_all();
      check_pass(&d, passes[k]);
      close_all();
    }
}

/* Each call fails once: an error, and nothing is left. */
static void failures(void)
{
  ct_op_desc_t d = conv(1, 1, 1, 1);
  int rc, call = 0;
  open_all();
  do {
    gpu__dnn_plan_t plan = {.plan = NULL};
    fake_dnn.fail_call = ++call;
    rc = plan_for(&d, CT_FWD, &plan);
    CU_ASSERT(rc == CT_OK || rc == CT_ERR_NOMEM);
    gpu__dnn_plan_clear(&plan);
    CT_ASSERT_INT(fake_dnn.alive, 1);
  } while (rc != CT_OK && call < 200);
  CU_ASSERT(call > 50 && call < 200);
  fake_dnn.fail_call = 0;
  close_all();
}

/* ---- what the library rejects ---- */

static void run_wrong(void *at[4], void *workspace, int n, cudnnHandle_t with, const char *word)
{
  ct_op_desc_t d = conv(1, 1, 1, 0);
  gpu__dnn_plan_t plan = {.plan = NULL};
  gpu__dnn_memory_t memory = {.pack = NULL};
  CT_ASSERT_OK(plan_for(&d, CT_FWD, &plan));
  CT_ASSERT_FAILS(gpu__dnn_run(with, &plan, &memory, n, at, workspace, 0), CT_ERR_DEVICE, word);
  gpu__dnn_memory_clear(&memory);
  gpu__dnn_plan_clear(&plan);
}

static void runs_are_checked(void)
{
  cudnnHandle_t other;
  open_all();
  float host[4096];
  void *at[4] = {block[X] + 4, block[W], block[Y], block[BIAS]};
  run_wrong(at, block[SCRATCH], 3, handle, "not aligned to 16");
  at[0] = host;
  at[0] = (void *)((uintptr_t)at[0] / 16 * 16 + 16);
  run_wrong(at, block[SCRATCH], 3, handle, "no device memory");
  at[0] = NULL;
  run_wrong(at, block[SCRATCH], 3, handle, "tensor 1");
  at[0] = block[X];
  run_wrong(at, block[SCRATCH], 2, handle, "tensor 3 is not in");
  run_wrong(at, NULL, 3, handle, "no workspace");
  run_wrong(at, block[SCRATCH] + 8, 3, handle, "workspace");
  CT_ASSERT_INT(cudnnCreate(&other), CUDNN_STATUS_SUCCESS);
  run_wrong(at, block[SCRATCH], 3, other, "another handle");
  CT_ASSERT_INT(cudnnDestroy(other), CUDNN_STATUS_SUCCESS);
  CT_ASSERT_INT(cudnnSetStream(other, 0), CUDNN_STATUS_BAD_PARAM);
  close_all();
}

/* A workspace that ends before the plan's does. */
static void a_small_workspace_is_noticed(void)
{
  ct_op_desc_t d = conv(1, 1, 1, 0);
  gpu__dnn_plan_t plan = {.plan = NULL};
  gpu__dnn_memory_t memory = {.pack = NULL};
  open_all();
  void *at[] = {block[X], block[W], block[Y]};
  CT_ASSERT_OK(plan_for(&d, CT_FWD, &plan));
  const char *sanitizer = getenv("CT_SAN"); /* which would end the test */
  if (!sanitizer || !*sanitizer) {
    CT_ASSERT_OK(gpu__dnn_run(handle, &plan, &memory, 3, at, block[SCRATCH] + BYTES - 512, 0));
    CT_ASSERT_INT(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  }
  gpu__dnn_memory_clear(&memory);
  gpu__dnn_plan_clear(&plan);
  cudnnDestroy(handle);
  fake_cuda_reset();
}

static cudnnBackendDescriptor_t make(cudnnBackendDescriptorType_t type)
{
  cudnnBackendDescriptor_t d = NULL;
  CT_ASSERT_INT(cudnnBackendCreateDescriptor(type, &d), CUDNN_STATUS_SUCCESS);
  return d;
}

static cudnnStatus_t set_ints(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, int n,
                              const int64_t *v)
{
  return cudnnBackendSetAttribute(d, name, CUDNN_TYPE_INT64, n, v);
}

static void descriptors_are_checked(void)
{
  const int64_t four[] = {2, 3, 4, 5}, align = 16, odd = 12;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  open_all();
  cudnnBackendDescriptor_t t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  cudnnBackendDescriptor_t op = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  CT_ASSERT_INT(cudnnBackendFinalize(t), CUDNN_STATUS_BAD_PARAM); /* nothing is set */
  CT_ASSERT_INT(cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_INT64, 1, four),
                CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  CT_ASSERT_INT(set_ints(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 2, four), CUDNN_STATUS_BAD_PARAM);
  CT_ASSERT_INT(set_ints(t, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 1, four), CUDNN_STATUS_BAD_PARAM);
  CT_ASSERT_INT(
      cudnnBackendSetAttribute(t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type),
      CUDNN_STATUS_SUCCESS);
  set_ints(t, CUDNN_ATTR_TENSOR_DIMENSIONS, 4, four);
  set_ints(t, CUDNN_ATTR_TENSOR_STRIDES, 3, four);
  set_ints(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, four);
  set_ints(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &align);
  CT_ASSERT_INT(cudnnBackendFinalize(t), CUDNN_STATUS_BAD_PARAM); /* four dims, three strides */
  set_ints(t, CUDNN_ATTR_TENSOR_STRIDES, 4, four);
  set_ints(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &odd);
  CT_ASSERT_INT(cudnnBackendFinalize(t), CUDNN_STATUS_BAD_PARAM);
  set_ints(t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1, &align);
  CT_ASSERT_INT(cudnnBackendSetAttribute(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t),
                CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  CT_ASSERT_INT(cudnnBackendFinalize(t), CUDNN_STATUS_SUCCESS);
  CT_ASSERT_INT(set_ints(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, 1, four), CUDNN_STATUS_NOT_INITIALIZED);
  CT_ASSERT_INT(cudnnBackendSetAttribute(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t),
                CUDNN_STATUS_SUCCESS);
  CT_ASSERT_INT(cudnnBackendDestroyDescriptor(t), CUDNN_STATUS_SUCCESS);
  CT_ASSERT_INT(cudnnBackendDestroyDescriptor(t), CUDNN_STATUS_BAD_PARAM);
  CT_ASSERT_INT(cudnnBackendDestroyDescriptor(op), CUDNN_STATUS_SUCCESS);
  close_all();
}

static void packs_are_checked(void)
{
  const int64_t id[] = {1, 2, 1};
  open_all();
  void *at[] = {block[X], block[W], block[Y]};
  cudnnBackendDescriptor_t p = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  set_ints(p, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 2, id);
  cudnnBackendSetAttribute(p, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, at);
  CT_ASSERT_INT(cudnnBackendFinalize(p), CUDNN_STATUS_BAD_PARAM);
  set_ints(p, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, 3, id);
  CT_ASSERT_INT(cudnnBackendFinalize(p), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
  CT_ASSERT_INT(cudnnBackendDestroyDescriptor(p), CUDNN_STATUS_SUCCESS);
  close_all();
}

int main(int argc, char **argv)
{
  static const ct_test_t tests[] = {CT_TEST(graphs_compute_what_loops_do),
                                    CT_TEST(failures),
                                    CT_TEST(runs_are_checked),
                                    CT_TEST(a_small_workspace_is_noticed),
                                    CT_TEST(descriptors_are_checked),
                                    CT_TEST(packs_are_checked),
                                    CT_TEST_END};
  return ct_test_main("fake cuDNN", tests, argc, argv);
}
