/* Runs one launch: turns offsets into pointers.  Everything that changes from step to step is in
 * ct_bind_t, so a plan is constant after it was made. */
#include "base/ct_trace.h"
#include "plan/ct_plan.h"
#include "base/ct_err.h"

static void *run_at(const ct_plan_t *p, const ct_bind_t *b, int v)
{
  if (v < 0) return NULL;
  v = ct_plan_root(p, v);
  int external = p->value[v].external; /* the cast is safe: ops never write their input */
  int param = p->value[v].param;
  if (!b->adds && p->value[v].added) param = p->value[v].added;
  if (param) return b->gradient + b->map->offset[param - 1];
  if (external) return (void *)(uintptr_t)(external == 1 ? b->x : b->extra[external - 2]);
  return (p->value[v].state ? b->state : b->arena) + p->value[v].offset;
}

static void bind_params(const ct_plan_t *p, const ct_bind_t *b, int layer, ct_op_args_t *a)
{
  const ct_graph_t *g = p->graph;
  const ct_layer_t *l = &g->layer[layer];
  for (int slot = 0; slot < l->params; slot++) {
    int i = l->param[slot];
    size_t offset = b->map->offset[i];
    int buffer = g->param[i].spec.buffer, sliced = !buffer && offset < b->map->low_bytes;
    if (!sliced)
      a->w[slot] = buffer ? b->buffer + offset : b->weight + (offset - b->map->low_bytes);
    int written = !g->param[i].spec.buffer && offset < b->map->gradient_bytes;
    if (written && b->gradient) a->dw[slot] = b->gradient + offset;
    if (b->reduced && !g->param[i].spec.buffer) a->w_reduced[slot] = b->reduced + offset / 2;
  }
}

/* Sets what the loss of the op reads and writes. */
static void bind_loss(const ct_plan_op_t *o, const ct_bind_t *b, ct_op_args_t *a)
{
  const ct_head_bind_t *h = &b->more[o->head > 0 ? o->head - 1 : 0];
  if (b->loss) a->loss = b->loss + o->head;
  if (!o->head) return;
  a->labels = h->labels;
  a->labels2 = h->labels2;
  a->mix = h->mix;
  a->targets = h->targets;
  a->class_weight = h->class_weight;
  a->place_weight = h->place_weight;
  a->scale = h->scale;
}

/* Copies the indices of a table with late rows, and the gradients of the rows. */
static int keep_rows(const ct_plan_t *p, const ct_plan_launch_t *w, const ct_bind_t *b,
                     ct_queue_t *q)
{
  int rc = CT_OK, k = w->late - 1;
  const ct_op_desc_t *d = &p->op[w->op].desc;
  CT_TRY(p->be->mem->copy(q, b->late[k].index, run_at(p, b, w->x), ct_shape_bytes(&d->x)));
  CT_TRY(p->be->mem->copy(q, b->late[k].row, run_at(p, b, w->dy), ct_shape_bytes(&d->y)));
out:
  return rc;
}

int ct_plan_run(const ct_plan_t *p, int i, const ct_bind_t *b, ct_queue_t *q)
{
  const ct_plan_launch_t *w = &p->launch[i];
  const ct_plan_op_t *o = &p->op[w->op];
  ct_op_args_t a = {
      .pass = w->pass,
      .x = run_at(p, b, w->x),
      .x2 = run_at(p, b, w->x2),
      .x3 = run_at(p, b, w->x3),
      .y = run_at(p, b, w->y),
      .dy = run_at(p, b, w->dy),
      .dy2 = run_at(p, b, w->dy2),
      .dx_add = run_at(p, b, w->dx_add),
      .dx = run_at(p, b, w->dx),
      .dx2 = run_at(p, b, w->dx2),
      .dx3 = run_at(p, b, w->dx3),
      .saved = run_at(p, b, w->saved),
      .scratch = b->scratch,
      .adds_dw = w->adds == CT_ADDS_LATER ? b->adds : w->adds,
      .again = w->again,
      .stats = b->stats,
      .keep_running = b->keep_running,
      .affine = b->affine,
      .labels = b->labels,
      .labels2 = b->labels2,
      .mix = b->mix,
      .targets = b->targets,
      .class_weight = b->class_weight,
      .place_weight = b->place_weight,
      .sample_weight = b->weights,
      .scale = b->loss_scale,
      .seed = b->seed,
      .step = b->step,
      .first = b->first,
      .position = b->position,
  };
  if (!b->adds && o->layer < 0 && w->x2 >= 0 && p->value[w->x2].added && p->value[w->y].param)
    return CT_OK; /* the micro-batch's gradient is in the arena */
  if (w->late) return keep_rows(p, w, b, q);
  if (o->layer >= 0) bind_params(p, b, o->layer, &a);
  if (ct_op_is_loss(o->desc.kind)) bind_loss(o, b, &a);
  for (int k = 0; k < CT_OP_PARAMS; k++)
    if (w->dw[k] >= 0) a.dw[k] = run_at(p, b, w->dw[k]);
  double begin = ct_trace_now();
  int rc = p->be->op->run(q, o->op, &a);
  if (rc == CT_ERR_DATA && o->layer >= 0)
    ct_err_prefix(rc, "layer '%s': ", p->graph->layer[o->layer].name);
  ct_trace_span(ct_op_name(o->desc.kind),
                w->again                            ? "again"
                : w->pass & (CT_FWD | CT_FWD_STATS) ? NULL
                                                    : "backward",
                i, begin);
  return rc;
}

int ct_plan_run_empty(const ct_plan_t *p, int i, const ct_bind_t *b, ct_queue_t *q)
{
  const ct_plan_launch_t *w = &p->launch[i];
  const ct_plan_op_t *o = &p->op[w->op];
  size_t sums = (size_t)(2 * o->desc.x.dim[1] + 1) * sizeof *b->stats;
  ct_op_args_t a = {.pass = CT_FWD, .stats = b->stats, .scratch = b->scratch};
  if (w->again) return CT_OK;
  if (w->pass & (CT_FWD_STATS | CT_BWD_STATS)) return p->be->mem->zero(q, b->stats, sums);
  if (!o->empty || !(w->pass & CT_FWD)) return CT_OK;
  a.keep_running = b->keep_running;
  bind_params(p, b, o->layer, &a);
  return p->be->op->run(q, o->empty, &a);
}
