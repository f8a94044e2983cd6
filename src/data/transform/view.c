/* The decode-time transforms, taken out of a list, and the view of an image that they produce. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "data/transform/transforms.h"

struct ct__decode_time {
  ct__transform_t *step; /* owned */
  int steps;
};

/* ---- taking it out ---- */

int ct__decode_time_take(ct_transforms_t **t, ct_reader_info_t *info, ct__decode_time_t **out)
{
  ct_transforms_t *from = *t;
  *out = NULL;
  if (!from || !from->decode_time) return CT_OK;
  ct__decode_time_t *h = ct_mem_alloc(sizeof *h, "the transforms");
  if (h) h->step = ct_mem_array(from->decode_time, sizeof *h->step, "the transforms");
  if (!h || !h->step) {
    ct_mem_free(h);
    return CT_ERR_NOMEM;
  }
  h->steps = from->decode_time;
  for (int i = 0; i < from->steps; i++) {
    if (i >= h->steps) {
      from->step[i - h->steps] = from->step[i];
      continue;
    }
    h->step[i] = from->step[i];
    from->moves -= !(h->step[i].kind->flags & CT__TRANSFORM_IN_PLACE);
    from->along_moves -= !(h->step[i].kind->flags & CT__TRANSFORM_IN_PLACE);
  }
  from->steps -= h->steps;
  from->decode_time = 0;
  info->varies = info->unsized = 0;
  info->x.dim[2] = h->step[h->steps - 1].out.dim[2];
  info->x.dim[3] = h->step[h->steps - 1].out.dim[3];
  *out = h;
  if (from->steps + from->mixes == 0) {
    ct__transforms_close(from);
    *t = NULL;
  }
  return CT_OK;
}

void ct__decode_time_close(ct__decode_time_t *h)
{
  if (!h) return;
  for (int i = 0; i < h->steps; i++)
    ct__transform_clear(&h->step[i]);
  ct_mem_free(h->step);
  ct_mem_free(h);
}

/* ---- looking ---- */

const char *ct__decode_time_view(const ct__decode_time_t *decode_time, int64_t h, int64_t w,
                                 uint64_t seed, int64_t epoch, int64_t id, ct__view_t *out)
{
  ct__view_t v = {.box = {0, 0, h, w}, .h = h, .w = w, .window = {0, 0, h, w}};
  for (int i = 0; i < decode_time->steps; i++) {
    ct__transform_t s = decode_time->step[i];
    ct__draws_t draws = {0};
    s.in.dim[2] = v.window.h;
    s.in.dim[3] = v.window.w;
    s.out = s.in;
    if (s.kind->fit && !s.kind->fit(&s)) return s.kind->name;
    if (s.kind->flags & CT__TRANSFORM_RANDOM) draws = ct__draws(seed, epoch, s.position, id);
    s.kind->view(&s, &draws, &v);
  }
  *out = v;
  return NULL;
}
