/** \file parts.h  A data set of more arrays than one of samples and one of labels: several inputs,
 * several targets, an answer for each place of a sample, weights of samples.  Internal to data.
 *
 * Each array beyond the first has a reader of its own of the same files, so that all of them are
 * found, read, cached and checked alike. */
#ifndef CT_DATA_PARTS_H
#define CT_DATA_PARTS_H
#include "data/readers/ct_reader.h"

/** Reads what its parts read: inputs that are alike but for their channels one behind the other
 * along these, several targets one behind the other; other inputs are info->more.  It is opened by
 * ct__parts_open(). */
extern const ct_reader_ops_t ct__reader_parts;

/** 1 if what is asked for needs parts: more than one input or target, weights; or if spec->known
 * says that rank 0 found so. */
int ct__parts_wanted(const ct_reader_spec_t *spec);
/** Local.  by_place: spec->target is of all places of a sample, as a reader of the two arrays alone
 * has said.  CT_ERR_FORMAT, CT_ERR_USAGE: which arrays do not fit together. */
int ct__parts_open(const ct_reader_ops_t *ops, const ct_reader_spec_t *spec, int by_place,
                   ct_reader_t **out);
/** Hot.  Of n samples the array info->more.x[k], as stored. */
int ct__parts_more(ct_reader_t *r, int k, int n, const int64_t index[], void *x);
/** Hot.  The weights of n samples; only where info->weighted.  CT_ERR_DATA: one is negative or not
 * finite. */
int ct__parts_weights(ct_reader_t *r, int n, const int64_t index[], float *weights);

#endif
