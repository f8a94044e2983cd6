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
  float lr;       /**< Adam: divided by the bias correction of the first moment */
  float momentum; /**< Adam, LAMB: beta1 */
  float dampening, weight_decay;
  int nesterov;
  int64_t step; /**< from 1 */
  float beta2;  /**< RMSprop: alpha */
  float take1;  /**< 1 - beta1 */
  float take2;  /**< 1 - beta2 */
  float fix1;   /**< bias correction of the first moment: 1 / (1 - beta1^step) */
  float fix2;   /**< bias correction of the second moment: 1 / sqrt(1 - beta2^step) */
  float keep;   /**< Adam: factor of the weight for decoupled weight decay; 1: no decay */
  float eps;
  float trust; /**< LARS: trust coefficient */
  float ratio; /**< LARS, LAMB: set by the backend from ct_rule_ratio() */
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

/** torch.optim.Adam (weight_decay) and AdamW (keep).  States: exp_avg, exp_avg_sq. */
CT_INLINE float ct_rule_adam(const ct_hyper_t *h, float w, float g, float *s0, float *s1, float *s2)
{
  (void)s2;
  g += h->weight_decay * w;
  float m = *s0 + h->take1 * (g - *s0), v = h->beta2 * *s1 + h->take2 * (g * g);
  *s0 = m;
  *s1 = v;
  return h->keep * w - h->lr * (m / (sqrtf(v) * h->fix2 + h->eps));
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

/** LARS, LAMB: returns the factor (trust ratio) of a parameter's step.  \a norms: the sums of
 * squares from MEASURE; NULL: none.  The factor is 1 for parameters without weight decay, such as
 * biases, as with timm's always_adapt=False. */
CT_INLINE float ct_rule_ratio(int rule, const ct_hyper_t *h, const double *norms)
{
  if (!norms || h->weight_decay == 0 || !(norms[0] > 0) || !(norms[1] > 0)) return 1;
  double weights = sqrt(norms[0]), value = sqrt(norms[1]);
  if (rule == CT_RULE_LARS)
    return (float)(h->trust * weights / (value + weights * h->weight_decay + h->eps));
  return rule == CT_RULE_LAMB ? (float)(weights / value) : 1;
}

#endif
