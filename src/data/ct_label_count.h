/** \file ct_label_count.h  Counts which class labels occur, and warns of suspicious ones.  Layer 2.
 * All functions are local. */
#ifndef CT_LABEL_COUNT_H
#define CT_LABEL_COUNT_H
#include <stdint.h>

/** The labels seen; all zero: none yet.  Freed by ct_label_count_clear(). */
typedef struct ct_label_count {
  unsigned char *seen; /**< a bit for each class number */
  int64_t cap;
  int64_t lowest;    /**< lowest label seen */
  int64_t highest;   /**< highest label seen */
  int64_t different; /**< number of different labels seen */
} ct_label_count_t;

/** Adds a label, which must not be negative.  CT_ERR_NOMEM. */
int ct_label_count_add(ct_label_count_t *c, int64_t label);
/** Warns if labels seem to start at 1, or if far fewer labels occur than the highest one suggests,
 * since a model has one output for each class number.  \a of begins the message. */
void ct_label_count_warn(const ct_label_count_t *c, const char *of);
void ct_label_count_clear(ct_label_count_t *c);

#endif
