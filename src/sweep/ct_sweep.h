/** \file ct_sweep.h  A sweep: runs of one configuration with different settings, in one directory.
 * Layer 5.
 *
 * The directory has base.yaml, the configuration without the settings; a run directory for each
 * run, named by its settings; and runs.jsonl, or runs-I.jsonl of the task I of a job array, with a
 * line whenever the state of a run changes: of a run the line that was written last counts. */
#ifndef CT_SWEEP_H
#define CT_SWEEP_H
#include <jansson.h>

#include "setup/ct_command.h"
#include "host/ct_lock.h"

enum { CT_SWEEP_KEYS = 32, CT_SWEEP_RUNS = 10000 };

/* ---- over.c.  Local, and the same on all ranks. ---- */

typedef enum { CT_SWEEP_LIST, CT_SWEEP_LIN, CT_SWEEP_LOG } ct_sweep_kind_t;

/** One --over: a key, and the values it may have. */
typedef struct ct_sweep_over {
  char *text; /**< owned; key and values point into it */
  const char *key;
  ct_sweep_kind_t kind;
  const char **value; /**< owned; of a list */
  int n;
  double lo, hi; /**< of a range, both within it */
  int whole;     /**< its values are whole numbers */
} ct_sweep_over_t;

/** One run: a text KEY=VALUE of each key. */
typedef struct ct_sweep_run {
  char name[200]; /**< "lr=0.1,batch=64": of its directory */
  char **set;     /**< owned, n texts */
  int n;
} ct_sweep_run_t;

typedef struct ct_sweep_plan {
  ct_sweep_over_t over[CT_SWEEP_KEYS];
  int overs;
  ct_sweep_run_t *run; /**< owned */
  int64_t runs, cap;
} ct_sweep_plan_t;

/** What --over, --random and --seed of a command line say: all combinations, the last key's values
 * change fastest; or a number of different ones drawn at random, of which the first stay the same
 * when more are drawn.  CT_ERR_USAGE. */
int ct_sweep_plan(const ct_args_t *a, ct_sweep_plan_t *out);
void ct_sweep_plan_clear(ct_sweep_plan_t *p);
/** "KEY=V1,V2", "KEY=lin:A..B" or "KEY=log:A..B"; commas within brackets or quotes are the value's.
 * CT_ERR_USAGE says what was expected. */
int ct_sweep_over_parse(const char *text, ct_sweep_over_t *out);
void ct_sweep_over_clear(ct_sweep_over_t *o);

/* ---- record.c.  Local: rank 0's. ---- */

/** The directory, open for a launch. */
typedef struct ct_sweep {
  char dir[CT_PATH_MAX], record[CT_PATH_MAX];
  ct_lock_t *lock;
} ct_sweep_t;

/** Makes or opens the directory and enters the runs that are new.  base: the configuration's dump;
 * part: of a job array, -1: none.  CT_ERR_USAGE: the directory is of another configuration, or has
 * a run of that name with other settings.  CT_ERR_IO: another launch is at it. */
int ct_sweep_open(const char *dir, const ct_str_t *base, const ct_sweep_plan_t *p, int64_t part,
                  int64_t parts, const ct_topo_t *topo, ct_sweep_t *s);
void ct_sweep_close(ct_sweep_t *s);
/** A run's state: "planned", "begun", "stopped", "failed" with its error (else NULL), "done". */
int ct_sweep_note(const ct_sweep_t *s, const ct_sweep_run_t *r, const char *state,
                  const char *error, double seconds);
/** All runs of a directory: an object, name → {"set", "state", "error", "seconds"}, in the order in
 * which they were entered; the caller frees it.  CT_ERR_USAGE: it is no sweep.  CT_ERR_FORMAT. */
int ct_sweep_read(const char *dir, json_t **out);

/* ---- table.c ---- */

/** Local, rank 0.  The runs of a directory, the best one first, as a table or JSON.  *done, *failed
 * (may be NULL): how many there are of these. */
int ct_sweep_print(const char *dir, int as_json, int *done, int *failed);

/* ---- sweep.c ---- */

/** Collective.  The command `sweep`. */
int ct_cmd_sweep(const ct_args_t *a, const ct_topo_t *topo, int *status);
/** Local, before MPI starts.  With --submit: checks all runs and becomes the sbatch that submits
 * them as a job array, and does not return; if the array is only to be shown, *done is 1. */
int ct_sweep_before_mpi(const ct_args_t *a, int *done);

#endif
