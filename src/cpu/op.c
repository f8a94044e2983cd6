/* Creates, prepares and frees an op of a kind, for the backend and for ops that wrap another op. */
#include "cpu/kinds.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

void cpu__op_free(ct_op_t *op)
{
  if (!op) return;
  if (op->kind->clear) op->kind->clear(op);
  ct_mem_free(op);
}

int cpu__op_new(const cpu__op_kind_t *kind, ct_dev_t *dev, const ct_op_desc_t *d,
                const ct_op_t *like, ct_op_t **out, ct_op_info_t *info)
{
  int rc = CT_OK;
  ct_op_t *op = NULL;
  *out = NULL;
  *info = ct_op_info_of(d, "by hand");
  if (like && like->kind != kind)
    CT_FAIL(CT_ERR_ARG, "a %s op cannot take over the parameter layout of a %s op",
            ct_op_name(d->kind), ct_op_name(like->desc.kind));
  if (!(op = ct_mem_alloc(kind->size, "prepared op"))) return CT_ERR_NOMEM;
  op->kind = kind;
  op->dev = dev;
  op->desc = *d;
  if (kind->prepare) CT_TRY(kind->prepare(op, like, info));
  op->desc.y.layout = info->y_layout;
  memcpy(op->param_bytes, info->param_bytes, sizeof op->param_bytes);
  *out = op;
  op = NULL;
out:
  cpu__op_free(op);
  return rc;
}
