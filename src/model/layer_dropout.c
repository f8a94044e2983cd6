/* x * mask / (1 - p) while training: torch.nn.Dropout.  The mask is drawn by element, step and the
 * layer's number, so that it is the same at any number of ranks. */
#include "model/layer_usual.h"

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
    .infer = ct__layer_same_shape,
    .params = ct__layer_no_params,
    .lower = lower,
};
