/** \file ct_alarm.h  Reports a rank's failure to ranks that wait where no error can reach them,
 * such as in an NCCL kernel. Layer 1. */
#ifndef CT_ALARM_H
#define CT_ALARM_H
#include "comm/ct_topo.h"

typedef struct ct_alarm ct_alarm_t;

/** Collective. *out is owned by the caller. */
int ct_alarm_open(const ct_topo_t *t, ct_alarm_t **out);
/** Local, does not wait. Sends this thread's recorded error to all other ranks; later calls do
 * nothing. */
void ct_alarm_raise(ct_alarm_t *a);
/** Local, Hot. CT_OK, or the code of an error that another rank has raised. The error is recorded
 * here with that rank's number; further calls return the same. */
int ct_alarm_heard(ct_alarm_t *a);
/** Collective; if \a alone is 1, local and without waiting for peers. Frees \a a, which may be
 * NULL. */
void ct_alarm_close(ct_alarm_t *a, int alone);

#endif
