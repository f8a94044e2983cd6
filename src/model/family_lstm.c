/* Sequence classification: torch.nn.LSTM with `depth` layers (parameters lstm.weight_ih_l0, …) and
 * a linear layer on the last hidden state (fc).  A sample is T x features, or a one-channel image
 * whose rows are the steps. */
#include "model/ct_family.h"

#include <inttypes.h>
#include <math.h>

#include "base/ct_err.h"

static int check_width(const ct_opt_doubles_t *hidden)
{
  int rc = CT_OK;
  if (hidden->n != 1 || !(hidden->v[0] >= 1 && hidden->v[0] <= 1 << 24) ||
      hidden->v[0] != floor(hidden->v[0]))
    CT_FAIL(CT_ERR_USAGE, "model.hidden: expected one integer, the features of the state");
out:
  return rc;
}

static int lstm_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1;
  char name[CT_NAME_MAX];
  CT_TRY(check_width(&o->hidden));
  if (g->input.ndim == 4) CT_TRY(ct_graph_add(g, &id, "sequence", "sequence", id, -2, NULL));
  for (int i = 0; i < o->depth; i++) {
    CT_TRY(ct_text_format(name, sizeof name, "lstm%d", i));
    CT_TRY(ct_graph_add(g, &id, name, "lstm", id, -2, "hidden: %.0f, level: %d, params: lstm",
                        o->hidden.v[0], i));
  }
  CT_TRY(ct_graph_add(g, &id, "last", "select", id, -2, "index: -1"));
  CT_TRY(ct_graph_add(g, &id, "fc", "linear", id, -2, "out: %" PRId64, classes));
out:
  return rc;
}

const ct_family_t ct__family_lstm = {
    .name = "lstm",
    .depths = "1|2|3|4|5|6|7|8",
    .depth = 1,
    .help = "LSTM layers of width `hidden`, and a linear layer on the last step",
    .build = lstm_build,
};
