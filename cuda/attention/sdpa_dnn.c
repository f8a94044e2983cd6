/* Attention with cuDNN (gemm_conv.h). cuDNN compiles the kernels of a plan when it is made, which
 * takes a second, so layers of equal shapes share plans. */
#include "base/ct_err.h"
#include "base/ct_log.h"
#include "base/ct_mem.h"
#include "cuda/attention/sdpa_plan.h"
#include "cuda/gpu.h"
#include "cuda/library_handles.h"
#include <float.h>
#include <stdint.h>

struct gpu__sdpa {
  cudnnHandle_t handle;
  gpu__attention_t shape;
  float scale, one, least;
  const gpu__dnn_plan_t *plan[2]; /* forward and backward, which may be NULL */
  gpu__dnn_memory_t memory[2];
};

/* ---- plans of the device ---- */

typedef struct entry {
  gpu__sdpa_spec_t spec;
  gpu__dnn_plan_t plan; /* empty: cuDNN has none */
} entry_t;

struct gpu__sdpa_plans {
  entry_t **entry; /* individually allocated, since ops keep pointers to them */
  int64_t count, cap;
};

void gpu__sdpa_plans_free(gpu__sdpa_plans_t *p)
{
  if (!p) return;
  for (int64_t i = 0; i < p->count; i++) {
    gpu__dnn_plan_clear(&p->entry[i]->plan);
    ct_mem_free(p->entry[i]);
  }
  ct_mem_free(p->entry);
  ct_mem_free(p);
}

/* The scale is given at run time. */
static int is_same(const gpu__sdpa_spec_t *a, const gpu__sdpa_spec_t *b)
{
  const gpu__attention_t *x = &a->shape, *y = &b->shape;
  return a->type == b->type && a->back == b->back && a->sm == b->sm && x->n == y->n &&
         x->t == y->t && x->s == y->s && x->heads == y->heads && x->kv_heads == y->kv_heads &&
         x->wide == y->wide && x->values == y->values && x->causal == y->causal &&
         x->q_row == y->q_row && x->k_row == y->k_row && x->v_row == y->v_row &&
         x->y_row == y->y_row;
}

static int plans_add(ct_dev_t *dev, gpu__sdpa_plans_t *plans, const gpu__sdpa_spec_t *spec)
{
  int rc = CT_OK;
  gpu__dnn_target_t t = {.handle = dev->libraries->dnn};
  entry_t *e = ct_mem_alloc(sizeof *e, "plan of attention");
  if (!e) return CT_ERR_NOMEM;
  e->spec = *spec;
  CT_TRY(ct_mem_grow((void **)&plans->entry, &plans->cap, plans->count + 1, sizeof(entry_t *)));
  rc = gpu__sdpa_plan(&t, spec, cudnnGetVersion(), &e->plan);
  if (rc == CT_ERR_NOMEM) goto out;
  if (rc != CT_OK)
    ct_log(CT_LOG_WARN, "attention uses slower kernels (%s pass, %s, cuDNN %d): %s",
           spec->back ? "backward" : "forward", ct_dtype_name(spec->type), (int)cudnnGetVersion(),
           ct_err_last()->text);
  rc = CT_OK;
  plans->entry[plans->count++] = e;
  e = NULL;
out:
  ct_mem_free(e);
  return rc;
}

/* Returns the plan of a pass, which is searched once per process; NULL: cuDNN has none. */
static int plans_find(ct_dev_t *dev, const gpu__sdpa_spec_t *spec, const gpu__dnn_plan_t **out)
{
  int rc = CT_OK;
  int64_t i = 0;
  gpu__sdpa_plans_t **plans = &dev->libraries->sdpa_plans;
  if (!*plans) *plans = ct_mem_alloc(sizeof **plans, "plans of attention");
  if (!*plans) return CT_ERR_NOMEM;
  while (i < (*plans)->count && !is_same(&(*plans)->entry[i]->spec, spec))
    i++;
  if (i == (*plans)->count) CT_TRY(plans_add(dev, *plans, spec));
  *out = (*plans)->entry[i]->plan.plan ? &(*plans)->entry[i]->plan : NULL;
out:
  return rc;
}

/* ---- one op ---- */

/* Returns the workspace that plans of the backward pass asked for on Ampere and Hopper: gradients
 * of the scores in two bytes. A described device gets no plans, whose kernels cuDNN compiles with
 * the driver's library. */
static size_t usual_workspace(const gpu__attention_t *a)
{
  int64_t t = (a->t + 63) / 64 * 64, s = a->s ? (a->s + 63) / 64 * 64 : t;
  return (size_t)(a->n * a->heads * t * s) * 2;
}

int gpu__sdpa_make(ct_dev_t *dev, ct_dtype_t type, const gpu__attention_t *a, int back,
                   gpu__sdpa_t **out, size_t *scratch)
{
  int rc = CT_OK;
  gpu__sdpa_spec_t spec = {.type = type, .shape = gpu__attention_full(a), .sm = dev->sm};
  gpu__sdpa_t *p = NULL;
  *out = NULL;
  *scratch = 0;
  if (!gpu__sdpa_fits(&spec)) goto out;
  p = ct_mem_alloc(sizeof *p, "attention");
  if (!p) return CT_ERR_NOMEM;
  p->handle = dev->libraries->dnn;
  p->shape = *a;
  p->scale = spec.shape.scale;
  p->one = 1;
  p->least = -FLT_MAX;
  if (dev->card && back) *scratch = usual_workspace(a);
  for (spec.back = 0; spec.back <= back && !dev->card; spec.back++) {
    CT_TRY(plans_find(dev, &spec, &p->plan[spec.back]));
    if (!p->plan[spec.back]) goto out;
    if (p->plan[spec.back]->workspace > *scratch) *scratch = p->plan[spec.back]->workspace;
  }
  *out = p;
  p = NULL;
out:
  gpu__sdpa_free(p);
  return rc;
}

void gpu__sdpa_free(gpu__sdpa_t *p)
{
  if (!p) return;
  gpu__dnn_memory_clear(&p->memory[0]);
  gpu__dnn_memory_clear(&p->memory[1]);
  ct_mem_free(p);
}

/* Casts const away: cuDNN takes inputs as pointers to non-const. */
static void *input(const void *p)
{
  return (void *)(uintptr_t)p;
}

int gpu__sdpa_forward(gpu__sdpa_t *p, const gpu__attention_io_t *io, void *scratch, cudaStream_t s)
{
  int n = GPU_SDPA_FORWARD_IDS + !!p->shape.causal;
  void *const at[GPU_SDPA_FORWARD_IDS + 1] = {input(io->q), input(io->k), input(io->v), io->y,
                                              io->stats,    &p->scale,    &p->least};
  return gpu__dnn_run(p->handle, p->plan[0], &p->memory[0], n, at, scratch, s);
}

int gpu__sdpa_backward(gpu__sdpa_t *p, const gpu__attention_io_t *io, void *scratch, cudaStream_t s)
{
  int n = GPU_SDPA_BACKWARD_IDS + !!p->shape.causal;
  void *const at[GPU_SDPA_BACKWARD_IDS + 1] = {
      input(io->q), input(io->k), input(io->v), io->y,    io->stats, &p->scale, input(io->dy),
      io->dq,       io->dk,       io->dv,       io->sums, &p->one,   &p->least};
  return gpu__dnn_run(p->handle, p->plan[1], &p->memory[1], n, at, scratch, s);
}
