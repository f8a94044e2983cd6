/** \file ct_rules.h  Optimizer rules, element by element.  Layer 1.
 *
 * A rule is one inline function of (hyper-parameters, weight, gradient, states), shared by every
 * backend: each expands CT_RULE_LIST into loops over flat ranges.  Adding an optimizer is one function
 * and one row here, and its options in optim/. */
#ifndef CT_RULES_H
#define CT_RULES_H
#include <stdint.h>

/** X(NAME, function, number of float32 states per weight) */
#define CT_RULE_LIST(X) X(CT_RULE_SGD, ct_rule_sgd, 1)

typedef enum {
#define X(name, f, n) name,
  CT_RULE_LIST(X)
#undef X
      CT_RULE_COUNT
} ct_rule_t;

#define CT_RULE_STATES 2 /**< most states any rule has */

/** Numbers of one step, equal for a whole range of weights.  A rule uses what it needs. */
typedef struct ct_hyper {
  float lr, momentum, dampening, weight_decay;
  int nesterov;
  int64_t step; /**< from 1 */
} ct_hyper_t;

/** torch.optim.SGD: weight decay is added to the gradient; the momentum buffer starts as the first
 * gradient, undampened. */
static inline float ct_rule_sgd(const ct_hyper_t *h, float w, float g, float *s0, float *s1)
{
  (void)s1;
  g += h->weight_decay * w;
  if (h->momentum != 0) {
    float b = h->step == 1 ? g : h->momentum * *s0 + (1 - h->dampening) * g;
    *s0 = b;
    g = h->nesterov ? g + h->momentum * b : b;
  }
  return w - h->lr * g;
}

#endif
