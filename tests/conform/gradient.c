/* Compares backward passes with central differences.
 *
 * For random r, the function f(inputs) = sum of r y has the gradients that the backward pass gives
 * for dy = r.  Its derivative by one input is computed from four values around it (five-point
 * formula, error of order h^4); h can be so large that float32 rounding does not matter.  Where a
 * ReLU switches within the four points there is no derivative: such outputs are found first, and
 * their r is set to 0.  Inputs of max pooling are further apart than the steps. */
#include "tests/conform/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

static const double step = 0.04;
static const double tolerance = 5e-4; /* relative to the gradient's norm */

typedef struct probe {
  rig_t rig;
  inputs_t in;
  outputs_t now, base, gradient;
  char *switches; /* outputs whose ReLU switches nearby */
  int64_t count;  /* number of outputs */
} probe_t;

static int has_relu(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_RELU || (d->kind == CT_OP_BNORM && d->u.bnorm.relu) ||
         (d->kind == CT_OP_ADD && d->u.add.relu) || (d->kind == CT_OP_POOL && d->u.pool.relu);
}

/* Returns the linear piece of the ReLU that an output is on. */
static int piece_of(const ct_op_desc_t *d, float y)
{
  int relu6 = d->kind == CT_OP_BNORM && d->u.bnorm.relu == CT_RELU6;
  return y <= 0 ? 0 : relu6 && y >= 6 ? 2 : 1;
}

static double value(probe_t *p)
{
  double sum = 0;

  if (rig_forward(&p->rig, &p->in) || rig_take(&p->rig, &p->now)) return NAN;
  if (ct_op_is_loss(p->rig.desc.kind)) return p->now.loss.sum;
  for (int64_t i = 0; i < p->count; i++) {
    sum += (double)p->in.dy[i] * p->now.y[i];
    p->switches[i] |= piece_of(&p->rig.desc, p->now.y[i]) != piece_of(&p->rig.desc, p->base.y[i]);
  }
  return sum;
}

static double derivative(probe_t *p, float *input)
{
  static const double at[4] = {-2, -1, 1, 2}, weight[4] = {1, -8, 8, -1};
  float middle = *input;
  double sum = 0;

  for (int i = 0; i < 4; i++) {
    *input = middle + (float)(at[i] * step);
    sum += weight[i] * value(p);
  }
  *input = middle;
  return sum / (12 * step);
}

/* Visits all elements of one input.  Without a gradient, only looks for switching outputs. */
static void visit(probe_t *p, const char *what, float *input, const float *gradient, int64_t n)
{
  char text[160];
  double error = 0, size = 0;

  for (int64_t i = 0; input && i < n; i++) {
    double d = derivative(p, &input[i]);
    if (!gradient) continue;
    size += (double)gradient[i] * gradient[i];
    error += (d - gradient[i]) * (d - gradient[i]);
  }
  if (!input || !gradient) return;
  check(sqrt(error) <= tolerance * sqrt(size),
        "%s: %s: differences are off by %.3g of the gradient",
        ct_op_text(&p->rig.desc, text, sizeof text), what, sqrt(error / size));
}

/* An addition has the same gradient for both inputs. */
static void visit_all(probe_t *p, const outputs_t *g)
{
  const ct_op_desc_t *d = &p->rig.desc;
  int64_t n = ct_shape_count(&d->x);

  unsigned none = ct_op_indices(d) | (d->kind == CT_OP_OPERAND);
  visit(p, "dx", none & 1 ? NULL : p->in.x, g ? g->dx : NULL, n);
  visit(p, "dx2", none & 2 ? NULL : p->in.x2, g ? (d->kind == CT_OP_ADD ? g->dx : g->dx2) : NULL,
        second_count(d));
  visit(p, "dx3", none & 4 ? NULL : p->in.x3, g ? g->dx3 : NULL, third_count(d));
  visit(p, "dw[0]", p->in.w[0], g ? g->dw[0] : NULL, param_count(d, 0));
  visit(p, "dw[1]", p->in.w[1], g ? g->dw[1] : NULL, param_count(d, 1));
  for (int i = 2; i < 4 && d->kind != CT_OP_BNORM; i++)
    visit(p, i == 2 ? "dw[2]" : "dw[3]", p->in.w[i], g ? g->dw[i] : NULL, param_count(d, i));
}

static void leave_out_switches(probe_t *p)
{
  int64_t left = 0;
  char text[160];

  if (!has_relu(&p->rig.desc)) return;
  visit_all(p, NULL);
  for (int64_t i = 0; i < p->count; i++) {
    if (p->switches[i]) p->in.dy[i] = 0;
    left += !p->switches[i];
  }
  check(2 * left > p->count, "%s: only %d of %d outputs have a derivative",
        ct_op_text(&p->rig.desc, text, sizeof text), (int)left, (int)p->count);
}

static const char *go_back(probe_t *p)
{
  if (rig_forward(&p->rig, &p->in) || rig_backward(&p->rig, &p->in)) return ct_err_last()->text;
  return rig_take(&p->rig, &p->gradient);
}

void check_gradient(const op_case_t *c)
{
  const ct_op_desc_t *d = &c->desc;
  trial_t how = {"gradient", CT_FWD | CT_BWD_DATA | CT_BWD_PARAM, 0, CT_PLAIN};
  probe_t p = {.count = ct_shape_count(&d->y)};
  const char *wrong;
  char text[160];

  if (param_count(d, 0) == 0) how.passes = CT_FWD | CT_BWD_DATA;
  if (d->kind == CT_OP_OPERAND) how.passes = CT_FWD | CT_BWD_PARAM;
  p.switches = ct_mem_array(p.count, 1, "test");
  inputs_open(&p.in, d, 3, c->data);
  outputs_open(&p.now, d);
  outputs_open(&p.base, d);
  outputs_open(&p.gradient, d);
  if (rig_open(&p.rig, &tested, d, &how) || rig_forward(&p.rig, &p.in)) {
    wrong = ct_err_last()->text;
  } else {
    rig_take(&p.rig, &p.base);
    leave_out_switches(&p);
    wrong = go_back(&p);
  }
  if (check(!wrong, "%s: %s", ct_op_text(d, text, sizeof text), wrong)) visit_all(&p, &p.gradient);
  rig_close(&p.rig);
  outputs_close(&p.gradient);
  outputs_close(&p.base);
  outputs_close(&p.now);
  inputs_close(&p.in);
  ct_mem_free(p.switches);
}
