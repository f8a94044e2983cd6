/** \file skip.h  Batches of data that is damaged here and there.  Internal to data. */
#ifndef CT_DATA_SKIP_H
#define CT_DATA_SKIP_H
#include "data/feed/batch.h"

/** Hot.  For a batch that could not be made: makes it sample by sample, with b->ids known, and puts
 * another sample where one cannot be made, the next one by number that can: a function of the data
 * alone, not of ranks or threads.  Notes it in the batch.  If too many in a row cannot be made: the
 * first one's error; any other error as it is. */
int ct__skip_make(ct__make_t *m, ct_batch_t *b, int (*make)(ct__make_t *m, ct_batch_t *b));

#endif
