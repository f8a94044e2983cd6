/* Places in sequences, and the rotation of pairs of features by them.  The angles of a place are
 * computed once for all heads, and for all samples whose elements have the same place. */
#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "cpu/kern/loops.h"

/* ---- places ---- */

static int position_run(ct_op_t *op, const ct_op_args_t *a)
{
  const ct_op_desc_t *d = &op->desc;
  const float *first = a->x;
  for (int64_t n = 0; n < d->y.dim[0]; n++) {
    float *y = (float *)a->y + n * d->y.dim[1];
    int64_t place = a->position ? a->position[n] : 0;
    for (int64_t t = 0; t < d->y.dim[1]; t++)
      y[t] = (float)(place + t) - (d->u.position.relative ? first[n * d->y.dim[1] + t] : 0);
  }
  return CT_OK;
}

const cpu__op_kind_t cpu__position = {.size = sizeof(ct_op_t), .plain = 1, .run = position_run};

/* ---- rotation ---- */

typedef struct rope_op {
  ct_op_t head;
  const cpu__loops_t *loops;
  float frequency[CT_ROPE_MOST / 2];
} rope_op_t;

/* The cosines and sines of a place. */
typedef struct angles {
  float place, cosine[CT_ROPE_MOST / 2], sine[CT_ROPE_MOST / 2];
} angles_t;

static void angles_of(const rope_op_t *k, float place, float turn, angles_t *to)
{
  if (place == to->place) return;
  to->place = place;
  for (int i = 0; i < k->head.desc.u.rope.dim / 2; i++) {
    float angle = place * k->frequency[i];
    to->cosine[i] = cosf(angle);
    to->sine[i] = turn * sinf(angle);
  }
}

static void rotate_row(const rope_op_t *k, const angles_t *to, const float *x, float *y)
{
  const ct_op_desc_t *d = &k->head.desc;
  const int dim = d->u.rope.dim;
  const int64_t width = d->x.dim[2], rotated = (int64_t)d->u.rope.heads * dim;
  for (int64_t h = 0; h < rotated; h += dim)
    k->loops->rotate(dim / 2, !d->u.rope.interleaved, to->cosine, to->sine, x + h, y + h);
  if (x != y && rotated < width)
    memcpy(y + rotated, x + rotated, (size_t)(width - rotated) * sizeof *y);
}

/* Row i is sample i % N at step i / N. */
static int rope_run(ct_op_t *op, const ct_op_args_t *a)
{
  const rope_op_t *k = (const rope_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  const int64_t n = d->x.dim[0], steps = d->x.dim[1], width = d->x.dim[2];
  const int forward = a->pass & CT_FWD;
  const float *x = forward ? a->x : a->dy,
              *given = forward ? (d->x2.ndim ? a->x2 : NULL) : a->saved;
  float *y = forward ? a->y : a->dx, *keep = forward && ct_op_goes_back(d) ? a->saved : NULL;

#pragma omp parallel if (cpu__is_parallel(&d->x))
  {
    angles_t angles = {.place = NAN};
#pragma omp for schedule(static)
    for (int64_t i = 0; i < n * steps; i++) {
      int64_t row = i % n * steps + i / n;
      float own = (float)((a->position ? a->position[i % n] : 0) + i / n);
      float place = given ? given[row] : own;
      if (keep) keep[row] = place;
      angles_of(k, place, forward ? 1 : -1, &angles);
      rotate_row(k, &angles, x + row * width, y + row * width);
    }
  }
  return CT_OK;
}

static int rope_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  rope_op_t *k = (rope_op_t *)op;
  const ct_op_desc_t *d = &op->desc;
  (void)like;
  k->loops = cpu__loops(op->dev, CT_F32);
  ct_rope_frequencies(&d->u.rope, k->frequency);
  info->inplace_fwd = info->inplace_bwd = 1;
  if (ct_op_goes_back(d)) info->saved = (size_t)(d->x.dim[0] * d->x.dim[1]) * sizeof(float);
  return CT_OK;
}

const cpu__op_kind_t cpu__rope = {.size = sizeof(rope_op_t),
                                  .bf16 = 1,
                                  .plain = 1,
                                  .stores = cpu__always,
                                  .prepare = rope_prepare,
                                  .run = rope_run};
