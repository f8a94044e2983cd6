/** \file conv/winograd.h  The passes of Winograd's algorithm, which are one way to compute a
 * convolution.  Module-internal.
 *
 * What a pass has prepared begins with the pass (an int), by which the way knows whose it is. */
#ifndef CT_CPU_WINOGRAD_H
#define CT_CPU_WINOGRAD_H
#include "cpu/conv/conv.h"

/* The gradient of the weights (winograd_gradient.c): entries of cpu__way_t for jobs that have been
 * looked at: kernel 3x3, stride 1, not dilated, no groups, x and y in cpu__blocked(), the weights
 * in blocks of both channels, output channels innermost. */

cpu__cost_t cpu__winograd_gradient_cost(const cpu__job_t *job);
/** Fills out->own and out->scratch. */
int cpu__winograd_gradient_prepare(const cpu__job_t *job, cpu__ready_t *out);
int cpu__winograd_gradient_run(ct_dev_t *dev, const cpu__ready_t *ready,
                               void *const at[CPU__ROLES]);

#endif
