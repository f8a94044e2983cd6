/* Models of one token at a time: the keys and values of the tokens before it are inputs
 * `past.LAYER`, with those of the token they are outputs `present.LAYER`, and its place is the
 * input `position`. */
#include "onnx/onnx_layer.h"

#include "backend/ct_element.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

/* Joins a cache and the keys or values x of the token; writes the name of the result to *joined. */
static int join_past(ct__onnx_t *o, int id, const char *word, int64_t width, const char *x,
                     char joined[CT__ONNX_NAME])
{
  int rc = CT_OK;
  char past[CT__ONNX_NAME];
  const char *layer = o->g->layer[id].name;
  CT_TRY(ct_mem_grow((void **)&o->past, &o->past_cap, o->pasts + 1, sizeof *o->past));
  ct__onnx_past_t *p = &o->past[o->pasts++];
  CT_TRY(ct_text_format(p->name, sizeof p->name, "%s%s", layer, word));
  p->width = width;
  CT_TRY(ct_text_format(past, sizeof past, "past.%s", p->name));
  CT_TRY(ct_text_format(joined, CT__ONNX_NAME, "present.%s", p->name));
  ct__onnx_node(o, "Concat", CT__ONNX_LIST(joined), CT__ONNX_LIST(past, x));
  ct__onnx_int(o, "axis", 1);
out:
  return rc;
}

/* Cuts queries, or keys and values, out of x. */
static const char *cut_packed(ct__onnx_t *o, const ct__onnx_layer_t *l, const char *word,
                              int64_t from, int64_t to)
{
  static const char *const what[] = {"from", "to", "axis"};
  const int64_t v[] = {from, to, 2};
  const char *arg[3];
  char name[40];
  for (int i = 0; i < 3; i++) {
    ct_text_fit(name, sizeof name, "%s_%s", word, what[i]);
    arg[i] = ct__onnx_const_ints(o, l->id, name, 1, 1, &v[i]);
  }
  const char *y = ct__onnx_name(o, l->id, word);
  ct__onnx_node(o, "Slice", CT__ONNX_LIST(y), CT__ONNX_LIST(l->x, arg[0], arg[1], arg[2]));
  return y;
}

/* The token sees all keys. */
static int cached_attention(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  int rc = CT_OK;
  char q[CT__ONNX_NAME], kv[CT__ONNX_NAME], k[CT__ONNX_NAME], v[CT__ONNX_NAME];
  ct_op_desc_t d = *l->d;
  ct__onnx_layer_t as = *l;
  int64_t wide = d.y.dim[2];
  if (d.u.sdpa.packed == 1) {
    ct_shape_t keys = d.x;
    keys.dim[2] = d.x.dim[2] - wide;
    CT_TRY(ct_text_format(q, sizeof q, "%s", cut_packed(o, l, "q", 0, wide)));
    CT_TRY(ct_text_format(kv, sizeof kv, "%s", cut_packed(o, l, "kv", wide, d.x.dim[2])));
    d.x.dim[2] = wide;
    ct_op_desc_more(&d, &keys, NULL);
    d.u.sdpa.packed = 2;
    as.x = q;
    as.x2 = kv;
  }
  CT_TRY(join_past(o, l->id, d.u.sdpa.packed ? "" : ".keys", d.x2.dim[2], as.x2, k));
  as.x2 = k;
  if (!d.u.sdpa.packed) {
    CT_TRY(join_past(o, l->id, ".values", d.x3.dim[2], as.x3, v));
    as.x3 = v;
  }
  d.u.sdpa.causal = 0;
  as.d = &d;
  ct__onnx_sdpa(o, &as);
out:
  return rc;
}

/* Returns 1 if it has written a layer that knows the place of the token. */
static int write_placed(ct__onnx_t *o, const ct__onnx_layer_t *l)
{
  static const char place[] = "position";
  const ct_shape_t one = ct_shape(2, 1, 1);
  ct_op_desc_t d = *l->d;
  ct__onnx_layer_t as = *l;
  if (d.kind == CT_OP_POSITION)
    ct__onnx_node(o, "Identity", CT__ONNX_LIST(l->y), CT__ONNX_LIST(place));
  if (d.kind != CT_OP_ROPE || d.x2.ndim) return d.kind == CT_OP_POSITION;
  ct_op_desc_more(&d, &one, NULL);
  as.d = &d;
  as.x2 = place;
  ct__onnx_rope(o, &as);
  return 1;
}

int ct__onnx_cached(ct__onnx_t *o, const ct__onnx_layer_t *l, int *done)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = l->d;
  const char *layer = o->g->layer[l->id].name, *kind = o->g->layer[l->id].ops->kind;
  *done = d->kind == CT_OP_SDPA;
  if (d->kind == CT_OP_SDPA) {
    if (!d->u.sdpa.causal || !d->u.sdpa.heads || d->u.sdpa.mask != CT_MASK_NONE)
      CT_FAIL(
          CT_ERR_UNSUP,
          "layer '%s' (%s) cannot use a cache: it is not causal attention with the option heads",
          layer, kind);
    CT_TRY(cached_attention(o, l));
  } else if (!ct_op_by_element(d, 1, 1)) {
    CT_FAIL(CT_ERR_UNSUP,
            "layer '%s' (%s) cannot use a cache: it reads other elements of a sequence", layer,
            kind);
  } else {
    *done = write_placed(o, l);
  }
out:
  return rc;
}
