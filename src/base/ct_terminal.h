/** \file ct_terminal.h  Is somebody watching?  Layer 0. */
#ifndef CT_TERMINAL_H
#define CT_TERMINAL_H

/** 1 if this process was started by an MPI launcher (mpiexec, mpirun, …) whose standard error is a
 * terminal: what a rank writes goes there through a pipe.  Looks at the processes above this one
 * in /proc; 0 where these cannot be seen, as on another node, or under srun, whose tasks are
 * started by a daemon. */
int ct_terminal_of_launcher(void);

#endif
