/* Writes a ModelProto.  In protobuf the length of a message precedes it, so the length of the graph
 * is computed before any tensor is written; then the tensors are written one at a time.  Protobuf
 * messages are limited to 2 GB: weights of larger models go to an external data file, each aligned
 * to a page. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_format.h"
#include "base/ct_mem.h"
#include "base/ct_out.h"
#include "base/ct_text.h"
#include "onnx/onnx.h"

enum { IR_VERSION = 8, OPSET = 17, PAGE = 4096, SMALL = 1024 /* bytes: stays in the .onnx file */ };
/* Bytes of weights in one message: leaves a quarter of the 2 GB to the rest of the model. */
static const int64_t most = (int64_t)3 << 29;

enum {
  MODEL_IR = 1,
  MODEL_PRODUCER = 2,
  MODEL_VERSION = 3,
  MODEL_GRAPH = 7,
  MODEL_OPSET = 8,
  MODEL_METADATA = 14
};
enum { OPSET_VERSION = 2, ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { GRAPH_NAME = 2, GRAPH_TENSOR = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12 };
enum {
  VALUE_NAME = 1,
  VALUE_TYPE = 2,
  TYPE_TENSOR = 1,
  TENSOR_TYPE_ELEM = 1,
  TENSOR_TYPE_SHAPE = 2
};
enum { SHAPE_DIM = 1, DIM_VALUE = 1, DIM_NAME = 2 };
enum { TENSOR_DIM = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { TENSOR_EXTERNAL = 13, TENSOR_LOCATION = 14, EXTERNAL = 1 };

static const ct_format_t format = {.name = "ONNX", .suffixes = {".onnx"}};

typedef struct writer {
  const ct_onnx_opts_t *o;
  const ct_onnx_source_t *from;
  ct__onnx_t words;
  ct_proto_t model; /* encoded fields of the model before the graph */
  ct_proto_t graph; /* encoded fields of the graph before the tensors */
  int external;     /* 1: weights go to the external data file */
  ct_out_t file;
  ct_out_t data; /* the external data file */
  float *workspace, *value;
} writer_t;

int ct_onnx_is_name(const char *path)
{
  return ct_format_has_suffix(&format, path);
}

/* ---- model and graph without tensors ---- */

static void entry(ct_proto_t *p, int field, const char *key, const char *value)
{
  int64_t at = ct_proto_begin(p, field);
  ct_proto_text(p, ENTRY_KEY, key);
  ct_proto_text(p, ENTRY_VALUE, value);
  ct_proto_end(p, at);
}

static void model_head(writer_t *w)
{
  ct_proto_t *p = &w->model;
  ct_proto_int(p, MODEL_IR, IR_VERSION);
  ct_proto_text(p, MODEL_PRODUCER, "ctrain-hpc");
  ct_proto_text(p, MODEL_VERSION, w->o->version);
  int64_t at = ct_proto_begin(p, MODEL_OPSET);
  ct_proto_int(p, OPSET_VERSION, OPSET);
  ct_proto_end(p, at);
  if (w->o->config) entry(p, MODEL_METADATA, "config", w->o->config);
}

/* Writes a graph input or output.  Its first dimension has a name instead of a size: any batch. So
 * has the second, \a length, unless it is NULL. */
static void value_of(ct_proto_t *p, int field, const char *name, int ndim, const int64_t dim[],
                     const char *length)
{
  int64_t begin = ct_proto_begin(p, field);
  ct_proto_text(p, VALUE_NAME, name);
  int64_t type = ct_proto_begin(p, VALUE_TYPE), tensor = ct_proto_begin(p, TYPE_TENSOR);
  ct_proto_int(p, TENSOR_TYPE_ELEM, CT__ONNX_FLOAT);
  int64_t shape = ct_proto_begin(p, TENSOR_TYPE_SHAPE);
  for (int i = 0; i < ndim; i++) {
    int64_t at = ct_proto_begin(p, SHAPE_DIM);
    if (i == 0 || (i == 1 && length))
      ct_proto_text(p, DIM_NAME, i == 0 ? "N" : length);
    else
      ct_proto_int(p, DIM_VALUE, dim[i]);
    ct_proto_end(p, at);
  }
  ct_proto_end(p, shape);
  ct_proto_end(p, tensor);
  ct_proto_end(p, type);
  ct_proto_end(p, begin);
}

static void value(ct_proto_t *p, int field, const char *name, int ndim, const int64_t dim[])
{
  value_of(p, field, name, ndim, dim, NULL);
}

/* The inputs and outputs of a model with caches. */
static void caches(writer_t *w)
{
  const int64_t one[] = {1, 1};
  char name[CT__ONNX_NAME + 16];
  if (w->words.cache) value(&w->graph, GRAPH_INPUT, "position", 2, one);
  for (int i = 0; i < w->words.pasts; i++) {
    const ct__onnx_past_t *p = &w->words.past[i];
    const int64_t dim[] = {1, 1, p->width};
    snprintf(name, sizeof name, "past.%s", p->name);
    value_of(&w->graph, GRAPH_INPUT, name, 3, dim, "P");
    snprintf(name, sizeof name, "present.%s", p->name);
    value_of(&w->graph, GRAPH_OUTPUT, name, 3, dim, "P + 1");
  }
}

static void graph_head(writer_t *w)
{
  const ct_graph_t *g = w->words.g;
  ct_proto_text(&w->graph, GRAPH_NAME, "model");
  value(&w->graph, GRAPH_INPUT, "input", g->input.ndim, g->input.dim);
  for (int k = 0; k < g->extra.n; k++)
    value(&w->graph, GRAPH_INPUT, w->words.extra[k], g->extra.x[k].ndim, g->extra.x[k].dim);
  for (int k = 0; k < ct_graph_outputs(g); k++) {
    char name[CT_NAME_MAX + 16];
    const ct_shape_t *out = &g->layer[ct_graph_output(g, k)].out;
    const int64_t flat[2] = {1, out->dim[1]};
    int whole = ct__onnx_is_whole(g, out);
    value(&w->graph, GRAPH_OUTPUT, ct__onnx_output(g, k, name, sizeof name), whole ? out->ndim : 2,
          whole ? out->dim : flat);
  }
  caches(w);
}

/* ---- tensors ---- */

static int is_apart(const writer_t *w, const ct__onnx_tensor_t *t)
{
  return w->external && t->how != CT__ONNX_CONSTANT && t->bytes >= SMALL;
}

static int64_t page_after(int64_t at)
{
  return (at + PAGE - 1) / PAGE * PAGE;
}

/* Adds the position of a tensor in the external data file. */
static void location(const writer_t *w, const ct__onnx_tensor_t *t, int64_t offset, ct_proto_t *p)
{
  char number[24];
  const char *slash = strrchr(w->data.path, '/');
  entry(p, TENSOR_EXTERNAL, "location", slash ? slash + 1 : w->data.path);
  snprintf(number, sizeof number, "%" PRId64, offset);
  entry(p, TENSOR_EXTERNAL, "offset", number);
  snprintf(number, sizeof number, "%" PRId64, t->bytes);
  entry(p, TENSOR_EXTERNAL, "length", number);
  ct_proto_int(p, TENSOR_LOCATION, EXTERNAL);
}

/* Encodes a TensorProto up to its raw data.  *apart: size of the external data file, updated. */
static int tensor_head(const writer_t *w, const ct__onnx_tensor_t *t, int64_t *apart,
                       ct_proto_t *out)
{
  ct_proto_t p = {0};
  int64_t behind = 0;
  for (int i = 0; i < t->ndim; i++)
    ct_proto_int(&p, TENSOR_DIM, t->dim[i]);
  ct_proto_int(&p, TENSOR_TYPE, t->type);
  ct_proto_text(&p, TENSOR_NAME, t->name);
  if (is_apart(w, t)) {
    location(w, t, page_after(*apart), &p);
    *apart = page_after(*apart) + t->bytes;
  } else {
    ct_proto_head(&p, TENSOR_RAW, t->bytes);
    behind = t->bytes;
  }
  ct_proto_head(out, GRAPH_TENSOR, p.len + behind);
  ct_proto_add(out, &p);
  ct_proto_clear(&p);
  return ct_proto_done(out);
}

/* *out: length of the encoded GraphProto in bytes. */
static int graph_bytes(const writer_t *w, int64_t *out)
{
  int rc = CT_OK;
  int64_t apart = 0;
  ct_proto_t head = {0};
  *out = w->words.nodes.len + w->graph.len;
  for (int i = 0; i < w->words.tensors; i++) {
    const ct__onnx_tensor_t *t = &w->words.tensor[i];
    head.len = 0;
    CT_TRY(tensor_head(w, t, &apart, &head));
    *out += head.len + (is_apart(w, t) ? 0 : t->bytes);
  }
out:
  ct_proto_clear(&head);
  return rc;
}

static int put_apart(writer_t *w, const ct__onnx_tensor_t *t)
{
  static const char zeros[PAGE];
  int rc = CT_OK;
  CT_TRY(ct_out_put(&w->data, zeros, page_after(w->data.at) - w->data.at));
  CT_TRY(ct_out_put(&w->data, w->value, t->bytes));
out:
  return rc;
}

static int put_tensors(writer_t *w)
{
  int rc = CT_OK;
  int64_t apart = 0;
  ct_proto_t head = {0};
  for (int i = 0; i < w->words.tensors; i++) {
    const ct__onnx_tensor_t *t = &w->words.tensor[i];
    head.len = 0;
    CT_TRY(tensor_head(w, t, &apart, &head));
    CT_TRY(ct_out_put(&w->file, head.data, head.len));
    CT_TRY(ct__onnx_fill(&w->words, t, w->from, w->workspace, w->value));
    CT_TRY(is_apart(w, t) ? put_apart(w, t) : ct_out_put(&w->file, w->value, t->bytes));
  }
out:
  ct_proto_clear(&head);
  return rc;
}

/* ---- the file ---- */

/* Allocates buffers for the largest parameter and tensor, and decides about external data. */
static int onnx_file_measure(writer_t *w)
{
  int rc = CT_OK;
  int64_t all = 0, largest = 1, param = 1;
  for (int i = 0; i < w->words.tensors; i++) {
    all += w->words.tensor[i].bytes;
    if (w->words.tensor[i].bytes > largest) largest = w->words.tensor[i].bytes;
  }
  for (int i = 0; i < w->words.g->params; i++)
    if (w->words.g->param[i].count > param) param = w->words.g->param[i].count;
  w->external = w->o->external || all > most;
  w->workspace = ct_mem_array(param, sizeof *w->workspace, "a parameter");
  w->value = ct_mem_array(largest, 1, "a tensor");
  if (!w->workspace || !w->value) rc = CT_ERR_NOMEM;
  return rc;
}

static int put_all(writer_t *w)
{
  int rc = CT_OK;
  int64_t bytes;
  model_head(w);
  graph_head(w);
  CT_TRY(ct_proto_done(&w->graph));
  CT_TRY(graph_bytes(w, &bytes));
  ct_proto_head(&w->model, MODEL_GRAPH, bytes);
  CT_TRY(ct_proto_done(&w->model));
  CT_TRY(ct_out_put(&w->file, w->model.data, w->model.len));
  CT_TRY(ct_out_put(&w->file, w->graph.data, w->graph.len));
  CT_TRY(ct_out_put(&w->file, w->words.nodes.data, w->words.nodes.len));
  CT_TRY(put_tensors(w));
out:
  return rc;
}

int ct_onnx_write(const ct_graph_t *g, const ct_onnx_source_t *from, const ct_onnx_opts_t *o,
                  const char *path)
{
  int rc = CT_OK;
  char data[CT_PATH_MAX];
  writer_t *w = ct_mem_alloc(sizeof *w, "ONNX");
  if (!w) return CT_ERR_NOMEM;
  w->o = o;
  w->from = from;
  w->words.g = g;
  w->words.quant = o->quant;
  w->words.cache = o->cache;
  CT_TRY(ct__onnx_layers(&w->words));
  CT_TRY(onnx_file_measure(w));
  CT_TRY(ct_text_format(data, sizeof data, "%s.data", path));
  if (w->external) CT_TRY(ct_out_begin(&w->data, data));
  CT_TRY(ct_out_begin(&w->file, path));
  CT_TRY(put_all(w));
  CT_TRY(ct_out_commit(&w->data));
  CT_TRY(ct_out_commit(&w->file));
out:
  ct_out_drop(&w->data);
  ct_out_drop(&w->file);
  ct__onnx_clear(&w->words);
  ct_proto_clear(&w->model);
  ct_proto_clear(&w->graph);
  ct_mem_free(w->workspace);
  ct_mem_free(w->value);
  ct_mem_free(w);
  return rc;
}
