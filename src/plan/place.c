/* Chains of concatenations, as of DenseNet: each joins the result of the one before with further
 * channels.  The results are the first channels of that of the last one, so all are kept in one
 * tensor: each concatenation but the first finds its first input in place, and copies the second
 * alone.  Memory and traffic grow linearly with the number of layers of a block, not quadratically
 * (Pleiss et al., "Memory-efficient implementation of DenseNets", 2017).  The gradients of the
 * results are in one tensor, too: the gradient of the last result has those of the others in it.
 *
 * It holds for a result that no op reads but the next concatenation, and before it batch
 * normalisations, whose backward pass adds to the gradient that is there already; and if the
 * backend supports parts of larger tensors in the layout at hand. */
#include "plan/passes.h"

static int joins_channels(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONCAT && d->x.ndim >= 4 && ct_op_concat_dim(d) == 1;
}

/* Returns how far behind the concatenation op[0] the next of its chain is; 0: its result is the
 * last. */
static int next_of(const ct_plan_op_t *op, int n)
{
  int next = 0;
  for (int i = 1; i < n; i++)
    for (int k = 0; k < CT_OP_INPUTS; k++) {
      if (op[i].in[k] != op->out) continue;
      if (k || next) return 0;
      if (joins_channels(&op[i].desc))
        next = i;
      else if (op[i].desc.kind != CT_OP_BNORM || op[i].desc.u.bnorm.add)
        return 0;
    }
  return next;
}

/* Returns 1 if the backend supports the op on parts of tensors in a layout. */
static int fits_in(const ct_plan_t *p, const ct_plan_op_t *op, ct_layout_t layout)
{
  char why[128];
  ct_op_desc_t d = op->desc;
  d.x.layout = layout;
  return p->be->op->supports(p->dev, &d, why) && p->be->op->wants(p->dev, &d) == layout;
}

/* Marks the ops of a chain as parts of a tensor with so many channels; \a channels 0: takes the
 * marks away.  Returns 0 if the backend does not support one of them. */
static int mark(const ct_plan_t *p, ct_plan_op_t *op, int n, ct_layout_t layout, int64_t channels)
{
  int fits = 1;
  for (int first = 1, next; n > 0; op += next, n -= next, first = 0) {
    next = next_of(op, n);
    op->desc.u.concat.placed = !first && channels;
    op->desc.within = next ? channels : 0;
    fits &= fits_in(p, op, layout);
    for (int i = 1; i < next; i++) {
      if (op[i].in[0] != op->out) continue;
      op[i].desc.within = channels;
      fits &= fits_in(p, &op[i], layout);
    }
    if (!next) break;
  }
  return fits;
}

void ct__plan_place(const ct_plan_t *p, ct_plan_op_t *op, int n, ct_layout_t layout)
{
  int last = 0, next;
  if (!joins_channels(&op->desc) || op->desc.u.concat.placed || p->o.quant) return;
  while ((next = next_of(op + last, n - last)))
    last += next;
  if (last && !mark(p, op, n, layout, op[last].desc.y.dim[1])) mark(p, op, n, layout, 0);
}
