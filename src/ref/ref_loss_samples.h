/** \file ref_loss_samples.h  Losses of a sample as a whole.  Module-internal. */
#ifndef CT_REF_LOSS_SAMPLES_H
#define CT_REF_LOSS_SAMPLES_H
#include "ref/ref.h"

/** Hot.  Computes a loss of CT_SAMPLE_LOSS_LIST of sample n.  Forward: adds it times \a weight to
 * *loss; backward: writes the gradient of the sample.  Labels are valid.  Returns the weight of the
 * sample in the divisor, apart from \a weight. */
double ct__ref_loss_sample(const ct_op_desc_t *d, const ct_op_args_t *a, int64_t n, double weight,
                           ct_loss_t *loss);

#endif
