/* One layer of torch.nn.LSTM (batch_first) on N x T x features; outputs the hidden states of all
 * steps.
 *
 * A PyTorch module with several layers becomes several layers of this kind, with `level` 0, 1, …
 * and the module's name in `params`. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  int64_t hidden, level;
  char *params;
} lstm_t;

#define LAYERS_MAX 8
#define NAMES(l)                                                       \
  {                                                                    \
    "weight_ih_l" #l, "weight_hh_l" #l, "bias_ih_l" #l, "bias_hh_l" #l \
  }

static const ct_opt_t rows[] = {
    CT_OPT_INT(lstm_t, hidden, NULL, 1, 1 << 24, "features of the hidden state"),
    CT_OPT_INT(lstm_t, level, "0", 0, LAYERS_MAX - 1,
               "layer number at the end of the parameters' names"),
    CT_OPT_TEXT(lstm_t, params, "", "prefix of the parameters' names; empty: the layer's name"),
    CT_OPT_END};

static int lstm_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const lstm_t *o = opts;
  CT_TRY(ct__layer_want_sequence(in));
  *out = ct_shape(3, in->dim[0], in->dim[1], o->hidden);
out:
  return rc;
}

static int params(const void *opts, const ct_shape_t *in, ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  static const char *const names[LAYERS_MAX][4] = {NAMES(0), NAMES(1), NAMES(2), NAMES(3),
                                                   NAMES(4), NAMES(5), NAMES(6), NAMES(7)};
  const lstm_t *o = opts;
  int64_t gates = 4 * o->hidden;
  const ct_shape_t shape[4] = {ct_shape(2, gates, in->dim[2]), ct_shape(2, gates, o->hidden),
                               ct_shape(1, gates), ct_shape(1, gates)};
  for (int i = 0; i < 4; i++)
    spec[i] = ct__layer_uniform(names[o->level][i], shape[i], o->hidden);
  return 4;
}

static const char *prefix(const void *opts, int slot)
{
  const lstm_t *o = opts;
  (void)slot;
  return o->params[0] ? o->params : NULL;
}

const ct_layer_ops_t ct__layer_lstm = {
    .kind = "lstm",
    .help = "one LSTM layer over a sequence; outputs the hidden states of all steps",
    .opts_bytes = sizeof(lstm_t),
    .opts = rows,
    .inputs = 1,
    .infer = lstm_infer,
    .params = params,
    .prefix = prefix,
    .op = CT_OP_LSTM,
};
