/* The training that a configuration means, in a few lines for people: what differs from the plain
 * case is said, nothing else. */
#include "app/describe.h"

#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"

static const char *word(const ct_opt_t *rows, const char *key, int value)
{
  return ct_opt_word(rows, key, value);
}

static int is(const char *a, const char *b)
{
  return strcmp(a, b) == 0;
}

static int optimizer(const ct_config_t *c, ct_str_t *t)
{
  int rc = CT_OK;
  const ct_optim_opts_t *o = &c->optim;
  const ct_schedule_opts_t *s = &c->schedule;
  CT_TRY(
      ct_str_add(t, "  %-14s %s, lr %g", "optimizer", word(ct_optim_rows, "kind", o->kind), o->lr));
  if (o->weight_decay > 0) CT_TRY(ct_str_add(t, ", weight decay %g", o->weight_decay));
  if (o->no_decay_bias_norm) CT_TRY(ct_str_add(t, " (not of biases and norms)"));
  if (o->groups)
    CT_TRY(ct_str_add(t, ", %" PRId64 " parameter groups", (int64_t)ct_yaml_count(o->groups)));
  CT_TRY(ct_str_add(t, "\n  %-14s %s", "schedule", word(ct_schedule_rows, "kind", s->kind)));
  if (s->warmup_epochs > 0) CT_TRY(ct_str_add(t, " after %g epochs of warm-up", s->warmup_epochs));
  if (s->scale_lr)
    CT_TRY(ct_str_add(t, ", lr x %g for the batch", (double)c->data.batch / (double)s->base_batch));
  CT_TRY(ct_str_add(t, "\n"));
out:
  return rc;
}

static int loss(const ct_config_t *c, ct_str_t *t)
{
  int rc = CT_OK;
  const ct_loss_opts_t *o = &c->loss;
  CT_TRY(ct_str_add(t, "  %-14s %s", "loss", word(ct_loss_rows, "kind", o->kind)));
  if (o->label_smoothing > 0) CT_TRY(ct_str_add(t, ", label smoothing %g", o->label_smoothing));
  if (o->class_weights.n) CT_TRY(ct_str_add(t, ", weighted classes"));
  if (o->ignore_index[0]) CT_TRY(ct_str_add(t, ", label %s ignored", o->ignore_index));
  CT_TRY(ct_str_add(t, "\n"));
out:
  return rc;
}

/* Their names; what stands in the list has been read before. */
static int transforms(const char *what, const ct_yaml_t *list, ct_str_t *t)
{
  int rc = CT_OK;
  if (!list || !list->child) return CT_OK;
  CT_TRY(ct_str_add(t, "  %-14s ", what));
  for (const ct_yaml_t *n = list->child; n; n = n->next)
    CT_TRY(ct_str_add(t, "%s%s", n->kind == CT_YAML_MAP && n->child ? n->child->key : n->text,
                      n->next ? ", " : "\n"));
out:
  return rc;
}

static int precision(const ct_config_t *c, ct_str_t *t)
{
  const char *amp = word(ct_train_rows, "amp", c->train.amp);
  if (is(amp, "off")) return CT_OK;
  return ct_str_add(t, "  %-14s %s activations, float32 weights%s\n", "precision", amp,
                    is(amp, "fp16") ? ", dynamic loss scaling" : "");
}

static int batches(const ct_config_t *c, int ranks, ct_str_t *t)
{
  int rc = CT_OK;
  const ct_parallel_opts_t *p = &c->parallel;
  CT_TRY(ct_str_add(t, "  %-14s %" PRId64 " over %d rank%s (%s)", "batch", c->data.batch, ranks,
                    ranks == 1 ? "" : "s", word(ct_parallel_rows, "mode", p->mode)));
  if (c->train.accumulate > 1)
    CT_TRY(ct_str_add(t, ", in %" PRId64 " pieces each", c->train.accumulate));
  if (p->shards)
    CT_TRY(ct_str_add(t, ", in %" PRId64 " logical shards: the same bits at every rank count",
                      p->shards));
  CT_TRY(ct_str_add(t, "\n"));
out:
  return rc;
}

static int batchnorms(const ct_config_t *c, const ct_graph_t *g, ct_str_t *t)
{
  const char *over = c->train.sync_bn;
  int n = 0, is_number = !is(over, "world") && !is(over, "node");
  if (is(over, "off")) return CT_OK;
  for (int i = 0; i < g->layers; i++)
    n += is(g->layer[i].ops->kind, "batchnorm") && !g->layer[i].keeps_stats;
  return ct_str_add(t, "  %-14s statistics of %d batchnorm%s over %s%s\n", "sync_bn", n,
                    n == 1 ? "" : "s", over, is_number ? " ranks" : "");
}

static int gradients(const ct_config_t *c, ct_str_t *t)
{
  int rc = CT_OK;
  const ct_train_opts_t *o = &c->train;
  if (o->clip_norm > 0)
    CT_TRY(ct_str_add(t, "  %-14s clipped to a norm of %g (p = %s)\n", "gradients", o->clip_norm,
                      o->clip_norm_type));
  if (o->clip_value > 0)
    CT_TRY(ct_str_add(t, "  %-14s clipped to +-%g\n", "gradients", o->clip_value));
  if (c->parallel.grad_dtype)
    CT_TRY(ct_str_add(t, "  %-14s as bfloat16 between nodes\n", "traffic"));
  if (c->parallel.zero)
    CT_TRY(ct_str_add(t, "  %-14s each rank has a slice of them (ZeRO-1)\n", "states"));
  if (c->parallel.verify_every)
    CT_TRY(ct_str_add(t, "  %-14s parameters of all ranks every %" PRId64 " steps\n", "compared",
                      c->parallel.verify_every));
out:
  return rc;
}

static int frozen(const ct_config_t *c, const ct_graph_t *g, ct_str_t *t)
{
  int rc = CT_OK, n = 0, keeps = 0;
  int64_t elements = 0;
  for (int i = 0; i < g->params; i++) {
    n += g->param[i].frozen;
    elements += g->param[i].frozen ? g->param[i].count : 0;
  }
  for (int i = 0; i < g->layers; i++)
    keeps += g->layer[i].keeps_stats;
  if (n == 0 && keeps == 0) return CT_OK;
  CT_TRY(ct_str_add(t, "  %-14s %d parameter%s (%" PRId64 " values)", "frozen", n,
                    n == 1 ? "" : "s", elements));
  if (c->train.freeze_bn) CT_TRY(ct_str_add(t, ", statistics of %d batchnorms", keeps));
  CT_TRY(ct_str_add(t, "\n"));
out:
  return rc;
}

int ct_describe(const ct_config_t *c, const ct_graph_t *g, int ranks, ct_str_t *out)
{
  int rc = CT_OK;
  CT_TRY(ct_str_add(out, "\nTraining:\n"));
  CT_TRY(optimizer(c, out));
  CT_TRY(loss(c, out));
  CT_TRY(transforms("transforms", c->transforms, out));
  CT_TRY(transforms("in evaluation", c->val_transforms, out));
  CT_TRY(precision(c, out));
  CT_TRY(batches(c, ranks, out));
  CT_TRY(batchnorms(c, g, out));
  CT_TRY(gradients(c, out));
  CT_TRY(frozen(c, g, out));
out:
  return rc;
}
