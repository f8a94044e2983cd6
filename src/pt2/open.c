/* Opens a program: the archive, its version, and the passes that simplify the graph. */
#include <inttypes.h>
#include <string.h>

#include "base/ct_mem.h"
#include "pt2/pt2.h"
#include "weights/pth/ct_weights_pth.h"

enum { MAJOR = 8 /* version of the schema */ };

/* Parses the JSON text of the program. */
static int open_json(ct__pt2_t *p)
{
  int rc = CT_OK;
  char *text = NULL;
  int64_t bytes = 0;
  json_error_t bad;
  CT_TRY(ct_pt2_list_program(p->weights, &text, &bytes));
  p->program = json_loadb(text, (size_t)bytes, JSON_REJECT_DUPLICATES, &bad);
  if (!p->program) CT_TRY(ct__pt2_damaged(p, "not JSON: line %d, column %d", bad.line, bad.column));
  if (!json_is_object(p->program)) CT_TRY(ct__pt2_damaged(p, "expected a JSON object"));
out:
  ct_mem_free(text);
  return rc;
}

static int open_version(ct__pt2_t *p)
{
  int rc = CT_OK;
  const json_t *version = json_object_get(p->program, "schema_version");
  const json_t *major = json_object_get(version, "major");
  const json_t *torch = json_object_get(p->program, "torch_version");
  p->g.torch = ct__pt2_is_name(torch) ? ct__pt2_copy(p, json_string_value(torch)) : "?";
  if (!p->g.torch) CT_TRY(CT_ERR_NOMEM);
  if (!json_is_integer(major)) CT_TRY(ct__pt2_damaged(p, "it has no number schema_version.major"));
  if (json_integer_value(major) != MAJOR)
    CT_FAIL(CT_ERR_FORMAT,
            "%s: program of version %" JSON_INTEGER_FORMAT " (PyTorch %s), expected %d: export the "
            "model with PyTorch 2.9 or later, of a version that writes %d",
            p->g.path, json_integer_value(major), p->g.torch, MAJOR, MAJOR);
out:
  return rc;
}

static int open_graph(ct__pt2_t *p)
{
  int rc = CT_OK;
  const json_t *module = json_object_get(p->program, "graph_module");
  const json_t *graph = json_object_get(module, "graph");
  const json_t *signature = json_object_get(module, "signature");
  ct__pt2_scope_t s = {.tensors = json_object_get(graph, "tensor_values"),
                       .ints = json_object_get(graph, "sym_int_values"),
                       .names = json_object(),
                       .states = json_object(),
                       .prefix = ""};
  if (!s.names || !s.states) CT_FAIL(CT_ERR_NOMEM, "%s: no memory for its names", p->g.path);
  if (!json_is_object(s.tensors)) CT_TRY(ct__pt2_damaged(p, "it has no graph with tensor_values"));
  CT_TRY(ct__pt2_read_inputs(p, &s, json_object_get(signature, "input_specs")));
  CT_TRY(ct__pt2_read_nodes(p, &s, graph));
  CT_TRY(ct__pt2_read_outputs(p, &s, json_object_get(signature, "output_specs"),
                              json_object_get(module, "module_call_graph")));
out:
  json_decref(s.names);
  json_decref(s.states);
  return rc;
}

int ct_pt2_open(const char *path, ct_pt2_t **out)
{
  int rc = CT_OK;
  ct__pt2_t *p = ct_mem_alloc(sizeof *p, "a program of torch.export");
  *out = NULL;
  if (!p) return CT_ERR_NOMEM;
  p->g.path = ct__pt2_copy(p, path);
  if (!p->g.path) CT_TRY(CT_ERR_NOMEM);
  CT_TRY(ct_pt2_list_open(path, CT_PT2_LIST_WEIGHTS, &p->weights));
  CT_TRY(ct_pt2_list_open(path, CT_PT2_LIST_CONSTANTS, &p->constants));
  CT_TRY(open_json(p));
  CT_TRY(open_version(p));
  CT_TRY(open_graph(p));
  json_decref(p->program);
  p->program = NULL;
  CT_TRY(ct__pt2_connect(p));
  CT_TRY(ct__pt2_functional(p));
  ct__pt2_mark_live(p);
  CT_TRY(ct__pt2_simplify(p));
  ct__pt2_mark_live(p);
  CT_TRY(ct__pt2_complex(p));
  CT_TRY(ct__pt2_simplify(p));
  ct__pt2_mark_live(p);
  CT_TRY(ct__pt2_fold(p));
  ct__pt2_mark_live(p);
  CT_TRY(ct__pt2_check_shapes(p));
  *out = &p->g;
  p = NULL;
out:
  if (p) ct_pt2_close(&p->g);
  return rc;
}

void ct_pt2_close(ct_pt2_t *g)
{
  ct__pt2_t *p = (ct__pt2_t *)g;
  if (!p) return;
  json_decref(p->program);
  ct_weights_pth.close(p->weights);
  ct_weights_pth.close(p->constants);
  ct__pt2_clear(p);
  ct_mem_free(p);
}
