/** \file ct_module.h  A backend that is loaded when the program runs.  Layer 1.
 *
 * A module is a shared object with one function, ctrain_module().  It uses functions of the program
 * that loads it (base/, backend/, comm/), so both must be of the same build: what the sizes and the
 * version say. */
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
  const ct_comm_ops_t *comm; /**< for its memory; NULL: there is none in this build */
} ct_module_t;

/** What a module has.  Never fails; the result is static. */
typedef const ct_module_t *ct_module_fn(void);
const ct_module_t *ctrain_module(void);

/** Local.  1 if there is a ctrain-NAME.so, where ct_module_load() looks. */
int ct_module_exists(const char *name);
/** Local.  Loads ctrain-NAME.so: from $CTRAIN_PLUGIN_DIR if that is set and the program
 * has no rights that its caller lacks (secure_getenv(3)), else from beside the program or from
 * where it is installed.  It stays loaded.  CT_ERR_UNSUP: there is none;
 * CT_ERR_DEVICE: it wants a library or a function that is not there, or is of another build. */
int ct_module_load(const char *name, const ct_module_t **out);

#endif
