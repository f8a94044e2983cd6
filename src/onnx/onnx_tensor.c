/* The tensors that nodes read.  They are only listed here, with how each is made of parameters: a
 * file takes them one after the other, so that there is never more than one in memory. */
#include "onnx/onnx.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

static ct__onnx_tensor_t *append(ct__onnx_t *o, const char *name, int type, int ndim,
                                 const int64_t dim[])
{
  static const int64_t size[] = {[CT__ONNX_FLOAT] = 4, [CT__ONNX_INT64] = 8};
  void *list = o->tensor;
  if (o->rc == CT_OK) o->rc = ct_mem_grow(&list, &o->cap, o->tensors + 1, sizeof *o->tensor);
  if (o->rc != CT_OK) return NULL;
  o->tensor = list;
  ct__onnx_tensor_t *t = &o->tensor[o->tensors];
  *t = (ct__onnx_tensor_t){.type = type, .ndim = ndim, .bytes = size[type]};
  o->rc = ct_text_format(t->name, sizeof t->name, "%s", name);
  if (o->rc != CT_OK) return NULL;
  for (int i = 0; i < ndim; i++)
    t->bytes *= t->dim[i] = dim[i];
  o->tensors++;
  return t;
}

static const char *constant(ct__onnx_t *o, const char *name, int type, int ndim,
                            const int64_t dim[], const void *data)
{
  ct__onnx_tensor_t *t = append(o, name, type, ndim, dim);
  if (!t) return name;
  t->data = ct_mem_array(t->bytes, 1, "constant");
  if (t->data)
    memcpy(t->data, data, (size_t)t->bytes);
  else
    o->rc = CT_ERR_NOMEM;
  return name;
}

const char *ct__onnx_const_ints(ct__onnx_t *o, int layer, const char *word, int ndim, int64_t n,
                                const int64_t v[])
{
  return constant(o, ct__onnx_name(o, layer, word), CT__ONNX_INT64, ndim, &n, v);
}

const char *ct__onnx_const_floats(ct__onnx_t *o, int layer, const char *word, int ndim,
                                  const int64_t dim[], const float v[])
{
  return constant(o, ct__onnx_name(o, layer, word), CT__ONNX_FLOAT, ndim, dim, v);
}

const char *ct__onnx_scalar(ct__onnx_t *o, int layer, const char *word, double v)
{
  return ct__onnx_const_floats(o, layer, word, 0, NULL, &(float){(float)v});
}

static const ct_param_t *param_of(const ct__onnx_t *o, int layer, int slot)
{
  return &o->g->param[o->g->layer[layer].first_param + slot];
}

static void list(ct__onnx_t *o, const char *name, ct__onnx_how_t how, const ct_param_t *p, int ndim,
                 const int64_t dim[])
{
  ct__onnx_tensor_t *t = append(o, name, CT__ONNX_FLOAT, ndim, dim);
  if (!t) return;
  t->how = how;
  t->param = (int)(p - o->g->param);
}

const char *ct__onnx_param(ct__onnx_t *o, int layer, int slot)
{
  const ct_param_t *p = param_of(o, layer, slot);
  list(o, p->name, CT__ONNX_PARAM, p, p->spec.shape.ndim, p->spec.shape.dim);
  return p->name;
}

const char *ct__onnx_made(ct__onnx_t *o, int layer, int slot, ct__onnx_how_t how, const char *word,
                          int ndim, const int64_t dim[])
{
  const ct_param_t *p = param_of(o, layer, slot);
  char *name = o->name[o->names++ % CT__ONNX_NAMES];
  int rc = ct_text_format(name, CT__ONNX_NAME, "%s/%s", p->name, word);
  if (o->rc == CT_OK) o->rc = rc;
  list(o, name, how, p, ndim, dim);
  return name;
}

/* ---- their numbers ---- */

/* to [rows, columns] is from [columns, rows] */
static void transpose(const float *from, int64_t rows, int64_t columns, float *to)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < columns; k++)
      to[i * columns + k] = from[k * rows + i];
}

/* PyTorch has the gates input, forget, cell, output; ONNX input, output, forget, cell. */
static void order_gates(const float *from, int64_t count, float *to)
{
  static const int place[4] = {0, 3, 1, 2};
  int64_t gate = count / 4;
  for (int i = 0; i < 4; i++)
    memcpy(to + i * gate, from + place[i] * gate, (size_t)gate * sizeof *to);
}

int ct__onnx_fill(const ct__onnx_t *o, const ct__onnx_tensor_t *t, const ct_onnx_source_t *from,
                  float *room, void *out)
{
  int rc = CT_OK;
  const ct_param_t *p = &o->g->param[t->param];
  if (t->how == CT__ONNX_CONSTANT) {
    memcpy(out, t->data, (size_t)t->bytes);
    return CT_OK;
  }
  CT_TRY(from->get(from->ctx, t->param, t->how == CT__ONNX_PARAM ? out : room));
  if (t->how == CT__ONNX_TRANSPOSED) transpose(room, t->dim[0], t->dim[1], out);
  if (t->how == CT__ONNX_GATES || t->how == CT__ONNX_BIASES) order_gates(room, p->count, out);
  if (t->how == CT__ONNX_BIASES) {
    CT_TRY(from->get(from->ctx, t->param + 1, room));
    order_gates(room, p->count, (float *)out + p->count);
  }
out:
  return rc;
}
