/* The optimizer's ops: GRADSTAT, MEASURE, UPDATE. */
#include "ref/ref.h"

#include "backend/ct_update.h"

static void flat_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  (void)d;
  (void)info;
}

static const char *flat_check(const ct_op_desc_t *d)
{
  return d->passes == CT_FWD ? NULL : "it has no backward pass";
}

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

static const char *gradstat_check(const ct_op_desc_t *d)
{
  return d->u.gradstat.p > 0 ? flat_check(d) : "the norm's p is not above 0";
}

const ct__ref_kind_t ct__ref_gradstat = {gradstat_check, flat_needs, gradstat_run};

/* ---- rules ---- */

static const char *rule_check(const ct_op_desc_t *d)
{
  if (d->u.update.rule < 0 || d->u.update.rule >= CT_RULE_COUNT) return "unknown optimizer rule";
  return flat_check(d);
}

/* Where a state of weight i is; one that is not there is not looked at. */
static float *state_at(const ct_op_args_t *a, int state, int64_t i)
{
  return a->state[state] ? (float *)a->state[state] + i : NULL;
}

static int measure_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *g = a->dy, *w = a->w[0];
  ct_grad_map_t map;

  a->norms[0] = a->norms[1] = 0;
  if (!ct_grad_map(&a->ctl, a->scale, &map)) return CT_OK;
  for (int64_t i = 0; i < a->count; i++) {
    double value = 0;
    switch ((ct_rule_t)d->u.update.rule) {
#define X(rule, function, states, measures, measure)                               \
  case rule:                                                                       \
    value = measure(&a->hyper, w[i], ct_grad_mapped(map, g[i]), state_at(a, 0, i), \
                    state_at(a, 1, i), state_at(a, 2, i));                         \
    break;
      CT_RULE_LIST(X)
#undef X
    case CT_RULE_COUNT:
      break;
    }
    a->norms[0] += (double)w[i] * w[i];
    a->norms[1] += value * value;
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_measure = {rule_check, flat_needs, measure_run};

static int update_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *g = a->dy;
  float *w = a->w[0];
  ct_hyper_t hyper = a->hyper;
  ct_grad_map_t map;

  if (!ct_grad_map(&a->ctl, a->scale, &map)) return CT_OK;
  hyper.ratio = ct_rule_ratio(d->u.update.rule, &hyper, a->norms);
  for (int64_t i = 0; i < a->count; i++) {
    switch ((ct_rule_t)d->u.update.rule) {
#define X(rule, function, states, measures, measure)                                               \
  case rule:                                                                                       \
    w[i] = function(&hyper, w[i], ct_grad_mapped(map, g[i]), state_at(a, 0, i), state_at(a, 1, i), \
                    state_at(a, 2, i));                                                            \
    break;
      CT_RULE_LIST(X)
#undef X
    case CT_RULE_COUNT:
      break;
    }
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_update = {rule_check, flat_needs, update_run};
