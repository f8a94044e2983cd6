/** \file table_rows.h  Rows of a table by their indices. Module-internal; local, Hot. */
#ifndef GPU_TABLE_ROWS_H
#define GPU_TABLE_ROWS_H
#include <cuda_runtime_api.h>

#include "base/ct_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An index that is no row; in staging memory. */
typedef struct gpu__bad_index {
  int64_t rows;
  float index;
  int32_t found; /**< 1: the other members are set */
} gpu__bad_index_t;

/** n indices into a table of `rows` rows of `width` elements. */
typedef struct gpu__rows {
  int64_t n, rows, width;
  int64_t padding; /**< row without gradient; -1: none */
  int adds;        /**< 1: gpu__rows_sum() adds to the table */
  const float *index;
} gpu__rows_t;

/** Copies the row of each index from a table of the type \a from to y of the type \a to, which are
 * equal, or the first is CT_F32. An index that is no row reads row 0. */
cudaError_t gpu__rows_read(const gpu__rows_t *r, ct_dtype_t from, const void *table, ct_dtype_t to,
                           void *y, cudaStream_t stream);
/** Writes to *bad one of the indices that are no rows, if there are any. */
cudaError_t gpu__rows_check(const gpu__rows_t *r, gpu__bad_index_t *bad, cudaStream_t stream);
/** Computes table[row] = (or +=) sum of dy over the indices of the row, in their order. \a type: of
 * dy. */
cudaError_t gpu__rows_sum(const gpu__rows_t *r, ct_dtype_t type, const void *dy, float *table,
                          cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
