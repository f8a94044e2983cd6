/** \file cases.h  The ops that every backend is tried with, as plain data. */
#ifndef CONFORM_CASES_H
#define CONFORM_CASES_H
#include "backend/ct_op.h"
#include "tests/conform/rig.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

typedef struct op_case {
  ct_op_desc_t desc;
  data_kind_t data;
  int big; /**< more than 8 MiB: large tensors may take other paths; few trials are enough */
} op_case_t;

/** Random data, and no attributes. */
void case_start(op_case_t *out, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y);
ct_shape_t case_shape(int ndim, const int dim[4]);

/** Case i into *out; 0 when there are no more. */
typedef int next_case_t(int i, op_case_t *out);

/** What a kind is tried with; lists end with NULL. */
typedef struct kind_cases {
  next_case_t *cases[4]; /**< compared with the reference, in every type */
  next_case_t *more[4];  /**< the same in float32 only */
  next_case_t *small[4]; /**< for central differences */
  void (*check)(void);   /**< CT_KIND_FLAT: instead of all these */
  int straight;          /**< its gradient passes over its steps: central differences do not */
  int may_lack;          /**< a backend may leave it out */
} kind_cases_t;
/** cases_<word> of each kind, in the file of its subject, and the same by kind. */
#define X(name, word, ...) extern const kind_cases_t cases_##word;
CT_OP_LIST(X)
#undef X
extern const kind_cases_t *const kind_cases[CT_OP_COUNT];

/** Those that other files want alone. */
next_case_t case_conv, case_conv3, case_linear, case_bnorm, case_relu, case_pool, case_pool3;
next_case_t case_adaptive, case_add, small_conv3, small_pool3;
/** Pooling drawn from a seed. */
next_case_t case_drawn_pool;

/** A descriptor of each kind that every backend computes, and i-th ones that none does, with words
 * of the reason. */
void sound_op(ct_op_kind_t kind, ct_op_desc_t *d);
int case_bad(int i, ct_op_desc_t *d, const char **words);

#endif
