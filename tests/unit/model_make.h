/* Making models from YAML text, for the tests of src/model. */
#ifndef MODEL_MAKE_H
#define MODEL_MAKE_H
#include "model/ct_graph.h"

#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "tests/harness/ct_test.h"

/* A model from the YAML text of its section. */
static inline int make_for(const char *yaml, ct_shape_t input, int64_t classes, ct_graph_t **out)
{
  int rc = CT_OK;
  ct_yaml_t *map = NULL;
  ct_model_opts_t o = {0};
  *out = NULL;
  CT_TRY(ct_yaml_parse(yaml, strlen(yaml), "m.yaml", &map));
  CT_TRY(ct_opt_defaults(ct_model_rows, &o));
  CT_TRY(ct_opt_read(ct_model_rows, &o, map, "m.yaml", "model", NULL));
  CT_TRY(ct_graph_make(&o, &input, NULL, classes, "m.yaml", out));
out:
  ct_opt_clear(ct_model_rows, &o);
  ct_yaml_free(map);
  return rc;
}

static inline ct_shape_t image(int64_t c, int64_t h, int64_t w)
{
  return ct_shape(4, 1, c, h, w);
}

/* The same where success is expected; NULL otherwise. */
static inline ct_graph_t *make(const char *yaml, ct_shape_t input, int64_t classes)
{
  ct_graph_t *g;
  CT_ASSERT_OK(make_for(yaml, input, classes, &g));
  return g;
}

/* A graph without layers, for ct_graph_add(). */
static inline ct_graph_t *empty(ct_shape_t input)
{
  ct_graph_t *g = ct_mem_alloc(sizeof *g, "test");
  g->input = input;
  g->input.batch = 1;
  return g;
}

static inline const ct_layer_t *layer(const ct_graph_t *g, const char *name)
{
  for (int i = 0; i < g->layers; i++)
    if (strcmp(g->layer[i].name, name) == 0) return &g->layer[i];
  CU_FAIL("no layer of that name");
  return &g->layer[0];
}

static inline const ct_param_t *param(const ct_graph_t *g, const char *name)
{
  int i = ct_graph_find_param(g, name);
  CU_ASSERT_FATAL(i >= 0);
  return &g->param[i];
}

#endif
