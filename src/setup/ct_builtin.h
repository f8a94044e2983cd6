/** \file ct_builtin.h  What this build contains: backends, file formats, versions, the example.
 * Layer 5. */
#ifndef CT_BUILTIN_H
#define CT_BUILTIN_H
#include "setup/ct_config.h"
#include "comm/ct_comm.h"
#include "weights/ct_weights.h"

/** Local.  Finds the backend for a ct_device_choice_t, and the communicator for its memory in *comm
 * (NULL: only ct_comm_staged supports this memory).  CT_DEVICE_AUTO takes the fastest backend that
 * finds a device, and logs why it skips faster ones.  CT_ERR_DEVICE with the reason if no backend
 * is usable. */
int ct_builtin_backend(int choice, const ct_backend_t **be, const ct_comm_ops_t **comm);
/** Local.  Loads the CUDA backend without looking for a GPU.  CT_ERR_UNSUP: its module is not in
 * this build. */
int ct_builtin_cuda(const ct_backend_t **be);
/** Readers of data sets (for ct_reader_find()) and checkpoint formats (for ct_ckpt_find()); both
 * lists end with NULL. The first checkpoint format is the one that is written. */
extern const ct_reader_ops_t *const ct_builtin_readers[];
extern const ct_store_ops_t *const ct_builtin_stores[];
/** Formats of weight files (for ct_weights_open()); the list ends with NULL. */
extern const ct_weights_ops_t *const ct_builtin_weights[];
/** Appends the versions of this program and its libraries, with \a separator between them. */
int ct_builtin_versions(const char *separator, ct_str_t *out);
/** Local.  Finds the configuration of the digits example: in $CTRAIN_EXAMPLES, next to the program,
 * in the source tree, or in the installation directory.  CT_ERR_USAGE lists these directories. */
int ct_builtin_example(char *path, size_t cap);

#endif
