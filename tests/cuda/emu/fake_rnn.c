/* cuDNN's RNN functions for one LSTM layer, as plain loops in float32, for cuda/rnn/rnn_dnn.c in
 * the emulated module. What the manual leaves to cuDNN is chosen to be awkward: the block of
 * weights has gaps, holds the biases first and the gates backwards; the reserve space is useless
 * before the forward pass, and weight gradients want the backward data pass first. Without
 * CTRAIN_FAKE_RNN=1 no layer is supported. */
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/ref.h"
#include "tests/cuda/emu/fake_cuda.h"

enum { GATES = 4, MATRICES = 2 * GATES, GAP = 64, ALIGN = 256, FORWARD = 0x5eed, DATA = 0xda7a };

struct cudnnContext {
  cudaStream_t stream;
};
struct cudnnDropoutStruct {
  float p;
};
struct cudnnTensorStruct {
  cudnnDataType_t type;
  int dims, dim[3], stride[3];
};
struct cudnnRNNStruct {
  cudnnDataType_t type;
  int f, h;
};
struct cudnnRNNDataStruct {
  cudnnDataType_t type;
  int t, n, width;
};

/* ---- handles and descriptors ---- */

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
  *out = calloc(1, sizeof **out);
  return *out ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
  free(h);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
  h->stream = s;
  return CUDNN_STATUS_SUCCESS;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                                     : "CUDNN_STATUS_BAD_PARAM";
}

void cudnnGetLastErrorString(char *text, size_t cap)
{
  if (cap > 0) *text = '\0';
}

#define DESCRIPTOR(Name, type)                                                               \
  cudnnStatus_t cudnnCreate##Name(type *out)                                                 \
  {                                                                                          \
    *out = calloc(1, sizeof **out);                                                          \
    return *out ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED; \
  }                                                                                          \
  cudnnStatus_t cudnnDestroy##Name(type d)                                                   \
  {                                                                                          \
    free(d);                                                                                 \
    return CUDNN_STATUS_SUCCESS;                                                             \
  }
DESCRIPTOR(DropoutDescriptor, cudnnDropoutDescriptor_t)
DESCRIPTOR(TensorDescriptor, cudnnTensorDescriptor_t)
DESCRIPTOR(RNNDescriptor, cudnnRNNDescriptor_t)
DESCRIPTOR(RNNDataDescriptor, cudnnRNNDataDescriptor_t)

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t d, cudnnHandle_t h, float p,
                                        void *states, size_t bytes, unsigned long long seed)
{
  (void)seed;
  if (!h || (p > 0 && (!states || bytes == 0))) return CUDNN_STATUS_BAD_PARAM;
  d->p = p;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t d, cudnnDataType_t type, int dims,
                                         const int dim[], const int stride[])
{
  if (dims != 3) return CUDNN_STATUS_NOT_SUPPORTED;
  d->type = type;
  d->dims = dims;
  memcpy(d->dim, dim, sizeof d->dim);
  memcpy(d->stride, stride, sizeof d->stride);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t d, int wanted,
                                         cudnnDataType_t *type, int *dims, int dim[], int stride[])
{
  if (wanted < 3) return CUDNN_STATUS_BAD_PARAM;
  *type = d->type;
  *dims = d->dims;
  memcpy(dim, d->dim, sizeof d->dim);
  memcpy(stride, d->stride, sizeof d->stride);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t d, cudnnRNNAlgo_t algo,
                                       cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t math_type,
                                       cudnnMathType_t math, int32_t f, int32_t h,
                                       int32_t projection, int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t flags)
{
  const char *on = getenv("CTRAIN_FAKE_RNN");
  if (!on || strcmp(on, "1") != 0) return CUDNN_STATUS_NOT_SUPPORTED;
  if (algo != CUDNN_RNN_ALGO_STANDARD || cell != CUDNN_LSTM || bias != CUDNN_RNN_DOUBLE_BIAS ||
      direction != CUDNN_UNIDIRECTIONAL || input != CUDNN_LINEAR_INPUT || layers != 1)
    return CUDNN_STATUS_NOT_SUPPORTED;
  if (math_type != CUDNN_DATA_FLOAT || projection != h || f < 1 || h < 1 || !dropout)
    return CUDNN_STATUS_BAD_PARAM;
  if (math == CUDNN_FMA_MATH && type != CUDNN_DATA_FLOAT) return CUDNN_STATUS_BAD_PARAM;
  if (!(flags & CUDNN_RNN_PADDED_IO_ENABLED)) return CUDNN_STATUS_NOT_SUPPORTED;
  *d = (struct cudnnRNNStruct){type, f, h};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t d, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int t, int n, int width,
                                        const int length[], void *fill)
{
  if (layout != CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED || !fill)
    return CUDNN_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < n; i++)
    if (length[i] != t) return CUDNN_STATUS_NOT_SUPPORTED;
  *d = (struct cudnnRNNDataStruct){type, t, n, width};
  return CUDNN_STATUS_SUCCESS;
}

/* ---- the block of weights: biases, then matrices, both from the last to the first ---- */

static ct_dtype_t dtype(cudnnDataType_t t)
{
  return t == CUDNN_DATA_HALF ? CT_F16 : t == CUDNN_DATA_BFLOAT16 ? CT_BF16 : CT_F32;
}

static int64_t columns_of(const struct cudnnRNNStruct *d, int matrix)
{
  return matrix < GATES ? d->f : d->h;
}

/* Returns the element at which matrix or bias i begins; i = -1: the elements of the block. */
static int64_t begin_of(const struct cudnnRNNStruct *d, int i, int bias)
{
  int64_t at = GAP;
  for (int k = MATRICES - 1; k >= 0; k--, at += d->h + GAP)
    if (bias && k == i) return at;
  for (int k = MATRICES - 1; k >= 0; k--) {
    if (!bias && k == i) return at;
    at += d->h * columns_of(d, k) + GAP;
  }
  return at;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t d,
                                         size_t *bytes)
{
  (void)handle;
  *bytes = (size_t)begin_of(d, -1, 0) * ct_dtype_size(dtype(d->type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t d, int32_t layer,
                                      size_t bytes, const void *block, int32_t i,
                                      cudnnTensorDescriptor_t matrix, void **m,
                                      cudnnTensorDescriptor_t bias, void **b)
{
  size_t size = ct_dtype_size(dtype(d->type)), all;
  int width = (int)columns_of(d, i);
  int wide[3] = {1, d->h, width}, thin[3] = {1, d->h, 1};
  cudnnGetRNNWeightSpaceSize(handle, d, &all);
  if (layer != 0 || bytes != all || !block || i < 0 || i >= MATRICES) return CUDNN_STATUS_BAD_PARAM;
  *m = (char *)block + (size_t)begin_of(d, i, 0) * size;
  *b = (char *)block + (size_t)begin_of(d, i, 1) * size;
  cudnnSetTensorNdDescriptor(matrix, d->type, 3, wide, (int[3]){d->h * width, width, 1});
  return cudnnSetTensorNdDescriptor(bias, d->type, 3, thin, (int[3]){d->h, 1, 1});
}

/* ---- the reserve space: a mark, gates, cells, gradients of the gates; in float32 ---- */

typedef struct job {
  struct cudnnRNNStruct d;
  int64_t n, t;
  const void *x, *y_in, *dy, *weights;
  void *y, *dx, *dweights, *reserve;
} job_t;

static size_t reserve_bytes(const struct cudnnRNNStruct *d, int64_t n, int64_t t)
{
  return (size_t)(1 + n * t * d->h * 9) * sizeof(float);
}

static float *gates_of(const job_t *j)
{
  return (float *)j->reserve + 1;
}

static float *cells_of(const job_t *j)
{
  return gates_of(j) + j->n * j->t * j->d.h * 4;
}

static float *dgates_of(const job_t *j)
{
  return cells_of(j) + j->n * j->t * j->d.h;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t d,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t *work, size_t *reserve)
{
  (void)handle;
  *work = reserve_bytes(d, x->n, x->t); /* where the forward pass of inference keeps its gates */
  *reserve = mode == CUDNN_FWD_MODE_TRAINING ? reserve_bytes(d, x->n, x->t) : 0;
  return CUDNN_STATUS_SUCCESS;
}

static double weight(const job_t *j, int i, int64_t row, int64_t column)
{
  return ct__ref_get(dtype(j->d.type), j->weights,
                     begin_of(&j->d, i, 0) + row * columns_of(&j->d, i) + column);
}

static double value(const job_t *j, const void *p, int64_t i)
{
  return ct__ref_get(dtype(j->d.type), p, i);
}

/* ---- passes ---- */

static void step_forward(const job_t *j, int64_t row, int first)
{
  int64_t f = j->d.f, h = j->d.h;
  ct_dtype_t type = dtype(j->d.type);
  float *gate = gates_of(j) + row * 4 * h, *cell = cells_of(j) + row * h;
  for (int64_t r = 0; r < 4 * h; r++) {
    int g = (int)(r / h);
    double sum = ct__ref_get(type, j->weights, begin_of(&j->d, g, 1) + r % h) +
                 ct__ref_get(type, j->weights, begin_of(&j->d, GATES + g, 1) + r % h);
    for (int64_t k = 0; k < f; k++)
      sum += weight(j, g, r % h, k) * value(j, j->x, row * f + k);
    for (int64_t k = 0; k < h && !first; k++)
      sum += weight(j, GATES + g, r % h, k) * value(j, j->y, (row - 1) * h + k);
    gate[r] = (float)(g == 2 ? tanh(sum) : 1 / (1 + exp(-sum)));
  }
  for (int64_t k = 0; k < h; k++) {
    cell[k] = gate[k] * gate[2 * h + k] + (first ? 0 : gate[h + k] * cell[k - h]);
    ct__ref_set(type, j->y, row * h + k, gate[3 * h + k] * tanhf(cell[k]));
  }
}

static cudaError_t run_forward(void *args)
{
  const job_t *j = args;
  *(float *)j->reserve = FORWARD + (float)((uintptr_t)j->reserve % ALIGN);
  for (int64_t row = 0; row < j->n * j->t; row++)
    step_forward(j, row, row % j->t == 0);
  return cudaSuccess;
}

/* dh: gradient of this row's y by the next step; on return of the previous row's. */
static void step_backward(const job_t *j, int64_t row, double *dh, double *dc)
{
  int64_t h = j->d.h;
  int first = row % j->t == 0;
  const float *gate = gates_of(j) + row * 4 * h, *cell = cells_of(j) + row * h;
  float *dgate = dgates_of(j) + row * 4 * h;
  for (int64_t k = 0; k < h; k++) {
    double i = gate[k], f = gate[h + k], g = gate[2 * h + k], o = gate[3 * h + k];
    /* cuDNN reads y here, so y must still be there */
    double c = tanh(cell[k]), kept = value(j, j->y_in, row * h + k);
    double dy = value(j, j->dy, row * h + k) + dh[k];
    if (!(fabs(kept - o * c) <= 1e-2)) c = NAN;
    double d = dc[k] + dy * o * (1 - c * c);
    dgate[k] = (float)(d * g * i * (1 - i));
    dgate[h + k] = (float)(first ? 0 : d * cell[k - h] * f * (1 - f));
    dgate[2 * h + k] = (float)(d * i * (1 - g * g));
    dgate[3 * h + k] = (float)(dy * c * o * (1 - o));
    dc[k] = d * f;
  }
  for (int64_t k = 0; k < h; k++) {
    dh[k] = 0;
    for (int64_t r = 0; r < 4 * h; r++)
      dh[k] += dgate[r] * weight(j, GATES + (int)(r / h), r % h, k);
  }
  for (int64_t k = 0; k < j->d.f; k++) {
    double sum = 0;
    for (int64_t r = 0; r < 4 * h; r++)
      sum += dgate[r] * weight(j, (int)(r / h), r % h, k);
    ct__ref_set(dtype(j->d.type), j->dx, row * j->d.f + k, (float)sum);
  }
}

static cudaError_t run_data(void *args)
{
  const job_t *j = args;
  size_t bytes = (size_t)j->d.h * sizeof(double);
  double *dh, *dc;
  /* cuDNN's places within the reserve depend on its address */
  if (*(float *)j->reserve != FORWARD + (float)((uintptr_t)j->reserve % ALIGN))
    return cudaErrorLaunchFailure;
  *(float *)j->reserve = DATA;
  dh = malloc(bytes);
  dc = malloc(bytes);
  for (int64_t n = 0; n < j->n; n++) {
    memset(dh, 0, bytes);
    memset(dc, 0, bytes);
    for (int64_t t = j->t - 1; t >= 0; t--)
      step_backward(j, n * j->t + t, dh, dc);
  }
  free(dh);
  free(dc);
  return cudaSuccess;
}

/* Adds the gradient of element (row, column) of matrix i, or of its bias with column -1. */
static void add_gradient(const job_t *j, int i, int64_t row, int64_t column)
{
  int64_t h = j->d.h, width = columns_of(&j->d, i), gate = i % GATES * h + row;
  ct_dtype_t type = dtype(j->d.type);
  int64_t at =
      column < 0 ? begin_of(&j->d, i, 1) + row : begin_of(&j->d, i, 0) + row * width + column;
  double sum = ct__ref_get(type, j->dweights, at);
  for (int64_t r = 0; r < j->n * j->t; r++) {
    double d = dgates_of(j)[r * 4 * h + gate];
    if (column >= 0 && i >= GATES && r % j->t == 0) continue;
    sum += column < 0  ? d
           : i < GATES ? d * value(j, j->x, r * width + column)
                       : d * value(j, j->y_in, (r - 1) * width + column);
  }
  ct__ref_set(type, j->dweights, at, (float)sum);
}

static cudaError_t run_weights(void *args)
{
  const job_t *j = args;
  if (*(float *)j->reserve != DATA) return cudaErrorLaunchFailure;
  for (int i = 0; i < MATRICES; i++)
    for (int64_t row = 0; row < j->d.h; row++)
      for (int64_t column = -1; column < columns_of(&j->d, i); column++)
        add_gradient(j, i, row, column);
  return cudaSuccess;
}

/* ---- calls ---- */

static int fits(cudnnHandle_t handle, cudnnRNNDescriptor_t d, const struct cudnnRNNDataStruct *x,
                size_t weights, size_t work, const void *work_at)
{
  size_t all, need, reserve;
  cudnnGetRNNWeightSpaceSize(handle, d, &all);
  cudnnGetRNNTempSpaceSizes(handle, d, CUDNN_FWD_MODE_TRAINING, (cudnnRNNDataDescriptor_t)x, &need,
                            &reserve);
  return weights == all && work >= need && work_at && (uintptr_t)work_at % 16 == 0 &&
         x->type == d->type && x->width == d->f;
}

static cudnnStatus_t enqueue(cudnnHandle_t handle, cudaError_t (*run)(void *), const job_t *j)
{
  return fake_cuda_work(handle->stream, run, j, sizeof *j) == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t d, cudnnForwardMode_t mode,
                              const int32_t lengths[], cudnnRNNDataDescriptor_t xd, const void *x,
                              cudnnRNNDataDescriptor_t yd, void *y, cudnnTensorDescriptor_t hd,
                              const void *hx, void *hy, cudnnTensorDescriptor_t cd, const void *cx,
                              void *cy, size_t weights_bytes, const void *weights,
                              size_t work_bytes, void *work, size_t reserve_bytes_of, void *reserve)
{
  int training = mode == CUDNN_FWD_MODE_TRAINING;
  (void)hd;
  (void)cd;
  if (lengths || hx || hy || cx || cy) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!fits(handle, d, xd, weights_bytes, work_bytes, work) || yd->width != d->h)
    return CUDNN_STATUS_BAD_PARAM;
  if (training && (!reserve || reserve_bytes_of < reserve_bytes(d, xd->n, xd->t)))
    return CUDNN_STATUS_BAD_PARAM;
  job_t j = {.d = *d, .n = xd->n, .t = xd->t, .x = x, .y = y, .weights = weights};
  j.reserve = training ? reserve : work;
  return enqueue(handle, run_forward, &j);
}

cudnnStatus_t cudnnRNNBackwardData_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t d,
                                      const int32_t lengths[], cudnnRNNDataDescriptor_t yd,
                                      const void *y, const void *dy, cudnnRNNDataDescriptor_t xd,
                                      void *dx, cudnnTensorDescriptor_t hd, const void *hx,
                                      const void *dhy, void *dhx, cudnnTensorDescriptor_t cd,
                                      const void *cx, const void *dcy, void *dcx,
                                      size_t weights_bytes, const void *weights, size_t work_bytes,
                                      void *work, size_t reserve_bytes_of, void *reserve)
{
  (void)hd;
  (void)cd;
  if (lengths || hx || dhy || dhx || cx || dcy || dcx) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!fits(handle, d, xd, weights_bytes, work_bytes, work) || yd->width != d->h || !dx || !y ||
      !reserve || reserve_bytes_of < reserve_bytes(d, xd->n, xd->t))
    return CUDNN_STATUS_BAD_PARAM;
  job_t j = {.d = *d, .n = xd->n, .t = xd->t, .y_in = y, .dy = dy, .dx = dx, .weights = weights};
  j.reserve = reserve;
  return enqueue(handle, run_data, &j);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t d,
                                         cudnnWgradMode_t mode, const int32_t lengths[],
                                         cudnnRNNDataDescriptor_t xd, const void *x,
                                         cudnnTensorDescriptor_t hd, const void *hx,
                                         cudnnRNNDataDescriptor_t yd, const void *y,
                                         size_t weights_bytes, void *dweights, size_t work_bytes,
                                         void *work, size_t reserve_bytes_of, void *reserve)
{
  (void)hd;
  if (mode != CUDNN_WGRAD_MODE_ADD || lengths || hx) return CUDNN_STATUS_NOT_SUPPORTED;
  if (!fits(handle, d, xd, weights_bytes, work_bytes, work) || yd->width != d->h || !reserve ||
      reserve_bytes_of < reserve_bytes(d, xd->n, xd->t))
    return CUDNN_STATUS_BAD_PARAM;
  job_t j = {.d = *d, .n = xd->n, .t = xd->t, .x = x, .y_in = y, .dweights = dweights};
  j.reserve = reserve;
  return enqueue(handle, run_weights, &j);
}
