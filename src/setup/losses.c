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
  if (!c->losses.apart || !targets->names.n) return CT_OK;
  spec->target = targets->names.v[0];
  spec->targets_of = &targets->names;
  spec->targets_apart = 1;
  return CT_OK;
}

/* Notes how the target of loss k is read. */
static int note_target(const ct_loss_opts_t *o, int target, ct_dataset_t *d)
{
  int rc = CT_OK, has_targets = target == 0 && d->info.targets > 0;
  ct_loss_spec_t loss;
  CT_TRY(ct_loss_spec(o, has_targets, &loss));
  if (target == 0) { /* the label that the loss ignores may lie outside the range of classes */
    if (!d->has_ignored) d->ignored = loss.ignored;
    d->has_ignored |= loss.has_ignored;
    goto out;
  }
  ct_more_as_t *as = &d->more_as[target - 1];
  int labels = o->kind == CT_LOSS_CROSS_ENTROPY;
  if (labels && !ct_dataset_is_whole(d->info.more.x[target - 1].dtype))
    CT_FAIL(CT_ERR_USAGE,
            "loss.kind is cross_entropy, which is of class labels, but array '%s' of data.target "
            "holds real numbers",
            d->more.name[target - 1]);
  *as = (ct_more_as_t){.labels = labels, .has_ignored = loss.has_ignored, .ignored = loss.ignored};
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

/* Checks a loss and sets the range of its labels. */
static int check_loss(const ct_config_t *c, const ct_graph_t *g, const ct_loss_opts_t *o,
                      const ct_layer_t *layer, int target, ct_dataset_t *d)
{
  int rc = CT_OK, is_xent = o->kind == CT_LOSS_CROSS_ENTROPY;
  int64_t targets = d->info.targets, pixels = d->pixels, classes = c->model.classes;
  if (has_several(c, g)) classes = is_xent ? layer->out.dim[1] : ct_shape_sample(&layer->out);
  if (target) {
    int64_t values = ct_shape_sample(&d->more.x[target - 1]);
    targets = is_xent ? 0 : values;
    pixels = is_xent ? values : 1;
    d->more_as[target - 1].classes = classes;
  }
  const char *what = g->outputs ? "output" : "the last layer";
  CT_TRY(ct_loss_check_layer(o, what, layer, classes, targets, pixels));
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

static int64_t count_class_weights(const ct_losses_t *l)
{
  int64_t n = 0;
  for (int k = 0; k < l->n; k++)
    n += l->of[k].class_weights.n;
  return n;
}

static int set_head(const ct_setup_t *s, const ct_dataset_t *d, int k, int target, float **weights,
                    ct_head_t *h)
{
  int rc = CT_OK;
  const ct_loss_opts_t *o = &s->cfg.losses.of[k];
  int has_targets = target ? !d->more_as[target - 1].labels : d->info.targets > 0;
  h->target = target;
  h->weight = o->weight;
  CT_TRY(ct_loss_spec(o, has_targets, &h->loss));
  h->loss.sample_weighted = d->info.weighted;
  if (!h->loss.weighted) goto out;
  h->class_weight = *weights;
  *weights += ct_loss_class_weights(o, *weights);
out:
  return rc;
}

int ct_setup_heads(ct_setup_t *s, ct_trainer_env_t *env)
{
  int rc = CT_OK, output[CT_OUTPUTS];
  const ct_losses_t *l = &s->cfg.losses;
  const ct_dataset_t *d = s->data.info.samples ? &s->data : &s->val;
  const ct_graph_t *g = s->whole ? s->whole : s->graph;
  ct_loss_targets_t targets;
  int64_t n = count_class_weights(l);
  if (n && !s->class_weight)
    s->class_weight = ct_mem_array(n, sizeof *s->class_weight, "the weights of the classes");
  if (n && !s->class_weight) return CT_ERR_NOMEM;
  float *weights = s->class_weight;
  CT_TRY(ct_losses_outputs(l, g, output));
  CT_TRY(ct_losses_targets(l, &s->cfg.data.target, &targets));
  env->heads.n = l->n;
  for (int k = 0; k < l->n; k++) {
    ct_head_t *h = &env->heads.of[k];
    h->output = output[k];
    h->name = g->layer[ct_graph_output(g, output[k])].name;
    CT_TRY(set_head(s, d, k, targets.of[k], &weights, h));
  }
  if (l->n > 1 && d->info.unlabelled) env->inference = 1; /* there is nothing to compare with */
out:
  return rc;
}
