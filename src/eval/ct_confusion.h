/** \file ct_confusion.h  The confusion matrix of an evaluation.  Layer 4. */
#ifndef CT_CONFUSION_H
#define CT_CONFUSION_H
#include <stdint.h>

/** Maximum number of classes: a larger matrix would exceed 128 MB. */
#define CT_CONFUSION_MAX 4096

/** Counts over all ranks; samples with an ignored label are excluded. */
typedef struct ct_confusion {
  int64_t classes;
  int64_t *count; /**< [label][predicted], owned */
} ct_confusion_t;

/** Local.  Creates a matrix of zeros.  CT_ERR_NOMEM. */
int ct_confusion_open(int64_t classes, ct_confusion_t *out);
void ct_confusion_close(ct_confusion_t *c);
/** Local, Hot.  Counts a sample, or a pixel of a sample.  \a apart: distance between its logits, in
 * elements.  The prediction is the class with the largest logit, the first one of equal logits, as
 * in torch.argmax. */
void ct_confusion_add(ct_confusion_t *c, const float *logits, int64_t apart, int32_t label);
/** Returns the number of samples with this label. */
int64_t ct_confusion_samples(const ct_confusion_t *c, int64_t label);
/** Returns the intersection over union of a class (Jaccard index): the number of samples with this
 * label and this prediction, divided by the number of samples with this label or this prediction;
 * NaN without samples. */
double ct_confusion_iou(const ct_confusion_t *c, int64_t label);
/** Returns the number of samples with this label that were predicted correctly. */
int64_t ct_confusion_right(const ct_confusion_t *c, int64_t label);

#endif
