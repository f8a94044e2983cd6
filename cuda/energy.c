/* Reads a GPU's energy counter through NVML, which is part of the driver. The library is loaded on
 * demand, so that machines without it work too. Its prototypes are declared here, since they have
 * never changed (nvml.h). */
#include <dlfcn.h>
#include <stdio.h>

#include "cuda/gpu.h"

typedef struct nvml {
  int (*start)(void);
  int (*find)(const char *bus, void **device);
  int (*energy)(void *device, unsigned long long *millijoule);
} nvml_t;

/* Loads and initializes NVML, which then stays loaded; 1 on success. */
static int energy_load(nvml_t *n)
{
  void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) return 0;
  *(void **)&n->start = dlsym(lib, "nvmlInit_v2");
  *(void **)&n->find = dlsym(lib, "nvmlDeviceGetHandleByPciBusId_v2");
  *(void **)&n->energy = dlsym(lib, "nvmlDeviceGetTotalEnergyConsumption"); /* supported from Volta
                                                                               on */
  return n->start && n->find && n->energy && n->start() == 0;
}

double gpu__joules(ct_dev_t *dev)
{
  static nvml_t nvml;
  static int there = -1;
  void *device;
  unsigned long long millijoule;
  if (there < 0) there = energy_load(&nvml);
  if (!there || nvml.find(dev->id.bus, &device) != 0) return -1;
  return nvml.energy(device, &millijoule) == 0 ? 1e-3 * (double)millijoule : -1;
}
