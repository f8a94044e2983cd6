/** \file convert_int8.h  Reads a quantized model for conversion to ONNX. Layer 5, local. */
#ifndef CT_CONVERT_INT8_H
#define CT_CONVERT_INT8_H
#include "setup/ct_quantized_open.h"

/** A quantized model with its scales and zero points; may be all zero: no model. */
typedef struct ct_convert_int8 {
  ct_quantized_t model;
  ct_quant_t quant; /**< scales and zero points of model.observed.fold.graph */
} ct_convert_int8_t;

/** Sets *is to 1 if the file is a checkpoint with a quantized model. */
int ct_convert_int8_is(const char *path, int *is);
/** Opens a quantized model.  \a g: graph of the original model, borrowed.  CT_ERR_FORMAT,
 * CT_ERR_SHAPE: the file belongs to another model. */
int ct_convert_int8_open(const char *path, const ct_graph_t *g, ct_convert_int8_t *out);
/** Reads parameter \a param of model.observed.fold.graph; a callback as ct_onnx_source_t.get. */
int ct_convert_int8_get(void *int8, int param, float *out);
void ct_convert_int8_close(ct_convert_int8_t *e);

#endif
