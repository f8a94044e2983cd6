/* The one symbol that the program looks up in the module: its tables, and what they were built
 * for. */
#include "config.h"

#include "comm/ct_module.h"
#include "cuda/gpu.h"
#ifdef HAVE_NCCL
#  include "cuda/nccl/comm_nccl.h"
#  define COMM &gpu__comm_nccl
#else
#  define COMM NULL
#endif

__attribute__((visibility("default"))) const ct_module_t *ctrain_module(void)
{
  static const ct_module_t module = {
      .size = sizeof(ct_module_t),
      .backend_size = CT_MODULE_BACKEND_SIZE,
      .version = PACKAGE_VERSION,
      .backend = &gpu__backend,
      .comm = COMM,
  };
  return &module;
}
