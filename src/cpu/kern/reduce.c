/* Reductions over any dims, and the cumulative sum along one.
 *
 * Adjacent dims that are all reduced or all kept are one.  So x is a list of kept and reduced dims
 * in turn, in the order of memory.  If the last one is reduced, its elements are rows; if it is
 * kept, they are columns, which are summed side by side.  A task is one row, or some columns, with
 * all the reduced dims before; it sums in float32 over runs of some values and adds these in double
 * (body_reduce.h), in a fixed order. */
#include "base/ct_err.h"
#include "cpu/kern/loops.h"
#include <math.h>
#include <string.h>

/* Columns of a task. */
enum { COLUMNS = 256 };
/* Dims in memory: a blocked layout has one more. */
enum { DIMS = CT_MAX_DIMS + 1 };

typedef struct dims {
  int n;
  int64_t size[DIMS], step[DIMS];
} dims_t;

typedef struct reduce_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  ct_reduction_t mode;
  float p;
  double correction;
  int64_t count;   /* elements of x that become one of y */
  int64_t inner;   /* columns; 1: rows */
  int64_t rows;    /* elements of a row, or of a column */
  dims_t kept;     /* the kept dims but the columns; steps in x */
  dims_t before;   /* the reduced dims but the rows */
  int64_t outer;   /* product of the kept dims */
  int64_t repeats; /* product of the reduced dims before */
  int64_t parts, wide;
} reduce_op_t;

/* ---- dims in memory ---- */

/* Sets sizes in the order of memory, and which are reduced; returns how many. */
static int in_memory(const ct_op_desc_t *d, int64_t size[DIMS], int reduced[DIMS])
{
  const ct_shape_t *x = &d->x;
  int block = cpu__lanes(x->layout), n = 0, last = x->layout == CT_NHWC;
  for (int i = 0; i < x->ndim; i++) {
    if (i == 1 && last) continue;
    reduced[n] = d->u.reduce.dims >> i & 1;
    size[n++] = i == 1 ? (x->dim[1] + block - 1) / block : x->dim[i];
  }
  if (last || block > 1) {
    reduced[n] = d->u.reduce.dims >> 1 & 1;
    size[n++] = last ? x->dim[1] : block;
  }
  return n;
}

static void add_dim(dims_t *to, int64_t size, int64_t step)
{
  to->size[to->n] = size;
  to->step[to->n++] = step;
}

/* Merges adjacent dims.  Dims of 1 belong to any. */
static int merged(int n, int64_t size[DIMS], int reduced[DIMS])
{
  int m = 0;
  for (int i = 0; i < n; i++) {
    if (size[i] == 1) continue;
    if (m && reduced[m - 1] == reduced[i]) {
      size[m - 1] *= size[i];
    } else {
      reduced[m] = reduced[i];
      size[m++] = size[i];
    }
  }
  return m;
}

static void find_dims(reduce_op_t *k, const ct_op_desc_t *d)
{
  int64_t size[DIMS], step = 1;
  int reduced[DIMS], n = merged(in_memory(d, size, reduced), size, reduced), inmost = 1;
  k->inner = k->rows = k->outer = k->repeats = 1;
  for (int i = n - 1; i >= 0; step *= size[i--]) {
    if (i == n - 1 && !reduced[i]) {
      k->inner = size[i];
    } else if (reduced[i] && inmost) {
      k->rows = size[i];
      inmost = 0;
    } else {
      add_dim(reduced[i] ? &k->before : &k->kept, size[i], step);
      *(reduced[i] ? &k->repeats : &k->outer) *= size[i];
    }
  }
}

static int64_t place_of(const dims_t *d, int64_t i)
{
  int64_t at = 0;
  for (int k = 0; k < d->n; i /= d->size[k++])
    at += i % d->size[k] * d->step[k];
  return at;
}

/* ---- sums of a task ---- */

typedef struct task {
  int64_t x; /* offset in x */
  int64_t y;
  int64_t n; /* columns */
} task_t;

static task_t task_of(const reduce_op_t *k, int64_t i)
{
  int64_t outer = i / k->parts, first = i % k->parts * k->wide;
  return (task_t){.x = place_of(&k->kept, outer) + first,
                  .y = outer * k->inner + first,
                  .n = k->inner - first < k->wide ? k->inner - first : k->wide};
}

/* Returns the sum over nothing. */
static double neutral(cpu__sum_t what)
{
  return what == CPU__MOST ? -INFINITY : what == CPU__LEAST ? INFINITY : what == CPU__PRODUCT;
}

static double combined(cpu__sum_t what, double a, double b)
{
  switch (what) {
  case CPU__MOST:
  case CPU__LARGEST:
    return b > a || b != b ? b : a;
  case CPU__LEAST:
    return b < a || b != b ? b : a;
  case CPU__PRODUCT:
    return a * b;
  default:
    return a + b;
  }
}

static void find_sums(const reduce_op_t *k, cpu__sum_t what, const task_t *t, const float *x,
                      const float *shift, double *sums)
{
  for (int64_t i = 0; i < t->n; i++)
    sums[i] = neutral(what);
  for (int64_t r = 0; r < k->repeats; r++) {
    const float *from = x + t->x + place_of(&k->before, r);
    if (k->inner == 1)
      sums[0] = combined(what, sums[0], k->loops->reduce_row(what, k->rows, from, shift[0], k->p));
    else
      k->loops->reduce_columns(what, k->rows, k->inner, t->n, from, shift, k->p, sums);
  }
}

/* ---- forward ---- */

/* Returns the first sum of a mode. */
static cpu__sum_t sum_of(const reduce_op_t *k)
{
  switch (k->mode) {
  case CT_RED_AMAX:
  case CT_RED_MAX:
  case CT_RED_LOGSUMEXP:
    return CPU__MOST;
  case CT_RED_AMIN:
  case CT_RED_MIN:
    return CPU__LEAST;
  case CT_RED_PROD:
    return CPU__PRODUCT;
  case CT_RED_NORM:
    return isinf(k->p)    ? CPU__LARGEST
           : k->p == 1.0F ? CPU__SUM_SIZES
           : k->p == 2.0F ? CPU__SUM_SQUARES
                          : CPU__SUM_POWERS;
  default:
    return CPU__SUM;
  }
}

/* Sets the means of a task. */
static void find_means(const reduce_op_t *k, const task_t *t, const float *x, float *mean)
{
  double sums[COLUMNS];
  memset(mean, 0, COLUMNS * sizeof *mean);
  find_sums(k, CPU__SUM, t, x, mean, sums);
  for (int64_t i = 0; i < t->n; i++)
    mean[i] = (float)(sums[i] / (double)k->count);
}

/* Completes the sums that need a second look at x, or a function. */
static void finish(const reduce_op_t *k, const task_t *t, const float *x, double *sums)
{
  float shift[COLUMNS] = {0};
  double first[COLUMNS];
  memcpy(first, sums, (size_t)t->n * sizeof *sums);
  switch (k->mode) {
  case CT_RED_MEAN:
    for (int64_t i = 0; i < t->n; i++)
      sums[i] /= (double)k->count;
    break;
  case CT_RED_PROD: /* the sum left out the zeros */
    find_sums(k, CPU__SUM_EQUAL, t, x, shift, sums);
    for (int64_t i = 0; i < t->n; i++)
      sums[i] = sums[i] > 0 ? 0 * first[i] : first[i];
    break;
  case CT_RED_NORM:
    for (int64_t i = 0; i < t->n && !isinf(k->p) && k->p != 1.0F; i++)
      sums[i] = k->p == 2.0F ? sqrt(sums[i]) : pow(sums[i], 1 / (double)k->p);
    break;
  case CT_RED_VAR:
  case CT_RED_STD:
    for (int64_t i = 0; i < t->n; i++)
      shift[i] = (float)(first[i] / (double)k->count);
    find_sums(k, CPU__SUM_SQUARES, t, x, shift, sums);
    for (int64_t i = 0; i < t->n; i++) {
      sums[i] /= (double)k->count - k->correction;
      if (k->mode == CT_RED_STD) sums[i] = sqrt(sums[i]);
    }
    break;
  case CT_RED_LOGSUMEXP:
    for (int64_t i = 0; i < t->n; i++)
      shift[i] = (float)first[i];
    find_sums(k, CPU__SUM_EXPS, t, x, shift, sums);
    for (int64_t i = 0; i < t->n; i++)
      sums[i] = isinf(first[i]) ? first[i] : first[i] + log(sums[i]);
    break;
  default:
    break;
  }
}

static void reduce_task(const reduce_op_t *k, int64_t i, const float *x, float *y)
{
  static const float none[COLUMNS];
  double sums[COLUMNS];
  task_t t = task_of(k, i);
  find_sums(k, sum_of(k), &t, x, none, sums);
  finish(k, &t, x, sums);
  for (int64_t j = 0; j < t.n; j++)
    y[t.y + j] = (float)sums[j];
}

/* ---- backward ---- */

/* Coefficients of the gradients of a task, a value per column (loops.h). */
typedef struct slopes {
  cpu__slope_t what;
  float a[COLUMNS], m[COLUMNS];
} slopes_t;

/* Divides a by the number of values that share the gradient. */
static void share(const reduce_op_t *k, const task_t *t, const float *x, slopes_t *s)
{
  double equal[COLUMNS];
  int sizes = s->what == CPU__SLOPE_EQUAL_SIZE;
  find_sums(k, sizes ? CPU__SUM_EQUAL_SIZES : CPU__SUM_EQUAL, t, x, s->m, equal);
  for (int64_t i = 0; i < t->n; i++)
    s->a[i] /= (float)equal[i];
}

static void product_slopes(const reduce_op_t *k, const task_t *t, const float *x, slopes_t *s)
{
  double zeros[COLUMNS], product[COLUMNS];
  memset(s->m, 0, sizeof s->m);
  find_sums(k, CPU__SUM_EQUAL, t, x, s->m, zeros);
  find_sums(k, CPU__PRODUCT, t, x, s->m, product);
  s->what = CPU__SLOPE_QUOTIENT;
  for (int64_t i = 0; i < t->n; i++) {
    float all = (float)((double)s->a[i] * product[i]);
    s->a[i] = zeros[i] > 0 ? 0 : all;
    s->m[i] = zeros[i] == 1 ? all : 0;
  }
}

static void norm_slopes(const reduce_op_t *k, const task_t *t, const float *x, const float *y,
                        slopes_t *s)
{
  if (k->p == 1.0F) {
    s->what = CPU__SLOPE_SIGN;
  } else if (k->p == 2.0F) {
    s->what = CPU__SLOPE_LINE;
    memset(s->m, 0, sizeof s->m);
    for (int64_t i = 0; i < t->n; i++)
      s->a[i] = y[i] == 0 ? 0 : s->a[i] / y[i];
  } else {
    s->what = isinf(k->p) ? CPU__SLOPE_EQUAL_SIZE : CPU__SLOPE_POWER;
    if (isinf(k->p)) share(k, t, x, s);
  }
}

static void find_slopes(const reduce_op_t *k, const task_t *t, const ct_op_args_t *g, slopes_t *s)
{
  const float *x = g->x, *y = g->y, *dy = g->dy;
  int uses = ct_op_uses(&k->head.desc) & CT_USES_Y;
  memcpy(s->a, dy + t->y, (size_t)t->n * sizeof *dy);
  if (uses) memcpy(s->m, y + t->y, (size_t)t->n * sizeof *y);
  if (uses) y += t->y;
  s->what = CPU__SLOPE_FILL;
  switch (k->mode) {
  case CT_RED_MEAN:
    for (int64_t i = 0; i < t->n; i++)
      s->a[i] /= (float)k->count;
    break;
  case CT_RED_AMAX:
  case CT_RED_AMIN:
    s->what = CPU__SLOPE_EQUAL;
    share(k, t, x, s);
    break;
  case CT_RED_PROD:
    product_slopes(k, t, x, s);
    break;
  case CT_RED_NORM:
    norm_slopes(k, t, x, y, s);
    break;
  case CT_RED_VAR:
  case CT_RED_STD:
    s->what = CPU__SLOPE_LINE;
    find_means(k, t, x, s->m);
    for (int64_t i = 0; i < t->n; i++) {
      double of = (double)k->count - k->correction;
      double by = k->mode == CT_RED_VAR ? 2 : y[i] == 0 ? 0 : 1 / (double)y[i];
      s->a[i] = (float)((double)s->a[i] * by / of);
    }
    break;
  case CT_RED_LOGSUMEXP:
    s->what = CPU__SLOPE_EXP;
    break;
  default:
    break;
  }
}

/* Gives the gradient to the first of the elements that are equal to y. */
static void to_the_first(const reduce_op_t *k, const task_t *t, const ct_op_args_t *g)
{
  const float *x = (const float *)g->x + t->x, *y = (const float *)g->y + t->y;
  const float *dy = (const float *)g->dy + t->y;
  float *dx = (float *)g->dx + t->x;
  char given[COLUMNS] = {0};
  for (int64_t r = 0; r < k->rows; r++)
    for (int64_t i = 0; i < t->n; i++) {
      float v = x[r * k->inner + i];
      int is = !given[i] && (v == y[i] || (v != v && y[i] != y[i]));
      dx[r * k->inner + i] = is ? dy[i] : 0;
      given[i] |= (char)is;
    }
}

static void reduce_task_back(const reduce_op_t *k, int64_t i, const ct_op_args_t *g)
{
  slopes_t s;
  task_t t = task_of(k, i);
  if (k->mode == CT_RED_MAX || k->mode == CT_RED_MIN) {
    to_the_first(k, &t, g);
    return;
  }
  find_slopes(k, &t, g, &s);
  for (int64_t r = 0; r < k->repeats; r++) {
    int64_t at = t.x + place_of(&k->before, r), rows = k->inner == 1 ? 1 : k->rows;
    for (int64_t j = 0; j < rows; j++) {
      int64_t from = at + j * k->inner;
      k->loops->slopes(s.what, k->inner == 1 ? k->rows : t.n, (const float *)g->x + from, s.a, s.m,
                       k->inner > 1, k->p, (float *)g->dx + from);
    }
  }
}

/* ---- the cumulative sum ---- */

/* Adds up from the first element of a column, or in backward from the last. */
static void add_up(const reduce_op_t *k, int64_t i, const float *x, float *y, int back)
{
  double sums[COLUMNS] = {0};
  task_t t = task_of(k, i);
  for (int64_t r = 0; r < k->rows; r++) {
    int64_t at = t.x + (back ? k->rows - 1 - r : r) * k->inner;
    for (int64_t j = 0; j < t.n; j++) {
      sums[j] += (double)x[at + j];
      y[at + j] = (float)sums[j];
    }
  }
}

/* ---- the op ---- */

static void reduce_forward(const reduce_op_t *k, int64_t tasks, const float *x, float *y)
{
#pragma omp parallel for if (cpu__is_parallel(&k->head.desc.x)) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    if (k->mode == CT_RED_CUMSUM)
      add_up(k, i, x, y, 0);
    else
      reduce_task(k, i, x, y);
  }
}

static void reduce_backward(const reduce_op_t *k, int64_t tasks, const ct_op_args_t *a)
{
#pragma omp parallel for if (cpu__is_parallel(&k->head.desc.x)) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    if (k->mode == CT_RED_CUMSUM)
      add_up(k, i, a->dy, a->dx, 1);
    else
      reduce_task_back(k, i, a);
  }
}

static int reduce_run(ct_op_t *op, const ct_op_args_t *a)
{
  const reduce_op_t *k = (const reduce_op_t *)op;
  int64_t tasks = ct_shape_count(&op->desc.x) ? k->outer * k->parts : 0;

  if (a->pass & CT_FWD) reduce_forward(k, tasks, a->x, a->y);
  if (a->pass & CT_BWD_DATA) reduce_backward(k, tasks, a);
  return CT_OK;
}

/* Returns 1 if y has the reduced dims, as dims of 1. */
static int keeps_dims(const ct_op_desc_t *d)
{
  return d->y.ndim == d->x.ndim;
}

/* Returns 1 if the op can take x in its layout: y then lies in the same layout, or has no pixels.
 */
static int takes_layout(const ct_op_desc_t *d)
{
  ct_reduction_t mode = d->u.reduce.mode;
  unsigned dims = d->u.reduce.dims, pixels = (1u << d->x.ndim) - 4;
  int whole = d->x.dim[1] % cpu__lanes(d->x.layout) == 0;
  if (d->x.layout == CT_PLAIN) return 1;
  if (mode == CT_RED_CUMSUM) return 0;
  if (d->x.layout == CT_NHWC) return keeps_dims(d) || (dims & pixels) == pixels;
  if (dims & 2 || (mode == CT_RED_LOGSUMEXP && !whole)) return 0;
  return keeps_dims(d) || ((dims & pixels) == pixels && whole);
}

static ct_layout_t reduce_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return takes_layout(d) ? d->x.layout : CT_PLAIN;
}

static int reduce_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (takes_layout(d)) return 1;
  strcpy(why, "the CPU backend reduces these dims in the plain layout only");
  return 0;
}

static int reduce_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  reduce_op_t *k = (reduce_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->mode = d->u.reduce.mode;
  k->p = (float)d->u.reduce.p;
  k->correction = d->u.reduce.correction;
  k->count = ct_op_reduced(d);
  find_dims(k, d);
  k->wide = k->inner < COLUMNS ? k->inner + (k->inner == 0) : COLUMNS;
  k->parts = (k->inner + k->wide - 1) / k->wide;
  info->y_layout = keeps_dims(d) ? d->x.layout : CT_PLAIN;
  return CT_OK;
}

const cpu__op_kind_t cpu__reduce = {.size = sizeof(reduce_op_t),
                                    .bf16 = 1,
                                    .supports = reduce_supports,
                                    .stores = cpu__always,
                                    .wants = reduce_wants,
                                    .prepare = reduce_prepare,
                                    .run = reduce_run};
