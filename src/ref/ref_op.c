/* The op table of the reference backend: checks and bookkeeping for all kinds. */
#include <stdio.h>
#include <string.h>

#include "backend/ct_host.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include "ref/ref.h"

static int op_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  const char *reason = NULL;

  (void)dev;
  if (!ct_op_check(d, why)) return 0;
  if (!ct__ref_kinds[d->kind])
    reason = "the reference backend has no such op";
  else if ((d->x.dtype == CT_BF16 || d->x.dtype == CT_F16) && !ct__ref_kinds[d->kind]->reduced)
    reason = "the reference backend does this in float32 only";
  else if (d->x.layout != CT_PLAIN && d->kind != CT_OP_REORDER)
    reason = "the reference backend works on the plain layout only";
  if (reason) snprintf(why, 128, "%s", reason);
  return reason == NULL;
}

static ct_layout_t op_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return d->kind == CT_OP_REORDER ? d->x.layout : CT_PLAIN;
}

static int op_prepare(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                      ct_op_info_t *info)
{
  int rc = CT_OK;
  ct_op_t *op = NULL;
  char text[160], why[128];

  *out = NULL;
  if (!op_supports(dev, d, why))
    CT_FAIL(CT_ERR_UNSUP, "%s: %s", ct_op_text(d, text, sizeof text), why);
  op = ct_mem_alloc(sizeof *op, "reference op");
  if (!op) return CT_ERR_NOMEM;
  op->kind = ct_op_is_int8(d) ? &ct__ref_int8 : ct__ref_kinds[d->kind];
  memcpy(&op->desc, d, sizeof *d);
  op->info = ct_op_info_of(d, "reference");
  if (op->kind->needs) op->kind->needs(d, &op->info);
  op->info.param_layout = ct_hash_text("plain", 0);
  for (int i = 0; i < CT_OP_PARAMS; i++) {
    if (like && like->info.param_bytes[i] != op->info.param_bytes[i])
      CT_FAIL(CT_ERR_SHAPE, "%s: parameter %d has %zu bytes, the layer's other op has %zu",
              ct_op_text(d, text, sizeof text), i, op->info.param_bytes[i],
              like->info.param_bytes[i]);
    op->info.param_layout = ct_hash_int((int64_t)op->info.param_bytes[i], op->info.param_layout);
  }
  *info = op->info;
  *out = op;
  op = NULL;
out:
  ct_mem_free(op);
  return rc;
}

static int op_run(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args)
{
  int rc = ct_op_check_pass(&op->desc, args->pass);
  if (rc != CT_OK) return rc;
  return ct__ref_enqueue_run(q, op, args);
}

static void release(ct_op_t *op)
{
  ct_mem_free(op);
}

/* Copies a parameter: the op's own layout is the plain one. */
static int copy_param(ct_queue_t *q, const ct_op_t *op, int param, void *dst, const void *src)
{
  int rc = CT_OK;

  CT_TRY(ct__ref_enqueue_copy(q, dst, src, op->info.param_bytes[param]));
  CT_TRY(ct__ref_queue_ops.sync(q));
out:
  return rc;
}

static int op_pack(ct_queue_t *q, ct_op_t *op, int param, const float *plain, void *own)
{
  return copy_param(q, op, param, own, plain);
}

static int op_unpack(ct_queue_t *q, ct_op_t *op, int param, const void *own, float *plain)
{
  return copy_param(q, op, param, plain, own);
}

const ct_op_ops_t ct__ref_op_ops = {.supports = op_supports,
                                    .wants = op_wants,
                                    .prepare = op_prepare,
                                    .run = op_run,
                                    .release = release,
                                    .pack = op_pack,
                                    .unpack = op_unpack,
                                    .tunes = ct_host_tunes,
                                    .choices = ct_host_choices,
                                    .adopt = ct_host_adopt};
