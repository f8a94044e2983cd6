/* Drawn elementwise programs, and random numbers. */
#include "tests/conform/draw_sizes.h"

/* Draws an input that is broadcast to y. */
static ct_shape_t draw_smaller(dice_t *d, const ct_shape_t *y)
{
  ct_shape_t s = *y;
  int more = dice_is(d, 60) ? 0 : (int)dice_throw(d, 0, y->ndim - 1), any = dice_is(d, 60);
  s.ndim -= more;
  for (int i = 0; i < CT_MAX_DIMS; i++)
    s.dim[i] = i < s.ndim && !(any && dice_is(d, 50)) ? y->dim[i + more] : 1;
  return s;
}

/* Draws the next step of a chain: a function of v and, if it has two operands, of w. */
static int draw_step(dice_t *d, ct_expr_t *e, int v, int w)
{
  static const ct_fn_t of_one[] = {CT_FN_SIGMOID, CT_FN_TANH, CT_FN_SILU, CT_FN_GELU,
                                   CT_FN_RELU,    CT_FN_SIN,  CT_FN_ATAN, CT_FN_MISH,
                                   CT_FN_ERF,     CT_FN_ABS,  CT_FN_COS,  CT_FN_LOGSIGMOID};
  static const ct_fn_t of_two[] = {CT_FN_ADD,     CT_FN_SUB,     CT_FN_ADD,
                                   CT_FN_MAXIMUM, CT_FN_MINIMUM, CT_FN_MUL};
  if (dice_is(d, 45)) return ct_expr_add(e, of_one[dice_throw(d, 0, 11)], v, 0, 0);
  ct_fn_t fn = of_two[dice_throw(d, 0, 5)];
  if (fn == CT_FN_MUL) w = ct_expr_add(e, CT_FN_TANH, w, 0, 0); /* keeps the numbers small */
  return dice_is(d, 50) ? ct_expr_add(e, fn, v, w, 0) : ct_expr_add(e, fn, w, v, 0);
}

static void draw_program(dice_t *d, ct_expr_t *e, int inputs)
{
  int steps = (int)dice_throw(d, 0, 6), v = 0;
  for (int i = 0; i < steps; i++) {
    int w = dice_is(d, 20) ? ct_expr_const(e, 0.25 * (double)dice_throw(d, -8, 8))
                           : (int)dice_throw(d, 0, inputs - 1);
    v = draw_step(d, e, v, w);
  }
  for (int k = 1; k < inputs; k++) /* each input is used */
    v = ct_expr_add(e, CT_FN_ADD, v, ct_expr_add(e, CT_FN_SIN, k, 0, 0), 0);
  ct_expr_add(e, CT_FN_MUL, v, 0, 0);
}

void draw_expr(dice_t *d, op_case_t *c)
{
  ct_shape_t y = draw_any(d), x2, x3;
  int inputs = (int)dice_throw(d, 1, 3), first = dice_is(d, 70);
  if (dice_is(d, 15))
    y = ct_shape(6, draw_batch(d), dice_throw(d, 1, 4), dice_throw(d, 1, 3), dice_throw(d, 1, 4),
                 dice_throw(d, 1, 3), dice_throw(d, 1, 5));
  ct_shape_t x = first || inputs == 1 ? y : draw_smaller(d, &y);
  x2 = first ? draw_smaller(d, &y) : y;
  x3 = draw_smaller(d, &y);
  draw_start(c, CT_OP_EXPR, x, y);
  ct_op_desc_more(&c->desc, inputs > 1 ? &x2 : NULL, inputs > 2 ? &x3 : NULL);
  draw_program(d, &c->desc.u.expr, inputs);
  c->desc.u.expr.weight = dice_is(d, 20) ? (int)dice_throw(d, 0, inputs - 1) : 0;
}

void draw_random(dice_t *d, op_case_t *c)
{
  ct_shape_t x = draw_any(d);
  draw_start(c, CT_OP_RANDOM, x, x);
  c->desc.u.random.kind = (ct_random_t)dice_throw(d, 0, CT_RANDOM_COUNT - 1);
  c->desc.u.random.p = 0.01 * (double)dice_throw(d, 0, 100);
  c->desc.u.random.layer = (uint32_t)dice_throw(d, 0, 1000);
}
