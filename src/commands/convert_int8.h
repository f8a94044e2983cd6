/** \file convert_int8.h  A quantized file, for `convert` to ONNX.  Layer 5, local. */
#ifndef CT_CONVERT_INT8_H
#define CT_CONVERT_INT8_H
#include "setup/ct_quantized_open.h"

/** A quantized model and its numbers.  {0} is empty. */
typedef struct ct_convert_int8 {
  ct_quantized_t model;
  ct_quant_t quant; /**< of model.observed.fold.graph */
} ct_convert_int8_t;

/** *is: 1 if a file is a checkpoint container with a quantized model. */
int ct_convert_int8_is(const char *path, int *is);
/** \a g: the model that it was made of, borrowed.  CT_ERR_FORMAT, CT_ERR_SHAPE: it is another. */
int ct_convert_int8_open(const char *path, const ct_graph_t *g, ct_convert_int8_t *out);
/** A parameter of model.observed.fold.graph: ct_onnx_source_t.get of the whole. */
int ct_convert_int8_get(void *int8, int param, float *out);
void ct_convert_int8_close(ct_convert_int8_t *e);

#endif
