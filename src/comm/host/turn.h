/** \file turn.h  How another communicator waits for transfers of ct_comm_mpi while it has
 * more to do.  Internal to comm. */
#ifndef CT_COMM_TURN_H
#define CT_COMM_TURN_H
#include "comm/ct_comm.h"

/** One turn of a loop that waits: moves open transfers, gives the core away.  CT_ERR_COMM if a
 * rank of this node has given up. */
int ct__comm_turn(ct_comm_t *c, unsigned turn);
/** 1: end() of this open ticket would not wait. */
int ct__comm_complete(ct_comm_t *c, int ticket);

/** The entry `waited` where the host itself waits: no time.  Asks nothing of c. */
void ct__comm_waited(ct_comm_t *c, double *transfers, double *groups);

#endif
