/* Making nodes and values that are not in the file, for the passes. */
#include <string.h>

#include "pt2/pt2.h"

ct__pt2_make_t ct__pt2_make(const char *op, const ct_pt2_node_t *like)
{
  return (ct__pt2_make_t){.node = {.op = op, .module = like->module, .type = like->type}};
}

/* The next argument; NULL: there is no memory for it. */
static ct_pt2_arg_t *make_next(ct__pt2_make_t *m, const char *name, ct_pt2_arg_kind_t kind,
                               const void *list, int n)
{
  if (!list || m->node.args == CT__PT2_MAKE) {
    m->failed = 1;
    return NULL;
  }
  ct_pt2_arg_t *a = &m->arg[m->node.args++];
  *a = (ct_pt2_arg_t){.name = name, .kind = kind, .n = n};
  return a;
}

void ct__pt2_make_tensor(ct__pt2_t *p, ct__pt2_make_t *m, const char *name, int value)
{
  int *list = ct__pt2_alloc(p, 1, sizeof *list);
  ct_pt2_arg_t *a = make_next(m, name, CT_PT2_TENSOR, list, 1);
  if (!a) return;
  *list = value;
  a->tensor = list;
}

void ct__pt2_make_dims(ct__pt2_t *p, ct__pt2_make_t *m, const char *name, const ct_pt2_dim_t *dim,
                       int n)
{
  ct_pt2_dim_t *list = ct__pt2_alloc(p, n, sizeof *list);
  ct_pt2_arg_t *a = make_next(m, name, CT_PT2_INTS, list, n);
  if (!a) return;
  for (int i = 0; i < n; i++)
    list[i] = dim[i];
  a->dim = list;
}

void ct__pt2_make_int(ct__pt2_t *p, ct__pt2_make_t *m, const char *name, int64_t n)
{
  const ct_pt2_dim_t one = {n, 0};
  int at = m->node.args;
  ct__pt2_make_dims(p, m, name, &one, 1);
  if (!m->failed) m->arg[at].kind = CT_PT2_INT;
}

void ct__pt2_make_type(ct__pt2_t *p, ct__pt2_make_t *m, const char *name, ct_elem_t type)
{
  int at = m->node.args;
  ct__pt2_make_int(p, m, name, type);
  if (!m->failed) m->arg[at].kind = CT_PT2_TYPE;
}

void ct__pt2_make_copy(ct__pt2_make_t *m, const char *name, const ct_pt2_arg_t *arg)
{
  ct_pt2_arg_t *a = make_next(m, name, arg->kind, arg, arg->n);
  if (!a) return;
  *a = *arg;
  a->name = name;
}

int ct__pt2_make_end(ct__pt2_t *p, ct__pt2_make_t *m, int value)
{
  int rc = CT_OK;
  ct_pt2_arg_t *list = ct__pt2_alloc(p, m->node.args, sizeof *list);
  int *out = ct__pt2_alloc(p, 1, sizeof *out);
  if (m->failed || !list || !out) CT_FAIL(CT_ERR_NOMEM, "%s: no memory for a node", p->g.path);
  memcpy(list, m->arg, (size_t)m->node.args * sizeof *list);
  *out = value;
  m->node.arg = list;
  m->node.out = out;
  m->node.outs = 1;
  CT_TRY(ct__pt2_complete(p, &m->node));
  p->value[value].node = p->g.nodes;
  CT_TRY(ct__pt2_add_node(p, &m->node));
out:
  return rc;
}

int ct__pt2_new_value(ct__pt2_t *p, int name, int shape, int type, int *out)
{
  int rc = CT_OK;
  const char *text = ct__pt2_format(p, "%s.%d", p->value[name].name, p->g.values);
  if (!text) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct__pt2_add_value(p, text, out));
  p->value[*out].type = p->value[type].type;
  p->value[*out].ndim = p->value[shape].ndim;
  p->value[*out].dim = p->value[shape].dim;
  p->more[*out].packed = 1;
out:
  return rc;
}

int ct__pt2_make_again(ct__pt2_t *p, int node, int first, const int **out)
{
  int rc = CT_OK;
  ct_pt2_node_t copy = p->node[node];
  ct_pt2_arg_t *list = ct__pt2_alloc(p, copy.args, sizeof *list);
  int *made = ct__pt2_alloc(p, copy.outs, sizeof *made);
  int *of = ct__pt2_alloc(p, 1, sizeof *of);
  if (!list || !made || !of) CT_TRY(CT_ERR_NOMEM);
  memcpy(list, copy.arg, (size_t)copy.args * sizeof *list);
  *of = first;
  list[0].tensor = of;
  for (int i = 0; i < copy.outs; i++) {
    made[i] = -1;
    if (copy.out[i] < 0) continue;
    CT_TRY(ct__pt2_new_value(p, copy.out[i], copy.out[i], copy.out[i], &made[i]));
    p->value[made[i]].node = p->g.nodes;
  }
  copy.arg = list;
  copy.out = made;
  CT_TRY(ct__pt2_add_node(p, &copy));
  *out = made;
out:
  return rc;
}

/* Replaces the tensors of argument number a.  *list: a copy of the arguments, made when the first
 * one changes. */
static int set_tensor(ct__pt2_t *p, ct_pt2_node_t *node, int a, ct_pt2_arg_t **list,
                      ct__pt2_get_t *get)
{
  int rc = CT_OK, v, *own = NULL;
  for (int k = 0; node->arg[a].tensor && k < node->arg[a].n; k++) {
    if (node->arg[a].tensor[k] < 0) continue;
    CT_TRY(get(p, node, node->arg[a].tensor[k], &v));
    if (v == node->arg[a].tensor[k]) continue;
    if (!*list) {
      *list = ct__pt2_alloc(p, node->args, sizeof **list);
      if (!*list) CT_TRY(CT_ERR_NOMEM);
      memcpy(*list, node->arg, (size_t)node->args * sizeof **list);
      node->arg = *list;
    }
    if (!own) {
      own = ct__pt2_alloc(p, node->arg[a].n, sizeof *own);
      if (!own) CT_TRY(CT_ERR_NOMEM);
      memcpy(own, node->arg[a].tensor, (size_t)node->arg[a].n * sizeof *own);
      (*list)[a].tensor = own;
    }
    own[k] = v;
  }
out:
  return rc;
}

int ct__pt2_set_tensors(ct__pt2_t *p, ct_pt2_node_t *node, ct__pt2_get_t *get)
{
  int rc = CT_OK;
  ct_pt2_arg_t *list = NULL;
  for (int a = 0; a < node->args; a++)
    CT_TRY(set_tensor(p, node, a, &list, get));
out:
  return rc;
}
