/* The section `loss`: its option rows, and the conversion to a loss op.  Options that the kind of
 * loss does not have are an error, not ignored. */
#include "plan/ct_loss.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

#define ALSO(id, word, what)           "|" #word
#define ALSO_EXPLAINED(id, word, what) ", " what
#define EXPLAINED(id, word, what)      "; " #word ": " what
const ct_opt_t ct_loss_rows[] = {
    CT_OPT_CHOICE(ct_loss_opts_t, kind, "cross_entropy",
                  "cross_entropy" CT_POINT_LOSS_LIST(ALSO) CT_SAMPLE_LOSS_LIST(ALSO),
                  "softmax cross-entropy; or, output by output" CT_POINT_LOSS_LIST(
                      ALSO_EXPLAINED) ", "
                                      "of targets or of labels as one-hot; or, of a sample as a "
                                      "whole" CT_SAMPLE_LOSS_LIST(EXPLAINED)),
    CT_OPT_DOUBLE(ct_loss_opts_t, label_smoothing, "0", 0, 1,
                  "cross_entropy, soft_cross_entropy: part of the label that is spread over all "
                  "classes"),
    CT_OPT_DOUBLES(
        ct_loss_opts_t, class_weights, "",
        "cross_entropy, soft_cross_entropy, dice, sigmoid_dice: weight of each class, in "
        "the order of labels; empty: all 1"),
    CT_OPT_TEXT(ct_loss_opts_t, ignore_index, "",
                "cross_entropy, dice: samples or pixels with this label are ignored, such as -100; "
                "empty: none"),
    CT_OPT_DOUBLE(ct_loss_opts_t, z_loss, "0", 0, 1e30,
                  "cross_entropy: factor of the mean of log(sum of exp(outputs))^2, which is added "
                  "to the loss in training and keeps the outputs small, such as 1e-4; 0: none"),
    CT_OPT_DOUBLE(ct_loss_opts_t, gamma, "0", 0, 100,
                  "cross_entropy, bce: focal loss: factor (1 - p)^gamma of the loss, with the "
                  "probability p of the label or target, such as 2; 0: none"),
    CT_OPT_DOUBLE(
        ct_loss_opts_t, alpha, "0", 0, 1,
        "bce: weight of the target 1, while 0 has 1 - alpha, such as 0.25; 0: both have 1"),
    CT_OPT_DOUBLES(
        ct_loss_opts_t, pos_weight, "",
        "bce: factor of the loss of target 1, one number or one for each channel; empty: "
        "1"),
    CT_OPT_DOUBLE(ct_loss_opts_t, delta, "1", 0, 1e30,
                  "huber: error at which the quadratic loss becomes linear; above 0"),
    CT_OPT_DOUBLE(ct_loss_opts_t, beta, "1", 0, 1e30,
                  "smooth_l1: error at which the quadratic loss becomes linear"),
    CT_OPT_DOUBLE(ct_loss_opts_t, margin, "1", 0, 1e30,
                  "hinge_embedding: distance that outputs with target -1 should have at least"),
    CT_OPT_DOUBLE(
        ct_loss_opts_t, smooth, "1", 0, 1e30,
        "dice, sigmoid_dice: added to the numerator and the denominator, in pixels; above "
        "0"),
    CT_OPT_BOOL(ct_loss_opts_t, log_target, "false", "kl: targets are log-probabilities"),
    CT_OPT_BOOL(ct_loss_opts_t, log_input, "true", "poisson: outputs are logarithms of rates"),
    CT_OPT_TEXT(ct_loss_opts_t, ignore_value, "",
                "losses of real-valued targets: targets with this value, nan or a number, are "
                "ignored, and the mean is over the others; empty: none"),
    CT_OPT_PATH(
        ct_loss_opts_t, place_weights, "", "latitude",
        "factor of the loss at each pixel or output: latitude, the cosine at the centres of "
        "rows from pole to pole, divided by its mean; or an array FILE.h5:/NAME, broadcast "
        "over the output's shape without the samples, for losses of classes over the pixels; "
        "empty: 1"),
    CT_OPT_CHOICE(
        ct_loss_opts_t, reduction, "mean", "mean|elements|batchmean|sum",
        "divisor of the sum over a batch.  mean: the sum of the weights of samples, "
        "classes and places, without ignored ones, as in PyTorch; elements: the number of "
        "samples or of all their pixels, as the mean of losses that are weighted one by "
        "one; batchmean: the number of samples; sum: none"),
    CT_OPT_TEXT(ct_loss_opts_t, output, "",
                "name of the layer in model.outputs; empty: the first output, in a list the one at "
                "the loss's place, or the only one"),
    CT_OPT_TEXT(ct_loss_opts_t, target, "",
                "name of the array in data.target; empty: the first, or the only one; in a list "
                "the one at the loss's place"),
    CT_OPT_DOUBLE(ct_loss_opts_t, weight, "1", 0, 1e30, "factor of the loss in the sum of losses"),
    CT_OPT_NODE(ct_loss_opts_t, list,
                "several losses, each a map of the keys above; `loss: [{...}, {...}]` is "
                "the short form"),
    CT_OPT_END};

/* ---- keys of some kinds ---- */

#define OF(kind)            (1u << (kind))
#define BIT(id, word, what) | OF(id)
enum {
  OF_POINTS = 0 CT_POINT_LOSS_LIST(BIT),
  OF_ALL = OF(CT_LOSS_CROSS_ENTROPY) | OF_POINTS CT_SAMPLE_LOSS_LIST(BIT),
  OF_DICE = OF(CT_LOSS_DICE) | OF(CT_LOSS_SIGMOID_DICE),
  OF_ENTROPY = OF(CT_LOSS_CROSS_ENTROPY) | OF(CT_LOSS_SOFT_CROSS_ENTROPY)
};

/* A key, whether it is given, and the kinds that have it. */
typedef struct loss_key {
  const char *key;
  int given;
  unsigned kinds;
} loss_key_t;
enum { LOSS_KEYS = 20 };

static void list_keys(const ct_loss_opts_t *o, loss_key_t out[LOSS_KEYS])
{
  const loss_key_t keys[LOSS_KEYS] = {
      {"kind", o->kind != 0, OF_ALL},
      {"label_smoothing", o->label_smoothing != 0, OF_ENTROPY},
      {"class_weights", o->class_weights.n > 0, OF_ENTROPY | OF_DICE},
      {"ignore_index", o->ignore_index[0] != '\0', OF(CT_LOSS_CROSS_ENTROPY) | OF(CT_LOSS_DICE)},
      {"z_loss", o->z_loss != 0, OF(CT_LOSS_CROSS_ENTROPY)},
      {"gamma", o->gamma != 0, OF(CT_LOSS_CROSS_ENTROPY) | OF(CT_LOSS_BCE)},
      {"alpha", o->alpha != 0, OF(CT_LOSS_BCE)},
      {"pos_weight", o->pos_weight.n > 0, OF(CT_LOSS_BCE)},
      {"delta", o->delta != 1, OF(CT_LOSS_HUBER)},
      {"beta", o->beta != 1, OF(CT_LOSS_SMOOTH_L1)},
      {"margin", o->margin != 1, OF(CT_LOSS_HINGE_EMBEDDING)},
      {"smooth", o->smooth != 1, OF_DICE},
      {"log_target", o->log_target != 0, OF(CT_LOSS_KL)},
      {"log_input", o->log_input != 1, OF(CT_LOSS_POISSON)},
      {"ignore_value", o->ignore_value[0] != '\0', OF_POINTS | OF(CT_LOSS_RELATIVE_L2)},
      {"place_weights", o->place_weights[0] != '\0', OF_ALL},
      {"reduction", o->reduction != 0, OF_ALL},
      {"output", o->output[0] != '\0', OF_ALL},
      {"target", o->target[0] != '\0', OF_ALL},
      {"weight", o->weight != 1, OF_ALL}};
  memcpy(out, keys, sizeof keys);
}

/* Refuses a key that the kind of loss does not have. */
static int check_key(const ct_loss_opts_t *o, const loss_key_t *key)
{
  int rc = CT_OK;
  ct_str_t kinds = {0};
  if (!key->given || key->kinds & OF(o->kind)) return CT_OK;
  for (int k = 0; k < CT_LOSS_COUNT; k++)
    if (key->kinds & OF(k))
      CT_TRY(ct_str_add(&kinds, "%s%s", kinds.len ? ", " : "", ct_loss_name((ct_loss_kind_t)k)));
  CT_FAIL(CT_ERR_USAGE, "loss.%s is for %s, but loss.kind is %s", key->key, kinds.data,
          ct_loss_name((ct_loss_kind_t)o->kind));
out:
  ct_str_clear(&kinds);
  return rc;
}

static int check_numbers(const ct_loss_opts_t *o)
{
  int rc = CT_OK;
  if (o->gamma > 0 && o->label_smoothing > 0)
    CT_FAIL(CT_ERR_USAGE, "loss.gamma, of the focal loss, is given with loss.label_smoothing");
  if (o->alpha >= 1) CT_FAIL(CT_ERR_USAGE, "loss.alpha is %g, expected a number below 1", o->alpha);
  if (o->kind == CT_LOSS_HUBER && o->delta <= 0)
    CT_FAIL(CT_ERR_USAGE, "loss.delta is 0, expected a number above 0");
  if (OF(o->kind) & OF_DICE && o->smooth <= 0)
    CT_FAIL(CT_ERR_USAGE, "loss.smooth is 0, expected a number above 0");
  for (int i = 0; i < o->pos_weight.n; i++)
    if (!(o->pos_weight.v[i] >= 0 && o->pos_weight.v[i] < 1e30))
      CT_FAIL(CT_ERR_USAGE, "loss.pos_weight: %g must be from 0 to 1e30", o->pos_weight.v[i]);
out:
  return rc;
}

static int check_kind(const ct_loss_opts_t *o)
{
  int rc = CT_OK;
  loss_key_t keys[LOSS_KEYS];
  list_keys(o, keys);
  for (int i = 0; i < LOSS_KEYS; i++)
    CT_TRY(check_key(o, &keys[i]));
  CT_TRY(check_numbers(o));
out:
  return rc;
}

int ct_loss_ignore_value(const ct_loss_opts_t *o, int *has, double *out)
{
  int rc = CT_OK;
  *has = o->ignore_value && o->ignore_value[0];
  *out = NAN;
  if (!*has || strcmp(o->ignore_value, "nan") == 0) return CT_OK;
  if (ct_text_double(o->ignore_value, out) != CT_OK || !isfinite(*out))
    CT_FAIL(CT_ERR_USAGE, "loss.ignore_value: '%s' is neither a number nor nan", o->ignore_value);
out:
  return rc;
}

/* Returns the parameter that the kind of loss has. */
static double param_of(const ct_loss_opts_t *o)
{
  return o->kind == CT_LOSS_HUBER             ? o->delta
         : o->kind == CT_LOSS_SMOOTH_L1       ? o->beta
         : o->kind == CT_LOSS_HINGE_EMBEDDING ? o->margin
         : OF(o->kind) & OF_DICE              ? o->smooth
                                              : 0;
}

int ct_loss_spec(const ct_loss_opts_t *o, int has_targets, ct_loss_spec_t *out)
{
  int rc = CT_OK;
  int64_t ignored = 0;
  int skips_nan;
  double value;
  int has_ignored = o->ignore_index && o->ignore_index[0];
  CT_TRY(check_kind(o));
  CT_TRY(ct_loss_ignore_value(o, &skips_nan, &value));
  if (has_ignored && (ct_text_int(o->ignore_index, &ignored) != CT_OK || ignored < INT32_MIN ||
                      ignored > INT32_MAX))
    CT_FAIL(CT_ERR_USAGE, "loss.ignore_index: '%s' is not a label: expected an integer",
            o->ignore_index);
  *out = (ct_loss_spec_t){.kind = (ct_loss_kind_t)o->kind,
                          .one_hot = ct_loss_is_point((ct_loss_kind_t)o->kind) && !has_targets,
                          .weighted = o->class_weights.n > 0 || o->pos_weight.n > 0,
                          .has_ignored = has_ignored,
                          .ignored = (int)ignored,
                          .label_smoothing = o->label_smoothing,
                          .divisor = (ct_divisor_t)o->reduction,
                          .place_weighted = o->place_weights[0] != '\0',
                          .skips_nan = skips_nan,
                          .logs = o->kind == CT_LOSS_KL        ? o->log_target
                                  : o->kind == CT_LOSS_POISSON ? o->log_input
                                                               : 0,
                          .gamma = o->gamma,
                          .z_loss = o->z_loss,
                          .alpha = o->alpha,
                          .param = param_of(o)};
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

ct_op_desc_t ct_loss_desc(const ct_loss_spec_t *o, const ct_shape_t *outputs)
{
  ct_op_desc_t d;
  ct_op_desc_init(&d, CT_OP_LOSS, outputs, outputs);
  d.u.loss = *o;
  return d;
}

int64_t ct_loss_pixels(const ct_loss_spec_t *o, const ct_shape_t *outputs)
{
  const ct_op_desc_t d = ct_loss_desc(o, outputs);
  return ct_op_pixels(&d);
}

int64_t ct_loss_elements(const ct_loss_spec_t *o, const ct_shape_t *outputs)
{
  const ct_op_desc_t d = ct_loss_desc(o, outputs);
  return OF(o->kind) & OF_ENTROPY ? ct_op_places(&d) : 1;
}

int ct_loss_check_targets(const ct_loss_opts_t *o, int64_t targets)
{
  int rc = CT_OK;
  if (ct_loss_of_labels((ct_loss_kind_t)o->kind) && targets)
    CT_FAIL(
        CT_ERR_USAGE,
        "loss.kind is %s, which is of class labels, but data.target holds real numbers: write "
        "labels as integers (in NumPy y.astype('int64'), of one-hot rows y.argmax(1)), or choose "
        "mse, l1 or bce, of probabilities soft_cross_entropy",
        ct_loss_name((ct_loss_kind_t)o->kind));
out:
  return rc;
}

int ct_loss_classes_last(const ct_loss_opts_t *o, const ct_layer_t *layer, int64_t labels)
{
  const ct_shape_t *s = &layer->out;
  int64_t outputs = ct_shape_sample(s);
  const char *kind = layer->ops->kind;
  if (o->kind != CT_LOSS_CROSS_ENTROPY || s->ndim < 3) return 0;
  if (outputs / s->dim[s->ndim - 1] != labels) return 0;
  return outputs / s->dim[1] != labels || strcmp(kind, "linear") == 0 ||
         strcmp(kind, "matmul") == 0;
}

int ct_loss_check(const ct_loss_opts_t *o, const ct_graph_t *g, int64_t outputs, int64_t targets,
                  int64_t pixels)
{
  const char *what = g->outputs ? "output" : "the last layer";
  return ct_loss_check_layer(o, what, &g->layer[ct_graph_output(g, 0)], outputs, targets, pixels);
}

int ct_loss_check_layer(const ct_loss_opts_t *o, const char *what, const ct_layer_t *last,
                        int64_t outputs, int64_t targets, int64_t pixels)
{
  int rc = CT_OK, is_xent = ct_loss_of_labels((ct_loss_kind_t)o->kind);
  const char *kind = ct_loss_name((ct_loss_kind_t)o->kind);
  ct_loss_spec_t spec;
  char shape[80];
  CT_TRY(ct_loss_spec(o, targets > 0, &spec));
  spec.classes_last = ct_loss_classes_last(o, last, pixels);
  CT_TRY(ct_loss_check_targets(o, targets));
  if (targets && ct_shape_sample(&last->out) != targets)
    CT_FAIL(CT_ERR_USAGE, "%s '%s' (%s) gives %s, but a sample has %" PRId64 " targets", what,
            last->name, last->ops->kind, ct_shape_text(&last->out, shape, sizeof shape), targets);
  if (is_xent && pixels == 1 && last->out.ndim != 2 && !spec.classes_last)
    CT_FAIL(CT_ERR_USAGE,
            "%s '%s' (%s) gives %s, but %s (loss.kind) is of N x "
            "classes: end with flatten or linear",
            what, last->name, last->ops->kind, ct_shape_text(&last->out, shape, sizeof shape),
            kind);
  if (is_xent && ct_loss_pixels(&spec, &last->out) != pixels)
    CT_FAIL(CT_ERR_USAGE,
            "%s '%s' (%s) gives %s, but a sample has %" PRId64
            " labels, one per pixel: the output must have %s",
            what, last->name, last->ops->kind, ct_shape_text(&last->out, shape, sizeof shape),
            pixels,
            last->out.ndim > 3 ? "the same height and width"
                               : "N x classes x places or N x places x classes, and y.argmax(1) in "
                                 "NumPy makes one label of "
                                 "a one-hot row");
  if (!is_xent && pixels > 1)
    CT_FAIL(CT_ERR_USAGE, "loss.kind is %s, but a sample has a label per pixel", kind);
  if (ct_loss_by_class((ct_loss_kind_t)o->kind))
    outputs = last->out.dim[spec.classes_last ? last->out.ndim - 1 : 1];
  CT_TRY(check_weights(o, outputs));
  if (o->pos_weight.n > 1 && o->pos_weight.n != last->out.dim[1])
    CT_FAIL(CT_ERR_USAGE,
            "loss.pos_weight has %d numbers, expected 1 or one for each of %" PRId64 " channels",
            o->pos_weight.n, last->out.dim[1]);
out:
  return rc;
}

int64_t ct_loss_class_count(const ct_loss_opts_t *o, const ct_shape_t *outputs)
{
  return o->class_weights.n ? o->class_weights.n : o->pos_weight.n ? ct_shape_sample(outputs) : 0;
}

void ct_loss_class_weights(const ct_loss_opts_t *o, const ct_shape_t *outputs, float *out)
{
  int64_t n = ct_loss_class_count(o, outputs), apart = n / outputs->dim[1];
  for (int64_t i = 0; i < n; i++)
    out[i] = (float)(o->class_weights.n    ? o->class_weights.v[i]
                     : o->pos_weight.n > 1 ? o->pos_weight.v[i / apart]
                                           : o->pos_weight.v[0]);
}

/* ---- several losses ---- */

int ct_loss_expand(ct_yaml_t *root)
{
  ct_yaml_t *list = ct_yaml_find(root, "loss");
  if (!list || list->kind != CT_YAML_LIST) return CT_OK;
  ct_yaml_t *map = ct_yaml_new(CT_YAML_MAP, "loss", NULL);
  char *key = ct_mem_strdup("list");
  if (!map || !key) {
    ct_yaml_free(map);
    ct_mem_free(key);
    return CT_ERR_NOMEM;
  }
  ct_yaml_unlink(root, list);
  map->line = list->line;
  ct_mem_free(list->key);
  list->key = key;
  ct_yaml_append(map, list);
  ct_yaml_append(root, map);
  return CT_OK;
}

/* Returns the key of the section that is given besides a list, or NULL. */
static const char *besides(const ct_loss_opts_t *o)
{
  loss_key_t keys[LOSS_KEYS];
  list_keys(o, keys);
  for (int i = 0; i < LOSS_KEYS; i++)
    if (keys[i].given) return keys[i].key;
  return NULL;
}

static int read_one(const ct_yaml_t *map, const char *where, ct_losses_t *out)
{
  int rc = CT_OK;
  ct_loss_opts_t *o = &out->of[out->n];
  out->n++; /* to be cleared, whatever comes */
  CT_TRY(ct_opt_defaults(ct_loss_rows, o));
  CT_TRY(ct_opt_read(ct_loss_rows, o, map, where, "loss", NULL));
  if (o->list) CT_FAIL(CT_ERR_USAGE, "%s: loss: a list of losses within another", where);
  out->apart |= o->target[0] != '\0';
out:
  return rc;
}

int ct_losses_read(const ct_loss_opts_t *o, const char *where, ct_losses_t *out)
{
  int rc = CT_OK;
  const ct_yaml_t *list = o->list;
  ct_yaml_t *one = list ? NULL : ct_opt_dump(ct_loss_rows, o, NULL);
  *out = (ct_losses_t){.apart = list != NULL};
  if (!list) {
    CT_TRY(one ? read_one(one, where, out) : CT_ERR_NOMEM);
    goto out;
  }
  if (besides(o))
    CT_FAIL(CT_ERR_USAGE,
            "%s: loss.%s is given besides a list of losses: each loss of the list has this key",
            where, besides(o));
  if (list->kind != CT_YAML_LIST || !list->child)
    CT_FAIL(CT_ERR_USAGE, "%s:%d: loss: expected a list of losses, such as [{kind: mse}]", where,
            list->line);
  for (const ct_yaml_t *n = list->child; n; n = n->next) {
    if (n->kind != CT_YAML_MAP)
      CT_FAIL(CT_ERR_USAGE, "%s:%d: loss: expected a map such as {kind: mse, output: box}", where,
              n->line);
    if (out->n == CT_OUTPUTS)
      CT_FAIL(CT_ERR_USAGE, "%s:%d: loss: more than %d losses", where, n->line, CT_OUTPUTS);
    CT_TRY(read_one(n, where, out));
  }
out:
  ct_yaml_free(one);
  if (rc != CT_OK) ct_losses_clear(out);
  return rc;
}

void ct_losses_clear(ct_losses_t *l)
{
  for (int k = 0; k < l->n; k++)
    ct_opt_clear(ct_loss_rows, &l->of[k]);
  *l = (ct_losses_t){0};
}

int ct_losses_any(ct_losses_t *l)
{
  ct_losses_clear(l);
  l->n = 1;
  int rc = ct_opt_defaults(ct_loss_rows, &l->of[0]);
  l->of[0].kind = CT_LOSS_MSE;
  return rc;
}

static int find_name(const ct_opt_texts_t *list, const char *name)
{
  for (int i = 0; i < list->n; i++)
    if (strcmp(list->v[i], name) == 0) return i;
  return -1;
}

int ct_losses_targets(const ct_losses_t *l, const ct_opt_texts_t *targets, ct_loss_targets_t *out)
{
  int rc = CT_OK;
  *out = (ct_loss_targets_t){.names.v = out->name};
  for (int k = 0; k < l->n && targets->n && targets->v[0][0]; k++) {
    const char *name = l->of[k].target;
    int i = *name ? find_name(targets, name) : targets->n == 1 ? 0 : k;
    if (i < 0)
      CT_FAIL(CT_ERR_USAGE, "loss.target: '%.80s' is not in data.target, which names '%.80s'%s",
              name, targets->v[0], targets->n > 1 ? " and others" : "");
    if (i >= targets->n)
      CT_FAIL(CT_ERR_USAGE,
              "loss %d has no target: data.target names %d arrays; add one, or the key target",
              k + 1, targets->n);
    int have = find_name(&out->names, targets->v[i]);
    if (have < 0) out->name[have = out->names.n++] = targets->v[i];
    out->of[k] = have;
  }
out:
  return rc;
}

int ct_losses_find(const ct_losses_t *l, const ct_opt_texts_t *outputs, const char *name)
{
  for (int k = 0; k < l->n; k++) {
    const char *own = l->of[k].output;
    if (!*own && k < outputs->n) own = outputs->v[k];
    if (strcmp(own, name) == 0) return k;
  }
  return -1;
}

static int find_output(const ct_graph_t *g, const char *name)
{
  for (int k = 0; k < ct_graph_outputs(g); k++)
    if (strcmp(g->layer[ct_graph_output(g, k)].name, name) == 0) return k;
  return -1;
}

int ct_losses_outputs(const ct_losses_t *l, const ct_graph_t *g, int out[CT_OUTPUTS])
{
  int rc = CT_OK, outputs = ct_graph_outputs(g);
  for (int k = 0; k < l->n; k++) {
    const char *name = l->of[k].output;
    out[k] = *name ? find_output(g, name) : outputs == 1 ? 0 : k;
    if (out[k] < 0)
      CT_FAIL(CT_ERR_USAGE,
              "loss.output: '%.80s' is not an output: model.outputs names them, now the first is "
              "'%s'",
              name, g->layer[ct_graph_output(g, 0)].name);
    if (out[k] >= outputs)
      CT_FAIL(CT_ERR_USAGE,
              "there are %d losses, but the model has %d outputs: name them in model.outputs, or "
              "give losses the key output",
              l->n, outputs);
    if (l->n > 1 && strcmp(g->layer[ct_graph_output(g, out[k])].name, "scale") == 0)
      CT_FAIL(CT_ERR_USAGE, "an output must not be called 'scale': metrics.jsonl has a loss_scale");
    for (int j = 0; j < k; j++)
      if (out[j] == out[k] && l->of[j].kind == l->of[k].kind)
        CT_FAIL(CT_ERR_USAGE, "losses %d and %d are both %s of output '%s'", j + 1, k + 1,
                ct_loss_name((ct_loss_kind_t)l->of[k].kind),
                g->layer[ct_graph_output(g, out[k])].name);
  }
out:
  return rc;
}
