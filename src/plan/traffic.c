/* The memory traffic of launches. */
#include "plan/ct_plan.h"

static double value_bytes(const ct_plan_t *p, int v)
{
  return v < 0 ? 0 : (double)p->value[v].bytes;
}

/* Returns the bytes of an op's parameters: as float32 like their gradients, or as the pass reads
 * them. */
static double param_bytes(const ct_plan_t *p, const ct_plan_op_t *o, int gradients)
{
  double sum = 0;
  int reduced = p->be->reduced_weights && ct_dtype_size(o->desc.x.dtype) < sizeof(float);
  for (int i = 0; i < CT_OP_PARAMS; i++)
    sum += (double)o->info.param_bytes[i];
  return reduced && !gradients ? sum / 2 : sum;
}

double ct_plan_launch_bytes(const ct_plan_t *p, int i)
{
  const ct_plan_launch_t *w = &p->launch[i];
  const ct_plan_op_t *o = &p->op[w->op];
  const int all[] = {w->x, w->x2, w->x3, w->y, w->dy, w->dy2, w->dx, w->dx2, w->dx3};
  double sum = value_bytes(p, o->saved);
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    sum += value_bytes(p, all[k]);
  int reads = ((w->pass & CT_FWD) != 0) + ((w->pass & CT_BWD_DATA) != 0);
  return sum + reads * param_bytes(p, o, 0) + (w->pass & CT_BWD_PARAM ? param_bytes(p, o, 1) : 0);
}
