/* Stochastic depth: a draw for each sample that keeps or drops a whole branch.  Its forms:
 *
 *     x * (bernoulli(keep) / keep)                  torchvision, timm
 *     x / keep * floor(keep + rand)                 transformers
 *
 * A draw is followed through these ops; at the product it becomes a layer drop_path. */
#include <math.h>
#include <string.h>

#include "import/import.h"

/* How far a draw has come; ct__im_layer_t.perm[0]. */
enum {
  DROP_UNIFORM, /* rand */
  DROP_SHIFTED, /* keep + rand */
  DROP_KEPT,    /* 0 or 1 */
  DROP_SCALED   /* 0 or 1 / keep */
};

static int drop_make(ct__im_t *t, const ct_shape_t *shape, int state, double keep, int from,
                     int *out)
{
  int rc = CT_OK;
  CT_TRY(ct__im_add(t, out, CT__IM_DRAW, shape, from >= 0, &from, NULL));
  t->layer[*out].perm[0] = state;
  t->layer[*out].number = keep;
out:
  return rc;
}

int ct__im_draw(ct__im_t *t, const ct_shape_t *shape, double keep, int *out)
{
  return drop_make(t, shape, keep < 0 ? DROP_UNIFORM : DROP_KEPT, keep, -1, out);
}

static int drop_layer(ct__im_t *t, const ct_pt2_node_t *n, const char *name)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(n, name);
  return a && a->kind == CT_PT2_TENSOR ? t->value[ct__im_root(t, a->tensor[0])].layer : -1;
}

static int drop_number(ct__im_t *t, const ct_pt2_node_t *n, const char *name, double *v)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(n, name);
  if (a && a->kind == CT_PT2_TENSOR) return ct__im_uniform(t, a->tensor[0], v);
  if (!a || (a->kind != CT_PT2_FLOAT && a->kind != CT_PT2_INT)) return 0;
  return ct_pt2_number(t->g, n, name, v) == CT_OK;
}

static int drop_near(double a, double b)
{
  return fabs(a - b) <= 1e-6;
}

/* x * draw */
static int drop_product(ct__im_t *t, const ct_pt2_node_t *n, int x, int draw, int *done)
{
  int rc = CT_OK;
  const ct__im_layer_t *d = &t->layer[draw];
  double keep = d->number, scale;
  char number[40];
  if (x < 0) return CT_OK;
  if (d->perm[0] == DROP_KEPT) { /* x is divided by keep before */
    if (!ct__im_is(t, x, "div") || t->layer[x].ins != 1) return CT_OK;
    if (strncmp(t->layer[x].opts, "value: ", 7) != 0) return CT_OK;
    if (ct_text_double(t->layer[x].opts + 7, &scale) != CT_OK || !drop_near(scale, keep))
      return CT_OK;
    x = t->layer[x].in[0];
  } else if (d->perm[0] != DROP_SCALED) {
    return CT_OK;
  }
  const ct_shape_t s = t->layer[x].shape;
  if (s.batch != 1 || s.dim[0] != d->shape.dim[0]) return CT_OK;
  if (keep < 1)
    CT_TRY(ct__im_one(t, &x, "drop_path", &s, x, "p: %s",
                      ct_text_number(round((1 - keep) * 1e12) / 1e12, number, sizeof number)));
  CT_TRY(ct__im_done(t, n, x));
  *done = 1;
out:
  return rc;
}

/* Makes ordinary random layers of the draws of a node. */
static int drop_give_up(ct__im_t *t, const ct_pt2_node_t *n)
{
  for (int i = 0; i < n->args; i++) {
    const ct_pt2_arg_t *a = &n->arg[i];
    for (int k = 0; (a->kind == CT_PT2_TENSOR || a->kind == CT_PT2_TENSORS) && k < a->n; k++)
      if (a->tensor[k] >= 0 && t->value[a->tensor[k]].layer >= 0 &&
          ct__im_is(t, t->value[a->tensor[k]].layer, CT__IM_DRAW))
        return ct__im_refuse("random numbers are used in another form than that of stochastic "
                             "depth: x * bernoulli(keep) / keep");
  }
  return CT_OK;
}

int ct__im_match_drop_path(ct__im_t *t, const ct_pt2_node_t *n, int *done)
{
  int rc = CT_OK, y = -1;
  double v;
  int a = drop_layer(t, n, n->arg[0].name), b = drop_layer(t, n, "other");
  *done = 0;
  int first = a >= 0 && ct__im_is(t, a, CT__IM_DRAW),
      second = b >= 0 && ct__im_is(t, b, CT__IM_DRAW);
  if (ct_pt2_is(n, "aten.mul") && first != second) {
    CT_TRY(drop_product(t, n, first ? b : a, first ? a : b, done));
    if (*done) return CT_OK;
  }
  int draw = first ? a : b;
  if (draw >= 0 && first != second) {
    const ct__im_layer_t d = t->layer[draw];
    const char *other = first ? "other" : n->arg[0].name;
    if (ct_pt2_is(n, "aten.div") && first && d.perm[0] == DROP_KEPT &&
        drop_number(t, n, other, &v) && drop_near(v, d.number))
      CT_TRY(drop_make(t, &d.shape, DROP_SCALED, d.number, draw, &y));
    else if (ct_pt2_is(n, "aten.add") && d.perm[0] == DROP_UNIFORM && drop_number(t, n, other, &v))
      CT_TRY(drop_make(t, &d.shape, DROP_SHIFTED, v, draw, &y));
    else if (ct_pt2_is(n, "aten.floor") && d.perm[0] == DROP_SHIFTED)
      CT_TRY(drop_make(t, &d.shape, DROP_KEPT, d.number, draw, &y));
    else if (ct_pt2_is(n, "aten.to") || ct_pt2_is(n, "aten.type_as") || ct_pt2_is(n, "aten.clone"))
      y = draw;
  }
  if (y < 0) return drop_give_up(t, n);
  CT_TRY(ct__im_done(t, n, y));
  *done = 1;
out:
  return rc;
}
