/* Library handles of the emulated module: the plain loops need none. */
#include <stdio.h>

#include "base/ct_err.h"
#include "cuda/gemm_conv.h"

int gpu__libraries_open(ct_dev_t *dev, gpu__libraries_t **out)
{
  (void)dev;
  *out = NULL;
  return CT_OK;
}

void gpu__libraries_close(gpu__libraries_t *p)
{
  (void)p;
}

const char *gpu__libraries_version(char *buf, size_t cap)
{
  snprintf(buf, cap, "plain loops");
  return buf;
}
