/* Optimizers: computes the hyper-parameters of an update from the options.  The arithmetic is in
 * the rules of backend/ct_rules.h; kinds that share a rule differ only in these
 * hyper-parameters. */
#include "optim/ct_optim.h"

#include <math.h>

#include "base/ct_err.h"
#include "optim/kinds.h"

enum { SGD, ADAM, ADAMW, RMSPROP, LARS, LAMB, KINDS };

/** The optimizers. */
static const struct {
  int rule;
  int betas;  /**< 1: has betas instead of momentum */
  double eps; /**< default in PyTorch (LARS, LAMB: in timm) */
} kinds[KINDS] = {[SGD] = {CT_RULE_SGD, 0, 0},       [ADAM] = {CT_RULE_ADAM, 1, 1e-8},
                  [ADAMW] = {CT_RULE_ADAM, 1, 1e-8}, [RMSPROP] = {CT_RULE_RMSPROP, 0, 1e-8},
                  [LARS] = {CT_RULE_LARS, 0, 1e-8},  [LAMB] = {CT_RULE_LAMB, 1, 1e-6}};

const ct_opt_t ct_optim_rows[] = {
    CT_OPT_CHOICE(ct_optim_opts_t, kind, "sgd", "sgd|adam|adamw|rmsprop|lars|lamb", "optimizer"),
    CT_OPT_DOUBLE(
        ct_optim_opts_t, lr, "0.1", 0, 1e18,
        "learning rate after the warm-up (a usual value for adam, adamw, rmsprop is 0.001)"),
    CT_OPT_DOUBLE(ct_optim_opts_t, momentum, "0.9", 0, 1, "sgd, rmsprop, lars: momentum"),
    CT_OPT_DOUBLE(ct_optim_opts_t, dampening, "0", 0, 1, "sgd, lars: dampening of the momentum"),
    CT_OPT_DOUBLE(ct_optim_opts_t, weight_decay, "0", 0, 1e18,
                  "L2 penalty, added to the gradient; adamw: decoupled from the gradient; lars, "
                  "lamb: only parameters with a value above 0 get an adapted learning rate"),
    CT_OPT_BOOL(ct_optim_opts_t, nesterov, "false", "sgd, lars: Nesterov momentum"),
    CT_OPT_DOUBLE(ct_optim_opts_t, beta1, "0.9", 0, 1,
                  "adam, adamw, lamb: decay of the mean gradient"),
    CT_OPT_DOUBLE(ct_optim_opts_t, beta2, "0.999", 0, 1,
                  "adam, adamw, lamb: decay of the mean squared gradient"),
    CT_OPT_DOUBLE(ct_optim_opts_t, alpha, "0.99", 0, 1,
                  "rmsprop: decay of the mean squared gradient"),
    CT_OPT_BOOL(ct_optim_opts_t, centered, "false",
                "rmsprop: normalise by the variance of the gradient"),
    CT_OPT_DOUBLE(ct_optim_opts_t, eps, "0", 0, 1,
                  "all but sgd: added to the denominator; 0: 1e-8 (lamb: 1e-6)"),
    CT_OPT_DOUBLE(ct_optim_opts_t, trust, "0.001", 0, 1e18, "lars: trust coefficient"),
    CT_OPT_BOOL(ct_optim_opts_t, no_decay_bias_norm, "false",
                "biases and normalisation layers get no weight decay"),
    CT_OPT_NODE(ct_optim_opts_t, groups,
                "list of {match: PATTERN or LIST, lr, weight_decay, momentum}: options for the "
                "parameters that match; the first matching entry is used"),
    CT_OPT_END};

int ct__optim_has_betas(const ct_optim_opts_t *o)
{
  return kinds[o->kind].betas;
}

/* ---- checks ---- */

enum {
  MOMENTA = CT__OPTIM_KIND(SGD) | CT__OPTIM_KIND(LARS),
  BETAS = CT__OPTIM_KIND(ADAM) | CT__OPTIM_KIND(ADAMW) | CT__OPTIM_KIND(LAMB)
};

static const ct__optim_only_t only[] = {
    {"momentum", MOMENTA | CT__OPTIM_KIND(RMSPROP)},
    {"dampening", MOMENTA},
    {"nesterov", MOMENTA},
    {"beta1", BETAS},
    {"beta2", BETAS},
    {"alpha", CT__OPTIM_KIND(RMSPROP)},
    {"centered", CT__OPTIM_KIND(RMSPROP)},
    {"eps", BETAS | CT__OPTIM_KIND(RMSPROP) | CT__OPTIM_KIND(LARS)},
    {"trust", CT__OPTIM_KIND(LARS)},
    {NULL, 0}};

int ct_optim_has_key(const char *kind, const char *key)
{
  return ct__optim_has_key(ct_optim_rows, only, kind, key);
}

int ct_optim_check(const ct_optim_opts_t *o)
{
  int rc = CT_OK;
  CT_TRY(ct__optim_check_only(ct_optim_rows, o, only, o->kind, "optim"));
  if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
    CT_FAIL(
        CT_ERR_USAGE,
        "optim.nesterov needs a momentum above 0 and no dampening, but optim.momentum is %g and "
        "optim.dampening is %g",
        o->momentum, o->dampening);
  if (o->beta1 >= 1 || o->beta2 >= 1)
    CT_FAIL(CT_ERR_USAGE, "optim.beta1 and optim.beta2 must be below 1, but are %g and %g",
            o->beta1, o->beta2);
out:
  return rc;
}

/* ---- states ---- */

/* Returns 1 if an entry of optim.groups has a momentum other than 0. */
static int groups_have_momentum(const ct_optim_opts_t *o)
{
  double value;
  for (const ct_yaml_t *n = o->groups ? o->groups->child : NULL; n; n = n->next) {
    const ct_yaml_t *momentum = n->kind == CT_YAML_MAP ? ct_yaml_find(n, "momentum") : NULL;
    if (momentum && momentum->text && ct_text_double(momentum->text, &value) == CT_OK && value != 0)
      return 1;
  }
  return 0;
}

/* Sets the names of the states in the order of the rule; returns their number. */
static int states_of(const ct_optim_opts_t *o, const char *name[CT_RULE_STATES])
{
  int n = 0;
  int momentum = o->momentum != 0 || groups_have_momentum(o);
  if (kinds[o->kind].betas) {
    name[n++] = "exp_avg";
    name[n++] = "exp_avg_sq";
    return n;
  }
  if (o->kind == RMSPROP) name[n++] = "square_avg";
  if (o->kind == RMSPROP && o->centered) name[n++] = "grad_avg";
  if (momentum) name[n++] = "momentum_buffer";
  return n;
}

int ct_optim_rule(const ct_optim_opts_t *o, int *states)
{
  const char *name[CT_RULE_STATES];
  *states = states_of(o, name);
  if (o->kind == RMSPROP && o->centered) return CT_RULE_RMSPROP_CENTERED;
  return kinds[o->kind].rule;
}

const char *ct_optim_state_name(const ct_optim_opts_t *o, int state)
{
  const char *name[CT_RULE_STATES];
  return state >= 0 && state < states_of(o, name) ? name[state] : "unknown";
}

/* ---- hyper-parameters of an update ---- */

/* Sets the fields that depend on the betas, computed in double and rounded once: 1 - 0.999f has
 * only 4 correct digits. */
static void set_betas(ct_hyper_t *h, double beta1, double beta2)
{
  h->beta2 = (float)beta2;
  h->take1 = (float)(1 - beta1);
  h->take2 = (float)(1 - beta2);
  h->fix1 = (float)(1 / (1 - pow(beta1, (double)h->step)));
  h->fix2 = (float)(1 / sqrt(1 - pow(beta2, (double)h->step)));
}

ct_hyper_t ct_optim_hyper(const ct_optim_opts_t *o, const ct_param_group_t *group,
                          const ct_schedule_point_t *at, int64_t update)
{
  double lr = ct_schedule_lr(at, group->lr);
  double momentum = ct_schedule_momentum(at, group->momentum);
  ct_hyper_t h = {.lr = (float)lr,
                  .momentum = (float)momentum,
                  .dampening = (float)o->dampening,
                  .weight_decay = (float)group->weight_decay,
                  .nesterov = o->nesterov,
                  .step = update + 1,
                  .keep = 1,
                  .eps = (float)(o->eps > 0 ? o->eps : kinds[o->kind].eps),
                  .trust = (float)o->trust,
                  .ratio = 1};
  if (kinds[o->kind].betas) set_betas(&h, momentum, o->beta2);
  if (o->kind == RMSPROP) {
    h.beta2 = (float)o->alpha;
    h.take2 = (float)(1 - o->alpha);
  }
  if (o->kind == ADAMW) {
    h.keep = (float)(1 - lr * group->weight_decay);
    h.weight_decay = 0;
  }
  if (kinds[o->kind].rule == CT_RULE_ADAM) h.lr = (float)(lr / (1 - pow(momentum, (double)h.step)));
  return h;
}
