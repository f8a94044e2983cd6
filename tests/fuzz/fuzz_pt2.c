/* Fuzz target: any bytes as the program of a .pt2 file; those that begin as an archive are the
 * whole file.
 *
 * Either they are refused with a message that names the file, or the graph is consistent: each
 * value that a live node uses is made before it, or by no node, and everything that the interface
 * promises holds; nothing stays allocated. */
#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "pt2/ct_pt2.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/pth_make.h"

enum { MOST = 1 << 16 /* elements of a tensor that is read */ };

/* Like refused() of fuzz.h, for programs that are correct but not supported, too. */
static int refused_program(int rc, const char *path)
{
  if (rc != CT_ERR_UNSUP) return refused(rc, path);
  must(strncmp(ct_err_last()->text, path, strlen(path)) == 0, "a refusal names the file");
  for (const char *c = ct_err_last()->text; *c; c++)
    must((unsigned char)*c >= ' ' && *c != 0x7f, "a refusal has no control characters");
  return 1;
}

static void must_be_text(const char *text)
{
  must(text != NULL && ct_text_is_utf8(text), "texts are UTF-8");
  for (const char *c = text; *c; c++)
    must((unsigned char)*c >= ' ' && *c != 0x7f, "texts are printable");
}

static void check_value(const ct_pt2_t *g, int i, const char *path)
{
  const ct_pt2_value_t *v = &g->value[i];
  static float x[MOST];
  char text[64];
  must_be_text(v->name);
  ct_pt2_shape(v, text, sizeof text);
  must(v->kind == CT_PT2_NODE || v->node == -1, "nodes make values of their kind only");
  must(v->node < g->nodes && v->becomes < g->values && v->tied < g->values, "indices are valid");
  if (v->kind == CT_PT2_NODE || v->kind == CT_PT2_INPUT) return;
  must_be_text(v->state);
  int64_t n = ct_pt2_count(v);
  if (n >= 0 && n <= MOST) {
    int rc = ct_pt2_floats(g, i, x);
    must(rc == CT_OK || v->kind != CT_PT2_FOLDED, "what was computed can be read");
    (void)refused_program(rc, path);
  }
}

/* The tensors of an argument are known when node i runs. */
static void check_arg(const ct_pt2_t *g, int i, const ct_pt2_arg_t *a)
{
  must_be_text(a->name);
  if (a->text) must_be_text(a->text);
  must(a->kind != CT_PT2_TENSOR || (a->n == 1 && a->tensor && a->tensor[0] >= 0), "a tensor");
  must(a->kind != CT_PT2_INT || (a->n == 1 && a->dim), "a number");
  must(a->kind != CT_PT2_INTS || a->n == 0 || a->dim, "a list");
  must(a->kind != CT_PT2_FLOAT || (a->n == 1 && a->number), "a number");
  for (int k = 0; a->tensor && k < a->n; k++) {
    int v = a->tensor[k];
    must(v >= -1 && v < g->values, "a tensor is a value");
    if (v >= 0 && g->value[v].uses && g->value[v].kind == CT_PT2_NODE)
      must(g->value[v].node >= 0 && g->value[v].node < i, "values are made before they are used");
  }
}

static void check_node(const ct_pt2_t *g, int i)
{
  const ct_pt2_node_t *node = &g->node[i];
  must_be_text(node->op);
  must_be_text(node->module);
  must_be_text(node->type);
  for (int k = 0; k < node->args; k++)
    check_arg(g, i, &node->arg[k]);
  for (int k = 0; k < node->outs; k++)
    if (node->out[k] >= 0 && node->live && g->value[node->out[k]].uses)
      must(g->value[node->out[k]].node == i, "a value is made by one node");
}

static void check_graph(const ct_pt2_t *g, const char *path)
{
  for (int i = 0; i < g->values; i++)
    check_value(g, i, path);
  for (int i = 0; i < g->nodes; i++)
    check_node(g, i);
  for (int i = 0; i < g->inputs; i++)
    must(g->value[g->input[i]].kind == CT_PT2_INPUT, "inputs are inputs");
  for (int i = 0; i < g->outputs; i++) {
    must_be_text(g->output[i].name);
    must(g->output[i].value >= -1 && g->output[i].value < g->values, "outputs are values");
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
  int64_t live = ct_mem_live();
  ct_pt2_t *g;
  const char *path = scratch("in");
  if (bytes > 3 && memcmp(data, "PK\3", 3) == 0)
    put(path, data, bytes);
  else
    must(pt2_program(path, data, bytes), "the input can be written");
  if (!refused_program(ct_pt2_open(path, &g), path)) check_graph(g, path);
  ct_pt2_close(g);
  unlink(path);
  must(ct_mem_live() == live, "nothing stays allocated");
  return 0;
}
