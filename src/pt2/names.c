/* Names of a program: which are valid, and which value each one means.  A name must be defined
 * before it is used, so there are no cycles. */
#include <ctype.h>
#include <string.h>

#include "pt2/pt2.h"
#include "weights/pth/ct_weights_pth.h"

enum { MOST_NAME = 400 /* bytes of a name */ };

int ct__pt2_is_name(const json_t *o)
{
  const char *text = json_string_value(o);
  if (!text || strlen(text) != json_string_length(o) || json_string_length(o) > MOST_NAME ||
      !*text || !ct_text_is_utf8(text))
    return 0;
  for (const char *c = text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) return 0;
  return 1;
}

const json_t *ct__pt2_only(const json_t *o, const char **key)
{
  json_t *name;
  const json_t *v = NULL;
  void *it = json_object_iter((json_t *)o);
  if (!it || json_object_size(o) != 1) return NULL;
  *key = json_object_iter_key(it);
  name = json_string(*key);
  if (ct__pt2_is_name(name)) v = json_object_iter_value(it);
  json_decref(name);
  return v;
}

/* ---- values ---- */

/* Sets the dims of a value, and whether it is row-major without gaps. */
static int graph_dims(ct__pt2_t *p, const json_t *meta, int v)
{
  int rc = CT_OK;
  const json_t *sizes = json_object_get(meta, "sizes"), *steps = json_object_get(meta, "strides");
  const char *name = p->value[v].name;
  size_t n = json_array_size(sizes);
  int64_t product = 1;
  ct_pt2_dim_t *dim = ct__pt2_alloc(p, (int64_t)n, sizeof *dim), step, want = {1, 0};
  if (!dim) CT_TRY(CT_ERR_NOMEM);
  if (!json_is_array(sizes) || n > CT__PT2_DIMS || json_array_size(steps) != n)
    CT_TRY(ct__pt2_damaged(p, "'%s': expected sizes and as many strides (at most %d)", name,
                           CT__PT2_DIMS));
  p->more[v].packed = 1;
  for (size_t i = n; i-- > 0;) {
    CT_TRY(ct__pt2_sym_int(p, json_array_get(sizes, i), name, &dim[i]));
    CT_TRY(ct__pt2_sym_int(p, json_array_get(steps, i), name, &step));
    if (dim[i].n < 0 || __builtin_mul_overflow(product, dim[i].n ? dim[i].n : 1, &product) ||
        product > INT64_MAX / 64)
      CT_TRY(ct__pt2_damaged(p, "'%s' has a negative size, or its elements are too many", name));
    if ((dim[i].n != 1 || dim[i].batch) && (step.n != want.n || step.batch != want.batch))
      p->more[v].packed = 0;
    want.n = product;
    want.batch += dim[i].batch; /* two or more: no stride is equal */
    if (dim[i].batch == CT__PT2_UNCLEAR) p->more[v].packed = 0;
  }
  p->value[v].dim = dim;
  p->value[v].ndim = (int)n;
out:
  return rc;
}

int ct__pt2_define(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *name, ct_pt2_kind_t kind,
                   int *out)
{
  int rc = CT_OK;
  const char *text = json_string_value(name), *own;
  const json_t *meta = text ? json_object_get(s->tensors, text) : NULL;
  if (!ct__pt2_is_name(name))
    CT_TRY(ct__pt2_damaged(p, "the name of a value is not printable text"));
  for (const char *c = text; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_')
      CT_TRY(ct__pt2_damaged(p, "value '%s': a name has letters, digits and '_'", text));
  if (json_object_get(s->names, text)) CT_TRY(ct__pt2_damaged(p, "'%s' is defined twice", text));
  if (!meta) CT_TRY(ct__pt2_damaged(p, "'%s' has no entry in tensor_values", text));
  own = ct__pt2_format(p, "%s%s", s->prefix, text);
  if (!own) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct__pt2_add_value(p, own, out));
  p->value[*out].kind = kind;
  p->value[*out].type = ct_pt2_list_type(json_integer_value(json_object_get(meta, "dtype")));
  p->value[*out].trained = json_is_true(json_object_get(meta, "requires_grad"));
  CT_TRY(graph_dims(p, meta, *out));
  if (json_object_set_new(s->names, text, json_integer(*out)) != 0)
    CT_FAIL(CT_ERR_NOMEM, "%s: no memory for the names of values", p->g.path);
out:
  return rc;
}

int ct__pt2_find(ct__pt2_t *p, const ct__pt2_scope_t *s, const json_t *name, int *out)
{
  int rc = CT_OK;
  const json_t *index = NULL;
  if (json_is_string(name)) index = json_object_get(s->names, json_string_value(name));
  if (!index)
    CT_TRY(ct__pt2_damaged(p, "'%s' is used before it is defined",
                           ct__pt2_is_name(name) ? json_string_value(name) : "?"));
  *out = (int)json_integer_value(index);
out:
  return rc;
}
