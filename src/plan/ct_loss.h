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
  char *ignore_index;             /**< "": none */
} ct_loss_opts_t;
extern const ct_opt_t ct_loss_rows[];

/** Converts options to the description of the op.  \a has_targets: the data has real-valued
 * targets; if not, MSE, L1 and BCE use labels as one-hot.  CT_ERR_USAGE names the key: an option
 * that the kind of loss does not have, or an ignore_index that is not a number. */
int ct_loss_spec(const ct_loss_opts_t *o, int has_targets, ct_loss_spec_t *out);
/** Checks that the loss suits the data.  CT_ERR_USAGE: the loss is cross_entropy, which needs
 * labels, but samples have \a targets > 0 real-valued targets. */
int ct_loss_check_targets(const ct_loss_opts_t *o, int64_t targets);
/** Checks the options against model and data.  \a outputs: model.classes; \a targets: real-valued
 * targets per sample, 0 if it has labels; \a pixels: labels per sample.  CT_ERR_USAGE names the
 * key, or the layer whose output does not suit cross-entropy (N x classes, or N x classes x
 * pixels). */
int ct_loss_check(const ct_loss_opts_t *o, const ct_graph_t *g, int64_t outputs, int64_t targets,
                  int64_t pixels);
/** Returns the number of labels per sample that the loss needs for outputs of this shape. */
int64_t ct_loss_pixels(const ct_loss_spec_t *o, const ct_shape_t *outputs);
/** Writes the class weights of the op into out[o->class_weights.n]; returns their number, which may
 * be 0. */
int ct_loss_class_weights(const ct_loss_opts_t *o, float *out);

#endif
