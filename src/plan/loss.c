/* The section `loss`: its option rows, and the conversion to a loss op.  Options that the kind of
 * loss does not have are an error, not ignored. */
#include "plan/ct_loss.h"

#include <inttypes.h>

#include "base/ct_err.h"
#include "base/ct_text.h"

#define ALSO(id, word, what)           "|" #word
#define ALSO_EXPLAINED(id, word, what) ", " what
const ct_opt_t ct_loss_rows[] = {
    CT_OPT_CHOICE(ct_loss_opts_t, kind, "cross_entropy", "cross_entropy" CT_POINT_LOSS_LIST(ALSO),
                  "softmax cross-entropy; or, output by output" CT_POINT_LOSS_LIST(
                      ALSO_EXPLAINED) ", of targets or of labels as one-hot"),
    CT_OPT_DOUBLE(ct_loss_opts_t, label_smoothing, "0", 0, 1,
                  "cross_entropy: part of the label that is spread over all classes"),
    CT_OPT_DOUBLES(ct_loss_opts_t, class_weights, "",
                   "cross_entropy: weight of each class, in the order of labels; empty: all 1"),
    CT_OPT_TEXT(ct_loss_opts_t, ignore_index, "",
                "cross_entropy: samples with this label are ignored, such as -100; empty: none"),
    CT_OPT_END};

/* Refuses options that only cross-entropy has. */
static int check_kind(const ct_loss_opts_t *o)
{
  int rc = CT_OK;
  const char *key = o->label_smoothing != 0 ? "label_smoothing"
                    : o->class_weights.n    ? "class_weights"
                    : o->ignore_index[0]    ? "ignore_index"
                                            : NULL;
  if (key && o->kind != CT_LOSS_CROSS_ENTROPY)
    CT_FAIL(CT_ERR_USAGE, "loss.%s is for cross_entropy, but loss.kind is %s", key,
            ct_loss_name((ct_loss_kind_t)o->kind));
out:
  return rc;
}

int ct_loss_spec(const ct_loss_opts_t *o, int has_targets, ct_loss_spec_t *out)
{
  int rc = CT_OK;
  int64_t ignored = 0;
  int has_ignored = o->ignore_index && o->ignore_index[0];
  CT_TRY(check_kind(o));
  if (has_ignored && (ct_text_int(o->ignore_index, &ignored) != CT_OK || ignored < INT32_MIN ||
                      ignored > INT32_MAX))
    CT_FAIL(CT_ERR_USAGE, "loss.ignore_index: '%s' is not a label: expected an integer",
            o->ignore_index);
  *out = (ct_loss_spec_t){.kind = (ct_loss_kind_t)o->kind,
                          .one_hot = o->kind != CT_LOSS_CROSS_ENTROPY && !has_targets,
                          .weighted = o->class_weights.n > 0,
                          .has_ignored = has_ignored,
                          .ignored = (int)ignored,
                          .label_smoothing = o->label_smoothing};
out:
  return rc;
}

static int check_weights(const ct_loss_opts_t *o, int64_t outputs)
{
  int rc = CT_OK;
  const ct_opt_doubles_t *w = &o->class_weights;
  double sum = 0;
  if (w->n && w->n != outputs)
    CT_FAIL(CT_ERR_USAGE,
            "loss.class_weights has %d numbers, expected one for each of %" PRId64 " classes", w->n,
            outputs);
  for (int i = 0; i < w->n; i++) {
    if (!(w->v[i] >= 0 && w->v[i] < 1e30))
      CT_FAIL(CT_ERR_USAGE, "loss.class_weights: %g, of class %d, must be from 0 to 1e30", w->v[i],
              i);
    sum += w->v[i];
  }
  if (w->n && sum == 0) CT_FAIL(CT_ERR_USAGE, "loss.class_weights are all 0");
out:
  return rc;
}

int64_t ct_loss_pixels(const ct_loss_spec_t *o, const ct_shape_t *outputs)
{
  ct_op_desc_t d;
  ct_op_desc_init(&d, CT_OP_LOSS, outputs, outputs);
  d.u.loss = *o;
  return ct_op_pixels(&d);
}

int ct_loss_check_targets(const ct_loss_opts_t *o, int64_t targets)
{
  int rc = CT_OK;
  if (o->kind == CT_LOSS_CROSS_ENTROPY && targets)
    CT_FAIL(CT_ERR_USAGE, "loss.kind is cross_entropy, which is of class labels, but data.target "
                          "holds real numbers: write labels as integers (in NumPy "
                          "y.astype('int64'), of one-hot rows y.argmax(1)), or choose mse, l1 or "
                          "bce");
out:
  return rc;
}

int ct_loss_check(const ct_loss_opts_t *o, const ct_graph_t *g, int64_t outputs, int64_t targets,
                  int64_t pixels)
{
  int rc = CT_OK, is_xent = o->kind == CT_LOSS_CROSS_ENTROPY;
  ct_loss_spec_t spec;
  char shape[80];
  const ct_layer_t *last = &g->layer[g->layers - 1];
  CT_TRY(ct_loss_spec(o, targets > 0, &spec));
  CT_TRY(ct_loss_check_targets(o, targets));
  if (targets && ct_shape_sample(&last->out) != targets)
    CT_FAIL(CT_ERR_USAGE, "the last layer '%s' (%s) gives %s, but a sample has %" PRId64 " targets",
            last->name, last->ops->kind, ct_shape_text(&last->out, shape, sizeof shape), targets);
  if (is_xent && pixels == 1 && last->out.ndim != 2)
    CT_FAIL(CT_ERR_USAGE,
            "the last layer '%s' (%s) gives %s, but cross_entropy (loss.kind) is of N x "
            "classes: end with flatten or linear",
            last->name, last->ops->kind, ct_shape_text(&last->out, shape, sizeof shape));
  if (is_xent && ct_loss_pixels(&spec, &last->out) != pixels)
    CT_FAIL(CT_ERR_USAGE,
            "the last layer '%s' (%s) gives %s, but a sample has %" PRId64
            " labels, one per pixel: the output must have the same height and width",
            last->name, last->ops->kind, ct_shape_text(&last->out, shape, sizeof shape), pixels);
  if (!is_xent && pixels > 1)
    CT_FAIL(CT_ERR_USAGE, "loss.kind is %s, but a sample has a label per pixel",
            ct_loss_name((ct_loss_kind_t)o->kind));
  CT_TRY(check_weights(o, outputs));
out:
  return rc;
}

int ct_loss_class_weights(const ct_loss_opts_t *o, float *out)
{
  for (int i = 0; i < o->class_weights.n; i++)
    out[i] = (float)o->class_weights.v[i];
  return o->class_weights.n;
}
