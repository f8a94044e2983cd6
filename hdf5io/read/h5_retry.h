/** \file h5_retry.h  Reading again what a file system could not read just now.  Internal. */
#ifndef CT_H5_RETRY_H
#define CT_H5_RETRY_H
#include "base/ct_err.h"

/** One reading that may fail; {0} before it. */
typedef struct ct__h5_retry {
  int tries;      /**< that failed */
  double began_s; /**< when the first did */
  double wait_s;  /**< before the next try */
  ct_err_info_t first;
} ct__h5_retry_t;

/** Called without the lock, when a reading failed with \a code.  1: it is to be tried
 * again, after a wait, for \a most_s in all; the first wait is told.  0: the error is final, and
 * its record is that of the first failure, with how long it was tried. */
int ct__h5_retry_again(ct__h5_retry_t *t, int code, double most_s);
/** When it has succeeded: tells so if it had failed before. */
void ct__h5_retry_done(const ct__h5_retry_t *t, const char *path);

#endif
