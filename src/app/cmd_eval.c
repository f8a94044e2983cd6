/* `eval`: counts over each sample of data.val exactly once, with the weights of a checkpoint. */
#include "app/builtin.h"
#include "app/commands.h"
#include "app/quantized.h"
#include "app/result.h"
#include "app/setup.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

/* Classes are counted where there are any, and not too many. */
static int what_to_measure(const ct_setup_t *s, const ct_args_t *a, ct_confusion_t *c,
                           ct_eval_want_t *want)
{
  int rc = CT_OK;
  CT_TRY(ct_setup_eval(s, 1, c, want));
  if (!want->confusion && ct_args_get(a, "confusion"))
    CT_FAIL(CT_ERR_USAGE, "eval: --confusion needs class labels, and up to %d classes",
            CT_CONFUSION_MAX);
out:
  return rc;
}

/* Rank 0. */
static int print(const ct_args_t *a, const ct_eval_result_t *e, const ct_confusion_t *c)
{
  int rc = CT_OK;
  ct_str_t text = {0};
  const char *file = ct_args_get(a, "confusion");
  if (file) CT_TRY(ct_result_confusion(c, file));
  if (ct_args_get(a, "json")) {
    CT_TRY(ct_result_eval_json(e, c, &text));
  } else {
    CT_TRY(ct_result_eval(e, &text));
    if (c) CT_TRY(ct_result_classes(c, e->places > 1, &text));
  }
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

static int make_trainer(ct_setup_t *s, const ct_ckpt_found_t *checkpoint)
{
  int rc = CT_OK;
  if (ct_quantized_is(s->topo, checkpoint)) return ct_quantized_open(s, checkpoint);
  CT_TRY(ct_setup_trainer(s, 0));
  CT_TRY(ct_trainer_restore(s->trainer, checkpoint->ops, checkpoint->store, 0, NULL));
out:
  return rc;
}

int ct_cmd_eval(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  ct_setup_t s = {.topo = topo};
  ct_ckpt_found_t checkpoint = {0};
  ct_eval_result_t e;
  ct_confusion_t confusion = {0};
  ct_eval_want_t want;
  int64_t never;
  (void)status;
  CT_TRY(ct_setup_config_alone(&s, a));
  if (s.cfg.data.val.n == 0)
    CT_FAIL(CT_ERR_USAGE, "%s: data.val is not set: there is nothing to evaluate on", s.cfg.where);
  CT_TRY_ALL(topo, topo->rank == 0
                       ? ct_setup_checkpoint(&s, ct_args_get(a, "checkpoint"), &checkpoint)
                       : CT_OK);
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 0, 1));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(make_trainer(&s, &checkpoint));
  CT_TRY_ALL(topo, what_to_measure(&s, a, &confusion, &want));
  CT_TRY(ct_evaluate(s.trainer, &s.val, s.cfg.data.eval_batch, (int)s.cfg.data.workers, &want, NULL,
                     &never, &e));
  CT_TRY_ALL(topo, topo->rank == 0 ? print(a, &e, want.confusion) : CT_OK);
out:
  ct_confusion_close(&confusion);
  ct_ckpt_found_close(&checkpoint);
  ct_setup_close(&s);
  return rc;
}
