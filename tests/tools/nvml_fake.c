/* Stands in for libnvidia-ml.so.1: each look at a GPU's energy finds 100 J more. */
int nvmlInit_v2(void);
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device);
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule);

int nvmlInit_v2(void)
{
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device)
{
  static int any;
  *device = &any;
  return bus[0] == '\0';
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoule)
{
  static unsigned long long sum = 5000000;
  (void)device;
  *millijoule = sum += 100000;
  return 0;
}
