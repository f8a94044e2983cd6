/* Elementwise programs (ct_expr.h), and random numbers. */
#include "cuda/gpu.h"
#include "cuda/kernels/expr.h"

typedef struct expr {
  ct_op_t head;
  gpu__expr_t e;
  size_t all[CT_EXPR_INPUTS], part[CT_EXPR_INPUTS]; /* offsets in the workspace */
} expr_t;

static size_t reserve(ct_op_info_t *info, size_t bytes)
{
  size_t at = info->scratch;
  info->scratch += (bytes + 255) / 256 * 256;
  return at;
}

static int expr_prepare(ct_op_t *op, ct_op_info_t *info)
{
  expr_t *x = (expr_t *)op;
  ct_expr_view_t *v = &x->e.view;
  int sums = 0;
  info->y_layout = ct_expr_wants(&op->desc);
  x->e.program = op->desc.u.expr;
  *v = ct_expr_view_of(&op->desc, info->y_layout);
  info->takes_dy2 = 1;
  info->inplace_fwd = info->inplace_bwd = v->whole[0];
  for (int k = 0; k < v->inputs && ct_op_goes_back(&op->desc); k++) {
    if (v->whole[k]) continue;
    int64_t numbers = gpu__expr_chunks(v, k) * v->elements[k];
    x->all[k] = reserve(info, (size_t)v->count * sizeof(float));
    x->part[k] = reserve(info, (size_t)numbers * sizeof(double));
    sums++;
  }
  info->kernels[1] += 2 * sums;
  info->extra_bytes[1] = 2 * sums * (double)v->count * sizeof(float);
  return CT_OK;
}

/* Returns the gradient of input k to write, or NULL. */
static void *gradient_of(const expr_t *x, const ct_op_args_t *a, int k)
{
  void *const dx[] = {a->dx, a->dx2, a->dx3};
  int param = ct_expr_param(&x->head.desc, k);
  if (param >= 0) return a->pass & CT_BWD_PARAM ? a->dw[param] : NULL;
  return a->pass & CT_BWD_DATA ? dx[k] : NULL;
}

static ct_dtype_t type_of(const expr_t *x, int k)
{
  return ct_expr_param(&x->head.desc, k) >= 0 ? CT_F32 : x->head.desc.y.dtype;
}

/* Returns what a backward pass for a set of inputs computes. */
static gpu__expr_pulls_t pulls_of(const ct_expr_t *p, unsigned inputs)
{
  gpu__expr_pulls_t what = {ct_expr_needs(p, inputs), {0, 0, 0}};
  for (int i = 0; i < p->steps; i++) {
    const ct_fn_facts_t *f = ct_fn_facts_of(p->step[i].fn);
    int computed = what.need.gradient >> (CT_EXPR_STEP + i) & 1;
    for (int k = 0; computed && k < f->operands; k++)
      if (f->reads[k] != CT_FN_FLAT && what.need.gradient >> p->step[i].of[k] & 1)
        what.step[k] |= 1u << i;
  }
  return what;
}

static int expr_backward(const expr_t *x, const ct_op_args_t *a, gpu__expr_arrays_t *arrays,
                         cudaStream_t s)
{
  int rc = CT_OK;
  const ct_expr_view_t *v = &x->e.view;
  char *scratch = a->scratch;
  unsigned wanted = 0;
  for (int k = 0; k < v->inputs; k++)
    if (gradient_of(x, a, k)) wanted |= 1u << k;
  gpu__expr_pulls_t what = pulls_of(&x->e.program, wanted);
  arrays->dy = a->dy;
  arrays->dy2 = a->dy2;
  for (int k = 0; k < v->inputs; k++) {
    int computed = what.need.gradient >> k & 1;
    if (computed && v->whole[k]) arrays->dx[k] = gradient_of(x, a, k);
    if (computed && !v->whole[k]) arrays->all[k] = (float *)(void *)(scratch + x->all[k]);
  }
  if (what.need.gradient && v->count > 0)
    GPU_TRY(gpu__expr_backward(&x->e, x->head.desc.y.dtype, &what, arrays, s));
  for (int k = 0; k < v->inputs; k++) { /* last: dx may be in dy's memory */
    void *dx = gradient_of(x, a, k);
    ct_dtype_t t = type_of(x, k);
    if (dx && (!(what.need.gradient >> k & 1) || v->count == 0))
      GPU_TRY(cudaMemsetAsync(dx, 0, (size_t)v->elements[k] * ct_dtype_size(t), s));
    else if (arrays->all[k])
      GPU_TRY(
          gpu__expr_sum(v, k, t, arrays->all[k], (double *)(void *)(scratch + x->part[k]), dx, s));
  }
out:
  return rc;
}

static int expr_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const expr_t *x = (const expr_t *)op;
  gpu__expr_arrays_t arrays = {.in = {a->x, a->x2, a->x3}, .y = a->y};
  (void)at;
  for (int k = 1; k <= x->e.program.weight; k++)
    arrays.in[k] = a->w[k - 1];
  if (a->pass & CT_FWD) GPU_TRY(gpu__expr_forward(&x->e, op->desc.y.dtype, &arrays, s));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(expr_backward(x, a, &arrays, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_expr = {
    .size = sizeof(expr_t), .reduced = 1, .prepare = expr_prepare, .run = expr_run};

static int random_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                      cudaStream_t s)
{
  const ct_op_desc_t *d = &op->desc;
  int64_t rows = d->u.random.rows > 1 ? d->u.random.rows : 1;
  gpu__step_params_t params = gpu__step_params(a);
  return GPU_CHECK(gpu__random(d->y.dtype, d->y.dim[0] / rows, ct_shape_sample(&d->y) * rows,
                               (int)d->u.random.kind, d->u.random.p, d->u.random.layer, &params, at,
                               a->y, s));
}

const gpu__kind_t gpu__kind_random = {
    .size = sizeof(ct_op_t), .reduced = 1, .nhwc = -1, .run = random_run};
