/* CosmoFlow (Mathuriya et al., "CosmoFlow: using deep learning to learn the universe at scale",
 * 2018) as in the MLPerf HPC benchmark.  A stage is a 3x3x3 convolution, leaky ReLU and max-pool by
 * 2, with twice the filters of the stage before.  Two hidden linear layers follow, and as the
 * output 1.2 * tanh(x), for targets between -1 and 1.  The benchmark's cubes of 128 voxels a side
 * get five stages; smaller cubes get as many stages as their side can be halved. */
#include "model/ct_family.h"

#include <inttypes.h>

#include "base/ct_err.h"

enum { STAGES = 5, FILTERS = 16 };

static const char slope[] = "negative_slope: 0.3"; /* Keras' default */

static int add_stage(ct_graph_t *g, int *id, int n)
{
  int rc = CT_OK;
  char conv[16], act[16], pool[16];
  CT_TRY(ct_text_format(conv, sizeof conv, "conv%d", n + 1));
  CT_TRY(ct_text_format(act, sizeof act, "act%d", n + 1));
  CT_TRY(ct_text_format(pool, sizeof pool, "pool%d", n + 1));
  CT_TRY(
      ct_graph_add(g, id, conv, "conv3d", *id, -2, "out: %d, kernel: 3, padding: 1", FILTERS << n));
  CT_TRY(ct_graph_add(g, id, act, "leaky_relu", *id, -2, "%s", slope));
  CT_TRY(ct_graph_add(g, id, pool, "maxpool3d", *id, -2, "kernel: 2"));
out:
  return rc;
}

static int add_hidden(ct_graph_t *g, int *id, int n, int features, double dropout)
{
  int rc = CT_OK;
  char linear[16], act[16], drop[16];
  CT_TRY(ct_text_format(linear, sizeof linear, "fc%d", n));
  CT_TRY(ct_text_format(act, sizeof act, "fc%d_act", n));
  CT_TRY(ct_text_format(drop, sizeof drop, "dropout%d", n));
  CT_TRY(ct_graph_add(g, id, linear, "linear", *id, -2, "out: %d", features));
  CT_TRY(ct_graph_add(g, id, act, "leaky_relu", *id, -2, "%s", slope));
  CT_TRY(ct_graph_add(g, id, drop, "dropout", *id, -2, "p: %.17g", dropout < 0 ? 0.5 : dropout));
out:
  return rc;
}

/* Returns how many times the smallest side can be halved, but at most the number of stages. */
static int stages_of(const ct_shape_t *input)
{
  int stages = STAGES;
  for (int i = 2; i < input->ndim; i++)
    while (stages > 0 && input->dim[i] >> stages == 0)
      stages--;
  return stages;
}

static int cosmoflow_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1, stages = stages_of(&g->input);
  if (g->input.ndim != 5 || stages == 0)
    CT_FAIL(CT_ERR_SHAPE, "needs volumes (C x D x H x W) of at least 2 voxels a side");
  for (int i = 0; i < stages; i++)
    CT_TRY(add_stage(g, &id, i));
  CT_TRY(ct_graph_add(g, &id, "flatten", "flatten", id, -2, NULL));
  CT_TRY(add_hidden(g, &id, 1, 128, o->dropout));
  CT_TRY(add_hidden(g, &id, 2, 64, o->dropout));
  CT_TRY(ct_graph_add(g, &id, "fc3", "linear", id, -2, "out: %" PRId64, classes));
  CT_TRY(ct_graph_add(g, &id, "tanh", "tanh", id, -2, "scale: 1.2"));
out:
  return rc;
}

const ct_family_t ct__family_cosmoflow = {
    .name = "cosmoflow",
    .depths = "",
    .help = "CosmoFlow as in MLPerf HPC: regression of `classes` targets from volumes",
    .build = cosmoflow_build,
};
