/** \file ct_confusion.h  The confusion matrix of an evaluation.  Layer 4. */
#ifndef CT_CONFUSION_H
#define CT_CONFUSION_H
#include <stdint.h>

/** Maximum number of classes: a larger matrix would exceed 128 MB. */
#define CT_CONFUSION_MAX 4096

/** Counts of a class: samples, or pixels. */
typedef struct ct_class_count {
  int64_t right;     /**< of this class and predicted so */
  int64_t labelled;  /**< of this class */
  int64_t predicted; /**< predicted so */
  int64_t seen;      /**< all; 0 if a sample has one label */
} ct_class_count_t;

/** Counts over all ranks; samples with an ignored label are excluded. */
typedef struct ct_confusion {
  int64_t classes;
  int64_t *count;        /**< [label][predicted], owned; NULL: a sample has any number of labels */
  ct_class_count_t *set; /**< then [classes], owned; else NULL */
  int64_t whole, wholes; /**< then: samples whose labels are all predicted, and all samples */
} ct_confusion_t;

/** Local.  Creates a matrix of zeros.  CT_ERR_NOMEM. */
int ct_confusion_open(int64_t classes, ct_confusion_t *out);
/** Local.  The same for samples with any number of labels (multi-label).  CT_ERR_NOMEM. */
int ct_confusion_open_sets(int64_t classes, ct_confusion_t *out);
void ct_confusion_close(ct_confusion_t *c);
/** Sets all counts to 0. */
void ct_confusion_clear(ct_confusion_t *c);
/** Pure, Hot.  Finds the predictions of n consecutive pixels: the class with the largest logit, the
 * first one of equal logits, as in torch.argmax.  \a apart: distance between the logits of a pixel,
 * in elements. */
void ct_confusion_predict(const float *logits, int64_t classes, int64_t apart, int64_t n,
                          int32_t *said);
/** Local, Hot.  Counts a sample, or a pixel of a sample, with its prediction by
 * ct_confusion_predict(). */
void ct_confusion_add(ct_confusion_t *c, const float *logits, int64_t apart, int32_t label);
/** Returns the counts of a class. */
ct_class_count_t ct_confusion_class(const ct_confusion_t *c, int64_t label);
/** Returns the number of samples with this label. */
int64_t ct_confusion_samples(const ct_confusion_t *c, int64_t label);
/** Returns the intersection over union of a class (Jaccard index): the number of samples with this
 * label and this prediction, divided by the number of samples with this label or this prediction;
 * NaN without samples. */
double ct_confusion_iou(const ct_confusion_t *c, int64_t label);
/** Returns the number of samples with this label that were predicted correctly. */
int64_t ct_confusion_right(const ct_confusion_t *c, int64_t label);

/** Intersection over union, and Dice coefficient (twice the intersection divided by the sum of the
 * sizes), of one class; NaN if it is neither labelled nor predicted. */
double ct_class_iou(const ct_class_count_t *n);
double ct_class_dice(const ct_class_count_t *n);

#endif
