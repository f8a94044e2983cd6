/* Places in sequences, rotation by them, and normalisation by the root mean square. */
#include "onnx/onnx_layer.h"

#include <math.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"

/* ---- places ---- */

/* 0, 1, …, T - 1, less the input if it holds the first places, else less 0. */
void ct__onnx_position(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  const ct_op_desc_t *d = l->d;
  const int64_t dim[] = {1, d->y.dim[1]};
  char less[CT__ONNX_NAME], zero[CT__ONNX_NAME];
  float *place = ct_mem_array(dim[1], sizeof *place, "places");
  if (!place) {
    if (o->rc == CT_OK) o->rc = CT_ERR_NOMEM;
    return;
  }
  for (int64_t t = 0; t < dim[1]; t++)
    place[t] = (float)t;
  const char *range = ct__onnx_const_floats(o, l->id, "range", 2, dim, place);
  ct_mem_free(place);
  ct_text_fit(less, sizeof less, "%s", l->x);
  if (d->x.ndim > 2) {
    const int64_t at[] = {0, 0, 0};
    ct_text_fit(less, sizeof less, "%s", ct__onnx_name(o, l->id, "one"));
    ct__onnx_node(o, "Gather", OUT(less),
                  IN(l->x, ct__onnx_const_ints(o, l->id, "index", 0, 1, at)));
    ct__onnx_int(o, "axis", 2);
  }
  if (!d->u.position.relative) {
    ct_text_fit(zero, sizeof zero, "%s", ct__onnx_name(o, l->id, "zero"));
    ct__onnx_node(o, "Sub", OUT(zero), IN(less, less));
    ct_text_fit(less, sizeof less, "%s", zero);
  }
  ct__onnx_node(o, "Sub", OUT(l->y), IN(range, less));
}

/* ---- rotation ---- */

enum { COS, SIN, ANGLE, HEADS, REST, PAIRS, A, B, AC, BS, BC, AS, P, Q, BOTH, FLAT, TURNED, WORDS };

/* The cosines and sines of angles that are known: [T, 1, dim / 2]. */
static void known_angles(ct__onnx_t *o, const ct__onnx_layer_t *l, const float *frequency,
                         char n[][CT__ONNX_NAME])
{
  const int64_t half = l->d->u.rope.dim / 2, dim[] = {l->d->x.dim[1], 1, half};
  float *v = ct_mem_array(dim[0] * half, sizeof *v, "angles");
  if (!v && o->rc == CT_OK) o->rc = CT_ERR_NOMEM;
  for (int k = COS; v && k <= SIN; k++) {
    for (int64_t i = 0; i < dim[0] * half; i++) {
      float angle = (float)(i / half) * frequency[i % half];
      v[i] = k == COS ? cosf(angle) : sinf(angle);
    }
    const char *word = k == COS ? "cos" : "sin";
    ct_text_fit(n[k], CT__ONNX_NAME, "%s", ct__onnx_const_floats(o, l->id, word, 3, dim, v));
  }
  ct_mem_free(v);
}

/* Those of angles that are computed from the places. */
static void given_angles(ct__onnx_t *o, const ct__onnx_layer_t *l, const float *frequency,
                         char n[][CT__ONNX_NAME])
{
  const int64_t half = l->d->u.rope.dim / 2, dims[] = {0, 0, 1, 1};
  const char *shape = ct__onnx_const_ints(o, l->id, "places_shape", 1, 4, dims);
  const char *wide = ct__onnx_name(o, l->id, "places");
  const char *f = ct__onnx_const_floats(o, l->id, "frequencies", 1, &half, frequency);
  ct__onnx_node(o, "Reshape", OUT(wide), IN(l->x2, shape));
  ct__onnx_node(o, "Mul", OUT(n[ANGLE]), IN(wide, f));
  ct__onnx_node(o, "Cos", OUT(n[COS]), IN(n[ANGLE]));
  ct__onnx_node(o, "Sin", OUT(n[SIN]), IN(n[ANGLE]));
}

static void cut_features(ct__onnx_t *o, const ct__onnx_layer_t *l, const char *word, int64_t from,
                         int64_t to, const char *y)
{
  char name[40];
  const char *arg[3];
  const int64_t v[] = {from, to, 2};
  static const char *const what[] = {"from", "to", "axis"};
  for (int i = 0; i < 3; i++) {
    ct_text_fit(name, sizeof name, "%s_%s", word, what[i]);
    arg[i] = ct__onnx_const_ints(o, l->id, name, 1, 1, &v[i]);
  }
  ct__onnx_node(o, "Slice", OUT(y), IN(l->x, arg[0], arg[1], arg[2]));
}

/* The first or second features of the pairs. */
static void take_side(ct__onnx_t *o, const ct__onnx_layer_t *l, const char *pairs, int64_t side,
                      const char *y)
{
  const char *index = ct__onnx_const_ints(o, l->id, side ? "second" : "first", 0, 1, &side);
  ct__onnx_node(o, "Gather", OUT(y), IN(pairs, index));
  ct__onnx_int(o, "axis", l->d->u.rope.interleaved ? 4 : 3);
}

/* Joins the rotated sides P and Q of the pairs: [N, T, heads * dim]. */
static void join_sides(ct__onnx_t *o, const ct__onnx_layer_t *l, int64_t rotated,
                       char n[][CT__ONNX_NAME], const char *y)
{
  const int64_t last = 4, flat[] = {0, 0, rotated};
  const char *p = n[P], *q = n[Q];
  if (l->d->u.rope.interleaved) {
    const char *axis = ct__onnx_const_ints(o, l->id, "last", 1, 1, &last);
    p = ct__onnx_name(o, l->id, "p_wide");
    q = ct__onnx_name(o, l->id, "q_wide");
    ct__onnx_node(o, "Unsqueeze", OUT(p), IN(n[P], axis));
    ct__onnx_node(o, "Unsqueeze", OUT(q), IN(n[Q], axis));
  }
  ct__onnx_node(o, "Concat", OUT(n[BOTH]), IN(p, q));
  ct__onnx_int(o, "axis", l->d->u.rope.interleaved ? 4 : 3);
  ct__onnx_node(o, "Reshape", OUT(y),
                IN(n[BOTH], ct__onnx_const_ints(o, l->id, "flat_shape", 1, 3, flat)));
}

void ct__onnx_rope(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  static const char *const word[WORDS] = {"cos", "sin", "angle", "heads", "rest",  "pairs",
                                          "a",   "b",   "ac",    "bs",    "bc",    "as",
                                          "p",   "q",   "both",  "flat",  "turned"};
  const ct_rope_t *r = &l->d->u.rope;
  const int64_t width = l->d->x.dim[2], rotated = (int64_t)r->heads * r->dim, half = r->dim / 2;
  const int64_t dims[] = {0, 0, r->heads, r->interleaved ? half : 2, r->interleaved ? 2 : half};
  const int whole = rotated == width;
  float frequency[CT_ROPE_MOST / 2];
  char n[WORDS][CT__ONNX_NAME];
  for (int i = 0; i < WORDS; i++)
    ct_text_fit(n[i], sizeof n[i], "%s", ct__onnx_name(o, l->id, word[i]));
  ct_rope_frequencies(r, frequency);
  (l->d->x2.ndim ? given_angles : known_angles)(o, l, frequency, n);
  if (!whole) cut_features(o, l, "heads", 0, rotated, n[HEADS]);
  ct__onnx_node(
      o, "Reshape", OUT(n[PAIRS]),
      IN(whole ? l->x : n[HEADS], ct__onnx_const_ints(o, l->id, "pairs_shape", 1, 5, dims)));
  take_side(o, l, n[PAIRS], 0, n[A]);
  take_side(o, l, n[PAIRS], 1, n[B]);
  ct__onnx_node(o, "Mul", OUT(n[AC]), IN(n[A], n[COS]));
  ct__onnx_node(o, "Mul", OUT(n[BS]), IN(n[B], n[SIN]));
  ct__onnx_node(o, "Mul", OUT(n[BC]), IN(n[B], n[COS]));
  ct__onnx_node(o, "Mul", OUT(n[AS]), IN(n[A], n[SIN]));
  ct__onnx_node(o, "Sub", OUT(n[P]), IN(n[AC], n[BS]));
  ct__onnx_node(o, "Add", OUT(n[Q]), IN(n[BC], n[AS]));
  join_sides(o, l, rotated, n, whole ? l->y : n[TURNED]);
  if (whole) return;
  cut_features(o, l, "rest", rotated, width, n[REST]);
  ct__onnx_node(o, "Concat", OUT(l->y), IN(n[TURNED], n[REST]));
  ct__onnx_int(o, "axis", 2);
}

/* ---- root mean square ---- */

void ct__onnx_rmsnorm(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  int64_t axes[CT_MAX_DIMS];
  int dims = l->d->u.lnorm.dims ? l->d->u.lnorm.dims : 1;
  static const char *const word[] = {"square", "mean", "eps_added", "root", "normal"};
  char n[5][CT__ONNX_NAME];
  for (int i = 0; i < 5; i++)
    ct_text_fit(n[i], sizeof n[i], "%s", ct__onnx_name(o, l->id, word[i]));
  for (int i = 0; i < dims; i++)
    axes[i] = i - dims;
  ct__onnx_node(o, "Mul", OUT(n[0]), IN(l->x, l->x));
  ct__onnx_node(o, "ReduceMean", OUT(n[1]), IN(n[0]));
  ct__onnx_ints(o, "axes", dims, axes);
  ct__onnx_node(o, "Add", OUT(n[2]), IN(n[1], ct__onnx_scalar(o, l->id, "eps", l->d->u.lnorm.eps)));
  ct__onnx_node(o, "Sqrt", OUT(n[3]), IN(n[2]));
  ct__onnx_node(o, "Div", OUT(n[4]), IN(l->x, n[3]));
  ct__onnx_node(o, "Mul", OUT(l->y), IN(n[4], ct__onnx_param(o, l->id, 0)));
}
