/** \file net_run.h  The outputs of a whole network on the reference backend, from plain weights. */
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

static inline int net_fill(const ct_graph_t *g, const ct_plan_t *p, ct_queue_t *q,
                           const ct_bind_t *b, float *const *plain)
{
  int rc = CT_OK;
  for (int i = 0; i < g->params; i++) {
    const ct_param_t *par = &g->param[i];
    char *to = (par->spec.buffer ? b->buffer : b->weight) + b->map->offset[i];
    if (par->spec.buffer)
      memcpy(to, plain[i], (size_t)par->count * sizeof **plain);
    else
      CT_TRY(
          ct_backend_ref.op->pack(q, p->op[p->layer_op[par->layer]].op, par->slot, plain[i], to));
  }
out:
  return rc;
}

/** Runs the plan on the samples, which lie in host memory as all of the reference backend does. */
static inline int net_forward(const ct_graph_t *g, const ct_plan_t *p, ct_queue_t *q,
                              float *const *plain, int n, const float *x, float *out)
{
  int rc = CT_OK;
  ct_arena_map_t map = {0};
  ct_loss_t loss;
  CT_TRY(ct_arena_map_make(p, &map));
  ct_bind_t b = {.arena = ct_mem_alloc(p->arena_bytes + 1, "test"),
                 .scratch = ct_mem_alloc(p->scratch_bytes + 1, "test"),
                 .weight = ct_mem_alloc(map.weight_bytes + 1, "test"),
                 .buffer = ct_mem_alloc(map.buffer_bytes + 1, "test"),
                 .map = &map,
                 .x = x,
                 .labels = ct_mem_array(n, sizeof(int32_t), "test"),
                 .loss = &loss,
                 .loss_scale = 1};
  rc = net_fill(g, p, q, &b, plain);
  for (int i = 0; rc == CT_OK && i <= p->loss_work; i++)
    rc = ct_plan_run(p, i, &b, q);
  const ct_value_t *v = &p->value[ct_plan_root(p, p->logits)];
  if (rc == CT_OK)
    memcpy(out, v->external ? (const char *)x : (char *)b.arena + v->offset,
           p->value[p->logits].bytes);
  void *all[] = {b.arena, b.scratch, b.weight, b.buffer, (void *)(uintptr_t)b.labels};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    ct_mem_free(all[i]);
out:
  ct_arena_map_clear(&map);
  return rc;
}

/** The outputs, n x classes, for n samples. */
static inline int net_outputs(const ct_graph_t *g, float *const *plain, int n, const float *x,
                              float *out)
{
  int rc = CT_OK;
  ct_dev_t *dev = NULL;
  ct_queue_t *q = NULL;
  ct_plan_t *p = NULL;
  CT_TRY(ct_backend_ref.open(&(ct_dev_opts_t){.threads = 1}, &dev));
  CT_TRY(ct_backend_ref.queue->create(dev, &q));
  CT_TRY(ct_plan_make(g, &ct_backend_ref, dev, &(ct_plan_opts_t){.n = n}, NULL, &p));
  CT_TRY(net_forward(g, p, q, plain, n, x, out));
out:
  ct_plan_free(p);
  if (q) ct_backend_ref.queue->destroy(q);
  if (dev) ct_backend_ref.close(dev);
  return rc;
}

#endif
