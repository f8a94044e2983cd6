/* One layer and direction of torch.nn.LSTM or torch.nn.GRU (batch_first) on N x T x features;
 * outputs the hidden states of all steps.
 *
 * A PyTorch module with several layers becomes several layers of this kind, with `level` 0, 1, …
 * and the module's name in `params`; a bidirectional one has a second layer for each level, with
 * `reverse`, and a concat. */
#include "model/layer_usual.h"

#include "base/ct_err.h"

typedef struct {
  int64_t hidden, level;
  int reverse, bias;
  char *params;
} rnn_t;

#define LAYERS_MAX 8
#define NAMES(l)                                                                           \
  {                                                                                        \
    {"weight_ih_l" #l, "weight_hh_l" #l, "bias_ih_l" #l, "bias_hh_l" #l},                  \
    {                                                                                      \
      "weight_ih_l" #l "_reverse", "weight_hh_l" #l "_reverse", "bias_ih_l" #l "_reverse", \
          "bias_hh_l" #l "_reverse"                                                        \
    }                                                                                      \
  }

static const ct_opt_t rows[] = {
    CT_OPT_INT(rnn_t, hidden, NULL, 1, 1 << 24, "features of the hidden state"),
    CT_OPT_INT(rnn_t, level, "0", 0, LAYERS_MAX - 1,
               "layer number at the end of the parameters' names"),
    CT_OPT_BOOL(rnn_t, reverse, "false",
                "from the last step to the first; the parameters' names end in _reverse"),
    CT_OPT_BOOL(rnn_t, bias, "true", "add trained biases"),
    CT_OPT_TEXT(rnn_t, params, "", "prefix of the parameters' names; empty: the layer's name"),
    CT_OPT_END};

static int rnn_infer(const void *opts, const ct_shape_t *in, ct_shape_t *out)
{
  int rc = CT_OK;
  const rnn_t *o = opts;
  CT_TRY(ct__layer_want_sequence(in));
  *out = ct_shape(3, in->dim[0], in->dim[1], o->hidden);
out:
  return rc;
}

static int rnn_params(const rnn_t *o, const ct_shape_t *in, int64_t gates,
                      ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  static const char *const names[LAYERS_MAX][2][4] = {NAMES(0), NAMES(1), NAMES(2), NAMES(3),
                                                      NAMES(4), NAMES(5), NAMES(6), NAMES(7)};
  int64_t rows_of_w = gates * o->hidden;
  const ct_shape_t shape[4] = {ct_shape(2, rows_of_w, in->dim[2]),
                               ct_shape(2, rows_of_w, o->hidden), ct_shape(1, rows_of_w),
                               ct_shape(1, rows_of_w)};
  for (int i = 0; i < 4; i++)
    spec[i] = ct__layer_uniform(names[o->level][o->reverse][i], shape[i], o->hidden);
  return o->bias ? 4 : 2;
}

static int lstm_params(const void *opts, const ct_shape_t *in,
                       ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  return rnn_params(opts, in, 4, spec);
}

static int gru_params(const void *opts, const ct_shape_t *in, ct_param_spec_t spec[CT_LAYER_PARAMS])
{
  return rnn_params(opts, in, 3, spec);
}

static const char *prefix(const void *opts, int slot)
{
  const rnn_t *o = opts;
  (void)slot;
  return o->params[0] ? o->params : NULL;
}

static void rnn_attributes(const void *opts, ct_op_desc_t *d)
{
  const rnn_t *o = opts;
  d->u.rnn.reverse = o->reverse;
  d->u.rnn.no_bias = !o->bias;
}

#define KIND(word, text, kind_of_op)                                    \
  const ct_layer_ops_t ct__layer_##word = {.kind = #word,               \
                                           .help = text,                \
                                           .opts_bytes = sizeof(rnn_t), \
                                           .opts = rows,                \
                                           .inputs = 1,                 \
                                           .infer = rnn_infer,          \
                                           .params = word##_params,     \
                                           .prefix = prefix,            \
                                           .op = kind_of_op,            \
                                           .attributes = rnn_attributes};

KIND(lstm, "one LSTM layer over a sequence; outputs the hidden states of all steps", CT_OP_LSTM)
KIND(gru, "one GRU layer over a sequence; outputs the hidden states of all steps", CT_OP_GRU)
