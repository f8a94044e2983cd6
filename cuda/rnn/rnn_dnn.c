/* One LSTM layer by cuDNN's RNN functions. */
#include "cuda/rnn/rnn.h"

#include <limits.h>
#include <stdint.h>

#include "base/ct_mem.h"
#include "cuda/conv/dnn.h"
#include "cuda/kernels/elt.h"
#include "cuda/library_handles.h"

enum { GATES = 4, PARAMS = 4, MATRICES = 2 * GATES };

/* A range of a parameter, and where cuDNN's block of weights has it. */
typedef struct part {
  int param;     /* 0: w_ih, 1: w_hh, 2: b_ih, 3: b_hh */
  int64_t from;  /* first element of the parameter */
  int64_t count; /* elements */
  size_t at;     /* byte in the block */
} part_t;

struct gpu__rnn {
  cudnnHandle_t handle; /* borrowed */
  ct_dtype_t type;
  int64_t n, t, f, h; /* samples, steps, features, hidden size */
  cudnnForwardMode_t mode;
  cudnnDropoutDescriptor_t dropout; /* of probability 0 */
  cudnnRNNDescriptor_t rnn;
  cudnnRNNDataDescriptor_t x, y;
  cudnnTensorDescriptor_t state;
  size_t weights, work, reserve; /* bytes */
  part_t part[2 * MATRICES];
  int parts;
  struct {
    size_t weights, dweights, dx, reserve, work;
  } at; /* bytes in scratch memory */
};

#define TRY(call, what) CT_TRY(GPU_DNN_CHECK(call, what))

/* ---- descriptors ---- */

static cudnnDataType_t rnn_type(ct_dtype_t t)
{
  return t == CT_F16 ? CUDNN_DATA_HALF : t == CT_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

static int describe_rows(const gpu__rnn_t *r, int64_t width, cudnnRNNDataDescriptor_t *out)
{
  int rc = CT_OK;
  float zero = 0;
  int *length = ct_mem_alloc((size_t)r->n * sizeof *length, "lengths of sequences");
  if (!length) return CT_ERR_NOMEM;
  for (int64_t i = 0; i < r->n; i++)
    length[i] = (int)r->t;
  TRY(cudnnCreateRNNDataDescriptor(out), "rows of an LSTM");
  TRY(cudnnSetRNNDataDescriptor(*out, rnn_type(r->type), CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED,
                                (int)r->t, (int)r->n, (int)width, length, &zero),
      "rows of an LSTM");
out:
  ct_mem_free(length);
  return rc;
}

static int rnn_describe(gpu__rnn_t *r, int tf32)
{
  int rc = CT_OK;
  int dim[3] = {1, (int)r->n, (int)r->h}, stride[3] = {dim[1] * dim[2], dim[2], 1};
  cudnnMathType_t math = r->type != CT_F32 ? CUDNN_TENSOR_OP_MATH
                         : tf32            ? CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION
                                           : CUDNN_FMA_MATH;
  TRY(cudnnCreateDropoutDescriptor(&r->dropout), "dropout");
  TRY(cudnnSetDropoutDescriptor(r->dropout, r->handle, 0, NULL, 0, 0), "dropout");
  TRY(cudnnCreateRNNDescriptor(&r->rnn), "LSTM");
  TRY(cudnnSetRNNDescriptor_v8(r->rnn, CUDNN_RNN_ALGO_STANDARD, CUDNN_LSTM, CUDNN_RNN_DOUBLE_BIAS,
                               CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, rnn_type(r->type),
                               CUDNN_DATA_FLOAT, math, (int)r->f, (int)r->h, (int)r->h, 1,
                               r->dropout, CUDNN_RNN_PADDED_IO_ENABLED),
      "LSTM");
  CT_TRY(describe_rows(r, r->f, &r->x));
  CT_TRY(describe_rows(r, r->h, &r->y));
  TRY(cudnnCreateTensorDescriptor(&r->state), "state of an LSTM");
  TRY(cudnnSetTensorNdDescriptor(r->state, rnn_type(r->type), 3, dim, stride), "state of an LSTM");
  TRY(cudnnGetRNNWeightSpaceSize(r->handle, r->rnn, &r->weights), "weights of an LSTM");
  TRY(cudnnGetRNNTempSpaceSizes(r->handle, r->rnn, r->mode, r->x, &r->work, &r->reserve),
      "workspace of an LSTM");
out:
  return rc;
}

/* ---- the layout of the weights ---- */

/* Adds a range, or extends the last one if both follow it. */
static void add_part(gpu__rnn_t *r, int param, int64_t from, int64_t count, size_t at)
{
  size_t size = ct_dtype_size(r->type);
  part_t *last = r->parts > 0 ? &r->part[r->parts - 1] : NULL;
  if (last && last->param == param && last->from + last->count == from &&
      last->at + (size_t)last->count * size == at)
    last->count += count;
  else
    r->part[r->parts++] = (part_t){param, from, count, at};
}

/* Checks a tensor of the block: its elements, and that it lies within. */
static int check_part(const gpu__rnn_t *r, cudnnTensorDescriptor_t d, int64_t count, size_t at)
{
  int rc = CT_OK, dims = 0, dim[3] = {0}, stride[3];
  size_t bytes = (size_t)count * ct_dtype_size(r->type);
  cudnnDataType_t type;
  TRY(cudnnGetTensorNdDescriptor(d, 3, &type, &dims, dim, stride), "weights of an LSTM");
  if (type != rnn_type(r->type) || dims != 3 || (int64_t)dim[0] * dim[1] * dim[2] != count ||
      at > r->weights || bytes > r->weights - at)
    CT_FAIL(CT_ERR_UNSUP, "cuDNN has a tensor of %d x %d x %d at byte %zu of an LSTM's %zu", dim[0],
            dim[1], dim[2], at, r->weights);
out:
  return rc;
}

/* Finds all matrices and biases. cuDNN numbers them: gates i, f, g, o of the input, then of the
 * state. It is asked with the address of a block, although it only computes with it. */
static int find_parts(gpu__rnn_t *r)
{
  int rc = CT_OK;
  char *block = NULL;
  cudnnTensorDescriptor_t matrix = NULL, bias = NULL;
  part_t at[2][MATRICES];
  GPU_TRY(cudaMalloc((void **)&block, r->weights));
  TRY(cudnnCreateTensorDescriptor(&matrix), "weights of an LSTM");
  TRY(cudnnCreateTensorDescriptor(&bias), "weights of an LSTM");
  for (int i = 0; i < MATRICES; i++) {
    void *m = NULL, *b = NULL;
    int64_t rows = i % GATES * r->h, columns = i < GATES ? r->f : r->h;
    TRY(cudnnGetRNNWeightParams(r->handle, r->rnn, 0, r->weights, block, i, matrix, &m, bias, &b),
        "weights of an LSTM");
    if (!m || !b) CT_FAIL(CT_ERR_UNSUP, "cuDNN has no matrix %d of an LSTM", i);
    at[0][i] = (part_t){i / GATES, rows * columns, r->h * columns, (size_t)((char *)m - block)};
    at[1][i] = (part_t){2 + i / GATES, rows, r->h, (size_t)((char *)b - block)};
    CT_TRY(check_part(r, matrix, at[0][i].count, at[0][i].at));
    CT_TRY(check_part(r, bias, at[1][i].count, at[1][i].at));
  }
  for (int k = 0; k < 2 * MATRICES; k++) {
    const part_t *p = &at[k / MATRICES][k % MATRICES];
    add_part(r, p->param, p->from, p->count, p->at);
  }
out:
  if (bias) (void)cudnnDestroyTensorDescriptor(bias);
  if (matrix) (void)cudnnDestroyTensorDescriptor(matrix);
  (void)cudaFree(block);
  return rc;
}

/* ---- making ---- */

/* cuDNN aligns what it keeps by the addresses that it is given.  The reserve is copied, so that its
 * address and that of the copy must be aligned alike. */
enum { ALIGN = 256 };

static char *aligned(void *p)
{
  return (char *)(((uintptr_t)p + ALIGN - 1) / ALIGN * ALIGN);
}

static size_t rnn_take(size_t *end, size_t bytes)
{
  size_t at = *end;
  *end += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  return at;
}

static void lay_out(gpu__rnn_t *r, size_t *saved, size_t *scratch)
{
  size_t end = 0;
  r->at.weights = rnn_take(&end, r->weights);
  if (r->mode == CUDNN_FWD_MODE_TRAINING) {
    r->at.dweights = rnn_take(&end, r->weights);
    r->at.dx = rnn_take(&end, (size_t)(r->n * r->t * r->f) * ct_dtype_size(r->type));
    r->at.reserve = rnn_take(&end, r->reserve);
  }
  r->at.work = rnn_take(&end, r->work);
  *scratch = end + ALIGN;
  *saved = r->mode == CUDNN_FWD_MODE_TRAINING ? r->reserve + ALIGN : 0;
}

int gpu__rnn_make(ct_dev_t *dev, const ct_op_desc_t *d, gpu__rnn_t **out, size_t *saved,
                  size_t *scratch)
{
  int rc = CT_OK;
  gpu__rnn_t *r = ct_mem_alloc(sizeof *r, "LSTM of cuDNN");
  *out = NULL;
  if (!r) return CT_ERR_NOMEM;
  r->handle = dev->libraries->dnn;
  r->type = d->x.dtype;
  r->n = d->x.dim[0];
  r->t = d->x.dim[1];
  r->f = d->x.dim[2];
  r->h = d->y.dim[2];
  r->mode = ct_op_goes_back(d) ? CUDNN_FWD_MODE_TRAINING : CUDNN_FWD_MODE_INFERENCE;
  if (!r->handle) CT_FAIL(CT_ERR_UNSUP, "cuDNN describes no LSTM without its GPU");
  if (r->n > INT_MAX || r->t > INT_MAX || r->f > INT_MAX || r->n * r->h > INT_MAX)
    CT_FAIL(CT_ERR_UNSUP, "cuDNN counts the elements of an LSTM in 32 bits");
  CT_TRY(rnn_describe(r, dev->tf32));
  CT_TRY(find_parts(r));
  lay_out(r, saved, scratch);
  *out = r;
  r = NULL;
out:
  gpu__rnn_free(r);
  return rc;
}

void gpu__rnn_free(gpu__rnn_t *r)
{
  if (!r) return;
  if (r->state) (void)cudnnDestroyTensorDescriptor(r->state);
  if (r->y) (void)cudnnDestroyRNNDataDescriptor(r->y);
  if (r->x) (void)cudnnDestroyRNNDataDescriptor(r->x);
  if (r->rnn) (void)cudnnDestroyRNNDescriptor(r->rnn);
  if (r->dropout) (void)cudnnDestroyDropoutDescriptor(r->dropout);
  ct_mem_free(r);
}

/* ---- passes ---- */

static int fill_weights(const gpu__rnn_t *r, const gpu__rnn_memory_t *m, cudaStream_t s)
{
  int rc = CT_OK;
  for (int i = 0; i < r->parts; i++) {
    const part_t *p = &r->part[i];
    char *to = aligned(m->scratch) + r->at.weights + p->at;
    ct_dtype_t type = p->param < 2 ? r->type : CT_F32;
    const char *from = (const char *)m->w[p->param] + (size_t)p->from * ct_dtype_size(type);
    if (type == r->type)
      GPU_TRY(cudaMemcpyAsync(to, from, (size_t)p->count * ct_dtype_size(type),
                              cudaMemcpyDeviceToDevice, s));
    else
      GPU_TRY(gpu__cast(type, r->type, p->count, from, to, s));
  }
out:
  return rc;
}

/* Copies the gradients of the weights out of cuDNN's block. */
static int take_gradients(const gpu__rnn_t *r, const char *block, void *const dw[4], cudaStream_t s)
{
  int rc = CT_OK;
  for (int i = 0; i < r->parts; i++) {
    const part_t *p = &r->part[i];
    float *to = (float *)dw[p->param] + p->from;
    if (r->type == CT_F32)
      GPU_TRY(cudaMemcpyAsync(to, block + p->at, (size_t)p->count * sizeof *to,
                              cudaMemcpyDeviceToDevice, s));
    else
      GPU_TRY(gpu__cast(r->type, CT_F32, p->count, block + p->at, to, s));
  }
out:
  return rc;
}

int gpu__rnn_forward(gpu__rnn_t *r, const gpu__rnn_memory_t *m, cudaStream_t s)
{
  int rc = CT_OK;
  char *scratch = aligned(m->scratch);
  size_t reserve = r->mode == CUDNN_FWD_MODE_TRAINING ? r->reserve : 0;
  CT_TRY(fill_weights(r, m, s));
  TRY(cudnnSetStream(r->handle, s), "stream");
  TRY(cudnnRNNForward(r->handle, r->rnn, r->mode, NULL, r->x, m->x, r->y, m->y, r->state, NULL,
                      NULL, r->state, NULL, NULL, r->weights, scratch + r->at.weights, r->work,
                      scratch + r->at.work, reserve, reserve ? aligned(m->saved) : NULL),
      "LSTM, forward");
out:
  return rc;
}

int gpu__rnn_backward(gpu__rnn_t *r, const gpu__rnn_memory_t *m, const void *dy, void *dx,
                      void *const dw[4], cudaStream_t s)
{
  int rc = CT_OK;
  char *scratch = aligned(m->scratch), *dweights = scratch + r->at.dweights;
  char *reserve = scratch + r->at.reserve;
  CT_TRY(fill_weights(r, m, s));
  /* cuDNN writes what the weight gradients need into this memory; a copy leaves the saved memory
   * as it is for another pass */
  GPU_TRY(cudaMemcpyAsync(reserve, aligned(m->saved), r->reserve, cudaMemcpyDeviceToDevice, s));
  TRY(cudnnSetStream(r->handle, s), "stream");
  TRY(cudnnRNNBackwardData_v8(r->handle, r->rnn, NULL, r->y, m->y, dy, r->x,
                              dx ? dx : scratch + r->at.dx, r->state, NULL, NULL, NULL, r->state,
                              NULL, NULL, NULL, r->weights, scratch + r->at.weights, r->work,
                              scratch + r->at.work, r->reserve, reserve),
      "LSTM, backward data");
  if (!dw) goto out;
  GPU_TRY(cudaMemsetAsync(dweights, 0, r->weights, s)); /* cuDNN only adds to gradients */
  TRY(cudnnRNNBackwardWeights_v8(r->handle, r->rnn, CUDNN_WGRAD_MODE_ADD, NULL, r->x, m->x,
                                 r->state, NULL, r->y, m->y, r->weights, dweights, r->work,
                                 scratch + r->at.work, r->reserve, reserve),
      "LSTM, backward weight");
  CT_TRY(take_gradients(r, dweights, dw, s));
out:
  return rc;
}
