/* The launches in order: forward, the loss, backward.
 *
 * A SyncBN has two launches in each direction: one computes the local sums, which the caller
 * all-reduces; the other does the rest.  The launches of SyncBNs are the same in every plan of a
 * model, because they depend on the model's layers alone.
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
} gradients_t;

static int add_launch(ct_plan_t *p, const ct_plan_launch_t *w)
{
  if (ct_mem_grow((void **)&p->launch, &p->cap_launches, p->launches + 1, sizeof *p->launch))
    return CT_ERR_NOMEM;
  p->launch[p->launches++] = *w;
  return CT_OK;
}

static ct_plan_launch_t launches_launch(int op, int pass)
{
  return (ct_plan_launch_t){op, pass, -1, -1, -1, -1, -1, -1, -1, -1};
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
  int rc = CT_OK;
  for (int i = 0; i < p->ops; i++) {
    ct_plan_launch_t w = launches_launch(i, CT_FWD);
    w.x = p->op[i].in[0];
    w.x2 = p->op[i].in[1];
    w.y = p->op[i].out;
    if (p->op[i].desc.passes & CT_FWD_STATS) CT_TRY(add_stats(p, &w, CT_FWD_STATS));
    if (i == p->ops - 1) p->loss_launch = p->launches;
    if (i == p->ops - 1 && p->o.inference)
      break; /* inference skips the loss, which was only needed
                                                     for its preferred layout */
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

/* Adds the launch of a helper op: y = a + b, or dx = the gradient of a ReLU with output y, given
 * the gradient a + b of y. */
static int helper(ct_plan_t *p, ct_op_kind_t kind, const ct_shape_t *shape, int y, int a, int b,
                  int *out)
{
  int rc = CT_OK;
  ct_plan_op_t op = {.layer = -1, .saved = -1, .in = {-1, -1}, .out = -1};
  ct_op_desc_init(&op.desc, kind, shape, shape);
  op.desc.training = 1;
  op.desc.passes = kind == CT_OP_ADD ? CT_FWD : CT_BWD_DATA;
  int o = ct__plan_op(p, &op);
  CT_TRY(o < 0 ? CT_ERR_NOMEM : CT_OK);
  CT_TRY(new_value(p, shape, out));
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
    CT_TRY(helper(s->p, CT_OP_ADD, &shape, -1, g[0], g[1], &g[0]));
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
  int y = p->op[o].out;
  ct_shape_t shape = p->op[o].desc.y;
  *dy = s->grad[y][0];
  *dy2 = s->grad[y][1];
  if (*dy < 0) return CT_OK;
  if (forward_relu(&p->op[o].desc)) {
    CT_TRY(helper(p, CT_OP_RELU, &shape, y, *dy, *dy2, dy));
    *dy2 = -1;
  } else if (*dy2 >= 0 && !takes_dy2) {
    CT_TRY(helper(p, CT_OP_ADD, &shape, -1, *dy, *dy2, dy));
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
  const int *in = p->op[o].in;
  /* an addition has one gradient for both inputs */
  int two = in[1] >= 0 && d.kind != CT_OP_ADD && !ct_op_adds_second(&d);
  if (p->value[in[0]].grad || d.kind == CT_OP_ADD) CT_TRY(new_value(p, &d.x, &w->dx));
  if (two && p->value[in[1]].grad) {
    ct_shape_t shape = p->value[in[1]].shape;
    CT_TRY(new_value(p, &shape, &w->dx2));
  }
out:
  return rc;
}

/* Gives the gradient of the first input.  If the op can add a gradient that this input has already,
 * as that of a shortcut around a layer normalization, the result replaces it. */
static int give_first(gradients_t *s, int value, ct_plan_launch_t *w)
{
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
  const int in[2] = {p->op[o].in[0], p->op[o].in[1]};
  ct_plan_launch_t w = launches_launch(o, d.passes & ~(CT_FWD | CT_FWD_STATS));
  if (!w.pass && !ct_op_adds_second(&d)) return CT_OK;
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
  if (p->op[o].info.bwd_uses & CT_USES_X) w.x = in[0];
  if (p->op[o].info.bwd_uses & CT_USES_Y) w.y = p->op[o].out;
  CT_TRY(outgoing(p, o, &w));
  CT_TRY(give_first(s, in[0], &w));
  CT_TRY(add_backward(p, &w));
  if (in[1] >= 0) CT_TRY(give(s, in[1], d.kind == CT_OP_ADD ? w.dx : w.dx2));
out:
  return rc;
}

int ct__plan_launches(ct_plan_t *p)
{
  int rc = CT_OK, loss = p->ops - 1;
  gradients_t s = {p, NULL};
  CT_TRY(launches_forward(p));
  if (!p->o.training) return CT_OK;
  s.grad = ct_mem_array(p->values, sizeof *s.grad, "plan");
  CT_TRY(s.grad ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < p->values; i++)
    s.grad[i][0] = s.grad[i][1] = -1;
  ct_plan_launch_t *w = &p->launch[p->loss_launch];
  int dx;
  CT_TRY(new_value(p, &p->op[loss].desc.x, &dx));
  w->pass = CT_FWD | CT_BWD_DATA;
  w->dx = dx;
  CT_TRY(give(&s, p->logits, dx));
  for (int o = loss - 1; o >= 0; o--)
    CT_TRY(launches_backward(&s, o));
out:
  ct_mem_free(s.grad);
  return rc;
}
