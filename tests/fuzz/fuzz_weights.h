/** \file fuzz_weights.h  What the fuzz targets of weight files share. */
#ifndef FUZZ_WEIGHTS_H
#define FUZZ_WEIGHTS_H
#include "tests/fuzz/fuzz.h"
#include "weights/ct_weights.h"

static inline size_t size_of(const ct_tensor_t *t)
{
  return (size_t)t->count * (size_t)(ct_elem_bits(t->type) / 8);
}

/** Two files have the same tensor. */
static inline void must_match(const ct_tensor_t *s, const void *of_s, const ct_tensor_t *t,
                              const void *of_t)
{
  must(strcmp(s->name, t->name) == 0 && s->type == t->type && s->ndim == t->ndim &&
           (s->ndim == 0 || memcmp(s->dim, t->dim, (size_t)s->ndim * sizeof *s->dim) == 0),
       "tensors have the same names, types and shapes");
  must(memcmp(of_s, of_t, size_of(s)) == 0, "they have the same numbers");
}

#endif
