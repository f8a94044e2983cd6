/* Max pooling whose windows have gaps or differ in size.  Forward saves the pixel of each maximum;
 * backward adds each gradient there.  A task is a group of channels of a sample, so no element is
 * written by two threads. */
#include "cpu/kern/free_max.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/kern/loops.h"

/* The pixels of a window along one axis. */
typedef struct range {
  int32_t from, count;
} range_t;

struct cpu__free_max {
  ct_dtype_t dtype;
  cpu__view_t x, y;
  int keeps, relu;
  int64_t in[3], out[3];
  int step[3];
  range_t *range[3]; /* per axis, of each output; behind the struct */
};

int cpu__is_free_max(const ct_op_desc_t *d)
{
  const int *gap = d->u.pool.gap;
  if (ct_op_averages(d)) return 0;
  return d->u.pool.adaptive || gap[0] || gap[1] || gap[2];
}

static float load(const void *p, int64_t i, ct_dtype_t t)
{
  return t == CT_F32 ? ((const float *)p)[i] : ct_bf16_float(((const uint16_t *)p)[i]);
}

static void store(void *p, int64_t i, ct_dtype_t t, float v)
{
  if (t == CT_F32)
    ((float *)p)[i] = v;
  else
    ((uint16_t *)p)[i] = ct_bf16_of(v);
}

/* Returns the first pixel of the largest element of a window; NaN counts as largest. */
static int32_t largest(const cpu__free_max_t *k, const void *x, const range_t *w[3])
{
  int64_t best = -1;
  float value = 0;
  for (int64_t z = 0; z < w[0]->count; z++)
    for (int64_t r = 0; r < w[1]->count; r++)
      for (int64_t c = 0; c < w[2]->count; c++) {
        int64_t depth = w[0]->from + z * k->step[0], row = w[1]->from + r * k->step[1];
        int64_t at = (depth * k->in[1] + row) * k->in[2] + w[2]->from + c * k->step[2];
        float v = load(x, at * k->x.lanes, k->dtype);
        if (best >= 0 && !(v > value) && !isnan(v)) continue;
        best = at;
        value = v;
      }
  return (int32_t)best;
}

/* One lane of a group: x and y are its first pixels, pixels are `lanes` apart. */
static void lane_forward(const cpu__free_max_t *k, const void *x, void *y, int32_t *kept, int relu)
{
  int64_t o = 0;
  for (int64_t z = 0; z < k->out[0]; z++)
    for (int64_t r = 0; r < k->out[1]; r++)
      for (int64_t c = 0; c < k->out[2]; c++, o++) {
        int32_t at =
            largest(k, x, (const range_t *[]){&k->range[0][z], &k->range[1][r], &k->range[2][c]});
        float v = load(x, at * k->x.lanes, k->dtype);
        int cut = relu && v <= 0;
        store(y, o * k->y.lanes, k->dtype, cut ? 0 : v);
        if (kept) kept[o * k->y.lanes] = cut ? -1 : at;
      }
}

/* sum: a float per pixel of x. */
static void lane_backward(const cpu__free_max_t *k, const int32_t *kept, const void *dy, void *dx,
                          float *sum)
{
  memset(sum, 0, (size_t)k->x.inner * sizeof *sum);
  for (int64_t o = 0; o < k->y.inner; o++) {
    int32_t at = kept[o * k->y.lanes];
    if (at >= 0) sum[at] += load(dy, o * k->y.lanes, k->dtype);
  }
  for (int64_t i = 0; i < k->x.inner; i++)
    store(dx, i * k->x.lanes, k->dtype, sum[i]);
}

static void run_group(const cpu__free_max_t *k, const ct_op_args_t *a, int64_t group)
{
  int64_t in = group * k->x.inner * k->x.lanes, out = group * k->y.inner * k->y.lanes;
  int32_t *kept = k->keeps ? (int32_t *)a->saved + out : NULL;
  for (int64_t j = 0; j < k->x.lanes; j++, in++, out++) {
    int32_t *own = kept ? kept + j : NULL;
    if (a->pass & CT_FWD)
      lane_forward(k, cpu__at(a->x, in, k->dtype), cpu__at(a->y, out, k->dtype), own, k->relu);
    if (a->pass & CT_BWD_DATA)
      lane_backward(k, own, cpu__at(a->dy, out, k->dtype), cpu__at(a->dx, in, k->dtype),
                    (float *)a->scratch + omp_get_thread_num() * k->x.inner);
  }
}

int cpu__free_max_run(const cpu__free_max_t *k, const ct_op_args_t *a)
{
  int64_t groups = k->x.n * k->x.groups;
#pragma omp parallel for if (groups * k->x.inner * k->x.lanes > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t i = 0; i < groups; i++)
    run_group(k, a, i);
  return CT_OK;
}

/* ---- preparation ---- */

static range_t range_of(const ct_op_desc_t *d, int at, int64_t o)
{
  if (at < 0) return (range_t){0, 1};
  int64_t in = d->x.dim[2 + at], out = d->y.dim[2 + at];
  if (d->u.pool.adaptive) {
    int64_t from = o * in / out;
    return (range_t){(int32_t)from, (int32_t)(((o + 1) * in + out - 1) / out - from)};
  }
  range_t r = {0, 0};
  for (int tap = 0; tap < d->u.pool.kernel[at]; tap++) {
    int64_t pixel =
        o * d->u.pool.stride[at] - d->u.pool.pad[at] + (int64_t)tap * (d->u.pool.gap[at] + 1);
    if (pixel < 0 || pixel >= in) continue;
    if (r.count == 0) r.from = (int32_t)pixel;
    r.count++;
  }
  return r;
}

int cpu__free_max_make(const ct_dev_t *dev, const ct_op_desc_t *d, cpu__free_max_t **out,
                       ct_op_info_t *info)
{
  int64_t outputs = 0;
  for (int i = 2; i < d->y.ndim; i++)
    outputs += d->y.dim[i];
  cpu__free_max_t *k =
      ct_mem_alloc(sizeof *k + (size_t)(outputs + 1) * sizeof(range_t), "pooling windows");
  *out = k;
  if (!k) return CT_ERR_NOMEM;
  range_t *next = (range_t *)(k + 1);
  k->dtype = d->x.dtype;
  k->x = cpu__view(&d->x);
  k->y = k->x;
  k->y.inner = 1;
  k->relu = d->u.pool.relu;
  k->keeps = (d->passes & CT_BWD_DATA) != 0;
  for (int axis = 0; axis < 3; axis++) {
    int at = axis - (5 - d->x.ndim);
    k->in[axis] = at < 0 ? 1 : d->x.dim[2 + at];
    k->out[axis] = at < 0 ? 1 : d->y.dim[2 + at];
    k->step[axis] = at < 0 || d->u.pool.adaptive ? 1 : d->u.pool.gap[at] + 1;
    k->y.inner *= k->out[axis];
    k->range[axis] = next;
    for (int64_t o = 0; o < k->out[axis]; o++)
      *next++ = range_of(d, at, o);
  }
  if (k->keeps)
    info->saved = (size_t)(k->y.n * k->y.groups * k->y.inner * k->y.lanes) * sizeof(int32_t);
  info->scratch = (size_t)(dev->threads * k->x.inner) * sizeof(float);
  info->algorithm = "free windows";
  return CT_OK;
}
