/** \file layer_axes.h  Dims and shapes as options of layers, counted as in PyTorch: the batch dim
 * included, negative dims from the end. */
#ifndef CT_LAYER_AXES_H
#define CT_LAYER_AXES_H
#include "model/layer_usual.h"

/** An item of a shape in an option: a number, `N` or `12N` for one that grows with the batch, or
 * -1. */
typedef struct ct__size {
  int64_t n;
  int batch;
} ct__size_t;

/** Returns in *out the dim 0 … ndim - 1 that \a dim means.  CT_ERR_SHAPE: there is none. */
int ct__layer_axis(double dim, int ndim, int *out);
/** Reads an option of whole numbers into out[CT_MAX_DIMS]; \a key names it in messages. */
int ct__layer_wholes(const char *key, const ct_opt_doubles_t *from, int64_t *out);
/** Reads an option of dims, each at most once. */
int ct__layer_axes(const char *key, const ct_opt_doubles_t *from, int ndim, int *out);
/** Reads a shape.  \a least: the smallest number, -1 or 1. */
int ct__layer_sizes(const ct_opt_texts_t *from, int least, ct__size_t *out);
/** Returns CT_OK unless \a dim grows with the batch: then \a what would mix its samples. */
int ct__layer_keeps_batch(const ct_shape_t *in, int dim, const char *what);
/** Makes a map that reads every dim of x by the same dim of y. */
void ct__layer_same_map(ct_op_desc_t *d);
/** Returns \a dim, which was checked before, as 0 … ndim - 1. */
static inline int ct__layer_dim(double dim, int ndim)
{
  return (int)(dim < 0 ? dim + ndim : dim);
}

#endif
