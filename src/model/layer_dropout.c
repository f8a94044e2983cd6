/* x * mask / (1 - p) while training: torch.nn.Dropout. */
#include "model/layer_common.h"

typedef struct {
  double p;
} dropout_t;

static const ct_opt_t rows[] = {
    CT_OPT_DOUBLE(dropout_t, p, "0.5", 0, 0.999, "probability to drop a value"), CT_OPT_END};

static void lower(const void *opts, int index, const ct_shape_t *in, const ct_shape_t *out,
                  ct_op_desc_t *d)
{
  const dropout_t *o = opts;
  ct_op_desc_init(d, CT_OP_DROPOUT, in, out);
  d->u.dropout.p = o->p;
  d->u.dropout.layer = (uint32_t)index;
}

const ct_layer_ops_t ct__layer_dropout = {
    .kind = "dropout",
    .help = "drops values at random while training",
    .opts_bytes = sizeof(dropout_t),
    .opts = rows,
    .inputs = 1,
    .infer = ct__same_shape,
    .params = ct__no_params,
    .lower = lower,
};
