/** \file cases.h  The ops on which every backend is tested, as plain data. */
#ifndef CONFORM_CASES_H
#define CONFORM_CASES_H
#include "backend/ct_op.h"
#include "tests/conform/rig.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

typedef struct op_case {
  ct_op_desc_t desc;
  data_kind_t data;
  int big; /**< 1: larger than 8 MiB. Large tensors may take other code paths; they get fewer
                trials. */
} op_case_t;

/** Starts a case with random data and default attributes. */
void case_start(op_case_t *out, ct_op_kind_t kind, const ct_shape_t *x, const ct_shape_t *y);
ct_shape_t case_shape(int ndim, const int dim[4]);

/** Writes case i into *out; returns 0 when there are no more. */
typedef int next_case_t(int i, op_case_t *out);

/** Test cases of one kind of op; each list ends with NULL. */
typedef struct kind_cases {
  next_case_t *cases[4]; /**< compared with the reference, in every type */
  next_case_t *more[4];  /**< compared with the reference in float32 only */
  next_case_t *small[4]; /**< for central differences */
  void (*check)(void);   /**< runs after the lists; CT_KIND_FLAT has no lists */
  int straight;          /**< 1: a straight-through gradient, to which central differences do not
                              apply */
  int may_lack;          /**< 1: a backend need not support it */
} kind_cases_t;
/** cases_<word> of each kind; defined in the file of its subject. kind_cases lists them by kind. */
#define X(name, word, ...) extern const kind_cases_t cases_##word;
CT_OP_LIST(X)
#undef X
extern const kind_cases_t *const kind_cases[CT_OP_COUNT];

/** Lists that other files use alone. */
next_case_t case_conv, case_conv3, case_linear, case_bnorm, case_relu, case_pool, case_pool3;
next_case_t case_adaptive, case_add, small_conv3, small_pool3, case_free_pool, small_free_pool;
/** Pooling cases drawn from a seed. */
next_case_t case_drawn_pool;

/** sound_op(): a descriptor of a kind that every backend supports. case_bad(): the i-th descriptor
 * that none supports, and words of the error text. */
void sound_op(ct_op_kind_t kind, ct_op_desc_t *d);
int case_bad(int i, ct_op_desc_t *d, const char **words);

#endif
