/* Programs of elementwise functions: building, checks, and what their backward pass reads. */
#include "backend/ct_expr.h"

#include <string.h>

const ct_fn_facts_t *ct_fn_facts_of(int fn)
{
  static const ct_fn_facts_t facts[] = {
#define X(name, word, operands, commutes, a, b, c, flops) \
  {#word, operands, commutes, {a, b, c}, flops},
      CT_FN_LIST(X)
#undef X
          {.name = "unknown"}};
  return &facts[(unsigned)fn < CT_FN_COUNT ? fn : CT_FN_COUNT];
}

void ct_expr_init(ct_expr_t *e)
{
  memset(e, 0, sizeof *e);
}

int ct_expr_const(ct_expr_t *e, double v)
{
  for (int i = 0; i < e->consts; i++)
    if (memcmp(&e->value[i], &v, sizeof v) == 0) return CT_EXPR_CONST + i;
  if (e->consts == CT_EXPR_CONSTS) return CT_EXPR_FULL;
  e->value[e->consts] = v;
  return CT_EXPR_CONST + e->consts++;
}

int ct_expr_add(ct_expr_t *e, ct_fn_t fn, int a, int b, int c)
{
  const ct_fn_facts_t *f = ct_fn_facts_of((int)fn);
  const int of[3] = {a, b, c};
  ct_expr_step_t s = {.fn = (uint8_t)fn};
  for (int k = 0; k < f->operands; k++) {
    if (of[k] == CT_EXPR_FULL) return CT_EXPR_FULL;
    s.of[k] = (uint8_t)of[k];
  }
  if (f->commutes && s.of[0] > s.of[1]) {
    s.of[0] = (uint8_t)b;
    s.of[1] = (uint8_t)a;
  }
  for (int i = 0; i < e->steps; i++)
    if (memcmp(&e->step[i], &s, sizeof s) == 0) return CT_EXPR_STEP + i;
  if (e->steps == CT_EXPR_STEPS) return CT_EXPR_FULL;
  e->step[e->steps] = s;
  return CT_EXPR_STEP + e->steps++;
}

int ct_expr_append(ct_expr_t *e, const ct_expr_t *from, const int input[CT_EXPR_INPUTS])
{
  ct_expr_t whole = *e;
  int at[CT_EXPR_VALUES] = {input[0], input[1], input[2]}, last = CT_EXPR_FULL;
  for (int i = 0; i < from->consts; i++)
    at[CT_EXPR_CONST + i] = ct_expr_const(&whole, from->value[i]);
  for (int i = 0; i < from->steps; i++) {
    const ct_expr_step_t *s = &from->step[i];
    last = ct_expr_add(&whole, (ct_fn_t)s->fn, at[s->of[0]], at[s->of[1]], at[s->of[2]]);
    if (last == CT_EXPR_FULL) return CT_EXPR_FULL;
    at[CT_EXPR_STEP + i] = last;
  }
  memcpy(e, &whole, sizeof *e);
  return last;
}

/* Returns the reason why an operand of step i is invalid, or NULL. */
static const char *check_operand(const ct_expr_t *e, int i, int of, int inputs)
{
  if (of < CT_EXPR_CONST) return of < inputs ? NULL : "a step reads an input that is missing";
  if (of < CT_EXPR_STEP)
    return of - CT_EXPR_CONST < e->consts ? NULL : "a step reads a constant that is missing";
  return of - CT_EXPR_STEP < i ? NULL : "a step reads a later one";
}

/* Returns 1 if operand k of a function must be a constant: it has no gradient, but the function
 * depends on it smoothly. */
static int is_setting(const ct_fn_facts_t *f, int k)
{
  return k > 0 && f->reads[k] == CT_FN_FLAT && f->reads[0] != CT_FN_FLAT;
}

const char *ct_expr_check(const ct_expr_t *e, int inputs)
{
  uint32_t read = 0;
  if (e->steps < 1 || e->steps > CT_EXPR_STEPS) return "a program has 1 to 16 steps";
  if (e->consts < 0 || e->consts > CT_EXPR_CONSTS) return "a program has 0 to 8 constants";
  for (int i = 0; i < e->steps; i++) {
    const ct_expr_step_t *s = &e->step[i];
    if (s->fn >= CT_FN_COUNT) return "unknown function";
    const ct_fn_facts_t *f = ct_fn_facts_of(s->fn);
    for (int k = 0; k < f->operands; k++) {
      const char *reason = check_operand(e, i, s->of[k], inputs);
      if (reason) return reason;
      if (is_setting(f, k) && (s->of[k] < CT_EXPR_CONST || s->of[k] >= CT_EXPR_STEP))
        return "a setting of a function is not a constant";
      read |= 1u << s->of[k];
    }
  }
  for (int i = 0; i < e->steps - 1; i++)
    if (!(read >> (CT_EXPR_STEP + i) & 1)) return "the result of a step is not used";
  for (int k = 0; k < inputs; k++)
    if (!(read >> k & 1)) return "an input is not used";
  return NULL;
}

double ct_expr_flops(const ct_expr_t *e)
{
  double sum = 0;
  for (int i = 0; i < e->steps; i++)
    sum += ct_fn_facts_of(e->step[i].fn)->flops;
  return sum;
}

ct_expr_need_t ct_expr_needs(const ct_expr_t *e, unsigned inputs)
{
  ct_expr_need_t need = {.gradient = inputs};
  uint32_t reach = 1u << (CT_EXPR_STEP + e->steps - 1); /* results that y depends on smoothly */
  for (int i = 0; i < e->steps; i++) {
    const ct_expr_step_t *s = &e->step[i];
    const ct_fn_facts_t *f = ct_fn_facts_of(s->fn);
    for (int k = 0; k < f->operands; k++)
      if (f->reads[k] != CT_FN_FLAT && need.gradient >> s->of[k] & 1)
        need.gradient |= 1u << (CT_EXPR_STEP + i);
  }
  for (int i = e->steps - 1; i >= 0; i--) {
    const ct_expr_step_t *s = &e->step[i];
    const ct_fn_facts_t *f = ct_fn_facts_of(s->fn);
    uint32_t own = 1u << (CT_EXPR_STEP + i);
    if (!(reach & need.gradient & own)) continue;
    for (int k = 0; k < f->operands; k++) {
      if (f->reads[k] == CT_FN_FLAT || !(need.gradient >> s->of[k] & 1)) continue;
      reach |= 1u << s->of[k];
      for (int j = 0; j < 3; j++)
        if (f->reads[k] >> j & 1) need.value |= 1u << s->of[j];
      if (f->reads[k] & CT_FN_R) need.value |= own;
    }
  }
  need.gradient &= reach;
  for (int i = e->steps - 1; i >= 0; i--) {
    const ct_expr_step_t *s = &e->step[i];
    for (int k = 0; need.value >> (CT_EXPR_STEP + i) & 1 && k < ct_fn_facts_of(s->fn)->operands;
         k++)
      need.value |= 1u << s->of[k];
  }
  return need;
}
