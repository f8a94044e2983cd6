/** \file layer_window.h  Sliding windows of convolutions and pools. */
#ifndef CT_LAYER_WINDOW_H
#define CT_LAYER_WINDOW_H
#include "model/ct_layer.h"

/** Geometry of a sliding window, {rows, columns} or {depth, rows, columns}. */
typedef struct ct__layer_window {
  int space; /**< 2 or 3 */
  int64_t kernel[3], stride[3], padding[3], dilation[3];
} ct__layer_window_t;

/** Shape of \a in seen through a window, with \a channels channels.  CT_ERR_SHAPE if it does not
 * fit. */
int ct__layer_window_infer(const ct__layer_window_t *w, const ct_shape_t *in, int64_t channels,
                           ct_shape_t *out);
/** Options to the ints of a descriptor; the option tables bound the values. */
void ct__layer_window_ints(int space, const int64_t from[3], int to[3]);

#endif
