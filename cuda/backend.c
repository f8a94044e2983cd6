/* The CUDA device: opening, identity, callbacks during waits. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/ct_mem.h"
#include "base/ct_text.h"
#include "cuda/gpu.h"

int gpu__check(cudaError_t e, const char *call, const char *file, int line)
{
  if (e == cudaSuccess) return CT_OK;
  (void)cudaGetLastError(); /* clears errors that are not sticky, so that they are reported once */
  return ct_err_set(e == cudaErrorMemoryAllocation ? CT_ERR_NOMEM : CT_ERR_DEVICE, file, line,
                    "CUDA: %s: %s (%s)", call, cudaGetErrorString(e), cudaGetErrorName(e));
}

static int backend_probe(char why[128])
{
  int n = 0;
  cudaError_t e = cudaGetDeviceCount(&n);
  why[0] = '\0';
  if (e == cudaSuccess && n > 0) return n;
  (void)cudaGetLastError();
  if (e == cudaErrorInsufficientDriver)
    snprintf(why, 128, "there is no NVIDIA driver, or one older than CUDA %d.%d needs",
             CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  else if (e == cudaSuccess || e == cudaErrorNoDevice)
    snprintf(why, 128, "no GPU is visible to this process");
  else
    snprintf(why, 128, "%s", cudaGetErrorString(e));
  return 0;
}

/* ---- hardware identity ---- */

static void uuid_text(const cudaUUID_t *u, char *buf, size_t cap)
{
  size_t len = (size_t)snprintf(buf, cap, "GPU-");
  for (int i = 0; i < 16 && len + 4 < cap; i++) {
    const char *dash = i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    len += (size_t)snprintf(buf + len, cap - len, "%s%02x", dash, (unsigned char)u->bytes[i]);
  }
}

/* Returns the NUMA node of a PCI device according to the kernel; -1: unknown. */
static int numa_node(const char *bus)
{
  char path[96], low[32];
  int node = -1;
  size_t n = 0;
  for (; bus[n] && n + 1 < sizeof low; n++)
    low[n] = (char)(bus[n] >= 'A' && bus[n] <= 'F' ? bus[n] + 32 : bus[n]);
  low[n] = '\0';
  snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", low);
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  if (fscanf(f, "%d", &node) != 1) node = -1;
  fclose(f);
  return node;
}

static int find_identity(ct_dev_t *dev)
{
  int rc = CT_OK;
  struct cudaDeviceProp p;
  char version[64];
  GPU_TRY(cudaGetDeviceProperties(&p, dev->index));
  GPU_TRY(cudaDeviceGetPCIBusId(dev->id.bus, sizeof dev->id.bus, dev->index));
  uuid_text(&p.uuid, dev->id.uuid, sizeof dev->id.uuid);
  snprintf(dev->id.name, sizeof dev->id.name, "%.63s", p.name);
  dev->id.numa = numa_node(dev->id.bus);
  dev->sm = 10 * p.major + p.minor;
  dev->sms = p.multiProcessorCount;
  if (dev->workspace == 0) dev->workspace = gpu__workspace_limit(p.totalGlobalMem);
  snprintf(dev->describe, sizeof dev->describe, "%s (%d.%d, %.0f GB), CUDA %d.%d, %s%s",
           dev->id.name, p.major, p.minor, (double)p.totalGlobalMem / 1e9, CUDART_VERSION / 1000,
           CUDART_VERSION % 1000 / 10, gpu__libraries_version(version, sizeof version),
           dev->tf32 ? ", TF32" : "");
out:
  return rc;
}

/* Fills in the identity of a GPU model that is not there. */
static int take_card(ct_dev_t *dev, const char *name)
{
  int rc = CT_OK;
  char version[64];
  CT_TRY(gpu__card_find(name, &dev->card));
  dev->autotune = 0;
  dev->sm = dev->card->version / 10;
  dev->sms = dev->card->sms;
  if (dev->workspace == 0) dev->workspace = gpu__workspace_limit(dev->card->memory);
  dev->id.numa = -1;
  snprintf(dev->id.name, sizeof dev->id.name, "%s", dev->card->model);
  snprintf(dev->describe, sizeof dev->describe, "%s (described, %.0f GB), CUDA %d.%d, %s%s",
           dev->id.name, (double)dev->card->memory / 1e9, CUDART_VERSION / 1000,
           CUDART_VERSION % 1000 / 10, gpu__libraries_version(version, sizeof version),
           dev->tf32 ? ", TF32" : "");
out:
  return rc;
}

static void identify(ct_dev_t *dev, ct_dev_id_t *out)
{
  *out = dev->id;
}

static const char *backend_describe(ct_dev_t *dev)
{
  return dev->describe;
}

/* ---- opening and closing ---- */

static void close_device(ct_dev_t *dev)
{
  if (!dev) return;
  gpu__libraries_close(dev->libraries);
  if (dev->bad_label) (void)cudaFreeHost(dev->bad_label);
  if (dev->bad_index) (void)cudaFreeHost(dev->bad_index);
  gpu__choices_save(dev->choices);
  gpu__choices_close(dev->choices);
  ct_mem_free(dev);
}

/* Opens the table of choices. The number of multiprocessors distinguishes parts of a GPU (MIG) from
 * the whole. */
static int open_choices(ct_dev_t *dev, const char *dir)
{
  int rc = CT_OK, driver = 0;
  char environment[256], version[64];
  GPU_TRY(cudaDriverGetVersion(&driver));
  snprintf(environment, sizeof environment,
           "%s, sm_%d, %d multiprocessors, driver for CUDA %d.%d, CUDA %d.%d, %s", dev->id.name,
           dev->sm, dev->sms, driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
           CUDART_VERSION % 1000 / 10, gpu__libraries_version(version, sizeof version));
  CT_TRY(gpu__choices_open(environment, dir, &dev->choices));
out:
  return rc;
}

static int open_device(const ct_dev_opts_t *o, ct_dev_t **out)
{
  int rc = CT_OK;
  *out = NULL;
  ct_dev_t *dev = ct_mem_alloc(sizeof *dev, "CUDA device");
  if (!dev) return CT_ERR_NOMEM;
  dev->index = o->index;
  dev->tf32 = o->tf32;
  dev->autotune = o->autotune;
  dev->timeout_s = o->timeout_s;
  dev->workspace = o->workspace;
  if (o->card) {
    CT_TRY(take_card(dev, o->card));
  } else {
    GPU_TRY(cudaSetDevice(dev->index)); /* the only device that this process uses */
    CT_TRY(find_identity(dev));
  }
  if (dev->autotune) CT_TRY(open_choices(dev, o->plan_cache ? o->plan_cache : ""));
  CT_TRY(gpu__libraries_open(dev, &dev->libraries));
  *out = dev;
  dev = NULL;
out:
  close_device(dev);
  return rc;
}

/* ---- callbacks during host waits ---- */

int gpu__watch(ct_dev_t *dev, gpu__watch_fn *fn, void *ctx)
{
  for (int i = 0; i < GPU_WATCHES; i++) {
    if (dev->watch[i].fn) continue;
    dev->watch[i].fn = fn;
    dev->watch[i].ctx = ctx;
    return CT_OK;
  }
  return ct_err_set(CT_ERR_NOMEM, __FILE__, __LINE__, "more than %d watches of a GPU", GPU_WATCHES);
}

void gpu__unwatch(ct_dev_t *dev, gpu__watch_fn *fn, void *ctx)
{
  for (int i = 0; i < GPU_WATCHES; i++)
    if (dev->watch[i].fn == fn && dev->watch[i].ctx == ctx) dev->watch[i].fn = NULL;
}

const ct_backend_t gpu__backend = {
    .size = sizeof(ct_backend_t),
    .name = "cuda",
    .reduced_weights = 1,
    .repeats = 1,
    .tf32 = 1,
    .probe = backend_probe,
    .open = open_device,
    .close = close_device,
    .describe = backend_describe,
    .identify = identify,
    .joules = gpu__joules,
    .mem = &gpu__mem_ops,
    .queue = &gpu__queue_ops,
    .op = &gpu__op_ops,
};
