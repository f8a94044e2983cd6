/* The numbers of parameters, buffers and constants: connects values with the tensors of the file,
 * and reads them. */
#include <string.h>

#include "base/ct_heartbeat.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include "pt2/pt2.h"
#include "weights/pth/ct_weights_pth.h"

enum { PIECE = 1 << 16 }; /* elements converted at a time */

static ct_weights_t *list_of(const ct__pt2_t *p, int list)
{
  return list == CT_PT2_LIST_WEIGHTS ? p->weights : p->constants;
}

/* Index of each tensor of a list by its name. */
static int index_names(const ct__pt2_t *p, int list, json_t **out)
{
  int rc = CT_OK;
  ct_tensor_t t;
  json_t *names = json_object();
  for (int i = 0; i < ct_weights_pth.count(list_of(p, list)); i++) {
    ct_weights_pth.tensor(list_of(p, list), i, &t);
    if (json_object_set_new(names, t.name, json_integer(i)) != 0)
      CT_FAIL(CT_ERR_NOMEM, "%s: no memory for the names of tensors", p->g.path);
  }
  *out = names;
  names = NULL;
out:
  json_decref(names);
  return rc;
}

/* Checks that the tensor of the file is what the program says. */
static int check_tensor(const ct__pt2_t *p, int v)
{
  int rc = CT_OK, same;
  const ct_pt2_value_t *is = &p->value[v];
  ct_tensor_t t;
  ct_weights_pth.tensor(list_of(p, p->more[v].list), p->more[v].item, &t);
  same = t.ndim == is->ndim && t.type == is->type;
  for (int i = 0; i < is->ndim && same; i++)
    same = !is->dim[i].batch && is->dim[i].n == t.dim[i];
  if (!same)
    CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s' has another shape or type than in the program",
            p->g.path, is->state);
out:
  return rc;
}

/* Sets the tensor of each value of a list, and the first value with the same memory. */
static int connect_list(ct__pt2_t *p, int list)
{
  int rc = CT_OK;
  json_t *names = NULL;
  const json_t *item;
  int *first = ct_mem_array(ct_weights_pth.count(list_of(p, list)) + 1, sizeof *first, "names");
  if (!first) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(index_names(p, list, &names));
  for (int v = 0; v < p->g.values; v++) {
    const ct_pt2_value_t *is = &p->value[v];
    int here = is->kind == CT_PT2_PARAMETER || (is->kind == CT_PT2_BUFFER && is->persistent)
                   ? CT_PT2_LIST_WEIGHTS
                   : CT_PT2_LIST_CONSTANTS;
    if (!is->state || here != list) continue;
    item = json_object_get(names, is->state);
    p->more[v].list = list;
    if (is->kind != CT_PT2_CONSTANT) p->value[v].tied = v;
    if (!item) continue; /* of a type that only PyTorch reads, or missing */
    p->more[v].item = (int)json_integer_value(item);
    CT_TRY(check_tensor(p, v));
    int *of = &first[ct_pt2_list_first(list_of(p, list), p->more[v].item)];
    if (is->kind == CT_PT2_CONSTANT) continue;
    if (*of == 0) *of = v + 1;
    p->value[v].tied = *of - 1;
  }
out:
  ct_mem_free(first);
  json_decref(names);
  return rc;
}

int ct__pt2_connect(ct__pt2_t *p)
{
  int rc = CT_OK;
  CT_TRY(connect_list(p, CT_PT2_LIST_WEIGHTS));
  CT_TRY(connect_list(p, CT_PT2_LIST_CONSTANTS));
out:
  return rc;
}

/* ---- reading ---- */

/* Reads a tensor of the file in pieces, as float32 or float64: one of the two is NULL. */
static int read_tensor(const ct__pt2_t *p, int v, float *floats, double *doubles)
{
  int rc = CT_OK, parts;
  ct_tensor_t t;
  char *piece = NULL;
  ct_weights_t *w = list_of(p, p->more[v].list);
  if (p->more[v].item < 0)
    CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s' is missing, or of a type that only PyTorch reads",
            p->g.path, p->value[v].state);
  ct_weights_pth.tensor(w, p->more[v].item, &t);
  ct_elem_t type = ct_elem_part(t.type, &parts);
  if (!ct_elem_has_numbers(type))
    CT_FAIL(CT_ERR_FORMAT, "%s: tensor '%s' is of type %s, which cannot be converted to numbers",
            p->g.path, t.name, ct_elem_name(t.type));
  piece = ct_mem_array(ct_least(t.count, PIECE) + 1, sizeof(double), "a tensor of the file");
  if (!piece) CT_TRY(CT_ERR_NOMEM);
  for (int64_t at = 0, n; at < t.count; at += n) {
    n = ct_least(t.count - at, PIECE);
    CT_TRY(ct_weights_pth.read(w, p->more[v].item, at, n, piece));
    if (floats)
      ct_elem_floats(type, piece, n * parts, floats + at * parts);
    else
      ct_elem_doubles(type, piece, n * parts, doubles + at * parts);
    ct_heartbeat_progress();
  }
out:
  ct_mem_free(piece);
  return rc;
}

static int read_value(const ct_pt2_t *g, int value, float *floats, double *doubles)
{
  int rc = CT_OK;
  const ct__pt2_t *p = (const ct__pt2_t *)g;
  const ct__pt2_more_t *m = &p->more[value];
  if (g->value[value].kind == CT_PT2_FOLDED) {
    for (int64_t i = 0; i < m->count && floats; i++)
      floats[i] = (float)m->data[i];
    for (int64_t i = 0; i < m->count && doubles; i++)
      doubles[i] = m->data[i];
  } else {
    CT_TRY(read_tensor(p, value, floats, doubles));
  }
out:
  return rc;
}

int ct_pt2_floats(const ct_pt2_t *g, int value, float *to)
{
  return read_value(g, value, to, NULL);
}

int ct_pt2_doubles(const ct_pt2_t *g, int value, double *to)
{
  return read_value(g, value, NULL, to);
}
