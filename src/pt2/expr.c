/* Whole numbers of a program.  PyTorch writes those that depend on the batch size as the text of a
 * sympy expression, such as "Mul(Integer(12), Symbol('s77', positive=True, integer=True))".  An
 * expression is evaluated to a * N + b; any other form is unclear, which is an error only where the
 * number is needed. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "pt2/pt2.h"

enum { MOST_DEPTH = 32, MOST_NAME = 32 };

/* a * N + b */
typedef struct linear {
  int64_t a, b;
  int clear;
} linear_t;

static const linear_t unclear = {0};

typedef struct expr {
  const char *at;
  ct__pt2_t *p;
  int choose; /* 1: the first symbol becomes N */
  int broken; /* 1: not an expression */
} expr_t;

static linear_t expr_number(int64_t n)
{
  return (linear_t){0, n, 1};
}

static void skip_blanks(expr_t *e)
{
  while (*e->at == ' ')
    e->at++;
}

static int expr_take(expr_t *e, char c)
{
  skip_blanks(e);
  if (*e->at != c) return 0;
  e->at++;
  return 1;
}

/* ---- operations ---- */

static linear_t expr_add(linear_t x, linear_t y)
{
  linear_t z = {.clear = x.clear && y.clear};
  if (__builtin_add_overflow(x.a, y.a, &z.a) || __builtin_add_overflow(x.b, y.b, &z.b)) z.clear = 0;
  return z;
}

static linear_t expr_mul(linear_t x, linear_t y)
{
  linear_t z = {.clear = x.clear && y.clear && (x.a == 0 || y.a == 0)};
  if (x.a == 0) { /* make y the number */
    linear_t swap = x;
    x = y;
    y = swap;
  }
  if (__builtin_mul_overflow(x.a, y.b, &z.a) || __builtin_mul_overflow(x.b, y.b, &z.b)) z.clear = 0;
  return z;
}

/* Division without a remainder for every N; or of numbers, rounded down. */
static linear_t expr_div(linear_t x, linear_t y)
{
  if (!x.clear || !y.clear || y.a != 0 || y.b <= 0) return unclear;
  if (x.a == 0 && x.b >= 0) return expr_number(x.b / y.b);
  if (x.a % y.b != 0 || x.b % y.b != 0) return unclear;
  return (linear_t){x.a / y.b, x.b / y.b, 1};
}

static linear_t expr_mod(linear_t x, linear_t y)
{
  if (!x.clear || !y.clear || y.a != 0 || y.b <= 0 || x.a % y.b != 0 || x.b < 0) return unclear;
  return expr_number(x.b % y.b);
}

static linear_t expr_extreme(linear_t x, linear_t y, int greatest)
{
  if (!x.clear || !y.clear || x.a != y.a) return unclear;
  return (x.b < y.b) == greatest ? y : x;
}

static linear_t expr_apply(const char *name, linear_t x, linear_t y)
{
  if (strcmp(name, "Mul") == 0) return expr_mul(x, y);
  if (strcmp(name, "Add") == 0) return expr_add(x, y);
  if (strcmp(name, "FloorDiv") == 0 || strcmp(name, "CleanDiv") == 0) return expr_div(x, y);
  if (strcmp(name, "Mod") == 0 || strcmp(name, "PythonMod") == 0) return expr_mod(x, y);
  if (strcmp(name, "Max") == 0) return expr_extreme(x, y, 1);
  if (strcmp(name, "Min") == 0) return expr_extreme(x, y, 0);
  return unclear;
}

/* ---- the text ---- */

static linear_t take_number(expr_t *e)
{
  int64_t n = 0;
  int minus = expr_take(e, '-'), clear = 1;
  skip_blanks(e);
  if (!isdigit((unsigned char)*e->at)) e->broken = 1;
  for (; isdigit((unsigned char)*e->at); e->at++)
    if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *e->at - '0', &n)) clear = 0;
  if (*e->at == '.' || *e->at == 'e') e->broken = 1;
  return (linear_t){0, minus ? -n : n, clear};
}

/* The symbol with these n characters. */
static linear_t take_symbol(expr_t *e, const char *name, size_t n)
{
  char *symbol = e->p->symbol;
  if (n == 0 || n >= CT__PT2_SYMBOL) return unclear;
  if (!*symbol && e->choose) {
    memcpy(symbol, name, n);
    symbol[n] = '\0';
  }
  return strlen(symbol) == n && memcmp(symbol, name, n) == 0 ? (linear_t){1, 0, 1} : unclear;
}

/* "('s77', positive=True, integer=True)" */
static linear_t symbol_args(expr_t *e)
{
  char quote = *e->at == '"' ? '"' : '\'';
  const char *name, *end;
  linear_t is;
  if (!expr_take(e, quote)) return e->broken = 1, unclear;
  name = e->at;
  end = strchr(name, quote);
  if (!end) return e->broken = 1, unclear;
  is = take_symbol(e, name, (size_t)(end - name));
  e->at = strchr(end, ')');
  if (!e->at) return e->at = end, e->broken = 1, unclear;
  e->at++;
  return is;
}

static linear_t expr_read(expr_t *e, int depth);

/* The arguments of a function; those of Mul, Add, Max and Min may be more than two. */
static linear_t function_args(expr_t *e, const char *name, int depth)
{
  linear_t x = expr_read(e, depth);
  int n = 1;
  for (; expr_take(e, ',') && !e->broken; n++)
    x = expr_apply(name, x, expr_read(e, depth));
  if (!expr_take(e, ')')) e->broken = 1;
  if (strcmp(name, "Integer") == 0) return n == 1 ? x : unclear;
  return n > 1 ? x : unclear;
}

static linear_t expr_read(expr_t *e, int depth)
{
  char name[MOST_NAME];
  const char *from;
  size_t n;
  skip_blanks(e);
  if (depth == MOST_DEPTH || e->broken) return e->broken = 1, unclear;
  if (*e->at == '-' || isdigit((unsigned char)*e->at)) return take_number(e);
  for (from = e->at; isalnum((unsigned char)*e->at) || *e->at == '_'; e->at++) {
  }
  n = (size_t)(e->at - from);
  if (n == 0 || n >= sizeof name) return e->broken = 1, unclear;
  memcpy(name, from, n);
  name[n] = '\0';
  if (!expr_take(e, '(')) return take_symbol(e, name, n);
  return strcmp(name, "Symbol") == 0 ? symbol_args(e) : function_args(e, name, depth + 1);
}

static linear_t expr_text(ct__pt2_t *p, const char *text, int choose)
{
  expr_t e = {.at = text, .p = p, .choose = choose};
  linear_t x = expr_read(&e, 0);
  skip_blanks(&e);
  return e.broken || *e.at ? unclear : x;
}

/* ---- JSON ---- */

int ct__pt2_sym_int(ct__pt2_t *p, const json_t *o, const char *what, ct_pt2_dim_t *out)
{
  int rc = CT_OK;
  const json_t *n = json_object_get(o, "as_int");
  const char *text = json_string_value(json_object_get(json_object_get(o, "as_expr"), "expr_str"));
  *out = (ct_pt2_dim_t){0, CT__PT2_UNCLEAR};
  if (json_is_integer(n)) {
    *out = (ct_pt2_dim_t){json_integer_value(n), 0};
  } else if (text) {
    linear_t x = expr_text(p, text, 0);
    if (x.clear && x.a == 0) *out = (ct_pt2_dim_t){x.b, 0};
    if (x.clear && x.a > 0 && x.b == 0) *out = (ct_pt2_dim_t){x.a, 1};
  } else {
    CT_TRY(ct__pt2_damaged(p, "%s: expected a whole number or an expression", what));
  }
out:
  return rc;
}

void ct__pt2_find_symbol(ct__pt2_t *p, const json_t *o)
{
  const json_t *e = json_object_get(o, "as_expr");
  const json_t *hint = json_object_get(json_object_get(e, "hint"), "as_int");
  const char *text = json_string_value(json_object_get(e, "expr_str"));
  if (!text || *p->symbol) return;
  linear_t x = expr_text(p, text, 1);
  p->g.dynamic = *p->symbol != '\0';
  if (x.clear && x.a > 0 && x.b == 0 && json_integer_value(hint) > 0)
    p->g.batch = json_integer_value(hint) / x.a;
}
