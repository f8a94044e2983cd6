/* torch.nn.Dropout: x * mask / (1 - p) in training.  The mask depends on element, step and layer
 * number only, so it is identical for any number of ranks. */
#include "model/layer_usual.h"

typedef struct {
  double p;
} dropout_t;

static const ct_opt_t rows[] = {
    CT_OPT_DOUBLE(dropout_t, p, "0.5", 0, 0.999, "probability to drop a value"), CT_OPT_END};

static void dropout_attributes(const void *opts, ct_op_desc_t *d)
{
  const dropout_t *o = opts;
  d->u.dropout.p = o->p;
}

const ct_layer_ops_t ct__layer_dropout = {
    .kind = "dropout",
    .help = "drops values at random in training",
    .opts_bytes = sizeof(dropout_t),
    .opts = rows,
    .inputs = 1,
    .op = CT_OP_DROPOUT,
    .attributes = dropout_attributes,
};
