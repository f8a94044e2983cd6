/** \file ct_alarm.h  A rank that fails where the others wait for it in a way that does not tell
 * them, as a kernel of NCCL waits, tells them.  Layer 1. */
#ifndef CT_ALARM_H
#define CT_ALARM_H
#include "comm/ct_topo.h"

typedef struct ct_alarm ct_alarm_t;

/** Collective. */
int ct_alarm_open(const ct_topo_t *t, ct_alarm_t **out);
/** Local, does not wait.  Sends this thread's recorded error to all other ranks; only the first
 * time. */
void ct_alarm_raise(ct_alarm_t *a);
/** Local, Hot.  CT_OK, or the code of an error that another rank has raised, which is recorded here
 * with that rank's number; the same at every further call. */
int ct_alarm_heard(ct_alarm_t *a);
/** Collective, or \a alone: then it does not wait for peers.  NULL is fine. */
void ct_alarm_close(ct_alarm_t *a, int alone);

#endif
