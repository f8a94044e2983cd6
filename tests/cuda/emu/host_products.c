/* Library handles of the emulated module. The plain loops need none; the fake of cuDNN's RNN
 * functions (fake_rnn.c) has one. */
#include <stdio.h>
#include <stdlib.h>

#include "base/ct_err.h"
#include "cuda/library_handles.h"

int gpu__libraries_open(ct_dev_t *dev, gpu__libraries_t **out)
{
  (void)dev;
  gpu__libraries_t *p = calloc(1, sizeof *p); /* not counted, as a library's own memory */
  *out = p;
  return p && cudnnCreate(&p->dnn) == CUDNN_STATUS_SUCCESS ? CT_OK : CT_ERR_NOMEM;
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
