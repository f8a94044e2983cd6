/* Fully connected layers in bf16 on AMX (gemm/gemm_amx.h): each run rounds the float32 weights. */
#include "cpu/kinds.h"
#include "cpu/gemm/algorithm.h"
#include "cpu/gemm/gemm_amx.h"
#include "cpu/tile/amx.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"

typedef struct linear {
  int pass, bias;
  cpu__amx_gemm_t gemm; /* without addresses */
} linear_t;

static int linear_amx_can(const cpu__job_t *job, cpu__cost_t *cost, char why[128])
{
  if (job->desc->x.dtype != CT_BF16) return cpu__refuse(why, "another type of activations");
  if (!cpu__amx_is_there()) return cpu__refuse(why, "the processor has no AMX");
  *cost = (cpu__cost_t){ct_op_flops(job->desc, job->pass) / 2 * 0.5, 0};
  return 1;
}

static int linear_amx_stored(const cpu__job_t *job, cpu__md_t **out)
{
  return cpu__md_new(2, (int64_t[]){job->desc->y.dim[1], job->desc->x.dim[1]}, CT_PLAIN, out);
}

static int linear_amx_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  const ct_op_desc_t *d = job->desc;
  linear_t *l = out->own = ct_mem_alloc(sizeof *l, "linear");
  if (!l) return CT_ERR_NOMEM;
  *l = (linear_t){.pass = job->pass,
                  .bias = d->u.linear.bias,
                  .gemm = cpu__amx_dense(job->pass, d->x.dim[0], d->x.dim[1], d->y.dim[1])};
  l->gemm.relu = job->pass == CT_FWD && d->u.linear.relu;
  out->scratch = cpu__amx_gemm_scratch(&l->gemm, job->dev->threads);
  return linear_amx_stored(job, &out->w);
}

static void linear_amx_clear(cpu__ready_t *ready)
{
  ct_mem_free(ready->own);
}

static int run(ct_dev_t *dev, const linear_t *l, void *const at[CPU__ROLES], int add)
{
  cpu__amx_gemm_t g = l->gemm;
  g.a.at = l->pass == CT_FWD ? at[CPU__X] : at[CPU__Y];
  g.b.at = l->pass == CT_BWD_PARAM ? at[CPU__X] : at[CPU__W];
  g.c = at[l->pass == CT_FWD ? CPU__Y : l->pass == CT_BWD_DATA ? CPU__X : CPU__W];
  g.bias = l->pass == CT_FWD && l->bias ? at[CPU__BIAS] : NULL;
  g.add = add;
  g.sums = l->pass == CT_BWD_PARAM && l->bias ? at[CPU__BIAS] : NULL;
  cpu__amx_gemm(dev, &g, at[CPU__SCRATCH]);
  return CT_OK;
}

static int linear_amx_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  return run(dev, ready->own, at, 0);
}

static int linear_amx_run_adding(ct_dev_t *dev, const cpu__ready_t *ready,
                                 void *const at[CPU__ROLES])
{
  return run(dev, ready->own, at, 1);
}

const cpu__algo_t cpu__linear_amx = {.name = "bf16 AMX",
                                     .relu = 1,
                                     .can = linear_amx_can,
                                     .stored = linear_amx_stored,
                                     .prepare = linear_amx_prepare,
                                     .run = linear_amx_run,
                                     .run_adding = linear_amx_run_adding,
                                     .clear = linear_amx_clear};
