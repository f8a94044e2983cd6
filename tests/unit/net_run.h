/** \file net_run.h  The outputs of a whole network, on a backend in host memory. */
#ifndef NET_RUN_H
#define NET_RUN_H
#include <string.h>

#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "base/ct_rng.h"
#include "model/ct_graph.h"
#include "plan/ct_plan.h"
#include "ref/ct_ref.h"

/** Values as a trained network has them, none of them zero, for each parameter and buffer. */
static inline float **net_trained(const ct_graph_t *g)
{
  float **plain = ct_mem_array(g->params, sizeof *plain, "test");
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *p = &g->param[i];
    plain[i] = ct_mem_array(p->count, sizeof **plain, "test");
    ct_graph_init_param(g, i, 3, plain[i]);
    int norm = g->layer[p->layer].ops->op == CT_OP_BNORM;
    for (int64_t k = 0; k < p->count && (norm || p->spec.init == CT_INIT_ZERO); k++) {
      float v = ct_rng_normal(4, CT_RNG_TEST, (uint32_t)i, (uint64_t)k);
      plain[i][k] = !norm          ? 0.1F * v
                    : p->slot == 0 ? 1 + 0.2F * v
                    : p->slot == 3 ? 0.3F + v * v
                                   : 0.3F * v;
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

/** n samples of noise. */
static inline float *net_noise(const ct_shape_t *input, int n)
{
  int64_t count = n * ct_shape_count(input);
  float *x = ct_mem_array(count, sizeof *x, "test");
  for (int64_t i = 0; i < count; i++)
    x[i] = ct_rng_normal(1, CT_RNG_TEST, 0, (uint64_t)i);
  return x;
}

/** A plan with memory of its own. */
typedef struct net {
  const ct_backend_t *be;
  ct_dev_t *dev;
  ct_queue_t *q;
  ct_plan_t *p;
  ct_arena_map_t map;
  ct_bind_t b;
  ct_loss_t loss;
} net_t;

static inline void net_close(net_t *m)
{
  void *all[] = {m->b.arena, m->b.scratch, m->b.weight, m->b.buffer,
                 (void *)(uintptr_t)m->b.labels};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    ct_mem_free(all[i]);
  ct_arena_map_clear(&m->map);
  ct_plan_free(m->p);
  if (m->q) m->be->queue->destroy(m->q);
  if (m->dev) m->be->close(m->dev);
}

/** m stays where it is until net_close(), which is due also after a failure. */
static inline int net_open(net_t *m, const ct_backend_t *be, const ct_graph_t *g,
                           const ct_plan_opts_t *o)
{
  int rc = CT_OK;
  *m = (net_t){.be = be};
  CT_TRY(be->open(&(ct_dev_opts_t){.threads = 2}, &m->dev));
  CT_TRY(be->queue->create(m->dev, &m->q));
  CT_TRY(ct_plan_make(g, be, m->dev, o, NULL, &m->p));
  CT_TRY(ct_arena_map_make(m->p, &m->map));
  m->b = (ct_bind_t){.arena = ct_mem_alloc(m->p->arena_bytes + 1, "test"),
                     .scratch = ct_mem_alloc(m->p->scratch_bytes + 1, "test"),
                     .weight = ct_mem_alloc(m->map.weight_bytes + 1, "test"),
                     .buffer = ct_mem_alloc(m->map.buffer_bytes + 1, "test"),
                     .map = &m->map,
                     .labels = o->inference ? NULL : ct_mem_array(o->n, sizeof(int32_t), "test"),
                     .loss = o->inference ? NULL : &m->loss,
                     .loss_scale = 1};
out:
  return rc;
}

/** The weights that the network computes with from now on. */
static inline int net_fill(net_t *m, float *const *plain)
{
  int rc = CT_OK;
  const ct_graph_t *g = m->p->graph;
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *par = &g->param[i];
    char *to = (par->spec.buffer ? m->b.buffer : m->b.weight) + m->map.offset[i];
    if (par->spec.buffer)
      memcpy(to, plain[i], (size_t)par->count * sizeof **plain);
    else
      CT_TRY(
          m->be->op->pack(m->q, m->p->op[m->p->layer_op[par->layer]].op, par->slot, plain[i], to));
  }
out:
  return rc;
}

/** The outputs for as many samples as the plan is for. */
static inline int net_forward(net_t *m, const float *x, float *out)
{
  int rc = CT_OK;
  m->b.x = x;
  for (int i = 0; i < m->p->launches; i++)
    CT_TRY(ct_plan_run(m->p, i, &m->b, m->q));
  CT_TRY(m->be->queue->sync(m->q));
  const ct_value_t *v = &m->p->value[ct_plan_root(m->p, m->p->logits)];
  memcpy(out, v->external ? (const char *)x : m->b.arena + v->offset,
         m->p->value[m->p->logits].bytes);
out:
  return rc;
}

/** The outputs of the reference backend, n x classes, for n samples. */
static inline int net_outputs(const ct_graph_t *g, float *const *plain, int n, const float *x,
                              float *out)
{
  int rc = CT_OK;
  net_t m;
  CT_TRY(net_open(&m, &ct_backend_ref, g, &(ct_plan_opts_t){.n = n}));
  CT_TRY(net_fill(&m, plain));
  CT_TRY(net_forward(&m, x, out));
out:
  net_close(&m);
  return rc;
}

#endif
