/* Activations other than ReLU, in any layout: padding is computed too.  If f(0) is not 0 (sigmoid),
 * the padding is zeroed afterwards. */
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"

/* Elements per task. */
enum { PIECE = 4096 };

static int64_t piece(int64_t count, int64_t first)
{
  return count - first < PIECE ? count - first : PIECE;
}

static cpu__act_t function(const ct_op_t *op)
{
  return (cpu__act_t){op->desc.u.act.kind, (float)op->desc.u.act.alpha};
}

static void clear_padding(const ct_shape_t *s, void *y)
{
  cpu__view_t v = cpu__view(s);
  int64_t used = v.c - (v.groups - 1) * v.lanes; /* valid lanes of the last group */

  for (int64_t n = 0; used < v.lanes && n < v.n; n++) {
    int64_t last = ((n + 1) * v.groups - 1) * v.inner * v.lanes;
    for (int64_t i = 0; i < v.inner; i++)
      memset(cpu__at(y, last + i * v.lanes + used, s->dtype), 0,
             (size_t)(v.lanes - used) * ct_dtype_size(s->dtype));
  }
}

static void act_forward(const ct_op_t *op, const ct_op_args_t *a)
{
  ct_dtype_t t = op->desc.x.dtype;
  const cpu__loops_t *loops = cpu__loops(op->dev, t);
  int64_t count = ct_shape_padded(&op->desc.x);

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < count; i += PIECE)
    loops->act(function(op), piece(count, i), cpu__at(a->x, i, t), cpu__at(a->y, i, t));
  if (!ct_act_facts_of(op->desc.u.act.kind)->keeps_zero) clear_padding(&op->desc.y, a->y);
}

static void act_backward(const ct_op_t *op, const ct_op_args_t *a)
{
  ct_dtype_t t = op->desc.x.dtype;
  const cpu__loops_t *loops = cpu__loops(op->dev, t);
  const void *v = ct_op_uses(&op->desc) & CT_USES_X ? a->x : a->y;
  int64_t count = ct_shape_padded(&op->desc.x);

#pragma omp parallel for if (count > CPU__PARALLEL_MIN)
  for (int64_t i = 0; i < count; i += PIECE)
    loops->act_bwd(function(op), piece(count, i), cpu__at(v, i, t), cpu__at(a->dy, i, t),
                   cpu__at(a->dy2, i, t), cpu__at(a->dx, i, t));
}

static int act_run(ct_op_t *op, const ct_op_args_t *a)
{
  if (a->pass & CT_FWD) act_forward(op, a);
  if (a->pass & CT_BWD_DATA) act_backward(op, a);
  return CT_OK;
}

static int act_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  (void)op;
  (void)like;
  info->takes_dy2 = info->inplace_fwd = info->inplace_bwd = 1;
  return CT_OK;
}

const cpu__op_kind_t cpu__act = {
    .size = sizeof(ct_op_t), .bf16 = 1, .prepare = act_prepare, .run = act_run};
