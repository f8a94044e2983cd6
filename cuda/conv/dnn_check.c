/* cuDNN's errors. */
#include "base/ct_err.h"
#include "cuda/conv/dnn.h"

int gpu__dnn_check(cudnnStatus_t status, const char *what, const char *file, int line)
{
  char detail[384] = "";
  int code = CT_ERR_DEVICE;
  if (status == CUDNN_STATUS_SUCCESS) return CT_OK;
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED) code = CT_ERR_UNSUP;
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    code = CT_ERR_NOMEM;
  cudnnGetLastErrorString(detail, sizeof detail);
  for (char *c = detail; *c; c++)
    if (*c == '\n') *c = ' ';
  return ct_err_set(code, file, line, "cuDNN, %s: %s%s%s", what, cudnnGetErrorString(status),
                    *detail ? ": " : "", detail);
}
