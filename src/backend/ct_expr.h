/** \file ct_expr.h  Programs of elementwise functions, as plain data.  Layer 1.
 *
 * A program computes an element of y from the elements of up to three inputs at the same place,
 * in a few steps.  Each step applies a function to inputs, constants and results of earlier steps;
 * the result of the last step is y.  A step is one row of the list below; a backend gives each
 * function its formula and that of its gradients.
 *
 * Programs are built by ct_expr_const() and ct_expr_add(), which store equal constants and equal
 * steps once and sort the operands of commutative functions, so that programs that are built alike
 * are equal byte by byte. */
#ifndef CT_EXPR_H
#define CT_EXPR_H
#include <stddef.h>

#include "base/ct_types.h"

/** What the gradient of a function with respect to an operand reads, a bit set: the operands a, b,
 * c and the result r.  FLAT: the gradient is zero, or not computed. */
enum { CT_FN_A = 1, CT_FN_B = 2, CT_FN_C = 4, CT_FN_R = 8, CT_FN_FLAT = 16 };

/** All functions, named and defined as in PyTorch, in special cases too (NaN stays NaN; the
 * gradients at kinks are PyTorch's): X(NAME, word, number of operands, 1 if commutative, what the
 * gradients with respect to a, b and c read, operations).
 *
 * Comparisons and logical functions return 0 or 1.  where(a, b, c): b where a is not 0, else c. */
#define CT_FN_LIST(X)                                                                       \
  X(CT_FN_ADD, add, 2, 1, 0, 0, CT_FN_FLAT, 1)                                              \
  X(CT_FN_SUB, sub, 2, 0, 0, 0, CT_FN_FLAT, 1)                                              \
  X(CT_FN_MUL, mul, 2, 1, CT_FN_B, CT_FN_A, CT_FN_FLAT, 1)                                  \
  X(CT_FN_DIV, div, 2, 0, CT_FN_B, CT_FN_B | CT_FN_R, CT_FN_FLAT, 1)                        \
  X(CT_FN_POW, pow, 2, 0, CT_FN_A | CT_FN_B, CT_FN_A | CT_FN_B | CT_FN_R, CT_FN_FLAT, 8)    \
  X(CT_FN_MINIMUM, minimum, 2, 1, CT_FN_A | CT_FN_B, CT_FN_A | CT_FN_B, CT_FN_FLAT, 1)      \
  X(CT_FN_MAXIMUM, maximum, 2, 1, CT_FN_A | CT_FN_B, CT_FN_A | CT_FN_B, CT_FN_FLAT, 1)      \
  X(CT_FN_EQ, eq, 2, 1, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                              \
  X(CT_FN_NE, ne, 2, 1, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                              \
  X(CT_FN_LT, lt, 2, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                              \
  X(CT_FN_LE, le, 2, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                              \
  X(CT_FN_GT, gt, 2, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                              \
  X(CT_FN_GE, ge, 2, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                              \
  X(CT_FN_AND, logical_and, 2, 1, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                    \
  X(CT_FN_OR, logical_or, 2, 1, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                      \
  X(CT_FN_NOT, logical_not, 1, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                    \
  X(CT_FN_ATAN2, atan2, 2, 0, CT_FN_A | CT_FN_B, CT_FN_A | CT_FN_B, CT_FN_FLAT, 8)          \
  X(CT_FN_FMOD, fmod, 2, 0, 0, CT_FN_A | CT_FN_B, CT_FN_FLAT, 4)                            \
  X(CT_FN_WHERE, where, 3, 0, CT_FN_FLAT, CT_FN_A, CT_FN_A, 1)                              \
  /* min(max(x, lower), upper); its gradient is 0 at the bounds and for NaN */              \
  X(CT_FN_CLAMP, clamp, 3, 0, CT_FN_A | CT_FN_B | CT_FN_C, CT_FN_FLAT, CT_FN_FLAT, 2)       \
  /* the same, but its gradient passes for NaN */                                           \
  X(CT_FN_HARDTANH, hardtanh, 3, 0, CT_FN_A | CT_FN_B | CT_FN_C, CT_FN_FLAT, CT_FN_FLAT, 2) \
  /* x if x > threshold, else value */                                                      \
  X(CT_FN_THRESHOLD, threshold, 3, 0, CT_FN_A | CT_FN_B, CT_FN_FLAT, CT_FN_FLAT, 1)         \
  X(CT_FN_HARDSHRINK, hardshrink, 2, 0, CT_FN_A | CT_FN_B, CT_FN_FLAT, CT_FN_FLAT, 2)       \
  X(CT_FN_SOFTSHRINK, softshrink, 2, 0, CT_FN_A | CT_FN_B, CT_FN_FLAT, CT_FN_FLAT, 2)       \
  /* log(1 + exp(beta x)) / beta; x if beta x > threshold */                                \
  X(CT_FN_SOFTPLUS, softplus, 3, 0, CT_FN_A | CT_FN_B | CT_FN_C, CT_FN_FLAT, CT_FN_FLAT, 8) \
  X(CT_FN_ELU, elu, 2, 0, CT_FN_A | CT_FN_B, CT_FN_FLAT, CT_FN_FLAT, 4)                     \
  X(CT_FN_LEAKY_RELU, leaky_relu, 2, 0, CT_FN_A | CT_FN_B, CT_FN_FLAT, CT_FN_FLAT, 1)       \
  /* a > 0 ? a : b a; the gradient of b is a where a <= 0 */                                \
  X(CT_FN_PRELU, prelu, 2, 0, CT_FN_A | CT_FN_B, CT_FN_A, CT_FN_FLAT, 1)                    \
  X(CT_FN_RELU, relu, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 1)                             \
  X(CT_FN_GELU, gelu, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                             \
  X(CT_FN_GELU_TANH, gelu_tanh, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 8)                   \
  X(CT_FN_SIGMOID, sigmoid, 1, 0, CT_FN_R, CT_FN_FLAT, CT_FN_FLAT, 4)                       \
  X(CT_FN_TANH, tanh, 1, 0, CT_FN_R, CT_FN_FLAT, CT_FN_FLAT, 4)                             \
  X(CT_FN_SILU, silu, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                             \
  X(CT_FN_MISH, mish, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 8)                             \
  X(CT_FN_LOGSIGMOID, logsigmoid, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 8)                 \
  X(CT_FN_HARDSWISH, hardswish, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                   \
  X(CT_FN_EXP, exp, 1, 0, CT_FN_R, CT_FN_FLAT, CT_FN_FLAT, 4)                               \
  X(CT_FN_EXPM1, expm1, 1, 0, CT_FN_R, CT_FN_FLAT, CT_FN_FLAT, 4)                           \
  X(CT_FN_LOG, log, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                               \
  X(CT_FN_LOG1P, log1p, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                           \
  X(CT_FN_SIN, sin, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                               \
  X(CT_FN_COS, cos, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                               \
  X(CT_FN_TAN, tan, 1, 0, CT_FN_R, CT_FN_FLAT, CT_FN_FLAT, 4)                               \
  X(CT_FN_ASIN, asin, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                             \
  X(CT_FN_ACOS, acos, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                             \
  X(CT_FN_ATAN, atan, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                             \
  X(CT_FN_SINH, sinh, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                             \
  X(CT_FN_COSH, cosh, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)                             \
  X(CT_FN_SQRT, sqrt, 1, 0, CT_FN_R, CT_FN_FLAT, CT_FN_FLAT, 1)                             \
  X(CT_FN_RSQRT, rsqrt, 1, 0, CT_FN_R, CT_FN_FLAT, CT_FN_FLAT, 2)                           \
  X(CT_FN_ABS, abs, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 1)                               \
  X(CT_FN_SIGN, sign, 1, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                          \
  X(CT_FN_FLOOR, floor, 1, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                        \
  X(CT_FN_CEIL, ceil, 1, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                          \
  X(CT_FN_ROUND, round, 1, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                        \
  /* x, through which no gradient passes */                                                 \
  X(CT_FN_DETACH, detach, 1, 0, CT_FN_FLAT, CT_FN_FLAT, CT_FN_FLAT, 1)                      \
  X(CT_FN_ERF, erf, 1, 0, CT_FN_A, CT_FN_FLAT, CT_FN_FLAT, 4)

typedef enum {
#define X(name, ...) name,
  CT_FN_LIST(X)
#undef X
} ct_fn_t;

/** Numbers of functions, inputs, constants and steps; and the first operand number of each kind: an
 * operand is the input k, the constant CT_EXPR_CONST + k, or the result CT_EXPR_STEP + k. */
enum {
#define X(...) +1
  CT_FN_COUNT = CT_FN_LIST(X),
#undef X
  CT_EXPR_INPUTS = 3,
  CT_EXPR_CONSTS = 8,
  CT_EXPR_STEPS = 16,
  CT_EXPR_CONST = CT_EXPR_INPUTS,
  CT_EXPR_STEP = CT_EXPR_CONST + CT_EXPR_CONSTS,
  CT_EXPR_VALUES = CT_EXPR_STEP + CT_EXPR_STEPS, /**< number of operand numbers */
  CT_EXPR_FULL = 255                             /**< no operand: the program is full */
};

typedef struct ct_expr_step {
  uint8_t fn;    /**< ct_fn_t */
  uint8_t of[3]; /**< operands; 0 beyond the function's number of operands */
} ct_expr_step_t;

typedef struct ct_expr {
  double value[CT_EXPR_CONSTS];
  ct_expr_step_t step[CT_EXPR_STEPS];
  int consts, steps;
  int weight; /**< 1: the second input is the parameter w[0], float32 in any case, and the
                   descriptor's x2 its shape; 2: also the third input is one, w[1], with x3 */
  int unused; /**< 0 */
} ct_expr_t;

/** Properties of a function: its row of CT_FN_LIST. */
typedef struct ct_fn_facts {
  const char *name;
  int operands, commutes;
  int reads[3]; /**< per operand: CT_FN_A | … */
  double flops;
} ct_fn_facts_t;
/** Returns the properties of a function; the name for an invalid one is "unknown". */
const ct_fn_facts_t *ct_fn_facts_of(int fn);

/** Starts a program: zeroes all bytes. */
void ct_expr_init(ct_expr_t *e);
/** Returns the operand for a constant, which it adds if it is new; CT_EXPR_FULL: no room. */
int ct_expr_const(ct_expr_t *e, double v);
/** Adds a step, unless an equal one exists.  Operands beyond the function's number are ignored.
 * Returns the operand for its result; CT_EXPR_FULL: no room, or an operand is CT_EXPR_FULL. */
int ct_expr_add(ct_expr_t *e, ct_fn_t fn, int a, int b, int c);
/** Appends the steps of \a from.  \a input[k]: operand of e that replaces input k.  Returns the
 * operand for the result; CT_EXPR_FULL: no room, and e is as before. */
int ct_expr_append(ct_expr_t *e, const ct_expr_t *from, const int input[CT_EXPR_INPUTS]);
/** Returns NULL if the program is valid for \a inputs inputs, else the reason. */
const char *ct_expr_check(const ct_expr_t *e, int inputs);
/** Returns the operations per element. */
double ct_expr_flops(const ct_expr_t *e);

/** What a backward pass of a program has to do, for a set of inputs.  Bit sets over operand
 * numbers. */
typedef struct ct_expr_need {
  uint32_t gradient; /**< inputs and results whose gradient is computed */
  uint32_t value;    /**< inputs and results whose value is read or computed on the way */
} ct_expr_need_t;
/** \a inputs: bit k is set if the gradient of input k is wanted. */
ct_expr_need_t ct_expr_needs(const ct_expr_t *e, unsigned inputs);

#endif
