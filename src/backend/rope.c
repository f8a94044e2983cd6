/* Frequencies of rotary position embedding, with the scaling of Llama 3.1 as in transformers'
 * _compute_llama3_parameters(). */
#include "backend/ct_op.h"

#include <math.h>

static const char *check_numbers(const ct_rope_t *r)
{
  if (r->heads < 1) return "there are no heads";
  if (r->dim < 2 || r->dim % 2 || r->dim > CT_ROPE_MOST)
    return "the features of a head are not an even number of 2 to 512";
  if (!(r->theta > 0)) return "theta is not above 0";
  if (r->scaling < 0 || r->scaling >= CT_ROPE_SCALINGS) return "unknown scaling";
  if (r->scaling != CT_ROPE_PLAIN && !(r->factor > 0)) return "the factor is not above 0";
  if (r->scaling == CT_ROPE_LLAMA3 && !(r->low > 0 && r->high > r->low && r->original > 0))
    return "the scaling needs 0 < low < high, and the original context";
  return NULL;
}

const char *ct_rope_check(const ct_op_desc_t *d)
{
  const ct_shape_t *x = &d->x, *places = &d->x2;
  const char *why = check_numbers(&d->u.rope);
  if (why) return why;
  if (x->ndim != 3 || !ct_shape_same(x, &d->y)) return "a rotation takes and gives N x T x F";
  if ((int64_t)d->u.rope.heads * d->u.rope.dim > x->dim[2])
    return "the heads have more features than the input";
  int fit = places->ndim == 2 && places->dim[0] == x->dim[0] && places->dim[1] == x->dim[1];
  return (places->ndim && !fit) || d->x3.ndim ? "the places are not N x T" : NULL;
}

const char *ct_position_check(const ct_op_desc_t *d)
{
  const ct_shape_t *x = &d->x, *y = &d->y;
  if (d->passes != CT_FWD) return "places have no gradient";
  if (x->ndim < 2 || y->ndim != 2 || x->dim[0] != y->dim[0] || x->dim[1] != y->dim[1])
    return "the places are not N x T";
  return d->u.position.relative && x->ndim != 2 ? "the first places are not N x T" : NULL;
}

static double scaled(const ct_rope_t *r, double f)
{
  const double pi = 3.14159265358979323846;
  if (r->scaling == CT_ROPE_LINEAR) return f / r->factor;
  if (r->scaling != CT_ROPE_LLAMA3) return f;
  double turns = r->original * f / (2 * pi); /* in the original context */
  if (turns > r->high) return f;
  if (turns < r->low) return f / r->factor;
  double share = (turns - r->low) / (r->high - r->low);
  return (1 - share) * f / r->factor + share * f;
}

void ct_rope_frequencies(const ct_rope_t *r, float *out)
{
  for (int i = 0; i < r->dim / 2; i++)
    out[i] = (float)scaled(r, pow(r->theta, -2.0 * i / r->dim));
}
