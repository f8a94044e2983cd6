/* Batch normalisation, with the semantics of torch.nn.BatchNorm2d, then + x2, then ReLU.
 *
 * A tensor is cut into tiles: one image of one block of channels, or with innermost channels a
 * strip of pixels of many channels.  The forward pass computes the sums of each tile, then the
 * statistics of each channel from the sums of its tiles, in double and in fixed order, and then y.
 * The backward pass computes in the same way the sums of the gradient of each tile, the parameter
 * gradients and dx.  So the results do not depend on the number of threads.  If there are enough
 * blocks, each thread processes whole blocks: then threads do not wait for each other.  A thread
 * reads its tiles the second time in reverse order: the last ones are still in its cache. */
#include <omp.h>
#include <stdio.h>

#include "base/ct_err.h"
#include "cpu/kern/bnorm_stats.h"

/* With innermost channels: the maximum number of strips, their minimum length in pixels, and the
 * maximum channels of a tile, whose coefficients and sums fit the L1 cache. */
#define STRIPS_MAX   256
#define STRIP_MIN    64
#define CHANNELS_MAX 512

/* ---- tiles ---- */

/* Returns the address of a tile of an activation; NULL if tensor is NULL. */
static void *tile_of(const cpu__bnorm_t *k, const void *tensor, int64_t block, int64_t image)
{
  return cpu__at(tensor, image * k->image_step + block * k->block_step, k->op.desc.x.dtype);
}

/* Returns the address of a tile of x, dx or dx_add, which may be parts of larger tensors. */
static void *tile_of_x(const cpu__bnorm_t *k, const void *tensor, int64_t block, int64_t image)
{
  return cpu__at(tile_of(k, tensor, block, image), image * k->beyond, k->op.desc.x.dtype);
}

/* Tiles a plain tensor: one channel at a time, with vectors along its pixels. */
static void tile_plain(cpu__bnorm_t *k, const cpu__view_t *v)
{
  k->loops = cpu__loops(k->op.dev, k->op.desc.x.dtype);
  const int64_t width = k->loops->width;
  k->channels = 1;
  k->blocks = v->groups;
  k->images = v->n;
  k->rows = (cpu__rows_t){v->inner / width, width, width, v->inner % width, width};
  k->block_step = v->inner;
  k->image_step = v->groups * v->inner;
}

/* Tiles a blocked tensor. */
static void tile_blocked(cpu__bnorm_t *k, const cpu__view_t *v)
{
  k->loops = cpu__loops_for(k->op.dev, k->op.desc.x.dtype, v->lanes);
  k->channels = k->loops->width;
  k->blocks = v->groups;
  k->images = v->n;
  k->rows = (cpu__rows_t){v->inner, v->lanes, v->lanes, 0, v->lanes};
  k->block_step = v->inner * v->lanes;
  k->image_step = v->groups * k->block_step;
}

/* Tiles a tensor in NHWC or without spatial dims: each pixel of each image is a row of C
 * channels. */
static void tile_innermost(cpu__bnorm_t *k, const cpu__view_t *v)
{
  int64_t rows = v->n * v->inner, strip = (rows + STRIPS_MAX - 1) / STRIPS_MAX;

  if (strip < STRIP_MIN) strip = STRIP_MIN;
  k->loops = cpu__loops_for(k->op.dev, k->op.desc.x.dtype, v->c);
  k->channels = k->loops->width;
  int64_t channels = (v->c + k->channels - 1) / k->channels * k->channels;
  if (channels > CHANNELS_MAX) channels = CHANNELS_MAX;
  k->blocks = (v->c + channels - 1) / channels;
  k->images = (rows + strip - 1) / strip;
  k->rows = (cpu__rows_t){strip, channels, v->c, 0, channels};
  k->block_step = channels;
  k->image_step = strip * v->c;
}

static void tile(cpu__bnorm_t *k)
{
  const ct_shape_t *x = &k->op.desc.x;
  const cpu__view_t v = cpu__view(x);

  if (x->layout == CT_NHWC || (x->layout == CT_PLAIN && v.inner == 1 && !k->op.desc.within)) {
    tile_innermost(k, &v);
    k->all_rows = v.n * v.inner;
    k->all_channels = v.c;
  } else {
    if (x->layout == CT_PLAIN) {
      tile_plain(k, &v);
    } else {
      tile_blocked(k, &v);
    }
    k->all_rows = k->images * k->rows.rows;
    k->all_channels = k->blocks * k->rows.channels;
  }
  const int64_t within = k->op.desc.within;
  if (within) k->beyond = (within + v.lanes - 1) / v.lanes * v.lanes * v.inner - k->image_step;
  k->block_units = k->rows.channels / k->loops->width;
  k->units = (k->all_channels + k->loops->width - 1) / k->loops->width;
}

/* Returns 1 if an output can use non-temporal stores: each row is made of vectors and aligned to
 * them. */
static int streams(const cpu__bnorm_t *k, const void *out)
{
  int width = k->loops->width;

  return k->rows.rest == 0 && k->rows.stride % width == 0 && k->block_step % width == 0 &&
         cpu__streams(out, ct_shape_bytes(&k->op.desc.x));
}

/* ---- passes ---- */

/* The steps of a pass, forward or backward, on units and tiles; NULL: the pass skips the step. */
typedef struct pass {
  void (*begin)(const cpu__bn_run_t *r, int64_t unit);
  void (*reads)(const cpu__bn_run_t *r, int64_t block, int64_t image);
  void (*between)(const cpu__bn_run_t *r, int64_t unit);
  void (*writes)(const cpu__bn_run_t *r, int64_t block, int64_t image);
} pass_t;

static void go_by_block(const cpu__bn_run_t *r, const pass_t *p, int64_t block)
{
  int64_t first = block * r->k->block_units, end = ct_least(r->k->units, first + r->k->block_units);

  for (int64_t unit = first; p->begin && unit < end; unit++)
    p->begin(r, unit);
  for (int64_t image = 0; p->reads && image < r->k->images; image++)
    p->reads(r, block, image);
  for (int64_t unit = first; p->between && unit < end; unit++)
    p->between(r, unit);
  for (int64_t image = r->k->images - 1; p->writes && image >= 0; image--)
    p->writes(r, block, image);
}

/* Runs a pass in which all threads share the tiles; those of a thread are adjacent. */
static void go_by_tile(const cpu__bn_run_t *r, const pass_t *p)
{
  int64_t blocks = r->k->blocks, tiles = blocks * r->k->images;
  int64_t me = omp_get_thread_num(), threads = omp_get_num_threads();
  int64_t first = tiles * me / threads, end = tiles * (me + 1) / threads;

#pragma omp for schedule(static)
  for (int64_t unit = 0; unit < r->k->units; unit++)
    if (p->begin) p->begin(r, unit);
  for (int64_t i = first; p->reads && i < end; i++)
    p->reads(r, i % blocks, i / blocks);
#pragma omp barrier
#pragma omp for schedule(static)
  for (int64_t unit = 0; unit < r->k->units; unit++)
    if (p->between) p->between(r, unit);
  for (int64_t i = end - 1; p->writes && i >= first; i--)
    p->writes(r, i % blocks, i / blocks);
}

static void go(const cpu__bn_run_t *r, const pass_t *p)
{
  int64_t blocks = r->k->blocks, threads = r->k->op.dev->threads;
  int64_t rounds = (blocks + threads - 1) / threads;

  if (ct_shape_padded(&r->k->op.desc.x) <= CPU__PARALLEL_MIN) {
    for (int64_t block = 0; block < blocks; block++)
      go_by_block(r, p, block);
  } else if (10 * blocks >= 9 * rounds * threads) { /* by blocks; few threads stay idle */
#pragma omp parallel for schedule(static)
    for (int64_t block = 0; block < blocks; block++)
      go_by_block(r, p, block);
  } else {
#pragma omp parallel
    go_by_tile(r, p);
  }
}

static void forward_sums(const cpu__bn_run_t *r, int64_t block, int64_t image)
{
  r->k->loops->bn_sums(cpu__bn_rows_of(r->k, block, image), tile_of_x(r->k, r->a->x, block, image),
                       cpu__bn_sums_of(r, block, image));
}

static void forward_write(const cpu__bn_run_t *r, int64_t block, int64_t image)
{
  const ct_op_desc_t *d = &r->k->op.desc;
  cpu__bn_fwd_t f = {.x = tile_of_x(r->k, r->a->x, block, image),
                     .y = tile_of(r->k, r->a->y, block, image)};

  if (d->u.bnorm.add) f.x2 = tile_of(r->k, r->a->x2, block, image);
  f.relu = d->u.bnorm.relu;
  f.stream = r->stream;
  r->k->loops->bn_apply(cpu__bn_rows_of(r->k, block, image), &f, cpu__bn_coefs_of(r, block));
}

static cpu__bn_bwd_t backward_tile(const cpu__bn_run_t *r, int64_t block, int64_t image)
{
  const ct_op_args_t *a = r->a;
  int relu = r->k->op.desc.u.bnorm.relu, add = r->k->op.desc.u.bnorm.add;
  cpu__bn_bwd_t b = {.x = tile_of_x(r->k, a->x, block, image),
                     .dy = tile_of(r->k, a->dy, block, image),
                     .dy2 = tile_of(r->k, a->dy2, block, image)};

  b.mask = !relu ? CPU__MASK_NONE : add ? CPU__MASK_Y : CPU__MASK_X;
  b.relu6 = relu == CT_RELU6;
  if (b.mask == CPU__MASK_Y) b.y = tile_of(r->k, a->y, block, image);
  return b;
}

static void backward_sums(const cpu__bn_run_t *r, int64_t block, int64_t image)
{
  cpu__bn_bwd_t b = backward_tile(r, block, image);

  r->k->loops->bn_bwd_sums(cpu__bn_rows_of(r->k, block, image), &b, cpu__bn_coefs_of(r, block),
                           cpu__bn_sums_of(r, block, image));
}

static void backward_write(const cpu__bn_run_t *r, int64_t block, int64_t image)
{
  cpu__bn_bwd_t b = backward_tile(r, block, image);

  b.dx = tile_of_x(r->k, r->a->dx, block, image);
  b.dx_add = tile_of_x(r->k, r->a->dx_add, block, image);
  if (r->k->op.desc.u.bnorm.add) b.dx2 = tile_of(r->k, r->a->dx2, block, image);
  b.stream = r->stream;
  b.stream2 = r->stream2;
  r->k->loops->bn_bwd_apply(cpu__bn_rows_of(r->k, block, image), &b, cpu__bn_coefs_of(r, block));
}

static void bnorm_forward(const cpu__bn_run_t *r)
{
  static const pass_t training = {NULL, forward_sums, cpu__bn_batch_norms, forward_write};
  static const pass_t evaluation = {cpu__bn_known_norms, NULL, NULL, forward_write};

  if (r->k->images == 0) return;
  go(r, r->k->op.desc.training && !r->a->again ? &training : &evaluation);
}

static void bnorm_backward(const cpu__bn_run_t *r)
{
  static const pass_t all = {cpu__bn_known_norms, backward_sums, cpu__bn_gradients, backward_write};
  static const pass_t data = {cpu__bn_known_norms, NULL, NULL, backward_write};
  static const pass_t param = {cpu__bn_known_norms, backward_sums, cpu__bn_gradients, NULL};

  if (!(r->a->pass & CT_BWD_DATA)) {
    go(r, &param);
  } else if (r->k->op.desc.training || (r->a->pass & CT_BWD_PARAM)) {
    go(r, &all);
  } else {
    go(r, &data);
  }
}

/* Runs a pass of a SyncBN.  With an empty batch the local sums are zeros, and the running
 * statistics are updated from the group, if the group has any samples. */
static void synced(const cpu__bn_run_t *r)
{
  static const pass_t forward_stats = {NULL, forward_sums, cpu__bn_local_stats, NULL};
  static const pass_t forward_rest = {cpu__bn_synced_norms, NULL, NULL, forward_write};
  static const pass_t backward_stats = {cpu__bn_known_norms, backward_sums, cpu__bn_local_gradients,
                                        NULL};
  static const pass_t backward_rest = {cpu__bn_synced_gradients, NULL, NULL, backward_write};
  double *count = &r->a->stats[2 * r->k->op.desc.x.dim[1]], *saved = cpu__bn_saved_count(r);

  if (r->a->pass & CT_FWD_STATS) {
    go(r, &forward_stats);
    *count = (double)cpu__bn_elements(r);
  } else if (r->a->pass & CT_FWD) {
    if (*count > 0) go(r, &forward_rest);
    if (saved) *saved = *count;
  } else {
    go(r, r->a->pass & CT_BWD_STATS ? &backward_stats : &backward_rest);
  }
}

/* Returns 1 if an output can use non-temporal stores and shares memory with no input: memory that
 * was just read is already in the cache. */
static int streams_beside(const cpu__bnorm_t *k, const void *out, const void *in, const void *in2)
{
  return out != in && out != in2 && streams(k, out);
}

static int bnorm_run(ct_op_t *op, const ct_op_args_t *a)
{
  const cpu__bnorm_t *k = (const cpu__bnorm_t *)op;
  cpu__bn_run_t r = {.k = k, .a = a, .coefs = a->scratch};

  r.sums = r.coefs + k->blocks * cpu__bn_coefs_size(k);
  if (a->pass & CT_FWD) {
    r.stream = streams_beside(k, a->y, a->x, a->x2);
  } else {
    r.stream = a->dx != a->dx_add && streams_beside(k, a->dx, a->dy, a->dy2);
    r.stream2 = streams_beside(k, a->dx2, a->dy, a->dy2);
  }
  /* without dx the sums of the other ranks are not needed */
  if (op->desc.u.bnorm.sync && a->pass != CT_BWD_PARAM && !a->again) {
    synced(&r);
  } else if (a->pass & CT_FWD) {
    bnorm_forward(&r);
  } else {
    bnorm_backward(&r);
  }
  return CT_OK;
}

/* Returns 1 if x can be a part of a larger tensor in this layout. */
static int fits(const ct_op_desc_t *d)
{
  return !d->within || (d->x.layout != CT_NHWC && d->x.dim[1] % cpu__lanes(d->x.layout) == 0);
}

static ct_layout_t bnorm_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return fits(d) ? d->x.layout : CT_PLAIN;
}

static int bnorm_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (fits(d)) return 1;
  snprintf(why, 128, "the input is a part of a tensor whose blocks of channels it does not fill");
  return 0;
}

static int bnorm_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  cpu__bnorm_t *k = (cpu__bnorm_t *)op;
  const ct_op_desc_t *d = &op->desc;
  int back = ct_op_goes_back(d);

  (void)like;
  tile(k);
  info->scratch = (size_t)(k->blocks * (cpu__bn_coefs_size(k) + k->images * cpu__bn_sums_size(k))) *
                  sizeof(float);
  info->saved = cpu__bn_saved_bytes(d);
  info->bwd_uses = back ? CT_USES_X | (d->u.bnorm.relu && d->u.bnorm.add ? CT_USES_Y : 0) : 0;
  info->takes_dy2 = 1;
  info->adds_dx = info->inplace_add = d->within != 0;
  info->inplace_fwd = info->inplace_bwd = !d->within;
  return CT_OK;
}

const cpu__op_kind_t cpu__bnorm = {.size = sizeof(cpu__bnorm_t),
                                   .bf16 = 1,
                                   .wants = bnorm_wants,
                                   .supports = bnorm_supports,
                                   .prepare = bnorm_prepare,
                                   .run = bnorm_run};
