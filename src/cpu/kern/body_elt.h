/** \file kern/body_elt.h  Inner loops of ReLU and addition.  Module-internal. */
#include "cpu/kern/vec.h"

INLINE void add_step(const void *x, const void *x2, void *y, int64_t i, int n, int relu, int stream)
{
  vec_t v = get(x, i, n);
  if (x2) v += get(x2, i, n);
  if (relu) v = relu_of(v);
  put(y, i, v, n, stream);
}

static void add(int64_t count, const void *x, const void *x2, void *y, int relu, int stream)
{
  int64_t i = 0, end = whole(count);

  for (; i < end; i += CPU__VW)
    add_step(x, x2, y, i, CPU__VW, relu, stream);
  if (i < count) add_step(x, x2, y, i, (int)(count - i), relu, stream);
  put_end(stream);
}

INLINE void add_bwd_step(const void *y, const void *dy, const void *dy2, void *dx, int64_t i, int n,
                         int stream)
{
  vec_t g = get(dy, i, n);
  if (dy2) g += get(dy2, i, n);
  if (y) g = keep(~(get(y, i, n) <= 0), g);
  put(dx, i, g, n, stream);
}

static void add_bwd(int64_t count, const void *y, const void *dy, const void *dy2, void *dx,
                    int stream)
{
  int64_t i = 0, end = whole(count);

  for (; i < end; i += CPU__VW)
    add_bwd_step(y, dy, dy2, dx, i, CPU__VW, stream);
  if (i < count) add_bwd_step(y, dy, dy2, dx, i, (int)(count - i), stream);
  put_end(stream);
}
