/* A libcuda.so.1 without a device, with which cuDNN compiles the kernels of plans at run time on
 * machines that have no driver: modules load, and everything else fails. */
#include <stddef.h>

enum { NO_DEVICE = 100 };

#define SUCCEEDS(name) \
  int name(void);      \
  int name(void)       \
  {                    \
    return 0;          \
  }
#define FAILS(name)   \
  int name(void);     \
  int name(void)      \
  {                   \
    return NO_DEVICE; \
  }
/* Writes an address, which nobody follows, into the first argument. */
#define GIVES(name)      \
  int name(void **out);  \
  int name(void **out)   \
  {                      \
    *out = &placeholder; \
    return 0;            \
  }

static char placeholder;

GIVES(cuLibraryLoadData)
GIVES(cuLibraryGetKernel)
GIVES(cuKernelGetFunction)
GIVES(cuModuleLoadData)
GIVES(cuModuleLoadDataEx)
GIVES(cuModuleGetFunction)
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuFuncSetAttribute)
SUCCEEDS(cuKernelSetAttribute)

int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
  *version = 13000;
  return 0;
}

int cuKernelGetAttribute(int *value);
int cuKernelGetAttribute(int *value)
{
  *value = 0;
  return 0;
}

FAILS(cuInit)
FAILS(cuGetErrorName)
FAILS(cuGetErrorString)
FAILS(cuCtxGetCurrent)
FAILS(cuCtxGetDevice)
FAILS(cuCtxGetLimit)
FAILS(cuCtxPopCurrent)
FAILS(cuCtxPushCurrent)
FAILS(cuDeviceGet)
FAILS(cuDeviceGetAttribute)
FAILS(cuDeviceGetCount)
FAILS(cuDevicePrimaryCtxRelease)
FAILS(cuDevicePrimaryCtxReset)
FAILS(cuDevicePrimaryCtxRetain)
FAILS(cuFuncGetAttribute)
FAILS(cuLaunchCooperativeKernel)
FAILS(cuLaunchKernel)
FAILS(cuLaunchKernelEx)
FAILS(cuLibraryLoadFromFile)
FAILS(cuLinkAddData)
FAILS(cuLinkAddData_v2)
FAILS(cuLinkAddFile_v2)
FAILS(cuLinkComplete)
FAILS(cuLinkCreate)
FAILS(cuLinkCreate_v2)
FAILS(cuLinkDestroy)
FAILS(cuMemcpyDtoH_v2)
FAILS(cuModuleGetGlobal_v2)
FAILS(cuModuleLoadFatBinary)
FAILS(cuOccupancyMaxActiveBlocksPerMultiprocessor)
FAILS(cuOccupancyMaxPotentialClusterSize)
FAILS(cuStreamGetCtx)
FAILS(cuStreamSynchronize)
FAILS(cuTensorMapEncodeTiled)
