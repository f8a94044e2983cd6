/** \file library_handles.h  Library handles of a device. Module-internal. The emulated module has
 * only cuDNN's. */
#ifndef GPU_LIBRARY_HANDLES_H
#define GPU_LIBRARY_HANDLES_H
#include <cublasLt.h>
#include <cudnn.h>

#include "cuda/conv/dnn.h"
#include "cuda/gemm_conv.h"

/** Convolution plans, shared by ops with equal descriptions (conv_store.c). */
typedef struct gpu__conv_plans gpu__conv_plans_t;
/** Attention plans, shared in the same way (sdpa_dnn.c). */
typedef struct gpu__sdpa_plans gpu__sdpa_plans_t;

struct gpu__libraries {
  cudnnHandle_t dnn;             /**< NULL: a described device */
  gpu__dnn_desc_t properties;    /**< owned; of a described device, else NULL */
  gpu__conv_plans_t *conv_plans; /**< owned; NULL until the first convolution */
  gpu__sdpa_plans_t *sdpa_plans; /**< owned; NULL until the first attention */
  cublasLtHandle_t lt;           /**< NULL: a described device */
};

/** Frees all plans; \a p may be NULL. */
void gpu__conv_plans_free(gpu__conv_plans_t *p);
void gpu__sdpa_plans_free(gpu__sdpa_plans_t *p);

/** Local. Returns CT_OK for CUBLAS_STATUS_SUCCESS. Otherwise records an error with the call and
 * cuBLASLt's message: CT_ERR_UNSUP, CT_ERR_NOMEM or CT_ERR_DEVICE. */
int gpu__lt_check(cublasStatus_t status, const char *call, const char *file, int line);
#define GPU_LT_CHECK(call) gpu__lt_check((call), #call, __FILE__, __LINE__)

#endif
