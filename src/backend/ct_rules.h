/** \file ct_rules.h  Optimizer rules, element by element.  Layer 1.
 *
 * * A rule is one inline function of (hyper-parameters, weight, gradient, states) that returns the
 * new weight.  All backends share it: each expands CT_RULE_LIST into loops over flat ranges.  To
 * add an optimizer: one function and one row here, and its options in optim/.
 *
 * * A rule that adapts its learning rate to each parameter (LARS, LAMB) needs two norms of the
 * parameter: that of the weights and that of a second vector.  The rule's second function returns
 * the elements of the second vector, and may update the states.  For LARS and LAMB, MEASURE runs
 * for each parameter before UPDATE, also for parameters without weight decay. */
#ifndef CT_RULES_H
#define CT_RULES_H
#include "base/ct_types.h"
#include <math.h>

/** X(NAME, function, number of float32 states per weight, 1 if it needs MEASURE, the function that
 * MEASURE applies) */
#define CT_RULE_LIST(X)                                                         \
  X(CT_RULE_SGD, ct_rule_sgd, 1, 0, ct_rule_gradient)                           \
  X(CT_RULE_ADAM, ct_rule_adam, 2, 0, ct_rule_gradient)                         \
  X(CT_RULE_RMSPROP, ct_rule_rmsprop, 2, 0, ct_rule_gradient)                   \
  X(CT_RULE_RMSPROP_CENTERED, ct_rule_rmsprop_centered, 3, 0, ct_rule_gradient) \
  X(CT_RULE_LARS, ct_rule_lars, 1, 1, ct_rule_gradient)                         \
  X(CT_RULE_LAMB, ct_rule_lamb, 2, 1, ct_rule_lamb_direction)                   \
  X(CT_RULE_AMSGRAD, ct_rule_amsgrad, 3, 0, ct_rule_gradient)                   \
  X(CT_RULE_NADAM, ct_rule_nadam, 2, 0, ct_rule_gradient)                       \
  X(CT_RULE_RADAM, ct_rule_radam, 2, 0, ct_rule_gradient)                       \
  X(CT_RULE_ADAMAX, ct_rule_adamax, 2, 0, ct_rule_gradient)                     \
  X(CT_RULE_ADAGRAD, ct_rule_adagrad, 1, 0, ct_rule_gradient)                   \
  X(CT_RULE_ADADELTA, ct_rule_adadelta, 2, 0, ct_rule_gradient)                 \
  X(CT_RULE_LION, ct_rule_lion, 1, 0, ct_rule_gradient)                         \
  X(CT_RULE_MUON, ct_rule_muon, 2, 0, ct_rule_gradient)                         \
  X(CT_RULE_MUON_DIRECTION, ct_rule_muon_direction, 1, 0, ct_rule_gradient)     \
  X(CT_RULE_AVERAGE, ct_rule_average, 0, 0, ct_rule_gradient)

typedef enum {
#define X(name, f, n, needs_norms, m) name,
  CT_RULE_LIST(X)
#undef X
} ct_rule_t;

/** Number of rules.  It is outside the enum of the rules, so that a switch over the rules needs no
 * case for it. */
enum {
#define X(...) +1
  CT_RULE_COUNT = CT_RULE_LIST(X)
#undef X
};

#define CT_RULE_STATES 3 /**< maximum number of states of a rule */

/** Hyper-parameters of one step, constant over a range of weights.  A rule reads only some of them.
 * optim/ computes take1, take2, fix1 and fix2 in double and rounds each once. */
typedef struct ct_hyper {
  float lr;       /**< Adam, AMSGrad, Adamax: divided by the bias correction of the first moment;
                       NAdam: factor of the first moment; RAdam: with the rectification */
  float momentum; /**< Adam, LAMB: beta1 */
  float dampening, weight_decay;
  int nesterov;
  int matrix;   /**< Muon: 1 for matrices, whose gradient has become their direction */
  int64_t step; /**< from 1 */
  float beta2;  /**< RMSprop: alpha; Adadelta: rho */
  float take1;  /**< 1 - beta1 */
  float take2;  /**< 1 - beta2 */
  float fix1;   /**< bias correction of the first moment: 1 / (1 - beta1^step) */
  float fix2;   /**< bias correction of the second moment: 1 / sqrt(1 - beta2^step) */
  float keep;   /**< factor of the weight for decoupled weight decay; 1: no decay */
  float eps;
  float lr_gradient; /**< NAdam: factor of the gradient */
  float initial;     /**< Adagrad: the state before the first step */
  float trust;       /**< LARS: trust coefficient */
  float ratio;       /**< LARS, LAMB: set by the backend from ct_rule_ratio() */
} ct_hyper_t;

/** Returns 1 if the rule needs MEASURE before UPDATE. */
CT_INLINE int ct_rule_needs_norms(int rule)
{
  const int needs_norms[] = {
#define X(name, f, n, wants, m) wants,
      CT_RULE_LIST(X)
#undef X
  };
  return needs_norms[rule];
}

/** Returns the gradient: the function that MEASURE applies for LARS. */
CT_INLINE float ct_rule_gradient(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                                 float *s2)
{
  (void)h;
  (void)w;
  (void)s0;
  (void)s1;
  (void)s2;
  return g;
}

/** Momentum of SGD and LARS: the buffer starts as the first gradient, undampened. */
CT_INLINE float ct_rule_momentum(const ct_hyper_t *h, float w, float g, float *buffer)
{
  if (h->momentum != 0) {
    float b = h->step == 1 ? g : h->momentum * *buffer + (1 - h->dampening) * g;
    *buffer = b;
    g = h->nesterov ? g + h->momentum * b : b;
  }
  return w - h->lr * g;
}

/** torch.optim.SGD: weight decay is added to the gradient.  State: momentum_buffer. */
CT_INLINE float ct_rule_sgd(const ct_hyper_t *h, float w, float g, float *s0, float *s1, float *s2)
{
  (void)s1;
  (void)s2;
  return ct_rule_momentum(h, w, g + h->weight_decay * w, s0);
}

/** Updates both moments of Adam. */
CT_INLINE void ct_rule_moments(const ct_hyper_t *h, float g, float *m, float *v)
{
  *m += h->take1 * (g - *m);
  *v = h->beta2 * *v + h->take2 * (g * g);
}

/** torch.optim.Adam (weight_decay) and AdamW (keep).  States: exp_avg, exp_avg_sq. */
CT_INLINE float ct_rule_adam(const ct_hyper_t *h, float w, float g, float *s0, float *s1, float *s2)
{
  (void)s2;
  ct_rule_moments(h, g + h->weight_decay * w, s0, s1);
  return h->keep * w - h->lr * (*s0 / (sqrtf(*s1) * h->fix2 + h->eps));
}

/** torch.optim.Adam and AdamW with amsgrad=True.  States: exp_avg, exp_avg_sq, max_exp_avg_sq. */
CT_INLINE float ct_rule_amsgrad(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                                float *s2)
{
  ct_rule_moments(h, g + h->weight_decay * w, s0, s1);
  *s2 = *s1 < *s2 ? *s2 : *s1;
  return h->keep * w - h->lr * (*s0 / (sqrtf(*s2) * h->fix2 + h->eps));
}

/** torch.optim.NAdam.  States: exp_avg, exp_avg_sq. */
CT_INLINE float ct_rule_nadam(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                              float *s2)
{
  (void)s2;
  g += h->weight_decay * w;
  ct_rule_moments(h, g, s0, s1);
  return h->keep * w - (h->lr_gradient * g + h->lr * *s0) / (sqrtf(*s1) * h->fix2 + h->eps);
}

/** torch.optim.RAdam; the first steps (fix2 is 0) do not divide by the second moment.  States:
 * exp_avg, exp_avg_sq. */
CT_INLINE float ct_rule_radam(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                              float *s2)
{
  (void)s2;
  ct_rule_moments(h, g + h->weight_decay * w, s0, s1);
  return h->keep * w - h->lr * (*s0 / (h->fix2 > 0 ? sqrtf(*s1) + h->eps : 1));
}

/** torch.optim.Adamax.  States: exp_avg, exp_inf. */
CT_INLINE float ct_rule_adamax(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                               float *s2)
{
  (void)s2;
  g += h->weight_decay * w;
  float old = h->beta2 * *s1, now = fabsf(g) + h->eps;
  *s0 += h->take1 * (g - *s0);
  *s1 = now < old ? old : now;
  return w - h->lr * (*s0 / *s1);
}

/** torch.optim.Adagrad.  State: sum. */
CT_INLINE float ct_rule_adagrad(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                                float *s2)
{
  (void)s1;
  (void)s2;
  g += h->weight_decay * w;
  *s0 = (h->step == 1 ? h->initial : *s0) + g * g;
  return w - h->lr * (g / (sqrtf(*s0) + h->eps));
}

/** torch.optim.Adadelta.  States: square_avg, acc_delta. */
CT_INLINE float ct_rule_adadelta(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                                 float *s2)
{
  (void)s2;
  g += h->weight_decay * w;
  *s0 = h->beta2 * *s0 + h->take2 * (g * g);
  float delta = sqrtf(*s1 + h->eps) / sqrtf(*s0 + h->eps) * g;
  *s1 = h->beta2 * *s1 + h->take2 * (delta * delta);
  return w - h->lr * delta;
}

/** Lion (Chen et al. 2023): the step is the sign of a mean gradient.  State: exp_avg. */
CT_INLINE float ct_rule_lion(const ct_hyper_t *h, float w, float g, float *s0, float *s1, float *s2)
{
  (void)s1;
  (void)s2;
  float u = *s0 + h->take1 * (g - *s0);
  *s0 += h->take2 * (g - *s0);
  return h->keep * w - h->lr * (u > 0 ? 1.0f : u < 0 ? -1.0f : u);
}

/** The step of both RMSprops; \a spread: mean square or variance of the gradient. */
CT_INLINE float ct_rule_rms_step(const ct_hyper_t *h, float w, float g, float spread, float *buffer)
{
  float step = g / (sqrtf(spread) + h->eps);
  if (h->momentum != 0) *buffer = step += h->momentum * *buffer;
  return w - h->lr * step;
}

/** torch.optim.RMSprop.  States: square_avg; momentum_buffer if there is momentum. */
CT_INLINE float ct_rule_rmsprop(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                                float *s2)
{
  (void)s2;
  g += h->weight_decay * w;
  *s0 = h->beta2 * *s0 + h->take2 * (g * g);
  return ct_rule_rms_step(h, w, g, *s0, s1);
}

/** torch.optim.RMSprop with centered=True.  States: square_avg, grad_avg; momentum_buffer if there
 * is momentum. */
CT_INLINE float ct_rule_rmsprop_centered(const ct_hyper_t *h, float w, float g, float *s0,
                                         float *s1, float *s2)
{
  g += h->weight_decay * w;
  *s0 = h->beta2 * *s0 + h->take2 * (g * g);
  *s1 += h->take2 * (g - *s1);
  return ct_rule_rms_step(h, w, g, *s0 - *s1 * *s1, s2);
}

/** LARS (You, Gitman, Ginsburg 2017) as timm.optim.Lars: SGD on (gradient + weight decay) * ratio.
 * State: momentum_buffer. */
CT_INLINE float ct_rule_lars(const ct_hyper_t *h, float w, float g, float *s0, float *s1, float *s2)
{
  (void)s1;
  (void)s2;
  return ct_rule_momentum(h, w, (g + h->weight_decay * w) * h->ratio, s0);
}

/** LAMB: the update direction, from the moments m and v. */
CT_INLINE float ct_rule_lamb_of(const ct_hyper_t *h, float w, float m, float v)
{
  return m * h->fix1 / (sqrtf(v) * h->fix2 + h->eps) + h->weight_decay * w;
}

/** LAMB: updates the moments with the gradient and returns the update direction. */
CT_INLINE float ct_rule_lamb_direction(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                                       float *s2)
{
  (void)s2;
  float m = *s0 + h->take1 * (g - *s0), v = h->beta2 * *s1 + h->take2 * (g * g);
  *s0 = m;
  *s1 = v;
  return ct_rule_lamb_of(h, w, m, v);
}

/** LAMB (You et al. 2020) as timm.optim.Lamb without its own clipping.  MEASURE has already added
 * the gradient to the moments.  States: exp_avg, exp_avg_sq. */
CT_INLINE float ct_rule_lamb(const ct_hyper_t *h, float w, float g, float *s0, float *s1, float *s2)
{
  (void)g;
  (void)s2;
  return w - h->lr * h->ratio * ct_rule_lamb_of(h, w, *s0, *s1);
}

/** Muon: the update of matrices from their orthogonalized directions, and AdamW for other
 * parameters.  With ct_rule_ratio() it also scales a matrix to norm 1 (train/muon.c).  States of
 * the others: exp_avg, exp_avg_sq. */
CT_INLINE float ct_rule_muon(const ct_hyper_t *h, float w, float g, float *s0, float *s1, float *s2)
{
  if (!h->matrix) return ct_rule_adam(h, w, g, s0, s1, s2);
  float kept = h->keep == 0 ? 0 : h->keep * w; /* w may be anything */
  return kept - h->lr * h->ratio * g;
}

/** torch.optim.Muon: the momentum of a matrix, before it is orthogonalized; the weight is not read.
 * State: exp_avg, which is PyTorch's momentum_buffer. */
CT_INLINE float ct_rule_muon_direction(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                                       float *s2)
{
  (void)w;
  (void)s1;
  (void)s2;
  *s0 += h->take1 * (g - *s0);
  return h->nesterov ? *s0 + h->take1 * (g - *s0) : *s0;
}

/** Weight averaging (EMA, SWA), not an optimizer: moves the average w towards the current weight g
 * by the fraction lr.  As torch.lerp: with lr 1 the average becomes the weight, bit for bit. */
CT_INLINE float ct_rule_average(const ct_hyper_t *h, float w, float g, float *s0, float *s1,
                                float *s2)
{
  (void)s0;
  (void)s1;
  (void)s2;
  return h->lr < 0.5f ? w + h->lr * (g - w) : g - (g - w) * (1 - h->lr);
}

/** LARS, LAMB: returns the factor (trust ratio) of a parameter's step: 1 without weight decay, as
 * for biases with timm's always_adapt=False.  Muon: 1 / norm.  \a norms: the sums of squares from
 * MEASURE; NULL: none, and the factor is 1. */
CT_INLINE float ct_rule_ratio(int rule, const ct_hyper_t *h, const double *norms)
{
  if (norms && rule == CT_RULE_MUON) return (float)(1 / fmax(sqrt(norms[1]), (double)h->eps));
  if (!norms || h->weight_decay == 0 || !(norms[0] > 0) || !(norms[1] > 0)) return 1;
  double weights = sqrt(norms[0]), value = sqrt(norms[1]);
  if (rule == CT_RULE_LARS)
    return (float)(h->trust * weights / (value + weights * h->weight_decay + h->eps));
  return rule == CT_RULE_LAMB ? (float)(weights / value) : 1;
}

#endif
