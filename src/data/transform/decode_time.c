/* Finds the decode-time transforms at the beginning of a list.  They allow decoding only the part
 * of an image that is needed, and at reduced size where that suffices. */
#include "data/transform/transforms.h"

void ct__decode_time_probe_begin(ct__decode_time_probe_t *p, const ct_reader_info_t *info)
{
  static const int64_t sides[3][2] = {{1, 1}, {1, 2}, {2, 1}};
  *p = (ct__decode_time_probe_t){.open = info->encoded};
  for (int i = 0; i < 3; i++) {
    p->small[i] = info->x;
    if (!info->varies && !info->unsized) continue;
    p->small[i].dim[2] = sides[i][0];
    p->small[i].dim[3] = sides[i][1];
  }
}

/* Plans the step for a sample of another shape. */
static ct__transform_t fitted(const ct__transform_t *s, const ct_shape_t *in, int *fits)
{
  ct__transform_t f = *s;
  f.in = f.out = *in;
  *fits = !f.kind->fit || f.kind->fit(&f);
  return f;
}

static int belongs(const ct__decode_time_probe_t *p, const ct__transform_t *s)
{
  int flags = s->kind->flags, fits;
  if (!p->open || !s->kind->view || p->mirrored) return 0;
  if (flags & CT__TRANSFORM_RESIZES && p->resized) return 0;
  for (int i = 0; i < 3; i++) {
    ct__transform_t f = fitted(s, &p->small[i], &fits);
    if (s->kind->within && !s->kind->within(&f)) return 0;
  }
  return 1;
}

static int same_sides(const ct_shape_t *a, const ct_shape_t *b)
{
  return a->dim[2] == b->dim[2] && a->dim[3] == b->dim[3];
}

int ct__decode_time_probe(ct__decode_time_probe_t *p, const ct__transform_t *s)
{
  int alike = 1, fits;
  p->open = belongs(p, s);
  if (!p->open) return 0;
  p->steps++;
  p->resized |= !!(s->kind->flags & CT__TRANSFORM_RESIZES);
  p->mirrored |= !!(s->kind->flags & CT__TRANSFORM_MIRRORS);
  for (int i = 0; i < 3; i++) {
    p->small[i] = fitted(s, &p->small[i], &fits).out;
    alike &= same_sides(&p->small[i], &s->out);
  }
  if (alike) p->length = p->steps;
  return 1;
}
