/** \file team.h  Size and arithmetic of the OpenMP thread team.  Module-internal. */
#ifndef CT_CPU_TEAM_H
#define CT_CPU_TEAM_H

/** Local.  Sets the team size for parallel regions of the calling thread, regardless of
 * OMP_DYNAMIC, OMP_NESTED and so on.  The setting belongs to the calling thread, which from now on
 * computes with subnormal numbers as 0. */
void cpu__team_use(int threads);
/** Local.  Starts a team to test it.  CT_ERR_USAGE or CT_ERR_NOMEM if fewer threads start or their
 * stacks are too small; the message names the variable or the limit. */
int cpu__team_check(int threads);

#endif
