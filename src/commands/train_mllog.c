/* Entries of the MLPerf log before the first step, with the key names of MLPerf's rules. */
#include "commands/train_mllog.h"

#include <string.h>

#include "base/ct_clock.h"
#include "base/ct_err.h"
#include "base/ct_json.h"
#include "setup/ct_config.h"

/* Returns the MLPerf benchmark name. */
static const char *benchmark_of(const ct_config_t *c)
{
  if (*c->log.benchmark) return c->log.benchmark;
  return c->model.family && *c->model.family ? c->model.family : "none";
}

static void submission(ct_mllog_t *m, const ct_setup_t *s)
{
  const ct_config_t *c = &s->cfg;
  const char *platform = *c->log.platform ? c->log.platform : s->be->describe(s->dev);
  ct_mllog_fact(m, "submission_benchmark", ct_json_words(benchmark_of(c)));
  ct_mllog_fact(m, "submission_org", ct_json_words(c->log.org));
  ct_mllog_fact(m, "submission_division",
                json_string(ct_opt_word(ct_log_rows, "division", c->log.division)));
  ct_mllog_fact(m, "submission_status",
                json_string(ct_opt_word(ct_log_rows, "status", c->log.status)));
  ct_mllog_fact(m, "submission_platform", ct_json_words(platform));
}

static void sizes(ct_mllog_t *m, const ct_setup_t *s)
{
  int gpus = s->be->host_memory ? 0 : s->topo->local_size;
  ct_mllog_fact(m, "number_of_nodes", json_integer(s->topo->nodes));
  ct_mllog_fact(m, "accelerators_per_node", json_integer(gpus));
  ct_mllog_fact(m, "seed", json_integer(s->cfg.run.seed));
  ct_mllog_fact(m, "global_batch_size", json_integer(s->cfg.data.batch));
  ct_mllog_fact(m, "train_samples", json_integer(s->data.info.samples));
  ct_mllog_fact(m, "eval_samples", json_integer(s->val.info.samples));
  ct_mllog_fact(m, "gradient_accumulation_steps",
                json_integer(s->cfg.train.accumulate > 1 ? s->cfg.train.accumulate : 1));
}

/* Lists the epochs at which a step or multistep schedule multiplies the learning rate by gamma. */
static json_t *boundaries(const ct_config_t *c, const char *kind, int64_t per_epoch)
{
  const ct_schedule_opts_t *o = &c->schedule;
  double unit = ct_schedule_steps(o, 1, per_epoch) / (double)per_epoch; /* in epochs */
  json_t *list = json_array();
  for (int i = 0; strcmp(kind, "multistep") == 0 && i < o->milestones.n; i++)
    json_array_append_new(list, json_real(o->milestones.v[i] * unit));
  double every = o->step_size > 0 ? o->step_size * unit : o->step_epochs;
  if (strcmp(kind, "step") != 0) every = 0;
  for (int i = 1; every > 0 && i * every < (double)c->train.epochs; i++)
    json_array_append_new(list, json_real(i * every));
  return list;
}

static void optimizer(ct_mllog_t *m, const ct_setup_t *s, const ct_sampler_t *order)
{
  const ct_config_t *c = &s->cfg;
  const char *kind = ct_opt_word(ct_schedule_rows, "kind", c->schedule.kind);
  int64_t per_epoch = ct_sampler_steps(order);
  double steps = (double)ct_schedule_warmup(&c->schedule, per_epoch);
  double factor = c->schedule.warmup_factor > 0 ? c->schedule.warmup_factor : 1 / steps;
  json_t *at = boundaries(c, kind, per_epoch);
  int falls = json_array_size(at) > 0;
  ct_mllog_fact(m, "opt_name", json_string(ct_opt_word(ct_optim_rows, "kind", c->optim.kind)));
  ct_mllog_fact(m, "opt_base_learning_rate", json_real(c->optim.lr));
  ct_mllog_fact(m, "opt_weight_decay", json_real(c->optim.weight_decay));
  ct_mllog_fact(m, "opt_learning_rate_warmup_epochs", json_real(steps / (double)per_epoch));
  ct_mllog_fact(m, "opt_learning_rate_warmup_factor", json_real(steps > 1 ? factor : 1));
  ct_mllog_fact(m, "opt_learning_rate_decay_boundary_epochs", at);
  ct_mllog_fact(m, "opt_learning_rate_decay_factor", json_real(falls ? c->schedule.gamma : 1));
  if (c->model.dropout >= 0) ct_mllog_fact(m, "dropout", json_real(c->model.dropout));
}

int ct_train_mllog(const ct_setup_t *s, const ct_sampler_t *order, ct_mllog_t **out)
{
  int rc = CT_OK;
  if (!s->cfg.log.mllog) return CT_OK;
  CT_TRY(ct_mllog_open(s->cfg.run.dir, out));
  ct_mllog_begin(*out, "init", ct_clock_since_exec());
  ct_mllog_fact(*out, "cache_clear", json_false()); /* the job script logs this */
  submission(*out, s);
  sizes(*out, s);
  optimizer(*out, s, order);
out:
  return rc;
}
