/** \file ct_op_modes.h  Values of some attributes of ops.  Layer 1. */
#ifndef CT_OP_MODES_H
#define CT_OP_MODES_H

/** The distributions of CT_OP_RANDOM. */
typedef enum {
  CT_RANDOM_NORMAL,  /**< mean 0, variance 1 */
  CT_RANDOM_UNIFORM, /**< in [0, 1) */
  CT_RANDOM_BERNOULLI,
  CT_RANDOM_COUNT
} ct_random_t;

/** What STRIDED reads at an index outside of a dim of x. */
typedef enum {
  CT_EDGE_VALUE,     /**< a constant */
  CT_EDGE_REFLECT,   /**< the element as far inside; the border is not repeated */
  CT_EDGE_REPLICATE, /**< the nearest element */
  CT_EDGE_WRAP,      /**< the index modulo the size */
  CT_EDGE_COUNT
} ct_edge_t;

#endif
