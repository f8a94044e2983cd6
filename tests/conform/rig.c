/* Implementation of rig.h: device memory with guards, conversion of data to and from the op's
 * layout, and one run of an op.  It detects errors that a comparison of results misses: accesses
 * out of bounds, sums onto uninitialized memory, writes to memory that must stay unchanged. */
#include "tests/conform/rig.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Bytes on each side: whole vectors of any device, and more than a kernel prefetches. */
enum { GUARD = 1024 };

/* Pointer for arguments that an op did not ask for: neither readable nor NULL. */
static void *const unasked = (void *)64;

/* ---- sides and blocks ---- */

int side_open(side_t *s, const ct_backend_t *be, const ct_dev_opts_t *opts)
{
  int rc = CT_OK;

  memset(s, 0, sizeof *s);
  s->be = be;
  CT_TRY(be->open(opts, &s->dev));
  CT_TRY(be->queue->create(s->dev, &s->queue));
out:
  return rc;
}

void side_close(side_t *s)
{
  if (!s->dev) return;
  s->be->queue->destroy(s->queue);
  s->be->close(s->dev);
  memset(s, 0, sizeof *s);
}

void block_open(block_t *b, side_t *s, size_t bytes)
{
  b->side = s;
  b->bytes = bytes;
  must(s->be->mem->alloc(s->dev, CT_MEM_DEVICE, bytes + 2 * GUARD, &b->base));
  b->mem = (char *)b->base + GUARD;
  block_spoil(b);
}

static void copy(side_t *s, void *dst, const void *src, size_t bytes)
{
  must(s->be->mem->copy(s->queue, dst, src, bytes));
  must(s->be->queue->sync(s->queue));
}

void block_put(block_t *b, const void *data, size_t bytes)
{
  copy(b->side, b->mem, data, bytes);
}

void block_take(const block_t *b, void *data, size_t bytes)
{
  copy(b->side, data, b->mem, bytes);
}

void block_spoil(block_t *b)
{
  size_t bytes = b->bytes + 2 * GUARD;
  void *nan = host_array((int64_t)bytes, 1);
  memset(nan, 0xff, bytes);
  copy(b->side, b->base, nan, bytes);
  ct_mem_free(nan);
}

static int is_guard(const block_t *b, const char *at)
{
  unsigned char guard[GUARD];
  copy(b->side, guard, at, GUARD);
  for (int i = 0; i < GUARD; i++) {
    if (guard[i] != 0xff) return 0;
  }
  return 1;
}

int block_intact(const block_t *b)
{
  return is_guard(b, b->base) && is_guard(b, (char *)b->mem + b->bytes);
}

void block_close(block_t *b)
{
  if (b->base) b->side->be->mem->free(b->side->dev, CT_MEM_DEVICE, b->base);
  memset(b, 0, sizeof *b);
}

/* ---- tensors ---- */

static int prepare_reorder(side_t *s, const ct_shape_t *from, const ct_shape_t *to, ct_op_t **op)
{
  ct_op_desc_t d;
  ct_op_info_t info;
  ct_op_desc_init(&d, CT_OP_REORDER, from, to);
  return s->be->op->prepare(s->dev, &d, NULL, op, &info);
}

int tensor_open(tensor_t *t, side_t *s, const ct_shape_t *shape, ct_layout_t layout)
{
  return tensor_open_in(t, s, shape, shape, layout);
}

int tensor_open_in(tensor_t *t, side_t *s, const ct_shape_t *shape, const ct_shape_t *around,
                   ct_layout_t layout)
{
  int rc = CT_OK;
  ct_shape_t plain = *shape, whole = *around;

  t->shape = *shape;
  t->shape.layout = whole.layout = layout;
  plain.layout = CT_PLAIN;
  plain.dtype = CT_F32;
  block_open(&t->own, s, ct_shape_bytes(&whole));
  if (!ct_shape_same(shape, around)) block_open(&t->alone, s, ct_shape_bytes(&t->shape));
  if (layout == CT_PLAIN && shape->dtype == CT_F32) return CT_OK;
  block_open(&t->plain, s, ct_shape_bytes(&plain));
  CT_TRY(prepare_reorder(s, &plain, &t->shape, &t->in));
  CT_TRY(prepare_reorder(s, &t->shape, &plain, &t->out));
out:
  return rc;
}

static void reorder(side_t *s, ct_op_t *op, const void *x, void *y)
{
  ct_op_args_t a = {.pass = CT_FWD, .x = x, .y = y};
  must(s->be->op->run(s->queue, op, &a));
  must(s->be->queue->sync(s->queue));
}

void tensor_put(tensor_t *t, const float *data)
{
  size_t bytes = (size_t)ct_shape_count(&t->shape) * sizeof *data;

  block_put(t->in ? &t->plain : tensor_alone(t), data, bytes);
  if (t->in) reorder(t->own.side, t->in, t->plain.mem, tensor_alone(t)->mem);
  tensor_move_part(t, 1);
}

/* Checks that the padding channels of blocked layouts are zero. */
static int padding_is_zero(tensor_t *t)
{
  int64_t block = t->shape.layout == CT_C8 ? 8 : t->shape.layout == CT_C16 ? 16 : 0;
  int64_t channels = t->shape.ndim > 1 ? t->shape.dim[1] : 1;
  int64_t count = ct_shape_padded(&t->shape), bad = 0;

  if (block == 0 || channels % block == 0) return 1;
  int64_t space = ct_shape_sample(&t->shape) / channels;
  int64_t blocks = (channels + block - 1) / block;
  void *raw = host_array(count, sizeof(float));
  block_take(tensor_alone(t), raw, ct_shape_bytes(&t->shape));
  for (int64_t i = 0; i < count; i++) {
    int64_t c = i / (space * block) % blocks * block + i % block;
    if (c >= channels) bad += !(element_take(raw, t->shape.dtype, i) == 0);
  }
  ct_mem_free(raw);
  return bad == 0;
}

int tensor_take(tensor_t *t, float *data)
{
  size_t bytes = (size_t)ct_shape_count(&t->shape) * sizeof *data;
  int fine = block_intact(&t->own) && tensor_move_part(t, 0) && padding_is_zero(t);

  if (t->out) reorder(t->own.side, t->out, tensor_alone(t)->mem, t->plain.mem);
  block_take(t->out ? &t->plain : tensor_alone(t), data, bytes);
  return fine;
}

void tensor_close(tensor_t *t)
{
  side_t *s = t->own.side;

  if (s) s->be->op->release(t->in);
  if (s) s->be->op->release(t->out);
  block_close(&t->own);
  block_close(&t->plain);
  block_close(&t->alone);
  memset(t, 0, sizeof *t);
}

/* ---- the rig ---- */

ct_layout_t rig_layout(side_t *s, const ct_op_desc_t *d, ct_layout_t offered)
{
  ct_op_desc_t o = *d;
  o.x.layout = offered;
  o.x2.layout = o.x3.layout = offered;
  return s->be->op->wants(s->dev, &o);
}

/* Sets the layouts of the inputs as a plan does: an input with another number of dims than the
 * output is plain. */
static void set_layouts(ct_op_desc_t *d, ct_layout_t layout)
{
  ct_shape_t *in[] = {&d->x, &d->x2, &d->x3};
  int free_shapes = ct_op_is(d->kind, CT_KIND_SHAPES);
  d->x.layout = layout;
  for (int i = 0; i < 3 && free_shapes; i++)
    in[i]->layout = ct_op_takes_layout(d, i) ? layout : CT_PLAIN;
}

static int prepare(rig_t *r)
{
  side_t *s = r->side;
  int rc = CT_OK;
  char why[128] = "";

  if (!s->be->op->supports(s->dev, &r->desc, why))
    CT_FAIL(CT_ERR_UNSUP, "supports() says no: %s", why);
  if (r->how.flags & RIG_LIKE) {
    ct_op_desc_t other = r->desc;
    ct_op_info_t info;
    ct_op_kind_t kind = r->desc.kind;
    int own = kind == CT_OP_OPERAND || kind == CT_OP_STRIDED || kind == CT_OP_REDUCE;
    own |= kind == CT_OP_CONCAT && ct_op_concat_dim(&r->desc) == 0;
    int rows = kind == CT_OP_DROPOUT && r->desc.u.dropout.rows ? r->desc.u.dropout.rows : 1;
    if (!own && !ct_op_is(kind, CT_KIND_SHAPES))
      other.x.dim[0] = other.y.dim[0] = r->desc.x.dim[0] + 3 * rows;
    CT_TRY(s->be->op->prepare(s->dev, &other, NULL, &r->like, &info));
    CT_TRY(s->be->op->prepare(s->dev, &r->desc, r->like, &r->op, &r->info));
    if (info.param_layout != r->info.param_layout ||
        memcmp(info.param_bytes, r->info.param_bytes, sizeof info.param_bytes))
      CT_FAIL(CT_ERR_DIFFER, "the parameter layout of `like` was not taken over");
  } else {
    CT_TRY(s->be->op->prepare(s->dev, &r->desc, NULL, &r->op, &r->info));
  }
out:
  return rc;
}

static int open_tensors(rig_t *r)
{
  const ct_op_desc_t *d = &r->desc;
  ct_layout_t x = d->x.layout, y = r->info.y_layout;
  int rc = CT_OK;

  ct_shape_t in = ct_op_around_x(d), out = ct_op_around_y(d);
  int adds = r->info.adds_dx && r->how.flags & RIG_ADD_DX;
  CT_TRY(tensor_open_in(&r->x, r->side, &d->x, &in, x));
  if (ct_op_is_loss(d->kind)) return tensor_open(&r->dx, r->side, &d->x, x);
  CT_TRY(tensor_open_in(&r->y, r->side, &d->y, &out, y));
  CT_TRY(tensor_open_in(&r->dy, r->side, &d->y, &out, y));
  CT_TRY(tensor_open_in(&r->dy2, r->side, adds ? &d->x : &d->y, adds ? &in : &out, adds ? x : y));
  CT_TRY(tensor_open_in(&r->dx, r->side, &d->x, &in, x));
  ct_shape_t x2 = ct_op_second(d);
  if (d->x2.ndim) x = d->x2.layout;
  if (takes_x2(d)) CT_TRY(tensor_open(&r->x2, r->side, &x2, d->kind == CT_OP_CONV ? y : x));
  if (takes_x3(d)) CT_TRY(tensor_open(&r->x3, r->side, &d->x3, d->x3.layout));
  if (takes_x3(d) && !(ct_op_indices(d) & 4))
    CT_TRY(tensor_open(&r->dx3, r->side, &d->x3, d->x3.layout));
  /* an addition has the same gradient for both inputs */
  if (takes_x2(d) && d->kind != CT_OP_ADD && d->kind != CT_OP_CONV && !ct_op_adds_second(d) &&
      !(ct_op_indices(d) & 2))
    CT_TRY(tensor_open(&r->dx2, r->side, &x2, x));
out:
  return rc;
}

/* Returns the layout that a plan would like y of a strided copy to have: the one offered, if the
 * backend has it and y is an image. */
static ct_layout_t layout_of_y(side_t *s, const ct_op_desc_t *d, ct_layout_t offered)
{
  ct_op_desc_t turn;
  ct_shape_t to = d->y;
  char why[128];
  to.layout = offered;
  ct_op_desc_init(&turn, CT_OP_REORDER, &d->y, &to);
  return d->y.ndim >= 4 && s->be->op->supports(s->dev, &turn, why) ? offered : CT_PLAIN;
}

int rig_prepare(rig_t *r, side_t *s, const ct_op_desc_t *d, const trial_t *how)
{
  memset(r, 0, sizeof *r);
  r->side = s;
  r->how = *how;
  memcpy(&r->desc, d, sizeof *d);
  r->desc.passes = how->passes;
  set_layouts(&r->desc, rig_layout(s, d, how->offered));
  if (d->kind == CT_OP_STRIDED) r->desc.y.layout = layout_of_y(s, d, how->offered);
  r->args.scale = 1;
  return prepare(r);
}

/* Samples whose queries see few keys or all but one. */
static void open_places(rig_t *r)
{
  int64_t n = r->desc.x.dim[0], room = r->desc.x2.dim[1] - r->desc.x.dim[1];
  int32_t *place = host_array(n, sizeof *place);
  for (int64_t i = 0; i < n; i++)
    place[i] = (int32_t)(room > 1 ? (room - 1) / (i + 1) : i);
  block_open(&r->places, r->side, (size_t)n * sizeof *place);
  block_put(&r->places, place, (size_t)n * sizeof *place);
  r->args.position = r->places.mem;
  ct_mem_free(place);
}

int rig_open(rig_t *r, side_t *s, const ct_op_desc_t *d, const trial_t *how)
{
  int rc = CT_OK;
  void *loss;

  CT_TRY(rig_prepare(r, s, d, how));
  CT_TRY(open_tensors(r));
  for (int i = 0; i < 4; i++) {
    size_t own = r->info.param_bytes[i], plain = (size_t)param_count(d, i) * sizeof(float);
    block_open(&r->w[i], s, own ? own : plain); /* running statistics are plain */
    block_open(&r->dw[i], s, own);
  }
  block_open(&r->saved, s, r->info.saved);
  block_open(&r->scratch, s, r->info.scratch);
  if (how->flags & RIG_STATS)
    block_open(&r->stats, s, (size_t)(2 * d->x.dim[1] + 1) * sizeof(double));
  if (d->kind == CT_OP_SDPA && d->u.sdpa.cached) open_places(r);
  must(s->be->mem->alloc(s->dev, CT_MEM_STAGING, sizeof *r->loss, &loss));
  r->loss = loss;
out:
  return rc;
}

/* Fills the stacks of all threads that an op may use with NaN. */
static void spoil_stacks(void)
{
#pragma omp parallel num_threads(2)
  {
    char old[1 << 14];
    memset(old, 0xff, sizeof old);
    __asm__ volatile("" : : "r"(old) : "memory"); /* prevents the compiler from removing it */
  }
}

static int run(rig_t *r, int pass)
{
  int rc = CT_OK;
  r->args.pass = pass;
  spoil_stacks();
  CT_TRY(r->side->be->op->run(r->side->queue, r->op, &r->args));
  CT_TRY(r->side->be->queue->sync(r->side->queue));
  if (pass == CT_BWD_STATS) r->done |= r->how.passes & CT_BWD_PARAM; /* with the sums */
  r->done = pass & CT_FWD ? pass : r->done | pass;
out:
  return rc;
}

/* Stores a parameter in the op's reduced precision, as a trainer does for backends that need it. */
static int put_low(rig_t *r, int i)
{
  side_t *s = r->side;
  int rc = CT_OK;
  ct_op_t *cast = NULL;
  ct_shape_t from = ct_shape(2, 1, (int64_t)(r->info.param_bytes[i] / sizeof(float))), to = from;

  to.dtype = r->desc.x.dtype;
  if (!s->be->reduced_weights || to.dtype == CT_F32 || from.dim[1] == 0) return CT_OK;
  if (!r->reduced[i].mem) block_open(&r->reduced[i], s, ct_shape_bytes(&to));
  CT_TRY(prepare_reorder(s, &from, &to, &cast));
  reorder(s, cast, r->w[i].mem, r->reduced[i].mem);
  r->args.w_reduced[i] = r->reduced[i].mem;
out:
  s->be->op->release(cast);
  return rc;
}

static int put_params(rig_t *r, const inputs_t *in)
{
  side_t *s = r->side;
  int rc = CT_OK;

  for (int i = 0; i < 4; i++) {
    r->args.w[i] = param_count(&r->desc, i) > 0 ? r->w[i].mem : NULL;
    if (!r->args.w[i]) continue;
    if (r->info.param_bytes[i]) {
      CT_TRY(s->be->op->pack(s->queue, r->like ? r->like : r->op, i, in->w[i], r->w[i].mem));
    } else {
      block_put(&r->w[i], in->w[i], r->w[i].bytes);
    }
    CT_TRY(put_low(r, i));
  }
out:
  return rc;
}

int rig_forward(rig_t *r, const inputs_t *in)
{
  tensor_t *x = r->how.flags & RIG_INPLACE_FWD ? &r->y : &r->x;
  int rc = CT_OK;

  if (r->y.own.mem) block_spoil(&r->y.own);
  block_spoil(&r->saved);
  block_spoil(&r->scratch);
  tensor_put(x, in->x);
  rig_place(r);
  if (in->x2) tensor_put(&r->x2, in->x2);
  if (in->x3) tensor_put(&r->x3, in->x3);
  CT_TRY(put_params(r, in));
  if (in->labels) loss_inputs_put(r, in);
  r->args.x = x->own.mem;
  r->args.x2 = r->x2.own.mem;
  r->args.x3 = r->x3.own.mem;
  r->args.y = r->y.own.mem;
  r->args.dx = r->dx.own.mem; /* a loss may run all passes at once */
  for (int i = 0; i < 4 && in->labels; i++)
    r->args.dw[i] = r->dw[i].mem;
  int empty = r->desc.x.dim[0] == 0; /* the op may have asked for 0 bytes */
  r->args.saved = r->info.saved || empty ? r->saved.mem : unasked;
  r->args.scratch = r->info.scratch || empty ? r->scratch.mem : unasked;
  r->args.loss = r->loss;
  r->args.stats = r->how.flags & RIG_STATS ? r->stats.mem : unasked;
  if (r->how.flags & RIG_STATS) return run(r, CT_FWD_STATS);
  CT_TRY(run(r, r->how.flags & RIG_JOINT && in->labels ? r->how.passes : CT_FWD));
  if (r->how.flags & RIG_AGAIN) CT_TRY(rig_again(r));
out:
  return rc;
}

int rig_backward(rig_t *r, const inputs_t *in)
{
  ct_op_args_t *a = &r->args;
  int rc = CT_OK, back = r->how.passes & (CT_BWD_DATA | CT_BWD_PARAM);
  int with_dy2 = (r->how.flags & RIG_DY2) && r->info.takes_dy2;

  if (!back || r->how.flags & RIG_INPLACE_FWD) return CT_OK;
  if (r->how.flags & RIG_JOINT && in->labels) return CT_OK; /* was part of the forward pass */
  block_spoil(&r->scratch);
  a->x = r->info.bwd_uses & CT_USES_X ? r->x.own.mem : unasked;
  int free_shapes = ct_op_is(r->desc.kind, CT_KIND_SHAPES) && r->info.bwd_uses & CT_USES_X;
  a->x2 = free_shapes ? r->x2.own.mem : unasked;
  a->x3 = free_shapes ? r->x3.own.mem : unasked;
  a->y = r->info.bwd_uses & CT_USES_Y ? r->y.own.mem : unasked;
  if (r->y.own.mem) tensor_put(&r->dy, in->dy);
  int adds_dx = (r->how.flags & RIG_ADD_DX) && r->info.adds_dx;
  if (with_dy2 || adds_dx) tensor_put(&r->dy2, in->dy2);
  a->dy = r->dy.own.mem;
  a->dy2 = with_dy2 ? r->dy2.own.mem : NULL;
  a->dx_add = adds_dx ? r->dy2.own.mem : NULL;
  a->dx = r->how.flags & RIG_INPLACE_BWD ? r->dy.own.mem : r->dx.own.mem;
  if (r->how.flags & RIG_INPLACE_ADD) a->dx = r->dy2.own.mem;
  if (!(back & CT_BWD_DATA)) a->dx = unasked;
  a->dx2 = r->how.flags & RIG_NO_DX2 ? NULL : r->dx2.own.mem;
  if (r->how.flags & RIG_NO_DX || ct_op_is(r->desc.kind, CT_KIND_INDEX)) a->dx = NULL;
  a->dx3 = r->dx3.own.mem;
  for (int i = 0; i < 4; i++)
    a->dw[i] = back & CT_BWD_PARAM && a->w[i] ? r->dw[i].mem : unasked;
  if (r->how.flags & RIG_STATS) return run(r, CT_BWD_STATS);
  if (r->how.flags & RIG_JOINT) CT_TRY(run(r, back));
  if (r->how.flags & RIG_JOINT) goto out;
  if (back & CT_BWD_PARAM) CT_TRY(run(r, CT_BWD_PARAM)); /* before dx may overwrite dy */
  a->adds_dw = (r->how.flags & RIG_ADD_DW) != 0;
  if (a->adds_dw) CT_TRY(run(r, CT_BWD_PARAM));
  if (back & CT_BWD_DATA) CT_TRY(run(r, CT_BWD_DATA));
out:
  if (rc == CT_OK && a->dx == r->dy.own.mem && ct_op_is_placed(&r->desc)) rig_take_placed(r);
  return rc;
}

void rig_stats(const rig_t *r, double *sums)
{
  block_take(&r->stats, sums, r->stats.bytes);
}

int rig_finish(rig_t *r, const double *sums)
{
  block_put(&r->stats, sums, r->stats.bytes);
  block_spoil(&r->scratch);
  int back = r->done & CT_BWD_STATS, rc = run(r, back ? CT_BWD_DATA : CT_FWD);
  return rc != CT_OK || back || r->desc.x.dim[0] == 0 ? rc : rig_again(r);
}

/* Checks that the padding of a weight gradient is zero: gradients are summed and hashed in the op's
 * own layout. */
static int padding_of_dw_is_zero(const rig_t *r, int param, const float *plain)
{
  int64_t n = (int64_t)(r->info.param_bytes[param] / sizeof(float));
  float *own = host_array(n, sizeof *own);
  double a = 0, b = 0;

  block_take(&r->dw[param], own, r->info.param_bytes[param]);
  for (int64_t i = 0; i < n; i++)
    a += (double)own[i] * own[i];
  for (int64_t i = 0; i < param_count(&r->desc, param); i++)
    b += (double)plain[i] * plain[i];
  ct_mem_free(own);
  return isnan(b) || fabs(a - b) <= 1e-9 * b; /* NaN in the gradient itself is compared later */
}

static const char *take_params(rig_t *r, outputs_t *out)
{
  side_t *s = r->side;

  for (int i = 0; i < 4; i++) {
    if (r->info.param_bytes[i] == 0 || !(r->done & CT_BWD_PARAM)) continue;
    if (s->be->op->unpack(s->queue, r->like ? r->like : r->op, i, r->dw[i].mem, out->dw[i]))
      return "unpack fails";
    if (!block_intact(&r->dw[i])) return "a parameter gradient is written past its end";
    if (!padding_of_dw_is_zero(r, i, out->dw[i]))
      return "the padding of a parameter gradient is not zero";
  }
  return NULL;
}

const char *rig_take(rig_t *r, outputs_t *out)
{
  int of_dy = r->how.flags & RIG_INPLACE_BWD && !ct_op_is_placed(&r->desc);
  tensor_t *dx = of_dy ? &r->dy : r->how.flags & RIG_INPLACE_ADD ? &r->dy2 : &r->dx;

  if (r->y.own.mem && !tensor_take(&r->y, out->y)) return "y: padding not zero, or past its end";
  if (r->done & CT_BWD_DATA) {
    int has_dx = !(r->how.flags & RIG_NO_DX) && !ct_op_is(r->desc.kind, CT_KIND_INDEX);
    if (has_dx && !tensor_take(dx, out->dx)) return "dx: padding not zero, or past its end";
    if (r->dx2.own.mem && !(r->how.flags & RIG_NO_DX2) && !tensor_take(&r->dx2, out->dx2))
      return "dx2: padding not zero, or past its end";
    if (r->dx3.own.mem && !tensor_take(&r->dx3, out->dx3))
      return "dx3: padding not zero, or past its end";
  }
  for (int i = 0; i < 2; i++) {
    int k = param_running(&r->desc, i);
    if (k < CT_OP_PARAMS) block_take(&r->w[k], out->running[i], r->w[k].bytes);
  }
  out->loss = *r->loss;
  if (!block_intact(&r->saved)) return "written past the end of saved";
  if (!block_intact(&r->scratch)) return "written past the end of scratch";
  if (r->stats.mem && !block_intact(&r->stats)) return "written past the end of stats";
  return take_params(r, out);
}

static int is_same(tensor_t *t, const float *data)
{
  size_t n = (size_t)ct_shape_count(&t->shape);
  float *now = host_array((int64_t)n, sizeof *now);
  tensor_take(t, now);
  int same = memcmp(now, data, n * sizeof *now) == 0;
  ct_mem_free(now);
  return same;
}

const char *rig_inputs_changed(rig_t *r, const inputs_t *in)
{
  int back = r->done & CT_BWD_DATA && !ct_op_is_loss(r->desc.kind);

  if (r->how.flags & RIG_INPLACE_FWD) return NULL;
  if (!is_same(&r->x, in->x)) return "x is changed";
  if (in->x2 && !is_same(&r->x2, in->x2)) return "x2 is changed";
  if (in->x3 && !is_same(&r->x3, in->x3)) return "x3 is changed";
  if (back && !(r->how.flags & RIG_INPLACE_BWD) && !is_same(&r->dy, in->dy)) return "dy is changed";
  return NULL;
}

void rig_close(rig_t *r)
{
  side_t *s = r->side;
  tensor_t *tensors[] = {&r->x, &r->x2, &r->x3, &r->y, &r->dy, &r->dy2, &r->dx, &r->dx2, &r->dx3};

  for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
    tensor_close(tensors[i]);
  for (int i = 0; i < 4; i++) {
    block_close(&r->w[i]);
    block_close(&r->reduced[i]);
    block_close(&r->dw[i]);
  }
  block_close(&r->saved);
  block_close(&r->scratch);
  block_close(&r->stats);
  block_close(&r->places);
  for (int i = 0; i < (int)(sizeof r->loss_in / sizeof *r->loss_in); i++)
    block_close(&r->loss_in[i]);
  s->be->mem->free(s->dev, CT_MEM_STAGING, r->loss);
  s->be->op->release(r->op);
  s->be->op->release(r->like);
  memset(r, 0, sizeof *r);
}
