/* Access to arguments by name, with errors that name the op and the user's module. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "pt2/pt2.h"

int ct_pt2_refuse(const ct_pt2_t *g, const ct_pt2_node_t *node, int code, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  ct_err_vset(code, __FILE__, __LINE__, fmt, args);
  va_end(args);
  if (*node->module)
    return ct_err_prefix(code, "%s: %s in module '%s': ", g->path, node->op, node->module);
  return ct_err_prefix(code, "%s: %s in the model's forward(): ", g->path, node->op);
}

const char *ct_pt2_shape(const ct_pt2_value_t *v, char *buf, size_t cap)
{
  size_t used = 0;
  buf[0] = '\0';
  for (int i = 0; i < v->ndim && used < cap; i++) {
    const ct_pt2_dim_t *d = &v->dim[i];
    char text[32];
    if (d->batch == CT__PT2_UNCLEAR)
      snprintf(text, sizeof text, "?");
    else if (d->batch && d->n == 1)
      snprintf(text, sizeof text, "N");
    else
      snprintf(text, sizeof text, "%" PRId64 "%s", d->n, d->batch ? "N" : "");
    int n = snprintf(buf + used, cap - used, "%s%s", i ? " x " : "", text);
    used += n > 0 ? (size_t)n : 0;
  }
  if (v->ndim == 0) snprintf(buf, cap, "scalar");
  return buf;
}

int ct_pt2_is(const ct_pt2_node_t *node, const char *name)
{
  size_t n = strlen(name);
  return strncmp(node->op, name, n) == 0 && (node->op[n] == '.' || !node->op[n]);
}

const ct_pt2_arg_t *ct_pt2_arg(const ct_pt2_node_t *node, const char *name)
{
  for (int i = 0; i < node->args; i++)
    if (strcmp(node->arg[i].name, name) == 0) return &node->arg[i];
  return NULL;
}

int ct_pt2_is_none(const ct_pt2_node_t *node, const char *name)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  return !a || a->kind == CT_PT2_NONE;
}

/* Says that an argument is of another kind. */
static int get_expected(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name,
                        const char *what)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  if (!a) return ct_pt2_refuse(g, node, CT_ERR_UNSUP, "has no argument '%s'", name);
  if (a->kind == CT_PT2_OTHER)
    return ct_pt2_refuse(g, node, CT_ERR_UNSUP, "argument '%s' is %s; expected %s", name, a->text,
                         what);
  return ct_pt2_refuse(g, node, CT_ERR_UNSUP, "argument '%s': expected %s", name, what);
}

static int is_kind(const ct_pt2_arg_t *a, ct_pt2_arg_kind_t one, ct_pt2_arg_kind_t other)
{
  return a && (a->kind == one || a->kind == other);
}

int ct_pt2_tensor(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int may_be_none,
                  int *out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  *out = -1;
  if (a && a->kind == CT_PT2_NONE && may_be_none) return CT_OK;
  if (!is_kind(a, CT_PT2_TENSOR, CT_PT2_TENSOR)) return get_expected(g, node, name, "a tensor");
  *out = a->tensor[0];
  return CT_OK;
}

int ct_pt2_tensors(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int *n,
                   const int **out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  *n = 0;
  *out = NULL;
  if (!is_kind(a, CT_PT2_TENSORS, CT_PT2_TENSORS))
    return get_expected(g, node, name, "a list of tensors");
  *n = a->n;
  *out = a->tensor;
  return CT_OK;
}

int ct_pt2_int(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int64_t *out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  *out = 0;
  if (!is_kind(a, CT_PT2_INT, CT_PT2_BOOL) || a->dim[0].batch)
    return get_expected(g, node, name, "a whole number that does not depend on the batch size");
  *out = a->dim[0].n;
  return CT_OK;
}

int ct_pt2_ints(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int n, int64_t *out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  int good = is_kind(a, CT_PT2_INT, CT_PT2_INTS) && (a->n == n || a->n == 1);
  for (int i = 0; i < n; i++)
    out[i] = 0;
  for (int i = 0; good && i < a->n; i++)
    good = a->dim[i].batch == 0;
  if (!good) {
    char what[80];
    snprintf(what, sizeof what, "%d whole numbers that do not depend on the batch size", n);
    return get_expected(g, node, name, what);
  }
  for (int i = 0; i < n; i++)
    out[i] = a->dim[a->n == 1 ? 0 : i].n;
  return CT_OK;
}

int ct_pt2_dims(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int *n,
                const ct_pt2_dim_t **out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  *n = 0;
  *out = NULL;
  if (a && a->kind == CT_PT2_NONE) return CT_OK;
  int good = is_kind(a, CT_PT2_INT, CT_PT2_INTS);
  for (int i = 0; good && i < a->n; i++)
    good = a->dim[i].batch != CT__PT2_UNCLEAR;
  if (!good) return get_expected(g, node, name, "whole numbers or multiples of the batch size");
  *n = a->n;
  *out = a->dim;
  return CT_OK;
}

int ct_pt2_number(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, double *out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  *out = 0;
  if (is_kind(a, CT_PT2_FLOAT, CT_PT2_FLOAT))
    *out = a->number[0];
  else if (is_kind(a, CT_PT2_INT, CT_PT2_BOOL) && !a->dim[0].batch)
    *out = (double)a->dim[0].n;
  else
    return get_expected(g, node, name, "a number that does not depend on the batch size");
  return CT_OK;
}

int ct_pt2_bool(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, int *out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  *out = 0;
  if (!is_kind(a, CT_PT2_BOOL, CT_PT2_INT) || a->dim[0].batch)
    return get_expected(g, node, name, "true or false");
  *out = a->dim[0].n != 0;
  return CT_OK;
}

int ct_pt2_text(const ct_pt2_t *g, const ct_pt2_node_t *node, const char *name, const char **out)
{
  const ct_pt2_arg_t *a = ct_pt2_arg(node, name);
  *out = NULL;
  if (a && a->kind == CT_PT2_NONE) return CT_OK;
  if (!is_kind(a, CT_PT2_STRING, CT_PT2_DEVICE)) return get_expected(g, node, name, "a text");
  *out = a->text;
  return CT_OK;
}

int64_t ct_pt2_count(const ct_pt2_value_t *v)
{
  int64_t n = 1;
  for (int i = 0; i < v->ndim; i++) {
    if (v->dim[i].batch) return -1;
    n *= v->dim[i].n; /* checked when it was read */
  }
  return n;
}
