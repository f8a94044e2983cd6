/** \file layer_dims.h Dims in the options of layers.  They count as in PyTorch: the batch dim too,
 * and negative ones from the last. */
#ifndef CT_LAYER_DIMS_H
#define CT_LAYER_DIMS_H
#include "model/ct_layer.h"

/** Sets *out to the dim of \a s that an option means.  CT_ERR_SHAPE: there is none. */
int ct__layer_dim(const ct_shape_t *s, const char *key, double dim, int *out);
/** Sets bit i of *out for each dim in the list; an empty list means all dims.  CT_ERR_SHAPE: a dim
 * does not exist, or is listed twice. */
int ct__layer_dims(const ct_shape_t *s, const char *key, const ct_opt_doubles_t *list,
                   unsigned *out);
/** Returns CT_OK if no dim of the bit set \a dims grows with the batch; else CT_ERR_SHAPE: \a what
 * ("the sum") would mix samples. */
int ct__layer_no_batch(const ct_shape_t *s, unsigned dims, const char *what);

#endif
