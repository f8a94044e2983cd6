/** \file comm_rig.h  The communicator under test, with a device and some of its memory.
 *
 * CT_TEST_COMM in the environment: `mpi` (or nothing), `staged`, `nccl`.  The device is a fake
 * whose queue is always done, or fails on request; with CTRAIN_REF_ORDER it is the reference
 * backend, whose queue does its work when it has to; with CT_TEST_DEVICE=cuda that of a module, the
 * emulated one, whose waits end after CT_TEST_TIMEOUT seconds.  The device's memory is the
 * host's. */
#ifndef COMM_RIG_H
#define COMM_RIG_H
#include "comm/ct_comm.h"
#include "tests/harness/ct_test_mpi.h"

enum { BIG = 600 * 1024 };    /* floats: more than two pieces in a slice of one rank */
enum { MOST = 2 * 4112 + 5 }; /* doubles: more than two messages */

extern const ct_topo_t *t;
extern const ct_comm_ops_t *ops;
extern const ct_backend_t *be;
extern ct_dev_t *dev;
extern ct_queue_t *queue;
extern ct_comm_t *comm;
extern float *memory, *outside; /**< BIG floats and some each: of alloc(), and any */
extern double *row;             /**< MOST doubles */
extern void *abandoned[4]; /**< what alloc() gave before abort() stays to the end: it is no leak */

/** ct_test_mpi_main() with all of the above but the communicator and its memory. */
int rig_main(const char *suite, const ct_test_t *tests, int argc, char **argv);

int open_with(ct_comm_opts_t o);
int open_plain(void);
void close_comm(void);
/** Local.  Frees what close_comm() frees besides the communicator. */
void close_memory(void);
/** abort() instead of close(). */
void abandon_comm(void);
/** end(), and the queue's work is done. */
int finish(int ticket);

/** 1: the device is the fake. */
int is_fake(void);
/** 1: the communicator is NCCL's. */
int is_nccl(void);
/** The ranks of NCCL have one GPU each, though all devices have the same number, or one
 * together. */
void share_host(int shared);
/** The fake's: a queue whose sync() returns rc, an event whose work did. */
ct_queue_t *queue_with(int rc);
ct_queue_t *broken_queue(void); /**< on the last rank; elsewhere it is fine */
ct_event_t *event_with(int rc);

/* ---- numbers ---- */

/** Small whole numbers: their sums are exact in any order. */
float element(int rank, int64_t i, int64_t salt);
void fill(float *buf, int64_t n, int64_t salt);
/** How many of buf[from..to) are not the sum over the ranks of what fill() wrote. */
int64_t wrong_sums(const float *buf, int64_t from, int64_t to, int64_t salt);
uint64_t random_of_rank(uint64_t index);
uint64_t random_of_all(uint64_t index);
/** Once in `of` times a while, as often only the core is given away. */
void pause_a_while(uint64_t choice, uint64_t of);

#endif
