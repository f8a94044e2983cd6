/** \file random.h  Random numbers in kernels: those of base/ct_rng.h.  Module-internal. */
#ifndef GPU_RANDOM_H
#define GPU_RANDOM_H
#include "base/ct_rng.h"
#include "cuda/kernels/kernel.h"

/** As ct_rng_block(): Philox4x32-10 (Salmon et al., SC11).  Random123's own header is of no use
 * here: its C++ part wants exceptions of the host. */
CT_D void gpu_random_block(uint64_t seed, ct_rng_use_t use, uint32_t sub, uint64_t index,
                           uint32_t out[4])
{
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32), sub, (uint32_t)use};
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xd2511f53u * c[0], b = (uint64_t)0xcd9e8d57u * c[2];
    c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key[0];
    c[1] = (uint32_t)b;
    c[2] = (uint32_t)(a >> 32) ^ c[3] ^ key[1];
    c[3] = (uint32_t)a;
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  for (int i = 0; i < 4; i++)
    out[i] = c[i];
}

#endif
