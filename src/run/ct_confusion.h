/** \file ct_confusion.h  Which classes are taken for which.  Layer 4. */
#ifndef CT_CONFUSION_H
#define CT_CONFUSION_H
#include <stdint.h>

/** More classes are not counted: the matrix would be larger than 128 MB. */
#define CT_CONFUSION_MAX 4096

/** Of an evaluation, over all ranks; samples with an ignored label are not in it. */
typedef struct ct_confusion {
  int64_t classes;
  int64_t *count; /**< [label][predicted], owned */
} ct_confusion_t;

/** Local.  Zeros. */
int ct_confusion_open(int64_t classes, ct_confusion_t *out);
void ct_confusion_close(ct_confusion_t *c);
/** Local, Hot.  n samples with their logits [n, classes]; the first of the largest is what is
 * predicted, as torch.argmax. */
void ct_confusion_add(ct_confusion_t *c, int64_t n, const float *logits, const int32_t *labels);
/** Samples with this label, and how many of them were predicted right. */
int64_t ct_confusion_samples(const ct_confusion_t *c, int64_t label);
int64_t ct_confusion_right(const ct_confusion_t *c, int64_t label);

#endif
