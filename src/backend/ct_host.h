/** \file ct_host.h  Trivial entries of the backend tables for devices whose memory is host memory.
 * Layer 1. */
#ifndef CT_HOST_H
#define CT_HOST_H
#include "backend/ct_backend.h"

/** SIZE_MAX: the free memory of the host is unknown. */
size_t ct_host_avail(ct_dev_t *dev);
/** Pinning has no effect. */
int ct_host_pin(ct_dev_t *dev, void *p, size_t bytes);
void ct_host_unpin(ct_dev_t *dev, void *p);
/** No identity: empty strings, NUMA node -1. */
void ct_host_identify(ct_dev_t *dev, ct_dev_id_t *out);
/** -1: no energy counter. */
double ct_host_joules(ct_dev_t *dev);
/** Step replay has no effect. */
int ct_host_begin(ct_queue_t *q, int key);
int ct_host_end(ct_queue_t *q);
int ct_host_start(ct_queue_t *q, int whole);

/** Host memory; copies are synchronous. */
extern const ct_mem_ops_t ct_host_mem;
/** A queue without asynchrony: work is done when the call that enqueues it returns. */
extern const ct_queue_ops_t ct_host_inline;

#endif
