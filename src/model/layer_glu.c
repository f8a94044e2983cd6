/* Gated linear units: torch.nn.GLU, the first half of a dim times the sigmoid of the second one;
 * and the gated block of transformers (Shazeer, "GLU variants improve transformer", 2020). */
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

/* ---- swiglu ---- */

typedef struct {
  int64_t hidden, out;
  int bias, activation;
  double weight_std, down_std;
  char *gate, *up, *down;
} swiglu_t;

static const char *const functions[] = {"silu", "gelu", "gelu_tanh", "relu"};

static const ct_opt_t swiglu_rows[] = {
    CT_OPT_INT(swiglu_t, hidden, NULL, 1, 1 << 30, "features between the two linear layers"),
    CT_OPT_INT(swiglu_t, out, "0", 0, 1 << 30, "output features; 0: as many as the input has"),
    CT_OPT_BOOL(swiglu_t, bias, "false", "the linear layers have biases, which begin at zero"),
    CT_OPT_CHOICE(swiglu_t, activation, "silu", "silu|gelu|gelu_tanh|relu", "of the gate"),
    CT_OPT_DOUBLE(swiglu_t, weight_std, "0", 0, 1e3,
                  "standard deviation of normal initial weights; 0: PyTorch's default"),
    CT_OPT_DOUBLE(swiglu_t, down_std, "0", 0, 1e3, "the same of the last linear layer"),
    CT_OPT_TEXT(swiglu_t, gate, "gate_proj", "name of the linear layer that becomes the gate"),
    CT_OPT_TEXT(swiglu_t, up, "up_proj", "name of the one that is multiplied by the gate"),
    CT_OPT_TEXT(swiglu_t, down, "down_proj", "name of the last one"),
    CT_OPT_END};

static int add_linear(const swiglu_t *o, int64_t out, double std, const char *name,
                      const char *weights, const char *from, ct_str_t *text)
{
  return ct_str_add(text,
                    "- {linear: {out: %" PRId64 ", bias: %s, bias_init: %s, weight_std: %.17g}, "
                    "name: %s, weights: [%s.weight%s%s%s], from: %s}\n",
                    out, o->bias ? "yes" : "no", o->bias ? "zero" : "default", std, name, weights,
                    o->bias ? ", " : "", o->bias ? weights : "", o->bias ? ".bias" : "", from);
}

static int swiglu_expands(const void *opts, const ct_shape_t *in, const char *name,
                          const char *from, const char *const *names, ct_str_t *out)
{
  int rc = CT_OK;
  const swiglu_t *o = opts;
  char gate[200], up[200], down[200], act[200], product[200];
  if (names && names[0]) CT_FAIL(CT_ERR_SHAPE, "takes gate, up and down, not `weights`");
  ct_text_fit(gate, sizeof gate, "%s.%s", name, o->gate);
  ct_text_fit(up, sizeof up, "%s.%s", name, o->up);
  ct_text_fit(down, sizeof down, "%s.%s", name, o->down);
  ct_text_fit(act, sizeof act, "%s.act", name);
  ct_text_fit(product, sizeof product, "%s.mul", name);
  CT_TRY(add_linear(o, o->hidden, o->weight_std, gate, gate, from, out));
  CT_TRY(ct_str_add(out, "- {%s: {}, name: %s}\n", functions[o->activation], act));
  CT_TRY(add_linear(o, o->hidden, o->weight_std, up, up, from, out));
  CT_TRY(ct_str_add(out, "- {mul: {}, name: %s, from: [%s, %s]}\n", product, act, up));
  CT_TRY(add_linear(o, o->out ? o->out : in->dim[in->ndim - 1], o->down_std, name, down, product,
                    out));
out:
  return rc;
}

const ct_layer_ops_t ct__layer_swiglu = {
    .kind = "swiglu",
    .help = "down(silu(gate(x)) * up(x)), three linear layers",
    .opts_bytes = sizeof(swiglu_t),
    .opts = swiglu_rows,
    .inputs = 1,
    .general = 1,
    .expands = swiglu_expands,
    .op = CT_OP_LINEAR,
};
