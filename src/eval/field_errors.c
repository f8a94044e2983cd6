/* Errors of fields.
 *
 * The outputs of a batch are on the host by now: as many values as the targets that came from
 * there.  A sample's channel is summed in double precision in eight interleaved sums, which the
 * compiler keeps in vector registers.  The sums over samples are exact, so the results are the
 * same at any number of ranks. */
#include "eval/field_errors.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* The loops over places are vectorised in a build with -O2 too. */
#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3", "no-trapping-math")
#endif

enum { LANES = 8 };

/* Sums over a channel of a sample. */
typedef struct channel {
  int64_t known;           /* targets that are not NaN; the others are excluded */
  double square, absolute; /* of prediction minus target */
  double target, power;    /* of the targets, and of their squares */
  double variance;         /* of the targets */
} channel_t;

int ct__field_errors_open(ct__field_errors_t *s, int64_t places)
{
  if (!s->channels) return CT_OK;
  s->rows = s->channels <= CT_EVAL_CHANNELS ? (int)s->channels : 1;
  s->row = ct_mem_array(s->rows, sizeof *s->row, "the errors of channels");
  if (s->sigmoid) s->predicted = ct_mem_array(places, sizeof *s->predicted, "the predictions");
  return s->row && (s->predicted || !s->sigmoid) ? CT_OK : CT_ERR_NOMEM;
}

void ct__field_errors_close(ct__field_errors_t *s)
{
  ct_mem_free(s->row);
  ct_mem_free(s->predicted);
  *s = (ct__field_errors_t){0};
}

/* ---- a channel of a sample ---- */

static double add_lanes(const double lane[LANES])
{
  double sum = 0;
  for (int k = 0; k < LANES; k++)
    sum += lane[k];
  return sum;
}

/* The sums of values k, k + LANES, … */
typedef struct lanes {
  double known[LANES], square[LANES], absolute[LANES], target[LANES], power[LANES];
} lanes_t;

static inline void add_value(lanes_t *s, int k, double out, double target)
{
  int known = target == target;
  double from = known ? out - target : 0;
  target = known ? target : 0;
  s->known[k] += known;
  s->square[k] += from * from;
  s->absolute[k] += fabs(from);
  s->target[k] += target;
  s->power[k] += target * target;
}

static void sum_errors(const float *out, const float *targets, int64_t n, channel_t *c)
{
  lanes_t s = {0};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      add_value(&s, k, out[i + k], targets[i + k]);
  for (int k = 0; i + k < n; k++)
    add_value(&s, k, out[i + k], targets[i + k]);
  c->known = (int64_t)add_lanes(s.known);
  c->square = add_lanes(s.square);
  c->absolute = add_lanes(s.absolute);
  c->target = add_lanes(s.target);
  c->power = add_lanes(s.power);
}

static inline double square_from(double target, double mean)
{
  double from = target == target ? target - mean : 0;
  return from * from;
}

/* The unbiased variance; NaN of a single target. */
static double variance(const float *targets, int64_t n, const channel_t *c)
{
  double square[LANES] = {0}, mean = c->target / (double)c->known;
  int64_t i = 0;
  if (c->known < 2) return NAN;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      square[k] += square_from(targets[i + k], mean);
  for (int k = 0; i + k < n; k++)
    square[k] += square_from(targets[i + k], mean);
  return add_lanes(square) / (double)(c->known - 1);
}

static channel_t sum_channel(ct__field_errors_t *s, const ct__compared_t *b, int64_t first)
{
  channel_t c;
  const float *targets = b->targets + first, *out = b->out + first;
  for (int64_t i = 0; s->sigmoid && i < b->places; i++)
    s->predicted[i] = (float)(1 / (1 + exp(-(double)out[i])));
  if (s->sigmoid) out = s->predicted;
  sum_errors(out, targets, b->places, &c);
  c.variance = variance(targets, b->places, &c);
  return c;
}

/* ---- a batch ---- */

/* The definition of The Well: the variance is that of the sample's channel over its places. */
static double vrmse_of(const channel_t *c)
{
  return sqrt(c->square / (double)c->known / (c->variance + 1e-7));
}

static void add_channel(ct__channel_sums_t *row, const channel_t *c)
{
  ct__exact_add(&row->square, c->square);
  ct__exact_add(&row->absolute, c->absolute);
  row->values += c->known;
  if (c->known < 2) return; /* it has no variance */
  ct__exact_add(&row->vrmse, vrmse_of(c));
  row->channels++;
}

void ct__field_errors_batch(ct__field_errors_t *s, const ct__compared_t *b)
{
  for (int64_t i = 0; s->channels && i < b->n; i++) {
    double square = 0, power = 0;
    int64_t known = 0;
    for (int64_t k = 0; k < b->classes; k++) {
      channel_t c = sum_channel(s, b, (i * b->classes + k) * b->places);
      add_channel(&s->row[s->rows > 1 ? k : 0], &c);
      square += c.square;
      power += c.power;
      known += c.known;
    }
    if (!known) continue;
    ct__exact_add(&s->relative_l2, power > 0 ? sqrt(square / power) : square > 0 ? INFINITY : 0);
    s->samples++;
  }
}

/* ---- of all ranks ---- */

/* Adds a row to the sums over all rows. */
static void add_row(const ct__channel_sums_t *row, ct__channel_sums_t *all)
{
  const int64_t *from = (const int64_t *)row;
  int64_t *to = (int64_t *)all;
  for (size_t i = 0; i < sizeof *row / sizeof *from; i++)
    to[i] += from[i];
}

static ct_eval_channel_t channel_of(const ct__channel_sums_t *row)
{
  double values = row->values ? (double)row->values : NAN;
  return (ct_eval_channel_t){
      .mae = ct__exact_value(&row->absolute) / values,
      .rmse = sqrt(ct__exact_value(&row->square) / values),
      .vrmse = row->channels ? ct__exact_value(&row->vrmse) / (double)row->channels : NAN};
}

void ct__field_errors_result(ct__field_errors_t *s, const ct_topo_t *topo, ct_eval_result_t *out)
{
  ct__channel_sums_t all = {0};
  if (!s->channels) return;
  ct_agree_sum(topo, (int64_t *)s->row, s->rows * (int64_t)(sizeof *s->row / sizeof(int64_t)));
  ct_agree_sum(topo, (int64_t *)&s->relative_l2, sizeof s->relative_l2 / sizeof(int64_t));
  ct_agree_sum(topo, &s->samples, 1);
  for (int k = 0; k < s->rows; k++)
    add_row(&s->row[k], &all);
  for (int k = 0; s->rows == s->channels && k < s->rows; k++)
    out->channel[out->channels++] = channel_of(&s->row[k]);
  ct_eval_channel_t total = channel_of(&all);
  out->more.of[CT_SCORE_RMSE] = total.rmse;
  out->more.of[CT_SCORE_VRMSE] = total.vrmse;
  out->more.of[CT_SCORE_RELATIVE_L2] =
      s->samples ? ct__exact_value(&s->relative_l2) / (double)s->samples : NAN;
}
