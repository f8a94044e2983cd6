/* Convolution as im2col and GEMM: supports every shape, layout and instruction set.  It is the
 * algorithm of a build without oneDNN where Winograd's and those for few channels do not apply;
 * with oneDNN it is the fallback for convolutions that the others refuse: windows that oneDNN
 * computes wrong (conv/onednn.c) if they have groups, more than 16 taps in a row, or bf16.
 *
 * A row of the unfolded matrix is the window of one output: blocks of 16 input channels, in each
 * the taps (kernel elements), in each its 16 channels.  Weights in CPU__I16O16 are the panels that
 * the GEMM reads.  With groups, or fewer than 16 channels, weights are plain and packed.  Up to 4
 * channels, and up to 15 in a plain x, are not padded to a block: their columns are in the order of
 * plain weights.  A chunk of rows is processed at a time.  In the layout c16 and in channels last,
 * y and the pixels of a 1x1 convolution are matrices as they lie.  bf16 is converted to float32
 * copies.
 *
 * The gradient of the weights is computed by tasks, each for some columns and a part of the batch:
 * what they are does not depend on the number of threads. */
#include "base/ct_err.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include "cpu/conv/conv.h"
#include "cpu/kern/loops.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/gemm/primitive.h"
#include <omp.h>
#include <string.h>

enum {
  WIDE = 16,              /* channels in a block of the matrix */
  THIN = 4,               /* channels that are never padded to a block */
  CHUNK_FLOATS = 1 << 17, /* maximum size of an unfolded chunk: it fits the L2 cache */
  CHUNK_MIN = 16,         /* minimum rows of a chunk */
  ROWS = 64,              /* images with fewer outputs are unfolded together */
  COLUMNS = 1024,         /* columns of a task of the gradient, about */
  TASKS = 16,             /* about so many tasks */
  PARTS_FLOATS = 1 << 22  /* maximum size of all copies of the gradient, one for each part */
};

/* Images are volumes of depth 1. */
typedef struct lowered {
  ct_op_desc_t desc;
  cpu__view_t x, y;
  int pass;
  int64_t groups, in, out; /* channels per group */
  int64_t x_size[3], y_size[3];
  int64_t kernel[3], stride[3], pad[3], dilate[3];
  int64_t taps, block, blocks; /* block: columns of one */
  int64_t depth;               /* columns of the unfolded matrix */
  int64_t chunk;               /* rows that are unfolded at a time */
  int64_t ranges, parts;       /* of the gradient: of the blocks, and of the batch */
  int64_t together;            /* images that are unfolded as one chunk */
  int thin;                    /* 1: a single block, whose channels are not padded */
  int packs;                   /* 1: weights are packed */
  int in_place;                /* 1: 1x1 windows, whose matrix is x */
  /* sizes in floats: */
  int64_t x_all, y_all;   /* x and y, with padding */
  int64_t x_copy, y_copy; /* float32 copies of them; 0 if they are float32 */
  int64_t group;          /* the weights of a group, or their gradient, in panels */
  int64_t thread;         /* of a thread: a chunk, and its part of y */
} lowered_t;

/* ---- entries of the algorithm table ---------------------------------------------------------- */

/* Returns the estimated speed relative to the peak, padding aside: blocks of 16 channels are copied
 * at once, others one by one.  oneDNN's GEMM convolutions in the plain layout are faster
 * (conv/onednn.c): they unfold several images at a time. */
static double efficiency(const cpu__job_t *job)
{
  const ct_op_desc_t *d = job->desc;
  int thin = d->x.dim[1] / d->u.conv.groups < WIDE;
  int plain = (job->at.x == CT_PLAIN && !thin) || job->at.y == CT_PLAIN;
  double fast = plain ? 0.2 : 0.65;
  if (job->pass == CT_BWD_PARAM) fast *= plain ? 0.5 : 0.9;
  if (job->dev->isa == CPU__PORTABLE && !CPU__NEON) fast *= 0.25;
  return d->x.dtype == CT_F32 ? fast : 0.1 * fast;
}

static double padding_of(const ct_op_desc_t *d)
{
  int64_t in = d->x.dim[1] / d->u.conv.groups, out = d->y.dim[1] / d->u.conv.groups;
  double thin = in < WIDE ? 1.5 : (double)ct_round_up(in, WIDE) / (double)in;
  return thin * (double)ct_round_up(out, WIDE) / (double)out;
}

static int is_packed(const ct_op_desc_t *d)
{
  return d->u.conv.groups > 1 || d->x.dim[1] < WIDE;
}

static int lowered_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  const ct_op_desc_t *d = job->desc;
  ct_layout_t blocked = cpu__blocked(job->dev), other = blocked == CT_C16 ? CT_C8 : CT_C16;
  if (job->at.x == other || job->at.y == other)
    return cpu__refuse(why, "blocks are as wide as the processor's vectors");
  *cost = (cpu__cost_t){ct_op_flops(d, CT_FWD) / 2 * padding_of(d) / efficiency(job), 0};
  return 1;
}

static int lowered_stored(const cpu__job_t *job, cpu__md_t **out)
{
  int format = is_packed(job->desc) ? (int)CT_PLAIN : (int)CPU__I16O16;
  return cpu__conv_weights(job->desc, CT_F32, format, out);
}

static void set_geometry(lowered_t *t)
{
  const ct_op_desc_t *d = &t->desc;
  int space = d->x.ndim - 2;
  t->taps = 1;
  for (int i = 0; i < 3; i++) {
    int from = i - (3 - space); /* images have depth 1 */
    t->x_size[i] = from < 0 ? 1 : d->x.dim[2 + from];
    t->y_size[i] = from < 0 ? 1 : d->y.dim[2 + from];
    t->kernel[i] = from < 0 ? 1 : d->u.conv.kernel[from];
    t->stride[i] = from < 0 ? 1 : d->u.conv.stride[from];
    t->pad[i] = from < 0 ? 0 : d->u.conv.pad[from];
    t->dilate[i] = from < 0 ? 1 : d->u.conv.dilate[from];
    t->taps *= t->kernel[i];
  }
  t->groups = d->u.conv.groups;
  t->in = d->x.dim[1] / t->groups;
  t->out = d->y.dim[1] / t->groups;
  t->thin = t->in <= THIN || (t->in < WIDE && t->x.lanes == 1);
  t->packs = is_packed(d);
  t->block = t->taps * (t->thin ? t->in : WIDE);
  t->blocks = ct_div_up(t->in, WIDE);
  t->depth = t->block * t->blocks;
  t->group = t->depth * ct_round_up(t->out, WIDE);
}

static cpu__view_t view_in(const ct_shape_t *s, ct_layout_t layout)
{
  ct_shape_t there = *s;
  there.layout = layout;
  return cpu__view(&there);
}

/* Returns 1 if channels of an image are a row-major matrix, or panels. */
static int is_matrix(const lowered_t *t, const cpu__view_t *v, int64_t channels)
{
  return v->lanes == v->c || (v->lanes == WIDE && (t->groups == 1 || channels % WIDE == 0));
}

static int is_in_place(const lowered_t *t)
{
  int one = t->together == 1 && t->taps == 1 && t->in % WIDE == 0 && is_matrix(t, &t->x, t->in);
  for (int i = 0; i < 3; i++)
    one &= t->stride[i] == 1 && t->pad[i] == 0;
  return one && t->pass != CT_BWD_PARAM; /* the GEMM cannot read panels of pixels by columns */
}

/* Sets what is unfolded at a time, and the tasks of the gradient. */
static void set_tasks(lowered_t *t)
{
  int64_t columns = t->depth, rows = t->y.inner, tasks;
  if (t->pass == CT_BWD_PARAM) {
    t->ranges = ct_least(t->blocks, ct_div_up(t->depth, COLUMNS));
    columns = ct_div_up(t->blocks, t->ranges) * t->block;
    rows *= t->y.n; /* of several small images */
    tasks = ct_div_up(TASKS, t->ranges * t->groups);
    t->parts = ct_least(t->y.n, ct_least(tasks, PARTS_FLOATS / (t->groups * t->group)));
    if (t->parts < 1) t->parts = 1;
  }
  t->chunk = CHUNK_FLOATS / columns;
  if (t->chunk < CHUNK_MIN) t->chunk = CHUNK_MIN;
  t->together = ct_least(t->y.n, ct_least(t->chunk, ROWS) / t->y.inner);
  if (t->together < 1 || t->pass == CT_BWD_PARAM) t->together = 1;
  if (t->pass != CT_BWD_PARAM) rows *= t->together;
  if (t->chunk > rows) t->chunk = rows;
  t->thread = t->chunk * (columns + ct_round_up(t->out, WIDE));
}

static int lowered_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  const ct_op_desc_t *d = job->desc;
  lowered_t *t = out->own = ct_mem_alloc(sizeof *t, "convolution");
  if (!t) return CT_ERR_NOMEM;
  t->desc = *d;
  t->pass = job->pass;
  t->x = view_in(&d->x, job->at.x);
  t->y = view_in(&d->y, job->at.y);
  set_geometry(t);
  set_tasks(t);
  t->in_place = is_in_place(t);
  t->x_all = t->x.n * t->x.groups * t->x.inner * t->x.lanes;
  t->y_all = t->y.n * t->y.groups * t->y.inner * t->y.lanes;
  t->x_copy = d->x.dtype == CT_F32 ? 0 : ct_round_up(t->x_all, WIDE);
  t->y_copy = d->x.dtype == CT_F32 ? 0 : ct_round_up(t->y_all, WIDE);
  int64_t floats = t->x_copy + t->y_copy + job->dev->threads * t->thread;
  int64_t copies = job->pass == CT_BWD_PARAM ? t->parts : 1;
  if (t->packs || copies > 1) floats += copies * t->groups * t->group;
  out->scratch = (size_t)floats * sizeof(float);
  return lowered_stored(job, &out->w);
}

static void lowered_clear(cpu__ready_t *ready)
{
  ct_mem_free(ready->own);
}

/* ---- unfolding ------------------------------------------------------------------------------- */

/* A block of at most 16 channels of an image. */
typedef struct block {
  float *at[WIDE]; /* pixel 0 of every width-th channel */
  int n, width;    /* channels, and how many are neighbours in memory: 16, 8 or 1 */
  int64_t pixel;   /* from one pixel to the next */
} block_t;

/* Returns channels c to c + n, or c + 15, of an image. */
static block_t block_of(const cpu__view_t *v, float *image, int64_t c, int64_t n)
{
  block_t b = {.n = (int)ct_least(n, WIDE), .width = 1, .pixel = v->lanes};
  int width = v->lanes == v->c ? WIDE : (int)v->lanes;
  int whole = b.n % width == 0 || (c + n == v->c && v->lanes != v->c); /* or 0 in the padding */
  if (width > 1 && whole && (v->lanes == v->c || c % width == 0)) {
    b.width = width;
    b.n = (int)ct_round_up(b.n, width);
  }
  for (int j = 0; j < b.n; j += b.width)
    b.at[j / b.width] = image + cpu__pixels(v, 0, c + j);
  return b;
}

/* Copies a pixel of the block to 16 floats; back: adds these to the pixel. */
static inline void move_pixel(const block_t *b, int64_t pixel, float *row, int back)
{
  for (int j = 0; j < b->n; j += b->width) {
    float *at = b->at[j / b->width] + pixel * b->pixel;
    for (int i = 0; i < b->width && back; i++)
      at[i] += row[j + i];
    if (!back && b->width == WIDE)
      memcpy(row, at, WIDE * sizeof *row);
    else if (!back && b->width == WIDE / 2)
      memcpy(row + j, at, WIDE / 2 * sizeof *row);
    else if (!back)
      row[j] = *at;
  }
  if (!back && b->n < WIDE) memset(row + b->n, 0, (size_t)(WIDE - b->n) * sizeof *row);
}

/* Returns the first pixel of the row of x that position `at` of y (depth, height) reads at a tap;
 * -1: the row is outside. */
static int64_t line_of(const lowered_t *t, const int64_t at[3], const int64_t tap[3])
{
  int64_t line = 0;
  for (int i = 0; i < 2; i++) {
    int64_t k = at[i] * t->stride[i] - t->pad[i] + tap[i] * t->dilate[i];
    if (k < 0 || k >= t->x_size[i]) return -1;
    line = line * t->x_size[i] + k;
  }
  return line * t->x_size[2];
}

/* Some rows of the matrix, and some of its blocks of columns. */
typedef struct part {
  float *image, *cols;
  int64_t from, to;    /* rows: pixels of y */
  int64_t first, end;  /* blocks */
  int64_t group, next; /* from one row of cols to the next */
} part_t;

/* Unfolds a row of taps for one output, whose first tap is at pixel `line` + `x` of a plain channel
 * or of a block. */
static inline void unfold_taps(const lowered_t *t, const block_t *b, int64_t line, int64_t x,
                               float *row, int back)
{
  int whole = line >= 0 && x >= 0 && x + t->kernel[2] <= t->x_size[2];
  if (whole && t->thin && !back && t->dilate[2] == 1 && b->pixel == 1) {
    const float *pixels = b->at[0] + line + x;
    for (int64_t k = 0; k < t->kernel[2]; k++)
      row[k] = pixels[k];
    return;
  }
  for (int64_t k = 0; k < t->kernel[2]; k++, x += t->dilate[2], row += t->thin ? 1 : WIDE) {
    int inside = line >= 0 && x >= 0 && x < t->x_size[2];
    if (inside && !t->thin)
      move_pixel(b, line + x, row, back);
    else if (inside && back)
      b->at[0][(line + x) * b->pixel] += *row;
    else if (inside)
      *row = b->at[0][(line + x) * b->pixel];
    else if (!back)
      memset(row, 0, (t->thin ? 1 : WIDE) * sizeof *row);
  }
}

/* Unfolds the rows of taps of depth and height `tap` of a block, or of a channel if thin. */
static void unfold_rows(const lowered_t *t, const part_t *u, const block_t *b, const int64_t tap[3],
                        float *cols, int back)
{
  for (int64_t n, p = u->from; p < u->to; p += n) {
    const int64_t at[3] = {p / (t->y_size[1] * t->y_size[2]), p / t->y_size[2] % t->y_size[1],
                           p % t->y_size[2]};
    int64_t line = line_of(t, at, tap), x = at[2] * t->stride[2] - t->pad[2];
    n = ct_least(t->y_size[2] - at[2], u->to - p);
    float *row = cols + (p - u->from) * u->next;
    for (int64_t i = 0; i < n; i++, x += t->stride[2], row += u->next)
      unfold_taps(t, b, line, x, row, back);
  }
}

/* Unfolds a part; back: folds it (col2im). */
static void unfold(const lowered_t *t, const part_t *u, int back)
{
  int64_t pieces = t->thin ? t->in : u->end - u->first, lines = t->taps / t->kernel[2];
  int64_t width = t->thin ? 1 : WIDE;
  int large = (u->to - u->from) * t->taps * pieces * width > CPU__PARALLEL_MIN;
#pragma omp parallel for if (large && !omp_in_parallel()) schedule(static)
  for (int64_t i = 0; i < pieces; i++) {
    int64_t c = (u->first + i) * width;
    block_t b = block_of(&t->x, u->image, u->group * t->in + c, t->thin ? 1 : t->in - c);
    for (int64_t k = 0; k < lines; k++) {
      const int64_t tap[3] = {k / t->kernel[1], k % t->kernel[1], 0};
      unfold_rows(t, u, &b, tap, u->cols + (i * lines + k) * t->kernel[2] * width, back);
    }
  }
}

/* ---- running --------------------------------------------------------------------------------- */

/* What one thread computes: images of a group of channels. */
typedef struct task {
  const ct_dev_t *dev;
  float *x, *y; /* the image */
  float *w;     /* panels of the group's weights, or of their gradient */
  float *cols;  /* workspace: a chunk, and its part of y */
  const float *bias;
  int64_t group;
  int add; /* 1: accumulates the weight gradient */
} task_t;

/* Returns a group's channels of some pixels as a matrix. */
static cpu__matrix_t matrix_of(const cpu__view_t *v, float *image, int64_t c, int64_t pixel)
{
  float *at = image + cpu__pixels(v, 0, c) + pixel * v->lanes;
  return v->lanes == v->c ? cpu__row_major(at, v->c) : cpu__panels(at, v->inner);
}

/* Copies a group's channels of pixels `from` to `to` of y to rows, or back. */
static void move_y(const lowered_t *t, const task_t *k, int64_t from, int64_t to, float *rows,
                   int back)
{
  int64_t wide = ct_round_up(t->out, WIDE);
  for (int64_t c = 0; c < t->out; c += WIDE) {
    block_t b = block_of(&t->y, k->y, k->group * t->out + c, t->out - c);
    for (int64_t p = from; p < to; p++) {
      float *row = rows + (p - from) * wide + c;
      if (!back) move_pixel(&b, p, row, 0);
      for (int j = 0; j < b.n && back; j++)
        b.at[j / b.width][p * b.pixel + j % b.width] = row[j];
    }
  }
}

/* Returns the arguments for image n. */
static task_t image_of(const lowered_t *t, const task_t *k, int64_t n)
{
  task_t one = *k;
  one.x += n * (t->x_all / t->x.n);
  one.y += n * (t->y_all / t->y.n);
  return one;
}

/* Multiplies `rows` rows of x by the weights, or of y by the transposed weights. */
static void multiply(const lowered_t *t, const task_t *k, int64_t rows, cpu__matrix_t x,
                     cpu__matrix_t y)
{
  cpu__matrix_t w = cpu__panels(k->w, t->depth);
  cpu__gemm_t g = {.m = rows, .n = t->out, .k = t->depth, .a = x, .b = w, .c = y};
  if (t->pass == CT_BWD_DATA)
    g = (cpu__gemm_t){
        .m = rows, .n = t->depth, .k = t->out, .a = y, .b = cpu__transposed(w), .c = x};
  if (t->pass == CT_FWD && k->bias) g.bias = k->bias + k->group * t->out;
  cpu__gemm_blocked(k->dev, &g);
}

/* Computes y or dx of rows `from` to `to` of one image. */
static void run_chunk(const lowered_t *t, const task_t *k, int64_t from, int64_t to)
{
  int64_t wide = ct_round_up(t->out, WIDE);
  int lies = is_matrix(t, &t->y, t->out), back = t->pass == CT_BWD_DATA;
  float *rows = k->cols + t->chunk * t->depth;
  part_t u = {k->x, k->cols, from, to, 0, t->blocks, k->group, t->depth};
  cpu__matrix_t x = cpu__row_major(k->cols, t->depth), y = cpu__row_major(rows, wide);
  if (t->in_place) x = matrix_of(&t->x, k->x, k->group * t->in, from);
  if (lies) y = matrix_of(&t->y, k->y, k->group * t->out, from);
  if (back && !lies) move_y(t, k, from, to, rows, 0);
  if (!back && !t->in_place) unfold(t, &u, 0);
  multiply(t, k, to - from, x, y);
  if (back && !t->in_place) unfold(t, &u, 1);
  if (!back && !lies) move_y(t, k, from, to, rows, 1);
}

/* Computes y or dx of small images `first` to `end` - 1, all of them at once. */
static void run_together(const lowered_t *t, const task_t *k, int64_t first, int64_t end)
{
  int64_t wide = ct_round_up(t->out, WIDE), pixels = t->y.inner;
  int back = t->pass == CT_BWD_DATA;
  float *rows = k->cols + t->chunk * t->depth;
  for (int after = 0; after < 2; after++) {
    for (int64_t n = first; n < end; n++) {
      int64_t row = (n - first) * pixels;
      task_t one = image_of(t, k, n);
      part_t u = {one.x, k->cols + row * t->depth, 0, pixels, 0, t->blocks, k->group, t->depth};
      if (after == back) unfold(t, &u, back);
      if (after != back) move_y(t, &one, 0, pixels, rows + row * wide, !back);
    }
    if (!after)
      multiply(t, k, (end - first) * pixels, cpu__row_major(k->cols, t->depth),
               cpu__row_major(rows, wide));
  }
}

/* Sets the padding of the last block of channels of an image to 0. */
static void clear_padding(const cpu__view_t *v, float *image)
{
  int64_t used = v->c % v->lanes, last = v->c / v->lanes * v->lanes;
  if (!used) return;
  for (int64_t p = 0; p < v->inner; p++)
    memset(image + last * v->inner + p * v->lanes + used, 0,
           (size_t)(v->lanes - used) * sizeof *image);
}

/* Sets a group's channels of an image of dx to 0. */
static void clear_x(const lowered_t *t, const task_t *k)
{
  for (int64_t c = 0; c < t->in; c += WIDE) {
    block_t b = block_of(&t->x, k->x, k->group * t->in + c, t->in - c);
    for (int j = 0; j < b.n; j += b.width)
      for (int64_t p = 0; p < t->x.inner; p++)
        memset(b.at[j / b.width] + p * b.pixel, 0, (size_t)b.width * sizeof(float));
  }
}

/* Computes y or dx of a group of channels of images `first` to `end` - 1. */
static void run_images(const lowered_t *t, task_t k, int64_t first, int64_t end)
{
  int last = k.group == t->groups - 1;
  k.cols += omp_get_thread_num() * t->thread;
  for (int64_t n = first; n < end; n++) {
    task_t one = image_of(t, &k, n);
    if (t->pass == CT_BWD_DATA && !t->in_place) clear_x(t, &one);
    for (int64_t from = 0; from < t->y.inner && t->together == 1; from += t->chunk)
      run_chunk(t, &one, from, ct_least(from + t->chunk, t->y.inner));
  }
  if (t->together > 1) run_together(t, &k, first, end);
  for (int64_t n = first; n < end && last; n++) {
    task_t one = image_of(t, &k, n);
    clear_padding(t->pass == CT_FWD ? &t->y : &t->x, t->pass == CT_FWD ? one.y : one.x);
  }
}

static void sum_bias(const lowered_t *t, float *dy, float *db)
{
  int64_t size = t->y_all / t->y.n;
#pragma omp parallel for if (t->y_all > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t c = 0; c < t->y.c; c += WIDE) {
    double sum[WIDE] = {0};
    for (int64_t n = 0; n < t->y.n; n++) {
      block_t b = block_of(&t->y, dy + n * size, c, t->y.c - c);
      for (int64_t p = 0; p < t->y.inner; p++)
        for (int j = 0; j < b.n; j++)
          sum[j] += b.at[j / b.width][p * b.pixel + j % b.width];
    }
    for (int64_t j = 0; j < ct_least(WIDE, t->y.c - c); j++)
      db[c + j] = (float)sum[j];
  }
}

/* Copies plain weights to panels, padded with zeros; back: panels to plain. */
static void pack_weights(const lowered_t *t, float *plain, float *panels, int back)
{
  if (!back) memset(panels, 0, (size_t)(t->groups * t->group) * sizeof *panels);
#pragma omp parallel for if (t->groups * t->group > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t i = 0; i < t->groups * t->out; i++) {
    int64_t o = i % t->out;
    float *w = plain + i * t->in * t->taps;
    float *to = panels + i / t->out * t->group + o / WIDE * WIDE * t->depth + o % WIDE;
    for (int64_t k = 0; k < t->in * t->taps; k++) {
      int64_t c = k / t->taps,
              row = t->thin ? k : (c / WIDE * t->taps + k % t->taps) * WIDE + c % WIDE;
      if (back)
        w[k] = to[row * WIDE];
      else
        to[row * WIDE] = w[k];
    }
  }
}

/* Sums the parts of the gradient into the first one. */
static void add_parts(const lowered_t *t, float *parts)
{
  int64_t weights = t->groups * t->group;
#pragma omp parallel for if (t->parts * weights > CPU__PARALLEL_MIN) schedule(static)
  for (int64_t i = 0; i < weights; i++)
    for (int64_t part = 1; part < t->parts; part++)
      parts[i] += parts[part * weights + i];
}

/* Adds the gradient of blocks first to end - 1 by rows `from` to `to` of the whole batch. */
static void add_rows(const lowered_t *t, const task_t *k, int64_t first, int64_t end, int64_t from,
                     int64_t to)
{
  int64_t columns = (end - first) * t->block, wide = ct_round_up(t->out, WIDE);
  int64_t whole = t->y.inner, size = t->y_all / t->y.n;
  int lies = from / whole == (to - 1) / whole && is_matrix(t, &t->y, t->out);
  float *rows = k->cols + t->chunk * columns;
  for (int64_t n, p = from; p < to; p += n) {
    int64_t image = p / whole, pixel = p % whole;
    n = ct_least(whole - pixel, to - p);
    task_t one = image_of(t, k, image);
    part_t u = {one.x,  k->cols + (p - from) * columns, pixel, pixel + n, first, end, k->group,
                columns};
    unfold(t, &u, 0);
    if (!lies) move_y(t, &one, pixel, pixel + n, rows + (p - from) * wide, 0);
  }
  cpu__gemm_t g = {.m = columns, .n = t->out, .k = to - from, .add = k->add};
  g.a = cpu__transposed(cpu__row_major(k->cols, columns));
  g.b = lies ? matrix_of(&t->y, k->y + from / whole * size, k->group * t->out, from % whole)
             : cpu__row_major(rows, wide);
  g.c = cpu__panels(k->w + first * t->block * WIDE, t->depth);
  cpu__gemm_blocked(k->dev, &g);
}

static void lowered_gradient(const lowered_t *t, task_t k, float *copies, float *dw)
{
  int64_t n = t->y.n, weights = t->groups * t->group, tasks = t->parts * t->groups * t->ranges;
  float *panels = t->parts > 1 || t->packs ? copies : dw;
#pragma omp parallel for if (tasks > 1) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    task_t own = k;
    int64_t range = i % t->ranges, part = i / t->ranges / t->groups;
    int64_t first = t->blocks * range / t->ranges, end = t->blocks * (range + 1) / t->ranges;
    int64_t row = n * part / t->parts * t->y.inner, last = n * (part + 1) / t->parts * t->y.inner;
    own.cols += omp_get_thread_num() * t->thread;
    own.group = i / t->ranges % t->groups;
    own.w = panels + part * weights + own.group * t->group;
    for (int64_t next; row < last; row = next, own.add = 1) {
      next = ct_least(row + t->chunk, last);
      if (t->y.inner > t->chunk) next = ct_least(next, (row / t->y.inner + 1) * t->y.inner);
      add_rows(t, &own, first, end, row, next);
    }
  }
  if (t->parts > 1) add_parts(t, panels);
  if (t->packs)
    pack_weights(t, dw, panels, 1);
  else if (panels != dw)
    memcpy(dw, panels, (size_t)weights * sizeof *dw);
}

static void run_layer(const lowered_t *t, task_t k, float *copies, float *w)
{
  int64_t tasks = ct_div_up(t->x.n, t->together) * t->groups;
  k.w = w;
  if (t->packs) pack_weights(t, w, k.w = copies, 0);
#pragma omp parallel for if (tasks > 1) schedule(static)
  for (int64_t i = 0; i < tasks; i++) {
    task_t own = k;
    int64_t first = i / t->groups * t->together;
    own.group = i % t->groups;
    own.w += own.group * t->group;
    run_images(t, own, first, ct_least(first + t->together, t->x.n));
  }
}

static int lowered_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  const lowered_t *t = ready->own;
  float *scratch = at[CPU__SCRATCH], *cols = scratch + t->x_copy + t->y_copy;
  float *copies = cols + dev->threads * t->thread;
  int bias = t->desc.u.conv.bias;
  task_t k = {.dev = dev, .x = at[CPU__X], .y = at[CPU__Y], .cols = cols};
  if (t->pass == CT_FWD && bias) k.bias = at[CPU__BIAS];
  if (t->x_copy) {
    k.x = scratch;
    k.y = scratch + t->x_copy;
    if (t->pass != CT_BWD_DATA) cpu__to_floats(dev, t->x_all, at[CPU__X], k.x);
    if (t->pass != CT_FWD) cpu__to_floats(dev, t->y_all, at[CPU__Y], k.y);
  }
  if (t->pass == CT_BWD_PARAM) {
    lowered_gradient(t, k, copies, at[CPU__W]);
    if (bias) sum_bias(t, k.y, at[CPU__BIAS]);
    return CT_OK;
  }
  run_layer(t, k, copies, at[CPU__W]);
  if (t->x_copy && t->pass == CT_FWD) cpu__from_floats(dev, t->y_all, k.y, at[CPU__Y], 0);
  if (t->x_copy && t->pass == CT_BWD_DATA) cpu__from_floats(dev, t->x_all, k.x, at[CPU__X], 0);
  return CT_OK;
}

const cpu__algo_t cpu__conv_lowered = {.name = "lowered",
                                       .second = 1,
                                       .can = lowered_can,
                                       .stored = lowered_stored,
                                       .prepare = lowered_prepare,
                                       .run = lowered_run,
                                       .clear = lowered_clear};
