/* The memory traffic of launches, and a model of their time. */
#include "plan/ct_plan.h"
#include <string.h>

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

/* Returns the bytes of the values of a launch that it leaves alone, as they are of other parts of a
 * tensor. */
static double beside(const ct_plan_launch_t *w, const ct_op_desc_t *d)
{
  ct_shape_t x = ct_op_around_x(d), y = ct_op_around_y(d), second = ct_op_second(d);
  int xs = (w->x >= 0) + (w->dx >= 0), ys = (w->y >= 0) + (w->dy >= 0) + (w->dy2 >= 0);
  double of_x = (double)ct_shape_bytes(&x), of_y = (double)ct_shape_bytes(&y);
  if (d->kind == CT_OP_BNORM && d->within) return xs * (of_x - (double)ct_shape_bytes(&d->x));
  if (d->kind != CT_OP_CONCAT) return 0;
  if (d->u.concat.placed) return xs * of_x + ys * (of_y - (double)ct_shape_bytes(&second));
  return ys * (of_y - (double)ct_shape_bytes(&d->y));
}

double ct_plan_launch_bytes(const ct_plan_t *p, int i)
{
  const ct_plan_launch_t *w = &p->launch[i];
  const ct_plan_op_t *o = &p->op[w->op];
  const int all[] = {w->x, w->x2, w->x3, w->y, w->dy, w->dy2, w->dx, w->dx2, w->dx3};
  double sum = value_bytes(p, w->saved) - beside(w, &o->desc);
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    sum += value_bytes(p, all[k]);
  int reads = ((w->pass & CT_FWD) != 0) + ((w->pass & CT_BWD_DATA) != 0);
  return sum + reads * param_bytes(p, o, 0) + (w->pass & CT_BWD_PARAM ? param_bytes(p, o, 1) : 0);
}

/* What a device of a backend reaches in practice.  Only the ratio matters to what is chosen. */
static const struct rates {
  const char *backend;
  double flops, bytes; /* per second */
} rates[] = {{"cuda", 2e14, 2e12}, {"ref", 1e8, 2e9}, {"", 1e11, 1e10}};

double ct_plan_launch_seconds(const ct_plan_t *p, int i)
{
  const struct rates *r = rates;
  const ct_plan_op_t *o = &p->op[p->launch[i].op];
  while (r->backend[0] && strcmp(r->backend, p->be->name))
    r++;
  double bytes = ct_plan_launch_bytes(p, i) + o->info.extra_bytes[!(p->launch[i].pass & CT_FWD)];
  double moving = bytes / r->bytes, computing = ct_op_flops(&o->desc, p->launch[i].pass) / r->flops;
  return moving > computing ? moving : computing;
}
