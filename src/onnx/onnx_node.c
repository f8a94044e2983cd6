/* Serializes nodes of an ONNX graph: NodeProto and AttributeProto, with field numbers of
 * onnx.proto. */
#include "onnx/onnx.h"

#include "base/ct_err.h"
#include "base/ct_text.h"

enum { GRAPH_NODE = 1 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum {
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_F = 2,
  ATTRIBUTE_I = 3,
  ATTRIBUTE_S = 4,
  ATTRIBUTE_INTS = 8,
  ATTRIBUTE_TYPE = 20
};
enum { TYPE_FLOAT = 1, TYPE_INT = 2, TYPE_STRING = 3, TYPE_INTS = 7 };

/* Layer and parameter names contain no '/', so these names cannot collide with them. */
const char *ct__onnx_name(ct__onnx_t *o, int layer, const char *word)
{
  char *name = o->name[o->names++ % CT__ONNX_NAMES];
  int rc = ct_text_format(name, CT__ONNX_NAME, "%s/%s",
                          layer < 0 ? "input" : o->g->layer[layer].name, word);
  if (o->rc == CT_OK) o->rc = rc;
  return name;
}

void ct__onnx_end(ct__onnx_t *o)
{
  if (o->open >= 0) ct_proto_end(&o->nodes, o->open);
  o->open = -1;
}

void ct__onnx_node(ct__onnx_t *o, const char *op, const char *const out[], const char *const in[])
{
  ct__onnx_end(o);
  o->open = ct_proto_begin(&o->nodes, GRAPH_NODE);
  for (int i = 0; in[i]; i++)
    ct_proto_text(&o->nodes, NODE_INPUT, in[i]);
  for (int i = 0; out[i]; i++)
    ct_proto_text(&o->nodes, NODE_OUTPUT, out[i]);
  ct_proto_text(&o->nodes, NODE_NAME, out[0]);
  ct_proto_text(&o->nodes, NODE_OP, op);
}

static int64_t onnx_node_begin(ct__onnx_t *o, const char *name, int type)
{
  int64_t at = ct_proto_begin(&o->nodes, NODE_ATTRIBUTE);
  ct_proto_text(&o->nodes, ATTRIBUTE_NAME, name);
  ct_proto_int(&o->nodes, ATTRIBUTE_TYPE, type);
  return at;
}

void ct__onnx_int(ct__onnx_t *o, const char *name, int64_t value)
{
  int64_t at = onnx_node_begin(o, name, TYPE_INT);
  ct_proto_int(&o->nodes, ATTRIBUTE_I, value);
  ct_proto_end(&o->nodes, at);
}

void ct__onnx_float(ct__onnx_t *o, const char *name, double value)
{
  int64_t at = onnx_node_begin(o, name, TYPE_FLOAT);
  ct_proto_float(&o->nodes, ATTRIBUTE_F, (float)value);
  ct_proto_end(&o->nodes, at);
}

void ct__onnx_text(ct__onnx_t *o, const char *name, const char *value)
{
  int64_t at = onnx_node_begin(o, name, TYPE_STRING);
  ct_proto_text(&o->nodes, ATTRIBUTE_S, value);
  ct_proto_end(&o->nodes, at);
}

void ct__onnx_ints(ct__onnx_t *o, const char *name, int n, const int64_t v[])
{
  int64_t at = onnx_node_begin(o, name, TYPE_INTS);
  for (int i = 0; i < n; i++)
    ct_proto_int(&o->nodes, ATTRIBUTE_INTS, v[i]);
  ct_proto_end(&o->nodes, at);
}
