/** \file ct_stop.h  Being asked to stop.  Layer 1. */
#ifndef CT_STOP_H
#define CT_STOP_H

/** Local.  SIGTERM, SIGINT, SIGUSR1 and SIGUSR2 set a flag and nothing else; a second SIGINT
 * kills. */
void ct_stop_setup(void);
/** The first signal that came, or 0.  The trainer puts it into the step word. */
int ct_stop_asked(void);

#endif
