/** \file kern/loss_pixels.h  Cross-entropy with one label per pixel.  Module-internal. */
#ifndef CT_KERN_LOSS_PIXELS_H
#define CT_KERN_LOSS_PIXELS_H
#include "cpu/kern/loops.h"

typedef struct cpu__loss_pixels {
  const cpu__loops_t *loops;
  ct_loss_spec_t spec;
  int64_t samples, classes, pixels;
} cpu__loss_pixels_t;

/** Returns the focal factor (1 - p)^gamma of the loss of a label with log-probability u = log p;
 * slope 1: of its derivative with respect to u. */
double cpu__loss_focal(double gamma, double u, int slope);
/** Returns the workspace of the forward pass in bytes. */
size_t cpu__loss_pixels_scratch(const cpu__loss_pixels_t *k);
/** Hot.  Computes the loss; overwrites *a->loss.  CT_ERR_DATA: a label is out of range. */
int cpu__loss_pixels_forward(const cpu__loss_pixels_t *k, const ct_op_args_t *a);
/** Hot.  Computes the gradient.  Does not check the labels: the forward pass has checked them. */
void cpu__loss_pixels_backward(const cpu__loss_pixels_t *k, const ct_op_args_t *a);

#endif
