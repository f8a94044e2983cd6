/* oneDNN's convolutions and inner products as algorithms for a pass. */
#include "cpu/gemm/primitive.h"
#include "base/ct_err.h"

int cpu__conv_weights(const ct_op_desc_t *d, ct_dtype_t dtype, int format, cpu__md_t **out)
{
  int g = d->u.conv.groups;
  const int *kernel = d->u.conv.kernel;
  const int64_t w[6] = {g, d->y.dim[1] / g, d->x.dim[1] / g, kernel[0], kernel[1], kernel[2]};
  return cpu__md_typed(dtype, d->x.ndim + (g > 1), g > 1 ? w : w + 1, format, out);
}

/* Creates a descriptor of the weights that leaves the format to oneDNN.  Gradients are float32. */
static int any_weights(const cpu__job_t *job, cpu__md_t **out)
{
  const ct_op_desc_t *d = job->desc;
  ct_dtype_t dtype = job->pass == CT_BWD_PARAM ? CT_F32 : d->x.dtype;
  if (d->kind != CT_OP_LINEAR) return cpu__conv_weights(d, dtype, CPU__ANY, out);
  return cpu__md_typed(dtype, 2, (int64_t[]){d->y.dim[1], d->x.dim[1]}, CPU__ANY, out);
}

int cpu__primitive_find(const cpu__job_t *job, cpu__prim_t **out)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = job->desc;
  cpu__job_t hint = *job;
  cpu__prim_t *forward = NULL;
  cpu__md_t *x = NULL, *y = NULL, *w = NULL;
  *out = NULL;
  hint.pass = CT_FWD;
  if (job->pass != CT_FWD) CT_TRY(cpu__primitive_find(&hint, &forward));
  if (job->pass != CT_FWD && !forward) goto out;
  CT_TRY(cpu__md_typed(d->x.dtype, d->x.ndim, d->x.dim, (int)job->at.x, &x));
  CT_TRY(cpu__md_typed(d->x.dtype, d->y.ndim, d->y.dim, (int)job->at.y, &y));
  CT_TRY(any_weights(job, &w));
  cpu__prim_spec_t p = {.pass = job->pass, .desc = d, .x = x, .w = w, .y = y, .forward = forward};
  CT_TRY(cpu__prim_layer(job->dev->dnnl, &p, out));
out:
  cpu__md_free(x);
  cpu__md_free(y);
  cpu__md_free(w);
  cpu__prim_free(forward);
  return rc;
}

/* Like cpu__primitive_find(), but returns an error if oneDNN has no implementation. */
static int primitive_find(const cpu__job_t *job, cpu__prim_t **out)
{
  int rc = CT_OK;
  CT_TRY(cpu__primitive_find(job, out));
  if (!*out)
    CT_FAIL(CT_ERR_UNSUP, "oneDNN has no implementation of a pass of this '%s' op",
            ct_op_name(job->desc->kind));
out:
  return rc;
}

int cpu__primitive_format(const cpu__job_t *job, cpu__md_t **out)
{
  int rc = CT_OK;
  cpu__prim_t *prim;
  CT_TRY(primitive_find(job, &prim));
  rc = cpu__md_copy(cpu__prim_md(prim, CPU__W), out);
  cpu__prim_free(prim);
out:
  return rc;
}

int cpu__primitive_build(const cpu__job_t *job, cpu__prim_t *prim, cpu__ready_t *out)
{
  int rc = CT_OK;
  out->own = prim;
  out->scratch = cpu__prim_scratch(prim);
  CT_TRY(cpu__md_copy(cpu__prim_md(prim, CPU__W), &out->w));
  CT_TRY(cpu__prim_build(job->dev->dnnl, prim));
out:
  return rc;
}

int cpu__primitive_prepare(const cpu__job_t *job, cpu__ready_t *out)
{
  int rc = CT_OK;
  cpu__prim_t *prim;
  CT_TRY(primitive_find(job, &prim));
  CT_TRY(cpu__primitive_build(job, prim, out));
out:
  return rc;
}

int cpu__primitive_run(ct_dev_t *dev, const cpu__ready_t *ready, void *const at[CPU__ROLES])
{
  return cpu__prim_run(dev->dnnl, ready->own, at);
}

void cpu__primitive_clear(cpu__ready_t *ready)
{
  cpu__prim_free(ready->own);
}
