/* GPU memory, and page-locked host memory for fast copies. */
#include <string.h>

#include "base/ct_mem.h"
#include "cuda/gpu.h"

static int no_memory(ct_mem_kind_t kind, size_t bytes)
{
  size_t left = 0, all = 0;
  if (kind == CT_MEM_STAGING)
    return ct_err_set(
        CT_ERR_NOMEM, __FILE__, __LINE__,
        "cannot allocate %.1f MB of page-locked host memory (limits of the job, ulimit -l)",
        (double)bytes / 1e6);
  (void)cudaGetLastError();
  (void)cudaMemGetInfo(&left, &all);
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__,
                    "out of GPU memory: %.1f MB are needed, %.1f MB of %.1f MB are free",
                    (double)bytes / 1e6, (double)left / 1e6, (double)all / 1e6);
}

static int mem_alloc(ct_dev_t *dev, ct_mem_kind_t kind, size_t bytes, void **out)
{
  int rc = CT_OK;
  cudaError_t e;
  (void)dev;
  *out = NULL;
  if (bytes == 0) bytes = 1;
  e = kind == CT_MEM_DEVICE ? cudaMalloc(out, bytes)
                            : cudaHostAlloc(out, bytes, cudaHostAllocPortable);
  if (e == cudaErrorMemoryAllocation) return no_memory(kind, bytes);
  GPU_TRY(e);
  if (kind == CT_MEM_STAGING) {
    memset(*out, 0, bytes);
  } else {
    GPU_TRY(cudaMemset(*out, 0, bytes));
    GPU_TRY(cudaStreamSynchronize(0)); /* our streams do not synchronize with the default stream */
  }
out:
  return rc;
}

/* Frees memory. All graphs are dropped first: one of them may use this memory, and a rank whose
 * step failed may launch that graph once more. */
static void mem_free(ct_dev_t *dev, ct_mem_kind_t kind, void *p)
{
  if (!p) return;
  if (kind == CT_MEM_DEVICE) gpu__drop_graphs(dev);
  (void)(kind == CT_MEM_DEVICE ? cudaFree(p) : cudaFreeHost(p));
}

/* Pins memory. Pages of a file that several processes map can be pinned by each of them. */
static int mem_pin(ct_dev_t *dev, void *p, size_t bytes)
{
  (void)dev;
  return bytes ? GPU_CHECK(cudaHostRegister(p, bytes, cudaHostRegisterPortable)) : CT_OK;
}

static void mem_unpin(ct_dev_t *dev, void *p)
{
  (void)dev;
  if (cudaHostUnregister(p) != cudaSuccess) (void)cudaGetLastError(); /* it was not pinned */
}

static int mem_copy(ct_queue_t *q, void *dst, const void *src, size_t bytes)
{
  if (bytes == 0) return CT_OK;
  if (q->noting) return gpu__note_copy(q, dst, src, bytes);
  return GPU_CHECK(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, q->stream));
}

static int mem_zero(ct_queue_t *q, void *dst, size_t bytes)
{
  if (bytes == 0) return CT_OK;
  if (q->noting) return gpu__note_copy(q, dst, NULL, bytes);
  return GPU_CHECK(cudaMemsetAsync(dst, 0, bytes, q->stream));
}

static size_t mem_avail(ct_dev_t *dev)
{
  size_t left = 0, all = 0;
  if (dev->card) return dev->card->memory;
  return cudaMemGetInfo(&left, &all) == cudaSuccess ? left : SIZE_MAX;
}

static size_t mem_used(ct_dev_t *dev)
{
  size_t left = 0, all = 0;
  if (dev->card || cudaMemGetInfo(&left, &all) != cudaSuccess) return 0;
  return all - left;
}

const ct_mem_ops_t gpu__mem_ops = {.alloc = mem_alloc,
                                   .free = mem_free,
                                   .pin = mem_pin,
                                   .unpin = mem_unpin,
                                   .copy = mem_copy,
                                   .zero = mem_zero,
                                   .avail = mem_avail,
                                   .used = mem_used};
