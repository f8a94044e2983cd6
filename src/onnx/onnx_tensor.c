/* Initializers: the tensors that nodes read.  Translating a graph only lists them, each with the
 * parameter that it is made from (small constants with their data).  ct__onnx_fill() makes the
 * values when the file is written, one tensor at a time, so that only one is in memory. */
#include "onnx/onnx.h"

#include <math.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_text.h"

static ct__onnx_tensor_t *append(ct__onnx_t *o, const char *name, int type, int ndim,
                                 const int64_t dim[])
{
  static const int64_t size[] = {[CT__ONNX_FLOAT] = 4,
                                 [CT__ONNX_UINT8] = 1,
                                 [CT__ONNX_INT8] = 1,
                                 [CT__ONNX_INT32] = 4,
                                 [CT__ONNX_INT64] = 8};
  void *onnx_tensor_list = o->tensor;
  if (o->rc == CT_OK)
    o->rc = ct_mem_grow(&onnx_tensor_list, &o->cap, o->tensors + 1, sizeof *o->tensor);
  if (o->rc != CT_OK) return NULL;
  o->tensor = onnx_tensor_list;
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

const char *ct__onnx_constant(ct__onnx_t *o, int layer, const char *word, int type, int ndim,
                              const int64_t dim[], const void *data)
{
  return constant(o, ct__onnx_name(o, layer, word), type, ndim, dim, data);
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
  return &o->g->param[o->g->layer[layer].param[slot]];
}

static ct__onnx_tensor_t *onnx_tensor_list(ct__onnx_t *o, const char *name, int type,
                                           ct__onnx_how_t how, const ct_param_t *p, int ndim,
                                           const int64_t dim[])
{
  for (int i = 0; i < o->tensors; i++) /* a shared parameter */
    if (strcmp(o->tensor[i].name, name) == 0) return &o->tensor[i];
  ct__onnx_tensor_t *t = append(o, name, type, ndim, dim);
  if (!t) return NULL;
  t->how = how;
  t->param = (int)(p - o->g->param);
  return t;
}

const char *ct__onnx_param(ct__onnx_t *o, int layer, int slot)
{
  const ct_param_t *p = param_of(o, layer, slot);
  onnx_tensor_list(o, p->name, CT__ONNX_FLOAT, CT__ONNX_PARAM, p, p->spec.shape.ndim,
                   p->spec.shape.dim);
  return p->name;
}

static char *name_made(ct__onnx_t *o, const ct_param_t *p, const char *word)
{
  char *name = o->name[o->names++ % CT__ONNX_NAMES];
  int rc = ct_text_format(name, CT__ONNX_NAME, "%s/%s", p->name, word);
  if (o->rc == CT_OK) o->rc = rc;
  return name;
}

const char *ct__onnx_made(ct__onnx_t *o, int layer, int slot, ct__onnx_how_t how, const char *word,
                          int ndim, const int64_t dim[])
{
  const ct_param_t *p = param_of(o, layer, slot);
  const char *name = name_made(o, p, word);
  onnx_tensor_list(o, name, CT__ONNX_FLOAT, how, p, ndim, dim);
  return name;
}

const char *ct__onnx_part(ct__onnx_t *o, int layer, int slot, ct__onnx_part_t part, int type,
                          ct__onnx_how_t how, const char *word, int ndim, const int64_t dim[])
{
  const ct_param_t *p = param_of(o, layer, slot);
  int in = o->g->layer[layer].in[0];
  const char *name = name_made(o, p, word);
  ct__onnx_tensor_t *t = onnx_tensor_list(o, name, type, how, p, ndim, dim);
  if (!t) return name;
  t->part = part;
  t->x_scale = in < 0 ? o->quant->input.scale : o->quant->out[in].scale;
  return name;
}

/* ---- values ---- */

/* to [rows, columns] = transpose of from [columns, rows], with elements of \a size bytes. */
static void transpose(const char *from, int64_t rows, int64_t columns, size_t size, char *to)
{
  for (int64_t i = 0; i < rows; i++)
    for (int64_t k = 0; k < columns; k++)
      memcpy(to + (size_t)(i * columns + k) * size, from + (size_t)(k * rows + i) * size, size);
}

/* PyTorch's gate order is input, forget, cell, output; ONNX's is input, output, forget, cell. */
static void order_gates(const char *from, size_t bytes, size_t n, const size_t place[], char *to)
{
  size_t gate = bytes / n;
  for (size_t i = 0; i < n; i++)
    memcpy(to + i * gate, from + place[i] * gate, gate);
}

/* Rearranges the elements of a parameter, or one value per channel, as the tensor requires. */
static void arrange(const ct__onnx_tensor_t *t, const void *from, int64_t count, size_t size,
                    void *to)
{
  static const size_t lstm[] = {0, 3, 1, 2}, gru[] = {1, 0, 2};
  if (t->how == CT__ONNX_TRANSPOSED && t->ndim == 2)
    transpose(from, t->dim[0], t->dim[1], size, to);
  else if (t->how == CT__ONNX_GATES || t->how == CT__ONNX_BIASES)
    order_gates(from, (size_t)count * size, 4, lstm, to);
  else if (t->how == CT__ONNX_GRU_GATES || t->how == CT__ONNX_GRU_BIASES)
    order_gates(from, (size_t)count * size, 3, gru, to);
  else
    memcpy(to, from, (size_t)count * size);
}

static int fill_floats(const ct__onnx_t *o, const ct__onnx_tensor_t *t,
                       const ct_onnx_source_t *from, float *workspace, float *out)
{
  int rc = CT_OK;
  int64_t count = o->g->param[t->param].count;
  CT_TRY(from->get(from->ctx, t->param, workspace));
  arrange(t, workspace, count, sizeof *out, out);
  if (t->how == CT__ONNX_BIASES || t->how == CT__ONNX_GRU_BIASES) {
    CT_TRY(from->get(from->ctx, t->param + 1, workspace));
    arrange(t, workspace, count, sizeof *out, out + count);
  }
out:
  return rc;
}

/* Fills a bias, which follows its weights in the parameter list. */
static int fill_bias(const ct__onnx_tensor_t *t, const ct_onnx_source_t *from, int64_t channels,
                     const float *scale, float *workspace, void *out)
{
  int rc = CT_OK;
  float *scales = out;
  int32_t *steps = out;
  if (t->part == CT__ONNX_BIAS_STEPS) CT_TRY(from->get(from->ctx, t->param, workspace));
  for (int64_t c = 0; c < channels; c++) {
    float one = t->x_scale * scale[c];
    double v = t->part == CT__ONNX_BIAS_STEPS ? rint((double)workspace[c] / (double)one) : 0;
    if (t->part == CT__ONNX_BIAS_SCALES)
      scales[c] = one;
    else
      steps[c] = (int32_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
  }
out:
  return rc;
}

static int fill_part(const ct__onnx_t *o, const ct__onnx_tensor_t *t, const ct_onnx_source_t *from,
                     float *workspace, void *out)
{
  int rc = CT_OK;
  int is_bias = t->part == CT__ONNX_BIAS_STEPS || t->part == CT__ONNX_BIAS_SCALES;
  int weight = t->param - is_bias;
  const ct_param_t *p = &o->g->param[weight];
  int64_t channels = p->spec.shape.dim[0];
  int8_t *steps = ct_mem_array(p->count, sizeof *steps, "int8 weights");
  float *scale = ct_mem_array(channels, sizeof *scale, "scales");
  CT_TRY(steps && scale ? CT_OK : CT_ERR_NOMEM);
  CT_TRY(from->get(from->ctx, weight, workspace));
  ct_quant_weights(channels, p->count / channels, workspace, steps, scale);
  if (t->part == CT__ONNX_STEPS) arrange(t, steps, p->count, sizeof *steps, out);
  if (t->part == CT__ONNX_SCALES) arrange(t, scale, channels, sizeof *scale, out);
  if (is_bias) CT_TRY(fill_bias(t, from, channels, scale, workspace, out));
out:
  ct_mem_free(steps);
  ct_mem_free(scale);
  return rc;
}

int ct__onnx_fill(const ct__onnx_t *o, const ct__onnx_tensor_t *t, const ct_onnx_source_t *from,
                  float *workspace, void *out)
{
  if (t->how == CT__ONNX_CONSTANT) {
    memcpy(out, t->data, (size_t)t->bytes);
    return CT_OK;
  }
  if (t->part != CT__ONNX_WHOLE) return fill_part(o, t, from, workspace, out);
  return fill_floats(o, t, from, workspace, out);
}
