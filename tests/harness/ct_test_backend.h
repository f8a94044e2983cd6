/** \file ct_test_backend.h  Backends by name, for tests that take one on their command line. */
#ifndef CT_TEST_BACKEND_H
#define CT_TEST_BACKEND_H
#include "comm/ct_comm.h"

/** "ref", "cpu", or a module ("cuda"), with the communicator for its memory.  NULL: there is none,
 * as ct_err_last() says. */
const ct_backend_t *ct_test_backend(const char *name, const ct_comm_ops_t **comm);

#endif
