/* One LSTM layer (Hochreiter and Schmidhuber, 1997; Gers et al., 2000), with the semantics of
 * torch.nn.LSTM(batch_first = True): gates in the order i, f, g, o; initial states are zero.  In
 * reverse the first step is the last of the sequence.
 *
 *     i, f, o = sigmoid(W_ih x + b_ih + W_hh h' + b_hh), g = tanh(…)
 *     c = f c' + i g,  h = o tanh(c)                         (primes: previous step)
 *
 * Saved for backward: the four gates and c of each step. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

typedef struct net {
  int64_t n, t, f, h;
  const ct_op_args_t *a;
  int reverse, bias;
} net_t;

/* Saved arrays of one step, with h elements each. */
enum { I, F, G, O, C, PARTS };

static net_t net(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  return (net_t){d->x.dim[0], d->x.dim[1],      d->x.dim[2],      d->y.dim[2],
                 a,           d->u.rnn.reverse, !d->u.rnn.no_bias};
}

/* Returns the row of step s of sample n, in order of computation. */
static int64_t row_of(const net_t *k, int64_t n, int64_t s)
{
  return n * k->t + (k->reverse ? k->t - 1 - s : s);
}

/* Returns the distance of the row of the step before. */
static int64_t past(const net_t *k)
{
  return k->reverse ? 1 : -1;
}

static double dot(const float *a, const float *b, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += (double)a[i] * b[i];
  return sum;
}

static double sigmoid(double v)
{
  return 1 / (1 + exp(-v));
}

/* Returns the pre-activation of gate row r at step s of sample n. */
static double gate(const net_t *k, int64_t n, int64_t s, int64_t r)
{
  const float *w_ih = k->a->w[0], *w_hh = k->a->w[1], *b_ih = k->a->w[2], *b_hh = k->a->w[3];
  const float *x = (const float *)k->a->x + row_of(k, n, s) * k->f;
  const float *y = (const float *)k->a->y + row_of(k, n, s) * k->h;
  double sum = (k->bias ? (double)b_ih[r] + b_hh[r] : 0) + dot(w_ih + r * k->f, x, k->f);

  if (s > 0) sum += dot(w_hh + r * k->h, y + past(k) * k->h, k->h);
  return sum;
}

static void step_forward(const net_t *k, int64_t n, int64_t s, double *kept)
{
  float *y = (float *)k->a->y + row_of(k, n, s) * k->h;
  int64_t h = k->h;

  for (int64_t r = 0; r < 4 * h; r++) {
    double v = gate(k, n, s, r);
    kept[r] = r / h == G ? tanh(v) : sigmoid(v);
  }
  for (int64_t j = 0; j < h; j++) {
    double before = s > 0 ? kept[C * h + j + past(k) * PARTS * h] : 0;
    kept[C * h + j] = kept[F * h + j] * before + kept[I * h + j] * kept[G * h + j];
    y[j] = (float)(kept[O * h + j] * tanh(kept[C * h + j]));
  }
}

static void lstm_forward(const net_t *k, double *kept)
{
  for (int64_t n = 0; n < k->n; n++) {
    for (int64_t s = 0; s < k->t; s++)
      step_forward(k, n, s, kept + row_of(k, n, s) * PARTS * k->h);
  }
}

/* Computes the gradients of the pre-activations at one step.  dh, dc: gradients from the next step;
 * dc becomes the gradient for the previous step. */
static void step_backward(const net_t *k, int64_t n, int64_t s, const double *kept,
                          const double *dh, double *dc, double *dgate)
{
  const float *dy = (const float *)k->a->dy + row_of(k, n, s) * k->h;
  int64_t h = k->h;

  for (int64_t j = 0; j < h; j++) {
    double i = kept[I * h + j], f = kept[F * h + j], g = kept[G * h + j], o = kept[O * h + j];
    double before = s > 0 ? kept[C * h + j + past(k) * PARTS * h] : 0;
    double c = tanh(kept[C * h + j]), dy_h = dy[j] + dh[j];
    double dcell = dc[j] + dy_h * o * (1 - c * c);
    dgate[I * h + j] = dcell * g * i * (1 - i);
    dgate[F * h + j] = dcell * before * f * (1 - f);
    dgate[G * h + j] = dcell * i * (1 - g * g);
    dgate[O * h + j] = dy_h * c * o * (1 - o);
    dc[j] = dcell * f;
  }
}

static void sample_backward(const net_t *k, int64_t n, const double *kept, double *dgate,
                            double *dh, double *dc)
{
  const float *w_hh = k->a->w[1];
  int64_t h = k->h;

  memset(dh, 0, (size_t)h * sizeof *dh);
  memset(dc, 0, (size_t)h * sizeof *dc);
  for (int64_t s = k->t - 1; s >= 0; s--) {
    int64_t at = row_of(k, n, s);
    double *dg = dgate + at * 4 * h;
    step_backward(k, n, s, kept + at * PARTS * h, dh, dc, dg);
    for (int64_t j = 0; j < h; j++) {
      dh[j] = 0;
      for (int64_t r = 0; r < 4 * h; r++)
        dh[j] += dg[r] * w_hh[r * h + j];
    }
  }
}

static void lstm_backward_data(const net_t *k, const double *dgate)
{
  const float *w_ih = k->a->w[0];
  float *dx = k->a->dx;

  for (int64_t at = 0; at < k->n * k->t; at++) {
    for (int64_t f = 0; f < k->f; f++) {
      double sum = 0;
      for (int64_t r = 0; r < 4 * k->h; r++)
        sum += dgate[at * 4 * k->h + r] * w_ih[r * k->f + f];
      dx[at * k->f + f] = (float)sum;
    }
  }
}

/* Returns the sum over all steps of the gradient of gate row r times element i of a row of v; v has
 * a row of `wide` elements per step.  back 1: uses the row of the previous step, and skips the
 * first step. */
static double row_sum(const net_t *k, const double *dgate, int64_t r, const float *v, int64_t wide,
                      int64_t i, int back)
{
  double sum = 0;
  for (int64_t at = 0; at < k->n * k->t; at++) {
    if (back && at == row_of(k, at / k->t, 0)) continue;
    sum += dgate[at * 4 * k->h + r] * (v ? v[(at + back * past(k)) * wide + i] : 1);
  }
  return sum;
}

static void lstm_backward_param(const net_t *k, const double *dgate)
{
  float *dw_ih = k->a->dw[0], *dw_hh = k->a->dw[1], *db_ih = k->a->dw[2], *db_hh = k->a->dw[3];

  for (int64_t r = 0; r < 4 * k->h; r++) {
    for (int64_t f = 0; f < k->f; f++)
      dw_ih[r * k->f + f] = (float)row_sum(k, dgate, r, k->a->x, k->f, f, 0);
    for (int64_t j = 0; j < k->h; j++)
      dw_hh[r * k->h + j] = (float)row_sum(k, dgate, r, k->a->y, k->h, j, 1);
    if (k->bias) db_ih[r] = db_hh[r] = (float)row_sum(k, dgate, r, NULL, 0, 0, 0);
  }
}

static int lstm_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  net_t k = net(d, a);
  int64_t steps = k.n * k.t;
  double *dgate = a->scratch;

  if (a->pass & CT_FWD) lstm_forward(&k, ct_op_goes_back(d) ? a->saved : a->scratch);
  if (!(a->pass & (CT_BWD_DATA | CT_BWD_PARAM))) return CT_OK;
  for (int64_t n = 0; n < k.n; n++) {
    double *dh = dgate + steps * 4 * k.h;
    sample_backward(&k, n, a->saved, dgate, dh, dh + k.h);
  }
  if (a->pass & CT_BWD_DATA) lstm_backward_data(&k, dgate);
  if (a->pass & CT_BWD_PARAM) lstm_backward_param(&k, dgate);
  return CT_OK;
}

static void lstm_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  int64_t h = d->y.dim[2], steps = d->x.dim[0] * d->x.dim[1];
  size_t kept = (size_t)(steps * PARTS * h) * sizeof(double);

  info->scratch = kept;
  if (!ct_op_goes_back(d)) return;
  info->saved = kept;
  info->scratch = (size_t)((4 * steps + 2) * h) * sizeof(double);
}

const ct__ref_kind_t ct__ref_lstm = {.run = lstm_run, .needs = lstm_needs};
