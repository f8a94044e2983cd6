/* Tensors that are the first channels of larger ones, and concatenations whose first input is in
 * its place. */
#include <string.h>

#include "base/ct_mem.h"
#include "tests/conform/rig.h"

block_t *tensor_alone(tensor_t *t)
{
  return t->alone.mem ? &t->alone : &t->own;
}

int tensor_move_part(tensor_t *t, int to_place)
{
  size_t images = (size_t)t->shape.dim[0], rest = 0;
  if (!t->alone.mem || !images) return 1;
  size_t one = t->alone.bytes / images, step = t->own.bytes / images;
  unsigned char *part = host_array((int64_t)t->alone.bytes, 1);
  unsigned char *whole = host_array((int64_t)t->own.bytes, 1);

  block_take(to_place ? &t->alone : &t->own, to_place ? part : whole,
             to_place ? t->alone.bytes : t->own.bytes);
  if (to_place) memset(whole, 0xff, t->own.bytes);
  for (size_t n = 0; n < images; n++) {
    memcpy(to_place ? whole + n * step : part + n * one,
           to_place ? part + n * one : whole + n * step, one);
    for (size_t i = one; i < step; i++)
      rest += whole[n * step + i] != 0xff;
  }
  block_put(to_place ? &t->own : &t->alone, to_place ? whole : part,
            to_place ? t->own.bytes : t->alone.bytes);
  ct_mem_free(part);
  ct_mem_free(whole);
  return rest == 0;
}

void rig_place(rig_t *r)
{
  side_t *s = r->side;
  if (!ct_op_is_placed(&r->desc)) return;
  must(s->be->mem->copy(s->queue, r->y.own.mem, r->x.own.mem, r->x.own.bytes));
  must(s->be->queue->sync(s->queue));
}

void rig_take_placed(rig_t *r)
{
  size_t images = (size_t)r->desc.x.dim[0], bytes = r->dx.own.bytes;
  size_t step = images ? bytes / images : 0, one = images ? r->dx.alone.bytes / images : 0;
  char *host = host_array((int64_t)bytes, 1);

  block_take(&r->dy.own, host, bytes);
  for (size_t n = 0; n < images; n++)
    memset(host + n * step + one, 0xff, step - one);
  block_put(&r->dx.own, host, bytes);
  ct_mem_free(host);
}
