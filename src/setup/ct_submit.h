/** \file ct_submit.h  Builds the command line that submits this command to Slurm (--submit).  The
 * job templates in jobs/ call sbatch and contain site settings.  Layer 5.  All functions are local.
 */
#ifndef CT_SUBMIT_H
#define CT_SUBMIT_H
#include "setup/ct_command.h"

enum { CT_SUBMIT_WORDS = 256 };

/** The command line being built.  The struct is large: make it static. */
typedef struct ct_submit {
  const ct_args_t *a;
  char *word[CT_SUBMIT_WORDS + 1];
  int n;
  char pool[1 << 16];
  size_t used;
  char jobs[CT_PATH_MAX]; /**< directory of the job templates */
  char self[CT_PATH_MAX]; /**< path of this program */
} ct_submit_t;

/** Reads --submit N into *out, or 0 if --submit was not given.  CT_ERR_USAGE: N is out of range, or
 * --sbatch or --dry-run is given without --submit. */
int ct_submit_wanted(const ct_args_t *a, int64_t *out);
/** Starts a command line and finds the directory of the template \a name: in $CTRAIN_JOBS, next to
 * the program, or where `make install` puts it.  CT_ERR_USAGE if it is not found. */
int ct_submit_begin(const ct_args_t *a, const char *name, ct_submit_t *c);
int ct_submit_add(ct_submit_t *c, const char *text);
/** Appends the path of a file in the template directory. */
int ct_submit_add_file(ct_submit_t *c, const char *name);
/** Appends the sbatch options of --sbatch. */
int ct_submit_add_sbatch(ct_submit_t *c);
/** Appends this command's own arguments and options, except those for submission. */
int ct_submit_add_own(ct_submit_t *c);
/** Executes the command line in place of this process and does not return.  With --dry-run, prints
 * it with shell quoting instead. */
int ct_submit_run(ct_submit_t *c);

#endif
