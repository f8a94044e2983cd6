/* Recurrent layers as ONNX nodes. */
#include "onnx/onnx_layer.h"

/* ONNX's recurrent nodes expect the steps as first dim, and the directions as second. */
static void recurrent(ct__onnx_t *o, const ct__onnx_layer_t *l, const char *node, int64_t gates,
                      ct__onnx_how_t how, ct__onnx_how_t biases, const char *word)
{
  int64_t features = l->d->x.dim[2], hidden = l->d->y.dim[2], one = 1;
  const int64_t swap[3] = {1, 0, 2}, w_dim[3] = {1, gates * hidden, features};
  const int64_t r_dim[3] = {1, gates * hidden, hidden}, b_dim[2] = {1, 2 * gates * hidden};
  const char *w = ct__onnx_weight(o, l->id, 0, how, word, 1, 3, w_dim);
  const char *r = ct__onnx_weight(o, l->id, 1, how, word, 1, 3, r_dim);
  const char *b = l->d->u.rnn.no_bias ? NULL : ct__onnx_made(o, l->id, 2, biases, word, 2, b_dim);
  const char *axis = ct__onnx_const_ints(o, l->id, "axis", 1, 1, &one);
  const char *steps = ct__onnx_name(o, l->id, "steps"), *states = ct__onnx_name(o, l->id, "states");
  const char *one_way = ct__onnx_name(o, l->id, "one_way");
  ct__onnx_node(o, "Transpose", OUT(steps), IN(l->x));
  ct__onnx_ints(o, "perm", 3, swap);
  ct__onnx_node(o, node, OUT(states), IN(steps, w, r, b));
  ct__onnx_int(o, "hidden_size", hidden);
  if (l->d->u.rnn.reverse) ct__onnx_text(o, "direction", "reverse");
  if (l->d->kind == CT_OP_GRU) ct__onnx_int(o, "linear_before_reset", 1);
  ct__onnx_node(o, "Squeeze", OUT(one_way), IN(states, axis));
  ct__onnx_node(o, "Transpose", OUT(l->y), IN(one_way));
  ct__onnx_ints(o, "perm", 3, swap);
}

void ct__onnx_lstm(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  recurrent(o, l, "LSTM", 4, CT__ONNX_GATES, CT__ONNX_BIASES, "iofc");
}

void ct__onnx_gru(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  recurrent(o, l, "GRU", 3, CT__ONNX_GRU_GATES, CT__ONNX_GRU_BIASES, "zrh");
}
