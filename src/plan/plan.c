/* Calls the compiler passes in order.  Each one ends before the next begins, because layouts change
 * descriptors and launches change life times. */
#include "plan/passes.h"
#include "base/ct_err.h"

static int check_trained(const ct_plan_t *p)
{
  int rc = CT_OK, grad = !p->o.training;
  for (int k = 0; k < CT_OUTPUTS; k++)
    grad |= p->output[k] >= 0 && p->value[p->output[k]].grad;
  for (int i = 0; i < p->ops; i++) /* a head that is fused with its loss */
    grad |= p->op[i].desc.kind == CT_OP_HEAD_LOSS &&
            (p->op[i].trained || p->value[p->op[i].in[0]].grad);
  if (!grad) CT_FAIL(CT_ERR_USAGE, "the model has no parameters that could be trained");
out:
  return rc;
}

/* An output is read from the arena, in which the network's input is not. */
static int check_outputs(const ct_plan_t *p)
{
  int rc = CT_OK;
  for (int k = 0; k < CT_OUTPUTS; k++)
    if (p->output[k] >= 0 && p->value[p->output[k]].external)
      CT_FAIL(CT_ERR_UNSUP, "output '%s' is an input of the network, unchanged",
              p->graph->layer[ct_graph_output(p->graph, k)].name);
out:
  return rc;
}

int ct_plan_make(const ct_graph_t *g, const ct_backend_t *be, ct_dev_t *dev,
                 const ct_plan_opts_t *o, const ct_plan_t *like, ct_plan_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_plan_t *p = ct__plan_new(g, o);
  if (!p) return CT_ERR_NOMEM;
  p->be = be;
  p->dev = dev;
  CT_TRY(ct__plan_lower(p));
  CT_TRY(check_trained(p));
  CT_TRY(ct__plan_fuse(p));
  CT_TRY(ct__plan_slabs(p));
  CT_TRY(ct__plan_cache(p));
  CT_TRY(ct__plan_quantize(p));
  CT_TRY(ct__plan_precision(p));
  CT_TRY(ct__plan_prepare(p, like));
  CT_TRY(check_outputs(p));
  CT_TRY(ct__plan_launches(p));
  CT_TRY(ct__plan_prepare_helpers(p));
  CT_TRY(ct__plan_offsets(p));
  p->o.quant = NULL; /* the caller may free it from here on */
  *out = p;
  p = NULL;
out:
  ct_plan_free(p);
  return rc;
}
