/* Saves and restores the trainer's state as named arrays in plain layout. */
#include "train/trainer.h"
#include "base/ct_heartbeat.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "weights/ct_init.h"
#include <string.h>

static const ct_plan_op_t *op_of(const ct_trainer_t *t, int param)
{
  const ct_plan_t *p = t->first.plan;
  return &p->op[p->layer_op[t->env.graph->param[param].layer]];
}

/* Copies an array of a parameter's shape from the op's layout to a plain host array. */
static int fetch(ct_trainer_t *t, int param, const char *arena, float *out)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  const ct_param_t *p = &t->env.graph->param[param];
  const char *own = arena + t->map.offset[param];
  if (!p->spec.buffer) return be->op->unpack(t->q, op_of(t, param)->op, p->slot, own, out);
  CT_TRY(be->mem->copy(t->q, out, own, t->map.bytes[param]));
  CT_TRY(be->queue->sync(t->q));
out:
  return rc;
}

static int state_put(ct_trainer_t *t, int param, char *arena, const float *in)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  const ct_param_t *p = &t->env.graph->param[param];
  char *own = arena + t->map.offset[param];
  ct__reduced_outdate(t);
  if (!p->spec.buffer) return be->op->pack(t->q, op_of(t, param)->op, p->slot, in, own);
  CT_TRY(be->mem->copy(t->q, own, in, t->map.bytes[param]));
  CT_TRY(be->queue->sync(t->q));
out:
  return rc;
}

static char *arena_of(const ct_trainer_t *t, int param)
{
  return t->env.graph->param[param].spec.buffer ? t->buffer : t->weight;
}

/* Returns the arrays that a checkpoint stores as the model, which evaluation uses: the averages if
 * ema is on. */
static char *model_arena_of(const ct_trainer_t *t, int param)
{
  char *average = ct__average_arena(t, t->env.graph->param[param].spec.buffer);
  return average ? average : arena_of(t, param);
}

int ct_trainer_get(ct_trainer_t *t, int param, float *out)
{
  return fetch(t, param, arena_of(t, param), out);
}

int ct_trainer_get_gradient(ct_trainer_t *t, int param, float *out)
{
  return fetch(t, param, t->gradient, out);
}

int ct_trainer_set(ct_trainer_t *t, int param, const float *in)
{
  return state_put(t, param, arena_of(t, param), in);
}

/* Allocates a buffer for any parameter or buffer in plain layout. */
static float *plain_buffer(const ct_graph_t *g)
{
  int64_t most = 1;
  for (int i = 0; i < g->params; i++)
    if (g->param[i].count > most) most = g->param[i].count;
  return ct_mem_array(most, sizeof(float), "weights in their plain layout");
}

int ct__state_init(ct_trainer_t *t)
{
  int rc = CT_OK;
  const ct_graph_t *g = t->env.graph;
  float *plain = plain_buffer(g);
  if (!plain) return CT_ERR_NOMEM;
  for (int i = 0; i < g->params; i++) {
    ct_graph_init_param(g, i, t->env.seed, plain);
    CT_TRY(ct_trainer_set(t, i, plain));
  }
out:
  ct_mem_free(plain);
  return rc;
}

/* ---- the list of items ----
 *
 * Parameters and buffers in state-dict order, with PyTorch's num_batches_tracked after each
 * batchnorm's buffers; then the optimizer states; then the position. With averaged weights the
 * model is the average, and the trained weights are stored among the optimizer states. */

typedef struct walk {
  ct_trainer_t *t;
  const ct_position_t *at; /* saving: position to save; NULL: only count, or restore */
  ct_store_t *store;       /* source of a restore; NULL: save */
  const ct_store_ops_t *ops;
  ct_position_t *found;     /* restoring: position found in the store ... */
  ct__progress_t *progress; /* ... and the optimizer's progress */
  int with_optim;
  ct_ckpt_item_t *item; /* NULL: only count */
  float *plain;         /* restoring: buffer for the largest parameter */
  int n, numbers;
} walk_t;

static int visit_array(walk_t *w, const char *name, int param, char *arena)
{
  int rc = CT_OK;
  ct_trainer_t *t = w->t;
  const ct_param_t *p = &t->env.graph->param[param];
  int i = w->n++;
  ct_ckpt_item_t it = {.shape = p->spec.shape};
  CT_TRY(ct_text_format(it.name, sizeof it.name, "%s%s", name, p->name));
  ct_heartbeat_progress();
  if (w->store) {
    CT_TRY(w->ops->get(w->store, it.name, &it.shape, w->plain));
    CT_TRY(state_put(t, param, arena, w->plain));
  } else if (w->item) {
    float **copy = &t->snapshot.array[i];
    if (!*copy) *copy = ct_mem_array(p->count, sizeof **copy, "checkpoint snapshot");
    CT_TRY(*copy ? CT_OK : CT_ERR_NOMEM);
    CT_TRY(fetch(t, param, arena, *copy));
    it.data = *copy;
    w->item[i] = it;
  }
out:
  return rc;
}

/* Visits a scalar of 8 bytes; found NULL: ignored when restoring. */
static int visit_number(walk_t *w, const char *name, ct_dtype_t type, const void *save, void *found)
{
  int rc = CT_OK;
  int i = w->n++, k = w->numbers++;
  ct_ckpt_item_t it = {.shape = {.dtype = type}};
  CT_TRY(ct_text_format(it.name, sizeof it.name, "%s", name));
  if (w->store && found) CT_TRY(w->ops->get(w->store, it.name, &it.shape, found));
  if (w->item) {
    it.data = memcpy(&w->t->snapshot.number[k], save, sizeof(double));
    w->item[i] = it;
  }
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
    CT_TRY(visit_array(w, "/model/", i, model_arena_of(t, i)));
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
    CT_TRY(visit_array(w, "/optim/model/", i, arena_of(t, i)));
  for (int s = 0; s < ct__update_states(t); s++) {
    CT_TRY(ct_text_format(name, sizeof name, "/optim/%s/", ct_optim_state_name(t->env.optim, s)));
    if (w->store || w->item) CT_TRY(ct__host_states_lend(t, s, !w->store));
    for (int i = 0; i < t->map.trained; i++)
      CT_TRY(visit_array(w, name, t->map.order[i], ct__update_state(t, s)));
    if (w->store) CT_TRY(ct__host_states_take_back(t, s));
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

static int snapshot_here(ct_trainer_t *t, const ct_position_t *at, ct_ckpt_item_t *item)
{
  walk_t w = {.t = t, .at = at, .item = item, .with_optim = 1};
  ct__snapshot_t *s = &t->snapshot;
  if (!item) return CT_OK;
  if (!s->items) s->items = ct_trainer_items(t);
  if (!s->array) s->array = ct_mem_array(s->items, sizeof *s->array, "checkpoint snapshot");
  if (!s->number) s->number = ct_mem_array(s->items, sizeof *s->number, "checkpoint snapshot");
  if (!s->array || !s->number) return CT_ERR_NOMEM;
  return visit_all(&w);
}

void ct__state_free(ct_trainer_t *t)
{
  ct__snapshot_t *s = &t->snapshot;
  for (int i = 0; s->array && i < s->items; i++)
    ct_mem_free(s->array[i]);
  ct_mem_free(s->array);
  ct_mem_free(s->number);
}

int ct_trainer_snapshot(ct_trainer_t *t, const ct_position_t *at, ct_ckpt_item_t *item)
{
  int rc = CT_OK;
  if (!ct_trainer_snapshot_is_collective(t)) return snapshot_here(t, at, item);
  CT_TRY(ct__update_widen(t, 1));
  CT_TRY_ALL(t->env.topo, snapshot_here(t, at, item));
out:
  ct__update_narrow(t);
  return rc;
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

static int restore_here(ct_trainer_t *t, const ct_store_ops_t *ops, ct_store_t *s, int with_optim,
                        found_t *found)
{
  int rc = CT_OK;
  const ct_graph_t *g = t->env.graph;
  walk_t w = {.t = t,
              .ops = ops,
              .store = s,
              .with_optim = with_optim,
              .found = &found->at,
              .progress = &found->progress};
  w.plain = plain_buffer(g);
  CT_TRY(w.plain ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(visit_all(&w));
  CT_TRY(expect_no_more(g, ops, s));
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
  if (with_optim) CT_TRY(ct__update_widen(t, 0));
  if (topo->rank == 0) rc = restore_here(t, ops, s, with_optim, &found);
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
  ct__update_narrow(t);
  return rc;
}

/* Reads the counter that belongs to tensor \a var, a running variance; without one *tracked keeps
 * its value. */
static int load_tracked(const ct_weights_file_t *f, int var, int64_t *tracked)
{
  static const char from[] = "running_var", to[] = "num_batches_tracked";
  int rc = CT_OK;
  float number;
  ct_tensor_t t;
  f->ops->tensor(f->w, var, &t);
  const char *name = t.name;
  size_t own = strlen(name), stem = own < strlen(from) ? 0 : own - strlen(from);
  if (strcmp(name + stem, from) != 0) return CT_OK;
  for (int i = 0, n = f->ops->count(f->w); i < n; i++) {
    f->ops->tensor(f->w, i, &t);
    if (strncmp(t.name, name, stem) != 0 || strcmp(t.name + stem, to) != 0) continue;
    if (t.count != 1 || !ct_elem_has_numbers(t.type)) return CT_OK;
    if (t.type == CT_ELEM_I64) return f->ops->read(f->w, i, 0, 1, tracked);
    CT_TRY(ct_weights_floats(f, i, &number));
    *tracked = (int64_t)number;
  }
out:
  return rc;
}

static int load_here(ct_trainer_t *t, const ct_weights_file_t *f, const int *from)
{
  int rc = CT_OK;
  const ct_graph_t *g = t->env.graph;
  float *plain = plain_buffer(g);
  CT_TRY(plain ? CT_OK : CT_ERR_NOMEM);
  for (int i = 0; i < g->params; i++) {
    ct_heartbeat_progress();
    if (from[i] < 0) continue;
    CT_TRY(ct_match_read(f, from[i], &g->param[i], plain));
    CT_TRY(ct_trainer_set(t, i, plain));
    if (g->param[i].spec.buffer) CT_TRY(load_tracked(f, from[i], &t->tracked[g->param[i].layer]));
  }
out:
  ct_mem_free(plain);
  return rc;
}

int ct_trainer_load(ct_trainer_t *t, const ct_weights_file_t *f, const int *from)
{
  int rc = CT_OK;
  const ct_topo_t *topo = t->env.topo;
  CT_TRY_ALL(topo, topo->rank == 0 ? load_here(t, f, from) : CT_OK);
  CT_TRY(ct_trainer_broadcast(t, 0));
  ct__one_value_share(t);
out:
  return rc;
}
