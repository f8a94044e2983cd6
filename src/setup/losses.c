/* The losses of a run: which target and which output each is of, checked against data and model;
 * layers that no loss needs are not trained. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "setup/ct_setup.h"

/* ---- targets ---- */

int ct_setup_targets(const ct_config_t *c, ct_loss_targets_t *targets, ct_reader_spec_t *spec)
{
  int rc = ct_losses_targets(&c->losses, &c->data.target, targets);
  if (rc != CT_OK) return ct_err_prefix(rc, "%s: ", c->where);
  spec->places = 1;
  if (spec->tokens.context) {
    ct_loss_spec_t loss;
    CT_TRY(ct_loss_spec(&c->losses.of[0], 0, &loss));
    spec->tokens.ignored = loss.ignored;
    spec->tokens.vocab = c->model.classes;
  }
  if (!c->losses.apart || !targets->names.n) return CT_OK;
  spec->target = targets->names.v[0];
  spec->targets_of = &targets->names;
  spec->targets_apart = 1;
out:
  return rc;
}

/* Notes how the target of loss k is read. */
static int note_target(const ct_loss_opts_t *o, int target, ct_dataset_t *d)
{
  int rc = CT_OK, has_targets = target == 0 && d->info.targets > 0, skips;
  double value;
  ct_loss_spec_t loss;
  CT_TRY(ct_loss_spec(o, has_targets, &loss));
  CT_TRY(ct_loss_ignore_value(o, &skips, &value));
  if (target == 0) { /* the label that the loss ignores may lie outside the range of classes */
    if (!d->has_ignored) d->ignored = loss.ignored;
    d->has_ignored |= loss.has_ignored;
    if (skips) d->skipped = (float)value;
    d->skips |= skips;
    goto out;
  }
  ct_more_as_t *as = &d->more_as[target - 1];
  int labels = ct_loss_of_labels(loss.kind);
  if (labels && !ct_dataset_is_whole(d->info.more.x[target - 1].dtype))
    CT_FAIL(CT_ERR_USAGE,
            "loss.kind is %s, which is of class labels, but array '%s' of data.target "
            "holds real numbers",
            ct_loss_name(loss.kind), d->more.name[target - 1]);
  *as = (ct_more_as_t){.labels = labels,
                       .has_ignored = loss.has_ignored,
                       .ignored = loss.ignored,
                       .skips = skips,
                       .skipped = (float)value};
out:
  return rc;
}

int ct_setup_note_targets(const ct_config_t *c, ct_dataset_t *d)
{
  int rc = CT_OK;
  ct_loss_targets_t targets;
  CT_TRY(ct_losses_targets(&c->losses, &c->data.target, &targets));
  for (int k = 0; k < c->losses.n; k++)
    if (targets.of[k] <= d->more.n) CT_TRY(note_target(&c->losses.of[k], targets.of[k], d));
out:
  return rc;
}

/* ---- outputs ---- */

static int has_several(const ct_config_t *c, const ct_graph_t *g)
{
  return c->losses.n > 1 || ct_graph_outputs(g) > 1;
}

/* Refuses labels for losses that are of real-valued targets alone, and keys that need targets. */
static int check_targets(const ct_loss_opts_t *o, int64_t targets, int64_t pixels,
                         const ct_dataset_t *d)
{
  int rc = CT_OK;
  const char *kind = ct_loss_name((ct_loss_kind_t)o->kind);
  int of_labels = ct_loss_of_labels((ct_loss_kind_t)o->kind);
  int either = o->kind == CT_LOSS_MSE || o->kind == CT_LOSS_L1 || o->kind == CT_LOSS_BCE ||
               o->kind == CT_LOSS_HUBER || o->kind == CT_LOSS_SMOOTH_L1;
  if (o->kind == CT_LOSS_DICE && pixels == 1 && !d->info.unlabelled)
    CT_FAIL(CT_ERR_USAGE, "loss.kind is dice, which is of masks with a label for each pixel, but a "
                          "sample has one label");
  if (targets || d->info.unlabelled || of_labels) return CT_OK;
  if (!either)
    CT_FAIL(CT_ERR_USAGE,
            "loss.kind is %s, which is of real-valued targets, but the data has labels", kind);
  if (o->ignore_value[0])
    CT_FAIL(CT_ERR_USAGE, "loss.ignore_value is of real-valued targets, but the data has labels");
out:
  return rc;
}

/* Checks a loss and sets the range of its labels. */
static int check_loss(const ct_config_t *c, const ct_graph_t *g, const ct_loss_opts_t *o,
                      const ct_layer_t *layer, int target, ct_dataset_t *d)
{
  int rc = CT_OK, is_xent = ct_loss_of_labels((ct_loss_kind_t)o->kind);
  int64_t targets = d->info.targets, pixels = d->pixels, classes = c->model.classes;
  if (target) {
    int64_t values = ct_shape_sample(&d->more.x[target - 1]);
    targets = is_xent ? 0 : values;
    pixels = is_xent ? values : 1;
  }
  if (has_several(c, g)) classes = ct_shape_sample(&layer->out);
  if (has_several(c, g) && is_xent) {
    int last = ct_loss_classes_last(o, layer, pixels);
    classes = layer->out.dim[last ? layer->out.ndim - 1 : 1];
  }
  if (target) d->more_as[target - 1].classes = classes;
  const char *what = g->outputs ? "output" : "the last layer";
  CT_TRY(ct_loss_check_layer(o, what, layer, classes, targets, pixels));
  CT_TRY(check_targets(o, targets, pixels, d));
  if (!targets && !is_xent && !d->info.unlabelled && ct_shape_sample(&layer->out) != classes)
    CT_FAIL(CT_ERR_USAGE, "%s '%s' gives %lld values, but a sample has a label of %lld classes",
            what, layer->name, (long long)ct_shape_sample(&layer->out), (long long)classes);
  if (target || !is_xent || !has_several(c, g)) goto out;
  if (classes < c->model.classes)
    CT_FAIL(CT_ERR_USAGE,
            "output '%s' gives %" PRId64 " classes, but model.classes or the data has %" PRId64,
            layer->name, classes, c->model.classes);
  d->classes = classes;
out:
  return rc;
}

int ct_setup_check_losses(const ct_config_t *c, const ct_graph_t *g, ct_dataset_t *d)
{
  int rc = CT_OK, output[CT_OUTPUTS];
  ct_loss_targets_t targets;
  CT_TRY(ct_losses_outputs(&c->losses, g, output));
  CT_TRY(ct_losses_targets(&c->losses, &c->data.target, &targets));
  for (int k = 0; k < c->losses.n && !(d->info.unlabelled && c->losses.n > 1); k++) {
    const ct_layer_t *layer = &g->layer[ct_graph_output(g, output[k])];
    rc = check_loss(c, g, &c->losses.of[k], layer, targets.of[k], d);
    if (rc != CT_OK && c->losses.n > 1) rc = ct_err_prefix(rc, "loss %d: ", k + 1);
    CT_TRY(rc);
  }
out:
  return rc != CT_OK ? ct_err_prefix(rc, "%s: ", c->where) : rc;
}

/* ---- layers without a loss ---- */

/* Returns 1 per layer in a new array if an output with a loss needs it. */
static int *find_needed(const ct_graph_t *g, const int output[], int n)
{
  int *needed = ct_mem_array(g->layers, sizeof *needed, "the layers that a loss needs");
  for (int k = 0; needed && k < n; k++)
    needed[ct_graph_output(g, output[k])] = 1;
  for (int i = g->layers - 1; needed && i >= 0; i--)
    for (int k = 0; needed[i] && k < g->layer[i].inputs; k++)
      if (g->layer[i].in[k] >= 0) needed[g->layer[i].in[k]] = 1;
  return needed;
}

static void freeze_layer(ct_graph_t *g, const int *needed, int i, ct_str_t *names)
{
  const ct_layer_t *l = &g->layer[i];
  int frozen = 0;
  for (int k = 0; k < l->params; k++) {
    int used = 0;
    for (int j = 0; j < g->layers; j++)
      for (int s = 0; needed[j] && s < g->layer[j].params; s++)
        used |= g->layer[j].param[s] == l->param[k];
    frozen |= !used && !g->param[l->param[k]].spec.buffer;
    if (!used) g->param[l->param[k]].frozen = 1;
  }
  if (frozen) ct_str_add(names, "%s%s", names->len ? ", " : "", l->name);
}

int ct_setup_freeze_unused(const ct_config_t *c, ct_graph_t *g)
{
  int rc = CT_OK, output[CT_OUTPUTS], *needed = NULL;
  ct_str_t names = {0};
  if (ct_graph_outputs(g) == 1) return CT_OK;
  CT_TRY(ct_losses_outputs(&c->losses, g, output));
  needed = find_needed(g, output, c->losses.n);
  CT_TRY(needed ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < g->layers; i++)
    if (!needed[i]) freeze_layer(g, needed, i, &names);
  if (names.len)
    ct_log(CT_LOG_WARN, "no loss needs these layers, which are not trained: %s", names.data);
out:
  ct_str_clear(&names);
  ct_mem_free(needed);
  return rc;
}

/* ---- the trainer ---- */

/* Returns the graph whose outputs the losses are of. */
static const ct_graph_t *losses_graph(const ct_setup_t *s)
{
  return s->whole ? s->whole : s->graph;
}

static const ct_shape_t *shape_of(const ct_setup_t *s, int output)
{
  const ct_graph_t *g = losses_graph(s);
  return &g->layer[ct_graph_output(g, output)].out;
}

static int64_t count_class_weights(const ct_setup_t *s, const int output[])
{
  int64_t n = 0;
  for (int k = 0; k < s->cfg.losses.n; k++)
    n += ct_loss_class_count(&s->cfg.losses.of[k], shape_of(s, output[k]));
  return n;
}

/* Sets what people call a loss: its output, or for a further loss of it OUTPUT_KIND. */
static int name_head(ct_setup_t *s, const int output[], int k, ct_head_t *h)
{
  int rc = CT_OK, others = 0;
  const ct_graph_t *g = losses_graph(s);
  h->name = g->layer[ct_graph_output(g, output[k])].name;
  for (int j = 0; j < k; j++)
    others += output[j] == output[k];
  if (!others) return CT_OK;
  ct_str_clear(&s->loss_name[k]);
  CT_TRY(ct_str_add(&s->loss_name[k], "%s_%s", h->name, ct_loss_name(h->loss.kind)));
  h->name = s->loss_name[k].data;
out:
  return rc;
}

static int set_head(const ct_setup_t *s, const ct_dataset_t *d, int k, int target, ct_head_t *h)
{
  int rc = CT_OK;
  const ct_loss_opts_t *o = &s->cfg.losses.of[k];
  const ct_layer_t *layer = &losses_graph(s)->layer[ct_graph_output(losses_graph(s), h->output)];
  int64_t labels = target ? ct_shape_sample(&d->more.x[target - 1]) : d->pixels;
  int has_targets = target ? !d->more_as[target - 1].labels : d->info.targets > 0;
  h->target = target;
  h->weight = o->weight;
  CT_TRY(ct_loss_spec(o, has_targets, &h->loss));
  h->loss.sample_weighted = d->info.weighted;
  h->loss.classes_last = ct_loss_classes_last(o, layer, labels);
out:
  return rc;
}

int ct_setup_heads(ct_setup_t *s, ct_trainer_env_t *env)
{
  int rc = CT_OK, output[CT_OUTPUTS];
  const ct_losses_t *l = &s->cfg.losses;
  const ct_dataset_t *d = s->data.info.samples ? &s->data : &s->val;
  ct_loss_targets_t targets;
  CT_TRY(ct_losses_outputs(l, losses_graph(s), output));
  int64_t n = count_class_weights(s, output);
  if (n && !s->class_weight)
    s->class_weight = ct_mem_array(n, sizeof *s->class_weight, "the weights of the classes");
  if (n && !s->class_weight) return CT_ERR_NOMEM;
  float *weights = s->class_weight, *places = s->place_weight;
  CT_TRY(ct_losses_targets(l, &s->cfg.data.target, &targets));
  env->heads.n = l->n;
  env->outputs_unread = env->training;
  for (int k = 0; k < l->n; k++) {
    ct_head_t *h = &env->heads.of[k];
    h->output = output[k];
    CT_TRY(set_head(s, d, k, targets.of[k], h));
    CT_TRY(name_head(s, output, k, h));
    const ct_shape_t *shape = shape_of(s, output[k]);
    const ct_op_desc_t desc = ct_loss_desc(&h->loss, shape);
    if (h->loss.weighted) {
      h->class_weight = weights;
      ct_loss_class_weights(&l->of[k], shape, weights);
      weights += ct_loss_class_count(&l->of[k], shape);
    }
    if (h->loss.place_weighted && places) {
      h->place_weight = places;
      places += ct_op_places(&desc);
    }
  }
  if (l->n > 1 && d->info.unlabelled) env->inference = 1; /* there is nothing to compare with */
out:
  return rc;
}
