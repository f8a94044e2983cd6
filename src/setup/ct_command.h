/** \file ct_command.h  Commands, their arguments, and output to stdout.  Layer 5. */
#ifndef CT_APP_H
#define CT_APP_H
#include "base/ct_text.h"
#include "comm/ct_topo.h"

enum { CT_FLAGS_MAX = 40, CT_EXIT_STOPPED = 75 };

/** One option of a command. */
typedef struct ct_flag {
  const char *name;  /**< name without the dashes; NULL ends a list */
  const char *value; /**< placeholder of its value in the help, such as "auto|never|FILE", with
                          variable parts in capitals; NULL: a flag without value */
  const char *help;
} ct_flag_t;

struct ct_args;

typedef struct ct_command {
  const char *name;
  const char *args; /**< placeholders of the positional arguments, such as "CONFIG" */
  const char *help; /**< one line of help */
  int min;          /**< minimum number of positional arguments */
  int max;          /**< maximum number of positional arguments */
  int ranks;        /**< 1: runs on all ranks of an MPI job; 0: one process without MPI */
  int stops;        /**< 1: SIGTERM and similar signals request a stop (ct_stop.h); 0: they kill
                         the process */
  const ct_flag_t *flags;
  /** Collective if `ranks` is 1; otherwise \a topo is NULL. *status is 0 at the call; it becomes
   * the exit status if the function returns CT_OK. */
  int (*run)(const struct ct_args *a, const ct_topo_t *topo, int *status);
  /** Appends more help after the options; or NULL. */
  int (*more)(ct_str_t *out);
  /** Local, called before MPI starts; or NULL. Sets *done to 1 if no work is left.  It may replace
   * the process, for example by mpiexec or sbatch, and then does not return. */
  int (*before_mpi)(const struct ct_args *a, int *done);
} ct_command_t;

/** All commands; the list ends with a NULL name. */
extern const ct_command_t ct_commands[];
/** Finds a command by name.  CT_ERR_USAGE suggests the most similar name. */
int ct_command_find(const char *name, const ct_command_t **out);

/* ---- args.c ---- */

/** A parsed command line. */
typedef struct ct_args {
  const ct_command_t *cmd;
  const char *value[CT_FLAGS_MAX]; /**< values by position in cmd->flags; NULL: not given, "":
                                        given, without a value */
  const char **set;                /**< owned; the values of all --set options */
  int sets;
  const char **over; /**< owned; the values of all --over options */
  int overs;
  char **rest; /**< positional arguments */
  int rests;
  int help;    /**< 1: --help was given */
  int bare;    /**< 1: the program was started without a command */
  int unshown; /**< 1: another command runs this one and owns stdout */
} ct_args_t;

/** Options that every command with a configuration has. */
#define CT_CONFIG_FLAGS                                                                     \
  {"set", "KEY=VALUE", "set a key of the configuration, such as optim.lr=0.1; repeatable"}, \
  {                                                                                         \
    "log", "error|warn|info|debug", "log level on stderr (default info)"                    \
  }

/** Local.  Parses the arguments; argv[0] is the command's name.  CT_ERR_USAGE names the wrong
 * option and suggests the most similar one. */
int ct_args_parse(ct_args_t *a, const ct_command_t *cmd, int argc, char **argv);
void ct_args_clear(ct_args_t *a);
/** Returns the value of an option, or NULL if it was not given. */
const char *ct_args_get(const ct_args_t *a, const char *name);
/** Reads an integer option into *out; \a otherwise is its default.  CT_ERR_USAGE if it is outside
 * [lo, hi]. */
int ct_args_int(const ct_args_t *a, const char *name, int64_t otherwise, int64_t lo, int64_t hi,
                int64_t *out);
/** Appends "Usage: …" and the help of all options. */
int ct_args_help(const ct_command_t *cmd, ct_str_t *out);

/** Runs the whole program and returns its exit status. `--version` prints \a version after the
 * program's name: the release and the commit of the build. */
int ct_app_run(int argc, char **argv, const char *version);
/** Local.  Call before MPI starts.  CT_ERR_NOMEM: a limit (stack, open files, /dev/shm) is so low
 * that libraries would crash.  \a ranks: 1 if MPI will be started. */
int ct_app_check_limits(int ranks);
/** Local.  Write to stdout; CT_ERR_IO. In a command with ranks, only rank 0 may call it. */
int ct_app_print(const char *text);
int ct_app_write(const void *data, size_t bytes);
/** Returns 1 if the reader of stdout has closed the pipe (`| head`): then the caller can skip
 * further output, and this does not count as an error. */
int ct_app_unread(void);

#endif
