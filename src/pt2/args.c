/* Arguments of nodes, as the file has them: each is an object with one member, whose key is the
 * kind. */
#include <math.h>
#include <string.h>

#include "pt2/pt2.h"
#include "weights/pth/ct_weights_pth.h"

/* A list of arguments that is being read. */
typedef struct reading {
  ct__pt2_t *p;
  const ct__pt2_scope_t *s;
  const char *op, *name; /* for messages */
} reading_t;

static int args_bad(const reading_t *r, const char *expected)
{
  return ct__pt2_damaged(r->p, "%s: argument '%s': expected %s", r->op, r->name, expected);
}

static int args_numbers(const reading_t *r, int64_t n, ct_pt2_arg_t *a, ct_pt2_dim_t **out)
{
  *out = ct__pt2_alloc(r->p, n, sizeof **out);
  a->dim = *out;
  a->n = (int)n;
  return *out ? CT_OK : CT_ERR_NOMEM;
}

static int one_int(const reading_t *r, const json_t *v, ct_pt2_dim_t *out)
{
  if (!json_is_integer(v)) return args_bad(r, "a whole number");
  *out = (ct_pt2_dim_t){json_integer_value(v), 0};
  return CT_OK;
}

static int one_bool(const reading_t *r, const json_t *v, ct_pt2_dim_t *out)
{
  if (!json_is_boolean(v)) return args_bad(r, "true or false");
  *out = (ct_pt2_dim_t){json_is_true(v), 0};
  return CT_OK;
}

/* {"as_int": 3} or {"as_name": "sym_size"} */
static int one_sym_int(const reading_t *r, const json_t *v, ct_pt2_dim_t *out)
{
  const json_t *name = json_object_get(v, "as_name");
  const json_t *is =
      json_is_string(name) ? json_object_get(r->s->ints, json_string_value(name)) : NULL;
  if (!name) return one_int(r, json_object_get(v, "as_int"), out);
  if (!is) return args_bad(r, "a whole number that the program describes");
  return ct__pt2_sym_int(r->p, is, r->op, out);
}

/* Numbers that JSON does not have are texts. */
static int one_float(const reading_t *r, const json_t *v, double *out)
{
  const char *text = json_string_value(v);
  if (json_is_number(v))
    *out = json_number_value(v);
  else if (text && strcmp(text, "Infinity") == 0)
    *out = INFINITY;
  else if (text && strcmp(text, "-Infinity") == 0)
    *out = -INFINITY;
  else if (text && strcmp(text, "NaN") == 0)
    *out = NAN;
  else
    return args_bad(r, "a number");
  return CT_OK;
}

/* ---- kinds ---- */

static int take_ints(const reading_t *r, const json_t *v, ct_pt2_arg_t *a,
                     int (*one)(const reading_t *, const json_t *, ct_pt2_dim_t *), int list)
{
  int rc = CT_OK;
  ct_pt2_dim_t *d;
  if (list && !json_is_array(v)) CT_TRY(args_bad(r, "a list"));
  CT_TRY(args_numbers(r, list ? (int64_t)json_array_size(v) : 1, a, &d));
  for (int i = 0; i < a->n; i++)
    CT_TRY(one(r, list ? json_array_get(v, (size_t)i) : v, &d[i]));
  if (!list && a->n == 1 && d[0].batch == CT__PT2_UNCLEAR) {
    a->kind = CT_PT2_OTHER;
    a->text = "a number that is not a multiple of the batch size";
  }
out:
  return rc;
}

static int take_floats(const reading_t *r, const json_t *v, ct_pt2_arg_t *a, int list)
{
  int rc = CT_OK;
  int64_t n = list ? (int64_t)json_array_size(v) : 1;
  if (list && !json_is_array(v)) CT_TRY(args_bad(r, "a list"));
  double *x = ct__pt2_alloc(r->p, n, sizeof *x);
  if (!x) CT_TRY(CT_ERR_NOMEM);
  for (int64_t i = 0; i < n; i++)
    CT_TRY(one_float(r, list ? json_array_get(v, (size_t)i) : v, &x[i]));
  a->number = x;
  a->n = (int)n;
out:
  return rc;
}

static int take_complex(const reading_t *r, const json_t *v, ct_pt2_arg_t *a)
{
  int rc = CT_OK;
  double *x = ct__pt2_alloc(r->p, 2, sizeof *x);
  if (!x) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(one_float(r, json_object_get(v, "real"), &x[0]));
  CT_TRY(one_float(r, json_object_get(v, "imag"), &x[1]));
  a->number = x;
  a->n = 2;
out:
  return rc;
}

/* One tensor of a list, {"name": "x"}, perhaps below "as_tensor"; -1: {"as_none": true}. */
static int one_tensor(const reading_t *r, const json_t *v, int *out)
{
  const json_t *inner = json_object_get(v, "as_tensor");
  *out = -1;
  if (json_object_get(v, "as_none")) return CT_OK;
  return ct__pt2_find(r->p, r->s, json_object_get(inner ? inner : v, "name"), out);
}

static int take_tensors(const reading_t *r, const json_t *v, ct_pt2_arg_t *a, int list)
{
  int rc = CT_OK;
  int64_t n = list ? (int64_t)json_array_size(v) : 1;
  if (list && !json_is_array(v)) CT_TRY(args_bad(r, "a list"));
  int *t = ct__pt2_alloc(r->p, n, sizeof *t);
  if (!t) CT_TRY(CT_ERR_NOMEM);
  for (int64_t i = 0; i < n; i++)
    CT_TRY(one_tensor(r, list ? json_array_get(v, (size_t)i) : v, &t[i]));
  a->tensor = t;
  a->n = (int)n;
  if (!list && t[0] < 0) *a = (ct_pt2_arg_t){.name = a->name, .kind = CT_PT2_NONE};
out:
  return rc;
}

static int take_text(const reading_t *r, const json_t *v, ct_pt2_arg_t *a)
{
  int rc = CT_OK;
  const json_t *text = a->kind == CT_PT2_DEVICE ? json_object_get(v, "type") : v;
  if (!ct__pt2_is_name(text)) CT_TRY(args_bad(r, "printable text"));
  a->text = ct__pt2_copy(r->p, json_string_value(text));
  a->n = 1;
  if (!a->text) CT_TRY(CT_ERR_NOMEM);
out:
  return rc;
}

static int one_type(const reading_t *r, const json_t *v, ct_pt2_dim_t *out)
{
  if (!json_is_integer(v)) return args_bad(r, "the number of a type");
  *out = (ct_pt2_dim_t){ct_pt2_list_type(json_integer_value(v)), 0};
  return CT_OK;
}

static const struct {
  const char *key;
  ct_pt2_arg_kind_t kind;
} kinds[] = {
    {"as_none", CT_PT2_NONE},
    {"as_tensor", CT_PT2_TENSOR},
    {"as_tensors", CT_PT2_TENSORS},
    {"as_optional_tensors", CT_PT2_TENSORS},
    {"as_int", CT_PT2_INT},
    {"as_ints", CT_PT2_INTS},
    {"as_float", CT_PT2_FLOAT},
    {"as_floats", CT_PT2_FLOATS},
    {"as_string", CT_PT2_STRING},
    {"as_sym_int", CT_PT2_INT},
    {"as_sym_ints", CT_PT2_INTS},
    {"as_scalar_type", CT_PT2_TYPE},
    {"as_layout", CT_PT2_LAYOUT},
    {"as_memory_format", CT_PT2_FORMAT},
    {"as_device", CT_PT2_DEVICE},
    {"as_bool", CT_PT2_BOOL},
    {"as_bools", CT_PT2_BOOLS},
    {"as_complex", CT_PT2_COMPLEX},
    {"as_optional_tensor", CT_PT2_TENSOR},
};

static int take_value(const reading_t *r, const char *key, const json_t *v, ct_pt2_arg_t *a)
{
  int symbolic = strncmp(key, "as_sym", 6) == 0;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(kinds[i].key, key) == 0) a->kind = kinds[i].kind;
  switch (a->kind) {
  case CT_PT2_NONE:
    return CT_OK;
  case CT_PT2_TENSOR:
  case CT_PT2_TENSORS:
    return take_tensors(r, v, a, a->kind == CT_PT2_TENSORS);
  case CT_PT2_INT:
  case CT_PT2_INTS:
    return take_ints(r, v, a, symbolic ? one_sym_int : one_int, a->kind == CT_PT2_INTS);
  case CT_PT2_BOOL:
  case CT_PT2_BOOLS:
    return take_ints(r, v, a, one_bool, a->kind == CT_PT2_BOOLS);
  case CT_PT2_FLOAT:
  case CT_PT2_FLOATS:
    return take_floats(r, v, a, a->kind == CT_PT2_FLOATS);
  case CT_PT2_COMPLEX:
    return take_complex(r, v, a);
  case CT_PT2_STRING:
  case CT_PT2_DEVICE:
    return take_text(r, v, a);
  case CT_PT2_TYPE:
    return take_ints(r, v, a, one_type, 0);
  case CT_PT2_FORMAT:
  case CT_PT2_LAYOUT:
    return take_ints(r, v, a, one_int, 0);
  case CT_PT2_OTHER:
    a->text = symbolic ? "a number that the program computes" : ct__pt2_copy(r->p, key);
    return a->text ? CT_OK : CT_ERR_NOMEM;
  }
  return CT_OK;
}

int ct__pt2_read_args(ct__pt2_t *p, const ct__pt2_scope_t *s, const json_t *inputs,
                      ct_pt2_node_t *node)
{
  int rc = CT_OK;
  reading_t r = {.p = p, .s = s, .op = node->op, .name = "?"};
  size_t n = json_array_size(inputs);
  ct_pt2_arg_t *list = ct__pt2_alloc(p, (int64_t)n, sizeof *list);
  if (!list) CT_TRY(CT_ERR_NOMEM);
  if (!json_is_array(inputs)) CT_TRY(ct__pt2_damaged(p, "%s: expected a list of inputs", r.op));
  for (size_t i = 0; i < n; i++) {
    const json_t *item = json_array_get(inputs, i), *name = json_object_get(item, "name");
    const char *key, *text = json_string_value(name);
    const json_t *v = ct__pt2_only(json_object_get(item, "arg"), &key);
    r.name = text && (ct__pt2_is_name(name) || !*text) ? text : NULL;
    if (!r.name || !v)
      CT_TRY(ct__pt2_damaged(p, "%s: expected a name and a value of each input", r.op));
    list[i] = (ct_pt2_arg_t){.name = ct__pt2_copy(p, r.name), .kind = CT_PT2_OTHER};
    if (!list[i].name) CT_TRY(CT_ERR_NOMEM);
    CT_TRY(take_value(&r, key, v, &list[i]));
  }
  node->arg = list;
  node->args = (int)n;
out:
  return rc;
}
