/** \file ct_terminal.h  Detects an interactive terminal behind an MPI launcher.  Layer 0. */
#ifndef CT_TERMINAL_H
#define CT_TERMINAL_H

/** Local.  1 if this process was started by an MPI launcher (mpiexec, mpirun, …) whose standard
 * error is a terminal; the launcher forwards the output of ranks to it through a pipe.  Reads the
 * parent processes in /proc.  0 if the launcher is not among them: on another node, or under srun,
 * whose tasks are started by a daemon. */
int ct_terminal_of_launcher(void);

#endif
