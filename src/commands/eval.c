/* `eval`: evaluates a checkpoint on data.val and eval.sets, with each sample counted exactly once.
 */
#include "setup/ct_builtin.h"
#include "commands/ct_commands.h"
#include "setup/ct_model_file.h"
#include "setup/ct_result.h"
#include "setup/ct_setup.h"
#include "base/ct_err.h"
#include "base/ct_json.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

/* Chooses the metrics.  Classes are counted if there are labels and not too many classes. */
static int what_to_measure(const ct_setup_t *s, const ct_args_t *a, ct_confusion_t *c,
                           ct_eval_want_t *want)
{
  int rc = CT_OK;
  CT_TRY(ct_setup_eval(s, 1, c, want));
  if (!(want->confusion && want->confusion->count) && ct_args_get(a, "confusion"))
    CT_FAIL(CT_ERR_USAGE, "eval: --confusion needs class labels, and up to %d classes",
            CT_CONFUSION_MAX);
out:
  return rc;
}

/* Evaluates eval.sets into the caller's list.  Called before data.val is evaluated, whose class
 * counts remain in the confusion matrix. */
static int evaluate_sets(ct_setup_t *s, const ct_eval_want_t *want, ct_eval_set_t *set)
{
  int rc = CT_OK;
  int64_t never;
  const ct_config_t *c = &s->cfg;
  for (int i = 0; i < c->eval.sets.n; i++) {
    set[i] = (ct_eval_set_t){.name = c->eval.sets.name[i], .data = &s->set[i]};
    CT_TRY(ct_evaluate(s->trainer, &s->set[i], c->data.eval_batch, (int)c->data.workers, want, NULL,
                       &never, &set[i].last));
  }
out:
  return rc;
}

/* Rank 0.  Appends the results as JSON. */
static int print_json(const ct_setup_t *s, const char *model, const ct_eval_result_t *e,
                      const ct_confusion_t *c, const ct_eval_set_t *set, int sets, ct_str_t *text)
{
  json_t *o = ct_result_eval_json(e, c, &s->cfg.model.class_names);
  if (o) json_object_set_new(o, "checkpoint", ct_json_words(model));
  if (o && sets) json_object_set_new(o, "sets", ct_result_sets_json(set, sets));
  int rc = ct_json_add(o, text);
  json_decref(o);
  return rc;
}

/* Rank 0.  Prints the results and writes the confusion matrix. */
static int eval_print(const ct_args_t *a, const ct_setup_t *s, const char *model,
                      const ct_eval_result_t *e, const ct_confusion_t *c, const ct_eval_set_t *set,
                      int sets)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  const char *file = ct_args_get(a, "confusion");
  if (file) CT_TRY(ct_result_confusion(c, &s->cfg.model.class_names, file));
  if (ct_args_get(a, "json")) {
    CT_TRY(print_json(s, model, e, c, set, sets, &text));
  } else {
    CT_TRY(ct_result_eval(e, &text));
    for (int i = 0; i < sets; i++)
      CT_TRY(ct_result_set(&set[i], &text));
    if (c) CT_TRY(ct_result_classes(c, e->pixels > 1, &s->cfg.model.class_names, &text));
  }
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

/* Takes the stride of windows of tokens. */
static int take_stride(const ct_args_t *a, ct_data_opts_t *o)
{
  int rc = CT_OK;
  int64_t stride = 0;
  if (!ct_args_get(a, "stride")) return CT_OK;
  CT_TRY(ct_args_int(a, "stride", 0, 1, 1 << 24, &stride));
  if (!o->context) CT_FAIL(CT_ERR_USAGE, "eval: --stride is of windows of tokens (data.context)");
  o->eval_stride = stride;
out:
  return rc;
}

int ct_cmd_eval(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  ct_setup_t s = {.topo = topo, .with_sets = 1, .without_gradients = 1};
  ct_eval_set_t *set = NULL;
  ct_weights_file_t w = {0};
  ct_eval_result_t e;
  ct_confusion_t confusion = {0};
  ct_eval_want_t want;
  int64_t never;
  (void)status;
  const ct_model_ask_t ask = {.what = a->rest[0],
                              .checkpoint = ct_args_get(a, "checkpoint"),
                              .key = ct_args_get(a, "key"),
                              .nothing = "there is nothing to evaluate on"};
  CT_TRY(ct_model_config(&s, a, &ask, &w));
  CT_TRY_ALL(topo, take_stride(a, &s.cfg.data));
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 0, 1));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_model_trainer(&s, ask.key, &w));
  CT_TRY_ALL(topo, what_to_measure(&s, a, &confusion, &want));
  set = ct_mem_array(s.cfg.eval.sets.n + 1, sizeof *set, "sets to evaluate on");
  CT_TRY_ALL(topo, set ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(evaluate_sets(&s, &want, set));
  CT_TRY(ct_evaluate(s.trainer, &s.val, s.cfg.data.eval_batch, (int)s.cfg.data.workers, &want, NULL,
                     &never, &e));
  if (topo->rank == 0) rc = eval_print(a, &s, w.path, &e, want.confusion, set, s.cfg.eval.sets.n);
  CT_TRY(ct_agree(topo, rc));
out:
  ct_mem_free(set);
  ct_confusion_close(&confusion);
  ct_weights_close(&w);
  ct_setup_close(&s);
  return rc;
}
