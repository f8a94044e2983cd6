/* torch.nn.GLU: the first half of a dim, times the sigmoid of the second one. */
#include "model/layer_dims.h"
#include "model/layer_usual.h"

#include <inttypes.h>

#include "base/ct_err.h"

typedef struct {
  int64_t dim;
} glu_t;

static const ct_opt_t glu_rows[] = {
    CT_OPT_INT(glu_t, dim, "-1", -CT_MAX_DIMS, CT_MAX_DIMS - 1, "dim that is cut into halves"),
    CT_OPT_END};

static int glu_expands(const void *opts, const ct_shape_t *in, const char *name, const char *from,
                       const char *const *names, ct_str_t *out)
{
  int rc = CT_OK, dim;
  char shape[80];
  (void)names;
  CT_TRY(ct__layer_dim(in, "dim", (double)((const glu_t *)opts)->dim, &dim));
  int64_t half = in->dim[dim] / 2;
  if (in->dim[dim] % 2)
    CT_FAIL(CT_ERR_SHAPE, "dim %d of its input, %s, has no halves", dim,
            ct__layer_shape_text(in, shape, sizeof shape));
  CT_TRY(ct_str_add(out, "- {slice: {dim: %d, end: %" PRId64 "}, name: %s.a, from: %s}\n", dim,
                    half, name, from));
  CT_TRY(ct_str_add(out, "- {slice: {dim: %d, start: %" PRId64 "}, name: %s.b, from: %s}\n", dim,
                    half, name, from));
  CT_TRY(ct_str_add(out, "- {sigmoid: {}, name: %s.gate}\n", name));
  CT_TRY(ct_str_add(out, "- {mul: {}, name: %s, from: [%s.a, %s.gate]}\n", name, name, name));
out:
  return rc;
}

const ct_layer_ops_t ct__layer_glu = {
    .kind = "glu",
    .help = "the first half of a dim, times the sigmoid of the second half",
    .opts_bytes = sizeof(glu_t),
    .opts = glu_rows,
    .inputs = 1,
    .general = 1,
    .expands = glu_expands,
    .op = CT_OP_EXPR,
};
