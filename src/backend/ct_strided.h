/** \file ct_strided.h  Maps of strided copies, for the backends that compute CT_OP_STRIDED.
 * Layer 1.
 *
 * A *map* says which element of a source each element of a target reads, in dims of memory order.
 * Both passes of the op come from the map of its forward pass: backward is a copy by the inverse
 * map if each element of x is read once at most, else a sum. */
#ifndef CT_STRIDED_H
#define CT_STRIDED_H
#include "backend/ct_op.h"

/** Dims of a map: those of a plain tensor, or of an image in blocks of channels, and one more. */
#define CT_MAP_DIMS 9

/** Element (i0, i1, …) of the target reads the element of the source whose index in dim s is
 * start[s] + the sum of step[d] * i_d over the target's dims d with from[d] == s. */
typedef struct ct_map {
  int source_dims, target_dims;
  int64_t source[CT_MAP_DIMS], target[CT_MAP_DIMS]; /**< sizes */
  int from[CT_MAP_DIMS];                            /**< per dim of the target; -1: none */
  int64_t step[CT_MAP_DIMS];                        /**< per dim of the target */
  int64_t start[CT_MAP_DIMS];                       /**< per dim of the source */
  int edge[CT_MAP_DIMS];                            /**< ct_edge_t per dim of the source */
} ct_map_t;

/** A dim of the source in which some indices are outside. */
typedef struct ct_walk_edge {
  int edge;
  int64_t size, start;
  int64_t stride; /**< elements of the source from one index to the next */
} ct_walk_edge_t;

/** A map for loops over the target in memory order: as few dims as possible, and the source's
 * strides.  Element (i0, i1, …) reads source element base + the sum of step[d] * i_d over the dims
 * d with edge[d] < 0 + per edge e the stride times the place in it of start + the sum of step[d] *
 * i_d over the dims d with edge[d] == e. */
typedef struct ct_walk {
  int dims, edges;
  int64_t size[CT_MAP_DIMS], step[CT_MAP_DIMS];
  int on[CT_MAP_DIMS]; /**< the edge that the dim moves along; -1: none */
  ct_walk_edge_t edge[CT_MAP_DIMS];
  int64_t base, count;
} ct_walk_t;

/** Returns the place in 0 … n - 1 of index i, -1 if it is outside and has a constant. */
CT_INLINE int64_t ct_edge_place(int edge, int64_t i, int64_t n)
{
  int64_t period = n;
  if (i >= 0 && i < n) return i;
  if (edge == CT_EDGE_VALUE) return -1;
  if (edge == CT_EDGE_REPLICATE) return i < 0 ? 0 : n - 1;
  if (edge == CT_EDGE_REFLECT) period = n > 1 ? 2 * (n - 1) : 1;
  i %= period;
  if (i < 0) i += period;
  return i < n ? i : period - i;
}

/** Writes the map of a STRIDED in the order of memory.  Returns 0 if the layouts of x and y do not
 * allow it: see ct_strided_layout(). */
int ct_strided_map(const ct_op_desc_t *d, ct_map_t *out);
/** Returns the layout of y for x in the layout of d->x: the same if the channels stay in place, or
 * plain if they move as whole blocks; -1 if the op needs x in the plain layout.  Of a plain x: the
 * layout d->y if it has blocks and the channels are a dim of x in whole blocks, else plain. */
int ct_strided_layout(const ct_op_desc_t *d);
/** Makes the loops of a map. */
void ct_map_walk(const ct_map_t *m, ct_walk_t *out);
/** Writes the map whose target is the source of \a m and which reads, per element, the one element
 * of the target of m that reads it, or the constant 0.  Returns 0 if there is none, because
 * elements are read more than once or the inverse has gaps. */
int ct_map_inverse(const ct_map_t *m, ct_map_t *out);
/** Returns 1 if the op gives the elements of a plain x in their order: a reshape. */
int ct_strided_keeps(const ct_op_desc_t *d);

/** The places of the target that read each element of the source, as sums over lists: element (j0,
 * j1, …) is read at the sum over the dims s of at[first[s] + k_s], for every k_s of
 * begin[place[s] + j_s] … begin[place[s] + j_s + 1] - 1, plus the sum of step[b] * i_b over the
 * `loops` dims of the target that read no dim. */
typedef struct ct_readers {
  int dims, loops;
  int64_t size[CT_MAP_DIMS];                              /**< of the source */
  int64_t place[CT_MAP_DIMS];                             /**< of a dim's begin[] */
  int64_t loop_size[CT_MAP_DIMS], loop_step[CT_MAP_DIMS]; /**< 1 step: elements of the target */
  int64_t begins, entries;                                /**< sizes of the lists */
  int64_t *begin, *at;
} ct_readers_t;
/** Local.  Makes the lists, to be freed with ct_readers_clear().  The order of the places is that
 * of the target's memory within a dim. */
int ct_readers_make(const ct_map_t *m, ct_readers_t *out);
/** Frees the lists; the struct may be all zero. */
void ct_readers_clear(ct_readers_t *r);

#endif
