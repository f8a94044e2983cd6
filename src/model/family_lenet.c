/* LeNet-5 as it is taught today: ReLU and max-pooling replace the tanh and the trained subsampling
 * of LeCun et al. (1998).  Images under 20 pixels, such as 8x8 digits, are too small for 5x5
 * windows: their networks have 3x3 windows and more channels. */
#include "model/ct_family.h"

#include <inttypes.h>

#include "base/ct_err.h"

/* Adds a stage: convolution, ReLU, pooling by 2. */
static int stage(ct_graph_t *g, int *id, int n, int channels, int kernel, int padding)
{
  int rc = CT_OK;
  char conv[16], relu[16], pool[16];
  CT_TRY(ct_text_format(conv, sizeof conv, "conv%d", n));
  CT_TRY(ct_text_format(relu, sizeof relu, "relu%d", n));
  CT_TRY(ct_text_format(pool, sizeof pool, "pool%d", n));
  CT_TRY(ct_graph_add(g, id, conv, "conv2d", *id, -2, "out: %d, kernel: %d, padding: %d", channels,
                      kernel, padding));
  CT_TRY(ct_graph_add(g, id, relu, "relu", *id, -2, NULL));
  CT_TRY(ct_graph_add(g, id, pool, "maxpool", *id, -2, "kernel: 2"));
out:
  return rc;
}

static int lenet_build(ct_graph_t *g, const ct_model_opts_t *o, int64_t classes)
{
  int rc = CT_OK, id = -1;
  (void)o;
  int small = g->input.ndim == 4 && (g->input.dim[2] < 20 || g->input.dim[3] < 20);
  if (small) {
    CT_TRY(stage(g, &id, 1, 16, 3, 1));
    CT_TRY(stage(g, &id, 2, 32, 3, 1));
  } else {
    CT_TRY(stage(g, &id, 1, 6, 5, 2));
    CT_TRY(stage(g, &id, 2, 16, 5, 0));
  }
  CT_TRY(ct_graph_add(g, &id, "flatten", "flatten", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "fc1", "linear", id, -2, "out: 120"));
  CT_TRY(ct_graph_add(g, &id, "relu3", "relu", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "fc2", "linear", id, -2, "out: 84"));
  CT_TRY(ct_graph_add(g, &id, "relu4", "relu", id, -2, NULL));
  CT_TRY(ct_graph_add(g, &id, "fc3", "linear", id, -2, "out: %" PRId64, classes));
out:
  return rc;
}

const ct_family_t ct__family_lenet = {
    .name = "lenet",
    .depths = "",
    .help = "LeNet-5; with 3x3 windows for images under 20 pixels",
    .build = lenet_build,
};
