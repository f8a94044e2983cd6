/* Rows of a table by indices: torch.nn.Embedding, whose table is a parameter, and table[indices] of
 * two layers. */
#include <string.h>

#include "base/ct_err.h"
#include "model/layer_axes.h"

/* Whole numbers up to here are exact as float32. */
enum { MOST_ROWS = 1 << 24 };

/* ---- embedding ---- */

typedef struct {
  int64_t rows, dim, padding_idx;
  double weight_std;
  int sinusoidal;
} embedding_t;

/* No padding_idx. */
enum { NONE = -(1 << 30) };

#define PADDING(type)                                               \
  CT_OPT_INT(type, padding_idx, "-1073741824", NONE, MOST_ROWS - 1, \
             "row that gets no gradient; negative: from the end; below -rows: none")

static const ct_opt_t embedding_rows[] = {
    CT_OPT_INT(embedding_t, rows, NULL, 1, MOST_ROWS, "rows of the table: indices are below it"),
    CT_OPT_INT(embedding_t, dim, NULL, 1, 1 << 30, "elements of a row"),
    PADDING(embedding_t),
    CT_OPT_DOUBLE(embedding_t, weight_std, "1", 0, 1e3,
                  "standard deviation of the normal initial values"),
    CT_OPT_BOOL(embedding_t, sinusoidal, "false",
                "the table is a constant: sines and cosines of the row (Vaswani et al. 2017)"),
    CT_OPT_END};

static int rows_grow(const ct_shape_t *ids, int ndim, const int64_t *dim, ct_shape_t *out)
{
  int rc = CT_OK;
  char text[80];
  *out = *ids;
  if (ids->ndim + ndim > CT_MAX_DIMS)
    CT_FAIL(CT_ERR_SHAPE, "its indices, %s, have too many dims",
            ct_shape_text(ids, text, sizeof text));
  for (int i = 0; i < ndim; i++)
    out->dim[out->ndim++] = dim[i];
out:
  return rc;
}

static int embedding_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const embedding_t *o = opts;
  if (o->padding_idx >= o->rows)
    CT_FAIL(CT_ERR_SHAPE, "padding_idx %lld is not one of its %lld rows", (long long)o->padding_idx,
            (long long)o->rows);
  CT_TRY(rows_grow(in, 1, &o->dim, out));
out:
  return rc;
}

static int embedding_params(const void *opts, const ct_shape_t *in,
                            ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  const embedding_t *o = opts;
  (void)in;
  spec[0] = (ct_param_spec_t){.suffix = "weight",
                              .shape = ct_shape(2, o->rows, o->dim),
                              .init = CT_INIT_NORMAL,
                              .scale = o->weight_std};
  if (o->sinusoidal) {
    spec[0].init = CT_INIT_SINUSOID;
    spec[0].buffer = CT_CONSTANT;
  }
  return 1;
}

/* Sets the number of rows, and the one that gets no gradient. */
static void rows_describe(ct_op_desc_t *d, int64_t rows, int64_t padding_idx)
{
  int64_t padding = padding_idx < 0 ? padding_idx + rows : padding_idx;
  d->u.rows.rows = rows;
  d->u.rows.padding = padding < 0 ? 0 : (int)padding + 1;
}

static void embedding_attributes(const void *opts, ct_op_desc_t *d)
{
  const embedding_t *o = opts;
  rows_describe(d, o->rows, o->padding_idx);
}

const ct_layer_ops_t ct__layer_embedding = {
    .kind = "embedding",
    .help = "a row of a trained table for each index",
    .opts_bytes = sizeof(embedding_t),
    .opts = embedding_rows,
    .inputs = 1,
    .general = 1,
    .infer = embedding_infer,
    .params = embedding_params,
    .op = CT_OP_ROWS,
    .attributes = embedding_attributes,
};

/* ---- rows ---- */

typedef struct {
  int64_t padding_idx;
} rows_t;

static const ct_opt_t rows_rows[] = {PADDING(rows_t), CT_OPT_END};

static int rows_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const ct_shape_t *ids = &in[0], *table = &in[1];
  const rows_t *o = opts;
  char text[80];
  if (o->padding_idx >= table->dim[0])
    CT_FAIL(CT_ERR_SHAPE, "padding_idx %lld is not a row of its table, %s",
            (long long)o->padding_idx, ct_shape_text(table, text, sizeof text));
  CT_TRY(ct__layer_keeps_batch(table, 0, "to take rows of"));
  if (table->dim[0] > MOST_ROWS)
    CT_FAIL(CT_ERR_SHAPE, "its table, %s, has more than 2^24 rows",
            ct_shape_text(table, text, sizeof text));
  if (table->batch && ids->batch)
    CT_FAIL(CT_ERR_SHAPE, "both its table and its indices grow with the batch");
  CT_TRY(rows_grow(ids, table->ndim - 1, table->dim + 1, out));
  out->batch |= table->batch >> 1 << ids->ndim;
out:
  return rc;
}

static void rows_attributes(const void *opts, ct_op_desc_t *d)
{
  const rows_t *o = opts;
  rows_describe(d, d->x2.dim[0], o->padding_idx);
}

const ct_layer_ops_t ct__layer_rows = {
    .kind = "rows",
    .help = "rows of a table by indices, table[indices]: from: [table, indices]",
    .opts_bytes = sizeof(rows_t),
    .opts = rows_rows,
    .inputs = 2,
    .general = 1,
    .swaps = 1,
    .infer = rows_infer,
    .op = CT_OP_ROWS,
    .attributes = rows_attributes,
};
