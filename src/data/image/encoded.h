/** \file encoded.h  Reads encoded samples (image files) and decodes them.  Internal to data.
 *
 * Only the part of an image that the decode-time transforms need is decoded, and at reduced size
 * where that is allowed. */
#ifndef CT_DATA_ENCODED_H
#define CT_DATA_ENCODED_H
#include "data/ct_dataset.h"

/** The buffers of one thread; {0} is empty.  They grow with the largest image so far. */
typedef struct ct__encoded {
  ct_reader_file_t file;
  uint8_t *pixels;
  float *workspace; /**< workspace of the resize */
  int64_t pixels_cap, workspace_cap;
} ct__encoded_t;

void ct__encoded_clear(ct__encoded_t *e);
/** Reads n samples of a data set with decode-time transforms and applies these.  x: uint8, channels
 * last, of the shape d->info.x, rounded; \a dense_targets: as y of ct_reader_ops_t.read().  The
 * part of an image that is decoded depends on \a seed, \a epoch and the sample's number.  Errors
 * name the sample. */
int ct__encoded_read(ct__encoded_t *e, const ct_dataset_t *d, uint64_t seed, int64_t epoch, int n,
                     const int64_t ids[], uint8_t *x, void *dense_targets);

#endif
