/* The CPU backend: the device, and the dispatch of ops by kind. */
#include "cpu/ct_cpu.h"
#include "cpu/conv/conv.h"
#include "cpu/int8/int8.h"
#include "cpu/kinds.h"
#include "cpu/onednn/glue.h"
#include "cpu/gemm/gemm_blocked.h"
#include "cpu/team.h"
#include "backend/ct_host.h"
#include "host/ct_cores.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include <stdio.h>
#include <string.h>

/* ---- device ---------------------------------------------------------------------------------- */

static int cpu_probe(char why[128])
{
  why[0] = 0;
  return 1;
}

#ifdef __x86_64__ /* __builtin_cpu_… only exists there */
static cpu__isa_t widest_isa(void)
{
  __builtin_cpu_init();
  if (cpu__dnnl_has_avx512() && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return CPU__AVX512;
  if (cpu__dnnl_has_avx2() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return CPU__AVX2;
  return CPU__PORTABLE;
}

/* Returns the rate of bf16 dot products relative to float32 vectors.  Measured: vdpbf16ps has twice
 * the multiply-add rate of float32 on AMD (Zen 4), and half of it on Intel without AMX. */
static double bf16_rate(void)
{
  if (cpu__dnnl_has_amx()) return 4;
  if (!cpu__dnnl_has_bf16()) return 0;
  return __builtin_cpu_is("amd") ? 2 : 0.5;
}
#else
static cpu__isa_t widest_isa(void)
{
  return CPU__PORTABLE;
}

static double bf16_rate(void)
{
  return 0;
}
#endif

static void cpu_close(ct_dev_t *dev)
{
  if (!dev) return;
  cpu__dnnl_close(dev->dnnl);
  ct_mem_free(dev->packing);
  ct_mem_free(dev);
}

static int cpu_open(const ct_dev_opts_t *o, ct_dev_t **out)
{
  int rc = CT_OK;
  static const char *const isa_names[] = {CPU__NEON ? "NEON" : "no vectors", "AVX2", "AVX-512"};
  char version[32];
  unsigned char cores[CT_MASK_BYTES];
  *out = NULL;
  ct_dev_t *dev = ct_mem_alloc(sizeof *dev, "CPU device");
  if (!dev) return CT_ERR_NOMEM;
  dev->threads = o->threads > 0 ? o->threads : ct_cores_omp(cores);
  if (dev->threads < 1) dev->threads = 1;
  dev->conv_direct = o->conv_direct;
  CT_TRY(cpu__team_check(dev->threads));
  CT_TRY(cpu__dnnl_open(&dev->dnnl));
  dev->isa = widest_isa();
  dev->packing =
      ct_mem_alloc((size_t)dev->threads * cpu__gemm_workspace(), "workspace for packing matrices");
  if (!dev->packing) {
    rc = CT_ERR_NOMEM;
    goto out;
  }
  dev->bf16_rate = bf16_rate();
  snprintf(dev->describe, sizeof dev->describe, "%s, %s, %d thread%s",
           cpu__dnnl_version(version, sizeof version), isa_names[dev->isa], dev->threads,
           dev->threads == 1 ? "" : "s");
  *out = dev;
  dev = NULL;
out:
  cpu_close(dev);
  return rc;
}

static const char *cpu_describe(ct_dev_t *dev)
{
  return dev->describe;
}

/* ---- ops ------------------------------------------------------------------------------------- */

/* Sets the size of the OpenMP team.  oneDNN partitions the work for a fixed number of threads when
 * a primitive is created, so the primitive must run with the same number.  The team size is a
 * setting of the calling thread, and each call may come from a different thread. */
static void use_threads(const ct_dev_t *dev)
{
  cpu__team_use(dev->threads);
}

static int types_fit(const ct_op_desc_t *d, char why[128])
{
  ct_dtype_t y = d->y.dtype, x = ct_op_is(d->kind, CT_KIND_INDEX) ? y : d->x.dtype;
  int bf16 = cpu__kind_of(d->kind)->bf16, cast = d->kind == CT_OP_REORDER;
  if (x == CT_F32 && y == CT_F32) return 1;
  if (bf16 && x == CT_BF16 && y == CT_BF16) return 1;
  if (cast && (x == CT_F32 || x == CT_BF16) && (y == CT_F32 || y == CT_BF16)) return 1;
  if (x == CT_F16 || y == CT_F16)
    snprintf(why, 128, "the CPU backend does not compute in float16: use bf16, or a GPU");
  else
    snprintf(why, 128, "the CPU backend has no '%s' op from %s to %s", ct_op_name(d->kind),
             ct_dtype_name(x), ct_dtype_name(y));
  return 0;
}

static int op_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  if (!ct_op_check(d, why)) return 0;
  int int8 = ct_op_is_int8(d);
  const cpu__op_kind_t *kind = int8 ? cpu__int8_kind(d) : cpu__kind_of(d->kind);
  if (!kind) {
    snprintf(why, 128, "the CPU backend has no '%s' op%s", ct_op_name(d->kind),
             int8 ? " in int8" : "");
    return 0;
  }
  if (!int8 && !types_fit(d, why)) return 0;
  if (kind->plain && d->x.layout != CT_PLAIN) {
    snprintf(why, 128, "the CPU backend does this in the plain layout only");
    return 0;
  }
  return kind->supports ? kind->supports(dev, d, why) : 1;
}

static const cpu__op_kind_t *kind_for(ct_dev_t *dev, const ct_op_desc_t *d)
{
  const cpu__op_kind_t *kind = cpu__kind_of(d->kind);
  if (ct_op_is_int8(d)) return cpu__int8_kind(d);
  if (d->kind == CT_OP_SDPA && cpu__sdpa_amx_can(d)) return &cpu__sdpa_amx;
  if (d->y.dtype != CT_BF16 || !kind->stores || !kind->stores(dev, d)) return kind;
  return d->kind == CT_OP_CONV || d->kind == CT_OP_LINEAR ? &cpu__storage : &cpu__in_floats;
}

static ct_layout_t op_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  use_threads(dev);
  const cpu__op_kind_t *kind = kind_for(dev, d);
  if (!kind) return d->x.layout; /* prepare will report the reason */
  if (kind->wants) return kind->wants(dev, d);
  return kind->plain ? CT_PLAIN : d->x.layout;
}

static int op_prepare(ct_dev_t *dev, const ct_op_desc_t *d, const ct_op_t *like, ct_op_t **out,
                      ct_op_info_t *info)
{
  int rc = CT_OK;
  char why[128], text[160];
  *out = NULL;
  if (!op_supports(dev, d, why))
    CT_FAIL(CT_ERR_UNSUP, "%s: %s", ct_op_text(d, text, sizeof text), why);
  use_threads(dev);
  CT_TRY(cpu__op_new(kind_for(dev, d), dev, d, like, out, info));
out:
  return rc;
}

static int op_run(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *args)
{
  (void)q;
  int rc = ct_op_check_pass(&op->desc, args->pass);
  if (rc != CT_OK) return rc;
  use_threads(op->dev);
  return op->kind->run(op, args);
}

static int check_param(const ct_op_t *op, int param)
{
  if (param >= 0 && param < CT_OP_PARAMS && op->param_bytes[param]) return CT_OK;
  return ct_err_set(CT_ERR_ARG, __FILE__, __LINE__, "a %s op has no parameter %d",
                    ct_op_name(op->desc.kind), param);
}

static int op_pack(ct_queue_t *q, ct_op_t *op, int param, const float *plain, void *own)
{
  int rc = CT_OK;
  (void)q;
  CT_TRY(check_param(op, param));
  use_threads(op->dev);
  if (op->kind->pack)
    CT_TRY(op->kind->pack(op, param, plain, own));
  else
    memcpy(own, plain, op->param_bytes[param]);
out:
  return rc;
}

static int op_unpack(ct_queue_t *q, ct_op_t *op, int param, const void *own, float *plain)
{
  int rc = CT_OK;
  (void)q;
  CT_TRY(check_param(op, param));
  use_threads(op->dev);
  if (op->kind->unpack)
    CT_TRY(op->kind->unpack(op, param, own, plain));
  else
    memcpy(plain, own, op->param_bytes[param]);
out:
  return rc;
}

static const ct_op_ops_t op_ops = {
    .supports = op_supports,
    .wants = op_wants,
    .prepare = op_prepare,
    .run = op_run,
    .release = cpu__op_free,
    .pack = op_pack,
    .unpack = op_unpack,
    .tunes = ct_host_tunes,
    .choices = ct_host_choices,
    .adopt = ct_host_adopt,
};

const ct_backend_t ct_backend_cpu = {
    .size = sizeof(ct_backend_t),
    .name = "cpu",
    .host_memory = 1,
    .in_place = 1,
    .probe = cpu_probe,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .identify = ct_host_identify,
    .joules = ct_host_joules,
    .mem = &ct_host_mem,
    .queue = &ct_host_inline,
    .op = &op_ops,
};
