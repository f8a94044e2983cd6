/* Places in sequences, and the rotation of pairs of features by them. Saved from forward to
 * backward: the place of each row. */
#include "cuda/gpu.h"
#include "cuda/kernels/rope.h"

static int position_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                        cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  (void)at;
  GPU_TRY(gpu__position(d->y.dim[0], d->y.dim[1], a->position, d->u.position.relative ? a->x : NULL,
                        a->y, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_position = {.size = sizeof(ct_op_t), .nhwc = -1, .run = position_run};

typedef struct rope_op {
  ct_op_t head;
  gpu__rope_t rope;
} rope_op_t;

static int rope_prepare(ct_op_t *op, ct_op_info_t *info)
{
  const ct_op_desc_t *d = &op->desc;
  gpu__rope_t *r = &((rope_op_t *)op)->rope;
  *r = (gpu__rope_t){.n = d->x.dim[0],
                     .steps = d->x.dim[1],
                     .width = d->x.dim[2],
                     .heads = d->u.rope.heads,
                     .dim = d->u.rope.dim,
                     .interleaved = d->u.rope.interleaved};
  ct_rope_frequencies(&d->u.rope, r->frequency);
  info->inplace_fwd = info->inplace_bwd = 1;
  if (ct_op_goes_back(d)) info->saved = (size_t)(r->n * r->steps) * sizeof(float);
  return CT_OK;
}

static int rope_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                    cudaStream_t s)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = &op->desc;
  gpu__rope_t r = ((const rope_op_t *)op)->rope;
  (void)at;
  r.back = !(a->pass & CT_FWD);
  r.position = a->position;
  r.given = r.back ? a->saved : d->x2.ndim ? a->x2 : NULL;
  r.keep = !r.back && ct_op_goes_back(d) ? a->saved : NULL;
  GPU_TRY(gpu__rotate(&r, d->x.dtype, r.back ? a->dy : a->x, r.back ? a->dx : a->y, s));
out:
  return rc;
}

const gpu__kind_t gpu__kind_rope = {
    .size = sizeof(rope_op_t), .reduced = 1, .nhwc = -1, .prepare = rope_prepare, .run = rope_run};
