/* Library handles of the emulated module. The plain loops need none; the fake of cuDNN's RNN
 * functions (fake_rnn.c) has one. Opening may fail. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/ct_err.h"
#include "cuda/gpu.h"
#include "cuda/library_handles.h"
#include "tests/cuda/emu/fake_cuda.h"
#include "tests/cuda/emu/host_tune.h"

int gpu__libraries_open(ct_dev_t *dev, gpu__libraries_t **out)
{
  (void)dev;
  gpu__libraries_t *p = NULL;
  if (fake_cuda_library("handles") == cudaSuccess)
    p = calloc(1, sizeof *p); /* not counted, as a library's own memory */
  *out = p;
  if (p && cudnnCreate(&p->dnn) == CUDNN_STATUS_SUCCESS) return CT_OK;
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "no memory for handles of the libraries");
}

void gpu__libraries_close(gpu__libraries_t *p)
{
  if (!p) return;
  cudnnDestroy(p->dnn);
  free(p);
}

const char *gpu__libraries_version(char *buf, size_t cap)
{
  snprintf(buf, cap, "plain loops");
  return buf;
}

int emu__tune(ct_dev_t *dev, const char *key)
{
  char value[48];
  if (!dev->autotune || gpu__choices_find(dev->choices, key)) return CT_OK;
  snprintf(value, sizeof value, "chosen by process %ld", (long)getpid());
  return gpu__choices_add(dev->choices, key, value, 1);
}
