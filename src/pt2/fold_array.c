/* Constants: arguments of nodes as arrays of numbers, rounding, and walking over arrays. */
#include <math.h>
#include <string.h>

#include "pt2/fold.h"

/* ---- arguments ---- */

int ct__fold_is_float(ct_elem_t type)
{
  return type == CT_ELEM_F16 || type == CT_ELEM_BF16 || type == CT_ELEM_F32 || type == CT_ELEM_F64;
}

int ct__fold_shape(const ct__pt2_t *p, int value, ct__array_t *a)
{
  const ct_pt2_value_t *v = &p->value[value];
  *a = (ct__array_t){.x = p->more[value].data, .type = v->type, .ndim = v->ndim, .count = 1};
  if (v->type == CT_ELEMS || !ct_elem_has_numbers(v->type) || v->ndim > CT__PT2_DIMS) return 0;
  for (int i = 0; i < v->ndim; i++) {
    if (v->dim[i].batch == CT__PT2_UNCLEAR) return 0;
    a->dim[i] = v->dim[i].batch ? 1 : v->dim[i].n;
    a->along |= (uint64_t)(v->dim[i].batch != 0) << i;
    a->count *= a->dim[i]; /* its overflow was checked when it was read */
  }
  return a->count <= (v->ndim > 8 ? CT__FOLD_MOST >> 6 : CT__FOLD_MOST);
}

int ct__fold_in(const ct__fold_t *f, const char *name, ct__array_t *a)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  if (!arg || arg->kind != CT_PT2_TENSOR) return 0;
  return ct__fold_shape(f->p, arg->tensor[0], a) && a->x;
}

int ct__fold_in_list(const ct__fold_t *f, const char *name, int k, ct__array_t *a)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  if (!arg || arg->kind != CT_PT2_TENSORS || k >= arg->n || arg->tensor[k] < 0) return 0;
  return ct__fold_shape(f->p, arg->tensor[k], a) && a->x;
}

int ct__fold_number(const ct__fold_t *f, const char *name, double *x)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  ct__array_t a;
  if (!arg) return 0;
  if (arg->kind == CT_PT2_TENSOR) {
    if (!ct__fold_in(f, name, &a) || a.count != 1 || a.along) return 0;
    *x = a.x[0];
    return 1;
  }
  if (arg->kind == CT_PT2_FLOAT) {
    *x = arg->number[0];
    return 1;
  }
  if ((arg->kind != CT_PT2_INT && arg->kind != CT_PT2_BOOL) || arg->dim[0].batch) return 0;
  *x = (double)arg->dim[0].n;
  return fabs(*x) <= 0x1p53;
}

int ct__fold_int(const ct__fold_t *f, const char *name, int64_t other, int64_t *x)
{
  const ct_pt2_arg_t *arg = ct_pt2_arg(f->node, name);
  *x = other;
  if (!arg || arg->kind == CT_PT2_NONE) return 1;
  if ((arg->kind != CT_PT2_INT && arg->kind != CT_PT2_BOOL) || arg->dim[0].batch) return 0;
  *x = arg->dim[0].n;
  return 1;
}

int ct__fold_dim(const ct__fold_t *f, const char *name, int ndim, int *dim)
{
  int64_t d;
  if (!ct__fold_int(f, name, 0, &d)) return 0;
  if (d < 0) d += ndim;
  *dim = (int)d;
  return d >= 0 && d < ndim;
}

/* ---- rounding ---- */

/* Rounds to a format with `digits` binary digits and the least exponent `least`. */
static double round_digits(double x, int digits, int least)
{
  int e;
  if (x == 0 || !isfinite(x)) return x;
  frexp(x, &e);
  int shift = digits - (e < least ? least : e);
  return ldexp(nearbyint(ldexp(x, shift)), -shift);
}

int ct__fold_round(ct_elem_t type, double x, double *y)
{
  static const struct {
    ct_elem_t type;
    double least, most;
  } whole[] = {{CT_ELEM_U8, 0, 255},
               {CT_ELEM_I8, -128, 127},
               {CT_ELEM_I16, -32768, 32767},
               {CT_ELEM_U16, 0, 65535},
               {CT_ELEM_I32, -0x1p31, 0x1p31 - 1},
               {CT_ELEM_U32, 0, 0x1p32 - 1},
               {CT_ELEM_I64, -0x1p53, 0x1p53},
               {CT_ELEM_U64, 0, 0x1p53}};
  *y = x;
  if (type == CT_ELEM_F64) return 1;
  if (type == CT_ELEM_F32) *y = (double)(float)x;
  if (type == CT_ELEM_F16) {
    *y = round_digits(x, 11, -13);
    if (fabs(*y) > 65504 && isfinite(*y)) *y = copysign(INFINITY, x);
  }
  if (type == CT_ELEM_BF16) *y = round_digits((double)(float)x, 8, -125);
  if (ct__fold_is_float(type)) return 1;
  if (type == CT_ELEM_BOOL) *y = x != 0;
  if (type == CT_ELEM_BOOL) return 1;
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    if (whole[i].type == type) {
      *y = trunc(x);
      return *y >= whole[i].least && *y <= whole[i].most;
    }
  return 0;
}

/* ---- walking ---- */

void ct__fold_steps(const ct__array_t *a, int64_t *step)
{
  int64_t n = 1;
  for (int i = a->ndim - 1; i >= 0; i--) {
    step[i] = a->dim[i] == 1 ? 0 : n;
    n *= a->dim[i];
  }
}

void ct__walk_start(ct__walk_t *w, const ct__array_t *of)
{
  memset(w, 0, sizeof *w);
  w->ndim = of->ndim;
  memcpy(w->dim, of->dim, (size_t)of->ndim * sizeof *w->dim);
}

int ct__walk_broadcast(ct__walk_t *w, int k, const ct__array_t *a)
{
  int64_t step[CT__PT2_DIMS];
  int shift = w->ndim - a->ndim;
  if (shift < 0) return 0;
  ct__fold_steps(a, step);
  for (int i = 0; i < a->ndim; i++) {
    if (a->dim[i] != 1 && a->dim[i] != w->dim[shift + i]) return 0;
    w->step[k][shift + i] = step[i];
  }
  return 1;
}

void ct__walk_next(ct__walk_t *w)
{
  for (int i = w->ndim - 1; i >= 0; i--) {
    w->at[i]++;
    for (int k = 0; k < 3; k++)
      w->off[k] += w->step[k][i];
    if (w->at[i] < w->dim[i]) return;
    for (int k = 0; k < 3; k++)
      w->off[k] -= w->step[k][i] * w->dim[i];
    w->at[i] = 0;
  }
}
