/* Attention with given queries, keys and values: cuDNN's, or the kernels of attention.h. Neither
 * stores scores. Saved from forward to backward: a float32 number per query and head, with which
 * backward recomputes the probabilities. */
#include "backend/ct_sdpa.h"
#include "cuda/dense.h"
#include "cuda/kernels/attention.h"

typedef struct sdpa_op {
  ct_op_t head;
  ct_sdpa_t g;
  gpu__attention_t shape;
  gpu__sdpa_t *dnn; /* NULL: the kernels of attention.h */
  size_t work;      /* offset of cuDNN's workspace in scratch, after stats or sums */
} sdpa_op_t;

static gpu__attention_t shape_of(const ct_op_desc_t *d, const ct_sdpa_t *g)
{
  return (gpu__attention_t){.n = g->n,
                            .t = g->t,
                            .heads = g->heads,
                            .wide = g->d,
                            .s = g->s,
                            .kv_heads = g->kv_heads,
                            .values = g->e,
                            .q_row = g->q.row,
                            .k_row = g->k.row,
                            .v_row = g->v.row,
                            .y_row = g->y_row,
                            .scale = (float)d->u.sdpa.scale,
                            .causal = d->u.sdpa.causal,
                            .cached = d->u.sdpa.cached,
                            .mask = d->u.sdpa.mask,
                            .mask_n = g->mask_n,
                            .mask_h = g->mask_h};
}

static int sdpa_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  sdpa_op_t *k = (sdpa_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  size_t workspace = 0, bytes;
  k->g = ct_sdpa_of(d);
  k->shape = shape_of(d, &k->g);
  int back = ct_op_goes_back(d);
  CT_TRY(gpu__sdpa_make(op->dev, d->y.dtype, &k->shape, back, &k->dnn, &workspace));
  bytes = (size_t)(k->g.n * k->g.heads * k->g.t) * sizeof(float);
  k->work = (bytes + 255) / 256 * 256;
  if (back) info->saved = bytes;
  info->scratch = k->work + workspace;
  info->algorithm = k->dnn ? "cuDNN" : "tiles";
  info->kernels[0] = 1;
  info->kernels[1] = 3;
out:
  return rc;
}

/* Returns an input, or the place of its gradient, from the part of a row on where a head begins. */
static const void *input_at(const sdpa_op_t *k, const ct_op_args_t *a, const ct_sdpa_side_t *s)
{
  const char *p = s->input == 0 ? a->x : s->input == 1 ? a->x2 : a->x3;
  return p + (size_t)s->at * ct_dtype_size(k->head.desc.y.dtype);
}

static void *slope_at(const sdpa_op_t *k, const ct_op_args_t *a, const ct_sdpa_side_t *s)
{
  char *p = s->input == 0 ? a->dx : s->input == 1 ? a->dx2 : a->dx3;
  return p ? p + (size_t)s->at * ct_dtype_size(k->head.desc.y.dtype) : NULL;
}

static gpu__attention_io_t tensors_of(const sdpa_op_t *k, const ct_op_args_t *a)
{
  int back = ct_op_goes_back(&k->head.desc);
  ct_sdpa_side_t mask = {.input = k->g.mask};
  gpu__attention_io_t io = {.q = input_at(k, a, &k->g.q),
                            .k = input_at(k, a, &k->g.k),
                            .v = input_at(k, a, &k->g.v),
                            .mask = k->g.mask < 0 ? NULL : input_at(k, a, &mask),
                            .position = a->position,
                            .y = a->y,
                            .stats = back ? a->saved : a->scratch};
  if (!(a->pass & CT_BWD_DATA)) return io;
  io.dy = a->dy;
  io.sums = a->scratch;
  io.dq = slope_at(k, a, &k->g.q);
  io.dk = slope_at(k, a, &k->g.k);
  io.dv = slope_at(k, a, &k->g.v);
  if (k->head.desc.u.sdpa.mask == CT_MASK_BIAS) io.dmask = slope_at(k, a, &mask);
  return io;
}

static int sdpa_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const sdpa_op_t *k = (const sdpa_op_t *)op;
  ct_dtype_t type = op->desc.y.dtype;
  void *work = (char *)a->scratch + k->work;
  (void)at;
  if (k->g.n * k->g.heads == 0) return CT_OK;
  gpu__attention_io_t io = tensors_of(k, a);
  if (a->pass & CT_FWD && k->dnn) CT_TRY(gpu__sdpa_forward(k->dnn, &io, work, s));
  if (a->pass & CT_FWD && !k->dnn) GPU_TRY(gpu__attention_forward(type, &k->shape, &io, s));
  if (!(a->pass & CT_BWD_DATA)) goto out;
  if (k->dnn && io.dq && io.dk && io.dv) /* cuDNN computes all gradients */
    CT_TRY(gpu__sdpa_backward(k->dnn, &io, work, s));
  else
    GPU_TRY(gpu__attention_backward(type, &k->shape, &io, s));
out:
  return rc;
}

static void sdpa_clear(ct_op_t *op)
{
  gpu__sdpa_free(((sdpa_op_t *)op)->dnn);
}

const gpu__kind_t gpu__kind_sdpa = {.size = sizeof(sdpa_op_t),
                                    .reduced = 1,
                                    .nhwc = -1,
                                    .prepare = sdpa_prepare,
                                    .run = sdpa_run,
                                    .clear = sdpa_clear};
