/* The CPU as a second device, for optim.place host. */
#include "setup/ct_builtin.h"
#include "setup/ct_setup.h"
#include "base/ct_err.h"

int ct_setup_host(ct_setup_t *s, int threads, ct_trainer_env_t *env)
{
  int rc = CT_OK;
  const ct_comm_ops_t *comm;
  const ct_config_t *c = &s->cfg;
  ct_dev_opts_t o = {.threads = threads};
  if (!env->training || c->optim.place != CT_OPTIM_ON_HOST) return CT_OK;
  if (s->be->host_memory)
    CT_FAIL(CT_ERR_USAGE,
            "optim.place: host is for GPUs; with device %s the states are in host memory already: "
            "leave it out",
            s->be->name);
  if (s->step_opts.strategy->rank0_deals)
    CT_FAIL(CT_ERR_USAGE,
            "optim.place: host needs parallel.mode ddp: with %s rank 0 makes the "
            "update alone, and nothing overlaps with it",
            s->step_opts.strategy->name);
  CT_TRY(ct_builtin_backend(CT_DEVICE_CPU, &s->host, &comm));
  CT_TRY(s->host->open(&o, &s->host_dev));
  env->host = s->host;
  env->host_dev = s->host_dev;
out:
  return rc;
}
