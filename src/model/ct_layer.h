/** \file ct_layer.h  Layer kinds: options -> shapes, parameters, one op.  Layer 2, pure.
 *
 * A new kind needs one file and one line in layers.c.  A kind never sees memory, devices or
 * ranks. */
#ifndef CT_LAYER_H
#define CT_LAYER_H
#include "backend/ct_op.h"
#include "conf/ct_opt.h"

#define CT_LAYER_PARAMS 4

/** Initializers (random values come from ct_rng; see ct_graph_init_param()). */
typedef enum {
  CT_INIT_ZERO,
  CT_INIT_ONE,
  CT_INIT_FILL,         /**< scale */
  CT_INIT_UNIFORM,      /**< in [-scale, scale) */
  CT_INIT_NORMAL,       /**< mean 0, standard deviation scale */
  CT_INIT_TRUNC_NORMAL, /**< CT_INIT_NORMAL truncated to [-2, 2], as torch.nn.init.trunc_normal_ */
  CT_INIT_SINUSOID      /**< a matrix: row r has sin(a), cos(a) in columns 2k and 2k + 1, a = r /
                        10000^(2k / columns) */
} ct_init_t;

/** Value of ct_param_spec_t.buffer: a buffer that checkpoints hold, but state dicts do not. */
enum { CT_CONSTANT = 2 };

typedef struct ct_param_spec {
  const char *suffix; /**< static: "weight", "bias", "running_mean", "running_var"; "": the
                           parameter has the name of the layer */
  ct_shape_t shape;   /**< plain layout as in PyTorch: conv OIHW; linear out x in */
  ct_init_t init;
  double scale;
  int buffer; /**< 1: not trained (running statistics); CT_CONSTANT */
} ct_param_spec_t;

typedef struct ct_layer_ops {
  const char *kind; /**< name in the model: "conv2d" */
  const char *help; /**< one line */
  size_t opts_bytes;
  const ct_opt_t *opts; /**< option rows of the kind */
  int inputs;           /**< number of inputs, 0 to CT_OP_INPUTS */
  int optional;         /**< how many of them may be left out, from the last */
  int general;          /**< 1: takes tensors whose batch is in any dims (ct_shape_t.batch), or in
                             none, and infer() sets out->batch; 0: the batch is dim 0 of all */
  int swaps;            /**< 1: `from` names the second input first */
  ct_op_kind_t op;      /**< the one op of the layer */
  /** Moves padding that the op does not have out of the options: writes the options of the `pad`
   * layer that must come before the layer, or "". NULL: the kind has no such padding. */
  int (*pads)(void *opts, const ct_shape_t *in, char *text, size_t cap);
  /** Writes the layers that the layer stands for, as items of `model.layers` that read \a from; the
   * last one has the name \a name, names of the others begin with it.  \a names: of the parameters,
   * or NULL.  in[], from: the shapes and names of CT_OP_INPUTS inputs, the names CT_NAME_MAX apart;
   * ndim 0: there is none.  Nothing is written if the layer stands for itself.  NULL: it always
   * does. */
  int (*expands)(const void *opts, const ct_shape_t *in, const char *name, const char *from,
                 const char *const *names, ct_str_t *out);
  /** Sets *name to the value whose shape the options ask for, "input" or the name of a layer; "":
   * none.  With a \a shape: takes it from that value, and forgets the name.  NULL: the kind has no
   * such option. */
  int (*like)(void *opts, const char **name, const ct_shape_t *shape);
  /** Returns the op of a layer whose op depends on its options or on its inputs in[] (ndim 0: it
   * has no such input); `op` is then the one by which other modules know the kind.  NULL: it is
   * `op`. */
  ct_op_kind_t (*choose)(const void *opts, const ct_shape_t *in);
  /** Computes the output shape from the input shapes in[0] … in[inputs - 1]; CT_ERR_SHAPE names the
   * mismatch.  NULL: the output has the shape of the input. */
  int (*infer)(const void *opts, const ct_shape_t *in, ct_shape_t *out);
  /** Fills in the parameters in state-dict order, which is also the op's w[] order; returns how
   * many (0 … CT_LAYER_PARAMS).  NULL: none. */
  int (*params)(const void *opts, const ct_shape_t *in, ct_param_spec_t spec[CT_LAYER_PARAMS]);
  /** Returns the prefix of a parameter's name that replaces the layer's name; "": no prefix.  If
   * the entry is NULL or returns NULL, the layer's name is the prefix. */
  const char *(*prefix)(const void *opts, int slot);
  /** Returns 1 if the first parameter is the weight of a Conv1D of transformers, which weight files
   * hold transposed (ct_weights_conv1d()).  NULL: it is not. */
  int (*conv1d)(const void *opts);
  /** Sets the attributes of the op, whose kind and shapes are set already; the plan sets passes and
   * training.  NULL: no attributes. */
  void (*attributes)(const void *opts, ct_op_desc_t *d);
} ct_layer_ops_t;

/** All kinds, NULL-terminated (layers.c). */
extern const ct_layer_ops_t *const ct_layer_kinds[];
/** Returns the entry of a kind; NULL if the kind is unknown. */
const ct_layer_ops_t *ct_layer_find(const char *kind);

#endif
