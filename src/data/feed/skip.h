/** \file skip.h  Skips damaged samples in batches.  Internal to data. */
#ifndef CT_DATA_SKIP_H
#define CT_DATA_SKIP_H
#include "data/feed/batch.h"

/** Hot.  Makes a batch again, sample by sample, after it could not be made as a whole; b->ids is
 * set.  A sample that cannot be read or decoded is replaced by the next valid one in the order of
 * their numbers, which depends on the data alone, not on ranks or threads, and is recorded in the
 * batch.  If too many consecutive samples fail, the error of the first one is returned; other
 * errors are returned unchanged. */
int ct__skip_make(ct__make_t *m, ct_batch_t *b, int (*make)(ct__make_t *m, ct_batch_t *b));

#endif
