/* Concatenates two layers along a dim, torch.cat((a, b), dim).  A layer has two inputs, so more are
 * concatenated by a chain of layers (graph_read.c). */
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "model/layer_axes.h"

typedef struct {
  char *dim;
} concat_t;

static const ct_opt_t concat_rows[] = {
    CT_OPT_TEXT(concat_t, dim, "auto",
                "dim along which the inputs are joined; auto: the channels, or of sequences (N x T "
                "x features) the features"),
    CT_OPT_END};

static int concat_dim(const concat_t *o, int ndim, int *out)
{
  int rc = CT_OK;
  char *end;
  long dim = strtol(o->dim, &end, 10);
  *out = ndim == 3 ? 2 : 1;
  if (strcmp(o->dim, "auto") != 0) {
    if (*end || end == o->dim)
      CT_FAIL(CT_ERR_SHAPE, "dim: expected a whole number or auto, not '%.40s'", o->dim);
    CT_TRY(ct__layer_axis((double)dim, ndim, out));
  }
out:
  return rc;
}

static int concat_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, along, fit = in[0].ndim == in[1].ndim && in[0].ndim >= 1;
  int automatic = strcmp(((const concat_t *)opts)->dim, "auto") == 0;
  char a[80], b[80], dim[16];
  CT_TRY(concat_dim(opts, in[0].ndim, &along));
  for (int i = 0; i < in[0].ndim; i++)
    fit &= i == along || in[0].dim[i] == in[1].dim[i];
  CT_TRY(ct_text_format(dim, sizeof dim, "dim %d", along));
  if (!fit || along >= in[0].ndim)
    CT_FAIL(CT_ERR_SHAPE, "needs two inputs that differ in %s only, but they are %s and %s",
            !automatic   ? dim
            : along == 2 ? "features"
                         : "channels",
            ct_shape_text(&in[0], a, sizeof a), ct_shape_text(&in[1], b, sizeof b));
  CT_TRY(ct__layer_keeps_batch(&in[0], along, "to join two of them"));
  if (in[0].batch != in[1].batch)
    CT_FAIL(
        CT_ERR_SHAPE,
        "the batch is not the same dim of its inputs, %s and %s of a sample: put an `expand` or "
        "`permute` layer before one of them",
        ct_shape_text(&in[0], a, sizeof a), ct_shape_text(&in[1], b, sizeof b));
  *out = in[0];
  out->dim[along] += in[1].dim[along];
out:
  return rc;
}

static void concat_attributes(const void *opts, ct_op_desc_t *d)
{
  int dim;
  const concat_t *o = opts;
  if (strcmp(o->dim, "auto") == 0) return;
  if (concat_dim(o, d->x.ndim, &dim) == CT_OK) d->u.concat.along = 1 + dim;
}

const ct_layer_ops_t ct__layer_concat = {
    .kind = "concat",
    .help = "concatenates layers along a dim: from: [a, b, …]",
    .opts_bytes = sizeof(concat_t),
    .opts = concat_rows,
    .inputs = 2,
    .general = 1,
    .infer = concat_infer,
    .op = CT_OP_CONCAT,
    .attributes = concat_attributes,
};
