/* Places in sequences, and the rotation of pairs of features by them. */
#include "ref/ref.h"

#include <math.h>

/* ---- places ---- */

static int position_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const float *first = a->x;
  for (int64_t n = 0; n < d->y.dim[0]; n++) {
    for (int64_t t = 0; t < d->y.dim[1]; t++) {
      int64_t i = n * d->y.dim[1] + t, place = (a->position ? a->position[n] : 0) + t;
      ct__ref_set(d->y.dtype, a->y, i, (double)place - (d->u.position.relative ? first[i] : 0));
    }
  }
  return CT_OK;
}

const ct__ref_kind_t ct__ref_position = {.run = position_run, .reduced = 1};

/* ---- rotation ---- */

/* Rotates the heads of one row of features; \a turn -1: back. */
static void rotate_row(const ct_op_desc_t *d, float place, int turn, const void *x, void *y,
                       int64_t at)
{
  const ct_rope_t *r = &d->u.rope;
  ct_dtype_t t = d->x.dtype;
  float frequency[CT_ROPE_MOST / 2];
  ct_rope_frequencies(r, frequency);
  for (int i = 0; i < r->heads * r->dim / 2; i++) {
    int half = r->dim / 2, pair = i % half;
    int64_t p = at + i / half * r->dim + (r->interleaved ? 2 * pair : pair);
    int64_t q = p + (r->interleaved ? 1 : half);
    double angle = place * frequency[pair]; /* rounded to float32 */
    double c = cos(angle), s = turn * sin(angle), a = ct__ref_get(t, x, p);
    double b = ct__ref_get(t, x, q);
    ct__ref_set(t, y, p, a * c - b * s);
    ct__ref_set(t, y, q, b * c + a * s);
  }
  for (int64_t i = r->heads * r->dim; i < d->x.dim[2]; i++)
    ct__ref_set(t, y, at + i, ct__ref_get(t, x, at + i));
}

/* Backward reads the places that forward saved. */
static int rope_run(const ct_op_desc_t *d, const ct_op_args_t *a)
{
  const int64_t steps = d->x.dim[1], rows = d->x.dim[0] * steps;
  float *saved = ct_op_goes_back(d) ? a->saved : NULL;
  for (int64_t i = 0; i < rows; i++) {
    float place = 0;
    if (a->pass & CT_FWD) {
      int64_t own = (a->position ? a->position[i / steps] : 0) + i % steps;
      place = d->x2.ndim ? ((const float *)a->x2)[i] : (float)own;
      if (saved) saved[i] = place;
      rotate_row(d, place, 1, a->x, a->y, i * d->x.dim[2]);
    }
    if (a->pass & CT_BWD_DATA) rotate_row(d, saved[i], -1, a->dy, a->dx, i * d->x.dim[2]);
  }
  return CT_OK;
}

static void rope_needs(const ct_op_desc_t *d, ct_op_info_t *info)
{
  info->inplace_fwd = info->inplace_bwd = 1;
  if (ct_op_goes_back(d)) info->saved = (size_t)(d->x.dim[0] * d->x.dim[1]) * sizeof(float);
}

const ct__ref_kind_t ct__ref_rope = {.needs = rope_needs, .run = rope_run, .reduced = 1};
