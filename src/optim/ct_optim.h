/** \file ct_optim.h  Optimizers, parameter groups, learning-rate schedules, loss scaling:
 * options -> the numbers of one step.  Layer 3, pure.
 *
 * optim.c     kinds of optimizer and their numbers
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

/** Checks what single ranges cannot (Nesterov needs momentum and no dampening, as
 * torch.optim.SGD), and that options which the optimizer does not have are left at their
 * defaults.  CT_ERR_USAGE. */
int ct_optim_check(const ct_optim_opts_t *o);
/** 0 if a key of the section has no meaning for that kind, such as momentum for adam. */
int ct_optim_has_key(const char *kind, const char *key);
/** The rule (ct_rule_t) and how many float32 states a weight has with these options and groups. */
int ct_optim_rule(const ct_optim_opts_t *o, int *states);
/** State-dict name of a state, as PyTorch's optimizer: "momentum_buffer", "exp_avg". */
const char *ct_optim_state_name(const ct_optim_opts_t *o, int state);

/* ---- parameter groups ---- */

/** Parameters with the same numbers. */
typedef struct ct_param_group {
  double lr, weight_decay;
  double momentum; /**< beta1 of adam, adamw, lamb */
} ct_param_group_t;

typedef struct ct_param_groups {
  ct_param_group_t *group; /**< owned */
  int groups;
  int *of; /**< owned; per graph parameter: its group (buffers and frozen ones: 0) */
} ct_param_groups_t;

/** Local.  The first entry of `optim.groups` whose pattern matches a parameter's name decides
 * what it sets; the rest is as in the options.  Patterns are those of fnmatch without flags;
 * one without '*', '?' or '[' also means all parameters of the layer of that name.
 * CT_ERR_USAGE: a pattern that matches nothing, an unknown key (file:line). */
int ct_param_groups_make(const ct_optim_opts_t *o, const ct_graph_t *g, const char *where,
                         ct_param_groups_t *out);
void ct_param_groups_clear(ct_param_groups_t *p);
/** Local.  Of the entries of `optim.groups` that have a rate of their own the i-th: its (first)
 * pattern, borrowed, and the rate.  0: there are not so many. */
int ct_param_group_rate(const ct_optim_opts_t *o, int i, const char **match, double *lr);

/* ---- schedules ---- */

/** Section `schedule`. */
typedef struct ct_schedule_opts {
  int kind; /**< constant|step|multistep|exponential|cosine|polynomial|one_cycle|plateau */
  double warmup_epochs; /**< linear from lr / warm-up steps to lr */
  double step_epochs;   /**< step: every so many epochs … */
  double gamma; /**< step, multistep, exponential, plateau: … the rate is multiplied by this */
  ct_opt_doubles_t milestones; /**< multistep: epochs */
  double min_lr;               /**< cosine, polynomial, plateau: never below it */
  double power;                /**< polynomial */
  double pct_start, div_factor,
      final_div_factor; /**< one_cycle, as torch.optim.lr_scheduler.OneCycleLR */
  int cycle_momentum;
  double base_momentum, max_momentum;
  int64_t patience; /**< plateau: evaluations without improvement */
  double threshold; /**< plateau: relative */
  int scale_lr;     /**< linear scaling: lr * batch / base_batch (Goyal et al. 2017) */
  int64_t base_batch;
} ct_schedule_opts_t;
extern const ct_opt_t ct_schedule_rows[];

/** As ct_optim_has_key(). */
int ct_schedule_has_key(const char *kind, const char *key);
/** As ct_optim_check(): what single ranges cannot check, and options of other kinds.
 * CT_ERR_USAGE. */
int ct_schedule_check(const ct_schedule_opts_t *s);

/** Where a run stands. */
typedef struct ct_schedule_point {
  const ct_schedule_opts_t *opts; /**< NULL: constant, */
  double times;                   /**< … the rate times this; 0: times 1 */
  int64_t step;                   /**< from 0 */
  int64_t steps_per_epoch, total_steps;
  int64_t batch;  /**< global, for scale_lr */
  double plateau; /**< kind plateau: the factor of ct_plateau_t, 1 at first */
} ct_schedule_point_t;

/** Learning rate of a step for a group whose rate is \a lr: warm-up (Goyal et al. 2017), then
 * the schedule over what is left, per step.  cosine: min + (lr - min) (1 + cos(pi t / T)) / 2
 * (Loshchilov and Hutter 2017). */
double ct_schedule_lr(const ct_schedule_point_t *at, double lr);
/** Momentum (beta1 for Adam) of a step: changes only with one_cycle and cycle_momentum, and not
 * where it is 0: such a group has none. */
double ct_schedule_momentum(const ct_schedule_point_t *at, double momentum);

/** 1 if the rate depends on the losses of evaluations: kind plateau. */
int ct_schedule_needs_loss(const ct_schedule_opts_t *s);

/** State of reduce-on-plateau, as torch.optim.lr_scheduler.ReduceLROnPlateau(mode="min"). */
typedef struct ct_plateau {
  double best, factor; /**< factor: of the learning rate */
  int64_t bad;         /**< evaluations without improvement */
} ct_plateau_t;
void ct_plateau_init(ct_plateau_t *p);
/** After an evaluation with this loss. */
void ct_plateau_update(ct_plateau_t *p, const ct_schedule_opts_t *s, double loss);

/** Numbers of an update for a group: its rate and momentum by the schedule; \a update counts the
 * updates made before, from 0 (a skipped one does not count). */
ct_hyper_t ct_optim_hyper(const ct_optim_opts_t *o, const ct_param_group_t *group,
                          const ct_schedule_point_t *at, int64_t update);

/* ---- loss scaling ---- */

/** torch.amp.GradScaler with its constants: 65536 at first, x 2 after 2000 good steps in a row,
 * x 0.5 after one whose gradients are not finite. */
typedef struct ct_scaler {
  int on;
  double scale;
  int64_t good; /**< steps since the last change */
} ct_scaler_t;
void ct_scaler_init(ct_scaler_t *s, int on);
/** Factor of the loss; 1 if it is off. */
double ct_scaler_scale(const ct_scaler_t *s);
/** After a step; \a nonfinite: its update was skipped. */
void ct_scaler_update(ct_scaler_t *s, int nonfinite);

#endif
