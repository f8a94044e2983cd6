/* N x 1 x T x features -> N x T x features: the rows of a one-channel image become the steps of a
 * sequence, because data sets hold images. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

static int sequence_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  char shape[80];
  (void)opts;
  if (in->ndim != 4 || in->dim[1] != 1)
    CT_FAIL(CT_ERR_SHAPE, "needs images of one channel (N x 1 x T x features), but its input is %s",
            ct_shape_text(in, shape, sizeof shape));
  *out = ct_shape(3, in->dim[0], in->dim[2], in->dim[3]);
out:
  return rc;
}

const ct_layer_ops_t ct__layer_sequence = {
    .kind = "sequence",
    .help = "turns the rows of a one-channel image into the steps of a sequence",
    .opts = ct__layer_no_options,
    .inputs = 1,
    .infer = sequence_infer,
    .op = CT_OP_REORDER,
};
