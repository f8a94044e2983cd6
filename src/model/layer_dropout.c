/* torch.nn.Dropout: x * mask / (1 - p) in training; and torchvision.ops.StochasticDepth, which
 * drops whole rows.  The mask depends on element, step and layer number only, so it is identical
 * for any number of ranks. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  double p;
} dropout_t;

typedef struct {
  double p;
  int mode, scale_by_keep;
} drop_path_t;

static const ct_opt_t rows[] = {
    CT_OPT_DOUBLE(dropout_t, p, "0.5", 0, 0.999, "probability to drop a value"), CT_OPT_END};
static const ct_opt_t path_rows[] = {
    CT_OPT_DOUBLE(drop_path_t, p, NULL, 0, 0.999, "probability to drop a sample"),
    CT_OPT_CHOICE(drop_path_t, mode, "row", "row|batch",
                  "row: each sample on its own; batch: all samples of a step or none, as in "
                  "torchvision.ops.StochasticDepth"),
    CT_OPT_BOOL(drop_path_t, scale_by_keep, "true",
                "divide by 1 - p what is kept, as timm's DropPath"),
    CT_OPT_END};

/* Each sample has its own mask, so the batch must be in one dim. */
static int dropout_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  char shape[80];
  (void)opts;
  if (!in->batch || in->batch & (in->batch - 1))
    CT_FAIL(CT_ERR_SHAPE, "needs a batch in one dim of its input, %s of a sample",
            ct_shape_text(in, shape, sizeof shape));
  *out = *in;
out:
  return rc;
}

/* Whole samples are rows of dim 0. */
static int drop_path_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  char shape[80];
  if (in->batch == 1) return dropout_infer(opts, in, out);
  return ct_err_set(CT_ERR_SHAPE, __FILE__, __LINE__,
                    "the batch is not the first dim of its input, %s: put a `permute` layer before "
                    "it",
                    ct__layer_shape_text(in, shape, sizeof shape));
}

static void dropout_attributes(const void *opts, ct_op_desc_t *d)
{
  const dropout_t *o = opts;
  d->u.dropout.p = o->p;
}

static void drop_path_attributes(const void *opts, ct_op_desc_t *d)
{
  const drop_path_t *o = opts;
  d->u.dropout.p = o->p;
  d->u.dropout.whole = 1 + o->mode;
  d->u.dropout.unscaled = !o->scale_by_keep;
}

const ct_layer_ops_t ct__layer_dropout = {
    .kind = "dropout",
    .help = "drops values at random in training",
    .opts_bytes = sizeof(dropout_t),
    .opts = rows,
    .inputs = 1,
    .general = 1,
    .infer = dropout_infer,
    .op = CT_OP_DROPOUT,
    .attributes = dropout_attributes,
};

const ct_layer_ops_t ct__layer_drop_path = {
    .kind = "drop_path",
    .help = "drops whole samples at random in training (stochastic depth)",
    .opts_bytes = sizeof(drop_path_t),
    .opts = path_rows,
    .inputs = 1,
    .general = 1,
    .infer = drop_path_infer,
    .op = CT_OP_DROPOUT,
    .attributes = drop_path_attributes,
};

/* A dropout of nothing, which plans and ONNX leave out. */
const ct_layer_ops_t ct__layer_identity = {
    .kind = "identity",
    .help = "its input, under another name",
    .opts = ct__layer_no_options,
    .inputs = 1,
    .general = 1,
    .op = CT_OP_DROPOUT,
};
