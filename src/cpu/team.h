/** \file team.h  The team of threads that computes: how many come.  Module-internal. */
#ifndef CT_CPU_TEAM_H
#define CT_CPU_TEAM_H

/** Local.  Teams that the calling thread starts have that many threads from now on, whatever
 * OMP_DYNAMIC, OMP_NESTED and their like say.  These settings belong to each calling thread. */
void cpu__team_use(int threads);
/** Local.  Starts such a team.  CT_ERR_USAGE or CT_ERR_NOMEM, which name the variable or the limit:
 * fewer threads would come, or their stacks are too small. */
int cpu__team_check(int threads);

#endif
