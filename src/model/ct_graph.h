/** \file ct_graph.h  The model: layers, every input before its use.  Layer 2.
 *
 * Pure and local: no device, no MPI, no file.
 *
 * A model is a family (ct_family.h) or written down layer by layer, `model.layers`:
 *
 *     model:
 *       layers:
 *         - conv2d: {out: 16, kernel: 3, padding: 1}
 *           name: conv1
 *         - relu                                    # a kind alone: all its options have defaults
 *         - conv2d: {out: 16, kernel: 3, padding: 1}
 *           name: conv2
 *         - add:
 *           from: [conv2, relu1]
 *         - {maxpool: {kernel: 2}, name: pool}
 *         - flatten
 *         - linear: {out: 10}
 *
 * Each item of the list is a layer: a map with one key that names the kind (ct_layer_kinds) and
 * holds its options, or the name of the kind alone.  Two more keys are optional:
 *
 *  - `name`: unique; letters, digits, '_', '.', '-'.  It is the prefix of the parameters' names in
 *    checkpoints.  Default: the kind and a running number: relu2 for the second relu of the list,
 *    whether the first has a name or not.
 *  - `from`: name of the layer that is the input, or a list of two for `add` and `concat`; `input`
 * is the network's input.  Only layers further up may be named.  Default: the layer before.
 *
 * The last layer is the output and must give `classes` values of a sample; every other layer must
 * be used. */
#ifndef CT_GRAPH_H
#define CT_GRAPH_H
#include "model/ct_layer.h"

#define CT_NAME_MAX 96

typedef struct ct_layer {
  char name[CT_NAME_MAX]; /**< "layer1.0.conv1": prefix of its parameters' names */
  const ct_layer_ops_t *ops;
  void *opts;              /**< owned */
  int in[2];               /**< layer numbers; -1 is the network's input, see ct_graph_more() */
  ct_shape_t out;          /**< with dim[0] = 1 */
  int first_param, params; /**< its parameters: graph.param[first_param …] */
  int keeps_stats; /**< batchnorm: normalises by its running statistics and leaves them, also in
                      training */
} ct_layer_t;

/** One state-dict entry. */
typedef struct ct_param {
  char name[CT_NAME_MAX]; /**< "layer1.0.conv1.weight" */
  int layer;              /**< number of its layer */
  int slot;               /**< index in the op's w[] */
  ct_param_spec_t spec;
  int64_t count; /**< elements */
  int frozen;    /**< 1: stays as it is */
} ct_param_t;

typedef struct ct_graph {
  ct_shape_t input;         /**< one sample: dim[0] = 1 */
  ct_inputs_t more;         /**< what else there is of it */
  char prefix[CT_NAME_MAX]; /**< ct_graph_prefix() */
  ct_layer_t *layer;
  int layers;
  int64_t layer_cap;
  ct_param_t *param; /**< in layer order: the order of a state dict */
  int params;
  int64_t param_cap;
} ct_graph_t;

/** Words of the key `model.stem`, in their order. */
typedef enum { CT_STEM_AUTO, CT_STEM_IMAGENET, CT_STEM_CIFAR } ct_stem_t;

/** Which model, as the configuration says it (section `model`). */
typedef struct ct_model_opts {
  char *family;               /**< "resnet"; "" if layers are given */
  int64_t depth;              /**< of the family; 0: its usual one */
  int64_t classes;            /**< outputs; 0: as many as the data has */
  ct_opt_texts_t class_names; /**< of the classes, in order; none: they have numbers */
  ct_opt_doubles_t input;     /**< dims of a sample as the model takes it; none: as the data has */
  ct_opt_texts_t inputs;      /**< those of its further inputs, "NAME=16" or "NAME=3x32x32" */
  ct_opt_doubles_t hidden;    /**< mlp: widths of the hidden layers; lstm: width of the state */
  double dropout; /**< vgg, densenet, mobilenet_v2, cosmoflow; below 0: the family's usual one */
  int stem;       /**< resnet: ct_stem_t */
  int64_t patch, dim, heads, mlp; /**< vit; mlp 0: 4 dim */
  ct_yaml_t *layers;              /**< the list of layers, or NULL */
} ct_model_opts_t;
extern const ct_opt_t ct_model_rows[];

/** Local.  The shape of a sample that o->input tells, dim[0] = 1; ndim 0 if it tells none.
 * CT_ERR_USAGE: these are no dims of a sample. */
int ct_model_input(const ct_model_opts_t *o, ct_shape_t *out);
/** Local.  The same of o->inputs. */
int ct_model_inputs(const ct_model_opts_t *o, ct_inputs_t *out);
/** Local.  Notes the shapes of a sample in o->input and o->inputs, so that a checkpoint with this
 * configuration can be used where there is no data.  \a more: NULL for none. */
int ct_model_note_input(ct_model_opts_t *o, const ct_shape_t *sample, const ct_inputs_t *more);

/** Local.  What its user should hear of a choice that the family made by the samples, or NULL. */
const char *ct_model_remark(const ct_model_opts_t *o, const ct_shape_t *sample);

/** Local.  Builds the graph for samples of shape \a input (dim[0] = 1) and what \a more says (NULL:
 * nothing), which must be those of o->input and o->inputs if these say any, and \a classes outputs
 * (at least 1; o->classes is not looked at).
 * \a where names the file for messages, or is NULL.
 * CT_ERR_USAGE (unknown family or kind, with the nearest; no such input; two layers of one name;
 * shapes that do not fit; line numbers where layers came from YAML), CT_ERR_SHAPE for samples that
 * no model can take.  *out is NULL on failure, else freed by ct_graph_free(). */
int ct_graph_make(const ct_model_opts_t *o, const ct_shape_t *input, const ct_inputs_t *more,
                  int64_t classes, const char *where, ct_graph_t **out);
void ct_graph_free(ct_graph_t *g);

/** Local.  Appends a layer and its parameters.  \a opts is its options as the inside of a YAML flow
 * map, printf-style:
 * ct_graph_add(g, &id, "layer1.0.conv1", "conv2d", in, -2, "out: %d, kernel: 3, padding: 1", c).
 * NULL: all options have their defaults.  in2: second input, or -2 for none.  After a failure the
 * graph can only be freed. */
int ct_graph_add(ct_graph_t *g, int *id, const char *name, const char *kind, int in, int in2,
                 const char *opts, ...) __attribute__((format(printf, 7, 8)));

/** The names that ct_graph_add() is given from here on get these words before them,
 * "layer%d.%d."; NULL: nothing. */
int ct_graph_prefix(ct_graph_t *g, const char *words, ...) __attribute__((format(printf, 2, 3)));

/** 1 if \a pattern means the parameter \a name: fnmatch without flags ('*' matches dots too); a
 * pattern without '*', '?' and '[' also means everything below the layer of that name. */
int ct_graph_matches(const char *pattern, const char *name);
/** Local.  Freezes the trained parameters that a pattern matches.  \a freeze_bn: the batchnorms
 * whose parameters are all frozen (with no pattern: all) keep their running statistics, as in
 * PyTorch after .eval(); else *updating counts those of them that go on updating theirs.
 * CT_ERR_USAGE: a pattern that matches nothing; nothing is left to train. */
int ct_graph_freeze(ct_graph_t *g, const ct_opt_texts_t *patterns, int freeze_bn, int *updating);

/** Which of g->more a number in ct_layer_t.in means; -1: none of them. */
int ct_graph_more(int in);
/** The op of a layer for \a n samples at a time. */
void ct_graph_op(const ct_graph_t *g, int layer, int64_t n, ct_op_desc_t *d);

/** Number of a parameter by name, or -1. */
int ct_graph_find_param(const ct_graph_t *g, const char *name);
/** Trained parameters in elements (buffers not counted). */
int64_t ct_graph_count(const ct_graph_t *g);
/** Initial values of a parameter, plain layout: a pure function of (seed, name), so that adding a
 * layer does not change the others. */
void ct_graph_init_param(const ct_graph_t *g, int param, uint64_t seed, float *out);
/** Hash of layers, options and shapes: of what the model computes and of how it begins. */
uint64_t ct_graph_hash(const ct_graph_t *g);
/** The layer table as text: name, kind, output shape, trained parameters and MFLOP of the forward
 * pass, all for one sample; then the totals.  Appended. */
int ct_graph_summary(const ct_graph_t *g, ct_str_t *out);

#endif
