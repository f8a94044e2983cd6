/** \file encoded.h  Samples that are decoded while they are read.  Internal to data.
 *
 * Only the part of an image is decoded that the head of the transforms looks at, and at a fraction
 * of its size where that is allowed. */
#ifndef CT_DATA_ENCODED_H
#define CT_DATA_ENCODED_H
#include "data/ct_dataset.h"

/** What one thread needs for it; {0} is empty.  It grows with the largest image so far. */
typedef struct ct__encoded {
  ct_reader_file_t file;
  uint8_t *pixels;
  float *room; /**< of the resize */
  int64_t pixels_cap, room_cap;
} ct__encoded_t;

void ct__encoded_clear(ct__encoded_t *e);
/** n samples of a data set with a head, as ct_reader_ops_t.read() would give them behind it: bytes,
 * channels last, of the shape d->info.x, rounded; \a answers as its y.  Which part of an image is
 * looked at depends on \a seed, \a epoch and the sample's number.  Errors name the sample. */
int ct__encoded_read(ct__encoded_t *e, const ct_dataset_t *d, uint64_t seed, int64_t epoch, int n,
                     const int64_t ids[], uint8_t *x, void *answers);

#endif
