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
  int kind; /**< index into the words of the row */
  double lr, momentum, dampening, weight_decay;
  int nesterov;
  double beta1, beta2;              /**< all but sgd, rmsprop, lars, adagrad, adadelta */
  double alpha;                     /**< rmsprop: smoothing */
  double rho;                       /**< adadelta: smoothing */
  int centered;                     /**< rmsprop */
  double eps;                       /**< 0: the optimizer's default in PyTorch */
  double trust;                     /**< lars: trust coefficient */
  int64_t ns_steps;                 /**< muon: Newton-Schulz iterations */
  ct_opt_doubles_t ns_coefficients; /**< muon: three, or none: PyTorch's */
  int adjust_lr_fn;                 /**< muon: original|match_rms_adamw|spectral_unclamped */
  int amsgrad;                      /**< adam, adamw */
  int maximize;                     /**< the gradient is taken with the other sign */
  int decoupled_weight_decay;       /**< nadam, radam */
  double momentum_decay;            /**< nadam */
  double lr_decay;                  /**< adagrad */
  double initial_accumulator_value; /**< adagrad */
  int place;                        /**< device|host: where the states are */
  int no_decay_bias_norm;           /**< biases and normalisation layers get no weight decay */
  ct_yaml_t *groups;                /**< list of {match, lr, weight_decay, momentum}, or NULL */
} ct_optim_opts_t;
extern const ct_opt_t ct_optim_rows[];

enum { CT_OPTIM_ON_DEVICE, CT_OPTIM_ON_HOST }; /* choices of optim.place */

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

/** muon: returns the number of Newton-Schulz iterations, and their coefficients. */
int ct_optim_newton_schulz(const ct_optim_opts_t *o, double c[3]);

/* ---- parameter groups ---- */

/** Hyper-parameters of a parameter group. */
typedef struct ct_param_group {
  double lr, weight_decay;
  double momentum; /**< beta1, where there are betas; muon: the momentum of matrices */
  double matrix;   /**< muon: factor of the learning rate of a matrix; 0: AdamW */
} ct_param_group_t;

typedef struct ct_param_groups {
  ct_param_group_t *group; /**< owned */
  int groups;
  int *of; /**< owned; per graph parameter: index of its group (buffers and frozen parameters: 0) */
} ct_param_groups_t;

/** Local.  Makes the parameter groups.  The options of a parameter come from the first entry of
 * `optim.groups` whose pattern matches the parameter's name, else from section `optim`.  A pattern
 * is an fnmatch pattern without flags; without '*', '?' or '[' it also matches all parameters of
 * the layer of that name.  With kind muon the weights with 2 dims are matrices, but not those of
 * embeddings and of layers that make an output, unless an entry says so.  CT_ERR_USAGE: a pattern
 * matches nothing, or an unknown key (file:line).
 * */
int ct_param_groups_make(const ct_optim_opts_t *o, const ct_graph_t *g, const char *where,
                         ct_param_groups_t *out);
/** Frees the contents; the struct may be all zero: nothing to free. */
void ct_param_groups_clear(ct_param_groups_t *p);
/** Local.  Among the entries of `optim.groups` that set `lr`, returns the first pattern (borrowed)
 * and the learning rate of entry \a i, from 0.  Returns 0 if fewer entries set `lr`, else 1. */
int ct_param_group_rate(const ct_optim_opts_t *o, int i, const char **match, double *lr);

/* ---- schedules ---- */

/** Section `schedule`.  `units`: epochs or steps, as the option unit says. */
typedef struct ct_schedule_opts {
  int kind;                     /**< index into the words of the row */
  int unit;                     /**< epochs|steps */
  double warmup, warmup_epochs; /**< linear warm-up, in units or in epochs; one of them is 0 */
  double warmup_factor; /**< as start_factor of torch.optim.lr_scheduler.LinearLR; 0: 1 / steps */
  double length;        /**< units until the end of the schedule; 0: the rest of the run */
  double step_size, step_epochs; /**< step: between two changes, in units; 0: in epochs */
  double
      gamma; /**< step, multistep, exponential, plateau: factor of the learning rate per change */
  ct_opt_doubles_t milestones;     /**< multistep: units */
  double min_lr;                   /**< cosine, cosine_restarts, polynomial, plateau: lower limit */
  double period;                   /**< cosine_restarts: units of the first period (T_0) */
  int64_t period_factor;           /**< cosine_restarts: of each next period (T_mult) */
  double start_factor, end_factor; /**< linear */
  double power;                    /**< polynomial */
  double pct_start, div_factor,
      final_div_factor; /**< one_cycle, as torch.optim.lr_scheduler.OneCycleLR */
  int cycle_momentum;
  double base_momentum, max_momentum;
  int64_t patience; /**< plateau: number of evaluations without improvement */
  double threshold; /**< plateau: relative improvement */
  int scale_lr;     /**< linear scaling: lr * batch / base_batch (Goyal et al. 2017) */
  int64_t base_batch;
  ct_yaml_t *list; /**< schedules one after another, as they are written, or NULL */
  /** those schedules; set by ct_schedule_read() */
  struct ct_schedule_opts *part;
  int parts;
} ct_schedule_opts_t;
extern const ct_opt_t ct_schedule_rows[];

/** Local.  Reads `list` after the other options, of the file \a where.  CT_ERR_USAGE. */
int ct_schedule_read(ct_schedule_opts_t *s, const char *where);
/** Frees what ct_schedule_read() has made. */
void ct_schedule_clear(ct_schedule_opts_t *s);
/** Local.  Converts lengths in the unit `tokens` to steps of \a tokens each.  CT_ERR_USAGE: tokens
 * is 0, since the data are not tokens; or a schedule that has no such unit. */
int ct_schedule_take_tokens(ct_schedule_opts_t *s, int64_t tokens);
/** Returns the steps of a length in units, not rounded. */
double ct_schedule_steps(const ct_schedule_opts_t *s, double units, int64_t steps_per_epoch);
/** Returns the number of warm-up steps. */
int64_t ct_schedule_warmup(const ct_schedule_opts_t *s, int64_t steps_per_epoch);

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
 * 2017), then the schedule over the T remaining steps, or those of the list, each of which counts
 * from its own begin, as in torch.optim.lr_scheduler.SequentialLR.  Formula of cosine at step t
 * after the warm-up: min_lr + (lr - min_lr) * (1 + cos(pi * t / T)) / 2 (Loshchilov and Hutter
 * 2017). */
double ct_schedule_lr(const ct_schedule_point_t *at, double lr);
/** Returns the momentum (Adam: beta1) of a step.  Only one_cycle with cycle_momentum changes the
 * momentum, and only for groups whose momentum is not 0. */
double ct_schedule_momentum(const ct_schedule_point_t *at, double momentum);

/** Returns 1 if the momentum depends on the step. */
int ct_schedule_has_momentum(const ct_schedule_opts_t *s);
/** Checks that the optimizer can follow the schedule.  CT_ERR_USAGE: nadam has a momentum of its
 * own over the steps, which one_cycle cannot change. */
int ct_optim_check_schedule(const ct_optim_opts_t *o, const ct_schedule_opts_t *s);
/** Returns 1 if the learning rate depends on evaluation losses (kind plateau, not in a list). */
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
