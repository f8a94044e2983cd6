/* The launches in order: forward, the losses, backward.  Ops whose results no loss needs (in
 * evaluation: no output) have no launches.
 *
 * A SyncBN has two launches in each direction: one computes the local sums, which the caller
 * all-reduces; the other does the rest.  The launches of SyncBNs are the same in every plan of a
 * model, because they depend on the model's layers alone.
 *
 * A parameter that several layers use gets a gradient from each of them: the first that backward
 * runs writes into the gradient arena; the others add to it, or where their backend cannot, helper
 * ops add their gradients.  If the plan runs for several micro-batches, those after the first add
 * to the arena in the same ways: they need no memory but for one parameter at a time.
 *
 * A gradient is a value that is written once.  A value with several readers gets one gradient from
 * each reader.  If the backward pass of the op that made the value can take two gradients, it gets
 * two directly; helper ops sum up the others. */
#include "plan/passes.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

typedef struct gradients {
  ct_plan_t *p;
  int (*grad)[2]; /* per forward value: its gradients so far; -1: none */
  int *arena;     /* per parameter that launches add to: the value of its gradient in the arena; 0:
                     not written */
  int *added; /* per parameter: that of the gradient of a micro-batch that adds; 0: none, or it is
                     added already */
} gradients_t;

/* Returns 1 for an op that is run for its own sake. */
static int launches_wanted(const ct_plan_t *p, const ct_plan_op_t *op)
{
  return p->o.only_cache ? op->desc.kind == CT_OP_CACHE : ct_op_is_loss(op->desc.kind);
}

/* Returns 1 per value in a new array if an output needs it. */
static int *find_needed(const ct_plan_t *p)
{
  int *needed = ct_mem_array(p->values, sizeof *needed, "plan");
  for (int o = p->ops - 1; needed && o >= 0; o--) {
    const ct_plan_op_t *op = &p->op[o];
    if (launches_wanted(p, op) && op->out >= 0) needed[op->out] = 1;
    if (op->out < 0 ? !launches_wanted(p, op) : !needed[op->out]) continue;
    for (int k = 0; k < CT_OP_INPUTS; k++)
      if (op->in[k] >= 0) needed[op->in[k]] = 1;
  }
  return needed;
}

static int add_launch(ct_plan_t *p, const ct_plan_launch_t *w)
{
  if (ct_mem_grow((void **)&p->launch, &p->cap_launches, p->launches + 1, sizeof *p->launch))
    return CT_ERR_NOMEM;
  p->launch[p->launches] = *w;
  p->launch[p->launches++].saved = p->op[w->op].saved;
  return CT_OK;
}

static ct_plan_launch_t launches_launch(int op, int pass)
{
  return (ct_plan_launch_t){.op = op,
                            .pass = pass,
                            .x = -1,
                            .x2 = -1,
                            .x3 = -1,
                            .y = -1,
                            .dy = -1,
                            .dy2 = -1,
                            .dx = -1,
                            .dx2 = -1,
                            .dx3 = -1,
                            .dx_add = -1,
                            .dw = {-1, -1, -1, -1}};
}

/* Adds the launch that computes the local sums for the batchnorm launch \a w; its inputs are those
 * of \a w. */
static int add_stats(ct_plan_t *p, const ct_plan_launch_t *w, int pass)
{
  ct_plan_launch_t stats = *w;
  stats.pass = pass;
  stats.y = pass == CT_FWD_STATS ? -1 : w->y;
  stats.x2 = stats.dx = stats.dx2 = -1;
  return add_launch(p, &stats);
}

static int launches_forward(ct_plan_t *p)
{
  int rc = CT_OK, *needed = find_needed(p);
  if (!needed) return CT_ERR_NOMEM;
  for (int i = 0; i < p->ops; i++) {
    ct_plan_launch_t w = launches_launch(i, CT_FWD);
    w.x = p->op[i].in[0];
    w.x2 = p->op[i].in[1];
    w.x3 = p->op[i].in[2];
    w.y = p->op[i].out;
    if (w.y < 0 || !needed[w.y]) continue;
    if (p->op[i].desc.passes & CT_FWD_STATS) CT_TRY(add_stats(p, &w, CT_FWD_STATS));
    CT_TRY(add_launch(p, &w));
  }
out:
  ct_mem_free(needed);
  return rc;
}

/* Inference skips the losses, which were only needed for their preferred layout. */
static int launches_losses(ct_plan_t *p)
{
  int rc = CT_OK;
  p->loss_launch = p->launches;
  for (int i = 0; i < p->ops && !p->o.inference; i++) {
    ct_plan_launch_t w = launches_launch(i, CT_FWD);
    if (!ct_op_is_loss(p->op[i].desc.kind) || p->op[i].head < 0) continue;
    w.x = p->op[i].in[0];
    p->loss_launch = p->launches;
    CT_TRY(add_launch(p, &w));
  }
out:
  return rc;
}

static int new_value(ct_plan_t *p, const ct_shape_t *shape, int *out)
{
  *out = ct__plan_value(p, shape, 0);
  return *out < 0 ? CT_ERR_NOMEM : CT_OK;
}

/* Adds the launch of a helper op: *out = a + b, or *out = the gradient of a ReLU with output y,
 * given the gradient a + b of y.  *out less than 0: a new value. */
static int helper(ct_plan_t *p, ct_op_kind_t kind, const ct_shape_t *shape, int y, int a, int b,
                  int *out)
{
  int rc = CT_OK;
  ct_plan_op_t op = {.layer = -1, .saved = -1, .in = {-1, -1, -1}, .out = -1};
  ct_op_desc_init(&op.desc, kind, shape, shape);
  op.desc.training = 1;
  op.desc.passes = kind == CT_OP_ADD ? CT_FWD : CT_BWD_DATA;
  int o = ct__plan_op(p, &op);
  CT_TRY(o < 0 ? CT_ERR_NOMEM : CT_OK);
  if (*out < 0) CT_TRY(new_value(p, shape, out));
  ct_plan_launch_t w = launches_launch(o, op.desc.passes);
  if (kind == CT_OP_ADD) {
    w.x = a;
    w.x2 = b;
    w.y = *out;
  } else {
    w.y = y;
    w.dy = a;
    w.dy2 = b;
    w.dx = *out;
  }
  CT_TRY(add_launch(p, &w));
out:
  return rc;
}

static int give(gradients_t *s, int value, int gradient)
{
  int rc = CT_OK;
  int *g = s->grad[value];
  if (gradient < 0 || !s->p->value[value].grad) return CT_OK;
  if (g[0] >= 0 && g[1] >= 0) {
    ct_shape_t shape = s->p->value[g[0]].shape;
    int sum = -1;
    CT_TRY(helper(s->p, CT_OP_ADD, &shape, -1, g[0], g[1], &sum));
    g[0] = sum;
    g[1] = -1;
  }
  g[g[0] < 0 ? 0 : 1] = gradient;
out:
  return rc;
}

static int forward_relu(const ct_op_desc_t *d)
{
  return (d->kind == CT_OP_CONV && d->u.conv.relu) || (d->kind == CT_OP_LINEAR && d->u.linear.relu);
}

/* Returns 1 for an addition without ReLU: the gradient of its output is also the gradient of both
 * inputs, so backward needs no launch. */
static int passes_on(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_ADD && !d->u.add.relu;
}

/* Returns the one or two gradients from which the op's backward pass starts. */
static int incoming(gradients_t *s, int o, int *dy, int *dy2)
{
  int rc = CT_OK;
  ct_plan_t *p = s->p;
  int takes_dy2 = p->op[o].info.takes_dy2 && !passes_on(&p->op[o].desc);
  int y = p->op[o].out, both = -1;
  ct_shape_t shape = p->op[o].desc.y;
  *dy = s->grad[y][0];
  *dy2 = s->grad[y][1];
  if (*dy < 0) return CT_OK;
  if (forward_relu(&p->op[o].desc))
    CT_TRY(helper(p, CT_OP_RELU, &shape, y, *dy, *dy2, &both));
  else if (*dy2 >= 0 && !takes_dy2)
    CT_TRY(helper(p, CT_OP_ADD, &shape, -1, *dy, *dy2, &both));
  if (both >= 0) {
    *dy = both;
    *dy2 = -1;
  }
out:
  return rc;
}

/* Creates the gradients of the op's inputs that are needed. */
static int outgoing(ct_plan_t *p, int o, ct_plan_launch_t *w)
{
  int rc = CT_OK;
  const ct_op_desc_t d = p->op[o].desc;
  const int in[] = {p->op[o].in[0], p->op[o].in[1], p->op[o].in[2]};
  int shaped = ct_op_is(d.kind, CT_KIND_SHAPES);
  /* an addition has one gradient for both inputs */
  int two = in[1] >= 0 && d.kind != CT_OP_ADD && !ct_op_adds_second(&d);
  unsigned exact = ct_op_indices(&d);
  int first = in[0] >= 0 && p->value[in[0]].grad && !(exact & 1);
  if (first || d.kind == CT_OP_ADD) CT_TRY(new_value(p, &d.x, &w->dx));
  if (w->dx >= 0) {
    ct_shape_t around = ct_op_around_x(&d);
    p->value[w->dx].bytes = ct_shape_bytes(&around);
  }
  if (two && p->value[in[1]].grad && !(exact & 2)) {
    ct_shape_t shape = shaped ? d.x2 : p->value[in[1]].shape;
    CT_TRY(new_value(p, &shape, &w->dx2));
  }
  if (in[2] >= 0 && p->value[in[2]].grad && !(exact & 4)) CT_TRY(new_value(p, &d.x3, &w->dx3));
out:
  return rc;
}

/* Returns 1 if the rows of a shared table are late, and lists the table. */
static int is_late(ct_plan_t *p, const ct_plan_launch_t *w, int param)
{
  const ct_op_desc_t *d = &p->op[w->op].desc;
  int64_t sample = ct_shape_count(&d->x) / p->o.n;
  if (d->kind != CT_OP_ROWS || p->graph->param[param].frozen || p->lates == CT_LATE_MAX) return 0;
  if (!p->o.late_samples || p->o.late_samples * sample > d->u.rows.rows) return 0;
  if (ct_op_row_width(d) * (int64_t)ct_dtype_size(d->y.dtype) % (int64_t)sizeof(float)) return 0;
  if (ct_plan_late(p, param) >= 0) return 0; /* a further embedding adds to the arena */
  p->late[p->lates++] = (ct_late_rows_t){.param = param, .op = w->op, .sample = sample};
  return 1;
}

/* Returns 1 if several layers use a parameter. */
static int is_shared(const ct_graph_t *g, int param)
{
  return g->param[param].uses > 1;
}

/* Returns 1 if backward of the op can add to all gradients of its parameters, as launches do that
 * are not the first to write them. */
static int can_add(const ct_plan_t *p, const ct_plan_op_t *op)
{
  const ct_graph_t *g = p->graph;
  const ct_layer_t *l = &g->layer[op->layer];
  for (int k = 0; k < l->params && l->params > 1; k++)
    if (is_shared(g, l->param[k])) return 0;
  return op->info.adds_dw;
}

/* Returns the value that has the gradient of a parameter in the arena. */
static int arena_value(gradients_t *s, int param, const ct_shape_t *flat, int *out)
{
  int rc = CT_OK;
  if (!s->arena[param]) CT_TRY(new_value(s->p, flat, &s->arena[param]));
  s->p->value[s->arena[param]].param = 1 + param;
  *out = s->arena[param];
out:
  return rc;
}

/* Diverts the first launch that writes the gradient of a parameter, if micro-batches accumulate. */
static int divert_first(gradients_t *s, ct_plan_launch_t *w, int k, int param,
                        const ct_shape_t *flat)
{
  int rc = CT_OK, sum;
  ct_plan_t *p = s->p;
  CT_TRY(arena_value(s, param, flat, &sum));
  if (!p->o.accumulates || p->graph->param[param].frozen) return CT_OK;
  if (can_add(p, &p->op[w->op]) && p->o.accumulates != CT_ACCUMULATE_EXACT) {
    w->adds = CT_ADDS_LATER;
    return CT_OK;
  }
  CT_TRY(new_value(p, flat, &w->dw[k]));
  p->value[w->dw[k]].added = 1 + param;
  s->added[param] = w->dw[k];
out:
  return rc;
}

/* Makes the launch add to the gradients of parameters that are in the arena already, or sends them
 * to new values. */
static int divert(gradients_t *s, ct_plan_launch_t *w)
{
  int rc = CT_OK;
  ct_plan_t *p = s->p;
  const ct_plan_op_t *op = &p->op[w->op];
  const ct_graph_t *g = p->graph;
  for (int k = 0; op->layer >= 0 && op->trained && k < g->layer[op->layer].params; k++) {
    int param = g->layer[op->layer].param[k];
    if (g->param[param].spec.buffer || !(is_shared(g, param) || p->o.accumulates)) continue;
    ct_shape_t flat = ct_shape(1, (int64_t)(op->info.param_bytes[k] / sizeof(float)));
    if (!s->arena[param]) {
      CT_TRY(divert_first(s, w, k, param, &flat));
    } else if (can_add(p, op)) {
      w->adds = 1;
      w->dw[k] = s->added[param] ? s->added[param] : -1;
      if (is_late(p, w, param)) w->late = p->lates;
    } else {
      CT_TRY(new_value(p, &flat, &w->dw[k]));
    }
  }
out:
  return rc;
}

/* Adds the gradient of a micro-batch that adds to that in the arena. */
static int merge_added(gradients_t *s, int param)
{
  int added = s->added[param], sum = s->arena[param];
  ct_shape_t flat = s->p->value[sum].shape;
  s->added[param] = 0;
  return added ? helper(s->p, CT_OP_ADD, &flat, -1, sum, added, &sum) : CT_OK;
}

/* Adds the gradients of parameters that launch \a w diverts to those of earlier launches.  The
 * exact sum of a shared parameter waits for all launches. */
static int merge(gradients_t *s, const ct_plan_launch_t *w)
{
  int rc = CT_OK;
  ct_plan_t *p = s->p;
  for (int k = 0; k < CT_OP_PARAMS; k++) {
    if (w->dw[k] < 0) continue;
    int param = p->graph->layer[p->op[w->op].layer].param[k], sum = s->arena[param];
    ct_shape_t flat = p->value[sum].shape;
    if (s->added[param]) sum = s->added[param];
    if (w->dw[k] != sum) CT_TRY(helper(p, CT_OP_ADD, &flat, -1, sum, w->dw[k], &sum));
    if (p->o.accumulates != CT_ACCUMULATE_EXACT || !is_shared(p->graph, param))
      CT_TRY(merge_added(s, param));
  }
out:
  return rc;
}

/* Gives the gradient of the first input.  If the op can add a gradient that this input has already,
 * as that of a shortcut around a layer normalization, the result replaces it. */
static int give_first(gradients_t *s, int value, ct_plan_launch_t *w)
{
  if (value < 0) return CT_OK;
  int *g = s->grad[value], last = g[1] >= 0;
  if (w->dx < 0 || g[last] < 0 || !s->p->op[w->op].info.adds_dx) return give(s, value, w->dx);
  w->dx_add = g[last];
  g[last] = w->dx;
  return CT_OK;
}

static int add_backward(ct_plan_t *p, ct_plan_launch_t *w)
{
  int rc = CT_OK;
  if (w->pass & CT_BWD_STATS) {
    CT_TRY(add_stats(p, w, CT_BWD_STATS));
    w->pass = CT_BWD_DATA;
  }
  CT_TRY(add_launch(p, w));
out:
  return rc;
}

static int launches_backward(gradients_t *s, int o)
{
  int rc = CT_OK, dy, dy2;
  ct_plan_t *p = s->p;
  const ct_op_desc_t d = p->op[o].desc;
  const int in[] = {p->op[o].in[0], p->op[o].in[1], p->op[o].in[2]};
  ct_plan_launch_t w = launches_launch(o, d.passes & ~(CT_FWD | CT_FWD_STATS));
  if (p->op[o].out < 0 || (!w.pass && !ct_op_adds_second(&d))) return CT_OK;
  CT_TRY(incoming(s, o, &dy, &dy2));
  if (dy < 0) return CT_OK; /* its output does not reach the loss */
  if (ct_op_adds_second(&d)) CT_TRY(give(s, in[1], dy));
  if (!w.pass) return CT_OK;
  if (passes_on(&d)) {
    CT_TRY(give(s, in[0], dy));
    CT_TRY(give(s, in[1], dy));
    return CT_OK;
  }
  w.dy = dy;
  w.dy2 = dy2;
  if (p->op[o].info.bwd_uses & CT_USES_X) {
    w.x = in[0];
    if (ct_op_is(d.kind, CT_KIND_SHAPES)) w.x2 = in[1];
    w.x3 = in[2];
  }
  if (p->op[o].info.bwd_uses & CT_USES_Y) w.y = p->op[o].out;
  CT_TRY(outgoing(p, o, &w));
  CT_TRY(divert(s, &w));
  CT_TRY(give_first(s, in[0], &w));
  CT_TRY(add_backward(p, &w));
  CT_TRY(merge(s, &w));
  if (in[1] >= 0) CT_TRY(give(s, in[1], d.kind == CT_OP_ADD ? w.dx : w.dx2));
  if (in[2] >= 0) CT_TRY(give(s, in[2], w.dx3));
out:
  return rc;
}

/* Makes the losses compute the gradients of outputs that trained parameters precede, and those of
 * a head that is fused with its loss. */
static int begin_backward(gradients_t *s)
{
  int rc = CT_OK, dx;
  ct_plan_t *p = s->p;
  for (int i = 0; i <= p->loss_launch; i++) {
    const ct_plan_op_t *op = &p->op[p->launch[i].op];
    if (!ct_op_is_loss(op->desc.kind)) continue;
    ct_shape_t shape = op->desc.x;
    int output = op->in[0];
    p->launch[i].pass = op->desc.passes;
    if (op->trained) CT_TRY(divert(s, &p->launch[i]));
    ct_plan_launch_t w = p->launch[i]; /* the list moves as it grows */
    CT_TRY(merge(s, &w));
    if (!p->value[output].grad) continue;
    CT_TRY(new_value(p, &shape, &dx));
    p->launch[i].dx = dx;
    CT_TRY(give(s, output, dx));
  }
out:
  return rc;
}

int ct__plan_launches(ct_plan_t *p)
{
  int rc = CT_OK, ops = p->ops;
  gradients_t s = {.p = p};
  CT_TRY(launches_forward(p));
  CT_TRY(launches_losses(p));
  if (!p->o.training) return CT_OK;
  s.grad = ct_mem_array(p->values, sizeof *s.grad, "plan");
  s.arena = ct_mem_array(p->graph->params + 1, sizeof *s.arena, "plan");
  s.added = ct_mem_array(p->graph->params + 1, sizeof *s.added, "plan");
  CT_TRY(s.grad && s.arena && s.added ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < p->values; i++)
    s.grad[i][0] = s.grad[i][1] = -1;
  CT_TRY(begin_backward(&s));
  for (int o = ops - 1; o >= 0; o--)
    CT_TRY(launches_backward(&s, o));
  for (int i = 0; i < p->graph->params; i++)
    CT_TRY(merge_added(&s, i));
out:
  ct_mem_free(s.grad);
  ct_mem_free(s.arena);
  ct_mem_free(s.added);
  return rc;
}
