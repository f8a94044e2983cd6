/* `eval`: counts over each sample of data.val exactly once, with the weights of a checkpoint. */
#include <string.h>

#include "app/builtin.h"
#include "app/commands.h"
#include "app/result.h"
#include "app/setup.h"
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"

/* Rank 0 opens the file, or the newest good one of the run directory. */
static int open_checkpoint(const ct_setup_t *s, const char *file, ct_ckpt_found_t *out)
{
  int rc = CT_OK;
  char dir[CT_PATH_MAX];
  CT_TRY(ct_path_join(dir, sizeof dir, s->cfg.run.dir, "checkpoints"));
  CT_TRY(ct_ckpt_find(ct_builtin_stores, file, dir, out));
  if (!out->store)
    CT_FAIL(CT_ERR_USAGE, "%s: there is no checkpoint; name one with --checkpoint FILE", dir);
  ct_log(CT_LOG_INFO, "evaluates %s", out->path);
out:
  return rc;
}

/* Where the configuration leaves model.classes to the data, it is that of the training data: the
 * samples evaluated here need not be of every class. */
static int take_classes(ct_setup_t *s, const ct_ckpt_found_t *checkpoint)
{
  int rc = CT_OK;
  char *text = NULL;
  ct_yaml_t *root = NULL;
  if (s->cfg.model.classes) return CT_OK;
  CT_TRY(checkpoint->ops->get_text(checkpoint->store, "/meta/config", &text));
  CT_TRY(ct_yaml_parse(text, strlen(text), "configuration in the checkpoint", &root));
  const ct_yaml_t *n = ct_yaml_find(ct_yaml_find(root, "model"), "classes");
  if (n && n->kind == CT_YAML_SCALAR) (void)ct_text_int(n->text, &s->cfg.model.classes);
out:
  ct_yaml_free(root);
  ct_mem_free(text);
  return rc;
}

static int read_checkpoint(ct_setup_t *s, const char *file, ct_ckpt_found_t *out)
{
  int rc = CT_OK;
  CT_TRY(open_checkpoint(s, file, out));
  CT_TRY(take_classes(s, out));
out:
  return rc;
}

/* Classes are counted where there are any, and not too many. */
static int open_confusion(const ct_setup_t *s, const ct_args_t *a, ct_confusion_t *c)
{
  int rc = CT_OK;
  int64_t classes = s->cfg.model.classes;
  int counts = !s->val.info.targets && classes <= CT_CONFUSION_MAX;
  if (!counts && ct_args_get(a, "confusion"))
    CT_FAIL(CT_ERR_USAGE, "eval: --confusion needs class labels, and up to %d classes",
            CT_CONFUSION_MAX);
  if (counts) CT_TRY(ct_confusion_open(classes, c));
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
    if (c) CT_TRY(ct_result_classes(c, &text));
  }
  CT_TRY(ct_app_print(text.data));
out:
  ct_str_clear(&text);
  return rc;
}

/* How a run's ranks shared the work is no matter here: there may be others. */
static int config(const ct_args_t *a, ct_setup_t *s)
{
  int rc = CT_OK;
  ct_args_t with = *a;
  with.set = ct_mem_array(a->sets + 1, sizeof *with.set, "arguments");
  CT_TRY_ALL(s->topo, with.set ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < a->sets; i++)
    with.set[i] = a->set[i];
  with.set[with.sets++] = "parallel={}";
  CT_TRY(ct_setup_config(s, a->rest[0], &with));
out:
  ct_mem_free(with.set);
  return rc;
}

int ct_cmd_eval(const ct_args_t *a, const ct_topo_t *topo, int *status)
{
  int rc = CT_OK;
  ct_setup_t s = {.topo = topo};
  ct_ckpt_found_t checkpoint = {0};
  ct_eval_result_t e;
  ct_confusion_t confusion = {0}, *counted;
  (void)status;
  CT_TRY(config(a, &s));
  if (s.cfg.data.val.n == 0)
    CT_FAIL(CT_ERR_USAGE, "%s: data.val is not set: there is nothing to evaluate on", s.cfg.where);
  CT_TRY_ALL(topo, topo->rank == 0 ? read_checkpoint(&s, ct_args_get(a, "checkpoint"), &checkpoint)
                                   : CT_OK);
  CT_TRY(ct_setup_device(&s));
  CT_TRY(ct_setup_data(&s, 0, 1));
  CT_TRY(ct_setup_model(&s));
  CT_TRY(ct_setup_trainer(&s, 0));
  CT_TRY(ct_trainer_restore(s.trainer, checkpoint.ops, checkpoint.store, 0, NULL));
  CT_TRY_ALL(topo, open_confusion(&s, a, &confusion));
  counted = confusion.classes ? &confusion : NULL;
  CT_TRY(ct_evaluate_classes(s.trainer, &s.val, s.cfg.data.eval_batch, (int)s.cfg.data.workers, &e,
                             counted));
  CT_TRY_ALL(topo, topo->rank == 0 ? print(a, &e, counted) : CT_OK);
out:
  ct_confusion_close(&confusion);
  ct_ckpt_found_close(&checkpoint);
  ct_setup_close(&s);
  return rc;
}
