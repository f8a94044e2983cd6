/* Completes the arguments of nodes: PyTorch leaves out those that equal their default.  The table
 * schemas.c has the arguments of each op with their defaults, as text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pt2/pt2.h"

enum { MOST_ARGS = 32, MOST_TEXT = 64, MOST_LIST = 8 };

/* An argument in a row of the table. */
typedef struct slot {
  char name[MOST_TEXT];
  char value[MOST_TEXT]; /* its default; "": none */
} slot_t;

static const ct__pt2_row_t *schema_search(const char *op)
{
  int low = 0, high = ct__pt2_n_rows;
  while (low < high) {
    int middle = (low + high) / 2, order = strcmp(op, ct__pt2_rows[middle].op);
    if (order == 0) return &ct__pt2_rows[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return NULL;
}

/* Finds an op; one that changes its first argument, "aten.relu_.default", has the row of
 * "aten.relu.default", if it has none of its own. */
static const ct__pt2_row_t *schema_find(const char *op)
{
  char name[2 * MOST_TEXT];
  const ct__pt2_row_t *row = schema_search(op);
  const char *mark = strstr(op, "_.");
  if (row || !mark || strlen(op) >= sizeof name) return row;
  if (ct_text_format(name, sizeof name, "%.*s%s", (int)(mark - op), op, mark + 1) != CT_OK)
    return NULL;
  return schema_search(name);
}

/* Takes the first slot of a row's text; returns the rest. */
static const char *take_slot(const char *at, slot_t *slot)
{
  size_t n = 0, k = 0;
  int nested = 0;
  while (*at && *at != ',' && *at != '=' && n < MOST_TEXT - 1)
    slot->name[n++] = *at++;
  if (*at == '=') at++;
  for (; *at && (*at != ',' || nested) && k < MOST_TEXT - 1; at++) {
    nested += (*at == '[') - (*at == ']');
    slot->value[k++] = *at;
  }
  slot->name[n] = slot->value[k] = '\0';
  while (*at == ',' || *at == ' ')
    at++;
  return at;
}

/* ---- defaults ---- */

static int default_number(ct__pt2_t *p, const char *text, ct_pt2_arg_t *a)
{
  int64_t n = 0;
  double x = 0;
  a->n = 1;
  if (ct_text_int(text, &n) == CT_OK) {
    ct_pt2_dim_t *dim = ct__pt2_alloc(p, 1, sizeof *dim);
    if (!dim) return CT_ERR_NOMEM;
    dim->n = n;
    a->kind = CT_PT2_INT;
    a->dim = dim;
    return CT_OK;
  }
  double *number = ct__pt2_alloc(p, 1, sizeof *number);
  if (!number) return CT_ERR_NOMEM;
  *number = ct_text_double(text, &x) == CT_OK ? x : NAN;
  a->kind = CT_PT2_FLOAT;
  a->number = number;
  return CT_OK;
}

/* "[]", "[-2, -1]" */
static int default_list(ct__pt2_t *p, const char *text, ct_pt2_arg_t *a)
{
  ct_pt2_dim_t *dim = ct__pt2_alloc(p, MOST_LIST, sizeof *dim);
  if (!dim) return CT_ERR_NOMEM;
  a->kind = CT_PT2_INTS;
  a->dim = dim;
  for (const char *at = text + 1; *at && *at != ']' && a->n < MOST_LIST;) {
    char *end;
    dim[a->n++].n = strtoll(at, &end, 10);
    at = end + strspn(end, ", ");
  }
  return CT_OK;
}

static int default_text(ct__pt2_t *p, const char *text, ct_pt2_arg_t *a)
{
  char *copy = ct__pt2_alloc(p, MOST_TEXT, 1);
  size_t n = strlen(text);
  if (!copy) return CT_ERR_NOMEM;
  memcpy(copy, text + 1, n - 2);
  a->kind = CT_PT2_STRING;
  a->text = copy;
  a->n = 1;
  return CT_OK;
}

static int default_value(ct__pt2_t *p, const char *text, ct_pt2_arg_t *a)
{
  int truth = strcmp(text, "True") == 0, format = strncmp(text, "format ", 7) == 0;
  if (strcmp(text, "None") == 0) return CT_OK;
  if (*text == '[') return default_list(p, text, a);
  if (*text == '\'') return default_text(p, text, a);
  if (!truth && !format && strcmp(text, "False") != 0) return default_number(p, text, a);
  ct_pt2_dim_t *dim = ct__pt2_alloc(p, 1, sizeof *dim);
  if (!dim) return CT_ERR_NOMEM;
  dim->n = format ? strtoll(text + 7, NULL, 10) : truth;
  a->kind = format ? CT_PT2_FORMAT : CT_PT2_BOOL;
  a->dim = dim;
  a->n = 1;
  return CT_OK;
}

/* ---- arguments of a node ---- */

/* Finds an argument that the file has, and marks it. */
static const ct_pt2_arg_t *schema_given(const ct_pt2_node_t *node, const char *name, char *used)
{
  for (int i = 0; i < node->args; i++)
    if (!used[i] && strcmp(node->arg[i].name, name) == 0) {
      used[i] = 1;
      return &node->arg[i];
    }
  return NULL;
}

const char *ct__pt2_first_name(ct__pt2_t *p, const char *op, const char *other)
{
  const ct__pt2_row_t *row = schema_find(op);
  slot_t slot;
  if (!row) return other;
  take_slot(row->args, &slot);
  return ct__pt2_copy(p, slot.name);
}

int ct__pt2_complete(ct__pt2_t *p, ct_pt2_node_t *node)
{
  int rc = CT_OK, n = 0;
  const ct__pt2_row_t *row = schema_find(node->op);
  if (!row) return CT_OK;
  char *used = ct__pt2_alloc(p, node->args, 1);
  ct_pt2_arg_t *list = ct__pt2_alloc(p, MOST_ARGS, sizeof *list);
  if (!used || !list) CT_TRY(CT_ERR_NOMEM);
  for (const char *at = row->args; *at && n < MOST_ARGS; n++) {
    slot_t slot;
    at = take_slot(at, &slot);
    const ct_pt2_arg_t *given = schema_given(node, slot.name, used);
    if (given) {
      list[n] = *given;
      continue;
    }
    list[n] = (ct_pt2_arg_t){.name = ct__pt2_copy(p, slot.name)};
    if (!list[n].name) CT_TRY(CT_ERR_NOMEM);
    if (!*slot.value)
      CT_TRY(ct_pt2_refuse(&p->g, node, CT_ERR_FORMAT, "argument '%s' is missing", slot.name));
    CT_TRY(default_value(p, slot.value, &list[n]));
  }
  for (int i = 0; i < node->args; i++)
    if (!used[i])
      CT_TRY(ct_pt2_refuse(&p->g, node, CT_ERR_UNSUP,
                           "has an argument '%s' that is unknown or there twice",
                           node->arg[i].name));
  node->arg = list;
  node->args = n;
  node->known = 1;
out:
  return rc;
}
