/* Wraps oneDNN's C interface, versions 2 and 3, in the types of the backend: engines, descriptors
 * and handles stay in this file. */
#include "cpu/onednn/prim.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_mem.h"
#include <stdio.h>
#include <string.h>

int cpu__dnnl_check(dnnl_status_t s, const char *what)
{
  if (s == dnnl_success) return CT_OK;
  return ct_err_set(s == dnnl_out_of_memory ? CT_ERR_NOMEM : CT_ERR_DEVICE, __FILE__, __LINE__,
                    "oneDNN: %s failed with status %d", what, (int)s);
}

int cpu__dnnl_open(cpu__dnnl_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  cpu__dnnl_t *d = ct_mem_alloc(sizeof *d, "oneDNN engine");
  if (!d) return CT_ERR_NOMEM;
  CT_TRY(cpu__dnnl_check(dnnl_engine_create(&d->engine, dnnl_cpu, 0), "creating the CPU engine"));
  CT_TRY(cpu__dnnl_check(dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags),
                         "creating a stream"));
  *out = d;
  d = NULL;
out:
  cpu__dnnl_close(d);
  return rc;
}

void cpu__dnnl_close(cpu__dnnl_t *dnnl)
{
  if (!dnnl) return;
  dnnl_stream_destroy(dnnl->stream);
  dnnl_engine_destroy(dnnl->engine);
  ct_mem_free(dnnl);
}

int cpu__dnnl_major(void)
{
  return dnnl_version()->major;
}

const char *cpu__dnnl_version(char *buf, size_t cap)
{
  const dnnl_version_t *v = dnnl_version();
  snprintf(buf, cap, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
  return buf;
}

/* Returns 1 if oneDNN may use an instruction set; oneDNN names only those of x86-64. */
static int has_isa(dnnl_cpu_isa_t isa)
{
#ifdef __x86_64__
  return ((int)dnnl_get_effective_cpu_isa() & (int)isa) == (int)isa;
#else
  (void)isa;
  return 0;
#endif
}

int cpu__dnnl_has_avx512(void)
{
  return has_isa(dnnl_cpu_isa_avx512_core);
}

int cpu__dnnl_has_avx2(void)
{
  return has_isa(dnnl_cpu_isa_avx2);
}

int cpu__dnnl_has_bf16(void)
{
  return has_isa(dnnl_cpu_isa_avx512_core_bf16);
}

int cpu__dnnl_has_int8(void)
{
  return has_isa(dnnl_cpu_isa_avx512_core_vnni) || has_isa(dnnl_cpu_isa_avx2_vnni);
}

int cpu__dnnl_has_amx(void)
{
  return has_isa(dnnl_cpu_isa_avx512_core_amx);
}

/* ---- the two C interfaces ------------------------------------------------------------------- */

/* A cpu__prim_spec_t in oneDNN's types. */
typedef struct spec {
  int pass;
  dnnl_alg_kind_t algorithm;
  cpu__md_arg_t x, w, bias, y;
  dnnl_dims_t stride, dilate, pad;
  dnnl_primitive_attr_t attr;
} spec_t;

#if DNNL_VERSION_MAJOR >= 3

static dnnl_status_t md_create(cpu__md_t **out, int ndim, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag)
{
  return dnnl_memory_desc_create_with_tag((dnnl_memory_desc_t *)out, ndim, dims, type, tag);
}

static dnnl_status_t md_clone(cpu__md_t **out, cpu__md_arg_t md)
{
  return dnnl_memory_desc_clone((dnnl_memory_desc_t *)out, md);
}

static void md_destroy(cpu__md_t *md)
{
  dnnl_memory_desc_destroy((dnnl_memory_desc_t)md);
}

static void md_query(cpu__md_arg_t md, dnnl_query_t what, void *result)
{
  dnnl_memory_desc_query(md, what, result);
}

static int md_dims(cpu__md_arg_t md, const dnnl_dim_t **dims)
{
  int ndim = 0;
  const dnnl_dims_t *v;
  md_query(md, dnnl_query_ndims_s32, &ndim);
  md_query(md, dnnl_query_dims, &v);
  *dims = *v;
  return ndim;
}

/* The numbers that identify a memory format. */
static int md_numbers(cpu__md_arg_t md, int64_t out[], int cap)
{
  int ndim = 0, blocks = 0, n = 0;
  const dnnl_dims_t *v;
  static const dnnl_query_t per_dim[] = {dnnl_query_dims, dnnl_query_padded_dims,
                                         dnnl_query_strides};
  static const dnnl_query_t per_block[] = {dnnl_query_inner_blks, dnnl_query_inner_idxs};
  md_query(md, dnnl_query_ndims_s32, &ndim);
  md_query(md, dnnl_query_inner_nblks_s32, &blocks);
  for (int k = 0; k < 3; k++) {
    md_query(md, per_dim[k], &v);
    for (int i = 0; i < ndim && n < cap; i++)
      out[n++] = (*v)[i];
  }
  for (int k = 0; k < 2; k++) {
    md_query(md, per_block[k], &v);
    for (int i = 0; i < blocks && n < cap; i++)
      out[n++] = (*v)[i];
  }
  return n;
}

static dnnl_status_t conv_create(dnnl_engine_t e, const spec_t *p, dnnl_primitive_desc_t hint,
                                 dnnl_primitive_desc_t *out)
{
  if (p->pass == CT_FWD)
    return dnnl_convolution_forward_primitive_desc_create(
        out, e, dnnl_forward_training, p->algorithm, p->x, p->w, p->bias, p->y, p->stride,
        p->dilate, p->pad, p->pad, p->attr);
  if (p->pass == CT_BWD_DATA)
    return dnnl_convolution_backward_data_primitive_desc_create(out, e, p->algorithm, p->x, p->w,
                                                                p->y, p->stride, p->dilate, p->pad,
                                                                p->pad, hint, p->attr);
  return dnnl_convolution_backward_weights_primitive_desc_create(
      out, e, p->algorithm, p->x, p->w, p->bias, p->y, p->stride, p->dilate, p->pad, p->pad, hint,
      p->attr);
}

static dnnl_status_t linear_create(dnnl_engine_t e, const spec_t *p, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_desc_t *out)
{
  if (p->pass == CT_FWD)
    return dnnl_inner_product_forward_primitive_desc_create(out, e, dnnl_forward_training, p->x,
                                                            p->w, p->bias, p->y, p->attr);
  if (p->pass == CT_BWD_DATA)
    return dnnl_inner_product_backward_data_primitive_desc_create(out, e, p->x, p->w, p->y, hint,
                                                                  p->attr);
  return dnnl_inner_product_backward_weights_primitive_desc_create(out, e, p->x, p->w, p->bias,
                                                                   p->y, hint, p->attr);
}

#else

static dnnl_status_t md_clone(cpu__md_t **out, cpu__md_arg_t md)
{
  dnnl_memory_desc_t *m = ct_mem_alloc(sizeof *m, "memory descriptor");
  if (!m) return dnnl_out_of_memory;
  *m = *md;
  *out = (cpu__md_t *)m;
  return dnnl_success;
}

static dnnl_status_t md_create(cpu__md_t **out, int ndim, const dnnl_dims_t dims,
                               dnnl_data_type_t type, dnnl_format_tag_t tag)
{
  dnnl_memory_desc_t m;
  dnnl_status_t s = dnnl_memory_desc_init_by_tag(&m, ndim, dims, type, tag);
  return s == dnnl_success ? md_clone(out, &m) : s;
}

static void md_destroy(cpu__md_t *md)
{
  ct_mem_free(md);
}

static int md_dims(cpu__md_arg_t md, const dnnl_dim_t **dims)
{
  *dims = md->dims;
  return md->ndims;
}

/* The numbers that identify a memory format. */
static int md_numbers(cpu__md_arg_t md, int64_t out[], int cap)
{
  const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
  const dnnl_dim_t *per_dim[] = {md->dims, md->padded_dims, b->strides};
  const dnnl_dim_t *per_block[] = {b->inner_blks, b->inner_idxs};
  int n = 0;
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < md->ndims && n < cap; i++)
      out[n++] = per_dim[k][i];
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < b->inner_nblks && n < cap; i++)
      out[n++] = per_block[k][i];
  return n;
}

static dnnl_status_t conv_create(dnnl_engine_t e, const spec_t *p, dnnl_primitive_desc_t hint,
                                 dnnl_primitive_desc_t *out)
{
  dnnl_convolution_desc_t d;
  dnnl_status_t s;
  if (p->pass == CT_FWD)
    s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, p->algorithm, p->x,
                                                   p->w, p->bias, p->y, p->stride, p->dilate,
                                                   p->pad, p->pad);
  else if (p->pass == CT_BWD_DATA)
    s = dnnl_dilated_convolution_backward_data_desc_init(&d, p->algorithm, p->x, p->w, p->y,
                                                         p->stride, p->dilate, p->pad, p->pad);
  else
    s = dnnl_dilated_convolution_backward_weights_desc_init(
        &d, p->algorithm, p->x, p->w, p->bias, p->y, p->stride, p->dilate, p->pad, p->pad);
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, p->attr, e, hint) : s;
}

static dnnl_status_t linear_create(dnnl_engine_t e, const spec_t *p, dnnl_primitive_desc_t hint,
                                   dnnl_primitive_desc_t *out)
{
  dnnl_inner_product_desc_t d;
  dnnl_status_t s;
  if (p->pass == CT_FWD)
    s = dnnl_inner_product_forward_desc_init(&d, dnnl_forward_training, p->x, p->w, p->bias, p->y);
  else if (p->pass == CT_BWD_DATA)
    s = dnnl_inner_product_backward_data_desc_init(&d, p->x, p->w, p->y);
  else
    s = dnnl_inner_product_backward_weights_desc_init(&d, p->x, p->w, p->bias, p->y);
  return s == dnnl_success ? dnnl_primitive_desc_create(out, &d, p->attr, e, hint) : s;
}

#endif

/* ---- memory descriptors ---------------------------------------------------------------------- */

static dnnl_format_tag_t format_tag(int ndim, int format)
{
  static const dnnl_format_tag_t plain[] = {dnnl_a,    dnnl_ab,    dnnl_abc,
                                            dnnl_abcd, dnnl_abcde, dnnl_abcdef};
  switch (format) {
  case CPU__ANY:
    return dnnl_format_tag_any;
  case CPU__O8:
    return ndim == 5 ? dnnl_Abcde8a : dnnl_Abcd8a;
  case CPU__O16:
    return ndim == 5 ? dnnl_Abcde16a : dnnl_Abcd16a;
  case CPU__PANELS16:
    return dnnl_AB16b16a;
  case CPU__I8O8:
    return ndim == 5 ? dnnl_ABcde8b8a : dnnl_ABcd8b8a;
  case CPU__I16O16:
    return ndim == 5 ? dnnl_ABcde16b16a : dnnl_ABcd16b16a;
  case CT_C8:
    return ndim == 5 ? dnnl_nCdhw8c : dnnl_nChw8c;
  case CT_C16:
    return ndim == 5 ? dnnl_nCdhw16c : dnnl_nChw16c;
  case CT_NHWC:
    return ndim == 5 ? dnnl_ndhwc : dnnl_nhwc;
  default:
    return plain[ndim - 1];
  }
}

int cpu__md_typed(ct_dtype_t dtype, int ndim, const int64_t *dims, int format, cpu__md_t **out)
{
  dnnl_dims_t v = {0};
  dnnl_data_type_t type = dtype == CT_BF16 ? dnnl_bf16
                          : dtype == CT_U8 ? dnnl_u8
                          : dtype == CT_I8 ? dnnl_s8
                                           : dnnl_f32;
  memcpy(v, dims, (size_t)ndim * sizeof *dims);
  *out = NULL;
  return cpu__dnnl_check(md_create(out, ndim, v, type, format_tag(ndim, format)),
                         "describing a tensor");
}

int cpu__md_new(int ndim, const int64_t *dims, int format, cpu__md_t **out)
{
  return cpu__md_typed(CT_F32, ndim, dims, format, out);
}

int cpu__md_copy(const cpu__md_t *md, cpu__md_t **out)
{
  *out = NULL;
  return cpu__dnnl_check(md_clone(out, cpu__md_arg(md)), "copying a memory descriptor");
}

int cpu__md_plain(const cpu__md_t *md, cpu__md_t **out)
{
  const dnnl_dim_t *dims;
  int ndim = md_dims(cpu__md_arg(md), &dims);
  return cpu__md_new(ndim, dims, CT_PLAIN, out);
}

void cpu__md_free(cpu__md_t *md)
{
  if (md) md_destroy(md);
}

int cpu__md_same(const cpu__md_t *a, const cpu__md_t *b)
{
  return dnnl_memory_desc_equal(cpu__md_arg(a), cpu__md_arg(b));
}

size_t cpu__md_bytes(const cpu__md_t *md)
{
  return dnnl_memory_desc_get_size(cpu__md_arg(md));
}

uint64_t cpu__md_hash(const cpu__md_t *md)
{
  int64_t numbers[5 * DNNL_MAX_NDIMS];
  int n = md_numbers(cpu__md_arg(md), numbers, 5 * DNNL_MAX_NDIMS);
  return ct_hash(numbers, (size_t)n * sizeof *numbers, 0);
}

/* ---- primitives ------------------------------------------------------------------------------ */

int cpu__attr_create(dnnl_primitive_attr_t *out)
{
  int rc = CT_OK;
  CT_TRY(cpu__dnnl_check(dnnl_primitive_attr_create(out), "creating attributes"));
  CT_TRY(cpu__dnnl_check(dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user),
                         "setting the scratchpad mode"));
out:
  return rc;
}

/* Returns oneDNN's argument number and query for a role in a pass (pass 0: a reorder). */
static int dnnl_arg(int pass, cpu__role_t role, dnnl_query_t *query)
{
  static const struct {
    int arg, diff_arg;
    dnnl_query_t query, diff_query;
    int diff_passes;
  } map[CPU__ROLES] = {
      [CPU__X] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_SRC, dnnl_query_src_md, dnnl_query_diff_src_md,
                  CT_BWD_DATA},
      [CPU__W] = {DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_WEIGHTS, dnnl_query_weights_md,
                  dnnl_query_diff_weights_md, CT_BWD_PARAM},
      [CPU__BIAS] = {DNNL_ARG_BIAS, DNNL_ARG_DIFF_BIAS, dnnl_query_weights_md,
                     dnnl_query_diff_weights_md, CT_BWD_PARAM},
      [CPU__Y] = {DNNL_ARG_DST, DNNL_ARG_DIFF_DST, dnnl_query_dst_md, dnnl_query_diff_dst_md,
                  CT_BWD_DATA | CT_BWD_PARAM},
      [CPU__SCRATCH] = {DNNL_ARG_SCRATCHPAD, DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md,
                        dnnl_query_scratchpad_md, 0},
  };
  int diff = (map[role].diff_passes & pass) != 0;
  *query = diff ? map[role].diff_query : map[role].query;
  return diff ? map[role].diff_arg : map[role].arg;
}

int cpu__prim_create(dnnl_primitive_desc_t pd, int pass, cpu__prim_t **out)
{
  cpu__prim_t *prim = ct_mem_alloc(sizeof *prim, "oneDNN primitive");
  if (!prim) {
    dnnl_primitive_desc_destroy(pd);
    return CT_ERR_NOMEM;
  }
  prim->pd = pd;
  for (cpu__role_t r = 0; r < CPU__ROLES; r++) {
    dnnl_query_t query;
    int arg = dnnl_arg(pass, r, &query);
    cpu__md_arg_t md = dnnl_primitive_desc_query_md(pd, query, r == CPU__BIAS);
    if (!md || dnnl_memory_desc_get_size(md) == 0) continue;
    prim->md[r] = (const cpu__md_t *)md;
    prim->arg[prim->count].arg = arg;
    prim->role[prim->count++] = r;
  }
  *out = prim;
  return CT_OK;
}

static void translate(const cpu__prim_spec_t *p, spec_t *q)
{
  const ct_op_desc_t *d = p->desc;
  q->pass = p->pass;
  q->algorithm = dnnl_convolution_direct;
  q->x = cpu__md_arg(p->x);
  q->w = cpu__md_arg(p->w);
  q->y = cpu__md_arg(p->y);
  if (d->kind != CT_OP_CONV) return;
  for (int i = 0; i < d->x.ndim - 2; i++) {
    q->stride[i] = d->u.conv.stride[i];
    q->dilate[i] = d->u.conv.dilate[i] - 1;
    q->pad[i] = d->u.conv.pad[i];
  }
}

const int64_t *cpu__outputs_of(const ct_op_desc_t *d)
{
  return &d->y.dim[d->kind == CT_OP_CONV ? 1 : d->y.ndim - 1];
}

int cpu__prim_layer(cpu__dnnl_t *dnnl, const cpu__prim_spec_t *p, cpu__prim_t **out)
{
  int rc = CT_OK, conv = p->desc->kind == CT_OP_CONV;
  int bias = conv ? p->desc->u.conv.bias : p->desc->u.linear.bias;
  spec_t q = {0};
  cpu__md_t *bias_md = NULL;
  dnnl_primitive_desc_t pd = NULL, hint = p->forward ? p->forward->pd : NULL;
  *out = NULL;
  translate(p, &q);
  if (bias && p->pass != CT_BWD_DATA) {
    CT_TRY(cpu__md_new(1, cpu__outputs_of(p->desc), CT_PLAIN, &bias_md));
    q.bias = cpu__md_arg(bias_md);
  }
  CT_TRY(cpu__attr_create(&q.attr));
  dnnl_status_t s = (conv ? conv_create : linear_create)(dnnl->engine, &q, hint, &pd);
  if (s == dnnl_unimplemented) goto out;
  CT_TRY(cpu__dnnl_check(s, "describing a product"));
  CT_TRY(cpu__prim_create(pd, p->pass, out));
out:
  if (q.attr) dnnl_primitive_attr_destroy(q.attr);
  cpu__md_free(bias_md);
  return rc;
}

int cpu__prim_reorder(cpu__dnnl_t *dnnl, const cpu__md_t *from, const cpu__md_t *to,
                      cpu__prim_t **out)
{
  int rc = CT_OK;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_primitive_desc_t pd = NULL;
  *out = NULL;
  CT_TRY(cpu__attr_create(&attr));
  CT_TRY(cpu__dnnl_check(dnnl_reorder_primitive_desc_create(&pd, cpu__md_arg(from), dnnl->engine,
                                                            cpu__md_arg(to), dnnl->engine, attr),
                         "describing a reorder"));
  CT_TRY(cpu__prim_create(pd, 0, out));
  CT_TRY(cpu__prim_build(dnnl, *out));
out:
  if (attr) dnnl_primitive_attr_destroy(attr);
  if (rc != CT_OK) {
    cpu__prim_free(*out);
    *out = NULL;
  }
  return rc;
}

int cpu__prim_build(cpu__dnnl_t *dnnl, cpu__prim_t *prim)
{
  int rc = CT_OK;
  CT_TRY(cpu__dnnl_check(dnnl_primitive_create(&prim->built, prim->pd), "creating a primitive"));
  for (int i = 0; i < prim->count; i++)
    CT_TRY(cpu__dnnl_check(dnnl_memory_create(&prim->arg[i].memory,
                                              cpu__md_arg(prim->md[prim->role[i]]), dnnl->engine,
                                              DNNL_MEMORY_NONE),
                           "creating a memory object"));
out:
  return rc;
}

void cpu__prim_free(cpu__prim_t *prim)
{
  if (!prim) return;
  for (int i = 0; i < prim->count + prim->extra; i++)
    if (prim->arg[i].memory) dnnl_memory_destroy(prim->arg[i].memory);
  if (prim->built) dnnl_primitive_destroy(prim->built);
  dnnl_primitive_desc_destroy(prim->pd);
  ct_mem_free(prim->scale);
  ct_mem_free(prim);
}

const cpu__md_t *cpu__prim_md(const cpu__prim_t *prim, cpu__role_t role)
{
  return prim->md[role];
}

size_t cpu__prim_scratch(const cpu__prim_t *prim)
{
  return prim->md[CPU__SCRATCH] ? cpu__md_bytes(prim->md[CPU__SCRATCH]) : 0;
}

const char *cpu__prim_name(const cpu__prim_t *prim)
{
  const char *name = "";
  dnnl_primitive_desc_query(prim->pd, dnnl_query_impl_info_str, 0, &name);
  return name;
}

int cpu__prim_run(cpu__dnnl_t *dnnl, cpu__prim_t *prim, void *const at[CPU__ROLES])
{
  int rc = CT_OK;
  for (int i = 0; i < prim->count; i++) {
    void *p = at[prim->role[i]];
    if (p == prim->at[i]) continue;
    /* only if changed: oneDNN 2 zeroes the padding here, which takes time */
    CT_TRY(cpu__dnnl_check(dnnl_memory_set_data_handle(prim->arg[i].memory, p),
                           "setting a data handle"));
    prim->at[i] = p;
  }
  CT_TRY(cpu__dnnl_check(
      dnnl_primitive_execute(prim->built, dnnl->stream, prim->count + prim->extra, prim->arg),
      "executing a primitive"));
  CT_TRY(cpu__dnnl_check(dnnl_stream_wait(dnnl->stream), "waiting for a primitive"));
out:
  return rc;
}
