/* int8 primitives: uint8 activations, int8 weights.  oneDNN 2 takes the scales when a primitive is
 * created, adds the bias before scaling, and has op descriptors; oneDNN 3 takes the scales when it
 * runs, and adds the bias after scaling. */
#include "cpu/onednn/prim.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <math.h>
#include <string.h>

typedef struct spec {
  const cpu__int8_t *p;
  cpu__md_t *x, *w, *bias, *y;
  dnnl_primitive_attr_t attr;
  dnnl_dims_t stride, dilate, pad;
} spec_t;

static int is_conv(const cpu__int8_t *p)
{
  return p->desc->kind == CT_OP_CONV;
}

#if DNNL_VERSION_MAJOR >= 3

float cpu__int8_bias(float bias, float scale)
{
  (void)scale;
  return bias;
}

static int groups_of(const cpu__int8_t *p)
{
  return is_conv(p) ? p->desc->u.conv.groups : 1;
}

static dnnl_status_t set_scales(const cpu__int8_t *p, dnnl_primitive_attr_t attr)
{
  return dnnl_primitive_attr_set_scales_mask(attr, DNNL_ARG_WEIGHTS, groups_of(p) > 1 ? 3 : 1);
}

static dnnl_status_t set_zero(const cpu__int8_t *p, dnnl_primitive_attr_t attr)
{
  (void)p;
  return dnnl_primitive_attr_set_zero_points_mask(attr, DNNL_ARG_SRC, 0);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type)
{
  return dnnl_post_ops_append_sum(ops, scale, 0, type);
}

static dnnl_status_t append_act(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float beta)
{
  return dnnl_post_ops_append_eltwise(ops, kind, 0, beta);
}

static dnnl_status_t int8_create(const spec_t *k, dnnl_engine_t e, dnnl_primitive_desc_t *out)
{
  if (is_conv(k->p))
    return dnnl_convolution_forward_primitive_desc_create(
        out, e, dnnl_forward_inference, dnnl_convolution_direct, cpu__md_arg(k->x),
        cpu__md_arg(k->w), cpu__md_arg(k->bias), cpu__md_arg(k->y), k->stride, k->dilate, k->pad,
        k->pad, k->attr);
  return dnnl_inner_product_forward_primitive_desc_create(
      out, e, dnnl_forward_inference, cpu__md_arg(k->x), cpu__md_arg(k->w), cpu__md_arg(k->bias),
      cpu__md_arg(k->y), k->attr);
}

static int add_extra(cpu__dnnl_t *dnnl, cpu__prim_t *prim, int arg, dnnl_data_type_t type,
                     int64_t count, void *at)
{
  int rc = CT_OK;
  dnnl_memory_desc_t md = NULL;
  dnnl_exec_arg_t *to = &prim->arg[prim->count + prim->extra];
  CT_TRY(
      cpu__dnnl_check(dnnl_memory_desc_create_with_tag(&md, 1, (dnnl_dims_t){count}, type, dnnl_a),
                      "describing scales"));
  to->arg = arg;
  CT_TRY(cpu__dnnl_check(dnnl_memory_create(&to->memory, md, dnnl->engine, at),
                         "creating a memory object"));
  prim->extra++;
out:
  if (md) dnnl_memory_desc_destroy(md);
  return rc;
}

static int keep_numbers(cpu__dnnl_t *dnnl, const cpu__int8_t *p, cpu__prim_t *prim)
{
  int rc = CT_OK;
  int64_t outputs = *cpu__outputs_of(p->desc);
  prim->scale = ct_mem_array(outputs, sizeof *prim->scale, "scales");
  CT_TRY(prim->scale ? CT_OK : CT_ERR_NOMEM);
  memcpy(prim->scale, p->scale, (size_t)outputs * sizeof *prim->scale);
  prim->zero = p->x_zero;
  CT_TRY(add_extra(dnnl, prim, DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, dnnl_f32, outputs,
                   prim->scale));
  if (p->x_zero)
    CT_TRY(
        add_extra(dnnl, prim, DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC, dnnl_s32, 1, &prim->zero));
out:
  return rc;
}

#else

float cpu__int8_bias(float bias, float scale)
{
  return bias / scale;
}

static dnnl_status_t set_scales(const cpu__int8_t *p, dnnl_primitive_attr_t attr)
{
  return dnnl_primitive_attr_set_output_scales(attr, *cpu__outputs_of(p->desc), 1 << 1, p->scale);
}

static dnnl_status_t set_zero(const cpu__int8_t *p, dnnl_primitive_attr_t attr)
{
  const int32_t zero = p->x_zero;
  return dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_SRC, 1, 0, &zero);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops, float scale, dnnl_data_type_t type)
{
  return dnnl_post_ops_append_sum_v2(ops, scale, type);
}

static dnnl_status_t append_act(dnnl_post_ops_t ops, dnnl_alg_kind_t kind, float beta)
{
  return dnnl_post_ops_append_eltwise(ops, 1, kind, 0, beta);
}

static dnnl_status_t int8_create(const spec_t *k, dnnl_engine_t e, dnnl_primitive_desc_t *out)
{
  dnnl_convolution_desc_t conv;
  dnnl_inner_product_desc_t linear;
  dnnl_status_t s;
  if (is_conv(k->p))
    s = dnnl_dilated_convolution_forward_desc_init(
        &conv, dnnl_forward_inference, dnnl_convolution_direct, cpu__md_arg(k->x),
        cpu__md_arg(k->w), cpu__md_arg(k->bias), cpu__md_arg(k->y), k->stride, k->dilate, k->pad,
        k->pad);
  else
    s = dnnl_inner_product_forward_desc_init(&linear, dnnl_forward_inference, cpu__md_arg(k->x),
                                             cpu__md_arg(k->w), cpu__md_arg(k->bias),
                                             cpu__md_arg(k->y));
  if (s != dnnl_success) return s;
  return dnnl_primitive_desc_create(out, is_conv(k->p) ? (void *)&conv : (void *)&linear, k->attr,
                                    e, NULL);
}

static int keep_numbers(cpu__dnnl_t *dnnl, const cpu__int8_t *p, cpu__prim_t *prim)
{
  (void)dnnl;
  (void)p;
  (void)prim;
  return CT_OK;
}

#endif

static int int8_describe(spec_t *k)
{
  int rc = CT_OK;
  const ct_op_desc_t *d = k->p->desc;
  int64_t outputs = *cpu__outputs_of(d), in = d->x.dim[1];
  int format = is_conv(k->p) ? (int)CT_NHWC : (int)CT_PLAIN;
  CT_TRY(cpu__md_typed(CT_U8, d->x.ndim, d->x.dim, format, &k->x));
  CT_TRY(cpu__md_typed(d->y.dtype, d->y.ndim, d->y.dim, format, &k->y));
  CT_TRY(cpu__md_new(1, &outputs, CT_PLAIN, &k->bias));
  if (!is_conv(k->p)) return cpu__md_typed(CT_I8, 2, (int64_t[]){outputs, in}, CPU__ANY, &k->w);
  int g = d->u.conv.groups;
  const int *kernel = d->u.conv.kernel;
  const int64_t w[6] = {g, outputs / g, in / g, kernel[0], kernel[1], kernel[2]};
  CT_TRY(cpu__md_typed(CT_I8, d->x.ndim + (g > 1), g > 1 ? w : w + 1, CPU__ANY, &k->w));
  for (int i = 0; i < d->x.ndim - 2; i++) {
    k->stride[i] = d->u.conv.stride[i];
    k->dilate[i] = d->u.conv.dilate[i] - 1;
    k->pad[i] = d->u.conv.pad[i];
  }
out:
  return rc;
}

static int set_attributes(spec_t *k)
{
  int rc = CT_OK;
  const cpu__int8_t *p = k->p;
  dnnl_post_ops_t ops = NULL;
  int cut = isinf(p->most) || p->most > 0;
  CT_TRY(cpu__attr_create(&k->attr));
  CT_TRY(cpu__dnnl_check(set_scales(p, k->attr), "setting scales"));
  if (p->x_zero) CT_TRY(cpu__dnnl_check(set_zero(p, k->attr), "setting a zero point"));
  CT_TRY(cpu__dnnl_check(dnnl_post_ops_create(&ops), "creating post-ops"));
  if (p->sum != 0) CT_TRY(cpu__dnnl_check(append_sum(ops, p->sum, dnnl_u8), "appending a sum"));
  if (cut)
    CT_TRY(cpu__dnnl_check(isinf(p->most) ? append_act(ops, dnnl_eltwise_relu, 0)
                                          : append_act(ops, dnnl_eltwise_clip, p->most),
                           "appending a ReLU"));
  CT_TRY(cpu__dnnl_check(dnnl_primitive_attr_set_post_ops(k->attr, ops), "setting post-ops"));
out:
  if (ops) dnnl_post_ops_destroy(ops);
  return rc;
}

int cpu__prim_int8(cpu__dnnl_t *dnnl, const cpu__int8_t *p, cpu__prim_t **out)
{
  int rc = CT_OK;
  spec_t k = {.p = p};
  dnnl_primitive_desc_t pd = NULL;
  *out = NULL;
  CT_TRY(int8_describe(&k));
  CT_TRY(set_attributes(&k));
  dnnl_status_t s = int8_create(&k, dnnl->engine, &pd);
  if (s == dnnl_unimplemented) goto out;
  CT_TRY(cpu__dnnl_check(s, "describing a product of bytes"));
  CT_TRY(cpu__prim_create(pd, CT_FWD, out));
  CT_TRY(keep_numbers(dnnl, p, *out));
out:
  if (rc != CT_OK) {
    cpu__prim_free(*out);
    *out = NULL;
  }
  if (k.attr) dnnl_primitive_attr_destroy(k.attr);
  cpu__md_free(k.x);
  cpu__md_free(k.w);
  cpu__md_free(k.bias);
  cpu__md_free(k.y);
  return rc;
}
