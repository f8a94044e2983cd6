/* Rows of shared tables that travel by themselves.
 *
 * A table that is an embedding and also the weight of the last layer gets a gradient from both. The
 * last layer's is complete when backward begins, the embedding's when it ends. If both were
 * all-reduced together, nothing could overlap with this all-reduce, which is often the largest. So
 * the table is sent when the last layer's gradient is known. The embedding's follows as the rows of
 * the batch's tokens, an all-gather of indices and rows. Each rank adds the rows of all ranks to
 * the reduced table, in the same order. (Compare sparse gradients of torch.nn.Embedding, which DDP
 * and Horovod all-gather.) */
#include "train/trainer.h"
#include "base/ct_err.h"
#include "base/ct_log.h"

enum { LINE = 16 }; /* floats: slices of the communicator consist of whole cache lines */

static size_t rounded(size_t bytes)
{
  enum { ALIGN = 64 };
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Describes a table: its sizes, and the op that adds the rows. */
static ct_op_desc_t describe(const ct_trainer_env_t *e, const ct_plan_t *p, int k,
                             ct__late_table_t *out)
{
  const ct_op_desc_t *d = &p->op[p->late[k].op].desc;
  int64_t ranks = e->topo->size, width = ct_op_row_width(d);
  int64_t most = (e->max_batch * p->late[k].sample + LINE - 1) / LINE * LINE;
  ct_shape_t x = ct_shape(2, ranks, most), y = ct_shape(3, ranks, most, width);
  ct_op_desc_t add;
  y.dtype = d->y.dtype;
  ct_op_desc_init(&add, CT_OP_ROWS, &x, &y);
  add.passes = CT_FWD | CT_BWD_PARAM;
  add.training = 1;
  add.u.rows = d->u.rows;
  *out = (ct__late_table_t){
      .most = most, .row = width * (int64_t)ct_dtype_size(y.dtype) / (int64_t)sizeof(float)};
  return add;
}

/* Places the parts of all tables in one block; returns its size without the workspace. */
static size_t place(ct__late_rows_t *l, int64_t ranks, char *block)
{
  size_t end = 0;
  for (int k = 0; k < l->tables; k++) {
    ct__late_table_t *w = &l->table[k];
    w->index = (float *)(block + end);
    end += rounded((size_t)(ranks * w->most) * sizeof(float));
    w->rows = (float *)(block + end);
    end += rounded((size_t)(ranks * w->most * w->row) * sizeof(float));
  }
  l->scratch = block + end;
  return end;
}

/* Prepares the ops.  *scratch: their largest workspace. */
static int prepare(const ct_trainer_env_t *e, const ct_plan_t *p, ct__late_rows_t *l,
                   size_t *scratch)
{
  int rc = CT_OK;
  *scratch = 0;
  for (int k = 0; k < p->lates; k++) {
    ct_op_info_t info;
    ct_op_desc_t d = describe(e, p, k, &l->table[k]);
    CT_TRY(e->be->op->prepare(e->dev, &d, NULL, &l->table[k].add, &info));
    l->tables = k + 1;
    if (info.scratch > *scratch) *scratch = info.scratch;
  }
out:
  return rc;
}

static void release(const ct_trainer_env_t *e, ct__late_rows_t *l)
{
  for (int k = 0; k < CT_LATE_MAX; k++)
    e->be->op->release(l->table[k].add);
  *l = (ct__late_rows_t){0};
}

int ct__late_rows_bytes(const ct_trainer_env_t *e, const ct_plan_t *p, size_t *out)
{
  int rc = CT_OK;
  size_t scratch;
  ct__late_rows_t l = {0};
  *out = 0;
  if (!p->lates) return CT_OK;
  CT_TRY(prepare(e, p, &l, &scratch));
  *out = place(&l, e->topo->size, NULL) + scratch;
out:
  release(e, &l);
  return rc;
}

int ct__late_rows_make(ct_trainer_t *t)
{
  int rc = CT_OK;
  size_t scratch;
  int64_t to;
  char *block;
  ct__late_rows_t *l = &t->late;
  const ct_plan_t *p = t->first.plan;
  if (!p->lates) return CT_OK;
  CT_TRY(prepare(&t->env, p, l, &scratch));
  CT_TRY(ct__arenas_take_all(t, CT_MEMORY_LATE_ROWS, &block));
  (void)place(l, t->env.topo->size, block);
  for (int k = 0; k < l->tables; k++) {
    ct__late_table_t *w = &l->table[k];
    const ct_topo_t *topo = t->env.topo;
    t->env.comm_ops->slice(t->env.comm, topo->rank, topo->size * w->most, &w->own, &to);
    w->offset = t->map.offset[p->late[k].param];
    ct_log(CT_LOG_DEBUG, "%s: rows of up to %lld indices are gathered after backward",
           t->env.graph->param[p->late[k].param].name, (long long)(t->env.topo->size * w->most));
  }
out:
  return rc;
}

void ct__late_rows_free(ct_trainer_t *t)
{
  release(&t->env, &t->late);
}

/* Clears this rank's rows from row \a first on. */
static int clear_from(ct_trainer_t *t, const ct__late_table_t *w, int64_t first)
{
  int rc = CT_OK;
  const ct_mem_ops_t *mem = t->env.be->mem;
  int64_t rows = w->most - first, at = w->own + first;
  if (!rows) return CT_OK;
  CT_TRY(mem->zero(t->q, w->index + at, (size_t)rows * sizeof(float)));
  CT_TRY(mem->zero(t->q, w->rows + at * w->row, (size_t)(rows * w->row) * sizeof(float)));
out:
  return rc;
}

void ct__late_rows_bind(const ct_trainer_t *t, ct_bind_t *bind)
{
  for (int k = 0; k < t->late.tables; k++) {
    const ct__late_table_t *w = &t->late.table[k];
    bind->late[k].index = w->index + w->own;
    bind->late[k].row = (char *)(w->rows + w->own * w->row);
  }
}

int ct__late_rows_begin(ct_trainer_t *t, int64_t n)
{
  int rc = CT_OK;
  for (int k = 0; k < t->late.tables; k++)
    CT_TRY(clear_from(t, &t->late.table[k], n * t->first.plan->late[k].sample));
out:
  return rc;
}

const void *ct__late_rows_own(const ct_trainer_t *t, int k, int64_t n, size_t *bytes)
{
  const ct__late_table_t *w = &t->late.table[k];
  *bytes = (size_t)(n * t->first.plan->late[k].sample * w->row) * sizeof(float);
  return w->rows + w->own * w->row;
}

int ct__late_rows_tables(const ct_trainer_t *t)
{
  return t->late.tables;
}

int ct__late_rows_gather(ct_trainer_t *t, int k, int empty)
{
  int64_t ranks = t->env.topo->size;
  const ct_comm_ops_t *comm = t->env.comm_ops;
  const ct__late_table_t *w = &t->late.table[k];
  int rc = empty ? clear_from(t, w, 0) : CT_OK;
  int indices = comm->gather(t->env.comm, t->q, w->index, ranks * w->most);
  int rows = comm->gather(t->env.comm, t->q, w->rows, ranks * w->most * w->row);
  return rc != CT_OK ? rc : indices != CT_OK ? indices : rows;
}

int ct__late_rows_add(ct_trainer_t *t, int bucket)
{
  int rc = CT_OK;
  const ct_bucket_t *b = &t->first.bucket[bucket];
  for (int k = 0; k < t->late.tables; k++) {
    const ct__late_table_t *w = &t->late.table[k];
    if (w->offset < b->offset || w->offset >= b->offset + b->bytes) continue;
    ct_op_args_t a = {.pass = CT_BWD_PARAM,
                      .x = w->index,
                      .dy = w->rows,
                      .dw = {t->gradient + w->offset},
                      .adds_dw = 1,
                      .scratch = t->late.scratch};
    CT_TRY(t->env.be->op->run(t->q, w->add, &a));
  }
out:
  return rc;
}
