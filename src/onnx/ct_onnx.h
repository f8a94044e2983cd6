/** \file ct_onnx.h  A model as an ONNX file, for other programs to run.  Layer 3.
 *
 * IR version 8 and opset 17, which runtimes read since 2022.  Each layer becomes one node or a few,
 * under its name; weights keep their names where they keep their shapes.  The input is `input`, a
 * sample behind its transforms, N x …, the output `output`, N x classes, without softmax; N is
 * free.  What a file of that format may hold: https://onnx.ai/onnx/repo-docs/IR.html. */
#ifndef CT_ONNX_H
#define CT_ONNX_H
#include "model/ct_quant.h"

/** Where weights come from, one after the other. */
typedef struct ct_onnx_source {
  /** The count elements of a parameter or buffer of the graph, plain layout. */
  int (*get)(void *ctx, int param, float *out);
  void *ctx;
} ct_onnx_source_t;

typedef struct ct_onnx_opts {
  const char *version;     /**< of this program */
  const char *config;      /**< of the model, noted as metadata; NULL: none */
  const ct_quant_t *quant; /**< of the graph, which is a folded one: what computes in eight bits
                              gets pairs of QuantizeLinear and DequantizeLinear; NULL: nothing */
  int external; /**< 1: weights go to a file of their own beside it, PATH.data, as they do by
                          themselves where the file would exceed 2 GB */
} ct_onnx_opts_t;

/** Local.  1 if \a path has the suffix of such files. */
int ct_onnx_is_name(const char *path);
/** Local.  Writes PATH (and PATH.data); both are there whole or not at all.  Memory stays near the
 * largest parameter.  CT_ERR_IO, and what the source returns. */
int ct_onnx_write(const ct_graph_t *g, const ct_onnx_source_t *from, const ct_onnx_opts_t *o,
                  const char *path);
/** Local.  1 if layers with this op can be written. */
int ct_onnx_has(ct_op_kind_t kind);

#endif
