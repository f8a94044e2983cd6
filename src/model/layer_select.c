/* One element of a sequence: N x T x features -> N x features.  Used for the last step of an LSTM
 * and the class token of a transformer. */
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t index;
} select_t;

static const ct_opt_t rows[] = {
    CT_OPT_INT(select_t, index, NULL, -1, 1 << 30, "index, from 0; -1: the last"), CT_OPT_END};

static int select_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const select_t *o = opts;
  CT_TRY(ct__layer_want_sequence(in));
  if (o->index >= in->dim[1])
    CT_FAIL(CT_ERR_SHAPE, "index %" PRId64 " is out of range of a sequence of %" PRId64, o->index,
            in->dim[1]);
  *out = ct_shape(2, in->dim[0], in->dim[2]);
out:
  return rc;
}

static void select_attributes(const void *opts, ct_op_desc_t *d)
{
  const select_t *o = opts;
  d->u.select.index = (int)o->index;
}

const ct_layer_ops_t ct__layer_select = {
    .kind = "select",
    .help = "one element of a sequence",
    .opts_bytes = sizeof(select_t),
    .opts = rows,
    .inputs = 1,
    .infer = select_infer,
    .op = CT_OP_SELECT,
    .attributes = select_attributes,
};
