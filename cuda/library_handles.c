/* Opens and closes the cuDNN and cuBLASLt handles. */
#include "cuda/library_handles.h"
#include "base/ct_err.h"
#include "base/ct_mem.h"
#include "cuda/gpu.h"
#include <stdio.h>

int gpu__lt_check(cublasStatus_t status, const char *call, const char *file, int line)
{
  int code = status == CUBLAS_STATUS_ALLOC_FAILED    ? CT_ERR_NOMEM
             : status == CUBLAS_STATUS_NOT_SUPPORTED ? CT_ERR_UNSUP
                                                     : CT_ERR_DEVICE;
  if (status == CUBLAS_STATUS_SUCCESS) return CT_OK;
  return ct_err_set(code, file, line, "%s: %s: %s", call, cublasLtGetStatusName(status),
                    cublasLtGetStatusString(status));
}

/* cuDNN makes plans for a described device; cuBLASLt needs a real one. */
static int describe_to_dnn(const gpu__card_t *card, gpu__libraries_t *p)
{
  int rc = CT_OK;
  ct_str_t json = {0};
  CT_TRY(gpu__card_json(card, &json));
  CT_TRY(gpu__dnn_properties(json.data, &p->properties));
out:
  ct_str_clear(&json);
  return rc;
}

int gpu__libraries_open(ct_dev_t *dev, gpu__libraries_t **out)
{
  int rc = CT_OK;
  gpu__libraries_t *p = ct_mem_alloc(sizeof *p, "handles of cuDNN and cuBLASLt");
  if (!p) return CT_ERR_NOMEM;
  if (dev->card) {
    CT_TRY(describe_to_dnn(dev->card, p));
  } else { /* the handles belong to the current device */
    CT_TRY(GPU_DNN_CHECK(cudnnCreate(&p->dnn), "handle"));
    CT_TRY(GPU_LT_CHECK(cublasLtCreate(&p->lt)));
  }
  *out = p;
  p = NULL;
out:
  gpu__libraries_close(p);
  return rc;
}

void gpu__libraries_close(gpu__libraries_t *p)
{
  if (!p) return;
  gpu__conv_plans_free(p->conv_plans);
  gpu__sdpa_plans_free(p->sdpa_plans);
  gpu__dnn_free(p->properties);
  if (p->dnn) cudnnDestroy(p->dnn);
  if (p->lt) cublasLtDestroy(p->lt);
  ct_mem_free(p);
}

const char *gpu__libraries_version(char *buf, size_t cap)
{
  int dnn = (int)cudnnGetVersion(), lt = (int)cublasLtGetVersion();
  snprintf(buf, cap, "cuDNN %d.%d.%d, cuBLASLt %d.%d.%d", dnn / 10000, dnn / 100 % 100, dnn % 100,
           lt / 10000, lt / 100 % 100, lt % 100);
  return buf;
}
