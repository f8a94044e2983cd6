/* ONNX nodes of matrix products, softmax and reductions. */
#include "onnx/onnx.h"

#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

#define IN  CT__ONNX_LIST
#define OUT CT__ONNX_LIST

/* Exchanges the last two dims; returns the name of the result. */
static const char *turned(ct__onnx_t *o, int id, const char *word, const ct_shape_t *s,
                          const char *x)
{
  int64_t perm[CT_MAX_DIMS];
  const char *y = ct__onnx_name(o, id, word);
  for (int i = 0; i < s->ndim; i++)
    perm[i] = i < s->ndim - 2 ? i : 2 * s->ndim - 3 - i;
  ct__onnx_node(o, "Transpose", OUT(y), IN(x));
  ct__onnx_ints(o, "perm", s->ndim, perm);
  return y;
}

void ct__onnx_matmul(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_op_desc_t *d = l->d;
  const char *a = l->x, *b = l->x2;
  if (d->u.matmul.a_turned) a = turned(o, l->id, "turned_a", &d->x, a);
  if (d->u.matmul.b_turned) b = turned(o, l->id, "turned_b", &d->x2, b);
  ct__onnx_node(o, "MatMul", OUT(l->y), IN(a, b));
}

void ct__onnx_softmax(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  ct__onnx_node(o, l->d->u.softmax.log ? "LogSoftmax" : "Softmax", OUT(l->y), IN(l->x));
  ct__onnx_int(o, "axis", l->d->u.softmax.dim);
}

/* ---- reductions ---- */

/* The dims of a reduction. */
typedef struct axes {
  int n, keep;
  int64_t v[CT_MAX_DIMS];
} axes_t;

static axes_t axes_of(const ct_op_desc_t *d)
{
  axes_t a = {.keep = d->y.ndim == d->x.ndim};
  for (int i = 0; i < d->x.ndim; i++)
    if (d->u.reduce.dims >> i & 1) a.v[a.n++] = i;
  return a;
}

/* Adds a reducing node.  In opset 17 only ReduceSum has its axes as an input. */
static void reducing(ct__onnx_t *o, int id, const char *op, const axes_t *a, const char *x,
                     const char *y)
{
  if (op[6] == 'S') {
    const char *axes = ct__onnx_const_ints(o, id, "axes", 1, a->n, a->v);
    ct__onnx_node(o, op, OUT(y), IN(x, axes));
  } else {
    ct__onnx_node(o, op, OUT(y), IN(x));
    ct__onnx_ints(o, "axes", a->n, a->v);
  }
  ct__onnx_int(o, "keepdims", a->keep);
}

static void norm(ct__onnx_t *o, const ct__onnx_layer_t *l, const axes_t *a, const char *y)
{
  double p = l->d->u.reduce.p;
  if (p == 1 || p == 2) {
    reducing(o, l->id, p == 1 ? "ReduceL1" : "ReduceL2", a, l->x, y);
    return;
  }
  const char *sizes = ct__onnx_name(o, l->id, "sizes");
  ct__onnx_node(o, "Abs", OUT(sizes), IN(l->x));
  if (isinf(p)) {
    reducing(o, l->id, "ReduceMax", a, sizes, y);
    return;
  }
  const char *order = ct__onnx_scalar(o, l->id, "order", p);
  const char *root = ct__onnx_scalar(o, l->id, "root", 1 / p);
  const char *powers = ct__onnx_name(o, l->id, "powers"), *sum = ct__onnx_name(o, l->id, "sum");
  ct__onnx_node(o, "Pow", OUT(powers), IN(sizes, order));
  reducing(o, l->id, "ReduceSum", a, powers, sum);
  ct__onnx_node(o, "Pow", OUT(y), IN(sum, root));
}

/* Variance, or standard deviation: the sum of squared differences from the mean, divided. */
static void spread(ct__onnx_t *o, const ct__onnx_layer_t *l, const axes_t *a, const char *y)
{
  const ct_op_desc_t *d = l->d;
  axes_t kept = *a;
  kept.keep = 1;
  double of = (double)ct_op_reduced(d) - d->u.reduce.correction;
  int root = d->u.reduce.mode == CT_RED_STD;
  const char *divisor = ct__onnx_scalar(o, l->id, "divisor", of);
  const char *mean = ct__onnx_name(o, l->id, "mean"), *centred = ct__onnx_name(o, l->id, "centred");
  const char *squares = ct__onnx_name(o, l->id, "squares"), *sum = ct__onnx_name(o, l->id, "sum");
  const char *var = root ? ct__onnx_name(o, l->id, "variance") : y;
  reducing(o, l->id, "ReduceMean", &kept, l->x, mean);
  ct__onnx_node(o, "Sub", OUT(centred), IN(l->x, mean));
  ct__onnx_node(o, "Mul", OUT(squares), IN(centred, centred));
  reducing(o, l->id, "ReduceSum", a, squares, sum);
  ct__onnx_node(o, "Div", OUT(var), IN(sum, divisor));
  if (root) ct__onnx_node(o, "Sqrt", OUT(y), IN(var));
}

void ct__onnx_reduce(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  static const char *const ops[CT_RED_COUNT] = {
      [CT_RED_SUM] = "ReduceSum",   [CT_RED_MEAN] = "ReduceMean",
      [CT_RED_AMAX] = "ReduceMax",  [CT_RED_AMIN] = "ReduceMin",
      [CT_RED_MAX] = "ReduceMax",   [CT_RED_MIN] = "ReduceMin",
      [CT_RED_PROD] = "ReduceProd", [CT_RED_LOGSUMEXP] = "ReduceLogSumExp"};
  ct_reduction_t mode = l->d->u.reduce.mode;
  axes_t a = axes_of(l->d);
  const int64_t one = 1;
  if (mode == CT_RED_CUMSUM) {
    const char *axis = ct__onnx_const_ints(o, l->id, "axis", 0, 1, a.v);
    ct__onnx_node(o, "CumSum", OUT(l->y), IN(l->x, axis));
    return;
  }
  /* all dims give one element, as a tensor of one dim */
  int scalar = !a.keep && a.n == l->d->x.ndim;
  const char *y = scalar ? ct__onnx_name(o, l->id, "scalar") : l->y;
  if (mode == CT_RED_NORM)
    norm(o, l, &a, y);
  else if (mode == CT_RED_VAR || mode == CT_RED_STD)
    spread(o, l, &a, y);
  else
    reducing(o, l->id, ops[mode], &a, l->x, y);
  if (!scalar) return;
  const char *shape = ct__onnx_const_ints(o, l->id, "shape", 1, 1, &one);
  ct__onnx_node(o, "Reshape", OUT(l->y), IN(y, shape));
}
