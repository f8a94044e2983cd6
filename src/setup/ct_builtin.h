/** \file ct_builtin.h  What this build has: backends, readers, versions, the example.  Layer 5. */
#ifndef CT_BUILTIN_H
#define CT_BUILTIN_H
#include "setup/ct_config.h"
#include "comm/ct_comm.h"
#include "weights/ct_weights.h"

/** Local.  The backend of a device choice, and the communicator for its memory (NULL: there is none
 * but ct_comm_staged); auto is the first backend that finds a device, and says why it is not a
 * faster one. CT_ERR_DEVICE says why there is none. */
int ct_builtin_backend(int choice, const ct_backend_t **be, const ct_comm_ops_t **comm);
/** Readers of data sets (ct_reader_find()) and stores of checkpoints (ct_ckpt_find()), of which the
 * first writes them; both lists end in NULL. */
extern const ct_reader_ops_t *const ct_builtin_readers[];
extern const ct_store_ops_t *const ct_builtin_stores[];
/** Formats of weight files (ct_weights_open()), ended by NULL. */
extern const ct_weights_ops_t *const ct_builtin_weights[];
/** This program and its libraries, \a separator between them.  Appended. */
int ct_builtin_versions(const char *separator, ct_str_t *out);
/** Local.  The configuration of the digits example, looked for in $CTRAIN_EXAMPLES, beside the
 * program, in the sources and where it was installed.  CT_ERR_USAGE names these places. */
int ct_builtin_example(char *path, size_t cap);

#endif
