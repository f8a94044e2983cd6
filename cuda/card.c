/* GPU models that plans can be made for without the GPU. The figures are those that the driver of
 * each model reports. */
#include "cuda/card.h"
#include "base/ct_err.h"
#include <string.h>

static const gpu__card_t cards[] = {
    {"a100", "NVIDIA A100-SXM4-80GB", 800, 108, 85029158912, 1410000, 1593000, 41943040, 166912},
    {"h100", "NVIDIA H100 80GB HBM3", 900, 132, 85029158912, 1980000, 2619000, 52428800, 232448},
    {"h200", "NVIDIA H200", 900, 132, 150121545728, 1980000, 3201000, 62914560, 232448},
    {"b200", "NVIDIA B200", 1000, 148, 191510347776, 1965000, 3996000, 132644864, 232448},
};
enum { CARDS = sizeof cards / sizeof *cards };

int gpu__card_find(const char *name, const gpu__card_t **out)
{
  for (int i = 0; i < CARDS; i++) {
    *out = &cards[i];
    if (strcmp(name, cards[i].name) == 0) return CT_OK;
  }
  return ct_err_set(CT_ERR_USAGE, __FILE__, __LINE__,
                    "no GPU model '%s' is described; there are a100, h100, h200 and b200", name);
}

int gpu__card_json(const gpu__card_t *c, ct_str_t *out)
{
  return ct_str_add(
      out,
      "{\"deviceVer\": %d, \"driverVer\": 13000, \"cudaDeviceId\": 0, \"totalGlobalMem\": %zu, "
      "\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], "
      "\"regsPerBlock\": 65536, \"multiProcessorCount\": %d, \"smClockRateKHz\": %d, "
      "\"memClockRateKHz\": %d, \"l2CacheSize\": %d, \"warpSize\": 32, "
      "\"maxSharedMemoryPerBlock\": 49152, \"maxSharedMemoryPerBlockOptin\": %d, "
      "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, \"pciDeviceId\": 0, "
      "\"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, "
      "\"isTccDriver\": 0, \"supportCoopLaunch\": 1, \"deviceName\": \"%s\"}",
      c->version, c->memory, c->sms, c->sm_khz, c->memory_khz, c->l2_bytes, c->shared_bytes,
      c->model);
}
