/** \file encoded.h  Reads encoded samples (image files) and decodes them.  Internal to data.
 *
 * Only the part of an image that the decode-time transforms need is decoded, and at reduced size
 * where that is allowed. */
#ifndef CT_DATA_ENCODED_H
#define CT_DATA_ENCODED_H
#include "data/ct_dataset.h"

/** The buffers of one thread; all zero: empty.  They grow with the largest image so far. */
typedef struct ct__encoded {
  ct_reader_file_t file;
  uint8_t *pixels;
  float *workspace; /**< workspace of the resize */
  int64_t pixels_cap, workspace_cap;
} ct__encoded_t;

void ct__encoded_clear(ct__encoded_t *e);
/** Reads and decodes n samples and applies the decode-time transforms.  x: n images of the shape
 * d->info.x, uint8, channels last; resized values are rounded.  \a dense_targets: the labels or
 * targets, in the format of the y of ct_reader_ops_t.read(); may be NULL.  The part of an image
 * that is decoded depends on \a seed, \a epoch and the sample's number.  Errors name the sample. */
int ct__encoded_read(ct__encoded_t *e, const ct_dataset_t *d, uint64_t seed, int64_t epoch, int n,
                     const int64_t ids[], uint8_t *x, void *dense_targets);

#endif
