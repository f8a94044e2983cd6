/* Reads and writes arrays of the parameters' shapes, which on a device have the ops' own layouts
 * and may be slices (slices.c): initial values, values of weight files, broadcasts. */
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
static int fetch_from(ct_trainer_t *t, int param, const char *own, float *out)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  const ct_param_t *p = &t->env.graph->param[param];
  if (!p->spec.buffer) return be->op->unpack(t->q, op_of(t, param)->op, p->slot, own, out);
  CT_TRY(be->mem->copy(t->q, out, own, t->map.bytes[param]));
  CT_TRY(be->queue->sync(t->q));
out:
  return rc;
}

static int put_into(ct_trainer_t *t, int param, char *own, const float *in)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  const ct_param_t *p = &t->env.graph->param[param];
  if (!p->spec.buffer) return be->op->pack(t->q, op_of(t, param)->op, p->slot, in, own);
  CT_TRY(be->mem->copy(t->q, own, in, t->map.bytes[param]));
  CT_TRY(be->queue->sync(t->q));
out:
  return rc;
}

int ct__arrays_sliced(const ct_trainer_t *t, int param, const ct__arrays_t *a)
{
  return a->of_state ? t->env.step_opts.zero : ct__slices_has(t, param);
}

static char *own_of(const ct_trainer_t *t, int param, const ct__arrays_t *a)
{
  size_t offset = t->map.offset[param];
  int weight = !a->of_state && !t->env.graph->param[param].spec.buffer;
  return weight ? ct__slices_whole(t, a->base, offset) : a->base + offset;
}

int ct__arrays_get(ct_trainer_t *t, int param, const ct__arrays_t *a, float *out, int *agreed)
{
  *agreed = CT_OK;
  if (!ct__arrays_sliced(t, param, a)) return fetch_from(t, param, own_of(t, param, a), out);
  *agreed = ct__slices_collect(t, a->base, param);
  if (*agreed != CT_OK || t->env.topo->rank) return *agreed;
  return fetch_from(t, param, ct__slices_piece(t), out);
}

int ct__arrays_put(ct_trainer_t *t, int param, const ct__arrays_t *a, const float *in, int rc,
                   int *agreed)
{
  *agreed = CT_OK;
  if (!ct__arrays_sliced(t, param, a)) {
    ct__reduced_outdate(t);
    return rc != CT_OK ? rc : put_into(t, param, own_of(t, param, a), in);
  }
  if (rc == CT_OK && t->env.topo->rank == 0) rc = put_into(t, param, ct__slices_piece(t), in);
  *agreed = ct_agree(t->env.topo, rc);
  if (*agreed == CT_OK) *agreed = ct__slices_scatter(t, a->base, param);
  return *agreed;
}

ct__arrays_t ct__arrays_of(const ct_trainer_t *t, int param)
{
  return (ct__arrays_t){t->env.graph->param[param].spec.buffer ? t->buffer : t->weight, 0};
}

int ct_trainer_has_whole(const ct_trainer_t *t, int param)
{
  return !ct__slices_has(t, param);
}

int ct_trainer_get(ct_trainer_t *t, int param, float *out)
{
  int agreed;
  const ct__arrays_t a = ct__arrays_of(t, param);
  ct__slices_settle(t);
  return ct__arrays_get(t, param, &a, out, &agreed);
}

int ct_trainer_get_gradient(ct_trainer_t *t, int param, float *out)
{
  return fetch_from(t, param, t->gradient + t->map.offset[param], out);
}

int ct_trainer_set(ct_trainer_t *t, int param, const float *in)
{
  int agreed;
  const ct__arrays_t a = ct__arrays_of(t, param);
  ct__slices_settle(t);
  return ct__arrays_put(t, param, &a, in, CT_OK, &agreed);
}

float *ct__arrays_plain(const ct_graph_t *g)
{
  int64_t most = 1;
  for (int i = 0; i < g->params; i++)
    if (g->param[i].count > most) most = g->param[i].count;
  return ct_mem_array(most, sizeof(float), "weights in their plain layout");
}

int ct__arrays_init(ct_trainer_t *t)
{
  int rc = CT_OK, own = CT_OK, agreed, root = t->env.topo->rank == 0;
  const ct_graph_t *g = t->env.graph;
  float *plain = root ? ct__arrays_plain(g) : NULL;
  CT_TRY_ALL(t->env.topo, root && !plain ? CT_ERR_NOMEM : CT_OK);
  for (int i = 0; i < g->params; i++) {
    const ct__arrays_t a = ct__arrays_of(t, i);
    if (!root && !ct__arrays_sliced(t, i, &a)) continue;
    if (root && own == CT_OK) ct_graph_init_param(g, i, t->env.seed, plain);
    own = ct__arrays_put(t, i, &a, plain, own, &agreed);
    CT_TRY(agreed);
  }
  CT_TRY_ALL(t->env.topo, own);
out:
  ct_mem_free(plain);
  return rc;
}

/* ---- weight files ---- */

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

/* Reads parameter i, of which all ranks get their slices. */
static int load_one(ct_trainer_t *t, const ct_weights_file_t *f, const int *from, int i,
                    float *plain, int *own)
{
  int agreed;
  const ct_param_t *p = &t->env.graph->param[i];
  const ct__arrays_t a = ct__arrays_of(t, i);
  ct_heartbeat_progress();
  if (*own == CT_OK && f) *own = ct_match_read(f, from[i], p, plain);
  if (f || ct__arrays_sliced(t, i, &a))
    *own = ct__arrays_put(t, i, &a, plain, *own, &agreed);
  else
    return CT_OK;
  if (*own == CT_OK && f && p->spec.buffer) *own = load_tracked(f, from[i], &t->tracked[p->layer]);
  return agreed;
}

/* The ranks agree on the parameters that are in the file. */
static int load_all(ct_trainer_t *t, const ct_weights_file_t *f, const int *from)
{
  int rc = CT_OK, own = CT_OK, root = t->env.topo->rank == 0;
  const ct_graph_t *g = t->env.graph;
  float *plain = root ? ct__arrays_plain(g) : NULL;
  void *there = NULL;
  size_t bytes = (size_t)g->params * sizeof *from;
  CT_TRY_ALL(t->env.topo, root && !plain ? CT_ERR_NOMEM : CT_OK);
  if (t->map.low_bytes) {
    there = root ? (void *)(uintptr_t)from : NULL;
    CT_TRY(ct_agree_bytes(t->env.topo, CT_OK, &there, &bytes));
  }
  const int *which = there ? there : from;
  ct__slices_settle(t);
  for (int i = 0; i < g->params && (root || there); i++)
    if (which[i] >= 0) CT_TRY(load_one(t, root ? f : NULL, which, i, plain, &own));
  CT_TRY_ALL(t->env.topo, own);
out:
  if (!root) ct_mem_free(there);
  ct_mem_free(plain);
  return rc;
}

int ct_trainer_load(ct_trainer_t *t, const ct_weights_file_t *f, const int *from)
{
  int rc = CT_OK;
  CT_TRY(load_all(t, f, from));
  CT_TRY(ct_trainer_broadcast(t, 0));
  ct__one_value_share(t);
out:
  return rc;
}

/* ---- all ranks ---- */

static int broadcast(ct_trainer_t *t, void *buf, size_t bytes)
{
  if (!bytes) return CT_OK;
  ct__step_enter(t, CT_TIME_WAIT, "the broadcast of the state", -1);
  return t->env.comm_ops->bcast(t->env.comm, t->q, buf, bytes, 0);
}

/* Broadcasts the weights of an arena that are whole. */
static int broadcast_weights(ct_trainer_t *t, char *weights)
{
  size_t low = t->map.low_bytes;
  return broadcast(t, ct__slices_whole(t, weights, low), t->map.weight_bytes - low);
}

int ct_trainer_broadcast(ct_trainer_t *t, int buffers_only)
{
  int rc = CT_OK;
  ct__slices_settle(t);
  CT_TRY(broadcast(t, t->buffer, t->map.buffer_bytes));
  if (buffers_only) return CT_OK;
  CT_TRY(broadcast_weights(t, t->weight));
  ct__reduced_outdate(t);
  CT_TRY(ct__reduced_share(t));
  for (int s = 0; s < ct__update_states(t) && !t->env.step_opts.zero; s++) {
    CT_TRY(ct__host_states_lend(t, s, 1));
    CT_TRY(broadcast(t, ct__update_state(t, s), t->map.trained_bytes));
    CT_TRY(ct__host_states_take_back(t, s));
  }
  if (!ct__average_arena(t, 0)) return CT_OK;
  CT_TRY(broadcast_weights(t, ct__average_arena(t, 0)));
  CT_TRY(broadcast(t, ct__average_arena(t, 1), t->map.buffer_bytes));
out:
  return rc;
}
