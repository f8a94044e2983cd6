/* Saves and restores the trainer's state as named arrays in plain layout. */
#include "train/trainer.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <string.h>

/* ---- the list of items ----
 *
 * Parameters and buffers in state-dict order, with PyTorch's num_batches_tracked after each
 * batchnorm's buffers; then the optimizer states; then the position. With averaged weights the
 * model is the average, and the trained weights are stored among the optimizer states. */

/* Returns the arrays that a checkpoint stores as the model, which evaluation uses: the averages if
 * ema is on. */
static ct__arrays_t model_arrays_of(const ct_trainer_t *t, int param)
{
  char *average = ct__average_arena(t, t->env.graph->param[param].spec.buffer);
  return average ? (ct__arrays_t){average, 0} : ct__arrays_of(t, param);
}

typedef enum {
  COUNT,
  LIST, /* item[] without the data of arrays */
  SAVE, /* item[] with data in t->snapshot */
  PASS, /* each item to put() */
  RESTORE
} walk_mode_t;

/* Collective if there are slices: then all ranks visit the same items, and rank 0 alone has the
 * items or the store. */
typedef struct walk {
  ct_trainer_t *t;
  walk_mode_t mode;
  int root;                /* 1: this rank has the items */
  const ct_position_t *at; /* saving: position to save */
  ct_store_t *store;       /* RESTORE: source */
  const ct_store_ops_t *ops;
  ct_position_t *found;     /* RESTORE: position found in the store ... */
  ct__progress_t *progress; /* ... and the optimizer's progress */
  int with_optim;
  ct_ckpt_item_t *item;
  ct_trainer_put_t put;
  void *ctx;    /* of put() */
  float *plain; /* RESTORE, PASS: buffer for the largest parameter */
  int n, numbers;
  int failed; /* first error of this rank */
} walk_t;

static void note(walk_t *w, int rc)
{
  if (w->failed == CT_OK) w->failed = rc;
}

static int is_live(const walk_t *w)
{
  return w->root && w->failed == CT_OK;
}

/* Stores item i, or passes it on. */
static void give(walk_t *w, int i, const ct_ckpt_item_t *it)
{
  if (!is_live(w)) return;
  if (w->item) w->item[i] = *it;
  if (w->mode == PASS && w->put) w->put(w->ctx, it);
}

static int save_array(walk_t *w, int i, int param, const ct__arrays_t *a, ct_ckpt_item_t *it)
{
  ct_trainer_t *t = w->t;
  int agreed = CT_OK;
  it->data = w->plain;
  if (is_live(w) && w->mode == SAVE) {
    float **copy = &t->snapshot.array[i];
    if (!*copy)
      *copy = ct_mem_array(t->env.graph->param[param].count, sizeof **copy, "checkpoint snapshot");
    note(w, *copy ? CT_OK : CT_ERR_NOMEM);
    it->data = *copy;
  }
  if (is_live(w))
    note(w, ct__arrays_get(t, param, a, it->data, &agreed));
  else if (ct__arrays_sliced(t, param, a))
    agreed = ct__slices_collect(t, a->base, param);
  give(w, i, it);
  return agreed;
}

static int restore_array(walk_t *w, int param, const ct__arrays_t *a, const ct_ckpt_item_t *it)
{
  int agreed = CT_OK;
  if (is_live(w)) note(w, w->ops->get(w->store, it->name, &it->shape, w->plain));
  if (w->root || ct__arrays_sliced(w->t, param, a))
    w->failed = ct__arrays_put(w->t, param, a, w->plain, w->failed, &agreed);
  return agreed;
}

static int visit_array(walk_t *w, const char *name, int param, ct__arrays_t a)
{
  int rc = CT_OK;
  const ct_param_t *p = &w->t->env.graph->param[param];
  int i = w->n++;
  ct_ckpt_item_t it = {.shape = p->spec.shape};
  CT_TRY(ct_text_format(it.name, sizeof it.name, "%s%s", name, p->name));
  if (w->mode == COUNT) return CT_OK;
  ct_heartbeat_progress();
  if (w->mode == LIST) give(w, i, &it);
  if (w->mode == SAVE || w->mode == PASS) CT_TRY(save_array(w, i, param, &a, &it));
  if (w->mode == RESTORE) CT_TRY(restore_array(w, param, &a, &it));
out:
  return rc;
}

/* Visits a scalar of 8 bytes; found NULL: ignored when restoring. */
static int visit_number(walk_t *w, const char *name, ct_dtype_t type, const void *save, void *found)
{
  int rc = CT_OK;
  int i = w->n++, k = w->numbers++;
  double number;
  ct_ckpt_item_t it = {.shape = {.dtype = type}};
  CT_TRY(ct_text_format(it.name, sizeof it.name, "%s", name));
  if (w->mode == RESTORE && found && is_live(w))
    note(w, w->ops->get(w->store, it.name, &it.shape, found));
  if (w->mode == COUNT || w->mode == RESTORE) return CT_OK;
  if (w->mode != LIST)
    it.data = memcpy(w->mode == SAVE && w->root ? &w->t->snapshot.number[k] : &number, save,
                     sizeof number);
  give(w, i, &it);
out:
  return rc;
}

static int visit_int(walk_t *w, const char *name, int64_t save, int64_t *found)
{
  return visit_number(w, name, CT_I64, &save, found);
}

static int visit_double(walk_t *w, const char *name, double save, double *found)
{
  return visit_number(w, name, CT_F64, &save, found);
}

static int is_there(const walk_t *w, const char *name)
{
  ct_shape_t shape;
  for (int i = 0, n = w->ops->count(w->store); i < n; i++)
    if (strcmp(w->ops->item(w->store, i, &shape), name) == 0) return 1;
  return 0;
}

/* Visits an entry that older checkpoints do not have; without it the run has no best score yet. */
static int visit_best(walk_t *w, const char *which, const ct_best_t *save, ct_best_t *found)
{
  int rc = CT_OK;
  char name[80];
  CT_TRY(ct_text_format(name, sizeof name, "/train/%s_kind", which));
  if (w->store && !is_there(w, name)) found = NULL;
  CT_TRY(visit_int(w, name, save->kind, found ? &found->kind : NULL));
  CT_TRY(ct_text_format(name, sizeof name, "/train/%s_value", which));
  CT_TRY(visit_double(w, name, save->value, found ? &found->value : NULL));
  CT_TRY(ct_text_format(name, sizeof name, "/train/%s_step", which));
  CT_TRY(visit_int(w, name, save->step, found ? &found->step : NULL));
  CT_TRY(ct_text_format(name, sizeof name, "/train/%s_bad", which));
  CT_TRY(visit_int(w, name, save->bad, found ? &found->bad : NULL));
out:
  return rc;
}

/* Visits an integer that older checkpoints do not have: then *found keeps its value from
 * found_init(). */
static int visit_newer(walk_t *w, const char *name, int64_t save, int64_t *found)
{
  return visit_int(w, name, save, w->store && !is_there(w, name) ? NULL : found);
}

static int visit_newer_double(walk_t *w, const char *name, double save, double *found)
{
  return visit_double(w, name, save, w->store && !is_there(w, name) ? NULL : found);
}

static int visit_model(walk_t *w)
{
  int rc = CT_OK;
  ct_trainer_t *t = w->t;
  const ct_graph_t *g = t->env.graph;
  char name[160];
  for (int i = 0; i < g->params; i++) {
    int buffer = g->param[i].spec.buffer;
    CT_TRY(visit_array(w, "/model/", i, model_arrays_of(t, i)));
    int norm = ct_layer_tracks(g, &g->layer[g->param[i].layer]);
    int last = i + 1 == g->params || g->param[i + 1].layer != g->param[i].layer;
    if (!buffer || !norm || !last) continue;
    const char *dot = strrchr(g->param[i].name, '.');
    int prefix = dot ? (int)(dot + 1 - g->param[i].name) : 0;
    CT_TRY(ct_text_format(name, sizeof name, "/model/%.*snum_batches_tracked", prefix,
                          g->param[i].name));
    int64_t *tracked = &t->tracked[g->param[i].layer];
    CT_TRY(visit_newer(w, name, *tracked, tracked));
  }
out:
  return rc;
}

static int visit_optim(walk_t *w)
{
  int rc = CT_OK;
  ct_trainer_t *t = w->t;
  char name[80];
  for (int i = 0; i < t->env.graph->params && ct__average_arena(t, 0); i++)
    CT_TRY(visit_array(w, "/optim/model/", i, ct__arrays_of(t, i)));
  for (int s = 0; s < ct__update_states(t); s++) {
    CT_TRY(ct_text_format(name, sizeof name, "/optim/%s/", ct_optim_state_name(t->env.optim, s)));
    if (w->mode >= SAVE) note(w, ct__host_states_lend(t, s, w->mode != RESTORE));
    for (int i = 0; i < t->map.trained; i++)
      CT_TRY(visit_array(w, name, t->map.order[i], (ct__arrays_t){ct__update_state(t, s), 1}));
    if (w->mode == RESTORE) note(w, ct__host_states_take_back(t, s));
  }
  const ct__progress_t *save = &t->progress;
  ct__progress_t *f = w->progress;
  CT_TRY(visit_newer(w, "/optim/updates", save->updates, f ? &f->updates : NULL));
  CT_TRY(visit_newer_double(w, "/optim/loss_scale", save->scaler.on ? save->scaler.scale : 0,
                            f ? &f->scaler.scale : NULL));
  CT_TRY(visit_newer(w, "/optim/good_steps", save->scaler.good, f ? &f->scaler.good : NULL));
out:
  return rc;
}

static int visit_all(walk_t *w)
{
  int rc = CT_OK;
  ct_position_t none = {0}, *f = w->found;
  const ct_position_t *at = w->at ? w->at : &none;
  CT_TRY(visit_model(w));
  if (w->with_optim) {
    CT_TRY(visit_optim(w));
    CT_TRY(visit_int(w, "/train/step", at->step, f ? &f->step : NULL));
    CT_TRY(visit_int(w, "/train/epoch", at->epoch, f ? &f->epoch : NULL));
    CT_TRY(visit_int(w, "/train/cursor", at->cursor, f ? &f->cursor : NULL));
    CT_TRY(visit_newer(w, "/train/order", at->order, f ? &f->order : NULL));
    CT_TRY(visit_newer(w, "/train/skipped", at->skipped, f ? &f->skipped : NULL));
    ct_plateau_t *p = f ? &f->plateau : NULL;
    CT_TRY(visit_newer_double(w, "/train/plateau_best", at->plateau.best, p ? &p->best : NULL));
    CT_TRY(
        visit_newer_double(w, "/train/plateau_factor", at->plateau.factor, p ? &p->factor : NULL));
    CT_TRY(visit_newer(w, "/train/plateau_bad", at->plateau.bad, p ? &p->bad : NULL));
    CT_TRY(visit_best(w, "best", &at->best, f ? &f->best : NULL));
    CT_TRY(visit_best(w, "early", &at->early, f ? &f->early : NULL));
  }
out:
  return rc;
}

int ct_trainer_items(ct_trainer_t *t)
{
  walk_t w = {.t = t, .with_optim = 1};
  return visit_all(&w) == CT_OK ? w.n : 0;
}

int ct_trainer_arrays(ct_trainer_t *t)
{
  walk_t w = {.t = t, .with_optim = 1};
  return visit_all(&w) == CT_OK ? w.n - w.numbers : 0;
}

double ct_trainer_snapshot_bytes(const ct_trainer_t *t)
{
  double arrays =
      1 + (ct__average_arena(t, 0) != NULL) + ct__update_states(t); /* each as large as the
                                                                       parameters */
  return arrays * (double)ct_graph_count(t->env.graph) * sizeof(float);
}

int ct_trainer_snapshot_is_collective(const ct_trainer_t *t)
{
  return t->env.step_opts.zero && (ct__update_states(t) > 0 || t->map.low_bytes > 0);
}

/* Prepares rank 0's memory for a snapshot. */
static int make_snapshot(ct_trainer_t *t)
{
  ct__snapshot_t *s = &t->snapshot;
  if (!s->items) s->items = ct_trainer_items(t);
  if (!s->array) s->array = ct_mem_array(s->items, sizeof *s->array, "checkpoint snapshot");
  if (!s->number) s->number = ct_mem_array(s->items, sizeof *s->number, "checkpoint snapshot");
  return s->array && s->number ? CT_OK : CT_ERR_NOMEM;
}

/* Saves, of which rank 0 may fail alone if there are no slices. */
static int walk_save(walk_t *w)
{
  int rc = CT_OK;
  ct_trainer_t *t = w->t;
  w->with_optim = 1;
  if (ct_trainer_snapshot_is_collective(t) && t->env.topo->rank) w->root = 0;
  ct__slices_settle(t);
  if (w->root && w->mode == SAVE) note(w, make_snapshot(t));
  if (w->root && w->mode == PASS)
    note(w, (w->plain = ct__arrays_plain(t->env.graph)) ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(ct_trainer_snapshot_is_collective(t) ? ct_agree(t->env.topo, w->failed) : w->failed);
  if (w->root || ct_trainer_snapshot_is_collective(t)) CT_TRY(visit_all(w));
  CT_TRY(ct_trainer_snapshot_is_collective(t) ? ct_agree(t->env.topo, w->failed) : w->failed);
out:
  ct_mem_free(w->plain);
  return rc;
}

int ct_trainer_list(ct_trainer_t *t, ct_ckpt_item_t *item)
{
  walk_t w = {.t = t, .mode = LIST, .root = 1, .with_optim = 1, .item = item};
  return visit_all(&w);
}

int ct_trainer_pass(ct_trainer_t *t, const ct_position_t *at, int rc_in, ct_trainer_put_t put,
                    void *ctx)
{
  return walk_save(&(walk_t){.t = t,
                             .mode = PASS,
                             .root = put != NULL,
                             .at = at,
                             .put = put,
                             .ctx = ctx,
                             .failed = rc_in});
}

int ct_trainer_snapshot(ct_trainer_t *t, const ct_position_t *at, ct_ckpt_item_t *item)
{
  return walk_save(&(walk_t){.t = t, .mode = SAVE, .root = item != NULL, .at = at, .item = item});
}

void ct__state_free(ct_trainer_t *t)
{
  ct__snapshot_t *s = &t->snapshot;
  for (int i = 0; s->array && i < s->items; i++)
    ct_mem_free(s->array[i]);
  ct_mem_free(s->array);
  ct_mem_free(s->number);
}

/* CT_ERR_FORMAT if the checkpoint has model arrays that this model lacks: a larger model's
 * checkpoint may contain all of its arrays and more. */
static int expect_no_more(const ct_graph_t *g, const ct_store_ops_t *ops, const ct_store_t *s)
{
  static const char ours[] = "/model/", counter[] = ".num_batches_tracked";
  int rc = CT_OK;
  ct_shape_t shape;
  for (int i = 0, n = ops->count(s); i < n; i++) {
    const char *name = ops->item(s, i, &shape);
    if (strncmp(name, ours, strlen(ours)) != 0) continue;
    const char *param = name + strlen(ours), *dot = strrchr(param, '.');
    if (ct_graph_find_param(g, param) < 0 && !(dot && strcmp(dot, counter) == 0))
      CT_FAIL(CT_ERR_FORMAT, "the checkpoint has '%s', which the model lacks", name);
  }
out:
  return rc;
}

/* Scalars that rank 0 reads and broadcasts. */
typedef struct found {
  ct_position_t at;
  ct__progress_t progress;
} found_t;

/* Defaults for checkpoints of the first versions, in which each step was an update. */
static void found_init(found_t *f)
{
  *f = (found_t){.progress.updates = -1};
  ct_plateau_init(&f->at.plateau);
}

/* Restores rank 0's arrays, and all slices. */
static int restore_all(ct_trainer_t *t, const ct_store_ops_t *ops, ct_store_t *s, int with_optim,
                       found_t *found)
{
  int rc = CT_OK, root = t->env.topo->rank == 0;
  const ct_graph_t *g = t->env.graph;
  walk_t w = {.t = t,
              .mode = RESTORE,
              .root = root,
              .ops = ops,
              .store = s,
              .with_optim = with_optim,
              .found = &found->at,
              .progress = &found->progress};
  if (root) note(&w, (w.plain = ct__arrays_plain(g)) ? CT_OK : CT_ERR_NOMEM);
  ct__slices_settle(t);
  if (root || t->env.step_opts.zero) CT_TRY(visit_all(&w));
  if (is_live(&w)) note(&w, expect_no_more(g, ops, s));
  rc = w.failed;
out:
  ct_mem_free(w.plain);
  return rc;
}

/* Checkpoints of runs without loss scaling contain no loss scale. */
static void state_take(ct_trainer_t *t, const found_t *f)
{
  ct__progress_t *to = &t->progress;
  to->steps = f->at.step;
  to->updates = f->progress.updates < 0 ? f->at.step : f->progress.updates;
  if (!to->scaler.on || f->progress.scaler.scale <= 0) return;
  to->scaler.scale = f->progress.scaler.scale;
  to->scaler.good = f->progress.scaler.good;
}

int ct_trainer_restore(ct_trainer_t *t, const ct_store_ops_t *ops, ct_store_t *s, int with_optim,
                       ct_position_t *at)
{
  int rc = CT_OK;
  const ct_topo_t *topo = t->env.topo;
  found_t found;
  void *from_root = &found;
  size_t bytes = sizeof found;
  found_init(&found);
  rc = restore_all(t, ops, s, with_optim, &found);
  CT_TRY(ct_agree_bytes(topo, rc, &from_root, &bytes));
  if (topo->rank) {
    memcpy(&found, from_root, sizeof found);
    ct_mem_free(from_root);
  }
  CT_TRY(ct_trainer_broadcast(t, 0));
  ct__one_value_share(t);
  state_take(t, &found);
  if (at) *at = found.at;
out:
  return rc;
}
