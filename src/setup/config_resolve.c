/* Steps after the whole configuration is read: makes paths absolute, computes sizes from other keys
 * and the number of ranks, and refuses contradictory keys. */
#include "setup/config_parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "job/ct_walltime.h"
#include "train/ct_step_opts.h"

/* ---- values that follow from other keys ---- */

static int set_text(char **to, const char *text)
{
  char *copy = ct_mem_strdup(text);
  if (!copy) return CT_ERR_NOMEM;
  ct_mem_free(*to);
  *to = copy;
  return CT_OK;
}

/* Makes the path of a PATH row absolute; \a arg is the current directory. */
static int make_absolute(const ct_opt_t *row, char **path, void *arg)
{
  int rc = CT_OK;
  char full[CT_PATH_MAX];
  if (!(*path)[0] || (row->choices && strcmp(row->choices, *path) == 0)) return CT_OK;
  CT_TRY(ct__config_below(row, arg, *path, full, sizeof full));
  CT_TRY(set_text(path, full));
out:
  return rc;
}

/* Windows predict later frames, or tokens, of their own arrays, unless data.target names others. */
static int set_window_target(ct_data_opts_t *o)
{
  ct_opt_texts_t copy = {0};
  int is_default = o->target.n == 1 && strcmp(o->target.v[0], "labels") == 0;
  if (!(o->window || o->context) || !is_default) return CT_OK;
  copy.v = ct_mem_array(o->input.n + 1, sizeof *copy.v, "the names of targets");
  if (!copy.v) return CT_ERR_NOMEM;
  ct_mem_free(o->target.v[0]);
  ct_mem_free(o->target.v);
  o->target = copy;
  for (; o->target.n < o->input.n; o->target.n++) {
    o->target.v[o->target.n] = ct_mem_strdup(o->input.v[o->target.n]);
    if (!o->target.v[o->target.n]) return CT_ERR_NOMEM;
  }
  return CT_OK;
}

/* The labels of tokens that are not predicted are ignored. */
static int set_token_loss(ct_config_t *c)
{
  int rc = CT_OK;
  ct_loss_opts_t *o = &c->losses.of[0];
  if (!c->data.context || c->losses.n != 1 || o->kind != CT_LOSS_CROSS_ENTROPY || *o->ignore_index)
    return CT_OK;
  CT_TRY(set_text(&o->ignore_index, "-100"));
  if (!c->loss.list) CT_TRY(set_text(&c->loss.ignore_index, "-100"));
out:
  return rc;
}

/* Converts numbers of tokens to samples and steps. */
static int convert_tokens(ct_config_t *c)
{
  int rc = CT_OK;
  ct_data_opts_t *d = &c->data;
  ct_train_opts_t *t = &c->train;
  if (!d->context && (d->batch_tokens || t->tokens || t->peak_tflops > 0))
    CT_FAIL(CT_ERR_USAGE, "%s: is of windows of tokens: set data.context",
            d->batch_tokens ? "data.batch_tokens"
            : t->tokens     ? "train.tokens"
                            : "train.peak_tflops");
  if (d->batch_tokens && (d->batch_tokens % d->context || d->batch_per_rank))
    CT_FAIL(CT_ERR_USAGE, "data.batch_tokens is %" PRId64 ", %s: data.context is %" PRId64,
            d->batch_tokens,
            d->batch_per_rank ? "but data.batch_per_rank is set too"
                              : "expected a multiple of the tokens of a sample",
            d->context);
  if (d->batch_tokens) d->batch = d->batch_tokens / d->context;
  if (d->batch_per_rank == CT_BATCH_AUTO) return CT_OK; /* ct_config_take_batch() */
  CT_TRY(ct_schedule_take_tokens(&c->schedule, d->batch * d->context));
  if (!t->tokens) goto out;
  int64_t steps = (t->tokens - 1) / (d->batch * d->context) + 1;
  if (t->steps && t->steps != steps)
    CT_FAIL(CT_ERR_USAGE,
            "train.tokens, %" PRId64 ", are %" PRId64 " steps, but train.steps is %" PRId64
            ": give one of them",
            t->tokens, steps, t->steps);
  t->steps = steps;
  t->epochs = steps < 1000000000 ? steps : 1000000000;
out:
  return rc;
}

int ct_config_resolve(ct_config_t *c, const char *cwd, int ranks)
{
  int rc = CT_OK;
  char name[CT_PATH_MAX];
  if (!c->run.dir[0]) {
    CT_TRY(ct_text_format(name, sizeof name, "runs/%s", c->run.name));
    CT_TRY(set_text(&c->run.dir, name));
  }
  CT_TRY(ct__config_each_value(make_absolute, c, (void *)(uintptr_t)cwd));
  if (c->data.batch_per_rank > 0) c->data.batch = c->data.batch_per_rank * ranks;
  CT_TRY(convert_tokens(c));
  CT_TRY(set_window_target(&c->data));
  CT_TRY(set_token_loss(c));
  c->eval_follows = c->data.eval_batch == 0;
  if (c->eval_follows) c->data.eval_batch = c->data.batch;
out:
  return rc;
}

int ct_config_take_batch(ct_config_t *c, int64_t batch)
{
  c->data.batch = batch;
  c->data.batch_per_rank = 0; /* a run that resumes keeps the batch */
  if (c->eval_follows) c->data.eval_batch = batch;
  return convert_tokens(c);
}

/* ---- constraints between keys ---- */

enum { MAX_BATCH = 1000000000 }; /* upper limit of data.batch */

static int check_plateau(const ct_config_t *c)
{
  int rc = CT_OK;
  if (c->data.val.n == 0)
    CT_FAIL(CT_ERR_USAGE, "schedule.kind plateau uses the validation loss: set data.val");
  if (c->parallel.shards)
    CT_FAIL(CT_ERR_USAGE, "schedule.kind plateau uses the validation loss, whose last bits depend "
                          "on the number of ranks: not possible with parallel.shards");
  if (c->eval.every_epochs == 0)
    CT_FAIL(CT_ERR_USAGE, "schedule.kind plateau uses the evaluations at the end of epochs: not "
                          "possible with eval.every_epochs 0");
out:
  return rc;
}

static int check_early_stop(const ct_config_t *c, int metric)
{
  int rc = CT_OK;
  if (c->data.val.n == 0)
    CT_FAIL(CT_ERR_USAGE, "train.early_stop uses the evaluation of data.val, which is not set");
  if (c->parallel.shards && !ct_score_is_counted(metric))
    CT_FAIL(CT_ERR_USAGE,
            "train.early_stop uses the validation %s, whose last bits depend on the number of "
            "ranks: with parallel.shards take top1 or top5",
            ct_score_word(metric));
out:
  return rc;
}

static int check_sets(const ct_config_t *c)
{
  int rc = CT_OK, found = !*c->eval.watch;
  for (int i = 0; i < c->eval.sets.n; i++)
    found |= strcmp(c->eval.sets.name[i], c->eval.watch) == 0;
  if (c->eval.sets.n && c->data.val.n == 0)
    CT_FAIL(CT_ERR_USAGE, "eval.sets are evaluated besides data.val, which is not set");
  if (!found)
    CT_FAIL(CT_ERR_USAGE, "eval.watch is '%s': must be the name of a set in eval.sets",
            c->eval.watch);
out:
  return rc;
}

static int check_tokens(const ct_config_t *c)
{
  int rc = CT_OK;
  const ct_opt_texts_t *in = &c->data.input, *target = &c->data.target;
  int same = in->n == 1 && target->n == 1 && strcmp(in->v[0], target->v[0]) == 0;
  if (!same && target->n && target->v[0][0])
    CT_FAIL(CT_ERR_USAGE,
            "data.target is '%.80s', but the labels of tokens (data.context) are the tokens that "
            "follow",
            target->v[0]);
  if (c->losses.n != 1 || c->losses.of[0].kind != CT_LOSS_CROSS_ENTROPY)
    CT_FAIL(CT_ERR_USAGE, "loss: tokens (data.context) have one loss, of kind cross_entropy");
  if (c->losses.of[0].ignore_index[0] == '\0')
    CT_FAIL(CT_ERR_USAGE, "loss.ignore_index is empty, but tokens (data.context) need one");
out:
  return rc;
}

static int check_all(const ct_config_t *c, int ranks, int with_loss, const ct_early_stop_t *early)
{
  int rc = CT_OK;
  ct_step_opts_t step_opts;
  ct_loss_spec_t loss;
  ct_loss_targets_t targets;
  ct_trace_steps_t trace;
  CT_TRY(ct_step_opts_make(&c->parallel, &c->train, ranks, &step_opts));
  if (c->data.batch > MAX_BATCH)
    CT_FAIL(CT_ERR_USAGE,
            "data.batch_per_rank is %" PRId64 ": with %d ranks a step has more than %d samples",
            c->data.batch_per_rank, ranks, MAX_BATCH);
  if (c->data.batch_per_rank == CT_BATCH_AUTO && !step_opts.memory)
    CT_FAIL(CT_ERR_USAGE, "data.batch_per_rank is auto: set train.memory, to a size or to auto");
  if (with_loss && (c->data.target.n == 0 || !c->data.target.v[0][0]))
    CT_FAIL(CT_ERR_USAGE,
            "data.target is empty: the loss is of labels or targets, name their array");
  for (int k = 0; k < c->losses.n; k++)
    CT_TRY(ct_loss_spec(&c->losses.of[k], 0, &loss));
  CT_TRY(ct_losses_targets(&c->losses, &c->data.target, &targets));
  if (c->data.normalize_targets && !c->data.window)
    CT_FAIL(CT_ERR_USAGE, "data.normalize_targets is of windows: set data.window");
  if (c->data.context) CT_TRY(check_tokens(c));
  CT_TRY(ct_init_check(&c->init));
  CT_TRY(ct_optim_check(&c->optim));
  CT_TRY(ct_schedule_check(&c->schedule));
  CT_TRY(ct_optim_check_schedule(&c->optim, &c->schedule));
  CT_TRY(ct_walltime_check(c->job.walltime));
  CT_TRY(ct_trace_steps_read(&c->run, &trace));
  if (ct_schedule_needs_loss(&c->schedule)) CT_TRY(check_plateau(c));
  CT_TRY(check_sets(c));
  if (early->metric) CT_TRY(check_early_stop(c, early->metric));
  if (c->checkpoint.best && c->data.val.n == 0)
    CT_FAIL(CT_ERR_USAGE, "checkpoint.best is %s, of the evaluation of data.val, which is not set",
            ct_score_word(c->checkpoint.best));
  if (c->train.steps == 0 && c->schedule.warmup_epochs > (double)c->train.epochs)
    CT_FAIL(CT_ERR_USAGE, "schedule.warmup_epochs is %g, more than train.epochs, which is %" PRId64,
            c->schedule.warmup_epochs, c->train.epochs);
  int in_epochs = ct_schedule_steps(&c->schedule, 1, 0) == 0; /* with epochs of 0 steps */
  if (c->train.steps == 0 && in_epochs && c->schedule.warmup > (double)c->train.epochs)
    CT_FAIL(CT_ERR_USAGE, "schedule.warmup is %g epochs, more than train.epochs, which is %" PRId64,
            c->schedule.warmup, c->train.epochs);
  if (c->model.family[0] && c->model.layers)
    CT_FAIL(CT_ERR_USAGE,
            "model.family and model.layers are both given: one of them makes the model");
out:
  return rc;
}

int ct_config_check(const ct_config_t *c, int ranks, int with_loss)
{
  ct_early_stop_t early;
  ct_window_t window;
  int rc = ct_early_stop_read(&c->train, c->where, &early); /* the message already names file and
                                                               line */
  if (rc == CT_OK) rc = ct_data_window(&c->data, c->where, &window);
  if (rc != CT_OK) return rc;
  rc = check_all(c, ranks, with_loss, &early);
  return rc == CT_OK ? rc : ct_err_prefix(rc, "%s: ", c->where);
}

int ct_config_scored(const ct_config_t *c, const ct_dataset_t *d, int k)
{
  ct_loss_targets_t targets;
  if (ct_losses_targets(&c->losses, &c->data.target, &targets) != CT_OK) return CT_SCORE_OF_LABELS;
  int more = targets.of[k] <= d->more.n ? targets.of[k] : 0;
  int labels = more ? d->more_as[more - 1].labels : d->info.targets == 0;
  return labels                                                  ? CT_SCORE_OF_LABELS
         : ct_loss_sigmoid((ct_loss_kind_t)c->losses.of[k].kind) ? CT_SCORE_OF_SETS
                                                                 : CT_SCORE_OF_VALUES;
}

/* Returns the name of the output of loss k; "": it has none. */
static const char *output_of(const ct_config_t *c, int k)
{
  if (c->losses.of[k].output[0]) return c->losses.of[k].output;
  return k < c->model.outputs.n ? c->model.outputs.v[k] : "";
}

int ct_config_scored_loss(const ct_config_t *c)
{
  if (c->eval.output[0]) return ct_losses_find(&c->losses, &c->model.outputs, c->eval.output);
  if (c->model.outputs.n < 2) return 0; /* there is only one output */
  for (int k = 1; k < c->losses.n; k++)
    if (!*output_of(c, 0) || strcmp(output_of(c, k), output_of(c, 0)) != 0) return -1;
  return 0;
}

/* Refuses a score that cannot be computed for the data or the loss. */
static int check_score(const ct_config_t *c, const char *key, int kind, const ct_dataset_t *d)
{
  int rc = CT_OK;
  const char *word = ct_score_word(kind);
  int k = ct_config_scored_loss(c);
  if (kind == CT_SCORE_OFF || kind == CT_SCORE_LOSS) return CT_OK;
  if (k < 0)
    CT_FAIL(CT_ERR_USAGE,
            "%s: %s is %s, which is of one loss: with a list of losses take loss, or name the "
            "output in eval.output",
            c->where, key, word);
  int of = ct_config_scored(c, d, k), needs = ct_score_of(kind), loss = c->losses.of[k].kind;
  int one_hot = of == CT_SCORE_OF_LABELS && !ct_loss_of_labels((ct_loss_kind_t)loss);
  int has = needs & of || (kind == CT_SCORE_MAE && one_hot);
  if (c->losses.n > 1 && one_hot && (kind == CT_SCORE_TOP1 || kind == CT_SCORE_TOP5)) has = 0;
  if (has) return CT_OK;
  if (c->losses.n > 1)
    CT_FAIL(CT_ERR_USAGE, "%s: %s is %s, which the loss of output '%s', %s, does not have",
            c->where, key, word, output_of(c, k), ct_loss_name((ct_loss_kind_t)loss));
  if (kind == CT_SCORE_MAE)
    CT_FAIL(CT_ERR_USAGE,
            "%s: %s is mae, which loss.kind %s does not have: take loss, top1 or top5", c->where,
            key, ct_loss_name((ct_loss_kind_t)loss));
  if (of == CT_SCORE_OF_LABELS)
    CT_FAIL(CT_ERR_USAGE, "%s: %s is %s, which is of real-valued targets, but the data has labels",
            c->where, key, word);
  CT_FAIL(CT_ERR_USAGE, "%s: %s is %s, but the data has real-valued targets%s: take loss or mae",
          c->where, key, word,
          needs & CT_SCORE_OF_SETS && of == CT_SCORE_OF_VALUES
              ? " and loss.kind is not bce (of several labels per sample)"
              : "");
out:
  return rc;
}

int ct_config_check_scores(const ct_config_t *c, const ct_dataset_t *d)
{
  int rc = CT_OK;
  ct_early_stop_t early;
  CT_TRY(ct_early_stop_read(&c->train, c->where, &early));
  if (c->eval.output[0] && c->losses.n < 2)
    CT_FAIL(CT_ERR_USAGE, "%s: eval.output is '%s', which is for a list of losses", c->where,
            c->eval.output);
  if (c->eval.output[0] && ct_losses_find(&c->losses, &c->model.outputs, c->eval.output) < 0)
    CT_FAIL(CT_ERR_USAGE, "%s: eval.output is '%s': no loss is of such an output", c->where,
            c->eval.output);
  for (int i = 0; i < c->eval.metrics.n; i++) {
    int kind = ct_score_kind(c->eval.metrics.v[i]);
    if (!kind)
      CT_FAIL(CT_ERR_USAGE, "%s: eval.metrics: unknown metric '%s'; expected " CT_SCORE_KINDS,
              c->where, c->eval.metrics.v[i]);
    CT_TRY(check_score(c, "eval.metrics", kind, d));
  }
  CT_TRY(check_score(c, "checkpoint.best", c->checkpoint.best, d));
  CT_TRY(check_score(c, "train.early_stop.metric", early.metric, d));
out:
  return rc;
}
