/** \file ct_optim.h  Optimizers, parameter groups, learning-rate schedules, loss scaling: computes
 * the hyper-parameters of each step from the options.  Layer 3, pure.
 *
 * optim.c     kinds of optimizer and their hyper-parameters
 * groups.c    which parameter belongs to which group
 * schedule.c  the learning rate over time
 * plateau.c   reduce-on-plateau
 * scaler.c    dynamic loss scaling
 * kinds.c     options that a kind does not have */
#ifndef CT_OPTIM_H
#define CT_OPTIM_H
#include "backend/ct_backend.h"
#include "conf/ct_opt.h"
#include "model/ct_graph.h"

/** Section `optim`. */
typedef struct ct_optim_opts {
  int kind; /**< sgd|adam|adamw|rmsprop|lars|lamb */
  double lr, momentum, dampening, weight_decay;
  int nesterov;
  double beta1, beta2;    /**< adam, adamw, lamb */
  double alpha;           /**< rmsprop: smoothing */
  int centered;           /**< rmsprop */
  double eps;             /**< 0: the optimizer's default in PyTorch */
  double trust;           /**< lars: trust coefficient */
  int no_decay_bias_norm; /**< biases and normalisation layers get no weight decay */
  ct_yaml_t *groups;      /**< list of {match, lr, weight_decay, momentum}, or NULL */
} ct_optim_opts_t;
extern const ct_opt_t ct_optim_rows[];

/** Checks combinations of options (Nesterov needs momentum and no dampening, as in
 * torch.optim.SGD), and that options which the optimizer does not have are at their defaults.
 * CT_ERR_USAGE. */
int ct_optim_check(const ct_optim_opts_t *o);
/** Returns 1 if optimizers of this kind have the option \a key, else 0 (momentum for adam). */
int ct_optim_has_key(const char *kind, const char *key);
/** Returns the rule (ct_rule_t) of the optimizer; *states: number of float32 states per weight that
 * these options and groups need. */
int ct_optim_rule(const ct_optim_opts_t *o, int *states);
/** Returns the state-dict name of a state, as in PyTorch: "momentum_buffer", "exp_avg". */
const char *ct_optim_state_name(const ct_optim_opts_t *o, int state);

/* ---- parameter groups ---- */

/** Hyper-parameters of a parameter group. */
typedef struct ct_param_group {
  double lr, weight_decay;
  double momentum; /**< adam, adamw, lamb: beta1 */
} ct_param_group_t;

typedef struct ct_param_groups {
  ct_param_group_t *group; /**< owned */
  int groups;
  int *of; /**< owned; per graph parameter: index of its group (buffers and frozen parameters: 0) */
} ct_param_groups_t;

/** Local.  Makes the parameter groups.  The options of a parameter come from the first entry of
 * `optim.groups` whose pattern matches the parameter's name, else from section `optim`.  A pattern
 * is an fnmatch pattern without flags; without '*', '?' or '[' it also matches all parameters of
 * the layer of that name.  CT_ERR_USAGE: a pattern matches nothing, or an unknown key (file:line).
 * */
int ct_param_groups_make(const ct_optim_opts_t *o, const ct_graph_t *g, const char *where,
                         ct_param_groups_t *out);
/** Frees the contents; the struct may be all zero: nothing to free. */
void ct_param_groups_clear(ct_param_groups_t *p);
/** Local.  Among the entries of `optim.groups` that set `lr`, returns the first pattern (borrowed)
 * and the learning rate of entry \a i, from 0.  Returns 0 if fewer entries set `lr`, else 1. */
int ct_param_group_rate(const ct_optim_opts_t *o, int i, const char **match, double *lr);

/* ---- schedules ---- */

/** Section `schedule`. */
typedef struct ct_schedule_opts {
  int kind; /**< constant|step|multistep|exponential|cosine|polynomial|one_cycle|plateau */
  double warmup_epochs; /**< linear warm-up, from lr / (warm-up steps) to lr */
  double step_epochs;   /**< step: epochs between two changes */
  double
      gamma; /**< step, multistep, exponential, plateau: factor of the learning rate per change */
  ct_opt_doubles_t milestones; /**< multistep: epochs */
  double min_lr;               /**< cosine, polynomial, plateau: lower limit */
  double power;                /**< polynomial */
  double pct_start, div_factor,
      final_div_factor; /**< one_cycle, as torch.optim.lr_scheduler.OneCycleLR */
  int cycle_momentum;
  double base_momentum, max_momentum;
  int64_t patience; /**< plateau: number of evaluations without improvement */
  double threshold; /**< plateau: relative improvement */
  int scale_lr;     /**< linear scaling: lr * batch / base_batch (Goyal et al. 2017) */
  int64_t base_batch;
} ct_schedule_opts_t;
extern const ct_opt_t ct_schedule_rows[];

/** Returns 1 if schedules of this kind have the option \a key, else 0. */
int ct_schedule_has_key(const char *kind, const char *key);
/** Checks combinations of options, and that options of other kinds are at their defaults.
 * CT_ERR_USAGE. */
int ct_schedule_check(const ct_schedule_opts_t *s);

/** The position of a step in the run. */
typedef struct ct_schedule_point {
  const ct_schedule_opts_t *opts; /**< NULL: constant learning rate */
  double times;                   /**< factor of the learning rate; 0 stands for 1 */
  int64_t step;                   /**< from 0 */
  int64_t steps_per_epoch, total_steps;
  int64_t batch;  /**< global batch, for scale_lr */
  double plateau; /**< kind plateau: ct_plateau_t.factor, initially 1 */
} ct_schedule_point_t;

/** Returns the learning rate of a step for a group with base rate \a lr: warm-up (Goyal et al.
 * 2017), then the schedule over the T remaining steps.  Formula of cosine at step t after the
 * warm-up: min_lr + (lr - min_lr) * (1 + cos(pi * t / T)) / 2 (Loshchilov and Hutter 2017). */
double ct_schedule_lr(const ct_schedule_point_t *at, double lr);
/** Returns the momentum (Adam: beta1) of a step.  Only one_cycle with cycle_momentum changes the
 * momentum, and only for groups whose momentum is not 0. */
double ct_schedule_momentum(const ct_schedule_point_t *at, double momentum);

/** Returns 1 if the learning rate depends on evaluation losses (kind plateau). */
int ct_schedule_needs_loss(const ct_schedule_opts_t *s);

/** State of reduce-on-plateau, as torch.optim.lr_scheduler.ReduceLROnPlateau(mode="min"). */
typedef struct ct_plateau {
  double best;   /**< lowest loss so far */
  double factor; /**< factor of the learning rate */
  int64_t bad;   /**< evaluations without improvement */
} ct_plateau_t;
/** Sets the state before the first evaluation: factor 1. */
void ct_plateau_init(ct_plateau_t *p);
/** Updates the state after an evaluation with this loss. */
void ct_plateau_update(ct_plateau_t *p, const ct_schedule_opts_t *s, double loss);

/** Returns the hyper-parameters of an update for a group; the schedule gives the learning rate and
 * momentum.  \a update: number of earlier updates; skipped updates do not count. */
ct_hyper_t ct_optim_hyper(const ct_optim_opts_t *o, const ct_param_group_t *group,
                          const ct_schedule_point_t *at, int64_t update);

/* ---- loss scaling ---- */

/** torch.amp.GradScaler with its constants: starts at 65536; x 2 after 2000 finite steps in a row;
 * x 0.5 after a step with nonfinite gradients. */
typedef struct ct_scaler {
  int on;
  double scale;
  int64_t good; /**< finite steps since the last change of the scale */
} ct_scaler_t;
/** Sets the initial state.  \a on 0: loss scaling is off, and the factor is always 1. */
void ct_scaler_init(ct_scaler_t *s, int on);
/** Returns the factor of the loss; 1 if loss scaling is off. */
double ct_scaler_scale(const ct_scaler_t *s);
/** Updates the scale after a step; \a nonfinite: its update was skipped. */
void ct_scaler_update(ct_scaler_t *s, int nonfinite);

#endif
