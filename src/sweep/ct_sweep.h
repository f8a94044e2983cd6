/** \file ct_sweep.h  A sweep: runs of one configuration with different settings, in one directory.
 * Layer 5.
 *
 * The directory contains base.yaml, the configuration without the settings; a run directory for
 * each run, named by its settings; and runs.jsonl, or runs-I.jsonl for task I of a job array, with
 * a line for each change of a run's state.  The last line of a run is its current state. */
#ifndef CT_SWEEP_H
#define CT_SWEEP_H
#include <jansson.h>

#include "setup/ct_command.h"
#include "host/ct_lock.h"

enum { CT_SWEEP_KEYS = 32, CT_SWEEP_RUNS = 10000 };

/* ---- over.c.  Local, identical on all ranks. ---- */

typedef enum { CT_SWEEP_LIST, CT_SWEEP_LIN, CT_SWEEP_LOG } ct_sweep_kind_t;

/** One --over option: a key and its values. */
typedef struct ct_sweep_over {
  char *text; /**< owned; key and values point into it */
  const char *key;
  ct_sweep_kind_t kind;
  const char **value; /**< owned; the values of a list */
  int n;
  double lo, hi; /**< bounds of a range, both included */
  int whole;     /**< 1: values of the range are integers */
} ct_sweep_over_t;

/** One run, with a text KEY=VALUE for each key. */
typedef struct ct_sweep_run {
  char name[200]; /**< name of its directory, such as "lr=0.1,batch=64" */
  char **set;     /**< owned; n KEY=VALUE texts */
  int n;
} ct_sweep_run_t;

typedef struct ct_sweep_plan {
  ct_sweep_over_t over[CT_SWEEP_KEYS];
  int overs;
  ct_sweep_run_t *run; /**< owned; all runs */
  int64_t runs, cap;
} ct_sweep_plan_t;

/** Makes the list of runs from --over, --random and --seed.  Without --random: all combinations, in
 * which the values of the last key change fastest.  With --random N: N different random
 * combinations; with a larger N, the first runs stay the same.  CT_ERR_USAGE. */
int ct_sweep_plan(const ct_args_t *a, ct_sweep_plan_t *out);
void ct_sweep_plan_clear(ct_sweep_plan_t *p);
/** Parses "KEY=V1,V2", "KEY=lin:A..B" or "KEY=log:A..B".  Commas within brackets or quotes belong
 * to the value.  CT_ERR_USAGE says what was expected. */
int ct_sweep_over_parse(const char *text, ct_sweep_over_t *out);
void ct_sweep_over_clear(ct_sweep_over_t *o);

/* ---- record.c.  Local, rank 0. ---- */

/** The directory of a sweep, locked by one process that runs `sweep`. */
typedef struct ct_sweep {
  char dir[CT_PATH_MAX], record[CT_PATH_MAX];
  ct_lock_t *lock;
} ct_sweep_t;

/** Creates or opens the directory and records new runs.  \a base: dump of the configuration;
 * \a part: index of this task in a job array of \a parts tasks; parts 0: not in a job array.
 * CT_ERR_USAGE: the directory belongs to another configuration, or has a run of the same name with
 * other settings.  CT_ERR_IO: another process has locked the directory. */
int ct_sweep_open(const char *dir, const ct_str_t *base, const ct_sweep_plan_t *p, int64_t part,
                  int64_t parts, const ct_topo_t *topo, ct_sweep_t *s);
void ct_sweep_close(ct_sweep_t *s);
/** Records the state of a run: "planned", "begun", "stopped", "failed" or "done".  \a error: text
 * for "failed", else NULL. */
int ct_sweep_note(const ct_sweep_t *s, const ct_sweep_run_t *r, const char *state,
                  const char *error, double seconds);
/** Reads all runs of a directory into *out: an object whose keys are the names of the runs and
 * whose values are {"set", "state", "error", "seconds"}, in the order in which the runs were
 * recorded; the caller frees it.  CT_ERR_USAGE: the directory is not a sweep.  CT_ERR_FORMAT. */
int ct_sweep_read(const char *dir, json_t **out);

/* ---- table.c ---- */

/** Local, rank 0.  Prints the runs of a directory, best first, as a table or JSON. *done and
 * *failed (each may be NULL) are set to the numbers of runs in the states "done" and "failed". */
int ct_sweep_print(const char *dir, int as_json, int *done, int *failed);

/* ---- sweep.c ---- */

/** Collective.  The command `sweep`. */
int ct_cmd_sweep(const ct_args_t *a, const ct_topo_t *topo, int *status);
/** Local.  Call before MPI starts.  With --submit, checks all runs, then executes sbatch in place
 * of this process to submit the runs as a job array.  With --dry-run, only prints the sbatch
 * command and sets *done to 1. */
int ct_sweep_before_mpi(const ct_args_t *a, int *done);

#endif
