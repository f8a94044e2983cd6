/** \file convert.h  Converts stored samples to float32.  Internal to data. */
#ifndef CT_DATA_CONVERT_H
#define CT_DATA_CONVERT_H
#include "data/ct_dataset.h"

/** Returns 1 if samples of this type can be converted: the integers, float32, float64. */
int ct__convert_can(ct_dtype_t type);
/** Hot.  Converts n stored samples of a shape to n float32 samples [C, ...] and applies the affine
 * map. */
void ct__convert(const ct_dataset_t *d, const ct_shape_t *shape, int n, const void *stored,
                 float *x);
/** Hot.  Returns the index of the first of n converted samples that contains a NaN or an infinity;
 * -1: all are finite. */
int ct__convert_check(const ct_dataset_t *d, const ct_shape_t *shape, int n, const float *x);

#endif
