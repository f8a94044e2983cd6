/* A 1x1 convolution and the cross-entropy of its pixels, without all logits in memory.
 *
 * Pixels are processed in chunks of a sample. A thread computes a chunk's logits, its loss, the
 * gradient of the logits in their place, and what the chunk adds to dx, dw and the gradient of the
 * bias. All of this stays in the thread's cache. Groups of successive chunks have a dw of their
 * own; these are added up at the end. Sizes of chunks and groups depend on the op alone, so results
 * do not depend on threads. */
#include "cpu/head_pixels.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_int.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/kern/loops.h"

enum {
  FLOATS = 1 << 16,  /* most logits of a chunk … */
  PIXELS_LEAST = 32, /* … unless it had fewer pixels than that; */
  PIXELS_MOST = 256, /* and most pixels of a chunk */
  GROUPS_LEAST = 8,  /* groups, … */
  GROUPS_MOST = 64,  /* … */
  PARTS = 1 << 23    /* … so that their dw have at most that many floats */
};

/* The op in work. */
typedef struct job {
  const cpu__head_pixels_t *k;
  const ct_op_args_t *a;
  const cpu__loops_t *loops, *casts; /* casts: of bf16; NULL: x is float32 */
  double class_weights;
  int back; /* passes of CT_BWD_DATA, CT_BWD_PARAM */
} job_t;

/* A chunk, and the workspace of the thread that computes it. */
typedef struct chunk {
  int64_t sample, first, rows; /* first: of its pixels in the sample */
  float *x, *y, *piece;        /* rows of x, then of dx; logits, then their gradient; a block */
} chunk_t;

/* ---- rows of x and dx ---- */

/* Returns the index of a block of channels of the chunk's pixels. */
static int64_t block_at(const job_t *j, const chunk_t *c, int64_t b)
{
  const cpu__head_pixels_t *k = j->k;
  return ((c->sample * k->blocks + b) * k->of.of_sample + c->first) * k->width;
}

/* Returns the number of channels of a block, without padding. */
static int64_t channels_of(const cpu__head_pixels_t *k, int64_t b)
{
  return ct_least(k->width, k->in - b * k->width);
}

static void take_rows(const job_t *j, const chunk_t *c)
{
  const cpu__head_pixels_t *k = j->k;
  for (int64_t b = 0; b < k->blocks; b++) {
    int64_t at = block_at(j, c, b), n = channels_of(k, b);
    const float *from = (const float *)j->a->x + at;
    if (j->casts) {
      j->casts->to_floats(c->rows * k->width, (const uint16_t *)j->a->x + at, c->piece);
      from = c->piece;
    }
    for (int64_t r = 0; r < c->rows; r++)
      for (int64_t i = 0; i < n; i++)
        c->x[r * k->in + b * k->width + i] = from[r * k->width + i];
  }
}

static void put_rows(const job_t *j, const chunk_t *c)
{
  const cpu__head_pixels_t *k = j->k;
  for (int64_t b = 0; b < k->blocks; b++) {
    int64_t at = block_at(j, c, b), n = channels_of(k, b);
    float *to = j->casts ? c->piece : (float *)j->a->dx + at;
    for (int64_t r = 0; r < c->rows; r++)
      for (int64_t i = 0; i < k->width; i++)
        to[r * k->width + i] = i < n ? c->x[r * k->in + b * k->width + i] : 0;
    if (j->casts) j->casts->from_floats(c->rows * k->width, to, (uint16_t *)j->a->dx + at, 0, 0);
  }
}

/* ---- a chunk ---- */

static void find_logits(const job_t *j, const chunk_t *c)
{
  const cpu__head_pixels_t *k = j->k;
  cpu__gemm_t g = {.m = c->rows, .n = k->of.classes, .k = k->in};
  g.a = cpu__row_major(c->x, k->in);
  g.b = cpu__transposed(cpu__row_major(j->a->w[0], k->in));
  g.c = cpu__row_major(c->y, k->of.classes);
  g.bias = k->op.desc.u.head_loss.bias ? j->a->w[1] : NULL;
  cpu__gemm_blocked(k->op.dev, &g);
}

/* Adds the loss of a pixel, and replaces its logits by their gradient. */
static void pixel_loss(const job_t *j, int64_t row, float *y, ct_loss_t *loss)
{
  const cpu__loss_rows_t *of = &j->k->of;
  float largest, sum;
  double smoothed = 0;
  cpu__aims_t aims = cpu__row_aims(of, j->a, row);
  j->loops->exp_sum(of->classes, y, &largest, &sum);
  double all = log(sum) + largest;
  if (aims.n) aims.own[0] = y[aims.label[0]];
  for (int64_t i = 0; of->spec.label_smoothing > 0 && i < of->classes; i++)
    smoothed += cpu__rows_class_weight(of, j->a, i) * (all - y[i]);
  if (j->a->pass & CT_FWD) {
    cpu__row_loss_t own = cpu__row_loss(of, j->a, row, &aims, all, smoothed);
    if (own.rank >= 0) own.rank = cpu__row_ahead(&aims, 0, of->classes, y);
    cpu__row_add(of, j->a, row, &own, loss);
  }
  if (!j->back) return;
  cpu__row_slope_t s = cpu__row_slope(of, j->a, row, &aims, all, j->class_weights);
  j->loops->exp_scaled(of->classes, y, largest, s.total / sum, y);
  for (int64_t i = 0; s.spread > 0 && i < of->classes; i++)
    y[i] -= s.spread * cpu__rows_class_weight(of, j->a, i);
  if (aims.n) y[aims.label[0]] -= s.part[0];
}

/* Writes or adds the gradients of weights and bias. */
static void chunk_param(const job_t *j, const chunk_t *c, char *part, int add)
{
  const cpu__head_pixels_t *k = j->k;
  double *db = (double *)(void *)(part + k->at.bias);
  cpu__gemm_t g = {.m = k->of.classes, .n = k->in, .k = c->rows, .add = add};
  g.a = cpu__transposed(cpu__row_major(c->y, k->of.classes));
  g.b = cpu__row_major(c->x, k->in);
  g.c = cpu__row_major((float *)(void *)part, k->in);
  cpu__gemm_blocked(k->op.dev, &g);
  if (!add) memset(db, 0, (size_t)k->of.classes * sizeof *db);
  for (int64_t r = 0; k->op.desc.u.head_loss.bias && r < c->rows; r++)
    for (int64_t i = 0; i < k->of.classes; i++)
      db[i] += c->y[r * k->of.classes + i];
}

/* Computes dx in the place of x. */
static void chunk_data(const job_t *j, const chunk_t *c)
{
  const cpu__head_pixels_t *k = j->k;
  cpu__gemm_t g = {.m = c->rows, .n = k->in, .k = k->of.classes};
  g.a = cpu__row_major(c->y, k->of.classes);
  g.b = cpu__row_major(j->a->w[0], k->in);
  g.c = cpu__row_major(c->x, k->in);
  cpu__gemm_blocked(k->op.dev, &g);
  put_rows(j, c);
}

static void run_chunk(const job_t *j, int64_t number, char *part, int add)
{
  const cpu__head_pixels_t *k = j->k;
  char *scratch = j->a->scratch, *own = scratch + k->at.thread;
  own += (size_t)omp_get_thread_num() * k->at.thread_bytes;
  ct_loss_t *loss = (ct_loss_t *)(void *)(scratch + k->at.result) + number;
  chunk_t c = {.sample = number / k->chunks, .first = number % k->chunks * k->chunk};
  c.rows = ct_least(k->chunk, k->of.of_sample - c.first);
  c.x = (float *)(void *)own;
  c.y = (float *)(void *)(own + k->at.y);
  c.piece = (float *)(void *)(own + k->at.piece);
  *loss = (ct_loss_t){0};
  take_rows(j, &c);
  find_logits(j, &c);
  for (int64_t r = 0; r < c.rows; r++)
    pixel_loss(j, c.sample * k->of.of_sample + c.first + r, c.y + r * k->of.classes, loss);
  if (j->back & CT_BWD_PARAM) chunk_param(j, &c, part, add);
  if (j->back & CT_BWD_DATA) chunk_data(j, &c);
}

/* ---- the op ---- */

/* Adds up the gradients of the groups. */
static void sum_parts(const job_t *j)
{
  const cpu__head_pixels_t *k = j->k;
  const char *part = (const char *)j->a->scratch + k->at.part;
  int64_t count = k->of.classes * k->in;
  float *dw = j->a->dw[0], *db = j->a->dw[1];
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; i++) {
    double sum = 0;
    for (int64_t g = 0; g < k->groups; g++)
      sum += ((const float *)(const void *)(part + (size_t)g * k->at.part_bytes))[i];
    dw[i] = (float)sum;
  }
  for (int64_t i = 0; k->op.desc.u.head_loss.bias && i < k->of.classes; i++) {
    double sum = 0;
    for (int64_t g = 0; g < k->groups; g++)
      sum += ((const double *)(const void *)(part + (size_t)g * k->at.part_bytes + k->at.bias))[i];
    db[i] = (float)sum;
  }
}

static void sum_losses(const job_t *j, int64_t chunks)
{
  ct_loss_t all = {0};
  const ct_loss_t *l = (ct_loss_t *)(void *)((char *)j->a->scratch + j->k->at.result);
  for (int64_t i = 0; i < chunks; i++) {
    all.sum += l[i].sum;
    all.weight += l[i].weight;
    all.samples += l[i].samples;
    all.top1 += l[i].top1;
    all.top5 += l[i].top5;
  }
  *j->a->loss = all;
}

int cpu__head_pixels_run(ct_op_t *op, const ct_op_args_t *a)
{
  const cpu__head_pixels_t *k = (const cpu__head_pixels_t *)op;
  ct_op_args_t own = *a;
  own.labels2 = NULL;
  job_t j = {.k = k,
             .a = &own,
             .loops = cpu__loops(op->dev, CT_F32),
             .casts = op->desc.x.dtype != CT_F32 ? cpu__loops(op->dev, CT_BF16) : NULL,
             .back = a->pass & (CT_BWD_DATA | CT_BWD_PARAM)};
  int rc = cpu__rows_check(&k->of, &own);
  if (rc != CT_OK) return rc;
  int64_t chunks = op->desc.x.dim[0] * k->chunks;
  j.class_weights = cpu__rows_class_weights(&k->of, &own);
#pragma omp parallel for schedule(dynamic)
  for (int64_t g = 0; g < k->groups; g++) {
    char *part = (char *)own.scratch + k->at.part + (size_t)g * k->at.part_bytes;
    int64_t first = chunks * g / k->groups, end = chunks * (g + 1) / k->groups;
    for (int64_t i = first; i < end; i++)
      run_chunk(&j, i, part, i > first);
  }
  if (a->pass & CT_BWD_PARAM) sum_parts(&j);
  if (a->pass & CT_FWD) sum_losses(&j, chunks);
  return CT_OK;
}

static size_t take(size_t *end, int64_t count, size_t each)
{
  size_t at = *end;
  *end = (at + (size_t)count * each + 63) & ~(size_t)63;
  return at;
}

static void lay_out(cpu__head_pixels_t *k, const ct_op_desc_t *d)
{
  size_t end = 0;
  int64_t weights = k->of.classes * k->in, low = d->x.dtype != CT_F32;
  if (d->passes & CT_BWD_PARAM) {
    (void)take(&end, weights, sizeof(float));
    k->at.bias = take(&end, k->of.classes, sizeof(double));
  }
  k->at.part_bytes = end;
  end = 0;
  (void)take(&end, k->chunk * k->in, sizeof(float));
  k->at.y = take(&end, k->chunk * k->of.classes, sizeof(float));
  k->at.piece = take(&end, low ? k->chunk * k->width : 0, sizeof(float));
  k->at.thread_bytes = end;
  end = 0;
  k->at.result = take(&end, d->x.dim[0] * k->chunks, sizeof(ct_loss_t));
  k->at.part = take(&end, k->groups, k->at.part_bytes);
  k->at.thread = take(&end, k->op.dev->threads, k->at.thread_bytes);
}

int cpu__head_pixels_prepare(ct_op_t *op, ct_op_info_t *info)
{
  cpu__head_pixels_t *k = (cpu__head_pixels_t *)op;
  const ct_op_desc_t *d = &op->desc, loss = ct_op_loss_of(d);
  int64_t pixels = ct_op_pixels(&loss);
  k->in = d->x.dim[1];
  k->of = (cpu__loss_rows_t){.spec = loss.u.loss,
                             .classes = ct_op_classes(&loss),
                             .rows = d->x.dim[0] * pixels,
                             .of_sample = pixels};
  k->width = d->x.layout == CT_NHWC  ? k->in
             : d->x.layout == CT_C16 ? 16
             : d->x.layout == CT_C8  ? 8
                                     : 1;
  k->blocks = (k->in + k->width - 1) / k->width;
  int64_t fit = FLOATS / k->of.classes / 16 * 16;
  fit = fit < PIXELS_LEAST ? PIXELS_LEAST : ct_least(fit, PIXELS_MOST);
  k->chunk = ct_least(fit, pixels > 0 ? pixels : 1);
  k->chunks = (pixels + k->chunk - 1) / k->chunk;
  int64_t groups = PARTS / (k->of.classes * k->in);
  groups = groups < GROUPS_LEAST ? GROUPS_LEAST : ct_least(groups, GROUPS_MOST);
  k->groups = ct_least(groups, d->x.dim[0] * k->chunks);
  lay_out(k, d);
  info->scratch = k->at.thread + (size_t)op->dev->threads * k->at.thread_bytes;
  info->algorithm = "chunks";
  return CT_OK;
}
