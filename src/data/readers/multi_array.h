/** \file multi_array.h  A data set with more arrays than one of samples and one of labels: several
 * inputs, several targets, dense targets, sample weights.  Internal to data.
 *
 * Each array has its own reader of the same files, so all arrays are found, read, cached and
 * checked in the same way. */
#ifndef CT_DATA_PARTS_H
#define CT_DATA_PARTS_H
#include "data/readers/ct_reader.h"

/** Combines the readers of its parts.  Inputs that differ in channels alone are concatenated along
 * the channels, several targets are concatenated, unless spec->targets_apart makes them further
 * targets (info->more); other inputs are extra inputs (info->extra).  Opened by
 * ct__parts_open(). */
extern const ct_reader_ops_t ct__reader_parts;

/** Returns 1 if the options require several arrays: more than one input or target, or weights; also
 * if spec->known says that rank 0 found dense targets. */
int ct__parts_wanted(const ct_reader_spec_t *spec);
/** Local.  Opens the readers of all arrays.  by_pixel 1: spec->target is a dense target, as
 * reported by a reader of the first two arrays.  CT_ERR_FORMAT, CT_ERR_USAGE: the message names the
 * arrays that do not fit together. */
int ct__parts_open(const ct_reader_ops_t *ops, const ct_reader_spec_t *spec, int by_pixel,
                   ct_reader_t **out);
/** Hot.  Reads further target k (info->more.x[k]) of n samples, as stored. */
int ct__parts_more(ct_reader_t *r, int k, int n, const int64_t index[], void *y);
/** Hot.  Reads the weights of n samples; requires info->weighted.  CT_ERR_DATA: a weight is
 * negative or not finite. */
int ct__parts_weights(ct_reader_t *r, int n, const int64_t index[], float *weights);

#endif
