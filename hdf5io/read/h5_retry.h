/** \file h5_retry.h  Retries reads after transient file system errors. Internal. */
#ifndef CT_H5_RETRY_H
#define CT_H5_RETRY_H
#include "base/ct_err.h"

/** One read that may be retried; all zero initially. */
typedef struct ct__h5_retry {
  int tries;      /**< failed tries */
  double began_s; /**< time of the first failure */
  double wait_s;  /**< wait before the next try */
  ct_err_info_t first;
} ct__h5_retry_t;

/** Called without the lock after a read failed with \a code. Returns 1 after a wait if the read
 * shall be retried; logs the first wait; all waits together take at most \a most_s seconds. Returns
 * 0 if the error is final; the error record is then that of the first failure, plus how long the
 * read was retried. */
int ct__h5_retry_again(ct__h5_retry_t *t, int code, double most_s);
/** Call after a successful read: logs it if the read had failed before. */
void ct__h5_retry_done(const ct__h5_retry_t *t, const char *path);

#endif
