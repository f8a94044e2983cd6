/** \file ct_label_count.h  Which class numbers occur, and what is odd about them.  Layer 2. */
#ifndef CT_LABEL_COUNT_H
#define CT_LABEL_COUNT_H
#include <stdint.h>

/** {0} is empty; cleared by ct_label_count_clear(). */
typedef struct ct_label_count {
  unsigned char *seen; /**< a bit for each class number */
  int64_t cap;
  int64_t lowest, highest, different; /**< of those seen; different 0: none */
} ct_label_count_t;

/** A label from 0 on.  CT_ERR_NOMEM. */
int ct_label_count_add(ct_label_count_t *c, int64_t label);
/** Local.  Warns of labels that seem to count from 1, and of far fewer different ones than the
 * numbers go up to, since a model gets an output for each number.  \a of begins the line. */
void ct_label_count_warn(const ct_label_count_t *c, const char *of);
void ct_label_count_clear(ct_label_count_t *c);

#endif
