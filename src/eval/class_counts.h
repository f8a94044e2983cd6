/** \file class_counts.h  Counts of classes over samples or pixels, and means over the samples of
 * what each sample's counts give. */
#ifndef CT_CLASS_COUNTS_H
#define CT_CLASS_COUNTS_H
#include "comm/ct_agree.h"
#include "eval/compared.h"
#include "eval/ct_confusion.h"
#include "eval/exact_sum.h"

/** Mean over samples. */
typedef struct ct__sample_mean {
  ct__exact_t sum;
  int64_t n;
} ct__sample_mean_t;

/** Counts of this rank.  May be all zero: nothing is counted. */
typedef struct ct__class_counts {
  ct_confusion_t *all;   /**< borrowed; over all samples; NULL: not requested */
  int by_sample;         /**< 1: also each sample by itself */
  ct_class_count_t *one; /**< [classes] of a sample */
  int32_t *said;         /**< [pixels] of a sample: the predicted class; with sets of labels: bits:
                              one is known, one is wrong */
  ct__sample_mean_t iou, dice;
} ct__class_counts_t;

/** Local.  Allocates memory for samples with so many pixels. */
int ct__class_counts_open(ct__class_counts_t *s, int64_t places);
void ct__class_counts_close(ct__class_counts_t *s);
/** Local, Hot.  Adds a batch.  CT_ERR_DATA: with sets of labels, a target is neither 0 nor 1. */
int ct__class_counts_batch(ct__class_counts_t *s, const ct__compared_t *b);
/** Collective.  Sums the counts over the ranks, so that all ranks have all of them. */
void ct__class_counts_sum(ct__class_counts_t *s, const ct_topo_t *topo);
/** Returns the mean; NaN without samples. */
double ct__sample_mean(const ct__sample_mean_t *m);

#endif
