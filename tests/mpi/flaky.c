/* The reference backend behind a table of its own that counts calls: an order makes the nth one
 * fail.  Other calls go through, so that a test sees what becomes of the rest of a step. */
#include "tests/mpi/flaky.h"

#include "base/ct_err.h"
#include "ref/ref.h"
#include "ref/ct_ref.h"

static const char *const names[] = {"alloc", "copy",    "zero", "create", "mark",  "wait",
                                    "sync",  "prepare", "run",  "pack",   "unpack"};

enum { MAX_ORDERS = 8 };
static struct {
  flaky_call_t call;
  int kind;
  int64_t left; /* calls until it happens */
} orders[MAX_ORDERS];
static int norders;

void flaky_order(flaky_call_t call, int kind, int64_t nth)
{
  if (norders == MAX_ORDERS) return;
  orders[norders].call = call;
  orders[norders].kind = kind;
  orders[norders++].left = nth;
}

static int64_t runs[CT_OP_COUNT];

int64_t flaky_runs(ct_op_kind_t kind)
{
  int64_t n = runs[kind];
  runs[kind] = 0;
  return n;
}

void flaky_clear(void)
{
  norders = 0;
}

static int fails(flaky_call_t call, int kind)
{
  int rc = CT_OK;
  for (int i = 0; i < norders; i++) {
    if (orders[i].call != call || (orders[i].kind != FLAKY_ANY && orders[i].kind != kind)) continue;
    if (--orders[i].left == 0)
      rc = ct_err_set(call == FLAKY_ALLOC ? CT_ERR_NOMEM : CT_ERR_DEVICE, __FILE__, __LINE__,
                      "the device broke in %s%s%s", names[call], kind == FLAKY_ANY ? "" : " of ",
                      kind == FLAKY_ANY ? "" : ct_op_name((ct_op_kind_t)kind));
  }
  return rc;
}

/* ---- the tables ---- */

static int mem_alloc(ct_dev_t *dev, ct_mem_kind_t kind, size_t bytes, void **out)
{
  int rc = fails(FLAKY_ALLOC, FLAKY_ANY);
  *out = NULL;
  return rc != CT_OK ? rc : ct_backend_ref.mem->alloc(dev, kind, bytes, out);
}

static int mem_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes)
{
  int rc = fails(FLAKY_COPY, FLAKY_ANY);
  return rc != CT_OK ? rc : ct_backend_ref.mem->copy(q, dst, src, bytes);
}

static int mem_zero(ct_queue_t *q, void *dst, size_t bytes)
{
  int rc = fails(FLAKY_ZERO, FLAKY_ANY);
  return rc != CT_OK ? rc : ct_backend_ref.mem->zero(q, dst, bytes);
}

static int queue_create(ct_dev_t *dev, ct_queue_t **out)
{
  int rc = fails(FLAKY_CREATE, FLAKY_ANY);
  *out = NULL;
  return rc != CT_OK ? rc : ct__ref_queue_ops.create(dev, out);
}

static int queue_mark(ct_queue_t *q, ct_event_t **io)
{
  int rc = fails(FLAKY_MARK, FLAKY_ANY);
  return rc != CT_OK ? rc : ct__ref_queue_ops.mark(q, io);
}

/* Who waits learns of a failure when the work is over. */
static int queue_wait(ct_event_t *ev)
{
  int rc = ct__ref_queue_ops.wait(ev), ordered = fails(FLAKY_WAIT, FLAKY_ANY);
  return ordered != CT_OK ? ordered : rc;
}

static int queue_sync(ct_queue_t *q)
{
  int rc = ct__ref_queue_ops.sync(q), ordered = fails(FLAKY_SYNC, FLAKY_ANY);
  return ordered != CT_OK ? ordered : rc;
}

static int op_prepare(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                      ct_op_info_t *info)
{
  int rc = fails(FLAKY_PREPARE, (int)d->kind);
  *out = NULL;
  return rc != CT_OK ? rc : ct__ref_op_ops.prepare(dev, d, like, out, info);
}

static int op_run(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args)
{
  int rc = fails(FLAKY_RUN, (int)op->desc.kind);
  runs[op->desc.kind]++;
  return rc != CT_OK ? rc : ct__ref_op_ops.run(q, op, args);
}

static int op_pack(ct_queue_t *q, ct_op_t *op, int param, const float *plain, void *own)
{
  int rc = fails(FLAKY_PACK, FLAKY_ANY);
  return rc != CT_OK ? rc : ct__ref_op_ops.pack(q, op, param, plain, own);
}

static int op_unpack(ct_queue_t *q, ct_op_t *op, int param, const void *own, float *plain)
{
  int rc = fails(FLAKY_UNPACK, FLAKY_ANY);
  return rc != CT_OK ? rc : ct__ref_op_ops.unpack(q, op, param, own, plain);
}

ct_backend_t flaky_backend(void)
{
  static ct_mem_ops_t mem;
  static ct_queue_ops_t queue;
  static ct_op_ops_t op;
  ct_backend_t be = ct_backend_ref;
  mem = *ct_backend_ref.mem;
  mem.alloc = mem_alloc;
  mem.copy = mem_copy;
  mem.zero = mem_zero;
  queue = ct__ref_queue_ops;
  queue.create = queue_create;
  queue.mark = queue_mark;
  queue.wait = queue_wait;
  queue.sync = queue_sync;
  op = ct__ref_op_ops;
  op.prepare = op_prepare;
  op.run = op_run;
  op.pack = op_pack;
  op.unpack = op_unpack;
  be.name = "flaky";
  be.mem = &mem;
  be.queue = &queue;
  be.op = &op;
  return be;
}
