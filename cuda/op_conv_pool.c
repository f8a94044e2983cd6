/* Convolution, activation and pooling in slabs (backend/ct_slabs.h). */
#include <string.h>

#include "backend/ct_slabs.h"
#include "cuda/gpu.h"

typedef struct conv_pool {
  ct_op_t op;
  ct_slabs_t *slabs;
} conv_pool_t;

static int conv_pool_copy(ct_queue_t *q, void *dst, size_t dst_step, const void *src,
                          size_t src_step, size_t bytes, int64_t count)
{
  int rc = CT_OK;
  for (int64_t i = 0; i < count; i++) {
    char *to = (char *)dst + (size_t)i * dst_step;
    if (src)
      CT_TRY(gpu__mem_ops.copy(q, to, (const char *)src + (size_t)i * src_step, bytes));
    else
      CT_TRY(gpu__mem_ops.zero(q, to, bytes));
  }
out:
  return rc;
}

static int conv_pool_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  return ct_slabs_supports(&gpu__op_ops, dev, d, why);
}

static int conv_pool_prepare(ct_op_t *op, ct_op_info_t *info)
{
  int rc = CT_OK;
  conv_pool_t *k = (conv_pool_t *)op;
  CT_TRY(ct_slabs_make(&gpu__op_ops, conv_pool_copy, op->dev, &op->desc, NULL, &k->slabs, info));
  memcpy(op->turn, ct_slabs_conv(k->slabs)->turn, sizeof op->turn);
out:
  return rc;
}

static int conv_pool_enqueue(ct_queue_t *q, ct_op_t *op, const ct_op_args_t *a)
{
  return ct_slabs_run(((conv_pool_t *)op)->slabs, q, a);
}

static void conv_pool_clear(ct_op_t *op)
{
  ct_slabs_free(((conv_pool_t *)op)->slabs);
}

const gpu__kind_t gpu__kind_conv_pool = {.size = sizeof(conv_pool_t),
                                         .reduced = 1,
                                         .supports = conv_pool_supports,
                                         .nhwc = 1,
                                         .prepare = conv_pool_prepare,
                                         .enqueue = conv_pool_enqueue,
                                         .clear = conv_pool_clear};
