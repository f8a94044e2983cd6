/* A linear layer, or a 1x1 convolution over pixels with the channels last, and the cross-entropy of
 * its outputs. Chunks of rows go one after another through
 * the products and the kernel of the loss, which leaves the gradient of the logits: in their place
 * if they have the operands' type, else beside them. Only the logits of a chunk are stored. */
#include "cuda/dense.h"
#include "cuda/kernels/bias.h"
#include "cuda/kernels/elt.h"

/* Most bytes of the float32 logits of a chunk. The larger a chunk, the less often the weights and
 * their gradient are read. */
enum { CHUNK_BYTES = 512 << 20, ROWS_LEAST = 128, LINE = 8 };

/* The products of a chunk: of a whole one, and of the last one. */
typedef struct products {
  int64_t rows;
  gpu__gemm_t *forward, *data, *first, *next; /* first, next: dw = …, dw += … */
} products_t;

typedef struct head_loss {
  ct_op_t head;
  ct_op_desc_t loss; /* of the logits */
  int64_t rows, in, out, chunk;
  int64_t line; /* elements from one row of the logits to the next */
  products_t whole, rest;
  size_t result, logits, slopes, bias, workspace; /* offsets in scratch */
} head_loss_t;

/* Returns the number of rows of a chunk: a multiple of the products' tiles. */
static int64_t rows_of_chunk(const head_loss_t *k)
{
  int64_t fit = (CHUNK_BYTES / (int64_t)sizeof(float)) / k->line / ROWS_LEAST * ROWS_LEAST;
  if (fit < ROWS_LEAST) fit = ROWS_LEAST;
  return fit < k->rows ? fit : k->rows;
}

static int make_products(const head_loss_t *k, int64_t rows, products_t *p, size_t *scratch)
{
  int rc = CT_OK;
  ct_dev_t *dev = k->head.dev;
  const ct_op_desc_t *d = &k->head.desc;
  ct_dtype_t type = d->x.dtype;
  int64_t in = k->in, out = k->out, line = k->line;
  /* a row of x, and a chunk's first logit, may have any alignment */
  int odd = (size_t)in * ct_dtype_size(type) % 16 != 0;
  gpu__gemm_spec_t forward = {.m = rows, .n = out, .k = in, .lda = in, .ldb = in, .ldc = line};
  gpu__gemm_spec_t data = {.m = rows, .n = in, .k = out, .lda = line, .ldb = in, .ldc = in};
  gpu__gemm_spec_t param = {.m = out, .n = in, .k = rows, .lda = line, .ldb = in, .ldc = in};
  p->rows = rows;
  if (rows == 0) return CT_OK;
  forward.batch = data.batch = param.batch = 1;
  forward.in = data.in = data.out = param.in = type;
  forward.out = param.out = CT_F32;
  forward.b_turned = param.a_turned = 1;
  forward.bias = d->u.head_loss.bias && type == CT_F32; /* else the result is of another type */
  forward.unaligned = odd ? GPU_GEMM_A : 0;
  data.unaligned = odd ? GPU_GEMM_C : 0;
  param.unaligned = odd ? GPU_GEMM_B : 0;
  CT_TRY(gpu__gemm_add(dev, &forward, &p->forward, scratch));
  if (d->passes & CT_BWD_DATA) CT_TRY(gpu__gemm_add(dev, &data, &p->data, scratch));
  if (!(d->passes & CT_BWD_PARAM)) return CT_OK;
  CT_TRY(gpu__gemm_add(dev, &param, &p->first, scratch));
  param.adds = 1;
  CT_TRY(gpu__gemm_add(dev, &param, &p->next, scratch));
out:
  return rc;
}

static void clear_products(products_t *p)
{
  gpu__gemm_free(p->forward);
  gpu__gemm_free(p->data);
  gpu__gemm_free(p->first);
  gpu__gemm_free(p->next);
}

static int head_loss_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  head_loss_t *k = (head_loss_t *)op;
  const ct_op_desc_t *d = &op->desc;
  size_t workspace = 0, end = 0;
  k->loss = ct_op_loss_of(d);
  k->in = d->x.dim[ct_op_head_dim(d)];
  k->out = d->y.dim[ct_op_head_dim(d)];
  k->rows = ct_shape_count(&d->x) / k->in;
  /* cuBLASLt needs aligned rows to be fast, and vocabularies such as 50257 are odd */
  k->line = d->u.head_loss.bias ? k->out : (k->out + LINE - 1) / LINE * LINE;
  k->chunk = rows_of_chunk(k);
  CT_TRY(gpu__bad_label_open(op->dev));
  CT_TRY(make_products(k, k->chunk, &k->whole, &workspace));
  CT_TRY(make_products(k, k->chunk ? k->rows % k->chunk : 0, &k->rest, &workspace));
  int64_t count = k->chunk * k->line;
  int bias = d->u.head_loss.bias && d->passes & CT_BWD_PARAM;
  int apart = ct_op_goes_back(d) && d->x.dtype != CT_F32;
  k->result = gpu__take(&end, k->rows, sizeof(gpu__loss_row_t));
  k->logits = gpu__take(&end, count, sizeof(float));
  k->slopes = apart ? gpu__take(&end, count, ct_dtype_size(d->x.dtype)) : k->logits;
  k->bias = gpu__take(&end, bias ? k->out : 0, sizeof(float));
  if (bias && workspace < gpu__column_sums_scratch(k->chunk, k->out))
    workspace = gpu__column_sums_scratch(k->chunk, k->out);
  k->workspace = end;
  info->scratch = end + workspace;
  info->algorithm = "chunks";
  info->adds_dw = 1;
out:
  return rc;
}

/* Writes or adds the gradient of the bias. */
static int bias_gradient(const head_loss_t *k, const ct_op_args_t *a, int add, int64_t rows,
                         const void *slopes, cudaStream_t s)
{
  int rc = CT_OK;
  char *scratch = a->scratch;
  float *own = add ? (float *)(void *)(scratch + k->bias) : a->dw[1];
  if (!k->head.desc.u.head_loss.bias) return CT_OK;
  GPU_TRY(
      gpu__column_sums(k->head.desc.x.dtype, slopes, rows, k->out, own, scratch + k->workspace, s));
  if (add) GPU_TRY(gpu__sum(CT_F32, k->out, a->dw[1], own, 0, a->dw[1], s));
out:
  return rc;
}

static int run_chunk(const head_loss_t *k, const ct_op_args_t *a, int64_t first,
                     const products_t *p, const gpu__step_params_t *at, cudaStream_t s)
{
  int rc = CT_OK, back = a->pass & (CT_BWD_DATA | CT_BWD_PARAM), add = first || a->adds_dw;
  const ct_op_t *op = &k->head;
  size_t row = (size_t)k->in * ct_dtype_size(op->desc.x.dtype);
  char *scratch = a->scratch, *workspace = scratch + k->workspace;
  const char *x = (const char *)a->x + (size_t)first * row;
  const void *w = gpu__factor(op, a, 0);
  const float *bias = op->desc.u.head_loss.bias ? a->w[1] : NULL;
  int low = op->desc.x.dtype != CT_F32;
  void *logits = scratch + k->logits, *slopes = scratch + k->slopes;
  ct_op_args_t of_chunk = *a;
  of_chunk.x = logits;
  gpu__loss_of_t of = gpu__loss_inputs(&k->loss, &of_chunk);
  of.line = k->line;
  gpu__loss_row_t *result = (gpu__loss_row_t *)(void *)(scratch + k->result);
  CT_TRY(gpu__gemm_run(p->forward, 1, x, w, low ? NULL : bias, logits, workspace, s));
  if (low && bias) GPU_TRY(gpu__bias_relu(CT_F32, logits, bias, 0, p->rows, k->out, s));
  GPU_TRY(gpu__loss_chunk(&of, first, p->rows, result, gpu__step_params(a), at, op->desc.x.dtype,
                          back ? slopes : NULL, s));
  if (a->pass & CT_BWD_DATA)
    CT_TRY(gpu__gemm_run(p->data, 1, slopes, w, NULL, (char *)a->dx + (size_t)first * row,
                         workspace, s));
  if (!(a->pass & CT_BWD_PARAM)) goto out;
  CT_TRY(gpu__gemm_run(add ? p->next : p->first, 1, slopes, x, NULL, a->dw[0], workspace, s));
  CT_TRY(bias_gradient(k, a, add, p->rows, slopes, s));
out:
  return rc;
}

static int head_loss_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                         cudaStream_t s)
{
  int rc = CT_OK;
  const head_loss_t *k = (head_loss_t *)op;
  const gpu__loss_of_t of = gpu__loss_inputs(&k->loss, a);
  gpu__loss_row_t *result = a->scratch;
  for (int i = 0; i < 2 && k->rows == 0 && a->pass & CT_BWD_PARAM && !a->adds_dw; i++)
    if (op->param_bytes[i]) GPU_TRY(cudaMemsetAsync(a->dw[i], 0, op->param_bytes[i], s));
  for (int64_t first = 0; first < k->rows; first += k->chunk)
    CT_TRY(run_chunk(k, a, first, first + k->chunk <= k->rows ? &k->whole : &k->rest, at, s));
  if (a->pass & CT_FWD)
    GPU_TRY(gpu__loss_sum_up(&of, k->rows, result, a->loss, op->dev->bad_label, s));
out:
  return rc;
}

static int head_loss_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  return d->u.loss.classes_last || d->x.ndim > 3
             ? 1
             : gpu__cannot(why, "the CUDA backend fuses heads of images and volumes only");
}

static void head_loss_clear(ct_op_t *op)
{
  clear_products(&((head_loss_t *)op)->whole);
  clear_products(&((head_loss_t *)op)->rest);
}

const gpu__kind_t gpu__kind_head_loss = {.size = sizeof(head_loss_t),
                                         .reduced = 1,
                                         .low = 1,
                                         .nhwc = -1,
                                         .supports = head_loss_supports,
                                         .prepare = head_loss_prepare,
                                         .run = head_loss_run,
                                         .clear = head_loss_clear};
