/* Library handles of the emulated module: the plain loops need none. */
#include <stdio.h>

#include "base/ct_err.h"
#include "cuda/gemm_conv.h"

int gpu__products_open(ct_dev_t *dev, gpu__products_t **out)
{
  (void)dev;
  *out = NULL;
  return CT_OK;
}

void gpu__products_close(gpu__products_t *p)
{
  (void)p;
}

const char *gpu__products_version(char *buf, size_t cap)
{
  snprintf(buf, cap, "plain loops");
  return buf;
}
