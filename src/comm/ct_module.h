/** \file ct_module.h  Backends loaded at run time. Layer 1.
 *
 * A module is a shared object that exports one function, ctrain_module(). It calls functions of the
 * program that loads it (base/, backend/, comm/), so both must come from the same build; sizes and
 * version are compared. */
#ifndef CT_MODULE_H
#define CT_MODULE_H
#include "comm/ct_comm.h"

#define CT_MODULE_BACKEND_SIZE \
  (sizeof(ct_backend_t) + sizeof(ct_op_args_t) + sizeof(ct_op_desc_t) + sizeof(ct_comm_ops_t))

typedef struct ct_module {
  size_t size;         /**< sizeof(ct_module_t) */
  size_t backend_size; /**< CT_MODULE_BACKEND_SIZE */
  const char *version; /**< PACKAGE_VERSION */
  const ct_backend_t *backend;
  const ct_comm_ops_t *comm; /**< communicator for the backend's memory; NULL: not in this build */
} ct_module_t;

/** The module's table. Never fails; the result is static. */
typedef const ct_module_t *ct_module_fn(void);
const ct_module_t *ctrain_module(void);

/** Local. Returns 1 if ctrain-NAME.so exists where ct_module_load() searches. */
int ct_module_exists(const char *name);
/** Local. Loads ctrain-NAME.so from $CTRAIN_PLUGIN_DIR if that is set and the program runs without
 * elevated privileges (secure_getenv(3)), else from the program's directory or the installation
 * directory. The module stays loaded. CT_ERR_UNSUP: not found; CT_ERR_DEVICE: a library or function
 * is missing, or the module is from another build. */
int ct_module_load(const char *name, const ct_module_t **out);

#endif
