/** \file flaky.h  The reference backend, of which any call can be ordered to fail.
 *
 * For tests of what runs on a backend: it must tell the failure, and leave nobody waiting. */
#ifndef FLAKY_H
#define FLAKY_H
#include "backend/ct_backend.h"

typedef enum {
  FLAKY_ALLOC,
  FLAKY_COPY,
  FLAKY_ZERO,
  FLAKY_CREATE, /**< of a queue */
  FLAKY_MARK,
  FLAKY_WAIT,
  FLAKY_SYNC,
  FLAKY_PREPARE,
  FLAKY_RUN,
  FLAKY_PACK,
  FLAKY_UNPACK
} flaky_call_t;

enum { FLAKY_ANY = -1 };

/** The tables; the result is the caller's, who may change it. */
ct_backend_t flaky_backend(void);

/** The nth such call from now fails (1: the next), once, with "the device broke in NAME";
 * CT_ERR_NOMEM for ALLOC, else CT_ERR_DEVICE.  \a kind: of op, for PREPARE and RUN, or FLAKY_ANY.
 * Orders add up. */
void flaky_order(flaky_call_t call, int kind, int64_t nth);
/** Forgets all orders. */
void flaky_clear(void);
/** Runs of a kind of op since the last call with this kind. */
int64_t flaky_runs(ct_op_kind_t kind);

#endif
