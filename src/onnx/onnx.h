/** \file onnx.h  A model that is being put into ONNX's words: nodes and the tensors they read. */
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

/** How a tensor is made from parameters. */
typedef enum {
  CT__ONNX_CONSTANT,   /**< its bytes are there */
  CT__ONNX_PARAM,      /**< a parameter as it is, perhaps with other dims */
  CT__ONNX_TRANSPOSED, /**< a matrix, transposed */
  CT__ONNX_GATES,      /**< weights of an LSTM, their gates in ONNX's order */
  CT__ONNX_BIASES      /**< two biases of an LSTM one behind the other, the same */
} ct__onnx_how_t;

/** What of a parameter a tensor has, where its layer computes in eight bits (ct_int8.h). */
typedef enum {
  CT__ONNX_WHOLE,      /**< its numbers */
  CT__ONNX_STEPS,      /**< weights as int8 … */
  CT__ONNX_SCALES,     /**< … and the scale of each output channel */
  CT__ONNX_BIAS_STEPS, /**< a bias as int32, … */
  CT__ONNX_BIAS_SCALES /**< … whose scales are those of the weights before it times x_scale */
} ct__onnx_part_t;

/** A tensor that nodes read by name: an initializer. */
typedef struct ct__onnx_tensor {
  char name[CT__ONNX_NAME];
  int type, ndim; /**< ndim 0: a scalar */
  int64_t dim[CT_MAX_DIMS], bytes;
  ct__onnx_how_t how;
  ct__onnx_part_t part;
  int param;     /**< of the graph: the first one that it is made of */
  float x_scale; /**< of the layer's input */
  void *data;    /**< CONSTANT: owned */
} ct__onnx_tensor_t;

/** A model as words. */
typedef struct ct__onnx {
  const ct_graph_t *g;
  const ct_quant_t *quant; /**< NULL: nothing is in eight bits */
  ct_proto_t nodes;        /**< fields `node` of GraphProto */
  int64_t open;            /**< where the node that takes attributes begins; -1: none does */
  ct__onnx_tensor_t *tensor;
  int tensors;
  int64_t cap;
  char input[CT__ONNX_NAME];                /**< the network's input, as layers read it */
  char more[CT_INPUTS_MORE][CT__ONNX_NAME]; /**< its further ones: "input.NAME" */
  char (*out)[CT__ONNX_NAME]; /**< [layers] names of the layers' outputs, as layers read them */
  char name[CT__ONNX_NAMES][CT__ONNX_NAME];
  int names;
  int rc; /**< the first failure: what follows does nothing */
} ct__onnx_t;

/* ---- nodes: onnx_node.c ---- */

/** Lists of names, ended by NULL. */
#define CT__ONNX_LIST(...) \
  (const char *const[])    \
  {                        \
    __VA_ARGS__, NULL      \
  }

/** "layer/word", of the network's input (-1) "input/word"; valid until CT__ONNX_NAMES more were
 * made. */
const char *ct__onnx_name(ct__onnx_t *o, int layer, const char *word);
/** Begins a node, which is named as its first output; attributes may follow, until the next one. */
void ct__onnx_node(ct__onnx_t *o, const char *op, const char *const out[], const char *const in[]);
void ct__onnx_int(ct__onnx_t *o, const char *name, int64_t value);
void ct__onnx_float(ct__onnx_t *o, const char *name, double value);
void ct__onnx_text(ct__onnx_t *o, const char *name, const char *value);
void ct__onnx_ints(ct__onnx_t *o, const char *name, int n, const int64_t v[]);
/** Ends the last node. */
void ct__onnx_end(ct__onnx_t *o);

/* ---- tensors: onnx_tensor.c ---- */

/** Each returns the name that nodes use, valid as ct__onnx_name()'s.  ndim 0: one number. */
const char *ct__onnx_const_ints(ct__onnx_t *o, int layer, const char *word, int ndim, int64_t n,
                                const int64_t v[]);
const char *ct__onnx_constant(ct__onnx_t *o, int layer, const char *word, int type, int ndim,
                              const int64_t dim[], const void *data);
const char *ct__onnx_const_floats(ct__onnx_t *o, int layer, const char *word, int ndim,
                                  const int64_t dim[], const float v[]);
const char *ct__onnx_scalar(ct__onnx_t *o, int layer, const char *word, double v);
/** Parameter \a slot of a layer, under its own name. */
const char *ct__onnx_param(ct__onnx_t *o, int layer, int slot);
/** What is made of it, under the name of the parameter and a word. */
const char *ct__onnx_made(ct__onnx_t *o, int layer, int slot, ct__onnx_how_t how, const char *word,
                          int ndim, const int64_t dim[]);
/** A part of a parameter in eight bits, or of what is made of it. */
const char *ct__onnx_part(ct__onnx_t *o, int layer, int slot, ct__onnx_part_t part, int type,
                          ct__onnx_how_t how, const char *word, int ndim, const int64_t dim[]);
/** The bytes of a tensor into \a out; room has space for the largest parameter. */
int ct__onnx_fill(const ct__onnx_t *o, const ct__onnx_tensor_t *t, const ct_onnx_source_t *from,
                  float *room, void *out);

/* ---- numbers of eight bits: onnx_quant.c ---- */

/** Weights of a layer for its node: a parameter, or what is made of it (how, word); if the layer
 * computes in eight bits int8 numbers, and a node before it that makes floats of them.  axis: that
 * of the output channels. */
const char *ct__onnx_weight(ct__onnx_t *o, int layer, int slot, ct__onnx_how_t how,
                            const char *word, int axis, int ndim, const int64_t dim[]);
/** The same of a bias, whose scales are those of the product. */
const char *ct__onnx_bias(ct__onnx_t *o, int layer, int slot);
/** The value \a x that a layer (or the network's input, -1) gives, rounded to eight bits and back,
 * if it is to be: the name of what is to be read then. */
const char *ct__onnx_rounded(ct__onnx_t *o, int layer, const char *x);

/* ---- layers: onnx_layers.c ---- */

/** All nodes and tensors of a graph.  \a o has g, is cleared by ct__onnx_clear(). */
int ct__onnx_layers(ct__onnx_t *o);
void ct__onnx_clear(ct__onnx_t *o);

#endif
