/* Rules: recurrent networks.  A level that begins with zeros is one layer.  With another initial
 * state, a projection, or where the last cell state is used, the steps become layers one by one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "import/import.h"

enum { RNN_STEPS = 512 }; /* most steps, over all levels, that become layers one by one */

/* A recurrent network. */
typedef struct rnn {
  const char *kind;  /* lstm, gru, tanh, relu */
  int gates;         /* 4, 3, 1, 1 */
  int levels, ways;  /* ways: 2 if bidirectional */
  int bias, first;   /* first: the batch is dim 0 */
  int per;           /* parameters per level and way */
  const int *weight; /* [levels * ways * per]: values */
  double dropout;
  int h0, c0; /* layers of the initial state, -1: zeros */
  int unroll;
  int64_t hidden, steps;
} rnn_t;

/* The state of one level and direction. */
typedef struct state {
  int h, c; /* layers, N x features; -1: zeros */
} state_t;

/* ---- one step ---- */

static int rnn_part(ct__im_t *t, int x, int64_t size, int i, const char *act, int *out)
{
  int rc = CT_OK;
  CT_TRY(ct__im_slice(t, x, t->layer[x].shape.ndim - 1, i * size, (i + 1) * size, 1, out));
  if (act) CT_TRY(ct__im_one(t, out, act, &t->layer[*out].shape, *out, NULL));
out:
  return rc;
}

/* x w^T + b, with parameters of the network. */
static int rnn_linear(ct__im_t *t, int x, int weight, int bias, int *out)
{
  int rc = CT_OK;
  const ct_shape_t *s = &t->layer[x].shape;
  int64_t width = t->g->value[weight].dim[0].n;
  ct_shape_t y = ct__im_with(s, s->ndim - 1, width);
  CT_TRY(ct__im_one(t, out, "linear", &y, x, "out: %" PRId64 "%s", width,
                    bias < 0 ? ", bias: no" : ""));
  ct__im_weight(t, *out, "weight", weight);
  if (bias >= 0) ct__im_weight(t, *out, "bias", bias);
out:
  return rc;
}

static int rnn_lstm_step(ct__im_t *t, int x, int64_t size, state_t *s)
{
  int rc = CT_OK, i, f, g, o, y;
  CT_TRY(rnn_part(t, x, size, 0, "sigmoid", &i));
  CT_TRY(rnn_part(t, x, size, 1, "sigmoid", &f));
  CT_TRY(rnn_part(t, x, size, 2, "tanh", &g));
  CT_TRY(rnn_part(t, x, size, 3, "sigmoid", &o));
  CT_TRY(ct__im_binary(t, "mul", i, g, &y));
  if (s->c >= 0) CT_TRY(ct__im_binary(t, "mul", f, s->c, &f));
  if (s->c >= 0) CT_TRY(ct__im_binary(t, "add", f, y, &y));
  s->c = y;
  CT_TRY(ct__im_one(t, &y, "tanh", &t->layer[y].shape, y, NULL));
  CT_TRY(ct__im_binary(t, "mul", o, y, &s->h));
out:
  return rc;
}

/* a, b: the products of the input and of the state. */
static int rnn_gru_step(ct__im_t *t, int a, int b, int64_t size, state_t *s)
{
  int rc = CT_OK, r, z, n, part;
  CT_TRY(rnn_part(t, a, size, 0, NULL, &r));
  CT_TRY(rnn_part(t, b, size, 0, NULL, &part));
  CT_TRY(ct__im_binary(t, "add", r, part, &r));
  CT_TRY(ct__im_one(t, &r, "sigmoid", &t->layer[r].shape, r, NULL));
  CT_TRY(rnn_part(t, a, size, 1, NULL, &z));
  CT_TRY(rnn_part(t, b, size, 1, NULL, &part));
  CT_TRY(ct__im_binary(t, "add", z, part, &z));
  CT_TRY(ct__im_one(t, &z, "sigmoid", &t->layer[z].shape, z, NULL));
  CT_TRY(rnn_part(t, a, size, 2, NULL, &n));
  CT_TRY(rnn_part(t, b, size, 2, NULL, &part));
  CT_TRY(ct__im_binary(t, "mul", r, part, &part));
  CT_TRY(ct__im_binary(t, "add", n, part, &n));
  CT_TRY(ct__im_one(t, &n, "tanh", &t->layer[n].shape, n, NULL));
  /* n + z (h - n) */
  CT_TRY(ct__im_binary(t, "sub", s->h, n, &part));
  CT_TRY(ct__im_binary(t, "mul", z, part, &part));
  CT_TRY(ct__im_binary(t, "add", n, part, &s->h));
out:
  return rc;
}

/* Makes zeros of the shape of a state; gates: the product of the input. */
static int rnn_zeros(ct__im_t *t, int gates, int64_t size, int *out)
{
  int rc = CT_OK, zero;
  float *data = ct__im_alloc(t, 1, sizeof *data);
  ct_shape_t one = ct_shape(1, 1);
  const ct_shape_t *g = &t->layer[gates].shape;
  ct_shape_t s = ct__im_with(g, g->ndim - 1, size);
  if (!data) return CT_ERR_NOMEM;
  CT_TRY(ct__im_constant(t, &one, data, &zero));
  CT_TRY(ct__im_expand(t, zero, &s, out));
out:
  return rc;
}

/* One step: x is the product of the input and its weight.  w: values of the state's weight and
 * bias, and of the projection or -1. */
static int rnn_step(ct__im_t *t, const rnn_t *r, int x, const int w[3], state_t *s)
{
  int rc = CT_OK, h;
  if (s->h < 0) {
    int64_t size = w[2] >= 0 ? t->g->value[w[2]].dim[0].n : r->hidden;
    CT_TRY(rnn_zeros(t, x, size, &s->h));
  }
  CT_TRY(rnn_linear(t, s->h, w[0], w[1], &h));
  if (strcmp(r->kind, "gru") == 0) return rnn_gru_step(t, x, h, r->hidden, s);
  CT_TRY(ct__im_binary(t, "add", x, h, &x));
  if (strcmp(r->kind, "lstm") == 0)
    CT_TRY(rnn_lstm_step(t, x, r->hidden, s));
  else
    CT_TRY(ct__im_one(t, &s->h, r->kind, &t->layer[x].shape, x, NULL));
  if (w[2] >= 0) CT_TRY(rnn_linear(t, s->h, w[2], -1, &s->h));
out:
  return rc;
}

/* ---- one level and direction ---- */

/* All steps of N x steps x features; *out: the states of all steps. */
static int rnn_unroll(ct__im_t *t, const rnn_t *r, int x, const int *weight, int back, state_t *s,
                      int *out)
{
  int rc = CT_OK, h[RNN_STEPS], w[3] = {weight[1], r->bias ? weight[3] : -1, -1};
  if (r->per == (r->bias ? 5 : 3)) w[2] = weight[r->per - 1];
  CT_TRY(rnn_linear(t, x, weight[0], r->bias ? weight[2] : -1, &x));
  for (int i = 0; i < r->steps; i++) {
    int at = back ? (int)r->steps - 1 - i : i, one;
    CT_TRY(ct__im_slice(t, x, 1, at, at + 1, 1, &one));
    ct_shape_t flat = ct__im_reduced(&t->layer[one].shape, 2, 0);
    CT_TRY(ct__im_reshape(t, one, &flat, &one));
    CT_TRY(rnn_step(t, r, one, w, s));
    const ct_shape_t *y = &t->layer[s->h].shape;
    ct_shape_t step = ct_shape(3, y->dim[0], 1, y->dim[1]);
    step.batch = 1;
    CT_TRY(ct__im_reshape(t, s->h, &step, &h[at]));
  }
  CT_TRY(ct__im_concat(t, (int)r->steps, h, 1, out));
out:
  return rc;
}

/* The layer of a level and direction. */
static int rnn_layer(ct__im_t *t, const rnn_t *r, int x, const int *weight, int back, state_t *s,
                     int *out)
{
  static const char *const ends[2][4] = {
      {"weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"},
      {"weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse"}};
  int rc = CT_OK;
  ct_shape_t y = ct__im_with(&t->layer[x].shape, 2, r->hidden);
  CT_TRY(ct__im_one(t, out, r->kind, &y, x, "hidden: %" PRId64 "%s%s", r->hidden,
                    back ? ", reverse: yes" : "", r->bias ? "" : ", bias: no"));
  for (int i = 0; i < r->per; i++)
    ct__im_weight(t, *out, ends[back][i], weight[i]);
  ct_shape_t last = ct__im_reduced(&y, 2, 0);
  if (r->steps == 1)
    CT_TRY(ct__im_reshape(t, *out, &last, &s->h));
  else
    CT_TRY(ct__im_one(t, &s->h, "select", &last, *out, "index: %d", back ? 0 : -1));
out:
  return rc;
}

/* ---- the whole network ---- */

/* Takes the part of a state of all levels, levels x N x features. */
static int rnn_initial(ct__im_t *t, int all, int i, int *out)
{
  int rc = CT_OK;
  *out = -1;
  if (all < 0) return CT_OK;
  CT_TRY(ct__im_slice(t, all, 0, i, i + 1, 1, out));
  ct_shape_t s = ct__im_reduced(&t->layer[*out].shape, 1, 0);
  CT_TRY(ct__im_reshape(t, *out, &s, out));
out:
  return rc;
}

/* Sets an output that has the states of all levels. */
static int rnn_states(ct__im_t *t, const ct_pt2_node_t *n, int out, int count, const int *h)
{
  enum { MOST = 64 };
  int rc = CT_OK, part[MOST], all;
  if (out >= n->outs || ct__im_unused(t, n->out[out])) return CT_OK;
  for (int i = 0; i < count; i++) {
    const ct_shape_t *s = &t->layer[h[i]].shape;
    ct_shape_t y = ct_shape(3, 1, s->dim[0], s->dim[1]);
    y.batch = 2;
    CT_TRY(ct__im_reshape(t, h[i], &y, &part[i]));
  }
  CT_TRY(ct__im_concat(t, count, part, 0, &all));
  CT_TRY(ct__im_set(t, n, out, all));
out:
  return rc;
}

static int rnn_dropout(ct__im_t *t, const rnn_t *r, int *x)
{
  char number[40];
  if (r->dropout == 0) return CT_OK;
  return ct__im_one(t, x, "dropout", &t->layer[*x].shape, *x, "p: %s",
                    ct_text_number(r->dropout, number, sizeof number));
}

static int rnn_network(ct__im_t *t, const ct_pt2_node_t *n, const rnn_t *r, int x)
{
  enum { MOST = 64 };
  int rc = CT_OK, h[MOST], c[MOST], way[2];
  static const int swap[3] = {1, 0, 2};
  if (!r->first) CT_TRY(ct__im_permute(t, x, swap, &x));
  for (int l = 0; l < r->levels; l++) {
    for (int w = 0; w < r->ways; w++) {
      int i = l * r->ways + w;
      state_t s;
      CT_TRY(rnn_initial(t, r->h0, i, &s.h));
      CT_TRY(rnn_initial(t, r->c0, i, &s.c));
      const int *weight = r->weight + (size_t)i * (size_t)r->per;
      if (r->unroll)
        CT_TRY(rnn_unroll(t, r, x, weight, w, &s, &way[w]));
      else
        CT_TRY(rnn_layer(t, r, x, weight, w, &s, &way[w]));
      h[i] = s.h;
      c[i] = s.c;
    }
    CT_TRY(ct__im_concat(t, r->ways, way, 2, &x));
    if (l < r->levels - 1) CT_TRY(rnn_dropout(t, r, &x));
  }
  if (!r->first) CT_TRY(ct__im_permute(t, x, swap, &x));
  CT_TRY(ct__im_set(t, n, 0, x));
  CT_TRY(rnn_states(t, n, 1, r->levels * r->ways, h));
  if (r->unroll) CT_TRY(rnn_states(t, n, 2, r->levels * r->ways, c));
out:
  return rc;
}

/* Reads an initial state; -1 if it is zero. */
static int rnn_hidden(ct__im_t *t, int value, int *layer)
{
  double number;
  *layer = -1;
  if (value < 0 || (ct__im_uniform(t, value, &number) && number == 0)) return CT_OK;
  return ct__im_operand(t, value, layer);
}

static int rnn_read(ct__im_t *t, const ct_pt2_node_t *n, rnn_t *r, int x)
{
  int rc = CT_OK, count, both;
  int64_t levels;
  const int *state;
  const ct_shape_t s = t->layer[x].shape;
  r->h0 = r->c0 = -1;
  r->gates = strcmp(r->kind, "lstm") == 0 ? 4 : strcmp(r->kind, "gru") == 0 ? 3 : 1;
  CT_TRY(ct_pt2_bool(t->g, n, "has_biases", &r->bias));
  CT_TRY(ct_pt2_int(t->g, n, "num_layers", &levels));
  CT_TRY(ct_pt2_number(t->g, n, "dropout", &r->dropout));
  CT_TRY(ct_pt2_bool(t->g, n, "bidirectional", &both));
  CT_TRY(ct_pt2_bool(t->g, n, "batch_first", &r->first));
  CT_TRY(ct_pt2_tensors(t->g, n, "params", &count, &r->weight));
  if (s.ndim != 3 || s.batch != (r->first ? 1u : 2u))
    return ct__im_refuse("its input has no dim for the batch");
  r->levels = (int)levels;
  r->ways = both ? 2 : 1;
  if (levels < 1 || levels * r->ways > 64 || count % (r->levels * r->ways))
    return ct__im_refuse("has %d parameters for %d levels", count, r->levels);
  r->per = count / (r->levels * r->ways);
  for (int i = 0; i < count; i++)
    if (r->weight[i] < 0 || t->g->value[r->weight[i]].kind != CT_PT2_PARAMETER)
      return ct__im_refuse("one of its weights is not a parameter");
  r->hidden = t->g->value[r->weight[1]].dim[0].n / r->gates;
  r->steps = s.dim[r->first ? 1 : 0];
  if (r->gates == 4) {
    CT_TRY(ct_pt2_tensors(t->g, n, "hx", &count, &state));
    CT_TRY(rnn_hidden(t, count > 0 ? state[0] : -1, &r->h0));
    CT_TRY(rnn_hidden(t, count > 1 ? state[1] : -1, &r->c0));
  } else {
    int value;
    CT_TRY(ct_pt2_tensor(t->g, n, "hx", 1, &value));
    CT_TRY(rnn_hidden(t, value, &r->h0));
  }
out:
  return rc;
}

/* Networks over sequences; data: lstm, gru, tanh, relu. */
static int rnn_sequence(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x;
  rnn_t r = {.kind = data};
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  CT_TRY(rnn_read(t, n, &r, x));
  r.unroll = r.gates == 1 || r.h0 >= 0 || r.c0 >= 0 || r.per != (r.bias ? 4 : 2) ||
             (n->outs > 2 && !ct__im_unused(t, n->out[2]));
  if (r.unroll && r.steps * r.levels * r.ways > RNN_STEPS)
    return ct__im_refuse("an initial state that is not zero, the last cell state as an output, "
                         "projections and plain RNNs are supported for up to %d steps in all "
                         "levels, but it has %d",
                         RNN_STEPS, (int)r.steps * r.levels * r.ways);
  CT_TRY(rnn_network(t, n, &r, x));
out:
  return rc;
}

/* One step; data: lstm, gru, tanh, relu. */
static int rnn_cell(ct__im_t *t, const ct_pt2_node_t *n, const void *data)
{
  int rc = CT_OK, x, wi, w[3] = {-1, -1, -1}, bi, count;
  const int *list;
  rnn_t r = {.kind = data};
  state_t s = {-1, -1};
  CT_TRY(ct__im_in(t, n, "input", 0, &x));
  CT_TRY(ct_pt2_tensor(t->g, n, "w_ih", 0, &wi));
  CT_TRY(ct_pt2_tensor(t->g, n, "w_hh", 0, &w[0]));
  CT_TRY(ct_pt2_tensor(t->g, n, "b_ih", 1, &bi));
  CT_TRY(ct_pt2_tensor(t->g, n, "b_hh", 1, &w[1]));
  r.gates = strcmp(r.kind, "lstm") == 0 ? 4 : strcmp(r.kind, "gru") == 0 ? 3 : 1;
  r.hidden = t->g->value[w[0]].dim[1].n;
  if (r.gates == 4) {
    CT_TRY(ct_pt2_tensors(t->g, n, "hx", &count, &list));
    CT_TRY(rnn_hidden(t, count > 0 ? list[0] : -1, &s.h));
    CT_TRY(rnn_hidden(t, count > 1 ? list[1] : -1, &s.c));
  } else {
    int value;
    CT_TRY(ct_pt2_tensor(t->g, n, "hx", 0, &value));
    CT_TRY(rnn_hidden(t, value, &s.h));
  }
  if (t->g->value[wi].kind != CT_PT2_PARAMETER || t->g->value[w[0]].kind != CT_PT2_PARAMETER)
    return ct__im_refuse("one of its weights is not a parameter");
  CT_TRY(rnn_linear(t, x, wi, bi, &x));
  CT_TRY(rnn_step(t, &r, x, w, &s));
  CT_TRY(ct__im_set(t, n, 0, s.h));
  if (r.gates == 4) CT_TRY(ct__im_set(t, n, 1, s.c));
out:
  return rc;
}

const ct__im_rule_t ct__im_rnns[] = {{"aten.lstm", rnn_sequence, "lstm"},
                                     {"aten.gru", rnn_sequence, "gru"},
                                     {"aten.rnn_tanh", rnn_sequence, "tanh"},
                                     {"aten.rnn_relu", rnn_sequence, "relu"},
                                     {"aten.lstm_cell", rnn_cell, "lstm"},
                                     {"aten.gru_cell", rnn_cell, "gru"},
                                     {"aten.rnn_tanh_cell", rnn_cell, "tanh"},
                                     {"aten.rnn_relu_cell", rnn_cell, "relu"},
                                     {NULL, NULL, NULL}};
