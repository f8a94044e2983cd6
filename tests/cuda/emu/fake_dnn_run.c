/* What plans of the fake cuDNN compute (fake_dnn.h): each operation in double precision, rounded
 * once to the type of its result. */
#include <stdlib.h>
#include <string.h>

#include "ref/ref.h"
#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/fake_dnn.h"

/* A tensor with its memory. */
typedef struct place {
  const fake_tensor_t *t;
  void *at;
} place_t;

static ct_dtype_t dtype(const fake_tensor_t *t)
{
  return t->type == CUDNN_DATA_FLOAT ? CT_F32 : t->type == CUDNN_DATA_HALF ? CT_F16 : CT_BF16;
}

static int64_t count(const fake_tensor_t *t)
{
  int64_t n = 1;
  for (int i = 0; i < t->ndim; i++)
    n *= t->dim[i];
  return n;
}

/* Returns the elements between the first and the last one, and one. */
static int64_t extent(const fake_tensor_t *t)
{
  int64_t n = 1;
  for (int i = 0; i < t->ndim; i++)
    n += (t->dim[i] - 1) * t->stride[i];
  return n;
}

/* Returns the offset of element i of a tensor with the dims of `of`; dims of 1 are broadcast. */
static int64_t offset(const fake_tensor_t *t, const fake_tensor_t *of, int64_t i)
{
  int64_t at = 0;
  for (int d = of->ndim - 1; d >= 0; d--) {
    if (t->dim[d] > 1) at += i % of->dim[d] * t->stride[d];
    i /= of->dim[d];
  }
  return at;
}

static double get(const place_t *p, int64_t at)
{
  return ct__ref_get(dtype(p->t), p->at, at);
}

/* ---- convolutions ---- */

typedef struct conv {
  const fake_dnn_op_t *op;
  place_t p[3];
  double *sum; /* by offset in the result */
} conv_t;

/* One output position of one output channel, and one input channel of its group. */
static void add_taps(const conv_t *c, int64_t n, int64_t out_channel, int64_t in, int64_t position)
{
  const fake_tensor_t *x = c->p[0].t, *w = c->p[1].t, *y = c->p[2].t;
  int64_t taps = 1, group = out_channel / (w->dim[0] / (x->dim[1] / w->dim[1]));
  for (int d = 2; d < w->ndim; d++)
    taps *= w->dim[d];
  for (int64_t tap = 0; tap < taps; tap++) {
    int64_t at[3] = {n * x->stride[0] + (group * w->dim[1] + in) * x->stride[1],
                     out_channel * w->stride[0] + in * w->stride[1],
                     n * y->stride[0] + out_channel * y->stride[1]};
    int64_t p = position, k = tap, inside = 1;
    for (int d = w->ndim - 1; d >= 2; d--) {
      int64_t out = p % y->dim[d], where = k % w->dim[d];
      int64_t from = out * c->op->stride[d - 2] - c->op->pad[d - 2] + where * c->op->dilate[d - 2];
      p /= y->dim[d];
      k /= w->dim[d];
      inside &= from >= 0 && from < x->dim[d];
      at[0] += from * x->stride[d];
      at[1] += where * w->stride[d];
      at[2] += out * y->stride[d];
    }
    if (!inside) continue;
    double product = 1;
    for (int i = 0; i < 3; i++)
      if (i != c->op->result) product *= get(&c->p[i], at[i]);
    c->sum[at[c->op->result]] += product;
  }
}

static void convolve(const conv_t *c)
{
  const fake_tensor_t *w = c->p[1].t, *y = c->p[2].t;
  int64_t positions = count(y) / y->dim[0] / y->dim[1];
  for (int64_t n = 0; n < y->dim[0]; n++)
    for (int64_t o = 0; o < y->dim[1]; o++)
      for (int64_t i = 0; i < w->dim[1]; i++)
        for (int64_t p = 0; p < positions; p++)
          add_taps(c, n, o, i, p);
}

/* ---- operations ---- */

static double pointwise(cudnnPointwiseMode_t mode, double a, double b)
{
  if (mode == CUDNN_POINTWISE_ADD) return a + b;
  if (mode == CUDNN_POINTWISE_MUL) return a * b;
  return mode == CUDNN_POINTWISE_RELU_FWD && a < 0 ? 0 : a;
}

/* Tells the fake runtime which elements an operation reads or writes. */
static void tell_access(const place_t *p, int writes)
{
  size_t size = ct_dtype_size(dtype(p->t));
  if (p->t->virtual) return;
  if (extent(p->t) == count(p->t)) {
    fake_cuda_access(p->at, (size_t)count(p->t) * size, writes);
    return;
  }
  for (int64_t i = 0; i < count(p->t); i++)
    fake_cuda_access((char *)p->at + (size_t)offset(p->t, p->t, i) * size, size, writes);
}

static int run_op(const fake_dnn_op_t *op, const place_t p[3])
{
  const place_t *to = &p[op->result];
  double *sum = calloc((size_t)extent(to->t), sizeof *sum);
  if (!sum) return 0;
  for (int i = 0; i < 3; i++)
    if (p[i].t) tell_access(&p[i], i == op->result);
  conv_t c = {op, {p[0], p[1], p[2]}, sum};
  if (op->what != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) convolve(&c);
  for (int64_t i = 0; i < count(to->t); i++) {
    int64_t at = offset(to->t, to->t, i);
    if (op->what == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
      double b = op->tensors == 3 ? get(&p[1], offset(p[1].t, to->t, i)) : 0;
      sum[at] = pointwise(op->mode, get(&p[0], offset(p[0].t, to->t, i)), b);
    }
    ct__ref_set(dtype(to->t), to->at, at, sum[at]);
  }
  free(sum);
  return 1;
}

/* Memory of virtual tensors during a run. */
typedef struct between {
  int64_t uid[FAKE_DNN_OPS];
  void *at[FAKE_DNN_OPS];
  int n;
} between_t;

static void *memory_of(const fake_dnn_job_t *j, between_t *b, const fake_tensor_t *t)
{
  for (int i = 0; i < j->n; i++)
    if (!t->virtual && j->uid[i] == t->uid) return j->at[i];
  for (int i = 0; i < b->n; i++)
    if (b->uid[i] == t->uid) return b->at[i];
  if (b->n == FAKE_DNN_OPS) return NULL;
  b->uid[b->n] = t->uid;
  return b->at[b->n++] = calloc((size_t)extent(t), sizeof(float));
}

cudaError_t fake_dnn_work(void *args)
{
  const fake_dnn_job_t *j = args;
  between_t between = {.n = 0};
  int well = 1;
  fake_cuda_access(j->workspace, (size_t)j->program->workspace, 1);
  if (j->program->workspace > 0) memset(j->workspace, 0xff, (size_t)j->program->workspace);
  for (int i = 0; i < j->program->ops && well; i++) {
    const fake_dnn_op_t *op = &j->program->op[i];
    place_t p[3] = {{NULL, NULL}};
    for (int k = 0; k < 3; k++) {
      if (op->tensors == 2 && k == 1) continue;
      p[k] = (place_t){&op->at[k], memory_of(j, &between, &op->at[k])};
      well &= p[k].at != NULL;
    }
    well = well && run_op(op, p);
  }
  for (int i = 0; i < between.n; i++)
    free(between.at[i]);
  return well ? cudaSuccess : cudaErrorMemoryAllocation;
}
