/* Looks at a training without opening a device: for `summary` and `bench step --roofline`. */
#include "setup/ct_setup.h"

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "setup/ct_builtin.h"

/* Opens data.val.  If its files are missing, assumes whole evaluation batches of samples with the
 * shape of the training data. */
static void open_val(ct_setup_t *s)
{
  const ct_config_t *c = &s->cfg;
  if (c->data.val.n == 0 || ct_setup_open_data(c, &c->data.val, &s->val) == CT_OK) return;
  ct_log(CT_LOG_WARN, "%s: evaluation memory is computed for a whole data.eval_batch",
         ct_err_last()->text);
  s->val = (ct_dataset_t){.x = s->data.x, .info = s->data.info};
  s->val.info.samples = c->data.eval_batch;
}

int ct_setup_without_device(ct_setup_t *s, const char *path, const ct_args_t *a)
{
  int rc = CT_OK;
  ct_config_t *c = &s->cfg;
  CT_TRY(ct_setup_read_config(c, path, a, s->topo->size, 1));
  CT_TRY(ct_step_opts_make(&c->parallel, &c->train, s->topo->size, &s->step_opts));
  CT_TRY(ct_setup_open_data(c, &c->data.train, &s->data));
  open_val(s);
  CT_TRY(ct_setup_classes(c, &s->data));
  CT_TRY(
      ct_graph_make(&c->model, &s->data.x, &s->data.extra, c->model.classes, c->where, &s->graph));
  const char *remark = ct_model_remark(&c->model, &s->data.x);
  if (remark) ct_log(CT_LOG_INFO, "%s", remark);
  CT_TRY(ct_setup_check_losses(c, s->graph, &s->data));
  CT_TRY(ct_setup_freeze(c, s->graph));
  CT_TRY(ct_setup_observe(s));
out:
  return rc;
}

int ct_setup_describe_device(ct_setup_t *s, const char *card)
{
  int rc = CT_OK;
  rc = ct_builtin_cuda(&s->be);
  if (rc != CT_OK) return ct_err_prefix(rc, "plans for a GPU need the CUDA backend: ");
  ct_dev_opts_t o = {.card = card, .threads = 1, .tf32 = ct_train_opts_tf32(&s->cfg.train)};
  CT_TRY(s->be->open(&o, &s->dev));
out:
  return rc;
}

int ct_setup_plan(ct_setup_t *s, ct_plan_t **out)
{
  int rc = CT_OK;
  ct_trainer_env_t env;
  CT_TRY(ct_setup_describe_trainer(s, 1, &env));
  CT_TRY(ct_trainer_first_plan(&env, out));
out:
  return rc;
}
