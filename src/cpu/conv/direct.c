/* Direct convolution on the micro-kernels: conditions, geometry, and the entries of the algorithm
 * table. */
#include "cpu/conv/direct.h"
#include "cpu/conv/conv.h"
#include "base/ct_int.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* ---- geometry ---- */

static cpu__image_t image_of(const ct_shape_t *s, ct_layout_t layout, int flat)
{
  int space = s->ndim - 2;
  cpu__image_t m = {.n = s->dim[0], .channels = s->dim[1], .size = {1, 1, 1}};
  for (int i = 0; i < space; i++)
    m.size[flat ? 2 : 3 - space + i] *= s->dim[2 + i];
  m.lanes = cpu__lanes(layout);
  m.blocks = ct_round_up(m.channels, m.lanes) / m.lanes;
  m.at[2] = m.lanes;
  m.at[1] = m.at[2] * m.size[2];
  m.at[0] = m.at[1] * m.size[1];
  m.block = m.at[0] * m.size[0];
  m.image = m.block * m.blocks;
  return m;
}

/* 1 if the convolution is 1x1 without stride and padding: then all pixels form one row. */
static int is_flat(const ct_op_desc_t *d)
{
  int flat = 1;
  for (int i = 0; i < d->x.ndim - 2; i++)
    flat &= d->u.conv.kernel[i] == 1 && d->u.conv.stride[i] == 1 && d->u.conv.pad[i] == 0;
  return flat;
}

static cpu__direct_t direct_of(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  int flat = is_flat(d), space = d->x.ndim - 2;
  cpu__direct_t t = {.tiles = cpu__tiles(job->dev),
                     .threads = job->dev->threads,
                     .bias = d->u.conv.bias,
                     .relu = d->u.conv.relu,
                     .add = d->u.conv.add,
                     .x = image_of(&d->x, job->at.x, flat),
                     .y = image_of(&d->y, job->at.y, flat),
                     .kernel = {1, 1, 1},
                     .stride = {1, 1, 1},
                     .dilate = {1, 1, 1}};
  for (int i = 0; i < space && !flat; i++) {
    int to = 3 - space + i;
    t.kernel[to] = d->u.conv.kernel[i];
    t.stride[to] = d->u.conv.stride[i];
    t.pad[to] = d->u.conv.pad[i];
    t.dilate[to] = d->u.conv.dilate[i];
  }
  t.taps = (int64_t)t.kernel[0] * t.kernel[1] * t.kernel[2];
  t.w_tap = t.x.lanes * t.y.lanes;
  t.w_block = t.w_tap * t.taps;
  t.w_y = t.w_block * t.x.blocks;
  t.weights = t.w_y * t.y.blocks;
  return t;
}

/* ---- entries of the algorithm table ---- */

static int fits(const ct_op_desc_t *d)
{
  int fit = d->u.conv.groups == 1;
  for (int i = 0; i < d->x.ndim - 2; i++)
    fit &= d->u.conv.kernel[i] <= CPU__DIRECT_MAX && d->u.conv.stride[i] <= CPU__DIRECT_MAX;
  return fit;
}

/* Number of multiply-adds, including padding: written channels are whole vectors, and read channels
 * whole blocks if there are several. */
static double padded_work(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  int64_t lanes = cpu__lanes(job->at.y), in = d->x.dim[1], out = d->y.dim[1];
  if (job->pass == CT_BWD_DATA || (job->at.x != CT_PLAIN && in > lanes))
    in = ct_round_up(in, lanes);
  if (job->pass != CT_BWD_DATA || out > lanes) out = ct_round_up(out, lanes);
  double work = (double)d->y.dim[0] * (double)in * (double)out;
  for (int i = 0; i < d->x.ndim - 2; i++)
    work *= (double)d->u.conv.kernel[i] * (double)d->y.dim[2 + i];
  return work;
}

/* Measured speed relative to the best of oneDNN's direct algorithm.  A tile is part of a row and
 * should fill the registers. */
static double efficiency(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  enum { SHORT_ROW = 7 };
  int last = d->x.ndim - 3, strided = d->u.conv.stride[last] > 1 && d->u.conv.kernel[last] > 1;
  if (job->dev->isa == CPU__PORTABLE && !CPU__NEON) return 0.25;
  int few = d->x.dim[1] < cpu__lanes(job->at.y); /* a plain x is better for these */
  if (!strided || few || job->at.x == CT_PLAIN || job->pass == CT_BWD_PARAM) return 0.92;
  return d->y.dim[d->y.ndim - 1] < SHORT_ROW ? 0.8 : 1.05;
}

static int can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  ct_layout_t blocked = cpu__blocked(job->dev);
  enum { PLAIN_MAX = 8 };
  if (d->x.dtype != CT_F32) return cpu__refuse(why, "for float32");
  if (!fits(d)) return cpu__refuse(why, "for one group, kernels and strides of at most 16");
  if (job->at.y != blocked || (job->at.x != blocked && job->at.x != CT_PLAIN))
    return cpu__refuse(why, "for blocks as wide as vectors, or a plain x");
  if (job->at.x == CT_PLAIN &&
      (job->pass == CT_BWD_DATA || d->x.dim[1] > PLAIN_MAX || d->u.conv.dilate[d->x.ndim - 3] > 1))
    return cpu__refuse(why, "a plain x is for few channels that are not dilated, and for no dx");
  double weights = (double)d->x.dim[1] * (double)d->y.dim[1];
  for (int k = 0; k < d->x.ndim - 2; k++)
    weights *= d->u.conv.kernel[k];
  *cost = (cpu__cost_t){padded_work(job) / efficiency(job),
                        job->pass == CT_BWD_DATA ? 25 * weights : 0 /* transposition */};
  return 1;
}

static int stored(const cpu__job_t *job, cpu__md_t **out)
{
  const ct_op_desc_t *d = job->desc;
  int wide = cpu__lanes(job->at.y) == 16;
  int64_t dims[5] = {d->y.dim[1], d->x.dim[1]};
  for (int i = 0; i < d->x.ndim - 2; i++)
    dims[2 + i] = d->u.conv.kernel[i];
  if (job->at.x == CT_PLAIN) return cpu__md_new(d->x.ndim, dims, wide ? CPU__O16 : CPU__O8, out);
  return cpu__md_new(d->x.ndim, dims, wide ? CPU__I16O16 : CPU__I8O8, out);
}

typedef struct ready {
  int pass;
  void *how; /* state of the gather passes, or of the gradient */
} ready_t;

static int prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  int rc = CT_OK;
  cpu__direct_t d = direct_of(job);
  ready_t *r = out->own = ct_mem_alloc(sizeof *r, "convolution");
  if (!r) return CT_ERR_NOMEM;
  r->pass = job->pass;
  if (r->pass == CT_BWD_PARAM)
    CT_TRY(cpu__gradient_prepare(&d, &r->how, &out->scratch));
  else
    CT_TRY(cpu__gather_prepare(&d, r->pass, &r->how, &out->scratch));
  CT_TRY(stored(job, &out->w));
out:
  return rc;
}

static int run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const ready_t *r = ready->own;
  (void)dev;
  if (r->pass == CT_BWD_PARAM)
    cpu__gradient_run(r->how, at);
  else
    cpu__gather_run(r->how, at);
  return CT_OK;
}

static void clear(cpu__ready_t *ready)
{
  ready_t *r = ready->own;
  if (r) ct_mem_free(r->how);
  ct_mem_free(r);
}

const cpu__algo_t cpu__conv_tiled = {.name = "tiled",
                                     .relu = 1,
                                     .add = 1,
                                     .can = can,
                                     .stored = stored,
                                     .prepare = prepare,
                                     .run = run,
                                     .clear = clear};
