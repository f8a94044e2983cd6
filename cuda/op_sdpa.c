/* Attention with given queries, keys and values: products of all heads at once, and softmax. The
 * scores of all heads are in the workspace; backward computes them again. */
#include "cuda/dense.h"
#include "cuda/kernels/softmax.h"

typedef struct sdpa_op {
  ct_op_t head;
  int64_t heads, t, s, d, e;              /* queries, keys, their features, features of values */
  gpu__gemm_t *scores, *values;           /* q k^T, p v */
  gpu__gemm_t *to_p, *to_q, *to_k, *to_v; /* dy v^T, ds k, ds^T q, p^T dy */
  size_t slopes_at, workspace_at;         /* offsets in scratch, after the scores */
} sdpa_op_t;

/* Prepares c = a b for all heads; a and b may be stored transposed. */
static int make(sdpa_op_t *k, int64_t m, int64_t n, int64_t inner, int a_turned, int b_turned,
                gpu__gemm_t **out, size_t *scratch)
{
  ct_dtype_t type = k->head.desc.y.dtype;
  int64_t size = (int64_t)ct_dtype_size(type);
  gpu__gemm_spec_t g = {.m = m,
                        .n = n,
                        .k = inner,
                        .batch = k->heads,
                        .lda = a_turned ? m : inner,
                        .ldb = b_turned ? inner : n,
                        .ldc = n,
                        .step_a = m * inner,
                        .step_b = inner * n,
                        .step_c = m * n,
                        .a_turned = a_turned,
                        .b_turned = b_turned,
                        .in = type,
                        .out = type};
  if (g.step_a * size % 16) g.unaligned |= GPU_GEMM_A;
  if (g.step_b * size % 16) g.unaligned |= GPU_GEMM_B;
  if (g.step_c * size % 16) g.unaligned |= GPU_GEMM_C;
  return gpu__gemm_add(k->head.dev, &g, out, scratch);
}

static int sdpa_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  sdpa_op_t *k = (sdpa_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  size_t workspace = 0, end = 0;
  k->t = ct_dim_back(&d->x, 1);
  k->d = ct_dim_back(&d->x, 0);
  k->s = ct_dim_back(&d->x2, 1);
  k->e = ct_dim_back(&d->x3, 0);
  k->heads = ct_shape_count(&d->x) / (k->t * k->d);
  if (k->heads == 0) return CT_OK;
  CT_TRY(make(k, k->t, k->s, k->d, 0, 1, &k->scores, &workspace));
  CT_TRY(make(k, k->t, k->e, k->s, 0, 0, &k->values, &workspace));
  gpu__take(&end, k->heads * k->t * k->s, ct_dtype_size(d->y.dtype));
  k->slopes_at = end;
  if (ct_op_goes_back(d)) {
    CT_TRY(make(k, k->t, k->s, k->e, 0, 1, &k->to_p, &workspace));
    CT_TRY(make(k, k->t, k->d, k->s, 0, 0, &k->to_q, &workspace));
    CT_TRY(make(k, k->s, k->d, k->t, 1, 0, &k->to_k, &workspace));
    CT_TRY(make(k, k->s, k->e, k->t, 1, 0, &k->to_v, &workspace));
    gpu__take(&end, k->heads * k->t * k->s, ct_dtype_size(d->y.dtype));
    info->bwd_uses = CT_USES_X;
  }
  k->workspace_at = end;
  info->scratch = end + workspace;
  info->algorithm = "products";
  info->kernels[0] = 3;
  info->kernels[1] = 7;
out:
  return rc;
}

static gpu__softmax_t softmax_of(const sdpa_op_t *k)
{
  return (gpu__softmax_t){.outer = k->heads * k->t,
                          .count = k->s,
                          .inner = 1,
                          .scale = 1,
                          .causal = k->head.desc.u.sdpa.causal ? k->t : 0};
}

/* Computes the weights of the keys. */
static int find_weights(const sdpa_op_t *k, const ct_op_args_t *a, void *p, void *workspace,
                        cudaStream_t s)
{
  int rc = CT_OK;
  gpu__softmax_t rows = softmax_of(k);
  CT_TRY(gpu__gemm_run(k->scores, (float)k->head.desc.u.sdpa.scale, a->x, a->x2, NULL, p, workspace,
                       s));
  GPU_TRY(gpu__softmax(k->head.desc.y.dtype, &rows, p, p, s));
out:
  return rc;
}

static int sdpa_back(const sdpa_op_t *k, const ct_op_args_t *a, const void *p, void *dp,
                     void *workspace, cudaStream_t s)
{
  int rc = CT_OK;
  float scale = (float)k->head.desc.u.sdpa.scale;
  gpu__softmax_t rows = softmax_of(k);
  if (a->dx3) CT_TRY(gpu__gemm_run(k->to_v, 1, p, a->dy, NULL, a->dx3, workspace, s));
  if (!a->dx && !a->dx2) return CT_OK;
  CT_TRY(gpu__gemm_run(k->to_p, 1, a->dy, a->x3, NULL, dp, workspace, s));
  GPU_TRY(gpu__softmax_back(k->head.desc.y.dtype, &rows, p, dp, dp, s));
  if (a->dx) CT_TRY(gpu__gemm_run(k->to_q, scale, dp, a->x2, NULL, a->dx, workspace, s));
  if (a->dx2) CT_TRY(gpu__gemm_run(k->to_k, scale, dp, a->x, NULL, a->dx2, workspace, s));
out:
  return rc;
}

static int sdpa_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const sdpa_op_t *k = (const sdpa_op_t *)op;
  char *p = a->scratch;
  void *workspace = p + k->workspace_at;
  (void)at;
  if (k->heads == 0) return CT_OK;
  CT_TRY(find_weights(k, a, p, workspace, s));
  if (a->pass & CT_FWD) CT_TRY(gpu__gemm_run(k->values, 1, p, a->x3, NULL, a->y, workspace, s));
  if (a->pass & CT_BWD_DATA) CT_TRY(sdpa_back(k, a, p, p + k->slopes_at, workspace, s));
out:
  return rc;
}

static void sdpa_clear(ct_op_t *op)
{
  sdpa_op_t *k = (sdpa_op_t *)op;
  gpu__gemm_t *all[] = {k->scores, k->values, k->to_p, k->to_q, k->to_k, k->to_v};
  for (int i = 0; i < 6; i++)
    gpu__gemm_free(all[i]);
}

const gpu__kind_t gpu__kind_sdpa = {.size = sizeof(sdpa_op_t),
                                    .reduced = 1,
                                    .nhwc = -1,
                                    .prepare = sdpa_prepare,
                                    .run = sdpa_run,
                                    .clear = sdpa_clear};
