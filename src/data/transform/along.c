/* Arrays whose pixels move along with those of the samples, such as masks: the geometric transforms
 * of a list, applied to them with the draws of their sample. */
#include "data/transform/transforms.h"

const char *ct__transforms_moves(const ct_transforms_t *t)
{
  for (int i = 0; t && i < t->steps; i++) {
    int flags = t->step[i].kind->flags;
    if (flags & CT__TRANSFORM_RANDOM && !(flags & CT__TRANSFORM_COLOUR))
      return t->step[i].kind->name;
  }
  return NULL;
}

void ct__transforms_make_room_along(ct_transforms_t *t, int64_t channels)
{
  for (int i = 0; t && i < t->steps; i++) {
    const ct_shape_t *in = &t->step[i].in, *out = &t->step[i].out;
    int64_t times = (channels + in->dim[1] - 1) / in->dim[1];
    ct__transforms_grow(t, ct_shape_sample(in) / in->dim[1] * channels, t->step[i].scratch * times);
    ct__transforms_grow(t, ct_shape_sample(out) / out->dim[1] * channels, 0);
  }
}

float *ct__transforms_start_along(const ct_transforms_t *t, float *work, float *y)
{
  return t->along_moves > 0 ? work : y;
}

void ct__transforms_run_along(const ct_transforms_t *t, const ct__along_t *along, uint64_t seed,
                              int64_t epoch, int64_t id, float *work, float *y)
{
  float *now = ct__transforms_start_along(t, work, y), *other = work + t->widest;
  int moves = t->along_moves;
  for (int i = 0; i < t->steps; i++) {
    ct__transform_t s = t->step[i];
    if (s.kind->flags & CT__TRANSFORM_COLOUR) continue;
    ct__draws_t draws = {0};
    float *to = now;
    s.in.dim[1] = s.out.dim[1] = along->channels;
    s.map = NULL;
    s.along = along;
    if (s.kind->flags & CT__TRANSFORM_RANDOM) draws = ct__draws(seed, epoch, s.position, id);
    if (!(s.kind->flags & CT__TRANSFORM_IN_PLACE)) to = --moves == 0 ? y : other;
    int labels = along->by_class && s.kind->apply_labels;
    if (s.kind->move)
      s.kind->move(&s, &draws, (ct__pixels_t){along->channels, sizeof *y}, now, to);
    else
      (labels ? s.kind->apply_labels : s.kind->apply)(&s, &draws, now, to, work + 2 * t->widest);
    if (to != now) other = now;
    now = to;
  }
}
