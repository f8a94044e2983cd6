/* One GRU layer (Cho et al., 2014), with the semantics of torch.nn.GRU(batch_first = True): gates
 * in the order r, z, n; the initial state is zero.  In reverse the first step is the last of the
 * sequence.
 *
 *     r, z = sigmoid(W_ih x + b_ih + W_hh h' + b_hh)
 *     n = tanh(W_in x + b_in + r (W_hn h' + b_hn)),  h = (1 - z) n + z h'     (prime: previous
 * step)
 *
 * Saved for backward: r, z, n and W_hn h' + b_hn of each step. */
#include "ref/ref.h"

#include <math.h>
#include <string.h>

typedef struct net {
  int64_t n, t, f, h;
  const ct_op_args_t *a;
  int reverse, bias;
} net_t;

/* Saved arrays of one step, with h elements each; and gradients: of r, z, n with respect to the
 * inputs, and of W_hn h' + b_hn. */
enum { R, Z, N, HN, PARTS };

/* Returns the row of step s of sample n, in order of computation. */
static int64_t row_of(const net_t *k, int64_t n, int64_t s)
{
  return n * k->t + (k->reverse ? k->t - 1 - s : s);
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

/* Returns y of the step before; NULL at the first. */
static const float *state_before(const net_t *k, int64_t n, int64_t s)
{
  return s > 0 ? (const float *)k->a->y + row_of(k, n, s - 1) * k->h : NULL;
}

/* Returns W_ih x + b_ih of gate row r. */
static double of_input(const net_t *k, int64_t row, int64_t r)
{
  const float *w = k->a->w[0], *b = k->a->w[2], *x = k->a->x;
  return (k->bias ? b[r] : 0) + dot(w + r * k->f, x + row * k->f, k->f);
}

/* Returns W_hh h' + b_hh of gate row r. */
static double of_state(const net_t *k, const float *state, int64_t r)
{
  const float *w = k->a->w[1], *b = k->a->w[3];
  return (k->bias ? b[r] : 0) + (state ? dot(w + r * k->h, state, k->h) : 0);
}

static void step_forward(const net_t *k, int64_t n, int64_t s, double *kept)
{
  int64_t h = k->h, row = row_of(k, n, s);
  float *y = (float *)k->a->y + row * h;
  const float *state = state_before(k, n, s);

  for (int64_t j = 0; j < h; j++) {
    double r = sigmoid(of_input(k, row, j) + of_state(k, state, j));
    double z = sigmoid(of_input(k, row, h + j) + of_state(k, state, h + j));
    double hn = of_state(k, state, 2 * h + j);
    double g = tanh(of_input(k, row, 2 * h + j) + r * hn);
    kept[R * h + j] = r;
    kept[Z * h + j] = z;
    kept[N * h + j] = g;
    kept[HN * h + j] = hn;
    y[j] = (float)((1 - z) * g + z * (state ? state[j] : 0));
  }
}

/* Computes the gradients d of one step.  dh: gradient of y from the next step; becomes that for the
 * step before. */
static void step_backward(const net_t *k, int64_t n, int64_t s, const double *kept, double *d,
                          double *dh)
{
  int64_t h = k->h;
  const float *dy = (const float *)k->a->dy + row_of(k, n, s) * h, *w = k->a->w[1];
  const float *state = state_before(k, n, s);

  for (int64_t j = 0; j < h; j++) {
    double r = kept[R * h + j], z = kept[Z * h + j], g = kept[N * h + j], dout = dy[j] + dh[j];
    double dg = dout * (1 - z) * (1 - g * g);
    d[N * h + j] = dg;
    d[HN * h + j] = dg * r;
    d[R * h + j] = dg * kept[HN * h + j] * r * (1 - r);
    d[Z * h + j] = dout * ((state ? state[j] : 0) - g) * z * (1 - z);
    dh[j] = dout * z;
  }
  for (int64_t j = 0; j < h; j++)
    for (int64_t i = 0; i < h; i++)
      dh[j] += d[R * h + i] * w[i * h + j] + d[Z * h + i] * w[(h + i) * h + j] +
               d[HN * h + i] * w[(2 * h + i) * h + j];
}

static void gru_backward_data(const net_t *k, const double *d)
{
  const float *w = k->a->w[0];
  float *dx = k->a->dx;

  for (int64_t row = 0; row < k->n * k->t; row++) {
    for (int64_t f = 0; f < k->f; f++) {
      double sum = 0;
      for (int64_t r = 0; r < 3 * k->h; r++)
        sum += d[row * PARTS * k->h + r] * w[r * k->f + f];
      dx[row * k->f + f] = (float)sum;
    }
  }
}

/* Computes the gradients of row r of the parameters. */
static void row_gradient(const net_t *k, const double *d, int64_t r)
{
  const float *x = k->a->x;
  float *dw_ih = k->a->dw[0], *dw_hh = k->a->dw[1], *db_ih = k->a->dw[2], *db_hh = k->a->dw[3];
  int64_t h = k->h, state_part = r < 2 * h ? r : r + h; /* of n: the part HN */
  double sum_ih = 0, sum_hh = 0;

  for (int64_t f = 0; f < k->f; f++) {
    double sum = 0;
    for (int64_t row = 0; row < k->n * k->t; row++)
      sum += d[row * PARTS * h + r] * x[row * k->f + f];
    dw_ih[r * k->f + f] = (float)sum;
  }
  for (int64_t j = 0; j < h; j++) {
    double sum = 0;
    for (int64_t n = 0; n < k->n; n++)
      for (int64_t s = 1; s < k->t; s++)
        sum += d[row_of(k, n, s) * PARTS * h + state_part] * state_before(k, n, s)[j];
    dw_hh[r * h + j] = (float)sum;
  }
  for (int64_t row = 0; row < k->n * k->t; row++) {
    sum_ih += d[row * PARTS * h + r];
    sum_hh += d[row * PARTS * h + state_part];
  }
  if (!k->bias) return;
  db_ih[r] = (float)sum_ih;
  db_hh[r] = (float)sum_hh;
}

static int gru_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  net_t k = {d->x.dim[0], d->x.dim[1],      d->x.dim[2],      d->y.dim[2],
             a,           d->u.rnn.reverse, !d->u.rnn.no_bias};
  double *kept = ct_op_goes_back(d) ? a->saved : a->scratch, *grad = a->scratch;
  int64_t size = PARTS * k.h;

  for (int64_t n = 0; n < k.n && a->pass & CT_FWD; n++)
    for (int64_t s = 0; s < k.t; s++)
      step_forward(&k, n, s, kept + row_of(&k, n, s) * size);
  if (!(a->pass & (CT_BWD_DATA | CT_BWD_PARAM))) return CT_OK;
  for (int64_t n = 0; n < k.n; n++) {
    double *dh = grad + k.n * k.t * size;
    memset(dh, 0, (size_t)k.h * sizeof *dh);
    for (int64_t s = k.t - 1; s >= 0; s--)
      step_backward(&k, n, s, kept + row_of(&k, n, s) * size, grad + row_of(&k, n, s) * size, dh);
  }
  if (a->pass & CT_BWD_DATA) gru_backward_data(&k, grad);
  for (int64_t r = 0; r < 3 * k.h && a->pass & CT_BWD_PARAM; r++)
    row_gradient(&k, grad, r);
  return CT_OK;
}

static void gru_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  int64_t h = d->y.dim[2], steps = d->x.dim[0] * d->x.dim[1];
  size_t kept = (size_t)(steps * PARTS * h) * sizeof(double);

  info->scratch = kept;
  if (!ct_op_goes_back(d)) return;
  info->saved = kept;
  info->scratch = kept + (size_t)h * sizeof(double);
}

const ct__ref_kind_t ct__ref_gru = {.run = gru_run, .needs = gru_needs};
