/* torch.reshape: the same elements in the same order.  Nothing is moved, except that a tensor in a
 * layout of images becomes plain. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_err.h"
#include "model/layer_axes.h"

typedef struct {
  ct_opt_texts_t shape;
} reshape_t;

static const ct_opt_t reshape_rows[] = {
    CT_OPT_TEXTS(reshape_t, shape, NULL,
                 "sizes such as [N, 4, 8]; N, or 12N, grows with the batch; one may be -1"),
    CT_OPT_END};

/* The size that -1 stands for. */
static int reshape_open(const ct_shape_t *in, int n, ct__size_t *size)
{
  int rc = CT_OK, open = -1, batch = 0;
  int64_t others = 1, all = ct_shape_count(in);
  char text[80];
  for (int i = 0; i < n; i++) {
    if (size[i].n < 0 && open >= 0) CT_FAIL(CT_ERR_SHAPE, "shape: more than one size is -1");
    if (size[i].n < 0)
      open = i;
    else if (__builtin_mul_overflow(others, size[i].n, &others))
      others = INT64_MAX;
    batch += size[i].batch;
  }
  if (open >= 0 && all % others == 0) {
    size[open] = (ct__size_t){all / others, in->batch && !batch};
    others = all;
    batch += size[open].batch;
  }
  if (others != all)
    CT_FAIL(CT_ERR_SHAPE, "shape: a sample of its input, %s, has %" PRId64 " elements",
            ct_shape_text(in, text, sizeof text), all);
  if (batch > 1) CT_FAIL(CT_ERR_SHAPE, "shape: more than one size grows with the batch");
  if (in->batch && !batch)
    CT_FAIL(CT_ERR_SHAPE,
            "shape: the result would depend on the batch size: write N in place of the batch size, "
            "or 12N for a multiple of it");
  if (!in->batch && batch)
    CT_FAIL(CT_ERR_SHAPE, "shape: its input is made of parameters alone and has no N");
out:
  return rc;
}

/* Returns the number of elements of a sample before and from the batch's dim on. */
static void reshape_around(const ct_shape_t *s, int64_t *before, int64_t *after)
{
  *before = *after = 1;
  int past = 0;
  for (int i = 0; i < s->ndim; i++) {
    if (!past && !(s->batch >> i & 1)) *before *= s->dim[i];
    if (past) *after *= s->dim[i];
    past |= s->batch >> i & 1;
  }
}

/* Checks that the elements of a sample are at places that do not depend on the batch size: the dims
 * before the batch, or those after it, hold as many elements as they did. */
static int reshape_check(const ct_shape_t *in, const ct_shape_t *out)
{
  int rc = CT_OK;
  int64_t before, after, before_out, after_out;
  char a[80], b[80];
  reshape_around(in, &before, &after);
  reshape_around(out, &before_out, &after_out);
  if (in->batch && before != before_out && after != after_out)
    CT_FAIL(CT_ERR_SHAPE,
            "shape: from %s to %s of a sample, the places of a sample's elements would depend on "
            "the batch size",
            ct_shape_text(in, a, sizeof a), ct_shape_text(out, b, sizeof b));
  if (in->batch & (in->batch - 1))
    CT_FAIL(CT_ERR_SHAPE, "two dims of its input, %s of a sample, grow with the batch",
            ct_shape_text(in, a, sizeof a));
out:
  return rc;
}

static int reshape_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const reshape_t *o = opts;
  ct__size_t size[CT_MAX_DIMS];
  int64_t dim[CT_MAX_DIMS] = {0};
  CT_TRY(ct__layer_sizes(&o->shape, -1, size));
  CT_TRY(reshape_open(in, o->shape.n, size));
  for (int i = 0; i < o->shape.n; i++)
    dim[i] = size[i].n;
  *out = ct_shape_dims(o->shape.n, dim);
  for (int i = 0; i < o->shape.n; i++)
    out->batch |= (unsigned)size[i].batch << i;
  CT_TRY(reshape_check(in, out));
out:
  return rc;
}

const ct_layer_ops_t ct__layer_reshape = {
    .kind = "reshape",
    .help = "the same elements in another shape; nothing is moved",
    .opts_bytes = sizeof(reshape_t),
    .opts = reshape_rows,
    .inputs = 1,
    .general = 1,
    .infer = reshape_infer,
    .op = CT_OP_REORDER,
};

/* ---- flatten: torch.nn.Flatten ---- */

typedef struct {
  int64_t start_dim, end_dim;
} flatten_t;

static const ct_opt_t flatten_rows[] = {
    CT_OPT_INT(flatten_t, start_dim, "1", -CT_MAX_DIMS, CT_MAX_DIMS - 1, "first dim"),
    CT_OPT_INT(flatten_t, end_dim, "-1", -CT_MAX_DIMS, CT_MAX_DIMS - 1, "last dim"), CT_OPT_END};

static int flatten_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, first, last, n = 0;
  const flatten_t *o = opts;
  int64_t dim[CT_MAX_DIMS] = {0};
  unsigned batch = 0;
  if (in->ndim == 1 && o->start_dim == 1) { /* a row is flat already */
    *out = *in;
    return CT_OK;
  }
  CT_TRY(ct__layer_axis((double)o->start_dim, in->ndim, &first));
  CT_TRY(ct__layer_axis((double)o->end_dim, in->ndim, &last));
  if (first > last) CT_FAIL(CT_ERR_SHAPE, "start_dim %d is after end_dim %d", first, last);
  for (int i = 0; i < in->ndim; i++) {
    int joins = i > first && i <= last;
    dim[joins ? n - 1 : n] = joins ? dim[n - 1] * in->dim[i] : in->dim[i];
    n += !joins;
    batch |= (in->batch >> i & 1) << (n - 1);
  }
  *out = ct_shape_dims(n, dim);
  out->batch = batch;
  CT_TRY(reshape_check(in, out));
out:
  return rc;
}

const ct_layer_ops_t ct__layer_flatten = {
    .kind = "flatten",
    .help = "joins dims; by default flattens each sample to one row: N x features",
    .opts_bytes = sizeof(flatten_t),
    .opts = flatten_rows,
    .inputs = 1,
    .general = 1,
    .infer = flatten_infer,
    .op = CT_OP_REORDER,
};
