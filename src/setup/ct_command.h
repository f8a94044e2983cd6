/** \file ct_command.h  Commands, their arguments, and what they print.  Layer 5. */
#ifndef CT_APP_H
#define CT_APP_H
#include "base/ct_text.h"
#include "comm/ct_topo.h"

enum { CT_FLAGS_MAX = 40, CT_EXIT_STOPPED = 75 };

/** One option of a command. */
typedef struct ct_flag {
  const char *name;  /**< without the dashes; NULL ends a list */
  const char *value; /**< its value in the help: words, and in capitals what stands for others:
                        "auto|never|FILE"; NULL: it takes none */
  const char *help;
} ct_flag_t;

struct ct_args;

typedef struct ct_command {
  const char *name;
  const char *args; /**< "CONFIG" */
  const char *help; /**< one line */
  int min, max;     /**< how many arguments besides options */
  int ranks;        /**< 1: runs on all ranks of an MPI world; 0: one process, no MPI */
  int stops;        /**< 1: signals ask it to stop (ct_stop.h); 0: they end the process */
  const ct_flag_t *flags;
  /** Collective if `ranks`, else \a topo is NULL.  *status: exit status if it returns CT_OK; it is
   * 0 before. */
  int (*run)(const struct ct_args *a, const ct_topo_t *topo, int *status);
  /** More help, below the options; or NULL. */
  int (*more)(ct_str_t *out);
  /** Local, called before MPI starts; or NULL.  Sets *done to 1 if nothing is left to do.  It may
   * replace the process, for example by a launcher or sbatch, and then does not return. */
  int (*before_mpi)(const struct ct_args *a, int *done);
} ct_command_t;

/** All commands, ended by a name of NULL. */
extern const ct_command_t ct_commands[];
/** CT_ERR_USAGE names the nearest. */
int ct_command_find(const char *name, const ct_command_t **out);

/* ---- args.c ---- */

/** A parsed command line. */
typedef struct ct_args {
  const ct_command_t *cmd;
  const char *value[CT_FLAGS_MAX]; /**< by position in cmd->flags; "" for an option without value */
  const char **set;                /**< owned list: values of --set, which may be repeated */
  int sets;
  const char **over; /**< owned list: values of --over, likewise */
  int overs;
  char **rest; /**< arguments that are no options */
  int rests;
  int help;    /**< --help was given */
  int bare;    /**< the program was started without a command */
  int unshown; /**< the command is a part of another one, which has the standard output */
} ct_args_t;

/** Options that every command with a configuration has. */
#define CT_CONFIG_FLAGS                                                                     \
  {"set", "KEY=VALUE", "set a key of the configuration, such as optim.lr=0.1; repeatable"}, \
  {                                                                                         \
    "log", "error|warn|info|debug", "log level on stderr (default info)"                    \
  }

/** Local.  argv[0] is the command's name.  CT_ERR_USAGE names the option, and the nearest one. */
int ct_args_parse(ct_args_t *a, const ct_command_t *cmd, int argc, char **argv);
void ct_args_clear(ct_args_t *a);
/** Value of an option, or NULL if it was not given. */
const char *ct_args_get(const ct_args_t *a, const char *name);
/** An integer option; \a otherwise if it was not given.  CT_ERR_USAGE out of [lo, hi]. */
int ct_args_int(const ct_args_t *a, const char *name, int64_t otherwise, int64_t lo, int64_t hi,
                int64_t *out);
/** "Usage: …" and the options.  Appended. */
int ct_args_help(const ct_command_t *cmd, ct_str_t *out);

/** The whole program; the exit status.  `--version` prints \a version behind the program's name:
 * the release, and the commit that it was built from. */
int ct_app_run(int argc, char **argv, const char *version);
/** Local.  Before MPI starts, if there will be \a ranks: CT_ERR_NOMEM names a limit (stack, open
 * files, /dev/shm) that libraries would not survive. */
int ct_app_check_limits(int ranks);
/** Local.  Text to stdout; CT_ERR_IO.  In a command with ranks, only rank 0 may call it. */
int ct_app_print(const char *text);
/** 1: who read the standard output has left (`| head`): that is no error, but nothing more need be
 * made for it. */
int ct_app_unread(void);

#endif
