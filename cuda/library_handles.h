/** \file library_handles.h  The libraries' handles of a device.  Module-internal; not part of the
 * emulated module. */
#ifndef GPU_PRODUCTS_H
#define GPU_PRODUCTS_H
#include <cublasLt.h>
#include <cudnn.h>

#include "cuda/gemm_conv.h"

/** Plans of convolutions that are kept for other ops of the same description (conv_plans.c). */
typedef struct gpu__conv_plans gpu__conv_plans_t;

struct gpu__products {
  cudnnHandle_t dnn;
  gpu__conv_plans_t *conv_plans; /**< owned; NULL until the first convolution */
  cublasLtHandle_t lt;
};

/** Frees what the table holds; NULL is fine. */
void gpu__conv_plans_free(gpu__conv_plans_t *p);

/** Local.  CT_OK for CUBLAS_STATUS_SUCCESS; else records what failed with cuBLASLt's own text:
 * CT_ERR_UNSUP, CT_ERR_NOMEM or CT_ERR_DEVICE. */
int gpu__lt_check(cublasStatus_t status, const char *call, const char *file, int line);
#define GPU_LT_CHECK(call) gpu__lt_check((call), #call, __FILE__, __LINE__)

#endif
