/** \file ct_loss.h  Section `loss` of the configuration, and its conversion to a loss op.  Layer 3.
 * All local. */
#ifndef CT_LOSS_H
#define CT_LOSS_H
#include "backend/ct_op.h"
#include "conf/ct_opt.h"
#include "model/ct_graph.h"

/** Section `loss`. */
typedef struct ct_loss_opts {
  int kind; /**< ct_loss_kind_t */
  double label_smoothing;
  ct_opt_doubles_t class_weights; /**< none: all 1 */
  int reduction;                  /**< ct_divisor_t */
  char *ignore_index;             /**< "": none */
  double z_loss;
  double gamma, alpha;         /**< focal loss */
  ct_opt_doubles_t pos_weight; /**< one for all channels, or one each; none: 1 */
  double delta, beta, margin, smooth;
  int log_target, log_input;
  char *ignore_value;  /**< "": none */
  char *place_weights; /**< "": none */
  char *output;        /**< name of the layer; "": the output at the loss's place */
  char *target;        /**< name of the array; "": the one at the loss's place */
  double weight;       /**< factor in the sum of the losses */
  ct_yaml_t *list;     /**< list of losses, each a map of the keys above; NULL: one loss */
} ct_loss_opts_t;
extern const ct_opt_t ct_loss_rows[];

/** The losses of section `loss`. */
typedef struct ct_losses {
  ct_loss_opts_t of[CT_OUTPUTS]; /**< their `list` is NULL */
  int n;
  int apart; /**< 1: each target of the data is one by itself; 0: they are joined */
} ct_losses_t;

/** Local.  Changes a list in place of the section into the key `list` of a map.  \a root: the whole
 * configuration. */
int ct_loss_expand(ct_yaml_t *root);
/** Local.  Reads the losses from the section.  \a where: file name for messages.  CT_ERR_USAGE: the
 * list is not one of maps, or other keys are given besides it. */
int ct_losses_read(const ct_loss_opts_t *o, const char *where, ct_losses_t *out);
/** Frees the contents, which may be all zero. */
void ct_losses_clear(ct_losses_t *l);
/** Local.  Replaces the losses by one of the first output, which suits all shapes: for commands
 * that compute no loss. */
int ct_losses_any(ct_losses_t *l);

/** The targets that losses read. */
typedef struct ct_loss_targets {
  ct_opt_texts_t names;   /**< in the order of their first use; the texts are borrowed */
  char *name[CT_OUTPUTS]; /**< memory of `names` */
  int of[CT_OUTPUTS];     /**< per loss: its target in `names` */
} ct_loss_targets_t;
/** Pure.  Finds the targets of losses among data.target.  *out must not move.  CT_ERR_USAGE: a loss
 * names a target that data.target does not, or has none. */
int ct_losses_targets(const ct_losses_t *l, const ct_opt_texts_t *targets, ct_loss_targets_t *out);
/** Pure.  Finds the number of the output of each loss.  CT_ERR_USAGE: a loss names an output that
 * the model does not have, or two losses are of one output. */
int ct_losses_outputs(const ct_losses_t *l, const ct_graph_t *g, int out[CT_OUTPUTS]);

/** Converts options to the description of the op.  \a has_targets: the data has real-valued
 * targets; if not, MSE, L1 and BCE use labels as one-hot.  CT_ERR_USAGE names the key: an option
 * that the kind of loss does not have, or an ignore_index that is not a number. */
int ct_loss_spec(const ct_loss_opts_t *o, int has_targets, ct_loss_spec_t *out);
/** Pure.  Returns 1 if the classes are the last dim of the layer's output, with \a labels per
 * sample, as after a linear layer over sequences; 0: they are the second dim. */
int ct_loss_classes_last(const ct_loss_opts_t *o, const ct_layer_t *layer, int64_t labels);
/** Checks that the loss suits the data.  CT_ERR_USAGE: the loss is cross_entropy, which needs
 * labels, but samples have \a targets > 0 real-valued targets. */
int ct_loss_check_targets(const ct_loss_opts_t *o, int64_t targets);
/** Checks the options against model and data.  \a outputs: model.classes; \a targets: real-valued
 * targets per sample, 0 if it has labels; \a pixels: labels per sample.  CT_ERR_USAGE names the
 * key, or the layer whose output does not suit cross-entropy (N x classes, N x classes x pixels, or
 * N x places x classes). */
int ct_loss_check(const ct_loss_opts_t *o, const ct_graph_t *g, int64_t outputs, int64_t targets,
                  int64_t pixels);
/** ct_loss_check() for the output \a layer of the graph; \a what: "the last layer", or what else it
 * is called in messages. */
int ct_loss_check_layer(const ct_loss_opts_t *o, const char *what, const ct_layer_t *layer,
                        int64_t outputs, int64_t targets, int64_t pixels);
/** Pure.  Returns the number of the loss of the output with that name; -1: there is none.
 * \a outputs: model.outputs. */
int ct_losses_find(const ct_losses_t *l, const ct_opt_texts_t *outputs, const char *name);
/** Returns the number of elements of a sample that CT_DIVISOR_ELEMENTS counts: the pixels of a
 * cross-entropy, else 1. */
int64_t ct_loss_elements(const ct_loss_spec_t *o, const ct_shape_t *outputs);
/** Returns the description of the op of a loss of outputs of this shape. */
ct_op_desc_t ct_loss_desc(const ct_loss_spec_t *o, const ct_shape_t *outputs);
/** Returns the number of labels per sample that the loss needs for outputs of this shape. */
int64_t ct_loss_pixels(const ct_loss_spec_t *o, const ct_shape_t *outputs);
/** Returns the number of weights of classes, or for pos_weight of outputs, that the op reads; 0: it
 * reads none. */
int64_t ct_loss_class_count(const ct_loss_opts_t *o, const ct_shape_t *outputs);
/** Writes these weights into out[ct_loss_class_count()]. */
void ct_loss_class_weights(const ct_loss_opts_t *o, const ct_shape_t *outputs, float *out);
/** Local.  Reads loss.ignore_value: the number, or NaN.  *out: 0: there is none.  CT_ERR_USAGE */
int ct_loss_ignore_value(const ct_loss_opts_t *o, int *has, double *out);

#endif
