/** \file launch.h  Did the launcher and MPI understand each other?  Internal to comm. */
#ifndef CT_COMM_LAUNCH_H
#define CT_COMM_LAUNCH_H

/** getenv(), or a test's table. */
typedef const char *(*ct__launch_env_t)(const char *name);

/** Local, pure.  CT_ERR_USAGE with the cure if the launcher started more tasks than MPI's world
 * has: then each of them is a singleton that would train, and write its files, alone.  \a
 * library is MPI's own name, for the text.  *speaker: 1 for exactly one of those tasks, the one
 * that should print it. */
int ct__launch_check(ct__launch_env_t env, int world, const char *library, int *speaker);

#endif
