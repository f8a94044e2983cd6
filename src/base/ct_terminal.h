/** \file ct_terminal.h  Detects an interactive terminal behind an MPI launcher.  Layer 0. */
#ifndef CT_TERMINAL_H
#define CT_TERMINAL_H

/** Local.  Returns 1 if this process was started by an MPI launcher (mpiexec, mpirun, …) whose
 * standard error is a terminal; the launcher forwards the output of ranks to the terminal through a
 * pipe.  Looks for the launcher among the parent processes in /proc.  Returns 0 if it is not there:
 * on another node, or under srun, whose tasks are started by a daemon. */
int ct_terminal_of_launcher(void);

#endif
