/** \file ct_loss.h  Section `loss` of the configuration, and what it comes to.  Layer 3.  All
 * local. */
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

/** Options -> what an op is told.  \a has_targets: the data has real-valued targets; else MSE, L1
 * and BCE are of labels as one-hot.  CT_ERR_USAGE names the key: one that the kind of loss does not
 * have, or an ignore_index that is no number. */
int ct_loss_spec(const ct_loss_opts_t *o, int has_targets, ct_loss_spec_t *out);
/** CT_ERR_USAGE: cross_entropy with real-valued targets, of which a sample has so many. */
int ct_loss_check_targets(const ct_loss_opts_t *o, int64_t targets);
/** The options against model and data.  \a outputs: model.classes; \a targets: real-valued targets
 * of a sample, 0 if it has a label; \a places: labels of a sample.  CT_ERR_USAGE names the key, or
 * the layer whose output is not what cross-entropy is of: N x classes, or N x classes x places. */
int ct_loss_check(const ct_loss_opts_t *o, const ct_graph_t *g, int64_t outputs, int64_t targets,
                  int64_t places);
/** Labels of a sample that a loss takes of the outputs of this shape. */
int64_t ct_loss_places(const ct_loss_spec_t *o, const ct_shape_t *outputs);
/** The weights of the classes as an op takes them into out[o->class_weights.n]; returns how many: 0
 * if there are none. */
int ct_loss_class_weights(const ct_loss_opts_t *o, float *out);

#endif
