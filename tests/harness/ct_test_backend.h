/** \file ct_test_backend.h  Finds a backend by name, for tests with a backend on the command line.
 */
#ifndef CT_TEST_BACKEND_H
#define CT_TEST_BACKEND_H
#include "comm/ct_comm.h"

/** Returns the backend "ref", "cpu" or a module ("cuda"), and the communicator for its memory.
 * NULL: not available; ct_err_last() has the reason. */
const ct_backend_t *ct_test_backend(const char *name, const ct_comm_ops_t **comm);

#endif
