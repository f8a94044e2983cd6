/* Outputs of a model with given weights, for the tests of folding and of inference plans. */
#ifndef INFER_RUN_H
#define INFER_RUN_H
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "cpu/ct_cpu.h"
#include "plan/ct_plan.h"
#include "ref/ct_ref.h"
#include "tests/harness/ct_test.h"

enum { NET_SAMPLES = 2 };

/* Values as a trained network has them. */
static inline float **net_weights(const ct_graph_t *g)
{
  float **plain = ct_mem_array(g->params, sizeof *plain, "test");
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *p = &g->param[i];
    plain[i] = ct_mem_array(p->count, sizeof **plain, "test");
    ct_graph_init_param(g, i, 3, plain[i]);
    int norm = g->layer[p->layer].ops->op == CT_OP_BNORM;
    for (int64_t k = 0; k < p->count && norm; k++) {
      float v = ct_rng_normal(4, CT_RNG_TEST, (uint32_t)i, (uint64_t)k);
      plain[i][k] = p->slot == 0 ? 1 + 0.2F * v : p->slot == 3 ? 0.3F + v * v : 0.3F * v;
    }
  }
  return plain;
}

static inline void net_discard(const ct_graph_t *g, float **plain)
{
  for (int i = 0; i < g->params; i++)
    ct_mem_free(plain[i]);
  ct_mem_free(plain);
}

typedef struct net {
  const ct_backend_t *be;
  ct_dev_t *dev;
  ct_queue_t *q;
  ct_plan_t *p;
  ct_arena_map_t map;
  ct_bind_t b;
} net_t;

static inline void *net_room(const net_t *m, size_t bytes)
{
  void *p = NULL;
  CT_ASSERT_OK(m->be->mem->alloc(m->dev, CT_MEM_DEVICE, bytes + 1, &p));
  return p;
}

static inline void net_fill(const net_t *m, float *const *plain)
{
  const ct_graph_t *g = m->p->graph;
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *par = &g->param[i];
    char *to = (par->spec.buffer ? m->b.buffer : m->b.weight) + m->map.offset[i];
    if (par->spec.buffer)
      memcpy(to, plain[i], (size_t)par->count * sizeof **plain);
    else
      CT_ASSERT_OK(
          m->be->op->pack(m->q, m->p->op[m->p->layer_op[par->layer]].op, par->slot, plain[i], to));
  }
}

static inline void net_open(net_t *m, const ct_backend_t *be, const ct_graph_t *g, int inference)
{
  static int32_t labels[NET_SAMPLES];
  static ct_loss_t loss;
  int64_t count = NET_SAMPLES * ct_shape_count(&g->input);
  ct_plan_opts_t o = {.n = NET_SAMPLES, .inference = inference};
  *m = (net_t){.be = be};
  CT_ASSERT_OK(be->open(&(ct_dev_opts_t){.threads = 2}, &m->dev));
  CT_ASSERT_OK(be->queue->create(m->dev, &m->q));
  CT_ASSERT_OK(ct_plan_make(g, be, m->dev, &o, NULL, &m->p));
  CU_ASSERT_PTR_NOT_NULL_FATAL(m->p);
  CT_ASSERT_OK(ct_arena_map_make(m->p, &m->map));
  float *x = net_room(m, (size_t)count * sizeof *x);
  for (int64_t i = 0; i < count; i++)
    x[i] = ct_rng_normal(1, CT_RNG_TEST, 0, (uint64_t)i);
  m->b = (ct_bind_t){.arena = net_room(m, m->p->arena_bytes),
                     .scratch = net_room(m, m->p->scratch_bytes),
                     .weight = net_room(m, m->map.weight_bytes),
                     .buffer = net_room(m, m->map.buffer_bytes),
                     .map = &m->map,
                     .x = x,
                     .labels = inference ? NULL : labels,
                     .loss = inference ? NULL : &loss,
                     .loss_scale = 1};
}

static inline void net_close(net_t *m)
{
  void *all[] = {(void *)(uintptr_t)m->b.x, m->b.arena, m->b.scratch, m->b.weight, m->b.buffer};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    m->be->mem->free(m->dev, CT_MEM_DEVICE, all[i]);
  ct_arena_map_clear(&m->map);
  ct_plan_free(m->p);
  m->be->queue->destroy(m->q);
  m->be->close(m->dev);
}

/* The outputs for NET_SAMPLES samples of noise. */
static inline void net_outputs(net_t *m, float *const *plain, float *out)
{
  net_fill(m, plain);
  for (int i = 0; i < m->p->works; i++)
    CT_ASSERT_OK(ct_plan_run(m->p, i, &m->b, m->q));
  const ct_value_t *v = &m->p->value[ct_plan_root(m->p, m->p->logits)];
  memcpy(out, v->external ? (const char *)m->b.x : m->b.arena + v->offset,
         m->p->value[m->p->logits].bytes);
}

#endif
