/* A linear layer and the cross-entropy of its outputs, without all logits in memory.  Convolutions
 * over pixels: head_pixels.c.
 *
 * Rows of x are processed in chunks, and for each chunk the classes in blocks:
 *
 *   1. logits of a block, with its maximum and sum of exponentials for each row  (a task per block)
 *   2. from these the loss of each row, and what its gradient needs              (a task per row)
 *   3. gradient of a block's logits, and its products: dw of the block's classes, and a part of dx
 *                                                          (a task per group of successive blocks)
 *   4. dx, the sum of its parts                                                  (a task per row)
 *
 * Only the logits of a chunk are stored.  A block's gradient stays in a thread's cache.  Sizes of
 * chunks, blocks and groups depend on the op alone, so results do not depend on threads. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_int.h"
#include "cpu/gemm/gemm_amx.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/kern/loops.h"
#include "cpu/head_pixels.h"
#include "cpu/kinds.h"
#include "cpu/tile/amx.h"

enum {
  ROWS = 512,       /* rows of a chunk … */
  FLOATS = 1 << 25, /* … or fewer, so that its logits are at most that many */
  ROWS_LEAST = 64,
  BLOCK = 240, /* classes of a block: 5 tiles of 48, and half of a core's L2 cache */
  LOW = 256,   /* elements of a row of a block's gradient in bf16: whole products of AMX */
  GROUPS = 32  /* most groups of blocks */
};

/* What is known of a row of the chunk. */
typedef struct row {
  cpu__aims_t aims;
  float largest, factor; /* gradient by logit x: factor * exp(x - largest) - … */
  cpu__row_slope_t slope;
} row_t;

/* Offsets in the workspace. */
typedef struct places {
  size_t logits;        /* [blocks][chunk][BLOCK] */
  size_t largest, sum;  /* [blocks][chunk], of a block's logits */
  size_t smoothed;      /* double [blocks][chunk]: sum of class weight * logit */
  size_t ahead;         /* int32_t [blocks][chunk]: logits ranked before the label's */
  size_t row, result;   /* row_t [chunk], cpu__row_loss_t [rows] */
  size_t x, x_panels;   /* [chunk][in], of reduced precision; in panels of 16 columns */
  size_t parts;         /* [groups][chunk][in]: parts of dx */
  size_t slopes;        /* [threads][chunk][BLOCK] */
  size_t low, x_packed; /* with AMX: bf16 [threads][chunk][LOW]; x as an operand */
  size_t gemm;          /* with AMX: workspaces of all threads */
  size_t end;
} places_t;

typedef struct head_loss {
  ct_op_t op;
  const cpu__loops_t *loops;
  cpu__loss_rows_t of;
  int64_t in, chunk, blocks, groups;
  int amx;           /* 1: bf16 x, multiplied on AMX */
  size_t gemm_bytes; /* workspace of a thread */
  places_t at;
} head_loss_t;

/* A chunk of rows in work. */
typedef struct chunk {
  const head_loss_t *k;
  const ct_op_args_t *a;
  int64_t first, rows;
  const float *x;
  double class_weights;
  int back; /* passes of CT_BWD_DATA, CT_BWD_PARAM */
} chunk_t;

static void *place(const chunk_t *c, size_t at)
{
  return (char *)c->a->scratch + at;
}

static int64_t block_size(const head_loss_t *k, int64_t b)
{
  return ct_least(BLOCK, k->of.classes - b * BLOCK);
}

static float *logits_of(const chunk_t *c, int64_t b)
{
  return (float *)place(c, c->k->at.logits) + b * c->k->chunk * BLOCK;
}

/* ---- products on AMX ---- */

/* Returns the GEMMs of a block of n classes and of some rows, without addresses. */
static cpu__amx_gemm_t logits_gemm(const head_loss_t *k, int64_t rows, int64_t n)
{
  cpu__amx_gemm_t g = cpu__amx_dense(CT_FWD, rows, k->in, n);
  g.c_floats = 1;
  g.c_row = BLOCK;
  return g;
}

static cpu__amx_gemm_t param_gemm(const head_loss_t *k, int64_t rows, int64_t n)
{
  cpu__amx_gemm_t g = cpu__amx_dense(CT_BWD_PARAM, rows, k->in, n);
  g.a.ld = LOW;
  return g;
}

static cpu__amx_gemm_t data_gemm(const head_loss_t *k, int64_t rows, int64_t n)
{
  cpu__amx_gemm_t g = cpu__amx_dense(CT_BWD_DATA, rows, k->in, n);
  g.a = (cpu__amx_side_t){.ld = LOW, .padded = 1};
  g.c_floats = 1;
  return g;
}

/* Returns the largest workspace of these. */
static size_t gemm_bytes(const head_loss_t *k)
{
  const cpu__amx_gemm_t all[] = {logits_gemm(k, k->chunk, BLOCK), param_gemm(k, k->chunk, BLOCK),
                                 data_gemm(k, k->chunk, BLOCK)};
  size_t most = 0;
  for (int i = 0; i < 3; i++) {
    size_t bytes = (cpu__amx_gemm_scratch(&all[i], 1) + 63) / 64 * 64;
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Runs one; b is NULL if it is packed. */
static void amx_product(const chunk_t *c, cpu__amx_gemm_t g, const void *a, const void *b, void *to)
{
  g.a.at = a;
  g.b.at = b;
  g.c = to;
  cpu__amx_gemm(c->k->op.dev, &g,
                (char *)place(c, c->k->at.gemm) + (size_t)omp_get_thread_num() * c->k->gemm_bytes);
}

/* Returns the thread's gradient of a block's logits in bf16. */
static uint16_t *low_of(const chunk_t *c)
{
  return (uint16_t *)place(c, c->k->at.low) + omp_get_thread_num() * c->k->chunk * LOW;
}

static void round_slopes(const chunk_t *c, int64_t n, const float *slopes)
{
  uint16_t *low = low_of(c);
  for (int64_t r = 0; r < c->rows; r++, slopes += BLOCK, low += LOW) {
    cpu__loops(c->k->op.dev, CT_BF16)->from_floats(n, slopes, low, 0, 0);
    memset(low + n, 0, (size_t)(LOW - n) * sizeof *low);
  }
}

/* ---- 1. logits ---- */

/* Returns the sum of class weight * logit over a block of a row. */
static double weigh_logits(const chunk_t *c, int64_t b, const float *x)
{
  double sum = 0;
  for (int64_t j = 0; j < block_size(c->k, b); j++)
    sum += cpu__rows_class_weight(&c->k->of, c->a, b * BLOCK + j) * x[j];
  return sum;
}

static void multiply_logits(const chunk_t *c, int64_t b, float *y)
{
  const head_loss_t *k = c->k;
  int64_t n = block_size(k, b);
  const float *w = (const float *)c->a->w[0] + b * BLOCK * k->in;
  const float *bias = k->op.desc.u.head_loss.bias ? (const float *)c->a->w[1] + b * BLOCK : NULL;
  if (k->amx) {
    cpu__amx_gemm_t low = logits_gemm(k, c->rows, n);
    low.bias = bias;
    amx_product(c, low, (const uint16_t *)c->a->x + c->first * k->in, w, y);
    return;
  }
  cpu__gemm_t g = {.m = c->rows, .n = n, .k = k->in, .bias = bias};
  g.a = cpu__row_major(c->x, k->in);
  g.b = cpu__transposed(cpu__row_major(w, k->in));
  g.c = cpu__row_major(y, BLOCK);
  cpu__gemm_blocked(k->op.dev, &g);
}

static void block_logits(const chunk_t *c, int64_t b)
{
  const head_loss_t *k = c->k;
  int64_t n = block_size(k, b), at = b * k->chunk;
  float *y = logits_of(c, b), *largest = place(c, k->at.largest), *sum = place(c, k->at.sum);
  multiply_logits(c, b, y);
  for (int64_t r = 0; r < c->rows; r++)
    k->loops->exp_sum(n, y + r * BLOCK, &largest[at + r], &sum[at + r]);
  double *smoothed = place(c, k->at.smoothed);
  for (int64_t r = 0; k->of.spec.label_smoothing > 0 && r < c->rows; r++)
    smoothed[at + r] = weigh_logits(c, b, y + r * BLOCK);
}

/* ---- 2. rows ---- */

static void finish_row(const chunk_t *c, int64_t r)
{
  const head_loss_t *k = c->k;
  const float *largest = place(c, k->at.largest), *sum = place(c, k->at.sum);
  const double *weighed = place(c, k->at.smoothed);
  row_t *row = (row_t *)place(c, k->at.row) + r;
  cpu__row_loss_t *result = place(c, k->at.result);
  double all = 0, smoothed = 0;
  *row = (row_t){.aims = cpu__row_aims(&k->of, c->a, c->first + r), .largest = largest[r]};
  for (int64_t b = 1; b < k->blocks; b++)
    if (!(largest[b * k->chunk + r] <= row->largest)) row->largest = largest[b * k->chunk + r];
  for (int64_t b = 0; b < k->blocks; b++) {
    all += sum[b * k->chunk + r] * exp((double)largest[b * k->chunk + r] - row->largest);
    if (k->of.spec.label_smoothing > 0) smoothed += weighed[b * k->chunk + r];
  }
  float total = (float)all;
  all = log(all) + row->largest;
  if (row->aims.n) {
    int64_t label = row->aims.label[0];
    row->aims.own[0] = logits_of(c, label / BLOCK)[r * BLOCK + label % BLOCK];
  }
  smoothed = c->class_weights * all - smoothed;
  if (c->a->pass & CT_FWD)
    result[c->first + r] = cpu__row_loss(&k->of, c->a, c->first + r, &row->aims, all, smoothed);
  row->slope = cpu__row_slope(&k->of, c->a, c->first + r, &row->aims, all, c->class_weights);
  row->factor = row->slope.total / total;
}

/* ---- 3. gradients ---- */

static void block_ahead(const chunk_t *c, int64_t b)
{
  const row_t *row = place(c, c->k->at.row);
  int32_t *ahead = (int32_t *)place(c, c->k->at.ahead) + b * c->k->chunk;
  for (int64_t r = 0; r < c->rows; r++)
    ahead[r] = row[r].aims.n ? cpu__row_ahead(&row[r].aims, b * BLOCK, block_size(c->k, b),
                                              logits_of(c, b) + r * BLOCK)
                             : 0;
}

/* Computes the gradient of a block's logits. */
static void block_slopes(const chunk_t *c, int64_t b, float *slopes)
{
  const head_loss_t *k = c->k;
  const row_t *row = place(c, k->at.row);
  int64_t n = block_size(k, b), first = b * BLOCK;
  for (int64_t r = 0; r < c->rows; r++) {
    float *to = slopes + r * BLOCK;
    k->loops->exp_scaled(n, logits_of(c, b) + r * BLOCK, row[r].largest, row[r].factor, to);
    for (int64_t j = 0; row[r].slope.spread > 0 && j < n; j++)
      to[j] -= row[r].slope.spread * cpu__rows_class_weight(&k->of, c->a, first + j);
    int64_t label = row[r].aims.n ? row[r].aims.label[0] - first : -1;
    if (label >= 0 && label < n) to[label] -= row[r].slope.part[0];
  }
}

/* Returns 1 if the chunk adds to the gradients of parameters. */
static int adds(const chunk_t *c)
{
  return c->first > 0 || c->a->adds_dw;
}

/* Computes the gradient of the weights of a block's classes, and of their bias. */
static void block_param(const chunk_t *c, int64_t b, const float *slopes)
{
  const head_loss_t *k = c->k;
  int64_t n = block_size(k, b);
  float *dw = (float *)c->a->dw[0] + b * BLOCK * k->in;
  if (k->amx) {
    cpu__amx_gemm_t low = param_gemm(k, c->rows, n);
    low.packed = place(c, k->at.x_packed);
    low.add = adds(c);
    amx_product(c, low, low_of(c), NULL, dw);
  } else {
    cpu__gemm_t g = {.m = n, .n = k->in, .k = c->rows, .add = adds(c)};
    g.a = cpu__transposed(cpu__row_major(slopes, BLOCK));
    g.b = cpu__panels(place(c, k->at.x_panels), k->chunk);
    g.c = cpu__row_major(dw, k->in);
    cpu__gemm_blocked(k->op.dev, &g);
  }
  if (!k->op.desc.u.head_loss.bias) return;
  float *db = (float *)c->a->dw[1] + b * BLOCK;
  double sums[BLOCK] = {0};
  for (int64_t r = 0; r < c->rows; r++)
    for (int64_t j = 0; j < n; j++)
      sums[j] += slopes[r * BLOCK + j];
  for (int64_t j = 0; j < n; j++)
    db[j] = (float)(sums[j] + (adds(c) ? db[j] : 0));
}

/* Adds the part of dx of a block's classes to that of its group. */
static void block_data(const chunk_t *c, int64_t b, const float *slopes, float *part, int add)
{
  const head_loss_t *k = c->k;
  const float *w = (const float *)c->a->w[0] + b * BLOCK * k->in;
  if (k->amx) {
    cpu__amx_gemm_t low = data_gemm(k, c->rows, block_size(k, b));
    low.add = add;
    amx_product(c, low, low_of(c), w, part);
    return;
  }
  cpu__gemm_t g = {.m = c->rows, .n = k->in, .k = block_size(k, b), .add = add};
  g.a = cpu__row_major(slopes, BLOCK);
  g.b = cpu__row_major(w, k->in);
  g.c = cpu__row_major(part, k->in);
  cpu__gemm_blocked(k->op.dev, &g);
}

static void group_gradients(const chunk_t *c, int64_t group)
{
  const head_loss_t *k = c->k;
  int64_t first = k->blocks * group / k->groups, end = k->blocks * (group + 1) / k->groups;
  float *slopes = (float *)place(c, k->at.slopes) + omp_get_thread_num() * k->chunk * BLOCK;
  float *part = (float *)place(c, k->at.parts) + group * k->chunk * k->in;
  for (int64_t b = first; b < end; b++) {
    if (c->a->pass & CT_FWD) block_ahead(c, b);
    if (c->back) block_slopes(c, b, slopes);
    if (c->back && k->amx) round_slopes(c, block_size(k, b), slopes);
    if (c->back & CT_BWD_PARAM) block_param(c, b, slopes);
    if (c->back & CT_BWD_DATA) block_data(c, b, slopes, part, b > first);
  }
}

/* ---- 4. the end of a chunk ---- */

static void end_row(const chunk_t *c, int64_t r)
{
  const head_loss_t *k = c->k;
  const float *parts = (const float *)place(c, k->at.parts) + r * k->in;
  const int32_t *ahead = place(c, k->at.ahead);
  cpu__row_loss_t *result = (cpu__row_loss_t *)place(c, k->at.result) + c->first + r;
  for (int64_t b = 0; c->a->pass & CT_FWD && result->rank >= 0 && b < k->blocks; b++)
    result->rank += ahead[b * k->chunk + r];
  if (!(c->back & CT_BWD_DATA)) return;
  int floats = k->op.desc.x.dtype == CT_F32;
  float *sum = floats ? (float *)c->a->dx + (c->first + r) * k->in : place(c, k->at.parts);
  if (!floats) sum += r * k->in; /* the first part itself */
  for (int64_t i = 0; floats && i < k->in; i++)
    sum[i] = parts[i];
  for (int64_t g = 1; g < k->groups; g++)
    for (int64_t i = 0; i < k->in; i++)
      sum[i] += parts[g * k->chunk * k->in + i];
  if (!floats)
    cpu__loops(k->op.dev, CT_BF16)
        ->from_floats(k->in, sum, (uint16_t *)c->a->dx + (c->first + r) * k->in, 0, 0);
}

/* ---- the op ---- */

/* Finds the rows of x as floats, and copies them into panels for the gradient of the weights. */
static void take_rows(chunk_t *c)
{
  const head_loss_t *k = c->k;
  float *copy = place(c, k->at.x), *panels = place(c, k->at.x_panels);
  int low = k->op.desc.x.dtype != CT_F32;
  if (k->amx) {
    cpu__amx_gemm_t g = param_gemm(k, c->rows, BLOCK);
    g.b.at = (const uint16_t *)c->a->x + c->first * k->in;
    if (c->back & CT_BWD_PARAM) cpu__amx_gemm_pack(k->op.dev, &g, place(c, k->at.x_packed));
    return;
  }
  c->x = low ? copy : (const float *)c->a->x + c->first * k->in;
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < c->rows; r++) {
    const float *x = c->x + r * k->in;
    if (low)
      cpu__loops(k->op.dev, CT_BF16)
          ->to_floats(k->in, (const uint16_t *)c->a->x + (c->first + r) * k->in, copy + r * k->in);
    for (int64_t i = 0; c->back & CT_BWD_PARAM && i < (k->in + 15) / 16 * 16; i++)
      panels[i / 16 * 16 * k->chunk + r * 16 + i % 16] = i < k->in ? x[i] : 0;
  }
}

static void run_chunk(chunk_t *c)
{
  const head_loss_t *k = c->k;
  take_rows(c);
#pragma omp parallel for schedule(dynamic)
  for (int64_t b = 0; b < k->blocks; b++)
    block_logits(c, b);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < c->rows; r++)
    finish_row(c, r);
#pragma omp parallel for schedule(dynamic)
  for (int64_t g = 0; g < k->groups; g++)
    group_gradients(c, g);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < c->rows; r++)
    end_row(c, r);
}

static int head_loss_run(ct_op_t *op, const ct_op_args_t *a)
{
  int rc = CT_OK;
  const head_loss_t *k = (const head_loss_t *)op;
  ct_op_args_t own = *a;
  own.labels2 = NULL;
  chunk_t c = {.k = k, .a = &own, .back = a->pass & (CT_BWD_DATA | CT_BWD_PARAM)};
  CT_TRY(cpu__rows_check(&k->of, &own));
  c.class_weights = cpu__rows_class_weights(&k->of, &own);
  if (k->of.rows == 0 && a->pass & CT_BWD_PARAM && !a->adds_dw)
    for (int i = 0; i < 2; i++)
      if (op->param_bytes[i]) memset(a->dw[i], 0, op->param_bytes[i]);
  for (c.first = 0; c.first < k->of.rows; c.first += k->chunk) {
    c.rows = ct_least(k->chunk, k->of.rows - c.first);
    run_chunk(&c);
  }
  if (a->pass & CT_FWD) cpu__rows_sum(&k->of, &own, place(&c, k->at.result));
out:
  return rc;
}

static size_t take(size_t *end, int64_t count, size_t size)
{
  size_t at = *end;
  *end += ((size_t)count * size + 63) / 64 * 64;
  return at;
}

static void lay_out(head_loss_t *k, const ct_op_desc_t *d)
{
  places_t *at = &k->at;
  int64_t each = k->blocks * k->chunk, x = k->chunk * k->in;
  int low = d->x.dtype != CT_F32, smooth = d->u.loss.label_smoothing > 0;
  at->logits = take(&at->end, each * BLOCK, sizeof(float));
  at->largest = take(&at->end, each, sizeof(float));
  at->sum = take(&at->end, each, sizeof(float));
  at->smoothed = take(&at->end, smooth ? each : 0, sizeof(double));
  at->ahead = take(&at->end, each, sizeof(int32_t));
  at->row = take(&at->end, k->chunk, sizeof(row_t));
  at->result = take(&at->end, k->of.rows, sizeof(cpu__row_loss_t));
  at->x = take(&at->end, low && !k->amx ? x : 0, sizeof(float));
  at->gemm = take(&at->end, k->op.dev->threads, k->gemm_bytes);
  if (!ct_op_goes_back(d)) return;
  if (k->amx) {
    cpu__amx_gemm_t g = param_gemm(k, k->chunk, BLOCK);
    at->x_packed = take(&at->end, 1, cpu__amx_gemm_packed(&g));
    at->low = take(&at->end, k->op.dev->threads * k->chunk * LOW, sizeof(uint16_t));
  } else {
    at->x_panels = take(&at->end, (k->in + 15) / 16 * 16 * k->chunk, sizeof(float));
  }
  at->parts = take(&at->end, k->groups * x, sizeof(float));
  at->slopes = take(&at->end, k->op.dev->threads * k->chunk * BLOCK, sizeof(float));
}

static int head_loss_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  head_loss_t *k = (head_loss_t *)op;
  const ct_op_desc_t *d = &op->desc, loss = ct_op_loss_of(d);
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  k->in = d->x.dim[d->x.ndim - 1];
  k->of = (cpu__loss_rows_t){.spec = d->u.loss,
                             .classes = ct_op_classes(&loss),
                             .rows = ct_shape_count(&d->x) / k->in,
                             .of_sample = ct_op_pixels(&loss)};
  int64_t fit = ct_least(ROWS, FLOATS / k->of.classes / 16 * 16);
  k->chunk = ct_least(fit < ROWS_LEAST ? ROWS_LEAST : fit, k->of.rows > 0 ? k->of.rows : 1);
  k->blocks = (k->of.classes + BLOCK - 1) / BLOCK;
  k->groups = ct_least(GROUPS, k->blocks);
  k->amx = d->x.dtype == CT_BF16 && cpu__amx_is_there();
  if (k->amx) k->gemm_bytes = gemm_bytes(k);
  lay_out(k, d);
  info->scratch = k->at.end;
  info->adds_dw = 1;
  info->algorithm = k->amx ? "chunks, bf16 AMX" : "chunks";
  return CT_OK;
}

/* ---- either kind of head ---- */

typedef union head {
  head_loss_t rows;
  cpu__head_pixels_t pixels;
} head_t;

static ct_layout_t head_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  (void)dev;
  return d->u.loss.classes_last ? CT_PLAIN : d->x.layout;
}

static int head_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  if (head_wants(dev, d) == d->x.layout) return 1;
  snprintf(why, 128, "the CPU backend does this in the plain layout only");
  return 0;
}

static int head_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  return op->desc.u.loss.classes_last ? head_loss_prepare(op, like, info)
                                      : cpu__head_pixels_prepare(op, info);
}

static int head_run(ct_op_t *op, const ct_op_args_t *a)
{
  return op->desc.u.loss.classes_last ? head_loss_run(op, a) : cpu__head_pixels_run(op, a);
}

const cpu__op_kind_t cpu__head_loss = {.size = sizeof(head_t),
                                       .bf16 = 1,
                                       .wants = head_wants,
                                       .supports = head_supports,
                                       .prepare = head_prepare,
                                       .run = head_run};
