/** \file ct_host.h  Trivial entries of the backend tables for devices whose memory is host memory.
 * Layer 1. */
#ifndef CT_HOST_H
#define CT_HOST_H
#include "backend/ct_backend.h"

/** Returns SIZE_MAX: the free memory of the host is unknown. */
size_t ct_host_avail(ct_dev_t *dev);
/** Returns the resident set of this process. */
size_t ct_host_used(ct_dev_t *dev);
/** Returns CT_OK: host memory needs no pinning. */
int ct_host_pin(ct_dev_t *dev, void *p, size_t bytes);
void ct_host_unpin(ct_dev_t *dev, void *p);
/** Writes empty strings and NUMA node -1: the host has no device identity. */
void ct_host_identify(ct_dev_t *dev, ct_dev_id_t *out);
/** Returns -1: the device has no energy counter. */
double ct_host_joules(ct_dev_t *dev);
/** Return CT_OK: step replay has no effect on the host, work runs when it is enqueued. */
int ct_host_begin(ct_queue_t *q, int key);
int ct_host_end(ct_queue_t *q, int *same);
int ct_host_capture(ct_queue_t *q);
int ct_host_start(ct_queue_t *q, int whole);
/** Returns 0: algorithms are not chosen by timing. */
int ct_host_tunes(ct_dev_t *dev);
/** Return CT_ERR_ARG: there are no choices, as ct_host_tunes() says. */
int ct_host_choices(ct_dev_t *dev, void **out, size_t *bytes);
int ct_host_adopt(ct_dev_t *dev, const void *choices, size_t bytes);

/** Host memory; copies are synchronous. */
extern const ct_mem_ops_t ct_host_mem;
/** A queue without asynchrony: work is done when the call that enqueues it returns. */
extern const ct_queue_ops_t ct_host_inline;

#endif
