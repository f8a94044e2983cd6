/* Chooses the metrics of an evaluation: those in eval.metrics, and those that other keys depend on.
 */
#include "setup/ct_setup.h"

#include "base/ct_err.h"
#include "plan/ct_loss.h"

enum { USUAL_CLASSES = 100 }; /* up to this number, classes are always counted */

/* Returns 1 if a key names this score. */
static int names(const ct_config_t *c, int early, int kind)
{
  if (c->checkpoint.best == kind || early == kind) return 1;
  for (int i = 0; i < c->eval.metrics.n; i++)
    if (ct_score_kind(c->eval.metrics.v[i]) == kind) return 1;
  return 0;
}

int ct_setup_eval(const ct_setup_t *s, int counts, ct_confusion_t *confusion, ct_eval_want_t *out)
{
  int rc = CT_OK;
  const ct_config_t *c = &s->cfg;
  const ct_dataset_t *d = &s->val;
  int64_t classes = c->model.classes;
  ct_early_stop_t early;
  *out = (ct_eval_want_t){0};
  CT_TRY(ct_config_check_scores(c, d->info.targets > 0));
  CT_TRY(ct_early_stop_read(&c->train, c->where, &early));
  int by_class = names(c, early.metric, CT_SCORE_PRECISION) ||
                 names(c, early.metric, CT_SCORE_RECALL) || names(c, early.metric, CT_SCORE_F1);
  int several = c->losses.n > 1 || ct_graph_outputs(s->graph) > 1;
  int few = classes <= (counts ? CT_CONFUSION_MAX : USUAL_CLASSES);
  if (by_class && classes > CT_CONFUSION_MAX)
    CT_FAIL(CT_ERR_USAGE, "%s: precision, recall and f1 are of up to %d classes", c->where,
            CT_CONFUSION_MAX);
  if (d->info.targets == 0 && (few || by_class) && !several) {
    CT_TRY(ct_confusion_open(classes, confusion));
    out->confusion = confusion;
  }
  out->auc = names(c, early.metric, CT_SCORE_AUC);
  if (out->auc && d->pixels > 1)
    CT_FAIL(CT_ERR_USAGE, "%s: auc needs one label per sample, not one per pixel", c->where);
  out->softmax = c->losses.of[0].kind == CT_LOSS_CROSS_ENTROPY;
  out->sigmoid = c->losses.of[0].kind == CT_LOSS_BCE;
  out->r2 = names(c, early.metric, CT_SCORE_R2);
out:
  return rc;
}
