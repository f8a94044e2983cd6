/* Finds a backend by name: a built-in one, or a module with the communicator for its memory. */
#include "tests/harness/ct_test_backend.h"

#include <string.h>

#include "base/ct_err.h"
#include "comm/ct_module.h"
#include "cpu/ct_cpu.h"
#include "ref/ct_ref.h"

const ct_backend_t *ct_test_backend(const char *name, const ct_comm_ops_t **comm)
{
  const ct_module_t *module;
  *comm = &ct_comm_mpi;
  if (strcmp(name, "ref") == 0) return &ct_backend_ref;
  if (strcmp(name, "cpu") == 0) return &ct_backend_cpu;
  if (ct_module_load(name, &module) != CT_OK) return NULL;
  *comm = module->comm ? module->comm : &ct_comm_staged;
  return module->backend;
}
