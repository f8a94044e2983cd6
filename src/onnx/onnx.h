/** \file onnx.h  A model being translated to ONNX: nodes and the initializers that they read. */
#ifndef CT_ONNX_PRIVATE_H
#define CT_ONNX_PRIVATE_H
#include "base/ct_proto.h"
#include "onnx/ct_onnx.h"

enum { CT__ONNX_NAME = 2 * CT_NAME_MAX, CT__ONNX_NAMES = 16 };

/** TensorProto.DataType. */
enum {
  CT__ONNX_FLOAT = 1,
  CT__ONNX_UINT8 = 2,
  CT__ONNX_INT8 = 3,
  CT__ONNX_INT32 = 6,
  CT__ONNX_INT64 = 7
};

/** How an initializer is made from parameters. */
typedef enum {
  CT__ONNX_CONSTANT,   /**< `data` holds its bytes */
  CT__ONNX_PARAM,      /**< the parameter's values, possibly with other dims */
  CT__ONNX_TRANSPOSED, /**< a transposed matrix */
  CT__ONNX_GATES,      /**< LSTM weights, gates reordered for ONNX */
  CT__ONNX_BIASES,     /**< two LSTM biases concatenated, gates reordered */
  CT__ONNX_GRU_GATES,  /**< the same of a GRU */
  CT__ONNX_GRU_BIASES
} ct__onnx_how_t;

/** Which data of a parameter the initializer holds, if its layer computes in int8 (ct_int8.h). */
typedef enum {
  CT__ONNX_WHOLE,      /**< float32 values */
  CT__ONNX_STEPS,      /**< int8 weights */
  CT__ONNX_SCALES,     /**< the weights' scale per output channel */
  CT__ONNX_BIAS_STEPS, /**< int32 bias */
  CT__ONNX_BIAS_SCALES /**< the bias's scales: those of the preceding weights times x_scale */
} ct__onnx_part_t;

/** An initializer: a tensor that nodes read by name. */
typedef struct ct__onnx_tensor {
  char name[CT__ONNX_NAME];
  int type;
  int ndim; /**< 0: a scalar */
  int64_t dim[CT_MAX_DIMS], bytes;
  ct__onnx_how_t how;
  ct__onnx_part_t part;
  int param;     /**< index in the graph, of the first parameter that it is made from */
  float x_scale; /**< scale of the layer's input */
  void *data;    /**< CONSTANT: owned */
} ct__onnx_tensor_t;

/** Keys and values of the tokens before: the input past.NAME, the output present.NAME. */
typedef struct ct__onnx_past {
  char name[CT__ONNX_NAME];
  int64_t width; /**< numbers of a token */
} ct__onnx_past_t;

/** A model in translation. */
typedef struct ct__onnx {
  const ct_graph_t *g;
  const ct_quant_t *quant; /**< NULL: nothing is int8 */
  ct_proto_t nodes;        /**< serialized `node` fields of GraphProto */
  int64_t open;            /**< offset of the node that accepts attributes; -1: none */
  ct__onnx_tensor_t *tensor;
  int tensors;
  int64_t cap;
  char input[CT__ONNX_NAME]; /**< the network's input as its first layers read it */
  char extra[CT_INPUTS_EXTRA][CT__ONNX_NAME]; /**< extra inputs: "input.NAME" */
  char (*out)[CT__ONNX_NAME]; /**< [layers] names of the layers' outputs as the next layers read
                                 them */
  char name[CT__ONNX_NAMES][CT__ONNX_NAME];
  int names;
  int cache; /**< 1: the model is one of a token and caches */
  ct__onnx_past_t *past;
  int pasts;
  int64_t past_cap;
  int rc; /**< first error; later calls do nothing */
} ct__onnx_t;

/** A layer in translation. */
typedef struct ct__onnx_layer {
  int id;
  const ct_op_desc_t *d;
  const char *x, *x2, *x3, *y; /**< names of its inputs and output */
} ct__onnx_layer_t;

/* ---- nodes: onnx_node.c ---- */

/** Makes a NULL-terminated list of names. */
#define CT__ONNX_LIST(...) \
  (const char *const[])    \
  {                        \
    __VA_ARGS__, NULL      \
  }

/** Returns "layer/word", or for the network's input (-1) "input/word"; valid for CT__ONNX_NAMES
 * further calls. */
const char *ct__onnx_name(ct__onnx_t *o, int layer, const char *word);
/** Starts a node, named after its first output; attributes may follow until the next node. */
void ct__onnx_node(ct__onnx_t *o, const char *op, const char *const out[], const char *const in[]);
void ct__onnx_int(ct__onnx_t *o, const char *name, int64_t value);
void ct__onnx_float(ct__onnx_t *o, const char *name, double value);
void ct__onnx_text(ct__onnx_t *o, const char *name, const char *value);
void ct__onnx_ints(ct__onnx_t *o, const char *name, int n, const int64_t v[]);
/** Ends the last node. */
void ct__onnx_end(ct__onnx_t *o);

/* ---- tensors: onnx_tensor.c ---- */

/** Each adds a tensor and returns its name for nodes to use, valid for as long as a name of
 * ct__onnx_name(). ndim 0: a scalar. */
const char *ct__onnx_const_ints(ct__onnx_t *o, int layer, const char *word, int ndim, int64_t n,
                                const int64_t v[]);
const char *ct__onnx_constant(ct__onnx_t *o, int layer, const char *word, int type, int ndim,
                              const int64_t dim[], const void *data);
const char *ct__onnx_const_floats(ct__onnx_t *o, int layer, const char *word, int ndim,
                                  const int64_t dim[], const float v[]);
const char *ct__onnx_scalar(ct__onnx_t *o, int layer, const char *word, double v);
/** Adds parameter \a slot of a layer, under its own name. */
const char *ct__onnx_param(ct__onnx_t *o, int layer, int slot);
/** Adds a tensor derived from a parameter (\a how), named after the parameter and \a word. */
const char *ct__onnx_made(ct__onnx_t *o, int layer, int slot, ct__onnx_how_t how, const char *word,
                          int ndim, const int64_t dim[]);
/** Adds one part of an int8 parameter, or of a tensor derived from it. */
const char *ct__onnx_part(ct__onnx_t *o, int layer, int slot, ct__onnx_part_t part, int type,
                          ct__onnx_how_t how, const char *word, int ndim, const int64_t dim[]);
/** Writes a tensor's bytes to \a out; \a workspace: memory for the largest parameter. */
int ct__onnx_fill(const ct__onnx_t *o, const ct__onnx_tensor_t *t, const ct_onnx_source_t *from,
                  float *workspace, void *out);

/* ---- int8: onnx_quant.c ---- */

/** Adds weights of a layer, as a node reads them: a parameter, or a tensor derived from it (how,
 * word). If the layer computes in int8: an int8 initializer and a DequantizeLinear node. axis: axis
 * of the output channels. */
const char *ct__onnx_weight(ct__onnx_t *o, int layer, int slot, ct__onnx_how_t how,
                            const char *word, int axis, int ndim, const int64_t dim[]);
/** Adds the bias of a layer as ct__onnx_weight() adds weights; the scales of an int8 bias are those
 * of the matrix product. */
const char *ct__onnx_bias(ct__onnx_t *o, int layer, int slot);
/** If \a x, the output of a layer (or of the network's input, -1), is quantized, appends
 * QuantizeLinear and DequantizeLinear and returns the name to read instead; else returns \a x. */
const char *ct__onnx_rounded(ct__onnx_t *o, int layer, const char *x);

/* ---- elementwise programs and random numbers: onnx_expr.c ---- */

/** Adds the nodes of a layer with the op EXPR; in[k] NULL: no such input. */
void ct__onnx_expr(ct__onnx_t *o, int id, const ct_op_desc_t *d,
                   const char *const in[CT_EXPR_INPUTS], const char *y);
/** Adds the nodes of a layer with the op RANDOM. */
void ct__onnx_random(ct__onnx_t *o, int id, const ct_op_desc_t *d, const char *y);

/* ---- products and reductions: onnx_products.c ---- */

void ct__onnx_matmul(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_softmax(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_reduce(ct__onnx_t *o, const ct__onnx_layer_t *l);
void ct__onnx_sdpa(ct__onnx_t *o, const ct__onnx_layer_t *l);

/* ---- ops that move elements: onnx_move.c ---- */

/** Each adds the nodes of layer \a id, whose op is \a d for one sample, from \a x to \a y. */
void ct__onnx_strided(ct__onnx_t *o, int id, const ct_op_desc_t *d, const char *x, const char *y);
void ct__onnx_reshape(ct__onnx_t *o, int id, const ct_op_desc_t *d, const char *x, const char *y);
/** \a table: the second input, or NULL. */
void ct__onnx_rows(ct__onnx_t *o, int id, const ct_op_desc_t *d, const char *x, const char *table,
                   const char *y);

/* ---- layers: onnx_layers.c ---- */

/** Pure. Returns 1 if an output keeps its dims; 0: it is N x classes. */
int ct__onnx_is_whole(const ct_graph_t *g, const ct_shape_t *out);
/** Pure. Writes the name of output k: "output", or of several "output.NAME"; returns buf. */
const char *ct__onnx_output(const ct_graph_t *g, int k, char *buf, size_t cap);

/** Translates a whole graph into nodes and tensors. o->g must be set; free with
 * ct__onnx_clear(). */
int ct__onnx_layers(ct__onnx_t *o);
void ct__onnx_clear(ct__onnx_t *o);

#endif
