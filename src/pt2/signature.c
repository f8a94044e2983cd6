/* The inputs and outputs of a program: which are the user's, which are parameters, buffers and
 * constants, and how the user's outputs are called. */
#include <string.h>

#include "base/ct_mem.h"
#include "pt2/pt2.h"

enum { MOST_NESTED = 16, MOST_NAME = 200 };

/* ---- inputs ---- */

static int signature_text(ct__pt2_t *p, const json_t *o, const char *what, const char **out)
{
  int rc = CT_OK;
  if (!ct__pt2_is_name(o)) CT_TRY(ct__pt2_damaged(p, "the name of a %s is not printable", what));
  *out = ct__pt2_copy(p, json_string_value(o));
  if (!*out) CT_TRY(CT_ERR_NOMEM);
out:
  return rc;
}

/* Sets the name in the state dict, or of a constant. */
static int name_state(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *name, const char *what, int v)
{
  int rc = CT_OK;
  CT_TRY(signature_text(p, name, what, &p->value[v].state));
  if (json_object_get(s->states, p->value[v].state))
    CT_TRY(ct__pt2_damaged(p, "the %s '%s' is there twice", what, p->value[v].state));
  if (json_object_set_new(s->states, p->value[v].state, json_integer(v)) != 0)
    CT_FAIL(CT_ERR_NOMEM, "%s: no memory for the names of values", p->g.path);
out:
  return rc;
}

static int read_input(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *spec)
{
  static const struct {
    const char *key, *name, *what;
    ct_pt2_kind_t kind;
  } kinds[] = {
      {"parameter", "parameter_name", "parameter", CT_PT2_PARAMETER},
      {"buffer", "buffer_name", "buffer", CT_PT2_BUFFER},
      {"tensor_constant", "tensor_constant_name", "constant", CT_PT2_CONSTANT},
  };
  int rc = CT_OK, v;
  const char *key = "?";
  const json_t *in = ct__pt2_only(spec, &key), *arg = json_object_get(in, "arg");
  if (!in) CT_TRY(ct__pt2_damaged(p, "expected the kind of each input"));
  if (strcmp(key, "constant_input") == 0) goto out;
  if (strcmp(key, "user_input") == 0) {
    const json_t *t = json_object_get(arg, "as_tensor");
    if (json_object_get(arg, "as_sym_int") || json_object_get(arg, "as_custom_obj"))
      CT_FAIL(CT_ERR_UNSUP, "%s: an input of the model is not a tensor", p->g.path);
    if (t) CT_TRY(ct__pt2_define(p, s, json_object_get(t, "name"), CT_PT2_INPUT, &v));
    goto out;
  }
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(key, kinds[i].key) != 0) continue;
    CT_TRY(ct__pt2_define(p, s, json_object_get(arg, "name"), kinds[i].kind, &v));
    CT_TRY(name_state(p, s, json_object_get(in, kinds[i].name), kinds[i].what, v));
    p->value[v].persistent = json_is_true(json_object_get(in, "persistent"));
    goto out;
  }
  CT_FAIL(CT_ERR_UNSUP, "%s: the model has an input of kind '%s', which is not a tensor", p->g.path,
          key);
out:
  return rc;
}

/* Lists the values of a kind, or of two. */
static int list_kind(ct__pt2_t *p, ct_pt2_kind_t a, ct_pt2_kind_t b, int *n, const int **out)
{
  int *list = ct__pt2_alloc(p, p->g.values, sizeof *list);
  if (!list) return CT_ERR_NOMEM;
  *n = 0;
  for (int v = 0; v < p->g.values; v++)
    if (p->value[v].kind == a || p->value[v].kind == b) list[(*n)++] = v;
  *out = list;
  return CT_OK;
}

int ct__pt2_read_inputs(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *specs)
{
  int rc = CT_OK;
  if (!json_is_array(specs)) CT_TRY(ct__pt2_damaged(p, "it has no list of inputs"));
  for (size_t i = 0; i < json_array_size(specs); i++) { /* N is a symbol of the user's inputs */
    const json_t *in = json_object_get(json_array_get(specs, i), "user_input");
    const json_t *t = json_object_get(json_object_get(in, "arg"), "as_tensor");
    const char *name = json_string_value(json_object_get(t, "name"));
    const json_t *sizes = json_object_get(name ? json_object_get(s->tensors, name) : NULL, "sizes");
    for (size_t k = 0; k < json_array_size(sizes); k++)
      ct__pt2_find_symbol(p, json_array_get(sizes, k));
  }
  for (size_t i = 0; i < json_array_size(specs); i++)
    CT_TRY(read_input(p, s, json_array_get(specs, i)));
  CT_TRY(list_kind(p, CT_PT2_INPUT, CT_PT2_INPUT, &p->g.inputs, &p->g.input));
  CT_TRY(list_kind(p, CT_PT2_PARAMETER, CT_PT2_BUFFER, &p->g.states, &p->g.state));
out:
  return rc;
}

/* ---- names of outputs ---- */

/* The structure of forward()'s result that is being walked: "logits", "aux.1". */
typedef struct walk {
  ct__pt2_t *p;
  ct_pt2_output_t *out;
  int n, most; /* names so far; outputs */
  int odd;     /* 1: the structure is not understood */
} walk_t;

static int name_output(walk_t *w, const char *path)
{
  if (w->n == w->most) {
    w->odd = 1;
    return CT_OK;
  }
  w->out[w->n].name = ct__pt2_copy(w->p, path);
  return w->out[w->n++].name ? CT_OK : CT_ERR_NOMEM;
}

/* The keys of a dict; NULL: they are numbered. */
static json_t *walk_keys(const json_t *spec, size_t children)
{
  const char *text = json_string_value(json_object_get(spec, "context"));
  json_t *keys = text ? json_loads(text, 0, NULL) : NULL;
  int good = json_array_size(keys) == children;
  for (size_t i = 0; i < children && good; i++)
    good = ct__pt2_is_name(json_array_get(keys, i));
  if (good) return keys;
  json_decref(keys);
  return NULL;
}

static int walk_spec(walk_t *w, const json_t *spec, const char *path, int depth)
{
  int rc = CT_OK;
  const json_t *list = json_object_get(spec, "children_spec");
  size_t n = json_array_size(list);
  json_t *keys = NULL;
  char name[MOST_NAME];
  if (json_is_null(json_object_get(spec, "type"))) return name_output(w, path);
  if (depth == MOST_NESTED || n == 0) w->odd |= depth == MOST_NESTED;
  keys = walk_keys(spec, n);
  for (size_t i = 0; i < n && !w->odd; i++) {
    const char *key = json_string_value(json_array_get(keys, i)), *dot = *path ? "." : "";
    int fits = key ? ct_text_format(name, sizeof name, "%s%s%s", path, dot, key)
                   : ct_text_format(name, sizeof name, "%s%s%zu", path, dot, i);
    w->odd |= fits != CT_OK;
    if (!w->odd) CT_TRY(walk_spec(w, json_array_get(list, i), name, depth + 1));
  }
out:
  json_decref(keys);
  return rc;
}

/* Names the outputs by the keys and indices of the structure that forward() returns; by numbers if
 * it has another number of tensors. */
static int name_outputs(ct__pt2_t *p, ct_pt2_output_t *out, int n, const json_t *calls)
{
  int rc = CT_OK;
  const json_t *call = json_object_get(json_array_get(calls, 0), "signature");
  const char *text = json_string_value(json_object_get(call, "out_spec"));
  json_t *spec = text ? json_loads(text, 0, NULL) : NULL;
  walk_t w = {.p = p, .out = out, .most = n, .odd = json_array_size(spec) != 2};
  if (!w.odd) CT_TRY(walk_spec(&w, json_array_get(spec, 1), "", 0));
  for (int i = 0; i < n && (w.odd || w.n != n); i++) {
    out[i].name = ct__pt2_format(p, "%d", i);
    if (!out[i].name) CT_TRY(CT_ERR_NOMEM);
  }
out:
  json_decref(spec);
  return rc;
}

/* ---- outputs ---- */

/* Marks a parameter, buffer or input that becomes another value in a step. */
static int mark_changed(ct__pt2_t *p, const ct__pt2_scope_t *s, const json_t *o, const char *key,
                        int value)
{
  static const char *const names[] = {"buffer_name", "parameter_name", "user_input_name"};
  int rc = CT_OK, found = 0;
  for (int k = 0; k < 3 && !found; k++) {
    const char *name = json_string_value(json_object_get(o, names[k]));
    const json_t *v = name ? json_object_get(k == 2 ? s->names : s->states, name) : NULL;
    if (v) p->value[json_integer_value(v)].becomes = value;
    found = v != NULL;
  }
  if (!found)
    CT_TRY(ct__pt2_damaged(p, "an output of kind '%s' changes a tensor that does not exist", key));
out:
  return rc;
}

static int read_output(ct__pt2_t *p, const ct__pt2_scope_t *s, const json_t *spec,
                       ct_pt2_output_t *list, int *n)
{
  int rc = CT_OK, v;
  const char *key = "?";
  const json_t *o = ct__pt2_only(spec, &key), *arg = json_object_get(o, "arg");
  const json_t *t = json_object_get(arg, "as_tensor");
  if (!o) CT_TRY(ct__pt2_damaged(p, "expected the kind of each output"));
  if (strcmp(key, "user_output") == 0) {
    list[*n] = (ct_pt2_output_t){"", -1};
    if (t) CT_TRY(ct__pt2_find(p, s, json_object_get(t, "name"), &list[*n].value));
    (*n)++;
  } else if (strstr(key, "_mutation")) {
    CT_TRY(ct__pt2_find(p, s, json_object_get(arg, "name"), &v));
    CT_TRY(mark_changed(p, s, o, key, v));
  } else {
    CT_FAIL(CT_ERR_UNSUP, "%s: the program has an output of kind '%s': export the model alone",
            p->g.path, key);
  }
out:
  return rc;
}

int ct__pt2_read_outputs(ct__pt2_t *p, ct__pt2_scope_t *s, const json_t *specs, const json_t *calls)
{
  int rc = CT_OK;
  ct_pt2_output_t *list = ct__pt2_alloc(p, (int64_t)json_array_size(specs), sizeof *list);
  if (!list) CT_TRY(CT_ERR_NOMEM);
  if (!json_is_array(specs)) CT_TRY(ct__pt2_damaged(p, "it has no list of outputs"));
  for (size_t i = 0; i < json_array_size(specs); i++)
    CT_TRY(read_output(p, s, json_array_get(specs, i), list, &p->g.outputs));
  p->g.output = list;
  CT_TRY(name_outputs(p, list, p->g.outputs, calls));
out:
  return rc;
}
