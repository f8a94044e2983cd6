/* Test cases of elementwise programs: every function, every pattern of broadcasting, chains; and of
 * random numbers.  See cases.c. */
#include "tests/conform/cases.h"

#include <math.h>

/* ---- programs ---- */

/* What a function's operands are made of: it may be defined for some numbers only. */
typedef enum { ANY, ABOVE_ONE /* sigmoid(v) + 1 */, IN_UNIT /* 0.6 tanh(v) */ } domain_t;

static domain_t domain_of(ct_fn_t fn, int operand)
{
  switch (fn) {
  case CT_FN_LOG:
  case CT_FN_SQRT:
  case CT_FN_RSQRT:
  case CT_FN_LOG1P:
    return ABOVE_ONE;
  case CT_FN_POW:
    return operand == 0 ? ABOVE_ONE : ANY;
  case CT_FN_DIV:
  case CT_FN_FMOD:
    return operand == 1 ? ABOVE_ONE : ANY;
  case CT_FN_ATAN2:
    return operand == 1 ? ABOVE_ONE : ANY;
  case CT_FN_ASIN:
  case CT_FN_ACOS:
  case CT_FN_TAN:
    return IN_UNIT;
  default:
    return ANY;
  }
}

static int within(ct_expr_t *e, domain_t domain, int v)
{
  if (domain == ABOVE_ONE)
    return ct_expr_add(e, CT_FN_ADD, ct_expr_add(e, CT_FN_SIGMOID, v, 0, 0), ct_expr_const(e, 1),
                       0);
  if (domain == IN_UNIT)
    return ct_expr_add(e, CT_FN_MUL, ct_expr_add(e, CT_FN_TANH, v, 0, 0), ct_expr_const(e, 0.6), 0);
  return v;
}

/* Returns a number for operand k of a function; kinks lie between the values of DATA_SPREAD. */
static double setting_of(ct_fn_t fn, int k)
{
  switch (fn) {
  case CT_FN_CLAMP:
  case CT_FN_HARDTANH:
    return k == 1 ? -0.45 : 0.85;
  case CT_FN_SOFTPLUS:
    return k == 1 ? 1.5 : 2.1;
  case CT_FN_THRESHOLD:
    return k == 1 ? 0.25 : -0.7;
  default:
    return 0.45;
  }
}

/* Returns 1 if operand k is a number, not a tensor. */
static int is_number(const ct_fn_facts_t *f, int k)
{
  return k > 0 && f->reads[0] != CT_FN_FLAT && f->reads[k] == CT_FN_FLAT;
}

/* Makes the program of one function; its tensors are inputs 0, 1, 2.  Functions without a gradient
 * get one: their result is multiplied by the first input. */
static void program_of(ct_fn_t fn, ct_expr_t *e)
{
  const ct_fn_facts_t *f = ct_fn_facts_of((int)fn);
  int of[3] = {0, 0, 0};
  for (int k = 0; k < f->operands; k++)
    of[k] = is_number(f, k) ? ct_expr_const(e, setting_of(fn, k)) : within(e, domain_of(fn, k), k);
  int last = ct_expr_add(e, fn, of[0], of[1], of[2]);
  int flat = 1;
  for (int k = 0; k < f->operands; k++)
    flat &= f->reads[k] == CT_FN_FLAT;
  if (flat) ct_expr_add(e, CT_FN_MUL, 0, last, 0);
}

static int tensors_of(ct_fn_t fn)
{
  const ct_fn_facts_t *f = ct_fn_facts_of((int)fn);
  int n = 0;
  for (int k = 0; k < f->operands; k++)
    n += !is_number(f, k);
  return n;
}

static int is_of_ties(ct_fn_t fn)
{
  return fn == CT_FN_MINIMUM || fn == CT_FN_MAXIMUM || (fn >= CT_FN_EQ && fn <= CT_FN_NOT) ||
         fn == CT_FN_WHERE || fn == CT_FN_ROUND || fn == CT_FN_FLOOR || fn == CT_FN_CEIL ||
         fn == CT_FN_SIGN;
}

static void make_function(ct_fn_t fn, const ct_shape_t *x, op_case_t *out)
{
  int n = tensors_of(fn);
  case_start(out, CT_OP_EXPR, x, x);
  ct_op_desc_more(&out->desc, n > 1 ? x : NULL, n > 2 ? x : NULL);
  program_of(fn, &out->desc.u.expr);
  if (is_of_ties(fn)) out->data = DATA_TIES;
}

/* Every function, in sizes below, at and above a block. */
static int case_functions(int i, op_case_t *out)
{
  const ct_shape_t shapes[] = {ct_shape(4, 2, 3, 5, 7), ct_shape(2, 3, 1040)};
  if (i >= 2 * CT_FN_COUNT) return 0;
  make_function((ct_fn_t)(i / 2), &shapes[i % 2], out);
  return 1;
}

/* ---- broadcasting ---- */

typedef struct cast_row {
  int dims[4]; /* of y, x, x2, x3; 0: no such input */
  int y[6], x[6], x2[6], x3[6];
} cast_row_t;

static ct_shape_t shape_of(int ndim, const int dim[6])
{
  return ct_shape(ndim, dim[0], dim[1], dim[2], dim[3], dim[4], dim[5], 1, 1);
}

/* y = x sigmoid(x2) + x3 x2, or a part of it */
static void mixed_program(ct_expr_t *e, int inputs)
{
  int v = ct_expr_add(e, CT_FN_MUL, 0, ct_expr_add(e, CT_FN_SIGMOID, inputs > 1, 0, 0), 0);
  if (inputs > 2) ct_expr_add(e, CT_FN_ADD, v, ct_expr_add(e, CT_FN_MUL, 1, 2, 0), 0);
}

static int case_broadcast(int i, op_case_t *out)
{
  static const cast_row_t rows[] = {
      {{4, 4, 3, 0}, {2, 32, 5, 6}, {2, 32, 5, 6}, {32, 1, 1}, {0}},             /* channels */
      {{4, 4, 4, 0}, {3, 16, 7, 7}, {3, 16, 7, 7}, {3, 16, 1, 1}, {0}},          /* a gate */
      {{4, 4, 4, 4}, {2, 16, 4, 5}, {2, 16, 4, 5}, {2, 1, 4, 5}, {1, 16, 1, 1}}, /* both ways */
      {{4, 4, 1, 1}, {2, 20, 3, 3}, {2, 20, 3, 3}, {1}, {3}},                    /* 20 channels */
      {{4, 3, 4, 0}, {2, 48, 6, 2}, {48, 6, 2}, {2, 48, 6, 2}, {0}},
      {{3, 3, 1, 0}, {3, 50, 70}, {3, 50, 70}, {70}, {0}},       /* a row */
      {{3, 3, 3, 1}, {4, 17, 33}, {1, 17, 33}, {4, 1, 33}, {1}}, /* an outer product */
      {{3, 1, 3, 0}, {5, 9, 130}, {1}, {5, 9, 130}, {0}},        /* a scalar */
      {{2, 2, 2, 0}, {70, 40}, {70, 1}, {1, 40}, {0}},           /* outer */
      {{2, 2, 2, 0}, {1, 5000}, {1, 5000}, {1, 1}, {0}},
      {{6, 6, 4, 6}, {2, 3, 4, 2, 3, 5}, {2, 3, 4, 2, 3, 5}, {4, 1, 3, 1}, {2, 1, 1, 2, 1, 5}},
      {{3, 3, 3, 0}, {8, 80, 100}, {8, 80, 100}, {1, 80, 100}, {0}}, /* sums of few elements */
      {{3, 3, 2, 0}, {1, 3, 3000}, {1, 3, 3000}, {3, 1}, {0}},
      {{5, 5, 4, 0}, {2, 16, 2, 3, 4}, {2, 16, 2, 3, 4}, {16, 1, 1, 1}, {0}},
      {{1, 1, 1, 0}, {37}, {37}, {37}, {0}},
      {{3, 3, 1, 0}, {300, 20, 3}, {300, 20, 3}, {3}, {0}}, /* short rows */
      {{3, 3, 3, 0}, {0, 4, 6}, {0, 4, 6}, {1, 4, 1}, {0}}, /* an empty batch */
      {{3, 3, 3, 0}, {0, 4, 6}, {0, 1, 6}, {0, 4, 1}, {0}}, /* in all inputs */
      {{4, 4, 0, 0}, {3, 7, 5, 5}, {3, 7, 5, 5}, {0}, {0}},
  };
  if (i >= 3 * COUNT(rows)) return 0;
  const cast_row_t *r = &rows[i / 3];
  ct_shape_t y = shape_of(r->dims[0], r->y), x = shape_of(r->dims[1], r->x);
  ct_shape_t x2 = shape_of(r->dims[2], r->x2), x3 = shape_of(r->dims[3], r->x3);
  int inputs = 1 + (r->dims[2] > 0) + (r->dims[3] > 0);
  case_start(out, CT_OP_EXPR, &x, &y);
  ct_op_desc_more(&out->desc, inputs > 1 ? &x2 : NULL, inputs > 2 ? &x3 : NULL);
  mixed_program(&out->desc.u.expr, inputs);
  out->desc.u.expr.weight = i % 3 < inputs ? i % 3 : 0; /* the last inputs as parameters */
  return 1;
}

/* ---- chains, and programs with special cases ---- */

/* x silu(x) x2 + x3 - 2 in as many steps as fit */
static void long_program(ct_expr_t *e)
{
  int v = ct_expr_add(e, CT_FN_SILU, 0, 0, 0);
  for (int i = 0; e->steps < CT_EXPR_STEPS - 2; i++)
    v = ct_expr_add(e, i % 2 ? CT_FN_TANH : CT_FN_ADD, v, i % 4 < 2 ? 1 : 0, 0);
  v = ct_expr_add(e, CT_FN_ADD, v, 2, 0);
  ct_expr_add(e, CT_FN_SUB, v, ct_expr_const(e, 2), 0);
}

/* where(x < 0, -inf, x) would give 0 * inf in sums of products: here min(where(...), 5) */
static void masked_program(ct_expr_t *e)
{
  int mask = ct_expr_add(e, CT_FN_LT, 0, ct_expr_const(e, 0), 0);
  int v = ct_expr_add(e, CT_FN_WHERE, mask, ct_expr_const(e, -INFINITY), 1);
  ct_expr_add(e, CT_FN_MAXIMUM, v, ct_expr_const(e, -5), 0);
}

static int case_chains(int i, op_case_t *out)
{
  ct_shape_t x = ct_shape(4, 2, 16, 3, 5), gate = ct_shape(4, 2, 16, 1, 1);
  case_start(out, CT_OP_EXPR, &x, &x);
  ct_expr_t *e = &out->desc.u.expr;
  switch (i) {
  case 0:
    ct_op_desc_more(&out->desc, &gate, &x);
    long_program(e);
    break;
  case 1:
    ct_op_desc_more(&out->desc, &x, NULL);
    masked_program(e);
    break;
  case 2: /* an operand twice */
    ct_expr_add(e, CT_FN_MUL, ct_expr_add(e, CT_FN_MUL, 0, 0, 0), 0, 0);
    break;
  case 3: /* linear: backward reads no input */
    ct_op_desc_more(&out->desc, &gate, NULL);
    ct_expr_add(e, CT_FN_SUB, ct_expr_add(e, CT_FN_MUL, 0, ct_expr_const(e, 3), 0), 1, 0);
    break;
  case 4: /* an input without gradient */
    ct_op_desc_more(&out->desc, &gate, NULL);
    ct_expr_add(e, CT_FN_MUL, 0, ct_expr_add(e, CT_FN_GT, 1, ct_expr_const(e, 0.1), 0), 0);
    break;
  default:
    return 0;
  }
  return 1;
}

/* Larger than the caches and than the limit of non-temporal stores. */
static int case_large(int i, op_case_t *out)
{
  ct_shape_t x = ct_shape(4, 4, 64, 100, 100), gate = ct_shape(4, 4, 64, 1, 1);
  ct_shape_t row = ct_shape(1, 100);
  case_start(out, CT_OP_EXPR, &x, &x);
  ct_op_desc_more(&out->desc, i ? &row : &gate, &x);
  mixed_program(&out->desc.u.expr, 3);
  return i < 2;
}

/* ---- for central differences ---- */

/* Functions of two tensors with kinks where both are equal, and functions that jump. */
static int has_free_kinks(ct_fn_t fn)
{
  return is_of_ties(fn) || fn == CT_FN_FMOD || fn == CT_FN_PRELU;
}

/* x f(x / 10 + 0.3, 2), which has no kink near */
static void far_program(ct_fn_t fn, ct_expr_t *e)
{
  int tenth = ct_expr_add(e, CT_FN_MUL, 0, ct_expr_const(e, 0.1), 0);
  int v = ct_expr_add(e, CT_FN_ADD, tenth, ct_expr_const(e, 0.3), 0);
  ct_expr_add(e, CT_FN_MUL, 0, ct_expr_add(e, fn, v, ct_expr_const(e, 2), v), 0);
}

static int small_functions(int i, op_case_t *out)
{
  ct_shape_t x = ct_shape(2, 3, 4);
  if (i >= CT_FN_COUNT) return 0;
  ct_fn_t fn = i == CT_FN_DETACH ? CT_FN_ADD : (ct_fn_t)i; /* its gradient is not its slope */
  if (has_free_kinks(fn)) {
    case_start(out, CT_OP_EXPR, &x, &x);
    far_program(fn, &out->desc.u.expr);
  } else {
    make_function(fn, &x, out);
  }
  out->data = DATA_SPREAD;
  return 1;
}

/* Chains without kinks. */
static int small_chains(int i, op_case_t *out)
{
  static const int which[] = {0, 2, 3};
  return i < COUNT(which) && case_chains(which[i], out);
}

static int small_broadcast(int i, op_case_t *out)
{
  const ct_shape_t y = ct_shape(4, 2, 3, 2, 2);
  const ct_shape_t others[] = {ct_shape(3, 3, 1, 1), ct_shape(4, 2, 3, 1, 1), ct_shape(1, 2),
                               ct_shape(4, 1, 3, 2, 1), ct_shape(1, 1)};
  if (i >= 4 * COUNT(others)) return 0;
  case_start(out, CT_OP_EXPR, &y, &y);
  ct_op_desc_more(&out->desc, &others[i / 4], i % 2 ? &others[(i / 4 + 1) % COUNT(others)] : NULL);
  mixed_program(&out->desc.u.expr, 2 + i % 2);
  out->desc.u.expr.weight = (i + i / 4) % 4 < 2 + i % 2 ? (i + i / 4) % 4 : 0;
  return 1;
}

const kind_cases_t cases_expr = {.cases = {case_broadcast, case_functions, case_chains},
                                 .more = {case_large},
                                 .small = {small_functions, small_broadcast, small_chains}};

static int case_random(int i, op_case_t *out)
{
  const ct_shape_t rows[] = {ct_shape(2, 3, 5), ct_shape(4, 12, 3, 8, 8), ct_shape(1, 7),
                             ct_shape(3, 2, 300, 31)};
  if (i >= 3 * COUNT(rows)) return 0;
  case_start(out, CT_OP_RANDOM, &rows[i / 3], &rows[i / 3]);
  out->desc.u.random.kind = (ct_random_t)(i % 3);
  out->desc.u.random.p = 0.3;
  out->desc.u.random.layer = (uint32_t)i;
  out->desc.u.random.rows = i / 3 == 1 ? 4 : 0;
  return 1;
}

const kind_cases_t cases_random = {.cases = {case_random}, .straight = 1};
