/* torch.permute. */
#include "base/ct_err.h"
#include "model/layer_axes.h"

typedef struct {
  ct_opt_doubles_t dims;
} permute_t;

static const ct_opt_t permute_rows[] = {
    CT_OPT_DOUBLES(permute_t, dims, NULL, "dims of the input in their new order: [0, 2, 1]"),
    CT_OPT_END};

static int permute_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, axis[CT_MAX_DIMS];
  const permute_t *o = opts;
  if (o->dims.n != in->ndim)
    CT_FAIL(CT_ERR_SHAPE, "dims: expected %d, one for each dim of its input, not %d", in->ndim,
            o->dims.n);
  CT_TRY(ct__layer_axes("dims", &o->dims, in->ndim, axis));
  *out = *in;
  out->batch = 0;
  for (int i = 0; i < in->ndim; i++) {
    out->dim[i] = in->dim[axis[i]];
    out->batch |= (in->batch >> axis[i] & 1) << i;
  }
out:
  return rc;
}

static void permute_attributes(const void *opts, ct_op_desc_t *d)
{
  const permute_t *o = opts;
  ct__layer_same_map(d);
  for (int i = 0; i < d->x.ndim; i++)
    d->u.strided.from[i] = ct__layer_dim(o->dims.v[i], d->x.ndim);
}

const ct_layer_ops_t ct__layer_permute = {
    .kind = "permute",
    .help = "changes the order of the dims",
    .opts_bytes = sizeof(permute_t),
    .opts = permute_rows,
    .inputs = 1,
    .general = 1,
    .infer = permute_infer,
    .op = CT_OP_STRIDED,
    .attributes = permute_attributes,
};
