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
/** Local, Hot.  A sample, or a place of one, with its logits, `apart` elements from class to
 * class; the first of the largest is what is predicted, as torch.argmax. */
void ct_confusion_add(ct_confusion_t *c, const float *logits, int64_t apart, int32_t label);
/** Samples with this label, and how many of them were predicted right. */
int64_t ct_confusion_samples(const ct_confusion_t *c, int64_t label);
/** Intersection over union of a class (Jaccard's index): what is it and was predicted so, over
 * what is either; NaN if nothing is. */
double ct_confusion_iou(const ct_confusion_t *c, int64_t label);
int64_t ct_confusion_right(const ct_confusion_t *c, int64_t label);

#endif
