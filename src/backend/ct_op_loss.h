/** \file ct_op_loss.h  The losses of CT_OP_LOSS and their options.  Part of ct_op.h.  Layer 1. */
#ifndef CT_OP_LOSS_H
#define CT_OP_LOSS_H
#include "base/ct_types.h"

/** Losses that average over the outputs of a sample; each output has a target or, with labels, its
 * one-hot value: X(NAME, word, description).  To add one: a row here and its formula in each
 * backend. */
#define CT_POINT_LOSS_LIST(X)                                                              \
  X(CT_LOSS_MSE, mse, "squared error")                                                     \
  X(CT_LOSS_L1, l1, "absolute error")                                                      \
  X(CT_LOSS_BCE, bce, "binary cross-entropy with logits")                                  \
  X(CT_LOSS_HUBER, huber, "Huber loss")                                                    \
  X(CT_LOSS_SMOOTH_L1, smooth_l1, "smooth L1")                                             \
  X(CT_LOSS_KL, kl, "Kullback-Leibler divergence of log-probabilities from probabilities") \
  X(CT_LOSS_POISSON, poisson, "negative log-likelihood of counts")                         \
  X(CT_LOSS_SOFT_MARGIN, soft_margin, "log(1 + exp(-target output)), targets 1 and -1")    \
  X(CT_LOSS_HINGE_EMBEDDING, hinge_embedding,                                              \
    "distances, to be below or above a margin; targets "                                   \
    "1 and -1")

/** Losses of a sample as a whole: X(NAME, word, description). */
#define CT_SAMPLE_LOSS_LIST(X)                                                          \
  X(CT_LOSS_DICE, dice, "soft Dice of labels after softmax, mean over classes")         \
  X(CT_LOSS_SIGMOID_DICE, sigmoid_dice, "soft Dice of targets in 0 to 1 after sigmoid") \
  X(CT_LOSS_RELATIVE_L2, relative_l2, "norm of the error by the norm of the targets")   \
  X(CT_LOSS_SOFT_CROSS_ENTROPY, soft_cross_entropy,                                     \
    "softmax cross-entropy of probabilities as "                                        \
    "targets")

/** The losses of CT_OP_LOSS. */
typedef enum {
  CT_LOSS_CROSS_ENTROPY, /**< softmax; labels */
#define X(name, ...) name,
  CT_POINT_LOSS_LIST(X) CT_SAMPLE_LOSS_LIST(X)
#undef X
} ct_loss_kind_t;

/** The divisors of the sum of a loss over a batch. */
typedef enum {
  CT_DIVISOR_WEIGHTS,  /**< sum of the weights of samples and elements; ignored ones have none */
  CT_DIVISOR_ELEMENTS, /**< number of samples, or of their pixels, whatever their weight is */
  CT_DIVISOR_SAMPLES,  /**< sum of the weights of samples; elements of a sample are added up */
  CT_DIVISOR_NONE,     /**< all is added up */
  CT_DIVISOR_COUNT
} ct_divisor_t;

/** Numbers of enumerators in the lists above. */
enum {
#define X(...) +1
  CT_LOSS_COUNT = 1 CT_POINT_LOSS_LIST(X) CT_SAMPLE_LOSS_LIST(X),
  CT_POINT_LOSS_END = 1 CT_POINT_LOSS_LIST(X) /* kinds from 1 to this are of outputs one by one */
#undef X
};

/** Options of a loss. */
typedef struct ct_loss_spec {
  ct_loss_kind_t kind;
  int one_hot;              /**< CT_POINT_LOSS_LIST: 1 = against labels as one-hot; 0 = against
                                 targets */
  int weighted;             /**< class_weight is used: of classes; BCE: pos_weight of outputs */
  int sample_weighted;      /**< sample_weight is used */
  int has_ignored, ignored; /**< CROSS_ENTROPY, DICE: pixels with the label `ignored` are left
                                 out */
  double label_smoothing;   /**< CROSS_ENTROPY, as torch.nn.CrossEntropyLoss */
  ct_divisor_t divisor;     /**< what ct_loss_t.weight counts */
  int place_weighted;       /**< place_weight is used */
  int skips_nan;            /**< CT_POINT_LOSS_LIST, RELATIVE_L2: a target NaN is left out */
  int logs;     /**< KL: targets are logarithms (log_target); POISSON: outputs are (log_input) */
  double gamma; /**< CROSS_ENTROPY, BCE: exponent of the focal factor; 0: none */
  double alpha; /**< BCE: weight of the target 1, where 0 has 1 - alpha; 0: both have 1 */
  int classes_last; /**< CROSS_ENTROPY: x is [N,…,K]; 0: [N,K,…] */
  double z_loss;    /**< CROSS_ENTROPY: factor of the squared log of the sum of exp(x), which is
                         added to the loss of each label; 0: none */
  double param;     /**< HUBER: delta; SMOOTH_L1: beta; HINGE_EMBEDDING: margin; DICE, SIGMOID_DICE:
                   smooth */
} ct_loss_spec_t;

/** Returns the name of a loss; "unknown" for an invalid kind. */
const char *ct_loss_name(ct_loss_kind_t kind);
/** Returns 1 if a loss is of classes in dim 1 of x: each pixel has a number for each class. */
int ct_loss_by_class(ct_loss_kind_t kind);
/** Returns 1 if a loss is always of labels of classes. */
int ct_loss_of_labels(ct_loss_kind_t kind);
/** Return 1 if the softmax over classes, or the sigmoid, of an output is the prediction. */
int ct_loss_softmax(ct_loss_kind_t kind);
int ct_loss_sigmoid(ct_loss_kind_t kind);
/** Returns 1 if a loss is of outputs one by one: CT_POINT_LOSS_LIST. */
int ct_loss_is_point(ct_loss_kind_t kind);
/** Returns what elements of a sample add to the divisor.  sample: weight of the sample; own: their
 * weight apart from it; part: their part of the sample. */
CT_INLINE double ct_loss_counted(const ct_loss_spec_t *o, double sample, double own,
                                 double elements, double part)
{
  switch (o->divisor) {
  case CT_DIVISOR_WEIGHTS:
    return sample * own;
  case CT_DIVISOR_ELEMENTS:
    return elements;
  case CT_DIVISOR_SAMPLES:
    return sample * part;
  case CT_DIVISOR_NONE:
  case CT_DIVISOR_COUNT:
    break;
  }
  return 0;
}
/** Returns 1 if a LOSS compares with labels, 0: with targets. */
int ct_loss_has_labels(const ct_loss_spec_t *o);

struct ct_op_desc;
/** Returns the dim of features of the op HEAD_LOSS, and of the classes in its y. */
int ct_op_head_dim(const struct ct_op_desc *d);

#endif
