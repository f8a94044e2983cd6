/* Multilayer perceptron: [linear, ReLU] for each hidden width, then a linear layer to the classes,
 * named fc1, fc2, …  Samples of any shape are flattened. */
#include "model/ct_family.h"

#include <inttypes.h>
#include <math.h>

#include "base/ct_err.h"

static int check_widths(const ct_opt_doubles_t *hidden)
{
  int rc = CT_OK;
  for (int i = 0; i < hidden->n; i++)
    if (!(hidden->v[i] >= 1 && hidden->v[i] <= 1 << 30) || hidden->v[i] != floor(hidden->v[i]))
      CT_FAIL(CT_ERR_USAGE, "model.hidden: a width must be an integer of at least 1, not %g",
              hidden->v[i]);
out:
  return rc;
}

static int mlp_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1;
  char name[CT_NAME_MAX];
  CT_TRY(check_widths(&o->hidden));
  if (g->input.ndim > 2) CT_TRY(ct_graph_add(g, &id, "flatten", "flatten", id, -2, NULL));
  for (int i = 0; i < o->hidden.n; i++) {
    CT_TRY(ct_text_format(name, sizeof name, "fc%d", i + 1));
    CT_TRY(ct_graph_add(g, &id, name, "linear", id, -2, "out: %.0f", o->hidden.v[i]));
    CT_TRY(ct_text_format(name, sizeof name, "relu%d", i + 1));
    CT_TRY(ct_graph_add(g, &id, name, "relu", id, -2, NULL));
  }
  CT_TRY(ct_text_format(name, sizeof name, "fc%d", o->hidden.n + 1));
  CT_TRY(ct_graph_add(g, &id, name, "linear", id, -2, "out: %" PRId64, classes));
out:
  return rc;
}

const ct_family_t ct__family_mlp = {
    .name = "mlp",
    .depths = "",
    .help = "multilayer perceptron: fc1, fc2, ... with the widths `hidden`",
    .build = mlp_build,
};
