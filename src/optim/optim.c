/* Optimizers: computes the hyper-parameters of an update from the options.  The arithmetic is in
 * the rules of backend/ct_rules.h; kinds that share a rule differ only in these
 * hyper-parameters. */
#include "optim/ct_optim.h"

#include <math.h>

#include "base/ct_err.h"
#include "optim/kinds.h"

enum {
  SGD,
  ADAM,
  ADAMW,
  RMSPROP,
  LARS,
  LAMB,
  NADAM,
  RADAM,
  ADAMAX,
  ADAGRAD,
  ADADELTA,
  LION,
  MUON,
  KINDS
};
#define KIND(name) CT__OPTIM_KIND(name)

/** The optimizers. */
static const struct {
  int rule;
  int betas;            /**< 1: has betas instead of momentum */
  double eps;           /**< default in PyTorch (LARS, LAMB: in timm) */
  const char *state[2]; /**< without momentum_buffer and the states of options */
} kinds[KINDS] = {[SGD] = {CT_RULE_SGD, 0, 0, {0}},
                  [ADAM] = {CT_RULE_ADAM, 1, 1e-8, {"exp_avg", "exp_avg_sq"}},
                  [ADAMW] = {CT_RULE_ADAM, 1, 1e-8, {"exp_avg", "exp_avg_sq"}},
                  [RMSPROP] = {CT_RULE_RMSPROP, 0, 1e-8, {"square_avg"}},
                  [LARS] = {CT_RULE_LARS, 0, 1e-8, {0}},
                  [LAMB] = {CT_RULE_LAMB, 1, 1e-6, {"exp_avg", "exp_avg_sq"}},
                  [NADAM] = {CT_RULE_NADAM, 1, 1e-8, {"exp_avg", "exp_avg_sq"}},
                  [RADAM] = {CT_RULE_RADAM, 1, 1e-8, {"exp_avg", "exp_avg_sq"}},
                  [ADAMAX] = {CT_RULE_ADAMAX, 1, 1e-8, {"exp_avg", "exp_inf"}},
                  [ADAGRAD] = {CT_RULE_ADAGRAD, 0, 1e-10, {"sum"}},
                  [ADADELTA] = {CT_RULE_ADADELTA, 0, 1e-6, {"square_avg", "acc_delta"}},
                  [LION] = {CT_RULE_LION, 1, 0, {"exp_avg"}},
                  [MUON] = {CT_RULE_MUON, 1, 1e-8, {"exp_avg", "exp_avg_sq"}}};

const ct_opt_t ct_optim_rows[] = {
    CT_OPT_CHOICE(
        ct_optim_opts_t, kind, "sgd",
        "sgd|adam|adamw|rmsprop|lars|lamb|nadam|radam|adamax|adagrad|adadelta|lion|"
        "muon",
        "optimizer, as in torch.optim (lars, lamb, lion: as in timm); muon: weights with 2 "
        "dims are matrices, except those of embeddings and output layers; adamw for the "
        "others, and see groups"),
    CT_OPT_DOUBLE(
        ct_optim_opts_t, lr, "0.1", 0, 1e18,
        "learning rate after the warm-up (usual values: 0.001 for adam, adamw, rmsprop; 0.0001 for "
        "lion; 1 for adadelta)"),
    CT_OPT_DOUBLE(ct_optim_opts_t, momentum, "0.9", 0, 1,
                  "sgd, rmsprop, lars, muon: momentum (a usual value for muon is 0.95)"),
    CT_OPT_DOUBLE(ct_optim_opts_t, dampening, "0", 0, 1, "sgd, lars: dampening of the momentum"),
    CT_OPT_DOUBLE(
        ct_optim_opts_t, weight_decay, "0", 0, 1e18,
        "L2 penalty, added to the gradient; adamw, lion, muon: decoupled from the gradient; lars, "
        "lamb: only parameters with a value above 0 get an adapted learning rate"),
    CT_OPT_BOOL(ct_optim_opts_t, nesterov, "false",
                "sgd, lars, muon: Nesterov momentum (usual for muon)"),
    CT_OPT_DOUBLE(ct_optim_opts_t, beta1, "0.9", 0, 1,
                  "adam, adamw, lamb, nadam, radam, adamax, lion, muon's adamw: decay of the mean "
                  "gradient"),
    CT_OPT_DOUBLE(ct_optim_opts_t, beta2, "0.999", 0, 1,
                  "adam, adamw, lamb, nadam, radam, muon's adamw: decay of the mean squared "
                  "gradient; adamax: of its maximum; lion: of the mean gradient that is kept (a "
                  "usual value is 0.99)"),
    CT_OPT_DOUBLE(ct_optim_opts_t, alpha, "0.99", 0, 1,
                  "rmsprop: decay of the mean squared gradient"),
    CT_OPT_BOOL(ct_optim_opts_t, centered, "false",
                "rmsprop: normalise by the variance of the gradient"),
    CT_OPT_DOUBLE(ct_optim_opts_t, rho, "0.9", 0, 1,
                  "adadelta: decay of the mean squared gradient and step"),
    CT_OPT_DOUBLE(ct_optim_opts_t, eps, "0", 0, 1,
                  "all but sgd, lion: added to the denominator; 0: 1e-8 (lamb, adadelta: 1e-6; "
                  "adagrad: 1e-10)"),
    CT_OPT_DOUBLE(ct_optim_opts_t, trust, "0.001", 0, 1e18, "lars: trust coefficient"),
    CT_OPT_INT(ct_optim_opts_t, ns_steps, "5", 0, 99, "muon: Newton-Schulz iterations"),
    CT_OPT_DOUBLES(ct_optim_opts_t, ns_coefficients, "",
                   "muon: three coefficients of the iterations; none: [3.4445, -4.775, 2.0315]"),
    CT_OPT_CHOICE(ct_optim_opts_t, adjust_lr_fn, "original",
                  "original|match_rms_adamw|spectral_unclamped",
                  "muon: factor of the learning rate of a matrix of A rows and B columns: "
                  "sqrt(max(1, A / B)), 0.2 sqrt(max(A, B)), sqrt(A / B)"),
    CT_OPT_BOOL(ct_optim_opts_t, amsgrad, "false",
                "adam, adamw: divide by the largest mean squared gradient so far"),
    CT_OPT_BOOL(ct_optim_opts_t, maximize, "false", "maximize the loss instead of minimizing it"),
    CT_OPT_BOOL(ct_optim_opts_t, decoupled_weight_decay, "false",
                "nadam, radam: weight_decay is decoupled from the gradient, as in adamw"),
    CT_OPT_DOUBLE(ct_optim_opts_t, momentum_decay, "0.004", 0, 1e18,
                  "nadam: decay of the momentum over the steps"),
    CT_OPT_DOUBLE(ct_optim_opts_t, lr_decay, "0", 0, 1e18,
                  "adagrad: decay of the learning rate over the steps"),
    CT_OPT_DOUBLE(ct_optim_opts_t, initial_accumulator_value, "0", 0, 1e18,
                  "adagrad: sum of the squared gradients before the first step"),
    CT_OPT_CHOICE(ct_optim_opts_t, place, "device", "device|host",
                  "on a GPU, where the optimizer states are: device: in its memory; host: in host "
                  "memory, where the CPU updates them and the weights, bucket by bucket while "
                  "backward runs"),
    CT_OPT_BOOL(ct_optim_opts_t, no_decay_bias_norm, "false",
                "biases and normalisation layers get no weight decay"),
    CT_OPT_NODE(
        ct_optim_opts_t, groups,
        "list of {match: PATTERN or LIST, lr, weight_decay, momentum}: options for the "
        "parameters that match; the first matching entry is used; muon also has {muon: true "
        "or false}: weights with 2 dims are, or are not, matrices"),
    CT_OPT_END};

int ct__optim_has_betas(const ct_optim_opts_t *o)
{
  return kinds[o->kind].betas;
}

/* ---- checks ---- */

enum {
  MOMENTA = KIND(SGD) | KIND(LARS),
  BETAS = KIND(ADAM) | KIND(ADAMW) | KIND(LAMB) | KIND(NADAM) | KIND(RADAM) | KIND(ADAMAX),
  EPS = BETAS | KIND(RMSPROP) | KIND(LARS) | KIND(ADAGRAD) | KIND(ADADELTA)
};

static const ct__optim_only_t only[] = {{"momentum", MOMENTA | KIND(RMSPROP) | KIND(MUON)},
                                        {"dampening", MOMENTA},
                                        {"nesterov", MOMENTA | KIND(MUON)},
                                        {"beta1", BETAS | KIND(LION) | KIND(MUON)},
                                        {"beta2", BETAS | KIND(LION) | KIND(MUON)},
                                        {"alpha", KIND(RMSPROP)},
                                        {"centered", KIND(RMSPROP)},
                                        {"rho", KIND(ADADELTA)},
                                        {"eps", EPS | KIND(MUON)},
                                        {"trust", KIND(LARS)},
                                        {"ns_steps", KIND(MUON)},
                                        {"ns_coefficients", KIND(MUON)},
                                        {"adjust_lr_fn", KIND(MUON)},
                                        {"amsgrad", KIND(ADAM) | KIND(ADAMW)},
                                        {"decoupled_weight_decay", KIND(NADAM) | KIND(RADAM)},
                                        {"momentum_decay", KIND(NADAM)},
                                        {"lr_decay", KIND(ADAGRAD)},
                                        {"initial_accumulator_value", KIND(ADAGRAD)},
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
  int states, rule = ct_optim_rule(o, &states);
  if (o->place == CT_OPTIM_ON_HOST &&
      (rule == CT_RULE_MUON || ct_rule_needs_norms((ct_rule_t)rule)))
    CT_FAIL(CT_ERR_USAGE,
            "optim.place: host updates the states bucket by bucket, but optim.kind %s needs norms "
            "or products of whole parameters: set it to device, or use parallel.zero to share the "
            "states among the ranks",
            ct_opt_word(ct_optim_rows, "kind", o->kind));
  if (o->place == CT_OPTIM_ON_HOST && !states)
    CT_FAIL(CT_ERR_USAGE, "optim.place: host, but without a momentum sgd has no states that could "
                          "be in host memory: leave it out");
  if (o->ns_coefficients.n != 0 && o->ns_coefficients.n != 3)
    CT_FAIL(CT_ERR_USAGE, "optim.ns_coefficients must be three numbers, not %d",
            o->ns_coefficients.n);
out:
  return rc;
}

int ct_optim_check_schedule(const ct_optim_opts_t *o, const ct_schedule_opts_t *s)
{
  if (o->kind != NADAM || !ct_schedule_has_momentum(s)) return CT_OK;
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "optim.kind nadam has a momentum of its own over the steps, as "
                    "optim.momentum_decay says: set schedule.cycle_momentum to false");
}

/* ---- muon ---- */

int ct_optim_newton_schulz(const ct_optim_opts_t *o, double c[3])
{
  static const double usual[3] = {3.4445, -4.775, 2.0315};
  for (int i = 0; i < 3; i++)
    c[i] = o->ns_coefficients.n == 3 ? o->ns_coefficients.v[i] : usual[i];
  return (int)o->ns_steps;
}

double ct__optim_matrix_factor(const ct_optim_opts_t *o, int64_t rows, int64_t columns)
{
  enum { ORIGINAL, MATCH_RMS_ADAMW };
  double a = (double)rows, b = (double)columns;
  if (o->kind != MUON) return 0;
  if (o->adjust_lr_fn == ORIGINAL) return sqrt(fmax(1, a / b));
  return o->adjust_lr_fn == MATCH_RMS_ADAMW ? 0.2 * sqrt(fmax(a, b)) : sqrt(a / b);
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
  for (int k = 0; k < 2 && kinds[o->kind].state[k]; k++)
    name[n++] = kinds[o->kind].state[k];
  if (o->amsgrad) name[n++] = "max_exp_avg_sq";
  if (o->centered) name[n++] = "grad_avg";
  int has_momentum = o->kind == SGD || o->kind == RMSPROP || o->kind == LARS;
  if (has_momentum && (o->momentum != 0 || groups_have_momentum(o))) name[n++] = "momentum_buffer";
  return n;
}

int ct_optim_rule(const ct_optim_opts_t *o, int *states)
{
  const char *name[CT_RULE_STATES];
  *states = states_of(o, name);
  if (o->amsgrad) return CT_RULE_AMSGRAD;
  return o->centered ? CT_RULE_RMSPROP_CENTERED : kinds[o->kind].rule;
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

/* NAdam: returns the momentum of step \a t. */
static double nadam_momentum(const ct_optim_opts_t *o, double beta1, int64_t t)
{
  return beta1 * (1 - 0.5 * pow(0.96, (double)t * o->momentum_decay));
}

/* torch.optim.NAdam.  The product of the momenta of all steps so far is computed each time: it
 * vanishes beside 1 after few steps, and then there is nothing to store. */
static void set_nadam(ct_hyper_t *h, const ct_optim_opts_t *o, double lr, double beta1)
{
  double now = nadam_momentum(o, beta1, h->step), next = nadam_momentum(o, beta1, h->step + 1);
  double product = 1;
  for (int64_t t = 1; t <= h->step && product > 1e-18; t++)
    product *= nadam_momentum(o, beta1, t);
  h->lr_gradient = (float)(lr * (1 - now) / (1 - product));
  h->lr = (float)(lr * next / (1 - product * next));
}

/* torch.optim.RAdam.  fix2 0: the variance of the second moment is not yet known. */
static void set_radam(ct_hyper_t *h, const ct_optim_opts_t *o, double lr, double beta1)
{
  double t = (double)h->step, power = pow(o->beta2, t), infinity = 2 / (1 - o->beta2) - 1;
  double length = infinity - 2 * t * power / (1 - power), factor = 1;
  h->fix2 = length > 5;
  if (length > 5)
    factor = sqrt((1 - power) * (length - 4) * (length - 2) * infinity /
                  ((infinity - 4) * (infinity - 2) * length));
  h->lr = (float)(lr * factor / (1 - pow(beta1, t)));
}

/* Sets the fields that not all kinds have; \a momentum: beta1. */
static void set_kind(ct_hyper_t *h, const ct_optim_opts_t *o, double lr, double momentum)
{
  if (h->matrix) {
    h->take1 = (float)(1 - momentum);
    return;
  }
  if (kinds[o->kind].betas) set_betas(h, momentum, o->beta2);
  switch (o->kind) {
  case ADAM:
  case ADAMW:
  case ADAMAX:
  case MUON:
    h->lr = (float)(lr / (1 - pow(momentum, (double)h->step)));
    break;
  case RMSPROP:
    h->beta2 = (float)o->alpha;
    h->take2 = (float)(1 - o->alpha);
    break;
  case ADADELTA:
    h->beta2 = (float)o->rho;
    h->take2 = (float)(1 - o->rho);
    break;
  case ADAGRAD:
    h->lr = (float)(lr / (1 + (double)(h->step - 1) * o->lr_decay));
    h->initial = (float)o->initial_accumulator_value;
    break;
  case NADAM:
    set_nadam(h, o, lr, momentum);
    break;
  case RADAM:
    set_radam(h, o, lr, momentum);
    break;
  default:
    break;
  }
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
  if (group->matrix > 0) {
    h.matrix = 1;
    h.lr = (float)(lr * group->matrix);
  }
  set_kind(&h, o, lr, momentum);
  if (o->kind == ADAMW || o->kind == LION || o->kind == MUON || o->decoupled_weight_decay) {
    h.keep = (float)(1 - lr * group->weight_decay);
    h.weight_decay = 0;
  }
  return h;
}
