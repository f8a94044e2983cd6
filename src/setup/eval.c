/* Chooses the metrics of an evaluation: those in eval.metrics, and those that other keys depend on.
 */
#include "setup/ct_setup.h"

#include "base/ct_err.h"
#include "plan/ct_loss.h"

enum { USUAL_CLASSES = 100 }; /* up to this number, classes are always counted */

/* Notes the scores that keys name. */
static int find_named(const ct_config_t *c, char score[CT_SCORE_COUNT])
{
  int rc = CT_OK;
  ct_early_stop_t early;
  CT_TRY(ct_early_stop_read(&c->train, c->where, &early));
  score[c->checkpoint.best] = score[early.metric] = 1;
  for (int i = 0; i < c->eval.metrics.n; i++)
    score[ct_score_kind(c->eval.metrics.v[i])] = 1;
out:
  return rc;
}

/* The output of which scores are, and its target. */
typedef struct scored {
  const ct_layer_t *layer;
  int64_t values; /* of a sample's output */
  int64_t labels; /* of a sample's target */
  int of;         /* CT_SCORE_OF_… */
} scored_t;

static int find_scored(const ct_setup_t *s, int head, scored_t *out)
{
  int rc = CT_OK, output[CT_OUTPUTS];
  const ct_config_t *c = &s->cfg;
  const ct_graph_t *g = s->whole ? s->whole : s->graph;
  ct_loss_targets_t targets;
  CT_TRY(ct_losses_outputs(&c->losses, g, output));
  CT_TRY(ct_losses_targets(&c->losses, &c->data.target, &targets));
  int more = targets.of[head];
  out->of = ct_config_scored(c, &s->val, head);
  out->layer = &g->layer[ct_graph_output(g, output[head])];
  out->values = ct_shape_sample(&out->layer->out);
  out->labels = more ? ct_shape_sample(&s->val.more.x[more - 1]) : s->val.pixels;
out:
  return rc;
}

/* Opens the counts of classes. */
static int count_classes(const ct_config_t *c, const scored_t *o, int by_key, int most,
                         ct_confusion_t *confusion, ct_eval_want_t *out)
{
  int rc = CT_OK, sets = o->of == CT_SCORE_OF_SETS;
  int64_t classes = sets ? out->channels : o->values / o->labels;
  if (by_key && classes > CT_CONFUSION_MAX)
    CT_FAIL(CT_ERR_USAGE, "%s: precision, recall, f1, iou and dice are of up to %d classes",
            c->where, CT_CONFUSION_MAX);
  if (!by_key && (sets || classes > most)) goto out;
  CT_TRY(sets ? ct_confusion_open_sets(classes, confusion) : ct_confusion_open(classes, confusion));
  out->confusion = confusion;
  out->score[CT_SCORE_PRECISION] = out->score[CT_SCORE_RECALL] = out->score[CT_SCORE_F1] = 1;
  if (o->labels > 1) out->score[CT_SCORE_IOU] = 1;
out:
  return rc;
}

int ct_setup_eval(const ct_setup_t *s, int counts, ct_confusion_t *confusion, ct_eval_want_t *out)
{
  static const char of_classes[CT_SCORE_COUNT] = {
      [CT_SCORE_PRECISION] = 1,     [CT_SCORE_RECALL] = 1,     [CT_SCORE_F1] = 1,
      [CT_SCORE_IOU] = 1,           [CT_SCORE_IOU_SAMPLE] = 1, [CT_SCORE_DICE] = 1,
      [CT_SCORE_DICE_SAMPLE] = 1,   [CT_SCORE_F1_MICRO] = 1,   [CT_SCORE_SUBSET_ACCURACY] = 1,
      [CT_SCORE_LABEL_ACCURACY] = 1};
  int rc = CT_OK, by_key = 0;
  const ct_config_t *c = &s->cfg;
  scored_t o;
  *out = (ct_eval_want_t){0};
  CT_TRY(ct_config_check_scores(c, &s->val));
  out->head = ct_config_scored_loss(c);
  if (out->head < 0) { /* only the loss is of all outputs */
    *out = (ct_eval_want_t){0};
    goto out;
  }
  CT_TRY(find_scored(s, out->head, &o));
  CT_TRY(find_named(c, out->score));
  out->of = o.of;
  out->channels = o.layer->out.ndim > 2 ? o.layer->out.dim[1] : o.values;
  out->softmax = ct_loss_softmax((ct_loss_kind_t)c->losses.of[out->head].kind);
  out->sigmoid = ct_loss_sigmoid((ct_loss_kind_t)c->losses.of[out->head].kind);
  for (int k = 0; k < CT_SCORE_COUNT; k++)
    by_key |= out->score[k] && of_classes[k];
  int64_t places = o.of == CT_SCORE_OF_LABELS ? o.labels : o.values / out->channels;
  if ((out->score[CT_SCORE_AUC] || out->score[CT_SCORE_MAP]) && places > 1)
    CT_FAIL(CT_ERR_USAGE, "%s: auc and map need one label per sample, not one per pixel", c->where);
  if (out->score[CT_SCORE_VRMSE] && places == 1)
    CT_FAIL(CT_ERR_USAGE,
            "%s: vrmse is of fields, but output '%s' has a single value of each channel", c->where,
            o.layer->name);
  int tokens = s->val.info.tokens > 0, bytes = tokens && s->val.info.text_bytes > 0;
  if (out->score[CT_SCORE_BITS_PER_BYTE] && !bytes)
    CT_FAIL(CT_ERR_USAGE,
            "%s: bits_per_byte needs the attribute 'bytes' of each array of tokens in data.val",
            c->where);
  out->score[CT_SCORE_PERPLEXITY] |= tokens;
  out->score[CT_SCORE_BITS_PER_BYTE] |= bytes;
  if (o.of != CT_SCORE_OF_VALUES && (by_key || !tokens))
    CT_TRY(count_classes(c, &o, by_key, counts ? CT_CONFUSION_MAX : USUAL_CLASSES, confusion, out));
out:
  return rc;
}
