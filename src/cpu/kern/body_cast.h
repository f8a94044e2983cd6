/** \file kern/body_cast.h  Conversion loops between activations and float32.  Module-internal. */
#include "cpu/kern/vec.h"

static void to_floats(int64_t count, const void *x, float *y)
{
  int64_t i = 0, end = whole(count);

  for (; i < end; i += CPU__VW)
    store(y + i, get(x, i, CPU__VW), CPU__VW);
  if (i < count) store(y + i, get(x, i, (int)(count - i)), (int)(count - i));
}

INLINE void from_floats_step(const float *x, void *y, int64_t i, int n, int relu, int stream)
{
  vec_t v = load(x + i, n);
  put(y, i, relu ? relu_of(v) : v, n, stream);
}

static void from_floats(int64_t count, const float *x, void *y, int relu, int stream)
{
  int64_t i = 0, end = whole(count);

  for (; i < end; i += CPU__VW)
    from_floats_step(x, y, i, CPU__VW, relu, stream);
  if (i < count) from_floats_step(x, y, i, (int)(count - i), relu, stream);
  put_end(stream);
}
