/* Upsampling by whole factors.  Each output is a weighted sum of one or two inputs per dim; the
 * gradient uses the same weights.  A task is a group of contiguous channels of one sample. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/kern/loops.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

/* The inputs of an output along one axis: from[0] with weight 1 - next, from[1] with weight
 * `next`. */
typedef struct tap {
  int32_t from[2];
  float next;
} tap_t;

typedef struct upsample {
  ct_op_t op;
  cpu__view_t x, y;
  int64_t in[3], out[3]; /* sizes of an input and output volume */
  tap_t *tap[3];         /* per axis, the inputs of each output; tap[0] owns the memory of all */
} upsample_t;

/* The inputs of one output, and their weights. */
typedef struct sources {
  int n;
  int64_t at[8];
  float share[8];
} sources_t;

static sources_t sources_of(const upsample_t *k, const int64_t o[3])
{
  sources_t s = {1, {0}, {1}};
  for (int axis = 0; axis < 3; axis++) {
    const tap_t *t = &k->tap[axis][o[axis]];
    int n = s.n;
    for (int i = 0; i < n; i++) {
      int64_t line = s.at[i] * k->in[axis];
      s.at[i] = line + t->from[0];
      if (t->next == 0) continue;
      s.at[s.n] = line + t->from[1];
      s.share[s.n++] = s.share[i] * t->next;
      s.share[i] *= 1 - t->next;
    }
  }
  return s;
}

static void upsample_gather(const sources_t *s, int64_t lanes, const float *restrict x,
                            float *restrict y)
{
  const float *first = x + s->at[0] * lanes;
  for (int64_t j = 0; j < lanes; j++)
    y[j] = s->share[0] * first[j];
  for (int i = 1; i < s->n; i++) {
    const float *from = x + s->at[i] * lanes;
    for (int64_t j = 0; j < lanes; j++)
      y[j] += s->share[i] * from[j];
  }
}

static void scatter(const sources_t *s, int64_t lanes, const float *restrict dy, float *restrict dx)
{
  for (int i = 0; i < s->n; i++) {
    float *to = dx + s->at[i] * lanes;
    for (int64_t j = 0; j < lanes; j++)
      to[j] += s->share[i] * dy[j];
  }
}

static void do_task(const upsample_t *k, const ct_op_args_t *a, int64_t task)
{
  int64_t lanes = k->x.lanes, in = task * k->x.inner * lanes, at = task * k->y.inner * lanes;
  int back = a->pass & CT_BWD_DATA;
  int64_t o[3];
  if (back) memset((float *)a->dx + in, 0, (size_t)(k->x.inner * lanes) * sizeof(float));
  for (o[0] = 0; o[0] < k->out[0]; o[0]++) {
    for (o[1] = 0; o[1] < k->out[1]; o[1]++) {
      for (o[2] = 0; o[2] < k->out[2]; o[2]++, at += lanes) {
        sources_t s = sources_of(k, o);
        if (back)
          scatter(&s, lanes, (const float *)a->dy + at, (float *)a->dx + in);
        else
          upsample_gather(&s, lanes, (const float *)a->x + in, (float *)a->y + at);
      }
    }
  }
}

static int upsample_run(ct_op_t *op, const ct_op_args_t *a)
{
  const upsample_t *k = (const upsample_t *)op;
  int64_t tasks = k->x.n * k->x.groups;

#pragma omp parallel for if (cpu__is_parallel(&op->desc.y)) schedule(static)
  for (int64_t i = 0; i < tasks; i++)
    do_task(k, a, i);
  return CT_OK;
}

/* ---- preparation ---- */

static tap_t tap_of(int linear, int64_t in, int64_t out, int64_t o)
{
  int64_t factor = out / in, near = o / factor;
  if (!linear) return (tap_t){{(int32_t)near, (int32_t)near}, 0};
  double at = ((double)o + 0.5) / (double)factor - 0.5;
  if (at < 0) at = 0;
  int32_t below = (int32_t)at, next = below + 1 < in ? below + 1 : below;
  return (tap_t){{below, next}, next > below ? (float)(at - below) : 0};
}

static int upsample_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  upsample_t *k = (upsample_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int64_t taps = 0;
  (void)like;
  (void)info;
  k->x = cpu__view(&d->x);
  k->y = cpu__view(&d->y);
  for (int axis = 0; axis < 3; axis++) {
    int at = axis - (5 - d->x.ndim);
    k->in[axis] = at < 0 ? 1 : d->x.dim[2 + at];
    k->out[axis] = at < 0 ? 1 : d->y.dim[2 + at];
    taps += k->out[axis];
  }
  tap_t *tap = ct_mem_array(taps, sizeof *tap, "upsampling");
  if (!tap) return CT_ERR_NOMEM;
  for (int axis = 0; axis < 3; tap += k->out[axis++]) {
    k->tap[axis] = tap;
    for (int64_t o = 0; o < k->out[axis]; o++)
      tap[o] = tap_of(d->u.upsample.linear, k->in[axis], k->out[axis], o);
  }
  return CT_OK;
}

static void upsample_clear(ct_op_t *op)
{
  ct_mem_free(((upsample_t *)op)->tap[0]);
}

const cpu__op_kind_t cpu__upsample = {.size = sizeof(upsample_t),
                                      .prepare = upsample_prepare,
                                      .run = upsample_run,
                                      .clear = upsample_clear};
