/** \file ct_confusion.h  The confusion matrix of an evaluation.  Layer 4. */
#ifndef CT_CONFUSION_H
#define CT_CONFUSION_H
#include <stdint.h>

/** Most classes: a larger matrix would exceed 128 MB. */
#define CT_CONFUSION_MAX 4096

/** Counts over all ranks; samples with an ignored label are excluded. */
typedef struct ct_confusion {
  int64_t classes;
  int64_t *count; /**< [label][predicted], owned */
} ct_confusion_t;

/** Local.  A matrix of zeros.  CT_ERR_NOMEM. */
int ct_confusion_open(int64_t classes, ct_confusion_t *out);
void ct_confusion_close(ct_confusion_t *c);
/** Local, Hot.  Counts a sample, or a pixel of one.  Its logits are `apart` elements apart; the
 * prediction is the first of the largest, as in torch.argmax. */
void ct_confusion_add(ct_confusion_t *c, const float *logits, int64_t apart, int32_t label);
/** The number of samples with this label. */
int64_t ct_confusion_samples(const ct_confusion_t *c, int64_t label);
/** Intersection over union of a class (Jaccard index): samples with this label and this prediction,
 * over samples with either; NaN without samples. */
double ct_confusion_iou(const ct_confusion_t *c, int64_t label);
/** The number of samples with this label that were predicted correctly. */
int64_t ct_confusion_right(const ct_confusion_t *c, int64_t label);

#endif
