/* Resizing.  Each output is a weighted sum of one to four inputs per dim (ct_resize.h); the
 * gradient uses the same weights.  A task is a group of contiguous channels of one sample. */
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cpu/kern/loops.h"

#if defined __GNUC__ && !defined __clang__
#  pragma GCC optimize("O3")
#endif

/* The inputs of an output along one axis, with their weights. */
typedef struct tap {
  int32_t n, from[CT_RESIZE_TAPS];
  float weight[CT_RESIZE_TAPS];
} tap_t;

typedef struct upsample {
  ct_op_t op;
  cpu__view_t x, y;
  int64_t in[3], out[3]; /* sizes of an input and output volume */
  tap_t *tap[3];         /* per axis, the inputs of each output; tap[0] owns the memory of all */
} upsample_t;

/* The inputs of one output, and their weights: 2 in each of three dims, or 4 in each of two. */
typedef struct sources {
  int n;
  int64_t at[16];
  float share[16];
} sources_t;

static sources_t sources_of(const upsample_t *k, const int64_t o[3])
{
  sources_t s = {1, {0}, {1}};
  for (int axis = 0; axis < 3; axis++) {
    const tap_t *t = &k->tap[axis][o[axis]];
    int n = s.n;
    for (int i = 0; i < n; i++) {
      int64_t line = s.at[i] * k->in[axis];
      float share = s.share[i];
      s.at[i] = line + t->from[0];
      s.share[i] = share * t->weight[0];
      for (int j = 1; j < t->n; j++) {
        s.at[s.n] = line + t->from[j];
        s.share[s.n++] = share * t->weight[j];
      }
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

/* Returns the inputs of output o along an axis; those of weight 0 are left out. */
static tap_t tap_of(const ct_resize_dim_t *d, int64_t o)
{
  ct_resize_tap_t all = ct_resize_tap(d, o);
  tap_t t = {0};
  for (int k = 0; k < all.taps; k++) {
    if (all.weight[k] == 0 && (t.n > 0 || k + 1 < all.taps)) continue;
    t.from[t.n] = (int32_t)all.in[k];
    t.weight[t.n++] = (float)all.weight[k];
  }
  return t;
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
    int at = axis - (5 - d->x.ndim);
    ct_resize_dim_t one = {.in = 1, .out = 1}, dim = at < 0 ? one : ct_op_resize_dim(d, at);
    k->tap[axis] = tap;
    for (int64_t o = 0; o < k->out[axis]; o++)
      tap[o] = tap_of(&dim, o);
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
