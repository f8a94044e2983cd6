/* What the CPU backend needs of glue.h in a build without oneDNN: descriptors of memory formats,
 * and reorders between them.  No primitive exists, so no algorithm of oneDNN is chosen, bf16 is
 * computed in float32, and int8 is refused. */
#include "cpu/onednn/glue.h"
#include "base/ct_err.h"
#include "base/ct_hash.h"
#include "base/ct_int.h"
#include "base/ct_mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DIMS = 6 };

/* The offset of an element is the sum over its dims of i / block * stride + i % block * inner. */
typedef struct axis {
  int64_t dim, block, stride, inner;
} axis_t;

struct cpu__md {
  ct_dtype_t dtype;
  int ndim;
  int64_t count; /* elements with padding */
  axis_t axis[MAX_DIMS];
};

/* A reorder, built: the offset of each index of each dim in both formats. */
struct cpu__prim {
  cpu__md_t from, to;
  int64_t *offset; /* owned; [dim][2][index] one after the other */
  int64_t begin[MAX_DIMS];
};

/* ---- the processor --------------------------------------------------------------------------- */

int cpu__dnnl_open(cpu__dnnl_t **out)
{
  *out = NULL;
  return CT_OK;
}

void cpu__dnnl_close(cpu__dnnl_t *dnnl)
{
  (void)dnnl;
}

const char *cpu__dnnl_version(char *buf, size_t cap)
{
  snprintf(buf, cap, "no oneDNN");
  return buf;
}

int cpu__dnnl_major(void)
{
  return 0;
}

/* The caller checks what the processor has; here only the variable counts. */
static int is_allowed(const char *const below[])
{
  const char *most = getenv("ONEDNN_MAX_CPU_ISA");
  for (int i = 0; most && below[i]; i++)
    if (strcmp(most, below[i]) == 0) return 0;
  return 1;
}

int cpu__dnnl_has_avx512(void)
{
  static const char *const below[] = {"SSE41", "AVX", "AVX2", "AVX2_VNNI", NULL};
  return is_allowed(below);
}

int cpu__dnnl_has_avx2(void)
{
  static const char *const below[] = {"SSE41", "AVX", NULL};
  return is_allowed(below);
}

int cpu__dnnl_has_bf16(void)
{
  return 0;
}

int cpu__dnnl_has_amx(void)
{
  return 0;
}

int cpu__dnnl_has_int8(void)
{
  return 0;
}

/* ---- memory descriptors ---------------------------------------------------------------------- */

/* Sets the sizes of a format's blocks in dims 0 and 1; 1: not blocked. In a block of both, dim 0 is
 * innermost. */
static void blocks_of(int format, int64_t *first, int64_t *second)
{
  *first = format == CPU__O8 || format == CPU__I8O8                                 ? 8
           : format == CPU__O16 || format == CPU__I16O16 || format == CPU__PANELS16 ? 16
                                                                                    : 1;
  *second = format == CT_C8 || format == CPU__I8O8                                 ? 8
            : format == CT_C16 || format == CPU__I16O16 || format == CPU__PANELS16 ? 16
                                                                                   : 1;
}

int cpu__md_typed(ct_dtype_t dtype, int ndim, const int64_t *dims, int format, cpu__md_t **out)
{
  cpu__md_t *md = *out = ct_mem_alloc(sizeof *md, "memory descriptor");
  int last = format == CT_NHWC;
  if (!md) return CT_ERR_NOMEM;
  memset(md, 0, sizeof *md);
  md->dtype = dtype;
  md->ndim = ndim;
  for (int i = 0; i < ndim; i++)
    md->axis[i] = (axis_t){.dim = dims[i], .block = 1};
  if (ndim > 1) blocks_of(format, &md->axis[0].block, &md->axis[1].block);
  md->count = md->axis[0].block * (ndim > 1 ? md->axis[1].block : 1);
  if (ndim > 1) md->axis[1].inner = md->axis[0].block;
  if (ndim > 0) md->axis[0].inner = 1;
  if (last) {
    md->axis[1].stride = 1;
    md->count = dims[1];
  }
  for (int i = ndim - 1; i >= 0; i--) {
    axis_t *a = &md->axis[i];
    if (last && i == 1) continue;
    a->stride = md->count;
    md->count *= ct_div_up(a->dim, a->block);
  }
  return CT_OK;
}

int cpu__md_new(int ndim, const int64_t *dims, int format, cpu__md_t **out)
{
  return cpu__md_typed(CT_F32, ndim, dims, format, out);
}

int cpu__md_copy(const cpu__md_t *md, cpu__md_t **out)
{
  *out = ct_mem_alloc(sizeof **out, "memory descriptor");
  if (!*out) return CT_ERR_NOMEM;
  **out = *md;
  return CT_OK;
}

int cpu__md_plain(const cpu__md_t *md, cpu__md_t **out)
{
  int64_t dims[MAX_DIMS];
  for (int i = 0; i < md->ndim; i++)
    dims[i] = md->axis[i].dim;
  return cpu__md_new(md->ndim, dims, CT_PLAIN, out);
}

void cpu__md_free(cpu__md_t *md)
{
  ct_mem_free(md);
}

/* The number of elements with padding differs between formats that differ in padding alone. */
int cpu__md_same(const cpu__md_t *a, const cpu__md_t *b)
{
  int same = a->dtype == b->dtype && a->ndim == b->ndim && a->count == b->count;
  for (int i = 0; i < a->ndim && same; i++) {
    const axis_t *p = &a->axis[i], *q = &b->axis[i];
    same = p->dim == q->dim && p->block == q->block && p->stride == q->stride &&
           (p->block == 1 || p->inner == q->inner);
  }
  return same;
}

size_t cpu__md_bytes(const cpu__md_t *md)
{
  return (size_t)md->count * ct_dtype_size(md->dtype);
}

uint64_t cpu__md_hash(const cpu__md_t *md)
{
  int64_t numbers[4 * MAX_DIMS];
  int n = 0;
  for (int i = 0; i < md->ndim; i++) {
    const axis_t *a = &md->axis[i];
    const int64_t of_axis[] = {a->dim, a->block, a->stride, a->block > 1 ? a->inner : 0};
    memcpy(numbers + n, of_axis, sizeof of_axis);
    n += 4;
  }
  return ct_hash(numbers, (size_t)n * sizeof *numbers, 0);
}

/* ---- primitives ------------------------------------------------------------------------------ */

const int64_t *cpu__outputs_of(const ct_op_desc_t *d)
{
  return &d->y.dim[d->kind == CT_OP_CONV ? 1 : d->y.ndim - 1];
}

int cpu__prim_layer(cpu__dnnl_t *dnnl, const cpu__prim_spec_t *p, cpu__prim_t **out)
{
  (void)dnnl;
  (void)p;
  *out = NULL;
  return CT_OK;
}

int cpu__prim_int8(cpu__dnnl_t *dnnl, const cpu__int8_t *p, cpu__prim_t **out)
{
  (void)dnnl;
  (void)p;
  *out = NULL;
  return CT_OK;
}

float cpu__int8_bias(float bias, float scale)
{
  (void)scale;
  return bias;
}

static int64_t offset_of(const axis_t *a, int64_t i)
{
  return i / a->block * a->stride + i % a->block * a->inner;
}

int cpu__prim_reorder(cpu__dnnl_t *dnnl, const cpu__md_t *from, const cpu__md_t *to,
                      cpu__prim_t **out)
{
  int rc = CT_OK;
  int64_t n = 0;
  cpu__prim_t *p = NULL;
  (void)dnnl;
  *out = NULL;
  if (from->dtype != to->dtype || (to->dtype != CT_F32 && to->dtype != CT_BF16))
    CT_FAIL(CT_ERR_UNSUP, "no reorder from %s to %s without oneDNN", ct_dtype_name(from->dtype),
            ct_dtype_name(to->dtype));
  p = *out = ct_mem_alloc(sizeof *p, "reorder");
  if (!p) return CT_ERR_NOMEM;
  *p = (cpu__prim_t){.from = *from, .to = *to};
  for (int k = 0; k < to->ndim; k++) {
    p->begin[k] = n;
    n += 2 * to->axis[k].dim;
  }
  p->offset = ct_mem_array(n, sizeof *p->offset, "reorder");
  if (!p->offset) {
    rc = CT_ERR_NOMEM;
    goto out;
  }
  for (int k = 0; k < to->ndim; k++)
    for (int64_t i = 0, dim = to->axis[k].dim; i < dim; i++) {
      p->offset[p->begin[k] + i] = offset_of(&from->axis[k], i);
      p->offset[p->begin[k] + dim + i] = offset_of(&to->axis[k], i);
    }
out:
  if (rc != CT_OK) {
    cpu__prim_free(p);
    *out = NULL;
  }
  return rc;
}

int cpu__prim_build(cpu__dnnl_t *dnnl, cpu__prim_t *prim)
{
  (void)dnnl;
  (void)prim;
  return CT_OK;
}

void cpu__prim_free(cpu__prim_t *prim)
{
  if (prim) ct_mem_free(prim->offset);
  ct_mem_free(prim);
}

const cpu__md_t *cpu__prim_md(const cpu__prim_t *prim, cpu__role_t role)
{
  return role == CPU__X ? &prim->from : role == CPU__Y ? &prim->to : NULL;
}

size_t cpu__prim_scratch(const cpu__prim_t *prim)
{
  (void)prim;
  return 0;
}

const char *cpu__prim_name(const cpu__prim_t *prim)
{
  (void)prim;
  return "";
}

static int has_padding(const cpu__md_t *md)
{
  int padded = 0;
  for (int k = 0; k < md->ndim; k++)
    padded |= md->axis[k].dim % md->axis[k].block != 0;
  return padded;
}

/* Returns the dim of the innermost loop: a row of pixels, or the channels if rows are short. */
static int inner_of(const cpu__md_t *md)
{
  enum { SHORT = 8 };
  int last = md->ndim - 1;
  return last > 1 && md->axis[last].dim < SHORT ? 1 : last;
}

/* Copies the elements of one index of the outermost dim, of several. */
static void reorder_slab(const cpu__prim_t *p, int64_t first, const char *from, char *to)
{
  int64_t size = (int64_t)ct_dtype_size(p->to.dtype);
  const int64_t *offset = p->offset;
  int n = p->to.ndim, inner = inner_of(&p->to);
  int64_t at[MAX_DIMS] = {first}, dim[MAX_DIMS] = {0}, rows = 1;
  for (int k = 0; k < n; k++) {
    dim[k] = p->to.axis[k].dim;
    if (k > 0 && k != inner) rows *= dim[k];
  }
  const int64_t *a = offset + p->begin[inner], *b = a + dim[inner];
  for (int64_t row = 0; row < rows; row++) {
    const char *x = from;
    char *y = to;
    for (int k = 0; k < n; k++) {
      x += k == inner ? 0 : size * offset[p->begin[k] + at[k]];
      y += k == inner ? 0 : size * offset[p->begin[k] + dim[k] + at[k]];
    }
    for (int64_t i = 0; i < dim[inner] && size == sizeof(float); i++)
      ((float *)(void *)y)[b[i]] = ((const float *)(const void *)x)[a[i]];
    for (int64_t i = 0; i < dim[inner] && size == sizeof(uint16_t); i++)
      ((uint16_t *)(void *)y)[b[i]] = ((const uint16_t *)(const void *)x)[a[i]];
    for (int k = n - 1; k > 0; k--) {
      if (k == inner) continue;
      if (++at[k] < dim[k]) break;
      at[k] = 0;
    }
  }
}

int cpu__prim_run(cpu__dnnl_t *dnnl, cpu__prim_t *prim, void *const at[CPU__ROLES])
{
  const char *from = at[CPU__X];
  char *to = at[CPU__Y];
  int64_t slabs = prim->to.axis[0].dim;
  (void)dnnl;
  if (has_padding(&prim->to)) memset(to, 0, cpu__md_bytes(&prim->to));
  if (prim->to.ndim == 1) {
    memcpy(to, from, cpu__md_bytes(&prim->to));
    return CT_OK;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < slabs; i++)
    reorder_slab(prim, i, from, to);
  return CT_OK;
}
