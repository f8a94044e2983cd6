/* The optimizer ops: GRADSTAT, MEASURE, UPDATE. */
#include "ref/ref.h"

#include "backend/ct_update.h"

/* ---- gradient statistics ---- */

static int gradstat_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *g = a->dy;
  double p = d->u.gradstat.p;

  for (int64_t i = 0; i < a->count; i++) {
    double v = fabsf(g[i] * a->scale);
    ct_grad_stat_t one = {.power = isinf(p) ? v : pow(v, p), .nonfinite = !isfinite(v)};
    ct_grad_stat_add(a->stat, &one, p);
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_gradstat = {.run = gradstat_run};

/* ---- rules ---- */

/* Returns the address of a state of weight i; NULL if the state is not allocated. */
static float *state_at(const ct_op_args_t *a, int state, int64_t i)
{
  return a->state[state] ? (float *)a->state[state] + i : NULL;
}

static void measure(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *g = a->dy, *w = a->w[0];
  ct_grad_map_t map;

  a->norms[0] = a->norms[1] = 0;
  if (!ct_grad_map(&a->ctl, a->scale, &map)) return;
  for (int64_t i = 0; i < a->count; i++) {
    double value = 0;
    switch ((ct_rule_t)d->u.update.rule) {
#define X(rule, function, states, needs_norms, value_of)                            \
  case rule:                                                                        \
    value = value_of(&a->hyper, w[i], ct_grad_mapped(map, g[i]), state_at(a, 0, i), \
                     state_at(a, 1, i), state_at(a, 2, i));                         \
    break;
      CT_RULE_LIST(X)
#undef X
    }
    a->norms[0] += (double)w[i] * w[i];
    a->norms[1] += value * value;
  }
}

static int norms_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  for (int i = 0; i < ct_segments_of(a); i++) {
    ct_op_args_t one = ct_segment_args(a, i);
    measure(d, &one);
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_measure = {.run = norms_run};

static void update(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *g = a->dy;
  float *w = a->w[0];
  ct_hyper_t hyper = a->hyper;
  ct_grad_map_t map;

  if (!ct_grad_map(&a->ctl, a->scale, &map)) return;
  hyper.ratio = ct_rule_ratio(d->u.update.rule, &hyper, a->norms);
  for (int64_t i = 0; i < a->count; i++) {
    switch ((ct_rule_t)d->u.update.rule) {
#define X(rule, function, states, needs_norms, value_of)                                           \
  case rule:                                                                                       \
    w[i] = function(&hyper, w[i], ct_grad_mapped(map, g[i]), state_at(a, 0, i), state_at(a, 1, i), \
                    state_at(a, 2, i));                                                            \
    break;
      CT_RULE_LIST(X)
#undef X
    }
  }
}

static int update_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  for (int i = 0; i < ct_segments_of(a); i++) {
    ct_op_args_t one = ct_segment_args(a, i);
    update(d, &one);
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_update = {.run = update_run};
