/* torch.matmul() of two inputs with 2 dims or more. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  int transpose_a, transpose_b;
} matmul_t;

static const ct_opt_t rows[] = {
    CT_OPT_BOOL(matmul_t, transpose_a, "false", "exchange the last two dims of the first input"),
    CT_OPT_BOOL(matmul_t, transpose_b, "false", "exchange the last two dims of the second input"),
    CT_OPT_END};

/* An input: its shape, and whether dim i from the last grows with the batch. */
static unsigned batch_back(const ct_shape_t *s, int i)
{
  return i < s->ndim ? s->batch >> (s->ndim - 1 - i) & 1 : 0;
}

static void set_back(ct_shape_t *s, int i, int64_t size, unsigned batch)
{
  int at = s->ndim - 1 - i;
  s->dim[at] = size;
  s->batch |= batch << at;
}

/* Joins dim i before the matrices of both inputs. */
static int join(const ct_shape_t *in, int i, ct_shape_t *out)
{
  int rc = CT_OK;
  char a[80], b[80];
  int64_t size[2] = {ct_dim_back(&in[0], i), ct_dim_back(&in[1], i)};
  unsigned batch[2] = {batch_back(&in[0], i), batch_back(&in[1], i)};
  int one[2] = {size[0] == 1 && !batch[0], size[1] == 1 && !batch[1]};
  if (!one[0] && !one[1] && (size[0] != size[1] || batch[0] != batch[1]))
    CT_FAIL(CT_ERR_SHAPE,
            "the dims before the matrices of its inputs, %s and %s of a sample, cannot be "
            "broadcast",
            ct_shape_text(&in[0], a, sizeof a), ct_shape_text(&in[1], b, sizeof b));
  set_back(out, i, one[0] ? size[1] : size[0], one[0] ? batch[1] : batch[0]);
out:
  return rc;
}

static int matmul_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, ndim = in[0].ndim > in[1].ndim ? in[0].ndim : in[1].ndim;
  const matmul_t *o = opts;
  int ka = o->transpose_a ? 1 : 0, kb = o->transpose_b ? 0 : 1;
  char a[80], b[80];
  ct_shape_text(&in[0], a, sizeof a);
  ct_shape_text(&in[1], b, sizeof b);
  if (in[0].ndim < 2 || in[1].ndim < 2)
    CT_FAIL(CT_ERR_SHAPE, "needs two inputs of 2 dims or more, but they are %s and %s", a, b);
  if (batch_back(&in[0], ka) || batch_back(&in[1], kb))
    CT_FAIL(CT_ERR_SHAPE,
            "its sums would run over the batch and mix samples, and the result would depend on the "
            "number of ranks: its inputs are %s and %s of a sample",
            a, b);
  if (ct_dim_back(&in[0], ka) != ct_dim_back(&in[1], kb))
    CT_FAIL(CT_ERR_SHAPE,
            "the rows of the first matrix have %d elements, the columns of the second %d: its "
            "inputs are %s and %s of a sample",
            (int)ct_dim_back(&in[0], ka), (int)ct_dim_back(&in[1], kb), a, b);
  *out = ct_shape(1, 1);
  out->ndim = ndim;
  set_back(out, 0, ct_dim_back(&in[1], 1 - kb), batch_back(&in[1], 1 - kb));
  set_back(out, 1, ct_dim_back(&in[0], 1 - ka), batch_back(&in[0], 1 - ka));
  for (int i = 2; i < ndim; i++)
    CT_TRY(join(in, i, out));
  if (out->batch & (out->batch - 1))
    CT_FAIL(CT_ERR_SHAPE,
            "each sample would meet all samples of the batch: its inputs are %s and %s of a "
            "sample, with the batch in different dims",
            a, b);
out:
  return rc;
}

static void matmul_attributes(const void *opts, ct_op_desc_t *d)
{
  const matmul_t *o = opts;
  d->u.matmul.a_turned = o->transpose_a;
  d->u.matmul.b_turned = o->transpose_b;
}

const ct_layer_ops_t ct__layer_matmul = {
    .kind = "matmul",
    .help = "matrix product of two inputs: from: [a, b]",
    .opts_bytes = sizeof(matmul_t),
    .opts = rows,
    .inputs = 2,
    .general = 1,
    .infer = matmul_infer,
    .op = CT_OP_MATMUL,
    .attributes = matmul_attributes,
};
