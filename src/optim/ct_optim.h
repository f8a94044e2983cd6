/** \file ct_optim.h  Optimizers and learning-rate schedules: options -> the numbers of one step.
 * Layer 3, pure. */
#ifndef CT_OPTIM_H
#define CT_OPTIM_H
#include "backend/ct_rules.h"
#include "base/ct_opt.h"

/** Section `optim`. */
typedef struct ct_optim_opts {
  int kind; /**< sgd */
  double lr, momentum, dampening, weight_decay;
  int nesterov;
} ct_optim_opts_t;
extern const ct_opt_t ct_optim_rows[];

/** Section `schedule`. */
typedef struct ct_schedule_opts {
  int kind;             /**< constant|step|cosine */
  double warmup_epochs; /**< linear from lr / warm-up steps to lr */
  double step_epochs;   /**< step: every so many epochs … */
  double gamma;         /**< … the rate is multiplied by this */
  double min_lr;        /**< cosine: where it ends */
} ct_schedule_opts_t;
extern const ct_opt_t ct_schedule_rows[];

/** Checks what single ranges cannot (Nesterov needs momentum and no dampening, as torch.optim.SGD).
 * CT_ERR_USAGE. */
int ct_optim_check(const ct_optim_opts_t *o);
/** The rule and how many float32 states a weight has. */
int ct_optim_rule(const ct_optim_opts_t *o, int *states);
/** State-dict name of a state: "momentum_buffer". */
const char *ct_optim_state_name(const ct_optim_opts_t *o, int state);
/** Learning rate of a step (from 0): warm-up (Goyal et al. 2017), then the schedule over what is left,
 * per step.  cosine: min + (lr - min) (1 + cos(pi t / T)) / 2 (Loshchilov and Hutter 2017). */
double ct_schedule_lr(const ct_schedule_opts_t *s, double lr, int64_t step, int64_t steps_per_epoch,
                      int64_t total_steps);
/** Numbers of a step (from 0) at a learning rate. */
ct_hyper_t ct_optim_hyper(const ct_optim_opts_t *o, double lr, int64_t step);

#endif
