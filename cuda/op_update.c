/* Optimizer ops over contiguous ranges: GRADSTAT, MEASURE, UPDATE. */
#include <string.h>

#include "cuda/gpu.h"
#include "cuda/kernels/update.h"

typedef struct flat_op {
  ct_op_t head;
  void *work; /* device memory, used by one run at a time: see kernels/update.h */
} flat_op_t;

static int update_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int segments = op->desc.kind == CT_OP_GRADSTAT ? 0 : op->desc.u.update.segments;
  size_t bytes = gpu__update_bytes(op->desc.x.dim[0], segments);
  (void)info;
  return gpu__mem_ops.alloc(op->dev, CT_MEM_DEVICE, bytes, &((flat_op_t *)op)->work);
}

static void update_clear(ct_op_t *op)
{
  (void)cudaFree(((flat_op_t *)op)->work);
}

/* ---- gradient statistics ---- */

static int gradstat_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                        cudaStream_t s)
{
  gpu__step_params_t params = gpu__step_params(a);
  return GPU_CHECK(gpu__gradstat(op->desc.u.gradstat.p, a->count, a->dy, &params, at, a->stat,
                                 ((flat_op_t *)op)->work, s));
}

const gpu__kind_t gpu__kind_gradstat = {.size = sizeof(flat_op_t),
                                        .prepare = update_prepare,
                                        .run = gradstat_run,
                                        .clear = update_clear};

/* ---- rules ---- */

static gpu__range_t range_of(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  gpu__range_t r;
  memset(&r, 0, sizeof r); /* clear padding too, which the emulator might take for a partial
                              address */
  r.count = a->count;
  r.segment = a->segment;
  r.segments = a->segments;
  r.norms = a->norms;
  r.g = a->dy;
  r.w = a->w[0];
  r.reduced_type = d->y.dtype;
  for (int k = 0; k < CT_RULE_STATES; k++)
    r.state[k] = a->state[k];
  return r;
}

static int norms_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                     cudaStream_t s)
{
  gpu__range_t r = range_of(&op->desc, a);
  gpu__step_params_t params = gpu__step_params(a);
  return GPU_CHECK(
      gpu__norms((ct_rule_t)op->desc.u.update.rule, &r, &params, at, ((flat_op_t *)op)->work, s));
}

const gpu__kind_t gpu__kind_measure = {
    .size = sizeof(flat_op_t), .prepare = update_prepare, .run = norms_run, .clear = update_clear};

static int update_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                      cudaStream_t s)
{
  gpu__range_t r = range_of(&op->desc, a);
  gpu__step_params_t params = gpu__step_params(a);
  if (r.reduced_type != CT_F32) r.reduced = a->y;
  return GPU_CHECK(
      gpu__update((ct_rule_t)op->desc.u.update.rule, &r, &params, at, ((flat_op_t *)op)->work, s));
}

const gpu__kind_t gpu__kind_update = {
    .size = sizeof(flat_op_t), .prepare = update_prepare, .run = update_run, .clear = update_clear};
