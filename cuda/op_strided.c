/* Copies by a map of indices. Backward is the copy by the inverse map, or sums over lists of places
 * in device memory. */
#include <string.h>

#include "cuda/gpu.h"
#include "cuda/kernels/strided.h"

typedef struct strided {
  ct_op_t op;
  ct_walk_t forward, backward;
  int direct;           /* 1: backward is a copy */
  ct_readers_t readers; /* its lists are in device memory, owned */
} strided_t;

static int strided_supports(ct_dev_t *dev, const ct_op_desc_t *d, char why[128])
{
  (void)dev;
  if (d->x.layout == CT_PLAIN || ct_strided_layout(d) >= 0) return 1;
  return gpu__cannot(why, "this map needs the plain layout");
}

/* Copies a list to new device memory. */
static int strided_upload(ct_dev_t *dev, const int64_t *list, int64_t n, int64_t **out)
{
  int rc = CT_OK;
  void *memory;
  CT_TRY(gpu__mem_ops.alloc(dev, CT_MEM_DEVICE, (size_t)(n + 1) * sizeof *list, &memory));
  *out = memory;
  GPU_TRY(cudaMemcpyAsync(memory, list, (size_t)n * sizeof *list, cudaMemcpyDefault, 0));
  GPU_TRY(cudaStreamSynchronize(0));
out:
  return rc;
}

static int strided_lists(strided_t *k, const ct_map_t *map)
{
  int rc = CT_OK;
  ct_readers_t r = {0};
  CT_TRY(ct_readers_make(map, &r));
  k->readers = r;
  k->readers.begin = k->readers.at = NULL;
  if (k->op.dev->card) goto out; /* there is no device */
  CT_TRY(strided_upload(k->op.dev, r.begin, r.begins, &k->readers.begin));
  CT_TRY(strided_upload(k->op.dev, r.at, r.entries, &k->readers.at));
out:
  ct_readers_clear(&r);
  return rc;
}

static int strided_prepare(ct_op_t *op, ct_op_info_t *info)
{
  strided_t *k = (strided_t *)op;
  ct_map_t map, back;
  if (!ct_strided_map(&op->desc, &map)) return CT_ERR_UNSUP; /* supports() has refused it */
  info->y_layout = (ct_layout_t)ct_strided_layout(&op->desc);
  ct_map_walk(&map, &k->forward);
  if (!(op->desc.passes & CT_BWD_DATA)) return CT_OK;
  k->direct = ct_map_inverse(&map, &back);
  if (!k->direct) return strided_lists(k, &map);
  ct_map_walk(&back, &k->backward);
  return CT_OK;
}

static int strided_run(ct_op_t *op, const ct_op_args_t *a, const gpu__step_params_t *at,
                       cudaStream_t s)
{
  int rc = CT_OK;
  const strided_t *k = (const strided_t *)op;
  ct_dtype_t t = op->desc.x.dtype;
  (void)at;
  if (a->pass & CT_FWD)
    GPU_TRY(gpu__strided(t, &k->forward, a->x, op->desc.u.strided.value, a->y, s));
  if (a->pass & CT_BWD_DATA && k->direct)
    GPU_TRY(gpu__strided(t, &k->backward, a->dy, 0, a->dx, s));
  if (a->pass & CT_BWD_DATA && !k->direct)
    GPU_TRY(gpu__strided_sum(t, &k->readers, a->dy, a->dx, s));
out:
  return rc;
}

static void strided_clear(ct_op_t *op)
{
  strided_t *k = (strided_t *)op;
  const ct_mem_ops_t *mem = &gpu__mem_ops;
  mem->free(op->dev, CT_MEM_DEVICE, k->readers.begin);
  mem->free(op->dev, CT_MEM_DEVICE, k->readers.at);
}

const gpu__kind_t gpu__kind_strided = {.size = sizeof(strided_t),
                                       .reduced = 1,
                                       .supports = strided_supports,
                                       .prepare = strided_prepare,
                                       .run = strided_run,
                                       .clear = strided_clear};
