/** \file ct_module.h  A backend that is loaded when the program runs.  Layer 1.
 *
 * A module is a shared object with one function, ctrain_module().  It uses functions of the program that loads
 * it (base/, backend/, comm/), so both must be of the same build: what the sizes and the version say. */
#ifndef CT_MODULE_H
#define CT_MODULE_H
#include "comm/ct_comm.h"

typedef struct ct_module {
  size_t size;         /**< sizeof(ct_module_t) */
  size_t backend_size; /**< sizeof(ct_backend_t) + sizeof(ct_op_args_t) + sizeof(ct_comm_ops_t) */
  const char *version; /**< PACKAGE_VERSION */
  const ct_backend_t *backend;
  const ct_comm_ops_t *comm; /**< for its memory; NULL: there is none in this build */
} ct_module_t;

/** Local.  Never fails; the result is static. */
typedef const ct_module_t *ct_module_fn(void);
const ct_module_t *ctrain_module(void);

#endif
