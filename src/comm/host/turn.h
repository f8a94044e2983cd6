/** \file turn.h  Lets another communicator wait for transfers of ct_comm_mpi while it makes
 * progress itself. Internal to comm. */
#ifndef CT_COMM_TURN_H
#define CT_COMM_TURN_H
#include "comm/ct_comm.h"

/** One iteration of a wait loop: makes progress on open transfers, then yields the core.
 * CT_ERR_COMM if a rank of this node has aborted. */
int ct__comm_turn(ct_comm_t *c, unsigned turn);
/** Returns 1 if end() of this open ticket would not wait. */
int ct__comm_complete(ct_comm_t *c, int ticket);

/** Implements the entry `waited` of communicators whose end() waits on the host: sets both times to
 * 0. Does not use c. */
void ct__comm_waited(ct_comm_t *c, int of, double *transfers, double *groups);

#endif
