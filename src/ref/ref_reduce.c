/* Reductions over any dims, torch.sum() and its like; the cumulative sum; softmax. */
#include "ref/ref.h"

#include <math.h>

/* ---- lines: the elements of x that become one element of y ---- */

typedef struct line {
  int64_t count; /* elements of the line */
  int64_t lines;
  int n;                                                  /* dims along the line */
  int64_t size[CT_MAX_DIMS], step[CT_MAX_DIMS];           /* of its dims, the last first */
  int64_t others, kept[CT_MAX_DIMS], stride[CT_MAX_DIMS]; /* of the other dims, the last first */
} line_t;

static line_t line_of(const ct_shape_t *x, unsigned dims)
{
  line_t l = {.count = 1, .lines = 1};
  int64_t step = 1;
  for (int i = x->ndim - 1; i >= 0; step *= x->dim[i--]) {
    if (dims >> i & 1) {
      l.size[l.n] = x->dim[i];
      l.step[l.n++] = step;
      l.count *= x->dim[i];
    } else {
      l.kept[l.others] = x->dim[i];
      l.stride[l.others++] = step;
      l.lines *= x->dim[i];
    }
  }
  return l;
}

/* Returns the offset of a line's first element. */
static int64_t start_of(const line_t *l, int64_t line)
{
  int64_t at = 0;
  for (int i = 0; i < l->others; line /= l->kept[i++])
    at += line % l->kept[i] * l->stride[i];
  return at;
}

/* Returns the offset of element k of a line from its first. */
static int64_t along(const line_t *l, int64_t k)
{
  int64_t at = 0;
  for (int i = 0; i < l->n; k /= l->size[i++])
    at += k % l->size[i] * l->step[i];
  return at;
}

/* The elements of a line as doubles. */
static void load_line(const ct_op_desc_t *d, const line_t *l, const void *x, int64_t line,
                      double *v)
{
  int64_t first = start_of(l, line);
  for (int64_t k = 0; k < l->count; k++)
    v[k] = ct__ref_get(d->x.dtype, x, first + along(l, k));
}

static void store_line(const ct_op_desc_t *d, const line_t *l, void *x, int64_t line,
                       const double *v)
{
  int64_t first = start_of(l, line);
  for (int64_t k = 0; k < l->count; k++)
    ct__ref_set(d->x.dtype, x, first + along(l, k), v[k]);
}

/* ---- reductions ---- */

static double total(const double *v, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += v[i];
  return sum;
}

/* Returns the index of the first of the largest values (sign 1) or smallest (-1); NaN wins. */
static int64_t first_most(const double *v, int64_t n, int sign)
{
  int64_t at = 0;
  for (int64_t i = 1; i < n && v[at] == v[at]; i++)
    if (sign * v[i] > sign * v[at] || v[i] != v[i]) at = i;
  return at;
}

static double variance(const ct_op_desc_t *d, const double *v, int64_t n, double *mean)
{
  double sum = 0;
  *mean = total(v, n) / (double)n;
  for (int64_t i = 0; i < n; i++)
    sum += (v[i] - *mean) * (v[i] - *mean);
  return sum / ((double)n - d->u.reduce.correction);
}

static double norm_of(double p, const double *v, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum =
        isinf(p) ? (fabs(v[i]) > sum || isnan(v[i]) ? fabs(v[i]) : sum) : sum + pow(fabs(v[i]), p);
  return isinf(p) ? sum : pow(sum, 1 / p);
}

static double log_sum_exp(const double *v, int64_t n)
{
  double most = v[first_most(v, n, 1)], sum = 0;
  if (isinf(most)) return most;
  for (int64_t i = 0; i < n; i++)
    sum += exp(v[i] - most);
  return most + log(sum);
}

static double product(const double *v, int64_t n, int64_t without)
{
  double p = 1;
  for (int64_t i = 0; i < n; i++)
    if (i != without) p *= v[i];
  return p;
}

static double reduced(const ct_op_desc_t *d, const double *v, int64_t n)
{
  double mean;
  switch (d->u.reduce.mode) {
  case CT_RED_SUM:
    return total(v, n);
  case CT_RED_MEAN:
    return total(v, n) / (double)n;
  case CT_RED_AMAX:
  case CT_RED_MAX:
    return v[first_most(v, n, 1)];
  case CT_RED_AMIN:
  case CT_RED_MIN:
    return v[first_most(v, n, -1)];
  case CT_RED_PROD:
    return product(v, n, -1);
  case CT_RED_NORM:
    return norm_of(d->u.reduce.p, v, n);
  case CT_RED_VAR:
    return variance(d, v, n, &mean);
  case CT_RED_STD:
    return sqrt(variance(d, v, n, &mean));
  case CT_RED_LOGSUMEXP:
    return log_sum_exp(v, n);
  case CT_RED_CUMSUM:
    break;
  }
  return NAN;
}

/* ---- gradients: v becomes the line of dx; y and g are the elements of y and dy ---- */

/* All values whose size (or value, if not \a size) is y share g. */
static void share(double *v, int64_t n, double y, double g, int size)
{
  int64_t equal = 0;
  for (int64_t i = 0; i < n; i++)
    equal += (size ? fabs(v[i]) : v[i]) == y;
  for (int64_t i = 0; i < n; i++) {
    double sign = size ? (v[i] > 0) - (v[i] < 0) : 1;
    v[i] = (size ? fabs(v[i]) : v[i]) == y ? sign * g / (double)equal : 0;
  }
}

static void norm_back(double p, double *v, int64_t n, double y, double g)
{
  if (isinf(p)) {
    share(v, n, y, g, 1);
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    double slope = v[i] == 0 || y == 0 ? 0 : pow(fabs(v[i]) / y, p - 1);
    v[i] = g * (v[i] < 0 ? -slope : slope);
  }
}

static void product_back(double *v, int64_t n, double g)
{
  int64_t zeros = 0, zero = -1;
  for (int64_t i = 0; i < n; i++)
    if (v[i] == 0) {
      zeros++;
      zero = i;
    }
  double all = zeros > 1 ? 0 : product(v, n, zero);
  for (int64_t i = 0; i < n; i++)
    v[i] = zeros == 0 ? g * all / v[i] : i == zero ? g * all : 0;
}

static void spread_back(const ct_op_desc_t *d, double *v, int64_t n, double y, double g)
{
  double mean, of = (double)n - d->u.reduce.correction;
  variance(d, v, n, &mean);
  double factor = d->u.reduce.mode == CT_RED_VAR ? 2 * g / of : y == 0 ? 0 : g / (y * of);
  for (int64_t i = 0; i < n; i++)
    v[i] = factor * (v[i] - mean);
}

static void reduced_back(const ct_op_desc_t *d, double *v, int64_t n, double y, double g)
{
  ct_reduction_t mode = d->u.reduce.mode;
  int64_t at;
  switch (mode) {
  case CT_RED_SUM:
  case CT_RED_MEAN:
    for (int64_t i = 0; i < n; i++)
      v[i] = mode == CT_RED_SUM ? g : g / (double)n;
    break;
  case CT_RED_AMAX:
  case CT_RED_AMIN:
    share(v, n, y, g, 0);
    break;
  case CT_RED_MAX:
  case CT_RED_MIN:
    at = first_most(v, n, mode == CT_RED_MAX ? 1 : -1);
    for (int64_t i = 0; i < n; i++)
      v[i] = i == at ? g : 0;
    break;
  case CT_RED_PROD:
    product_back(v, n, g);
    break;
  case CT_RED_NORM:
    norm_back(d->u.reduce.p, v, n, y, g);
    break;
  case CT_RED_VAR:
  case CT_RED_STD:
    spread_back(d, v, n, y, g);
    break;
  case CT_RED_LOGSUMEXP:
    for (int64_t i = 0; i < n; i++)
      v[i] = g * exp(v[i] - y);
    break;
  case CT_RED_CUMSUM:
    break;
  }
}

static void accumulate(double *v, int64_t n, int back)
{
  for (int64_t i = 1; i < n; i++) {
    int64_t at = back ? n - 1 - i : i;
    v[at] += v[back ? at + 1 : at - 1];
  }
}

static int reduce_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  line_t l = line_of(&d->x, d->u.reduce.dims);
  double *v = a->scratch;
  int uses = ct_op_uses(d), running = d->u.reduce.mode == CT_RED_CUMSUM;
  for (int64_t i = 0; i < l.lines && a->pass & CT_FWD; i++) {
    load_line(d, &l, a->x, i, v);
    if (running) {
      accumulate(v, l.count, 0);
      store_line(d, &l, a->y, i, v);
    } else {
      ct__ref_set(d->y.dtype, a->y, i, reduced(d, v, l.count));
    }
  }
  for (int64_t i = 0; i < l.lines && a->pass & CT_BWD_DATA; i++) {
    if (running) {
      load_line(d, &l, a->dy, i, v);
      accumulate(v, l.count, 1);
    } else {
      double y = uses & CT_USES_Y ? ct__ref_get(d->y.dtype, a->y, i) : 0;
      if (uses & CT_USES_X) load_line(d, &l, a->x, i, v);
      reduced_back(d, v, l.count, y, ct__ref_get(d->y.dtype, a->dy, i));
    }
    store_line(d, &l, a->dx, i, v);
  }
  return CT_OK;
}

static void reduce_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->scratch = (size_t)ct_op_reduced(d) * sizeof(double);
}

const ct__ref_kind_t ct__ref_reduce = {.run = reduce_run, .needs = reduce_needs, .reduced = 1};

/* ---- softmax ---- */

static void softmax_line(double *v, int64_t n, int log_of)
{
  double most = v[first_most(v, n, 1)], sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += exp(v[i] - most);
  for (int64_t i = 0; i < n; i++)
    v[i] = log_of ? v[i] - most - log(sum) : exp(v[i] - most) / sum;
}

static int softmax_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  line_t l = line_of(&d->x, 1u << d->u.softmax.dim);
  double *v = a->scratch, *g = v + l.count;
  int log_of = d->u.softmax.log;
  for (int64_t i = 0; i < l.lines; i++) {
    if (a->pass & CT_FWD) {
      load_line(d, &l, a->x, i, v);
      softmax_line(v, l.count, log_of);
      store_line(d, &l, a->y, i, v);
    }
    if (!(a->pass & CT_BWD_DATA)) continue;
    double sum = 0;
    load_line(d, &l, a->y, i, v);
    load_line(d, &l, a->dy, i, g);
    for (int64_t k = 0; k < l.count; k++)
      sum += log_of ? g[k] : g[k] * v[k];
    for (int64_t k = 0; k < l.count; k++)
      g[k] = log_of ? g[k] - exp(v[k]) * sum : v[k] * (g[k] - sum);
    store_line(d, &l, a->dx, i, g);
  }
  return CT_OK;
}

static void softmax_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->inplace_fwd = info->inplace_bwd = 1;
  info->scratch = (size_t)(2 * d->x.dim[d->u.softmax.dim]) * sizeof(double);
}

const ct__ref_kind_t ct__ref_softmax = {.run = softmax_run, .needs = softmax_needs, .reduced = 1};
