#include "optim/ct_optim.h"

#include "base/ct_err.h"

const ct_opt_t ct_optim_rows[] = {
    CT_OPT_CHOICE(ct_optim_opts_t, kind, "sgd", "sgd", "optimizer"),
    CT_OPT_DOUBLE(ct_optim_opts_t, lr, "0.1", 0, 1e18, "learning rate after the warm-up"),
    CT_OPT_DOUBLE(ct_optim_opts_t, momentum, "0.9", 0, 1, "sgd: momentum"),
    CT_OPT_DOUBLE(ct_optim_opts_t, dampening, "0", 0, 1, "sgd: dampening of the momentum"),
    CT_OPT_DOUBLE(ct_optim_opts_t, weight_decay, "0", 0, 1e18, "L2 penalty, added to the gradient"),
    CT_OPT_BOOL(ct_optim_opts_t, nesterov, "false", "sgd: Nesterov momentum"),
    CT_OPT_END};

int ct_optim_check(const ct_optim_opts_t *o)
{
  int rc = CT_OK;
  if (o->nesterov && (o->momentum == 0 || o->dampening != 0))
    CT_FAIL(
        CT_ERR_USAGE,
        "optim.nesterov needs a momentum above 0 and no dampening, but optim.momentum is %g and "
        "optim.dampening is %g",
        o->momentum, o->dampening);
out:
  return rc;
}

int ct_optim_rule(const ct_optim_opts_t *o, int *states)
{
  *states = o->momentum != 0;
  return CT_RULE_SGD;
}

const char *ct_optim_state_name(const ct_optim_opts_t *o, int state)
{
  (void)o;
  (void)state; /* SGD has one */
  return "momentum_buffer";
}

ct_hyper_t ct_optim_hyper(const ct_optim_opts_t *o, const ct_param_group_t *group,
                          const ct_schedule_point_t *at, int64_t update)
{
  return (ct_hyper_t){.lr = (float)ct_schedule_lr(at, group->lr),
                      .momentum = (float)ct_schedule_momentum(at, group->momentum),
                      .dampening = (float)o->dampening,
                      .weight_decay = (float)group->weight_decay,
                      .nesterov = o->nesterov,
                      .step = update + 1};
}
