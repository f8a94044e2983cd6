/** \file ct_onnx.h  Exports a model as an ONNX file for other programs. Layer 3.
 *
 * IR version 8 and opset 17, which runtimes support since 2022. Each layer becomes one or a few
 * nodes with its name as prefix; weights keep their names if they keep their shapes. The input
 * `input` is a batch after all transforms, N x …; the output `output` is N x classes, without
 * softmax; N is dynamic. Format: https://onnx.ai/onnx/repo-docs/IR.html. */
#ifndef CT_ONNX_H
#define CT_ONNX_H
#include "model/ct_quant.h"

/** Source of the weights, read one at a time. */
typedef struct ct_onnx_source {
  /** Writes the count elements of a parameter or buffer of the graph to out, in plain layout. */
  int (*get)(void *ctx, int param, float *out);
  void *ctx;
} ct_onnx_source_t;

typedef struct ct_onnx_opts {
  const char *version;     /**< version of this program */
  const char *config;      /**< model configuration, stored as metadata; NULL: none */
  const ct_quant_t *quant; /**< int8 scales of the graph, which must be folded: int8 layers get
                              QuantizeLinear and DequantizeLinear pairs; NULL: float32 */
  int cache; /**< 1: the graph is one of a token, with keys and values of those before it as inputs
                   past.LAYER, and with its own as outputs present.LAYER */
  int external; /**< 1: weights go to a separate file PATH.data. This is the default if the file
                   would exceed 2 GB */
} ct_onnx_opts_t;

/** Local. Returns 1 if \a path has the suffix of ONNX files. */
int ct_onnx_is_name(const char *path);
/** Local. Writes PATH (and PATH.data), completely or not at all. Peak memory is about the largest
 * parameter. CT_ERR_IO, and errors of the source. */
int ct_onnx_write(const ct_graph_t *g, const ct_onnx_source_t *from, const ct_onnx_opts_t *o,
                  const char *path);
/** Local. Returns 1 if layers with this op can be exported. */
int ct_onnx_has(ct_op_kind_t kind);

#endif
