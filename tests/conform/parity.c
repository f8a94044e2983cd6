/* Runs an op on the tested backend and on the reference with the same data.  Results must agree
 * within the precision of the types, in every layout of the backend and every way an op can be
 * prepared and run.  Errors that both backends share are found by gradient.c, and by t_op.c with
 * PyTorch's numbers. */
#include "tests/conform/check.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

enum { ALL = CT_FWD | CT_BWD_DATA | CT_BWD_PARAM };

int check(int ok, const char *fmt, ...)
{
  char text[600];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return CU_assertImplementation(ok, 0, text, "conform", "", CU_FALSE);
}

static double norm(const float *a, const float *b, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = b ? (double)a[i] - b[i] : a[i];
    sum += v * v;
  }
  return sqrt(sum);
}

int is_close(const float *a, const float *b, int64_t n, double floor, double tolerance,
             char why[80])
{
  double error = norm(a, b, n) / fmax(norm(b, NULL, n), floor);

  *why = '\0'; /* set in any case, since callers print it */
  if (n == 0 || error <= tolerance || norm(a, b, n) == 0) return 1;
  snprintf(why, 80, "relative error %.3g, allowed %.3g", error, tolerance);
  return 0;
}

/* Algorithms may round differently, Winograd's more than others. */
static double tolerance(const ct_op_info_t *info)
{
  return strstr(info->algorithm, "winograd") ? 1e-4 : 1e-5;
}

/* Runs a case on one backend.  Returns NULL or an error text that the caller does not free. */
static const char *carry_out(side_t *s, const ct_op_desc_t *d, const trial_t *how,
                             const inputs_t *in, outputs_t *out, ct_op_info_t *info)
{
  static char algorithm[64];
  rig_t r;
  const char *wrong = NULL;

  if (rig_open(&r, s, d, how) || rig_forward(&r, in) || rig_backward(&r, in)) {
    wrong = ct_err_last()->text;
  } else {
    wrong = rig_take(&r, out);
    if (!wrong) wrong = rig_inputs_changed(&r, in);
  }
  *info = r.info;
  if (!wrong) snprintf(algorithm, sizeof algorithm, "%s", r.info.algorithm);
  info->algorithm = algorithm; /* a copy, which outlives the op */
  rig_close(&r);
  return wrong;
}

/* Returns 1 for ops with several GEMMs, whose intermediate results are rounded too. */
static int is_chain(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_LSTM || d->kind == CT_OP_GRU || d->kind == CT_OP_ATTENTION ||
         d->kind == CT_OP_SDPA || d->kind == CT_OP_HEAD_LOSS || d->kind == CT_OP_CONV_POOL;
  return d->kind == CT_OP_LSTM || d->kind == CT_OP_GRU || d->kind == CT_OP_ATTENTION;
}

static int is_product(const ct_op_desc_t *d)
{
  return d->kind == CT_OP_CONV || d->kind == CT_OP_CONVT || d->kind == CT_OP_CONVOLVE ||
         d->kind == CT_OP_LINEAR;
}

/* Estimates the size of y without cancellation, from the number of terms of its sums. */
static double size_of_y(const ct_op_desc_t *d, const inputs_t *in)
{
  int64_t x = ct_shape_count(&d->x), y = ct_shape_count(&d->y);
  int products = is_product(d);
  double terms = products && y ? ct_op_flops(d, CT_FWD) / 2 / (double)y : 1;
  return x ? norm(in->x, NULL, x) * sqrt(terms * (double)y / (double)x) : 0;
}

/* Least size of y to which errors are relative.  The terms of a fused addition may cancel out, and
 * an algorithm that adds x2 afterwards has already rounded the GEMM. */
static double floor_of_y(const ct_op_desc_t *d, const inputs_t *in, const outputs_t *want)
{
  double floor = 0.1 * size_of_y(d, in);
  int adds = d->kind == CT_OP_CONV ? d->u.conv.add : ct_op_adds_second(d);
  if (!adds) return floor;
  return fmax(floor, norm(want->y, in->x2, ct_shape_count(&d->y)));
}

/* Returns how much larger than dx its terms are: with few values, a normalisation cancels most of
 * dy. */
static double cancelled(const ct_op_desc_t *d)
{
  enum { FEW = 8 };
  double eps = 0;
  int64_t count = normalised(d, &eps);
  return eps > 0 && count < FEW ? 1 / sqrt(eps) : 1;
}

static void compare(const ct_op_desc_t *d, const trial_t *how, const char *name, const inputs_t *in,
                    const outputs_t *got, const outputs_t *want, const ct_op_info_t *info)
{
  double tol = tolerance(info) * (is_chain(d) ? 3 : cancelled(d) > 1 ? 10 : 1);
  /* bf16 has 8 bits of precision, fp16 11; activations are rounded to them, and weights may be.
   * The error of a sigmoid's derivative near its ends is relative to the largest derivative.  In
   * ops with several GEMMs the factors are rounded too, and the gradients of norm and logsumexp are
   * those of a rounded y. */
  int of_result = d->kind == CT_OP_REDUCE &&
                  (d->u.reduce.mode == CT_RED_LOGSUMEXP || d->u.reduce.mode == CT_RED_NORM);
  double worse = d->kind == CT_OP_ACT ? 4 : of_result ? 3 : is_chain(d) ? 2 : 1;
  double low = d->y.dtype == CT_BF16 ? 5e-3 * worse : d->y.dtype == CT_F16 ? 6e-4 * worse : tol;
  int64_t x = ct_shape_count(&d->x), y = ct_shape_count(&d->y);
  int of_y = d->kind == CT_OP_ACT && d->x.dtype != CT_F32;
  double size = (of_y ? 1 : 0.1 * cancelled(d)) * norm(in->dy, NULL, y);
  int back = how->flags & RIG_INPLACE_FWD ? 0 : how->passes;
  char why[80];

  if (!ct_op_is_loss(d->kind))
    check(is_close(got->y, want->y, y, floor_of_y(d, in, want), low, why), "%s: y: %s", name, why);
  if (back & CT_BWD_DATA) {
    double of_loss = 0.1 * sqrt((double)d->x.dim[0]);
    unsigned exact = ct_op_indices(d);
    if (!(exact & 1))
      check(is_close(got->dx, want->dx, x, ct_op_is_loss(d->kind) ? of_loss : size, low, why),
            "%s: dx: %s", name, why);
    if (in->x2 && d->kind != CT_OP_ADD && !ct_op_adds_second(d) && !(exact & 2))
      check(is_close(got->dx2, want->dx2, second_count(d), size, low, why), "%s: dx2: %s", name,
            why);
    if (in->x3 && !(exact & 4))
      check(is_close(got->dx3, want->dx3, third_count(d), size, low, why), "%s: dx3: %s", name,
            why);
  }
  double of_others = is_chain(d) ? low : tol;
  double of_weights = strstr(info->algorithm, "low gradient") ? low : of_others;
  int params = d->kind == CT_OP_BNORM ? 2 : 4;
  for (int i = 0; i < params && back & CT_BWD_PARAM; i++)
    check(
        is_close(got->dw[i], want->dw[i], param_count(d, i), size, i ? of_others : of_weights, why),
        "%s: dw[%d]: %s", name, i, why);
  for (int i = 0; i < 2; i++)
    check(is_close(got->running[i], want->running[i], param_count(d, param_running(d, i)),
                   0.1 * sqrt((double)param_count(d, param_running(d, i))), tol, why),
          "%s: running[%d]: %s", name, i, why);
  if (!ct_op_is_loss(d->kind)) return;
  check(fabs(got->loss.sum - want->loss.sum) <= tol * fabs(want->loss.sum),
        "%s: loss %.9g, not %.9g", name, got->loss.sum, want->loss.sum);
  check(fabs(got->loss.weight - want->loss.weight) <= tol * want->loss.weight,
        "%s: loss weight %.9g, not %.9g", name, got->loss.weight, want->loss.weight);
  check(fabs(got->loss.abs_error - want->loss.abs_error) <= tol * want->loss.abs_error,
        "%s: absolute error %.9g, not %.9g", name, got->loss.abs_error, want->loss.abs_error);
  check(got->loss.samples == want->loss.samples && got->loss.top1 == want->loss.top1 &&
            got->loss.top5 == want->loss.top5,
        "%s: samples, top1, top5 are %d %d %d, not %d %d %d", name, (int)got->loss.samples,
        (int)got->loss.top1, (int)got->loss.top5, (int)want->loss.samples, (int)want->loss.top1,
        (int)want->loss.top5);
}

/* Returns 1 if the op can be run this way, by preparing it. */
static int applies(const ct_op_desc_t *d, const trial_t *how)
{
  rig_t r;
  trial_t plain = *how;

  plain.flags = 0;
  int ok = rig_prepare(&r, &tested, d, &plain) == CT_OK;
  if (ok && how->flags & RIG_INPLACE_FWD) ok = r.info.inplace_fwd;
  if (ok && how->flags & RIG_INPLACE_BWD) ok = r.info.inplace_bwd;
  if (ok && how->flags & RIG_INPLACE_ADD) ok = r.info.inplace_add;
  if (ok && how->flags & RIG_DY2) ok = r.info.takes_dy2;
  if (ok && how->flags & RIG_ADD_DX) ok = r.info.adds_dx;
  if (ok && how->flags & RIG_ADD_DW) ok = r.info.adds_dw;
  if (ok && how->flags & RIG_AGAIN) ok = rig_can_again(&r.desc);
  rig_close(&r);
  return ok;
}

static int passes_of(const ct_op_desc_t *d)
{
  if (d->kind == CT_OP_CONV && d->u.conv.add) return CT_FWD;
  if (d->kind == CT_OP_OPERAND) return CT_FWD | CT_BWD_PARAM;
  if (d->kind == CT_OP_RANDOM || d->kind == CT_OP_POSITION || d->kind == CT_OP_CACHE) return CT_FWD;
  if (d->kind == CT_OP_SDPA && d->u.sdpa.cached) return CT_FWD;
  return ct_op_param_count(d, 0) > 0 ? ALL : CT_FWD | CT_BWD_DATA;
}

/* Rounds v to the nearest values of the type. */
static void round_to(ct_dtype_t t, float *v, int64_t n)
{
  tensor_t low = {0};
  ct_shape_t s = ct_shape(1, n);

  s.dtype = t;
  if (!v || t == CT_F32 || tensor_open(&low, &reference, &s, CT_PLAIN)) return;
  tensor_put(&low, v);
  tensor_take(&low, v);
  tensor_close(&low);
}

/* Gives the float32 reference the same rounded inputs; GEMMs also round their weights. */
static void round_inputs(const ct_op_desc_t *d, inputs_t *in)
{
  ct_shape_t second = ct_op_second(d);
  int products = is_product(d) || is_chain(d);

  round_to(d->x.dtype, in->x, ct_shape_count(&d->x));
  unsigned exact = ct_op_indices(d);
  if (in->x2 && !(exact & 2)) round_to(d->y.dtype, in->x2, ct_shape_count(&second));
  if (!(exact & 4)) round_to(d->y.dtype, in->x3, third_count(d));
  round_to(d->x.dtype, in->dy, ct_shape_count(&d->y));
  round_to(d->x.dtype, in->dy2, ct_shape_count(&d->y));
  for (int i = 0; products && i < 4; i++)
    round_to(d->x.dtype, in->w[i], param_count(d, i));
}

/* Computes the reference in float32, whatever the type of the case. */
static int truth_find(const ct_op_desc_t *d, const inputs_t *in, outputs_t *want)
{
  trial_t how = {"reference", passes_of(d), 0, CT_PLAIN};
  ct_op_desc_t exact = *d;
  ct_op_info_t info;
  char text[160];

  ct_op_desc_type(&exact, CT_F32);
  const char *wrong = carry_out(&reference, &exact, &how, in, want, &info);
  return check(!wrong, "%s: reference: %s", ct_op_text(d, text, sizeof text), wrong);
}

static int truth_make(truth_t *t, const op_case_t *c, uint64_t seed)
{
  const ct_op_desc_t *d = &c->desc;

  t->has_second = 0;
  inputs_open(&t->in, d, seed, c->data);
  round_inputs(d, &t->in);
  outputs_open(&t->want[0], d);
  outputs_open(&t->want[1], d);
  return truth_find(d, &t->in, &t->want[0]);
}

int truth_open(truth_t *t, const op_case_t *c)
{
  return truth_make(t, c, 7 + (uint64_t)c->desc.x.dim[1]);
}

/* Computes the reference for dy + dy2 when first needed: it takes most of the time, and few kinds
 * of op have a second gradient. */
static int truth_second(truth_t *t, const ct_op_desc_t *d)
{
  int64_t n = ct_shape_count(&d->y);
  inputs_t both = t->in;

  if (t->has_second) return 1;
  both.dy = host_array(n, sizeof *both.dy);
  for (int64_t i = 0; i < n; i++)
    both.dy[i] = t->in.dy[i] + t->in.dy2[i];
  t->has_second = truth_find(d, &both, &t->want[1]);
  ct_mem_free(both.dy);
  return t->has_second;
}

void truth_close(truth_t *t)
{
  inputs_close(&t->in);
  outputs_close(&t->want[0]);
  outputs_close(&t->want[1]);
}

/* Adds the sign times dy2 to the reference's dx. */
static void shift_dx(const op_case_t *c, truth_t *t, float sign)
{
  for (int64_t i = 0; i < ct_shape_count(&c->desc.x); i++)
    t->want[0].dx[i] += sign * t->in.dy2[i];
}

static void scale_dw(const op_case_t *c, truth_t *t, float by)
{
  for (int p = 0; p < CT_OP_PARAMS; p++)
    for (int64_t i = 0; i < param_count(&c->desc, p); i++)
      t->want[0].dw[p][i] *= by;
}

static void try_one(const op_case_t *c, const trial_t *how, truth_t *t)
{
  const ct_op_desc_t *d = &c->desc;
  outputs_t got;
  ct_op_info_t info;
  char text[160], name[260];

  if (how->flags & RIG_DY2 && !truth_second(t, d)) return;
  outputs_open(&got, d);
  snprintf(name, sizeof name, "%s (%s, %s, offered %s)", ct_op_text(d, text, sizeof text),
           ct_dtype_name(d->x.dtype), how->name, ct_layout_name(how->offered));
  const char *wrong = carry_out(&tested, d, how, &t->in, &got, &info);
  if (how->flags & RIG_ADD_DX) shift_dx(c, t, 1);
  if (how->flags & RIG_ADD_DW) scale_dw(c, t, 2);
  if (check(!wrong, "%s: %s", name, wrong))
    compare(d, how, name, &t->in, &got, &t->want[how->flags & RIG_DY2 ? 1 : 0], &info);
  if (how->flags & RIG_ADD_DX) shift_dx(c, t, -1);
  if (how->flags & RIG_ADD_DW) scale_dw(c, t, 0.5f);
  outputs_close(&got);
}

static const struct way {
  const char *name;
  int passes, flags;
  int big; /* also for cases of many megabytes, and in reduced precision */
} ways[] = {
    {"each pass alone", ALL, 0, 1},
    {"passes together", ALL, RIG_JOINT, 0},
    {"forward only", CT_FWD, 0, 0},
    {"no data gradient", CT_FWD | CT_BWD_PARAM, 0, 0},
    {"no parameter gradient", CT_FWD | CT_BWD_DATA, 0, 0},
    {"y in place of x", ALL, RIG_INPLACE_FWD, 1},
    {"inference, y in place of x", CT_FWD, RIG_INPLACE_FWD, 0},
    {"dx in place of dy", ALL, RIG_INPLACE_BWD, 0},
    {"second gradient", ALL, RIG_DY2, 0},
    {"second gradient, together, in place", ALL, RIG_DY2 | RIG_JOINT | RIG_INPLACE_BWD, 1},
    {"a gradient added to dx", ALL, RIG_ADD_DX, 0},
    {"a gradient added to dx, in its place", ALL, RIG_ADD_DX | RIG_INPLACE_ADD, 0},
    {"a gradient added to dx, in place", ALL, RIG_ADD_DX | RIG_JOINT | RIG_INPLACE_BWD, 1},
    {"gradients added to those of parameters", ALL, RIG_ADD_DW, 1},
    {"like another batch", ALL, RIG_LIKE, 1},
    {"forward once more", ALL, RIG_AGAIN, 1},
    {"forward alone, once more", CT_FWD, RIG_AGAIN, 0},
};

void check_trial(const op_case_t *c, int way, ct_layout_t offered, uint64_t seed)
{
  const struct way *w = &ways[(size_t)way % (sizeof ways / sizeof ways[0])];
  trial_t how = {w->name, w->passes & passes_of(&c->desc), w->flags, offered};
  truth_t t;

  if (how.flags && !applies(&c->desc, &how))
    how = (trial_t){ways[0].name, passes_of(&c->desc), 0, offered};
  if (truth_make(&t, c, seed)) try_one(c, &how, &t);
  truth_close(&t);
}

static void try_layout(const op_case_t *c, ct_layout_t offered, truth_t *t)
{
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    int passes = ways[i].passes & passes_of(&c->desc);
    trial_t how = {ways[i].name, passes, ways[i].flags, offered};
    if (passes == CT_FWD && ways[i].passes != CT_FWD) continue;
    if ((c->big || c->desc.x.dtype != CT_F32) && !ways[i].big) continue;
    if (i == 0 || applies(&c->desc, &how)) try_one(c, &how, t);
  }
}

int is_left_out(const ct_shape_t *x, double flops)
{
  return getenv("CT_CONFORM_SMALL") && (ct_shape_bytes(x) > 8 << 20 || flops > 4e6);
}

void check_parity(const op_case_t *c)
{
  static const ct_layout_t layouts[] = {CT_PLAIN, CT_C16, CT_C8, CT_NHWC};
  int has_layouts = c->desc.x.ndim >= 4 && c->desc.kind != CT_OP_REORDER;
  int n_layouts = has_layouts ? (c->big ? 2 : 4) : 1;
  unsigned tried = 0;
  truth_t t;

  int by_size = c->desc.kind == CT_OP_BNORM; /* its work is divided differently for large sizes */
  if (!by_size && is_left_out(&c->desc.x, ct_op_flops(&c->desc, CT_FWD))) return;
  if (truth_open(&t, c)) {
    for (int l = 0; l < n_layouts; l++) {
      ct_layout_t layout = rig_layout(&tested, &c->desc, layouts[l]);
      int again = c->desc.kind == CT_OP_STRIDED; /* with another layout of y */
      if (again || !(tried & 1u << layout)) try_layout(c, layouts[l], &t);
      tried |= 1u << layout;
    }
  }
  truth_close(&t);
}
