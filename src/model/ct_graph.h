/** \file ct_graph.h  The model: a list of layers in topological order.  Layer 2.
 *
 * Pure and local: no device, no MPI, no file.
 *
 * A model is a family (ct_family.h), or a list of layers in the configuration, `model.layers`:
 *
 *     model:
 *       layers:
 *         - conv2d: {out: 16, kernel: 3, padding: 1}
 *           name: conv1
 *         - relu                                    # the kind alone: all options at their defaults
 *         - conv2d: {out: 16, kernel: 3, padding: 1}
 *           name: conv2
 *         - add:
 *           from: [conv2, relu1]
 *         - {maxpool: {kernel: 2}, name: pool}
 *         - flatten
 *         - linear: {out: 10}
 *
 * Each item is a layer: the name of its kind (ct_layer_kinds), or a map whose key is the kind and
 * whose value holds the options.  More keys are optional:
 *
 *  - `name`: unique; letters, digits, '_', '.', '-'.  Prefix of the parameters' names in
 *    checkpoints.  Default: the kind and a running number: relu2 for the second relu of the list,
 *    whether the first has a name or not.
 *  - `from`: the layer whose output is the input, or a list, of any length for `add`, `mul`,
 *    `minimum`, `maximum` and `concat`; `input` is the network's input.  Only earlier layers are
 *    allowed.  Default: the previous layer.
 *  - `weights`: the names of the layer's parameters, in their order, in place of its name and
 *    "weight", "bias", ….  A name that an earlier layer uses too is the same parameter.
 *  - `share`: an earlier layer of the same kind whose parameters, and running statistics, this one
 *    uses too, as a module of PyTorch that is called twice.
 *
 * The last layer is the output and must have `classes` values per sample, unless `model.outputs`
 * names the layers that are outputs; every other layer must be used. */
#ifndef CT_GRAPH_H
#define CT_GRAPH_H
#include "model/ct_layer.h"

#define CT_NAME_MAX 96
#define CT_OUTPUTS  8 /**< outputs of a model */

typedef struct ct_layer {
  char name[CT_NAME_MAX]; /**< "layer1.0.conv1"; prefixes the names of its parameters */
  const ct_layer_ops_t *ops;
  void *opts;           /**< owned */
  int in[CT_OP_INPUTS]; /**< numbers of the input layers; -1: the network's input; less than -1:
                             an extra input, see ct_graph_extra(), or none */
  int inputs;           /**< how many */
  int inserted;         /**< 1: made for the layer after it; the list of layers does not have it */
  ct_shape_t out;       /**< of one sample */
  int param[CT_LAYER_PARAMS]; /**< indexes in graph.param of the layer's parameters, by slot */
  int params;                 /**< how many */
  int keeps_stats; /**< batchnorm: 1 = normalises with the running statistics and does not update
                        them, also in training */
} ct_layer_t;

/** One state-dict entry. */
typedef struct ct_param {
  char name[CT_NAME_MAX]; /**< "layer1.0.conv1.weight" */
  int layer;              /**< number of the first layer that uses it, which owns it */
  int uses;               /**< number of layers that use it */
  int slot;               /**< index in the op's w[] */
  ct_param_spec_t spec;
  int64_t count; /**< elements */
  int conv1d;    /**< 1: out x in here and in checkpoints, in x out in weight files, as a Conv1D of
                      transformers */
  int frozen;    /**< 1: not trained */
} ct_param_t;

/** A further name that state dicts have for a parameter. */
typedef struct ct_tied {
  char name[CT_NAME_MAX];
  int param; /**< index in graph.param */
} ct_tied_t;

typedef struct ct_graph {
  ct_shape_t input;         /**< one sample: dim[0] = 1 */
  ct_inputs_t extra;        /**< its extra inputs */
  char prefix[CT_NAME_MAX]; /**< ct_graph_prefix() */
  ct_layer_t *layer;
  int layers;
  int64_t layer_cap;
  ct_param_t *param; /**< in layer order, as in a state dict */
  int params;
  int64_t param_cap;
  ct_tied_t *tied;
  int ties;
  int output[CT_OUTPUTS]; /**< numbers of the layers that are outputs; use ct_graph_output() */
  int outputs;            /**< how many; 0: the last layer is the only one */
} ct_graph_t;

/** Values of the key `model.stem`, in the order of its words. */
typedef enum { CT_STEM_AUTO, CT_STEM_IMAGENET, CT_STEM_CIFAR } ct_stem_t;
/** Values of the key `model.norm`. */
typedef enum { CT_NORM_BATCH, CT_NORM_INSTANCE, CT_NORM_GROUP, CT_NORM_NONE } ct_norm_t;
/** Values of the key `model.upsample`. */
typedef enum { CT_UPSAMPLE_TRANSPOSED, CT_UPSAMPLE_LINEAR } ct_upsample_t;
/** Values of the keys `bias` and `tie`, whose default depends on the family. */
typedef enum { CT_AUTO, CT_NO, CT_YES } ct_auto_t;
/** Values of the key `model.head`. */
typedef enum { CT_VIT_CLASS, CT_VIT_FIELD } ct_vit_head_t;

/** Section `model` of the configuration. */
typedef struct ct_model_opts {
  char *family;               /**< "resnet"; "" if layers are given */
  int64_t depth;              /**< depth of the family; 0: its default */
  int64_t classes;            /**< outputs; 0: the number of classes of the data */
  ct_opt_texts_t class_names; /**< names of the classes in order; none: classes are numbers */
  ct_opt_doubles_t input;     /**< dims of a sample; none: the dims of the data's samples */
  ct_opt_texts_t inputs;      /**< shapes of the extra inputs, "NAME=16" or "NAME=3x32x32" */
  ct_opt_doubles_t hidden; /**< mlp: widths of the hidden layers; lstm: width of the hidden state;
                                0: the family's default */
  double dropout;          /**< vgg, densenet, mobilenet_v2, cosmoflow; < 0: the family's default */
  int stem;                /**< resnet: ct_stem_t */
  int64_t patch[2];        /**< vit: height and width */
  int64_t dim, heads;      /**< vit */
  int64_t mlp;             /**< vit; 0: 4 * dim */
  int head;                /**< vit: ct_vit_head_t */
  ct_opt_doubles_t widths; /**< unet: channels of the first level, or of each */
  int norm;                /**< unet: ct_norm_t */
  int64_t groups;          /**< unet: groups of CT_NORM_GROUP */
  int upsample;            /**< unet: ct_upsample_t */
  int padding_mode;        /**< unet: as of convolutions: zeros, reflect, replicate, circular */
  int64_t kv_heads,
      head_dim;           /**< of the families over tokens, as all down to pad_id; 0: as `heads`,
                                   dim / heads */
  int64_t vocab, context; /**< 0: the classes, and the tokens of a sample */
  double eps;             /**< 0: the family's default */
  int activation;         /**< 0: the family's; else gelu, gelu_tanh, relu, silu */
  int bias, tie;          /**< ct_auto_t */
  double rope_theta, rope_factor, rope_low, rope_high, rope_context;
  int rope_scaling; /**< ct_rope_scaling_t */
  int token_dropout;
  int64_t mask_id, pad_id; /**< -1: none */
  ct_yaml_t *layers;       /**< the list of layers, or NULL */
  char *from;              /**< the .pt2 file that the layers come from; "": none */
  ct_opt_texts_t tied;     /**< further names of parameters, "NAME=PARAMETER" */
  ct_opt_texts_t outputs;  /**< names of the layers that are outputs; none: the last layer */
} ct_model_opts_t;
extern const ct_opt_t ct_model_rows[];

/** Local.  Returns in *out the sample shape from o->input, with dim[0] = 1; ndim is 0 if o->input
 * is not set.  CT_ERR_USAGE: invalid dims. */
int ct_model_input(const ct_model_opts_t *o, ct_shape_t *out);
/** Local.  Returns in *out the shapes of the extra inputs from o->inputs.  CT_ERR_USAGE: invalid
 * dims. */
int ct_model_inputs(const ct_model_opts_t *o, ct_inputs_t *out);
/** Local.  Stores the sample shapes in o->input and o->inputs, and o->context of a family over
 * tokens: a checkpoint with this configuration can be used without the data.  \a extra: extra
 * inputs, or NULL. */
int ct_model_note_input(ct_model_opts_t *o, const ct_shape_t *sample, const ct_inputs_t *extra);

/** Local.  Makes `layers` that is a number, of a family over tokens, its depth, and `vocab` the
 * number of classes. */
int ct_model_read_numbers(ct_model_opts_t *o, const char *where);

/** Local.  Returns a note for the user about a choice that the family makes from the sample shape,
 * or NULL. */
const char *ct_model_remark(const ct_model_opts_t *o, const ct_shape_t *sample);

/** Local.  Builds the graph for samples of shape \a input (dim[0] = 1), extra inputs \a extra
 * (NULL: none) and \a classes outputs (at least 1; o->classes is ignored).  If o->input and
 * o->inputs are set, the shapes must match them.  \a where: name of the configuration file for
 * messages, or NULL.
 *
 * CT_ERR_USAGE: unknown family or kind (the message suggests the nearest), unknown input, duplicate
 * layer name, or shapes that do not match (with line numbers for layers from YAML).  CT_ERR_SHAPE:
 * samples that no model can take.  *out is NULL on failure; the caller frees it with
 * ct_graph_free(). */
int ct_graph_make(const ct_model_opts_t *o, const ct_shape_t *input, const ct_inputs_t *extra,
                  int64_t classes, const char *where, ct_graph_t **out);
/** Frees the graph; \a g may be NULL. */
void ct_graph_free(ct_graph_t *g);

/** Local.  Appends a layer and its parameters.  \a opts: the options in YAML flow style without
 * braces, printf-style; NULL: all options have their defaults:
 *
 *     ct_graph_add(g, &id, "conv1", "conv2d", in, -2, "out: %d, kernel: 3, padding: 1", c)
 *
 * in2: second input, or -2 for none.  After a failure the graph can only be freed. */
int ct_graph_add(ct_graph_t *g, int *id, const char *name, const char *kind, int in, int in2,
                 const char *opts, ...) __attribute__((format(printf, 7, 8)));

/** Local.  Appends layers given as items of `model.layers`. */
int ct_graph_add_text(ct_graph_t *g, const char *text);
/** Local.  Gives the parameter \a of a further name in state dicts. */
int ct_graph_tie(ct_graph_t *g, const char *name, const char *of);

/** Sets a prefix, "layer%d.%d.", for the names in later calls of ct_graph_add(); NULL: none. */
int ct_graph_prefix(ct_graph_t *g, const char *words, ...) __attribute__((format(printf, 2, 3)));

/** Returns 1 if \a pattern matches the parameter \a name.  A pattern is an fnmatch pattern without
 * flags ('*' matches dots too).  A pattern without '*', '?' and '[' also matches all parameters of
 * the layer of that name, and of layers whose names begin with it and a dot. */
int ct_graph_matches(const char *pattern, const char *name);
/** Local.  Freezes the trained parameters that match a pattern.  \a freeze_bn: batchnorms whose
 * parameters are all frozen (without patterns: all batchnorms) also keep their running statistics,
 * as in PyTorch after .eval().  Without freeze_bn, *updating is the number of batchnorms whose
 * parameters are frozen but whose running statistics are still updated.
 * CT_ERR_USAGE: a pattern matches nothing, or nothing is left to train. */
int ct_graph_freeze(ct_graph_t *g, const ct_opt_texts_t *patterns, int freeze_bn, int *updating);

/** Returns 1 if the layer is a batchnorm with running statistics. */
int ct_layer_tracks(const ct_graph_t *g, const ct_layer_t *l);

/** Returns the number of outputs, at least 1. */
int ct_graph_outputs(const ct_graph_t *g);
/** Returns the number of the layer that is output k. */
int ct_graph_output(const ct_graph_t *g, int k);
/** Returns 1 if the layer is an output. */
int ct_graph_is_output(const ct_graph_t *g, int layer);

/** Returns the index into g->extra for the entry \a in of ct_layer_t.in; -1: the entry refers to a
 * layer or to the network's input. */
int ct_graph_extra(int in);
/** Writes to *d the op of a layer for a batch of \a n samples. */
void ct_graph_op(const ct_graph_t *g, int layer, int64_t n, ct_op_desc_t *d);

/** Returns the index of the parameter with that name, or -1. */
int ct_graph_find_param(const ct_graph_t *g, const char *name);
/** Returns the number of elements of all trained parameters, without buffers. */
int64_t ct_graph_count(const ct_graph_t *g);
/** Writes the initial values of a parameter in plain layout.  They are a pure function of (seed,
 * name), so adding a layer does not change the values of other layers. */
void ct_graph_init_param(const ct_graph_t *g, int param, uint64_t seed, float *out);
/** Returns a hash of layers, options, shapes and initializers. */
uint64_t ct_graph_hash(const ct_graph_t *g);
/** Appends the layer table as text: name, kind, output shape, trained parameters and forward MFLOP
 * per sample; then the totals. */
int ct_graph_summary(const ct_graph_t *g, ct_str_t *out);

#endif
