/* Muon (Jordan et al. 2024), as torch.optim.Muon: the step of a matrix is its momentum,
 * orthogonalized by Newton-Schulz iterations X <- aX + (bA + cAA)X with A = XX^T.
 *
 * Before the update of all weights, the gradient of each such matrix is replaced by its direction:
 *
 * * UPDATE with rule MUON_DIRECTION adds the gradient to the momentum, in ranges, as other states
 *   are updated; the result goes into the gradient arena.
 * * With ZeRO-1 the ranges are slices of matrices, so the directions are all-gathered.
 * * A rank orthogonalizes the matrices of which it updates a part. All ranks that share one compute
 *   the same bits. The iterations run in float32 on the device, by ops that all backends have:
 *   MATMUL, and MEASURE and UPDATE for sums.
 *
 * The iterations need a matrix in plain layout. Where the host can access the memory of the device,
 * the op of the layer converts it; elsewhere its own layout must be plain. */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <math.h>
#include <string.h>

enum { LINE = 64 };

static size_t lines(size_t bytes)
{
  return (bytes + LINE - 1) / LINE * LINE;
}

static int64_t smaller(const ct__matrix_t *m)
{
  return m->rows < m->columns ? m->rows : m->columns;
}

/* ---- sizes ---- */

static int is_matrix(const ct_param_groups_t *groups, const ct_arena_map_t *m, int k)
{
  return groups->group[groups->of[m->order[k]]].matrix > 0;
}

/* Prepares the product x * x2; a or b may be transposed. */
static int product_make(const ct_trainer_env_t *e, const int64_t a[2], int a_turned,
                        const int64_t b[2], int b_turned, ct_op_t **out, size_t *scratch)
{
  int rc = CT_OK;
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_shape_t x = ct_shape(2, a[0], a[1]), x2 = ct_shape(2, b[0], b[1]);
  ct_shape_t y = ct_shape(2, a[a_turned ? 1 : 0], b[b_turned ? 0 : 1]);
  ct_op_desc_init(&d, CT_OP_MATMUL, &x, &y);
  ct_op_desc_more(&d, &x2, NULL);
  d.u.matmul.a_turned = a_turned;
  d.u.matmul.b_turned = b_turned;
  CT_TRY(e->be->op->prepare(e->dev, &d, NULL, out, &info));
  if (info.scratch > *scratch) *scratch = info.scratch;
out:
  return rc;
}

static void products_free(const ct_trainer_env_t *e, ct__matrix_t *m)
{
  for (int i = 0; i < CT_MUON_PRODUCTS; i++)
    e->be->op->release(m->product[i]);
  memset(m->product, 0, sizeof m->product);
}

/* Prepares the three products of an iteration. A is the product over the longer side. */
static int products_make(const ct_trainer_env_t *e, ct__matrix_t *m, size_t *scratch)
{
  int rc = CT_OK, tall = m->rows > m->columns;
  int64_t x[2] = {m->rows, m->columns}, a[2] = {smaller(m), smaller(m)};
  CT_TRY(product_make(e, x, tall, x, !tall, &m->product[0], scratch));
  CT_TRY(product_make(e, a, 0, a, 0, &m->product[1], scratch));
  CT_TRY(product_make(e, tall ? x : a, 0, tall ? a : x, 0, &m->product[2], scratch));
out:
  return rc;
}

/* Sets the offsets in the workspace, which starts with a matrix x; returns its size. */
static size_t room_of(ct__muon_t *u, size_t most, int64_t side, size_t scratch)
{
  size_t square = lines((size_t)(side * side) * sizeof(float));
  u->y = lines(most);
  u->a = 2 * u->y;
  u->aa = u->a + square;
  u->norms = u->aa + square;
  u->scratch = u->norms + LINE;
  u->count = (int64_t)((u->y > square ? u->y : square) / sizeof(float));
  return u->scratch + scratch;
}

/* Lists the matrices and makes their products; *bytes: size of the workspace. */
static int survey(const ct_trainer_env_t *e, const ct_arena_map_t *map,
                  const ct_param_groups_t *groups, ct__muon_t *u, size_t *bytes)
{
  int rc = CT_OK;
  size_t most = 0, scratch = 0;
  int64_t side = 0;
  u->matrix = ct_mem_array(map->trained + 1, sizeof *u->matrix, "matrices of the optimizer");
  CT_TRY(u->matrix ? CT_OK : CT_ERR_NOMEM);
  for (int k = 0; k < map->trained; k++) {
    if (!is_matrix(groups, map, k)) continue;
    size_t end = k + 1 < map->trained ? map->offset[map->order[k + 1]] : map->trained_bytes;
    ct__matrix_t *m = &u->matrix[u->matrices++];
    *m = (ct__matrix_t){.param = map->order[k], .k = k};
    const ct_shape_t *shape = &e->graph->param[m->param].spec.shape;
    m->rows = shape->dim[0];
    m->columns = shape->dim[1];
    m->bytes = end - map->offset[m->param];
    if (m->bytes > most) most = m->bytes;
    if (smaller(m) > side) side = smaller(m);
    CT_TRY(products_make(e, m, &scratch));
  }
  *bytes = u->matrices ? room_of(u, most, side, scratch) : 0;
out:
  return rc;
}

static void survey_free(const ct_trainer_env_t *e, ct__muon_t *u)
{
  for (int i = 0; i < u->matrices; i++)
    products_free(e, &u->matrix[i]);
  ct_mem_free(u->matrix);
  u->matrix = NULL;
  u->matrices = 0;
}

int ct__muon_bytes(const ct_trainer_env_t *e, const ct_arena_map_t *m, size_t *bytes)
{
  int rc = CT_OK, states;
  ct__muon_t u = {0};
  ct_param_groups_t groups = {0};
  *bytes = 0;
  if (ct_optim_rule(e->optim, &states) != CT_RULE_MUON) return CT_OK;
  CT_TRY(ct_param_groups_make(e->optim, e->graph, e->where, &groups));
  CT_TRY(survey(e, m, &groups, &u, bytes));
out:
  survey_free(e, &u);
  ct_param_groups_clear(&groups);
  return rc;
}

/* ---- creation and destruction ---- */

static ct_op_t *op_of(const ct_trainer_t *t, int param)
{
  const ct_plan_t *p = t->first.plan;
  return p->op[p->layer_op[t->env.graph->param[param].layer]].op;
}

/* Checks that a device that the host cannot access stores a matrix row by row: packs the numbers of
 * the elements, and reads them back as they are. */
static int check_plain(ct_trainer_t *t, const ct__matrix_t *m)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  const ct_param_t *p = &t->env.graph->param[m->param];
  size_t bytes = (size_t)p->count * sizeof(float);
  float *plain = ct_mem_alloc(2 * m->bytes, "a matrix"), *own = plain ? plain + p->count : NULL;
  CT_TRY(plain ? CT_OK : CT_ERR_NOMEM);
  for (int64_t i = 0; i < p->count; i++)
    plain[i] = (float)(i % 8191);
  CT_TRY(be->op->pack(t->q, op_of(t, m->param), p->slot, plain, t->muon.room));
  CT_TRY(be->mem->copy(t->q, own, t->muon.room, bytes));
  CT_TRY(be->queue->sync(t->q));
  if (memcmp(plain, own, bytes) != 0)
    CT_FAIL(CT_ERR_UNSUP,
            "optim.kind muon: this device does not store %s row by row; exclude it: optim.groups: "
            "[{match: %s, muon: false}]",
            p->name, p->name);
out:
  ct_mem_free(plain);
  return rc;
}

static int flat_make(ct_trainer_t *t, ct_op_kind_t kind, ct_op_t **out)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_desc_flat(&d, kind, t->muon.count, CT_RULE_MUON, 0);
  return t->env.be->op->prepare(t->env.dev, &d, NULL, out, &info);
}

int ct__muon_make(ct_trainer_t *t, const ct_param_groups_t *groups)
{
  int rc = CT_OK;
  size_t bytes = 0;
  ct__muon_t *u = &t->muon;
  CT_TRY(survey(&t->env, &t->map, groups, u, &bytes));
  if (!u->matrices) return CT_OK;
  CT_TRY(ct__arenas_take(t, CT_MEMORY_MATRIX, bytes, &u->room));
  CT_TRY(flat_make(t, CT_OP_MEASURE, &u->measure));
  CT_TRY(flat_make(t, CT_OP_UPDATE, &u->blend));
  for (int i = 0; i < u->matrices && !t->env.be->host_memory; i++)
    CT_TRY(check_plain(t, &u->matrix[i]));
  CT_TRY(t->env.be->mem->zero(t->q, u->room, bytes));
out:
  return rc;
}

void ct__muon_free(ct_trainer_t *t)
{
  t->env.be->op->release(t->muon.measure);
  t->env.be->op->release(t->muon.blend);
  survey_free(&t->env, &t->muon);
}

/* ---- one matrix ---- */

static int product(ct_trainer_t *t, ct_op_t *op, const char *x, const char *x2, char *y)
{
  ct_op_args_t a = {
      .pass = CT_FWD, .x = x, .x2 = x2, .y = y, .scratch = t->muon.room + t->muon.scratch};
  return t->env.be->op->run(t->q, op, &a);
}

/* w = keep * w + take * g; with norms g is divided by its norm. */
static int blend(ct_trainer_t *t, char *w, double keep, const char *g, double take, int64_t count,
                 double *norms)
{
  ct_op_args_t a = {
      .pass = CT_FWD,
      .w = {w},
      .dy = g,
      .count = count,
      .scale = 1,
      .norms = norms,
      .hyper = {.matrix = 1, .keep = (float)keep, .lr = (float)-take, .eps = 1e-7f, .ratio = 1}};
  return t->env.be->op->run(t->q, t->muon.blend, &a);
}

static int measure(ct_trainer_t *t, char *x, int64_t count, double *norms)
{
  ct_op_args_t a = {.pass = CT_FWD, .w = {x}, .dy = x, .count = count, .scale = 1, .norms = norms};
  return t->env.be->op->run(t->q, t->muon.measure, &a);
}

/* Iterates; *x: the matrix, which may end in the other buffer *y. */
static int iterate(ct_trainer_t *t, const ct__matrix_t *m, char **x, char **y)
{
  int rc = CT_OK, tall = m->rows > m->columns;
  double c[3];
  const ct__muon_t *u = &t->muon;
  char *a = u->room + u->a, *aa = u->room + u->aa;
  int64_t count = m->rows * m->columns, square = smaller(m) * smaller(m);
  int steps = ct_optim_newton_schulz(t->env.optim, c);
  for (int i = 0; i < steps; i++) {
    CT_TRY(product(t, m->product[0], *x, *x, a));
    CT_TRY(product(t, m->product[1], a, a, aa));
    CT_TRY(blend(t, aa, c[2], a, c[1], square, NULL));
    CT_TRY(product(t, m->product[2], tall ? *x : aa, tall ? aa : *x, *y));
    CT_TRY(blend(t, *y, 1, *x, c[0], count, NULL));
    char *next = *y;
    *y = *x;
    *x = next;
  }
out:
  return rc;
}

/* Orthogonalizes a matrix of the gradient arena. */
static int orthogonalize(ct_trainer_t *t, const ct__matrix_t *m)
{
  int rc = CT_OK;
  const ct_backend_t *be = t->env.be;
  const ct__muon_t *u = &t->muon;
  const ct_param_t *p = &t->env.graph->param[m->param];
  char *own = t->gradient + t->map.offset[m->param], *x = u->room, *y = u->room + u->y, *from = own;
  double *norms = (double *)(void *)(u->room + u->norms);
  if (be->host_memory) {
    from = y;
    CT_TRY(be->queue->sync(t->q));
    CT_TRY(be->op->unpack(t->q, op_of(t, m->param), p->slot, own, (float *)(void *)from));
  }
  CT_TRY(measure(t, from, p->count, norms));
  CT_TRY(blend(t, x, 0, from, 1, p->count, norms));
  CT_TRY(iterate(t, m, &x, &y));
  if (!be->host_memory) return be->mem->copy(t->q, own, x, (size_t)p->count * sizeof(float));
  CT_TRY(be->queue->sync(t->q));
  CT_TRY(be->op->pack(t->q, op_of(t, m->param), p->slot, (const float *)(void *)x, own));
out:
  return rc;
}

int ct__muon_step(ct_trainer_t *t, int k)
{
  const ct__muon_t *u = &t->muon;
  for (int i = 0; i < u->matrices; i++)
    if (u->matrix[i].k == k) return orthogonalize(t, &u->matrix[i]);
  return CT_OK;
}

char *ct__muon_room(const ct_trainer_t *t)
{
  return t->muon.room;
}

int ct__muon_uses(const ct_trainer_t *t, size_t from, size_t to)
{
  const ct__muon_t *u = &t->muon;
  for (int i = 0; i < u->matrices; i++) {
    size_t begin = t->map.offset[u->matrix[i].param];
    if (begin < to && begin + u->matrix[i].bytes > from) return 1;
  }
  return 0;
}
