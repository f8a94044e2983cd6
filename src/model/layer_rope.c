/* Places in sequences: as numbers, as rows of a table that are added (Vaswani et al. 2017), and as
 * angles by which pairs of features are rotated (ct_rope.h). */
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"

/* ---- positions ---- */

typedef struct {
  int relative;
} positions_t;

static const ct_opt_t positions_rows[] = {
    CT_OPT_BOOL(positions_t, relative, "false",
                "the input is N x T, for each element the place of the first of its document; "
                "places count from there"),
    CT_OPT_END};

static int positions_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK, relative = ((const positions_t *)opts)->relative;
  char shape[80];
  if (in->ndim < 2 || (relative && in->ndim > 2))
    CT_FAIL(CT_ERR_SHAPE, "needs %s, but its input is %s", relative ? "N x T" : "N x T x ...",
            ct_shape_text(in, shape, sizeof shape));
  *out = ct_shape(2, in->dim[0], in->dim[1]);
out:
  return rc;
}

static void positions_attributes(const void *opts, ct_op_desc_t *d)
{
  d->u.position.relative = ((const positions_t *)opts)->relative;
}

const ct_layer_ops_t ct__layer_positions = {
    .kind = "positions",
    .help = "the place of each element of a sequence, from 0: N x T",
    .opts_bytes = sizeof(positions_t),
    .opts = positions_rows,
    .inputs = 1,
    .infer = positions_infer,
    .op = CT_OP_POSITION,
    .attributes = positions_attributes,
};

/* ---- position ---- */

typedef struct {
  int64_t rows;
  int sinusoidal;
  double weight_std;
  char *first;
} position_t;

static const ct_opt_t position_rows[] = {
    CT_OPT_INT(position_t, rows, NULL, 1, 1 << 24, "places that the table has"),
    CT_OPT_BOOL(position_t, sinusoidal, "false",
                "the table is a constant: sines and cosines of the place (Vaswani et al. 2017)"),
    CT_OPT_DOUBLE(position_t, weight_std, "0.02", 0, 1e3,
                  "standard deviation of the normal initial values"),
    CT_OPT_TEXT(position_t, first, "",
                "a value N x T, such as input.first: for each element the place of the first of "
                "its document; places count from there"),
    CT_OPT_END};

static int position_expands(const void *opts, const ct_shape_t *in, const char *name,
                            const char *from, const char *const *names, ct_str_t *out)
{
  int rc = CT_OK, relative = ((const position_t *)opts)->first[0] != '\0';
  const position_t *o = opts;
  char own[200], shape[80];
  if (in->ndim != 3 || in->batch != 1)
    CT_FAIL(CT_ERR_SHAPE, "needs N x T x features, but its input is %s",
            ct__layer_shape_text(in, shape, sizeof shape));
  if (in->dim[1] > o->rows)
    CT_FAIL(CT_ERR_SHAPE, "rows: %" PRId64 " places for sequences of %" PRId64 " elements", o->rows,
            in->dim[1]);
  ct_text_fit(own, sizeof own, "%s.weight", name);
  CT_TRY(ct_str_add(out, "- {positions: {relative: %s}, name: %s.places, from: %s}\n",
                    relative ? "yes" : "no", name, relative ? o->first : from));
  CT_TRY(ct_str_add(out,
                    "- {embedding: {rows: %" PRId64 ", dim: %" PRId64
                    ", weight_std: %.17g, sinusoidal: %s}, name: %s.rows, weights: [%s]}\n",
                    o->rows, in->dim[2], o->weight_std, o->sinusoidal ? "yes" : "no", name,
                    names && names[0] ? names[0] : own));
  CT_TRY(ct_str_add(out, "- {add: {}, name: %s, from: [%s, %s.rows]}\n", name, from, name));
out:
  return rc;
}

const ct_layer_ops_t ct__layer_position = {
    .kind = "position",
    .help = "adds a row of a table for the place of each element of a sequence",
    .opts_bytes = sizeof(position_t),
    .opts = position_rows,
    .inputs = 1,
    .general = 1,
    .expands = position_expands,
    .op = CT_OP_ADD,
};

/* ---- rope ---- */

typedef struct {
  int64_t heads, head_dim;
  int pairing, scaling;
  double theta, factor, low, high, original;
} rope_t;

static const ct_opt_t rope_rows[] = {
    CT_OPT_INT(rope_t, heads, "0", 0, 1 << 16,
               "heads that are rotated, the first ones of the input; 0: all"),
    CT_OPT_INT(rope_t, head_dim, "0", 0, CT_ROPE_MOST, "features of a head; 0: features / heads"),
    CT_OPT_DOUBLE(rope_t, theta, "10000", 1e-3, 1e12, "base of the frequencies"),
    CT_OPT_CHOICE(rope_t, pairing, "half", "half|interleaved",
                  "feature i is paired with i + head_dim / 2 (Hugging Face), or 2i with 2i + 1 "
                  "(Meta)"),
    CT_OPT_CHOICE(rope_t, scaling, "none", "none|linear|llama3",
                  "for longer contexts: all frequencies, or the low ones (Llama 3.1), are divided "
                  "by `factor`"),
    CT_OPT_DOUBLE(rope_t, factor, "8", 1e-3, 1e6, "divisor of scaled frequencies"),
    CT_OPT_DOUBLE(rope_t, low, "1", 1e-3, 1e6, "llama3: below so many turns they are divided"),
    CT_OPT_DOUBLE(rope_t, high, "4", 1e-3, 1e6, "llama3: above so many turns they are not"),
    CT_OPT_DOUBLE(rope_t, original, "8192", 1, 1e12, "llama3: context in which turns are counted"),
    CT_OPT_END};

static int rope_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const rope_t *o = opts;
  char shape[80];
  ct_shape_text(in, shape, sizeof shape);
  if (in->ndim != 3) CT_FAIL(CT_ERR_SHAPE, "needs N x T x features, but its input is %s", shape);
  if (!o->heads && !o->head_dim) CT_FAIL(CT_ERR_SHAPE, "give heads or head_dim");
  int64_t dim = o->head_dim ? o->head_dim : in->dim[2] / o->heads;
  if (dim < 2 || dim % 2 || dim > CT_ROPE_MOST || in->dim[2] % dim || o->heads * dim > in->dim[2])
    CT_FAIL(CT_ERR_SHAPE,
            "%" PRId64 " heads of %" PRId64
            " features do not fit its input, %s: heads have an even "
            "number of features, up to %d",
            o->heads, dim, shape, CT_ROPE_MOST);
  if (o->scaling == CT_ROPE_LLAMA3 && o->high <= o->low)
    CT_FAIL(CT_ERR_SHAPE, "high: %g is not above low, %g", o->high, o->low);
  if (in[1].ndim && (in[1].ndim != 2 || in[1].dim[1] != in->dim[1]))
    CT_FAIL(CT_ERR_SHAPE, "its places are %s, not N x %" PRId64,
            ct_shape_text(&in[1], shape, sizeof shape), in->dim[1]);
  *out = *in;
out:
  return rc;
}

static void rope_attributes(const void *opts, ct_op_desc_t *d)
{
  const rope_t *o = opts;
  int64_t dim = o->head_dim ? o->head_dim : d->x.dim[2] / o->heads;
  d->u.rope = (ct_rope_t){.heads = (int)(o->heads ? o->heads : d->x.dim[2] / dim),
                          .dim = (int)dim,
                          .interleaved = o->pairing,
                          .scaling = o->scaling,
                          .theta = o->theta,
                          .factor = o->factor,
                          .low = o->low,
                          .high = o->high,
                          .original = o->original};
}

const ct_layer_ops_t ct__layer_rope = {
    .kind = "rope",
    .help = "rotary position embedding of heads: from: [N x T x features, places]; places are "
            "optional",
    .opts_bytes = sizeof(rope_t),
    .opts = rope_rows,
    .inputs = 2,
    .optional = 1,
    .infer = rope_infer,
    .op = CT_OP_ROPE,
    .attributes = rope_attributes,
};
