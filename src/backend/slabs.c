/* CONV_POOL made of the other ops of a backend: see ct_slabs.h. */
#include "backend/ct_slabs.h"

#include <stdio.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

#define ALIGN 256

/* A tensor as slabs cut it: per sample `chunks` pieces of memory, each with the same rows. */
typedef struct band {
  int64_t chunks, rows;
  size_t row; /* bytes of a row of a chunk */
  char *at;   /* a sample, or a slab */
} band_t;

/* A prepared op of a slab. */
typedef struct part {
  ct_op_t *op;
  ct_op_info_t info;
} part_t;

/* Places in the workspace, in bytes.  Forward and backward use the same memory. */
typedef struct places {
  size_t x, conv, act, y;                    /* forward; conv and act: also backward, if again */
  size_t y_in, dy, dy_in, d_act, d_conv, dx; /* backward; dy_in: of the pooling */
  size_t dw[2], sum[2];
  size_t ops; /* the workspace of the ops */
} places_t;

struct ct_slabs {
  const ct_op_ops_t *ops;
  ct_slabs_copy_fn *copy;
  ct_op_desc_t desc; /* of the whole op, with layouts */
  ct_op_desc_t slab; /* of one sample and slab */
  int again;         /* ct_conv_pool_again() */
  int active;        /* 1: the convolution or an op of its own computes an activation */
  int64_t samples, slabs;
  int64_t step;           /* rows of x from one slab to the next */
  int64_t shared;         /* rows of x that a slab shares with the one before; below 0: a gap */
  size_t saved;           /* bytes of a slab's part of `saved` */
  part_t conv, act, pool; /* act: forward */
  part_t d_act;           /* the activation's backward pass, at y or at the convolution's output */
  part_t add_dx, add_dw[2];
  places_t at;
};

/* ---- support ---- */

static ct_op_desc_t one_slab(const ct_op_desc_t *d)
{
  ct_op_desc_t slab = *d;
  const ct_op_conv_t *c = &d->u.conv_pool.conv;
  const ct_op_pool_t *p = &d->u.conv_pool.pool;
  int64_t rows = d->u.conv_pool.rows;
  int64_t conv_rows = (rows - 1) * p->stride[0] + (int64_t)(p->kernel[0] - 1) * (p->gap[0] + 1) + 1;
  slab.x.dim[0] = slab.y.dim[0] = 1;
  slab.y.dim[2] = rows;
  slab.x.dim[2] = (conv_rows - 1) * c->stride[0] + (int64_t)(c->kernel[0] - 1) * c->dilate[0] + 1;
  slab.u.conv_pool.conv.pad[0] = 0;
  slab.u.conv_pool.pool.ceil = d->u.conv_pool.pool.ceil;
  return slab;
}

int ct_slabs_supports(const ct_op_ops_t *ops, ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  const ct_op_kind_t parts[] = {CT_OP_CONV, CT_OP_ACT, CT_OP_POOL};
  ct_op_desc_t slab = one_slab(d);
  for (int i = 0; i < 3; i++) {
    ct_op_desc_t part = ct_conv_pool_part(&slab, parts[i]);
    if (part.kind == CT_OP_CONV) part.x.layout = d->x.layout;
    if (!ops->supports(dev, &part, why)) return 0;
  }
  return 1;
}

ct_layout_t ct_slabs_wants(const ct_op_ops_t *ops, ct_dev_t *dev, const ct_op_desc_t *d)
{
  ct_op_desc_t slab = one_slab(d), conv = ct_conv_pool_part(&slab, CT_OP_CONV);
  conv.x.layout = d->x.layout;
  return ops->wants(dev, &conv);
}

/* ---- preparation ---- */

static int64_t lanes_of(const ct_shape_t *s)
{
  return s->layout == CT_C16 ? 16 : s->layout == CT_C8 ? 8 : s->layout == CT_NHWC ? s->dim[1] : 1;
}

static band_t band_of(const ct_shape_t *s)
{
  int64_t lanes = lanes_of(s);
  band_t b = {.chunks = (s->dim[1] + lanes - 1) / lanes, .rows = s->dim[2]};
  b.row = (size_t)lanes * ct_dtype_size(s->dtype);
  for (int i = 3; i < s->ndim; i++)
    b.row *= (size_t)s->dim[i];
  return b;
}

static size_t band_bytes(const band_t *b)
{
  return (size_t)(b->chunks * b->rows) * b->row;
}

static int prepare_part(ct_slabs_t *s, ct_dev_t *dev, ct_op_desc_t *d, ct_layout_t layout,
                        const ct_op_t *like, part_t *out)
{
  int rc = CT_OK;
  char text[160];
  d->x.layout = layout;
  if (d->kind != CT_OP_CONV && s->ops->wants(dev, d) != layout &&
      ct_shape_count(&d->x) > d->x.dim[1])
    CT_FAIL(CT_ERR_UNSUP, "%s: not in the layout %s", ct_op_text(d, text, sizeof text),
            ct_layout_name(layout));
  CT_TRY(s->ops->prepare(dev, d, like, &out->op, &out->info));
  d->y.layout = out->info.y_layout;
out:
  return rc;
}

static int prepare_add(ct_slabs_t *s, ct_dev_t *dev, const ct_shape_t *shape, part_t *out)
{
  ct_op_desc_t add;
  ct_op_desc_init(&add, CT_OP_ADD, shape, shape);
  add.training = 1;
  return prepare_part(s, dev, &add, shape->layout, NULL, out);
}

/* The derivative of the activation: at the maxima, unless the convolution is computed again. */
static int prepare_d_act(ct_slabs_t *s, ct_dev_t *dev, ct_layout_t layout)
{
  ct_op_desc_t act = ct_conv_pool_part(&s->slab, CT_OP_ACT);
  act.passes = CT_BWD_DATA;
  if (!s->again) {
    act.x = s->slab.y;
    act.y = s->slab.y;
  }
  return prepare_part(s, dev, &act, layout, NULL, &s->d_act);
}

static int prepare_sums(ct_slabs_t *s, ct_dev_t *dev)
{
  int rc = CT_OK;
  ct_shape_t shared = s->slab.x;
  shared.dim[2] = s->shared;
  if (s->desc.passes & CT_BWD_DATA && s->shared > 0)
    CT_TRY(prepare_add(s, dev, &shared, &s->add_dx));
  for (int k = 0; k < 2 && s->desc.passes & CT_BWD_PARAM; k++) {
    ct_shape_t flat = ct_shape(1, (int64_t)(s->conv.info.param_bytes[k] / sizeof(float)));
    if (flat.dim[0]) CT_TRY(prepare_add(s, dev, &flat, &s->add_dw[k]));
  }
out:
  return rc;
}

static int prepare_parts(ct_slabs_t *s, ct_dev_t *dev, const ct_op_t *like)
{
  int rc = CT_OK;
  ct_op_desc_t conv = ct_conv_pool_part(&s->slab, CT_OP_CONV);
  ct_op_desc_t act = ct_conv_pool_part(&s->slab, CT_OP_ACT);
  ct_op_desc_t pool = ct_conv_pool_part(&s->slab, CT_OP_POOL);
  if (s->again) conv.passes |= CT_FWD;
  CT_TRY(prepare_part(s, dev, &conv, s->desc.x.layout, like, &s->conv));
  ct_layout_t layout = conv.y.layout;
  act.passes = CT_FWD;
  if (s->desc.u.conv_pool.act) CT_TRY(prepare_part(s, dev, &act, layout, NULL, &s->act));
  CT_TRY(prepare_part(s, dev, &pool, layout, NULL, &s->pool));
  s->desc.y.layout = s->slab.y.layout = layout;
  if (s->active && ct_op_goes_back(&s->desc)) CT_TRY(prepare_d_act(s, dev, layout));
  CT_TRY(prepare_sums(s, dev));
out:
  return rc;
}

static size_t take(size_t *end, size_t bytes)
{
  size_t at = *end;
  *end += (bytes + ALIGN - 1) / ALIGN * ALIGN;
  return at;
}

/* The activation is computed in place of the convolution's output where the backend can. */
static size_t take_act(size_t *end, const part_t *act, size_t conv, size_t bytes)
{
  return !act->op || act->info.inplace_fwd ? conv : take(end, bytes);
}

static void place_backward(ct_slabs_t *s, size_t conv, size_t *end)
{
  places_t *at = &s->at;
  const band_t x = band_of(&s->slab.x), y = band_of(&s->slab.y);
  const int back = s->desc.passes;
  int at_y = s->d_act.op && !s->again;
  if (s->again) at->conv = take(end, conv);
  if (s->again) at->act = take_act(end, &s->act, at->conv, conv);
  at->dy = take(end, band_bytes(&y));
  at->dy_in = at->dy;
  if (at_y) at->y_in = take(end, band_bytes(&y));
  if (at_y && !s->d_act.info.inplace_bwd) at->dy_in = take(end, band_bytes(&y));
  at->d_act = at->d_conv = take(end, conv);
  if (s->again && !s->d_act.info.inplace_bwd) at->d_conv = take(end, conv);
  if (back & CT_BWD_DATA) at->dx = take(end, band_bytes(&x));
  for (int k = 0; k < 2 && s->add_dx.op; k++)
    at->sum[k] = take(end, (size_t)s->shared * x.row * (size_t)x.chunks);
  for (int k = 0; k < 2 && back & CT_BWD_PARAM; k++)
    at->dw[k] = take(end, s->conv.info.param_bytes[k]);
}

/* Returns the bytes of the workspace. */
static size_t place(ct_slabs_t *s)
{
  const part_t *all[] = {&s->conv,   &s->act,       &s->pool,     &s->d_act,
                         &s->add_dx, &s->add_dw[0], &s->add_dw[1]};
  const band_t x = band_of(&s->slab.x), y = band_of(&s->slab.y);
  ct_op_desc_t d = ct_conv_pool_part(&s->slab, CT_OP_CONV);
  d.y.layout = s->slab.y.layout;
  size_t conv = ct_shape_bytes(&d.y), end = 0, most = 0;
  s->at.x = take(&end, band_bytes(&x));
  size_t back = end;
  s->at.conv = take(&end, conv);
  s->at.act = take_act(&end, &s->act, s->at.conv, conv);
  s->at.y = take(&end, band_bytes(&y));
  if (ct_op_goes_back(&s->desc)) place_backward(s, conv, &back);
  s->at.ops = end > back ? end : back;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]->info.scratch > most) most = all[i]->info.scratch;
  return s->at.ops + most;
}

/* Estimates: the kernels of all slabs, what they pass on in the workspace, and what is computed
 * again. */
static void estimate(const ct_slabs_t *s, ct_op_info_t *info)
{
  const band_t x = band_of(&s->slab.x), y = band_of(&s->slab.y);
  const int passes = s->desc.passes;
  ct_op_desc_t all = ct_conv_pool_part(&s->desc, CT_OP_CONV);
  ct_op_desc_t one = ct_conv_pool_part(&s->slab, CT_OP_CONV);
  double runs = (double)(s->samples * s->slabs), again = s->again ? 1 : 0;
  double forward = runs * ct_op_flops(&one, CT_FWD);
  double more = forward - ct_op_flops(&all, CT_FWD), conv = (double)ct_shape_bytes(&one.y);
  int sums = (passes & CT_BWD_PARAM) != 0, gives = (passes & CT_BWD_DATA) != 0;
  double moved = 2 * (double)band_bytes(&x) + 2 * (double)band_bytes(&y);
  info->extra_bytes[0] = runs * (moved + 2 * conv * (1 + (s->act.op != NULL)));
  info->extra_flops[0] = more;
  info->kernels[0] = (int)runs * (4 + (s->act.op != NULL));
  if (!sums && !gives) return;
  info->extra_bytes[1] = runs * (moved * (1 + gives) + 2 * conv * (1 + 2 * again));
  info->extra_flops[1] = (sums + gives) * more + again * forward;
  info->kernels[1] = (int)runs * (4 + 2 * sums + 3 * gives + 2 * s->again);
}

static void cut(ct_slabs_t *s, const ct_op_desc_t *d)
{
  int64_t rows = d->u.conv_pool.rows;
  s->desc = *d;
  s->slab = one_slab(d);
  s->again = ct_conv_pool_again(d);
  s->active = d->u.conv_pool.act || d->u.conv_pool.conv.relu;
  s->samples = d->x.dim[0];
  s->slabs = (d->y.dim[2] + rows - 1) / rows;
  s->step = rows * d->u.conv_pool.pool.stride[0] * d->u.conv_pool.conv.stride[0];
  s->shared = s->slabs > 1 ? s->slab.x.dim[2] - s->step : 0;
}

int ct_slabs_make(const ct_op_ops_t *ops, ct_slabs_copy_fn *copy, ct_dev_t *dev,
                  const ct_op_desc_t *d, const ct_op_t *like, ct_slabs_t **out, ct_op_info_t *info)
{
  int rc = CT_OK;
  ct_slabs_t *s = ct_mem_alloc(sizeof *s, "op in slabs");
  *out = NULL;
  if (!s) return CT_ERR_NOMEM;
  s->ops = ops;
  s->copy = copy;
  cut(s, d);
  CT_TRY(prepare_parts(s, dev, like));
  s->saved = (s->pool.info.saved + ALIGN - 1) / ALIGN * ALIGN;
  info->scratch = place(s);
  info->saved = s->saved * (size_t)(s->slabs * s->samples);
  info->y_layout = s->desc.y.layout;
  memcpy(info->param_bytes, s->conv.info.param_bytes, sizeof info->param_bytes);
  info->param_layout = s->conv.info.param_layout;
  info->algorithm = s->conv.info.algorithm;
  info->adds_dw = 1;
  estimate(s, info);
  *out = s;
  s = NULL;
out:
  ct_slabs_free(s);
  return rc;
}

ct_op_t *ct_slabs_conv(const ct_slabs_t *s)
{
  return s->conv.op;
}

void ct_slabs_free(ct_slabs_t *s)
{
  if (!s) return;
  part_t *all[] = {&s->conv,   &s->act,       &s->pool,     &s->d_act,
                   &s->add_dx, &s->add_dw[0], &s->add_dw[1]};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    s->ops->release(all[i]->op);
  ct_mem_free(s);
}

/* ---- running ---- */

/* A run at one slab of one sample. */
typedef struct slab_run {
  const ct_slabs_t *s;
  ct_queue_t *q;
  const ct_op_args_t *a;
  char *work; /* the workspace */
  int64_t sample;
  int64_t number; /* of the slab */
  int64_t y_row;  /* its first row in y */
  int64_t fresh;  /* the first row of y that no slab before it has computed */
  int64_t x_row;  /* its first row in x; may be in the padding */
  void *saved;
  int sums; /* 1: gradients of the parameters are added to those that exist */
} slab_run_t;

/* The band of a sample in the memory of a whole tensor, or of a slab in the workspace. */
static band_t sample_of(const slab_run_t *r, const ct_shape_t *shape, const void *base)
{
  band_t b = band_of(shape);
  b.at = (char *)(uintptr_t)base + (size_t)r->sample * band_bytes(&b);
  return b;
}

static band_t slab_of(const slab_run_t *r, const ct_shape_t *shape, size_t place)
{
  band_t b = band_of(shape);
  b.at = r->work + place;
  return b;
}

/* Copies rows; from NULL: zeros. */
static int copy_rows(const slab_run_t *r, const band_t *to, int64_t to_row, const band_t *from,
                     int64_t from_row, int64_t rows)
{
  if (rows <= 0) return CT_OK;
  return r->s->copy(r->q, to->at + (size_t)to_row * to->row, (size_t)to->rows * to->row,
                    from ? from->at + (size_t)from_row * from->row : NULL,
                    from ? (size_t)from->rows * from->row : 0, (size_t)rows * to->row, to->chunks);
}

static int64_t within(int64_t v, int64_t low, int64_t high)
{
  return v < low ? low : v > high ? high : v;
}

/* Copies the rows of a tensor from \a row on to a slab; those outside of low … high are zeros. */
static int gather(const slab_run_t *r, const band_t *slab, const band_t *whole, int64_t row,
                  int64_t low, int64_t high)
{
  int rc = CT_OK;
  int64_t first = within(low - row, 0, slab->rows), end = within(high - row, first, slab->rows);
  CT_TRY(copy_rows(r, slab, 0, NULL, 0, first));
  CT_TRY(copy_rows(r, slab, first, whole, row + first, end - first));
  CT_TRY(copy_rows(r, slab, end, NULL, 0, slab->rows - end));
out:
  return rc;
}

static int gather_x(const slab_run_t *r)
{
  band_t slab = slab_of(r, &r->s->slab.x, r->s->at.x);
  band_t x = sample_of(r, &r->s->desc.x, r->a->x);
  return gather(r, &slab, &x, r->x_row, 0, x.rows);
}

static int run_part(const slab_run_t *r, const part_t *part, ct_op_args_t *a)
{
  a->scratch = r->work + r->s->at.ops;
  return r->s->ops->run(r->q, part->op, a);
}

/* The arguments of the convolution, with the parameters. */
static ct_op_args_t conv_args(const slab_run_t *r, int pass)
{
  ct_op_args_t a = {.pass = pass, .x = r->work + r->s->at.x};
  memcpy(a.w, r->a->w, sizeof a.w);
  memcpy(a.w_reduced, r->a->w_reduced, sizeof a.w_reduced);
  return a;
}

/* Computes the convolution and, if \a active, the activation. */
static int convolve_slab(const slab_run_t *r, int active)
{
  int rc = CT_OK;
  const ct_slabs_t *s = r->s;
  ct_op_args_t conv = conv_args(r, CT_FWD);
  conv.y = r->work + s->at.conv;
  CT_TRY(run_part(r, &s->conv, &conv));
  if (s->act.op && active) {
    ct_op_args_t act = {.pass = CT_FWD, .x = conv.y, .y = r->work + s->at.act};
    CT_TRY(run_part(r, &s->act, &act));
  }
out:
  return rc;
}

static int forward_slab(slab_run_t *r)
{
  int rc = CT_OK;
  const ct_slabs_t *s = r->s;
  band_t slab = slab_of(r, &s->slab.y, s->at.y), y = sample_of(r, &s->desc.y, r->a->y);
  CT_TRY(gather_x(r));
  CT_TRY(convolve_slab(r, 1));
  ct_op_args_t pool = {.pass = CT_FWD, .x = r->work + s->at.act, .y = slab.at, .saved = r->saved};
  CT_TRY(run_part(r, &s->pool, &pool));
  CT_TRY(copy_rows(r, &y, r->y_row, &slab, 0, slab.rows));
out:
  return rc;
}

/* Computes the gradient of the convolution's output, from the rows of dy that no other slab has
 * used. */
static int backward_to_conv(const slab_run_t *r)
{
  int rc = CT_OK;
  const ct_slabs_t *s = r->s;
  const places_t *at = &s->at;
  band_t dy = slab_of(r, &s->slab.y, at->dy), dys = sample_of(r, &s->desc.y, r->a->dy);
  ct_op_args_t act = {.pass = CT_BWD_DATA};
  CT_TRY(gather(r, &dy, &dys, r->y_row, r->fresh, dys.rows));
  if (s->d_act.op && !s->again) {
    band_t y = slab_of(r, &s->slab.y, at->y_in), ys = sample_of(r, &s->desc.y, r->a->y);
    CT_TRY(gather(r, &y, &ys, r->y_row, 0, ys.rows));
    act.y = y.at;
    act.dy = dy.at;
    act.dx = r->work + at->dy_in;
    CT_TRY(run_part(r, &s->d_act, &act));
  }
  ct_op_args_t pool = {
      .pass = CT_BWD_DATA, .dy = r->work + at->dy_in, .dx = r->work + at->d_act, .saved = r->saved};
  CT_TRY(run_part(r, &s->pool, &pool));
  if (s->again) {
    act.x = r->work + at->conv;
    act.y = r->work + at->act;
    act.dy = pool.dx;
    act.dx = r->work + at->d_conv;
    CT_TRY(run_part(r, &s->d_act, &act));
  }
out:
  return rc;
}

/* Copies the slab's part of dx, after the rows that it shares with the slab before are added. */
static int give_dx(const slab_run_t *r)
{
  int rc = CT_OK;
  const ct_slabs_t *s = r->s;
  band_t slab = slab_of(r, &s->slab.x, s->at.dx), dx = sample_of(r, &s->desc.x, r->a->dx);
  ct_shape_t shape = s->slab.x;
  shape.dim[2] = s->shared;
  int64_t first = r->x_row + (r->fresh - r->y_row) * (s->step / s->desc.u.conv_pool.rows);
  int64_t end = within(r->x_row + slab.rows, 0, dx.rows), next = first;
  if (r->number > 0) next += s->shared; /* the end of the slab before */
  if (r->number > 0 && s->shared > 0) {
    band_t own = slab_of(r, &shape, s->at.sum[0]), other = slab_of(r, &shape, s->at.sum[1]);
    int64_t from = within(first, 0, dx.rows), to = within(next, 0, dx.rows);
    CT_TRY(gather(r, &own, &dx, first, 0, dx.rows));
    CT_TRY(copy_rows(r, &other, 0, &slab, first - r->x_row, s->shared));
    ct_op_args_t add = {.pass = CT_FWD, .x = own.at, .x2 = other.at, .y = own.at};
    CT_TRY(run_part(r, &s->add_dx, &add));
    CT_TRY(copy_rows(r, &dx, from, &own, from - first, to - from));
  }
  int64_t from = within(next > first ? next : first, 0, dx.rows);
  next = within(next, 0, dx.rows);
  CT_TRY(copy_rows(r, &dx, next, NULL, 0, from - next));
  CT_TRY(copy_rows(r, &dx, from, &slab, from - r->x_row, end - from));
  if (r->number == s->slabs - 1) CT_TRY(copy_rows(r, &dx, end, NULL, 0, dx.rows - end));
out:
  return rc;
}

static int add_weights(const slab_run_t *r)
{
  int rc = CT_OK;
  const ct_slabs_t *s = r->s;
  for (int k = 0; k < 2 && r->sums; k++) {
    ct_op_args_t add = {
        .pass = CT_FWD, .x = r->a->dw[k], .x2 = r->work + s->at.dw[k], .y = r->a->dw[k]};
    if (s->add_dw[k].op) CT_TRY(run_part(r, &s->add_dw[k], &add));
  }
out:
  return rc;
}

static int backward_slab(slab_run_t *r)
{
  int rc = CT_OK;
  const ct_slabs_t *s = r->s;
  int params = r->a->pass & CT_BWD_PARAM, data = r->a->pass & CT_BWD_DATA;
  ct_op_args_t conv = conv_args(r, r->a->pass & (CT_BWD_DATA | CT_BWD_PARAM));
  if (params || s->again) CT_TRY(gather_x(r));
  if (s->again) CT_TRY(convolve_slab(r, s->d_act.info.bwd_uses & CT_USES_Y));
  CT_TRY(backward_to_conv(r));
  conv.dy = r->work + s->at.d_conv;
  conv.dx = data ? r->work + s->at.dx : NULL;
  for (int k = 0; k < 2 && params; k++)
    conv.dw[k] = r->sums ? r->work + s->at.dw[k] : r->a->dw[k];
  CT_TRY(run_part(r, &s->conv, &conv));
  if (params) CT_TRY(add_weights(r));
  if (data) CT_TRY(give_dx(r));
out:
  return rc;
}

/* Runs a pass slab by slab. */
static int run_slabs(const ct_slabs_t *s, ct_queue_t *q, const ct_op_args_t *a,
                     int (*run)(slab_run_t *r))
{
  int rc = CT_OK;
  const ct_op_conv_pool_t *o = &s->desc.u.conv_pool;
  slab_run_t r = {.s = s, .q = q, .a = a, .work = a->scratch, .sums = a->adds_dw};
  for (r.sample = 0; r.sample < s->samples; r.sample++) {
    for (r.number = 0; r.number < s->slabs; r.number++) {
      int64_t last = s->desc.y.dim[2] - o->rows;
      r.fresh = r.number * o->rows;
      r.y_row = r.fresh < last ? r.fresh : last;
      r.x_row = r.y_row * (s->step / o->rows) - o->conv.pad[0];
      size_t before = (size_t)(r.sample * s->slabs + r.number);
      r.saved = a->saved ? (char *)a->saved + before * s->saved : NULL;
      CT_TRY(run(&r));
      r.sums = 1;
    }
  }
out:
  return rc;
}

/* Without samples the gradients of the parameters are zero. */
static int clear_weights(const ct_slabs_t *s, ct_queue_t *q, const ct_op_args_t *a)
{
  int rc = CT_OK;
  for (int k = 0; k < 2; k++)
    if (s->add_dw[k].op) CT_TRY(s->copy(q, a->dw[k], 0, NULL, 0, s->conv.info.param_bytes[k], 1));
out:
  return rc;
}

int ct_slabs_run(ct_slabs_t *s, ct_queue_t *q, const ct_op_args_t *a)
{
  int rc = CT_OK;
  if (a->pass & CT_FWD) CT_TRY(run_slabs(s, q, a, forward_slab));
  if (a->pass & (CT_BWD_DATA | CT_BWD_PARAM)) CT_TRY(run_slabs(s, q, a, backward_slab));
  if (a->pass & CT_BWD_PARAM && s->samples == 0 && !a->adds_dw) CT_TRY(clear_weights(s, q, a));
out:
  return rc;
}
