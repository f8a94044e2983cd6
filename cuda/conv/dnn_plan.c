/* cuDNN plans: finding, making, writing, reading and running them. */
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cuda/conv/dnn.h"

#define TRY(call, what) CT_TRY(GPU_DNN_CHECK((call), what))

static int dnn_plan_create(cudnnBackendDescriptorType_t type, gpu__dnn_desc_t *out)
{
  return GPU_DNN_CHECK(cudnnBackendCreateDescriptor(type, out), "descriptor");
}

int gpu__dnn_properties(const char *json, gpu__dnn_desc_t *out)
{
  int rc = CT_OK;
  gpu__dnn_desc_t d = NULL;
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d));
  TRY(cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                               (int64_t)strlen(json), json),
      "properties of a device");
  TRY(cudnnBackendFinalize(d), "properties of a device");
  *out = d;
  d = NULL;
out:
  gpu__dnn_free(d);
  return rc;
}

/* ---- engine configurations ---- */

static int ask_heuristics(gpu__dnn_desc_t h, gpu__dnn_configs_t *out)
{
  int rc = CT_OK;
  int64_t there = 0, got = 0;
  TRY(cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
                               &there, NULL),
      "heuristics");
  if (there > GPU_DNN_CONFIGS) there = GPU_DNN_CONFIGS;
  if (there <= 0) goto out;
  for (; out->count < there; out->count++)
    CT_TRY(dnn_plan_create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &out->at[out->count]));
  TRY(cudnnBackendGetAttribute(h, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               there, &got, out->at),
      "heuristics");
  while (out->count > got)
    gpu__dnn_free(out->at[--out->count]);
out:
  return rc;
}

int gpu__dnn_configs(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g,
                     cudnnBackendHeurMode_t mode, gpu__dnn_configs_t *out)
{
  int rc = CT_OK;
  gpu__dnn_desc_t h = NULL;
  *out = (gpu__dnn_configs_t){.count = 0};
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &h));
  TRY(cudnnBackendSetAttribute(h, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->graph),
      "heuristics");
  TRY(cudnnBackendSetAttribute(h, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode),
      "heuristics");
  if (!t->handle)
    TRY(cudnnBackendSetAttribute(h, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &t->properties),
        "heuristics");
  TRY(cudnnBackendFinalize(h), "heuristics");
  CT_TRY(ask_heuristics(h, out));
out:
  gpu__dnn_free(h);
  if (rc != CT_OK) gpu__dnn_configs_clear(out);
  return rc == CT_ERR_UNSUP ? CT_OK : rc;
}

void gpu__dnn_configs_clear(gpu__dnn_configs_t *c)
{
  while (c->count > 0)
    gpu__dnn_free(c->at[--c->count]);
}

/* Creates an engine; the caller frees it. */
static int engine_make(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g, int64_t index,
                       gpu__dnn_desc_t *engine)
{
  int rc = CT_OK;
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, engine));
  TRY(cudnnBackendSetAttribute(*engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &g->graph),
      "engine");
  TRY(cudnnBackendSetAttribute(*engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1,
                               &index),
      "engine");
  if (!t->handle)
    TRY(cudnnBackendSetAttribute(*engine, CUDNN_ATTR_ENGINE_DEVICEPROP,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t->properties),
        "engine");
  TRY(cudnnBackendFinalize(*engine), "engine");
out:
  return rc;
}

static int knob_make(const gpu__dnn_knob_t *knob, gpu__dnn_desc_t *out)
{
  int rc = CT_OK;
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, out));
  TRY(cudnnBackendSetAttribute(*out, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                               &knob->type),
      "knob");
  TRY(cudnnBackendSetAttribute(*out, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1,
                               &knob->value),
      "knob");
  TRY(cudnnBackendFinalize(*out), "knob");
out:
  return rc;
}

int gpu__dnn_config(const gpu__dnn_target_t *t, const gpu__dnn_graph_t *g, int64_t engine, int n,
                    const gpu__dnn_knob_t knob[], gpu__dnn_desc_t *config)
{
  int rc = CT_OK;
  gpu__dnn_desc_t e = NULL, c = NULL, k[GPU_DNN_KNOBS] = {NULL};
  CT_TRY(engine_make(t, g, engine, &e));
  for (int i = 0; i < n; i++)
    CT_TRY(knob_make(&knob[i], &k[i]));
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &c));
  TRY(cudnnBackendSetAttribute(c, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                               &e),
      "configuration of an engine");
  TRY(cudnnBackendSetAttribute(c, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               n, k),
      "configuration of an engine");
  TRY(cudnnBackendFinalize(c), "configuration of an engine");
  *config = c;
  c = NULL;
out:
  for (int i = 0; i < n; i++)
    gpu__dnn_free(k[i]);
  gpu__dnn_free(e);
  gpu__dnn_free(c);
  return rc;
}

/* Returns the engine of a configuration; the caller frees it. */
static int engine_of(gpu__dnn_desc_t config, gpu__dnn_desc_t *engine)
{
  int rc = CT_OK;
  int64_t n = 0;
  *engine = NULL;
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, engine));
  TRY(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                               1, &n, engine),
      "engine");
out:
  return rc;
}

int gpu__dnn_engine(gpu__dnn_desc_t config, int *engine)
{
  int rc = CT_OK;
  int64_t n = 0, index = 0;
  gpu__dnn_desc_t d;
  CT_TRY(engine_of(config, &d));
  TRY(cudnnBackendGetAttribute(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, &index),
      "engine");
  *engine = (int)index;
out:
  gpu__dnn_free(d);
  return rc;
}

int gpu__dnn_notes(gpu__dnn_desc_t config, unsigned *notes)
{
  int rc = CT_OK;
  gpu__dnn_desc_t engine;
  cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  int64_t n = 0;
  *notes = 0;
  CT_TRY(engine_of(config, &engine));
  TRY(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, note),
      "engine");
  for (int64_t i = 0; i < n; i++)
    *notes |= 1u << note[i];
out:
  gpu__dnn_free(engine);
  return rc;
}

/* ---- plans ---- */

static int set_target(gpu__dnn_desc_t plan, const gpu__dnn_target_t *t)
{
  int rc = CT_OK;
  if (t->handle)
    TRY(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                 &t->handle),
        "plan");
  else
    TRY(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &t->properties),
        "plan");
out:
  return rc;
}

static int finish_plan(gpu__dnn_desc_t plan, size_t *workspace)
{
  int rc = CT_OK;
  int64_t bytes = 0, n = 0;
  TRY(cudnnBackendFinalize(plan), "plan");
  TRY(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                               &n, &bytes),
      "plan");
  *workspace = (size_t)bytes;
out:
  return rc;
}

int gpu__dnn_plan_make(const gpu__dnn_target_t *t, gpu__dnn_desc_t *config, gpu__dnn_plan_t *out)
{
  int rc = CT_OK;
  gpu__dnn_plan_t p = {.plan = NULL};
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p.plan));
  CT_TRY(set_target(p.plan, t));
  TRY(cudnnBackendSetAttribute(p.plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, config),
      "plan");
  CT_TRY(finish_plan(p.plan, &p.workspace));
  p.config = *config;
  *config = NULL;
  *out = p;
  p.plan = p.config = NULL;
out:
  gpu__dnn_plan_clear(&p);
  return rc;
}

int gpu__dnn_plan_write(const gpu__dnn_plan_t *p, ct_str_t *json)
{
  int rc = CT_OK;
  int64_t bytes = 0;
  char *text = NULL;
  TRY(cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                               CUDNN_TYPE_CHAR, 0, &bytes, NULL),
      "plan as text");
  text = ct_mem_alloc((size_t)bytes + 1, "plan of cuDNN");
  if (!text) return CT_ERR_NOMEM;
  TRY(cudnnBackendGetAttribute(p->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                               CUDNN_TYPE_CHAR, bytes, &bytes, text),
      "plan as text");
  rc = ct_str_add(json, "%s", text);
out:
  ct_mem_free(text);
  return rc;
}

int gpu__dnn_plan_read(const gpu__dnn_target_t *t, const char *json, gpu__dnn_plan_t *out)
{
  int rc = CT_OK;
  gpu__dnn_plan_t p = {.plan = NULL};
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p.plan));
  CT_TRY(set_target(p.plan, t));
  TRY(cudnnBackendSetAttribute(p.plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                               CUDNN_TYPE_CHAR, (int64_t)strlen(json), json),
      "plan from text");
  CT_TRY(finish_plan(p.plan, &p.workspace));
  *out = p;
  p.plan = NULL;
out:
  gpu__dnn_plan_clear(&p);
  return rc;
}

void gpu__dnn_plan_clear(gpu__dnn_plan_t *p)
{
  gpu__dnn_free(p->plan);
  gpu__dnn_free(p->config);
  *p = (gpu__dnn_plan_t){.plan = NULL};
}

/* ---- runs ---- */

static int dnn_plan_pack(gpu__dnn_memory_t *m, int n, void *const at[], void *workspace)
{
  int rc = CT_OK;
  int64_t id[GPU_DNN_POINTERS];
  for (int i = 0; i < GPU_DNN_POINTERS; i++)
    id[i] = i + 1;
  gpu__dnn_memory_clear(m);
  CT_TRY(dnn_plan_create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &m->pack));
  TRY(cudnnBackendSetAttribute(m->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n,
                               id),
      "memory of a plan");
  TRY(cudnnBackendSetAttribute(m->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                               n, at),
      "memory of a plan");
  TRY(cudnnBackendSetAttribute(m->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                               &workspace),
      "memory of a plan");
  TRY(cudnnBackendFinalize(m->pack), "memory of a plan");
  memcpy(m->at, at, (size_t)n * sizeof *at);
  m->workspace = workspace;
out:
  if (rc != CT_OK) gpu__dnn_memory_clear(m);
  return rc;
}

int gpu__dnn_run(cudnnHandle_t handle, const gpu__dnn_plan_t *p, gpu__dnn_memory_t *m, int n,
                 void *const at[], void *workspace, cudaStream_t s)
{
  int rc = CT_OK;
  if (!m->pack || m->workspace != workspace || memcmp(m->at, at, (size_t)n * sizeof *at))
    CT_TRY(dnn_plan_pack(m, n, at, workspace));
  TRY(cudnnSetStream(handle, s), "stream");
  TRY(cudnnBackendExecute(handle, p->plan, m->pack), "run of a plan");
out:
  return rc;
}

void gpu__dnn_memory_clear(gpu__dnn_memory_t *m)
{
  gpu__dnn_free(m->pack);
  *m = (gpu__dnn_memory_t){.pack = NULL};
}
