/** \file kern/body_depthwise.h  Inner loops of depthwise convolutions: one image, one vector of
 * channels.  Module-internal.
 *
 * An image is split into rectangles of outputs whose windows have the same taps inside the image;
 * each is processed in strips along its longer side.  Sums run over the taps inside the image, in
 * order. */
#include "cpu/kern/vec.h"

/* A rectangle of outputs; offsets are in elements. */
typedef struct patch {
  int64_t in;     /* offset of the input at the first tap of the first output */
  int64_t weight; /* offset of the weight of this tap */
  int64_t out;    /* offset of the first output */
  int taps[2];
  int64_t size[2];                  /* outputs along the height and the width */
  int64_t tap_in[2], tap_weight[2]; /* strides between taps */
  int64_t next_in[2], next_out[2];  /* strides between outputs */
} patch_t;

INLINE patch_t patch_of(const cpu__depthwise_t *p, const cpu__reach_t *row, const cpu__reach_t *col)
{
  const cpu__reach_t *at[2] = {row, col};
  const int64_t in[2] = {p->in_cols * p->lanes, p->lanes};
  const int64_t out[2] = {p->out_cols * p->lanes, p->lanes};
  const int64_t weight[2] = {p->kernel_cols * p->lanes, p->lanes};
  patch_t c = {.in = 0};
  for (int i = 0; i < 2; i++) {
    c.in += at[i]->in * in[i];
    c.weight += at[i]->tap * weight[i];
    c.out += at[i]->first * out[i];
    c.taps[i] = at[i]->taps;
    c.size[i] = at[i]->count;
    c.tap_in[i] = p->in_step[i] * in[i];
    c.tap_weight[i] = p->tap_step[i] * weight[i];
    c.next_in[i] = p->advance[i] * in[i];
    c.next_out[i] = p->out_step[i] * out[i];
  }
  return c;
}

/* Arguments that are the same for all strips. */
typedef struct lone {
  const void *x;
  const float *w;
  void *y;
  vec_t bias;
  int relu, stream;
} lone_t;

/* Computes `count` outputs, `next` apart, whose inputs are `step` apart. */
INLINE void lone_strip(const lone_t *a, const patch_t *c, int64_t from, int64_t step, int64_t to,
                       int64_t next, const int cols, const int count)
{
  vec_t sum[12];
  for (int q = 0; q < count; q++)
    sum[q] = a->bias;
  for (int u = 0; u < c->taps[0]; u++)
    for (int v = 0; v < cols; v++) {
      int64_t at = from + u * c->tap_in[0] + v * c->tap_in[1];
      vec_t f = load(a->w + c->weight + u * c->tap_weight[0] + v * c->tap_weight[1], CPU__VW);
      for (int q = 0; q < count; q++)
        sum[q] += f * get(a->x, at + q * step, CPU__VW);
    }
  for (int q = 0; q < count; q++)
    put(a->y, to + q * next, a->relu ? relu_of(sum[q]) : sum[q], CPU__VW, a->stream);
}

/* Computes a line of outputs along the height (0) or the width (1). */
INLINE void lone_line(const lone_t *a, const patch_t *c, const int along, int64_t from,
                      const int64_t step, int64_t to, int64_t count, const int cols)
{
  int64_t next = c->next_out[along], q = 0;
  for (; q + 12 <= count; q += 12)
    lone_strip(a, c, from + q * step, step, to + q * next, next, cols, 12);
  if (q + 8 <= count) {
    lone_strip(a, c, from + q * step, step, to + q * next, next, cols, 8);
    q += 8;
  }
  if (q + 4 <= count) {
    lone_strip(a, c, from + q * step, step, to + q * next, next, cols, 4);
    q += 4;
  }
  for (; q < count; q++)
    lone_strip(a, c, from + q * step, step, to + q * next, next, cols, 1);
}

/* Computes a rectangle in lines along the width; in a high rectangle the remaining outputs are
 * computed in lines along the height. */
INLINE void lone_patch(const lone_t *a, const patch_t *c, const int64_t step, const int cols)
{
  int64_t left = c->size[0] >= 4 ? c->size[1] % 4 : 0, wide = c->size[1] - left;
  for (int64_t i = 0; wide && i < c->size[0]; i++)
    lone_line(a, c, 1, c->in + i * c->next_in[0], step, c->out + i * c->next_out[0], wide, cols);
  for (int64_t j = wide; j < c->size[1]; j++)
    lone_line(a, c, 0, c->in + j * step, c->next_in[0], c->out + j * c->next_out[1], c->size[0],
              cols);
}

static void depthwise(const cpu__depthwise_t *pass, const void *x, const float *w,
                      const float *bias, void *y)
{
  const cpu__depthwise_t p = *pass;
  lone_t a = {x, w, y, load(bias, CPU__VW), p.relu, p.stream};
  for (const cpu__reach_t *row = p.row; row < p.row + p.rows; row++)
    for (const cpu__reach_t *col = p.col; col < p.col + p.cols; col++) {
      patch_t c = patch_of(&p, row, col);
      if (c.next_in[1] == CPU__VW && c.taps[1] == 3) {
        lone_patch(&a, &c, CPU__VW, 3);
      } else if (c.next_in[1] == 2 * CPU__VW && c.taps[1] == 3) {
        lone_patch(&a, &c, 2 * CPU__VW, 3);
      } else {
        lone_patch(&a, &c, c.next_in[1], c.taps[1]);
      }
    }
  put_end(p.stream);
}

/* ---- gradient of the weights ---- */

/* Adds the contribution of a rectangle to rows x cols taps from tap (u, v) on. */
INLINE void lone_taps(const lone_t *a, const patch_t *c, float *dw, int u, int v,
                      const int64_t step, const int rows, const int cols)
{
  vec_t sum[14] = {{0}};
  for (int64_t i = 0; i < c->size[0]; i++) {
    int64_t in = c->in + i * c->next_in[0] + u * c->tap_in[0] + v * c->tap_in[1];
    for (int64_t j = 0; j < c->size[1]; j++) {
      vec_t g = get(a->y, c->out + i * c->next_out[0] + j * c->next_out[1], CPU__VW);
      for (int r = 0; r < rows; r++)
        for (int k = 0; k < cols; k++)
          sum[r * cols + k] +=
              g * get(a->x, in + j * step + r * c->tap_in[0] + k * c->tap_in[1], CPU__VW);
    }
  }
  for (int r = 0; r < rows; r++)
    for (int k = 0; k < cols; k++) {
      float *to = dw + c->weight + (u + r) * c->tap_weight[0] + (v + k) * c->tap_weight[1];
      store(to, load(to, CPU__VW) + sum[r * cols + k], CPU__VW);
    }
}

/* Adds the contribution of a rectangle to `cols` columns of taps from v on, to as many rows of taps
 * at a time as have sums in registers: few sums would wait for one another. */
INLINE void lone_columns(const lone_t *a, const patch_t *c, float *dw, int v, const int64_t step,
                         const int cols)
{
  int u = 0;
  for (; cols <= 4 && u + 3 <= c->taps[0]; u += 3)
    lone_taps(a, c, dw, u, v, step, 3, cols);
  for (; u + 2 <= c->taps[0]; u += 2)
    lone_taps(a, c, dw, u, v, step, 2, cols);
  if (u < c->taps[0]) lone_taps(a, c, dw, u, v, step, 1, cols);
}

/* Adds the contribution of a rectangle to the gradients of all taps. */
INLINE void lone_gradient(const lone_t *a, const patch_t *c, float *dw, const int64_t step)
{
  for (int v = 0, cols; v < c->taps[1]; v += cols) {
    cols = c->taps[1] - v < 7 ? c->taps[1] - v : 7;
    switch (cols) {
    case 1:
      lone_columns(a, c, dw, v, step, 1);
      break;
    case 2:
      lone_columns(a, c, dw, v, step, 2);
      break;
    case 3:
      lone_columns(a, c, dw, v, step, 3);
      break;
    case 4:
      lone_columns(a, c, dw, v, step, 4);
      break;
    case 5:
      lone_columns(a, c, dw, v, step, 5);
      break;
    case 6:
      lone_columns(a, c, dw, v, step, 6);
      break;
    default:
      lone_columns(a, c, dw, v, step, 7);
    }
  }
}

INLINE vec_t lone_sum(const void *dy, const patch_t *c)
{
  vec_t sum = {0};
  for (int64_t i = 0; i < c->size[0]; i++)
    for (int64_t j = 0; j < c->size[1]; j++)
      sum += get(dy, c->out + i * c->next_out[0] + j * c->next_out[1], CPU__VW);
  return sum;
}

static void depthwise_grad(const cpu__depthwise_t *pass, const void *x, const void *dy, float *dw,
                           float *db)
{
  const cpu__depthwise_t p = *pass;
  lone_t a = {.x = x, .y = (void *)(uintptr_t)dy};
  vec_t bias = {0};
  for (const cpu__reach_t *row = p.row; row < p.row + p.rows; row++)
    for (const cpu__reach_t *col = p.col; col < p.col + p.cols; col++) {
      patch_t c = patch_of(&p, row, col);
      if (c.next_in[1] == CPU__VW) {
        lone_gradient(&a, &c, dw, CPU__VW);
      } else {
        lone_gradient(&a, &c, dw, c.next_in[1]);
      }
      if (db) bias += lone_sum(dy, &c);
    }
  if (db) store(db, load(db, CPU__VW) + bias, CPU__VW);
}
