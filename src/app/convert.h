/** \file convert.h  What `convert` makes besides weight files.  Layer 5, local. */
#ifndef CT_CONVERT_H
#define CT_CONVERT_H
#include "app/app.h"

/** Writes the model of a weight file as ONNX.  Its configuration, which says what the weights are
 * weights of, is that of the option `config`, or the one that the file carries, each with --set.
 * CT_ERR_USAGE: there is none, or it does not say what a sample is; CT_ERR_FORMAT lists all weights
 * that are missing or of another shape. */
int ct_convert_onnx(const char *in, const char *out, const ct_args_t *a);

#endif
