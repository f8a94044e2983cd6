/* Ranges for int8 quantization, from histograms. */
#include "quant/ct_range.h"

#include <math.h>
#include <string.h>

void ct_range_widen(ct_range_t *r, const float *x, int64_t n)
{
  float low = 0, high = 0;
  for (int64_t i = 0; i < n; i++) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  if (low < r->low) r->low = low;
  if (high > r->high) r->high = high;
}

static int bin_of(const ct_range_t *r, double v)
{
  double at = (v - r->low) / (r->high - r->low) * CT_RANGE_BINS;
  return at >= CT_RANGE_BINS - 1 ? CT_RANGE_BINS - 1 : at > 0 ? (int)at : 0;
}

void ct_range_count(ct_range_t *r, const float *x, int64_t n)
{
  if (!(r->low < r->high)) return;
  for (int64_t i = 0; i < n; i++)
    r->bin[bin_of(r, x[i])]++;
}

void ct_range_discount(ct_range_t *r, int64_t n)
{
  if (r->low < r->high) r->bin[bin_of(r, 0)] -= n;
}

/* ---- percentile ---- */

static double edge(const ct_range_t *r, int bin)
{
  return r->low + (r->high - r->low) * bin / CT_RANGE_BINS;
}

/* Chooses the range that excludes at most half of the remaining percentage at either end. */
static void percentile(const ct_range_t *r, double percent, double *low, double *high)
{
  int64_t all = 0, below = 0, above = 0;
  int first = 0, last = CT_RANGE_BINS;
  for (int i = 0; i < CT_RANGE_BINS; i++)
    all += r->bin[i];
  double out = (double)all * (100 - percent) / 200;
  while (first < CT_RANGE_BINS - 1 && (double)(below + r->bin[first]) <= out)
    below += r->bin[first++];
  while (last > first + 1 && (double)(above + r->bin[last - 1]) <= out)
    above += r->bin[--last];
  *low = edge(r, first);
  *high = edge(r, last);
}

/* ---- entropy ---- */

/* Makes the histogram of |v| up to its maximum.  Zeros after a ReLU have no error with any range,
 * but would dominate the divergence, so the first bin is set to the second, as in NVIDIA's
 * pytorch-quantization. */
typedef struct sizes {
  double bin[CT_RANGE_BINS], most;
} sizes_t;

static void fold_sizes(const ct_range_t *r, sizes_t *s)
{
  memset(s, 0, sizeof *s);
  s->most = fmax(-r->low, r->high);
  for (int i = 0; i < CT_RANGE_BINS; i++) {
    double v = fabs((edge(r, i) + edge(r, i + 1)) / 2);
    int at = (int)(v / s->most * CT_RANGE_BINS);
    s->bin[at < CT_RANGE_BINS ? at : CT_RANGE_BINS - 1] += (double)r->bin[i];
  }
  s->bin[0] = s->bin[1];
}

/* Returns the Kullback-Leibler divergence between the first n bins and the same bins quantized to
 * \a levels levels; values beyond bin n count in the last bin. */
static double divergence(const sizes_t *s, int n, int levels)
{
  double beyond = 0, all = 0, sum = 0, kept = 0;
  for (int i = 0; i < CT_RANGE_BINS; i++)
    *(i < n ? &kept : &beyond) += s->bin[i];
  all = kept + beyond;
  if (!(kept > 0)) return INFINITY;
  for (int l = 0; l < levels; l++) {
    int from = (int)((int64_t)l * n / levels), to = (int)((int64_t)(l + 1) * n / levels);
    double total = 0;
    int used = 0;
    for (int i = from; i < to; i++) {
      total += s->bin[i];
      used += s->bin[i] > 0;
    }
    for (int i = from; i < to; i++) {
      double p = s->bin[i] + (i == n - 1 ? beyond : 0);
      double q = s->bin[i] > 0 ? total / used / kept : 1e-12;
      if (p > 0) sum += p / all * log(p / all / q);
    }
  }
  return sum;
}

static void entropy(const ct_range_t *r, double *low, double *high)
{
  enum { STEP = 16 };
  sizes_t s;
  int levels = r->low < 0 ? 128 : 256, best = CT_RANGE_BINS;
  double least = INFINITY;
  fold_sizes(r, &s);
  for (int n = CT_RANGE_BINS; n >= levels; n -= STEP) {
    double d = divergence(&s, n, levels);
    if (d < least) {
      least = d;
      best = n;
    }
  }
  double most = s.most * best / CT_RANGE_BINS;
  *low = fmax(r->low, -most);
  *high = fmin(r->high, most);
}

void ct_range_choose(const ct_range_t *r, ct_range_method_t method, double percent, float out[2])
{
  double low = r->low, high = r->high;
  if (low < high && method == CT_RANGE_PERCENTILE) percentile(r, percent, &low, &high);
  if (low < high && method == CT_RANGE_ENTROPY) entropy(r, &low, &high);
  out[0] = (float)fmin(low, 0);
  out[1] = (float)fmax(high, 0);
}
