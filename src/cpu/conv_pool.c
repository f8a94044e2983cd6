/* Convolution, activation and pooling in slabs (backend/ct_slabs.h). */
#include "backend/ct_slabs.h"

#include <string.h>

#include "base/ct_err.h"
#include "cpu/ct_cpu.h"
#include "cpu/kern/op.h"

typedef struct conv_pool {
  ct_op_t op;
  ct_slabs_t *slabs;
} conv_pool_t;

/* Copies in parallel. */
static int conv_pool_copy(ct_queue_t *q, void *dst, size_t dst_step, const void *src,
                          size_t src_step, size_t bytes, int64_t count)
{
  const size_t most = (size_t)1 << 18;
  int64_t cuts = (int64_t)((bytes + most - 1) / most);
  (void)q;
#pragma omp parallel for if (cuts * count > 1)
  for (int64_t i = 0; i < cuts * count; i++) {
    size_t piece = (size_t)(i / cuts), from = (size_t)(i % cuts) * most;
    size_t n = bytes - from < most ? bytes - from : most;
    char *to = (char *)dst + piece * dst_step + from;
    if (src)
      memcpy(to, (const char *)src + piece * src_step + from, n);
    else
      memset(to, 0, n);
  }
  return CT_OK;
}

static int conv_pool_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  return ct_slabs_supports(ct_backend_cpu.op, dev, d, why);
}

static ct_layout_t conv_pool_wants(ct_dev_t *dev, const ct_op_desc_t *d)
{
  return ct_slabs_wants(ct_backend_cpu.op, dev, d);
}

static int conv_pool_prepare(ct_op_t *op, const ct_op_t *like, ct_op_info_t *info)
{
  const ct_op_t *conv = like ? ct_slabs_conv(((const conv_pool_t *)like)->slabs) : NULL;
  return ct_slabs_make(ct_backend_cpu.op, conv_pool_copy, op->dev, &op->desc, conv,
                       &((conv_pool_t *)op)->slabs, info);
}

static int conv_pool_run(ct_op_t *op, const ct_op_args_t *a)
{
  return ct_slabs_run(((conv_pool_t *)op)->slabs, NULL, a);
}

static void conv_pool_clear(ct_op_t *op)
{
  ct_slabs_free(((conv_pool_t *)op)->slabs);
}

static int conv_pool_pack(ct_op_t *op, int param, const float *plain, void *own)
{
  ct_op_t *conv = ct_slabs_conv(((conv_pool_t *)op)->slabs);
  return ct_backend_cpu.op->pack(NULL, conv, param, plain, own);
}

static int conv_pool_unpack(ct_op_t *op, int param, const void *own, float *plain)
{
  ct_op_t *conv = ct_slabs_conv(((conv_pool_t *)op)->slabs);
  return ct_backend_cpu.op->unpack(NULL, conv, param, own, plain);
}

const cpu__op_kind_t cpu__conv_pool = {
    .size = sizeof(conv_pool_t),
    .bf16 = 1,
    .supports = conv_pool_supports,
    .wants = conv_pool_wants,
    .prepare = conv_pool_prepare,
    .run = conv_pool_run,
    .clear = conv_pool_clear,
    .pack = conv_pool_pack,
    .unpack = conv_pool_unpack,
};
